//! Invalid messages, each followed by a valid call: no message ends the connection.

use std::os::fd::AsFd;

use serde_json::{Value, json};

use super::client::{Client, TIMEOUT, call, initialize};
use crate::fixture::Fixture;

const PARSE_ERROR: i64 = -32_700;
const INVALID_REQUEST: i64 = -32_600;
const METHOD_NOT_FOUND: i64 = -32_601;
const INVALID_PARAMS: i64 = -32_602;

fn introduced() -> (Fixture, Client) {
    let fixture = Fixture::new();
    let client = Client::introduced(&fixture, json!({}));
    (fixture, client)
}

#[test]
fn lines_that_are_no_messages_are_refused_and_the_conversation_goes_on() {
    let (_fixture, mut client) = introduced();
    for (line, code) in [
        (&b"{oops"[..], PARSE_ERROR),
        (b"nonsense", PARSE_ERROR),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"", PARSE_ERROR),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}}", PARSE_ERROR),
        (b"\x00\x01\x02", PARSE_ERROR),
        // Not UTF-8.
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"p\xffng\"}", PARSE_ERROR),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"\xc3\x28\"}}", PARSE_ERROR),
        (b"5", INVALID_REQUEST),
        (b"\"ping\"", INVALID_REQUEST),
        (b"null", INVALID_REQUEST),
        (b"[]", INVALID_REQUEST),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", INVALID_REQUEST),
        // A list with as many items as a message has fields is still a list.
        (b"[1,\"tools/call\",{\"name\":\"hello\",\"arguments\":{\"name\":\"x\"}},null,null]", INVALID_REQUEST),
        (b"{}", INVALID_REQUEST),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1}", INVALID_REQUEST),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":5}", INVALID_REQUEST),
        (b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", INVALID_REQUEST),
        (b"{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"ping\"}", INVALID_REQUEST),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", INVALID_REQUEST),
        (b"{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"ping\"}", INVALID_REQUEST),
        (b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", INVALID_REQUEST),
    ] {
        client.write(&[line, b"\n"].concat());
        let shown = String::from_utf8_lossy(line);
        assert_eq!(client.refusal(), (code, Value::Null), "{shown}");
        client.check_alive();
    }
}

#[test]
fn requests_that_cannot_be_met_are_refused_by_their_id() {
    let (_fixture, mut client) = introduced();
    for (method, params, code) in [
        ("tools/frobnicate", json!({}), METHOD_NOT_FOUND),
        ("", json!({}), METHOD_NOT_FOUND),
        ("tools/call", json!({}), INVALID_PARAMS),
        ("tools/call", json!({"arguments": {}}), INVALID_PARAMS),
        ("tools/call", json!({"name": 5}), INVALID_PARAMS),
        ("tools/call", json!({"name": "hello", "arguments": "{\"name\":\"x\"}"}), INVALID_PARAMS),
        ("tools/call", json!({"name": "hello", "arguments": [1]}), INVALID_PARAMS),
        ("tools/call", json!("hello"), INVALID_PARAMS),
        ("tools/call", json!([]), INVALID_PARAMS),
        ("tools/call", json!({"name": "nobody", "arguments": {}}), INVALID_PARAMS),
        ("resources/read", json!({}), INVALID_PARAMS),
        ("resources/read", json!({"uri": 5}), INVALID_PARAMS),
        ("prompts/get", json!({"name": []}), INVALID_PARAMS),
        ("logging/setLevel", json!({"level": "loud"}), INVALID_PARAMS),
    ] {
        let request = json!({"jsonrpc": "2.0", "id": "x", "method": method, "params": params});
        client.send(&request);
        assert_eq!(client.refusal(), (code, json!("x")), "{request}");
        client.check_alive();
    }
    // Without arguments, with empty arguments, and with only a name: the tool reports what is
    // missing.
    for params in [json!({"name": "hello"}), json!({"name": "hello", "arguments": null})] {
        client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
        let answer = client.next();
        assert_eq!(answer["result"]["isError"], true, "{answer}");
    }
}

#[test]
fn what_needs_no_answer_gets_none() {
    let (_fixture, mut client) = introduced();
    for message in [
        json!({"jsonrpc": "2.0", "method": "notifications/nobody-knows"}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled"}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": 5}),
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"x": 1}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "hello"}}),
        // Responses without a request.
        json!({"jsonrpc": "2.0", "id": 77, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 77, "error": {"code": 1, "message": "x"}}),
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "x"}}),
        json!({"jsonrpc": "2.0", "id": {}, "result": 5}),
    ] {
        client.send(&message);
        client.check_alive();
    }
}

