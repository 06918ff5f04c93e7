//! A request from its first address to its last: each leg is judged, asked for, and either ends the journey or leads on.
//! What was meant for one place does not travel to another.

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
    cache::{Key, Page},
    exchange::Answer,
    fault, robots,
    secrets::{Place, Used},
    target,
};
use crate::network::credentials::Secrets;

const MOST_REDIRECTS: usize = 10;
const MOST_HEADERS: usize = 64;
const MOST_HEADER_BYTES: usize = 32 << 10;
const METHODS: [Method; 7] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::OPTIONS,
];
/// What the client decides: who is asked, where the body ends, how it is packed, and how the connection is used.
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
/// What speaks of a body that is not sent any more.
const BODY_HEADERS: [HeaderName; 4] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LOCATION,
];

/// One request to one address.
pub(super) struct Leg {
    pub(super) method: Method,
    /// With its secrets.
    pub(super) url: Url,
    /// Without them.
    pub(super) shown: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// The headers that have secrets in them.
    with_secrets: Vec<HeaderName>,
    body_has_secrets: bool,
    pub(super) used: Used,
}

impl Network {
    pub(super) async fn travel(
        &self,
        request: Request,
        permit: &UrlCheck<'_>,
    ) -> Result<Response, ToolError> {
        let purpose = request.purpose;
        let mut leg = self.first_leg(request)?;
        let mut redirects: Vec<String> = Vec::new();
        let mut been: Vec<(Method, Url)> = Vec::new();
        loop {
            permit(&leg.shown)?;
            let arrival = match purpose {
                Purpose::Reading => self.read(&leg).await?,
                Purpose::Exchange => Arrival::of(self.ask(&leg).await?, &leg),
            };
            let Some(next) = self.next_url(&leg, &arrival)? else {
                return Ok(Response { redirects, ..arrival.response });
            };
            been.push((leg.method.clone(), leg.url.clone()));
            redirects.push(leg.shown.clone());
            leg = leg.led_to(next, arrival.response.status)?;
            let is_circle =
                been.iter().any(|(method, url)| *method == leg.method && *url == leg.url);
            if is_circle || redirects.len() > MOST_REDIRECTS {
                return Err(endless(&leg, is_circle));
            }
        }
    }

    fn first_leg(&self, request: Request) -> Result<Leg, ToolError> {
        let url = target::parse(&request.url)?;
        let method = METHODS.into_iter().find(|method| method.as_str() == request.method);
        let method = method.ok_or_else(|| {
            ToolError::input(format!("method: {} is not sent", target::short(&request.method)))
                .hint(format!("use one of {}", METHODS.map(|method| method.to_string()).join(", ")))
        })?;
        let mut leg = Leg {
            method,
            shown: url.to_string(),
            url,
            headers: HeaderMap::new(),
            body: request.body,
            with_secrets: Vec::new(),
            body_has_secrets: false,
            used: Used::default(),
        };
        let is_exchange = request.purpose == Purpose::Exchange;
        let variables = if is_exchange { (self.settings.variables)() } else { Vec::new() };
        let secrets = is_exchange.then_some(Secrets {
            credentials: &self.settings.credentials,
            variables: &variables,
            vault: self.settings.vault.as_deref(),
        });
        leg.set_headers(&request.headers, secrets.as_ref())?;
        if let Some(secrets) = secrets {
            leg.fill_url_and_body(&secrets)?;
        }
        Ok(leg)
    }

    /// A page: from memory if that is fresh, and only if the site lets machines read it.
    async fn read(&self, leg: &Leg) -> Result<Arrival, ToolError> {
        if self.settings.respects_robots {
            self.check_robots(leg).await?;
        }
        let text =
            |name| leg.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let is_plain =
            leg.method == Method::GET && !leg.headers.contains_key(header::AUTHORIZATION);
        if !is_plain {
            return Ok(Arrival::of(self.ask(leg).await?, leg));
        }
        let key =
            Key { url: leg.url.to_string(), accept: text(header::ACCEPT).unwrap_or_default() };
        let known = self.cache.find(&key);
        if let Some(page) = known.as_ref().filter(|page| page.is_fresh()) {
            return Ok(Arrival::remembered(page));
        }
        let asking = known.as_ref().map(|page| leg.revalidating(page));
        let arrival = Arrival::of(self.ask(asking.as_ref().unwrap_or(leg)).await?, leg);
        if let Some(page) = known.filter(|_| arrival.response.status == 304) {
            return Ok(Arrival::remembered(&page));
        }
        self.cache.keep(key, &arrival.response);
        Ok(arrival)
    }

