//! `undo`, `redo` and `changes` through a whole gate: they revert changes of file tools and nothing
//! else.

use haft::{Gate, Limits};
use serde_json::json;

use super::*;

impl Setup {
    /// Returns number, tool and undone state of each listed change.
    fn listed(&self) -> Vec<(u64, String, String)> {
        let outcome = self.ok("changes", json!({"limit": 1000}));
        let word = |value: &Value| value.as_str().expect("a word").to_owned();
        let changes = data(&outcome)["changes"].as_array().expect("a list").clone();
        let told = |change: &Value| {
            (
                change["number"].as_u64().expect("a number"),
                word(&change["tool"]),
                word(&change["undone"]),
            )
        };
        changes.iter().map(told).collect()
    }
}

/// Makes a change, undoes it, redoes it, and undoes it again.
#[track_caller]
fn check(setup: &Setup, tool: &str, input: Value) {
    let before = setup.tree();
    setup.ok(tool, input);
    let after = setup.tree();
    assert_ne!(before, after, "{tool} does something");
    for _ in 0..2 {
        setup.ok("undo", json!({}));
        assert_eq!(setup.tree(), before, "after undo of {tool}");
        setup.ok("redo", json!({}));
        assert_eq!(setup.tree(), after, "after redo of {tool}");
    }
    setup.ok("undo", json!({}));
    assert_eq!(setup.tree(), before);
    setup.refused("undo", json!({}), ErrorKind::NotFound);
}

fn with_files() -> Setup {
    let setup = Setup::new();
    setup.put("a.txt", "one\ntwo\n");
    setup.put("run.sh", "#!/bin/sh\n");
    setup.set_mode("run.sh", 0o750);
    setup.put("tree/leaf.txt", "leaf");
    setup.put("tree/deep/er/empty.bin", b"\x00\xff\x01");
    fs::create_dir_all(setup.path("tree/hollow")).expect("made");
    setup.set_mode("tree/deep", 0o700);
    setup.set_mode("tree/leaf.txt", 0o600);
    setup.link("tree/link", "../a.txt");
    setup.link("alone", "nowhere");
    setup
}

#[test]
fn every_file_tool_is_taken_back_and_done_again() {
    let patch = "*** Begin Patch\n*** Add File: new/deep/x.txt\n+x\n*** Delete File: tree/leaf.txt\n\
                 *** Update File: a.txt\n*** Move to: b.txt\n@@\n-two\n+zwei\n*** End Patch";
    for (tool, input) in [
        ("write", json!({"path": "a.txt", "content": "other"})),
        ("write", json!({"path": "run.sh", "content": "#!/bin/bash\n"})),
        ("write", json!({"path": "x/y/z.txt", "content": "new"})),
        ("edit", json!({"path": "a.txt", "old_string": "two", "new_string": "zwei"})),
        ("patch", json!({"patch": patch})),
        ("move", json!({"from": "a.txt", "to": "p/q/b.txt"})),
        ("move", json!({"from": "tree", "to": "forest"})),
        ("move", json!({"from": "a.txt", "to": "run.sh", "on_conflict": "overwrite"})),
        ("move", json!({"from": "alone", "to": "tree/hollow/alone"})),
        ("delete", json!({"path": "a.txt"})),
        ("delete", json!({"path": "run.sh"})),
        ("delete", json!({"path": "alone"})),
        ("delete", json!({"path": "tree/hollow"})),
        ("delete", json!({"path": "tree", "recursive": true})),
        ("make_directory", json!({"path": "m/n"})),
    ] {
        check(&with_files(), tool, input.clone());
        check(&with_files().on_several_threads(), tool, input);
    }
}

#[test]
fn undo_after_undo_goes_back_to_the_beginning() {
    let setup = with_files();
    let mut trees = vec![setup.tree()];
    for (tool, input) in [
        ("edit", json!({"path": "a.txt", "old_string": "two", "new_string": "2"})),
        ("move", json!({"from": "a.txt", "to": "tree/a.txt"})),
        ("edit", json!({"path": "tree/a.txt", "old_string": "one", "new_string": "1"})),
        ("move", json!({"from": "tree", "to": "wood"})),
        ("delete", json!({"path": "wood/a.txt"})),
        ("write", json!({"path": "wood/a.txt", "content": "anew"})),
    ] {
        setup.ok(tool, input);
        trees.push(setup.tree());
    }
    for tree in trees.iter().rev().skip(1) {
        setup.ok("undo", json!({}));
        assert_eq!(setup.tree(), *tree);
    }
    for tree in trees.iter().skip(1) {
        setup.ok("redo", json!({}));
        assert_eq!(setup.tree(), *tree);
    }
    // Undo everything at once, through renames and changes in between.
    let outcome = setup.ok("undo", json!({"session": "files"}));
    assert_eq!(setup.tree(), trees[0], "{}", outcome.content);
    setup.ok("redo", json!({}));
    assert_eq!(setup.tree(), trees[6]);
}

