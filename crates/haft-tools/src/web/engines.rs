//! Requests and responses of each search engine, after their documentation: SearXNG's search API
//! (docs.searxng.org/dev/search_api), Brave's web search (api-dashboard.search.brave.com), Tavily's
//! and Exa's search endpoints (docs.tavily.com, docs.exa.ai). DuckDuckGo has no API, so its page
//! without scripts is parsed.

use haft_core::{
    ErrorKind, ToolError,
    network::{EngineKind, Purpose, Request, Response, SearchEngine},
};
use serde_json::{Value, json};
use url::Url;

use super::{
    html::{HtmlPage, NodeId, Tag},
    markdown::one_line,
    web_search::SearchHit,
};

/// Maximum length of an excerpt.
const MAX_EXCERPT_CHARS: usize = 500;

pub(super) struct EngineQuery {
    pub(super) words: String,
    pub(super) limit: usize,
    pub(super) domains: Vec<String>,
}

impl EngineQuery {
    /// Breaks `secret:` references in the words, so that no secret is sent to an engine.
    pub(super) fn new(words: &str, limit: usize, domains: Vec<String>) -> Self {
        Self { words: words.replace("secret:", "secret: "), limit, domains }
    }

    /// Returns the words with `site:` terms, for engines without a parameter for sites.
    fn with_sites(&self) -> String {
        let sites: Vec<String> =
            self.domains.iter().map(|domain| format!("site:{}", host(domain))).collect();
        match sites.as_slice() {
            [] => self.words.clone(),
            [one] => format!("{} {one}", self.words),
            many => format!("{} ({})", self.words, many.join(" OR ")),
        }
    }

    fn hosts(&self) -> Vec<String> {
        self.domains.iter().map(|domain| host(domain)).collect()
    }
}

/// Returns the host of a domain or address: `https://Docs.RS/x` becomes `docs.rs`.
fn host(domain: &str) -> String {
    let domain = domain.trim();
    let bare = domain.split_once("://").map_or(domain, |(_, rest)| rest);
    let bare = bare.split(['/', '?', '#', ' ', ':']).next().unwrap_or_default();
    bare.trim_start_matches("*.").to_ascii_lowercase()
}

/// Returns the request for an engine.
///
/// # Errors
/// `unavailable` when the engine needs a key or an address that is not configured.
pub(super) fn request(engine: &SearchEngine, query: &EngineQuery) -> Result<Request, ToolError> {
    match engine.kind {
        EngineKind::DuckDuckGo => {
            get(engine, "https://html.duckduckgo.com/html/", &[("q", &query.with_sites())])
        }
        EngineKind::SearXng => {
            let instance = engine
                .url
                .as_ref()
                .ok_or_else(|| missing(engine, "url", "https://searx.example.org"))?;
            let mut url = address(instance)?;
            if !url.path().ends_with("/search") {
                let path = format!("{}/search", url.path().trim_end_matches('/'));
                url.set_path(&path);
            }
            url.query_pairs_mut()
                .append_pair("q", &query.with_sites())
                .append_pair("format", "json");
            Ok(new_request("GET", url, Vec::new(), Vec::new()))
        }
        EngineKind::Brave => {
            let count = query.limit.to_string();
            let at = "https://api.search.brave.com/res/v1/web/search";
            let mut request = get(engine, at, &[("q", &query.with_sites()), ("count", &count)])?;
            request.headers.push(("X-Subscription-Token".to_owned(), key(engine)?));
            Ok(request)
        }
        EngineKind::Tavily => {
            let body = json!({"query": query.words, "max_results": query.limit, "include_domains": query.hosts()});
            let authorization = format!("Bearer {}", key(engine)?);
            post(engine, "https://api.tavily.com/search", ("Authorization", authorization), &body)
        }
        EngineKind::Exa => {
            let mut body = json!({"query": query.words, "numResults": query.limit, "contents": {"highlights": true}});
            if !query.domains.is_empty() {
                body["includeDomains"] = json!(query.hosts());
            }
            post(engine, "https://api.exa.ai/search", ("x-api-key", key(engine)?), &body)
        }
    }
}

fn address(url: &str) -> Result<Url, ToolError> {
    super::parsed(url).ok_or_else(|| {
        ToolError::unavailable(format!("`url` under [search] is not an http or https URL: {url}"))
            .hint("fix it in your own config")
    })
}

fn get(engine: &SearchEngine, usual: &str, query: &[(&str, &str)]) -> Result<Request, ToolError> {
    let mut url = address(engine.url.as_deref().unwrap_or(usual))?;
    url.query_pairs_mut().extend_pairs(query);
    Ok(new_request("GET", url, Vec::new(), Vec::new()))
}

