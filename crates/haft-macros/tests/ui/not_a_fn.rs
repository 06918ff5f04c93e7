//! The attribute on another item.

use haft_core::{Reply};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Hello {}

#[tool(title = "Say hello")]
pub struct Tool {
    reply: Reply,
}

fn main() {}
