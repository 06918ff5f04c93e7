//! Many changes of one file at once: none is lost, through one gate or through several that do not know each other.

use haft::{CallRequest, Context, Gate, Mode, Outcome};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{Desk, gate};

fn markers(count: usize) -> String {
    (0..count).map(|number| format!("marker <{number}> here\n")).collect()
}

fn replaced(count: usize) -> String {
    (0..count).map(|number| format!("marker done {number} here\n")).collect()
}

fn edit(number: usize) -> Value {
    json!({"path": "a", "old_string": format!("<{number}>"), "new_string": format!("done {number}")})
}

/// All calls at once, each as a task of its own.
fn at_once(desk: &Desk, calls: Vec<(Gate, &'static str, Value)>) -> Vec<Outcome> {
    desk.runtime.block_on(async {
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
    for desk in [Desk::new(), Desk::new().on_several_threads()] {
        desk.put("a", markers(80));
        let calls = (0..80).map(|number| (desk.gate.clone(), "edit", edit(number))).collect();
        for outcome in at_once(&desk, calls) {
            assert!(outcome.is_ok(), "{}", outcome.content);
        }
        assert_eq!(desk.text("a"), replaced(80));
    }
}

#[test]
fn eighty_edits_through_four_gates_are_all_in_the_file() {
    let desk = Desk::new().on_several_threads();
    desk.put("a", markers(80));
    let gates: Vec<Gate> = (0..4).map(|_| gate(desk.folder.path(), Mode::All, &[], None)).collect();
    let calls = (0..80).map(|number| (gates[number % 4].clone(), "edit", edit(number))).collect();
    for outcome in at_once(&desk, calls) {
        assert!(outcome.is_ok(), "{}", outcome.content);
    }
    assert_eq!(desk.text("a"), replaced(80));
}

#[test]
fn of_edits_that_decided_on_the_same_version_one_wins() {
    let desk = Desk::new().on_several_threads();
    desk.put("a", markers(20));
    let version = desk.version("a");
    let call = |number: usize| {
        let mut input = edit(number);
        input["expected_version"] = json!(version);
        (desk.gate.clone(), "edit", input)
    };
    let outcomes = at_once(&desk, (0..20).map(call).collect());
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    assert_eq!(desk.text("a").matches("done").count(), 1);
}

#[test]
fn a_reader_never_sees_half_a_write() {
    let desk = Desk::new().on_several_threads();
    let content = |letter: &str| format!("{letter}\n").repeat(1_000);
    desk.put("a", content("a"));
    let write = |letter: &str| {
        (desk.gate.clone(), "write", json!({"path": "a", "content": content(letter)}))
    };
    let read = || (desk.gate.clone(), "read", json!({"path": "a"}));
    let calls = (0..20).flat_map(|_| [write("a"), read(), write("b"), read()]).collect();
    for outcome in at_once(&desk, calls) {
        assert!(outcome.is_ok(), "{}", outcome.content);
        let has = |letter: &str| outcome.content.contains(&format!("\t{letter}\n"));
        assert!(outcome.tool != "read" || has("a") != has("b"), "both letters in one answer");
    }
}

#[test]
fn files_that_appear_at_once_in_one_new_directory_are_all_there() {
    let desk = Desk::new().on_several_threads();
    let write = |number: usize| {
        (desk.gate.clone(), "write", json!({"path": format!("new/deep/{number}"), "content": "x"}))
    };
    for outcome in at_once(&desk, (0..40).map(write).collect()) {
        assert!(outcome.is_ok(), "{}", outcome.content);
    }
    assert_eq!(desk.tree().keys().filter(|name| name.starts_with("new/deep/")).count(), 40);
}
