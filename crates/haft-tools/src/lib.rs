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

/// The schemas of all tools as they are announced, one tool a line: name, input, output. `cargo xtask docs` writes it; making
/// them from their types takes most of a millisecond, and a client waits for them at every start.
const SCHEMAS: &str = include_str!("schemas.txt");

/// The tools of all groups, with the texts of their schemas.
static TOOLS: LazyLock<Vec<StaticTool>> = LazyLock::new(|| {
    let texts: HashMap<&str, &str> =
        SCHEMAS.lines().filter_map(|line| line.split_once('\t')).collect();
    // A new tool has no line yet.
    let texts_of = |tool: &StaticTool| {
        texts.get(tool.name()).map(|line| match line.split_once('\t') {
            Some((input, output)) => (input, Some(output)),
            None => (*line, None),
        })
    };
    let tools = GROUPS.iter().copied().flatten();
    tools.map(|tool| tool.with_schema_texts(texts_of(tool))).collect()
});

/// Every tool, in order. Builds nothing: schemas are made when a tool is first called.
pub fn all() -> impl Iterator<Item = &'static StaticTool> {
    TOOLS.iter()
}

/// The difference between two texts as `diff -u` tells it, shortened to about so many lines. Empty when there is none.
pub fn difference(name: &str, old: &str, new: &str, most_lines: usize) -> String {
    text::diff::shortened(&text::diff::unified(name, old, new).diff, most_lines)
}
