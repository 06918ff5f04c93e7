//! A tool as the protocol describes it, made from its spec.

use std::borrow::Cow;

use haft_core::{Effect, ToolSpec};
use rmcp::model::Tool;
use serde::Serialize;
use serde_json::value::RawValue;

/// A tool on the wire, with its schemas as `S`: the text they are written down as, or a tree.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Definition<'a, S> {
    /// Its name.
    pub name: &'a str,
    /// A few words for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<&'a str>,
    /// What the model reads.
    pub description: Cow<'a, str>,
    /// The schema of the arguments.
    pub input_schema: S,
    /// The schema of the structured content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<S>,
    /// Hints for the client.
    #[serde(skip_serializing_if = "Annotations::is_empty")]
    pub annotations: Annotations<'a>,
}

/// Hints for the client; the gate relies on none of them. What is not known is left out.
#[derive(Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations<'a> {
    /// A few words for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<&'a str>,
    /// It changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// What it changes cannot be brought back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Calling it twice is the same as calling it once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// It reaches things outside this machine and workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

impl Annotations<'_> {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Its schemas stay the text they are written down as: a client waits for this at every start.
type Written<'a> = Definition<'a, Box<RawValue>>;

/// The result of `tools/list`.
#[derive(Serialize)]
pub(crate) struct List<'a> {
    tools: Vec<Written<'a>>,
}

/// `structured` says whether results carry typed data, and so whether its schema is announced.
pub(crate) fn list(specs: &[ToolSpec], structured: bool) -> List<'_> {
    List { tools: specs.iter().map(|spec| definition(spec, structured)).collect() }
}

fn definition(spec: &ToolSpec, structured: bool) -> Written<'_> {
    let output = spec.output.as_ref().filter(|_| structured);
    Definition {
        name: &spec.name,
        title: Some(&spec.title),
        description: spec.described(),
        input_schema: raw(spec.input.schema_text().into_owned()),
        output_schema: output.map(|output| raw(output.structured_schema_text().into_owned())),
        annotations: Annotations {
            title: Some(&spec.title),
            read_only_hint: Some(spec.effect == Effect::Read),
            destructive_hint: Some(matches!(spec.effect, Effect::Execute | Effect::Destructive)),
            idempotent_hint: Some(spec.idempotent),
            open_world_hint: Some(spec.open_world),
        },
    }
}

/// The same as rmcp has it.
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
            let rmcps = serde_json::to_value(tool(&spec, structured)).expect("JSON");
            assert_eq!(rmcps, written);
        }
    }
}
