//! A result that has no text for models.

use haft_core::ToolError;
use haft_macros::tool;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Hello {}

#[tool(description = "hello.txt")]
async fn hello(_input: Hello) -> Result<Vec<u8>, ToolError> {
    Ok(Vec::new())
}

#[tool(description = "hello.txt", static = PLAIN)]
async fn plain(_input: Hello) -> String {
    String::new()
}

fn main() {}
