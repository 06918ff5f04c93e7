//! Tools that talk to other machines, all through the one guarded client. Their responses are
//! untrusted data and are marked as such.

mod article;
mod charset;
mod engines;
mod html;
pub mod http_request;
mod markdown;
mod untrusted;
pub mod web_fetch;
pub mod web_search;

use haft_core::{Access, ErrorKind, StaticTool, ToolError, network::Response};
use url::Url;

/// The group's tools, in order.
pub static TOOLS: &[&StaticTool] = &[&web_fetch::TOOL, &http_request::TOOL, &web_search::TOOL];

/// Parses a complete URL exactly as the client will, so that the approver and the client see the
/// same address.
fn parsed(url: &str) -> Option<Url> {
    Url::parse(url.trim())
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// Returns the accesses of a call. Text that is not a URL has none: the call fails when it runs,
/// and no approval is requested.
fn accesses(url: &str) -> Vec<Access> {
    parsed(url).map(|url| Access::Fetch(url.into())).into_iter().collect()
}

fn checked(url: &str) -> Result<Url, ToolError> {
    parsed(url).ok_or_else(|| {
        let shown: String = url.chars().take(200).collect();
        ToolError::input(format!("url: {shown:?} is not a complete http or https URL"))
            .hint("give the complete URL, as in https://example.org/page; read files with `read`")
    })
}

/// Returns the error for a failed response, by its status.
fn failed(response: &Response) -> ToolError {
    let Response { status, url, .. } = response;
    let again = response.header("retry-after").filter(|after| after.len() < 40);
    match status {
        404 | 410 => ToolError::not_found(format!("nothing found at {url} (status {status})"))
            .hint("check the path, or find the page with `web_search`"),
        429 | 503 => {
            let when =
                again.map_or("later".to_owned(), |after| format!("after {after} (Retry-After)"));
            ToolError::unavailable(format!(
                "{url} is overloaded or limits requests (status {status})"
            ))
            .hint(format!("try again {when}"))
        }
        401 | 403 | 407 => ToolError::new(
            ErrorKind::Network,
            format!("{url} refuses access without permission (status {status})"),
        )
        .hint(
            "use `http_request` with an Authorization header and `secret:NAME`, or another source",
        ),
        _ => ToolError::new(ErrorKind::Network, format!("{url} failed (status {status})"))
            .hint("try again later, or use another source"),
    }
}

/// Returns the media type in lower case, without parameters.
fn mime(response: &Response) -> String {
    let whole = response.header("content-type").unwrap_or_default();
    whole.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns true if a media type is a text format.
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
