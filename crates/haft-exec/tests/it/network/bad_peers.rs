//! Peers that refuse, hang, drip, never end, lie or speak another protocol: each fails in time,
//! with its kind.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use flate2::{Compression, write::GzEncoder};
use haft_core::{ErrorKind, network::NetworkError};
use haft_exec::Network;

use super::{
    failure, get, open_to, send,
    server::{Reply, Server, answer},
    text,
};

/// Much more than needed, much less than forever.
const TIMEOUT: Duration = Duration::from_secs(20);

async fn ask(
    act: impl Fn() -> Reply + Send + Sync + 'static,
    timeout_ms: u64,
) -> (ErrorKind, Option<NetworkError>, String) {
    let server = Server::start(move |_| act());
    let mut settings = open_to(&[server.address]);
    settings.max_bytes = 100_000;
    let mut request = get(&server.url("/"));
    request.timeout = Some(Duration::from_millis(timeout_ms));
    let begin = Instant::now();
    let failed = failure(send(&Network::new(settings), request).await);
    assert!(begin.elapsed() < TIMEOUT, "{failed:?}");
    failed
}

#[track_caller]
fn check(failed: &(ErrorKind, Option<NetworkError>, String), kind: ErrorKind, fault: NetworkError) {
    assert_eq!((failed.0, failed.1), (kind, Some(fault)), "{}", failed.2);
}

#[tokio::test]
async fn a_closed_port() {
    // Bound, so that no other program takes the port, but not listening.
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let address = socket.local_addr().expect("an address");
    let client = Network::new(open_to(&[address]));
    let failed = failure(send(&client, get(&format!("http://{address}/"))).await);
    check(&failed, ErrorKind::Network, NetworkError::Refused);
    assert!(failed.2.contains(&address.to_string()), "{}", failed.2);
}

#[tokio::test]
async fn a_peer_that_hangs() {
    check(&ask(|| Reply::Hang(Vec::new()), 200).await, ErrorKind::Timeout, NetworkError::Timeout);
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
    check(
        &ask(move || Reply::Hang(head.into()), 200).await,
        ErrorKind::Timeout,
        NetworkError::Timeout,
    );
    check(
        &ask(|| Reply::Hang("HTTP/1.1 2".into()), 200).await,
        ErrorKind::Timeout,
        NetworkError::Timeout,
    );
}

#[tokio::test]
async fn a_peer_that_drips() {
    // As slowly as the machine can be made to read: byte by byte, so that only the timeout ends it.
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let failed = ask(move || Reply::Endless(head.clone(), b"0".to_vec()), 500).await;
    assert!(
        matches!(
            failed.1,
            Some(NetworkError::Timeout | NetworkError::Malformed | NetworkError::Size)
        ),
        "{failed:?}"
    );
}

#[tokio::test]
async fn a_body_without_end() {
    let head = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    let failed = ask(move || Reply::Endless(head.clone(), vec![b'x'; 4096]), 60_000).await;
    check(&failed, ErrorKind::TooLarge, NetworkError::Size);
    assert!(failed.2.contains("max_bytes"), "{}", failed.2);
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(4096)).into_bytes();
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let failed = ask(move || Reply::Endless(head.clone(), chunk.clone()), 60_000).await;
    check(&failed, ErrorKind::TooLarge, NetworkError::Size);
}

#[tokio::test]
async fn headers_without_end() {
    let head = b"HTTP/1.1 200 OK\r\n".to_vec();
    let failed =
        ask(move || Reply::Endless(head.clone(), b"X-More: of the same\r\n".to_vec()), 60_000)
            .await;
    check(&failed, ErrorKind::TooLarge, NetworkError::Size);
    let head = b"HTTP/1.1 200 OK\r\nX-Long: ".to_vec();
    let failed = ask(move || Reply::Endless(head.clone(), vec![b'x'; 4096]), 60_000).await;
    check(&failed, ErrorKind::TooLarge, NetworkError::Size);
    // Far below the limit of hyper itself.
    let long = format!("HTTP/1.1 200 OK\r\nX-Long: {}\r\n\r\n", "x".repeat(100_000)).into_bytes();
    let failed = ask(move || Reply::Send(long.clone()), 60_000).await;
    check(&failed, ErrorKind::TooLarge, NetworkError::Size);
    let many: String = (0..1000).map(|number| format!("X-{number}: y\r\n")).collect();
    let head = format!("HTTP/1.1 200 OK\r\n{many}Content-Length: 0\r\n\r\n").into_bytes();
    let failed = ask(move || Reply::Send(head.clone()), 60_000).await;
    check(&failed, ErrorKind::TooLarge, NetworkError::Size);
}

