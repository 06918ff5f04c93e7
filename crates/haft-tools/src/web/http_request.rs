//! `http_request`: a service, asked as its documentation says.

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

use super::{accesses, charset, checked, fence};
use crate::text::encoding::{Form, SAMPLE};

const MOST_SECONDS: u64 = 120;
/// So many headers are shown, and so much of each.
const MOST_HEADERS: usize = 50;
const LONGEST_HEADER: usize = 500;
/// What is no text is shown as base64 up to this.
const MOST_BASE64: usize = 32 << 10;

/// What to send.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({
    "url": "https://api.example.org/items",
    "method": "POST",
    "headers": { "Authorization": "Bearer secret:EXAMPLE_TOKEN" },
    "json_body": { "name": "new" },
}))]
pub struct HttpRequest {
    /// The whole address, with http or https.
    #[schemars(length(min = 1), extend("x-aliases" = ["uri", "address"]))]
    pub url: String,
    /// The method.
    #[serde(default)]
    #[schemars(extend("x-short" = "X"))]
    pub method: Method,
    /// Headers by name. Host, lengths and packing are the client's own.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A body of text.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["data", "content"]))]
    #[schemars(extend("x-short" = "d"))]
    pub body: Option<String>,
    /// A body of JSON, instead of `body`.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["json"]))]
    pub json_body: Option<Map<String, Value>>,
    /// How long it may take, in seconds; as configured (usually 30) when left out.
    #[serde(default)]
    #[schemars(range(min = 1, max = MOST_SECONDS), extend("x-aliases" = ["timeout"]))]
    pub timeout_secs: Option<u64>,
}

/// What is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    #[default]
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
}

impl Method {
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

/// What came back. The body is the content of the answer.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HttpAnswer {
    /// The status, `200`.
    pub status: u16,
    /// Where it came from at last.
    pub url: String,
    /// The headers that came along; those that say who somebody is have no values.
    #[schemars(extend("x-in-content" = true))]
    pub headers: Vec<Header>,
    /// In bytes, unpacked.
    pub bytes: usize,
    /// The body, if it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-in-content" = true))]
    pub json: Option<Value>,
    /// The body is shown as base64, because it is no text.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_base64: bool,
    #[serde(skip)]
    body: String,
    #[serde(skip)]
    method: &'static str,
}

/// One header.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Header {
    /// In lower case.
    pub name: String,
    /// As it was sent, or `[redacted]`.
    pub value: String,
}

impl Output for HttpAnswer {
    fn text(&self) -> String {
        let headers =
            self.headers.iter().map(|header| format!("{}: {}\n", header.name, header.value));
        let inside = format!("{}\n{}", headers.collect::<String>(), self.body);
        let what = if self.is_base64 { ", as base64" } else { "" };
        let said = format!(
            "{} {}: status {}, {} bytes{what}",
            self.method, self.url, self.status, self.bytes
        );
        format!("{said}\n{}", fence::fenced(&self.url, &inside))
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
            Err(ToolError::new(ErrorKind::Cancelled, format!("asking {url} was called off")))
        }
    }
}

/// The address, and each secret that would be sent there.
fn touched(input: &HttpRequest) -> Vec<Access> {
    let secrets = request(input.clone()).map(|request| request.secrets()).unwrap_or_default();
    accesses(&input.url).into_iter().chain(secrets).collect()
}

fn request(input: HttpRequest) -> Result<Request, ToolError> {
    let url = checked(&input.url)?;
    let mut headers: Vec<(String, String)> = input.headers.into_iter().collect();
    let (body, kind) = match (input.body, input.json_body) {
        (Some(_), Some(_)) => {
            return Err(ToolError::input("body and json_body: only one of them can be sent")
                .hint("leave one out"));
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
    let headers = response
        .headers
        .iter()
        .take(MOST_HEADERS)
        .map(|(name, value)| shown(name, value))
        .collect();
    let bytes = response.body.len();
    let beginning = response.body.get(..SAMPLE).unwrap_or(&response.body);
    let is_text = response.body.is_empty()
        || super::is_text(&mime)
        || Form::sniff(beginning, false).is_some();
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
        let part = response.body.get(..MOST_BASE64).unwrap_or(&response.body);
        answer.body = STANDARD.encode(part);
        if part.len() < bytes {
            answer.body.push_str(&format!("\n[the first {MOST_BASE64} of {bytes} bytes]"));
        }
    }
    answer
}

/// Names whose values let somebody act in another's name.
const PERSONAL: [&str; 6] = ["cookie", "authorization", "token", "api-key", "apikey", "secret"];

fn shown(name: &str, value: &str) -> Header {
    let is_personal = PERSONAL.iter().any(|part| name.contains(part));
    let mut value: String = match is_personal {
        true => "[redacted]".to_owned(),
        false => value
            .chars()
            .take(LONGEST_HEADER)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect(),
    };
    if value.len() >= LONGEST_HEADER {
        value.push('\u{2026}');
    }
    Header { name: name.to_owned(), value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(json: Value) -> HttpRequest {
        serde_json::from_value(json).expect("an input")
    }

    #[test]
    fn a_body_says_what_it_is_unless_a_header_does() {
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
    fn each_secret_is_named_with_the_host_that_it_goes_to() {
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
    fn bodies_are_shown_by_what_they_are() {
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
