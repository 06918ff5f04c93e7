//! Progress, cancellation and the order of answers, checked line by line.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    os::fd::OwnedFd,
    sync::mpsc,
    thread::{self, JoinHandle},
};

use parking_lot::Mutex;

use haft_core::{
    Access, BoxFuture, Call, Cancel, Capability, Gate, Progress, Reply, Tool, ToolError, ToolSpec,
};
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::{Value, json};

use super::{TEST_TIMEOUT, TestTool, echo, gate, serve};

/// A client that writes lines.
pub(super) struct RawClient {
    input: Option<File>,
    lines: mpsc::Receiver<Value>,
    listening: ReaderThread,
    over: mpsc::Receiver<()>,
}

/// The thread that reads, and a pipe that ends it.
struct ReaderThread {
    thread: JoinHandle<()>,
    until_dropped: OwnedFd,
}

/// Reads until the output ends or the receiver is dropped.
fn listen(output: File) -> (mpsc::Receiver<Value>, ReaderThread) {
    let (sender, lines) = mpsc::channel();
    let (end, until_dropped) = rustix::pipe::pipe().expect("a pipe");
    let thread = thread::spawn(move || {
        let mut output = BufReader::new(output);
        loop {
            if output.buffer().is_empty() {
                let mut waited = [
                    PollFd::new(output.get_ref(), PollFlags::IN),
                    PollFd::new(&end, PollFlags::IN),
                ];
                poll(&mut waited, None).expect("pipes can be waited for");
                if !waited[1].revents().is_empty() {
                    return;
                }
            }
            let mut line = String::new();
            output.read_line(&mut line).expect("it can be read");
            let message = serde_json::from_str(&line).expect("a message is JSON");
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    (lines, ReaderThread { thread, until_dropped })
}

impl RawClient {
    /// Returns a client that has sent nothing yet.
    pub(super) fn silent(gate: Gate) -> Self {
        let ends = serve(gate);
        let (lines, listening) = listen(ends.output);
        Self { input: Some(ends.input), lines, listening, over: ends.over }
    }

    /// Returns a client after its handshake.
    #[track_caller]
    pub(super) fn at(gate: Gate) -> Self {
        let mut client = Self::silent(gate);
        client.send(&introduction("first"));
        assert_eq!(client.next()["id"], "first");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    pub(super) fn send(&mut self, message: &Value) {
        self.write(&format!("{message}\n"));
    }

    /// Writes complete lines at once.
    pub(super) fn write(&mut self, lines: &str) {
        let input = self.input.as_mut().expect("it was not closed");
        input.write_all(lines.as_bytes()).expect("the server reads");
    }

    pub(super) fn call(&mut self, id: impl Into<Value>, tool: &str) {
        let params = json!({"name": tool});
        self.send(
            &json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": params}),
        );
    }

    pub(super) fn cancel(&mut self, id: impl Into<Value>) {
        let params = json!({"requestId": id.into()});
        self.send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
        );
    }

    #[track_caller]
    pub(super) fn next(&self) -> Value {
        self.lines.recv_timeout(TEST_TIMEOUT).expect("a message arrives in time")
    }

    /// Checks that the next message is the answer to a call made now.
    #[track_caller]
    pub(super) fn check_alive(&mut self) {
        self.call("alive", "echo");
        let answer = self.next();
        assert_eq!(answer["id"], "alive", "{answer}");
    }

    /// Closes the input and waits for the end of the server.
    #[track_caller]
    pub(super) fn end(mut self) -> Vec<Value> {
        self.input = None;
        self.over.recv_timeout(TEST_TIMEOUT).expect("it ends in time");
        self.lines.try_iter().collect()
    }

    /// Disconnects the client at both ends of its pipes.
    #[track_caller]
    pub(super) fn disconnect(self) {
        let Self { input, lines, listening: ReaderThread { thread, until_dropped }, over } = self;
        drop((input, lines, until_dropped));
        thread.join().expect("it only reads");
        over.recv_timeout(TEST_TIMEOUT).expect("it ends in time");
    }
}

pub(super) fn introduction(id: impl Into<Value>) -> Value {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "hand", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": id.into(), "method": "initialize", "params": params})
}

/// Reports steps that go up, repeat, fall back and go up again.
fn steps() -> TestTool {
    TestTool::new("steps", |call| async move {
        let progress = Progress::from_call(&call)?;
        for done in [1.0, 2.0, 2.0, 1.0, 3.0] {
            progress.step(done, Some(3.0), "on the way");
            tokio::task::yield_now().await;
        }
        Ok(Reply::text("there"))
    })
}

#[test]
fn steps_are_sent_in_order_and_before_the_result() {
    let mut client = RawClient::at(gate([steps(), echo()]));
    for token in [json!("token"), json!(7)] {
        let params = json!({"name": "steps", "_meta": {"progressToken": token}});
        client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
        let mut sent = Vec::new();
        let answer = loop {
            let message = client.next();
            if message["method"] != "notifications/progress" {
                break message;
            }
            assert_eq!(message["params"]["progressToken"], token, "{message}");
            assert_eq!(message["params"]["total"], 3.0, "{message}");
            assert_eq!(message["params"]["message"], "on the way", "{message}");
            sent.push(message["params"]["progress"].as_f64().expect("a number"));
        };
        assert_eq!(answer["result"]["content"][0]["text"], "there", "{answer}");
        // Only increasing steps are sent; the last step always is.
        assert!(sent.is_sorted_by(|one, next| one < next), "{sent:?}");
        assert_eq!(sent.last(), Some(&3.0));
        client.check_alive();
    }
}

#[test]
fn a_command_sends_a_heartbeat_with_its_last_line_each_second() {
    let (release, released) = tokio::sync::oneshot::channel::<()>();
    let released = Mutex::new(Some(released));
    let command = TestTool::new("command", move |call| {
        let released = released.lock().take().expect("called once");
        async move {
            let progress = Progress::from_call(&call)?;
            progress.output("Compiling one\nCompiling two\n\n");
            let _ = released.await;
            Ok(Reply::text("built"))
        }
    });
    let mut client = RawClient::at(gate([command, echo()]));
    let params = json!({"name": "command", "_meta": {"progressToken": 1}});
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    let mut seconds = Vec::new();
    for _ in 0..2 {
        let sign = client.next();
        assert_eq!(sign["params"]["message"], "Compiling two", "{sign}");
        seconds.push(sign["params"]["progress"].as_f64().expect("a number"));
    }
    assert!(seconds[0] >= 1.0 && seconds[1] > seconds[0], "{seconds:?}");
    release.send(()).expect("it waits");
    assert_eq!(client.next()["result"]["content"][0]["text"], "built");
    assert_eq!(client.end(), [] as [Value; 0]);
}

#[test]
fn no_steps_are_sent_without_a_progress_token() {
    let mut client = RawClient::at(gate([steps(), echo()]));
    client.call(1, "steps");
    let answer = client.next();
    assert_eq!(answer["id"], 1, "{answer}");
    client.check_alive();
}

/// Reports when it begins and when it is dropped, and waits forever in between.
fn waiting(name: &str) -> (TestTool, mpsc::Receiver<&'static str>) {
    let (sender, seen) = mpsc::channel();
    let sender = Mutex::new(sender);
    let tool = TestTool::new(name, move |_call| {
        let sender = sender.lock().clone();
        async move {
            let dropped = Dropped(sender.clone());
            sender.send("begun").expect("the test receives it");
            std::future::pending::<()>().await;
            drop(dropped);
            Ok(Reply::text("never"))
        }
    });
    (tool, seen)
}

struct Dropped(mpsc::Sender<&'static str>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

#[test]
fn cancelled_work_is_dropped_and_not_answered() {
    let (tool, seen) = waiting("wait");
    let mut client = RawClient::at(gate([tool, echo()]));
    client.call(1, "wait");
    assert_eq!(seen.recv_timeout(TEST_TIMEOUT), Ok("begun"));
    client.cancel(1);
    assert_eq!(seen.recv_timeout(TEST_TIMEOUT), Ok("dropped"));
    client.check_alive();
    // The id is free again.
    client.call(1, "wait");
    assert_eq!(seen.recv_timeout(TEST_TIMEOUT), Ok("begun"));
    client.cancel(1);
    assert_eq!(seen.recv_timeout(TEST_TIMEOUT), Ok("dropped"));
    client.check_alive();
    assert_eq!(client.end(), [] as [Value; 0]);
}

#[test]
fn work_can_wait_for_its_cancellation() {
    let (sender, seen) = mpsc::channel();
    let sender = Mutex::new(sender);
    let listening = TestTool::new("listen", move |call| {
        let sender = sender.lock().clone();
        async move {
            let cancel = Cancel::from_call(&call)?;
            sender.send("begun").expect("the test receives it");
            cancel.cancelled().await;
            sender.send("cancelled").expect("the test receives it");
            Ok(Reply::text("half of it"))
        }
    });
    let mut client = RawClient::at(gate([listening, echo()]));
    client.call(1, "listen");
    assert_eq!(seen.recv_timeout(TEST_TIMEOUT), Ok("begun"));
    client.cancel(1);
    assert_eq!(seen.recv_timeout(TEST_TIMEOUT), Ok("cancelled"));
    client.check_alive();
    assert_eq!(client.end(), [] as [Value; 0]);
}

#[test]
fn the_end_of_the_client_ends_its_calls() {
    let (tool, seen) = waiting("wait");
    let mut client = RawClient::at(gate([tool, echo()]));
    client.call(1, "wait");
    assert_eq!(seen.recv_timeout(TEST_TIMEOUT), Ok("begun"));
    client.disconnect();
    assert_eq!(seen.recv_timeout(TEST_TIMEOUT), Ok("dropped"));
}

#[test]
fn a_tool_that_panics_affects_nothing_else() {
    let panicking = TestTool::new("panic", |_call| async move { panic!("a test wants it") });
    let later = TestTool::new("panic_later", |_call| async move {
        tokio::task::yield_now().await;
        panic!("a test wants it")
    });
    let mut client = RawClient::at(gate([panicking, later, echo()]));
    for tool in ["panic", "panic_later"] {
        client.call(1, tool);
        let answer = client.next();
        let kind = &answer["result"]["_meta"]["haft/outcome"]["error"]["kind"];
        assert_eq!((&answer["id"], kind), (&json!(1), &json!("internal")), "{answer}");
        client.check_alive();
    }
}

/// Panics outside of the gate.
struct PanickingTool(TestTool);

impl Tool for PanickingTool {
    fn name(&self) -> &str {
        "brittle"
    }

    fn spec(&self) -> &ToolSpec {
        panic!("a test wants it")
    }

    fn access(&self, input: &Value) -> Result<Vec<Access>, ToolError> {
        self.0.access(input)
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, ToolError>> {
        self.0.call(call)
    }
}

#[test]
fn a_reader_that_panics_ends_the_conversation() {
    let gate = gate([]);
    gate.registry().register(PanickingTool(echo())).expect("a new name");
    let mut client = RawClient::at(gate);
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    client.over.recv_timeout(TEST_TIMEOUT).expect("it ends in time, although nothing was closed");
}
