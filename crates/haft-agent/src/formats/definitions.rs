//! Writes tool definitions in each provider's format. A tool that cannot be declared does not
//! affect the others.

use std::{borrow::Cow, collections::HashSet};

use haft_core::{Effect, Schema, ToolSpec, description_of};
use serde_json::{Map, Value, json};

use super::{
    FormatOptions, ModelFormat, Note, ToolDefinitions, ToolNames,
    dialect::{
        gemini, liberal,
        strict::{self, Cost},
    },
    losses::Losses,
    restore::Restore,
    schema::{SchemaNode, as_object, read},
};

/// Anthropic's limits for strict tools in one request, from its guide "Structured outputs".
const MAX_STRICT_TOOLS: usize = 20;
const MAX_OPTIONAL: usize = 24;
const MAX_UNIONS: usize = 16;

/// A tool definition from any source: a [`ToolSpec`] of haft, or the list of an MCP server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolDefinition {
    /// Its name in haft.
    pub name: String,
    /// Title for users.
    pub title: Option<String>,
    /// Description for the model.
    pub description: String,
    /// The schema of the arguments: JSON Schema of any draft, or anything that a server sends as
    /// one.
    pub input: Value,
    /// The schema of the typed output, as in MCP's structured content.
    pub output: Option<Value>,
    /// Known properties of its effects.
    pub annotations: ToolAnnotations,
    /// Properties of the output that only repeat the content; they are not sent to MCP twice.
    pub in_content: Vec<String>,
}

/// Properties of a tool's effects; `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// True if it changes nothing.
    pub read_only: Option<bool>,
    /// True if its changes may be irreversible.
    pub destructive: Option<bool>,
    /// True if a second equal call has no further effect.
    pub idempotent: Option<bool>,
    /// True if it reaches things outside of the user's control.
    pub open_world: Option<bool>,
}

impl ToolDefinition {
    /// Creates a definition with a name and the schema of the arguments; the other fields can be
    /// set.
    pub fn new(name: impl Into<String>, input: Value) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: String::new(),
            input,
            output: None,
            annotations: ToolAnnotations::default(),
            in_content: Vec::new(),
        }
    }

    /// Returns the description, or a substitute for an empty one.
    fn described(&self) -> Cow<'_, str> {
        description_of(&self.description, self.title.as_deref(), &self.name)
    }
}

impl From<&ToolSpec> for ToolDefinition {
    /// Uses the description unchanged: fill its variables first, as `Registry::definitions` does.
    fn from(spec: &ToolSpec) -> Self {
        let is_destructive = matches!(spec.effect, Effect::Destructive | Effect::Execute);
        Self {
            name: spec.name.to_string(),
            title: Some(spec.title.to_string()),
            description: spec.description.to_string(),
            input: spec.input.as_value().clone(),
            output: spec.output.as_ref().map(Schema::structured_schema),
            annotations: ToolAnnotations {
                read_only: Some(spec.effect == Effect::Read),
                destructive: Some(is_destructive),
                idempotent: Some(spec.idempotent),
                open_world: Some(spec.open_world),
            },
            in_content: spec.output.as_ref().map(in_content).unwrap_or_default(),
        }
    }
}

fn in_content(output: &Schema) -> Vec<String> {
    let beside = output.structured_schema();
    let is_left = |name: &&str| beside["properties"].get(*name).is_none();
    output.properties().map(|(name, _)| name).filter(is_left).map(str::to_owned).collect()
}

