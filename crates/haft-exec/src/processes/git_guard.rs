//! Finds everything that git outside the sandbox would run or use as configuration. Mounts protect
//! what already exists in the repository of the workspace; a command can still create more, there
//! or in a new repository. So the guard checks before and after a command, and moves what is new
//! into quarantine below `.haft`.

mod config;
mod repository;

use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use parking_lot::{Mutex, MutexGuard};

use haft_core::{commands::Denial, files::FileGrant};
use rustix::fs::{self, AtFlags, Mode, OFlags};

use self::repository::{GuardedPath, GuardedPaths};
use super::folders::{FolderCache, FolderScan, ScanTimeout, StatStamp};
use crate::{Workspace, files::root::Root};

/// The quarantine directory, below a root.
const QUARANTINE: &str = ".haft/quarantine";
/// As for the scan before a command.
const SCAN_TIMEOUT: Duration = Duration::from_secs(10);

/// Which repositories the guard checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RepositoryScope {
    /// Repositories that existed before the command: tests create their own and remove them again.
    Known,
    /// All repositories.
    All,
}

/// Guards the roots of a workspace while one command runs.
pub(crate) struct GitGuard {
    workspace: Arc<Workspace>,
    folders: Arc<FolderCache>,
    grant: FileGrant,
    /// The scan before the command.
    scan: FolderScan,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Everything that existed before the command, by root: the user's own hooks and settings stay.
    before: Vec<GuardedPaths>,
    moved: Vec<Denial>,
}

impl GitGuard {
    /// Records what exists before a command starts.
    pub(crate) fn before(
        workspace: &Arc<Workspace>,
        folders: &Arc<FolderCache>,
        grant: &FileGrant,
        scan: FolderScan,
    ) -> Self {
        let roots = workspace.roots.iter().zip(&scan.roots);
        let before =
            roots.map(|(root, folders)| repository::guarded_paths(root, folders)).collect();
        Self {
            workspace: workspace.clone(),
            folders: folders.clone(),
            grant: grant.clone(),
            scan,
            state: Mutex::new(State { before, moved: Vec::new() }),
        }
    }

    /// Quarantines what has appeared or changed since then.
    pub(crate) fn check_again(&self, reach: RepositoryScope) {
        let mut state = self.state();
        let State { before, moved } = &mut *state;
        let scan = match reach {
            RepositoryScope::Known => self.scan.clone(),
            RepositoryScope::All => self.scan_folders(moved),
        };
        for ((root, before), folders) in self.workspace.roots.iter().zip(before).zip(&scan.roots) {
            for (path, place) in repository::guarded_paths(root, folders) {
                let known = before.get_mut(&path);
                let is_known = known.as_ref().is_some_and(|known| known.stamp == place.stamp);
                if !place.is_harmless && !is_known {
                    moved.push(quarantine_path(root, &path, known));
                }
            }
        }
    }

    /// Scans all folders again, and reports those that cannot be scanned.
    fn scan_folders(&self, unseen: &mut Vec<Denial>) -> FolderScan {
        let begun = Instant::now();
        let stop = || begun.elapsed() > SCAN_TIMEOUT;
        let (scan, missed) = match self.folders.scan(&self.workspace, &self.grant, &stop) {
            Ok(scan) => (scan.clone(), scan.unreadable),
            Err(ScanTimeout(root)) => (self.scan.clone(), vec![root]),
        };
        for folder in missed {
            let refusal = scan_failed(&folder);
            if unseen.iter().all(|known| known.what != refusal.what) {
                unseen.push(refusal);
            }
        }
        scan
    }

    /// Returns what was quarantined so far, with its new location.
    pub(crate) fn denials(&self) -> Vec<Denial> {
        self.state().moved.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

fn scan_failed(folder: &Path) -> Denial {
    let shown = folder.display();
    Denial {
        what: format!("look for git settings in `{shown}`"),
        why: "the command may have left some there that git would obey".to_owned(),
        remedy: format!("check `{shown}` before you use git in it"),
        is_reverted: true,
    }
}

/// Quarantines a path and restores what was there before the command.
fn quarantine_path(root: &Root, path: &Path, before: Option<&mut GuardedPath>) -> Denial {
    let why = "git outside the sandbox would run it or take it as configuration";
    let remedy = match quarantine(root, path) {
        Ok(kept) => {
            let restored = before.is_some_and(|before| restore(root, path, before));
            let restored = if restored { ", and the previous version was restored" } else { "" };
            format!(
                "it was moved to `{}`{restored}; a person can review it and move it back",
                kept.display()
            )
        }
        Err(error) => {
            format!("it could not be moved away ({error}): remove it before you use git here")
        }
    };
    let shown = root.shown(path);
    let what = format!("leave `{}` behind", shown.display());
    Denial { what, why: why.to_owned(), remedy, is_reverted: true }
}

/// Works by handles, so that a running command cannot redirect it by a link.
fn quarantine(root: &Root, path: &Path) -> Result<PathBuf, rustix::io::Errno> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(rustix::io::Errno::INVAL);
    };
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let from = repository::open(root, parent, directory)?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let kept = Path::new(QUARANTINE).join(format!("{:x}", since.as_nanos())).join(path);
    let mut made = PathBuf::new();
    for part in kept.parent().unwrap_or(Path::new("")) {
        let below = repository::open(root, &made, directory)?;
        match fs::mkdirat(&below, part, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => made.push(part),
            Err(error) => return Err(error),
        }
    }
    let to = repository::open(root, &made, directory)?;
    match fs::renameat(&from, name, &to, name) {
        Ok(()) => Ok(root.shown(&kept)),
        // Another file system is mounted there: renaming it to a name that git does not know is
        // enough.
        Err(rustix::io::Errno::XDEV) => {
            let aside = format!("{}.quarantine-{:x}", name.to_string_lossy(), since.as_nanos());
            fs::renameat(&from, name, &from, &aside)?;
            Ok(root.shown(&parent.join(aside)))
        }
        Err(error) => Err(error),
    }
}

/// Restores a file. Returns true when it is as before.
fn restore(root: &Root, path: &Path, before: &mut GuardedPath) -> bool {
    let Some((content, mode)) = &before.content else { return false };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let Ok(file) = root.open_with(path, flags, Mode::from_raw_mode(mode & 0o777)) else {
        return false;
    };
    let is_written = std::fs::File::from(file).write_all(content).is_ok();
    if let Some(stamp) = stamp_at(root, path).filter(|_| is_written) {
        before.stamp = stamp;
    }
    is_written
}

/// Returns the stamp of a path, of the link itself if it is one.
fn stamp_at(root: &Root, path: &Path) -> Option<StatStamp> {
    let (parent, name) = (path.parent()?, path.file_name()?);
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = repository::open(root, parent, directory).ok()?;
    let stat = fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(StatStamp::of(&stat))
}