#[tokio::test]
async fn a_bomb() {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(&vec![0; 20 << 20]).expect("written to memory");
    let bomb = packer.finish().expect("written to memory");
    assert!(bomb.len() < 100_000, "what arrives is within the limit");
    let failed = ask(move || answer("200 OK", "Content-Encoding: gzip", &bomb), 60_000).await;
    check(&failed, ErrorKind::TooLarge, NetworkError::Size);
}

#[tokio::test]
async fn lengths_that_lie() {
    // More is announced than sent.
    let short = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nshort";
    check(
        &ask(move || Reply::Send(short.into()), 60_000).await,
        ErrorKind::Network,
        NetworkError::Ended,
    );
    // The announced length is too large to wait for.
    let huge = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n";
    check(
        &ask(move || Reply::Hang(huge.into()), 60_000).await,
        ErrorKind::TooLarge,
        NetworkError::Size,
    );
    // Two lengths.
    let two = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy";
    check(
        &ask(move || Reply::Send(two.into()), 60_000).await,
        ErrorKind::Network,
        NetworkError::Malformed,
    );
    // A chunk that ends early.
    let chunk = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nshort";
    check(
        &ask(move || Reply::Send(chunk.into()), 60_000).await,
        ErrorKind::Network,
        NetworkError::Ended,
    );
}

#[tokio::test]
async fn less_is_announced_than_comes() {
    let server = Server::start(|_| {
        Reply::Send(
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrueHTTP/1.1 200 OK\r\n\r\nfalse"
                .to_vec(),
        )
    });
    let response = send(&Network::new(open_to(&[server.address])), get(&server.url("/")))
        .await
        .expect("an answer");
    assert_eq!(text(&response), "true");
}

#[tokio::test]
async fn a_wrong_content_encoding() {
    let failed =
        ask(|| answer("200 OK", "Content-Encoding: gzip", "not packed at all"), 60_000).await;
    check(&failed, ErrorKind::Network, NetworkError::Malformed);
    let failed = ask(|| answer("200 OK", "Content-Encoding: br", "x"), 60_000).await;
    check(&failed, ErrorKind::Network, NetworkError::Malformed);
    assert!(failed.2.contains("`br`"), "{}", failed.2);
}

#[tokio::test]
async fn something_else_than_http() {
    for said in [
        "SSH-2.0-OpenSSH_9.2\r\n",
        "220 mail ESMTP\r\n",
        "\0\0\0\0",
        "HTTP/9.9 200 OK\r\n\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
    ] {
        let failed = ask(move || Reply::Send(said.into()), 60_000).await;
        check(&failed, ErrorKind::Network, NetworkError::Malformed);
    }
    check(&ask(|| Reply::Send(Vec::new()), 60_000).await, ErrorKind::Network, NetworkError::Ended);
    let other = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n";
    check(
        &ask(move || Reply::Send(other.into()), 60_000).await,
        ErrorKind::Network,
        NetworkError::Malformed,
    );
}

#[tokio::test]
async fn an_answer_in_pieces_is_the_same_answer() {
    for size in [1, 2, 3, 7, 50, 10_000] {
        let body = "line of text\n".repeat(20);
        let chunked = format!(
            "HTTP/1.1 200 OK\r\nX-Y: z\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        );
        let server = Server::start(move |_| Reply::Pieces(chunked.clone().into(), size));
        let response = send(&Network::new(open_to(&[server.address])), get(&server.url("/")))
            .await
            .expect("an answer");
        assert_eq!(text(&response), "line of text\n".repeat(20));
        assert_eq!(response.header("x-y"), Some("z"));
    }
}

#[tokio::test]
async fn dropping_the_request_ends_the_connection() {
    let other =
        Server::start(|_| Reply::Hang(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n".to_vec()));
    let client = Network::new(open_to(&[other.address]));
    let mut asking = Box::pin(send(&client, get(&other.url("/"))));
    while other.requests().is_empty() {
        tokio::select! { biased; _ = &mut asking => panic!("it hangs"), () = tokio::task::yield_now() => {} }
    }
    drop(asking);
    let begin = Instant::now();
    while other.left() == 0 {
        assert!(begin.elapsed() < TIMEOUT, "the connection stays");
        tokio::task::yield_now().await;
    }
}
