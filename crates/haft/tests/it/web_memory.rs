//! Pages built to fill the memory: reading any of them takes bounded memory.

use std::{fs, sync::Arc};

use haft::{
    CallRequest, Context, Gate, Mode, Network, NetworkSettings, Policy, Registry,
    network::NetworkClient,
    policy::{Layer, LayerKind},
};
use serde_json::json;

use crate::web_server::WebServer;

/// Large enough to reach every limit, and small enough for an unoptimised build.
const SIZE: usize = 1_500_000;
/// Maximum memory in KiB, with three copies of the page: server, client and in transit.
const MAX_KIB: usize = 48 << 10;

/// One test for each page, because each test has its own process: the page's prefix and its
/// repeated pieces.
macro_rules! pages {
    ($($name:ident $begin:literal $piece:literal,)*) => {
        $(#[tokio::test]
        async fn $name() {
            check($begin, $piece).await;
        })*
    };
}

pages! {
    deep "" "<div>",
    letters "" "a<p>",
    attributes "<a" " id",
    many_attributes "" "<b id lang src alt rel>",
    rows "<table>" "<tr><td>",
    uneven_rows "<table><tr>@60<td>a</td>@" "<tr><td>b<td>c",
    wide "<table><tr><th>a" "<tr><td colspan=60 rowspan=60>b",
    links "" "<a href=a>b</a>",
    far_links "<base href='http://127.0.0.1/@200000/a@/'>" "<a href=a>b</a>",
    marks "" "*",
    lists "" "<ul><li>a",
}

/// `@60<td>@` repeats that piece 60 times.
fn made(begin: &str, piece: &str) -> Vec<u8> {
    let mut page: String = match begin.split('@').collect::<Vec<_>>().as_slice() {
        [before, inner, after] => {
            let digits = inner.chars().take_while(char::is_ascii_digit).count();
            let (times, inner) = inner.split_at(digits);
            [before, inner.repeat(times.parse().expect("a number")).as_str(), after].concat()
        }
        _ => begin.to_owned(),
    };
    page.push_str(&piece.repeat(SIZE.saturating_sub(page.len()) / piece.len()));
    page.into_bytes()
}

/// Returns a memory value of this process from the kernel, in KiB.
fn told(name: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("the kernel tells");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("such a line");
    line.split_whitespace().nth(1).and_then(|size| size.parse().ok()).expect("a size")
}

async fn check(begin: &'static str, piece: &'static str) {
    let site = WebServer::start(|_| {
        ("200 OK\r\nContent-Type: text/html; charset=utf-8", made(begin, piece))
    });
    let mut settings = NetworkSettings::default();
    settings.allow = vec![site.address.to_string().parse().expect("an entry")];
    let registry = Registry::default();
    registry.register_all(haft::catalogue::all()).expect("every name once");
    let mut layer = Layer::new(LayerKind::User, "config.toml");
    layer.mode = Some(Mode::All);
    let gate = Gate::builder(registry)
        .policy(Policy::new([layer]))
        .service::<dyn NetworkClient>(Arc::new(Network::new(settings)))
        .build();
    let before = told("VmRSS");
    let input = json!({"url": site.url("/")});
    let outcome = gate.call(CallRequest::new("web_fetch", input, Context::new("test"))).await;
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    let taken = told("VmHWM").saturating_sub(before);
    assert!(taken < MAX_KIB, "{taken} KiB");
}
