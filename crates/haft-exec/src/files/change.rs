//! Changing files, all or nothing. The new content is written and synced aside, what is there is looked at once more,
//! and only then names change hands, by rename. A reader, a crash and another process see the old file or the new one.
//!
//! Nobody else's haft is in the way: the directories are locked while a change is planned and made.

mod area;
mod attributes;
mod commit;
mod descend;
mod directories;
mod hold;
mod images;
mod journal;
mod paths;
mod record;
mod stage;

use std::{collections::HashSet, path::PathBuf};

use haft_core::{
    ToolError,
    files::{
        ChangeTarget, CurrentState, FileGrant, PathRestore, PlanChanges, PlannedChange,
        RestoredState, is_directory,
    },
};

pub(crate) use self::{
    area::sweep,
    images::image,
    paths::{make_directory, remove, rename},
};
use self::{
    commit::{Deed, commit},
    hold::Held,
};
use crate::files::{locate::LastLink, workspace::Workspace};

pub(crate) fn change(
    workspace: &Workspace,
    paths: &[PathBuf],
    grant: &FileGrant,
    plan: PlanChanges<'_>,
) -> Result<(), ToolError> {
    let held = Held::take(workspace, paths, LastLink::Follow, grant)?;
    let targets = held.targets();
    let changes = plan(&targets)?;
    let mut changed = HashSet::new();
    for change in &changes {
        if !changed.insert(check(change, &targets)?) {
            return Err(ToolError::internal("a plan says twice what is to become of a target"));
        }
    }
    let deeds: Vec<(usize, Deed<'_>)> = changes.iter().map(deed).collect();
    commit(&held, &deeds)
}

fn deed(change: &PlannedChange) -> (usize, Deed<'_>) {
    match change {
        PlannedChange::Put { target, bytes, like } => {
            (*target, Deed::Put { bytes, like: *like, mode: None })
        }
        PlannedChange::Remove { target } => (*target, Deed::Remove),
    }
}

pub(crate) fn restore(
    workspace: &Workspace,
    steps: &[PathRestore],
    grant: &FileGrant,
) -> Result<(), ToolError> {
    let paths: Vec<PathBuf> = steps.iter().map(|step| step.path.clone()).collect();
    let held = Held::take(workspace, &paths, LastLink::Keep, grant)?;
    let mut deeds = Vec::with_capacity(steps.len());
    for (number, step) in steps.iter().enumerate() {
        let found = images::of_found(&held.found[number])?;
        if !step.expected.fits(&found) {
            return Err(hold::changed_meanwhile(&step.path));
        }
        let deed = match &step.wanted {
            RestoredState::Missing => Deed::Remove,
            RestoredState::File { bytes, mode } => {
                Deed::Put { bytes, like: None, mode: Some(*mode) }
            }
            RestoredState::Link { to } => Deed::Link { to },
        };
        deeds.push((number, deed));
    }
    commit(&held, &deeds)
}

/// Which target a change is about, if it can be made at all.
fn check(change: &PlannedChange, targets: &[ChangeTarget]) -> Result<usize, ToolError> {
    let (PlannedChange::Put { target: number, .. } | PlannedChange::Remove { target: number }) =
        *change;
    let known = |number: usize| {
        let none = || ToolError::internal(format!("a plan names target {number}, which is none"));
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
