//! Resources that a client can read: listed ones, a template for many, and one that changes.

use std::sync::Arc;

use haft::{
    Gate, ToolError,
    mcp::{
        BoxFuture, McpClient, Resources,
        model::{Resource, ResourceContents, ResourceTemplate},
    },
};
use serde_json::json;

use crate::{RED_DOT, tools::CancelledCalls};

pub(crate) const WATCHED: &str = "test://watched-resource";
const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";
const TEMPLATE: &str = "test://template/{id}/data";

pub(crate) struct ExampleResources {
    pub(crate) cancelled: Arc<CancelledCalls>,
}

impl Resources for ExampleResources {
    fn list<'a>(
        &'a self,
        _gate: &'a Gate,
        _client: &'a McpClient,
    ) -> BoxFuture<'a, Result<Vec<Resource>, ToolError>> {
        let listed = [
            (TEXT, "static-text", "A text that never changes", "text/plain"),
            (BINARY, "static-binary", "A red dot", "image/png"),
            (WATCHED, "watched-resource", "Number of cancelled calls", "text/plain"),
        ];
        let listed = listed.map(|(uri, name, description, mime)| {
            Resource::new(uri, name).with_description(description).with_mime_type(mime)
        });
        Box::pin(async move { Ok(listed.to_vec()) })
    }

    fn templates(&self, _gate: &Gate) -> Vec<ResourceTemplate> {
        let template = ResourceTemplate::new(TEMPLATE, "template")
            .with_description("Data for any id")
            .with_mime_type("application/json");
        vec![template]
    }

    fn read<'a>(
        &'a self,
        uri: &'a str,
        _gate: &'a Gate,
        _client: &'a McpClient,
    ) -> BoxFuture<'a, Result<Vec<ResourceContents>, ToolError>> {
        Box::pin(async move {
            let text =
                |text: String| ResourceContents::text(text, uri).with_mime_type("text/plain");
            let contents = match uri {
                TEXT => text("This is the content of the static text resource.".to_owned()),
                BINARY => ResourceContents::blob(RED_DOT, uri).with_mime_type("image/png"),
                WATCHED => text(format!("{} calls were cancelled", self.cancelled.count())),
                _ => {
                    let id = id_of(uri).ok_or_else(|| {
                        ToolError::not_found(format!("no resource {uri}"))
                            .hint("list the resources and templates")
                    })?;
                    let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
                    ResourceContents::text(data.to_string(), uri).with_mime_type("application/json")
                }
            };
            Ok(vec![contents])
        })
    }

    fn complete<'a>(
        &'a self,
        template: &'a str,
        argument: &'a str,
        written: &'a str,
        _gate: &'a Gate,
        _client: &'a McpClient,
    ) -> BoxFuture<'a, Vec<String>> {
        let is_ours = template == TEMPLATE && argument == "id";
        let known = if is_ours { &["123", "124", "200"][..] } else { &[] };
        let begun = known.iter().filter(|id| id.starts_with(written)).map(|id| (*id).to_owned());
        let begun = begun.collect();
        Box::pin(async { begun })
    }

    fn can_be_watched(&self, uri: &str) -> bool {
        uri == WATCHED
    }

    fn are_watched(&self) -> bool {
        true
    }
}

fn id_of(uri: &str) -> Option<&str> {
    let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
    (!id.is_empty() && !id.contains('/')).then_some(id)
}
