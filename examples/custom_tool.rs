//! A custom tool: one function and one text file; haft adds validation, policy, approval, limits
//! and errors.
//!
//!     cargo run --example custom_tool

use haft::{CallRequest, Context, Gate, Output, Progress, Registry, ToolError, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The input of the tool. Models and `--help` show the doc comments.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CountWords {
    /// The text to count.
    text: String,
    /// Ignore words shorter than this.
    #[serde(default)]
    #[schemars(range(max = 50))]
    min_length: usize,
}

/// The output: typed for programs, and as text for models.
#[derive(Serialize, JsonSchema)]
struct WordCount {
    words: usize,
}

impl Output for WordCount {
    fn text(&self) -> String {
        format!("{} words", self.words)
    }
}

#[tool(title = "Count words", idempotent)]
async fn count_words(input: CountWords, progress: Progress) -> Result<WordCount, ToolError> {
    progress.step(0.0, Some(1.0), "counting");
    let is_long_enough = |word: &&str| word.chars().count() >= input.min_length;
    Ok(WordCount { words: input.text.split_whitespace().filter(is_long_enough).count() })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let registry = Registry::default();
    registry.register(&TOOL)?;
    let gate = Gate::builder(registry).build();

    // Small errors of a model are repaired and reported: here another spelling of the field, and a
    // number in quotes.
    let input = json!({"text": "the handle of a tool", "minLength": "4"});
    let outcome = gate.call(CallRequest::new("count_words", input, Context::new("demo"))).await;
    assert_eq!(outcome.content, "2 words");
    assert_eq!(outcome.repairs.len(), 2);
    show(&outcome)?;

    // Input that cannot be repaired is refused with an explanation.
    let input = json!({"txt": "the handle of a tool"});
    let outcome = gate.call(CallRequest::new("count_words", input, Context::new("demo"))).await;
    assert_eq!(outcome.exit_code(), 2);
    show(&outcome)
}

fn show(outcome: &haft::Outcome) -> Result<(), Box<dyn std::error::Error>> {
    use std::io::Write;
    writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(outcome)?)?;
    Ok(())
}
