//! An input without a schema.

use haft_core::{Access, Reply, ToolError};
use haft_macros::tool;
use serde::Deserialize;

#[derive(Deserialize)]
struct Hello {
    path: std::path::PathBuf,
}

#[tool(description = "hello.txt", access = |input| vec![Access::Read(input.path.clone())])]
async fn hello(_input: Hello) -> Result<Reply, ToolError> {
    Ok(Reply::text("hello"))
}

fn main() {}
