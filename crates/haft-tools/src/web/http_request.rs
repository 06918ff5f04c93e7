//! `http_request`: sends a request to a service.

use std::{collections::BTreeMap, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use haft_core::{
    Access, Cancel, ErrorKind, Net, Output, ToolError,
    network::{Purpose, Request, Response},
};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{accesses, charset, checked, untrusted};
use crate::text::encoding::{SAMPLE, TextEncoding};

const MAX_SECONDS: u64 = 120;
/// Maximum number of headers shown.
const MAX_HEADERS: usize = 50;
/// Maximum length of a header value shown.
const MAX_HEADER_CHARS: usize = 500;
/// Maximum number of bytes of a binary body shown as base64.
const MAX_BASE64_BYTES: usize = 32 << 10;

/// The request.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({
    "url": "https://api.example.org/items",
    "method": "POST",
    "headers": { "Authorization": "Bearer secret:EXAMPLE_TOKEN" },
    "json_body": { "name": "new" },
}))]
pub struct HttpRequest {
    /// The complete address, with http or https.
    #[schemars(length(min = 1), extend("x-aliases" = ["uri", "address"]))]
    pub url: String,
    /// The method.
    #[serde(default)]
    #[schemars(extend("x-short" = "X"))]
    pub method: HttpMethod,
    /// Headers by name. The client sets Host, lengths and encodings itself.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A text body.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["data", "content"]))]
    #[schemars(extend("x-short" = "d"))]
    pub body: Option<String>,
    /// A JSON body, instead of `body`.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["json"]))]
    pub json_body: Option<Map<String, Value>>,
    /// Timeout in seconds. Default: the configured one (usually 30).
    #[serde(default)]
    #[schemars(range(min = 1, max = MAX_SECONDS), extend("x-aliases" = ["timeout"]))]
    pub timeout_secs: Option<u64>,
}

/// The method of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum HttpMethod {
    #[default]
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
}

impl HttpMethod {
    fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
        }
    }
}

/// The response. The body is the content of the result.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HttpAnswer {
    /// The status, for example `200`.
    pub status: u16,
    /// The final address, after redirects.
    pub url: String,
    /// The response headers. Values of headers with credentials are redacted.
    #[schemars(extend("x-in-content" = true))]
    pub headers: Vec<ShownHeader>,
    /// Size of the decompressed body in bytes.
    pub bytes: usize,
    /// The body, if it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-in-content" = true))]
    pub json: Option<Value>,
    /// True if the body is not text and is shown as base64.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_base64: bool,
    #[serde(skip)]
    body: String,
    #[serde(skip)]
    method: &'static str,
}

/// A response header.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ShownHeader {
    /// Name in lower case.
    pub name: String,
    /// Value as sent, or `[redacted]`.
    pub value: String,
}

impl Output for HttpAnswer {
    fn text(&self) -> String {
        let headers =
            self.headers.iter().map(|header| format!("{}: {}\n", header.name, header.value));
        let inside = format!("{}\n{}", headers.collect::<String>(), self.body);
        let what = if self.is_base64 { ", as base64" } else { "" };
        let status = format!(
            "{} {}: status {}, {} bytes{what}",
            self.method, self.url, self.status, self.bytes
        );
        format!("{status}\n{}", untrusted::marked(&self.url, &inside))
    }

    fn title(&self) -> Option<String> {
        Some(format!("{} {}", self.method, self.url))
    }
}

/// Sends a request.
#[tool(effect = write, deadline = "130s", access = touched)]
pub async fn http_request(
    input: HttpRequest,
    net: Net,
    cancel: Cancel,
) -> Result<HttpAnswer, ToolError> {
    let method = input.method.name();
    let request = request(input)?;
    let url = request.url.clone();
    tokio::select! {
        response = net.send(request) => Ok(answer(response?, method)),
        () = cancel.cancelled() => {
            Err(ToolError::new(ErrorKind::Cancelled, format!("the request to {url} was cancelled")))
        }
    }
}

/// Returns the accesses of a call: the address, and each secret that would be sent there.
fn touched(input: &HttpRequest) -> Vec<Access> {
    let secrets = request(input.clone()).map(|request| request.secrets()).unwrap_or_default();
    accesses(&input.url).into_iter().chain(secrets).collect()
}

fn request(input: HttpRequest) -> Result<Request, ToolError> {
    let url = checked(&input.url)?;
    let mut headers: Vec<(String, String)> = input.headers.into_iter().collect();
    let (body, kind) = match (input.body, input.json_body) {
        (Some(_), Some(_)) => {
            return Err(ToolError::input("body and json_body: only one can be sent")
                .hint("leave out one of them"));
        }
        (Some(text), None) => {
            let is_json = serde_json::from_str::<Value>(&text)
                .is_ok_and(|value| value.is_object() || value.is_array());
            (
                text.into_bytes(),
                Some(if is_json { "application/json" } else { "text/plain; charset=utf-8" }),
            )
        }
        (None, Some(json)) => {
            (Value::Object(json).to_string().into_bytes(), Some("application/json"))
        }
        (None, None) => (Vec::new(), None),
    };
    let has_kind = headers.iter().any(|(name, _)| name.trim().eq_ignore_ascii_case("content-type"));
    headers.extend(
        kind.filter(|_| !has_kind).map(|kind| ("Content-Type".to_owned(), kind.to_owned())),
    );
    Ok(Request {
        method: input.method.name().to_owned(),
        url: url.into(),
        headers,
        body,
        timeout: input.timeout_secs.map(Duration::from_secs),
        purpose: Purpose::Exchange,
    })
}

