//! One request and its answer over a connection of its own, with the bounds on headers and body.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use haft_core::ToolError;
use http_body_util::{BodyExt, Full};
use hyper::{
    HeaderMap, Method, Request, Uri,
    body::{Bytes, Incoming},
    client::conn::http1,
    header::{self, HeaderName, HeaderValue},
};
use hyper_util::rt::TokioIo;
use tokio::task::JoinHandle;
use url::Url;

use super::{
    Network, connect,
    connect::Wire,
    fault,
    journey::Leg,
    target,
    unpack::{Body, Stop},
};

const USER_AGENT: &str = concat!("haft/", env!("CARGO_PKG_VERSION"));
/// What the headers of an answer may be together.
const LONGEST_HEAD: usize = 64 << 10;
const MOST_HEADERS: usize = 128;

/// What came back, with nothing taken out.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// The task that moves the bytes; it ends with whoever waits for them.
struct Carrier(JoinHandle<()>);

impl Drop for Carrier {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Network {
    /// Asks once, wherever that leads.
    pub(super) async fn ask(&self, leg: &Leg) -> Result<Answer, ToolError> {
        let shown = target::short(&leg.shown);
        self.pace.wait(&target::host(&leg.url), self.settings.per_minute).await;
        let wire = self.wire(&leg.url).await?;
        let mut builder = http1::Builder::new();
        builder.max_buf_size(LONGEST_HEAD).max_headers(MOST_HEADERS);
        let (mut sender, connection) =
            builder.handshake(TokioIo::new(wire)).await.map_err(|e| fault::http(&shown, &e))?;
        let _carrier = Carrier(tokio::spawn(async move {
            // How it ends is told to whoever waits for the answer.
            let _ = connection.await;
        }));
        let request = self.request(leg)?;
        let answer = sender.send_request(request).await.map_err(|e| fault::http(&shown, &e))?;
        let (head, body) = answer.into_parts();
        // The machinery takes a head that arrives in one go, whatever its length.
        let length: usize =
            head.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if length > LONGEST_HEAD {
            return Err(fault::head_too_large(&shown));
        }
        if head.status.is_informational() {
            return Err(fault::malformed(&shown, "it wants to go on in another protocol"));
        }
        let body = match leg.method {
            Method::HEAD => Vec::new(),
            _ => self.body(&head.headers, body, &shown).await?,
        };
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
    }

    /// A connection to what was judged.
    async fn wire(&self, url: &Url) -> Result<Wire, ToolError> {
        let (host, place) = (target::host(url), target::authority(url));
        let is_protected = url.scheme() == "https";
        let stream = match &self.settings.proxy {
            None => connect::plain(&self.addresses(url).await?, &place).await?,
            Some(proxy) => {
                self.judge_unresolved(url)?;
                let stream = self.to_proxy(proxy).await?;
                if !is_protected {
                    return Ok(Box::new(stream));
                }
                let target = format!("{host}:{}", target::port(url));
                connect::tunnel(stream, &target, authorization(proxy).as_deref()).await?
            }
        };
        if !is_protected {
            return Ok(Box::new(stream));
        }
        // An address of the new kind is certified without its brackets.
        let name = host.trim_matches(['[', ']']);
        connect::protected(stream, name, Arc::clone(&self.tls()?), &place).await
    }

    /// Whoever configured it answers for where it is.
    async fn to_proxy(&self, proxy: &Url) -> Result<tokio::net::TcpStream, ToolError> {
        let (name, port) = (target::host(proxy), target::port(proxy));
        let bare = name.trim_matches(['[', ']']);
        let found = match bare.parse() {
            Ok(address) => vec![address],
            Err(_) => {
                let found = self.resolver.addresses(bare).await;
                found.map_err(|_| fault::name_unknown(&name))?
            }
        };
        let found: Vec<_> = found.into_iter().map(|ip| (ip, port).into()).collect();
        connect::plain(&found, &format!("the proxy {name}:{port}")).await
    }

