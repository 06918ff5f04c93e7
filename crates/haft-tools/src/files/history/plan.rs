//! What taking changes back means: walked through in thought from the newest to the oldest, against what is on the disk now.
//! Steps on one file become one; what somebody else changed since is a conflict, and then nothing is done.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use haft_core::{JournalChange, JournalEntry, PathState, ToolError};

/// Tells what has a path now.
pub(crate) type Look<'a> = &'a mut dyn FnMut(&Path) -> Result<PathState, ToolError>;

/// What is to be done, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) deeds: Vec<Deed>,
    /// Entries that are as before already.
    pub(crate) idle: Vec<u64>,
    pub(crate) conflicts: Vec<Conflict>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Files and links, together.
    Files(Vec<Step>),
    /// Something goes back to where it came from.
    Move {
        from: PathBuf,
        to: PathBuf,
        entries: Vec<u64>,
    },
    /// A directory that nothing else would bring back.
    MakeDirectory {
        path: PathBuf,
        entries: Vec<u64>,
    },
    SetMode {
        path: PathBuf,
        mode: u32,
    },
    /// A directory that was made; it stays if something is in it.
    RemoveDirectory {
        path: PathBuf,
        entries: Vec<u64>,
    },
}

/// One file or link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) path: PathBuf,
    pub(crate) now: PathState,
    pub(crate) then: PathState,
    /// What it takes back.
    pub(crate) entries: Vec<u64>,
}

/// Why something cannot be taken back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) path: PathBuf,
    pub(crate) why: String,
    /// What undo would have put there.
    pub(crate) then: PathState,
}

/// Works out what to do. The changes come newest first.
pub(crate) fn plan(changes: &[JournalChange], look: Look<'_>) -> Result<Plan, ToolError> {
    let mut planner = Planner {
        plan: Plan::default(),
        thought: Thought { known: BTreeMap::new(), moves: Vec::new(), look },
        part: Part::default(),
    };
    for change in changes {
        for entry in change.entries.iter().rev() {
            planner.take_back(entry, &change.tool)?;
        }
    }
    planner.end_part();
    Ok(planner.plan)
}

struct Planner<'a> {
    plan: Plan,
    thought: Thought<'a>,
    part: Part,
}

/// What is done between two moves.
#[derive(Default)]
struct Part {
    files: BTreeMap<PathBuf, Step>,
    made: BTreeMap<PathBuf, (u32, Vec<u64>)>,
    removed: BTreeMap<PathBuf, Vec<u64>>,
}

