//! `secret:NAME` is sent to its host and nowhere else.

use haft_core::{
    ErrorKind, ToolError,
    network::{NetworkClient, NetworkError, Purpose, Response},
};
use haft_exec::{Credential, Network, NetworkSettings, Variables};

use super::{
    failure, get, open_to, send,
    server::{Server, answer, path},
};

const VALUE: &str = "s3cr3t-va\"lue+1";

fn variables() -> Variables {
    vec![("HAFT_SECRET_KEY".into(), VALUE.into()), ("BOUND".into(), "bound-value".into())]
}

fn settings(servers: &[&Server]) -> NetworkSettings {
    let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
    let mut settings = open_to(&addresses);
    settings.variables = variables;
    settings.credentials = vec![Credential {
        name: "BOUND".to_owned(),
        variable: "BOUND".to_owned(),
        hosts: vec!["only.test".to_owned()],
    }];
    settings
}

fn headers(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Everything of a result that could be shown.
fn seen(result: &Result<Response, ToolError>) -> String {
    match result {
        Ok(response) => format!("{response:?} {}", String::from_utf8_lossy(&response.body)),
        Err(error) => format!("{error:?} {error} {}", error.next_step()),
    }
}

#[tokio::test]
async fn it_is_only_in_headers_query_and_body_of_the_request() {
    // The server returns the request in its headers and its body.
    let server = Server::start(|request| {
        let query = path(request).to_owned();
        answer("200 OK", &format!("X-Echo: {query}\nX-Key: {VALUE}"), request)
    });
    let mut request = get(&server.url("/p?k=secret:KEY&x=1"));
    request.method = "POST".to_owned();
    request.headers =
        headers(&[("Authorization", "Bearer secret:KEY"), ("Content-Type", "application/json")]);
    request.body = br#"{"key":"secret:KEY"}"#.to_vec();
    let result = send(&Network::new(settings(&[&server])), request).await;
    let requests = server.requests().pop().expect("a request");
    assert!(requests.contains(&format!("authorization: Bearer {VALUE}")), "{requests}");
    assert!(requests.contains("/p?k=s3cr3t-va%22lue%2B1&x=1"), "{requests}");
    assert!(requests.contains(r#"{"key":"s3cr3t-va\"lue+1"}"#), "{requests}");
    let response = result.as_ref().expect("an answer");
    assert_eq!(response.url, server.url("/p?k=secret:KEY&x=1"));
    let seen = seen(&result);
    assert!(!seen.contains("s3cr3t") && seen.contains("[secret:KEY]"), "{seen}");
}

#[tokio::test]
async fn a_page_that_is_read_gets_none() {
    let server = Server::start(|_| answer("200 OK", "", ""));
    let mut request = get(&server.url("/p?k=secret:KEY"));
    request.purpose = Purpose::Reading;
    send(&Network::new(settings(&[&server])), request).await.expect("an answer");
    assert!(server.requests()[0].contains("/p?k=secret:KEY"), "{:?}", server.requests());
}

#[tokio::test]
async fn it_is_not_sent_to_another_origin() {
    let other = Server::start(|_| answer("200 OK", "", "end"));
    let target = other.url("/end");
    let first = Server::start(move |_| answer("307 Keep", &format!("Location: {target}"), ""));
    let client = Network::new(settings(&[&first, &other]));
    let mut request = get(&first.url("/?k=secret:KEY"));
    request.headers = headers(&[("X-Api-Key", "secret:KEY"), ("Accept-Language", "de")]);
    send(&client, request.clone()).await.expect("the headers stay behind");
    let end = other.requests().pop().expect("a request");
    assert!(
        !end.contains("s3cr3t")
            && !end.contains("x-api-key")
            && end.contains("accept-language: de"),
        "{end}"
    );
    // A request with a secret in its body cannot leave it out.
    request.method = "POST".to_owned();
    request.body = b"secret:KEY".to_vec();
    let (kind, fault, words) = failure(send(&client, request).await);
    assert_eq!((kind, fault), (ErrorKind::Denied, Some(NetworkError::Redirect)), "{words}");
    assert_eq!(other.requests().len(), 1);
}

#[tokio::test]
async fn a_redirect_that_would_carry_it_along_is_not_followed_nor_shown() {
    let other = Server::start(|_| answer("200 OK", "", "end"));
    let target = other.url("");
    let first = Server::start(move |request| {
        let query = path(request).split('?').nth(1).unwrap_or_default().to_owned();
        answer("302 Found", &format!("Location: {target}/?{query}"), "")
    });
    let result =
        send(&Network::new(settings(&[&first, &other])), get(&first.url("/?k=secret:KEY"))).await;
    let seen = seen(&result);
    assert!(!seen.contains("s3cr3t"), "{seen}");
    assert_eq!(failure(result).1, Some(NetworkError::Redirect));
    assert!(other.requests().is_empty());
}

#[tokio::test]
async fn at_the_same_origin_it_is_sent_on_and_redacted() {
    let server = Server::start(|request| match path(request) {
        "/end?k=s3cr3t-va%22lue%2B1" => answer("200 OK", "", "end"),
        _ => answer("302 Found", "Location: /end?k=s3cr3t-va%22lue%2B1", ""),
    });
    let asked = std::sync::Mutex::new(Vec::new());
    let permit = |url: &str| {
        asked.lock().expect("no test panics").push(url.to_owned());
        Ok(())
    };
    let mut request = get(&server.url("/?k=secret:KEY"));
    request.headers = headers(&[("Authorization", "secret:KEY")]);
    let result = Network::new(settings(&[&server])).send(request, &permit).await;
    let requests = server.requests().pop().expect("a request");
    assert!(requests.contains(&format!("authorization: {VALUE}")), "{requests}");
    let (seen, asked) = (seen(&result), asked.into_inner().expect("no test panics"));
    assert!(
        !seen.contains("s3cr3t") && !format!("{asked:?}").contains("s3cr3t"),
        "{seen} {asked:?}"
    );
    assert_eq!(asked.len(), 2);
}

#[tokio::test]
async fn errors_do_not_contain_it() {
    let server = Server::start(|_| answer("200 OK", "Content-Encoding: gzip", "x"));
    let client = Network::new(settings(&[&server]));
    let port = server.address.port();
    for (url, value) in [
        (server.url("/?k=secret:KEY"), "secret:KEY"),
        (format!("http://nowhere.invalid:{port}/?k=secret:KEY"), "secret:KEY"),
        ("http://127.0.0.1:1/?k=secret:KEY".to_owned(), "secret:KEY"),
        (server.url("/"), "secret:KEY\r\nX-Injected: y"),
        (server.url("/"), "secret:NONE"),
        (server.url("/"), "secret:BOUND"),
    ] {
        let mut request = get(&url);
        request.headers = headers(&[("X-Key", value)]);
        let result = send(&client, request).await;
        let seen = seen(&result);
        assert!(
            result.is_err() && !seen.contains("s3cr3t") && !seen.contains("bound-value"),
            "{url}: {seen}"
        );
    }
    assert_eq!(server.requests().len(), 1, "only the first one got that far");
}
