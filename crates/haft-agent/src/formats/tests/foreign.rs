//! Schemas of real servers: each is converted quickly in every format, and is declared by the rules
//! or left out with a reason. Inputs that were valid stay valid and are restored unchanged.

use haft_core::Input;
use serde_json::{Map, Value, json};

use super::{combinations, declaration, declared, json_schema, response};
use crate::formats::{FormatOptions, ModelFormat, ToolDefinition, calls, definitions};

const SCHEMAS: &str = include_str!("../../../tests/foreign/schemas.json");

struct TestSchema {
    name: String,
    tool: ToolDefinition,
    inputs: Vec<Value>,
    is_left_out: bool,
    /// True if strict mode cannot accept the samples.
    narrows: bool,
}

fn entry(name: &str, schema: Value, inputs: Vec<Value>) -> TestSchema {
    let tool = ToolDefinition::new(name, schema);
    TestSchema { name: name.to_owned(), tool, inputs, is_left_out: false, narrows: false }
}

fn entries() -> Vec<TestSchema> {
    let written: Vec<Value> = serde_json::from_str(SCHEMAS).expect("JSON");
    let read = |written: &Value| {
        let name = written["name"].as_str().expect("a name");
        let inputs = written["inputs"].as_array().cloned().unwrap_or_default();
        let mut entry = entry(name, written["schema"].clone(), inputs);
        if let Some(tool) = written["tool"].as_str() {
            entry.tool.name = tool.to_owned();
        }
        entry.is_left_out = written["left_out"] == true;
        entry.narrows = written["narrows"] == true;
        entry
    };
    written.iter().map(read).chain(large()).collect()
}

/// Schemas that are too large for the file.
fn large() -> Vec<TestSchema> {
    let string = json!({"type": "string"});
    let properties: Map<String, Value> =
        (0..129).map(|number| (format!("field_{number}"), string.clone())).collect();
    let values: Vec<String> = (0..1000).map(|number| format!("value-{number}")).collect();
    let mut nested = string.clone();
    for _ in 0..62 {
        nested = json!({"type": "object", "properties": {"a": nested}});
    }
    let mut lists = string.clone();
    for _ in 0..125 {
        lists = json!({"items": lists});
    }
    let mut unions = string.clone();
    for _ in 0..60 {
        unions = json!({"type": ["object", "string", "null"], "properties": {"a": unions}});
    }
    let variants: Vec<Value> = (0..300)
        .map(|number| json!({"type": "object", "properties": {"kind": {"const": format!("k{number}")}, "x": {"type": "string", "maxLength": number}}}))
        .collect();
    let mut laughs = Map::new();
    for number in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", number + 1)});
        laughs.insert(format!("d{number}"), json!({"anyOf": [next, next, next]}));
    }
    laughs.insert("d40".to_owned(), string);
    let mut bomb = entry(
        "billion laughs",
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": laughs}),
        vec![],
    );
    bomb.is_left_out = true;
    let wide: Map<String, Value> =
        (0..20_000).map(|number| (format!("p{number}"), json!({}))).collect();
    let mut wide = entry("20000 properties", json!({"type": "object", "properties": wide}), vec![]);
    wide.is_left_out = true;
    let product = entry(
        "a wide base beside many alternatives",
        json!({"type": "object", "properties": {"a": {"type": "object", "properties": properties, "anyOf": variants}}}),
        vec![],
    );
    vec![
        entry(
            "129 properties",
            json!({"type": "object", "properties": properties}),
            vec![json!({"field_3": "x"})],
        ),
        entry(
            "1000 values",
            json!({"type": "object", "properties": {"a": {"enum": values}}}),
            vec![json!({"a": "value-7"})],
        ),
        entry(
            "100 KB of description",
            json!({"type": "object", "properties": {"a": {"type": "string", "description": "word ".repeat(20_000)}}}),
            vec![json!({"a": "x"})],
        ),
        entry(
            "deep objects",
            json!({"type": "object", "properties": {"a": nested}}),
            vec![json!({"a": {"a": {"a": {}}}})],
        ),
        entry(
            "deep lists",
            json!({"type": "object", "properties": {"a": lists}}),
            vec![json!({"a": [[[]]]})],
        ),
        entry(
            "deep unions",
            json!({"type": "object", "properties": {"a": unions}}),
            vec![json!({"a": {"a": "x"}})],
        ),
        entry(
            "300 alternatives at the root",
            json!({"anyOf": variants}),
            vec![json!({"kind": "k9", "x": "y"})],
        ),
        product,
        bomb,
        wide,
    ]
}

