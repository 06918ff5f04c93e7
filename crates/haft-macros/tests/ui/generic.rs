//! Types without a schema.

use haft_core::{Reply, ToolError};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Hello {}

#[tool(description = "hello.txt")]
async fn hello<T>(_input: Hello, _what: impl Into<T>) -> Result<Reply, ToolError>
where
    T: Clone,
{
    Ok(Reply::text("hello"))
}

fn main() {}
