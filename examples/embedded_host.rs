//! All of haft in another program: rules, sandbox, undo, ledger and approvals as in the command
//! line.
//!
//!     cargo run --example embedded_host

use haft::{
    CallRequest, ToolError,
    host::{Choices, Host, flush},
};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), ToolError> {
    let folder = tempfile::tempdir().map_err(|error| ToolError::internal(error.to_string()))?;
    let choices = Choices { workspace: Some(folder.path().to_owned()), ..Choices::default() };
    let host = Host::open(&choices)?;
    let gate = host.gate().build();
    for (tool, input) in [
        ("write", json!({"path": "tea.txt", "content": "oolong\n"})),
        ("read", json!({"path": "tea.txt"})),
        ("undo", json!({})),
    ] {
        let outcome = gate.call(CallRequest::new(tool, input, host.context("example"))).await;
        assert!(outcome.is_ok(), "{}", outcome.content);
        print(&outcome.content).map_err(|error| ToolError::internal(error.to_string()))?;
    }
    assert!(!folder.path().join("tea.txt").exists(), "the write was not undone");
    flush()
}

fn print(line: &str) -> std::io::Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout(), "{line}")
}
