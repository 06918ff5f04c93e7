//! A small validator for the rules of each provider, independent of the code that follows them.

use serde_json::{Map, Value, json};

use super::{FormatOptions, ModelFormat, declaration};
use crate::formats::ToolDefinitions;

/// JSON parsers stop at 128 levels, and the request around the tools uses some.
const MAX_DEPTH: usize = 110;

const ANNOTATIONS: [&str; 6] =
    ["title", "description", "default", "examples", "deprecated", "format"];

/// Checks everything that a provider would refuse.
#[track_caller]
pub(super) fn check(format: ModelFormat, options: FormatOptions, declared: &ToolDefinitions) {
    let Some(tool) = declaration(format, declared) else {
        assert!(!declared.notes.is_empty(), "a tool is missing without a note");
        return;
    };
    check_name(format, tool["name"].as_str().expect("a name"));
    assert!(depth(&declared.tools) < MAX_DEPTH, "{format}: {}", depth(&declared.tools));
    match format {
        ModelFormat::Anthropic => {
            let schema = &tool["input_schema"];
            check_root(schema, &["anyOf", "oneOf", "allOf", "$ref"]);
            each(schema, &mut |schema| check_keys(schema, is_anthropic_key));
            check_json_schema(schema, tool["strict"] == true, false);
        }
        ModelFormat::OpenAi | ModelFormat::OpenAiResponses => {
            let schema = &tool["parameters"];
            check_root(schema, &["anyOf", "oneOf", "allOf", "$ref", "enum", "not"]);
            check_json_schema(schema, tool["strict"] == true, true);
        }
        ModelFormat::Gemini => {
            if let Some(schema) = tool.get("parameters") {
                assert_eq!(schema["type"], "OBJECT", "{schema}");
                check_openapi(schema);
            }
        }
        ModelFormat::Mcp => {
            assert_eq!(tool["inputSchema"]["type"], "object");
        }
    }
    let is_strict = tool.get("strict") == Some(&json!(true));
    assert!(!is_strict || options.strict);
    let is_told = declared.notes.iter().any(|note| note.what.contains("without strict"));
    assert_eq!(options.strict && !is_strict, is_told, "{:?}", declared.notes);
}

