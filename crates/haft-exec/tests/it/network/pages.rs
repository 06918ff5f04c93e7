//! Pages: cached briefly, fetched at a limited rate, and only if robots.txt allows it.

use std::time::Duration;

use haft_core::{
    ErrorKind,
    network::{NetworkError, Purpose, Request},
};
use haft_exec::Network;

use super::{
    failure, get, open_to, send,
    server::{Server, answer, path},
    text,
};

fn page(url: &str) -> Request {
    Request { purpose: Purpose::Reading, ..get(url) }
}

#[tokio::test]
async fn a_fresh_page_is_not_fetched_again_and_a_stale_one_is_asked_about() {
    let server =
        Server::start(|request| match (path(request), request.contains("if-none-match: \"v1\"")) {
            ("/fresh", _) => answer("200 OK", "Cache-Control: max-age=60", "fresh"),
            ("/stale", false) => answer("200 OK", "ETag: \"v1\"", "stale"),
            ("/stale", true) => answer("304 Not Modified", "", ""),
            _ => answer("200 OK", "Cache-Control: no-store\nETag: \"v1\"", "never kept"),
        });
    let client = Network::new(open_to(&[server.address]));
    for (path, requests) in [("/fresh", 1), ("/stale", 2), ("/other", 2)] {
        let before = server.requests().len();
        let first = send(&client, page(&server.url(path))).await.expect("an answer");
        let second = send(&client, page(&server.url(path))).await.expect("an answer");
        assert_eq!((text(&first), first.status), (text(&second), second.status));
        assert_eq!(server.requests().len() - before, requests, "{path}");
        assert_eq!((first.is_cached, second.is_cached), (false, path != "/other"));
    }
    // A response that is not a page is fetched every time.
    let before = server.requests().len();
    for _ in 0..2 {
        send(&client, get(&server.url("/fresh"))).await.expect("an answer");
    }
    assert_eq!(server.requests().len() - before, 2);
}

#[tokio::test]
async fn a_page_that_has_changed_is_the_new_one() {
    let server = Server::start(|request| match request.contains("if-modified-since: yesterday") {
        false => answer("200 OK", "Last-Modified: yesterday", "old"),
        true => answer("200 OK", "Last-Modified: today", "new"),
    });
    let client = Network::new(open_to(&[server.address]));
    for expected in ["old", "new"] {
        assert_eq!(
            text(&send(&client, page(&server.url("/"))).await.expect("an answer")),
            expected
        );
    }
}

#[tokio::test]
async fn what_a_site_does_not_want_read_is_left_alone_when_that_counts() {
    let server = Server::start(|request| match path(request) {
        "/robots.txt" => answer("200 OK", "", "User-agent: *\nDisallow: /private\n"),
        _ => answer("200 OK", "", "page"),
    });
    let mut settings = open_to(&[server.address]);
    let careless = Network::new(settings.clone());
    assert!(send(&careless, page(&server.url("/private/x"))).await.is_ok());
    assert_eq!(server.requests().len(), 1, "the rules are not fetched");
    settings.respects_robots = true;
    let client = Network::new(settings);
    assert!(send(&client, page(&server.url("/open"))).await.is_ok());
    let (kind, fault, words) = failure(send(&client, page(&server.url("/private/x"))).await);
    assert_eq!((kind, fault), (ErrorKind::Denied, Some(NetworkError::Robots)), "{words}");
    let looks = server.requests().iter().filter(|request| path(request) == "/robots.txt").count();
    assert_eq!(looks, 1, "the rules are remembered");
    assert!(send(&client, get(&server.url("/private/x"))).await.is_ok(), "a service is no page");
}

#[tokio::test]
async fn a_site_without_rules_is_open_and_one_that_cannot_tell_is_not() {
    for (status, is_open) in [("404 Not Found", true), ("503 Busy", false)] {
        let server = Server::start(move |request| match path(request) {
            "/robots.txt" => answer(status, "", ""),
            _ => answer("200 OK", "", "page"),
        });
        let mut settings = open_to(&[server.address]);
        settings.respects_robots = true;
        assert_eq!(
            send(&Network::new(settings), page(&server.url("/"))).await.is_ok(),
            is_open,
            "{status}"
        );
    }
}

#[tokio::test]
async fn a_host_is_not_asked_faster_than_it_should_be() {
    let server = Server::start(|_| answer("200 OK", "", ""));
    let mut settings = open_to(&[server.address]);
    settings.per_minute = 1;
    let client = Network::new(settings);
    assert!(send(&client, get(&server.url("/"))).await.is_ok());
    let mut second = get(&server.url("/"));
    second.timeout = Some(Duration::from_millis(50));
    assert_eq!(failure(send(&client, second).await).1, Some(NetworkError::Timeout));
    assert_eq!(server.requests().len(), 1);
}
