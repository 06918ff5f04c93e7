//! Progress, calling off and the order of answers, seen line by line.

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

use super::{Acting, PATIENCE, echo, gate, serve};

/// A client that writes lines.
pub(super) struct Hand {
    input: Option<File>,
    lines: mpsc::Receiver<Value>,
    listening: Listening,
    over: mpsc::Receiver<()>,
}

/// The thread that reads, and what ends it.
struct Listening {
    thread: JoinHandle<()>,
    until_dropped: OwnedFd,
}

/// Reads until the output ends, or nobody wants to hear more.
fn listen(output: File) -> (mpsc::Receiver<Value>, Listening) {
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
    (lines, Listening { thread, until_dropped })
}

impl Hand {
    /// One that has said nothing yet.
    pub(super) fn silent(gate: Gate) -> Self {
        let ends = serve(gate);
        let (lines, listening) = listen(ends.output);
        Self { input: Some(ends.input), lines, listening, over: ends.over }
    }

    /// One that has introduced itself.
    #[track_caller]
    pub(super) fn at(gate: Gate) -> Self {
        let mut hand = Self::silent(gate);
        hand.send(&introduction("first"));
        assert_eq!(hand.next()["id"], "first");
        hand.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        hand
    }

    pub(super) fn send(&mut self, message: &Value) {
        self.write(&format!("{message}\n"));
    }

    /// Whole lines, at once.
    pub(super) fn write(&mut self, lines: &str) {
        let input = self.input.as_mut().expect("it was not closed");
        input.write_all(lines.as_bytes()).expect("somebody reads");
    }

    pub(super) fn call(&mut self, id: impl Into<Value>, tool: &str) {
        let params = json!({"name": tool});
        self.send(
            &json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": params}),
        );
    }