fn check_name(format: ModelFormat, name: &str) {
    let signs = if format == ModelFormat::Mcp { "_-." } else { "_-" };
    let most = if format == ModelFormat::Mcp { 128 } else { 64 };
    let is_fine = |c: char| c.is_ascii_alphanumeric() || signs.contains(c);
    assert!((1..=most).contains(&name.len()) && name.chars().all(is_fine), "{format}: {name}");
    if format == ModelFormat::Gemini {
        assert!(name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'), "{name}");
    }
}

fn check_root(schema: &Value, refused: &[&str]) {
    assert_eq!(schema["type"], "object", "{schema}");
    assert!(schema["properties"].is_object(), "{schema}");
    for keyword in refused {
        assert!(schema.get(keyword).is_none(), "{keyword} at the root of {schema}");
    }
}

fn check_json_schema(schema: &Value, is_strict: bool, is_openai: bool) {
    assert!(jsonschema::draft202012::meta::is_valid(schema), "not JSON Schema: {schema}");
    each(schema, &mut |schema| {
        for keyword in schema.keys() {
            let is_foreign = keyword.starts_with('$') || keyword.starts_with("x-");
            assert!(!is_foreign && keyword != "definitions" && keyword != "nullable", "{keyword}");
        }
        if schema.get("type") == Some(&json!("array")) && is_openai {
            assert!(schema.contains_key("items"), "{schema:?}");
        }
        if is_strict {
            check_strict(schema, is_openai);
        }
    });
}

fn check_strict(schema: &Map<String, Value>, is_openai: bool) {
    let known: &[&str] = if is_openai {
        &[
            "type",
            "description",
            "enum",
            "anyOf",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "pattern",
            "format",
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
            "minItems",
            "maxItems",
        ]
    } else {
        &[
            "type",
            "description",
            "default",
            "enum",
            "anyOf",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "pattern",
            "format",
            "minItems",
        ]
    };
    for keyword in schema.keys() {
        assert!(known.contains(&keyword.as_str()), "{keyword} in strict {schema:?}");
    }
    assert!(schema.contains_key("type") || schema.contains_key("anyOf"), "{schema:?}");
    if let Some(format) = schema.get("format").and_then(Value::as_str) {
        let known =
            ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];
        assert!(known.contains(&format) || (!is_openai && format == "uri"), "{format}");
    }
    if !is_openai && let Some(count) = schema.get("minItems") {
        assert!(count.as_u64() <= Some(1));
    }
    if schema.get("type") == Some(&json!("object")) {
        assert_eq!(schema.get("additionalProperties"), Some(&json!(false)), "{schema:?}");
        let properties: Vec<&String> =
            schema["properties"].as_object().expect("declared").keys().collect();
        let required: Vec<&str> = schema["required"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        if is_openai {
            assert_eq!(properties, required);
        }
        assert!(required.iter().all(|name| properties.iter().any(|known| known == name)));
    }
    if schema.get("type") == Some(&json!("array")) {
        assert!(schema["items"].is_object());
    }
}

fn check_keys(schema: &Map<String, Value>, is_fine: fn(char) -> bool) {
    let keys = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    for (key, _) in keys {
        assert!((1..=64).contains(&key.len()) && key.chars().all(is_fine), "the property {key:?}");
    }
}

fn is_anthropic_key(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_.-".contains(c)
}

fn is_gemini_key(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn check_openapi(schema: &Value) {
    let object = schema.as_object().expect("a schema");
    let known = [
        "type",
        "format",
        "description",
        "nullable",
        "enum",
        "maxItems",
        "minItems",
        "properties",
        "required",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "pattern",
        "anyOf",
        "items",
        "minimum",
        "maximum",
    ];
    for keyword in object.keys() {
        assert!(known.contains(&keyword.as_str()), "{keyword} in {schema}");
    }
    if let Some(variants) = object.get("anyOf") {
        assert_eq!(object.len(), 1, "a keyword beside anyOf in {schema}");
        let variants = variants.as_array().expect("a list");
        assert!(!variants.is_empty());
        return variants.iter().for_each(check_openapi);
    }
    let kind = object["type"].as_str().expect("one type");
    if let Some(values) = object.get("enum") {
        assert_eq!(kind, "STRING");
        let values = values.as_array().expect("a list");
        assert!(
            values.iter().all(|value| value.as_str().is_some_and(|text| !text.is_empty())),
            "{schema}"
        );
    }
    if let Some(format) = object.get("format") {
        let known = ["date-time", "int32", "int64", "float", "double"];
        assert!(known.contains(&format.as_str().expect("a text")), "{schema}");
    }
    match kind {
        "OBJECT" => {
            let properties = object["properties"].as_object().expect("declared");
            assert!(!properties.is_empty(), "{schema}");
            check_keys(object, is_gemini_key);
            let required = object.get("required").and_then(Value::as_array).into_iter().flatten();
            assert!(
                required.filter_map(Value::as_str).all(|name| properties.contains_key(name)),
                "{schema}"
            );
            properties.values().for_each(check_openapi);
        }
        "ARRAY" => check_openapi(&object["items"]),
        kind => {
            assert!(["STRING", "NUMBER", "INTEGER", "BOOLEAN"].contains(&kind), "{kind}");
            assert!(!object.contains_key("properties") && !object.contains_key("items"));
        }
    }
}

/// Visits every schema in a schema; distinguishes maps of schemas by their keyword.
fn each(schema: &Value, visit: &mut dyn FnMut(&Map<String, Value>)) {
    let Value::Object(object) = schema else { return };
    visit(object);
    for (keyword, value) in object {
        match (keyword.as_str(), value) {
            ("properties" | "patternProperties" | "dependentSchemas", Value::Object(schemas)) => {
                schemas.values().for_each(|schema| each(schema, visit));
            }
            ("enum" | "examples" | "required" | "dependentRequired", _) => {}
            (keyword, _) if ANNOTATIONS.contains(&keyword) => {}
            (_, Value::Array(schemas)) => schemas.iter().for_each(|schema| each(schema, visit)),
            (_, schema) => each(schema, visit),
        }
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(object) => 1 + object.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Converts Gemini's schema to JSON Schema, to validate values.
pub(super) fn from_openapi(schema: &Value) -> Value {
    let mut object = Map::new();
    for (keyword, value) in schema.as_object().expect("a schema") {
        let value = match (keyword.as_str(), value) {
            ("type", Value::String(name)) => json!(name.to_ascii_lowercase()),
            ("properties", Value::Object(schemas)) => {
                schemas.iter().map(|(name, schema)| (name.clone(), from_openapi(schema))).collect()
            }
            ("items", schema) => from_openapi(schema),
            ("anyOf", Value::Array(schemas)) => schemas.iter().map(from_openapi).collect(),
            (_, value) => value.clone(),
        };
        object.insert(keyword.clone(), value);
    }
    if object.shift_remove("nullable") == Some(json!(true)) {
        return json!({"anyOf": [object, {"type": "null"}]});
    }
    object.into()
}
