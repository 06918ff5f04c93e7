//! Properties that hold for every text, through the whole stack.

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde_json::json;

use super::{Setup, data, shown};

/// Generates lines of ordinary text in several scripts.
fn text() -> impl Strategy<Value = String> {
    let line = "[a-c \\t\\$\\\\\"\u{e4}\u{20ac}\u{1f600}]{0,12}";
    (prop::collection::vec(line, 0..12), any::<bool>()).prop_map(|(lines, ends)| {
        let text = lines.join("\n");
        if ends && !text.is_empty() { text + "\n" } else { text }
    })
}

/// Returns the positions of `old` in `text`, including overlapping ones.
fn places(text: &str, old: &str) -> Vec<usize> {
    let starts = |at: &usize| text.get(*at..).is_some_and(|rest| rest.starts_with(old));
    text.char_indices().map(|(at, _)| at).filter(starts).collect()
}

/// Runs a check on many inputs with one setup.
#[track_caller]
fn check<T: std::fmt::Debug>(
    inputs: impl Strategy<Value = T>,
    holds: impl Fn(&Setup, T) -> Result<(), TestCaseError>,
) {
    let setup = Setup::new();
    let mut runner = TestRunner::new(Config { cases: 100, ..Config::with_source_file(file!()) });
    if let Err(error) = runner.run(&inputs, |input| holds(&setup, input)) {
        panic!("{error}");
    }
}

#[test]
fn what_is_written_is_read_back() {
    check(text(), |setup, text| {
        setup.ok("write", json!({"path": "a", "content": text}));
        prop_assert_eq!(&setup.text("a"), &text);
        let outcome = setup.ok("read", json!({"path": "a"}));
        let lines: Vec<&str> =
            text.split_inclusive('\n').map(|line| line.trim_end_matches('\n')).collect();
        prop_assert_eq!(&data(&outcome)["total_lines"], &json!(lines.len()));
        if !lines.is_empty() {
            prop_assert_eq!(shown(&outcome), lines);
        }
        Ok(())
    });
}

#[test]
fn an_edit_does_what_a_simple_one_does() {
    let inputs = ("[ab \n]{0,16}", "[ab \n]{1,4}", "[ab\\$& \n]{0,4}", any::<bool>());
    check(inputs, |setup, (text, old, new, all)| {
        setup.put("a", &text);
        let input = json!({"path": "a", "old_string": old, "new_string": new, "replace_all": all});
        let outcome = setup.call("edit", input);
        let after = setup.text("a");
        let found = places(&text, &old);
        let is_lenient = outcome.is_ok() && data(&outcome).get("leniency").is_some();
        prop_assert_eq!(outcome.is_ok(), after != text, "{}", outcome.content);
        if old == new || (found.len() > 1 && !all) {
            prop_assert!(!outcome.is_ok(), "{}", outcome.content);
        }
        if outcome.is_ok() {
            prop_assert_eq!(is_lenient, found.is_empty(), "{}", outcome.content);
        }
        if outcome.is_ok() && !is_lenient {
            prop_assert_eq!(after, text.replace(&old, &new));
        }
        if old != new && found.len() == 1 {
            prop_assert!(outcome.is_ok(), "{}", outcome.content);
        }
        Ok(())
    });
}

#[test]
fn line_patches_of_what_was_read_fit() {
    let inputs = ("([a-c]{0,3}\n){1,8}", any::<prop::sample::Index>(), "[x-z]{1,3}");
    check(inputs, |setup, (text, line, new)| {
        setup.put("a", &text);
        let read = setup.ok("read", json!({"path": "a"}));
        let mut lines = shown(&read);
        let line = line.index(lines.len());
        let patches = json!([{"start_line": line + 1, "end_line": line + 1, "content": new}]);
        let version = &data(&read)["version"];
        setup.ok(
            "edit_lines",
            json!({"path": "a", "patches": patches, "expected_version": version}),
        );
        lines[line] = new;
        prop_assert_eq!(shown(&setup.ok("read", json!({"path": "a"}))), lines);
        Ok(())
    });
}
