//! Plans how to revert changes. It simulates reverting them from the newest to the oldest, starting
//! with the current state of the disk. Several changes of one file become one restore. If a file
//! was changed elsewhere since, that is a conflict, and nothing is changed.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use haft_core::{JournalChange, JournalEntry, PathState, ToolError};

/// Reads the current state of a path.
pub(crate) type ReadState<'a> = &'a mut dyn FnMut(&Path) -> Result<PathState, ToolError>;

/// The steps to carry out, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct UndoPlan {
    pub(crate) steps: Vec<PlanStep>,
    /// Journal entries whose paths already have the earlier state.
    pub(crate) idle: Vec<u64>,
    pub(crate) conflicts: Vec<UndoConflict>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PlanStep {
    /// Restore files and links in one change.
    RestoreFiles(Vec<FileRestore>),
    /// Move a path back to where it came from.
    Move {
        from: PathBuf,
        to: PathBuf,
        entries: Vec<u64>,
    },
    /// Create a directory that no restored file would create.
    MakeDirectory {
        path: PathBuf,
        entries: Vec<u64>,
    },
    SetMode {
        path: PathBuf,
        mode: u32,
    },
    /// Remove a directory that the change created; it stays if it is not empty.
    RemoveDirectory {
        path: PathBuf,
        entries: Vec<u64>,
    },
}

/// The restore of one file or link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileRestore {
    pub(crate) path: PathBuf,
    pub(crate) now: PathState,
    pub(crate) then: PathState,
    /// The journal entries that it reverts.
    pub(crate) entries: Vec<u64>,
}

/// The reason why a path cannot be restored.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UndoConflict {
    pub(crate) path: PathBuf,
    pub(crate) why: String,
    /// The state that undo would have restored.
    pub(crate) then: PathState,
}

/// Plans the revert of changes, which must be sorted newest first.
pub(crate) fn plan(
    changes: &[JournalChange],
    read_state: ReadState<'_>,
) -> Result<UndoPlan, ToolError> {
    let mut planner = Planner {
        plan: UndoPlan::default(),
        disk: SimulatedDisk { known: BTreeMap::new(), moves: Vec::new(), read_state },
        segment: PlanSegment::default(),
    };
    for change in changes {
        for entry in change.entries.iter().rev() {
            planner.revert(entry, &change.tool)?;
        }
    }
    planner.end_segment();
    Ok(planner.plan)
}

struct Planner<'a> {
    plan: UndoPlan,
    disk: SimulatedDisk<'a>,
    segment: PlanSegment,
}

/// The steps between two moves.
#[derive(Default)]
struct PlanSegment {
    files: BTreeMap<PathBuf, FileRestore>,
    made: BTreeMap<PathBuf, (u32, Vec<u64>)>,
    removed: BTreeMap<PathBuf, Vec<u64>>,
}

impl Planner<'_> {
    fn revert(&mut self, entry: &JournalEntry, tool: &str) -> Result<(), ToolError> {
        let now = self.disk.at(&entry.path)?;
        match (&entry.moved_from, &entry.before, &entry.after) {
            (Some(from), ..) => self.move_back(entry, from, &now, tool)?,
            (None, PathState::Missing, PathState::Directory { .. }) => {
                if matches!(now, PathState::Directory { .. }) {
                    let removed = self.segment.removed.entry(entry.path.clone()).or_default();
                    removed.push(entry.id);
                    self.segment.made.remove(&entry.path);
                    self.disk.set(&entry.path, PathState::Missing);
                } else {
                    self.plan.idle.push(entry.id);
                }
            }
            (None, PathState::Directory { mode }, PathState::Missing) => match now {
                PathState::Missing => {
                    let made = (*mode, vec![entry.id]);
                    self.segment.made.insert(entry.path.clone(), made);
                    self.disk.set(&entry.path, entry.before.clone());
                }
                PathState::Directory { .. } => self.plan.idle.push(entry.id),
                _ => self.conflict(entry, format!("is a {} now", now.name())),
            },
            _ => self.restore_before(entry, &now, tool),
        }
        Ok(())
    }

    fn restore_before(&mut self, entry: &JournalEntry, now: &PathState, tool: &str) {
        if matches!(entry.before, PathState::File { hash: None, .. } | PathState::Other) {
            return self.conflict(entry, "was not kept before the change".to_owned());
        }
        if !entry.after.fits(now) {
            if entry.before.fits(now) {
                return self.plan.idle.push(entry.id);
            }
            return self.conflict(entry, difference(now, tool));
        }
        let then = with_mode_of(&entry.before, &entry.after, now);
        let fresh = || FileRestore {
            path: entry.path.clone(),
            now: now.clone(),
            then: PathState::Missing,
            entries: Vec::new(),
        };
        let restore = self.segment.files.entry(entry.path.clone()).or_insert_with(fresh);
        restore.entries.push(entry.id);
        restore.then = then.clone();
        self.disk.set(&entry.path, then);
    }

    fn move_back(
        &mut self,
        entry: &JournalEntry,
        from: &Path,
        now: &PathState,
        tool: &str,
    ) -> Result<(), ToolError> {
        let there = self.disk.at(from)?;
        if *now == PathState::Missing
            && entry.before == PathState::Missing
            && there != PathState::Missing
        {
            self.plan.idle.push(entry.id);
            return Ok(());
        }
        if !entry.after.fits(now) {
            self.conflict(entry, difference(now, tool));
            return Ok(());
        }
        if there != PathState::Missing {
            let why = format!(
                "cannot be moved back to `{}`, which is a {} now",
                from.display(),
                there.name()
            );
            self.conflict(entry, why);
            return Ok(());
        }
        self.end_segment();
        let (path, to) = (entry.path.clone(), from.to_owned());
        self.disk.move_back(&path, &to, now.clone());
        let entries = vec![entry.id];
        self.plan.steps.push(PlanStep::Move { from: path, to, entries });
        if entry.before != PathState::Missing {
            // The file that the move replaced is restored once its path is free.
            let replaced = JournalEntry::new(
                entry.id,
                entry.path.clone(),
                entry.before.clone(),
                PathState::Missing,
            );
            self.restore_before(&replaced, &PathState::Missing, tool);
        }
        Ok(())
    }

    fn conflict(&mut self, entry: &JournalEntry, why: String) {
        let (path, then) = (entry.path.clone(), entry.before.clone());
        self.plan.conflicts.push(UndoConflict { path, why, then });
    }

    /// Turns the segment into steps. Directories are created before their entries and removed after
    /// them. A directory above a restored file needs no step.
    fn end_segment(&mut self) {
        let PlanSegment { files, made, removed } = std::mem::take(&mut self.segment);
        let (idle, restores): (Vec<FileRestore>, Vec<FileRestore>) =
            files.into_values().partition(|restore| restore.now == restore.then);
        self.plan.idle.extend(idle.into_iter().flat_map(|restore| restore.entries));
        let is_filled = |path: &Path| {
            restores
                .iter()
                .any(|restore| restore.then != PathState::Missing && restore.path.starts_with(path))
        };
        // Restoring a file creates the directories above it; the others need their own steps,
        // parents first.
        let (along, alone): (Vec<_>, Vec<_>) = made.iter().partition(|(path, _)| is_filled(path));
        let steps = &mut self.plan.steps;
        steps.extend(alone.into_iter().map(|(path, (_, entries))| PlanStep::MakeDirectory {
            path: path.clone(),
            entries: entries.clone(),
        }));
        let along = along.into_iter().map(|(path, (mode, entries))| FileRestore {
            path: path.clone(),
            now: PathState::Missing,
            then: PathState::Directory { mode: *mode },
            entries: entries.clone(),
        });
        let restores: Vec<FileRestore> =
            along.collect::<Vec<_>>().into_iter().chain(restores).collect();
        if !restores.is_empty() {
            steps.push(PlanStep::RestoreFiles(restores));
        }
        let modes = made.into_iter().rev();
        steps.extend(modes.map(|(path, (mode, _))| PlanStep::SetMode { path, mode }));
        let gone = removed.into_iter().rev();
        steps.extend(gone.map(|(path, entries)| PlanStep::RemoveDirectory { path, entries }));
    }
}