/// Writes tools in a provider's format, in the given order. Every tool is in
/// [`ToolDefinitions::tools`] or has a note that says why it is not. Where a request may have few
/// strict tools, those that change something come first.
pub fn definitions(
    format: ModelFormat,
    tools: &[ToolDefinition],
    options: &FormatOptions,
) -> ToolDefinitions {
    let names = ToolNames::new(format, tools.iter().map(|tool| tool.name.as_str()));
    let mut list = DefinitionList::new(format, *options, names);
    list.note_options();
    let mut seen = HashSet::new();
    let is_new: Vec<bool> = tools.iter().map(|tool| seen.insert(tool.name.as_str())).collect();
    let mut order: Vec<usize> = (0..tools.len()).filter(|index| is_new[*index]).collect();
    order.sort_by_key(|index| strict_rank(&tools[*index].annotations));
    let mut written: Vec<Option<WrittenTool>> = tools.iter().map(|_| None).collect();
    for index in order {
        written[index] = Some(list.write(&tools[index]));
    }
    for (tool, written) in tools.iter().zip(written) {
        match written {
            Some(written) => list.add(tool, written),
            None => list.note(&tool.name, "left out: another tool has the same name"),
        }
    }
    list.finish()
}

/// The lower, the more a wrong argument can do. What is not known counts as destructive, as in MCP.
fn strict_rank(annotations: &ToolAnnotations) -> u8 {
    match (annotations.read_only, annotations.destructive) {
        (Some(true), _) => 2,
        (_, Some(false)) => 1,
        _ => 0,
    }
}

/// Definitions written so far.
struct DefinitionList {
    format: ModelFormat,
    options: FormatOptions,
    names: ToolNames,
    tools: Vec<Value>,
    notes: Vec<Note>,
    n_strict: usize,
    spent: Cost,
}

/// The schema of one tool's input, and its mode.
struct InputSchema {
    schema: Option<Value>,
    restore: Restore,
    is_strict: bool,
}

/// A tool's input, before it is listed.
struct WrittenTool {
    /// Or why the tool is left out.
    input: Result<InputSchema, String>,
    losses: Losses,
    /// Why it is not strict, though that was asked for.
    not_strict: Option<String>,
}

impl DefinitionList {
    fn new(format: ModelFormat, options: FormatOptions, names: ToolNames) -> Self {
        Self {
            format,
            options,
            names,
            tools: Vec::new(),
            notes: Vec::new(),
            n_strict: 0,
            spent: Cost::default(),
        }
    }

    fn note(&mut self, tool: &str, what: impl Into<String>) {
        self.notes.push(Note { tool: Some(tool.to_owned()), what: what.into() });
    }

    fn note_options(&mut self) {
        if self.options.strict && !self.format.knows_strict() {
            let what = format!("{} has no strict mode, so schemas are not enforced", self.format);
            self.notes.push(Note { tool: None, what });
        }
    }

    fn write(&mut self, tool: &ToolDefinition) -> WrittenTool {
        let (mut losses, mut not_strict) = (Losses::default(), None);
        let input = match self.format {
            ModelFormat::Mcp => unchanged(&tool.input),
            _ => self.input(tool, &mut losses, &mut not_strict),
        };
        WrittenTool { input, losses, not_strict }
    }

    fn add(
        &mut self,
        tool: &ToolDefinition,
        WrittenTool { input, losses, not_strict }: WrittenTool,
    ) {
        if let Some(reason) = not_strict {
            self.note(&tool.name, format!("sent without strict, because {reason}"));
        }
        match input {
            Ok(input) => {
                for what in losses.into_notes() {
                    self.note(&tool.name, what);
                }
                self.names.keep(&tool.name, input.restore.clone(), &tool.in_content);
                let declared = self.declared(tool, input);
                self.tools.push(declared);
            }
            Err(reason) => self.note(&tool.name, format!("left out: {reason}")),
        }
    }

