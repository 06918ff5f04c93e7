//! Changes files, all or nothing. The new content is written and synced under another name, the
//! target is verified once more, and only then are names replaced, by rename. A reader, a crash and
//! another process see either the old file or the new one.
//!
//! Other haft processes cannot interfere: the directories are locked while a change is planned and
//! made.

mod attributes;
mod commit;
mod descend;
mod directories;
mod journal;
mod path_states;
mod paths;
mod record;
mod stage;
mod staging_area;
mod targets;

use std::{collections::HashSet, path::PathBuf};

use haft_core::{
    ToolError,
    files::{
        ChangeTarget, CurrentState, FileGrant, PathRestore, PlanChanges, PlannedChange,
        RestoredState, is_directory,
    },
};

use self::{
    commit::{TargetChange, commit},
    targets::LockedTargets,
};
pub(crate) use self::{
    path_states::path_state,
    paths::{make_directory, remove, rename},
    staging_area::sweep,
};
use crate::files::{locate::LastLink, workspace::Workspace};

pub(crate) fn change(
    workspace: &Workspace,
    paths: &[PathBuf],
    grant: &FileGrant,
    plan: PlanChanges<'_>,
) -> Result<(), ToolError> {
    let locked = LockedTargets::lock(workspace, paths, LastLink::Follow, grant)?;
    let targets = locked.targets();
    let changes = plan(&targets)?;
    let mut changed = HashSet::new();
    for change in &changes {
        if !changed.insert(check(change, &targets)?) {
            return Err(ToolError::internal("a plan changes one target twice"));
        }
    }
    let target_changes: Vec<(usize, TargetChange<'_>)> =
        changes.iter().map(target_change).collect();
    commit(&locked, &target_changes)
}

fn target_change(change: &PlannedChange) -> (usize, TargetChange<'_>) {
    match change {
        PlannedChange::Put { target, bytes, like } => {
            (*target, TargetChange::Put { bytes, like: *like, mode: None })
        }
        PlannedChange::Remove { target } => (*target, TargetChange::Remove),
    }
}

pub(crate) fn restore(
    workspace: &Workspace,
    steps: &[PathRestore],
    grant: &FileGrant,
) -> Result<(), ToolError> {
    let paths: Vec<PathBuf> = steps.iter().map(|step| step.path.clone()).collect();
    let locked = LockedTargets::lock(workspace, &paths, LastLink::Keep, grant)?;
    let mut target_changes = Vec::with_capacity(steps.len());
    for (number, step) in steps.iter().enumerate() {
        let found = path_states::of_found(&locked.found[number])?;
        if !step.expected.fits(&found) {
            return Err(targets::changed_concurrently(&step.path));
        }
        let target_change = match &step.wanted {
            RestoredState::Missing => TargetChange::Remove,
            RestoredState::File { bytes, mode } => {
                TargetChange::Put { bytes, like: None, mode: Some(*mode) }
            }
            RestoredState::Link { to } => TargetChange::Link { to },
        };
        target_changes.push((number, target_change));
    }
    commit(&locked, &target_changes)
}

/// Returns the number of the target that a change concerns, if the change is possible.
fn check(change: &PlannedChange, targets: &[ChangeTarget]) -> Result<usize, ToolError> {
    let (PlannedChange::Put { target: number, .. } | PlannedChange::Remove { target: number }) =
        *change;
    let known = |number: usize| {
        let none =
            || ToolError::internal(format!("a plan names target {number}, which does not exist"));
        targets.get(number).ok_or_else(none)
    };
    let target = known(number)?;
    if let PlannedChange::Put { like: Some(like), .. } = change {
        known(*like)?;
    }
    match (&target.current, change) {
        (CurrentState::Directory, _) => Err(is_directory(&target.path)),
        (CurrentState::Missing, PlannedChange::Remove { .. }) => {
            Err(ToolError::not_found(format!("there is no `{}`", target.path.display())))
        }
        _ => Ok(number),
    }
}
