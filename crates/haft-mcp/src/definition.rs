//! A tool as the protocol describes it, made from its spec.

use std::sync::Arc;

use haft_core::{Effect, ToolSpec};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::Value;

/// `structured` says whether results carry typed data, and so whether its schema is announced.
pub(crate) fn tool(spec: &ToolSpec, structured: bool) -> Tool {
    let input = object(spec.input.as_value().clone());
    let mut tool = Tool::new(spec.name.clone(), spec.description.clone(), input)
        .with_title(spec.title.as_ref())
        .with_annotations(annotations(spec));
    if structured && let Some(output) = &spec.output {
        tool = tool.with_raw_output_schema(object(output.beside_content()));
    }
    tool
}

/// Hints, as the protocol calls them: the gate does not rely on anybody heeding them.
fn annotations(spec: &ToolSpec) -> ToolAnnotations {
    ToolAnnotations::with_title(spec.title.as_ref())
        .read_only(spec.effect == Effect::Read)
        .destructive(matches!(spec.effect, Effect::Execute | Effect::Destructive))
        .idempotent(spec.idempotent)
        .open_world(spec.open_world)
}

fn object(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(object) => Arc::new(object),
        // `Schema` holds objects only.
        _ => Arc::default(),
    }
}
