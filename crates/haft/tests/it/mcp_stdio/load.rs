//! Load: long messages, thousands of calls, and a client that does not read the answers.

use std::{collections::HashSet, io::Write, os::fd::AsFd, thread, time::Instant};

use serde_json::{Value, json};

use super::client::{Client, TIMEOUT, call};
use crate::fixture::Fixture;

/// More than twice the memory that these tests need, and less than keeping one huge message would
/// add.
const MAX_MB: u64 = 120;

#[test]
fn a_giant_message_is_passed_over_and_not_kept() {
    let fixture = Fixture::new();
    let mut client = Client::introduced(&fixture, json!({}));
    let piece = vec![b'x'; 1 << 20];
    client
        .write(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"");
    for _ in 0..33 {
        client.write(&piece);
    }
    client.write(b"\"}}\n");
    assert_eq!(client.refusal(), (-32_600, Value::Null));
    client.check_alive();
    let peak = client.peak_mb();
    assert!(peak < MAX_MB, "{peak} MB");
}

#[test]
fn a_large_file_can_be_written() {
    let fixture = Fixture::new();
    let mut client = Client::introduced(&fixture, json!({}));
    let content = "0123456789abcde\n".repeat(5 << 16);
    client.call(1, "write", json!({"path": "large.txt", "content": content}));
    let answer = client.next();
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let written = std::fs::read_to_string(fixture.path("project/large.txt")).expect("it is there");
    assert!(written == content, "{} of {} bytes", written.len(), content.len());
}

#[test]
fn a_client_that_does_not_read_holds_up_only_itself() {
    const CALLS: usize = 2_000;
    // Otherwise every second answer would be a pointer to an equal result.
    let fixture = Fixture::new().user_config("[outputs]\nrepeats = \"whole\"\n");
    let line = "0123456789 ".repeat(9);
    let text: String = (0..490).map(|number| format!("{number:03} {line}\n")).collect();
    std::fs::write(fixture.path("project/page.txt"), text).expect("written");
    let mut client = Client::deaf(&fixture);
    client.send(&super::initialize(0, "2025-11-25", json!({})));
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let mut input = client.take_input();
    let writing = thread::spawn(move || {
        for id in 1..=CALLS {
            // Long answers, so that the pipe and the server's buffer hold only a few.
            let call =
                format!("{:1000}\n", call(id, "read", json!({"path": "page.txt"})).to_string());
            input.write_all(call.as_bytes()).expect("haft lives");
        }
        input
    });
    // The server must block until the answers are read; if it continued, it would hold a hundred
    // megabytes of answers by now.
    wait_for_full_output(&client);
    client.wait_until_idle(TIMEOUT);
    assert!(
        !writing.is_finished(),
        "the server accepts requests although the answers are not read"
    );
    client.listen();
    let mut open: HashSet<u64> = (0..=CALLS as u64).collect();
    let mut bytes = 0;
    while !open.is_empty() {
        let answer = client.next();
        let id = answer["id"].as_u64().expect("an id of ours");
        assert!(open.remove(&id), "{id} is answered twice");
        bytes += answer["result"]["content"][0]["text"].as_str().map_or(0, str::len);
    }
    assert!(bytes > CALLS * 50_000, "{bytes} bytes of answers");
    client.give_input(writing.join().expect("all was written"));
    client.check_alive();
    let peak = client.peak_mb();
    assert!(peak < MAX_MB, "{peak} MB");
}

#[track_caller]
fn wait_for_full_output(client: &Client) {
    let begin = Instant::now();
    // The capacity of a pipe, less one page that may be partly used.
    let full = (64 << 10) - 4096;
    while rustix::io::ioctl_fionread(client.output().as_fd()).expect("a pipe tells this") < full {
        assert!(begin.elapsed() < TIMEOUT, "the output does not fill");
        thread::yield_now();
    }
}

#[test]
fn ten_thousand_calls_at_once_are_answered_once_each() {
    const CALLS: u64 = 10_000;
    let fixture = Fixture::new();
    std::fs::write(fixture.path("project/small.txt"), "small\n").expect("written");
    let mut client = Client::introduced(&fixture, json!({}));
    let mut input = client.take_input();
    let writing = thread::spawn(move || {
        let mut calls = Vec::new();
        for id in 0..CALLS {
            let (tool, arguments) = match id % 2 {
                0 => ("read", json!({"path": "small.txt"})),
                _ => ("glob", json!({"pattern": "*.txt"})),
            };
            writeln!(calls, "{}", call(id, tool, arguments)).expect("memory takes it");
        }
        input.write_all(&calls).expect("haft lives");
        input
    });
    let mut open: HashSet<u64> = (0..CALLS).collect();
    while !open.is_empty() {
        let answer = client.next();
        let id = answer["id"].as_u64().expect("an id of ours");
        assert!(open.remove(&id), "{id} is answered twice");
        assert!(answer["result"]["content"].to_string().contains("small"), "{answer}");
    }
    client.give_input(writing.join().expect("all was written"));
    client.check_alive();
    let peak = client.peak_mb();
    assert!(peak < MAX_MB, "{peak} MB");
}
