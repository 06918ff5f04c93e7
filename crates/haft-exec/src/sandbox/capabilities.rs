//! The capabilities of root as bits, and dropping them.

use std::{io, sync::LazyLock};

use super::raw::{arg, call};

/// Capabilities over files, which root needs to work in folders of other users: CHOWN,
/// DAC_OVERRIDE, FOWNER, FSETID.
const OVER_FILES: u64 = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4;
const LAST_CAPABILITY: u32 = 63;

/// The capabilities that a program keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptCapabilities(u32);

impl KeptCapabilities {
    /// None. A user namespace grants all capabilities, but only over itself; none of them is needed
    /// in it.
    pub(crate) const NOTHING: Self = Self(0);

    /// Returns those capabilities over files that we have.
    pub(crate) fn over_files() -> Self {
        Self(u32::try_from(*OWN & OVER_FILES).expect("the lowest bits"))
    }

    /// Drops all others permanently. For a child between fork and exec.
    ///
    /// # Errors
    /// The kernel's error; the child must not continue.
    pub(crate) fn drop_others(self) -> io::Result<()> {
        drop_capabilities(self.0)
    }
}

/// A program started by root gets the capabilities of the bounding set, whatever its parent
/// dropped.
fn drop_capabilities(kept: u32) -> io::Result<()> {
    #[repr(C)]
    struct CapabilityHeader {
        version: u32,
        process: i32,
    }
    for right in (0..=LAST_CAPABILITY).filter(|right| u64::from(kept) >> right & 1 == 0) {
        let dropped =
            call(libc::SYS_prctl, [arg(libc::PR_CAPBSET_DROP), i64::from(right), 0, 0, 0]);
        match dropped.map_err(|error| error.raw_os_error()) {
            // The first capability that the kernel does not know; or a process that may not drop
            // them, and cannot gain any either because of no_new_privs.
            Err(Some(libc::EINVAL | libc::EPERM)) => break,
            Err(error) => return Err(io::Error::from_raw_os_error(error.unwrap_or(libc::EPERM))),
            Ok(_) => {}
        }
    }
    let clear = arg(libc::PR_CAP_AMBIENT_CLEAR_ALL);
    call(libc::SYS_prctl, [arg(libc::PR_CAP_AMBIENT), clear, 0, 0, 0])?;
    let header = CapabilityHeader { version: 0x2008_0522, process: 0 };
    // Effective, permitted, inheritable; the lower 32 bits and then the upper ones.
    let rights: [u32; 6] = [kept, kept, 0, 0, 0, 0];
    let arguments = [(&raw const header) as i64, (&raw const rights) as i64, 0, 0, 0];
    call(libc::SYS_capset, arguments).map(drop)
}

/// Returns true when we may create mounts without a user namespace.
pub(super) fn may_mount() -> bool {
    const SYS_ADMIN: u32 = 21;
    *OWN >> SYS_ADMIN & 1 == 1
}

/// Our own capabilities as bits. They never change.
static OWN: LazyLock<u64> = LazyLock::new(own_capabilities);

fn own_capabilities() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}