#[test]
fn blank_lines_and_carriage_returns_do_not_matter() {
    let (_fixture, mut client) = introduced();
    client.write(b"\n\r\n   \n\t\r\n");
    client.check_alive();
    let call = call(1, "hello", json!({"name": "Ada"}));
    client.write(format!("  {call} \r\n\r\n").as_bytes());
    assert_eq!(client.next()["id"], 1);
    // A message over several lines is several invalid messages.
    client.write(b"{\n}\n");
    assert_eq!(client.refusal().0, PARSE_ERROR);
    assert_eq!(client.refusal().0, PARSE_ERROR);
    client.check_alive();
}

#[test]
fn a_message_may_be_split_anywhere() {
    let (_fixture, mut client) = introduced();
    let message = format!("{}\n", call("\u{e4}", "hello", json!({"name": "Gr\u{fc}n\u{1f30d}"})));
    for at in 1..message.len() {
        let (first, second) = message.as_bytes().split_at(at);
        client.write(first);
        wait_until_read(&mut client);
        client.write(second);
        let answer = client.next();
        let text = &answer["result"]["content"][0]["text"];
        assert_eq!((&answer["id"], text), (&json!("\u{e4}"), &json!("Hello, Gr\u{fc}n\u{1f30d}!")));
    }
    // The same byte by byte.
    for byte in message.as_bytes() {
        client.write(&[*byte]);
    }
    assert_eq!(client.next()["id"], "\u{e4}");
}

/// Wait until the server has read the bytes, so that the next piece arrives separately.
#[track_caller]
fn wait_until_read(client: &mut Client) {
    let begin = std::time::Instant::now();
    let input = client.take_input();
    while rustix::io::ioctl_fionread(input.as_fd()).expect("a pipe tells this") > 0 {
        assert!(begin.elapsed() < TIMEOUT, "haft does not read");
        std::thread::yield_now();
    }
    client.give_input(input);
}

#[test]
fn before_the_handshake_there_is_only_a_ping() {
    let fixture = Fixture::new();
    let mut client = Client::new(&fixture);
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    client.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
    );
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    assert_eq!(client.next(), json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    for (id, method) in [(2, "tools/list"), (3, "resources/list"), (4, "frobnicate")] {
        client.send(&json!({"jsonrpc": "2.0", "id": id, "method": method}));
        let (code, refused) = client.refusal();
        assert!(code < 0 && refused == id, "{method}: {code} {refused}");
    }
    client.call(5, "hello", json!({"name": "Ada"}));
    let refused = client.next();
    assert_eq!((&refused["id"], refused["result"].is_null()), (&json!(5), true), "{refused}");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    client.introduce(json!({}));
    client.check_alive();
}

#[test]
fn a_version_that_nobody_knows_is_answered_with_one_that_we_do() {
    for asked in ["1999-01-01", "2999-01-01", "nonsense", ""] {
        let fixture = Fixture::new();
        let mut client = Client::new(&fixture);
        client.send(&initialize(1, asked, json!({})));
        let answer = client.next();
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{asked}: {answer}");
        client.check_alive();
    }
    for known in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let fixture = Fixture::new();
        let mut client = Client::new(&fixture);
        client.send(&initialize(1, known, json!({})));
        assert_eq!(client.next()["result"]["protocolVersion"], known);
        client.check_alive();
    }
}

#[test]
fn a_handshake_that_is_wrong_can_be_made_again() {
    let fixture = Fixture::new();
    let mut client = Client::new(&fixture);
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}));
    assert_eq!(client.refusal().1, 1);
    client.introduce(json!({}));
    client.check_alive();
    // A second call with the same id does not end the first one, and gets an error.
    client.send(&initialize(2, "2025-11-25", json!({})));
    assert_eq!(client.next()["id"], 2);
    client.check_alive();
}

#[test]
fn an_id_that_is_in_use_is_refused_without_touching_the_first_call() {
    let fixture = Fixture::new();
    std::fs::write(fixture.path("project/doomed.txt"), "x").expect("written");
    let mut client = Client::introduced(&fixture, json!({"elicitation": {}}));
    client.call(7, "delete", json!({"path": "doomed.txt"}));
    let question = client.next();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    client.call(7, "hello", json!({"name": "Ada"}));
    assert_eq!(client.refusal(), (INVALID_REQUEST, Value::Null));
    // The same number as a string is a different id.
    client.call("7", "hello", json!({"name": "Ada"}));
    assert_eq!(client.next()["id"], "7");
    let yes = json!({"action": "accept", "content": {"decision": "once"}});
    client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": yes}));
    let answer = client.next();
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(7), &json!(false)));
    assert!(!fixture.path("project/doomed.txt").exists());
    // Now the id is free again.
    client.call(7, "hello", json!({"name": "Ada"}));
    assert_eq!(client.next()["id"], 7);
}
