//! Plans for changing several files: the current states and the planned ones.

use std::{path::PathBuf, sync::Arc};

use super::OpenFile;
use crate::{Content, PathState, ToolError};

/// The state of a path before a change.
#[derive(Clone)]
pub enum CurrentState {
    /// Nothing.
    Missing,
    /// A regular file.
    File(Arc<dyn OpenFile>),
    /// A directory.
    Directory,
}

/// A path that may be changed, with its current state.
#[derive(Clone)]
pub struct ChangeTarget {
    /// Relative to the workspace, links resolved: writing to a link changes the file it points to.
    pub path: PathBuf,
    /// The current state.
    pub current: CurrentState,
}

/// Decides the changes of targets from their current states.
pub type PlanChanges<'a> =
    &'a mut dyn FnMut(&[ChangeTarget]) -> Result<Vec<PlannedChange>, ToolError>;

/// The planned change of a target, which is given by its index in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlannedChange {
    /// Writes this content. Mode, owner and attributes stay; a new file takes them from `like`, if
    /// given.
    Put {
        /// Index of the target.
        target: usize,
        /// Its new content.
        bytes: Content,
        /// The target whose attributes a new file copies.
        like: Option<usize>,
    },
    /// Removes the file.
    Remove {
        /// Index of the target.
        target: usize,
    },
}

/// A path to restore to an earlier state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRestore {
    /// The path as the workspace shows it.
    pub path: PathBuf,
    /// The expected current state.
    pub expected: PathState,
    /// The state to restore.
    pub wanted: RestoredState,
}

/// The state to restore at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoredState {
    /// Nothing.
    Missing,
    /// A regular file.
    File {
        /// Its content.
        bytes: Content,
        /// Permission bits.
        mode: u32,
    },
    /// A symbolic link.
    Link {
        /// The target, as written in the link.
        to: PathBuf,
    },
}
