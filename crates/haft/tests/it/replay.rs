//! Replay of a session that was recorded over MCP: the same bytes, and nothing is read, run or
//! changed.

use std::{fs, process::Command};

use serde_json::{Value, json};

use crate::{fixture::Fixture, mcp_stdio::Client, server::Database};

/// The answers of all calls as they came over the pipe.
type Played = Vec<String>;

fn calls() -> Vec<(&'static str, Value)> {
    vec![
        ("read", json!({"path": "a.txt"})),
        ("write", json!({"path": "a.txt", "content": "later\n"})),
        ("read", json!({"path": "a.txt"})),
        // Repaired, refused, failed, unknown.
        ("read", json!({"file_path": "a.txt", "limit": "1"})),
        ("read", json!({"path": 7})),
        ("read", json!({"path": "gone.txt"})),
        ("nonsense", json!({"x": 1})),
        ("bash", json!({"command": "echo one; date +%s%N"})),
        ("grep", json!({"pattern": "l.t"})),
        ("undo", json!({})),
    ]
}

fn play(client: &mut Client) -> Played {
    let mut played = Vec::new();
    for (id, (tool, input)) in calls().into_iter().enumerate() {
        client.call(id, tool, input);
        played.push(client.next_line());
    }
    played
}

fn serve(fixture: &Fixture, arguments: &[&str]) -> Client {
    let mut client = Client::start(fixture, arguments);
    client.listen();
    client.introduce(json!({}));
    client
}

fn record(fixture: &Fixture, arguments: &[&str]) -> Played {
    fs::write(fixture.path("project/a.txt"), "first\n").expect("written");
    let all = [&["--structured", "always", "--approve", "all"], arguments].concat();
    let mut client = serve(fixture, &all);
    let played = play(&mut client);
    end(client);
    played
}

fn end(mut client: Client) {
    client.close();
    assert!(client.exit().success());
}

fn session(fixture: &Fixture) -> String {
    let shown = fixture.run(&["ledger", "show", "--json", "--limit", "1"]).json();
    shown[0]["entry"]["session"].as_str().expect("a session").to_owned()
}

fn replay(fixture: &Fixture, session: &str) -> Client {
    let project = fixture.path("project").display().to_string();
    let words = ["replay", session, "--structured", "always", "--profile", "developer"];
    let mut client = Client::of(fixture.haft(&[&words[..], &["--workspace", &project]].concat()));
    client.listen();
    client.introduce(json!({}));
    client
}

