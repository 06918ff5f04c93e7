//! Tools that run programs.

pub mod bash;
pub mod process;
mod report;
mod unfinished_lines;

use haft_core::StaticTool;

/// The group's tools, in order.
pub static TOOLS: &[&StaticTool] = &[&bash::TOOL, &process::TOOL];
