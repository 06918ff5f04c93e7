//! Sends one request over a new connection and reads the response, with limits on headers and body.

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
    errors,
    redirects::Hop,
    target,
    unpack::{BodyDecoder, BodyError},
};

const USER_AGENT: &str = concat!("haft/", env!("CARGO_PKG_VERSION"));
/// Maximum size of all response headers.
const MAX_HEAD_BYTES: usize = 64 << 10;
const MAX_HEADERS: usize = 128;

/// The response before redaction.
pub(super) struct RawResponse {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// The task that drives the connection; it is aborted when its owner is dropped.
struct ConnectionTask(JoinHandle<()>);

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Network {
    /// Sends one request without following redirects.
    pub(super) async fn ask(&self, hop: &Hop) -> Result<RawResponse, ToolError> {
        let shown = target::short(&hop.shown);
        self.pace.wait(&target::host(&hop.url), self.settings.per_minute).await;
        let wire = self.wire(&hop.url).await?;
        let mut builder = http1::Builder::new();
        builder.max_buf_size(MAX_HEAD_BYTES).max_headers(MAX_HEADERS);
        let (mut sender, connection) =
            builder.handshake(TokioIo::new(wire)).await.map_err(|e| errors::http(&shown, &e))?;
        let _carrier = ConnectionTask(tokio::spawn(async move {
            // The future of the response reports how it ended.
            let _ = connection.await;
        }));
        let request = self.request(hop)?;
        let answer = sender.send_request(request).await.map_err(|e| errors::http(&shown, &e))?;
        let (head, body) = answer.into_parts();
        // hyper accepts a head of any length that arrives in one read.
        let length: usize =
            head.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if length > MAX_HEAD_BYTES {
            return Err(errors::head_too_large(&shown));
        }
        if head.status.is_informational() {
            return Err(errors::malformed(&shown, "it switches to another protocol"));
        }
        let body = match hop.method {
            Method::HEAD => Vec::new(),
            _ => self.body(&head.headers, body, &shown).await?,
        };
        Ok(RawResponse { status: head.status.as_u16(), headers: head.headers, body })
    }

    /// Connects to the addresses that were checked.
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
        // A certificate names an IPv6 address without brackets.
        let name = host.trim_matches(['[', ']']);
        connect::protected(stream, name, Arc::clone(&self.tls()?), &place).await
    }

    /// Connects to the proxy. Its address is not checked: a person configured it.
    async fn to_proxy(&self, proxy: &Url) -> Result<tokio::net::TcpStream, ToolError> {
        let (name, port) = (target::host(proxy), target::port(proxy));
        let bare = name.trim_matches(['[', ']']);
        let found = match bare.parse() {
            Ok(address) => vec![address],
            Err(_) => {
                let found = self.resolver.addresses(bare).await;
                found.map_err(|_| errors::unknown_name(&name))?
            }
        };
        let found: Vec<_> = found.into_iter().map(|ip| (ip, port).into()).collect();
        connect::plain(&found, &format!("the proxy {name}:{port}")).await
    }

    fn request(&self, hop: &Hop) -> Result<Request<Full<Bytes>>, ToolError> {
        let path = match hop.url.query() {
            Some(query) => format!("{}?{query}", hop.url.path()),
            None => hop.url.path().to_owned(),
        };
        let proxy = self.settings.proxy.as_ref().filter(|_| hop.url.scheme() == "http");
        let authority = target::authority(&hop.url);
        let written = if proxy.is_some() { format!("http://{authority}{path}") } else { path };
        let uri: Uri = written.parse().map_err(|_| {
            let message =
                format!("url: {} cannot be put into a request", target::short(&hop.shown));
            ToolError::input(message).hint("percent-encode special characters (%XX)")
        })?;
        let mut headers = hop.headers.clone();
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
        let mut request = Request::new(Full::new(Bytes::from(hop.body.clone())));
        *request.method_mut() = hop.method.clone();
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
        let max = self.settings.max_bytes;
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        // A body that is announced as too large is refused at once.
        let announced = text(header::CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
        if announced.is_some_and(|length| length > max as u64) {
            return Err(errors::too_large(shown, max));
        }
        let stopped = |stop| match stop {
            BodyError::TooLarge => errors::too_large(shown, max),
            BodyError::Broken => {
                errors::malformed(shown, "its body does not match its content-encoding")
            }
            BodyError::Unknown(encoding) => errors::malformed(
                shown,
                &format!("it uses the content-encoding `{encoding}`, which was not requested"),
            ),
        };
        let encodings = headers.get_all(header::CONTENT_ENCODING).iter();
        let encodings: Vec<&str> = encodings.map(|value| value.to_str().unwrap_or("?")).collect();
        let mut body = BodyDecoder::new(&encodings.join(", "), max).map_err(stopped)?;
        while let Some(frame) = incoming.frame().await {
            let frame = frame.map_err(|error| errors::http(shown, &error))?;
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