    fn input(
        &mut self,
        tool: &ToolDefinition,
        losses: &mut Losses,
        not_strict: &mut Option<String>,
    ) -> Result<InputSchema, String> {
        if !tool.input.is_object() {
            return Err("its schema is not a JSON object".to_owned());
        }
        let root = read(&tool.input, losses).and_then(|root| as_object(root, losses))?;
        if self.options.strict && self.format.knows_strict() {
            let mut of_strict = losses.clone();
            match self.strict(&root, &mut of_strict) {
                Ok(input) => {
                    *losses = of_strict;
                    return Ok(input);
                }
                Err(reason) => *not_strict = Some(reason),
            }
        }
        let (schema, restore) = if self.format == ModelFormat::Gemini {
            gemini::write(&root, losses)?
        } else {
            let (schema, restore) = liberal::write(self.format, &root, losses)?;
            (Some(schema), restore)
        };
        Ok(InputSchema { schema, restore, is_strict: false })
    }

    fn strict(&mut self, root: &SchemaNode, losses: &mut Losses) -> Result<InputSchema, String> {
        let max_optional = MAX_OPTIONAL - self.spent.n_optional;
        let (schema, restore, cost) = strict::write(self.format, root, max_optional, losses)?;
        if self.format == ModelFormat::Anthropic {
            self.spend(cost)?;
        }
        Ok(InputSchema { schema: Some(schema), restore, is_strict: true })
    }

    /// Subtracts a tool's cost from the limits of the request. See [`strict_rank`] for who comes first.
    fn spend(&mut self, cost: Cost) -> Result<(), String> {
        let n_strict = self.n_strict + 1;
        let n_optional = self.spent.n_optional + cost.n_optional;
        let n_unions = self.spent.n_unions + cost.n_unions;
        let limits = [
            (n_strict, MAX_STRICT_TOOLS, "strict tools"),
            (n_optional, MAX_OPTIONAL, "optional properties in strict tools"),
            (n_unions, MAX_UNIONS, "unions in strict tools"),
        ];
        if let Some((_, most, of_what)) = limits.iter().find(|(count, most, _)| count > most) {
            return Err(format!("a request may have {most} {of_what}"));
        }
        self.n_strict = n_strict;
        self.spent = Cost { n_optional, n_unions };
        Ok(())
    }

    fn declared(&mut self, tool: &ToolDefinition, input: InputSchema) -> Value {
        let name = self.names.to_provider(&tool.name).to_owned();
        let mut declared = Map::new();
        declared.insert("name".to_owned(), name.into());
        self.describe(tool, &mut declared);
        match self.format {
            ModelFormat::Anthropic => {
                declared.extend(input.schema.map(|schema| ("input_schema".to_owned(), schema)));
                if input.is_strict {
                    declared.insert("strict".to_owned(), json!(true));
                }
                declared.into()
            }
            ModelFormat::OpenAi => {
                declared.extend(input.schema.map(|schema| ("parameters".to_owned(), schema)));
                if self.options.strict {
                    declared.insert("strict".to_owned(), input.is_strict.into());
                }
                json!({"type": "function", "function": declared})
            }
            ModelFormat::OpenAiResponses => {
                declared.shift_insert(0, "type".to_owned(), json!("function"));
                declared.extend(input.schema.map(|schema| ("parameters".to_owned(), schema)));
                // Strict is the default of this API, so it is always written.
                declared.insert("strict".to_owned(), input.is_strict.into());
                declared.into()
            }
            ModelFormat::Gemini => {
                declared.extend(input.schema.map(|schema| ("parameters".to_owned(), schema)));
                declared.into()
            }
            ModelFormat::Mcp => self.of_mcp(tool, &input.schema.unwrap_or_default()),
        }
    }

    fn describe(&self, tool: &ToolDefinition, declared: &mut Map<String, Value>) {
        declared.insert("description".to_owned(), tool.described().into());
    }

