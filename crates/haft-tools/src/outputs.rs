//! Tools on kept outputs: results that were too long to show in full are kept under an id.

pub mod output_read;
pub mod output_search;
mod spans;

use haft_core::StaticTool;

/// The group's tools, in order.
pub static TOOLS: &[&StaticTool] = &[&output_read::TOOL, &output_search::TOOL];
