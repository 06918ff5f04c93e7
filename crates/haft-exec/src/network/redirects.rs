//! Sends a request and follows its redirects: each hop is checked and sent, and ends the request or
//! leads to the next hop. Secrets for one origin are not sent to another.

use haft_core::{
    ErrorKind, ToolError,
    network::{NetworkError, Purpose, Request, Response, UrlCheck},
};
use hyper::{
    HeaderMap, Method,
    header::{self, HeaderName, HeaderValue},
};
use url::Url;

use super::{
    Network,
    cache::{CacheKey, CachedPage},
    errors,
    exchange::RawResponse,
    robots,
    secrets::{SecretContext, UsedSecrets},
    target,
};
use crate::network::credentials::SecretSource;

const MAX_REDIRECTS: usize = 10;
const MAX_HEADERS: usize = 64;
const MAX_HEADER_BYTES: usize = 32 << 10;
const METHODS: [Method; 7] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::OPTIONS,
];
/// Headers that the client sets: the host, the length and encoding of the body, and the use of the
/// connection.
const OWN_HEADERS: [HeaderName; 11] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    header::EXPECT,
    header::ACCEPT_ENCODING,
    header::PROXY_AUTHORIZATION,
    header::PROXY_AUTHENTICATE,
];
/// Headers that describe a body, dropped together with it.
const BODY_HEADERS: [HeaderName; 4] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LOCATION,
];

/// One request to one address.
pub(super) struct Hop {
    pub(super) method: Method,
    /// Includes the secrets.
    pub(super) url: Url,
    /// Without the secrets.
    pub(super) shown: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// The headers that contain secrets.
    with_secrets: Vec<HeaderName>,
    body_has_secrets: bool,
    pub(super) used: UsedSecrets,
}

impl Network {
    pub(super) async fn send_and_follow(
        &self,
        request: Request,
        permit: &UrlCheck<'_>,
    ) -> Result<Response, ToolError> {
        let purpose = request.purpose;
        let mut hop = self.first_hop(request)?;
        let mut redirects: Vec<String> = Vec::new();
        let mut visited: Vec<(Method, Url)> = Vec::new();
        loop {
            permit(&hop.shown)?;
            let result = match purpose {
                Purpose::Reading => self.read(&hop).await?,
                Purpose::Exchange => HopResult::of(self.ask(&hop).await?, &hop),
            };
            let Some(next) = self.next_url(&hop, &result)? else {
                return Ok(Response { redirects, ..result.response });
            };
            visited.push((hop.method.clone(), hop.url.clone()));
            redirects.push(hop.shown.clone());
            hop = hop.redirected_to(next, result.response.status)?;
            let is_loop =
                visited.iter().any(|(method, url)| *method == hop.method && *url == hop.url);
            if is_loop || redirects.len() > MAX_REDIRECTS {
                return Err(too_many_redirects(&hop, is_loop));
            }
        }
    }

    fn first_hop(&self, request: Request) -> Result<Hop, ToolError> {
        let url = target::parse(&request.url)?;
        let method = METHODS.into_iter().find(|method| method.as_str() == request.method);
        let method = method.ok_or_else(|| {
            ToolError::input(format!("method: {} is not supported", target::short(&request.method)))
                .hint(format!("use one of {}", METHODS.map(|method| method.to_string()).join(", ")))
        })?;
        let mut hop = Hop {
            method,
            shown: url.to_string(),
            url,
            headers: HeaderMap::new(),
            body: request.body,
            with_secrets: Vec::new(),
            body_has_secrets: false,
            used: UsedSecrets::default(),
        };
        let is_exchange = request.purpose == Purpose::Exchange;
        let variables = if is_exchange { (self.settings.variables)() } else { Vec::new() };
        let secrets = is_exchange.then_some(SecretSource {
            credentials: &self.settings.credentials,
            variables: &variables,
            vault: self.settings.vault.as_deref(),
        });
        hop.set_headers(&request.headers, secrets.as_ref())?;
        if let Some(secrets) = secrets {
            hop.fill_url_and_body(&secrets)?;
        }
        Ok(hop)
    }

    /// Reads a page: from the cache while it is fresh, and only if robots.txt allows it.
    async fn read(&self, hop: &Hop) -> Result<HopResult, ToolError> {
        if self.settings.respects_robots {
            self.check_robots(hop).await?;
        }
        let text =
            |name| hop.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let is_plain =
            hop.method == Method::GET && !hop.headers.contains_key(header::AUTHORIZATION);
        if !is_plain {
            return Ok(HopResult::of(self.ask(hop).await?, hop));
        }
        let key =
            CacheKey { url: hop.url.to_string(), accept: text(header::ACCEPT).unwrap_or_default() };
        let known = self.cache.find(&key);
        if let Some(page) = known.as_ref().filter(|page| page.is_fresh()) {
            return Ok(HopResult::remembered(page));
        }
        let asking = known.as_ref().map(|page| hop.revalidating(page));
        let result = HopResult::of(self.ask(asking.as_ref().unwrap_or(hop)).await?, hop);
        if let Some(page) = known.filter(|_| result.response.status == 304) {
            return Ok(HopResult::remembered(&page));
        }
        self.cache.keep(key, &result.response);
        Ok(result)
    }

