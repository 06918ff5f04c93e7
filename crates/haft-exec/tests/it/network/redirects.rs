//! Redirects, and the data that is sent to the next address.

use haft_core::{ErrorKind, network::NetworkError};
use haft_exec::{Network, NetworkSettings};

use super::{
    Names, failure, get, open_to, send,
    server::{Reply, Server, answer, path},
    text,
};

fn to(status: &str, location: &str) -> Reply {
    answer(status, &format!("Location: {location}"), "moved")
}

#[tokio::test]
async fn redirects_are_followed_and_listed() {
    let server = Server::start(|request| match path(request) {
        "/a" => to("301 Moved", "/b?x=1#part"),
        "/b?x=1" => to("302 Found", "c"),
        "/c" => answer("200 OK", "", "there"),
        other => panic!("{other}"),
    });
    let response = send(&Network::new(open_to(&[server.address])), get(&server.url("/a")))
        .await
        .expect("an answer");
    assert_eq!(text(&response), "there");
    assert_eq!(response.url, server.url("/c"));
    assert_eq!(response.redirects, [server.url("/a"), server.url("/b?x=1#part")]);
}

#[tokio::test]
async fn one_without_a_place_is_the_answer() {
    let server = Server::start(|_| answer("302 Found", "", "nowhere"));
    let response = send(&Network::new(open_to(&[server.address])), get(&server.url("/")))
        .await
        .expect("an answer");
    assert_eq!((response.status, text(&response)), (302, "nowhere"));
}

#[tokio::test]
async fn loops_and_long_chains_end() {
    let server = Server::start(|request| match path(request) {
        "/circle" => to("302 Found", "/round"),
        "/round" => to("302 Found", "/circle"),
        "/self" => to("302 Found", "/self"),
        number => to(
            "302 Found",
            &format!("/{}", number.trim_start_matches('/').parse::<u32>().unwrap_or(0) + 1),
        ),
    });
    let client = Network::new(open_to(&[server.address]));
    for start in ["/circle", "/self", "/0"] {
        let (kind, fault, words) = failure(send(&client, get(&server.url(start))).await);
        assert_eq!((kind, fault), (ErrorKind::Network, Some(NetworkError::Redirects)), "{words}");
    }
    assert_eq!(server.requests().len(), 2 + 1 + 11);
}

#[tokio::test]
async fn a_redirect_to_a_blocked_address_fails() {
    for location in [
        "http://127.0.0.1:9/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]:9/",
        "http://0x7f.1:9/",
        "//10.0.0.1/",
        "http://inside.test/",
        "http://localhost:9/",
    ] {
        let server = Server::start(move |_| to("302 Found", location));
        let mut settings = NetworkSettings::default();
        settings.allow =
            vec![format!("start.test:{}", server.address.port()).parse().expect("an entry")];
        let names = Names::many(&[
            ("start.test", &[&["127.0.0.1"]]),
            ("inside.test", &[&["192.168.0.7"]]),
            ("localhost", &[&["127.0.0.1"]]),
        ]);
        let client = Network::with_resolver(settings, names);
        let url = format!("http://start.test:{}/", server.address.port());
        let (kind, fault, words) = failure(send(&client, get(&url)).await);
        assert_eq!(
            (kind, fault),
            (ErrorKind::Denied, Some(NetworkError::Address)),
            "{location}: {words}"
        );
    }
}

#[tokio::test]
async fn a_redirect_to_another_scheme_or_with_a_password_is_refused() {
    for location in
        ["ftp://a.test/", "file:///etc/passwd", "javascript:x", "http://user:pw@a.test/"]
    {
        let server = Server::start(move |_| to("302 Found", location));
        let (kind, fault, words) =
            failure(send(&Network::new(open_to(&[server.address])), get(&server.url("/"))).await);
        assert_eq!((kind, fault), (ErrorKind::Denied, Some(NetworkError::Redirect)), "{words}");
    }
}

#[tokio::test]
async fn method_and_body_go_on_as_the_status_says() {
    for (status, method, expected) in [
        ("301 Moved", "POST", "GET"),
        ("302 Found", "POST", "GET"),
        ("303 See", "POST", "GET"),
        ("303 See", "PUT", "GET"),
        ("301 Moved", "PUT", "PUT"),
        ("307 Keep", "POST", "POST"),
        ("308 Keep", "POST", "POST"),
    ] {
        let server = Server::start(move |request| match path(request) {
            "/" => to(status, "/end"),
            _ => answer("200 OK", "", ""),
        });
        let mut request = get(&server.url("/"));
        request.method = method.to_owned();
        request.body = b"the body".to_vec();
        request.headers = vec![("Content-Type".to_owned(), "text/x".to_owned())];
        send(&Network::new(open_to(&[server.address])), request).await.expect("an answer");
        let last = server.requests().pop().expect("two requests");
        assert!(last.starts_with(&format!("{expected} /end ")), "{status} {method}: {last}");
        assert_eq!(last.contains("the body"), expected != "GET", "{status} {method}: {last}");
        assert_eq!(last.contains("content-type"), expected != "GET", "{status} {method}: {last}");
    }
}

#[tokio::test]
async fn credentials_are_not_sent_to_another_origin() {
    let other = Server::start(|_| answer("200 OK", "", ""));
    let target = other.url("/end");
    let first = Server::start(move |request| match path(request) {
        "/" => to("302 Found", "/again"),
        _ => to("302 Found", &target),
    });
    let mut request = get(&first.url("/"));
    request.headers = [
        ("Authorization", "Bearer x"),
        ("Cookie", "a=b"),
        ("X-Key", "k"),
        ("Accept-Language", "de"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    send(&Network::new(open_to(&[first.address, other.address])), request)
        .await
        .expect("an answer");
    let again = first.requests().pop().expect("asked again").to_ascii_lowercase();
    assert!(again.contains("authorization: bearer x") && again.contains("cookie: a=b"), "{again}");
    let end = other.requests().pop().expect("asked at the end").to_ascii_lowercase();
    assert!(
        !end.contains("bearer")
            && !end.contains("cookie")
            && !end.contains("x-key")
            && end.contains("accept-language: de"),
        "{end}"
    );
}
