//! The catalogue: one file a tool, one folder a group. Tools here reach the world only through the capabilities in
//! their signatures; `clippy.toml` beside this crate fences off everything else.
//!
//! | group | what for |
//! |---|---|
//! | [`files`] | reading, finding and changing the files of the workspace |
//! | [`shell`] | running programs, and looking after those that run on |
//! | [`web`] | reading pages, talking to services, searching |
//! | [`git`] | looking at a repository, and changing it with care |
//! | [`sessions`] | what is to be done, and who else works here |
//! | [`outputs`] | results that were too long to be shown whole |
//! | [`reference`] | the smallest tool, which the documentation walks through |
//!
//! To add a tool see CONTRIBUTING.md, "Add a tool in five steps".

use haft_core::StaticTool;

pub mod files;
pub mod git;
pub mod outputs;
pub mod reading;
pub mod reference;
pub mod sessions;
pub mod shell;
mod text;
pub mod web;

/// Every group's list, in the order that people and models see.
static GROUPS: &[&[&StaticTool]] = &[
    files::TOOLS,
    shell::TOOLS,
    web::TOOLS,
    git::TOOLS,
    sessions::TOOLS,
    outputs::TOOLS,
    reference::TOOLS,
];

/// Every tool, in order. Builds nothing: schemas are made when a tool is first looked at.
pub fn all() -> impl Iterator<Item = &'static StaticTool> {
    GROUPS.iter().copied().flatten().copied()
}
