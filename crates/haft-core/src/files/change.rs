//! A change of several files as a plan: what is there, and what is to become of it.

use std::{path::PathBuf, sync::Arc};

use super::OpenFile;
use crate::{Content, PathState, ToolError};

/// What has a path before a change.
#[derive(Clone)]
pub enum CurrentState {
    /// Nothing.
    Missing,
    /// A regular file.
    File(Arc<dyn OpenFile>),
    /// A directory.
    Directory,
}

/// A path that may be changed, and what is there now.
#[derive(Clone)]
pub struct ChangeTarget {
    /// Relative to the workspace, links resolved: a link is written through, to the file it leads to.
    pub path: PathBuf,
    /// What is there.
    pub current: CurrentState,
}

/// Says what is to become of targets, after seeing what is there.
pub type PlanChanges<'a> =
    &'a mut dyn FnMut(&[ChangeTarget]) -> Result<Vec<PlannedChange>, ToolError>;

/// What is to become of a target, by its place in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlannedChange {
    /// It gets this content. Mode, owner and attributes stay; a new file takes them from `like`, if given.
    Put {
        /// Which target.
        target: usize,
        /// Its new content.
        bytes: Content,
        /// The target that a new file takes after.
        like: Option<usize>,
    },
    /// The file goes.
    Remove {
        /// Which target.
        target: usize,
    },
}

/// One path that is to be brought to an earlier state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRestore {
    /// As the workspace shows it.
    pub path: PathBuf,
    /// What must be there now.
    pub expected: PathState,
    /// What is to be there.
    pub wanted: RestoredState,
}

/// What is to be at a path.
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
        /// Where it points, as it is written in the link.
        to: PathBuf,
    },
}
