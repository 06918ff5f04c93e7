//! `grep`, `glob` and `list` when time runs out. What they find is tested beside the walker.

use std::{fs, time::Duration};

use haft::{CallRequest, Context, ErrorKind};
use serde_json::json;

use super::Desk;

/// Gigabytes to search that take no room: one file under many names.
fn endless() -> Desk {
    let desk = Desk::new();
    desk.put("0", "hay and more hay, but not what is sought\n".repeat(500_000));
    for number in 1..400 {
        fs::hard_link(desk.path("0"), desk.path(&number.to_string())).expect("a second name");
    }
    desk
}

#[test]
fn a_search_that_takes_too_long_hands_over_what_it_has() {
    for desk in [endless(), endless().on_several_threads()] {
        let mut context = Context::new("files");
        context.deadline = Some(Duration::from_millis(300));
        let input = json!({"pattern": "n[e-z]+dle"});
        let outcome =
            desk.runtime.block_on(desk.gate.call(CallRequest::new("grep", input, context)));
        let error = outcome.error.expect("there was no time for all of it");
        assert_eq!(error.kind, ErrorKind::Timeout, "{}", outcome.content);
        assert!(outcome.content.contains("[partial: 0 matches"), "{}", outcome.content);
        assert_eq!(outcome.data.expect("what there is")["is_complete"], false);
    }
}
