//! Schemas of strangers: every one in every format ends quickly, is declared by the rules or left out with a reason, and
//! whatever was a valid input still is one and comes back as it was.

use haft_core::Input;
use serde_json::{Map, Value, json};

use super::{declaration, json_schema, response, told, ways};
use crate::formats::{Definition, Format, Options, calls, definitions};

const SCHEMAS: &str = include_str!("../../../tests/foreign/schemas.json");

struct Entry {
    name: String,
    tool: Definition,
    inputs: Vec<Value>,
    is_left_out: bool,
    /// Strict cannot tell the samples from others, by its nature.
    narrows: bool,
}

fn entry(name: &str, schema: Value, inputs: Vec<Value>) -> Entry {
    let tool = Definition::new(name, schema);
    Entry { name: name.to_owned(), tool, inputs, is_left_out: false, narrows: false }
}

fn entries() -> Vec<Entry> {
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

/// Those that are too large to write down.
fn large() -> Vec<Entry> {
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
fn there_are_enough_of_them() {
    let entries = entries();
    assert!(entries.len() > 100, "{}", entries.len());
    let mut names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), entries.len(), "every entry has a name of its own");
}

#[test]
fn every_one_is_declared_by_the_rules_or_left_out_with_a_reason() {
    for entry in entries() {
        for (format, options) in ways().filter(|(format, _)| *format != Format::Mcp) {
            // What grows without bound does not come back from here.
            let told = told(format, options, &entry.tool);
            let is_there = declaration(format, &told).is_some();
            let notes: Vec<String> = told.notes.iter().map(ToString::to_string).collect();
            // Only dialects without anything beside alternatives multiply.
            let multiplies =
                format == Format::Gemini && entry.name == "a wide base beside many alternatives";
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
        let _ = told(Format::Mcp, Options::default(), &entry.tool);
    }
}

#[test]
fn what_was_valid_stays_valid_and_comes_back_as_it_was() {
    for entry in entries() {
        for (format, options) in ways() {
            let told = told(format, options, &entry.tool);
            let Some(tool) = declaration(format, &told) else { continue };
            let schema = json_schema(format, tool);
            let is_strict = tool.get("strict") == Some(&json!(true));
            for input in &entry.inputs {
                if is_strict && entry.narrows {
                    continue;
                }
                let sent = told.names.restore_of(&entry.tool.name).disguise(input);
                let what =
                    format!("{} in {format}, {options:?}: {sent} against {schema}", entry.name);
                if format != Format::Mcp {
                    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
                    assert!(validator.is_valid(&sent), "{what}");
                }
                let name = told.names.to_provider(&entry.tool.name);
                let mut found =
                    calls(format, &response(format, name, &sent), &told.names).expect("a message");
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
fn all_of_them_at_once_are_told_with_names_of_their_own() {
    let tools: Vec<Definition> = entries().into_iter().map(|entry| entry.tool).collect();
    for (format, options) in ways() {
        let told = definitions(format, &tools, &options);
        for tool in &tools {
            let name = told.names.to_provider(&tool.name);
            assert_eq!(told.names.to_haft(name), tool.name);
        }
    }
}

#[test]
fn tools_are_left_out_with_words_that_name_the_reason() {
    let reason = |name: &str| {
        let entry = entries().into_iter().find(|entry| entry.name == name).expect("it is there");
        definitions(Format::OpenAi, &[entry.tool], &Options::default()).notes[0].what.clone()
    };
    assert!(reason("billion laughs").starts_with("left out: its schema has more than"));
    assert_eq!(reason("root array"), "left out: its schema is for array, not for an object");
    assert_eq!(reason("schema text"), "left out: its schema is no JSON object");
    assert_eq!(reason("root scalars"), "left out: none of its alternatives is an object");
}
