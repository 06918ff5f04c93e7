//! The tool catalogue: one file per tool, one folder per group. Tools reach the outside only
//! through the capabilities in their signatures; `clippy.toml` in this crate bans everything else.
//!
//! | group | purpose |
//! |---|---|
//! | [`files`] | read, find and change the files of the workspace |
//! | [`shell`] | run programs, and manage those that keep running |
//! | [`web`] | read pages, call services, search |
//! | [`git`] | inspect a repository, and change it with care |
//! | [`sessions`] | todo lists, and the other sessions of the workspace |
//! | [`outputs`] | results that were too long to show in full |
//! | [`reference`] | the smallest tool, an example for the documentation |
//!
//! To add a tool see CONTRIBUTING.md, "Add a tool in five steps".

use std::{collections::HashMap, sync::LazyLock};

use haft_core::{StaticTool, Tool as _};

pub mod files;
pub mod git;
pub mod outputs;
pub mod reference;
pub mod sessions;
pub mod shell;
mod text;
pub mod web;

/// The tools of every group, in the order that people and models see.
static GROUPS: &[&[&StaticTool]] = &[
    files::TOOLS,
    shell::TOOLS,
    web::TOOLS,
    git::TOOLS,
    sessions::TOOLS,
    outputs::TOOLS,
    reference::TOOLS,
];

/// The schemas of all tools as they are announced, one tool a line: name, input, output.
/// `cargo xtask docs` writes the file. Building the schemas from their types takes most of a
/// millisecond, and a client waits for them at every start.
const SCHEMAS: &str = include_str!("schemas.txt");

/// The tools of all groups, with their schema texts.
static TOOLS: LazyLock<Vec<StaticTool>> = LazyLock::new(|| {
    let texts: HashMap<&str, &str> =
        SCHEMAS.lines().filter_map(|line| line.split_once('\t')).collect();
    // A new tool has no line until `cargo xtask docs` runs.
    let texts_of = |tool: &StaticTool| {
        texts.get(tool.name()).map(|line| match line.split_once('\t') {
            Some((input, output)) => (input, Some(output)),
            None => (*line, None),
        })
    };
    let tools = GROUPS.iter().copied().flatten();
    tools.map(|tool| tool.with_schema_texts(texts_of(tool))).collect()
});

/// Returns every tool, in order. Builds no schema: a schema is built when its tool is first called.
pub fn all() -> impl Iterator<Item = &'static StaticTool> {
    TOOLS.iter()
}

/// Returns the difference between two texts as `diff -u` prints it, truncated to about `max_lines`
/// lines. Empty when the texts are equal.
pub fn difference(name: &str, old: &str, new: &str, max_lines: usize) -> String {
    text::diff::shortened(&text::diff::unified(name, old, new).diff, max_lines)
}
