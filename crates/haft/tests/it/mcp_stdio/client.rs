//! The client at haft's pipe. It writes any bytes, reads only on request, and waits for at most
//! `TIMEOUT`.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::fixture::Fixture;

/// Much longer than any step takes. Only a failing test waits this long.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Client {
    child: Option<Child>,
    input: Option<ChildStdin>,
    /// `Some` until the client starts to read.
    output: Option<ChildStdout>,
    lines: Option<Receiver<String>>,
}

impl Client {
    /// Starts a server for the fixture's project without reading its output.
    pub(crate) fn deaf(fixture: &Fixture) -> Self {
        Self::start(fixture, &["--structured", "always"])
    }

    /// Does the same with more arguments.
    pub(crate) fn start(fixture: &Fixture, arguments: &[&str]) -> Self {
        let project = fixture.path("project").display().to_string();
        let mut command: Command =
            fixture.haft(&["mcp", "--workspace", &project, "--profile", "developer"]);
        command.args(arguments);
        Self::of(command)
    }

    /// Starts any server over a pipe.
    pub(crate) fn of(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("haft runs");
        let (input, output) = (child.stdin.take(), child.stdout.take());
        Self { child: Some(child), input, output, lines: None }
    }

    /// Starts a server and reads its output.
    pub(crate) fn new(fixture: &Fixture) -> Self {
        let mut client = Self::deaf(fixture);
        client.listen();
        client
    }

    /// Starts a server and initializes with these capabilities.
    #[track_caller]
    pub(crate) fn introduced(fixture: &Fixture, capabilities: Value) -> Self {
        let mut client = Self::new(fixture);
        client.introduce(capabilities);
        client
    }

    /// Starts to read all output as it comes.
    pub(crate) fn listen(&mut self) {
        let output = self.output.take().expect("the output was not read before");
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        self.lines = Some(lines);
    }

    /// Does the handshake and reads its answer.
    #[track_caller]
    pub(crate) fn introduce(&mut self, capabilities: Value) {
        self.send(&initialize(0, "2025-11-25", capabilities));
        let answer = self.next();
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("it was not closed");
        input.write_all(bytes).expect("haft reads");
        input.flush().expect("haft reads");
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    pub(crate) fn call(&mut self, id: impl Into<Value>, tool: &str, arguments: Value) {
        self.send(&call(id, tool, arguments));
    }

    /// Returns the next message as text.
    #[track_caller]
    pub(crate) fn next_line(&mut self) -> String {
        let lines = self.lines.as_ref().expect("the output is read");
        lines.recv_timeout(TIMEOUT).expect("haft says something in time")
    }

    /// Returns the next message.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Value {
        let line = self.next_line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Returns the remaining output.
    #[track_caller]
    pub(crate) fn rest(&mut self) -> Vec<Value> {
        let lines = self.lines.take().expect("the output is read");
        let begin = Instant::now();
        let mut rest = Vec::new();
        loop {
            match lines.recv_timeout(TIMEOUT.saturating_sub(begin.elapsed())) {
                Ok(line) => rest.push(serde_json::from_str(&line).expect("a message is JSON")),
                Err(mpsc::RecvTimeoutError::Disconnected) => return rest,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("haft does not end"),
            }
        }
    }

    /// Returns code and id of the next error.
    #[track_caller]
    pub(crate) fn refusal(&mut self) -> (i64, Value) {
        let answer = self.next();
        let code = answer["error"]["code"].as_i64();
        (code.unwrap_or_else(|| panic!("no refusal: {answer}")), answer["id"].clone())
    }

    /// Checks that the server still works: a call is answered, and no other message comes first.
    #[track_caller]
    pub(crate) fn check_alive(&mut self) {
        self.call("alive", "hello", json!({"name": "Ada"}));
        let answer = self.next();
        assert_eq!(answer["id"], "alive", "{answer}");
        assert_eq!(answer["result"]["content"][0]["text"], "Hello, Ada!", "{answer}");
    }

    /// Returns the output pipe, which is not read yet.
    pub(crate) fn output(&self) -> &ChildStdout {
        self.output.as_ref().expect("the output is not read")
    }

    pub(crate) fn take_input(&mut self) -> ChildStdin {
        self.input.take().expect("it was not closed")
    }

    pub(crate) fn give_input(&mut self, input: ChildStdin) {
        self.input = Some(input);
    }

    /// Closes the server's input.
    pub(crate) fn close(&mut self) {
        self.input = None;
    }

    /// Closes input and output.
    pub(crate) fn die(&mut self) {
        (self.input, self.output, self.lines) = (None, None, None);
    }

    /// Returns the server's process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().map(Child::id).expect("it runs")
    }

    /// Kills the server with SIGKILL.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().expect("not waited for yet");
        child.kill().expect("it runs");
        child.wait().expect("it is ours");
    }

    /// Returns the server's peak memory, in megabytes.
    pub(crate) fn peak_mb(&self) -> u64 {
        let id = self.child.as_ref().expect("it runs").id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
        let kilobytes = line.trim().trim_end_matches("kB").trim();
        kilobytes.parse::<u64>().expect("a number") / 1024
    }

    /// Returns the used processor time, in clock ticks.
    fn ticks(&self) -> u64 {
        let id = self.child.as_ref().expect("it runs").id();
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).expect("it runs");
        let (_, facts) = stat.rsplit_once(')').expect("the name stands in brackets");
        // User and system time are fields 14 and 15; the first two are before the closing
        // parenthesis.
        let facts = facts.split_whitespace().skip(11).take(2);
        facts.map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
    }

    /// Waits until the process uses no more processor time.
    #[track_caller]
    pub(crate) fn wait_until_idle(&self, most: Duration) {
        let begin = Instant::now();
        let mut last = (self.ticks(), Instant::now());
        // A fifth of a second of work is twenty ticks.
        while last.1.elapsed().as_millis() < 200 {
            assert!(begin.elapsed() < most, "it does not stop working");
            let now = self.ticks();
            if now != last.0 {
                last = (now, Instant::now());
            }
            thread::yield_now();
        }
    }

    /// Waits for the exit of the process.
    #[track_caller]
    pub(crate) fn exit(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("it runs");
        let id = child.id().to_string();
        let (sender, ended) = mpsc::channel();
        thread::spawn(move || sender.send(child.wait()));
        match ended.recv_timeout(TIMEOUT) {
            Ok(status) => status.expect("it can be waited for"),
            Err(_) => {
                let _ = Command::new("kill").args(["-KILL", &id]).status();
                panic!("haft does not end");
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn initialize(id: impl Into<Value>, version: &str, capabilities: Value) -> Value {
    json!({
        "jsonrpc": "2.0", "id": id.into(), "method": "initialize",
        "params": {
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        },
    })
}

pub(crate) fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    json!({
        "jsonrpc": "2.0", "id": id.into(), "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    })
}
