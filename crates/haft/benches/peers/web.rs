//! Fetches a page of five megabytes from a local server as markdown, through the client and the
//! gate.

use std::{
    fs,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
};

use haft_core::network::NetworkClient;
use haft_exec::{Network, NetworkSettings};
use serde_json::json;

use super::{Bench, BenchError, Goal, RowGoal, megabytes, memory};

const SIZE: usize = 5 << 20;

impl Bench {
    pub(super) fn fetching(&mut self) -> Result<(), BenchError> {
        let address = serve(page().into())?;
        let gate = self.setup().open()?;
        let input = json!({"url": format!("http://{address}/")});
        let before = memory();
        // Reset the peak memory to the current value.
        let _ = fs::write("/proc/self/clear_refs", "5");
        gate.call("web_fetch", &input)?;
        self.hold("web_fetch, a page of 5 MB", most_memory().saturating_sub(before), megabytes(60));
        let goal = Goal::Microseconds(150_000.0);
        let aim = RowGoal { what: "web_fetch, a page of 5 MB", against: "150 milliseconds", goal };
        self.slow(aim, &mut || gate.call("web_fetch", &input), None)
    }
}

/// The network client, which may only connect to this machine.
pub(super) fn client() -> Arc<dyn NetworkClient> {
    let mut settings = NetworkSettings::default();
    settings.allow = "127.0.0.1".parse().into_iter().collect();
    settings.max_bytes = 2 * SIZE;
    Arc::new(Network::new(settings))
}

/// Builds a typical page.
fn page() -> String {
    let paragraph = "<p>The quick brown fox jumps over <a href=\"../x/1\">the lazy dog</a>, <em>again</em> and \
        <code>again</code>, while the network client looks at every address that it connects to.</p>\n";
    let rest = "<table><tr><th>a<th>b<tr><td>1<td>2</table>\n<pre><code class=language-rust>fn main() {}\n</code></pre>\n\
        <ul><li>one<li>two</ul>\n";
    let section = format!("<h2>Heading</h2>\n{}{rest}", paragraph.repeat(8));
    let sections = section.repeat(SIZE / section.len() + 1);
    format!(
        "<!doctype html><title>Long</title><nav>menu</nav><main>{sections}</main><footer>end</footer>"
    )
}

/// Answers every request with the page, until the program ends.
fn serve(page: Arc<str>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::Builder::new().name("haft-bench-site".to_owned()).spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = answer(stream, &page);
        }
    })?;
    Ok(address)
}

fn answer(mut stream: TcpStream, page: &str) -> io::Result<()> {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        request.extend_from_slice(&byte);
    }
    let length = page.len();
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(page.as_bytes())
}

fn most_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
