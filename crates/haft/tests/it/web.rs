//! The web tools through the gate, on the command line and over MCP, with local web servers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use haft::{
    CallRequest, Context, Gate, Mode, Network, NetworkSettings, Outcome, Policy, Registry,
    Variables,
    network::{EngineKind, NetworkClient},
    policy::{Action, Layer, LayerKind, Rule, Source},
};
use serde_json::{Value, json};

use crate::{
    fixture::Fixture,
    mcp_stdio,
    web_server::{SiteResponse, WebServer, path},
};

fn variables() -> Variables {
    vec![("HAFT_SECRET_KEY".into(), "the-secret-value".into())]
}

fn settings(sites: &[&WebServer]) -> NetworkSettings {
    let mut settings = NetworkSettings::default();
    settings.allow =
        sites.iter().map(|site| site.address.to_string().parse().expect("an entry")).collect();
    settings.variables = variables;
    settings
}

/// Builds a gate with a mode and rules.
fn gate(settings: NetworkSettings, mode: Mode, rules: &[(Action, &str)]) -> Gate {
    let registry = Registry::default();
    registry.register_all(haft::catalogue::all()).expect("every name once");
    let mut layer = Layer::new(LayerKind::User, "config.toml");
    layer.mode = Some(mode);
    let parse =
        |(action, text): &(Action, &str)| Rule::parse(*action, text, Source::named("config.toml"));
    layer.rules = rules.iter().map(|rule| parse(rule).expect("a rule")).collect();
    Gate::builder(registry)
        .policy(Policy::new([layer]))
        .service::<dyn NetworkClient>(Arc::new(Network::new(settings)))
        .build()
}

async fn call(gate: &Gate, tool: &str, input: Value) -> Outcome {
    gate.call(CallRequest::new(tool, input, Context::new("test"))).await
}

fn kind(outcome: &Outcome) -> &'static str {
    outcome.error.as_ref().map_or("none", |error| error.kind.name())
}

fn html(body: &str) -> SiteResponse {
    ("200 OK\r\nContent-Type: text/html; charset=utf-8", body.as_bytes().to_vec())
}

const PAGE: &str = "<html><head><title>Tea</title></head><body><nav><a href=/>Home</a></nav><main><h1>Tea</h1>\
    <p>Boil <a href='water.html'>water</a>.</p></main></body></html>";

#[tokio::test]
async fn a_page_is_read_as_markdown_between_lines_that_it_cannot_write() {
    let site = WebServer::start(|_| html(PAGE));
    let gate = gate(settings(&[&site]), Mode::All, &[]);
    let outcome = call(&gate, "web_fetch", json!({"url": site.url("/tea/")})).await;
    let lines: Vec<&str> = outcome.content.lines().collect();
    let url = site.url("/tea/");
    assert!(lines[0].starts_with(&format!("[data from {url} ")), "{}", outcome.content);
    let (last, inside) = lines.split_last().expect("lines");
    assert_eq!(*last, "[the main part of the page; use format=html for the whole page]");
    assert!(
        inside.last().is_some_and(|line| line.starts_with(&format!("[end of data from {url} ")))
    );
    let inside = inside[1..inside.len() - 1].join("\n");
    let expected =
        format!("---\ntitle: \"Tea\"\nurl: {url}\n---\n\n# Tea\n\nBoil [water]({url}water.html).");
    assert_eq!(inside, expected);
    assert_eq!(outcome.data.as_ref().map(|data| &data["title"]), Some(&json!("Tea")));
}