impl Planner<'_> {
    fn take_back(&mut self, entry: &JournalEntry, tool: &str) -> Result<(), ToolError> {
        let now = self.thought.at(&entry.path)?;
        match (&entry.moved_from, &entry.before, &entry.after) {
            (Some(from), ..) => self.move_back(entry, from, &now, tool)?,
            (None, PathState::Missing, PathState::Directory { .. }) => {
                if matches!(now, PathState::Directory { .. }) {
                    self.part.removed.entry(entry.path.clone()).or_default().push(entry.id);
                    self.part.made.remove(&entry.path);
                    self.thought.set(&entry.path, PathState::Missing);
                } else {
                    self.plan.idle.push(entry.id);
                }
            }
            (None, PathState::Directory { mode }, PathState::Missing) => match now {
                PathState::Missing => {
                    let made = (*mode, vec![entry.id]);
                    self.part.made.insert(entry.path.clone(), made);
                    self.thought.set(&entry.path, entry.before.clone());
                }
                PathState::Directory { .. } => self.plan.idle.push(entry.id),
                _ => self.conflict(entry, format!("is a {} now", now.name())),
            },
            _ => self.put_back(entry, &now, tool),
        }
        Ok(())
    }

    fn put_back(&mut self, entry: &JournalEntry, now: &PathState, tool: &str) {
        if matches!(entry.before, PathState::File { hash: None, .. } | PathState::Other) {
            return self.conflict(entry, "went without being kept".to_owned());
        }
        if !entry.after.fits(now) {
            if entry.before.fits(now) {
                return self.plan.idle.push(entry.id);
            }
            return self.conflict(entry, difference(now, tool));
        }
        let then = with_mode_of(&entry.before, &entry.after, now);
        let fresh = || Step {
            path: entry.path.clone(),
            now: now.clone(),
            then: PathState::Missing,
            entries: Vec::new(),
        };
        let step = self.part.files.entry(entry.path.clone()).or_insert_with(fresh);
        step.entries.push(entry.id);
        step.then = then.clone();
        self.thought.set(&entry.path, then);
    }

    fn move_back(
        &mut self,
        entry: &JournalEntry,
        from: &Path,
        now: &PathState,
        tool: &str,
    ) -> Result<(), ToolError> {
        let there = self.thought.at(from)?;
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
                "cannot go back to `{}`, where there is a {}",
                from.display(),
                there.name()
            );
            self.conflict(entry, why);
            return Ok(());
        }
        self.end_part();
        let (path, to) = (entry.path.clone(), from.to_owned());
        self.thought.move_back(&path, &to, now.clone());
        let entries = vec![entry.id];
        self.plan.deeds.push(Deed::Move { from: path, to, entries });
        if entry.before != PathState::Missing {
            // What was replaced comes back when its place is free.
            let replaced = JournalEntry::new(
                entry.id,
                entry.path.clone(),
                entry.before.clone(),
                PathState::Missing,
            );
            self.put_back(&replaced, &PathState::Missing, tool);
        }
        Ok(())
    }

    fn conflict(&mut self, entry: &JournalEntry, why: String) {
        let (path, then) = (entry.path.clone(), entry.before.clone());
        self.plan.conflicts.push(Conflict { path, why, then });
    }

    /// Directories come before what lies in them and go after it; those above a file that comes back need no word.
    fn end_part(&mut self) {
        let Part { files, made, removed } = std::mem::take(&mut self.part);
        let (idle, steps): (Vec<Step>, Vec<Step>) =
            files.into_values().partition(|step| step.now == step.then);
        self.plan.idle.extend(idle.into_iter().flat_map(|step| step.entries));
        let is_filled = |path: &Path| {
            steps.iter().any(|step| step.then != PathState::Missing && step.path.starts_with(path))
        };
        // Directories above a file come with it, in the same change; the others are made by themselves, upper ones first.
        let (along, alone): (Vec<_>, Vec<_>) = made.iter().partition(|(path, _)| is_filled(path));
        let deeds = &mut self.plan.deeds;
        deeds.extend(alone.into_iter().map(|(path, (_, entries))| Deed::MakeDirectory {
            path: path.clone(),
            entries: entries.clone(),
        }));
        let along = along.into_iter().map(|(path, (mode, entries))| Step {
            path: path.clone(),
            now: PathState::Missing,
            then: PathState::Directory { mode: *mode },
            entries: entries.clone(),
        });
        let steps: Vec<Step> = along.collect::<Vec<_>>().into_iter().chain(steps).collect();
        if !steps.is_empty() {
            deeds.push(Deed::Files(steps));
        }
        let modes = made.into_iter().rev();
        deeds.extend(modes.map(|(path, (mode, _))| Deed::SetMode { path, mode }));
        let gone = removed.into_iter().rev();
        deeds.extend(gone.map(|(path, entries)| Deed::RemoveDirectory { path, entries }));
    }
}

/// Permissions that somebody changed since are kept.
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
        PathState::Missing => format!("is gone since `{tool}` changed it"),
        PathState::File { .. } => format!("was changed by somebody else since `{tool}` changed it"),
        other => format!("is a {} now, which `{tool}` did not make", other.name()),
    }
}

/// The files as they would be by now.
struct Thought<'a> {
    known: BTreeMap<PathBuf, PathState>,
    /// What moved back so far: where it is on the disk, and where it would be.
    moves: Vec<(PathBuf, PathBuf)>,
    look: Look<'a>,
}

impl Thought<'_> {
    fn at(&mut self, path: &Path) -> Result<PathState, ToolError> {
        if let Some(known) = self.known.get(path) {
            return Ok(known.clone());
        }
        let image = match self.on_disk(path) {
            Some(real) => (self.look)(&real)?,
            None => PathState::Missing,
        };
        self.known.insert(path.to_owned(), image.clone());
        Ok(image)
    }

    /// Where what would be at a path is now; none when it would have moved away.
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

    fn set(&mut self, path: &Path, image: PathState) {
        self.known.insert(path.to_owned(), image);
    }

    fn move_back(&mut self, from: &Path, to: &Path, image: PathState) {
        let below: Vec<PathBuf> =
            self.known.keys().filter(|path| path.starts_with(from)).cloned().collect();
        for path in below {
            let Some(image) = self.known.remove(&path) else { continue };
            if let Ok(rest) = path.strip_prefix(from) {
                self.known.insert(joined(to, rest), image);
            }
        }
        self.known.insert(to.to_owned(), image);
        self.known.insert(from.to_owned(), PathState::Missing);
        self.moves.push((from.to_owned(), to.to_owned()));
    }
}

/// `join` with nothing would leave a slash at the end.
fn joined(path: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { path.to_owned() } else { path.join(rest) }
}

#[cfg(test)]
mod tests;
