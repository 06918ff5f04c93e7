//! `.haft/tmp` of a root: the only place where unfinished files have a name, so that a crash leaves
//! nothing among the user's files. Every process that works in it holds a shared lock; without a
//! lock holder its files are leftovers.

use std::{
    ffi::OsStr,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use haft_core::{
    ToolError,
    files::{FileGrant, UnwritablePath},
};
use rustix::{
    fs::{self, Access, AtFlags, FileType, FlockOperation, Mode, OFlags},
    io::Errno,
};

use super::{
    descend::{TreeVisitor, descend, names, open},
    record::{self, RECORD},
    targets::flock_within,
};
use crate::files::{root::Root, workspace::Workspace};

pub(super) const HAFT_DIRECTORY: &str = ".haft";
const STAGING_DIRECTORY: &str = ".haft/tmp";

pub(super) struct StagingArea {
    pub(super) handle: OwnedFd,
}

impl StagingArea {
    /// Opens the area, and creates it if it is missing.
    pub(super) fn open(root: &Root, lock_timeout: Duration) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let handle = match root.open_at(Path::new(STAGING_DIRECTORY), flags) {
            Err(Errno::NOENT) => Self::make(root)?,
            opened => opened?,
        };
        check_writable(&handle, Path::new("."))?;
        // Without file locks the area is never swept, because `sweep` needs the lock.
        match flock_within(&handle, FlockOperation::NonBlockingLockShared, lock_timeout) {
            Err(Errno::WOULDBLOCK) => Err(Errno::WOULDBLOCK),
            _ => Ok(Self { handle }),
        }
    }

    fn make(root: &Root) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        make(&root.handle, HAFT_DIRECTORY, 0o777)?;
        let home = root.open_at(Path::new(HAFT_DIRECTORY), flags)?;
        make(&home, "tmp", 0o700)?;
        // After a power cut a record is only useful if its directory is on disk.
        fs::fsync(&home)?;
        fs::fsync(&root.handle)?;
        root.open_at(Path::new(STAGING_DIRECTORY), flags)
    }

    /// Returns an unused name.
    pub(super) fn name() -> String {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        format!("{}-{now:x}-{count}", std::process::id())
    }
}

fn make(directory: &OwnedFd, name: &str, mode: u32) -> Result<(), Errno> {
    match fs::mkdirat(directory, name, Mode::from_raw_mode(mode)) {
        Err(Errno::EXIST) => Ok(()),
        made => made,
    }
}

/// Checks write access before anything is changed: a later error would name the file to write
/// instead.
fn check_writable(directory: &OwnedFd, path: &Path) -> Result<(), Errno> {
    let wanted = Access::WRITE_OK | Access::EXEC_OK;
    match fs::accessat(directory, path, wanted, AtFlags::EACCESS) {
        Err(error @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => Err(error),
        // Any other error is found when the directory is used.
        _ => Ok(()),
    }
}

/// Returns an error that names the part of haft's own folder that this process may not write, and
/// its owner. None when something else is wrong.
fn permission_error(root: &Root) -> Option<ToolError> {
    let is_closed = |path: &&Path| {
        matches!(check_writable(&root.handle, path), Err(Errno::ACCESS | Errno::PERM))
    };
    let candidates = [Path::new(STAGING_DIRECTORY), Path::new(HAFT_DIRECTORY), Path::new(".")];
    let path = candidates.into_iter().find(is_closed)?;
    let stat = fs::statat(&root.handle, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let shown = match path.to_str() {
        Some(".") | None => root.path.clone(),
        Some(below) => root.path.join(below),
    };
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let closed = UnwritablePath {
        path: &shown.display().to_string(),
        owner: stat.st_uid,
        own: rustix::process::geteuid().as_raw(),
        mode: stat.st_mode,
        users: &users,
    };
    let message = format!("{}; unfinished writes are kept there", closed.reason());
    Some(ToolError::denied(message).hint(closed.next_step()))
}

/// Explains why the area of a root could not be opened.
pub(super) fn failure(
    workspace: &Workspace,
    root: &Root,
    error: Errno,
    grant: &FileGrant,
) -> ToolError {
    let shown = root.shown(Path::new(STAGING_DIRECTORY));
    let path = shown.display();
    if let (Errno::ACCESS | Errno::PERM, Some(denied)) = (error, permission_error(root)) {
        return denied;
    }
    match error {
        Errno::LOOP | Errno::NOTDIR | Errno::EXIST => {
            let message = format!("`{path}`, where unfinished writes are kept, is not a directory");
            ToolError::conflict(message)
                .hint(format!("nothing was changed; move `{HAFT_DIRECTORY}` away"))
        }
        Errno::WOULDBLOCK => {
            ToolError::unavailable(format!("another process is cleaning up `{path}`"))
                .hint("retry when it is done")
        }
        error => workspace.failure(&shown, error, grant),
    }
}

/// Removes the leftovers of a crash, and reverts the changes that it interrupted. Ignores errors:
/// they must not prevent opening a workspace for reading.
pub(crate) fn sweep(root: &Root) {
    let Ok(area) = root.open_at(Path::new(STAGING_DIRECTORY), OFlags::RDONLY | OFlags::DIRECTORY)
    else {
        return;
    };
    if names(&area).map_or(true, |names| names.is_empty())
        || fs::flock(&area, FlockOperation::NonBlockingLockExclusive).is_err()
    {
        return;
    }
    // List the names only now: the previous holder of the lock may have left more.
    let names = names(&area).unwrap_or_default();
    let is_record = |name: &OsStr| name.as_bytes().ends_with(RECORD.as_bytes());
    for name in names.iter().filter(|name| is_record(name)) {
        record::revert(root, &area, name);
    }
    for name in names {
        let _ = remove_tree(&area, &name);
    }
}

/// Removes a file, or a directory with its contents. Returns the number of removed entries; on
/// error, the number removed before it.
pub(super) fn remove_tree(above: &OwnedFd, name: &OsStr) -> Result<u64, (u64, Errno)> {
    let mut removal = Removal { removed: 0 };
    let removed = removal.tree(above, name).map(|()| removal.removed);
    removed.map_err(|error| (removal.removed, error))
}

struct Removal {
    removed: u64,
}

impl Removal {
    fn tree(&mut self, above: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
        if self.entry(above, Path::new(name))? {
            descend(open(above, name)?, self)?;
            self.left(above, Path::new(name))?;
        }
        Ok(())
    }
}

impl TreeVisitor for Removal {
    type VisitError = Errno;

    fn entry(&mut self, directory: &OwnedFd, path: &Path) -> Result<bool, Errno> {
        let name = path.file_name().unwrap_or_default();
        let is_directory = || {
            fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir())
        };
        match fs::unlinkat(directory, name, AtFlags::empty()) {
            Ok(()) => {
                self.removed += 1;
                Ok(false)
            }
            Err(Errno::ISDIR) => Ok(true),
            Err(Errno::PERM) if is_directory() => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn left(&mut self, above: &OwnedFd, path: &Path) -> Result<(), Errno> {
        fs::unlinkat(above, path.file_name().unwrap_or_default(), AtFlags::REMOVEDIR)?;
        self.removed += 1;
        Ok(())
    }

    fn failed(&self, _: &Path, error: Errno) -> Errno {
        error
    }
}
