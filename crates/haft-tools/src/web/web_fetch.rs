//! `web_fetch`: reads a web page.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use haft_core::{
    Attachment, Cancel, ErrorKind, Net, Output, Return, ToolError,
    network::{Purpose, Request, Response},
    spawn_blocking,
};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    accesses, charset, checked, failed,
    markdown::{self, PageStyle, PageText},
    untrusted,
};
use crate::{
    files::media::{self, Media},
    text::encoding::{SAMPLE, TextEncoding},
};

const MAX_SECONDS: u64 = 120;

/// The page to read, and the format.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "url": "https://example.org/guide" }))]
pub struct WebFetch {
    /// The complete address, with http or https.
    #[schemars(length(min = 1), extend("x-aliases" = ["uri", "link", "address"]))]
    pub url: String,
    /// The format of the result.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["extract_mode", "extractMode"]))]
    pub format: FetchFormat,
    /// Timeout in seconds. Default: the configured one (usually 30).
    #[serde(default)]
    #[schemars(range(min = 1, max = MAX_SECONDS), extend("x-aliases" = ["timeout"]))]
    pub timeout_secs: Option<u64>,
}

/// The format of a fetched page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FetchFormat {
    #[default]
    Markdown,
    Text,
    Html,
}

impl FetchFormat {
    fn accept(self) -> &'static str {
        match self {
            Self::Markdown => {
                "text/markdown;q=1.0, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, */*;q=0.5"
            }
            Self::Text => {
                "text/plain;q=1.0, text/html;q=0.9, application/xhtml+xml;q=0.9, text/markdown;q=0.8, */*;q=0.5"
            }
            Self::Html => "text/html;q=1.0, application/xhtml+xml;q=0.9, */*;q=0.5",
        }
    }
}

/// Facts about the page. The text itself is the content of the result.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WebPage {
    /// The requested address.
    pub url: String,
    /// The final address after redirects, when it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_url: Option<String>,
    /// The status of the response.
    pub status: u16,
    /// The content type from the response.
    pub content_type: String,
    /// The title of the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The encoding of the page, when it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// Size of the decompressed page in bytes.
    pub bytes: usize,
    /// True if the page was fetched shortly before and is unchanged.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub remembered: bool,
    /// True if menus, footers and similar parts were left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_part: bool,
    #[serde(skip)]
    body: String,
    #[serde(skip)]
    attachments: Vec<Attachment>,
}

impl Output for WebPage {
    fn text(&self) -> String {
        let origin = self.final_url.as_ref().unwrap_or(&self.url);
        let mut text = untrusted::marked(origin, &self.body);
        if self.is_part {
            text.push_str("\n[the main part of the page; use format=html for the whole page]");
        }
        text
    }

    fn title(&self) -> Option<String> {
        Some(format!("Fetch {}", self.url))
    }

    fn attachments(&self) -> Vec<Attachment> {
        self.attachments.clone()
    }
}

/// Reads a web page.
#[tool(
    idempotent,
    deadline = "130s",
    access = |input| accesses(&input.url),
    variables(max_seconds = MAX_SECONDS),
    profiles(mcp, researcher)
)]
pub async fn web_fetch(input: WebFetch, net: Net, cancel: Cancel) -> Result<WebPage, ToolError> {
    let url = checked(&input.url)?;
    let request = Request {
        method: "GET".to_owned(),
        url: url.into(),
        headers: vec![("Accept".to_owned(), input.format.accept().to_owned())],
        timeout: input.timeout_secs.map(Duration::from_secs),
        purpose: Purpose::Reading,
        ..Request::default()
    };
    let asked = request.url.clone();
    // A cancelled call must not wait for the server.
    let response = tokio::select! {
        response = net.send(request) => response?,
        () = cancel.cancelled() => {
            let message = format!("reading {asked} was cancelled");
            return Err(ToolError::new(ErrorKind::Cancelled, message));
        }
    };
    let error = (!response.is_success()).then(|| failed(&response));
    let page = spawn_blocking(move || page(asked, response, input.format, &cancel)).await;
    match error {
        None => page,
        // An error page often has useful text.
        Some(error) => Err(match page.into_reply() {
            Ok(reply) => error.with_partial(reply),
            Err(_) => error,
        }),
    }
}

