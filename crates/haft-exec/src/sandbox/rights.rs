//! The rights of root, bit by bit, and giving them up.

use std::{io, sync::LazyLock};

use super::raw::{arg, call};

/// Those over files, which root needs to work in the folders of others: CHOWN, DAC_OVERRIDE, FOWNER, FSETID.
const OVER_FILES: u64 = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4;
const LAST_RIGHT: u32 = 63;

/// What a program may keep of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept(u32);

impl Kept {
    /// None. A user namespace gives all rights, over nothing but itself; none of them is needed in it.
    pub(crate) const NOTHING: Self = Self(0);

    /// Of those over files the ones we have.
    pub(crate) fn over_files() -> Self {
        Self(u32::try_from(*OWN & OVER_FILES).expect("the lowest bits"))
    }

    /// Gives up all others, for good. For a child between fork and exec.
    ///
    /// # Errors
    /// What the kernel says; the child must not go on.
    pub(crate) fn alone(self) -> io::Result<()> {
        give_up_rights(self.0)
    }
}

/// A program started by root gets what is in the bounding set, whatever is taken from its parent.
fn give_up_rights(kept: u32) -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        process: i32,
    }
    for right in (0..=LAST_RIGHT).filter(|right| u64::from(kept) >> right & 1 == 0) {
        let dropped =
            call(libc::SYS_prctl, [arg(libc::PR_CAPBSET_DROP), i64::from(right), 0, 0, 0]);
        match dropped.map_err(|error| error.raw_os_error()) {
            // The first that the kernel does not know; or one who may not drop them, and who can gain none either: no
            // new privileges.
            Err(Some(libc::EINVAL | libc::EPERM)) => break,
            Err(error) => return Err(io::Error::from_raw_os_error(error.unwrap_or(libc::EPERM))),
            Ok(_) => {}
        }
    }
    let clear = arg(libc::PR_CAP_AMBIENT_CLEAR_ALL);
    call(libc::SYS_prctl, [arg(libc::PR_CAP_AMBIENT), clear, 0, 0, 0])?;
    let header = Header { version: 0x2008_0522, process: 0 };
    // Effective, permitted, inheritable; the lower 32 rights and then the upper ones.
    let rights: [u32; 6] = [kept, kept, 0, 0, 0, 0];
    let arguments = [(&raw const header) as i64, (&raw const rights) as i64, 0, 0, 0];
    call(libc::SYS_capset, arguments).map(drop)
}

/// Whether we may make mounts without a user namespace.
pub(super) fn may_mount() -> bool {
    const SYS_ADMIN: u32 = 21;
    *OWN >> SYS_ADMIN & 1 == 1
}

/// Our own, as bits. We never change them.
static OWN: LazyLock<u64> = LazyLock::new(rights);

fn rights() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}
