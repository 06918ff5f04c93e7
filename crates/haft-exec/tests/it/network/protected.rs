//! TLS: trusted authorities, redirects from https to http, and proxies.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use haft_core::{ErrorKind, network::NetworkError};
use haft_exec::{Network, NetworkSettings};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::{
    Names, failure, get, open_to, send,
    server::{Server, answer, path},
    text,
};

const GOOD: (&[u8], &[u8]) =
    (include_bytes!("../../tls/good.der"), include_bytes!("../../tls/good.key.der"));
const OTHER: (&[u8], &[u8]) =
    (include_bytes!("../../tls/other.der"), include_bytes!("../../tls/other.key.der"));
const EXPIRED: (&[u8], &[u8]) =
    (include_bytes!("../../tls/expired.der"), include_bytes!("../../tls/expired.key.der"));

fn authority() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/tls/ca.pem")
}

fn names() -> Arc<Names> {
    Names::many(&[("service.test", &[&["127.0.0.1"]]), ("proxy.test", &[&["127.0.0.1"]])])
}

fn trusting(address: SocketAddr) -> NetworkSettings {
    let mut settings = open_to(&[address]);
    settings.authorities = vec![authority()];
    settings
}

fn url(server: &Server, path: &str) -> String {
    format!("https://service.test:{}{path}", server.address.port())
}

#[tokio::test]
async fn a_service_of_ones_own_authority_is_trusted() {
    let server = Server::protected(GOOD.0, GOOD.1, |_| answer("200 OK", "", "protected"));
    let client = Network::with_resolver(trusting(server.address), names());
    for url in [url(&server, "/"), format!("https://{}/", server.address)] {
        let response = send(&client, get(&url)).await.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(text(&response), "protected");
    }
}

#[tokio::test]
async fn an_unverified_certificate_is_refused() {
    for ((certificate, key), is_known, why) in [
        (GOOD, false, "signed by an unknown authority"),
        (OTHER, true, "for another name"),
        (EXPIRED, true, "has expired"),
    ] {
        let server = Server::protected(certificate, key, |_| answer("200 OK", "", ""));
        let mut settings = trusting(server.address);
        if !is_known {
            settings.authorities.clear();
        }
        let client = Network::with_resolver(settings, names());
        let (kind, fault, words) = failure(send(&client, get(&url(&server, "/"))).await);
        assert_eq!((kind, fault), (ErrorKind::Network, Some(NetworkError::Untrusted)), "{words}");
        assert!(words.contains(why) && words.contains("`ca`"), "{words}");
        assert!(server.requests().is_empty(), "not a word was said");
    }
}

#[tokio::test]
async fn a_port_without_tls_is_reported() {
    let server = Server::start(|_| answer("200 OK", "", ""));
    let client = Network::with_resolver(trusting(server.address), names());
    // The TLS client hello has no empty line, so the server waits for more until the timeout ends
    // it.
    let mut request = get(&url(&server, "/"));
    request.timeout = Some(std::time::Duration::from_millis(300));
    assert_eq!(failure(send(&client, request).await).1, Some(NetworkError::Timeout));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let talking = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.expect("said");
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let client = Network::with_resolver(trusting(address), names());
    let (kind, fault, words) = failure(send(&client, get(&format!("https://{address}/"))).await);
    assert_eq!((kind, fault), (ErrorKind::Network, Some(NetworkError::Tls)), "{words}");
    talking.abort();
}

