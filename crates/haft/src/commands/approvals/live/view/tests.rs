//! Keys and lines of the live list.

use std::sync::Arc;

use haft_core::{ApprovalRecord, CallResult, RequesterStatus, Scope};
use serde_json::json;

use super::*;

fn entry(id: &str, state: ApprovalState, requester: RequesterStatus) -> InboxEntry {
    let request = json!({
        "id": id, "call_id": "call", "session": "s", "agents": ["mcp"], "profile": null, "tool": "bash", "title": "Run",
        "input": {"command": "make"}, "confirmation": {"required": true, "message": format!("Run: {id}"), "type": "write"},
        "accesses": [], "preview": {"kind": "command", "text": "make\nall"}, "reason": "mode `none` asks",
        "suggestions": [{"rules": ["bash(make)"]}, {"rules": ["bash(make *)"]}],
        "created_ms": 1_000_000, "expires_ms": 1_600_000,
    });
    let request = Arc::new(serde_json::from_value(request).expect("a request"));
    InboxEntry {
        record: ApprovalRecord { request, state, verdict: None, is_claimed: false, claim: None },
        workspace: "/w".into(),
        requester,
        taken_ms: None,
        result: CallResult::NotRun,
    }
}

fn waiting(ids: &[&str]) -> InboxListing {
    let entries =
        ids.iter().map(|id| entry(id, ApprovalState::Pending, RequesterStatus::There)).collect();
    InboxListing { entries, foreign: 0 }
}

fn view(ids: &[&str]) -> View {
    let mut view = View::new("ada", Colours::Unwanted);
    view.refresh(waiting(ids));
    view
}

fn now() -> Timestamp {
    Timestamp::from_millisecond(1_060_000).expect("a time")
}

/// The request that a key decides about, and the decision.
fn decided(wish: KeyAction) -> Option<(String, ApprovalDecision)> {
    match wish {
        KeyAction::Decide(entry, verdict) => Some((entry.record.request.id.clone(), verdict)),
        KeyAction::Nothing | KeyAction::Quit => None,
    }
}

fn type_in(view: &mut View, text: &str) {
    for letter in text.chars() {
        assert!(decided(view.press(Key::Letter(letter))).is_none(), "typing decides nothing");
    }
}

