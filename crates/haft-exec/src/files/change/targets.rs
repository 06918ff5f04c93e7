//! The targets of a change. Their directories are open and locked, so that no other haft, in this
//! process or another, changes them at the same time.

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use haft_core::{
    ToolError,
    files::{ChangeTarget, CurrentState, FileGrant, FileKind, FileMetadata, OpenFile},
};
use rustix::{
    fs::{self, AtFlags, FlockOperation, Mode, OFlags},
    io::Errno,
};

use super::descend::{identity, open};
use crate::files::{
    locate::LastLink,
    metadata,
    open_file::FileHandle,
    root::Root,
    workspace::{LocatedPath, MAX_TRIES, Workspace, not_regular},
};

/// Interval between attempts to lock a directory.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// The location of one target.
pub(super) struct TargetLocation<'a> {
    pub(super) root: &'a Root,
    /// Relative to the root.
    pub(super) path: PathBuf,
    pub(super) shown: PathBuf,
    /// The nearest existing directory above the target.
    pub(super) above: OwnedFd,
    /// The missing directories in between.
    pub(super) missing: Vec<OsString>,
    pub(super) name: OsString,
}

/// The state of a target.
pub(super) enum TargetState {
    Missing,
    File(Arc<FileHandle>),
    /// The link itself, not its target.
    Link(Box<FileMetadata>),
    Directory,
    Other(FileKind),
}

impl TargetState {
    pub(super) fn descriptor(&self) -> Option<&OwnedFd> {
        match self {
            Self::File(handle) => Some(&handle.descriptor),
            _ => None,
        }
    }
}

pub(super) struct LockedTargets<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) grant: &'a FileGrant,
    pub(super) locations: Vec<TargetLocation<'a>>,
    /// The states after the directories were locked.
    pub(super) found: Vec<TargetState>,
    _locks: Vec<OwnedFd>,
}

impl<'a> LockedTargets<'a> {
    pub(super) fn lock(
        workspace: &'a Workspace,
        paths: &[PathBuf],
        last: LastLink,
        grant: &'a FileGrant,
    ) -> Result<Self, ToolError> {
        let wanted: Vec<_> = paths.iter().map(|path| (path.as_path(), last)).collect();
        let (locations, locks) = lock_targets(workspace, &wanted, grant)?;
        check_distinct(&locations)?;
        let mut locked = Self { workspace, grant, locations, found: Vec::new(), _locks: locks };
        for (number, location) in locked.locations.iter().enumerate() {
            let found =
                location.current_state(last).map_err(|error| locked.failure(number, error))?;
            if let TargetState::Other(kind) = found {
                return Err(not_regular(&location.shown, kind));
            }
            locked.found.push(found);
        }
        Ok(locked)
    }

    /// Returns the states as a plan sees them.
    pub(super) fn targets(&self) -> Vec<ChangeTarget> {
        let target = |(location, found): (&TargetLocation<'_>, &TargetState)| {
            let current = match found {
                TargetState::Missing => CurrentState::Missing,
                TargetState::File(handle) => CurrentState::File(handle.clone()),
                TargetState::Directory | TargetState::Link(_) | TargetState::Other(_) => {
                    CurrentState::Directory
                }
            };
            ChangeTarget { path: location.shown.clone(), current }
        };
        self.locations.iter().zip(&self.found).map(target).collect()
    }

    pub(super) fn failure(&self, location: usize, error: Errno) -> ToolError {
        let shown = &self.locations[location].shown;
        match error {
            // A link replaced the file, or another file did, after it was checked.
            Errno::LOOP | Errno::STALE | Errno::EXIST => changed_concurrently(shown),
            error => self.workspace.failure(shown, error, self.grant),
        }
    }
}

pub(super) fn changed_concurrently(shown: &Path) -> ToolError {
    let message = format!("`{}` was changed by another process", shown.display());
    ToolError::conflict(message).hint("nothing was written; read it again, then decide")
}

