//! A directory handle, and the only way to open anything below it. Links, `..`, mounts and `/proc`
//! entries cannot lead out, because the kernel resolves the path and stops at the first of them.
//! Links are followed before, in `locate.rs`; a path that is opened here has none.

use std::{
    io,
    os::fd::OwnedFd,
    path::{Component, Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::{
    fs::{self, AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags},
    io::Errno,
};

/// The kernel returns an error for everything that could lead elsewhere: `ELOOP` for a link,
/// `EXDEV` for a mount.
const CONFINED: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);
/// `openat2` must be retried when a rename happens at the same time.
const MAX_TRIES: usize = 128;

/// A directory in which tools may work.
pub(crate) struct Root {
    /// `None` for the workspace; further roots have a name, shown as `@name`.
    pub(crate) name: Option<String>,
    /// Absolute, with links resolved at opening. Only for comparisons and messages, never for
    /// opening.
    pub(crate) path: PathBuf,
    pub(crate) handle: OwnedFd,
    /// True for a folder outside the workspace: its files are shown by absolute path.
    pub(crate) is_outside: bool,
    /// True when the kernel has no `openat2`, or a sandbox forbids it.
    pub(crate) lacks_openat2: AtomicBool,
    /// True when the file system does not support files without a name (`O_TMPFILE`).
    pub(crate) lacks_tmpfile: AtomicBool,
}

impl Root {
    pub(crate) fn open(name: Option<String>, path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = fs::openat(CWD, &path, flags, Mode::empty())?;
        let (lacks_openat2, lacks_tmpfile) = (AtomicBool::new(false), AtomicBool::new(false));
        let is_outside = false;
        Ok(Self { name, path, handle, is_outside, lacks_openat2, lacks_tmpfile })
    }

    /// Opens a folder that commands see but tools do not work in.
    pub(crate) fn outside(path: &Path) -> io::Result<Self> {
        Ok(Self { is_outside: true, ..Self::open(None, path)? })
    }

    /// Opens a path of plain names. A link in it is an error, unless it is the last name and the
    /// flags only ask for a handle (`PATH`).
    pub(crate) fn open_at(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        self.open_with(path, flags, Mode::empty())
    }

    pub(crate) fn open_with(
        &self,
        path: &Path,
        flags: OFlags,
        mode: Mode,
    ) -> Result<OwnedFd, Errno> {
        self.open_below(&self.handle, path, flags, mode)
    }

    /// Opens a path below a directory that was opened here before.
    pub(crate) fn open_below(
        &self,
        directory: &OwnedFd,
        path: &Path,
        flags: OFlags,
        mode: Mode,
    ) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        if self.lacks_openat2.load(Ordering::Relaxed) {
            return open_by_steps(directory, path, flags, mode);
        }
        // Only for the handle of a link itself: otherwise the kernel would report "not a directory"
        // for a link.
        let is_mere_handle = flags.contains(OFlags::PATH) && !flags.contains(OFlags::DIRECTORY);
        let no_follow = if is_mere_handle { OFlags::NOFOLLOW } else { OFlags::empty() };
        for _ in 0..MAX_TRIES {
            match fs::openat2(directory, path, flags | no_follow, mode, CONFINED) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                // A system call filter that is older than this call refuses it with "not
                // permitted".
                Err(Errno::NOSYS | Errno::PERM) => {
                    let opened = open_by_steps(directory, path, flags, mode);
                    if opened.is_ok() {
                        self.lacks_openat2.store(true, Ordering::Relaxed);
                    }
                    return opened;
                }
                other => return other,
            }
        }
        Err(Errno::AGAIN)
    }

    /// Returns the path of an entry of this root as shown in messages, rules and results.
    pub(crate) fn shown(&self, path: &Path) -> PathBuf {
        let is_root = path.as_os_str().is_empty() || path == Path::new(".");
        if self.is_outside {
            return if is_root { self.path.clone() } else { self.path.join(path) };
        }
        match &self.name {
            None if is_root => PathBuf::from("."),
            None => path.to_owned(),
            Some(name) if is_root => PathBuf::from(format!("@{name}")),
            Some(name) => Path::new(&format!("@{name}")).join(path),
        }
    }
}

/// Does the same without `openat2`: opens one directory at a time, and looks up the next name in
/// it.
fn open_by_steps(from: &OwnedFd, path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW;
    let mount = mount_of(from)?;
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            _ => return Err(Errno::XDEV),
        }
    }
    let Some((last, above)) = names.split_last() else {
        return fs::openat(from, ".", flags, mode);
    };
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut here: Option<OwnedFd> = None;
    for name in above {
        let parent = here.as_ref().unwrap_or(from);
        let next = fs::openat(parent, *name, step, Mode::empty())
            .map_err(|error| link_or(error, parent, Path::new(name)))?;
        same_mount(&next, mount)?;
        here = Some(next);
    }
    let parent = here.as_ref().unwrap_or(from);
    let opened = fs::openat(parent, *last, flags, mode)
        .map_err(|error| link_or(error, parent, Path::new(last)))?;
    same_mount(&opened, mount)?;
    Ok(opened)
}

/// For a link in place of a directory, `openat` reports "not a directory" and `openat2` a loop;
/// report a loop.
fn link_or(error: Errno, parent: &OwnedFd, name: &Path) -> Errno {
    let is_link = || {
        fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| fs::FileType::from_raw_mode(stat.st_mode).is_symlink())
    };
    if error == Errno::NOTDIR && is_link() { Errno::LOOP } else { error }
}

/// The device, and the mount id if the kernel reports it: a bind mount may be on the same device.
pub(crate) type MountId = (u64, Option<u64>);

pub(crate) fn mount_of(handle: &OwnedFd) -> Result<MountId, Errno> {
    let device = fs::fstat(handle)?.st_dev;
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
    let mount = fs::statx(handle, "", flags, StatxFlags::MNT_ID)
        .ok()
        .filter(|found| found.stx_mask & StatxFlags::MNT_ID.bits() != 0)
        .map(|found| found.stx_mnt_id);
    Ok((device, mount))
}

pub(crate) fn same_mount(handle: &OwnedFd, mount: MountId) -> Result<(), Errno> {
    if mount_of(handle)? == mount { Ok(()) } else { Err(Errno::XDEV) }
}
