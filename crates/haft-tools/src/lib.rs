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

use std::sync::Once;

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

/// Every tool, in order. Builds nothing: schemas are made when a tool is first called.
pub fn all() -> impl Iterator<Item = &'static StaticTool> {
    static WRITTEN_DOWN: Once = Once::new();
    WRITTEN_DOWN.call_once(write_down);
    tools()
}

/// The difference between two texts as `diff -u` tells it, shortened to about so many lines. Empty when there is none.
pub fn difference(name: &str, old: &str, new: &str, most_lines: usize) -> String {
    text::diff::shortened(&text::diff::unified(name, old, new).diff, most_lines)
}

fn tools() -> impl Iterator<Item = &'static StaticTool> {
    GROUPS.iter().copied().flatten().copied()
}

/// The lines are in the order of the tools. One that is new and has no line yet does without.
fn write_down() {
    let mut rest = SCHEMAS;
    for tool in tools() {
        let Some((name, after)) = until(b'\t', rest) else { return };
        if name == tool.name()
            && let Some((line, next)) = until(b'\n', after)
        {
            match until(b'\t', line) {
                Some((input, output)) => tool.write_down(input, Some(output)),
                None => tool.write_down(line, None),
            }
            rest = next;
        }
    }
}

/// What is before this sign, and what after it. Not `split_once`, which takes ten times as long, at every start.
fn until(sign: u8, text: &'static str) -> Option<(&'static str, &'static str)> {
    // Not `memchr::memchr`, which asks the processor first what it can do: forty microseconds in a virtual machine.
    let at = memchr::arch::all::memchr::One::new(sign).find(text.as_bytes())?;
    let (before, after) = text.split_at(at);
    Some((before, after.get(1..)?))
}