    async fn check_robots(&self, hop: &Hop) -> Result<(), ToolError> {
        let mut url = hop.url.clone();
        url.set_path("/robots.txt");
        url.set_query(None);
        url.set_fragment(None);
        let key = CacheKey { url: url.to_string(), accept: String::new() };
        let known = self.robots.find(&key).filter(|page| page.is_fresh());
        let rules = match known {
            Some(page) => page.response.clone(),
            None => {
                let shown = url.to_string();
                let asked = Hop { shown, url, ..hop.bare() };
                let mut answer = HopResult::of(self.ask(&asked).await?, &asked).response;
                answer.body.truncate(robots::MAX_BYTES);
                // For a few minutes it is not fetched again, whatever its own headers say.
                answer.headers = vec![("cache-control".to_owned(), "max-age=300".to_owned())];
                self.robots.keep(key, &answer);
                answer
            }
        };
        let path = hop.url.query().map_or_else(
            || hop.url.path().to_owned(),
            |query| format!("{}?{query}", hop.url.path()),
        );
        let is_open = match rules.status {
            200..300 => robots::allows(&String::from_utf8_lossy(&rules.body), &path),
            // While the server fails, robots.txt is unknown and the site is not fetched.
            500.. => false,
            _ => true,
        };
        if is_open {
            return Ok(());
        }
        let message = format!("robots.txt disallows {}", target::short(&hop.shown));
        Err(NetworkError::Robots
            .error(ErrorKind::Denied, message)
            .hint("do not fetch it, or ask a person to set `robots` under [network] to \"ignore\""))
    }

    /// Returns the URL that a response redirects to, if it does.
    fn next_url(&self, hop: &Hop, result: &HopResult) -> Result<Option<Url>, ToolError> {
        let leads_on = matches!(result.response.status, 301 | 302 | 303 | 307 | 308);
        let Some(location) = result.location.as_ref().filter(|_| leads_on) else {
            return Ok(None);
        };
        let next = hop.url.join(location).map_err(|_| {
            errors::malformed(&target::short(&hop.shown), "it redirects to an invalid URL")
        })?;
        let shown = hop.used.redact(next.as_str()).into_owned();
        let next = target::parse(next.as_str())
            .map_err(|_| refused(hop, &shown, "which is not a plain http or https URL"))?;
        let loses_protection = hop.url.scheme() == "https" && next.scheme() == "http";
        if loses_protection && !self.settings.allows_downgrade {
            return Err(refused(hop, &shown, "which is not https"));
        }
        if next.origin() != hop.url.origin() && hop.used.appear_in(next.as_str()) {
            return Err(refused(hop, &shown, "which would send a secret to another origin"));
        }
        Ok(Some(next))
    }
}

fn refused(hop: &Hop, to: &str, why: &str) -> ToolError {
    let message =
        format!("{} redirects to {}, {why}", target::short(&hop.shown), target::short(to));
    NetworkError::Redirect
        .error(ErrorKind::Denied, message)
        .hint("to follow it, call the tool with that URL")
}

fn too_many_redirects(hop: &Hop, is_loop: bool) -> ToolError {
    let shown = target::short(&hop.shown);
    let message = match is_loop {
        true => format!("redirect loop: back to {shown}"),
        false => format!("more than {MAX_REDIRECTS} redirects, last to {shown}"),
    };
    NetworkError::Redirects
        .error(ErrorKind::Network, message)
        .hint("the site may want cookies, which are not kept; try another URL of it")
}

