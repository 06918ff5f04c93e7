//! Tools that talk to other machines, all through the one guarded client. What comes from there is data: it is fenced.

mod article;
mod charset;
mod engines;
mod fence;
mod html;
pub mod http_request;
mod markdown;
pub mod web_fetch;
pub mod web_search;

use haft_core::{Access, ErrorKind, StaticTool, ToolError, network::Response};
use url::Url;

/// The group's tools, in order.
pub static TOOLS: &[&StaticTool] = &[&web_fetch::TOOL, &http_request::TOOL, &web_search::TOOL];

/// A whole URL as the client will understand it, so that nobody agrees to another place than is asked.
fn parsed(url: &str) -> Option<Url> {
    Url::parse(url.trim())
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// What a call would touch. What is no URL touches nothing: the call says so when it runs, and nobody is asked about it.
fn accesses(url: &str) -> Vec<Access> {
    parsed(url).map(|url| Access::Fetch(url.into())).into_iter().collect()
}

fn checked(url: &str) -> Result<Url, ToolError> {
    parsed(url).ok_or_else(|| {
        let shown: String = url.chars().take(200).collect();
        ToolError::input(format!("url: {shown:?} is no whole http or https URL"))
            .hint("write it whole, as in https://example.org/page; files are read with `read`")
    })
}

/// An answer that is none: what its status means for the one who asked.
fn failed(response: &Response) -> ToolError {
    let Response { status, url, .. } = response;
    let again = response.header("retry-after").filter(|after| after.len() < 40);
    match status {
        404 | 410 => {
            ToolError::not_found(format!("there is nothing at {url} (it answers {status})"))
                .hint("check the path, or find the page with `web_search`")
        }
        429 | 503 => {
            let when =
                again.map_or("later".to_owned(), |after| format!("after {after} (Retry-After)"));
            ToolError::unavailable(format!(
                "{url} is busy or wants fewer requests (it answers {status})"
            ))
            .hint(format!("try again {when}"))
        }
        401 | 403 | 407 => ToolError::new(
            ErrorKind::Network,
            format!("{url} is not open to everybody (it answers {status})"),
        )
        .hint(
            "use `http_request` with an Authorization header and `secret:NAME`, or another source",
        ),
        _ => ToolError::new(ErrorKind::Network, format!("{url} answers {status}"))
            .hint("try again later, or use another source"),
    }
}

/// What sort of content it is, without the words behind.
fn mime(response: &Response) -> String {
    let whole = response.header("content-type").unwrap_or_default();
    whole.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Whether a sort of content is text by its name.
fn is_text(mime: &str) -> bool {
    let known = [
        "json",
        "xml",
        "javascript",
        "ecmascript",
        "yaml",
        "toml",
        "csv",
        "graphql",
        "x-www-form-urlencoded",
        "x-sh",
    ];
    mime.starts_with("text/") || known.iter().any(|part| mime.contains(part))
}
