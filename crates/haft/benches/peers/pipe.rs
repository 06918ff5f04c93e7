//! Talks line by line to a program over a pipe: to `haft mcp`, and to `cat`, which echoes every
//! line and so is the minimum for any such server.

use std::{
    io::{self, BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

/// Number of concurrent calls.
pub(super) const IN_FLIGHT: usize = 64;

pub(super) struct Pipe {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    line: String,
    last_id: u64,
}

impl Pipe {
    /// The baseline.
    pub(super) fn echo() -> io::Result<Self> {
        Self::start(&mut Command::new("cat"))
    }

    /// `haft mcp` in a folder.
    pub(super) fn haft(program: &Path, folder: &Path) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.arg("mcp").arg("--workspace").arg(folder).args(["--approve", "all"]);
        Self::start(&mut command)
    }

    fn start(command: &mut Command) -> io::Result<Self> {
        let quiet = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = quiet.spawn()?;
        let gone = || io::Error::other("the program has no pipes");
        let input = child.stdin.take().ok_or_else(gone)?;
        let output = BufReader::new(child.stdout.take().ok_or_else(gone)?);
        Ok(Self { child, input: Some(input), output, line: String::new(), last_id: 0 })
    }

    /// From the start of the process to the list of tools.
    pub(super) fn introduce(&mut self) -> io::Result<()> {
        let client = json!({"name": "haft-bench", "version": "1"});
        self.ask(
            "initialize",
            &json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}),
        )?;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        // `cat` echoes this one too; a server does not answer it.
        self.ask("tools/list", &json!({}))
    }

    /// Sends one request and reads its answer.
    pub(super) fn ask(&mut self, method: &str, params: &Value) -> io::Result<()> {
        let id = self.put(method, params)?;
        self.take(id)
    }

    /// Sends many requests of the same kind and keeps `IN_FLIGHT` of them open.
    pub(super) fn ask_many(
        &mut self,
        count: usize,
        method: &str,
        params: &Value,
    ) -> io::Result<()> {
        let (mut sent, mut answered) = (0, 0);
        while answered < count {
            while sent < count && sent - answered < IN_FLIGHT {
                self.put(method, params)?;
                sent += 1;
            }
            self.read()?;
            answered += 1;
        }
        Ok(())
    }

    fn put(&mut self, method: &str, params: &Value) -> io::Result<u64> {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        Ok(id)
    }

    fn send(&mut self, message: &Value) -> io::Result<()> {
        let mut line = message.to_string();
        line.push('\n');
        self.input.as_mut().map_or(Ok(()), |input| input.write_all(line.as_bytes()))
    }

    /// Reads until the answer with this id.
    fn take(&mut self, id: u64) -> io::Result<()> {
        let sign = format!("\"id\":{id},");
        loop {
            self.read()?;
            if self.line.contains(&sign) {
                return Ok(());
            }
        }
    }

    fn read(&mut self) -> io::Result<()> {
        self.line.clear();
        if self.output.read_line(&mut self.line)? == 0 {
            return Err(io::Error::other("the program ended before its time"));
        }
        if self.line.contains("\"isError\":true") || self.line.contains("\"error\":{") {
            return Err(io::Error::other(format!("a call failed: {}", self.line)));
        }
        Ok(())
    }

    /// Returns the memory of the program, in bytes.
    pub(super) fn memory(&self) -> u64 {
        super::memory_of(&self.child.id().to_string())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // Both exit when their input is closed.
        self.input = None;
        let _ = self.child.wait();
    }
}