/// Rejects one file under two names, which a nested root makes possible.
fn check_distinct(locations: &[TargetLocation<'_>]) -> Result<(), ToolError> {
    let mut known = HashSet::new();
    for location in locations {
        if !known.insert((identity(&location.above).ok(), &location.missing, &location.name)) {
            let shown = location.shown.display();
            return Err(ToolError::input(format!("`{shown}` is named twice in one change"))
                .hint("name each file once"));
        }
    }
    Ok(())
}

/// Finds the targets and locks their directories.
pub(super) fn lock_targets<'a>(
    workspace: &'a Workspace,
    paths: &[(&Path, LastLink)],
    grant: &FileGrant,
) -> Result<(Vec<TargetLocation<'a>>, Vec<OwnedFd>), ToolError> {
    for _ in 0..MAX_TRIES {
        let find = |(path, last): &(&Path, LastLink)| find_target(workspace, path, *last, grant);
        let locations: Vec<TargetLocation<'a>> =
            paths.iter().map(find).collect::<Result<_, _>>()?;
        let locks = lock(&locations, workspace.lock_timeout)?;
        // While waiting for a lock, directories may have been moved or created.
        if locations.iter().all(TargetLocation::is_as_found) {
            return Ok((locations, locks));
        }
    }
    Err(changed_concurrently(paths.first().map_or(Path::new("."), |(path, _)| path)))
}

/// Resolves a path and opens the nearest existing directory above it.
pub(super) fn find_target<'a>(
    workspace: &'a Workspace,
    path: &Path,
    last: LastLink,
    grant: &FileGrant,
) -> Result<TargetLocation<'a>, ToolError> {
    // `Workspace::at` does not fit: its located paths live only as long as its closure, but a
    // target keeps the root.
    for _ in 0..MAX_TRIES {
        let located = workspace.located(path, last, grant)?;
        let Some(name) = located.path.file_name().map(OsString::from) else {
            return Err(haft_core::files::is_directory(&located.shown));
        };
        match open_above(&located) {
            Ok((above, missing)) => {
                let LocatedPath { root, path, shown, .. } = located;
                return Ok(TargetLocation { root, path, shown, above, missing, name });
            }
            Err(Errno::LOOP | Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::NOTDIR) => return Err(file_above(&located.shown)),
            Err(error) => return Err(workspace.failure(&located.shown, error, grant)),
        }
    }
    Err(changed_concurrently(path))
}

fn file_above(shown: &Path) -> ToolError {
    let above = shown.parent().unwrap_or(shown).display();
    let message = format!("`{above}` or something above it is a file, not a directory");
    ToolError::conflict(message).hint("choose another path")
}

fn open_above(located: &LocatedPath<'_>) -> Result<(OwnedFd, Vec<OsString>), Errno> {
    let mut missing = Vec::new();
    let mut above = located.path.parent();
    while let Some(path) = above {
        match located.root.open_at(or_dot(path), OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(handle) => {
                missing.reverse();
                return Ok((handle, missing));
            }
            Err(Errno::NOENT) => missing.extend(path.file_name().map(OsString::from)),
            Err(error) => return Err(error),
        }
        above = path.parent();
    }
    Err(Errno::NOENT)
}

