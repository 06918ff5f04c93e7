//! `web_fetch`: a page to read.

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
    accesses, charset, checked, failed, fence,
    markdown::{self, Read, Style},
};
use crate::{
    files::media::{self, Media},
    text::encoding::{Form, SAMPLE},
};

const MOST_SECONDS: u64 = 120;

/// What to read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "url": "https://example.org/guide" }))]
pub struct WebFetch {
    /// The whole address, with http or https.
    #[schemars(length(min = 1), extend("x-aliases" = ["uri", "link", "address"]))]
    pub url: String,
    /// What the page is turned into.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["extract_mode", "extractMode"]))]
    pub format: Format,
    /// How long it may take, in seconds; as configured (usually 30) when left out.
    #[serde(default)]
    #[schemars(range(min = 1, max = MOST_SECONDS), extend("x-aliases" = ["timeout"]))]
    pub timeout_secs: Option<u64>,
}

/// What a page is turned into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    #[default]
    Markdown,
    Text,
    Html,
}

impl Format {
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

/// What was read. The text itself is the content of the answer.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WebPage {
    /// As it was asked for.
    pub url: String,
    /// Where it was found at last, when that is another place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_url: Option<String>,
    /// What the server answered with.
    pub status: u16,
    /// The sort of content, as the server says.
    pub content_type: String,
    /// The title of the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// How it was written, when it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// Unpacked, in bytes.
    pub bytes: usize,
    /// It was read a moment ago and has not changed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub remembered: bool,
    /// Menus, footers and the like were left out.
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
        let mut text = fence::fenced(origin, &self.body);
        if self.is_part {
            text.push_str("\n[the main part of the page; format=html has all of it]");
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
    variables(most_seconds = MOST_SECONDS),
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
    // Whoever calls off does not wait for the other side.
    let response = tokio::select! {
        response = net.send(request) => response?,
        () = cancel.cancelled() => {
            return Err(ToolError::new(ErrorKind::Cancelled, format!("reading {asked} was called off")));
        }
    };
    let error = (!response.is_success()).then(|| failed(&response));
    let page = spawn_blocking(move || page(asked, response, input.format, &cancel)).await;
    match error {
        None => page,
        // What a site says about what it does not have is often worth reading.
        Some(error) => Err(match page.into_reply() {
            Ok(reply) => error.with_partial(reply),
            Err(_) => error,
        }),
    }
}

fn page(
    asked: String,
    response: Response,
    format: Format,
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
        Some(media) => page.look(media, &response.body, cancel),
        None => page.read(response, &mime, format)?,
    }
    Ok(page)
}

impl WebPage {
    /// A picture or a document.
    fn look(&mut self, media: Media, bytes: &[u8], cancel: &Cancel) {
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

    fn read(&mut self, response: Response, mime: &str, format: Format) -> Result<(), ToolError> {
        let beginning = response.body.get(..SAMPLE).unwrap_or(&response.body);
        let is_readable = super::is_text(mime)
            || mime.contains("html")
            || Form::sniff(beginning, false).is_some();
        if !is_readable {
            return Err(unreadable(&response, mime));
        }
        let is_html =
            mime.contains("html") || (!super::is_text(mime) && looks_like_html(beginning));
        let content_type = response.header("content-type").unwrap_or_default().to_owned();
        let (text, encoding) = charset::decode(response.body, &content_type);
        self.encoding = (encoding != "UTF-8").then(|| encoding.to_owned());
        self.body = match (is_html, format) {
            (true, Format::Markdown) => self.rendered(&text, Style::Markdown),
            (true, Format::Text) => self.rendered(&text, Style::Plain),
            _ => text,
        };
        Ok(())
    }

    fn rendered(&mut self, html: &str, style: Style) -> String {
        let address = self.final_url.as_ref().unwrap_or(&self.url);
        let Some(address) = super::parsed(address) else { return html.to_owned() };
        let read = markdown::read(html, &address, style);
        self.is_part = read.is_part;
        let front = self.front(&read);
        self.title = Some(read.title).filter(|title| !title.is_empty());
        front + &read.body
    }

    /// What the page says about itself, before its text.
    fn front(&self, read: &Read) -> String {
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
    let mime = if mime.is_empty() { "of no known sort" } else { mime };
    let message = format!("{} is no text ({mime}, {} bytes)", response.url, response.body.len());
    ToolError::new(ErrorKind::Unsupported, message).hint(
        "web_fetch reads text, HTML, PDF and images; download it with a program if you need it",
    )
}
