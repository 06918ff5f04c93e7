//! The moment of a change: everything is ready, so only names move now. One file moves at once; several leave a record
//! of how to take them back until the last one has moved.

use std::{cell::RefCell, os::fd::OwnedFd, path::Path, rc::Rc};

use haft_core::{Content, ErrorKind, ToolError, files::FileGrant};
use rustix::{
    fs::{self, AtFlags},
    io::Errno,
};

use super::{
    area::{self, Area},
    descend::identity,
    directories::Directories,
    hold::{Found, Held, Seat},
    journal,
    record::{self, Step},
    stage::Staged,
};
use crate::files::{root::Root, workspace::Workspace};

/// What is to become of one place.
pub(super) enum Deed<'a> {
    /// A file with this content. Mode, owner and attributes are those of what is there, else of `like`; `mode` goes before.
    Put { bytes: &'a Content, like: Option<usize>, mode: Option<u32> },
    /// A link.
    Link { to: &'a Path },
    /// What is there goes.
    Remove,
}

/// Makes the changes, or none of them. The journal is told when everything is ready.
pub(super) fn commit(held: &Held<'_>, deeds: &[(usize, Deed<'_>)]) -> Result<(), ToolError> {
    let mut made = Directories::default();
    let areas = Areas::new(held.workspace, held.grant);
    let done = prepare(held, deeds, &areas, &mut made).and_then(|mut moves| {
        for (number, (seat, found)) in held.seats.iter().zip(&held.found).enumerate() {
            seat.verify(found).map_err(|error| held.failure(number, error))?;
        }
        if moves.is_empty() {
            return Ok(());
        }
        let begun = journal::begin(held, deeds, &moves)?;
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

/// One name that is about to change hands.
pub(super) struct Move<'a> {
    held: &'a Held<'a>,
    pub(super) number: usize,
    directory: OwnedFd,
    /// The new content; `None` when the file goes.
    pub(super) staged: Option<Staged>,
}

fn prepare<'a>(
    held: &'a Held<'a>,
    deeds: &[(usize, Deed<'_>)],
    areas: &Areas<'_>,
    made: &mut Directories,
) -> Result<Vec<Move<'a>>, ToolError> {
    let mut moves = Vec::new();
    for (number, deed) in deeds {
        let number = *number;
        let seat = &held.seats[number];
        let fail = |error| held.failure(number, error);
        let directory = made.open(seat).map_err(fail)?;
        let staged = match deed {
            Deed::Remove => None,
            Deed::Link { to } => Some(Staged::link(areas.of(seat.root)?, to).map_err(fail)?),
            Deed::Put { bytes, like, mode } => {
                let staged = match Staged::nameless(seat.root, &directory).map_err(fail)? {
                    Some(staged) => staged,
                    None => Staged::named(areas.of(seat.root)?).map_err(fail)?,
                };
                let like = like.and_then(|like| held.found[like].descriptor());
                let like = held.found[number].descriptor().or(like);
                staged.fill(bytes, like, *mode).map_err(fail)?;
                Some(staged)
            }
        };
        moves.push(Move { held, number, directory, staged });
    }
    Ok(moves)
}

impl<'a> Move<'a> {
    fn seat(&self) -> &'a Seat<'a> {
        &self.held.seats[self.number]
    }

    fn failure(&self, error: Errno) -> ToolError {
        self.held.failure(self.number, error)
    }

    fn make(&mut self, areas: &Areas<'_>) -> Result<(), ToolError> {
        let (directory, seat) = (&self.directory, self.seat());
        let moved = match (&mut self.staged, &self.held.found[self.number]) {
            (None, _) => fs::unlinkat(directory, &seat.name, AtFlags::empty()),
            (Some(staged), Found::Missing) => staged.appear(directory, &seat.name),
            (Some(staged), _) => staged.replace(&areas.of(seat.root)?, directory, &seat.name),
        };
        moved.map_err(|error| self.failure(error))
    }

    /// How to take it back. The old file gets a second name in the area.
    fn step(&self, area: &Area) -> Result<Step, Errno> {
        let backup = match self.held.found[self.number] {
            Found::File(_) | Found::Link(_) => {
                let backup = Area::name();
                let name = &self.seat().name;
                fs::linkat(&self.directory, name, &area.handle, &backup, AtFlags::empty())?;
                Some(backup)
            }
            _ => None,
        };
        let made = self.staged.as_ref().map(Staged::state).transpose()?;
        Ok(Step { made, backup, path: self.seat().path.clone() })
    }
}

fn make_all(
    moves: &mut [Move<'_>],
    areas: &Areas<'_>,
    made: &Directories,
) -> Result<(), ToolError> {
    let mut records = Records::default();
    for step in moves.iter() {
        let area = areas.of(step.seat().root)?;
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
        Err(error) => Err(take_back(records, &moves[..done], error)),
        done => done,
    }
}

/// Undoes the moves that were made, last first.
fn take_back(mut records: Records, moves: &[Move<'_>], error: ToolError) -> ToolError {
    for (step, (area, how)) in moves.iter().zip(&records.steps).rev() {
        let taken = how.take_back(&step.directory, &area.handle);
        if taken.and_then(|()| fs::fsync(&step.directory)).is_err() {
            // Nothing is thrown away then: the next haft that opens the workspace tries again.
            records.are_kept = true;
        }
    }
    if !records.are_kept {
        return error;
    }
    let message = format!("{error}, and what was changed before that could not be put back");
    ToolError::new(ErrorKind::Partial, message)
        .hint("the old files are in `.haft/tmp`; they are put back when haft starts again")
}

/// What was done so far, on disk and in memory. Dropping it ends the change: from then on nothing is taken back.
#[derive(Default)]
struct Records {
    steps: Vec<(Rc<Area>, Step)>,
    written: Vec<(Rc<Area>, String)>,
    are_kept: bool,
}

impl Records {
    fn add(&mut self, step: &Move<'_>, area: Rc<Area>) -> Result<(), Errno> {
        let step = step.step(&area)?;
        self.steps.push((area, step));
        Ok(())
    }

    /// One record in each area, since each root is swept by itself.
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

impl Drop for Records {
    fn drop(&mut self) {
        if self.are_kept {
            return;
        }
        for (area, name) in &self.written {
            let _ = fs::unlinkat(&area.handle, name, AtFlags::empty());
            // Else a power cut could bring the record back, and with it undo a change that was reported as made.
            let _ = fs::fsync(&area.handle);
        }
        for (area, step) in &self.steps {
            if let Some(backup) = &step.backup {
                let _ = fs::unlinkat(&area.handle, backup, AtFlags::empty());
            }
        }
    }
}

/// A name is on disk when its directory is.
fn sync(moves: &[Move<'_>], made: &Directories) -> Result<(), ToolError> {
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

/// The areas of the roots a change touches, opened when first needed: a new file needs none.
struct Areas<'a> {
    workspace: &'a Workspace,
    grant: &'a FileGrant,
    known: RefCell<Vec<(*const Root, Rc<Area>)>>,
}

impl<'a> Areas<'a> {
    fn new(workspace: &'a Workspace, grant: &'a FileGrant) -> Self {
        Self { workspace, grant, known: RefCell::default() }
    }

    fn of(&self, root: &Root) -> Result<Rc<Area>, ToolError> {
        let key: *const Root = root;
        let mut known = self.known.borrow_mut();
        if let Some((_, area)) = known.iter().find(|(root, _)| *root == key) {
            return Ok(area.clone());
        }
        let opened = Area::open(root, self.workspace.patience);
        let area = opened
            .map_err(|error| area::failure(self.workspace, root, error, self.grant))
            .map(Rc::new)?;
        known.push((key, area.clone()));
        Ok(area)
    }
}
