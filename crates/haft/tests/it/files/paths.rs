//! `move`, `delete`, `make_directory` and `stat`.

use haft::{ErrorKind, Mode};
use serde_json::json;

use super::{Setup, data};

#[test]
fn files_and_directories_are_moved() {
    let setup = Setup::new();
    setup.put("a", "a");
    setup.set_mode("a", 0o640);
    setup.put("d/x", "x");
    let outcome = setup.ok("move", json!({"from": "a", "to": "deep/er/b"}));
    assert_eq!(outcome.content, "Moved a to deep/er/b.");
    assert_eq!(
        (setup.text("deep/er/b").as_str(), setup.mode("deep/er/b"), setup.has("a")),
        ("a", 0o640, false)
    );
    setup.ok("move", json!({"from": "d", "to": "e"}));
    assert_eq!(setup.text("e/x"), "x");
}

#[test]
fn a_move_overwrites_only_files_and_only_when_told() {
    let setup = Setup::new();
    setup.put("a", "a");
    setup.put("b", "b");
    setup.put("d/x", "x");
    let before = setup.tree();
    for (input, kind) in [
        (json!({"from": "a", "to": "b"}), ErrorKind::Conflict),
        (json!({"from": "a", "to": "d"}), ErrorKind::Conflict),
        (json!({"from": "a", "to": "d", "on_conflict": "overwrite"}), ErrorKind::Conflict),
        (json!({"from": "missing", "to": "c"}), ErrorKind::NotFound),
        (json!({"from": "d", "to": "d/e"}), ErrorKind::Input),
        (json!({"from": "a", "to": "b/c"}), ErrorKind::Conflict),
        (json!({"from": ".", "to": "c"}), ErrorKind::Input),
    ] {
        let error = setup.refused("move", input.clone(), kind);
        assert!(before == setup.tree(), "{input}: {}", error.message);
    }
    setup.ok("move", json!({"from": "a", "to": "b", "on_conflict": "overwrite"}));
    assert_eq!((setup.text("b").as_str(), setup.has("a")), ("a", false));
}

#[test]
fn files_and_directories_are_deleted() {
    let setup = Setup::new();
    setup.put("a", "a");
    setup.put("d/e/x", "x");
    assert_eq!(setup.ok("delete", json!({"path": "a"})).content, "Deleted a.");
    assert!(setup.has("d/e/x") && !setup.has("a"));
    setup.refused("delete", json!({"path": "d"}), ErrorKind::Conflict);
    assert!(setup.has("d/e/x"));
    let outcome = setup.ok("delete", json!({"path": "d", "recursive": true}));
    assert_eq!((outcome.content.as_str(), setup.has("d")), ("Deleted d (3 entries).", false));
    std::fs::create_dir(setup.path("empty")).expect("a folder");
    setup.ok("delete", json!({"path": "empty"}));
    setup.refused("delete", json!({"path": "a"}), ErrorKind::NotFound);
    setup.refused("delete", json!({"path": ".", "recursive": true}), ErrorKind::Input);
}

#[test]
fn a_link_is_looked_at_moved_and_deleted_itself() {
    for target in ["a", "../outside", "nowhere"] {
        let setup = Setup::new();
        setup.put("a", "a");
        setup.link("l", target);
        let (inside, outside) = (setup.bytes("a"), setup.outside());
        let stat = setup.ok("stat", json!({"path": "l"}));
        assert!(stat.content.contains(&format!("points to {target}")), "{}", stat.content);
        setup.ok("move", json!({"from": "l", "to": "m"}));
        setup.ok("delete", json!({"path": "m"}));
        assert!(!setup.path("m").is_symlink());
        assert!(inside == setup.bytes("a") && outside == setup.outside(), "{target}");
    }
}

#[test]
fn what_a_link_leads_to_outside_is_never_deleted() {
    let setup = Setup::new();
    setup.link("out", "../outside");
    let outside = setup.outside();
    let outcome = setup.call("delete", json!({"path": "out", "recursive": true}));
    assert!(outside == setup.outside(), "{}", outcome.content);
}

#[test]
fn deleting_is_asked_for_where_changes_are_not() {
    let setup = Setup::with(Mode::Contained, &[]);
    setup.put("a", "a");
    setup.ok("write", json!({"path": "b", "content": "b"}));
    setup.ok("move", json!({"from": "b", "to": "c"}));
    let outcome = setup.call("delete", json!({"path": "a"}));
    let error = outcome.error.expect("nobody can be asked");
    assert_eq!((error.kind, setup.has("a")), (ErrorKind::ApprovalUnavailable, true));
}

#[test]
fn directories_are_made_with_those_above_them() {
    let setup = Setup::new();
    let outcome = setup.ok("make_directory", json!({"path": "a/b/c"}));
    assert_eq!(
        (outcome.content.as_str(), &data(&outcome)["created"]),
        ("Created the directory a/b/c.", &json!(true))
    );
    assert!(setup.path("a/b/c").is_dir());
    let again = setup.ok("make_directory", json!({"path": "a/b/c"}));
    assert_eq!(data(&again)["created"], false);
    setup.ok("make_directory", json!({"path": "."}));
    setup.put("file", "");
    setup.refused("make_directory", json!({"path": "file"}), ErrorKind::Conflict);
    let error =
        setup.call("make_directory", json!({"path": "file/x"})).error.expect("a file above");
    assert!(
        error.kind == ErrorKind::Conflict && error.message.contains("`file`"),
        "{}",
        error.message
    );
}

#[test]
fn what_is_known_of_a_path_is_told() {
    let setup = Setup::new();
    setup.put("a.txt", "one\ntwo");
    setup.set_mode("a.txt", 0o640);
    setup.put("d/x", "");
    let outcome = setup.ok("stat", json!({"path": "a.txt"}));
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
    assert_eq!(facts["version"], setup.version("a.txt"));
    assert_eq!(data(&setup.ok("stat", json!({"path": "d"})))["kind"], "directory");
    setup.refused("stat", json!({"path": "missing"}), ErrorKind::NotFound);
}

#[test]
fn the_lines_of_a_large_file_are_counted() {
    let setup = Setup::new();
    setup.put("big", "line\n".repeat(1_000_000) + "last");
    let stat = setup.ok("stat", json!({"path": "big"}));
    assert_eq!(data(&stat)["lines"], 1_000_001);
}

#[test]
fn what_is_no_regular_file_is_not_opened() {
    let setup = Setup::new();
    let made =
        std::process::Command::new("mkfifo").arg(setup.path("pipe")).status().expect("mkfifo");
    assert!(made.success());
    assert_eq!(data(&setup.ok("stat", json!({"path": "pipe"})))["kind"], "named pipe");
    setup.refused("read", json!({"path": "pipe"}), ErrorKind::Unsupported);
    setup.refused("write", json!({"path": "pipe", "content": "x"}), ErrorKind::Unsupported);
    setup.refused(
        "edit",
        json!({"path": "pipe", "old_string": "a", "new_string": "b"}),
        ErrorKind::Unsupported,
    );
}
