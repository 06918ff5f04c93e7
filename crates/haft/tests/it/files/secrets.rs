//! No file tool reads or returns files that rules deny or that are secret.

use haft::{ErrorKind, Mode, Tool, policy::Action};
use serde_json::{Value, json};

use super::{Setup, data};

const SECRET: &str = "token-0123456789";

fn calls(tool: &str, path: &str) -> Vec<Value> {
    let envelope =
        |sections: &str| json!({"patch": format!("*** Begin Patch\n{sections}*** End Patch\n")});
    match tool {
        "read" | "stat" | "list" | "delete" | "make_directory" => vec![json!({"path": path})],
        "write" => vec![json!({"path": path, "content": "x"})],
        "edit" => vec![json!({"path": path, "old_string": "a", "new_string": "b"})],
        "edit_lines" => vec![json!({
            "path": path,
            "patches": [{"start_line": 1, "end_line": 1, "content": "x"}],
            "expected_version": "c0123456789abcdef"
        })],
        "move" => vec![
            json!({"from": path, "to": "open"}),
            json!({"from": "own", "to": path, "on_conflict": "overwrite"}),
        ],
        "patch" => vec![
            envelope(&format!("*** Update File: {path}\n@@\n-a\n+b\n")),
            envelope(&format!("*** Add File: {path}\n+b\n")),
            envelope(&format!("*** Delete File: {path}\n")),
            envelope(&format!("*** Update File: own\n*** Move to: {path}\n@@\n-own\n+b\n")),
        ],
        "glob" => vec![json!({"pattern": "**", "path": path})],
        "grep" => vec![json!({"pattern": "token", "path": path})],
        // Their path only filters journal entries; see `undo.rs` for the files that they change.
        "undo" | "redo" | "changes" => Vec::new(),
        other => panic!("say how `{other}` takes a path"),
    }
}

fn setup(rules: &[(Action, &str)]) -> Setup {
    let setup = Setup::with(Mode::All, rules);
    setup.put("own", "own\n");
    setup.put(".env", format!("KEY={SECRET}\n"));
    setup.put("private/notes", format!("{SECRET}\n"));
    setup.put("deep/.ssh/config", format!("{SECRET}\n"));
    setup.link("innocent", ".env");
    setup
}

#[test]
fn closed_paths_are_denied_to_every_tool() {
    let rules: &[(Action, &str)] =
        &[(Action::Deny, "read(private/**)"), (Action::Deny, "write(private/**)")];
    let setup = setup(rules);
    let before = setup.tree();
    for tool in haft::catalogue::files::TOOLS {
        for path in
            [".env", "./.env", "deep/../.env", "deep/.ssh/config", "private/notes", "innocent"]
        {
            // Tools inspect, move and delete the link itself; its target stays inaccessible.
            if tool.spec().keeps_links && path == "innocent" {
                continue;
            }
            for input in calls(tool.name(), path) {
                let outcome = setup.call(tool.name(), input.clone());
                let whole = serde_json::to_string(&outcome).expect("JSON");
                assert!(!whole.contains(SECRET), "{} {input} tells the secret", tool.name());
                let error =
                    outcome.error.unwrap_or_else(|| panic!("{} {input}: {whole}", tool.name()));
                assert_eq!(error.kind, ErrorKind::Denied, "{} {input}: {error:?}", tool.name());
                assert!(
                    !error.hint.is_empty() && before == setup.tree(),
                    "{} {input}",
                    tool.name()
                );
            }
        }
    }
}

#[test]
fn what_walks_over_closed_files_does_not_tell_them() {
    let setup = setup(&[(Action::Deny, "read(private/**)")]);
    for tool in haft::catalogue::files::TOOLS {
        let input = match tool.name() {
            "read" | "list" => json!({"path": "."}),
            "glob" => json!({"pattern": "**"}),
            "grep" => json!({"pattern": "token", "ignored": true}),
            _ => continue,
        };
        let whole = serde_json::to_string(&setup.ok(tool.name(), input)).expect("JSON");
        assert!(!whole.contains(SECRET) && !whole.contains(".env"), "{whole}");
        assert!(!whole.contains("notes"), "{whole}");
    }
}

#[test]
fn a_listing_says_that_something_is_not_shown() {
    let setup = Setup::new();
    setup.put("d/.env", SECRET);
    let only = setup.ok("read", json!({"path": "d"}));
    assert_eq!(only.content, "[d has no entries to show; 1 more hidden by rules or secret paths]");
    setup.put("d/a", "");
    let some = setup.ok("read", json!({"path": "d"}));
    assert_eq!(some.content, "a\n[d: entries 1-1 of 1; 1 more hidden by rules or secret paths]");
    assert_eq!(data(&some)["closed"], 1);
}

#[test]
fn a_directory_with_something_closed_in_it_is_not_moved_or_deleted() {
    let setup = setup(&[]);
    let before = setup.tree();
    setup.refused("delete", json!({"path": "deep", "recursive": true}), ErrorKind::Denied);
    setup.refused("move", json!({"from": "deep", "to": "shallow"}), ErrorKind::Denied);
    assert!(before == setup.tree());
}

#[test]
fn near_names_do_not_betray_what_is_closed() {
    let setup = setup(&[]);
    let error = setup.refused("read", json!({"path": "envs"}), ErrorKind::NotFound);
    assert!(!error.hint.contains(".env"), "{}", error.hint);
}

#[test]
fn writing_blindly_over_what_may_not_be_read_is_denied() {
    let setup = setup(&[(Action::Deny, "read(private/**)")]);
    let outcome = setup.call("write", json!({"path": "private/notes", "content": "x"}));
    assert_eq!(outcome.error.map(|error| error.kind), Some(ErrorKind::Denied));
    assert_eq!(setup.text("private/notes"), format!("{SECRET}\n"));
}