#[tokio::test]
async fn text_and_html_and_json_come_as_asked() {
    let site = WebServer::start(|request| match path(request) {
        "/json" => ("200 OK\r\nContent-Type: application/json", b"{\"a\":  1}".to_vec()),
        "/latin" => ("200 OK\r\nContent-Type: text/plain; charset=iso-8859-1", b"caf\xe9".to_vec()),
        "/lying" => {
            ("200 OK\r\nContent-Type: text/html; charset=utf-8", b"<p>caf\xe9 cr\xe8me".to_vec())
        }
        "/bare" => ("200 OK", PAGE.as_bytes().to_vec()),
        _ => html(PAGE),
    });
    let gate = gate(settings(&[&site]), Mode::All, &[]);
    for (path, format, part) in [
        ("/json", "markdown", "\n{\"a\":  1}\n"),
        ("/latin", "markdown", "\ncaf\u{e9}\n"),
        ("/lying", "markdown", "caf\u{e9} cr\u{e8}me"),
        ("/bare", "markdown", "# Tea"),
        ("/page", "text", "\nTea\n\nBoil water."),
        ("/page", "html", "<nav><a href=/>Home</a></nav>"),
    ] {
        let outcome =
            call(&gate, "web_fetch", json!({"url": site.url(path), "format": format})).await;
        assert!(outcome.content.contains(part), "{path} {format}: {}", outcome.content);
    }
    let accepted: Vec<String> = site
        .requests()
        .iter()
        .filter_map(|request| {
            request.lines().find_map(|line| line.strip_prefix("accept: ")).map(str::to_owned)
        })
        .collect();
    assert!(
        accepted[0].starts_with("text/markdown") && accepted[5].starts_with("text/html"),
        "{accepted:?}"
    );
}

#[tokio::test]
async fn pictures_and_documents_are_attached() {
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0".to_vec();
    let pdf = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n\
        trailer<</Root 1 0 R>>".to_vec();
    let site = WebServer::start(move |request| match path(request) {
        "/png" => ("200 OK\r\nContent-Type: text/html", png.clone()),
        _ => ("200 OK\r\nContent-Type: application/pdf", pdf.clone()),
    });
    let gate = gate(settings(&[&site]), Mode::All, &[]);
    for (path, mime, part) in
        [("/png", "image/png", "1 x 1"), ("/pdf", "application/pdf", "PDF document")]
    {
        let outcome = call(&gate, "web_fetch", json!({"url": site.url(path)})).await;
        assert_eq!(outcome.attachments.first().map(|file| file.mime.as_str()), Some(mime));
        assert!(outcome.content.contains(part), "{}", outcome.content);
    }
}

#[tokio::test]
async fn a_failure_has_its_kind_and_what_the_site_says() {
    let site = WebServer::start(|request| match path(request) {
        "/gone" => (
            "404 Not Found\r\nContent-Type: text/html",
            b"<main>It has moved to the attic.</main>".to_vec(),
        ),
        "/busy" => ("429 Slow\r\nRetry-After: 7", Vec::new()),
        "/closed" => ("403 Forbidden", Vec::new()),
        _ => ("500 Broken", Vec::new()),
    });
    let gate = gate(settings(&[&site]), Mode::All, &[]);
    for (path, expected, hint) in [
        ("/gone", "not_found", "web_search"),
        ("/busy", "unavailable", "after 7"),
        ("/closed", "network", "http_request"),
        ("/x", "network", "again"),
    ] {
        let outcome = call(&gate, "web_fetch", json!({"url": site.url(path)})).await;
        assert_eq!(kind(&outcome), expected, "{path}");
        let error = outcome.error.expect("an error");
        assert!(error.hint.contains(hint) && error.message.contains(&site.url(path)), "{error:?}");
        assert_eq!(outcome.content.contains("attic"), path == "/gone", "{}", outcome.content);
    }
}

#[tokio::test]
async fn rules_speak_of_hosts_and_nobody_is_asked_about_what_is_no_url() {
    let site = WebServer::start(|_| html(PAGE));
    let gate = gate(
        settings(&[&site]),
        Mode::Contained,
        &[(Action::Allow, "web_fetch(127.0.0.1)"), (Action::Deny, "web_fetch(evil.test)")],
    );
    // However the host is written, the rule applies to the real destination.
    let port = site.address.port();
    for (url, expected) in [
        (format!("http://127.0.0.1:{port}/"), "none"),
        (format!("http://0x7f.1:{port}/"), "none"),
        ("https://EVIL.test./".to_owned(), "denied"),
        ("https:\\\\evil.test\\x".to_owned(), "denied"),
        ("https://ev\u{ad}il.test/".to_owned(), "denied"),
        ("https://other.test/".to_owned(), "approval_unavailable"),
        ("file:///etc/passwd".to_owned(), "input"),
        ("no url".to_owned(), "input"),
    ] {
        for tool in ["web_fetch", "http_request"] {
            let outcome = call(&gate, tool, json!({"url": url})).await;
            assert_eq!(kind(&outcome), expected, "{tool} {url}: {}", outcome.content);
        }
    }
}

