//! Ends: cancelled calls, clients that close their input, and clients that disappear.

use std::{
    fs,
    io::Write,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::client::{Client, TIMEOUT, call};
use crate::fixture::Fixture;

/// Cancelled work ends in milliseconds; an uncancelled search of that tree takes much longer than
/// this.
const STOPS: Duration = Duration::from_secs(20);

/// Creates a tree that takes a long time to search even on a fast machine: four thousand names of
/// one file, and a pattern that backtracks in every line.
fn slow_fixture() -> Fixture {
    let fixture = Fixture::new();
    let text = format!("{}\n", "ab".repeat(200)).repeat(2_000);
    let original = fixture.path("project/original.txt");
    fs::write(&original, text).expect("written");
    for folder in 0..8 {
        let folder = fixture.path(&format!("project/{folder}"));
        fs::create_dir(&folder).expect("a folder");
        for file in 0..500 {
            fs::hard_link(&original, folder.join(format!("{file}.txt"))).expect("another name");
        }
    }
    fixture
}

fn slow_search() -> Value {
    json!({"pattern": "(a|b)*(ab){20,40}(ba|ab){5,30}c"})
}

fn cancelled(id: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id.into()}})
}

#[test]
fn a_call_that_waits_for_a_person_can_be_called_off() {
    let fixture = Fixture::new();
    fs::write(fixture.path("project/doomed.txt"), "x").expect("written");
    let mut client = Client::introduced(&fixture, json!({"elicitation": {}}));
    client.call(1, "delete", json!({"path": "doomed.txt"}));
    let question = client.next();
    client.send(&cancelled(1));
    // An answer is too late now.
    let yes = json!({"action": "accept", "content": {"decision": "once"}});
    client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": yes}));
    client.call(2, "hello", json!({"name": "Ada"}));
    client.close();
    let rest = client.rest();
    let ids: Vec<&Value> =
        rest.iter().filter(|said| said.get("method").is_none()).map(|said| &said["id"]).collect();
    assert_eq!(ids, [2], "{rest:?}");
    assert!(client.exit().success());
    assert!(fixture.path("project/doomed.txt").exists());
}

#[test]
fn a_search_that_is_called_off_is_not_answered_and_stops() {
    let fixture = slow_fixture();
    let mut client = Client::introduced(&fixture, json!({}));
    client.call(1, "grep", slow_search());
    // A later call is answered while it runs, and it still runs after that.
    client.check_alive();
    client.send(&cancelled(1));
    client.check_alive();
    client.wait_until_idle(STOPS);
    client.close();
    assert_eq!(client.rest(), [] as [Value; 0]);
    assert!(client.exit().success());
}

#[test]
fn who_has_said_everything_still_gets_its_answers() {
    let fixture = slow_fixture();
    fs::write(fixture.path("project/small.txt"), "small\n").expect("written");
    let mut client = Client::introduced(&fixture, json!({}));
    for id in 0..500 {
        let tool = if id % 2 == 0 { "read" } else { "stat" };
        client.call(id, tool, json!({"path": "small.txt"}));
    }
    // Ten files take long enough that the search still runs when all requests are sent.
    let mut search = slow_search();
    search["path"] = "0".into();
    search["include"] = "1?.txt".into();
    client.call(500, "grep", search);
    client.send(&json!({"jsonrpc": "2.0", "id": 501, "method": "resources/list"}));
    // The last line needs no newline.
    client.write(call(502, "hello", json!({"name": "Ada"})).to_string().as_bytes());
    client.close();
    let rest = client.rest();
    let mut ids: Vec<u64> = rest.iter().filter_map(|answer| answer["id"].as_u64()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..=502).collect::<Vec<u64>>());
    assert!(rest.iter().all(|answer| answer["result"].is_object()), "{rest:?}");
    assert!(client.exit().success());
}

#[test]
fn who_says_nothing_at_all_ends_it_at_once() {
    let fixture = Fixture::new();
    let mut client = Client::new(&fixture);
    client.close();
    assert_eq!(client.rest(), [] as [Value; 0]);
    assert!(client.exit().success());
}

#[test]
fn a_long_search_does_not_outlive_a_client_that_is_gone() {
    let fixture = slow_fixture();
    let mut client = Client::introduced(&fixture, json!({}));
    client.call(1, "grep", slow_search());
    client.check_alive();
    let begin = Instant::now();
    client.die();
    assert!(client.exit().success());
    assert!(begin.elapsed() < STOPS, "{:?}", begin.elapsed());
}

/// The commands would write their files if haft let them run during its shutdown.
#[test]
fn commands_end_soon_after_the_input_of_the_server() {
    let fixture = Fixture::new().user_config("approve = \"all\"\nsandbox = \"off\"\n");
    let mut client = Client::introduced(&fixture, json!({}));
    let outlives = |file: &str| format!("echo begun > {file}-begun; sleep 8; echo late > {file}");
    client.call(1, "bash", json!({"command": outlives("behind"), "background": true}));
    assert_eq!(client.next()["id"], 1);
    client.call(2, "bash", json!({"command": outlives("before")}));
    let begun = ["behind-begun", "before-begun"].map(|file| fixture.path("project").join(file));
    let begin = Instant::now();
    while !begun.iter().all(|file| file.exists()) {
        assert!(begin.elapsed() < TIMEOUT, "a command does not begin");
        client.check_alive();
    }
    client.close();
    client.rest();
    assert!(client.exit().success());
    for file in ["behind", "before"] {
        assert!(!fixture.path("project").join(file).exists(), "`{file}` was still written");
    }
}

#[test]
fn a_client_that_dies_while_it_writes_leaves_nothing_half_written() {
    let fixture = Fixture::new();
    let mut client = Client::introduced(&fixture, json!({}));
    let content = "0123456789abcde\n".repeat(1 << 16);
    for number in 0..8 {
        let path = format!("{number}.txt");
        client.call(number, "write", json!({"path": path, "content": content}));
    }
    // And the start of another message.
    let last = call(8, "write", json!({"path": "8.txt", "content": content})).to_string();
    let mut input = client.take_input();
    input.write_all(&last.as_bytes()[..last.len() / 2]).expect("haft reads");
    drop(input);
    client.die();
    assert!(client.exit().success());
    for number in 0..8 {
        let path = fixture.path(&format!("project/{number}.txt"));
        let written = fs::read_to_string(path);
        assert!(written.is_err() || written.is_ok_and(|text| text == content), "{number}.txt");
    }
    assert!(!fixture.path("project/8.txt").exists());
    let unfinished = fs::read_dir(fixture.path("project/.haft/tmp")).map_or(0, Iterator::count);
    assert_eq!(unfinished, 0);
}
