//! `move`, `delete`, `make_directory` and `stat`.

use haft::{ErrorKind, Mode};
use serde_json::json;

use super::{Desk, data};

#[test]
fn files_and_directories_are_moved() {
    let desk = Desk::new();
    desk.put("a", "a");
    desk.set_mode("a", 0o640);
    desk.put("d/x", "x");
    let outcome = desk.ok("move", json!({"from": "a", "to": "deep/er/b"}));
    assert_eq!(outcome.content, "Moved a to deep/er/b.");
    assert_eq!(
        (desk.text("deep/er/b").as_str(), desk.mode("deep/er/b"), desk.has("a")),
        ("a", 0o640, false)
    );
    desk.ok("move", json!({"from": "d", "to": "e"}));
    assert_eq!(desk.text("e/x"), "x");
}

#[test]
fn a_move_overwrites_only_files_and_only_when_told() {
    let desk = Desk::new();
    desk.put("a", "a");
    desk.put("b", "b");
    desk.put("d/x", "x");
    let before = desk.tree();
    for (input, kind) in [
        (json!({"from": "a", "to": "b"}), ErrorKind::Conflict),
        (json!({"from": "a", "to": "d"}), ErrorKind::Conflict),
        (json!({"from": "a", "to": "d", "on_conflict": "overwrite"}), ErrorKind::Conflict),
        (json!({"from": "missing", "to": "c"}), ErrorKind::NotFound),
        (json!({"from": "d", "to": "d/e"}), ErrorKind::Input),
        (json!({"from": "a", "to": "b/c"}), ErrorKind::Conflict),
        (json!({"from": ".", "to": "c"}), ErrorKind::Input),
    ] {
        let error = desk.refused("move", input.clone(), kind);
        assert!(before == desk.tree(), "{input}: {}", error.message);
    }
    desk.ok("move", json!({"from": "a", "to": "b", "on_conflict": "overwrite"}));
    assert_eq!((desk.text("b").as_str(), desk.has("a")), ("a", false));
}

#[test]
fn files_and_directories_are_deleted() {
    let desk = Desk::new();
    desk.put("a", "a");
    desk.put("d/e/x", "x");
    assert_eq!(desk.ok("delete", json!({"path": "a"})).content, "Deleted a.");
    assert!(desk.has("d/e/x") && !desk.has("a"));
    desk.refused("delete", json!({"path": "d"}), ErrorKind::Conflict);
    assert!(desk.has("d/e/x"));
    let outcome = desk.ok("delete", json!({"path": "d", "recursive": true}));
    assert_eq!((outcome.content.as_str(), desk.has("d")), ("Deleted d (3 entries).", false));
    std::fs::create_dir(desk.path("empty")).expect("a folder");
    desk.ok("delete", json!({"path": "empty"}));
    desk.refused("delete", json!({"path": "a"}), ErrorKind::NotFound);
    desk.refused("delete", json!({"path": ".", "recursive": true}), ErrorKind::Input);
}

#[test]
fn a_link_is_looked_at_moved_and_deleted_itself() {
    for target in ["a", "../outside", "nowhere"] {
        let desk = Desk::new();
        desk.put("a", "a");
        desk.link("l", target);
        let (inside, outside) = (desk.bytes("a"), desk.outside());
        let stat = desk.ok("stat", json!({"path": "l"}));
        assert!(stat.content.contains(&format!("points to {target}")), "{}", stat.content);
        desk.ok("move", json!({"from": "l", "to": "m"}));
        desk.ok("delete", json!({"path": "m"}));
        assert!(!desk.path("m").is_symlink());
        assert!(inside == desk.bytes("a") && outside == desk.outside(), "{target}");
    }
}

#[test]
fn what_a_link_leads_to_outside_is_never_deleted() {
    let desk = Desk::new();
    desk.link("out", "../outside");
    let outside = desk.outside();
    let outcome = desk.call("delete", json!({"path": "out", "recursive": true}));
    assert!(outside == desk.outside(), "{}", outcome.content);
}

#[test]
fn deleting_is_asked_for_where_changes_are_not() {
    let desk = Desk::with(Mode::Contained, &[]);
    desk.put("a", "a");
    desk.ok("write", json!({"path": "b", "content": "b"}));
    desk.ok("move", json!({"from": "b", "to": "c"}));
    let outcome = desk.call("delete", json!({"path": "a"}));
    let error = outcome.error.expect("nobody can be asked");
    assert_eq!((error.kind, desk.has("a")), (ErrorKind::ApprovalUnavailable, true));
}

#[test]
fn directories_are_made_with_those_above_them() {
    let desk = Desk::new();
    let outcome = desk.ok("make_directory", json!({"path": "a/b/c"}));
    assert_eq!(
        (outcome.content.as_str(), &data(&outcome)["created"]),
        ("Created the directory a/b/c.", &json!(true))
    );
    assert!(desk.path("a/b/c").is_dir());
    let again = desk.ok("make_directory", json!({"path": "a/b/c"}));
    assert_eq!(data(&again)["created"], false);
    desk.ok("make_directory", json!({"path": "."}));
    desk.put("file", "");
    desk.refused("make_directory", json!({"path": "file"}), ErrorKind::Conflict);
    let error = desk.call("make_directory", json!({"path": "file/x"})).error.expect("a file above");
    assert!(
        error.kind == ErrorKind::Conflict && error.message.contains("`file`"),
        "{}",
        error.message
    );
}

#[test]
fn what_is_known_of_a_path_is_told() {
    let desk = Desk::new();
    desk.put("a.txt", "one\ntwo");
    desk.set_mode("a.txt", 0o640);
    desk.put("d/x", "");
    let outcome = desk.ok("stat", json!({"path": "a.txt"}));
    let facts = data(&outcome);
    assert!(
        outcome.content.starts_with("a.txt: file, 7 bytes\nmode 0640 (rw-r-----), owner "),
        "{}",
        outcome.content
    );
    assert_eq!(
        (&facts["lines"], &facts["mime"], &facts["encoding"]),
        (&json!(2), &json!("text/plain"), &json!("UTF-8"))
    );
    assert_eq!(facts["version"], desk.version("a.txt"));
    assert_eq!(data(&desk.ok("stat", json!({"path": "d"})))["kind"], "directory");
    desk.refused("stat", json!({"path": "missing"}), ErrorKind::NotFound);
}

#[test]
fn the_lines_of_a_large_file_are_counted() {
    let desk = Desk::new();
    desk.put("big", "line\n".repeat(1_000_000) + "last");
    let stat = desk.ok("stat", json!({"path": "big"}));
    assert_eq!(data(&stat)["lines"], 1_000_001);
}

#[test]
fn what_is_no_regular_file_is_not_opened() {
    let desk = Desk::new();
    let made =
        std::process::Command::new("mkfifo").arg(desk.path("pipe")).status().expect("mkfifo");
    assert!(made.success());
    assert_eq!(data(&desk.ok("stat", json!({"path": "pipe"})))["kind"], "named pipe");
    desk.refused("read", json!({"path": "pipe"}), ErrorKind::Unsupported);
    desk.refused("write", json!({"path": "pipe", "content": "x"}), ErrorKind::Unsupported);
    desk.refused(
        "edit",
        json!({"path": "pipe", "old_string": "a", "new_string": "b"}),
        ErrorKind::Unsupported,
    );
}