    async fn check_robots(&self, leg: &Leg) -> Result<(), ToolError> {
        let mut url = leg.url.clone();
        url.set_path("/robots.txt");
        url.set_query(None);
        url.set_fragment(None);
        let key = Key { url: url.to_string(), accept: String::new() };
        let known = self.robots.find(&key).filter(|page| page.is_fresh());
        let rules = match known {
            Some(page) => page.response.clone(),
            None => {
                let shown = url.to_string();
                let asked = Leg { shown, url, ..leg.bare() };
                let mut answer = Arrival::of(self.ask(&asked).await?, &asked).response;
                answer.body.truncate(robots::LARGEST);
                // For a few minutes it is not asked for again, whatever it says of itself.
                answer.headers = vec![("cache-control".to_owned(), "max-age=300".to_owned())];
                self.robots.keep(key, &answer);
                answer
            }
        };
        let path = leg.url.query().map_or_else(
            || leg.url.path().to_owned(),
            |query| format!("{}?{query}", leg.url.path()),
        );
        let is_open = match rules.status {
            200..300 => robots::allows(&String::from_utf8_lossy(&rules.body), &path),
            // Who cannot say now what is wanted is left alone until it can.
            500.. => false,
            _ => true,
        };
        if is_open {
            return Ok(());
        }
        let message = format!(
            "{} is not for machines: its site's robots.txt says so",
            target::short(&leg.shown)
        );
        Err(NetworkError::Robots
            .error(ErrorKind::Denied, message)
            .hint("leave it alone, or have `robots` under [network] set to \"ignore\""))
    }

    /// Where an answer leads on to, if it does.
    fn next_url(&self, leg: &Leg, arrival: &Arrival) -> Result<Option<Url>, ToolError> {
        let leads_on = matches!(arrival.response.status, 301 | 302 | 303 | 307 | 308);
        let Some(location) = arrival.location.as_ref().filter(|_| leads_on) else {
            return Ok(None);
        };
        let next = leg.url.join(location).map_err(|_| {
            fault::malformed(&target::short(&leg.shown), "it leads on to what is no URL")
        })?;
        let shown = leg.used.veil(next.as_str()).into_owned();
        let next = target::parse(next.as_str())
            .map_err(|_| refused(leg, &shown, "which is not a plain http or https URL"))?;
        let loses_protection = leg.url.scheme() == "https" && next.scheme() == "http";
        if loses_protection && !self.settings.may_unprotect {
            return Err(refused(leg, &shown, "which is not protected as this was"));
        }
        if next.origin() != leg.url.origin() && leg.used.are_in(next.as_str()) {
            return Err(refused(leg, &shown, "which would carry a secret to another place"));
        }
        Ok(Some(next))
    }
}

fn refused(leg: &Leg, to: &str, why: &str) -> ToolError {
    let message = format!("{} leads on to {}, {why}", target::short(&leg.shown), target::short(to));
    NetworkError::Redirect
        .error(ErrorKind::Denied, message)
        .hint("if that is where you want to go, call the tool with that URL")
}

fn endless(leg: &Leg, is_circle: bool) -> ToolError {
    let shown = target::short(&leg.shown);
    let message = match is_circle {
        true => format!("it leads in a circle: back to {shown}"),
        false => format!("it leads on more than {MOST_REDIRECTS} times, last to {shown}"),
    };
    NetworkError::Redirects
        .error(ErrorKind::Network, message)
        .hint("the site may want cookies, which are not kept; try another URL of it")
}

