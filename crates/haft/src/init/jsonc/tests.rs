//! Tests of edits to handwritten texts, byte for byte.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const PATH: &[&str] = &["servers"];

fn entry() -> Value {
    json!({ "command": "haft", "args": ["mcp"] })
}

#[track_caller]
fn check(before: &str, after: &str) {
    let edited = set(before, PATH, "haft", &entry()).expect("it can be edited");
    assert_eq!(edited, after);
    let again = set(&edited, PATH, "haft", &entry()).expect("it can be edited");
    assert_eq!(again, edited, "a second time changes nothing");
    let tree = |text: &str| parse(text).expect("it parses").map(|root| root.tree());
    let expected = JsonTree::with(tree(before), PATH, "haft", &entry());
    assert_eq!(tree(&edited), expected, "nothing else changed");
}

#[track_caller]
fn check_removed(before: &str, after: &str) {
    assert_eq!(remove(before, PATH, "haft").expect("it can be edited"), after);
}

#[track_caller]
fn check_error(text: &str, line: usize, column: usize, problem: &str) {
    let error = set(text, PATH, "haft", &entry()).expect_err("it is invalid");
    assert_eq!((error.position(text), error.problem.as_str()), ((line, column), problem));
}

#[test]
fn a_text_without_a_root_gets_one() {
    let object = "{\n  \"servers\": {\n    \"haft\": {\n      \"command\": \"haft\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}\n";
    check("", object);
    check(" \n\n", object);
    check("// mine\n\n", &format!("// mine\n{object}"));
    assert_eq!(document(None, PATH, "haft", &entry()), object);
}

#[test]
fn an_empty_object_is_opened_up() {
    let inner = "\"servers\": {\n    \"haft\": {\n      \"command\": \"haft\",\n      \"args\": [\"mcp\"]\n    }\n  }";
    check("{}", &format!("{{\n  {inner}\n}}"));
    check("{ }\n", &format!("{{\n  {inner}\n}}\n"));
    check("{\n}\n", &format!("{{\n  {inner}\n}}\n"));
    check("{\n  \"servers\": {}\n}\n", &format!("{{\n  {inner}\n}}\n"));
}

#[test]
fn a_comment_stays_with_what_it_is_about() {
    check(
        "{\n    \"servers\": {\n        \"a\": 1 // the first\n        // \"b\": 2\n    }\n}\n",
        "{\n    \"servers\": {\n        \"a\": 1, // the first\n        // \"b\": 2\n        \"haft\": {\n            \
         \"command\": \"haft\",\n            \"args\": [\"mcp\"]\n        }\n    }\n}\n",
    );
    check(
        "{\n  \"servers\": { /* none yet */ }\n}\n",
        "{\n  \"servers\": { /* none yet */\n    \"haft\": {\n      \"command\": \"haft\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}\n",
    );
}

#[test]
fn trailing_commas_tabs_and_other_line_ends_stay() {
    check(
        "{\r\n\t\"theme\": \"x\",\r\n\t\"servers\": {\r\n\t\t\"a\": {},\r\n\t},\r\n}\r\n",
        "{\r\n\t\"theme\": \"x\",\r\n\t\"servers\": {\r\n\t\t\"a\": {},\r\n\t\t\"haft\": {\r\n\t\t\t\"command\": \"haft\",\r\n\t\t\t\
         \"args\": [\"mcp\"]\r\n\t\t},\r\n\t},\r\n}\r\n",
    );
}

#[test]
fn what_is_on_one_line_stays_on_one_line() {
    let haft = "\"haft\": {\"command\": \"haft\", \"args\": [\"mcp\"]}";
    check("{\"a\":1}", &format!("{{\"a\":1, \"servers\": {{{haft}}}}}"));
    check("{\"servers\":{}}", &format!("{{\"servers\":{{{haft}}}}}"));
    check("{\"servers\":{\"a\":1,}}", &format!("{{\"servers\":{{\"a\":1, {haft},}}}}"));
    check(
        "{\n  \"servers\": { \"a\": 1 }\n}\n",
        &format!("{{\n  \"servers\": {{ \"a\": 1, {haft} }}\n}}\n"),
    );
}

#[test]
fn an_entry_is_replaced_in_its_place() {
    check(
        "{\n  \"servers\": {\n    \"haft\": { \"url\": \"x\" }, // ours\n    \"b\": 2\n  }\n}\n",
        "{\n  \"servers\": {\n    \"haft\": {\n      \"command\": \"haft\",\n      \"args\": [\"mcp\"]\n    }, // ours\n    \"b\": 2\n  }\n}\n",
    );
    check(
        "{\"servers\":{\"haft\":null,\"b\":2}}",
        "{\"servers\":{\"haft\":{\"command\": \"haft\", \"args\": [\"mcp\"]},\"b\":2}}",
    );
}

#[test]
fn of_two_members_with_one_name_the_last_counts() {
    let after = "{\"servers\":{\"haft\":1},\"servers\":{\"haft\":{\"command\": \"haft\", \"args\": [\"mcp\"]}}}";
    check("{\"servers\":{\"haft\":1},\"servers\":{\"haft\":2}}", after);
    check_removed("{\"servers\":{\"haft\":1,\"a\":0,\"haft\":2}}", "{\"servers\":{\"a\":0}}");
}

