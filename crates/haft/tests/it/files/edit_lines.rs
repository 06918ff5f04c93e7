//! `edit_lines`: errors that other systems accept, and that a call is applied completely or not at
//! all.

use haft::ErrorKind;
use serde_json::{Value, json};

use super::{Setup, data};

const FIVE: &str = "1\n2\n3\n4\n5\n";

fn patches(list: &[(i64, i64, &str)]) -> Value {
    list.iter()
        .map(|(start, end, content)| json!({"start_line": start, "end_line": end, "content": content}))
        .collect()
}

#[track_caller]
fn check(text: &str, list: &[(i64, i64, &str)], expected: &str) {
    let setup = Setup::new();
    setup.put("a", text);
    let version = setup.version("a");
    let input = json!({"path": "a", "patches": patches(list), "expected_version": version});
    let outcome = setup.ok("edit_lines", input);
    assert_eq!(setup.text("a"), expected);
    assert_eq!(
        (&data(&outcome)["version"], &data(&outcome)["applied"]),
        (&json!(setup.version("a")), &json!(list.len()))
    );
}

#[track_caller]
fn check_refused(text: &str, list: Value, words: &str) {
    let setup = Setup::new();
    setup.put("a", text);
    let version = setup.version("a");
    let input = json!({"path": "a", "patches": list, "expected_version": version});
    let outcome = setup.call("edit_lines", input);
    let error = outcome.error.unwrap_or_else(|| panic!("it worked: {}", outcome.content));
    assert_eq!(error.kind, ErrorKind::Input);
    assert!(error.message.contains(words), "{} does not say {words}", error.message);
    assert_eq!(setup.text("a"), text, "nothing happens");
}

#[test]
fn lines_are_replaced_inserted_and_deleted_by_the_numbers_of_the_file_as_it_is() {
    check(
        FIVE,
        &[(2, 3, "x\ny\nz"), (5, 5, ""), (1, 0, "0"), (4, 4, "four")],
        "0\n1\nx\ny\nz\nfour\n",
    );
    check(FIVE, &[(6, 0, "6")], "1\n2\n3\n4\n5\n6\n");
    check(FIVE, &[(2, 0, "a"), (2, 0, "b"), (2, 2, "two")], "1\na\nb\ntwo\n3\n4\n5\n");
    check("", &[(1, 0, "first")], "first\n");
}

#[test]
fn endings_stay() {
    check("a\r\nb\r\n", &[(1, 1, "x\ny")], "x\r\ny\r\nb\r\n");
    check("a\nb\r\nc", &[(2, 2, "x"), (3, 3, "z\n")], "a\nx\r\nz");
    check("a\nb\n", &[(1, 1, "x\n")], "x\nb\n");
    check("a\nb\n", &[(2, 0, "\n")], "a\n\nb\n");
}

#[test]
fn what_other_systems_do_silently_wrong_is_refused() {
    for (list, words) in [
        (&[(1, 3, "a"), (2, 4, "b")][..], "patch 2 (lines 2-4) overlaps patch 1 (lines 1-3)"),
        (&[(2, 2, "a"), (2, 2, "b")], "overlaps"),
        (&[(1, 3, "a"), (2, 0, "b")], "overlaps"),
        (&[(0, 0, "a")], "start_line"),
        (&[(0, 2, "a")], "start_line"),
        (&[(3, 2, "a")], "end_line 2 is before start_line 3"),
        (&[(7, 0, "a")], "only 5 lines"),
        (&[(6, 6, "a")], "only 5 lines"),
        (&[(2, 0, "")], "to insert a blank line"),
        (&[(-1, 2, "a")], "start_line"),
        (&[(1, -2, "a")], "end_line"),
        (&[], "patches"),
    ] {
        check_refused(FIVE, patches(list), words);
    }
    check_refused(FIVE, json!([{"start_line": 1.5, "end_line": 2, "content": "a"}]), "start_line");
    check_refused(FIVE, json!([{"start_line": 1, "content": "a"}]), "end_line");
}

#[test]
fn one_wrong_patch_stops_all_and_all_wrong_ones_are_named() {
    check_refused(
        FIVE,
        patches(&[(1, 1, "good"), (9, 9, "bad"), (4, 3, "worse")]),
        "patch 2 (line 9)",
    );
    check_refused(FIVE, patches(&[(1, 1, "good"), (9, 9, "bad"), (4, 3, "worse")]), "patch 3");
}

#[test]
fn the_version_is_required_and_must_fit() {
    let setup = Setup::new();
    setup.put("a", FIVE);
    let list = patches(&[(1, 1, "one")]);
    let error =
        setup.call("edit_lines", json!({"path": "a", "patches": list})).error.expect("no version");
    assert!(
        error.kind == ErrorKind::Input && error.message.contains("expected_version"),
        "{}",
        error.message
    );
    let version = setup.version("a");
    setup.put("a", "0\n1\n2\n");
    let with = |version: &str| json!({"path": "a", "patches": list, "expected_version": version});
    setup.refused("edit_lines", with(&version), ErrorKind::Conflict);
    setup.refused("edit_lines", with("latest"), ErrorKind::Input);
    assert_eq!(setup.text("a"), "0\n1\n2\n");
    setup.refused(
        "edit_lines",
        json!({"path": "b", "patches": list, "expected_version": version}),
        ErrorKind::NotFound,
    );
}

#[test]
fn the_version_of_a_large_file_fits_until_it_changes() {
    let setup = Setup::new();
    let text = "0123456789\n".repeat(500_000);
    setup.put("a", &text);
    let input = json!({"path": "a", "patches": patches(&[(250_000, 250_000, "x")]), "expected_version": setup.version("a")});
    let outcome = setup.ok("edit_lines", input.clone());
    assert!(outcome.content.len() < 500, "{}", outcome.content);
    assert_eq!(setup.text("a").lines().nth(249_999), Some("x"));
    setup.refused("edit_lines", input, ErrorKind::Conflict);
}

#[test]
fn patches_that_change_nothing_leave_the_file_alone() {
    let setup = Setup::new();
    setup.put("a", FIVE);
    let before = setup.path("a").metadata().and_then(|facts| facts.modified()).expect("known");
    let input = json!({"path": "a", "patches": patches(&[(2, 2, "2")]), "expected_version": setup.version("a")});
    let error = setup.refused("edit_lines", input, ErrorKind::Input);
    assert!(error.message.contains("nothing would change"), "{}", error.message);
    let after = setup.path("a").metadata().and_then(|facts| facts.modified()).expect("known");
    assert_eq!(before, after);
}
