//! `edit`: how a text is found, what stays unchanged, and the errors when nothing matches.

use haft::ErrorKind;
use serde_json::{Value, json};

use super::{Setup, data};

fn edit(old: &str, new: &str) -> Value {
    json!({"path": "a", "old_string": old, "new_string": new})
}

fn edit_all(old: &str, new: &str) -> Value {
    json!({"path": "a", "old_string": old, "new_string": new, "replace_all": true})
}

/// Checks that the edit produces this content.
#[track_caller]
fn check(text: &str, input: Value, expected: &str) -> haft::Outcome {
    let setup = Setup::new();
    setup.put("a", text);
    let outcome = setup.ok("edit", input);
    assert_eq!(setup.text("a"), expected, "{}", outcome.content);
    assert_eq!(data(&outcome)["version"], setup.version("a"));
    outcome
}

/// Checks that the edit fails and the file is unchanged.
#[track_caller]
fn check_refused(text: &str, input: Value, kind: ErrorKind) -> haft::OutcomeError {
    let setup = Setup::new();
    setup.put("a", text);
    let error = setup.refused("edit", input, kind);
    assert_eq!(setup.text("a"), text);
    error
}

/// Returns the call in a hint.
#[track_caller]
fn advised(hint: &str) -> Value {
    let (_, call) = hint.split_once("{\"").unwrap_or_else(|| panic!("no call in: {hint}"));
    serde_json::from_str(&format!("{{\"{call}")).unwrap_or_else(|error| panic!("{error}: {hint}"))
}