/// Returns the earlier state, with the current permissions if they were changed since.
fn with_mode_of(before: &PathState, after: &PathState, now: &PathState) -> PathState {
    match (before, after, now) {
        (
            PathState::File { hash, size, mode },
            PathState::File { mode: left, .. },
            PathState::File { mode: found, .. },
        ) => {
            let mode = if found == left { *mode } else { *found };
            PathState::File { hash: *hash, size: *size, mode }
        }
        _ => before.clone(),
    }
}

fn difference(now: &PathState, tool: &str) -> String {
    match now {
        PathState::Missing => format!("no longer exists; `{tool}` changed it before"),
        PathState::File { .. } => {
            format!("was changed by another process or tool since `{tool}` changed it")
        }
        other => format!("is a {} now, which `{tool}` did not create", other.name()),
    }
}

/// The state of the disk as it would be after the steps planned so far.
struct SimulatedDisk<'a> {
    known: BTreeMap<PathBuf, PathState>,
    /// The planned moves: the path on the real disk, and the path after the move.
    moves: Vec<(PathBuf, PathBuf)>,
    read_state: ReadState<'a>,
}

impl SimulatedDisk<'_> {
    fn at(&mut self, path: &Path) -> Result<PathState, ToolError> {
        if let Some(known) = self.known.get(path) {
            return Ok(known.clone());
        }
        let state = match self.on_disk(path) {
            Some(real) => (self.read_state)(&real)?,
            None => PathState::Missing,
        };
        self.known.insert(path.to_owned(), state.clone());
        Ok(state)
    }

    /// Returns the real path of a simulated one; `None` when a planned move frees that path.
    fn on_disk(&self, path: &Path) -> Option<PathBuf> {
        let mut path = path.to_owned();
        for (real, would) in self.moves.iter().rev() {
            if let Ok(rest) = path.strip_prefix(would) {
                path = joined(real, rest);
            } else if path.starts_with(real) {
                return None;
            }
        }
        Some(path)
    }

    fn set(&mut self, path: &Path, state: PathState) {
        self.known.insert(path.to_owned(), state);
    }

    fn move_back(&mut self, from: &Path, to: &Path, state: PathState) {
        let below: Vec<PathBuf> =
            self.known.keys().filter(|path| path.starts_with(from)).cloned().collect();
        for path in below {
            let Some(state) = self.known.remove(&path) else { continue };
            if let Ok(rest) = path.strip_prefix(from) {
                self.known.insert(joined(to, rest), state);
            }
        }
        self.known.insert(to.to_owned(), state);
        self.known.insert(from.to_owned(), PathState::Missing);
        self.moves.push((from.to_owned(), to.to_owned()));
    }
}

/// Joins two paths. `Path::join` with an empty path would add a slash at the end.
fn joined(path: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { path.to_owned() } else { path.join(rest) }
}

#[cfg(test)]
mod tests;
