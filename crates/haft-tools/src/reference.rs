//! The reference tool: an example to copy.

pub mod hello;

use haft_core::StaticTool;

/// The group's tools, in order.
pub static TOOLS: &[&StaticTool] = &[&hello::TOOL];