#[tokio::test]
async fn authorities_that_cannot_be_read_stop_every_protected_request() {
    let server = Server::protected(GOOD.0, GOOD.1, |_| answer("200 OK", "", ""));
    for path in
        ["/nowhere/ca.pem".into(), PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")]
    {
        let mut settings = trusting(server.address);
        settings.authorities = vec![path.clone()];
        let client = Network::with_resolver(settings, names());
        let (kind, _, words) = failure(send(&client, get(&url(&server, "/"))).await);
        assert_eq!(kind, ErrorKind::Unavailable, "{words}");
        assert!(words.contains(&path.display().to_string()), "{words}");
    }
}

#[tokio::test]
async fn protection_is_not_lost_on_the_way_unless_that_is_allowed() {
    let plain = Server::start(|_| answer("200 OK", "", "unprotected"));
    let target = plain.url("/");
    let server = Server::protected(GOOD.0, GOOD.1, move |_| {
        answer("302 Found", &format!("Location: {target}"), "")
    });
    let mut settings = trusting(server.address);
    settings.allow.extend(open_to(&[plain.address]).allow);
    let client = Network::with_resolver(settings.clone(), names());
    let (kind, fault, words) = failure(send(&client, get(&url(&server, "/"))).await);
    assert_eq!((kind, fault), (ErrorKind::Denied, Some(NetworkError::Redirect)), "{words}");
    assert!(plain.requests().is_empty());
    settings.allows_downgrade = true;
    let client = Network::with_resolver(settings, names());
    assert_eq!(
        text(&send(&client, get(&url(&server, "/"))).await.expect("an answer")),
        "unprotected"
    );
}

/// A proxy that opens tunnels to one address, whatever the request, and returns the request.
async fn tunnelling(to: SocketAddr) -> (SocketAddr, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let asked = tokio::spawn(async move {
        let (mut near, _) = listener.accept().await.expect("a connection");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(near.read_u8().await.expect("a head"));
        }
        near.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.expect("said");
        let mut far = TcpStream::connect(to).await.expect("a connection");
        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
        String::from_utf8(head).expect("UTF-8")
    });
    (address, asked)
}

#[tokio::test]
async fn a_proxy_is_asked_for_a_tunnel_and_the_other_end_proves_itself() {
    let server = Server::protected(GOOD.0, GOOD.1, |_| answer("200 OK", "", "through the tunnel"));
    let (proxy, asked) = tunnelling(server.address).await;
    let mut settings = NetworkSettings::default();
    settings.authorities = vec![authority()];
    settings.proxy = Some(format!("http://me:p%40ss@{proxy}/").parse().expect("a URL"));
    // The proxy resolves the name: it is unknown here.
    let names = Names::many(&[]);
    let client = Network::with_resolver(settings, names.clone());
    let response = send(&client, get("https://service.test/x"))
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(text(&response), "through the tunnel");
    let asked = asked.await.expect("it ends");
    assert!(asked.starts_with("CONNECT service.test:443 HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("Proxy-Authorization: Basic bWU6cEBzcw=="), "{asked}");
    assert_eq!(names.asked(), 0);
    let requests = server.requests().pop().expect("a request").to_ascii_lowercase();
    assert!(!requests.contains("proxy-authorization"), "{requests}");
}

#[tokio::test]
async fn a_proxy_gets_plain_requests_whole_and_nothing_local() {
    let proxy = Server::start(|request| answer("200 OK", "", path(request)));
    let mut settings = NetworkSettings::default();
    settings.proxy = Some(proxy.url("/").parse().expect("a URL"));
    let client = Network::with_resolver(settings, Names::many(&[]));
    let response = send(&client, get("http://service.test/a?b=c")).await.expect("an answer");
    assert_eq!(text(&response), "http://service.test/a?b=c");
    for local in [
        "http://127.0.0.1/",
        "http://0x7f.1/",
        "http://localhost/",
        "http://a.localhost/",
        "http://intranet/",
        "http://metadata.google.internal/",
        "http://printer.local/",
        "https://169.254.169.254/",
        "http://service.test:25/",
    ] {
        let (kind, fault, words) = failure(send(&client, get(local)).await);
        assert_eq!(
            (kind, fault),
            (ErrorKind::Denied, Some(NetworkError::Address)),
            "{local}: {words}"
        );
    }
    assert_eq!(proxy.requests().len(), 1);
}

#[tokio::test]
async fn a_refusal_of_the_proxy_is_reported() {
    let proxy = Server::start(|_| answer("407 Proxy Authentication Required", "", ""));
    let mut settings = NetworkSettings::default();
    settings.proxy = Some(proxy.url("/").parse().expect("a URL"));
    let client = Network::with_resolver(settings, Names::many(&[]));
    let (kind, fault, words) = failure(send(&client, get("https://service.test/")).await);
    assert_eq!((kind, fault), (ErrorKind::Network, Some(NetworkError::Proxy)), "{words}");
    assert!(words.contains("407"), "{words}");
}
