//! A function that returns nothing.

use haft_core::{Progress};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Hello {}

#[tool(description = "hello.txt")]
pub async fn hello(_input: Hello, progress: Progress) {
    progress.output("hello");
}

fn main() {}
