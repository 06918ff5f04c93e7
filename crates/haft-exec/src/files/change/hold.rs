//! The places a change is about: their directories open and locked, so that no other haft, in this process or another,
//! changes them meanwhile.

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
    facts,
    locate::LastLink,
    open_file::Handle,
    root::Root,
    workspace::{MOST_TRIES, Spot, Workspace, not_regular},
};

/// Between two looks at a lock that somebody else has.
const PAUSE: Duration = Duration::from_millis(1);

/// Where one target lies.
pub(super) struct Seat<'a> {
    pub(super) root: &'a Root,
    /// Relative to the root.
    pub(super) path: PathBuf,
    pub(super) shown: PathBuf,
    /// The nearest directory above that is there.
    pub(super) above: OwnedFd,
    /// The directories between, which are not there yet.
    pub(super) missing: Vec<OsString>,
    pub(super) name: OsString,
}

/// What has a name.
pub(super) enum Found {
    Missing,
    File(Arc<Handle>),
    /// Itself, not where it leads.
    Link(Box<FileMetadata>),
    Directory,
    Other(FileKind),
}

impl Found {
    pub(super) fn descriptor(&self) -> Option<&OwnedFd> {
        match self {
            Self::File(handle) => Some(&handle.descriptor),
            _ => None,
        }
    }
}

pub(super) struct Held<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) grant: &'a FileGrant,
    pub(super) seats: Vec<Seat<'a>>,
    /// What was there when the directories had been locked.
    pub(super) found: Vec<Found>,
    _locks: Vec<OwnedFd>,
}

impl<'a> Held<'a> {
    pub(super) fn take(
        workspace: &'a Workspace,
        paths: &[PathBuf],
        last: LastLink,
        grant: &'a FileGrant,
    ) -> Result<Self, ToolError> {
        let wanted: Vec<_> = paths.iter().map(|path| (path.as_path(), last)).collect();
        let (seats, locks) = hold(workspace, &wanted, grant)?;
        check_distinct(&seats)?;
        let mut held = Self { workspace, grant, seats, found: Vec::new(), _locks: locks };
        for (number, seat) in held.seats.iter().enumerate() {
            let found = seat.look(last).map_err(|error| held.failure(number, error))?;
            if let Found::Other(kind) = found {
                return Err(not_regular(&seat.shown, kind));
            }
            held.found.push(found);
        }
        Ok(held)
    }

    /// What was found, in the words of a plan.
    pub(super) fn targets(&self) -> Vec<ChangeTarget> {
        let target = |(seat, found): (&Seat<'_>, &Found)| {
            let current = match found {
                Found::Missing => CurrentState::Missing,
                Found::File(handle) => CurrentState::File(handle.clone()),
                Found::Directory | Found::Link(_) | Found::Other(_) => CurrentState::Directory,
            };
            ChangeTarget { path: seat.shown.clone(), current }
        };
        self.seats.iter().zip(&self.found).map(target).collect()
    }

    pub(super) fn failure(&self, seat: usize, error: Errno) -> ToolError {
        let shown = &self.seats[seat].shown;
        match error {
            // A link has taken the place of the file, or the file that of another, since it was looked at.
            Errno::LOOP | Errno::STALE | Errno::EXIST => changed_meanwhile(shown),
            error => self.workspace.failure(shown, error, self.grant),
        }
    }
}

pub(super) fn changed_meanwhile(shown: &Path) -> ToolError {
    let message = format!("`{}` was changed by somebody else meanwhile", shown.display());
    ToolError::conflict(message).hint("nothing was written; read it again, then decide")
}

/// One file by two names, as a nested root gives it, counts as well.
fn check_distinct(seats: &[Seat<'_>]) -> Result<(), ToolError> {
    let mut known = HashSet::new();
    for seat in seats {
        if !known.insert((identity(&seat.above).ok(), &seat.missing, &seat.name)) {
            let shown = seat.shown.display();
            return Err(ToolError::input(format!("`{shown}` is named twice in one change"))
                .hint("say once what is to become of it"));
        }
    }
    Ok(())
}

/// Finds some places and locks their directories.
pub(super) fn hold<'a>(
    workspace: &'a Workspace,
    paths: &[(&Path, LastLink)],
    grant: &FileGrant,
) -> Result<(Vec<Seat<'a>>, Vec<OwnedFd>), ToolError> {
    for _ in 0..MOST_TRIES {
        let find = |(path, last): &(&Path, LastLink)| seat(workspace, path, *last, grant);
        let seats: Vec<Seat<'a>> = paths.iter().map(find).collect::<Result<_, _>>()?;
        let locks = lock(&seats, workspace.patience)?;
        // While a lock was waited for, directories may have been moved or made.
        if seats.iter().all(Seat::is_as_found) {
            return Ok((seats, locks));
        }
    }
    Err(changed_meanwhile(paths.first().map_or(Path::new("."), |(path, _)| path)))
}

/// Finds a path's place and opens what there is of the directories above it.
pub(super) fn seat<'a>(
    workspace: &'a Workspace,
    path: &Path,
    last: LastLink,
    grant: &FileGrant,
) -> Result<Seat<'a>, ToolError> {
    // Not through `Workspace::at`: its spots live no longer than its closure, and a seat keeps the root.
    for _ in 0..MOST_TRIES {
        let spot = workspace.spot(path, last, grant)?;
        let Some(name) = spot.path.file_name().map(OsString::from) else {
            return Err(haft_core::files::is_directory(&spot.shown));
        };
        match open_above(&spot) {
            Ok((above, missing)) => {
                let Spot { root, path, shown, .. } = spot;
                return Ok(Seat { root, path, shown, above, missing, name });
            }
            Err(Errno::LOOP | Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::NOTDIR) => return Err(file_above(&spot.shown)),
            Err(error) => return Err(workspace.failure(&spot.shown, error, grant)),
        }
    }
    Err(changed_meanwhile(path))
}