fn post(
    engine: &SearchEngine,
    usual: &str,
    (name, value): (&str, String),
    body: &Value,
) -> Result<Request, ToolError> {
    let url = address(engine.url.as_deref().unwrap_or(usual))?;
    let headers =
        vec![(name.to_owned(), value), ("Content-Type".to_owned(), "application/json".to_owned())];
    Ok(new_request("POST", url, headers, body.to_string().into_bytes()))
}

fn new_request(
    method: &str,
    url: Url,
    mut headers: Vec<(String, String)>,
    body: Vec<u8>,
) -> Request {
    headers.push(("Accept".to_owned(), "application/json, text/html;q=0.9".to_owned()));
    let (method, url) = (method.to_owned(), url.into());
    Request { method, url, headers, body, timeout: None, purpose: Purpose::Exchange }
}

/// Returns a reference to the key. Only the client knows its value.
fn key(engine: &SearchEngine) -> Result<String, ToolError> {
    let name = engine.key.as_ref().ok_or_else(|| missing(engine, "key", "the name of a secret"))?;
    Ok(format!("secret:{name}"))
}

fn missing(engine: &SearchEngine, what: &str, such_as: &str) -> ToolError {
    let name = engine.kind.name();
    let message = format!("the search engine {name} needs a `{what}`, which is not configured");
    ToolError::unavailable(message).hint(format!(
        "set `{what}` ({such_as}) under [search] in your own config, or use `engine = \"duckduckgo\"`, which needs no configuration"
    ))
}