#[test]
fn there_are_enough_schemas() {
    let entries = entries();
    assert!(entries.len() > 100, "{}", entries.len());
    let mut names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), entries.len(), "the names are unique");
}

#[test]
fn every_schema_is_declared_by_the_rules_or_left_out_with_a_reason() {
    for entry in entries() {
        for (format, options) in combinations().filter(|(format, _)| *format != ModelFormat::Mcp) {
            // Unbounded growth would never return here.
            let declared = declared(format, options, &entry.tool);
            let is_there = declaration(format, &declared).is_some();
            let notes: Vec<String> = declared.notes.iter().map(ToString::to_string).collect();
            // Only dialects without keywords beside alternatives multiply.
            let multiplies = format == ModelFormat::Gemini
                && entry.name == "a wide base beside many alternatives";
            assert_eq!(
                is_there,
                !entry.is_left_out && !multiplies,
                "{} in {format}: {notes:?}",
                entry.name
            );
            assert_eq!(
                is_there,
                !notes.iter().any(|note| note.contains("left out: ")),
                "{notes:?}"
            );
        }
        let _ = declared(ModelFormat::Mcp, FormatOptions::default(), &entry.tool);
    }
}

#[test]
fn valid_inputs_stay_valid_and_are_restored_unchanged() {
    for entry in entries() {
        for (format, options) in combinations() {
            let declared = declared(format, options, &entry.tool);
            let Some(tool) = declaration(format, &declared) else { continue };
            let schema = json_schema(format, tool);
            let is_strict = tool.get("strict") == Some(&json!(true));
            for input in &entry.inputs {
                if is_strict && entry.narrows {
                    continue;
                }
                let sent = declared.names.restore_of(&entry.tool.name).as_sent(input);
                let what =
                    format!("{} in {format}, {options:?}: {sent} against {schema}", entry.name);
                if format != ModelFormat::Mcp {
                    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
                    assert!(validator.is_valid(&sent), "{what}");
                }
                let name = declared.names.to_provider(&entry.tool.name);
                let mut found = calls(format, &response(format, name, &sent), &declared.names)
                    .expect("a message");
                let call = found.remove(0).unwrap_or_else(|bad| panic!("{what}: {bad:?}"));
                let back = match call.input {
                    Input::Value(value) => value,
                    Input::Text(text) => serde_json::from_str(&text).expect("it was written by us"),
                };
                assert_eq!(
                    (call.name.as_str(), &back),
                    (entry.tool.name.as_str(), input),
                    "{what}"
                );
            }
        }
    }
}

#[test]
fn all_schemas_together_have_unique_names() {
    let tools: Vec<ToolDefinition> = entries().into_iter().map(|entry| entry.tool).collect();
    for (format, options) in combinations() {
        let declared = definitions(format, &tools, &options);
        for tool in &tools {
            let name = declared.names.to_provider(&tool.name);
            assert_eq!(declared.names.to_haft(name), tool.name);
        }
    }
}

#[test]
fn tools_are_left_out_with_a_reason() {
    let reason = |name: &str| {
        let entry = entries().into_iter().find(|entry| entry.name == name).expect("it is there");
        definitions(ModelFormat::OpenAi, &[entry.tool], &FormatOptions::default()).notes[0]
            .what
            .clone()
    };
    assert!(reason("billion laughs").starts_with("left out: its schema has more than"));
    assert_eq!(reason("root array"), "left out: its schema is for array, not for an object");
    assert_eq!(reason("schema text"), "left out: its schema is not a JSON object");
    assert_eq!(reason("root scalars"), "left out: none of its alternatives is an object");
}
