//! The files of the workspace as resources. The file tools read them through the gate, so that
//! rules, secrets, limits and the ledger apply as everywhere.

use std::path::{Path, PathBuf};

use haft_core::{CallRequest, ErrorKind, Gate, Outcome, ToolError};
use rmcp::model::{Resource, ResourceContents, ResourceTemplate};
use serde_json::{Value, json};

use crate::{
    McpClient,
    offers::{BoxFuture, Resources},
    result,
};

/// Maximum number of files in a list; the template reaches the others.
const MAX_LISTED: usize = 200;
/// Maximum size of a resource, which is sent whole. Tools read larger files in parts.
const MAX_RESOURCE_BYTES: usize = 1 << 20;
/// Maximum number of completions, as in the protocol.
const MAX_COMPLETIONS: usize = 100;

pub(crate) struct WorkspaceFiles;

impl Resources for WorkspaceFiles {
    fn list<'a>(
        &'a self,
        gate: &'a Gate,
        client: &'a McpClient,
    ) -> BoxFuture<'a, Result<Vec<Resource>, ToolError>> {
        Box::pin(async move {
            let found =
                call_tool(gate, client, "glob", json!({"pattern": "**/*", "limit": MAX_LISTED}))
                    .await?;
            let workspace = &gate.workspace_info().workspace;
            Ok(paths(&found).map(|path| resource(workspace, path)).collect())
        })
    }

    fn templates(&self, gate: &Gate) -> Vec<ResourceTemplate> {
        let folder = uri_of(&gate.workspace_info().workspace);
        let template = ResourceTemplate::new(format!("{folder}/{{+path}}"), "file")
            .with_title("A file of the workspace")
            .with_description("Any text, image or PDF in the workspace that the rules allow");
        vec![template]
    }

    fn read<'a>(
        &'a self,
        uri: &'a str,
        gate: &'a Gate,
        client: &'a McpClient,
    ) -> BoxFuture<'a, Result<Vec<ResourceContents>, ToolError>> {
        Box::pin(read(uri, gate, client))
    }

    fn complete<'a>(
        &'a self,
        _template: &'a str,
        argument: &'a str,
        written: &'a str,
        gate: &'a Gate,
        client: &'a McpClient,
    ) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async move {
            if argument != "path" {
                return Vec::new();
            }
            let prefix = literal(written);
            let pattern = format!("{{{prefix}*,{prefix}*/**}}");
            let input = json!({"pattern": pattern, "limit": MAX_COMPLETIONS});
            match call_tool(gate, client, "glob", input).await {
                Ok(found) => paths(&found).map(str::to_owned).collect(),
                Err(_) => Vec::new(),
            }
        })
    }
}

async fn read(
    uri: &str,
    gate: &Gate,
    client: &McpClient,
) -> Result<Vec<ResourceContents>, ToolError> {
    let Some(path) = path_of(uri) else {
        return Err(ToolError::not_found(format!("there is no resource {uri}"))
            .hint("use a file:// URL below the workspace"));
    };
    let mut text = String::new();
    let mut offset = 1;
    loop {
        let input = json!({"path": path, "offset": offset, "plain": true});
        let page = call_tool(gate, client, "read", input).await?;
        let data = page.data.unwrap_or_default();
        if data.get("kind").and_then(Value::as_str) == Some("directory") {
            return Err(ToolError::new(
                ErrorKind::Unsupported,
                format!("{} is a directory", path.display()),
            )
            .hint("use the `list` tool"));
        }
        if let Some(file) = page.attachments.into_iter().next() {
            return Ok(vec![result::contents(uri.to_owned(), file.mime, file.data)]);
        }
        if data.get("cut_lines").is_some() || text.len() + page.content.len() > MAX_RESOURCE_BYTES {
            return Err(ToolError::new(
                ErrorKind::TooLarge,
                format!("{} is too large for a resource", path.display()),
            )
            .hint("use the `read` tool, which reads in parts"));
        }
        text.push_str(&page.content);
        match data.get("next_offset").and_then(Value::as_u64) {
            Some(next) => {
                text.push('\n');
                offset = next;
            }
            None => break,
        }
    }
    Ok(vec![ResourceContents::text(text, uri).with_mime_type("text/plain")])
}

/// Calls a tool in the name of the client, and returns its error as a `ToolError`.
async fn call_tool(
    gate: &Gate,
    client: &McpClient,
    tool: &str,
    input: Value,
) -> Result<Outcome, ToolError> {
    let outcome = gate
        .call(CallRequest::new(tool, input, client.0.caller.context(client.0.context.ct.clone())))
        .await;
    match &outcome.error {
        None => Ok(outcome),
        Some(error) => Err(ToolError::new(error.kind, &error.message).hint(&error.hint)),
    }
}

fn paths(found: &Outcome) -> impl Iterator<Item = &str> {
    let paths = found.data.as_ref().and_then(|data| data.get("paths")).and_then(Value::as_array);
    paths.into_iter().flatten().filter_map(Value::as_str)
}

fn resource(workspace: &Path, path: &str) -> Resource {
    Resource::new(uri_of(&workspace.join(path)), path)
}

/// Escapes the special characters of globs.
fn literal(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '*' | '?' | '[' | ']' | '{' | '}' | ',' | '!' => escaped.extend(['[', letter, ']']),
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// Returns the URL of a path: `file:///a%20b` for `/a b`.
pub(crate) fn uri_of(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;

    let mut uri = "file://".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b'/'
            | b'-'
            | b'_'
            | b'.'
            | b'~'
            | b'@'
            | b'+' => {
                uri.push(char::from(*byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

/// Returns the path of a `file://` URL; `None` for other schemes, other hosts and invalid escapes.
pub(crate) fn path_of(uri: &str) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;

    let rest = uri.strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    if !rest.starts_with('/') {
        return None;
    }
    let mut bytes = Vec::with_capacity(rest.len());
    let mut letters = rest.bytes();
    while let Some(letter) = letters.next() {
        if letter != b'%' {
            bytes.push(letter);
            continue;
        }
        let digit = |letter: Option<u8>| char::from(letter?).to_digit(16);
        let value = digit(letters.next())? * 16 + digit(letters.next())?;
        bytes.push(u8::try_from(value).ok().filter(|byte| *byte != 0)?);
    }
    Some(std::ffi::OsString::from_vec(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_round_trip_through_urls() {
        for path in ["/", "/a b/ü%41?#.rs", "/x/@docs/[y]", "/new\nline"] {
            assert_eq!(path_of(&uri_of(Path::new(path))), Some(path.into()), "{path}");
        }
        assert_eq!(uri_of(Path::new("/a b")), "file:///a%20b");
    }

    #[test]
    fn foreign_and_broken_addresses_are_none() {
        for uri in
            ["http://x/y", "file://host/x", "file:/x", "file:///a%2", "file:///a%00", "", "file://"]
        {
            assert_eq!(path_of(uri), None, "{uri}");
        }
        assert_eq!(path_of("file://localhost/x"), Some("/x".into()));
    }

    #[test]
    fn a_prefix_is_not_a_pattern() {
        assert_eq!(literal("a*[b]{c,d}"), "a[*][[]b[]][{]c[,]d[}]");
    }
}