#[tokio::test]
async fn a_redirect_to_another_host_is_followed_only_where_it_would_be_allowed() {
    let other = WebServer::start(|_| html("<p>the other host</p>"));
    // Two names of this machine count as two hosts.
    let target = format!("http://localhost:{}/end", other.address.port());
    let location: &'static str = format!("302 Found\r\nLocation: {target}").leak();
    let first = WebServer::start(move |_| (location, Vec::new()));
    let open = || {
        let mut settings = settings(&[&first, &other]);
        settings
            .allow
            .push(format!("localhost:{}", other.address.port()).parse().expect("an entry"));
        settings
    };
    let narrow = gate(open(), Mode::Safe, &[(Action::Allow, "web_fetch(127.0.0.1)")]);
    let outcome = call(&narrow, "web_fetch", json!({"url": first.url("/")})).await;
    assert_eq!(kind(&outcome), "denied");
    let error = outcome.error.expect("an error");
    assert!(error.hint.contains(&target), "{error:?}");
    assert!(other.requests().is_empty());
    for rules in [
        &[(Action::Allow, "web_fetch(127.0.0.1)"), (Action::Allow, "web_fetch(localhost)")][..],
        &[(Action::Allow, "web_fetch(*)")],
    ] {
        let wide = gate(open(), Mode::Safe, rules);
        let outcome = call(&wide, "web_fetch", json!({"url": first.url("/")})).await;
        assert!(outcome.content.contains("the other host"), "{}", outcome.content);
        assert_eq!(outcome.data.expect("data")["final_url"], json!(target));
    }
    let denied = gate(open(), Mode::All, &[(Action::Deny, "web_fetch(localhost)")]);
    assert_eq!(kind(&call(&denied, "web_fetch", json!({"url": first.url("/")})).await), "denied");
}

#[tokio::test]
async fn a_request_carries_its_secret_and_shows_none() {
    let site = WebServer::start(|request| {
        ("200 OK\r\nContent-Type: text/plain", request.as_bytes().to_vec())
    });
    let rule = (Action::Allow, "secret(KEY: 127.0.0.1)");
    let gate = gate(settings(&[&site]), Mode::All, &[rule]);
    let input = json!({
        "url": site.url("/?k=secret:KEY"), "method": "POST",
        "headers": {"Authorization": "Bearer secret:KEY"}, "json_body": {"key": "secret:KEY"},
    });
    let outcome = call(&gate, "http_request", input).await;
    let request = site.requests().pop().expect("a request");
    assert_eq!(request.matches("the-secret-value").count(), 3, "{request}");
    let seen = serde_json::to_string(&outcome).expect("JSON");
    assert!(!seen.contains("the-secret-value") && seen.contains("[secret:KEY]"), "{seen}");
}

