//! haft with independent MCP clients: the protocol's conformance suite, its Inspector, its Python
//! client, and handwritten requests. Each server has its own port and ends with its test.

mod conformance;
mod guards;
mod inspector;
mod python;

use std::{
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use crate::fixture::Fixture;

/// Much longer than any step takes. Only a failing test waits this long.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A server that listens on a local port.
struct Served {
    child: Child,
    url: String,
}

impl Served {
    /// Starts `haft mcp --http`.
    fn haft(fixture: &Fixture, arguments: &[&str]) -> Self {
        let mut command = haft(fixture, &["--http", "127.0.0.1:0"]);
        command.args(arguments);
        Self::start(command)
    }

    /// Starts the example server.
    fn example() -> Self {
        let mut command = Command::new(example());
        command.arg("127.0.0.1:0");
        Self::start(command)
    }

    /// Starts a command that prints its URL: the example to stdout, haft to stderr.
    #[track_caller]
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the server starts");
        let (found, url) = mpsc::channel();
        read_on(child.stdout.take().expect("piped"), found.clone());
        read_on(child.stderr.take().expect("piped"), found);
        // Created before the wait, so that the server is ended even if it prints nothing.
        let mut served = Self { child, url: String::new() };
        served.url = url.recv_timeout(TIMEOUT).expect("the server says where it is");
        served
    }

    /// `127.0.0.1:PORT`
    fn address(&self) -> &str {
        let (_, rest) = self.url.split_once("://").expect("it was found by this");
        rest.strip_suffix("/mcp").expect("this is where MCP is spoken")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns `haft mcp` for the fixture, without this machine's token.
fn haft(fixture: &Fixture, arguments: &[&str]) -> Command {
    let mut command = fixture.haft(&["mcp"]);
    command.env_remove("HAFT_TOKEN").args(arguments);
    command
}

/// Keeps reading after the URL, so that the server never blocks on output.
fn read_on(said: impl Read + Send + 'static, found: mpsc::Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(said).lines().map_while(Result::ok) {
            if let Some(url) = line.split_whitespace().find(|word| word.starts_with("http://")) {
                let _ = found.send(url.to_owned());
            }
        }
    });
}

/// Waits for the end of the command, and kills it after the timeout.
#[track_caller]
fn run(mut command: Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let id = child.id().to_string();
    let (ended, output) = mpsc::channel();
    thread::spawn(move || ended.send(child.wait_with_output()));
    match output.recv_timeout(TIMEOUT) {
        Ok(output) => output.expect("its output can be read"),
        Err(_) => {
            let _ = Command::new("kill").args(["-KILL", &id]).status();
            panic!("{command:?} does not end");
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Cargo builds the examples with the crate's tests.
#[track_caller]
fn example() -> PathBuf {
    let programs = Path::new(env!("CARGO_BIN_EXE_haft")).parent().expect("it lies in a folder");
    let example = programs.join("examples/mcp_server");
    assert!(example.exists(), "{} is missing: cargo build -p haft --examples", example.display());
    example
}

/// Returns the path of a tool that `cargo xtask setup` installed below `target/tools`.
#[track_caller]
fn tool(path: &str) -> PathBuf {
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools").join(path);
    assert!(tool.exists(), "{} is missing: run cargo xtask setup", tool.display());
    tool
}

/// Runs an npm program with the required Node. Its start script would use another Node.
#[track_caller]
fn node(script: &str) -> Command {
    let mut command = Command::new(tool("npm/node_modules/.bin/node"));
    command.arg(tool("npm/node_modules/@modelcontextprotocol").join(script));
    command
}
