//! A site on this machine: a function from a request to an answer, served until the test program ends.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
};

use parking_lot::Mutex;

/// Serves whoever asks, each connection on a thread of its own.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    heard: Arc<Mutex<Vec<String>>>,
}

/// A status line with headers, and a body.
pub(crate) type Answer = (&'static str, Vec<u8>);

impl Site {
    pub(crate) fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let (ear, answer) = (heard.clone(), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (ear, answer) = (ear.clone(), answer.clone());
                thread::spawn(move || serve(stream, &ear, &*answer));
            }
        });
        Self { address, heard }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Every request so far, head and body.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().clone()
    }
}

fn serve(mut stream: TcpStream, ear: &Mutex<Vec<String>>, answer: &dyn Fn(&str) -> Answer) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while !is_whole(&bytes) {
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => bytes.extend_from_slice(&buffer[..count]),
            _ => return,
        }
    }
    let request = String::from_utf8_lossy(&bytes).into_owned();
    ear.lock().push(request.clone());
    let (head, body) = answer(&request);
    let head =
        format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    // Who stops listening early is a part of some tests.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
}

fn is_whole(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    bytes.len() >= end + 4 + length
}

/// The path that a request asks for.
pub(crate) fn path(request: &str) -> &str {
    request.split(' ').nth(1).unwrap_or_default()
}
