//! Which clients may connect, what they may send, and that nothing is lost when a connection
//! breaks. The requests are handwritten, because no client sends such messages.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

use serde_json::{Value, json};

use super::{Served, TIMEOUT, haft};
use crate::fixture::Fixture;

/// Maximum size of a request body.
const MAX_BODY_BYTES: usize = 32 << 20;

/// A response whose head has been read.
struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    rest: BufReader<TcpStream>,
}

impl Response {
    fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Reads the whole body. The connection must close after it.
    fn body(mut self) -> String {
        let mut body = String::new();
        self.rest.read_to_string(&mut body).expect("the body can be read");
        body
    }

    /// Returns the next message of a stream and its id. Chunk sizes and priming events are skipped.
    #[track_caller]
    fn message(&mut self) -> (String, Value) {
        let (mut id, mut data) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            let read = self.rest.read_line(&mut line).expect("the stream can be read");
            assert!(read > 0, "the stream ended without a message");
            match line.trim_end().split_once(':') {
                Some(("id", given)) => id = given.trim().to_owned(),
                Some(("data", given)) => data = given.trim().to_owned(),
                None if line.trim().is_empty() && !data.is_empty() => {
                    return (id, serde_json::from_str(&data).expect("a message is JSON"));
                }
                _ => {}
            }
        }
    }
}

/// A request to a server, any part of which may be invalid.
#[derive(Clone)]
struct RawRequest<'a> {
    address: &'a str,
    method: &'a str,
    path: &'a str,
    headers: Vec<(&'a str, String)>,
}

impl<'a> RawRequest<'a> {
    /// The request of a valid client.
    fn post(served: &'a Served) -> Self {
        let headers = vec![
            ("Host", served.address().to_owned()),
            ("Accept", "application/json, text/event-stream".to_owned()),
            ("Content-Type", "application/json".to_owned()),
        ];
        Self { address: served.address(), method: "POST", path: "/mcp", headers }
    }

    fn with(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.into()));
        self
    }

    /// Sends the head and returns the connection for the rest.
    fn begin(&self, framing: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).expect("the server listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a socket option can be set");
        let mut head = format!("{} {} HTTP/1.1\r\n{framing}\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        stream.write_all(head.as_bytes()).expect("the head is taken");
        stream
    }

    #[track_caller]
    fn send(&self, body: &str) -> Response {
        let mut stream = self.begin(&format!("Content-Length: {}", body.len()));
        stream.write_all(body.as_bytes()).expect("the body is taken");
        answer(stream)
    }

    #[track_caller]
    fn initialize(&self) -> Response {
        self.send(&initialize(&json!({})).to_string())
    }
}

#[track_caller]
fn answer(stream: TcpStream) -> Response {
    let mut rest = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        rest.read_line(&mut line).expect("the answer can be read");
        line.trim_end().to_owned()
    };
    let first = line();
    let status = first.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no answer: {first:?}"));
    let mut headers = Vec::new();
    while let Some((name, value)) = line().split_once(':') {
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    Response { status, headers, rest }
}

fn initialize(capabilities: &Value) -> Value {
    json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "clientInfo": {"name": "bytes", "version": "1"},
        },
    })
}

fn served(arguments: &[&str]) -> (Fixture, Served) {
    let fixture = Fixture::new();
    let served = Served::haft(&fixture, arguments);
    (fixture, served)
}

#[test]
fn foreign_hosts_and_origins_are_turned_away() {
    let (_fixture, served) = served(&[]);
    let ask = RawRequest::post(&served);
    for (name, value, status) in [
        ("Host", "evil.example", 403),
        ("Host", "evil.example:80", 403),
        ("Origin", "http://evil.example", 403),
        ("Origin", "null", 403),
        ("Origin", "http://127.0.0.1.evil.example", 403),
        ("Origin", "http://localhost:3000", 200),
        ("Origin", "https://127.0.0.1", 200),
        ("Host", "localhost", 200),
    ] {
        assert_eq!(ask.clone().with(name, value).initialize().status, status, "{name}: {value}");
    }
}