impl Leg {
    fn set_headers(
        &mut self,
        headers: &[(String, String)],
        secrets: Option<&Secrets<'_>>,
    ) -> Result<(), ToolError> {
        let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if headers.len() > MOST_HEADERS || bytes > MOST_HEADER_BYTES {
            let limit =
                format!("headers: more than {MOST_HEADERS} of them, or {MOST_HEADER_BYTES} bytes");
            return Err(ToolError::input(limit).hint("send what is long in the body"));
        }
        let host = target::host(&self.url);
        for (name, value) in headers {
            let shown = target::short(name);
            let known = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| {
                ToolError::input(format!("headers: {shown:?} cannot be a header's name"))
                    .hint("use letters, digits and `-`")
            })?;
            if OWN_HEADERS.contains(&known) {
                return Err(ToolError::input(format!("headers: {shown} is the client's to send"))
                    .hint("leave it out"));
            }
            let filled = match secrets {
                Some(secrets) => secrets.fill(value, Place::Plain, &host, &mut self.used)?,
                None => value.clone(),
            };
            // The value may hold a secret, so no message shows it.
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

    fn fill_url_and_body(&mut self, secrets: &Secrets<'_>) -> Result<(), ToolError> {
        let host = target::host(&self.url);
        if let Some(query) = self.url.query() {
            let filled = secrets.fill(query, Place::Query, &host, &mut self.used)?;
            if filled != query {
                self.url.set_query(Some(&filled));
            }
        }
        let kind = self.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let place = match kind.unwrap_or_default() {
            kind if kind.contains("json") => Place::Json,
            kind if kind.contains("x-www-form-urlencoded") => Place::Query,
            _ => Place::Plain,
        };
        if let Ok(text) = std::str::from_utf8(&self.body) {
            let filled = secrets.fill(text, place, &host, &mut self.used)?;
            self.body_has_secrets = filled != text;
            self.body = filled.into_bytes();
        }
        Ok(())
    }

    /// Only who is asked, nothing else.
    fn bare(&self) -> Self {
        Self {
            method: Method::GET,
            url: self.url.clone(),
            shown: self.shown.clone(),
            headers: HeaderMap::new(),
            body: Vec::new(),
            with_secrets: Vec::new(),
            body_has_secrets: false,
            used: Used::default(),
        }
    }

    /// The same, asking only whether a page has changed.
    fn revalidating(&self, page: &Page) -> Self {
        let mut headers = self.headers.clone();
        for (name, value) in page.validators() {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        Self { headers, method: self.method.clone(), ..self.bare() }
    }

    /// The next leg, with what may travel on.
    fn led_to(mut self, next: Url, status: u16) -> Result<Self, ToolError> {
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
        let shown = self.used.veil(next.as_str()).into_owned();
        if next.origin() != self.url.origin() {
            if self.body_has_secrets {
                let why = "which would carry a secret to another place";
                return Err(refused(&self, &shown, why));
            }
            self.with_secrets.drain(..).for_each(|name| drop(self.headers.remove(name)));
            let personal: Vec<HeaderName> =
                self.headers.keys().filter(|name| !travels(name)).cloned().collect();
            personal.iter().for_each(|name| drop(self.headers.remove(name)));
        }
        Ok(Self { url: next, shown, ..self })
    }
}

/// Whether a header may follow a redirect to another origin. Any other may hold a credential, whatever its name.
fn travels(name: &HeaderName) -> bool {
    let name = name.as_str();
    name == "user-agent" || name.starts_with("accept") || name.starts_with("content-")
}

/// An answer as it is handed out, without secrets, and where it leads on to, as that was written.
struct Arrival {
    response: Response,
    location: Option<String>,
}

impl Arrival {
    fn of(answer: Answer, leg: &Leg) -> Self {
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let location = answer.headers.get(header::LOCATION).map(text);
        let veiled = |value: &HeaderValue| leg.used.veil(&text(value)).into_owned();
        let headers = answer.headers.iter().map(|(name, value)| (name.to_string(), veiled(value)));
        let response = Response {
            status: answer.status,
            url: leg.shown.split('#').next().unwrap_or_default().to_owned(),
            headers: headers.collect(),
            body: leg.used.veil_bytes(answer.body),
            ..Response::default()
        };
        Self { response, location }
    }

    fn remembered(page: &Page) -> Self {
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
            assert_eq!(travels(&HeaderName::from_static(name)), expected, "{name}");
        }
    }
}