#[tokio::test]
async fn no_header_that_opens_something_follows_to_another_origin_or_back_from_it() {
    for name in [
        "Cookie",
        "cookie",
        "Authorization",
        "X-Api-Key",
        "Api-Key",
        "X-Custom",
        "X-Auth-Token",
        "Referer-Token",
    ] {
        // Another port is another origin; it redirects back to the first one.
        let first_url = Arc::new(std::sync::OnceLock::<String>::new());
        let known = first_url.clone();
        let other = WebServer::start(move |_| {
            let back = known.get().expect("it is known");
            (format!("307 On\r\nLocation: {back}end").leak() as &'static str, Vec::new())
        });
        let onwards: &'static str = format!("307 On\r\nLocation: {}", other.url("/")).leak();
        let first = WebServer::start(move |request| match path(request) {
            "/end" => ("200 OK\r\nContent-Type: text/plain", b"end".to_vec()),
            "/same" => ("307 On\r\nLocation: /end", Vec::new()),
            _ => (onwards, Vec::new()),
        });
        first_url.set(first.url("/")).expect("once");
        let gate = gate(settings(&[&first, &other]), Mode::All, &[]);
        let headers = json!({name: "cred-1234567", "Accept": "text/plain"});
        let input = |path: &str| json!({"url": first.url(path), "headers": headers.clone()});
        let outcome = call(&gate, "http_request", input("/start")).await;
        assert!(outcome.content.contains("status 200"), "{name}: {}", outcome.content);
        let (mine, theirs) = (first.requests(), other.requests());
        assert_eq!((mine.len(), theirs.len()), (2, 1), "{name}");
        assert!(mine[0].contains("cred-1234567"), "{name}: {}", mine[0]);
        for later in [&mine[1], &theirs[0]] {
            assert!(!later.contains("cred-1234567"), "{name}: {later}");
            assert!(later.to_ascii_lowercase().contains("accept: text/plain"), "{name}: {later}");
        }
        // It is kept within the origin.
        call(&gate, "http_request", input("/same")).await;
        assert!(
            first.requests().last().is_some_and(|last| last.contains("cred-1234567")),
            "{name}"
        );
    }
}

#[tokio::test]
async fn every_status_is_a_result_of_a_request() {
    let site = WebServer::start(|_| {
        ("418 Teapot\r\nX-Shape: round\r\nSet-Cookie: id=1", b"short and stout".to_vec())
    });
    let gate = gate(settings(&[&site]), Mode::All, &[]);
    let outcome =
        call(&gate, "http_request", json!({"url": site.url("/"), "method": "HEAD"})).await;
    assert_eq!(kind(&outcome), "none");
    let data = outcome.data.expect("data");
    assert_eq!((data["status"].clone(), data["bytes"].clone()), (json!(418), json!(0)));
    assert!(
        outcome.content.contains("x-shape: round") && !outcome.content.contains("id=1"),
        "{}",
        outcome.content
    );
}

/// Real requests and responses of the search engines.
fn engine(kind: EngineKind, needs_key: bool, answer: &'static str) -> (WebServer, NetworkSettings) {
    let site = WebServer::start(move |request| {
        let is_open = !needs_key || request.contains("the-secret-value");
        if is_open {
            ("200 OK", answer.as_bytes().to_vec())
        } else {
            ("401 Unauthorized", Vec::new())
        }
    });
    let mut settings = settings(&[&site]);
    settings.search.kind = kind;
    settings.search.url = Some(site.url("/"));
    settings.search.key = Some("KEY".to_owned());
    (site, settings)
}

const SEARXNG: &str = r#"{"query": "tea", "number_of_results": 0, "results": [
    {"url": "https://one.test/a", "title": "One &amp; only", "content": "about <b>tea</b>", "engine": "x", "publishedDate": "2024-01-02T00:00:00"},
    {"url": "https://two.test/", "title": "Two", "content": ""}, {"url": "javascript:x", "title": "Three"}],
    "answers": [], "suggestions": ["tea pot"], "unresponsive_engines": []}"#;
const BRAVE: &str = r#"{"type": "search", "query": {"original": "tea"}, "web": {"type": "search", "results": [
    {"title": "One &amp; only", "url": "https://one.test/a", "description": "about <strong>tea</strong>", "age": "2024-01-02T00:00:00"},
    {"title": "Two", "url": "https://two.test/", "description": ""}]}}"#;
const TAVILY: &str = r#"{"query": "tea", "answer": null, "images": [], "results": [
    {"title": "One & only", "url": "https://one.test/a", "content": "about tea", "score": 0.9, "published_date": "2024-01-02T00:00:00"},
    {"title": "Two", "url": "https://two.test/", "content": "", "score": 0.5}], "response_time": 1.2}"#;
