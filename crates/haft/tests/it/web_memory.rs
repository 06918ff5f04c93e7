//! Pages made to fill the memory: whatever 5 MB of HTML hold, reading them takes a bounded amount of it, and of time.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use haft::{
    CallRequest, Context, Gate, Mode, Network, NetworkSettings, Policy, Registry,
    network::Client,
    policy::{Layer, LayerKind},
};
use serde_json::json;

use crate::site::{Site, path};

const SIZE: usize = (5 << 20) - 1024;
/// What reading a page may take at its worst, in KiB, with its 5 MB three times over: here, there and on the way.
const MOST: usize = 75 << 10;

/// What a page begins with, and what the rest is made of.
const PAGES: &[(&str, &str, &str)] = &[
    ("deep", "", "<div>"),
    ("paragraphs", "", "<p>"),
    ("letters", "", "a<p>"),
    ("attributes", "<a", " id"),
    ("many-attributes", "", "<b id lang src alt rel>"),
    ("rows", "<table>", "<tr><td>"),
    ("uneven-rows", "<table><tr>@60<td>a</td>@", "<tr><td>b<td>c"),
    ("cells", "<table><tr>", "<td>a"),
    ("wide", "<table><tr><th>a", "<tr><td colspan=60 rowspan=60>b"),
    ("links", "", "<a href=a>b</a>"),
    ("far-links", "<base href='http://127.0.0.1/@200000/a@/'>", "<a href=a>b</a>"),
    ("pictures", "", "<img src=a alt=b>"),
    ("entities", "", "&amp;"),
    ("marks", "", "*"),
    ("breaks", "<p>", "a<br>"),
    ("lists", "", "<ul><li>a"),
    ("items", "<ul>", "<li>a"),
    ("quotations", "", "<blockquote>a"),
    ("title", "<title>", "a b "),
    ("code", "<pre>", "a\n"),
    ("headings", "", "<h1>a"),
    ("ends", "", "</p>"),
    ("comments", "", "<!-->"),
    ("spans", "<p>", "<span>a</span>"),
    ("bold", "", "<b>a"),
    ("definitions", "<dl>", "<dt>a<dd>b"),
];

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

#[tokio::test]
async fn no_page_fills_the_memory() {
    let site = Site::start(|request| {
        let name = path(request).trim_start_matches('/');
        let page = PAGES.iter().find(|(known, ..)| *known == name).expect("a known page");
        ("200 OK\r\nContent-Type: text/html; charset=utf-8", made(page.1, page.2))
    });
    let mut settings = NetworkSettings::default();
    settings.allow = vec![site.address.to_string().parse().expect("an entry")];
    let registry = Registry::default();
    registry.register_all(haft::catalogue::all()).expect("every name once");
    let mut layer = Layer::new(LayerKind::User, "config.toml");
    layer.mode = Some(Mode::All);
    let gate = Gate::builder(registry)
        .policy(Policy::new([layer]))
        .service::<dyn Client>(Arc::new(Network::new(settings)))
        .build();
    let mut excesses = Vec::new();
    for (name, ..) in PAGES {
        for format in ["markdown", "text"] {
            // The highest mark so far is forgotten.
            fs::write("/proc/self/clear_refs", "5").expect("reset");
            let (before, begin) = (told("VmRSS"), Instant::now());
            let input = json!({"url": site.url(&format!("/{name}")), "format": format});
            let outcome =
                gate.call(CallRequest::new("web_fetch", input, Context::new("test"))).await;
            assert!(outcome.error.is_none(), "{name}: {:?}", outcome.error);
            let (taken, time) = (told("VmHWM").saturating_sub(before), begin.elapsed());
            eprintln!("{name} {format} {} KiB {time:?} out {}", taken, outcome.content.len());
            if taken > MOST || time > Duration::from_secs(60) {
                excesses.push(format!("{name} as {format}: {taken} KiB, {time:?}"));
            }
        }
    }
    assert!(excesses.is_empty(), "{}", excesses.join("\n"));
}