    pub(super) fn call_off(&mut self, id: impl Into<Value>) {
        let params = json!({"requestId": id.into()});
        self.send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
        );
    }

    #[track_caller]
    pub(super) fn next(&self) -> Value {
        self.lines.recv_timeout(PATIENCE).expect("something is said in time")
    }

    /// Nothing stands before the answer to a call that is made now.
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
        self.over.recv_timeout(PATIENCE).expect("it ends in time");
        self.lines.try_iter().collect()
    }

    /// The client is gone, with both ends of its pipes.
    #[track_caller]
    pub(super) fn die(self) {
        let Self { input, lines, listening: Listening { thread, until_dropped }, over } = self;
        drop((input, lines, until_dropped));
        thread.join().expect("it only reads");
        over.recv_timeout(PATIENCE).expect("it ends in time");
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

/// Goes up, stands still, falls back, and goes on.
fn steps() -> Acting {
    Acting::new("steps", |call| async move {
        let progress = Progress::from_call(&call)?;
        for done in [1.0, 2.0, 2.0, 1.0, 3.0] {
            progress.step(done, Some(3.0), "on the way");
            tokio::task::yield_now().await;
        }
        Ok(Reply::text("there"))
    })
}

#[test]
fn steps_are_told_in_order_and_before_the_result() {
    let mut hand = Hand::at(gate([steps(), echo()]));
    for token in [json!("token"), json!(7)] {
        let params = json!({"name": "steps", "_meta": {"progressToken": token}});
        hand.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
        let mut told = Vec::new();
        let answer = loop {
            let message = hand.next();
            if message["method"] != "notifications/progress" {
                break message;
            }
            assert_eq!(message["params"]["progressToken"], token, "{message}");
            assert_eq!(message["params"]["total"], 3.0, "{message}");
            assert_eq!(message["params"]["message"], "on the way", "{message}");
            told.push(message["params"]["progress"].as_f64().expect("a number"));
        };
        assert_eq!(answer["result"]["content"][0]["text"], "there", "{answer}");
        // Only what goes further is told; the last step always is.
        assert!(told.is_sorted_by(|one, next| one < next), "{told:?}");
        assert_eq!(told.last(), Some(&3.0));
        hand.check_alive();
    }
}

#[test]
fn a_command_shows_each_second_that_it_runs_and_what_it_wrote_last() {
    let (release, released) = tokio::sync::oneshot::channel::<()>();
    let released = Mutex::new(Some(released));
    let command = Acting::new("command", move |call| {
        let released = released.lock().take().expect("called once");
        async move {
            let progress = Progress::from_call(&call)?;
            progress.output("Compiling one\nCompiling two\n\n");
            let _ = released.await;
            Ok(Reply::text("built"))
        }
    });
    let mut hand = Hand::at(gate([command, echo()]));
    let params = json!({"name": "command", "_meta": {"progressToken": 1}});
    hand.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    let mut seconds = Vec::new();
    for _ in 0..2 {
        let sign = hand.next();
        assert_eq!(sign["params"]["message"], "Compiling two", "{sign}");
        seconds.push(sign["params"]["progress"].as_f64().expect("a number"));
    }
    assert!(seconds[0] >= 1.0 && seconds[1] > seconds[0], "{seconds:?}");
    release.send(()).expect("it waits");
    assert_eq!(hand.next()["result"]["content"][0]["text"], "built");
    assert_eq!(hand.end(), [] as [Value; 0]);
}

#[test]
fn who_does_not_ask_for_steps_is_told_none() {
    let mut hand = Hand::at(gate([steps(), echo()]));
    hand.call(1, "steps");
    let answer = hand.next();
    assert_eq!(answer["id"], 1, "{answer}");
    hand.check_alive();
}

/// Says when it begins and when it is dropped, and waits for ever in between.
fn waiting(name: &str) -> (Acting, mpsc::Receiver<&'static str>) {
    let (sender, seen) = mpsc::channel();
    let sender = Mutex::new(sender);
    let tool = Acting::new(name, move |_call| {
        let sender = sender.lock().clone();
        async move {
            let dropped = Dropped(sender.clone());
            sender.send("begun").expect("somebody looks");
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
fn work_that_is_called_off_is_dropped_and_not_answered() {
    let (tool, seen) = waiting("wait");
    let mut hand = Hand::at(gate([tool, echo()]));
    hand.call(1, "wait");
    assert_eq!(seen.recv_timeout(PATIENCE), Ok("begun"));
    hand.call_off(1);
    assert_eq!(seen.recv_timeout(PATIENCE), Ok("dropped"));
    hand.check_alive();
    // The id is free again.
    hand.call(1, "wait");
    assert_eq!(seen.recv_timeout(PATIENCE), Ok("begun"));
    hand.call_off(1);
    assert_eq!(seen.recv_timeout(PATIENCE), Ok("dropped"));
    hand.check_alive();
    assert_eq!(hand.end(), [] as [Value; 0]);
}

#[test]
fn work_that_listens_hears_that_it_is_called_off() {
    let (sender, heard) = mpsc::channel();
    let sender = Mutex::new(sender);
    let listening = Acting::new("listen", move |call| {
        let sender = sender.lock().clone();
        async move {
            let cancel = Cancel::from_call(&call)?;
            sender.send("begun").expect("somebody looks");
            cancel.cancelled().await;
            sender.send("heard").expect("somebody looks");
            Ok(Reply::text("half of it"))
        }
    });
    let mut hand = Hand::at(gate([listening, echo()]));
    hand.call(1, "listen");
    assert_eq!(heard.recv_timeout(PATIENCE), Ok("begun"));
    hand.call_off(1);
    assert_eq!(heard.recv_timeout(PATIENCE), Ok("heard"));
    hand.check_alive();
    assert_eq!(hand.end(), [] as [Value; 0]);
}

#[test]
fn the_end_of_the_client_ends_what_it_waits_for() {
    let (tool, seen) = waiting("wait");
    let mut hand = Hand::at(gate([tool, echo()]));
    hand.call(1, "wait");
    assert_eq!(seen.recv_timeout(PATIENCE), Ok("begun"));
    hand.die();
    assert_eq!(seen.recv_timeout(PATIENCE), Ok("dropped"));
}

#[test]
fn a_tool_that_panics_takes_nothing_with_it() {
    let panicking = Acting::new("panic", |_call| async move { panic!("a test wants it") });
    let later = Acting::new("panic_later", |_call| async move {
        tokio::task::yield_now().await;
        panic!("a test wants it")
    });
    let mut hand = Hand::at(gate([panicking, later, echo()]));
    for tool in ["panic", "panic_later"] {
        hand.call(1, tool);
        let answer = hand.next();
        let kind = &answer["result"]["_meta"]["haft/outcome"]["error"]["kind"];
        assert_eq!((&answer["id"], kind), (&json!(1), &json!("internal")), "{answer}");
        hand.check_alive();
    }
}

/// Panics where no gate is around it.
struct Brittle(Acting);

impl Tool for Brittle {
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
    gate.registry().register(Brittle(echo())).expect("a new name");
    let mut hand = Hand::at(gate);
    hand.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    hand.over.recv_timeout(PATIENCE).expect("it ends in time, though nobody closed anything");
}
