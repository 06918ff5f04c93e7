//! A program at the other end of a pipe, spoken to line by line: `haft mcp`, and as the least that any such server needs,
//! `cat`, which sends every line back as it came.

use std::{
    io::{self, BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

/// Calls that are on their way at once.
pub(super) const IN_FLIGHT: usize = 64;

pub(super) struct Pipe {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    line: String,
    last_id: u64,
}

impl Pipe {
    /// The floor.
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

    /// From nothing to the list of tools.
    pub(super) fn introduce(&mut self) -> io::Result<()> {
        let client = json!({"name": "haft-bench", "version": "1"});
        self.ask(
            "initialize",
            &json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}),
        )?;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        // `cat` sends this one back too; a server does not.
        self.ask("tools/list", &json!({}))
    }

    /// One request and its answer.
    pub(super) fn ask(&mut self, method: &str, params: &Value) -> io::Result<()> {
        let id = self.put(method, params)?;
        self.take(id)
    }

    /// Many requests of the same kind, always so many on their way.
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

    /// Until the answer of this id has come.
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

    /// The memory that the program holds, in bytes.
    pub(super) fn memory(&self) -> u64 {
        super::memory_of(&self.child.id().to_string())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // Both end when nobody speaks to them any more.
        self.input = None;
        let _ = self.child.wait();
    }
}
