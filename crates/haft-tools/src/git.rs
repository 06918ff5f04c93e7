//! Tools on git repositories. Each runs the git program with arguments built from the input alone,
//! so that policy judges exactly what runs. No shell, no pager, no editor; a read-only call runs
//! nothing from the repository's configuration.

mod command;
mod commits;
mod display;
mod failure;
pub mod git_blame;
pub mod git_branch;
pub mod git_commit;
pub mod git_diff;
pub mod git_log;
pub mod git_push;
pub mod git_show;
pub mod git_status;
pub mod git_worktree;
mod names;
mod patches;

use haft_core::StaticTool;

pub use self::{
    commits::{Author, Commit},
    patches::{FileDiff, FileDiffs},
};

/// The group's tools, in order.
pub static TOOLS: &[&StaticTool] = &[
    &git_status::TOOL,
    &git_diff::TOOL,
    &git_log::TOOL,
    &git_show::TOOL,
    &git_blame::TOOL,
    &git_commit::TOOL,
    &git_branch::TOOL,
    &git_worktree::TOOL,
    &git_push::TOOL,
];
