//! From a judged address to a wire that HTTP can be spoken over: plain, protected, or through a proxy.

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

use super::fault;

/// How long a connection may take to come about, protection included.
pub(super) const LONGEST_CONNECT: Duration = Duration::from_secs(10);
/// Another address is tried beside one that has not answered for so long.
const HEAD_START: Duration = Duration::from_millis(250);
/// What a proxy may say before the tunnel is open.
const LONGEST_GREETING: usize = 16 << 10;

/// Something to speak over.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub(super) type Wire = Box<dyn Stream>;

/// Connects to one of these addresses and to nothing else. `place` is how messages call it.
pub(super) async fn plain(addresses: &[SocketAddr], place: &str) -> Result<TcpStream, ToolError> {
    match timeout(LONGEST_CONNECT, race(addresses)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(fault::io(place, &error)),
        Err(_) => Err(fault::connect_overdue(place, LONGEST_CONNECT)),
    }
}

/// The first that answers; each has a head start over the next. Those that are late go when the first is there.
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
            () = sleep(HEAD_START), if waiting.len() > 0 => {}
            else => return Err(last),
        }
    }
}

/// Puts protection around a wire to this host.
pub(super) async fn protected(
    wire: TcpStream,
    host: &str,
    config: Arc<ClientConfig>,
    place: &str,
) -> Result<Wire, ToolError> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| fault::malformed(place, "its name cannot be in a certificate"))?;
    let connecting = TlsConnector::from(config).connect(name, wire);
    match timeout(LONGEST_CONNECT, connecting).await {
        Ok(Ok(stream)) => Ok(Box::new(stream)),
        Ok(Err(error)) => Err(unprotected(place, &error)),
        Err(_) => Err(fault::connect_overdue(place, LONGEST_CONNECT)),
    }
}

fn unprotected(place: &str, error: &io::Error) -> ToolError {
    if error.get_ref().is_some() {
        return fault::io(place, error);
    }
    NetworkError::Tls
        .error(ErrorKind::Network, format!("{place}: the connection ended before it was protected"))
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
        greeting(&mut wire).await
    };
    let status = match timeout(LONGEST_CONNECT, asking).await {
        Ok(answer) => answer.map_err(|error| fault::io("the proxy", &error))?,
        Err(_) => return Err(fault::connect_overdue("the proxy", LONGEST_CONNECT)),
    };
    match status {
        Some(status) if (200..300).contains(&status) => Ok(wire),
        status => {
            let said = status.map_or("no HTTP".to_owned(), |status| status.to_string());
            let message = format!("the proxy does not connect to {target}: it answers {said}");
            Err(NetworkError::Proxy
                .error(ErrorKind::Network, message)
                .hint("check `proxy` under [network], and whether the proxy allows this host"))
        }
    }
}

/// The status that a proxy answers with. Read byte by byte: what comes after the empty line is the tunnel's.
async fn greeting(wire: &mut TcpStream) -> io::Result<Option<u16>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= LONGEST_GREETING {
            return Ok(None);
        }
        head.push(wire.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    let status = head.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1));
    Ok(status.and_then(|status| status.parse().ok()))
}