#[test]
fn what_somebody_else_changed_is_never_overwritten() {
    let setup = with_files();
    setup.ok("write", json!({"path": "a.txt", "content": "mine\n"}));
    setup.ok("write", json!({"path": "b.txt", "content": "mine\n"}));
    setup.put("a.txt", "mine\nand theirs\n");
    let before = setup.tree();
    let outcome = setup.call("undo", json!({"session": "files"}));
    let error = outcome.error.as_ref().expect("a conflict");
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert!(error.message.contains("`a.txt` was changed by another process"), "{}", error.message);
    assert!(outcome.content.contains("-and theirs"), "{}", outcome.content);
    assert_eq!(setup.tree(), before, "all or nothing");
    setup.ok("undo", json!({"session": "files", "path": "b.txt"}));
    assert!(!setup.has("b.txt"));
    // A change by another program between two of our changes counts too.
    setup.ok("edit", json!({"path": "a.txt", "old_string": "mine", "new_string": "ours"}));
    setup.refused("undo", json!({"session": "files", "path": "a.txt"}), ErrorKind::Conflict);
    setup.ok("undo", json!({}));
    assert_eq!(setup.text("a.txt"), "mine\nand theirs\n");
    for (name, spoil) in [
        (
            "gone",
            (|setup: &Setup| fs::remove_file(setup.path("a.txt")).expect("gone")) as fn(&Setup),
        ),
        ("a link", |setup| {
            fs::remove_file(setup.path("a.txt")).expect("gone");
            setup.link("a.txt", "run.sh");
        }),
        ("a directory", |setup| {
            fs::remove_file(setup.path("a.txt")).expect("gone");
            fs::create_dir(setup.path("a.txt")).expect("made");
        }),
    ] {
        let setup = with_files();
        setup.ok("write", json!({"path": "a.txt", "content": "mine"}));
        spoil(&setup);
        let before = setup.tree();
        setup.refused("undo", json!({}), ErrorKind::Conflict);
        assert_eq!(setup.tree(), before, "{name}");
    }
}

#[test]
fn what_lies_in_a_new_directory_keeps_it_and_permissions_of_others_stay() {
    let setup = with_files();
    setup.ok("write", json!({"path": "d/x.txt", "content": "x"}));
    setup.put("d/theirs.txt", "y");
    let outcome = setup.ok("undo", json!({}));
    assert!(outcome.content.contains("`d` stays"), "{}", outcome.content);
    assert!(setup.has("d/theirs.txt") && !setup.has("d/x.txt"));
    setup.ok("edit", json!({"path": "a.txt", "old_string": "two", "new_string": "2"}));
    setup.set_mode("a.txt", 0o755);
    setup.ok("undo", json!({}));
    assert_eq!((setup.text("a.txt").as_str(), setup.mode("a.txt")), ("one\ntwo\n", 0o755));
}

#[test]
fn what_was_put_back_by_hand_is_told_and_the_next_undo_goes_on() {
    let setup = with_files();
    setup.ok("write", json!({"path": "a.txt", "content": "first"}));
    setup.ok("write", json!({"path": "a.txt", "content": "second"}));
    setup.put("a.txt", "first");
    let outcome = setup.ok("undo", json!({}));
    assert!(outcome.content.contains("already had the earlier content"), "{}", outcome.content);
    assert_eq!(setup.text("a.txt"), "first");
    setup.ok("undo", json!({}));
    assert_eq!(setup.text("a.txt"), "one\ntwo\n");
}

#[test]
fn a_preview_shows_the_difference_and_changes_nothing() {
    let setup = with_files();
    setup.ok("edit", json!({"path": "a.txt", "old_string": "two", "new_string": "2"}));
    let before = setup.tree();
    let outcome = setup.ok("undo", json!({"preview": true}));
    assert!(outcome.content.starts_with("Would undo change 1 (edit"), "{}", outcome.content);
    assert!(outcome.content.contains("-2\n+two\n"), "{}", outcome.content);
    assert_eq!(setup.tree(), before);
    assert_eq!(setup.listed(), [(1, "edit".to_owned(), "no".to_owned())]);
}

