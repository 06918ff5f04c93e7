//! A server that says exactly what a test wants it to say, in pieces of any size, over plain or protected connections. It
//! runs on a thread of its own, so that tests of either kind can use it.

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

/// What to do with a connection once its request is there.
pub(crate) enum Act {
    /// Say this and close.
    Say(Vec<u8>),
    /// Say this in pieces of so many bytes and close.
    Pieces(Vec<u8>, usize),
    /// Say the first, then the second again and again until nobody takes it.
    Endless(Vec<u8>, Vec<u8>),
    /// Say this, then keep silent until the other side goes.
    Hang(Vec<u8>),
}

/// The request as it came: head and body.
pub(crate) type Script = dyn Fn(&str) -> Act + Send + Sync;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    heard: Arc<Mutex<Vec<String>>>,
    /// Connections whose other side has gone.
    gone: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
}

impl Server {
    pub(crate) fn start(script: impl Fn(&str) -> Act + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0", None, Arc::new(script))
    }

    /// Protected by a certificate and its key.
    pub(crate) fn protected(
        certificate: &'static [u8],
        key: &'static [u8],
        script: impl Fn(&str) -> Act + Send + Sync + 'static,
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
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let gone: Arc<AtomicUsize> = Arc::default();
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let ear = Ear { heard: heard.clone(), gone: gone.clone(), script };
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = TcpListener::bind(at).await.expect("a port");
                tell.send(listener.local_addr().expect("an address")).expect("somebody waits");
                tokio::select! {
                    () = accept(listener, tls, ear) => {}
                    _ = stopped => {}
                }
            });
        });
        let address = told.recv().expect("it listens");
        Self { address, heard, gone, stop: Some(stop) }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Every request so far.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().clone()
    }

    /// How many connections were left by the other side while something was still to be said.
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
struct Ear {
    heard: Arc<Mutex<Vec<String>>>,
    gone: Arc<AtomicUsize>,
    script: Arc<Script>,
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, ear: Ear) {
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, ear) = (tls.clone(), ear.clone());
        tokio::spawn(async move {
            match tls {
                None => serve(stream, &ear).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(stream, &ear).await;
                    }
                }
            }
        });
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, ear: &Ear) {
    let Some(request) = hear(&mut stream).await else { return };
    ear.heard.lock().push(request.clone());
    let was_left = match (ear.script)(&request) {
        Act::Say(bytes) => stream.write_all(&bytes).await.is_err(),
        Act::Pieces(bytes, size) => {
            let mut is_left = false;
            for piece in bytes.chunks(size) {
                is_left |= stream.write_all(piece).await.is_err() || stream.flush().await.is_err();
                tokio::task::yield_now().await;
            }
            is_left
        }
        Act::Endless(first, again) => {
            let mut is_left = stream.write_all(&first).await.is_err();
            while !is_left {
                is_left = stream.write_all(&again).await.is_err();
            }
            true
        }
        Act::Hang(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.flush().await;
            // Nothing more is asked: this ends when the other side goes.
            let _ = stream.read(&mut [0]).await;
            true
        }
    };
    if was_left {
        ear.gone.fetch_add(1, Ordering::Release);
    }
    let _ = stream.shutdown().await;
}

/// A request: its head, and as much body as it announces.
async fn hear<S: AsyncRead + Unpin>(stream: &mut S) -> Option<String> {
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

/// A whole answer with these headers, each ended by a line break.
pub(crate) fn answer(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Act {
    Act::Say(bytes(status, headers, body))
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
