//! Tests of edits to handwritten TOML, byte for byte.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const SECTION: &str = "[mcp_servers.haft]\ncommand = \"haft\"\nargs = [\"mcp\"]\n";

fn entry() -> Value {
    json!({ "command": "haft", "args": ["mcp"] })
}

#[track_caller]
fn check(before: &str, after: &str) {
    let edited = set(before, "mcp_servers", "haft", &entry()).expect("it can be edited");
    assert_eq!(edited, after);
    let table = parse(&edited).expect("it parses");
    assert_eq!(table["mcp_servers"]["haft"]["args"][0].as_str(), Some("mcp"));
}

#[track_caller]
fn check_removed(before: &str, after: &str) {
    assert_eq!(remove(before, "mcp_servers", "haft").expect("it can be edited"), after);
}

#[test]
fn a_section_is_put_at_the_end() {
    check("", SECTION);
    check("a = 1\n", &format!("a = 1\n\n{SECTION}"));
    check("a = 1", &format!("a = 1\n\n{SECTION}"));
    check(
        "[mcp_servers.b]\r\ncommand = 'x' # mine\r\n",
        &format!(
            "[mcp_servers.b]\r\ncommand = 'x' # mine\r\n\r\n{}",
            SECTION.replace('\n', "\r\n")
        ),
    );
    check("mcp_servers.b.command = 'x'\n", &format!("mcp_servers.b.command = 'x'\n\n{SECTION}"));
}

#[test]
fn a_section_is_replaced_with_those_below_it_and_comments_stay() {
    check(
        "# top\n[mcp_servers.haft] # ours\nurl = \"x\"\nnote = \"\"\"\n[not a header]\n\"\"\"\n\n# about env\n\
         [mcp_servers.haft.env]\nA = \"1\"\n\n# about b\n[mcp_servers.b]\ncommand = \"b\"\n",
        &format!("# top\n{SECTION}\n# about env\n\n# about b\n[mcp_servers.b]\ncommand = \"b\"\n"),
    );
    check(
        "[ mcp_servers . \"haft\" ]\ncommand = \"old\"\n[mcp_servers.hafted]\na = 1\n",
        &format!("{SECTION}[mcp_servers.hafted]\na = 1\n"),
    );
}

#[test]
fn an_inline_table_is_replaced_in_its_place() {
    check(
        "[mcp_servers]\nhaft = { command = \"old\" } # ours\nb = { command = \"b\" }\n",
        "[mcp_servers]\nhaft = { command = \"haft\", args = [\"mcp\"] } # ours\nb = { command = \"b\" }\n",
    );
}

#[test]
fn forms_that_are_not_edited_are_refused() {
    for (text, at, expected) in [
        ("mcp_servers = { b = {} }\n", 14, "`mcp_servers` is written in a form"),
        ("mcp_servers.haft.command = 'x'\n", 12, "`mcp_servers.haft` is written in a form"),
        ("mcp_servers = 3\n", 0, "`mcp_servers` must be a table"),
        ("a = [1, 2\n", 8, ""),
    ] {
        let error = set(text, "mcp_servers", "haft", &entry()).expect_err("refused");
        assert!(error.problem.contains(expected) && error.at >= at, "{text}: {error:?}");
    }
}

#[test]
fn a_section_is_removed_with_the_blank_line_before_it() {
    check_removed(&format!("a = 1\n\n{SECTION}"), "a = 1\n");
    check_removed(&format!("a = 1\r\n\r\n{}", SECTION.replace('\n', "\r\n")), "a = 1\r\n");
    check_removed(&format!("{SECTION}\n[b]\n"), "\n[b]\n");
    check_removed(&format!("a = 1\n{SECTION}[mcp_servers.haft.env]\nA = '1'\n"), "a = 1\n");
    check_removed("[mcp_servers]\nhaft = {}\nb = {}\n", "[mcp_servers]\nb = {}\n");
    check_removed("a = 1\n", "a = 1\n");
}

#[test]
fn strings_are_written_so_that_toml_reads_them() {
    let odd = "a\"b\\c\nd\u{7f}ä\u{1}";
    let text =
        set("", "mcp_servers", "haft", &json!({ "command": odd })).expect("it can be written");
    assert_eq!(
        parse(&text).expect("it parses")["mcp_servers"]["haft"]["command"].as_str(),
        Some(odd)
    );
}

/// Files made of pieces that follow each other in any order.
fn files() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("[a]\nx = 1\n"),
        Just("# [mcp_servers.haft]\n"),
        Just("\n"),
        Just("[mcp_servers.b]\ncommand = \"b\"\nargs = [\n  \"[x]\",\n]\n"),
        Just("[mcp_servers.haft]\ncommand = '''\n[a]\n'''\n"),
        Just("[mcp_servers.haft.env]\nA = \"1\" # one\n"),
        Just("[[list]]\ny = { z = [1, 2] }\n"),
        Just("[mcp_servers]\nhaft = { command = \"x\" }\n"),
    ];
    (proptest::collection::vec(piece, 0..7), any::<bool>()).prop_map(|(pieces, is_crlf)| {
        let text = pieces.concat();
        if is_crlf { text.replace('\n', "\r\n") } else { text }
    })
}

proptest! {
    #[test]
    fn an_edit_changes_the_table_and_nothing_else(text in files()) {
        let others = |text: &str| {
            let mut table = parse(text).expect("it parses");
            if let Some(servers) = table.get_mut("mcp_servers").and_then(toml::Value::as_table_mut) {
                servers.remove("haft");
            }
            table.entry("mcp_servers").or_insert_with(|| toml::Table::new().into());
            table
        };
        if parse(&text).is_ok() {
            let edited = set(&text, "mcp_servers", "haft", &entry()).expect("it can be edited");
            prop_assert_eq!(others(&edited), others(&text));
            let wanted = serde_json::to_value(&parse(&edited).expect("it parses")["mcp_servers"]["haft"]);
            prop_assert_eq!(wanted.expect("it is plain"), entry());
            let removed = remove(&edited, "mcp_servers", "haft").expect("it can be edited");
            prop_assert_eq!(others(&removed), others(&text));
            prop_assert!(!removed.lines().any(|line| line.starts_with("[mcp_servers.haft")));
        }
    }
}
