//! All invalid keys and values at once.

use haft_core::{Reply, ToolError};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Hello {}

#[tool(
    titel = "Say hello",
    destructive,
    colour = "red",
    description = hello,
    effect = delete,
    idempotent = true,
    deadline = "30",
    terminal,
    terminal,
)]
async fn hello(_input: Hello) -> Result<Reply, ToolError> {
    Ok(Reply::text("hello"))
}

#[tool(description = "hello.txt", name = "Say Hello")]
async fn greet(_input: Hello) -> Result<Reply, ToolError> {
    Ok(Reply::text("hello"))
}

fn main() {}
