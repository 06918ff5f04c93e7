//! A directory as a handle, and the one way to open things below it: no link, no `..`, no mount, no `/proc` trick can
//! lead out, because the kernel walks the path and stops at the first of them. Links are followed by us (`locate.rs`),
//! before; a path that is opened here has none.

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

/// Everything that could lead elsewhere is an error of the kernel's: `ELOOP` for a link, `EXDEV` for a mount.
const CONFINED: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);
/// `openat2` asks to be called again when a rename runs beside it.
const MOST_TRIES: usize = 128;

/// A directory that tools may work below.
pub(crate) struct Root {
    /// `None` for the workspace; further roots have a name, shown as `@name`.
    pub(crate) name: Option<String>,
    /// Absolute, links resolved when it was opened. For comparing and for messages, never for opening.
    pub(crate) path: PathBuf,
    pub(crate) handle: OwnedFd,
    /// It is no place of the workspace: what lies in it is called by its absolute path.
    pub(crate) is_outside: bool,
    /// The kernel has no `openat2`, or a sandbox forbids it.
    pub(crate) goes_by_steps: AtomicBool,
    /// The file system makes no files without a name (`O_TMPFILE`).
    pub(crate) names_all_files: AtomicBool,
}

impl Root {
    pub(crate) fn open(name: Option<String>, path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = fs::openat(CWD, &path, flags, Mode::empty())?;
        let (goes_by_steps, names_all_files) = (AtomicBool::new(false), AtomicBool::new(false));
        let is_outside = false;
        Ok(Self { name, path, handle, is_outside, goes_by_steps, names_all_files })
    }

    /// A folder that commands see and tools do not work in.
    pub(crate) fn outside(path: &Path) -> io::Result<Self> {
        Ok(Self { is_outside: true, ..Self::open(None, path)? })
    }

    /// Opens something by a path of plain names. A link anywhere in it is an error, unless it is the last name and the
    /// flags ask for the mere handle (`PATH`).
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

    /// The same below a directory that was opened here before.
    pub(crate) fn open_below(
        &self,
        directory: &OwnedFd,
        path: &Path,
        flags: OFlags,
        mode: Mode,
    ) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        if self.goes_by_steps.load(Ordering::Relaxed) {
            return step_to(directory, path, flags, mode);
        }
        // Only for the handle of a link itself: elsewhere the kernel would say "not a directory" of a link.
        let is_mere_handle = flags.contains(OFlags::PATH) && !flags.contains(OFlags::DIRECTORY);
        let no_follow = if is_mere_handle { OFlags::NOFOLLOW } else { OFlags::empty() };
        for _ in 0..MOST_TRIES {
            match fs::openat2(directory, path, flags | no_follow, mode, CONFINED) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                // A filter of system calls that is older than this one refuses it as "not permitted".
                Err(Errno::NOSYS | Errno::PERM) => {
                    let opened = step_to(directory, path, flags, mode);
                    if opened.is_ok() {
                        self.goes_by_steps.store(true, Ordering::Relaxed);
                    }
                    return opened;
                }
                other => return other,
            }
        }
        Err(Errno::AGAIN)
    }

    /// How a path below this root is called in messages, rules and answers.
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

/// The same without `openat2`: one directory at a time, each held open while the next is looked up in it.
fn step_to(from: &OwnedFd, path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
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

/// A link where a directory was asked for is "not a directory" to `openat`; `openat2` calls it a loop, and so do we.
fn link_or(error: Errno, parent: &OwnedFd, name: &Path) -> Errno {
    let is_link = || {
        fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| fs::FileType::from_raw_mode(stat.st_mode).is_symlink())
    };
    if error == Errno::NOTDIR && is_link() { Errno::LOOP } else { error }
}

/// The device, and the mount where the kernel tells: a bind mount may lie on the same device.
pub(crate) type Mount = (u64, Option<u64>);

pub(crate) fn mount_of(handle: &OwnedFd) -> Result<Mount, Errno> {
    let device = fs::fstat(handle)?.st_dev;
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
    let mount = fs::statx(handle, "", flags, StatxFlags::MNT_ID)
        .ok()
        .filter(|found| found.stx_mask & StatxFlags::MNT_ID.bits() != 0)
        .map(|found| found.stx_mnt_id);
    Ok((device, mount))
}

pub(crate) fn same_mount(handle: &OwnedFd, mount: Mount) -> Result<(), Errno> {
    if mount_of(handle)? == mount { Ok(()) } else { Err(Errno::XDEV) }
}
