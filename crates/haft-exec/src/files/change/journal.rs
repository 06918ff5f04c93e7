//! Reports a change to the journal before names are replaced: the existing entries with their
//! content, and the new state. A change that the journal cannot keep is refused before anything is
//! touched.

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
    commit::{PendingMove, TargetChange},
    descend::{TreeVisitor, descend, open},
    path_states,
    targets::{LockedTargets, TargetLocation, TargetState},
};
use crate::files::{metadata, open_file::FileHandle, workspace::Workspace};

/// Maximum size and number of all files of one change together. They are held in memory until the
/// journal has them.
const MAX_CHANGE_BYTES: u64 = 256 << 20;
const MAX_ENTRIES: usize = 20_000;

/// Records changes of files and links in the journal.
pub(super) fn begin(
    locked: &LockedTargets<'_>,
    target_changes: &[(usize, TargetChange<'_>)],
    moves: &[PendingMove<'_>],
) -> Result<Option<OpenChange>, ToolError> {
    let Some(writer) = locked.grant.journal_writer() else { return Ok(None) };
    let mut entries = JournalEntries::default();
    entries.add_made_directories(moves.iter().map(|step| &locked.locations[step.number]));
    for ((number, target_change), step) in target_changes.iter().zip(moves) {
        let path = locked.locations[*number].shown.clone();
        let (before, content) = entries.before(writer, &locked.found[*number])?;
        let after = after(target_change, step).map_err(|error| locked.failure(*number, error))?;
        entries.add(NewJournalEntry { path, before, content, after, moved_from: None })?;
    }
    writer.begin(&entries.list).map(Some)
}

fn after(target_change: &TargetChange<'_>, step: &PendingMove<'_>) -> Result<PathState, Errno> {
    Ok(match (target_change, &step.staged) {
        (TargetChange::Put { bytes, .. }, Some(staged)) => {
            let (hash, mode) = (bytes.hash(), staged.stat()?.st_mode & 0o7777);
            PathState::File { hash: Some(hash), mode, size: bytes.len() as u64 }
        }
        (TargetChange::Link { to }, _) => PathState::Link { to: (*to).to_owned() },
        _ => PathState::Missing,
    })
}

/// Reports to the journal how a change ended.
pub(super) fn settle<T>(begun: Option<OpenChange>, done: &Result<T, ToolError>) {
    match (begun, done) {
        (None, _) => {}
        (Some(begun), Ok(_)) => begun.commit(),
        // An entry that could not be reverted may be in either state: undo checks.
        (Some(begun), Err(error)) if error.kind() == ErrorKind::Partial => begun.in_doubt(),
        (Some(begun), Err(_)) => drop(begun),
    }
}

/// Records a rename in the journal.
pub(super) fn begin_move(
    grant: &FileGrant,
    from: &TargetLocation<'_>,
    to: &TargetLocation<'_>,
) -> Result<Option<OpenChange>, ToolError> {
    let Some(writer) = grant.journal_writer() else { return Ok(None) };
    let mut entries = JournalEntries::default();
    entries.add_made_directories([to].into_iter());
    let current = |location: &TargetLocation<'_>| {
        Ok::<_, ToolError>(entry_at(&location.above, &location.name, &location.shown))
    };
    let after =
        current(from)?.map_or(PathState::Other, |metadata| path_states::of_metadata(&metadata));
    let replaced = if to.missing.is_empty() { current(to)? } else { None };
    let (before, content) = match replaced {
        Some(metadata) => entries.of_metadata(writer, &to.above, &to.name, metadata)?,
        None => (PathState::Missing, None),
    };
    let moved_from = Some(from.shown.clone());
    entries.add(NewJournalEntry { path: to.shown.clone(), before, content, after, moved_from })?;
    writer.begin(&entries.list).map(Some)
}

/// Records the removal of an entry with everything below it.
pub(super) fn begin_removal(
    workspace: &Workspace,
    grant: &FileGrant,
    location: &TargetLocation<'_>,
) -> Result<Option<OpenChange>, ToolError> {
    let Some(writer) = grant.journal_writer() else { return Ok(None) };
    let Some(metadata) = entry_at(&location.above, &location.name, &location.shown) else {
        return Ok(None);
    };
    let is_directory = metadata.kind == FileKind::Directory;
    let mut entries = JournalEntries::default();
    entries.add_going(writer, &location.above, &location.name, metadata)?;
    if is_directory && writer.pre_images() == PreImages::Content {
        let fail = |error| workspace.failure(&location.shown, error, grant);
        let top = open(&location.above, &location.name).map_err(fail)?;
        descend(
            top,
            &mut RemovalVisitor { workspace, grant, writer, location, entries: &mut entries },
        )?;
    }
    writer.begin(&entries.list).map(Some)
}

/// Records new directories in the journal.
pub(super) fn begin_directories(
    grant: &FileGrant,
    location: &TargetLocation<'_>,
) -> Result<Option<OpenChange>, ToolError> {
    let Some(writer) = grant.journal_writer() else { return Ok(None) };
    let mut entries = JournalEntries::default();
    entries.add_made_directories([location].into_iter());
    let after = PathState::Directory { mode: 0o777 };
    entries.add(NewJournalEntry::created(location.shown.clone(), after))?;
    writer.begin(&entries.list).map(Some)
}

/// Returns the metadata of an entry, if there is one. Concurrent removal is detected when it is
/// moved.
fn entry_at(directory: &OwnedFd, name: &OsStr, shown: &Path) -> Option<FileMetadata> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = fs::openat(directory, name, flags, Mode::empty()).ok()?;
    metadata::of(&handle, shown).ok()
}

#[derive(Default)]
struct JournalEntries {
    list: Vec<NewJournalEntry>,
    bytes: u64,
}

impl JournalEntries {
    fn add(&mut self, entry: NewJournalEntry) -> Result<(), ToolError> {
        if self.list.len() >= MAX_ENTRIES {
            let message = format!(
                "more than {MAX_ENTRIES} files would change at `{}`, too many to keep for undo",
                self.list.first().map_or(Path::new("."), |first| &first.path).display()
            );
            return Err(ToolError::new(ErrorKind::TooLarge, message).hint(SMALLER_CHANGE_HINT));
        }
        self.list.push(entry);
        Ok(())
    }

    /// Adds the missing directories above the targets, each once, upper ones first.
    fn add_made_directories<'a>(
        &mut self,
        locations: impl Iterator<Item = &'a TargetLocation<'a>>,
    ) {
        let mut known: HashSet<PathBuf> = HashSet::new();
        for location in locations {
            let above: Vec<&Path> =
                location.shown.ancestors().skip(1).take(location.missing.len()).collect();
            for path in above.into_iter().rev() {
                if known.insert(path.to_owned()) {
                    let after = PathState::Directory { mode: 0o777 };
                    self.list.push(NewJournalEntry::created(path.to_owned(), after));
                }
            }
        }
    }

    /// Returns the state of a target before the change.
    fn before(
        &mut self,
        writer: &JournalWriter,
        found: &TargetState,
    ) -> Result<(PathState, Option<Vec<u8>>), ToolError> {
        match found {
            TargetState::File(handle) => self.of_file(writer, handle),
            other => Ok((path_states::of_found(other)?, None)),
        }
    }

    fn add_going(
        &mut self,
        writer: &JournalWriter,
        directory: &OwnedFd,
        name: &OsStr,
        metadata: FileMetadata,
    ) -> Result<(), ToolError> {
        let path = metadata.path.clone();
        let (before, content) = self.of_metadata(writer, directory, name, metadata)?;
        self.add(NewJournalEntry {
            path,
            before,
            content,
            after: PathState::Missing,
            moved_from: None,
        })
    }

    fn of_metadata(
        &mut self,
        writer: &JournalWriter,
        directory: &OwnedFd,
        name: &OsStr,
        metadata: FileMetadata,
    ) -> Result<(PathState, Option<Vec<u8>>), ToolError> {
        if writer.pre_images() == PreImages::Names {
            return Ok((path_states::of_metadata(&metadata), None));
        }
        match metadata.kind {
            FileKind::Link | FileKind::Directory => {
                return Ok((path_states::of_metadata(&metadata), None));
            }
            FileKind::File => {}
            kind => return Err(not_kept(&metadata.path, &format!("is a {}", kind.name()))),
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let handle = fs::openat(directory, name, flags, Mode::empty())
            .map_err(|error| not_kept(&metadata.path, &format!("cannot be read: {error}")))?;
        self.of_file(writer, &FileHandle::new(handle, metadata))
    }

    fn of_file(
        &mut self,
        writer: &JournalWriter,
        handle: &FileHandle,
    ) -> Result<(PathState, Option<Vec<u8>>), ToolError> {
        let metadata = handle.metadata();
        if writer.pre_images() == PreImages::Names {
            return Ok((path_states::of_file(metadata, None), None));
        }
        self.bytes += metadata.size;
        if metadata.size > MAX_WHOLE_FILE_BYTES {
            let (size, limit) = (metadata.size >> 20, MAX_WHOLE_FILE_BYTES >> 20);
            return Err(not_kept(
                &metadata.path,
                &format!("has {size} MiB, above the {limit} that are kept for undo"),
            ));
        }
        if self.bytes > MAX_CHANGE_BYTES {
            let limit = MAX_CHANGE_BYTES >> 20;
            return Err(not_kept(
                &metadata.path,
                &format!(
                    "and what goes with it have more than the {limit} MiB that are kept for undo"
                ),
            ));
        }
        let content = (handle as &dyn OpenFile).read_whole()?;
        let hash = ContentHash::of(&content);
        Ok((path_states::of_file(metadata, Some(hash)), Some(content)))
    }
}

const SMALLER_CHANGE_HINT: &str =
    "nothing was changed; change less at once, or delete with without_undo if no undo is needed";

fn not_kept(path: &Path, why: &str) -> ToolError {
    let message = format!("`{}` {why}, so the change could not be undone", path.display());
    ToolError::new(ErrorKind::TooLarge, message).hint(SMALLER_CHANGE_HINT)
}

/// Records everything below a directory that is removed.
struct RemovalVisitor<'a> {
    workspace: &'a Workspace,
    grant: &'a FileGrant,
    writer: &'a JournalWriter,
    location: &'a TargetLocation<'a>,
    entries: &'a mut JournalEntries,
}

impl TreeVisitor for RemovalVisitor<'_> {
    type VisitError = ToolError;

    fn entry(&mut self, directory: &OwnedFd, path: &Path) -> Result<bool, ToolError> {
        let (name, shown) = (path.file_name().unwrap_or_default(), self.location.shown.join(path));
        let Some(metadata) = entry_at(directory, name, &shown) else { return Ok(false) };
        let is_directory = metadata.kind == FileKind::Directory;
        self.entries.add_going(self.writer, directory, name, metadata)?;
        Ok(is_directory)
    }

    fn left(&mut self, _: &OwnedFd, _: &Path) -> Result<(), ToolError> {
        Ok(())
    }

    fn failed(&self, path: &Path, error: Errno) -> ToolError {
        self.workspace.failure(&self.location.shown.join(path), error, self.grant)
    }
}
