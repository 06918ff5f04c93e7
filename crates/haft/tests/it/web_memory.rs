//! Pages made to fill the memory: whatever they hold, reading them takes a bounded amount of it.

use std::{fs, sync::Arc};

use haft::{
    CallRequest, Context, Gate, Mode, Network, NetworkSettings, Policy, Registry,
    network::NetworkClient,
    policy::{Layer, LayerKind},
};
use serde_json::json;

use crate::site::Site;

/// Large enough for every bound there is, and small enough for a build that is not optimised.
const SIZE: usize = 1_500_000;
/// What all of it may take at its worst, in KiB, with the page three times over: here, there and on the way.
const MOST: usize = 48 << 10;

/// A test for each page, since each runs in a process of its own: what it begins with, and what the rest is made of.
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

/// `@60<td>@` is that piece so often.
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

/// A line of what the kernel tells of this process, in KiB.
fn told(name: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("the kernel tells");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("such a line");
    line.split_whitespace().nth(1).and_then(|size| size.parse().ok()).expect("a size")
}

async fn check(begin: &'static str, piece: &'static str) {
    let site =
        Site::start(|_| ("200 OK\r\nContent-Type: text/html; charset=utf-8", made(begin, piece)));
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
    assert!(taken < MOST, "{taken} KiB");
}