#[test]
fn the_screen_shows_the_list_and_the_marked_request() {
    let mut view = view(&["ask_1", "ask_2"]);
    view.press(Key::Down);
    insta::assert_snapshot!(view.lines((60, 14), now()).join("\n").trim_end(), @r"
    haft approvals: 2 calls wait for a decision
      pending (9 min left)  bash  1 min ago  by mcp  Run: ask_1
    > pending (9 min left)  bash  1 min ago  by mcp  Run: ask_2
    ────────────────────────────────────────────────────────────
    Approve command `make␊all`? (write)
      for agent mcp
      $ make
      $ all
      why: mode `none` asks
      yes, and do not ask again for
        [1] bash(make)
        [2] bash(make *)

    ↑↓ choose   enter details   a approve   1-4 approve and remember   d deny   q quit
    ");
    for height in 0..40 {
        view.press(Key::Enter);
        assert!(view.lines((1, height), now()).len() <= height);
        view.press(Key::Escape);
        assert!(view.lines((1, height), now()).len() <= height);
    }
}

#[test]
fn what_is_marked_stays_marked_when_others_come_and_go() {
    let mut view = view(&["ask_2", "ask_3"]);
    view.press(Key::Down);
    view.refresh(waiting(&["ask_1", "ask_2", "ask_3", "ask_4"]));
    let (id, verdict) = decided(view.press(Key::Letter('a'))).expect("a yes");
    assert_eq!((&*id, verdict.approved, &*verdict.via), ("ask_3", true, "approvals"));
    // Decided elsewhere at the moment of a key press: no other call runs.
    view.refresh(waiting(&["ask_1", "ask_2", "ask_4"]));
    for key in [Key::Letter('a'), Key::Letter('1'), Key::Letter('d'), Key::Enter, Key::Letter('a')]
    {
        assert!(decided(view.press(key)).is_none());
    }
    view.press(Key::Escape);
    view.press(Key::Down);
    assert_eq!(decided(view.press(Key::Letter('a'))).expect("a yes").0, "ask_1");
}

#[test]
fn after_a_moment_the_next_one_is_marked() {
    let mut view = view(&["ask_1", "ask_2"]);
    let at = |ms: i64| Timestamp::from_millisecond(1_060_000 + ms).expect("a time");
    view.refresh(waiting(&["ask_2"]));
    for ms in [0, 500, 999] {
        view.lines((80, 20), at(ms));
        assert!(decided(view.press(Key::Letter('a'))).is_none(), "{ms}");
    }
    view.lines((80, 20), at(1_000));
    assert_eq!(decided(view.press(Key::Letter('a'))).expect("a yes").0, "ask_2");
}

#[test]
fn a_request_that_goes_while_words_are_typed_is_not_replaced_by_another() {
    let mut view = view(&["ask_1", "ask_2"]);
    view.press(Key::Letter('d'));
    type_in(&mut view, "no");
    view.refresh(waiting(&["ask_2"]));
    assert!(decided(view.press(Key::Enter)).is_none());
}

#[test]
fn a_no_has_words_or_none() {
    let mut view = view(&["ask_1"]);
    view.press(Key::Letter('d'));
    type_in(&mut view, "use q ax");
    view.press(Key::Backspace);
    view.press(Key::Paste("b\n\u{1b}c".to_owned()));
    let (_, verdict) = decided(view.press(Key::Enter)).expect("a no");
    assert_eq!((verdict.approved, verdict.note.as_deref()), (false, Some("use q abc")));
    view.press(Key::Letter('d'));
    let (_, verdict) = decided(view.press(Key::Enter)).expect("a no");
    assert_eq!((verdict.approved, verdict.note), (false, None));
    view.press(Key::Letter('d'));
    view.press(Key::Escape);
    assert!(matches!(view.press(Key::Letter('q')), KeyAction::Quit), "it is no longer typed");
}

#[test]
fn a_number_asks_how_far_it_reaches() {
    let mut view = view(&["ask_1"]);
    view.press(Key::Letter('2'));
    for unclear in ["", "x", "p soon"] {
        type_in(&mut view, unclear);
        assert!(decided(view.press(Key::Enter)).is_none(), "{unclear}");
    }
    type_in(&mut view, "u 1h");
    let (_, verdict) = decided(view.press(Key::Enter)).expect("a yes");
    let remember = verdict.remember.expect("it is remembered");
    assert_eq!((&*remember.rules[0], remember.scope), ("bash(make *)", Scope::User));
    assert!(remember.expires_ms.is_some() && verdict.approved && verdict.via == "approvals");
    view.press(Key::Letter('3'));
    assert!(view.lines((80, 20), now()).join("\n").contains("nothing to remember"));
    // A `no` that is typed there is none: words belong to `d`.
    view.press(Key::Letter('1'));
    type_in(&mut view, "n");
    assert!(decided(view.press(Key::Enter)).is_none());
}

#[test]
fn what_is_pasted_decides_nothing() {
    let mut view = view(&["ask_1"]);
    assert!(decided(view.press(Key::Paste("a".to_owned()))).is_none());
}

#[test]
fn an_approved_call_is_ours_when_its_asker_goes() {
    let mut view = view(&["ask_1", "ask_2"]);
    let with = |requester, taken_up| {
        let mut one = entry("ask_1", ApprovalState::Approved, requester);
        one.record.is_claimed = taken_up;
        if taken_up {
            one.result = CallResult::Unknown;
        }
        InboxListing { entries: vec![one], foreign: 0 }
    };
    view.refresh(with(RequesterStatus::Gone, false));
    assert!(view.abandoned().is_none(), "it was not approved here");
    view.expect_run_of("ask_1");
    view.refresh(with(RequesterStatus::There, false));
    assert!(view.abandoned().is_none());
    view.refresh(with(RequesterStatus::Gone, false));
    assert_eq!(view.abandoned().expect("ours").record.request.id, "ask_1");
    assert!(view.abandoned().is_none(), "once");
    view.expect_run_of("ask_1");
    view.refresh(with(RequesterStatus::Gone, true));
    assert!(view.abandoned().is_none());
    assert!(view.expected.is_empty());
}
