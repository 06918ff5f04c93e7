//! `grep`, `glob` and `list` at their deadline. The walker's tests cover what they find.

use std::{fs, time::Duration};

use haft::{CallRequest, Context, ErrorKind};
use serde_json::json;

use super::Setup;

/// Creates gigabytes to search without disk space: many hard links to one file.
fn endless() -> Setup {
    let setup = Setup::new();
    setup.put("0", "hay and more hay, but not what is sought\n".repeat(500_000));
    for number in 1..400 {
        fs::hard_link(setup.path("0"), setup.path(&number.to_string())).expect("a second name");
    }
    setup
}

#[test]
fn a_search_that_takes_too_long_hands_over_what_it_has() {
    for setup in [endless(), endless().on_several_threads()] {
        let mut context = Context::new("files");
        context.deadline = Some(Duration::from_millis(300));
        let input = json!({"pattern": "n[e-z]+dle"});
        let outcome =
            setup.runtime.block_on(setup.gate.call(CallRequest::new("grep", input, context)));
        let error = outcome.error.expect("there was no time for all of it");
        assert_eq!(error.kind, ErrorKind::Timeout, "{}", outcome.content);
        assert!(outcome.content.contains("[partial: 0 matches"), "{}", outcome.content);
        assert_eq!(outcome.data.expect("what there is")["is_complete"], false);
    }
}