#[test]
fn a_token_is_asked_for_and_known() {
    let fixture = Fixture::new();
    let token = "a-token-of-sixteen-or-more";
    std::fs::write(fixture.path("token"), format!("{token}\n")).expect("written");
    let file = fixture.path("token").display().to_string();
    let served = Served::haft(&fixture, &["--token-file", &file]);
    let ask = RawRequest::post(&served);
    for wrong in ["", "Bearer", "Bearer wrong", "Basic a-token-of-sixteen-or-more", token] {
        let refused = ask.clone().with("Authorization", wrong).initialize();
        assert_eq!(refused.status, 401, "{wrong:?}");
        assert_eq!(refused.header("WWW-Authenticate"), Some("Bearer"), "{wrong:?}");
        let body: Value = serde_json::from_str(&refused.body()).expect("JSON");
        assert!(body["error"]["message"].to_string().contains("Authorization: Bearer"), "{body}");
    }
    assert_eq!(ask.initialize().status, 401);
    for right in [format!("Bearer {token}"), format!("bearer {token}")] {
        assert_eq!(ask.clone().with("Authorization", right).initialize().status, 200);
    }
}

#[test]
fn a_body_that_is_too_large_is_refused_however_it_comes() {
    let (_fixture, served) = served(&[]);
    let ask = RawRequest::post(&served);
    // With Content-Length: refused before a byte of the body is sent.
    let announced = answer(ask.begin(&format!("Content-Length: {}", MAX_BODY_BYTES + 1)));
    assert_eq!(announced.status, 413);
    // Chunked: refused as soon as it is too large. Nothing more is sent, so that the response can
    // arrive.
    let mut stream = ask.begin("Transfer-Encoding: chunked");
    let chunk = vec![b' '; 1 << 20];
    for _ in 0..(MAX_BODY_BYTES >> 20) {
        write!(stream, "{:x}\r\n", chunk.len()).expect("taken");
        stream.write_all(&chunk).expect("taken");
        stream.write_all(b"\r\n").expect("taken");
    }
    stream.write_all(b"1\r\n \r\n").expect("taken");
    let refused = answer(stream);
    assert_eq!(refused.status, 413);
    assert!(refused.body().contains("larger than 33554432 bytes"));
}

#[test]
fn wrong_paths_methods_and_sessions_are_told_apart() {
    let (_fixture, served) = served(&[]);
    let ask = RawRequest::post(&served);
    let elsewhere = RawRequest { path: "/", ..ask.clone() }.initialize();
    assert_eq!(elsewhere.status, 404);
    assert!(elsewhere.body().contains("the MCP endpoint is /mcp"));
    let put = RawRequest { method: "PUT", ..ask.clone() }.initialize();
    assert_eq!((put.status, put.header("Allow")), (405, Some("GET, POST, DELETE")));
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    assert_eq!(ask.clone().with("Mcp-Session-Id", "never-heard-of").send(&ping).status, 404);
    assert_eq!(ask.send(&ping).status, 400);
    assert_eq!(ask.clone().with("Content-Type", "text/plain").send(&ping).status, 415);
    assert_eq!(ask.clone().with("Accept", "text/html").send(&ping).status, 406);
}

#[test]
fn a_session_ends_when_its_client_says_so() {
    let (_fixture, served) = served(&[]);
    let ask = RawRequest::post(&served);
    let session = ask.initialize().header("Mcp-Session-Id").expect("a session").to_owned();
    let ask = ask.with("Mcp-Session-Id", session);
    // The Python client treats other responses as errors.
    assert_eq!(RawRequest { method: "DELETE", ..ask.clone() }.send("").status, 204);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    assert_eq!(ask.send(&ping).status, 404);
}

#[test]
fn other_machines_need_a_token() {
    let fixture = Fixture::new();
    let output = super::run(haft(&fixture, &["--http", "0.0.0.0:0"]));
    let said = super::text(&output.stderr);
    assert_eq!(output.status.code(), Some(10), "{said}");
    assert!(said.contains("0.0.0.0:0 can be reached from other machines"), "{said}");
    assert!(said.contains("set $HAFT_TOKEN or --token-file, or serve at 127.0.0.1"), "{said}");

    let mut command = haft(&fixture, &["--http", "0.0.0.0:0"]);
    command.env("HAFT_TOKEN", "a-token-of-sixteen-or-more");
    let served = Served::start(command);
    assert!(served.url.starts_with("http://0.0.0.0:"), "{}", served.url);
}

/// Opens a session for a client with these capabilities.
fn session<'a>(served: &'a Served, capabilities: &Value) -> RawRequest<'a> {
    let ask = RawRequest::post(served);
    let opened = ask.send(&initialize(capabilities).to_string());
    let session = opened.header("Mcp-Session-Id").expect("a session").to_owned();
    let ask = ask.with("Mcp-Session-Id", session).with("Mcp-Protocol-Version", "2025-11-25");
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(ask.send(&ready.to_string()).status, 202);
    ask
}

fn call(tool: &str, arguments: &Value) -> String {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string()
}

