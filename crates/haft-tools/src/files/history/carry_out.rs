//! Doing what a plan says. Everything is read from the journal first; if a later step fails, the earlier ones are taken back.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use haft_core::{
    ErrorKind, PathState, ToolError, WriteFiles, block_in_place,
    files::{PathRestore, RestoredState},
};

use super::{
    contents::Contents,
    plan::{Deed, Plan, Step},
};

/// Does what the plan says; returns what was left as it is, and why.
///
/// # Errors
/// The first failure. Whether something was done before it tells `done`.
pub(crate) fn carry_out(
    plan: &Plan,
    contents: &Contents,
    write: &WriteFiles,
    done: &mut usize,
) -> Result<Vec<String>, ToolError> {
    let write = write.clone().undoing(undoes(plan));
    let mut notes = Vec::new();
    // In one piece: a call-off between two deeds would leave half an undo.
    block_in_place(|| {
        for deed in &plan.deeds {
            notes.extend(carry_out_one(deed, contents, &write)?);
            *done += 1;
        }
        Ok(notes)
    })
}

fn carry_out_one(
    deed: &Deed,
    contents: &Contents,
    write: &WriteFiles,
) -> Result<Option<String>, ToolError> {
    match deed {
        Deed::Files(steps) => restore(steps, contents, write)?,
        Deed::Move { from, to, .. } => drop(write.rename(from, to, false)?),
        Deed::MakeDirectory { path, .. } => drop(write.make_directory(path)?),
        Deed::SetMode { path, mode } => write.set_directory_mode(path, *mode)?,
        Deed::RemoveDirectory { path, .. } => return remove_directory(path, write),
    }
    Ok(None)
}

fn restore(steps: &[Step], contents: &Contents, write: &WriteFiles) -> Result<(), ToolError> {
    let mut wanted = Vec::with_capacity(steps.len());
    for step in steps {
        let then = match &step.then {
            PathState::Missing => RestoredState::Missing,
            PathState::Link { to } => RestoredState::Link { to: to.clone() },
            PathState::File { hash: Some(hash), mode, .. } => RestoredState::File {
                bytes: contents.kept(&step.path, *hash)?.to_vec().into(),
                mode: *mode,
            },
            // Those above a file come with it.
            _ => continue,
        };
        let (path, expected) = (step.path.clone(), step.now.clone());
        wanted.push(PathRestore { path, expected, wanted: then });
    }
    if wanted.is_empty() { Ok(()) } else { write.restore(&wanted) }
}

/// What somebody put into it since keeps it.
fn remove_directory(path: &Path, write: &WriteFiles) -> Result<Option<String>, ToolError> {
    match write.remove(path, false) {
        Err(error) if error.kind() == ErrorKind::Conflict => {
            Ok(Some(format!("`{}` stays, because something is in it", path.display())))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        removed => removed.map(|_| None),
    }
}

/// Which entries a change of a path takes back.
fn undoes(plan: &Plan) -> HashMap<PathBuf, Vec<u64>> {
    let mut undoes: HashMap<PathBuf, Vec<u64>> = HashMap::new();
    let mut add = |path: &PathBuf, entries: &[u64]| {
        undoes.entry(path.clone()).or_default().extend_from_slice(entries);
    };
    for deed in &plan.deeds {
        match deed {
            Deed::Files(steps) => steps.iter().for_each(|step| add(&step.path, &step.entries)),
            Deed::Move { to, entries, .. } => add(to, entries),
            Deed::MakeDirectory { path, entries } | Deed::RemoveDirectory { path, entries } => {
                add(path, entries);
            }
            Deed::SetMode { .. } => {}
        }
    }
    undoes
}
