//! Tools that run programs.

pub mod bash;
mod pieces;
pub mod process;
mod report;

use haft_core::StaticTool;

/// The group's tools, in order.
pub static TOOLS: &[&StaticTool] = &[&bash::TOOL, &process::TOOL];
