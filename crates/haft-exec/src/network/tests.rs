//! Tests the client against peers that stop in the middle, at every point where it waits.

use std::{
    future::pending,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use haft_core::{
    BoxFuture, ErrorKind,
    network::{NetworkClient, NetworkError, Request},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::{Network, NetworkSettings, Resolve};

/// Much more than needed, much less than forever.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);
const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// The behaviour of a peer after its reply.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// Closes the connection.
    Ends,
    /// Keeps the connection open without sending anything.
    Hangs,
    /// Repeats this text.
    Repeats(&'static str),
}

/// Starts a peer that sends a reply and then does this.
async fn peer(reply: &'static str, then: Then) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, reply, then));
        }
    });
    address
}

async fn answer(mut stream: TcpStream, reply: &'static str, then: Then) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await?);
    }
    stream.write_all(reply.as_bytes()).await?;
    match then {
        Then::Ends => stream.shutdown().await,
        Then::Hangs => pending().await,
        Then::Repeats(piece) => loop {
            stream.write_all(piece.as_bytes()).await?;
            tokio::task::yield_now().await;
        },
    }
}

fn settings(address: SocketAddr) -> NetworkSettings {
    let allow = vec![address.to_string().parse().expect("an entry")];
    NetworkSettings { allow, ..NetworkSettings::default() }
}

async fn ask(
    client: &Network,
    url: String,
    timeout: Duration,
) -> (ErrorKind, Option<NetworkError>) {
    let request =
        Request { method: "GET".to_owned(), url, timeout: Some(timeout), ..Request::default() };
    let begin = Instant::now();
    let answer = client.send(request, &|_| Ok(())).await;
    assert!(begin.elapsed() < TEST_TIMEOUT, "it took {:?}", begin.elapsed());
    let error = answer.expect_err("a failure");
    assert!(!error.next_step().is_empty(), "{error}");
    (error.kind(), NetworkError::of(&error))
}

#[track_caller]
fn check(
    found: (ErrorKind, Option<NetworkError>),
    kind: ErrorKind,
    expected: NetworkError,
    what: &str,
) {
    assert_eq!(found, (kind, Some(expected)), "{what:?}");
}

#[tokio::test]
async fn a_peer_that_drips_is_stopped_by_the_timeout() {
    let address = peer(CHUNKED, Then::Repeats("1\r\nx\r\n")).await;
    // No matter how much has arrived by then.
    let client = Network::new(NetworkSettings { max_bytes: 1 << 40, ..settings(address) });
    let found = ask(&client, format!("http://{address}/"), Duration::from_millis(300)).await;
    check(found, ErrorKind::Timeout, NetworkError::Timeout, "drips");
}

#[tokio::test]
async fn a_connection_that_ends_early_is_reported_as_such() {
    for reply in [
        "",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\nContent-Type: te",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n",
    ] {
        let address = peer(reply, Then::Ends).await;
        let client = Network::new(settings(address));
        let found = ask(&client, format!("http://{address}/"), TEST_TIMEOUT).await;
        check(found, ErrorKind::Network, NetworkError::Ended, reply);
    }
}

#[tokio::test]
async fn a_peer_that_hangs_is_stopped_by_the_timeout() {
    let short = Duration::from_millis(200);
    for reply in [
        "",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345",
        "HTTP/1.1 200 OK\r\n\r\nno end",
        CHUNKED,
    ] {
        let address = peer(reply, Then::Hangs).await;
        let client = Network::new(settings(address));
        let found = ask(&client, format!("http://{address}/"), short).await;
        check(found, ErrorKind::Timeout, NetworkError::Timeout, reply);
        // The TLS handshake is never answered.
        let found = ask(&client, format!("https://{address}/"), short).await;
        check(found, ErrorKind::Timeout, NetworkError::Timeout, "TLS");
    }
    let address = peer("HTTP/1.1 200", Then::Hangs).await;
    let proxy = Some(format!("http://{address}").parse().expect("a URL"));
    let client = Network::new(NetworkSettings { proxy, ..NetworkSettings::default() });
    for scheme in ["http", "https"] {
        let found = ask(&client, format!("{scheme}://example.org/"), short).await;
        check(found, ErrorKind::Timeout, NetworkError::Timeout, scheme);
    }
    let client = Network::with_resolver(NetworkSettings::default(), Arc::new(Silent));
    let found = ask(&client, "http://example.org/".to_owned(), short).await;
    check(found, ErrorKind::Timeout, NetworkError::Timeout, "names");
    // The rate limit never lets it go.
    let address = peer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Then::Ends).await;
    let client = Network::new(NetworkSettings { per_minute: 1, ..settings(address) });
    let url = format!("http://{address}/");
    let request = Request { method: "GET".to_owned(), url: url.clone(), ..Request::default() };
    assert!(client.send(request, &|_| Ok(())).await.is_ok_and(|answer| answer.status == 200));
    check(ask(&client, url, short).await, ErrorKind::Timeout, NetworkError::Timeout, "pace");
}

/// Never answers.
struct Silent;

impl Resolve for Silent {
    fn addresses<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(pending())
    }
}
