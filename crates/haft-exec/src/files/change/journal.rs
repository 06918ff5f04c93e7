//! What the journal is told of a change before names change hands: what is there, with its content, and what will be.
//! Nothing goes that could not be kept; what is too much for the journal is said before anything is touched.

use std::{
    collections::HashSet,
    ffi::OsStr,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use haft_core::{
    ContentHash, ErrorKind, JournalWriter, NewJournalEntry, OpenChange, PathState, PreImages,
    ToolError,
    files::{FileGrant, FileKind, FileMetadata, MAX_WHOLE_FILE_BYTES, OpenFile},
};
use rustix::{
    fs::{self, Mode, OFlags},
    io::Errno,
};

use super::{
    commit::{Deed, Move},
    descend::{Visit, descend, open},
    hold::{Found, Held, Seat},
    images,
};
use crate::files::{facts, open_file::Handle, workspace::Workspace};

/// What one change may take, all its files together, and of how many. It is held in memory until it is kept.
const MOST_BYTES: u64 = 256 << 20;
const MOST_ENTRIES: usize = 20_000;

/// Tells the journal of changes of files and links.
pub(super) fn begin(
    held: &Held<'_>,
    deeds: &[(usize, Deed<'_>)],
    moves: &[Move<'_>],
) -> Result<Option<OpenChange>, ToolError> {
    let Some(scribe) = held.grant.journal_writer() else { return Ok(None) };
    let mut entries = Entries::default();
    entries.add_made_directories(moves.iter().map(|step| &held.seats[step.number]));
    for ((number, deed), step) in deeds.iter().zip(moves) {
        let path = held.seats[*number].shown.clone();
        let (before, content) = entries.before(scribe, &held.found[*number])?;
        let after = after(deed, step).map_err(|error| held.failure(*number, error))?;
        entries.add(NewJournalEntry { path, before, content, after, moved_from: None })?;
    }
    scribe.begin(&entries.list).map(Some)
}

fn after(deed: &Deed<'_>, step: &Move<'_>) -> Result<PathState, Errno> {
    Ok(match (deed, &step.staged) {
        (Deed::Put { bytes, .. }, Some(staged)) => {
            let (hash, mode) = (bytes.hash(), staged.stat()?.st_mode & 0o7777);
            PathState::File { hash: Some(hash), mode, size: bytes.len() as u64 }
        }
        (Deed::Link { to }, _) => PathState::Link { to: (*to).to_owned() },
        _ => PathState::Missing,
    })
}

/// Tells the journal how a change ended.
pub(super) fn settle<T>(begun: Option<OpenChange>, done: &Result<T, ToolError>) {
    match (begun, done) {
        (None, _) => {}
        (Some(begun), Ok(_)) => begun.commit(),
        // What could not be put back may be either way: undo looks.
        (Some(begun), Err(error)) if error.kind() == ErrorKind::Partial => begun.in_doubt(),
        (Some(begun), Err(_)) => drop(begun),
    }
}

/// Tells the journal of something that moves from one place to another.
pub(super) fn begin_move(
    grant: &FileGrant,
    from: &Seat<'_>,
    to: &Seat<'_>,
) -> Result<Option<OpenChange>, ToolError> {
    let Some(scribe) = grant.journal_writer() else { return Ok(None) };
    let mut entries = Entries::default();
    entries.add_made_directories([to].into_iter());
    let look = |seat: &Seat<'_>| Ok::<_, ToolError>(entry_at(&seat.above, &seat.name, &seat.shown));
    let after = look(from)?.map_or(PathState::Other, |facts| images::of_facts(&facts));
    let replaced = if to.missing.is_empty() { look(to)? } else { None };
    let (before, content) = match replaced {
        Some(facts) => entries.of_facts(scribe, &to.above, &to.name, facts)?,
        None => (PathState::Missing, None),
    };
    let moved_from = Some(from.shown.clone());
    entries.add(NewJournalEntry { path: to.shown.clone(), before, content, after, moved_from })?;
    scribe.begin(&entries.list).map(Some)
}

/// Tells the journal of something that goes, with all below it.
pub(super) fn begin_removal(
    workspace: &Workspace,
    grant: &FileGrant,
    seat: &Seat<'_>,
) -> Result<Option<OpenChange>, ToolError> {
    let Some(scribe) = grant.journal_writer() else { return Ok(None) };
    let Some(facts) = entry_at(&seat.above, &seat.name, &seat.shown) else { return Ok(None) };
    let is_directory = facts.kind == FileKind::Directory;
    let mut entries = Entries::default();
    entries.add_going(scribe, &seat.above, &seat.name, facts)?;
    if is_directory && scribe.pre_images() == PreImages::Content {
        let fail = |error| workspace.failure(&seat.shown, error, grant);
        let top = open(&seat.above, &seat.name).map_err(fail)?;
        descend(top, &mut Below { workspace, grant, scribe, seat, entries: &mut entries })?;
    }
    scribe.begin(&entries.list).map(Some)
}

/// Tells the journal of directories that are about to be made.
pub(super) fn begin_directories(
    grant: &FileGrant,
    seat: &Seat<'_>,
) -> Result<Option<OpenChange>, ToolError> {
    let Some(scribe) = grant.journal_writer() else { return Ok(None) };
    let mut entries = Entries::default();
    entries.add_made_directories([seat].into_iter());
    let after = PathState::Directory { mode: 0o777 };
    entries.add(NewJournalEntry::created(seat.shown.clone(), after))?;
    scribe.begin(&entries.list).map(Some)
}

/// What has a name, if anything does. That it is gone again shows when it is to be moved.
fn entry_at(directory: &OwnedFd, name: &OsStr, shown: &Path) -> Option<FileMetadata> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = fs::openat(directory, name, flags, Mode::empty()).ok()?;
    facts::of(&handle, shown).ok()
}

#[derive(Default)]
struct Entries {
    list: Vec<NewJournalEntry>,
    bytes: u64,
}

impl Entries {
    fn add(&mut self, entry: NewJournalEntry) -> Result<(), ToolError> {
        if self.list.len() >= MOST_ENTRIES {
            let message = format!(
                "more than {MOST_ENTRIES} files would change at `{}`, too many to keep for undo",
                self.list.first().map_or(Path::new("."), |first| &first.path).display()
            );
            return Err(ToolError::new(ErrorKind::TooLarge, message).hint(SMALLER));
        }
        self.list.push(entry);
        Ok(())
    }

    /// Those above the places of a change that are not there yet, each once, upper ones first.
    fn add_made_directories<'a>(&mut self, seats: impl Iterator<Item = &'a Seat<'a>>) {
        let mut known: HashSet<PathBuf> = HashSet::new();
        for seat in seats {
            let above: Vec<&Path> =
                seat.shown.ancestors().skip(1).take(seat.missing.len()).collect();
            for path in above.into_iter().rev() {
                if known.insert(path.to_owned()) {
                    let after = PathState::Directory { mode: 0o777 };
                    self.list.push(NewJournalEntry::created(path.to_owned(), after));
                }
            }
        }
    }

    /// What a place holds that a change is about to alter.
    fn before(
        &mut self,
        scribe: &JournalWriter,
        found: &Found,
    ) -> Result<(PathState, Option<Vec<u8>>), ToolError> {
        match found {
            Found::File(handle) => self.of_file(scribe, handle),
            other => Ok((images::of_found(other)?, None)),
        }
    }

    fn add_going(
        &mut self,
        scribe: &JournalWriter,
        directory: &OwnedFd,
        name: &OsStr,
        facts: FileMetadata,
    ) -> Result<(), ToolError> {
        let path = facts.path.clone();
        let (before, content) = self.of_facts(scribe, directory, name, facts)?;
        self.add(NewJournalEntry {
            path,
            before,
            content,
            after: PathState::Missing,
            moved_from: None,
        })
    }

    fn of_facts(
        &mut self,
        scribe: &JournalWriter,
        directory: &OwnedFd,
        name: &OsStr,
        facts: FileMetadata,
    ) -> Result<(PathState, Option<Vec<u8>>), ToolError> {
        if scribe.pre_images() == PreImages::Names {
            return Ok((images::of_facts(&facts), None));
        }
        match facts.kind {
            FileKind::Link | FileKind::Directory => return Ok((images::of_facts(&facts), None)),
            FileKind::File => {}
            kind => return Err(not_kept(&facts.path, &format!("is a {}", kind.name()))),
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let handle = fs::openat(directory, name, flags, Mode::empty())
            .map_err(|error| not_kept(&facts.path, &format!("cannot be read: {error}")))?;
        self.of_file(scribe, &Handle::new(handle, facts))
    }

    fn of_file(
        &mut self,
        scribe: &JournalWriter,
        handle: &Handle,
    ) -> Result<(PathState, Option<Vec<u8>>), ToolError> {
        let facts = handle.metadata();
        if scribe.pre_images() == PreImages::Names {
            return Ok((images::of_file(facts, None), None));
        }
        self.bytes += facts.size;
        if facts.size > MAX_WHOLE_FILE_BYTES {
            let (size, limit) = (facts.size >> 20, MAX_WHOLE_FILE_BYTES >> 20);
            return Err(not_kept(
                &facts.path,
                &format!("has {size} MiB, above the {limit} that are kept for undo"),
            ));
        }
        if self.bytes > MOST_BYTES {
            let limit = MOST_BYTES >> 20;
            return Err(not_kept(
                &facts.path,
                &format!(
                    "and what goes with it have more than the {limit} MiB that are kept for undo"
                ),
            ));
        }
        let content = (handle as &dyn OpenFile).read_whole()?;
        let hash = ContentHash::of(&content);
        Ok((images::of_file(facts, Some(hash)), Some(content)))
    }
}

const SMALLER: &str = "nothing was changed; change less at once, or delete with without_undo if nobody will want it back";

fn not_kept(path: &Path, why: &str) -> ToolError {
    let message = format!("`{}` {why}, so the change could not be undone", path.display());
    ToolError::new(ErrorKind::TooLarge, message).hint(SMALLER)
}

/// Everything below a directory that goes.
struct Below<'a> {
    workspace: &'a Workspace,
    grant: &'a FileGrant,
    scribe: &'a JournalWriter,
    seat: &'a Seat<'a>,
    entries: &'a mut Entries,
}

impl Visit for Below<'_> {
    type Failure = ToolError;

    fn entry(&mut self, directory: &OwnedFd, path: &Path) -> Result<bool, ToolError> {
        let (name, shown) = (path.file_name().unwrap_or_default(), self.seat.shown.join(path));
        let Some(facts) = entry_at(directory, name, &shown) else { return Ok(false) };
        let is_directory = facts.kind == FileKind::Directory;
        self.entries.add_going(self.scribe, directory, name, facts)?;
        Ok(is_directory)
    }

    fn left(&mut self, _: &OwnedFd, _: &Path) -> Result<(), ToolError> {
        Ok(())
    }

    fn failed(&self, path: &Path, error: Errno) -> ToolError {
        self.workspace.failure(&self.seat.shown.join(path), error, self.grant)
    }
}