    fn request(&self, leg: &Leg) -> Result<Request<Full<Bytes>>, ToolError> {
        let path = match leg.url.query() {
            Some(query) => format!("{}?{query}", leg.url.path()),
            None => leg.url.path().to_owned(),
        };
        let proxy = self.settings.proxy.as_ref().filter(|_| leg.url.scheme() == "http");
        let authority = target::authority(&leg.url);
        let written = if proxy.is_some() { format!("http://{authority}{path}") } else { path };
        let uri: Uri = written.parse().map_err(|_| {
            let message =
                format!("url: {} cannot be put into a request", target::short(&leg.shown));
            ToolError::input(message).hint("write what is not a plain letter as %XX")
        })?;
        let mut headers = leg.headers.clone();
        let mut put = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.entry(name).or_insert(value);
            }
        };
        put(header::HOST, &authority);
        put(header::USER_AGENT, USER_AGENT);
        put(header::ACCEPT, "*/*");
        put(header::ACCEPT_ENCODING, "gzip, deflate");
        put(header::CONNECTION, "close");
        if let Some(authorization) = proxy.and_then(authorization) {
            put(header::PROXY_AUTHORIZATION, &authorization);
        }
        let mut request = Request::new(Full::new(Bytes::from(leg.body.clone())));
        *request.method_mut() = leg.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Ok(request)
    }

    async fn body(
        &self,
        headers: &HeaderMap,
        mut incoming: Incoming,
        shown: &str,
    ) -> Result<Vec<u8>, ToolError> {
        let most = self.settings.most_bytes;
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        // Who says beforehand that it is too much is believed.
        let announced = text(header::CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
        if announced.is_some_and(|length| length > most as u64) {
            return Err(fault::too_large(shown, most));
        }
        let stopped = |stop| match stop {
            Stop::TooLarge => fault::too_large(shown, most),
            Stop::Broken => fault::malformed(shown, "it is not packed as its headers say"),
            Stop::Unknown(encoding) => fault::malformed(
                shown,
                &format!("it is packed as `{encoding}`, which was not asked for"),
            ),
        };
        let encodings = headers.get_all(header::CONTENT_ENCODING).iter();
        let encodings: Vec<&str> = encodings.map(|value| value.to_str().unwrap_or("?")).collect();
        let mut body = Body::new(&encodings.join(", "), most).map_err(stopped)?;
        while let Some(frame) = incoming.frame().await {
            let frame = frame.map_err(|error| fault::http(shown, &error))?;
            if let Ok(piece) = frame.into_data() {
                body.push(&piece).map_err(stopped)?;
            }
        }
        body.finish().map_err(stopped)
    }
}

fn authorization(proxy: &Url) -> Option<String> {
    if proxy.username().is_empty() {
        return None;
    }
    let decoded = |text: &str| {
        let bytes = url::form_urlencoded::parse(
            format!("x={}", text.replace('+', "%2B").replace('&', "%26")).as_bytes(),
        )
        .next()
        .map(|(_, value)| value.into_owned());
        bytes.unwrap_or_default()
    };
    let pair =
        format!("{}:{}", decoded(proxy.username()), decoded(proxy.password().unwrap_or_default()));
    Some(format!("Basic {}", STANDARD.encode(pair)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_gets_its_name_and_password_as_they_are_meant() {
        for (url, pair) in [
            ("http://me:a&b=c+d%20e@proxy:1/", "me:a&b=c+d e"),
            ("http://me@proxy:1/", "me:"),
            ("http://m%40e:%25@proxy:1/", "m@e:%"),
        ] {
            let sent = authorization(&url.parse().expect("a URL")).expect("a name");
            assert_eq!(sent, format!("Basic {}", STANDARD.encode(pair)), "{url}");
        }
        assert_eq!(authorization(&"http://proxy:1/".parse().expect("a URL")), None);
    }
}
