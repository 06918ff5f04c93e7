//! Tools as each provider wants them declared. A tool that cannot be declared costs only itself.

use std::{borrow::Cow, collections::HashSet};

use haft_core::{Effect, Schema, ToolSpec, description_of};
use serde_json::{Map, Value, json};

use super::{
    Definitions, Format, Names, Note, Options,
    dialect::{
        gemini, liberal,
        strict::{self, Cost},
    },
    losses::Losses,
    restore::Restore,
    schema::{Node, as_object, read},
};

/// Anthropic's limits on what is strict in one request, from its guide "Structured outputs".
const MOST_STRICT_TOOLS: usize = 20;
const MOST_OPTIONAL: usize = 24;
const MOST_UNIONS: usize = 16;

/// A tool, from wherever it comes: a [`ToolSpec`] of haft's, or what an MCP server sends.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Definition {
    /// Its name in haft.
    pub name: String,
    /// A few words for people.
    pub title: Option<String>,
    /// What the model reads.
    pub description: String,
    /// The schema of the arguments: JSON Schema of any draft, or whatever a stranger takes for it.
    pub input: Value,
    /// The schema of the typed output, as MCP's structured content has it.
    pub output: Option<Value>,
    /// What is known of its effects.
    pub annotations: Annotations,
    /// Properties of the output that only repeat what the content says; MCP is not sent them twice.
    pub in_content: Vec<String>,
}

/// What is known of a tool's effects; `None` is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Annotations {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// What it changes cannot be brought back, or nobody knows.
    pub destructive: Option<bool>,
    /// Calling it twice is the same as calling it once.
    pub idempotent: Option<bool>,
    /// It reaches things nobody here controls.
    pub open_world: Option<bool>,
}

impl Definition {
    /// A tool of which only the name and the schema of its arguments are known; the other fields can be set.
    pub fn new(name: impl Into<String>, input: Value) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: String::new(),
            input,
            output: None,
            annotations: Annotations::default(),
            in_content: Vec::new(),
        }
    }

    /// Returns the description, or a substitute for an empty one.
    fn described(&self) -> Cow<'_, str> {
        description_of(&self.description, self.title.as_deref(), &self.name)
    }
}

