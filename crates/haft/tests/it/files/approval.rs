//! The diff that an approver sees, and that nothing changes before approval or after denial.

use haft::{ErrorKind, Preview};
use serde_json::{Value, json};

use super::{Setup, TestApprover};

fn make_files(setup: &Setup) {
    setup.put("a", "one\ntwo\nthree\n");
    setup.put("b", "bye\n");
}

const CHANGE: &str = "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n";

/// Calls that change files, and the diffs for the approver.
fn changes(setup: &Setup) -> Vec<(&'static str, Value, String)> {
    let version = setup.version("a");
    let patches = json!([{"start_line": 2, "end_line": 2, "content": "2"}]);
    let new = "--- a/new\n+++ b/new\n@@ -0,0 +1 @@\n+x\n";
    let gone = "--- a/b\n+++ b/b\n@@ -1 +0,0 @@\n-bye\n";
    let envelope = "*** Begin Patch\n*** Update File: a\n@@\n-two\n+2\n*** Add File: new\n+x\n*** Delete File: b\n*** End Patch\n";
    let moved =
        "*** Begin Patch\n*** Update File: a\n*** Move to: d/c\n@@\n-two\n+2\n*** End Patch\n";
    vec![
        ("write", json!({"path": "a", "content": "one\n2\nthree\n"}), CHANGE.to_owned()),
        ("write", json!({"path": "new", "content": "x\n"}), new.to_owned()),
        ("edit", json!({"path": "a", "old_string": "two", "new_string": "2"}), CHANGE.to_owned()),
        (
            "edit_lines",
            json!({"path": "a", "patches": patches, "expected_version": version}),
            CHANGE.to_owned(),
        ),
        ("patch", json!({"patch": envelope}), format!("{CHANGE}{new}{gone}")),
        ("patch", json!({"patch": moved}), format!("rename from a\nrename to d/c\n{CHANGE}")),
    ]
}

#[test]
fn the_change_is_shown_before_and_made_after_a_yes() {
    let person = TestApprover::who_says(true);
    for number in 0..6 {
        let setup = Setup::asking(&person);
        make_files(&setup);
        let before = setup.tree();
        let (tool, input, diff) = changes(&setup).swap_remove(number);
        setup.ok(tool, input);
        let (request, seen) = person.last();
        assert_eq!(request.preview, Preview::Diff(diff), "{tool}");
        assert!(before == seen, "{tool} changed something before the yes");
        assert!(before != setup.tree(), "{tool} changed nothing after the yes");
    }
}

#[test]
fn a_no_leaves_everything_as_it_is() {
    let person = TestApprover::who_says(false);
    let setup = Setup::asking(&person);
    make_files(&setup);
    let before = setup.tree();
    let mut calls = changes(&setup);
    calls.push(("delete", json!({"path": "b"}), String::new()));
    calls.push(("move", json!({"from": "a", "to": "c"}), String::new()));
    calls.push(("make_directory", json!({"path": "d"}), String::new()));
    for (tool, input, _) in calls {
        let outcome = setup.call(tool, input);
        let error = outcome.error.unwrap_or_else(|| panic!("{tool}: {}", outcome.content));
        assert_eq!(error.kind, ErrorKind::ApprovalDenied, "{tool}");
        assert!(before == setup.tree(), "{tool} changed something after a no");
    }
}

#[test]
fn a_move_alone_and_the_end_of_a_binary_file_are_shown_too() {
    let person = TestApprover::who_says(true);
    let setup = Setup::asking(&person);
    make_files(&setup);
    setup.put("thing", b"\0\x01");
    let rename = "diff --git a/a b/c\nsimilarity index 100%\nrename from a\nrename to c\n";
    setup.ok("patch", json!({"patch": rename}));
    assert_eq!(person.last().0.preview, Preview::Diff("rename from a\nrename to c\n".to_owned()));
    let delete = "*** Begin Patch\n*** Delete File: thing\n*** End Patch\n";
    setup.ok("patch", json!({"patch": delete}));
    assert_eq!(person.last().0.preview, Preview::Diff("delete thing, a binary file\n".to_owned()));
}

#[test]
fn a_long_change_is_shown_in_part() {
    let person = TestApprover::who_says(true);
    let setup = Setup::asking(&person);
    let content = "line\n".repeat(100_000);
    let add: String = content.lines().map(|line| format!("+{line}\n")).collect();
    for (tool, input) in [
        ("write", json!({"path": "long", "content": content})),
        (
            "patch",
            json!({"patch": format!("*** Begin Patch\n*** Add File: longer\n{add}*** End Patch\n")}),
        ),
    ] {
        setup.ok(tool, input);
        let (request, _) = person.last();
        assert!(request.preview.text().len() < 50_000, "{tool}: {}", request.preview.text().len());
        assert!(request.preview.text().contains("more lines of this diff left out"), "{tool}");
    }
}

#[test]
fn what_was_decided_on_is_what_is_written() {
    // The file changed between request and approval: the edit still finds its place or fails, but
    // never guesses.
    let person = TestApprover::who_says(true);
    let setup = Setup::asking(&person);
    make_files(&setup);
    let version = setup.version("a");
    setup.put("a", "somebody else\n");
    let input = json!({"path": "a", "content": "mine\n", "expected_version": version});
    setup.refused("write", input, ErrorKind::Conflict);
    assert_eq!(setup.text("a"), "somebody else\n");
}