#[test]
fn one_place_is_replaced_and_the_diff_is_the_answer() {
    let outcome = check("one\ntwo\nthree\n", edit("two", "2"), "one\n2\nthree\n");
    let version = data(&outcome)["version"].as_str().expect("a version").to_owned();
    let expected = format!(
        "Edited a (1 place), version {version}.\n--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    );
    assert_eq!(outcome.content, expected);
    let facts = data(&outcome);
    assert_eq!(
        (&facts["added"], &facts["removed"], &facts["replacements"]),
        (&json!(1), &json!(1), &json!(1))
    );
}

#[test]
fn what_stands_at_several_places_is_never_chosen_from() {
    for (text, old) in [
        ("    foo()\nx = foo()\n", "foo()"),
        ("foo()\nfoo()\n", "foo()"),
        ("aaa", "aa"),
        (
            "  if x:\n    a()\n    b()\n        if x:\n          a()\n          b()\n",
            "if x:\n  a()\n  b()\n",
        ),
        ("say \u{201c}hi\u{201d}\nsay \u{201c}hi\u{201d}\n", "say \"hi\""),
    ] {
        let error = check_refused(text, edit(old, "new"), ErrorKind::Conflict);
        assert!(error.message.contains("2 places in a"), "{}", error.message);
    }
}

#[test]
fn new_text_is_taken_literally() {
    for new in ["$&", "$$", "$1", "\\1", "\\n", "$`$'", "${x}", "%s", "\\"] {
        check("a old b\n", edit("old", new), &format!("a {new} b\n"));
        check("old old\n", edit_all("old", new), &format!("{new} {new}\n"));
    }
}

#[test]
fn a_single_place_that_differs_slightly_is_taken_and_told() {
    for (text, old, new, expected, words) in [
        ("a  \nb\n", "a\nb\n", "c\n", "c\n", "trailing spaces"),
        (
            "x\n\tif a:\n\t\tb()\n",
            "if a:\n\tb()\n",
            "if c:\n\td()\n",
            "x\n\tif c:\n\t\td()\n",
            "indentation",
        ),
        ("say \u{201c}hi\u{201d}\n", "say \"hi\"", "say no", "say no\n", "typographic"),
        ("a\tb\n", "a\\tb", "c", "c\n", "escapes"),
    ] {
        let outcome = check(text, edit(old, new), expected);
        let leniency = data(&outcome)["leniency"].as_str().expect("told to programs");
        assert!(leniency.contains(words), "{leniency}");
        assert!(
            outcome.content.contains(leniency) && outcome.content.contains("\n@@ "),
            "{}",
            outcome.content
        );
    }
    let exact = check("a\n", edit("a", "b"), "b\n");
    assert_eq!(data(&exact).get("leniency"), None);
}

#[test]
fn every_byte_outside_the_place_stays() {
    for (text, old, new, expected) in [
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n"),
        ("a\r\nb\nc\r\nd\n", "b\n", "x\ny\n", "a\r\nx\ny\nc\r\nd\n"),
        ("a\r\nb\nc\r\nd", "d", "e", "a\r\nb\nc\r\ne"),
        ("a\nb", "b", "c", "a\nc"),
        ("a\nb\n\n\n", "b", "c", "a\nc\n\n\n"),
        ("a \t\nb\n", "b", "c", "a \t\nc\n"),
        ("\u{feff}a\nb\n", "b", "c", "\u{feff}a\nc\n"),
        ("a\u{c}\u{b}\rb\n", "b", "c", "a\u{c}\u{b}\rc\n"),
    ] {
        check(text, edit(old, new), expected);
    }
}

#[test]
fn encodings_and_permissions_stay() {
    let setup = Setup::new();
    let latin = b"caf\xe9 cr\xe8me\nsecond\n";
    setup.put("a", latin);
    setup.set_mode("a", 0o751);
    setup.ok("edit", edit("caf\u{e9}", "th\u{e9}"));
    assert_eq!((setup.bytes("a"), setup.mode("a")), (b"th\xe9 cr\xe8me\nsecond\n".to_vec(), 0o751));
    let error = setup.refused("edit", edit("second", "\u{65e5}"), ErrorKind::Unsupported);
    assert!(error.message.contains("U+65E5"), "{}", error.message);
    assert_eq!(setup.bytes("a"), b"th\xe9 cr\xe8me\nsecond\n");
}

#[test]
fn an_expected_version_must_fit() {
    let setup = Setup::new();
    setup.put("a", "one two\n");
    let with = |old: &str, new: &str, version: &str| json!({"path": "a", "old_string": old, "new_string": new, "expected_version": version});
    let version = setup.version("a");
    setup.ok("edit", with("one", "1", &version));
    setup.refused("edit", with("two", "2", &version), ErrorKind::Conflict);
    setup.refused("edit", with("two", "2", "newest"), ErrorKind::Input);
    assert_eq!(setup.text("a"), "1 two\n");
}

#[test]
fn the_answer_is_short_however_long_the_file() {
    let setup = Setup::new();
    let text: String =
        (1..=5_000).map(|number| format!("let value_{number} = {number};\n")).collect();
    setup.put("a", &text);
    let outcome = setup.ok("edit", edit("let value_2500 = 2500;", "let value_2500 = 0;"));
    assert!(outcome.content.len() < 2_000, "{} bytes", outcome.content.len());
    assert!(outcome.content.contains("+let value_2500 = 0;"), "{}", outcome.content);
    assert!(data(&outcome).to_string().len() < 2_000);
    let all = setup.ok("edit", edit_all("let ", "var "));
    assert!(all.output_id.is_none() && all.content.len() < 20_000, "{} bytes", all.content.len());
    assert_eq!(data(&all)["replacements"], 5_000);
}

#[test]
fn the_answer_is_short_however_long_the_line() {
    let setup = Setup::new();
    setup.put("a", format!("{}old{}\n", "x".repeat(1 << 20), "y".repeat(1 << 20)));
    let outcome = setup.ok("edit", edit("old", "new"));
    assert!(outcome.content.len() < 10_000, "{} bytes", outcome.content.len());
    let error = setup.refused("edit", edit("xxxold1", "new"), ErrorKind::NotFound);
    assert!(error.message.len() + error.hint.len() < 10_000, "{} bytes", error.message.len());
}

#[test]
fn replace_all_replaces_all() {
    let outcome = check("a b a\na\n", edit_all("a", "aa"), "aa b aa\naa\n");
    assert!(outcome.content.starts_with("Edited a (3 places), "), "{}", outcome.content);
    check_refused("b\n", edit_all("a", "c"), ErrorKind::NotFound);
}

#[test]
fn the_call_that_is_advised_works() {
    let near = "fn main() {\n    let total = count + 1;\n    print(total);\n}\n";
    let missing = edit("let total = count + 2;\n    print(total);", "print(0);");
    let twice = "a = f();\nb = f();\n";
    for (text, input, kind, expected) in [
        (near, missing, ErrorKind::NotFound, "fn main() {\n    print(0);\n}\n"),
        (twice, edit("f()", "g()"), ErrorKind::Conflict, "a = g();\nb = f();\n"),
    ] {
        let error = check_refused(text, input, kind);
        check(text, advised(&error.hint), expected);
    }
}

#[test]
fn what_is_nowhere_is_shown_with_the_closest_place() {
    let text = "fn first() {}\n\nfn second(count: usize) {\n    work(count);\n}\n";
    let error = check_refused(text, edit("fn second(counts: usize) {", "x"), ErrorKind::NotFound);
    assert!(error.message.contains("line 3"), "{}", error.message);
    assert!(error.message.contains("3: fn second(count: usize) {"), "{}", error.message);
    let error = check_refused(text, edit("nothing like it at all", "x"), ErrorKind::NotFound);
    assert!(error.message.contains("nothing in the file resembles it"), "{}", error.message);
}

#[test]
fn edits_that_cannot_be_are_refused() {
    check_refused("a\n", edit("a", "a"), ErrorKind::Input);
    check_refused("", edit("a", "b"), ErrorKind::NotFound);
    let setup = Setup::new();
    setup.put("d/x", "x");
    setup.put("binary", b"\0\x01\x02x");
    let at = |path: &str| json!({"path": path, "old_string": "x", "new_string": "y"});
    let empty = setup.call("edit", json!({"path": "d/x", "old_string": "", "new_string": "y"}));
    assert_eq!(
        (empty.error.map(|error| error.kind), setup.text("d/x").as_str()),
        (Some(ErrorKind::Input), "x")
    );
    setup.refused("edit", at("missing"), ErrorKind::NotFound);
    setup.refused("edit", at("d"), ErrorKind::Input);
    setup.refused("edit", at("binary"), ErrorKind::Unsupported);
    assert_eq!(setup.bytes("binary"), b"\0\x01\x02x");
    assert!(!setup.has("missing"));
}

#[test]
fn a_link_is_edited_through() {
    let setup = Setup::new();
    setup.put("real", "old\n");
    setup.link("a", "real");
    setup.ok("edit", edit("old", "new"));
    assert_eq!(setup.text("real"), "new\n");
    assert!(setup.path("a").symlink_metadata().expect("there").is_symlink());
}