#[test]
fn changes_say_what_happened_and_whether_it_was_undone() {
    let setup = with_files();
    setup.ok("edit", json!({"path": "a.txt", "old_string": "two", "new_string": "2\n3"}));
    setup.ok("delete", json!({"path": "tree", "recursive": true}));
    setup.ok("undo", json!({"changes": [1]}));
    let told: Vec<(u64, String)> = setup
        .listed()
        .into_iter()
        .map(|(number, tool, undone)| (number, tool + " " + &undone))
        .collect();
    assert_eq!(
        told,
        [(3, "undo no".to_owned()), (2, "delete no".to_owned()), (1, "edit yes".to_owned())]
    );
    let one = setup.ok("changes", json!({"change": 1}));
    assert!(
        one.content.contains("M a.txt (+2 -1)") && one.content.contains("-two\n+2\n+3\n"),
        "{}",
        one.content
    );
    let below = setup.ok("changes", json!({"path": "tree/deep"}));
    assert!(below.content.contains("D tree/deep/er/empty.bin"), "{}", below.content);
    assert!(!below.content.contains("leaf"), "{}", below.content);
    setup.refused("changes", json!({"change": 77}), ErrorKind::NotFound);
    setup.refused("changes", json!({"since": "soon"}), ErrorKind::Input);
    setup.refused("undo", json!({"changes": [1]}), ErrorKind::NotFound);
    setup.refused("undo", json!({"call_id": "none"}), ErrorKind::NotFound);
}

#[test]
fn calls_sessions_and_times_are_taken_back_as_a_whole() {
    let setup = with_files();
    let call = |session: &str, id: &str, path: &str| {
        let mut context = Context::new(session);
        context.call_id = Some(id.to_owned());
        let input = json!({"path": path, "content": "x"});
        let outcome =
            setup.runtime.block_on(setup.gate.call(CallRequest::new("write", input, context)));
        assert!(outcome.is_ok(), "{}", outcome.content);
    };
    for (session, id, path) in
        [("one", "1", "1.txt"), ("one", "2", "2.txt"), ("two", "3", "3.txt"), ("two", "4", "4.txt")]
    {
        call(session, id, path);
    }
    let there = || [1, 2, 3, 4].map(|number| setup.has(&format!("{number}.txt")));
    // This session changed nothing; the error names the one that did.
    let error = setup.refused("undo", json!({}), ErrorKind::NotFound);
    assert!(error.hint.contains("number 4 by `write` in session `two`"), "{}", error.hint);
    setup.ok("undo", json!({"call_id": "3"}));
    assert_eq!(there(), [true, true, false, true]);
    setup.ok("undo", json!({"session": "one"}));
    assert_eq!(there(), [false, false, false, true]);
    setup.ok("redo", json!({}));
    setup.ok("redo", json!({}));
    assert_eq!(there(), [true, true, true, true]);
    setup.ok("undo", json!({"since": "1h"}));
    assert_eq!(there(), [false, false, false, false]);
    setup.refused("undo", json!({"session": "all"}), ErrorKind::NotFound);
}

#[test]
fn rules_speak_of_the_files_that_undo_would_write() {
    let folder = folder();
    let act = |rules: &[(Action, &str)], tool: &str, input: Value| {
        let gate = gate(folder.path(), Mode::All, rules, None);
        let request = CallRequest::new(tool, input, Context::new("files"));
        current_thread().block_on(gate.call(request))
    };
    assert!(act(&[], "write", json!({"path": "keep/a.txt", "content": "x"})).is_ok());
    let closed = [(Action::Deny, "write(keep/**)")];
    let outcome = act(&closed, "undo", json!({}));
    let error = outcome.error.expect("it is denied");
    assert_eq!(error.kind, ErrorKind::Denied);
    assert!(error.message.contains("write keep"), "{}", error.message);
    // Unreadable files are not listed either.
    let hidden = act(&[(Action::Deny, "read(keep/**)")], "changes", json!({}));
    assert!(hidden.is_ok() && !hidden.content.contains("a.txt"), "{}", hidden.content);
    assert!(act(&[], "undo", json!({})).is_ok());
}

#[test]
fn people_who_are_asked_see_the_difference_and_it_is_done_to_the_letter() {
    let person = TestApprover::who_says(true);
    let setup = Setup::asking(&person);
    setup.put("a.txt", "one\n");
    setup.ok("write", json!({"path": "a.txt", "content": "two\n"}));
    setup.ok("undo", json!({}));
    assert_eq!(setup.text("a.txt"), "one\n");
    let (request, _) = person.last();
    let shown = format!("{:?}", request.preview);
    assert!(shown.contains("-two") && shown.contains("+one"), "{shown}");
    assert_eq!(request.input["changes"], json!([1]), "what was found is spelled out");
    let names = format!("{:?}", request.accesses);
    assert!(names.contains("Write(\"a.txt\")"), "{names}");
}