    fn of_mcp(&mut self, tool: &ToolDefinition, input: &Value) -> Value {
        // Before 2026-07-28 only objects are allowed.
        let is_object = |output: &&Value| output["type"] == "object";
        let output_schema = tool.output.as_ref().filter(is_object);
        if output_schema.is_none() && tool.output.is_some() {
            self.note(&tool.name, "its output schema is not for an object and is left out");
        }
        let ToolAnnotations { read_only, destructive, idempotent, open_world } = tool.annotations;
        let title = tool.title.as_deref();
        let definition = haft_mcp::McpToolDefinition {
            name: self.names.to_provider(&tool.name),
            title,
            description: tool.described(),
            input_schema: input,
            output_schema,
            annotations: haft_mcp::McpAnnotations {
                title,
                read_only_hint: read_only,
                destructive_hint: destructive,
                idempotent_hint: idempotent,
                open_world_hint: open_world,
            },
        };
        json!(definition)
    }

    fn finish(mut self) -> ToolDefinitions {
        let n_tools = self.tools.len();
        let most = match self.format {
            ModelFormat::OpenAi | ModelFormat::OpenAiResponses => 128,
            ModelFormat::Gemini => 512,
            ModelFormat::Anthropic | ModelFormat::Mcp => usize::MAX,
        };
        if n_tools > most {
            let what = format!(
                "{n_tools} tools are declared, but {} takes {most} in a request; offer fewer",
                self.format
            );
            self.notes.push(Note { tool: None, what });
        }
        let tools = match self.format {
            ModelFormat::Gemini if n_tools > 0 => json!([{"functionDeclarations": self.tools}]),
            _ => Value::Array(self.tools),
        };
        ToolDefinitions { tools, names: self.names, notes: self.notes }
    }
}

/// Maximum nesting of a schema that is passed on unchanged. The JSON around it must stay below the
/// limit of parsers.
const MAX_DEPTH: usize = 100;

/// Passes a schema on unchanged, as MCP allows; only the root must declare that it is an object.
fn unchanged(schema: &Value) -> Result<InputSchema, String> {
    let Value::Object(object) = schema else {
        return Err("its schema is not a JSON object".to_owned());
    };
    if is_deeper(schema, MAX_DEPTH) {
        return Err(format!("its schema is nested deeper than {MAX_DEPTH} levels"));
    }
    let mut object = object.clone();
    match object.get("type") {
        Some(Value::String(name)) if name == "object" => {}
        Some(Value::String(name)) if name.eq_ignore_ascii_case("object") => {
            object.insert("type".to_owned(), json!("object"));
        }
        Some(Value::Array(names)) if names.contains(&json!("object")) => {
            object.insert("type".to_owned(), json!("object"));
        }
        None => drop(object.shift_insert(0, "type".to_owned(), json!("object"))),
        Some(_) => return Err("its schema is not for an object".to_owned()),
    }
    Ok(InputSchema { schema: Some(object.into()), restore: Restore::default(), is_strict: false })
}

