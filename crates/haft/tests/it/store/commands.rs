//! `haft ledger` and `haft store` on the command line.

use std::fs;

use serde_json::Value;

use super::usual;
use crate::fixture::{Fixture, Screen};

/// Returns a fixture with four calls, two of which failed.
fn busy_fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.run(&["hello", "Ada"]);
    fixture.run(&["read", "gone.txt"]);
    fixture.run(&["call", "write", r#"{"path": "a.txt", "content": "x"}"#]);
    fixture.run_without_terminal(&["hello", "Ada", "--approve", "none"]);
    fixture
}

pub(super) fn tamper(fixture: &Fixture, sql: &str) {
    let script =
        format!("import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.executescript({sql:?})");
    let mut python = std::process::Command::new("python3");
    let status = python.arg("-c").arg(script).arg(usual(fixture)).status();
    assert!(status.is_ok_and(|status| status.success()), "{sql}");
}

#[test]
fn a_terminal_shows_colours_and_not_their_signs() {
    let fixture = busy_fixture();
    for (arguments, told) in [
        (["ledger", "verify"], "5 entries, the chain is intact"),
        (["store", "check"], "haft.db is intact"),
    ] {
        let screen = Screen::haft(&fixture, &arguments);
        assert_eq!(screen.exit_code(), 0);
        screen.wait_for(told);
    }
}

#[test]
fn the_newest_calls_are_shown_with_what_was_decided() {
    let fixture = busy_fixture();
    let shown = fixture.run(&["ledger", "show"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    let lines: Vec<&str> = shown.out.lines().collect();
    assert_eq!(lines.len(), 5, "{shown:?}");
    for (line, parts) in lines.iter().zip([
        ["#", "session", "decision", "rule"],
        ["5", "hello", "ask (approval_unavailable)", "mode none"],
        ["4", "write", "allow", "mode contained"],
        ["2", "read", "allow (not_found)", "mode contained"],
        ["1", "hello", "allow", "mode contained"],
    ]) {
        assert_eq!(line.split_whitespace().next(), Some(parts[0]), "{line}");
        assert!(parts.iter().all(|part| line.contains(part)), "{line}: {parts:?}");
    }
    let count = |arguments: &[&str]| {
        let arguments = [&["ledger", "show", "--json"], arguments].concat();
        fixture.run(&arguments).json().as_array().map(Vec::len)
    };
    assert_eq!(count(&[]), Some(4));
    assert_eq!(count(&["--tool", "hello"]), Some(2));
    assert_eq!(count(&["--session", "cli", "--limit", "3"]), Some(3));
    assert_eq!(count(&["--session", "other"]), Some(0));
    assert_eq!(count(&["--since", "1h"]), Some(4));
    assert_eq!(count(&["--since", "2100-01-01"]), Some(0));
}

#[test]
fn a_whole_chain_gives_an_anchor_and_a_broken_one_says_where() {
    let fixture = busy_fixture();
    let verified = fixture.run(&["ledger", "verify", "--json"]);
    assert_eq!(verified.code, 0, "{verified:?}");
    let verified = verified.json();
    assert_eq!((&verified["whole"], &verified["entries"]), (&Value::Bool(true), &Value::from(5)));
    let anchor = verified["anchor"].as_str().expect("an anchor").to_owned();
    assert_eq!(fixture.run(&["ledger", "verify", "--anchor", &anchor]).code, 0);
    tamper(
        &fixture,
        "UPDATE ledger SET entry = replace(entry, 'gone.txt', 'other.txt') WHERE seq = 2",
    );
    let broken = fixture.run(&["ledger", "verify"]);
    assert_eq!(broken.code, 4, "{broken:?}");
    assert!(broken.out.contains("broken at 1 place\n  entry 2: its hash"), "{broken:?}");
    let checked = fixture.run(&["store", "check"]);
    assert!(checked.code == 4 && checked.out.contains("call 2: its hash"), "{checked:?}");
    tamper(
        &fixture,
        "DELETE FROM ledger WHERE seq > 1; UPDATE chain SET seq = 1, hash = (SELECT hash FROM ledger)",
    );
    assert_eq!(fixture.run(&["ledger", "verify"]).code, 0, "the store alone cannot know");
    let cut = fixture.run(&["ledger", "verify", "--anchor", &anchor]);
    assert!(cut.code == 4 && cut.out.contains("entries 2 to 5, the last, are missing"), "{cut:?}");
}

#[test]
fn an_export_is_lines_of_json_that_anybody_can_verify() {
    let fixture = busy_fixture();
    // The stored text, because the hash covers bytes.
    let exported = fixture.haft(&["ledger", "export"]).output().expect("haft runs").stdout;
    let exported = String::from_utf8(exported).expect("it is UTF-8");
    let lines: Vec<Value> =
        exported.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.iter().map(|line| line["seq"].clone()).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(lines[2]["entry"]["tool"], "write");
    // Computed here: the previous hash and the bytes of the entry.
    let script = r#"
import sys, hashlib
before = '0' * 64
for line in sys.stdin:
    text = line.rstrip('\n')
    hash, entry = text.split('"hash":"')[1][:64], text.split('"entry":', 1)[1][:-1]
    assert hashlib.sha256((before + entry).encode()).hexdigest() == hash, text
    before = hash
print('whole')
"#;
    let file = fixture.path("export.jsonl");
    fs::write(&file, &exported).expect("written");
    let mut python = std::process::Command::new("python3");
    python.arg("-c").arg(script).stdin(fs::File::open(file).expect("there"));
    let output = python.output().expect("python runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "whole\n", "{output:?}");
    assert_eq!(fixture.run(&["ledger", "export", "--tool", "write"]).out.lines().count(), 2);
}

#[test]
fn figures_count_tools_decisions_and_errors() {
    let figures = busy_fixture().run(&["ledger", "stats", "--json"]).json();
    assert_eq!((&figures["calls"], &figures["errors"]), (&Value::from(4), &Value::from(2)));
    assert_eq!(figures["by_tool"]["hello"]["calls"], 2);
    assert_eq!(
        (&figures["by_decision"]["allow"], &figures["by_decision"]["ask"]),
        (&Value::from(3), &Value::from(1))
    );
    assert_eq!(figures["by_error"]["not_found"], 1);
}

#[test]
fn without_a_store_there_is_nothing_to_show_and_none_is_made() {
    let fixture = Fixture::new();
    assert_eq!(fixture.run(&["ledger", "show"]).out, "no calls are recorded");
    assert_eq!(fixture.run(&["ledger", "verify"]).code, 0);
    assert_eq!(fixture.run(&["ledger", "export"]).whole(), "\n--- stderr\n\n--- exit 0");
    for arguments in [&["store", "info"][..], &["store", "check"], &["store", "backup", "b.db"]] {
        let ran = fixture.run(arguments);
        assert_eq!(ran.code, 3, "{ran:?}");
        assert!(ran.err.contains("no store exists at"), "{ran:?}");
    }
    assert!(!usual(&fixture).exists() && !fixture.path("project/b.db").exists());
}

#[test]
fn wrong_words_are_refused_with_what_was_expected() {
    let fixture = busy_fixture();
    for (arguments, told) in [
        (&["ledger", "show", "--since", "tomorrow"][..], "expected a duration"),
        (&["ledger", "show", "--limit", "0"], "0 is not in 1.."),
        (&["ledger", "verify", "--anchor", "4"], "expected NUMBER:HASH"),
        (&["ledger", "prune", "all"], "unexpected argument 'all'"),
        (&["ledger", "forget"], "unrecognized subcommand 'forget'"),
        (&["store", "backup"], "<FILE>"),
    ] {
        let ran = fixture.run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {ran:?}");
        assert!(ran.err.contains(told), "{arguments:?}: {ran:?}");
    }
    let gone = fixture.run(&["store", "restore", "gone.db"]);
    assert!(gone.code == 3 && gone.err.contains("there is no backup"), "{gone:?}");
    fs::write(fixture.path("project/taken"), "").expect("written");
    let taken = fixture.run(&["store", "backup", "taken"]);
    assert!(taken.code == 4 && taken.err.contains("already exists"), "{taken:?}");
}

#[test]
fn info_tells_where_the_store_is_and_what_is_in_it() {
    let fixture = busy_fixture();
    let info = fixture.run(&["store", "info"]);
    assert!(
        info.out.starts_with("store    <root>/project/.haft/haft.db\nengine   sqlite 3."),
        "{info:?}"
    );
    assert!(info.out.contains("\ncalls    4\nrules    0\n"), "{info:?}");
    let line = |part: &str| info.out.lines().find(|line| line.starts_with(part)).map(str::to_owned);
    let rows = |part: &str| line(part)?.split_whitespace().rev().nth(1)?.parse::<u64>().ok();
    // Two read-only calls and a refused one.
    assert_eq!(rows("ledger, read-only"), Some(3), "{info:?}");
    assert_eq!((rows("ledger, begun"), rows("ledger, changing")), (Some(1), Some(1)), "{info:?}");
}
