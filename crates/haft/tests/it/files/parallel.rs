//! Concurrent changes of one file: none is lost, through one gate or through several independent
//! ones.

use haft::{CallRequest, Context, Gate, Mode, Outcome};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{Setup, gate};

fn markers(count: usize) -> String {
    (0..count).map(|number| format!("marker <{number}> here\n")).collect()
}

fn replaced(count: usize) -> String {
    (0..count).map(|number| format!("marker done {number} here\n")).collect()
}

fn edit(number: usize) -> Value {
    json!({"path": "a", "old_string": format!("<{number}>"), "new_string": format!("done {number}")})
}

/// Makes all calls concurrently, each in its own task.
fn at_once(setup: &Setup, calls: Vec<(Gate, &'static str, Value)>) -> Vec<Outcome> {
    setup.runtime.block_on(async {
        let mut running = JoinSet::new();
        for (gate, tool, input) in calls {
            running.spawn(async move {
                gate.call(CallRequest::new(tool, input, Context::new("p"))).await
            });
        }
        running.join_all().await
    })
}

#[test]
fn eighty_edits_through_one_gate_are_all_in_the_file() {
    for setup in [Setup::new(), Setup::new().on_several_threads()] {
        setup.put("a", markers(80));
        let calls = (0..80).map(|number| (setup.gate.clone(), "edit", edit(number))).collect();
        for outcome in at_once(&setup, calls) {
            assert!(outcome.is_ok(), "{}", outcome.content);
        }
        assert_eq!(setup.text("a"), replaced(80));
    }
}

#[test]
fn eighty_edits_through_four_gates_are_all_in_the_file() {
    let setup = Setup::new().on_several_threads();
    setup.put("a", markers(80));
    let gates: Vec<Gate> =
        (0..4).map(|_| gate(setup.folder.path(), Mode::All, &[], None)).collect();
    let calls = (0..80).map(|number| (gates[number % 4].clone(), "edit", edit(number))).collect();
    for outcome in at_once(&setup, calls) {
        assert!(outcome.is_ok(), "{}", outcome.content);
    }
    assert_eq!(setup.text("a"), replaced(80));
}

#[test]
fn of_edits_that_decided_on_the_same_version_one_wins() {
    let setup = Setup::new().on_several_threads();
    setup.put("a", markers(20));
    let version = setup.version("a");
    let call = |number: usize| {
        let mut input = edit(number);
        input["expected_version"] = json!(version);
        (setup.gate.clone(), "edit", input)
    };
    let outcomes = at_once(&setup, (0..20).map(call).collect());
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    assert_eq!(setup.text("a").matches("done").count(), 1);
}

#[test]
fn a_reader_never_sees_half_a_write() {
    let setup = Setup::new().on_several_threads();
    let content = |letter: &str| format!("{letter}\n").repeat(1_000);
    setup.put("a", content("a"));
    let write = |letter: &str| {
        (setup.gate.clone(), "write", json!({"path": "a", "content": content(letter)}))
    };
    let read = || (setup.gate.clone(), "read", json!({"path": "a"}));
    let calls = (0..20).flat_map(|_| [write("a"), read(), write("b"), read()]).collect();
    for outcome in at_once(&setup, calls) {
        assert!(outcome.is_ok(), "{}", outcome.content);
        let has = |letter: &str| outcome.content.contains(&format!("\t{letter}\n"));
        assert!(outcome.tool != "read" || has("a") != has("b"), "both letters in one answer");
    }
}

#[test]
fn files_that_appear_at_once_in_one_new_directory_are_all_there() {
    let setup = Setup::new().on_several_threads();
    let write = |number: usize| {
        (setup.gate.clone(), "write", json!({"path": format!("new/deep/{number}"), "content": "x"}))
    };
    for outcome in at_once(&setup, (0..40).map(write).collect()) {
        assert!(outcome.is_ok(), "{}", outcome.content);
    }
    assert_eq!(setup.tree().keys().filter(|name| name.starts_with("new/deep/")).count(), 40);
}
