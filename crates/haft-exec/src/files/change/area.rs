//! `.haft/tmp` of a root: the only place where unfinished things ever have a name, so that a crash leaves nothing beside
//! people's files. Whoever works in it holds a shared lock; when nobody does, what lies there is left over.

use std::{
    ffi::OsStr,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use haft_core::{
    ToolError,
    files::{ClosedPath, FileGrant},
};
use rustix::{
    fs::{self, Access, AtFlags, FileType, FlockOperation, Mode, OFlags},
    io::Errno,
};

use super::{
    descend::{Visit, descend, names, open},
    hold::flock_within,
    record::{self, RECORD},
};
use crate::files::{root::Root, workspace::Workspace};

pub(super) const HOME: &str = ".haft";
const AREA: &str = ".haft/tmp";

pub(super) struct Area {
    pub(super) handle: OwnedFd,
}

impl Area {
    /// Opens it, made when it is not there.
    pub(super) fn open(root: &Root, patience: Duration) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let handle = match root.open_at(Path::new(AREA), flags) {
            Err(Errno::NOENT) => Self::make(root)?,
            opened => opened?,
        };
        check_writable(&handle, Path::new("."))?;
        // A file system without locks is swept by nobody either: `sweep` needs the lock.
        match flock_within(&handle, FlockOperation::NonBlockingLockShared, patience) {
            Err(Errno::WOULDBLOCK) => Err(Errno::WOULDBLOCK),
            _ => Ok(Self { handle }),
        }
    }

    fn make(root: &Root) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        make(&root.handle, HOME, 0o777)?;
        let home = root.open_at(Path::new(HOME), flags)?;
        make(&home, "tmp", 0o700)?;
        // A record is of use after a power cut only if the way to it is on disk.
        fs::fsync(&home)?;
        fs::fsync(&root.handle)?;
        root.open_at(Path::new(AREA), flags)
    }

    /// A name that nobody has.
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

/// Found before anything is changed: a later failure would be told of the file that was to be written.
fn check_writable(directory: &OwnedFd, path: &Path) -> Result<(), Errno> {
    let wanted = Access::WRITE_OK | Access::EXEC_OK;
    match fs::accessat(directory, path, wanted, AtFlags::EACCESS) {
        Err(error @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => Err(error),
        // Anything else is found when it is used.
        _ => Ok(()),
    }
}

/// Names what of haft's own folder is closed to this process, and whose it is. None when that is something else.
fn closed(root: &Root) -> Option<ToolError> {
    let is_closed = |path: &&Path| {
        matches!(check_writable(&root.handle, path), Err(Errno::ACCESS | Errno::PERM))
    };
    let path = [Path::new(AREA), Path::new(HOME), Path::new(".")].into_iter().find(is_closed)?;
    let stat = fs::statat(&root.handle, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let shown = match path.to_str() {
        Some(".") | None => root.path.clone(),
        Some(below) => root.path.join(below),
    };
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let closed = ClosedPath {
        path: &shown.display().to_string(),
        owner: stat.st_uid,
        own: rustix::process::geteuid().as_raw(),
        mode: stat.st_mode,
        users: &users,
    };
    let message = format!("{}; unfinished writes are kept there", closed.reason());
    Some(ToolError::denied(message).hint(closed.next_step()))
}

/// Why the area of a root could not be had.
pub(super) fn failure(
    workspace: &Workspace,
    root: &Root,
    error: Errno,
    grant: &FileGrant,
) -> ToolError {
    let shown = root.shown(Path::new(AREA));
    let path = shown.display();
    if let (Errno::ACCESS | Errno::PERM, Some(told)) = (error, closed(root)) {
        return told;
    }
    match error {
        Errno::LOOP | Errno::NOTDIR | Errno::EXIST => {
            let message = format!("`{path}`, where unfinished writes are kept, is not a directory");
            ToolError::conflict(message)
                .hint(format!("nothing was changed; have `{HOME}` put out of the way"))
        }
        Errno::WOULDBLOCK => {
            ToolError::unavailable(format!("another process is sweeping `{path}`"))
                .hint("call again when it is done")
        }
        error => workspace.failure(&shown, error, grant),
    }
}

/// Removes what a crash left, and takes back what it left half-made. Fails silently: whoever opens a workspace to read
/// it is not to be stopped by this.
pub(crate) fn sweep(root: &Root) {
    let Ok(area) = root.open_at(Path::new(AREA), OFlags::RDONLY | OFlags::DIRECTORY) else {
        return;
    };
    if names(&area).map_or(true, |names| names.is_empty())
        || fs::flock(&area, FlockOperation::NonBlockingLockExclusive).is_err()
    {
        return;
    }
    // Read only now: whoever had the lock until now may have left more.
    let names = names(&area).unwrap_or_default();
    let is_record = |name: &OsStr| name.as_bytes().ends_with(RECORD.as_bytes());
    for name in names.iter().filter(|name| is_record(name)) {
        record::take_back(root, &area, name);
    }
    for name in names {
        let _ = remove_tree(&area, &name);
    }
}

/// Removes a file, or a directory and all below it. Returns how many entries went; with an error, how many went before.
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

impl Visit for Removal {
    type Failure = Errno;

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
