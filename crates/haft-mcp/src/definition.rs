//! A tool definition in the protocol's form, made from a tool's spec.

use std::borrow::Cow;

use haft_core::{Effect, ToolSpec};
use rmcp::model::Tool;
use serde::Serialize;
use serde_json::value::RawValue;

/// A tool definition on the wire. `S` is the type of its schemas: JSON text or a tree.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct McpToolDefinition<'a, S> {
    /// Name of the tool.
    pub name: &'a str,
    /// Title for users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<&'a str>,
    /// Description for the model.
    pub description: Cow<'a, str>,
    /// Schema of the arguments.
    pub input_schema: S,
    /// Schema of the structured content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<S>,
    /// Hints for the client.
    #[serde(skip_serializing_if = "McpAnnotations::is_empty")]
    pub annotations: McpAnnotations<'a>,
}

/// Hints for the client; the gate does not rely on them. Unknown ones are omitted.
#[derive(Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct McpAnnotations<'a> {
    /// Title for users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<&'a str>,
    /// True if the tool changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// True if its changes may be irreversible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// True if a second equal call has no further effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// True if it reaches things outside this machine and workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

impl McpAnnotations<'_> {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Its schemas stay JSON text, because a client waits for this list at every start.
type WireTool<'a> = McpToolDefinition<'a, Box<RawValue>>;

/// The result of `tools/list`.
#[derive(Serialize)]
pub(crate) struct ToolList<'a> {
    tools: Vec<WireTool<'a>>,
}

/// `structured` is true if results carry typed data, so that its schema is announced.
pub(crate) fn list(specs: &[ToolSpec], structured: bool) -> ToolList<'_> {
    ToolList { tools: specs.iter().map(|spec| definition(spec, structured)).collect() }
}

fn definition(spec: &ToolSpec, structured: bool) -> WireTool<'_> {
    let output = spec.output.as_ref().filter(|_| structured);
    McpToolDefinition {
        name: &spec.name,
        title: Some(&spec.title),
        description: spec.described(),
        input_schema: raw(spec.input.schema_text().into_owned()),
        output_schema: output.map(|output| raw(output.structured_schema_text().into_owned())),
        annotations: McpAnnotations {
            title: Some(&spec.title),
            read_only_hint: Some(spec.effect == Effect::Read),
            destructive_hint: Some(matches!(spec.effect, Effect::Execute | Effect::Destructive)),
            idempotent_hint: Some(spec.idempotent),
            open_world_hint: Some(spec.open_world),
        },
    }
}

/// Converts a spec to rmcp's type.
pub(crate) fn tool(spec: &ToolSpec, structured: bool) -> Tool {
    let definition = serde_json::to_value(definition(spec, structured));
    let tool = definition.and_then(serde_json::from_value);
    tool.expect("a definition is what the protocol calls a tool")
}

fn raw(schema: String) -> Box<RawValue> {
    RawValue::from_string(schema).expect("a schema is written as JSON")
}

#[cfg(test)]
mod tests {
    use haft_core::{Power, Schema};
    use serde_json::json;

    use super::*;

    #[test]
    fn an_empty_description_is_not_listed_as_empty() {
        let schema = Schema::from_value(json!({"type": "object"})).expect("a schema");
        let spec = ToolSpec::declared("a test", "run_tests", "", schema);
        let listed = serde_json::to_value(definition(&spec, false)).expect("JSON");
        let described = listed["description"].as_str().expect("a text");
        assert!(described.starts_with("Run tests (the tool `run_tests`"), "{described}");
    }

    #[test]
    fn a_definition_is_the_same_for_both_ways_to_a_client() {
        let schema = |name: &str| {
            let properties = json!({ name: {"type": "string", "description": "a \"b\"\n"} });
            let schema = json!({"type": "object", "properties": properties, "required": [name]});
            Schema::from_value(schema).expect("a schema")
        };
        let mut spec = ToolSpec::declared("a test", "one", "Says \"x\"\u{1}", schema("in"));
        spec = spec.needs([Power::Shell]);
        spec.output = Some(schema("out"));
        for structured in [true, false] {
            let written = serde_json::to_value(definition(&spec, structured)).expect("JSON");
            assert_eq!(written["inputSchema"], *spec.input.as_value());
            assert_eq!(written.get("outputSchema").is_some(), structured);
            assert_eq!(written["annotations"]["destructiveHint"], true);
            let as_rmcp = serde_json::to_value(tool(&spec, structured)).expect("JSON");
            assert_eq!(as_rmcp, written);
        }
    }
}