#[test]
fn a_decision_that_comes_late_is_about_what_was_shown() {
    let folder = folder();
    let own = gate(folder.path(), Mode::Safe, &[(Action::Allow, "write")], None);
    let setup = Setup { folder, gate: own, runtime: current_thread() };
    setup.put("a.txt", "one");
    setup.put("b.txt", "one");
    setup.ok("write", json!({"path": "a.txt", "content": "two"}));
    let asking = gate(setup.folder.path(), Mode::Safe, &[(Action::Ask, "undo")], None);
    let request = CallRequest::new("undo", json!({}), Context::new("files"));
    let haft::Submission::Pending(asked) = setup.runtime.block_on(asking.submit(request)) else {
        panic!("it is asked for")
    };
    setup.ok("write", json!({"path": "b.txt", "content": "two"}));
    let settled = setup.runtime.block_on(asking.approvals().settle(
        &asked.id,
        haft::ApprovalState::Approved,
        Some(ApprovalDecision::approve("ada", "test")),
    ));
    assert!(settled.is_ok());
    let resumed = setup.runtime.block_on(asking.resume(&asked.id, Context::new("files")));
    assert!(matches!(resumed, Ok(haft::Submission::Done(outcome)) if outcome.is_ok()));
    assert_eq!((setup.text("a.txt").as_str(), setup.text("b.txt").as_str()), ("one", "two"));
}

#[test]
fn what_is_too_much_to_be_kept_is_said_before_it_goes() {
    let setup = with_files();
    let large = fs::File::create(setup.path("large.bin")).expect("made");
    large.set_len(65 << 20).expect("a hole");
    let before = fs::metadata(setup.path("large.bin")).expect("there").ino();
    for (tool, input) in [
        ("delete", json!({"path": "large.bin"})),
        ("write", json!({"path": "large.bin", "content": "x"})),
        ("move", json!({"from": "a.txt", "to": "large.bin", "on_conflict": "overwrite"})),
    ] {
        let outcome = setup.call(tool, input);
        let error = outcome.error.expect("it is refused");
        assert_eq!(error.kind, ErrorKind::TooLarge, "{tool}");
        assert!(error.message.contains("`large.bin` has 65 MiB"), "{}", error.message);
        assert!(error.hint.contains("without_undo"), "{}", error.hint);
        assert_eq!(fs::metadata(setup.path("large.bin")).expect("there").ino(), before);
    }
    // Moving copies nothing, so it may be as large as it likes.
    check(&setup, "move", json!({"from": "large.bin", "to": "larger.bin"}));
    let gone = setup.ok("delete", json!({"path": "large.bin", "without_undo": true}));
    assert!(gone.content.contains("undo cannot restore it"), "{}", gone.content);
    let error = setup.refused("undo", json!({}), ErrorKind::Conflict);
    assert!(error.message.contains("`large.bin` was not kept"), "{}", error.message);
}

#[test]
fn a_thousand_files_are_taken_back_at_once() {
    let setup = Setup::new();
    for number in 0..1_000 {
        setup.put(&format!("d{}/{number}.txt", number % 20), format!("old {number}\n"));
    }
    let before = setup.tree();
    let mut patch = "*** Begin Patch\n".to_owned();
    for number in 0..1_000 {
        let path = format!("d{}/{number}.txt", number % 20);
        patch.push_str(&format!("*** Update File: {path}\n@@\n-old {number}\n+new {number}\n"));
    }
    setup.ok("patch", json!({"patch": patch + "*** End Patch"}));
    let after = setup.tree();
    let outcome = setup.ok("undo", json!({}));
    assert_eq!(data(&outcome)["files"].as_array().map(Vec::len), Some(1_000));
    assert_eq!(setup.tree(), before);
    setup.ok("redo", json!({}));
    assert_eq!(setup.tree(), after);
}

#[test]
fn without_a_journal_tools_work_and_undo_says_what_is_missing() {
    let folder = folder();
    let workspace = Arc::new(Workspace::open(&folder.path().join("workspace")).expect("it opens"));
    let registry = Registry::default();
    registry.register_all(haft::catalogue::all()).expect("every name once");
    let gate = Gate::builder(registry)
        .limits(Limits::default())
        .paths(workspace.clone())
        .service::<dyn Disk>(workspace)
        .build();
    let call = |tool: &str, input| {
        current_thread().block_on(gate.call(CallRequest::new(tool, input, Context::new("s"))))
    };
    assert!(
        call("write", json!({"path": "a", "content": "x"}))
            .error
            .is_none_or(|error| error.kind == ErrorKind::Denied)
    );
    let error = call("undo", json!({})).error.expect("there is none");
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("no journal"), "{}", error.message);
}