#[test]
fn an_entry_is_removed_with_its_line_and_comma() {
    let with = |servers: &str| format!("{{\n  \"servers\": {{\n{servers}  }}\n}}\n");
    let haft = "    \"haft\": {\n      \"command\": \"haft\"\n    }";
    check_removed(&with(&format!("    \"a\": 1,\n{haft}\n")), &with("    \"a\": 1\n"));
    check_removed(&with(&format!("    \"a\": 1,\n{haft},\n")), &with("    \"a\": 1,\n"));
    check_removed(&with(&format!("{haft},\n    \"a\": 1\n")), &with("    \"a\": 1\n"));
    check_removed(&with(&format!("{haft}\n")), &with(""));
    check_removed(
        &with(&format!("    \"a\": 1, // one\n{haft}\n")),
        &with("    \"a\": 1 // one\n"),
    );
    check_removed(
        &with(&format!("{haft}, // mine\n    \"a\": 1\n")),
        &with("    // mine\n    \"a\": 1\n"),
    );
    check_removed("{\"servers\":{\"a\":1,\"haft\":2}}", "{\"servers\":{\"a\":1}}");
    check_removed("{\"servers\":{\"haft\":2, \"a\":1}}", "{\"servers\":{\"a\":1}}");
    check_removed("{\"servers\":{}}", "{\"servers\":{}}");
    check_removed("// nothing", "// nothing");
}

#[test]
fn syntax_errors_have_a_position() {
    check_error("{\n  \"a\": 1\n  \"b\": 2\n}", 3, 3, "expected `,` or `}`, found `\"`");
    check_error("{ä: 1}", 1, 2, "expected a name in quotes or `}`, found `ä`");
    check_error("{\"a\" 1}", 1, 6, "expected `:`, found `1`");
    check_error("{\"a\": }", 1, 7, "expected a value, found `}`");
    check_error("{\"a\": nope}", 1, 7, "expected a value, found `n`");
    check_error("{\"a\": [1 2]}", 1, 10, "expected `,` or `]`, found `2`");
    check_error("{\"a\": \"b\n\"}", 1, 7, "this string is never closed");
    check_error("{} /* open", 1, 4, "this comment is never closed");
    check_error("{} {}", 1, 4, "expected the end of the file, found `{`");
    check_error("{\"a\": 1", 1, 8, "expected `,` or `}`, found the end of the file");
    check_error("{,}", 1, 2, "expected a name in quotes or `}`, found `,`");
    check_error("[]", 1, 1, "the file must be an object in braces");
    check_error("{\"servers\": []}", 1, 13, "`servers` must be an object in braces");
    check_error(&"[".repeat(100_000), 1, 202, "nested deeper than 200 levels");
}

#[test]
fn half_a_surrogate_pair_does_not_stop_an_edit() {
    check(
        "{\n  \"cut\\ud83d\": \"off \\ud83d\",\n  \"big\": 1e999\n}",
        "{\n  \"cut\\ud83d\": \"off \\ud83d\",\n  \"big\": 1e999,\n  \"servers\": {\n    \"haft\": {\n      \"command\": \"haft\",\n      \
         \"args\": [\"mcp\"]\n    }\n  }\n}",
    );
}

/// Documents in several layouts, with comments and trailing commas.
fn documents() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just("1".to_owned()),
        Just("null".to_owned()),
        Just("\"x } // \\\" y\"".to_owned()),
        Just("[1, /* two */ 2,]".to_owned()),
    ];
    let blank = prop_oneof![
        Just(""),
        Just(" "),
        Just("\n  "),
        Just("\r\n\t"),
        Just(" // note\n"),
        Just("/* a, } */"),
    ];
    let name = prop_oneof![Just("a"), Just("servers"), Just("haft"), Just("b c")];
    scalar.prop_recursive(4, 24, 4, move |inner| {
        let member = (blank.clone(), name.clone(), blank.clone(), inner);
        (proptest::collection::vec(member, 0..4), any::<bool>(), blank.clone()).prop_map(
            |(members, has_trailing_comma, end)| {
                let members: Vec<String> = members
                    .iter()
                    .map(|(before, name, after, value)| {
                        format!("{before}\"{name}\":{after}{value}")
                    })
                    .collect();
                let comma = if has_trailing_comma && !members.is_empty() { "," } else { "" };
                format!("{{{}{comma}{end}}}", members.join(","))
            },
        )
    })
}

proptest! {
    #[test]
    fn an_edit_changes_the_entry_and_nothing_else(text in documents()) {
        let before = parse(&text).expect("it parses").map(|root| root.tree());
        if let Ok(edited) = set(&text, PATH, "haft", &entry()) {
            let after = parse(&edited).expect("it still parses").map(|root| root.tree());
            prop_assert_eq!(after, JsonTree::with(before, PATH, "haft", &entry()));
            let removed = remove(&edited, PATH, "haft").expect("an added entry can be removed");
            let rest = parse(&removed).expect("it still parses").map(|root| root.tree());
            let expected = parse(&edited).expect("it parses").map(|root| root.tree().without(PATH, "haft"));
            prop_assert_eq!(rest, expected);
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "[{}\\[\\]\",:/*\\\\ \\na1\u{e9}]{0,40}") {
        let _ = set(&text, PATH, "haft", &entry());
        let _ = remove(&text, PATH, "haft");
        prop_assert!(parse(&text).is_ok() || parse(&text).is_err_and(|error| error.at <= text.len()));
    }

    #[test]
    fn json_that_serde_reads_is_read_here_too(text in documents()) {
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            let root = parse(&text).expect("it parses").expect("there is a root");
            prop_assert_eq!(root.tree().value(), value);
        }
    }
}
