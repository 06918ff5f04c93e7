//! Texts for models: short, exact, with the next step, and without templates.

use haft::{ErrorKind, Tool};
use serde_json::json;

use super::Setup;

#[test]
fn every_failure_names_the_path_and_says_what_to_do() {
    let setup = Setup::new();
    setup.put("d/text", "one\none\n");
    setup.put("d/binary", b"\0\x01\x02");
    let version = "c0123456789abcdef";
    let line = json!([{"start_line": 9, "end_line": 9, "content": "x"}]);
    let patch = |text: &str| json!({"patch": format!("*** Begin Patch\n{text}*** End Patch\n")});
    for (tool, input, path) in [
        ("read", json!({"path": "d/none"}), "d/none"),
        ("read", json!({"path": "d/text", "offset": 9}), "d/text"),
        ("read", json!({"path": "d", "offset": 9}), "d"),
        ("read", json!({"path": "d/binary"}), "d/binary"),
        ("write", json!({"path": "d", "content": ""}), "d"),
        ("write", json!({"path": "d/text", "content": "", "on_conflict": "error"}), "d/text"),
        ("write", json!({"path": "d/text", "content": "", "expected_version": version}), "d/text"),
        ("write", json!({"path": "d/text", "content": "", "expected_version": "x"}), "d/text"),
        ("write", json!({"path": "d/none", "content": "", "expected_version": version}), "d/none"),
        ("edit", json!({"path": "d/text", "old_string": "one", "new_string": "1"}), "d/text"),
        ("edit", json!({"path": "d/text", "old_string": "zero", "new_string": "1"}), "d/text"),
        ("edit", json!({"path": "d/text", "old_string": "one", "new_string": "one"}), "d/text"),
        ("edit", json!({"path": "d/binary", "old_string": "one", "new_string": "1"}), "d/binary"),
        (
            "edit_lines",
            json!({"path": "d/text", "patches": line, "expected_version": version}),
            "d/text",
        ),
        ("patch", patch("*** Add File: d/text\n+x\n"), "d/text"),
        ("patch", patch("*** Update File: d/text\n@@\n-zero\n+x\n"), "d/text"),
        ("patch", patch("*** Delete File: d/none\n"), "d/none"),
        ("stat", json!({"path": "d/none"}), "d/none"),
        ("move", json!({"from": "d/none", "to": "x"}), "d/none"),
        ("move", json!({"from": "d/text", "to": "d/binary"}), "d/binary"),
        ("delete", json!({"path": "d"}), "d"),
        ("make_directory", json!({"path": "d/text"}), "d/text"),
    ] {
        let outcome = setup.call(tool, input.clone());
        let error = outcome.error.unwrap_or_else(|| panic!("{tool} {input}: {}", outcome.content));
        assert!(error.message.contains(path), "{tool} {input}: {}", error.message);
        let general = [ErrorKind::NotFound, error.kind].map(general_hint);
        assert!(
            !error.hint.is_empty() && !general.contains(&error.hint),
            "{tool} {input}: {}",
            error.hint
        );
        for words in [&error.message, &error.hint] {
            assert!(!words.ends_with('.') && words.len() < 1_000, "{tool} {input}: {words}");
        }
    }
}

/// The default hint of a tool without its own.
fn general_hint(kind: ErrorKind) -> String {
    haft::ToolError::new(kind, "").next_step().to_owned()
}

#[test]
fn descriptions_are_short_and_have_no_holes() {
    let setup = Setup::new();
    for tool in haft::catalogue::files::TOOLS {
        let spec = tool.spec();
        let described =
            setup.gate.workspace_info().describe(spec).expect("every variable has a value");
        assert!(
            !described.contains("${") && described.len() < 2_000,
            "{}: {}",
            spec.name,
            described.len()
        );
    }
}