const EXA: &str = r#"{"requestId": "1", "results": [
    {"id": "https://one.test/a", "title": "One & only", "url": "https://one.test/a", "publishedDate": "2024-01-02T00:00:00", "author": null, "highlights": ["about tea"]},
    {"id": "https://two.test/", "title": "Two", "url": "https://two.test/", "highlights": []}]}"#;
const DUCKDUCKGO: &str = r##"<html><body><div id="links" class="results">
<div class="result results_links results_links_deep result--ad"><h2 class="result__title"><a class="result__a" href="https://duckduckgo.com/y.js?ad_domain=x">An advertisement</a></h2><a class="result__snippet">Buy</a></div>
<div class="result results_links results_links_deep web-result"><h2 class="result__title"><a rel="nofollow" class="result__a" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fone.test%2Fa&amp;rut=1f">One &amp; only</a></h2>
<a class="result__url" href="#">one.test/a</a><a class="result__snippet" href="#">about <b>tea</b></a></div>
<div class="result web-result"><h2><a class="result__a" href="https://two.test/">Two</a></h2></div></div></body></html>"##;

#[tokio::test]
async fn each_engine_is_understood() {
    for (kind_of, needs_key, answer, is_dated) in [
        (EngineKind::SearXng, false, SEARXNG, true),
        (EngineKind::Brave, true, BRAVE, true),
        (EngineKind::Tavily, true, TAVILY, true),
        (EngineKind::Exa, true, EXA, true),
        (EngineKind::DuckDuckGo, false, DUCKDUCKGO, false),
    ] {
        let (site, settings) = engine(kind_of, needs_key, answer);
        let gate = gate(settings, Mode::All, &[]);
        let outcome = call(&gate, "web_search", json!({"query": "tea & cake", "limit": 5})).await;
        assert_eq!(kind(&outcome), "none", "{kind_of:?}: {}", outcome.content);
        let data = outcome.data.expect("data");
        let published = if is_dated { json!("2024-01-02T00:00:00") } else { Value::Null };
        let first = &data["results"][0];
        assert_eq!(first["title"], "One & only", "{kind_of:?}");
        assert_eq!(
            (first["url"].clone(), first["excerpt"].clone(), first["published"].clone()),
            (json!("https://one.test/a"), json!("about tea"), published),
            "{kind_of:?}"
        );
        assert_eq!(
            data["results"][1],
            json!({"title": "Two", "url": "https://two.test/", "excerpt": ""})
        );
        assert_eq!(data["results"].as_array().map(Vec::len), Some(2));
        assert!(outcome.content.starts_with("[data from a search with "), "{}", outcome.content);
        let request = site.requests().pop().expect("a request");
        assert!(request.contains("tea+%26+cake") || request.contains("tea & cake"), "{request}");
    }
}

#[tokio::test]
async fn results_keep_to_the_sites_that_were_named() {
    let (site, settings) = engine(EngineKind::SearXng, false, SEARXNG);
    let gate = gate(settings, Mode::All, &[]);
    let outcome = call(&gate, "web_search", json!({"query": "tea", "domains": ["two.test"]})).await;
    let data = outcome.data.expect("data");
    assert_eq!(data["results"].as_array().map(Vec::len), Some(1));
    assert!(site.requests()[0].contains("site%3Atwo.test"), "{:?}", site.requests());
}

#[tokio::test]
async fn an_engine_without_its_key_says_what_to_configure() {
    let (_site, mut settings) = engine(EngineKind::Brave, true, BRAVE);
    settings.search.key = None;
    let outcome =
        call(&gate(settings.clone(), Mode::All, &[]), "web_search", json!({"query": "tea"})).await;
    assert_eq!(kind(&outcome), "unavailable");
    assert!(outcome.error.expect("an error").hint.contains("[search]"));
    settings.search.key = Some("OTHER".to_owned());
    let outcome =
        call(&gate(settings, Mode::All, &[]), "web_search", json!({"query": "tea"})).await;
    assert_eq!(kind(&outcome), "not_found");
    assert!(outcome.error.expect("an error").hint.contains("HAFT_SECRET_OTHER"));
}