fn file_above(shown: &Path) -> ToolError {
    let above = shown.parent().unwrap_or(shown).display();
    let message = format!("`{above}` or something above it is a file, not a directory");
    ToolError::conflict(message).hint("choose another path")
}

fn open_above(spot: &Spot<'_>) -> Result<(OwnedFd, Vec<OsString>), Errno> {
    let mut missing = Vec::new();
    let mut above = spot.path.parent();
    while let Some(path) = above {
        match spot.root.open_at(or_dot(path), OFlags::RDONLY | OFlags::DIRECTORY) {
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

impl Seat<'_> {
    /// Whether the path still leads to the directory that was opened.
    fn is_in_place(&self) -> bool {
        let above = self.path.ancestors().nth(self.missing.len() + 1).unwrap_or(Path::new(""));
        let now = self.root.open_at(or_dot(above), OFlags::PATH | OFlags::DIRECTORY);
        now.and_then(|now| Ok(identity(&now)? == identity(&self.above)?)).unwrap_or(false)
    }

    /// The same, and what was missing above the name still is.
    fn is_as_found(&self) -> bool {
        let is_missing = |name| {
            fs::statat(&self.above, name, AtFlags::SYMLINK_NOFOLLOW).err() == Some(Errno::NOENT)
        };
        self.is_in_place() && self.missing.first().is_none_or(is_missing)
    }

    /// By the root's way to open things: a single file can be a mount too.
    fn open(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        self.root.open_below(&self.above, Path::new(&self.name), flags, Mode::empty())
    }

    /// What has the name now.
    pub(super) fn look(&self, last: LastLink) -> Result<Found, Errno> {
        if !self.missing.is_empty() {
            return Ok(Found::Missing);
        }
        let facts = match self.open(OFlags::PATH) {
            Ok(handle) => facts::of(&handle, &self.shown)?,
            Err(Errno::NOENT) => return Ok(Found::Missing),
            Err(error) => return Err(error),
        };
        match facts.kind {
            FileKind::Directory => Ok(Found::Directory),
            FileKind::Link if last == LastLink::Keep => Ok(Found::Link(Box::new(facts))),
            FileKind::Link => Err(Errno::LOOP),
            FileKind::File => {
                let handle = self.open(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
                let facts = facts::of(&handle, &self.shown)?;
                Ok(Found::File(Handle::new(handle, facts)))
            }
            kind => Ok(Found::Other(kind)),
        }
    }

    /// Whether what was found is still there, unchanged.
    pub(super) fn verify(&self, before: &Found) -> Result<(), Errno> {
        if !self.is_in_place() {
            return Err(Errno::STALE);
        }
        // Whether it is still missing shows when it gets its name, which must be free.
        if !self.missing.is_empty() {
            return Ok(());
        }
        let now = match self.open(OFlags::PATH) {
            Ok(handle) => Some(facts::of(&handle, &self.shown)?),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(error),
        };
        let is_same = match (before, now) {
            (Found::Missing, None) => true,
            (Found::File(before), Some(now)) => before.metadata().is_same_state(&now),
            (Found::Link(before), Some(now)) => before.is_same_state(&now),
            (Found::Directory, Some(now)) => now.kind == FileKind::Directory,
            _ => false,
        };
        if is_same { Ok(()) } else { Err(Errno::STALE) }
    }
}

/// Locks the directories, always in the same order, so that two changes never wait for each other.
fn lock(seats: &[Seat<'_>], patience: Duration) -> Result<Vec<OwnedFd>, ToolError> {
    let mut directories = Vec::new();
    for (number, seat) in seats.iter().enumerate() {
        directories.extend(identity(&seat.above).ok().map(|identity| (identity, number)));
    }
    directories.sort_unstable();
    directories.dedup_by_key(|(identity, _)| *identity);
    let lock = |(_, number): &(_, usize)| lock_one(&seats[*number], patience);
    directories.iter().filter_map(|directory| lock(directory).transpose()).collect()
}

fn lock_one(seat: &Seat<'_>, patience: Duration) -> Result<Option<OwnedFd>, ToolError> {
    // Another handle than the seat's: a lock goes when its last handle is closed, and the seat's may be lent out.
    let Ok(handle) = open(&seat.above, OsStr::new(".")) else { return Ok(None) };
    match flock_within(&handle, FlockOperation::NonBlockingLockExclusive, patience) {
        Ok(()) => Ok(Some(handle)),
        Err(Errno::WOULDBLOCK) => {
            let above = seat.shown.parent().map_or(Path::new("."), or_dot).display();
            let message = format!("another process holds the directory `{above}`");
            Err(ToolError::unavailable(message).hint("call again when it is done"))
        }
        // A file system without locks: what was looked at is still verified before it is replaced.
        Err(_) => Ok(None),
    }
}

/// Tries until it has the lock or the time is up (`WOULDBLOCK`). The kernel's own waiting has no deadline.
pub(super) fn flock_within(
    handle: &OwnedFd,
    operation: FlockOperation,
    patience: Duration,
) -> Result<(), Errno> {
    let begin = Instant::now();
    loop {
        match fs::flock(handle, operation) {
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if begin.elapsed() < patience => thread::sleep(PAUSE),
            done => return done,
        }
    }
}
