//! A minimal MCP client over HTTP: one connection for each request, read to its end.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, ChildStderr, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
};

use serde_json::{Value, json};

use crate::mcp_stdio::{TIMEOUT, initialize};

/// A dedicated server, and a session with it.
pub(crate) struct Http {
    child: Child,
    /// `127.0.0.1:PORT`
    address: String,
    session: String,
}

impl Http {
    #[track_caller]
    pub(crate) fn start(mut command: Command) -> Self {
        command.env_remove("HAFT_TOKEN").stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("haft runs");
        let url = url_in(child.stderr.take().expect("piped"));
        // Created before the wait, so that the server is ended even if it prints nothing.
        let mut http = Self { child, address: String::new(), session: String::new() };
        let url = url.recv_timeout(TIMEOUT).expect("haft says where it is");
        http.address = url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        let (head, _) = http.post(&initialize(0, "2025-11-25", json!({})));
        let session = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("mcp-session-id").then(|| value.trim().to_owned())
        });
        http.session = session.unwrap_or_else(|| panic!("no session: {head}"));
        http.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        http
    }

    /// Returns the answer to a request.
    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let (head, body) = self.post(&request);
        let messages: Vec<Value> = if head.to_ascii_lowercase().contains("text/event-stream") {
            let data = body.lines().filter_map(|line| line.strip_prefix("data:"));
            data.filter_map(|data| serde_json::from_str(data).ok()).collect()
        } else {
            vec![serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))]
        };
        let mut answers = messages.into_iter().filter(|message| message["id"] == 1);
        answers.next().unwrap_or_else(|| panic!("no answer: {head}\n{body}"))
    }

    /// Returns head and body of a response.
    #[track_caller]
    fn post(&self, message: &Value) -> (String, String) {
        let body = message.to_string();
        let mut stream = TcpStream::connect(&self.address).expect("haft listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a socket option can be set");
        let (address, length) = (&self.address, body.len());
        let mut head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {length}\r\n"
        );
        if !self.session.is_empty() {
            head += &format!(
                "Mcp-Session-Id: {}\r\nMcp-Protocol-Version: 2025-11-25\r\n",
                self.session
            );
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).expect("haft reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("haft answers and closes");
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let body = &answer[end + 4..];
        let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let body = if is_chunked { unchunked(body) } else { body.to_vec() };
        (head, String::from_utf8(body).expect("JSON is UTF-8"))
    }
}

/// Returns the first URL in the output, which is read to its end.
fn url_in(said: ChildStderr) -> Receiver<String> {
    let (sender, url) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(said).lines().map_while(Result::ok) {
            if let Some(url) = line.split_whitespace().find(|word| word.starts_with("http://")) {
                let _ = sender.send(url.to_owned());
            }
        }
    });
    url
}

fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = body.iter().position(|byte| *byte == b'\n') {
        let size = std::str::from_utf8(&body[..end]).expect("a size").trim();
        let size = usize::from_str_radix(size, 16).expect("in hexadecimal digits");
        if size == 0 {
            break;
        }
        whole.extend_from_slice(&body[end + 1..end + 1 + size]);
        body = &body[end + 1 + size + 2..];
    }
    whole
}

impl Drop for Http {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
