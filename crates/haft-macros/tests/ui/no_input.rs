//! Functions without an input.

use haft_core::{Reply, ToolError};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Hello {}

#[tool(description = "hello.txt")]
async fn hello() -> Result<Reply, ToolError> {
    Ok(Reply::text("hello"))
}

impl Hello {
    #[tool(description = "hello.txt")]
    async fn hello(&self) -> Result<Reply, ToolError> {
        Ok(Reply::text("hello"))
    }
}

fn main() {}