fn answer(response: Response, method: &'static str) -> HttpAnswer {
    let mime = super::mime(&response);
    let headers =
        response.headers.iter().take(MAX_HEADERS).map(|(name, value)| shown(name, value)).collect();
    let bytes = response.body.len();
    let beginning = response.body.get(..SAMPLE).unwrap_or(&response.body);
    let is_text = response.body.is_empty()
        || super::is_text(&mime)
        || TextEncoding::sniff(beginning, false).is_some();
    let mut answer = HttpAnswer {
        status: response.status,
        url: response.url.clone(),
        headers,
        bytes,
        json: None,
        is_base64: !is_text,
        body: String::new(),
        method,
    };
    if is_text {
        let content_type = response.header("content-type").unwrap_or_default().to_owned();
        answer.body = charset::decode(response.body, &content_type).0;
        let may_be_json = mime.contains("json") || answer.body.trim_start().starts_with(['{', '[']);
        answer.json = may_be_json.then(|| serde_json::from_str(&answer.body).ok()).flatten();
    } else {
        let part = response.body.get(..MAX_BASE64_BYTES).unwrap_or(&response.body);
        answer.body = STANDARD.encode(part);
        if part.len() < bytes {
            answer.body.push_str(&format!("\n[the first {MAX_BASE64_BYTES} of {bytes} bytes]"));
        }
    }
    answer
}

/// Parts of header names whose values are credentials.
const CREDENTIAL_NAMES: [&str; 6] =
    ["cookie", "authorization", "token", "api-key", "apikey", "secret"];

fn shown(name: &str, value: &str) -> ShownHeader {
    let is_credential = CREDENTIAL_NAMES.iter().any(|part| name.contains(part));
    let mut value: String = match is_credential {
        true => "[redacted]".to_owned(),
        false => value
            .chars()
            .take(MAX_HEADER_CHARS)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect(),
    };
    if value.len() >= MAX_HEADER_CHARS {
        value.push('\u{2026}');
    }
    ShownHeader { name: name.to_owned(), value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(json: Value) -> HttpRequest {
        serde_json::from_value(json).expect("an input")
    }

    #[test]
    fn a_content_type_is_added_unless_a_header_has_it() {
        for (given, kind) in [
            (json!({"url": "https://a.test", "body": "plain"}), Some("text/plain; charset=utf-8")),
            (json!({"url": "https://a.test", "body": "{\"a\": 1}"}), Some("application/json")),
            (json!({"url": "https://a.test", "json_body": {"a": 1}}), Some("application/json")),
            (
                json!({"url": "https://a.test", "body": "a=1", "headers": {"content-type": "x/y"}}),
                Some("x/y"),
            ),
            (json!({"url": "https://a.test"}), None),
        ] {
            let request = request(input(given.clone())).expect("a request");
            let found =
                request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
            assert_eq!(found.map(|(_, value)| value.as_str()), kind, "{given}");
        }
        let two = request(input(json!({"url": "https://a.test", "body": "x", "json_body": {}})));
        assert_eq!(two.expect_err("refused").kind(), ErrorKind::Input);
    }

    #[test]
    fn each_secret_is_listed_with_its_host() {
        let sent = |name: &str| Access::SendSecret {
            name: name.to_owned(),
            host: "a.test".to_owned(),
            is_bound: false,
        };
        for (given, expected) in [
            (json!({"url": "https://a.test/x"}), &[][..]),
            (json!({"url": "https://a.test/?k=secret:A"}), &["A"]),
            (json!({"url": "https://A.test:8443/?k=sec\tret:A"}), &["A"]),
            (json!({"url": "https://a.test", "headers": {"X-Key": "secret:A"}}), &["A"]),
            (
                json!({"url": "https://a.test", "headers": {"X": "Basic secret:A:secret:B"}}),
                &["A", "B"],
            ),
            (json!({"url": "https://a.test", "body": "k=secret:A&l=secret:A"}), &["A"]),
            (json!({"url": "https://a.test", "json_body": {"a": [{"b": "secret:A"}]}}), &["A"]),
            (json!({"url": "https://a.test", "json_body": {"secret:A": 1}}), &["A"]),
            (json!({"url": "https://a.test/secret:A#secret:B", "body": "Secret:A"}), &[]),
        ] {
            let found = touched(&input(given.clone()));
            let expected: Vec<Access> = expected.iter().map(|name| sent(name)).collect();
            assert!(matches!(found.first(), Some(Access::Fetch(_))), "{given}");
            assert_eq!(found.get(1..), Some(&*expected), "{given}");
        }
        assert_eq!(touched(&input(json!({"url": "no", "body": "secret:A"}))), []);
    }

    #[test]
    fn bodies_are_shown_by_their_content_type() {
        let of = |kind: &str, body: &[u8]| {
            let headers = vec![
                ("content-type".to_owned(), kind.to_owned()),
                ("set-cookie".to_owned(), "id=1".to_owned()),
            ];
            let response = Response {
                status: 201,
                url: "https://a.test/".to_owned(),
                headers,
                body: body.to_vec(),
                ..Response::default()
            };
            answer(response, "GET")
        };
        assert_eq!(of("application/json", b"{\"a\":[1]}").json, Some(json!({"a": [1]})));
        assert_eq!(of("application/json", b"{broken").json, None);
        let binary = of("application/octet-stream", b"\0\x01\x02");
        assert!(binary.is_base64 && binary.text().contains("AAEC"), "{}", binary.text());
        let text = of("text/plain; charset=iso-8859-1", b"caf\xe9").text();
        assert!(text.contains("caf\u{e9}") && text.contains("status 201"), "{text}");
        assert!(text.contains("set-cookie: [redacted]") && !text.contains("id=1"), "{text}");
    }
}