#[tokio::test]
async fn who_calls_off_does_not_wait_for_the_other_side() {
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let told = std::sync::Mutex::new(told);
    // Responds after the end of the test.
    let site = WebServer::start(move |_| {
        let _ = told.lock().expect("nobody panics").recv();
        html(PAGE)
    });
    let gate = gate(settings(&[&site]), Mode::All, &[]);
    let context = Context::new("test");
    let cancel = context.cancel.clone();
    let asking = gate.call(CallRequest::new("web_fetch", json!({"url": site.url("/")}), context));
    let mut asking = Box::pin(asking);
    while site.requests().is_empty() {
        tokio::select! { biased; _ = &mut asking => panic!("nobody has answered"), () = tokio::task::yield_now() => {} }
    }
    cancel.cancel();
    let begin = Instant::now();
    assert_eq!(kind(&asking.await), "cancelled");
    assert!(begin.elapsed() < Duration::from_secs(10));
    drop(tell);
}

#[test]
fn the_command_line_and_its_config() {
    let site = WebServer::start(|request| match path(request) {
        "/secret" => ("200 OK\r\nContent-Type: text/plain", request.as_bytes().to_vec()),
        _ => html(PAGE),
    });
    let fixture = Fixture::new().user_config(&format!(
        "allow = [\"web_fetch(127.0.0.1)\"]\n[network]\nallow = [\"{}\"]\nmax_bytes = 1000\n\
         [credentials.MINE]\nvariable = \"OWN_VARIABLE\"\nhosts = [\"127.0.0.1\"]\n",
        site.address
    ));
    let ran = fixture.run(&["web-fetch", &site.url("/")]);
    assert!(ran.code == 0 && ran.out.contains("# Tea"), "{}", ran.whole());
    let closed = fixture.run(&["web-fetch", "--approve", "all", "http://127.0.0.1:9/"]);
    assert!(closed.code == 5 && closed.err.contains("[network]"), "{}", closed.whole());
    let nowhere = fixture.run(&["web-fetch", "--approve", "all", "https://nowhere.invalid/"]);
    assert_eq!(nowhere.code, 6, "{}", nowhere.whole());
    let input =
        json!({"url": site.url("/secret"), "headers": {"X-Key": "secret:MINE"}}).to_string();
    let mut command = fixture.haft(&["--approve", "all", "call", "http_request", &input]);
    let output = command.env("OWN_VARIABLE", "own-secret-value").output().expect("haft runs");
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.contains("[secret:MINE]") && !out.contains("own-secret-value"), "{out}");
    assert!(
        site.requests().pop().is_some_and(|request| request.contains("x-key: own-secret-value"))
    );
}

#[test]
fn a_project_cannot_open_the_network() {
    for config in [
        "[network]\nallow = [\"127.0.0.1\"]\n",
        "[credentials.X]\nvariable = \"HOME\"\n",
        "[search]\nurl = \"http://x\"\n",
    ] {
        let ran = Fixture::new().project_config(config).run(&["hello", "Ada"]);
        assert!(
            ran.code == 2 && ran.err.contains("is allowed only in your own"),
            "{}",
            ran.whole()
        );
    }
}

#[test]
fn an_agent_that_asks_for_a_page_is_asked_about_and_shown_it() {
    let site = WebServer::start(|_| html(PAGE));
    let fixture = Fixture::new().user_config(&format!(
        "allow = [\"web_fetch(127.0.0.1)\"]\n[network]\nallow = [\"{}\"]\n",
        site.address
    ));
    let mut client = mcp_stdio::Client::introduced(&fixture, json!({}));
    client.call(1, "web_fetch", json!({"url": site.url("/")}));
    let answer = client.next();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    assert!(text.contains("Boil [water]"), "{answer}");
}
