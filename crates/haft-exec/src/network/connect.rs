//! Connects to a checked address: plain, with TLS, or through a proxy.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use haft_core::{ErrorKind, ToolError, network::NetworkError};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, pki_types::ServerName},
};

use super::errors;

/// Timeout for establishing a connection, including TLS.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay before the next address is tried in parallel.
const NEXT_ADDRESS_DELAY: Duration = Duration::from_millis(250);
/// Maximum size of a proxy's reply.
const MAX_PROXY_REPLY_BYTES: usize = 16 << 10;

/// A connection for HTTP.
pub(super) trait AsyncStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> AsyncStream for T {}

pub(super) type Wire = Box<dyn AsyncStream>;

/// Connects to one of these addresses and to nothing else. `place` is its name in messages.
pub(super) async fn plain(addresses: &[SocketAddr], place: &str) -> Result<TcpStream, ToolError> {
    match timeout(CONNECT_TIMEOUT, race(addresses)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(errors::io(place, &error)),
        Err(_) => Err(errors::connect_timed_out(place, CONNECT_TIMEOUT)),
    }
}

/// Returns the first connection; each address has a head start over the next. The other attempts
/// are dropped.
async fn race(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut waiting = addresses.iter().copied();
    let mut running = JoinSet::new();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        let next = waiting.next();
        if let Some(address) = next {
            running.spawn(TcpStream::connect(address));
        }
        tokio::select! {
            Some(done) = running.join_next() => match done {
                Ok(Ok(stream)) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Ok(Err(error)) => last = error,
                Err(_) => {}
            },
            () = sleep(NEXT_ADDRESS_DELAY), if waiting.len() > 0 => {}
            else => return Err(last),
        }
    }
}

/// Performs the TLS handshake for this host.
pub(super) async fn protected(
    wire: TcpStream,
    host: &str,
    config: Arc<ClientConfig>,
    place: &str,
) -> Result<Wire, ToolError> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| errors::malformed(place, "its name is not valid in a certificate"))?;
    let connecting = TlsConnector::from(config).connect(name, wire);
    match timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(Ok(stream)) => Ok(Box::new(stream)),
        Ok(Err(error)) => Err(tls_failed(place, &error)),
        Err(_) => Err(errors::connect_timed_out(place, CONNECT_TIMEOUT)),
    }
}

fn tls_failed(place: &str, error: &io::Error) -> ToolError {
    if error.get_ref().is_some() {
        return errors::io(place, error);
    }
    NetworkError::Tls
        .error(
            ErrorKind::Network,
            format!("{place}: the connection ended during the TLS handshake"),
        )
        .hint("check that the port speaks https, or use http if it does not")
}

/// Asks a proxy for a tunnel to this host and port.
pub(super) async fn tunnel(
    mut wire: TcpStream,
    target: &str,
    authorization: Option<&str>,
) -> Result<TcpStream, ToolError> {
    let authorization =
        authorization.map_or(String::new(), |value| format!("Proxy-Authorization: {value}\r\n"));
    let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{authorization}\r\n");
    let asking = async {
        wire.write_all(request.as_bytes()).await?;
        proxy_status(&mut wire).await
    };
    let status = match timeout(CONNECT_TIMEOUT, asking).await {
        Ok(answer) => answer.map_err(|error| errors::io("the proxy", &error))?,
        Err(_) => return Err(errors::connect_timed_out("the proxy", CONNECT_TIMEOUT)),
    };
    match status {
        Some(status) if (200..300).contains(&status) => Ok(wire),
        status => {
            let status = status.map_or("no HTTP".to_owned(), |status| status.to_string());
            let message =
                format!("the proxy does not connect to {target}: it responds with {status}");
            Err(NetworkError::Proxy
                .error(ErrorKind::Network, message)
                .hint("check `proxy` under [network], and whether the proxy allows this host"))
        }
    }
}

/// Reads the status line of a proxy's reply. Reads byte by byte: everything after the empty line
/// belongs to the tunnel.
async fn proxy_status(wire: &mut TcpStream) -> io::Result<Option<u16>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= MAX_PROXY_REPLY_BYTES {
            return Ok(None);
        }
        head.push(wire.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    let status = head.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1));
    Ok(status.and_then(|status| status.parse().ok()))
}