impl From<&ToolSpec> for Definition {
    /// The description is taken as it stands: fill its variables first, as `Registry::definitions` does.
    fn from(spec: &ToolSpec) -> Self {
        let is_destructive = matches!(spec.effect, Effect::Destructive | Effect::Execute);
        Self {
            name: spec.name.to_string(),
            title: Some(spec.title.to_string()),
            description: spec.description.to_string(),
            input: spec.input.as_value().clone(),
            output: spec.output.as_ref().map(Schema::beside_content),
            annotations: Annotations {
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
    let beside = output.beside_content();
    let is_left = |name: &&str| beside["properties"].get(*name).is_none();
    output.properties().map(|(name, _)| name).filter(is_left).map(str::to_owned).collect()
}

/// Tools as a provider takes them, in the order given. Every tool is either in [`Definitions::tools`] or has a note that
/// says why it is not. Where a request may have few strict tools, those that change something come first.
pub fn definitions(format: Format, tools: &[Definition], options: &Options) -> Definitions {
    let names = Names::new(format, tools.iter().map(|tool| tool.name.as_str()));
    let mut list = List::new(format, *options, names);
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
fn strict_rank(annotations: &Annotations) -> u8 {
    match (annotations.read_only, annotations.destructive) {
        (Some(true), _) => 2,
        (_, Some(false)) => 1,
        _ => 0,
    }
}

/// Definitions in the making.
struct List {
    format: Format,
    options: Options,
    names: Names,
    tools: Vec<Value>,
    notes: Vec<Note>,
    n_strict: usize,
    spent: Cost,
}

/// The schema of one tool's input, and whether it binds.
struct Input {
    schema: Option<Value>,
    restore: Restore,
    is_strict: bool,
}

/// A tool's input, before it is listed.
struct WrittenTool {
    /// Or why the tool is left out.
    input: Result<Input, String>,
    losses: Losses,
    /// Why it is not strict, though that was asked for.
    not_strict: Option<String>,
}

impl List {
    fn new(format: Format, options: Options, names: Names) -> Self {
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
            let what = format!("{} has no strict mode, so no schema binds", self.format);
            self.notes.push(Note { tool: None, what });
        }
    }

    fn write(&mut self, tool: &Definition) -> WrittenTool {
        let (mut losses, mut not_strict) = (Losses::default(), None);
        let input = match self.format {
            Format::Mcp => as_it_is(&tool.input),
            _ => self.input(tool, &mut losses, &mut not_strict),
        };
        WrittenTool { input, losses, not_strict }
    }

    fn add(&mut self, tool: &Definition, WrittenTool { input, losses, not_strict }: WrittenTool) {
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
        tool: &Definition,
        losses: &mut Losses,
        not_strict: &mut Option<String>,
    ) -> Result<Input, String> {
        if !tool.input.is_object() {
            return Err("its schema is no JSON object".to_owned());
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
        let (schema, restore) = if self.format == Format::Gemini {
            gemini::write(&root, losses)?
        } else {
            let (schema, restore) = liberal::write(self.format, &root, losses)?;
            (Some(schema), restore)
        };
        Ok(Input { schema, restore, is_strict: false })
    }

    fn strict(&mut self, root: &Node, losses: &mut Losses) -> Result<Input, String> {
        let max_optional = MOST_OPTIONAL - self.spent.n_optional;
        let (schema, restore, cost) = strict::write(self.format, root, max_optional, losses)?;
        if self.format == Format::Anthropic {
            self.spend(cost)?;
        }
        Ok(Input { schema: Some(schema), restore, is_strict: true })
    }

    /// First come, first served; see [`strict_rank`].
    fn spend(&mut self, cost: Cost) -> Result<(), String> {
        let n_strict = self.n_strict + 1;
        let n_optional = self.spent.n_optional + cost.n_optional;
        let n_unions = self.spent.n_unions + cost.n_unions;
        let limits = [
            (n_strict, MOST_STRICT_TOOLS, "strict tools"),
            (n_optional, MOST_OPTIONAL, "optional properties in strict tools"),
            (n_unions, MOST_UNIONS, "unions in strict tools"),
        ];
        if let Some((_, most, of_what)) = limits.iter().find(|(count, most, _)| count > most) {
            return Err(format!("a request may have {most} {of_what}"));
        }
        self.n_strict = n_strict;
        self.spent = Cost { n_optional, n_unions };
        Ok(())
    }

    fn declared(&mut self, tool: &Definition, input: Input) -> Value {
        let name = self.names.to_provider(&tool.name).to_owned();
        let mut declared = Map::new();
        declared.insert("name".to_owned(), name.into());
        self.describe(tool, &mut declared);
        match self.format {
            Format::Anthropic => {
                declared.extend(input.schema.map(|schema| ("input_schema".to_owned(), schema)));
                if input.is_strict {
                    declared.insert("strict".to_owned(), json!(true));
                }
                declared.into()
            }
            Format::OpenAi => {
                declared.extend(input.schema.map(|schema| ("parameters".to_owned(), schema)));
                if self.options.strict {
                    declared.insert("strict".to_owned(), input.is_strict.into());
                }
                json!({"type": "function", "function": declared})
            }
            Format::OpenAiResponses => {
                declared.shift_insert(0, "type".to_owned(), json!("function"));
                declared.extend(input.schema.map(|schema| ("parameters".to_owned(), schema)));
                // Strict is the default there, so it is said either way.
                declared.insert("strict".to_owned(), input.is_strict.into());
                declared.into()
            }
            Format::Gemini => {
                declared.extend(input.schema.map(|schema| ("parameters".to_owned(), schema)));
                declared.into()
            }
            Format::Mcp => self.of_mcp(tool, &input.schema.unwrap_or_default()),
        }
    }

    fn describe(&self, tool: &Definition, declared: &mut Map<String, Value>) {
        declared.insert("description".to_owned(), tool.described().into());
    }

    fn of_mcp(&mut self, tool: &Definition, input: &Value) -> Value {
        // Before 2026-07-28 nothing else is allowed.
        let is_object = |output: &&Value| output["type"] == "object";
        let output_schema = tool.output.as_ref().filter(is_object);
        if output_schema.is_none() && tool.output.is_some() {
            self.note(&tool.name, "its output schema is not for an object and is left out");
        }
        let Annotations { read_only, destructive, idempotent, open_world } = tool.annotations;
        let title = tool.title.as_deref();
        let definition = haft_mcp::Definition {
            name: self.names.to_provider(&tool.name),
            title,
            description: tool.described(),
            input_schema: input,
            output_schema,
            annotations: haft_mcp::Annotations {
                title,
                read_only_hint: read_only,
                destructive_hint: destructive,
                idempotent_hint: idempotent,
                open_world_hint: open_world,
            },
        };
        json!(definition)
    }

    fn finish(mut self) -> Definitions {
        let n_tools = self.tools.len();
        let most = match self.format {
            Format::OpenAi | Format::OpenAiResponses => 128,
            Format::Gemini => 512,
            Format::Anthropic | Format::Mcp => usize::MAX,
        };
        if n_tools > most {
            let what = format!(
                "{n_tools} tools are declared, but {} takes {most} in a request; offer fewer",
                self.format
            );
            self.notes.push(Note { tool: None, what });
        }
        let tools = match self.format {
            Format::Gemini if n_tools > 0 => json!([{"functionDeclarations": self.tools}]),
            _ => Value::Array(self.tools),
        };
        Definitions { tools, names: self.names, notes: self.notes }
    }
}

/// How deep a schema may be nested that is handed on as it is: the JSON around it must stay below what readers take.
const MOST_DEPTH: usize = 100;

/// MCP takes JSON Schema whole; only the root must say that it is an object.
fn as_it_is(schema: &Value) -> Result<Input, String> {
    let Value::Object(object) = schema else {
        return Err("its schema is no JSON object".to_owned());
    };
    if is_deeper(schema, MOST_DEPTH) {
        return Err(format!("its schema is nested deeper than {MOST_DEPTH} levels"));
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
    Ok(Input { schema: Some(object.into()), restore: Restore::default(), is_strict: false })
}

/// Counted without recursion: nobody knows yet how deep it is.
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

    fn tool(name: &str, input: Value) -> Definition {
        Definition { description: format!("Does {name}."), ..Definition::new(name, input) }
    }

    fn closed(properties: Value) -> Value {
        json!({"type": "object", "properties": properties, "additionalProperties": false})
    }

    #[track_caller]
    fn check(format: Format, options: Options, expected: Value) {
        let hello = tool("hello", closed(json!({"name": {"type": "string"}})));
        let told = definitions(format, &[hello], &options);
        assert_eq!(told.tools, expected);
        assert_eq!(told.notes, []);
    }

    #[test]
    fn each_provider_has_its_own_envelope() {
        let plain = closed(json!({"name": {"type": "string"}}));
        let nullable = json!({"type": "object", "properties": {"name": {"type": ["string", "null"]}},
            "required": ["name"], "additionalProperties": false});
        let optional = json!({"type": "object", "properties": {"name": {"type": "string"}},
            "required": [], "additionalProperties": false});
        let (usual, strict) = (Options::default(), Options::strict());
        check(
            Format::Anthropic,
            usual,
            json!([{"name": "hello", "description": "Does hello.", "input_schema": plain}]),
        );
        check(
            Format::Anthropic,
            strict,
            json!([{"name": "hello", "description": "Does hello.", "input_schema": optional, "strict": true}]),
        );
        check(
            Format::OpenAi,
            usual,
            json!([{"type": "function", "function": {"name": "hello", "description": "Does hello.", "parameters": plain}}]),
        );
        check(
            Format::OpenAi,
            strict,
            json!([{"type": "function", "function": {"name": "hello", "description": "Does hello.", "parameters": nullable, "strict": true}}]),
        );
        check(
            Format::OpenAiResponses,
            usual,
            json!([{"type": "function", "name": "hello", "description": "Does hello.", "parameters": plain, "strict": false}]),
        );
        check(
            Format::OpenAiResponses,
            strict,
            json!([{"type": "function", "name": "hello", "description": "Does hello.", "parameters": nullable, "strict": true}]),
        );
        check(
            Format::Gemini,
            usual,
            json!([{"functionDeclarations": [{"name": "hello", "description": "Does hello.",
                "parameters": {"type": "OBJECT", "properties": {"name": {"type": "STRING"}}}}]}]),
        );
        check(
            Format::Mcp,
            usual,
            json!([{"name": "hello", "description": "Does hello.", "inputSchema": plain}]),
        );
    }

    #[test]
    fn mcp_is_told_of_effects_titles_and_outputs() {
        let schema = Schema::from_value(closed(json!({}))).expect("a schema");
        let mut spec =
            ToolSpec::declared("test", "run_tests", "Runs.", schema.clone()).needs([Power::Shell]);
        spec.output = Some(schema);
        let told = definitions(Format::Mcp, &[Definition::from(&spec)], &Options::default());
        assert_eq!(
            told.tools[0],
            json!({"name": "run_tests", "title": "Run tests", "description": "Runs.", "inputSchema": closed(json!({})),
                "outputSchema": closed(json!({})), "annotations": {"title": "Run tests", "readOnlyHint": false,
                "destructiveHint": true, "idempotentHint": false, "openWorldHint": spec.open_world}})
        );
    }

    #[test]
    fn mcp_schemas_stay_as_they_are_but_for_the_type_of_the_root() {
        let listed =
            |input: Value| definitions(Format::Mcp, &[tool("a", input)], &Options::default());
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
            let told = listed(wrong);
            assert_eq!(told.tools, json!([]));
            assert_eq!(told.notes.len(), 1);
        }
        let mut deep = json!({});
        for _ in 0..101 {
            deep = json!([deep]);
        }
        let told = listed(json!({"type": "object", "default": deep}));
        assert!(told.notes[0].what.contains("deeper than 100 levels"));
        let mut odd = tool("a", json!({}));
        odd.output = Some(json!({"type": "array"}));
        let told = definitions(Format::Mcp, &[odd], &Options::default());
        assert!(told.tools[0].get("outputSchema").is_none());
        assert_eq!(told.notes.len(), 1);
    }

    #[test]
    fn a_tool_that_cannot_be_declared_costs_only_itself() {
        let tools = [
            tool("bad", json!({"type": "string"})),
            tool("good", json!({})),
            tool("worse", json!(null)),
        ];
        for format in Format::ALL {
            let told = definitions(*format, &tools, &Options::default());
            let left_out: Vec<String> = told.notes.iter().map(ToString::to_string).collect();
            assert!(
                left_out.iter().any(|note| note.starts_with("bad: left out: its schema is")),
                "{left_out:?}"
            );
            assert!(
                left_out
                    .iter()
                    .any(|note| note.starts_with("worse: left out: its schema is no JSON object"))
            );
            assert!(told.tools.to_string().contains("good"));
        }
    }

    #[test]
    fn a_tool_without_a_description_is_described_by_its_title_and_name() {
        for title in [None, Some("Look up".to_owned())] {
            let nameless =
                Definition { title: title.clone(), ..Definition::new("look_up", json!({})) };
            for format in Format::ALL {
                let told =
                    definitions(*format, std::slice::from_ref(&nameless), &Options::default());
                let listed =
                    told.tools.pointer("/0/functionDeclarations/0").unwrap_or(&told.tools[0]);
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
        let told = definitions(Format::OpenAi, &tools, &Options::default());
        assert_eq!(told.tools.as_array().map(Vec::len), Some(1));
        assert_eq!(told.notes[0].to_string(), "a: left out: another tool has the same name");
    }

    #[test]
    fn many_tools_work_and_too_many_are_told() {
        let tools: Vec<Definition> =
            (0..130).map(|number| tool(&format!("t/{number}"), json!({}))).collect();
        for (format, n_notes) in [
            (Format::Anthropic, 0),
            (Format::OpenAi, 1),
            (Format::OpenAiResponses, 1),
            (Format::Gemini, 0),
        ] {
            let told = definitions(format, &tools, &Options::default());
            let about_request: Vec<&Note> =
                told.notes.iter().filter(|note| note.tool.is_none()).collect();
            assert_eq!(about_request.len(), n_notes, "{format}");
            let declared = told.tools.pointer("/0/functionDeclarations").unwrap_or(&told.tools);
            assert_eq!(declared.as_array().map(Vec::len), Some(130));
        }
    }

    #[test]
    fn what_cannot_be_strict_is_sent_without_and_told() {
        let tools = [
            tool("map", json!({"properties": {"labels": {"type": "object"}}})),
            tool("plain", closed(json!({}))),
        ];
        let told = definitions(Format::OpenAi, &tools, &Options::strict());
        assert_eq!(told.tools[0]["function"]["strict"], false);
        assert_eq!(told.tools[1]["function"]["strict"], true);
        let notes: Vec<String> = told.notes.iter().map(ToString::to_string).collect();
        assert_eq!(notes, ["map: sent without strict, because `labels` is an object of any shape"]);
    }

    #[test]
    fn much_that_is_lost_does_not_hide_that_a_tool_is_not_strict() {
        let odd: Map<String, Value> = (0..40)
            .map(|number| (format!("p{number}"), json!({"$ref": format!("x{number}")})))
            .collect();
        let told = definitions(
            Format::OpenAi,
            &[tool("odd", json!({"properties": odd}))],
            &Options::strict(),
        );
        assert!(told.notes[0].what.starts_with("sent without strict"), "{:?}", told.notes);
        assert!(told.notes.len() > 20);
    }

    #[test]
    fn anthropic_counts_what_is_strict_in_a_request() {
        let plain = |number: usize| tool(&format!("t{number}"), closed(json!({})));
        let tools: Vec<Definition> = (0..21).map(plain).collect();
        let told = definitions(Format::Anthropic, &tools, &Options::strict());
        assert_eq!(told.tools[19]["strict"], true);
        assert_eq!(told.tools[20].get("strict"), None);
        assert_eq!(
            told.notes[0].what,
            "sent without strict, because a request may have 20 strict tools"
        );

        let fields = |n_fields: usize, kind: Value| {
            let fields: Map<String, Value> =
                (0..n_fields).map(|number| (format!("f{number}"), json!({"type": kind}))).collect();
            closed(fields.into())
        };
        let strict = |told: &Definitions, n_tools: usize| -> Vec<bool> {
            (0..n_tools).map(|index| told.tools[index]["strict"] == true).collect()
        };
        let tools = [
            tool("a", fields(20, json!("string"))),
            tool("b", fields(24, json!("string"))),
            tool("c", fields(20, json!("string"))),
        ];
        let told = definitions(Format::Anthropic, &tools, &Options::strict());
        // `c` has four optional properties and sixteen that are null.
        assert_eq!(strict(&told, 3), [true, false, true], "who fits into what is left gets it");
        assert_eq!(told.tools[2]["input_schema"]["required"].as_array().map(Vec::len), Some(16));
        let why = told.notes.iter().find(|note| note.tool.as_deref() == Some("b")).expect("told");
        assert_eq!(
            why.what,
            "sent without strict, because a request may have 16 unions in strict tools"
        );
        // A property that may be null and left out is sent as one that may be left out.
        let tools = [tool("a", fields(24, json!(["string", "null"])))];
        let told = definitions(Format::Anthropic, &tools, &Options::strict());
        assert_eq!(strict(&told, 1), [true]);
        assert_eq!(told.tools[0]["input_schema"]["properties"]["f0"]["type"], "string");
    }

    #[test]
    fn tools_that_change_something_are_strict_first() {
        let with = |name: &str, read_only, destructive| Definition {
            annotations: Annotations { read_only, destructive, ..Annotations::default() },
            ..tool(name, closed(json!({})))
        };
        let mut tools: Vec<Definition> =
            (0..19).map(|number| with(&format!("look{number}"), Some(true), None)).collect();
        tools.push(with("change", Some(false), Some(false)));
        tools.push(with("destroy", Some(false), Some(true)));
        let told = definitions(Format::Anthropic, &tools, &Options::strict());
        let lax: Vec<usize> =
            (0..21).filter(|index| told.tools[*index].get("strict").is_none()).collect();
        assert_eq!(lax, [18], "the last of those that only look");
        assert_eq!(told.tools[20]["name"], "destroy", "the order stays");
    }

    #[test]
    fn strict_is_told_where_it_means_nothing() {
        for format in [Format::Gemini, Format::Mcp] {
            let told = definitions(format, &[], &Options::strict());
            assert_eq!(told.notes.len(), 1, "{format}");
            assert_eq!(told.tools, json!([]));
        }
    }
}
