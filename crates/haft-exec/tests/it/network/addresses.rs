//! The addresses that the client connects to, in every notation and for every name.

use haft_core::{
    ErrorKind,
    network::{NetworkClient, NetworkError},
};
use haft_exec::{Network, NetworkSettings};

use super::{
    Names, failure, get, open_to, send,
    server::{Server, answer},
    text,
};

#[tokio::test]
async fn this_machine_and_its_neighbours_are_refused_in_every_notation() {
    let client = Network::with_resolver(NetworkSettings::default(), Names::many(&[]));
    for host in [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0x7f.0.0.1",
        "017700000001",
        "0177.0.0.1",
        "127.0.0.1.",
        "0",
        "0.0.0.0",
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[2001:0:7f00:1::]",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "[fc00::1]",
        "[ff02::1]",
        "10.0.0.1",
        "192.168.0.1",
        "172.16.0.1",
        "169.254.169.254",
        "0xa9fea9fe",
        "2852039166",
        "100.100.100.200",
        "224.0.0.1",
        "255.255.255.255",
        "192.0.2.1",
        "198.18.0.1",
        "240.0.0.1",
        "\u{ff11}\u{ff12}\u{ff17}.0.0.1",
        "127\u{3002}0\u{3002}0\u{3002}1",
        "\u{2460}\u{2461}\u{2466}.0.0.1",
        "168.63.129.16",
        "%31%32%37.0.0.1",
        "1%32%37.0.0.1",
    ] {
        let url = format!("http://{host}/");
        let (kind, fault, words) = failure(send(&client, get(&url)).await);
        assert_eq!(
            (kind, fault),
            (ErrorKind::Denied, Some(NetworkError::Address)),
            "{url}: {words}"
        );
        assert!(words.contains("[network]"), "{words}");
    }
}

#[tokio::test]
async fn a_name_is_judged_by_where_it_leads() {
    for answers in [
        &["127.0.0.1"][..],
        &["10.1.2.3"],
        &["::1"],
        &["fe80::1"],
        &["::ffff:192.168.1.1"],
        // One public address does not allow a blocked one.
        &["93.184.215.14", "127.0.0.1"],
    ] {
        let client = Network::with_resolver(
            NetworkSettings::default(),
            Names::one("tricky.test", &[answers]),
        );
        let (kind, fault, words) = failure(send(&client, get("http://tricky.test/")).await);
        assert_eq!(
            (kind, fault),
            (ErrorKind::Denied, Some(NetworkError::Address)),
            "{answers:?}: {words}"
        );
    }
    let client = Network::new(NetworkSettings::default());
    for url in ["http://localhost/", "http://LOCALHOST./", "http://\u{24db}ocalhost/"] {
        assert_eq!(failure(send(&client, get(url)).await).1, Some(NetworkError::Address), "{url}");
    }
}

#[tokio::test]
async fn the_address_that_was_judged_is_the_one_that_is_connected_to() {
    let right = Server::start(|_| answer("200 OK", "", "the judged one"));
    // A second lookup would lead to an address without a listener.
    let names = Names::one("rebinding.test", &[&["127.0.0.1"], &["127.0.0.2"]]);
    let mut settings = NetworkSettings::default();
    settings.allow = vec![format!("127.0.0.1:{}", right.address.port()).parse().expect("an entry")];
    let client = Network::with_resolver(settings, names.clone());
    let url = format!("http://rebinding.test:{}/", right.address.port());
    let response = send(&client, get(&url)).await.expect("it answers");
    assert_eq!(text(&response), "the judged one");
    assert_eq!(names.asked(), 1, "one lookup for one connection");
    // The name has changed to a blocked address.
    let (_, fault, words) = failure(send(&client, get(&url)).await);
    assert_eq!(fault, Some(NetworkError::Address), "{words}");
    assert_eq!(right.requests().len(), 1);
    assert!(right.requests()[0].contains("host: rebinding.test:"), "{:?}", right.requests());
}

#[tokio::test]
async fn a_service_that_a_person_has_opened_is_reached_at_its_port_only() {
    let server = Server::start(|_| answer("200 OK", "", "open"));
    let port = server.address.port();
    for (entry, url) in [
        (format!("127.0.0.1:{port}"), format!("http://127.0.0.1:{port}/")),
        (format!("wiki.test:{port}"), format!("http://wiki.test:{port}/")),
        ("wiki.test".to_owned(), format!("http://WIKI.test.:{port}/")),
        ("127.0.0.0/8".to_owned(), format!("http://0x7f.1:{port}/")),
    ] {
        let mut settings = NetworkSettings::default();
        settings.allow = vec![entry.parse().expect("an entry")];
        let client = Network::with_resolver(settings, Names::one("wiki.test", &[&["127.0.0.1"]]));
        assert_eq!(
            send(&client, get(&url)).await.map(|it| it.status).ok(),
            Some(200),
            "{entry} {url}"
        );
    }
    let mut settings = NetworkSettings::default();
    settings.allow = vec!["127.0.0.1:1".parse().expect("an entry")];
    let (_, fault, _) = failure(send(&Network::new(settings), get(&server.url("/"))).await);
    assert_eq!(fault, Some(NetworkError::Address));
}

#[tokio::test]
async fn ports_that_speak_something_else_are_closed_on_the_internet_too() {
    let client = Network::with_resolver(
        NetworkSettings::default(),
        Names::one("mail.test", &[&["93.184.215.14"]]),
    );
    for port in [0, 22, 25, 6379, 6667] {
        let (kind, fault, words) =
            failure(send(&client, get(&format!("http://mail.test:{port}/"))).await);
        assert_eq!(
            (kind, fault),
            (ErrorKind::Denied, Some(NetworkError::Address)),
            "{port}: {words}"
        );
    }
}

#[tokio::test]
async fn what_is_no_plain_http_url_is_refused_before_anything_is_asked() {
    let names = Names::many(&[]);
    let client = Network::with_resolver(NetworkSettings::default(), names.clone());
    for url in [
        "ftp://a.test/",
        "file:///etc/passwd",
        "gopher://a.test/",
        "data:text/plain,x",
        "javascript:x",
        "a.test",
        "//a.test/",
        "http://user@a.test/",
        "http://a.test@127.0.0.1/",
        "http://127.0.0.1:80@a.test/",
        "",
        "http://",
    ] {
        let (kind, _, words) = failure(send(&client, get(url)).await);
        assert_eq!(kind, ErrorKind::Input, "{url}: {words}");
    }
    assert_eq!(names.asked(), 0);
}

#[tokio::test]
async fn only_permitted_urls_are_requested() {
    let server = Server::start(|_| answer("200 OK", "", ""));
    let client = Network::new(open_to(&[server.address]));
    let refused =
        client.send(get(&server.url("/x")), &|url| Err(haft_core::ToolError::denied(url))).await;
    assert_eq!(refused.expect_err("refused").message(), server.url("/x"));
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn an_unknown_name_is_reported() {
    let client = Network::with_resolver(NetworkSettings::default(), Names::many(&[]));
    let (kind, fault, words) = failure(send(&client, get("https://nowhere.test/")).await);
    assert_eq!((kind, fault), (ErrorKind::Network, Some(NetworkError::Name)));
    assert!(words.contains("nowhere.test"), "{words}");
}
