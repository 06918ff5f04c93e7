//! Commits a change: everything is prepared, so only names are replaced now. A single file is
//! replaced atomically; for several files a record describes how to revert them until the last one
//! is done.

use std::{cell::RefCell, os::fd::OwnedFd, path::Path, rc::Rc};

use haft_core::{Content, ErrorKind, ToolError, files::FileGrant};
use rustix::{
    fs::{self, AtFlags},
    io::Errno,
};

use super::{
    descend::identity,
    directories::CreatedDirectories,
    journal,
    record::{self, RecordStep},
    stage::StagedFile,
    staging_area::{self, StagingArea},
    targets::{LockedTargets, TargetLocation, TargetState},
};
use crate::files::{root::Root, workspace::Workspace};

/// The change of one target.
pub(super) enum TargetChange<'a> {
    /// Writes a file with this content. Mode, owner and attributes come from the existing file, or
    /// from `like`; `mode` overrides the mode.
    Put { bytes: &'a Content, like: Option<usize>, mode: Option<u32> },
    /// Creates a link.
    Link { to: &'a Path },
    /// Removes the target.
    Remove,
}

/// Makes all changes or none. The journal is written once everything is ready.
pub(super) fn commit(
    locked: &LockedTargets<'_>,
    target_changes: &[(usize, TargetChange<'_>)],
) -> Result<(), ToolError> {
    let mut made = CreatedDirectories::default();
    let areas = StagingAreas::new(locked.workspace, locked.grant);
    let done = prepare(locked, target_changes, &areas, &mut made).and_then(|mut moves| {
        for (number, (location, found)) in locked.locations.iter().zip(&locked.found).enumerate() {
            location.verify(found).map_err(|error| locked.failure(number, error))?;
        }
        if moves.is_empty() {
            return Ok(());
        }
        let begun = journal::begin(locked, target_changes, &moves)?;
        let done = match &mut *moves {
            [only] => only.make(&areas).and_then(|()| sync(&moves, &made)),
            several => make_all(several, &areas, &made),
        };
        journal::settle(begun, &done);
        done
    });
    if done.is_err() {
        made.remove();
    }
    done
}

/// A prepared change of one name.
pub(super) struct PendingMove<'a> {
    locked: &'a LockedTargets<'a>,
    pub(super) number: usize,
    directory: OwnedFd,
    /// The new content; `None` when the file is removed.
    pub(super) staged: Option<StagedFile>,
}

fn prepare<'a>(
    locked: &'a LockedTargets<'a>,
    target_changes: &[(usize, TargetChange<'_>)],
    areas: &StagingAreas<'_>,
    made: &mut CreatedDirectories,
) -> Result<Vec<PendingMove<'a>>, ToolError> {
    let mut moves = Vec::new();
    for (number, target_change) in target_changes {
        let number = *number;
        let location = &locked.locations[number];
        let fail = |error| locked.failure(number, error);
        let directory = made.open(location).map_err(fail)?;
        let staged = match target_change {
            TargetChange::Remove => None,
            TargetChange::Link { to } => {
                Some(StagedFile::link(areas.of(location.root)?, to).map_err(fail)?)
            }
            TargetChange::Put { bytes, like, mode } => {
                let staged = match StagedFile::nameless(location.root, &directory).map_err(fail)? {
                    Some(staged) => staged,
                    None => StagedFile::named(areas.of(location.root)?).map_err(fail)?,
                };
                let like = like.and_then(|like| locked.found[like].descriptor());
                let like = locked.found[number].descriptor().or(like);
                staged.fill(bytes, like, *mode).map_err(fail)?;
                Some(staged)
            }
        };
        moves.push(PendingMove { locked, number, directory, staged });
    }
    Ok(moves)
}

impl<'a> PendingMove<'a> {
    fn location(&self) -> &'a TargetLocation<'a> {
        &self.locked.locations[self.number]
    }

    fn failure(&self, error: Errno) -> ToolError {
        self.locked.failure(self.number, error)
    }

    fn make(&mut self, areas: &StagingAreas<'_>) -> Result<(), ToolError> {
        let (directory, location) = (&self.directory, self.location());
        let moved = match (&mut self.staged, &self.locked.found[self.number]) {
            (None, _) => fs::unlinkat(directory, &location.name, AtFlags::empty()),
            (Some(staged), TargetState::Missing) => staged.appear(directory, &location.name),
            (Some(staged), _) => {
                staged.replace(&areas.of(location.root)?, directory, &location.name)
            }
        };
        moved.map_err(|error| self.failure(error))
    }

    /// Prepares the entry that reverts this change. The old file gets a second name in the area.
    fn step(&self, area: &StagingArea) -> Result<RecordStep, Errno> {
        let backup = match self.locked.found[self.number] {
            TargetState::File(_) | TargetState::Link(_) => {
                let backup = StagingArea::name();
                let name = &self.location().name;
                fs::linkat(&self.directory, name, &area.handle, &backup, AtFlags::empty())?;
                Some(backup)
            }
            _ => None,
        };
        let made = self.staged.as_ref().map(StagedFile::state).transpose()?;
        Ok(RecordStep { made, backup, path: self.location().path.clone() })
    }
}

fn make_all(
    moves: &mut [PendingMove<'_>],
    areas: &StagingAreas<'_>,
    made: &CreatedDirectories,
) -> Result<(), ToolError> {
    let mut records = UndoRecords::default();
    for step in moves.iter() {
        let area = areas.of(step.location().root)?;
        records.add(step, area).map_err(|error| step.failure(error))?;
    }
    records.write().map_err(|error| moves[0].failure(error))?;
    let mut done = 0;
    let mut result = Ok(());
    while done < moves.len() && result.is_ok() {
        result = moves[done].make(areas);
        done += usize::from(result.is_ok());
    }
    match result.and_then(|()| sync(moves, made)) {
        Err(error) => Err(revert(records, &moves[..done], error)),
        done => done,
    }
}

/// Reverts the changes that were made, the last one first.
fn revert(mut records: UndoRecords, moves: &[PendingMove<'_>], error: ToolError) -> ToolError {
    for (step, (area, how)) in moves.iter().zip(&records.steps).rev() {
        let taken = how.revert(&step.directory, &area.handle);
        if taken.and_then(|()| fs::fsync(&step.directory)).is_err() {
            // Keep everything: the next haft that opens the workspace tries again.
            records.are_kept = true;
        }
    }
    if !records.are_kept {
        return error;
    }
    let message = format!("{error}, and the earlier changes could not be reverted");
    ToolError::new(ErrorKind::Partial, message)
        .hint("the old files are in `.haft/tmp`; haft restores them at its next start")
}

/// The steps done so far, on disk and in memory. Dropping it ends the change: afterwards nothing is
/// reverted.
#[derive(Default)]
struct UndoRecords {
    steps: Vec<(Rc<StagingArea>, RecordStep)>,
    written: Vec<(Rc<StagingArea>, String)>,
    are_kept: bool,
}

impl UndoRecords {
    fn add(&mut self, step: &PendingMove<'_>, area: Rc<StagingArea>) -> Result<(), Errno> {
        let step = step.step(&area)?;
        self.steps.push((area, step));
        Ok(())
    }

    /// Writes one record in each area, because each root is swept separately.
    fn write(&mut self) -> Result<(), Errno> {
        for (area, _) in &self.steps {
            if self.written.iter().any(|(written, _)| Rc::ptr_eq(written, area)) {
                continue;
            }
            let own = self.steps.iter().filter(|(other, _)| Rc::ptr_eq(other, area));
            let name = record::write(area, own.map(|(_, step)| step))?;
            self.written.push((area.clone(), name));
        }
        Ok(())
    }
}

impl Drop for UndoRecords {
    fn drop(&mut self) {
        if self.are_kept {
            return;
        }
        for (area, name) in &self.written {
            let _ = fs::unlinkat(&area.handle, name, AtFlags::empty());
            // Otherwise a power cut could bring the record back, and with it revert a change that
            // was reported as done.
            let _ = fs::fsync(&area.handle);
        }
        for (area, step) in &self.steps {
            if let Some(backup) = &step.backup {
                let _ = fs::unlinkat(&area.handle, backup, AtFlags::empty());
            }
        }
    }
}

/// Syncs the directories, which puts the names on disk.
fn sync(moves: &[PendingMove<'_>], made: &CreatedDirectories) -> Result<(), ToolError> {
    let mut synced = Vec::new();
    for step in moves {
        let directory = identity(&step.directory).map_err(|error| step.failure(error))?;
        if !synced.contains(&directory) {
            synced.push(directory);
            fs::fsync(&step.directory).map_err(|error| step.failure(error))?;
        }
    }
    made.sync();
    Ok(())
}

/// The areas of the roots that a change touches, opened on first use: a new file needs none.
struct StagingAreas<'a> {
    workspace: &'a Workspace,
    grant: &'a FileGrant,
    known: RefCell<Vec<(*const Root, Rc<StagingArea>)>>,
}

impl<'a> StagingAreas<'a> {
    fn new(workspace: &'a Workspace, grant: &'a FileGrant) -> Self {
        Self { workspace, grant, known: RefCell::default() }
    }

    fn of(&self, root: &Root) -> Result<Rc<StagingArea>, ToolError> {
        let key: *const Root = root;
        let mut known = self.known.borrow_mut();
        if let Some((_, area)) = known.iter().find(|(root, _)| *root == key) {
            return Ok(area.clone());
        }
        let opened = StagingArea::open(root, self.workspace.lock_timeout);
        let area = opened
            .map_err(|error| staging_area::failure(self.workspace, root, error, self.grant))
            .map(Rc::new)?;
        known.push((key, area.clone()));
        Ok(area)
    }
}