/// Parses the response of an engine.
///
/// # Errors
/// `unavailable` when the engine refuses, `network` when the response has an unknown form.
pub(super) fn results(
    kind: EngineKind,
    response: &Response,
    query: &EngineQuery,
) -> Result<Vec<SearchHit>, ToolError> {
    check(kind, response)?;
    let hits = match kind {
        EngineKind::DuckDuckGo => parse_page(response)?,
        _ => parse_json(kind, response)?,
    };
    let hosts = query.hosts();
    let is_wanted = |hit: &SearchHit| {
        let found = super::parsed(&hit.url).and_then(|url| url.host_str().map(str::to_owned));
        let is_of = |host: &String| {
            found
                .as_deref()
                .and_then(|found| found.strip_suffix(host.as_str()))
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        found.is_some() && (hosts.is_empty() || hosts.iter().any(is_of))
    };
    Ok(hits.into_iter().filter(is_wanted).take(query.limit).collect())
}

fn check(kind: EngineKind, response: &Response) -> Result<(), ToolError> {
    let (name, status) = (kind.name(), response.status);
    let hint = match (kind, status) {
        (EngineKind::DuckDuckGo, 202 | 403 | 418 | 429) => {
            "it takes haft for a robot; wait, or configure another engine under [search]"
        }
        (_, 200..300) => return Ok(()),
        (EngineKind::SearXng, 403) => {
            "enable JSON responses in the instance: `formats` under `search` in its settings"
        }
        (_, 401 | 403) => "check the key: the secret that `key` under [search] names",
        (_, 402 | 429 | 432 | 433) => {
            "its rate limit is reached; wait, or configure another engine under [search]"
        }
        _ => "try again later, or configure another engine under [search]",
    };
    Err(ToolError::unavailable(format!("the search engine {name} failed (status {status})"))
        .hint(hint))
}

fn unknown_form(kind: EngineKind) -> ToolError {
    ToolError::new(
        ErrorKind::Network,
        format!("cannot parse the response of the search engine {}", kind.name()),
    )
    .hint("check `url` under [search], or configure another engine there")
}

/// Parses a JSON response. The engines differ only in a few names.
fn parse_json(kind: EngineKind, response: &Response) -> Result<Vec<SearchHit>, ToolError> {
    let answer: Value = serde_json::from_slice(&response.body).map_err(|_| unknown_form(kind))?;
    let pointer = if kind == EngineKind::Brave { "/web/results" } else { "/results" };
    let results = match answer.pointer(pointer) {
        Some(results) => results.as_array().ok_or_else(|| unknown_form(kind))?,
        // Brave leaves out an empty list.
        None if kind == EngineKind::Brave && answer.is_object() => return Ok(Vec::new()),
        None => return Err(unknown_form(kind)),
    };
    Ok(results.iter().filter_map(|result| hit(kind, result)).collect())
}

fn hit(kind: EngineKind, result: &Value) -> Option<SearchHit> {
    let read = |text: &str| match kind {
        // The texts of these engines are not HTML.
        EngineKind::Tavily | EngineKind::Exa => {
            one_line(text).chars().take(MAX_EXCERPT_CHARS).collect()
        }
        _ => plain(text),
    };
    let text = |name: &str| result[name].as_str().map(read).filter(|text| !text.is_empty());
    let excerpt = match kind {
        EngineKind::Brave => text("description"),
        EngineKind::Exa => {
            let highlights =
                result["highlights"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let joined = read(&highlights.collect::<Vec<_>>().join(" \u{2026} "));
            Some(joined).filter(|joined| !joined.is_empty()).or_else(|| text("text"))
        }
        _ => text("content"),
    };
    let published =
        ["publishedDate", "published_date", "page_age", "age"].into_iter().find_map(text);
    let url = result["url"].as_str()?.to_owned();
    let title = text("title").unwrap_or_else(|| url.clone());
    Some(SearchHit { title, url, excerpt: excerpt.unwrap_or_default(), published })
}

/// Removes the HTML with which engines mark matching words.
fn plain(text: &str) -> String {
    let page = HtmlPage::parse(text);
    let text = one_line(&page.text(NodeId::ROOT));
    text.chars().take(MAX_EXCERPT_CHARS).collect()
}

/// Parses DuckDuckGo's page: each result is a link with the class `result__a`, its excerpt has the
/// class `result__snippet`.
fn parse_page(response: &Response) -> Result<Vec<SearchHit>, ToolError> {
    let html = String::from_utf8_lossy(&response.body);
    let page = HtmlPage::parse(&html);
    let has = |id: NodeId, class: &str| {
        page.attribute(id, "class")
            .is_some_and(|own| own.split_whitespace().any(|word| word == class))
    };
    let mut hits: Vec<SearchHit> = Vec::new();
    let mut is_known = false;
    for id in page.ids().filter(|id| page.tag(*id).is_some()) {
        is_known |= has(id, "results") || has(id, "no-results") || has(id, "result");
        let above = || std::iter::successors(page.parent(id), |id| page.parent(*id));
        if has(id, "result__a") && !above().any(|id| has(id, "result--ad")) {
            let address = page.attribute(id, "href").and_then(behind_redirect);
            hits.extend(address.map(|url| SearchHit {
                title: one_line(&page.text(id)),
                url,
                excerpt: String::new(),
                published: None,
            }));
        } else if has(id, "result__snippet")
            && !above().any(|id| has(id, "result--ad"))
            && let Some(last) = hits.last_mut().filter(|last| last.excerpt.is_empty())
        {
            last.excerpt = one_line(&page.text(id)).chars().take(MAX_EXCERPT_CHARS).collect();
        }
    }
    if hits.is_empty()
        && page.ids().any(|id| page.tag(id) == Some(Tag::Form) && has(id, "challenge-form"))
    {
        return Err(ToolError::unavailable("the search engine duckduckgo asks for a captcha")
            .hint("wait, or configure another engine under [search]"));
    }
    if hits.is_empty() && !is_known {
        return Err(unknown_form(EngineKind::DuckDuckGo));
    }
    Ok(hits)
}

/// Returns the target of a DuckDuckGo link, which goes through a redirect page with the address in
/// `uddg`.
fn behind_redirect(href: &str) -> Option<String> {
    let base = Url::parse("https://duckduckgo.com/").ok()?;
    let url = base.join(href).ok()?;
    let own = url.host_str().is_some_and(|host| host == "duckduckgo.com")
        && url.path().starts_with("/l/");
    match own {
        true => url
            .query_pairs()
            .find(|(name, _)| name == "uddg")
            .map(|(_, address)| address.into_owned()),
        false => Some(url.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(kind: EngineKind) -> SearchEngine {
        SearchEngine { kind, url: None, key: Some("KEY".to_owned()) }
    }

    fn query(domains: &[&str]) -> EngineQuery {
        let domains = domains.iter().map(|domain| (*domain).to_owned()).collect();
        EngineQuery::new("a & b", 3, domains)
    }

    fn answer(status: u16, body: &str) -> Response {
        Response { status, body: body.as_bytes().to_vec(), ..Response::default() }
    }

    #[test]
    fn each_engine_gets_its_own_request() {
        let ask = |kind: EngineKind, domains: &[&str]| {
            let engine = SearchEngine {
                url: (kind == EngineKind::SearXng).then(|| "http://s.test/x/".to_owned()),
                ..engine(kind)
            };
            let request = request(&engine, &query(domains)).expect("a request");
            let body = String::from_utf8(request.body).expect("UTF-8");
            (format!("{} {}", request.method, request.url), request.headers, body)
        };
        let (line, _, _) = ask(EngineKind::DuckDuckGo, &["https://Docs.RS/x", "b.test"]);
        assert_eq!(
            line,
            "GET https://html.duckduckgo.com/html/?q=a+%26+b+%28site%3Adocs.rs+OR+site%3Ab.test%29"
        );
        let (line, _, _) = ask(EngineKind::SearXng, &["b.test"]);
        assert_eq!(line, "GET http://s.test/x/search?q=a+%26+b+site%3Ab.test&format=json");
        let (line, headers, _) = ask(EngineKind::Brave, &[]);
        assert_eq!(line, "GET https://api.search.brave.com/res/v1/web/search?q=a+%26+b&count=3");
        assert!(headers.contains(&("X-Subscription-Token".to_owned(), "secret:KEY".to_owned())));
        let (line, headers, body) = ask(EngineKind::Tavily, &["b.test"]);
        assert_eq!(line, "POST https://api.tavily.com/search");
        assert!(headers.contains(&("Authorization".to_owned(), "Bearer secret:KEY".to_owned())));
        assert_eq!(body, r#"{"query":"a & b","max_results":3,"include_domains":["b.test"]}"#);
        let (line, headers, body) = ask(EngineKind::Exa, &[]);
        assert_eq!(line, "POST https://api.exa.ai/search");
        assert!(headers.contains(&("x-api-key".to_owned(), "secret:KEY".to_owned())));
        assert_eq!(body, r#"{"query":"a & b","numResults":3,"contents":{"highlights":true}}"#);
    }

    #[test]
    fn a_missing_setting_is_named() {
        for (kind, what) in [
            (EngineKind::SearXng, "`url`"),
            (EngineKind::Brave, "`key`"),
            (EngineKind::Tavily, "`key`"),
            (EngineKind::Exa, "`key`"),
        ] {
            let bare = SearchEngine { kind, url: None, key: None };
            let error = request(&bare, &query(&[])).expect_err("not configured");
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(
                error.message().contains(what) && error.next_step().contains("[search]"),
                "{error}"
            );
        }
        assert!(request(&SearchEngine::default(), &query(&[])).is_ok());
    }

    #[test]
    fn refusals_have_a_next_step() {
        for (kind, status, part) in [
            (EngineKind::Brave, 401, "key"),
            (EngineKind::Tavily, 429, "limit"),
            (EngineKind::SearXng, 403, "formats"),
            (EngineKind::DuckDuckGo, 202, "robot"),
            (EngineKind::Exa, 500, "later"),
        ] {
            let error = results(kind, &answer(status, ""), &query(&[])).expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.next_step().contains(part), "{}", error.next_step());
        }
    }

    #[test]
    fn markup_is_kept_where_the_texts_are_not_html() {
        let body = r#"{"results": [{"url": "https://a.test/", "title": "Vec<String> &amp; <b>",
            "content": "use Vec<String>", "highlights": ["use Vec<String>"]}]}"#;
        for (kind, title) in [
            (EngineKind::Tavily, "Vec<String> &amp; <b>"),
            (EngineKind::Exa, "Vec<String> &amp; <b>"),
            (EngineKind::SearXng, "Vec &"),
        ] {
            let hits = results(kind, &answer(200, body), &query(&[])).expect("results");
            assert_eq!(hits[0].title, title);
            let is_whole = hits[0].excerpt == "use Vec<String>";
            assert_eq!(is_whole, kind != EngineKind::SearXng, "{kind:?}: {:?}", hits[0]);
        }
    }

    #[test]
    fn searched_words_refer_to_no_secret() {
        for kind in [EngineKind::DuckDuckGo, EngineKind::Brave, EngineKind::Tavily, EngineKind::Exa]
        {
            let query = EngineQuery::new("what is secret:KEY", 3, vec!["secret:KEY".to_owned()]);
            let request = request(&engine(kind), &query).expect("a request");
            let asked = format!("{} {}", request.url, String::from_utf8_lossy(&request.body));
            let asked = asked.replace("%3A", ":");
            assert!(!asked.contains("secret:K") && !asked.contains("secret:k"), "{asked}");
        }
    }

    #[test]
    fn a_response_of_unknown_form_is_an_error() {
        for kind in [
            EngineKind::Brave,
            EngineKind::Tavily,
            EngineKind::Exa,
            EngineKind::SearXng,
            EngineKind::DuckDuckGo,
        ] {
            for body in [
                "",
                "[1]",
                "<html><p>Welcome to the hotel's network</p>",
                "{\"results\": 7, \"web\": {\"results\": 7}}",
            ] {
                let error = results(kind, &answer(200, body), &query(&[])).expect_err("unknown");
                assert_eq!(error.kind(), ErrorKind::Network, "{kind:?} {body}");
            }
        }
    }
}
