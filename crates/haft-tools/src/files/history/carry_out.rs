//! Carries out a plan. All contents are read from the journal first. If a step fails, the caller
//! reverts the earlier ones.
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
    plan::{FileRestore, PlanStep, UndoPlan},
};

/// Carries out a plan. Returns notes about paths that were left unchanged.
///
/// # Errors
/// The first failure. `done` has the number of steps carried out before it.
pub(crate) fn carry_out(
    plan: &UndoPlan,
    contents: &Contents,
    write: &WriteFiles,
    done: &mut usize,
) -> Result<Vec<String>, ToolError> {
    let write = write.clone().undoing(undoes(plan));
    let mut notes = Vec::new();
    // Without a point where the call can be cancelled: cancelling would leave half an undo.
    block_in_place(|| {
        for step in &plan.steps {
            notes.extend(carry_out_one(step, contents, &write)?);
            *done += 1;
        }
        Ok(notes)
    })
}

fn carry_out_one(
    step: &PlanStep,
    contents: &Contents,
    write: &WriteFiles,
) -> Result<Option<String>, ToolError> {
    match step {
        PlanStep::RestoreFiles(restores) => restore(restores, contents, write)?,
        PlanStep::Move { from, to, .. } => drop(write.rename(from, to, false)?),
        PlanStep::MakeDirectory { path, .. } => drop(write.make_directory(path)?),
        PlanStep::SetMode { path, mode } => write.set_directory_mode(path, *mode)?,
        PlanStep::RemoveDirectory { path, .. } => return remove_directory(path, write),
    }
    Ok(None)
}

fn restore(
    restores: &[FileRestore],
    contents: &Contents,
    write: &WriteFiles,
) -> Result<(), ToolError> {
    let mut wanted = Vec::with_capacity(restores.len());
    for restore in restores {
        let then = match &restore.then {
            PathState::Missing => RestoredState::Missing,
            PathState::Link { to } => RestoredState::Link { to: to.clone() },
            PathState::File { hash: Some(hash), mode, .. } => RestoredState::File {
                bytes: contents.kept(&restore.path, *hash)?.to_vec().into(),
                mode: *mode,
            },
            // Writing a file creates its directories.
            _ => continue,
        };
        let (path, expected) = (restore.path.clone(), restore.now.clone());
        wanted.push(PathRestore { path, expected, wanted: then });
    }
    if wanted.is_empty() { Ok(()) } else { write.restore(&wanted) }
}

/// Removes a directory if it is empty.
fn remove_directory(path: &Path, write: &WriteFiles) -> Result<Option<String>, ToolError> {
    match write.remove(path, false) {
        Err(error) if error.kind() == ErrorKind::Conflict => {
            Ok(Some(format!("`{}` stays, because it is not empty", path.display())))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        removed => removed.map(|_| None),
    }
}

/// Returns for each path the journal entries that its change undoes.
fn undoes(plan: &UndoPlan) -> HashMap<PathBuf, Vec<u64>> {
    let mut undoes: HashMap<PathBuf, Vec<u64>> = HashMap::new();
    let mut add = |path: &PathBuf, entries: &[u64]| {
        undoes.entry(path.clone()).or_default().extend_from_slice(entries);
    };
    for step in &plan.steps {
        match step {
            PlanStep::RestoreFiles(restores) => {
                restores.iter().for_each(|restore| add(&restore.path, &restore.entries));
            }
            PlanStep::Move { to, entries, .. } => add(to, entries),
            PlanStep::MakeDirectory { path, entries }
            | PlanStep::RemoveDirectory { path, entries } => {
                add(path, entries);
            }
            PlanStep::SetMode { .. } => {}
        }
    }
    undoes
}