#[test]
fn the_question_of_a_tool_comes_where_its_answer_will() {
    let served = Served::example();
    // This client opens no second stream.
    let ask = session(&served, &json!({"elicitation": {}}));
    let mut answer = ask.send(&call("test_elicitation", &json!({"message": "Who are you?"})));
    let (_, question) = answer.message();
    assert_eq!(question["method"], "elicitation/create", "{question}");
}

#[test]
fn a_tool_may_hang_up_and_finish_all_the_same() {
    let served = Served::example();
    let ask = session(&served, &json!({})).with("Connection", "close");
    let heard = ask.send(&call("test_reconnection", &json!({}))).body();
    assert!(!heard.contains("result"), "{heard}");
    let last = heard.lines().find_map(|line| line.strip_prefix("id:")).expect("an event");
    let mut again = come_back(&ask, last.trim());
    let (_, result) = again.message();
    assert_eq!((&result["id"], &result["result"]["isError"]), (&json!(7), &json!(false)));
}

#[test]
fn a_client_that_only_opens_addresses_is_not_shown_forms() {
    let (fixture, served) = served(&[]);
    std::fs::write(fixture.path("project/doomed.txt"), "x").expect("written");
    let ask = session(&served, &json!({"elicitation": {"url": {}}}));
    let (_, result) = ask.send(&call("delete", &json!({"path": "doomed.txt"}))).message();
    assert!(result.to_string().contains("approval_unavailable"), "{result}");
}

#[test]
fn what_ended_with_the_handshake_is_gone_from_2026_07_28_on() {
    let (_fixture, served) = served(&[]);
    for (method, params) in [("logging/setLevel", json!({"level": "info"})), ("ping", json!({}))] {
        let mut params = params;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let ask = RawRequest::post(&served).with("Mcp-Protocol-Version", "2026-07-28");
        let ask = ask.with("Mcp-Method", method).with("Connection", "close");
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = ask.send(&body.to_string());
        assert_eq!(answer.status, 404, "{method}");
        assert!(answer.body().contains("-32601"), "{method}");
    }
}

/// A session with a `delete` that waits for approval.
struct PendingDelete<'a> {
    ask: RawRequest<'a>,
    /// The connection of the call, and the id of the last event on it.
    call: Response,
    last: String,
    question: Value,
}

fn pending(served: &Served) -> PendingDelete<'_> {
    let ask = session(served, &json!({"elicitation": {}}));
    let mut call = ask.send(&call("delete", &json!({"path": "doomed.txt"})));
    let (last, question) = call.message();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    PendingDelete { ask, call, last, question }
}

impl PendingDelete<'_> {
    fn say_yes(&self) {
        let yes = json!({"action": "accept", "content": {"decision": "once"}});
        let answer = json!({"jsonrpc": "2.0", "id": self.question["id"], "result": yes});
        assert_eq!(self.ask.send(&answer.to_string()).status, 202);
    }
}

/// Requests the events after this one.
fn come_back(ask: &RawRequest<'_>, last: &str) -> Response {
    let ask = RawRequest { method: "GET", ..ask.clone() };
    ask.with("Last-Event-Id", last).with("Accept", "text/event-stream").send("")
}

#[track_caller]
fn check_result(stream: &mut Response, fixture: &Fixture) {
    let (_, result) = stream.message();
    assert_eq!(
        (&result["id"], &result["result"]["isError"]),
        (&json!(7), &json!(false)),
        "{result}"
    );
    assert!(!fixture.path("project/doomed.txt").exists());
}

#[test]
fn a_call_outlives_its_connection_and_can_be_come_back_to() {
    let (fixture, served) = served(&[]);
    let doomed = fixture.path("project/doomed.txt");
    std::fs::write(&doomed, "x").expect("written");
    let pending = pending(&served);
    pending.call.rest.get_ref().shutdown(std::net::Shutdown::Both).expect("it is open");
    let mut again = come_back(&pending.ask, &pending.last);
    assert_eq!(again.status, 200);
    pending.say_yes();
    check_result(&mut again, &fixture);
}

#[test]
fn an_answer_that_came_while_nobody_listened_is_kept() {
    let (fixture, served) = served(&[]);
    let doomed = fixture.path("project/doomed.txt");
    std::fs::write(&doomed, "x").expect("written");
    let pending = pending(&served);
    pending.call.rest.get_ref().shutdown(std::net::Shutdown::Both).expect("it is open");
    pending.say_yes();
    // The file is deleted a moment before the answer is sent.
    let begin = std::time::Instant::now();
    while doomed.exists() {
        assert!(begin.elapsed() < TIMEOUT, "the call was not made");
    }
    check_result(&mut come_back(&pending.ask, &pending.last), &fixture);
}