fn or_dot(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

impl TargetLocation<'_> {
    /// Returns true when the path still leads to the directory that was opened.
    fn is_in_place(&self) -> bool {
        let above = self.path.ancestors().nth(self.missing.len() + 1).unwrap_or(Path::new(""));
        let now = self.root.open_at(or_dot(above), OFlags::PATH | OFlags::DIRECTORY);
        now.and_then(|now| Ok(identity(&now)? == identity(&self.above)?)).unwrap_or(false)
    }

    /// Returns true when also the directories that were missing still are.
    fn is_as_found(&self) -> bool {
        let is_missing = |name| {
            fs::statat(&self.above, name, AtFlags::SYMLINK_NOFOLLOW).err() == Some(Errno::NOENT)
        };
        self.is_in_place() && self.missing.first().is_none_or(is_missing)
    }

    /// Opens the target with the root's restrictions: a single file can be a mount too.
    fn open(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        self.root.open_below(&self.above, Path::new(&self.name), flags, Mode::empty())
    }

    /// Returns the current state of the target.
    pub(super) fn current_state(&self, last: LastLink) -> Result<TargetState, Errno> {
        if !self.missing.is_empty() {
            return Ok(TargetState::Missing);
        }
        let metadata = match self.open(OFlags::PATH) {
            Ok(handle) => metadata::of(&handle, &self.shown)?,
            Err(Errno::NOENT) => return Ok(TargetState::Missing),
            Err(error) => return Err(error),
        };
        match metadata.kind {
            FileKind::Directory => Ok(TargetState::Directory),
            FileKind::Link if last == LastLink::Keep => Ok(TargetState::Link(Box::new(metadata))),
            FileKind::Link => Err(Errno::LOOP),
            FileKind::File => {
                let handle = self.open(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
                let metadata = metadata::of(&handle, &self.shown)?;
                Ok(TargetState::File(FileHandle::new(handle, metadata)))
            }
            kind => Ok(TargetState::Other(kind)),
        }
    }

    /// Checks that the target is still in its earlier state.
    pub(super) fn verify(&self, before: &TargetState) -> Result<(), Errno> {
        if !self.is_in_place() {
            return Err(Errno::STALE);
        }
        // A missing target is verified when it gets its name, which must be free.
        if !self.missing.is_empty() {
            return Ok(());
        }
        let now = match self.open(OFlags::PATH) {
            Ok(handle) => Some(metadata::of(&handle, &self.shown)?),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(error),
        };
        let is_same = match (before, now) {
            (TargetState::Missing, None) => true,
            (TargetState::File(before), Some(now)) => before.metadata().is_same_state(&now),
            (TargetState::Link(before), Some(now)) => before.is_same_state(&now),
            (TargetState::Directory, Some(now)) => now.kind == FileKind::Directory,
            _ => false,
        };
        if is_same { Ok(()) } else { Err(Errno::STALE) }
    }
}

/// Locks the directories, always in the same order, so that two changes cannot deadlock.
fn lock(
    locations: &[TargetLocation<'_>],
    lock_timeout: Duration,
) -> Result<Vec<OwnedFd>, ToolError> {
    let mut directories = Vec::new();
    for (number, location) in locations.iter().enumerate() {
        directories.extend(identity(&location.above).ok().map(|identity| (identity, number)));
    }
    directories.sort_unstable();
    directories.dedup_by_key(|(identity, _)| *identity);
    let lock = |(_, number): &(_, usize)| lock_directory(&locations[*number], lock_timeout);
    directories.iter().filter_map(|directory| lock(directory).transpose()).collect()
}

fn lock_directory(
    location: &TargetLocation<'_>,
    lock_timeout: Duration,
) -> Result<Option<OwnedFd>, ToolError> {
    // Use a new handle: a lock ends when its last handle is closed, and the target's handle may be
    // shared.
    let Ok(handle) = open(&location.above, OsStr::new(".")) else { return Ok(None) };
    match flock_within(&handle, FlockOperation::NonBlockingLockExclusive, lock_timeout) {
        Ok(()) => Ok(Some(handle)),
        Err(Errno::WOULDBLOCK) => {
            let above = location.shown.parent().map_or(Path::new("."), or_dot).display();
            let message = format!("another process has locked the directory `{above}`");
            Err(ToolError::unavailable(message).hint("retry when it is done"))
        }
        // The file system has no locks. The target is still verified before it is replaced.
        Err(_) => Ok(None),
    }
}

/// Retries until it has the lock or the timeout expires (`WOULDBLOCK`). The kernel's blocking lock
/// has no timeout.
pub(super) fn flock_within(
    handle: &OwnedFd,
    operation: FlockOperation,
    lock_timeout: Duration,
) -> Result<(), Errno> {
    let begin = Instant::now();
    loop {
        match fs::flock(handle, operation) {
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if begin.elapsed() < lock_timeout => {
                thread::sleep(LOCK_RETRY_INTERVAL)
            }
            done => return done,
        }
    }
}
