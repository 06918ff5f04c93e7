//! Tools on the files of the workspace.

pub mod changes;
pub mod delete;
mod document;
pub mod edit;
pub mod edit_lines;
pub mod glob;
pub mod grep;
mod history;
pub mod list;
pub mod make_directory;
pub(crate) mod media;
pub mod r#move;
mod page;
pub mod patch;
pub mod read;
pub mod redo;
pub mod stat;
pub mod undo;
pub mod write;

use haft_core::StaticTool;

/// The group's tools, in order.
pub static TOOLS: &[&StaticTool] = &[
    &read::TOOL,
    &write::TOOL,
    &edit::TOOL,
    &edit_lines::TOOL,
    &patch::TOOL,
    &list::TOOL,
    &glob::TOOL,
    &grep::TOOL,
    &stat::TOOL,
    &r#move::TOOL,
    &delete::TOOL,
    &make_directory::TOOL,
    &undo::TOOL,
    &redo::TOOL,
    &changes::TOOL,
];