fn page(
    asked: String,
    response: Response,
    format: FetchFormat,
    cancel: &Cancel,
) -> Result<WebPage, ToolError> {
    let mime = super::mime(&response);
    let content_type =
        response.header("content-type").unwrap_or_default().chars().take(200).collect();
    let mut page = WebPage {
        final_url: (response.url != asked).then(|| response.url.clone()),
        url: asked,
        status: response.status,
        content_type,
        title: None,
        encoding: None,
        bytes: response.body.len(),
        remembered: response.is_cached,
        is_part: false,
        body: String::new(),
        attachments: Vec::new(),
    };
    match Media::sniff(response.body.get(..SAMPLE).unwrap_or(&response.body)) {
        Some(media) => page.attach(media, &response.body, cancel),
        None => page.read(response, &mime, format)?,
    }
    Ok(page)
}

impl WebPage {
    /// Attaches an image or a document.
    fn attach(&mut self, media: Media, bytes: &[u8], cancel: &Cancel) {
        let mime = media.mime();
        let name = self.final_url.as_ref().unwrap_or(&self.url).clone();
        self.body = match media {
            Media::Image(_) => {
                let size =
                    media::dimensions(bytes).map_or(String::new(), |size| format!(", {size}"));
                format!("{mime}{size}, {} bytes, attached", bytes.len())
            }
            Media::Pdf => media::pdf_text(bytes, &|| cancel.is_cancelled()).unwrap_or_else(|| {
                format!("a PDF document without readable text, {} bytes, attached", bytes.len())
            }),
        };
        let data = STANDARD.encode(bytes);
        self.attachments.push(Attachment { mime: mime.to_owned(), name, data });
    }

    fn read(
        &mut self,
        response: Response,
        mime: &str,
        format: FetchFormat,
    ) -> Result<(), ToolError> {
        let beginning = response.body.get(..SAMPLE).unwrap_or(&response.body);
        let is_readable = super::is_text(mime)
            || mime.contains("html")
            || TextEncoding::sniff(beginning, false).is_some();
        if !is_readable {
            return Err(unreadable(&response, mime));
        }
        let is_html =
            mime.contains("html") || (!super::is_text(mime) && looks_like_html(beginning));
        let content_type = response.header("content-type").unwrap_or_default().to_owned();
        let (text, encoding) = charset::decode(response.body, &content_type);
        self.encoding = (encoding != "UTF-8").then(|| encoding.to_owned());
        self.body = match (is_html, format) {
            (true, FetchFormat::Markdown) => self.rendered(&text, PageStyle::Markdown),
            (true, FetchFormat::Text) => self.rendered(&text, PageStyle::Plain),
            _ => text,
        };
        Ok(())
    }

    fn rendered(&mut self, html: &str, style: PageStyle) -> String {
        let address = self.final_url.as_ref().unwrap_or(&self.url);
        let Some(address) = super::parsed(address) else { return html.to_owned() };
        let read = markdown::read(html, &address, style);
        self.is_part = read.is_part;
        let front = self.front(&read);
        self.title = Some(read.title).filter(|title| !title.is_empty());
        front + &read.body
    }

    /// Returns the metadata of the page as front matter.
    fn front(&self, read: &PageText) -> String {
        let quoted = |text: &str| {
            serde_json::Value::from(text.chars().take(500).collect::<String>()).to_string()
        };
        let mut front = "---\n".to_owned();
        for (name, text) in [
            ("title", &read.title),
            ("description", &read.description),
            ("language", &read.language),
            ("published", &read.published),
        ] {
            if !text.is_empty() {
                front.push_str(&format!("{name}: {}\n", quoted(text)));
            }
        }
        front.push_str(&format!("url: {}\n", self.url));
        if let Some(found) = &self.final_url {
            front.push_str(&format!("final_url: {found}\n"));
        }
        front + "---\n\n"
    }
}

fn looks_like_html(beginning: &[u8]) -> bool {
    let beginning =
        beginning.get(..512).unwrap_or(beginning).trim_ascii_start().to_ascii_lowercase();
    ["<!doctype html", "<html", "<head", "<body"]
        .iter()
        .any(|sign| beginning.starts_with(sign.as_bytes()))
}

fn unreadable(response: &Response, mime: &str) -> ToolError {
    let mime = if mime.is_empty() { "unknown content type" } else { mime };
    let message = format!("{} is not text ({mime}, {} bytes)", response.url, response.body.len());
    ToolError::new(ErrorKind::Unsupported, message).hint(
        "web_fetch reads text, HTML, PDF and images; download the file with a program if you need it",
    )
}