impl Hop {
    fn set_headers(
        &mut self,
        headers: &[(String, String)],
        secrets: Option<&SecretSource<'_>>,
    ) -> Result<(), ToolError> {
        let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if headers.len() > MAX_HEADERS || bytes > MAX_HEADER_BYTES {
            let limit =
                format!("headers: more than {MAX_HEADERS} of them, or {MAX_HEADER_BYTES} bytes");
            return Err(ToolError::input(limit).hint("send long data in the body"));
        }
        let host = target::host(&self.url);
        for (name, value) in headers {
            let shown = target::short(name);
            let known = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| {
                ToolError::input(format!("headers: {shown:?} cannot be a header's name"))
                    .hint("use letters, digits and `-`")
            })?;
            if OWN_HEADERS.contains(&known) {
                return Err(ToolError::input(format!("headers: {shown} is set by the client"))
                    .hint("leave it out"));
            }
            let filled = match secrets {
                Some(secrets) => {
                    secrets.fill(value, SecretContext::Plain, &host, &mut self.used)?
                }
                None => value.clone(),
            };
            // The value may contain a secret, so no message shows it.
            let mut sent = HeaderValue::from_str(filled.trim()).map_err(|_| {
                ToolError::input(format!(
                    "headers: the value of {shown} has a line break or another control character"
                ))
                .hint("write it on one line")
            })?;
            if filled != *value {
                sent.set_sensitive(true);
                self.with_secrets.push(known.clone());
            }
            self.headers.append(known, sent);
        }
        Ok(())
    }

    fn fill_url_and_body(&mut self, secrets: &SecretSource<'_>) -> Result<(), ToolError> {
        let host = target::host(&self.url);
        if let Some(query) = self.url.query() {
            let filled = secrets.fill(query, SecretContext::Query, &host, &mut self.used)?;
            if filled != query {
                self.url.set_query(Some(&filled));
            }
        }
        let kind = self.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let place = match kind.unwrap_or_default() {
            kind if kind.contains("json") => SecretContext::Json,
            kind if kind.contains("x-www-form-urlencoded") => SecretContext::Query,
            _ => SecretContext::Plain,
        };
        if let Ok(text) = std::str::from_utf8(&self.body) {
            let filled = secrets.fill(text, place, &host, &mut self.used)?;
            self.body_has_secrets = filled != text;
            self.body = filled.into_bytes();
        }
        Ok(())
    }

    /// Copies only the address.
    fn bare(&self) -> Self {
        Self {
            method: Method::GET,
            url: self.url.clone(),
            shown: self.shown.clone(),
            headers: HeaderMap::new(),
            body: Vec::new(),
            with_secrets: Vec::new(),
            body_has_secrets: false,
            used: UsedSecrets::default(),
        }
    }

    /// Copies the request as a revalidation of a page.
    fn revalidating(&self, page: &CachedPage) -> Self {
        let mut headers = self.headers.clone();
        for (name, value) in page.validators() {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        Self { headers, method: self.method.clone(), ..self.bare() }
    }

    /// Returns the next hop, with the headers that may be sent to it.
    fn redirected_to(mut self, next: Url, status: u16) -> Result<Self, ToolError> {
        let becomes_get = match status {
            301 | 302 => self.method == Method::POST,
            303 => self.method != Method::HEAD && self.method != Method::GET,
            _ => false,
        };
        if becomes_get {
            self.method = Method::GET;
            self.body = Vec::new();
            self.body_has_secrets = false;
            BODY_HEADERS.iter().for_each(|name| drop(self.headers.remove(name)));
        }
        let shown = self.used.redact(next.as_str()).into_owned();
        if next.origin() != self.url.origin() {
            if self.body_has_secrets {
                let why = "which would send a secret to another origin";
                return Err(refused(&self, &shown, why));
            }
            self.with_secrets.drain(..).for_each(|name| drop(self.headers.remove(name)));
            let personal: Vec<HeaderName> =
                self.headers.keys().filter(|name| !may_cross_origins(name)).cloned().collect();
            personal.iter().for_each(|name| drop(self.headers.remove(name)));
        }
        Ok(Self { url: next, shown, ..self })
    }
}

/// Returns true when a header may be sent to another origin. Any other header may contain a
/// credential, whatever its name.
fn may_cross_origins(name: &HeaderName) -> bool {
    let name = name.as_str();
    name == "user-agent" || name.starts_with("accept") || name.starts_with("content-")
}

/// A response after redaction, and the unredacted URL that it redirects to.
struct HopResult {
    response: Response,
    location: Option<String>,
}

impl HopResult {
    fn of(answer: RawResponse, hop: &Hop) -> Self {
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let location = answer.headers.get(header::LOCATION).map(text);
        let veiled = |value: &HeaderValue| hop.used.redact(&text(value)).into_owned();
        let headers = answer.headers.iter().map(|(name, value)| (name.to_string(), veiled(value)));
        let response = Response {
            status: answer.status,
            url: hop.shown.split('#').next().unwrap_or_default().to_owned(),
            headers: headers.collect(),
            body: hop.used.redact_bytes(answer.body),
            ..Response::default()
        };
        Self { response, location }
    }

    fn remembered(page: &CachedPage) -> Self {
        let response = Response { is_cached: true, ..page.response.clone() };
        Self { response, location: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_harmless_headers_follow_to_another_origin() {
        for (name, expected) in [
            ("accept", true),
            ("accept-language", true),
            ("user-agent", true),
            ("content-type", true),
            ("authorization", false),
            ("cookie", false),
            ("x-api-key", false),
            ("private-token", false),
            ("x-accept", false),
        ] {
            assert_eq!(may_cross_origins(&HeaderName::from_static(name)), expected, "{name}");
        }
    }
}
