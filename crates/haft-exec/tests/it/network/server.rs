//! A server that sends exactly what a test wants, in pieces of any size, over plain or TLS
//! connections. It runs on its own thread, so that sync and async tests can use it.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use parking_lot::Mutex;

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    runtime::Builder,
    sync::oneshot,
};
use tokio_rustls::{TlsAcceptor, rustls};

/// The behaviour of a connection after its request.
pub(crate) enum Reply {
    /// Sends this and closes.
    Send(Vec<u8>),
    /// Sends this in pieces of this many bytes and closes.
    Pieces(Vec<u8>, usize),
    /// Sends the first, then the second repeatedly until the client closes.
    Endless(Vec<u8>, Vec<u8>),
    /// Sends this, then waits until the client closes.
    Hang(Vec<u8>),
}

/// The request as it came: head and body.
pub(crate) type Script = dyn Fn(&str) -> Reply + Send + Sync;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    /// Connections whose client has closed.
    gone: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
}

impl Server {
    pub(crate) fn start(script: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0", None, Arc::new(script))
    }

    /// With a certificate and its key.
    pub(crate) fn protected(
        certificate: &'static [u8],
        key: &'static [u8],
        script: impl Fn(&str) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let key = rustls::pki_types::PrivateKeyDer::try_from(key).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.into()], key)
            .expect("they belong together");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Self::start_at("127.0.0.1:0", Some(acceptor), Arc::new(script))
    }

    fn start_at(at: &'static str, tls: Option<TlsAcceptor>, script: Arc<Script>) -> Self {
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let gone: Arc<AtomicUsize> = Arc::default();
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let connections = Connections { requests: requests.clone(), gone: gone.clone(), script };
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = TcpListener::bind(at).await.expect("a port");
                tell.send(listener.local_addr().expect("an address")).expect("a test waits");
                tokio::select! {
                    () = accept(listener, tls, connections) => {}
                    _ = stopped => {}
                }
            });
        });
        let address = told.recv().expect("it listens");
        Self { address, requests, gone, stop: Some(stop) }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns every request so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().clone()
    }

    /// Returns the number of connections that the client closed while the server was still sending.
    pub(crate) fn left(&self) -> usize {
        self.gone.load(Ordering::Acquire)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}

#[derive(Clone)]
struct Connections {
    requests: Arc<Mutex<Vec<String>>>,
    gone: Arc<AtomicUsize>,
    script: Arc<Script>,
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, connections: Connections) {
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, connections) = (tls.clone(), connections.clone());
        tokio::spawn(async move {
            match tls {
                None => serve(stream, &connections).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(stream, &connections).await;
                    }
                }
            }
        });
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, connections: &Connections) {
    let Some(request) = read_request(&mut stream).await else { return };
    connections.requests.lock().push(request.clone());
    let was_left = match (connections.script)(&request) {
        Reply::Send(bytes) => stream.write_all(&bytes).await.is_err(),
        Reply::Pieces(bytes, size) => {
            let mut is_left = false;
            for piece in bytes.chunks(size) {
                is_left |= stream.write_all(piece).await.is_err() || stream.flush().await.is_err();
                tokio::task::yield_now().await;
            }
            is_left
        }
        Reply::Endless(first, again) => {
            let mut is_left = stream.write_all(&first).await.is_err();
            while !is_left {
                is_left = stream.write_all(&again).await.is_err();
            }
            true
        }
        Reply::Hang(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.flush().await;
            // No more requests follow: this ends when the client closes.
            let _ = stream.read(&mut [0]).await;
            true
        }
    };
    if was_left {
        connections.gone.fetch_add(1, Ordering::Release);
    }
    let _ = stream.shutdown().await;
}

/// Reads a request: its head, and a body of the announced length.
async fn read_request<S: AsyncRead + Unpin>(stream: &mut S) -> Option<String> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
            if bytes.len() >= end + 4 + length {
                return Some(String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        let count = stream.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
    }
}

/// A complete response with these headers, each ended by a line break.
pub(crate) fn answer(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Reply {
    Reply::Send(bytes(status, headers, body))
}

pub(crate) fn bytes(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let headers: String = headers.lines().map(|line| format!("{line}\r\n")).collect();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// The path that a request asks for.
pub(crate) fn path(request: &str) -> &str {
    request.split(' ').nth(1).unwrap_or_default()
}