fn text(line: &str) -> String {
    let answer: Value = serde_json::from_str(line).expect("a message");
    answer["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

fn tamper(fixture: &Fixture, sql: &str) {
    let script =
        format!("import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.executescript({sql:?})");
    let mut python = Command::new("python3");
    let status = python.arg("-c").arg(script).arg(fixture.path("project/.haft/haft.db")).status();
    assert!(status.is_ok_and(|status| status.success()), "{sql}");
}

#[test]
fn the_same_calls_get_the_same_bytes_and_nothing_is_run() {
    let fixture = Fixture::new();
    let recorded = record(&fixture, &["--keep-results"]);
    assert!(text(&recorded[0]).contains("first") && text(&recorded[2]).contains("later"));
    let session = session(&fixture);
    let count = || fixture.run(&["store", "info", "--json"]).json()["entries"].clone();
    let before = count();
    fs::write(fixture.path("project/a.txt"), "changed since\n").expect("written");
    // Two at once, each from the start.
    let (mut one, mut two) = (replay(&fixture, &session), replay(&fixture, &session));
    assert_eq!(play(&mut one), recorded);
    assert_eq!(play(&mut two), recorded);
    let once_more = play(&mut one);
    assert!(text(&once_more[7]).contains("was called once in session"), "{}", once_more[7]);
    two.call("x", "bash", json!({"command": "touch made"}));
    let told = text(&two.next_line());
    assert!(told.starts_with("error (not_found)"), "{told}");
    assert!(
        told.contains("`command` is \"echo one; date +%s%N\" instead of \"touch made\""),
        "{told}"
    );
    end(one);
    end(two);
    assert_eq!(
        fs::read_to_string(fixture.path("project/a.txt")).expect("there"),
        "changed since\n"
    );
    assert!(!fixture.path("project/made").exists());
    assert_eq!(count(), before, "a replay is not recorded");
}

#[test]
fn a_recording_in_a_database_is_given_again() {
    let Some(database) = Database::new() else { return };
    let url = database.url();
    let fixture =
        Fixture::new().user_config(&format!("[store]\nurl = \"{url}\"\nresults = true\n"));
    let recorded = record(&fixture, &[]);
    let mut client = replay(&fixture, &session(&fixture));
    assert_eq!(play(&mut client), recorded);
    end(client);
    // The same after a migration to a file.
    let moved = fixture.run(&["store", "migrate", "--to", ".haft/haft.db"]);
    assert_eq!(moved.code, 0, "{moved:?}");
    let session = session(&fixture);
    let fixture = fixture.user_config("");
    let mut client = replay(&fixture, &session);
    assert_eq!(play(&mut client), recorded);
    end(client);
}

#[test]
fn what_was_changed_in_the_store_is_told_and_not_given() {
    let fixture = Fixture::new();
    record(&fixture, &["--keep-results"]);
    let session = session(&fixture);
    tamper(&fixture, "UPDATE results SET content = X'7b7d', packing = 0");
    let mut client = replay(&fixture, &session);
    let played = play(&mut client);
    end(client);
    assert!(text(&played[0]).starts_with("error (conflict)"), "{}", played[0]);
    assert!(text(&played[0]).contains("is not what the call returned"), "{}", played[0]);
}

#[test]
fn what_was_dropped_or_never_kept_is_told_with_the_key_to_set() {
    let fixture = Fixture::new();
    record(&fixture, &[]);
    let session_without = session(&fixture);
    let none = fixture.run(&["replay", &session_without]);
    assert_eq!(none.code, 3, "{none:?}");
    assert!(none.err.contains("no result of session"), "{none:?}");
    assert!(none.err.contains("results = true"), "{none:?}");
    let fixture = fixture.user_config("[outputs]\nmax_bytes = 1500\n");
    record(&fixture, &["--keep-results"]);
    let session = session(&fixture);
    let list = fixture.run(&["replay", &session, "--list"]);
    assert!(list.out.contains("[dropped]") && list.out.contains("[kept, "), "{list:?}");
    let unknown = fixture.run(&["replay", &format!("{session}x"), "--list"]);
    assert_eq!(unknown.code, 3, "{unknown:?}");
    assert!(unknown.err.contains(&session), "the nearest: {unknown:?}");
}

#[test]
fn a_list_shows_the_calls_in_order_with_what_is_kept() {
    let fixture = Fixture::new();
    record(&fixture, &["--keep-results"]);
    let session = session(&fixture);
    let list = fixture.run(&["replay", &session, "--list"]);
    let lines: Vec<&str> = list.out.lines().collect();
    assert_eq!(lines.len(), calls().len(), "{list:?}");
    for (line, (tool, _)) in lines.iter().zip(calls()) {
        assert!(line.contains(tool) && line.contains("[kept, "), "{line}");
    }
    assert!(lines[5].contains("gone.txt") && lines[5].contains("(not_found)"), "{list:?}");
    let json = fixture.run(&["replay", &session, "--list", "--json"]).json();
    assert_eq!(json[7]["input"]["command"], "echo one; date +%s%N");
    assert_eq!((&json[7]["result"], json[7]["bytes"].is_u64()), (&json!("kept"), true));
}

#[test]
fn a_check_makes_the_looks_again_and_shows_what_differs() {
    let fixture = Fixture::new();
    fs::write(fixture.path("project/b.txt"), "as it was\n").expect("written");
    let mut client = serve(&fixture, &["--keep-results", "--approve", "all"]);
    let looks = [
        ("read", json!({"path": "b.txt"})),
        ("list", json!({})),
        ("bash", json!({"command": "touch made"})),
        ("write", json!({"path": "c.txt", "content": "c"})),
    ];
    for (id, (tool, input)) in looks.into_iter().enumerate() {
        client.call(id, tool, input);
        client.next();
    }
    end(client);
    let session = session(&fixture);
    for made in ["made", "c.txt"] {
        fs::remove_file(fixture.path("project").join(made)).expect("it was made");
    }
    let same = fixture.run(&["replay", &session, "--check"]);
    assert_eq!(same.code, 0, "{same:?}");
    assert!(same.out.ends_with("2 unchanged, 0 differ, 2 not run"), "{same:?}");
    assert!(!fixture.path("project/made").exists() && !fixture.path("project/c.txt").exists());
    fs::write(fixture.path("project/b.txt"), "as it is\n").expect("written");
    let entries = || fixture.run(&["store", "info", "--json"]).json()["entries"].clone();
    let before = entries();
    let differs = fixture.run(&["replay", &session, "--check"]);
    assert_eq!(differs.code, 1, "{differs:?}");
    assert!(differs.out.contains("as it was") && differs.out.contains("as it is"), "{differs:?}");
    assert!(differs.out.ends_with("1 unchanged, 1 differ, 2 not run"), "{differs:?}");
    assert_eq!(entries(), before, "it does not become part of the recording");
    let json = fixture.run(&["replay", &session, "--check", "--json"]);
    assert_eq!((json.code, &json.json()["differs"]), (1, &json!(true)));
}

#[test]
fn results_are_kept_only_where_somebody_asked_for_it() {
    let fixture = Fixture::new();
    fixture.run(&["hello", "Ada"]);
    let json = fixture.run(&["ledger", "show", "--json"]).json();
    assert_eq!(json[0]["entry"].get("result_sha256"), None, "{json}");
    let fixture = fixture.user_config("[store]\nresults = true\n");
    fixture.run(&["hello", "Ada"]);
    let list = fixture.run(&["replay", "cli", "--list", "--json"]).json();
    assert_eq!((&list[0]["result"], &list[1]["result"]), (&json!("not kept"), &json!("kept")));
    let fixture = fixture.user_config("[store]\nrecord = false\n");
    let refused = fixture.run(&["mcp", "--keep-results"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("record = false"), "{refused:?}");
}
