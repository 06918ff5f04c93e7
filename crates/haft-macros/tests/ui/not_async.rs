//! A function that is not async.

use haft_core::{Reply, ToolError};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Hello {}

#[tool(description = "hello.txt")]
fn hello(_input: Hello) -> Result<Reply, ToolError> {
    Ok(Reply::text("hello"))
}

fn main() {}