/// Checks the depth without recursion, because the depth is unknown.
fn is_deeper(value: &Value, most: usize) -> bool {
    let mut open = vec![(value, 1)];
    while let Some((value, level)) = open.pop() {
        if level > most {
            return true;
        }
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, level + 1))),
            Value::Object(object) => open.extend(object.values().map(|item| (item, level + 1))),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use haft_core::Power;

    use super::*;

    fn tool(name: &str, input: Value) -> ToolDefinition {
        ToolDefinition { description: format!("Does {name}."), ..ToolDefinition::new(name, input) }
    }

    fn closed(properties: Value) -> Value {
        json!({"type": "object", "properties": properties, "additionalProperties": false})
    }

    #[track_caller]
    fn check(format: ModelFormat, options: FormatOptions, expected: Value) {
        let hello = tool("hello", closed(json!({"name": {"type": "string"}})));
        let declared = definitions(format, &[hello], &options);
        assert_eq!(declared.tools, expected);
        assert_eq!(declared.notes, []);
    }

    #[test]
    fn each_provider_has_its_own_envelope() {
        let plain = closed(json!({"name": {"type": "string"}}));
        let nullable = json!({"type": "object", "properties": {"name": {"type": ["string", "null"]}},
            "required": ["name"], "additionalProperties": false});
        let optional = json!({"type": "object", "properties": {"name": {"type": "string"}},
            "required": [], "additionalProperties": false});
        let (usual, strict) = (FormatOptions::default(), FormatOptions::strict());
        check(
            ModelFormat::Anthropic,
            usual,
            json!([{"name": "hello", "description": "Does hello.", "input_schema": plain}]),
        );
        check(
            ModelFormat::Anthropic,
            strict,
            json!([{"name": "hello", "description": "Does hello.", "input_schema": optional, "strict": true}]),
        );
        check(
            ModelFormat::OpenAi,
            usual,
            json!([{"type": "function", "function": {"name": "hello", "description": "Does hello.", "parameters": plain}}]),
        );
        check(
            ModelFormat::OpenAi,
            strict,
            json!([{"type": "function", "function": {"name": "hello", "description": "Does hello.", "parameters": nullable, "strict": true}}]),
        );
        check(
            ModelFormat::OpenAiResponses,
            usual,
            json!([{"type": "function", "name": "hello", "description": "Does hello.", "parameters": plain, "strict": false}]),
        );
        check(
            ModelFormat::OpenAiResponses,
            strict,
            json!([{"type": "function", "name": "hello", "description": "Does hello.", "parameters": nullable, "strict": true}]),
        );
        check(
            ModelFormat::Gemini,
            usual,
            json!([{"functionDeclarations": [{"name": "hello", "description": "Does hello.",
                "parameters": {"type": "OBJECT", "properties": {"name": {"type": "STRING"}}}}]}]),
        );
        check(
            ModelFormat::Mcp,
            usual,
            json!([{"name": "hello", "description": "Does hello.", "inputSchema": plain}]),
        );
    }

    #[test]
    fn mcp_gets_effects_titles_and_outputs() {
        let schema = Schema::from_value(closed(json!({}))).expect("a schema");
        let mut spec =
            ToolSpec::declared("test", "run_tests", "Runs.", schema.clone()).needs([Power::Shell]);
        spec.output = Some(schema);
        let declared = definitions(
            ModelFormat::Mcp,
            &[ToolDefinition::from(&spec)],
            &FormatOptions::default(),
        );
        assert_eq!(
            declared.tools[0],
            json!({"name": "run_tests", "title": "Run tests", "description": "Runs.", "inputSchema": closed(json!({})),
                "outputSchema": closed(json!({})), "annotations": {"title": "Run tests", "readOnlyHint": false,
                "destructiveHint": true, "idempotentHint": false, "openWorldHint": spec.open_world}})
        );
    }

    #[test]
    fn mcp_schemas_stay_as_they_are_but_for_the_type_of_the_root() {
        let listed = |input: Value| {
            definitions(ModelFormat::Mcp, &[tool("a", input)], &FormatOptions::default())
        };
        let union = json!({"type": "object", "oneOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": {}}, "x-y": 1});
        assert_eq!(listed(union.clone()).tools[0]["inputSchema"], union);
        assert_eq!(
            listed(json!({"properties": {}})).tools[0]["inputSchema"],
            json!({"type": "object", "properties": {}})
        );
        assert_eq!(
            listed(json!({"type": "Object"})).tools[0]["inputSchema"],
            json!({"type": "object"})
        );
        for wrong in [json!({"type": "string"}), json!(null), json!("object"), json!([])] {
            let declared = listed(wrong);
            assert_eq!(declared.tools, json!([]));
            assert_eq!(declared.notes.len(), 1);
        }
        let mut deep = json!({});
        for _ in 0..101 {
            deep = json!([deep]);
        }
        let declared = listed(json!({"type": "object", "default": deep}));
        assert!(declared.notes[0].what.contains("deeper than 100 levels"));
        let mut odd = tool("a", json!({}));
        odd.output = Some(json!({"type": "array"}));
        let declared = definitions(ModelFormat::Mcp, &[odd], &FormatOptions::default());
        assert!(declared.tools[0].get("outputSchema").is_none());
        assert_eq!(declared.notes.len(), 1);
    }

    #[test]
    fn a_tool_that_cannot_be_declared_affects_no_other() {
        let tools = [
            tool("bad", json!({"type": "string"})),
            tool("good", json!({})),
            tool("worse", json!(null)),
        ];
        for format in ModelFormat::ALL {
            let declared = definitions(*format, &tools, &FormatOptions::default());
            let left_out: Vec<String> = declared.notes.iter().map(ToString::to_string).collect();
            assert!(
                left_out.iter().any(|note| note.starts_with("bad: left out: its schema is")),
                "{left_out:?}"
            );
            assert!(
                left_out.iter().any(
                    |note| note.starts_with("worse: left out: its schema is not a JSON object")
                )
            );
            assert!(declared.tools.to_string().contains("good"));
        }
    }

    #[test]
    fn a_tool_without_a_description_is_described_by_its_title_and_name() {
        for title in [None, Some("Look up".to_owned())] {
            let nameless = ToolDefinition {
                title: title.clone(),
                ..ToolDefinition::new("look_up", json!({}))
            };
            for format in ModelFormat::ALL {
                let listed_tools = definitions(
                    *format,
                    std::slice::from_ref(&nameless),
                    &FormatOptions::default(),
                );
                let listed = listed_tools
                    .tools
                    .pointer("/0/functionDeclarations/0")
                    .unwrap_or(&listed_tools.tools[0]);
                let declared = listed.get("function").unwrap_or(listed);
                let description = declared["description"].as_str().unwrap_or_default();
                assert!(
                    description.starts_with("Look up (the tool `look_up`"),
                    "{format}: {declared}"
                );
            }
        }
    }

    #[test]
    fn of_two_tools_with_one_name_the_first_stays() {
        let tools =
            [tool("a", json!({})), tool("a", json!({"type": "object", "properties": {"x": {}}}))];
        let declared = definitions(ModelFormat::OpenAi, &tools, &FormatOptions::default());
        assert_eq!(declared.tools.as_array().map(Vec::len), Some(1));
        assert_eq!(declared.notes[0].to_string(), "a: left out: another tool has the same name");
    }

    #[test]
    fn many_tools_work_and_too_many_are_reported() {
        let tools: Vec<ToolDefinition> =
            (0..130).map(|number| tool(&format!("t/{number}"), json!({}))).collect();
        for (format, n_notes) in [
            (ModelFormat::Anthropic, 0),
            (ModelFormat::OpenAi, 1),
            (ModelFormat::OpenAiResponses, 1),
            (ModelFormat::Gemini, 0),
        ] {
            let declared = definitions(format, &tools, &FormatOptions::default());
            let about_request: Vec<&Note> =
                declared.notes.iter().filter(|note| note.tool.is_none()).collect();
            assert_eq!(about_request.len(), n_notes, "{format}");
            let declared =
                declared.tools.pointer("/0/functionDeclarations").unwrap_or(&declared.tools);
            assert_eq!(declared.as_array().map(Vec::len), Some(130));
        }
    }

    #[test]
    fn a_tool_that_cannot_be_strict_is_sent_without_and_reported() {
        let tools = [
            tool("map", json!({"properties": {"labels": {"type": "object"}}})),
            tool("plain", closed(json!({}))),
        ];
        let declared = definitions(ModelFormat::OpenAi, &tools, &FormatOptions::strict());
        assert_eq!(declared.tools[0]["function"]["strict"], false);
        assert_eq!(declared.tools[1]["function"]["strict"], true);
        let notes: Vec<String> = declared.notes.iter().map(ToString::to_string).collect();
        assert_eq!(notes, ["map: sent without strict, because `labels` is an object of any shape"]);
    }

    #[test]
    fn many_losses_do_not_hide_that_a_tool_is_not_strict() {
        let odd: Map<String, Value> = (0..40)
            .map(|number| (format!("p{number}"), json!({"$ref": format!("x{number}")})))
            .collect();
        let declared = definitions(
            ModelFormat::OpenAi,
            &[tool("odd", json!({"properties": odd}))],
            &FormatOptions::strict(),
        );
        assert!(declared.notes[0].what.starts_with("sent without strict"), "{:?}", declared.notes);
        assert!(declared.notes.len() > 20);
    }

    #[test]
    fn anthropic_counts_what_is_strict_in_a_request() {
        let plain = |number: usize| tool(&format!("t{number}"), closed(json!({})));
        let tools: Vec<ToolDefinition> = (0..21).map(plain).collect();
        let declared = definitions(ModelFormat::Anthropic, &tools, &FormatOptions::strict());
        assert_eq!(declared.tools[19]["strict"], true);
        assert_eq!(declared.tools[20].get("strict"), None);
        assert_eq!(
            declared.notes[0].what,
            "sent without strict, because a request may have 20 strict tools"
        );

        let fields = |n_fields: usize, kind: Value| {
            let fields: Map<String, Value> =
                (0..n_fields).map(|number| (format!("f{number}"), json!({"type": kind}))).collect();
            closed(fields.into())
        };
        let strict = |told: &ToolDefinitions, n_tools: usize| -> Vec<bool> {
            (0..n_tools).map(|index| told.tools[index]["strict"] == true).collect()
        };
        let tools = [
            tool("a", fields(20, json!("string"))),
            tool("b", fields(24, json!("string"))),
            tool("c", fields(20, json!("string"))),
        ];
        let told = definitions(ModelFormat::Anthropic, &tools, &FormatOptions::strict());
        // `c` has four optional properties and sixteen that are null.
        assert_eq!(strict(&told, 3), [true, false, true], "a later tool that still fits is strict");
        assert_eq!(told.tools[2]["input_schema"]["required"].as_array().map(Vec::len), Some(16));
        let why = told.notes.iter().find(|note| note.tool.as_deref() == Some("b")).expect("told");
        assert_eq!(
            why.what,
            "sent without strict, because a request may have 16 unions in strict tools"
        );
        // A property that may be null and left out is sent as one that may be left out.
        let tools = [tool("a", fields(24, json!(["string", "null"])))];
        let told = definitions(ModelFormat::Anthropic, &tools, &FormatOptions::strict());
        assert_eq!(strict(&told, 1), [true]);
        assert_eq!(told.tools[0]["input_schema"]["properties"]["f0"]["type"], "string");
    }

    #[test]
    fn tools_that_change_something_are_strict_first() {
        let with = |name: &str, read_only, destructive| ToolDefinition {
            annotations: ToolAnnotations { read_only, destructive, ..ToolAnnotations::default() },
            ..tool(name, closed(json!({})))
        };
        let mut tools: Vec<ToolDefinition> =
            (0..19).map(|number| with(&format!("look{number}"), Some(true), None)).collect();
        tools.push(with("change", Some(false), Some(false)));
        tools.push(with("destroy", Some(false), Some(true)));
        let told = definitions(ModelFormat::Anthropic, &tools, &FormatOptions::strict());
        let lax: Vec<usize> =
            (0..21).filter(|index| told.tools[*index].get("strict").is_none()).collect();
        assert_eq!(lax, [18], "the last of those that only look");
        assert_eq!(told.tools[20]["name"], "destroy", "the order stays");
    }

    #[test]
    fn strict_is_reported_where_it_is_not_supported() {
        for format in [ModelFormat::Gemini, ModelFormat::Mcp] {
            let declared = definitions(format, &[], &FormatOptions::strict());
            assert_eq!(declared.notes.len(), 1, "{format}");
            assert_eq!(declared.tools, json!([]));
        }
    }
}
