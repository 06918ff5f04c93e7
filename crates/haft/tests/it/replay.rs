//! A session that was recorded over MCP, given again: the same bytes, and nothing is read, run or changed for it.

use std::{fs, process::Command};

use serde_json::{Value, json};

use crate::{house::House, mcp_stdio::Client, server::Database};

/// Every call with its answer as it came over the pipe.
type Played = Vec<String>;

fn calls() -> Vec<(&'static str, Value)> {
    vec![
        ("read", json!({"path": "a.txt"})),
        ("write", json!({"path": "a.txt", "content": "later\n"})),
        ("read", json!({"path": "a.txt"})),
        // Mended, refused, failed, unknown.
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

fn serve(house: &House, arguments: &[&str]) -> Client {
    let mut client = Client::start(house, arguments);
    client.listen();
    client.introduce(json!({}));
    client
}

fn record(house: &House, arguments: &[&str]) -> Played {
    fs::write(house.path("project/a.txt"), "first\n").expect("written");
    let all = [&["--structured", "always", "--approve", "all"], arguments].concat();
    let mut client = serve(house, &all);
    let played = play(&mut client);
    end(client);
    played
}

fn end(mut client: Client) {
    client.close();
    assert!(client.exit().success());
}

fn session(house: &House) -> String {
    let shown = house.run(&["ledger", "show", "--json", "--limit", "1"]).json();
    shown[0]["entry"]["session"].as_str().expect("a session").to_owned()
}

fn replay(house: &House, session: &str) -> Client {
    let project = house.path("project").display().to_string();
    let words = ["replay", session, "--structured", "always", "--profile", "developer"];
    let mut client = Client::of(house.haft(&[&words[..], &["--workspace", &project]].concat()));
    client.listen();
    client.introduce(json!({}));
    client
}

fn text(line: &str) -> String {
    let answer: Value = serde_json::from_str(line).expect("a message");
    answer["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

fn tamper(house: &House, sql: &str) {
    let script =
        format!("import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.executescript({sql:?})");
    let mut python = Command::new("python3");
    let status = python.arg("-c").arg(script).arg(house.path("project/.haft/haft.db")).status();
    assert!(status.is_ok_and(|status| status.success()), "{sql}");
}

#[test]
fn the_same_calls_get_the_same_bytes_and_nothing_is_run() {
    let house = House::new();
    let recorded = record(&house, &["--keep-results"]);
    assert!(text(&recorded[0]).contains("first") && text(&recorded[2]).contains("later"));
    let session = session(&house);
    let count = || house.run(&["store", "info", "--json"]).json()["entries"].clone();
    let before = count();
    fs::write(house.path("project/a.txt"), "changed since\n").expect("written");
    // Two at once, each from the beginning.
    let (mut one, mut two) = (replay(&house, &session), replay(&house, &session));
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
    assert_eq!(fs::read_to_string(house.path("project/a.txt")).expect("there"), "changed since\n");
    assert!(!house.path("project/made").exists());
    assert_eq!(count(), before, "a replay is not recorded");
}

#[test]
fn a_recording_in_a_database_is_given_again() {
    let Some(database) = Database::new() else { return };
    let url = database.url();
    let house = House::new().user_config(&format!("[store]\nurl = \"{url}\"\nresults = true\n"));
    let recorded = record(&house, &[]);
    let mut client = replay(&house, &session(&house));
    assert_eq!(play(&mut client), recorded);
    end(client);
    // And after a move to a file.
    let moved = house.run(&["store", "migrate", "--to", ".haft/haft.db"]);
    assert_eq!(moved.code, 0, "{moved:?}");
    let session = session(&house);
    let house = house.user_config("");
    let mut client = replay(&house, &session);
    assert_eq!(play(&mut client), recorded);
    end(client);
}

#[test]
fn what_was_changed_in_the_store_is_told_and_not_given() {
    let house = House::new();
    record(&house, &["--keep-results"]);
    let session = session(&house);
    tamper(&house, "UPDATE results SET content = X'7b7d', packing = 0");
    let mut client = replay(&house, &session);
    let played = play(&mut client);
    end(client);
    assert!(text(&played[0]).starts_with("error (conflict)"), "{}", played[0]);
    assert!(text(&played[0]).contains("is not what the call returned"), "{}", played[0]);
}

#[test]
fn what_was_dropped_or_never_kept_is_told_with_the_key_to_set() {
    let house = House::new();
    record(&house, &[]);
    let session_without = session(&house);
    let none = house.run(&["replay", &session_without]);
    assert_eq!(none.code, 3, "{none:?}");
    assert!(none.err.contains("no result of session"), "{none:?}");
    assert!(none.err.contains("results = true"), "{none:?}");
    let house = house.user_config("[outputs]\nmax_bytes = 1500\n");
    record(&house, &["--keep-results"]);
    let session = session(&house);
    let list = house.run(&["replay", &session, "--list"]);
    assert!(list.out.contains("[dropped]") && list.out.contains("[kept, "), "{list:?}");
    let unknown = house.run(&["replay", &format!("{session}x"), "--list"]);
    assert_eq!(unknown.code, 3, "{unknown:?}");
    assert!(unknown.err.contains(&session), "the nearest: {unknown:?}");
}

#[test]
fn a_list_shows_the_calls_in_order_with_what_is_kept() {
    let house = House::new();
    record(&house, &["--keep-results"]);
    let session = session(&house);
    let list = house.run(&["replay", &session, "--list"]);
    let lines: Vec<&str> = list.out.lines().collect();
    assert_eq!(lines.len(), calls().len(), "{list:?}");
    for (line, (tool, _)) in lines.iter().zip(calls()) {
        assert!(line.contains(tool) && line.contains("[kept, "), "{line}");
    }
    assert!(lines[5].contains("gone.txt") && lines[5].contains("(not_found)"), "{list:?}");
    let json = house.run(&["replay", &session, "--list", "--json"]).json();
    assert_eq!(json[7]["input"]["command"], "echo one; date +%s%N");
    assert_eq!((&json[7]["result"], json[7]["bytes"].is_u64()), (&json!("kept"), true));
}

#[test]
fn a_check_makes_the_looks_again_and_shows_what_differs() {
    let house = House::new();
    fs::write(house.path("project/b.txt"), "as it was\n").expect("written");
    let mut client = serve(&house, &["--keep-results", "--approve", "all"]);
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
    let session = session(&house);
    for made in ["made", "c.txt"] {
        fs::remove_file(house.path("project").join(made)).expect("it was made");
    }
    let same = house.run(&["replay", &session, "--check"]);
    assert_eq!(same.code, 0, "{same:?}");
    assert!(same.out.ends_with("2 as they were, 0 differ, 2 not run"), "{same:?}");
    assert!(!house.path("project/made").exists() && !house.path("project/c.txt").exists());
    fs::write(house.path("project/b.txt"), "as it is\n").expect("written");
    let entries = || house.run(&["store", "info", "--json"]).json()["entries"].clone();
    let before = entries();
    let differs = house.run(&["replay", &session, "--check"]);
    assert_eq!(differs.code, 1, "{differs:?}");
    assert!(differs.out.contains("as it was") && differs.out.contains("as it is"), "{differs:?}");
    assert!(differs.out.ends_with("1 as they were, 1 differ, 2 not run"), "{differs:?}");
    assert_eq!(entries(), before, "it does not become part of the recording");
    let json = house.run(&["replay", &session, "--check", "--json"]);
    assert_eq!((json.code, &json.json()["differs"]), (1, &json!(true)));
}

#[test]
fn results_are_kept_only_where_somebody_asked_for_it() {
    let house = House::new();
    house.run(&["hello", "Ada"]);
    let json = house.run(&["ledger", "show", "--json"]).json();
    assert_eq!(json[0]["entry"].get("result_sha256"), None, "{json}");
    let house = house.user_config("[store]\nresults = true\n");
    house.run(&["hello", "Ada"]);
    let list = house.run(&["replay", "cli", "--list", "--json"]).json();
    assert_eq!((&list[0]["result"], &list[1]["result"]), (&json!("not kept"), &json!("kept")));
    let house = house.user_config("[store]\nrecord = false\n");
    let refused = house.run(&["mcp", "--keep-results"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("record = false"), "{refused:?}");
}
