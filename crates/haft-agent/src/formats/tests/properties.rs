//! Random schemas and random inputs.

use std::collections::HashSet;

use haft_core::Input;
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Map, Value, json};

use super::{combinations, declaration, declared, json_schema, response};
use crate::formats::{
    FormatOptions, ModelFormat, ToolDefinition, ToolNames, call_id, calls, definitions,
};

/// Any value in the position of a schema: every keyword, often with a value of a wrong type.
fn wild_schema() -> impl Strategy<Value = Value> {
    let odd = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        select(vec![
            "string",
            "object",
            "array",
            "any",
            "#",
            "#/$defs/a",
            "#/properties/a",
            "^a",
            "x"
        ])
        .prop_map(Value::from),
        Just(json!(["a", "b", "a"])),
        Just(json!([])),
        Just(json!({})),
    ];
    odd.clone().prop_recursive(6, 60, 6, move |inner| {
        let keyword = select(KEYWORDS.to_vec());
        let value = prop_oneof![
            4 => inner.clone(),
            2 => vec(inner.clone(), 0..4).prop_map(Value::from),
            2 => named(inner),
            1 => odd.clone(),
        ];
        vec((keyword, value), 0..7).prop_map(|entries| {
            Value::Object(
                entries.into_iter().map(|(keyword, value)| (keyword.to_owned(), value)).collect(),
            )
        })
    })
}

fn named(inner: impl Strategy<Value = Value> + 'static) -> impl Strategy<Value = Value> {
    let name = select(vec!["a", "b", "$c", "d e", "type", "é"]);
    vec((name, inner), 0..4).prop_map(|entries| {
        Value::Object(entries.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect())
    })
}

const KEYWORDS: &[&str] = &[
    "type",
    "type",
    "properties",
    "properties",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "prefixItems",
    "additionalItems",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "enum",
    "const",
    "$ref",
    "$defs",
    "definitions",
    "nullable",
    "minLength",
    "maximum",
    "exclusiveMinimum",
    "minItems",
    "uniqueItems",
    "pattern",
    "format",
    "patternProperties",
    "propertyNames",
    "dependentRequired",
    "dependencies",
    "unevaluatedProperties",
    "contains",
    "default",
    "examples",
    "title",
    "description",
    "readOnly",
    "x-y",
    "$anchor",
    "$id",
    "multipleOf",
];

/// Valid JSON Schema 2020-12, as tangled as possible.
fn tangled_schema() -> impl Strategy<Value = Value> {
    let kind = select(vec!["string", "integer", "number", "boolean", "null", "array", "object"]);
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!(false)),
        Just(json!({"$ref": "#"})),
        Just(json!({"$ref": "#/$defs/d"})),
        kind.clone().prop_map(|kind| json!({"type": kind})),
        vec(kind, 1..4).prop_map(|kinds| {
            let kinds: Vec<&str> = kinds.into_iter().collect::<HashSet<_>>().into_iter().collect();
            json!({"type": kinds})
        }),
        vec(plain_value(), 1..4).prop_map(|values| json!({"enum": values})),
        plain_value().prop_map(|value| json!({"const": value})),
        (0..4_u8).prop_map(
            |count| json!({"minLength": count, "maxItems": count, "minProperties": count % 2})
        ),
        (0..4_u8)
            .prop_map(|count| json!({"maximum": count, "minItems": count % 2, "maxLength": count})),
        Just(json!({"required": ["a"]})),
        Just(json!({"dependentRequired": {"a": ["b"]}, "uniqueItems": true})),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let some = vec(inner.clone(), 1..4);
        let properties = vec((select(vec!["a", "b", "$c"]), inner.clone()), 0..3).prop_map(|entries| {
            entries.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect::<Map<_, _>>()
        });
        let single = select(vec![
            "items", "additionalProperties", "not", "contains", "propertyNames", "unevaluatedProperties", "if",
        ]);
        let several = select(vec!["anyOf", "oneOf", "allOf", "prefixItems"]);
        let part = prop_oneof![
            3 => properties.clone().prop_map(|schemas| json!({"properties": schemas})),
            1 => properties.prop_map(|schemas| json!({"dependentSchemas": schemas})),
            1 => inner.clone().prop_map(|schema| json!({"patternProperties": {"^a": schema}})),
            3 => (single, inner.clone()).prop_map(|(keyword, schema)| json!({keyword: schema})),
            1 => (inner.clone(), inner.clone()).prop_map(|(then, other)| json!({"then": then, "else": other})),
            3 => (several, some).prop_map(|(keyword, schemas)| json!({keyword: schemas})),
            2 => inner,
        ];
        vec(part, 1..4).prop_map(|parts| {
            let parts = parts.into_iter().filter_map(|part| part.as_object().cloned());
            Value::Object(parts.flatten().collect())
        })
    })
}

fn plain_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (0..4_i32).prop_map(Value::from),
        Just(json!(1.5)),
        "[ab]{0,3}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    plain_value().prop_recursive(3, 16, 3, |inner| {
        let object = vec((select(vec!["a", "b", "$c"]), inner.clone()), 0..3).prop_map(|entries| {
            Value::Object(
                entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            )
        });
        prop_oneof![object, vec(inner, 0..3).prop_map(Value::from)]
    })
}

/// A schema as a careful author writes it, and a value that fits it.
#[derive(Clone, Debug)]
struct Sample {
    schema: Value,
    value: Value,
}

fn honest() -> impl Strategy<Value = Sample> {
    scalar().prop_recursive(4, 40, 4, |inner| {
        let list = vec(inner.clone(), 1..4).prop_map(|samples| {
            let Sample { schema, value } = samples[0].clone();
            Sample { schema: json!({"type": "array", "items": schema}), value: json!([value]) }
        });
        let either =
            (inner.clone(), any::<bool>()).prop_map(|(Sample { schema, value }, is_null)| {
                let value = if is_null { value } else { Value::Null };
                Sample { schema: json!({"anyOf": [schema, {"type": "null"}]}), value }
            });
        prop_oneof![object(inner), list, either]
    })
}

fn scalar() -> BoxedStrategy<Sample> {
    let sample = |schema: Value, value: Value| Sample { schema, value };
    prop_oneof![
        ".{0,8}".prop_map(move |text| sample(
            json!({"type": "string", "description": "Some text."}),
            text.into()
        )),
        any::<i64>().prop_map(move |number| sample(json!({"type": "integer"}), number.into())),
        any::<bool>()
            .prop_map(move |flag| sample(json!({"type": "boolean", "default": true}), flag.into())),
        (0..3_usize).prop_map(move |index| sample(
            json!({"enum": ["a", "b", "c"]}),
            ["a", "b", "c"][index].into()
        )),
        (0..3_usize).prop_map(move |index| sample(
            json!({"type": "integer", "enum": [1, 2, 3]}),
            (index + 1).into()
        )),
        Just(sample(json!({"type": "object"}), json!({"free": [1, "x"]}))),
        Just(sample(json!({}), json!([{"any": null}]))),
    ]
    .boxed()
}

fn object(inner: impl Strategy<Value = Sample> + 'static) -> impl Strategy<Value = Sample> {
    let name = select(vec!["path", "limit", "$top", "filter[x]", "größe", "a"]);
    let presence = select(vec!["required", "there", "absent"]);
    vec((name, inner, presence), 1..5).prop_map(|fields| {
        let (mut properties, mut required, mut value) = (Map::new(), Vec::new(), Map::new());
        for (name, sample, presence) in fields {
            if properties.contains_key(name) {
                continue;
            }
            properties.insert(name.to_owned(), sample.schema);
            if presence == "required" {
                required.push(name);
            }
            // Null in an optional property means absent, for a model that cannot leave it out.
            if presence == "required" || (presence == "there" && !sample.value.is_null()) {
                value.insert(name.to_owned(), sample.value);
            }
        }
        let schema = json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        Sample { schema, value: value.into() }
    })
}

/// The same value with the defaults of properties that it leaves out.
fn with_defaults(schema: &Value, value: &Value) -> Value {
    match value {
        Value::Object(object) if schema["properties"].is_object() => {
            let mut whole = object.clone();
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                match object.get(name) {
                    Some(value) => drop(whole.insert(name.clone(), with_defaults(property, value))),
                    None if property["default"].is_null() => {}
                    None => drop(whole.insert(name.clone(), property["default"].clone())),
                }
            }
            Value::Object(whole)
        }
        Value::Object(_) | Value::Array(_) if schema["anyOf"].is_array() => {
            with_defaults(&schema["anyOf"][0], value)
        }
        Value::Array(items) => {
            items.iter().map(|item| with_defaults(&schema["items"], item)).collect()
        }
        other => other.clone(),
    }
}

/// A small number of cases, so that the whole run is short.
fn few() -> ProptestConfig {
    ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(few())]

    #[test]
    fn any_schema_is_declared_by_the_rules_or_left_out(schema in wild_schema(), other in wild_schema()) {
        let property = json!({"type": "object", "properties": {"a": schema, "b": other}});
        let part = json!({"type": "object", "allOf": [schema, other], "$defs": {"a": other}});
        let union = json!({"type": "object", "anyOf": [schema, other], "properties": {"a": schema}});
        for schema in [schema, property, part, union] {
            let tool = ToolDefinition::new("tool", schema);
            for (format, options) in combinations() {
                declared(format, options, &tool);
            }
        }
    }

    #[test]
    fn a_valid_input_stays_valid_and_is_restored(sample in object(honest())) {
        let tool = ToolDefinition::new("server/tool", sample.schema.clone());
        for (format, options) in combinations() {
            let declared = declared(format, options, &tool);
            let declaration = declaration(format, &declared).expect("it is honest");
            let schema = json_schema(format, declaration);
            // Where a default must be sent, a model that would leave it out sends it.
            let sends_defaults = format == ModelFormat::Anthropic && options.strict;
            let meant = match sends_defaults {
                true => with_defaults(&sample.schema, &sample.value),
                false => sample.value.clone(),
            };
            let sent = declared.names.restore_of("server/tool").as_sent(&meant);
            let validator = jsonschema::draft202012::new(&schema).expect("a schema");
            prop_assert!(validator.is_valid(&sent), "{format} {options:?}: {sent} against {schema}");
            let name = declared.names.to_provider("server/tool");
            let found = calls(format, &response(format, name, &sent), &declared.names).expect("a message");
            let call = found[0].as_ref().expect("it is whole");
            prop_assert_eq!(&call.name, "server/tool");
            let back = match &call.input {
                Input::Value(value) => value.clone(),
                Input::Text(text) => serde_json::from_str(text).expect("it was written by us"),
            };
            prop_assert_eq!(&back, &meant, "{} {:?}: {} against {}", format, options, sent, schema);
        }
    }

    #[test]
    fn cleaning_only_loosens(schema in tangled_schema(), shared in tangled_schema(), values in vec(any_value(), 16)) {
        let schema = json!({"type": "object", "properties": {"a": schema}, "$defs": {"d": shared}});
        let Ok(original) = jsonschema::draft202012::new(&schema) else { return Ok(()) };
        for format in [ModelFormat::Anthropic, ModelFormat::OpenAi] {
            let declared = declared(format, FormatOptions::default(), &ToolDefinition::new("tool", schema.clone()));
            let cleaned = json_schema(format, declaration(format, &declared).expect("an object"));
            let validator = jsonschema::draft202012::new(&cleaned).expect("a schema");
            for value in &values {
                let input = json!({"a": value});
                let sent = declared.names.restore_of("tool").as_sent(&input);
                let stays = !original.is_valid(&input) || validator.is_valid(&sent);
                prop_assert!(stays, "{} fitted {} but not {}", input, schema, cleaned);
            }
        }
    }

    #[test]
    fn names_are_restored_and_never_collide(names in vec(prop_oneof![".{0,80}", "[a-z/._]{1,6}", "[a-z]{60,70}"], 1..12)) {
        let distinct: HashSet<String> = names.iter().cloned().collect();
        let tools: Vec<ToolDefinition> = distinct.iter().map(|name| ToolDefinition::new(name.as_str(), json!({}))).collect();
        for (format, options) in combinations() {
            let declared = definitions(format, &tools, &options);
            let sent: HashSet<&str> = tools.iter().map(|tool| declared.names.to_provider(&tool.name)).collect();
            prop_assert_eq!(sent.len(), tools.len());
            for tool in &tools {
                prop_assert_eq!(declared.names.to_haft(declared.names.to_provider(&tool.name)), &tool.name);
                super::declared(format, options, tool);
            }
        }
    }

    #[test]
    fn call_ids_fit_and_stay_apart(one in ".{0,90}", other in ".{0,90}") {
        for format in [ModelFormat::Anthropic, ModelFormat::OpenAi, ModelFormat::OpenAiResponses] {
            let (a, b) = (call_id(format, &one), call_id(format, &other));
            let most = if format == ModelFormat::OpenAi { 40 } else { 64 };
            prop_assert!((1..=most).contains(&a.len()));
            prop_assert!(a.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'));
            prop_assert_eq!(a == b, one == other);
            prop_assert_eq!(call_id(format, &a), a.as_ref());
        }
    }

    #[test]
    fn any_message_is_read_without_a_panic(message in wild_message()) {
        for format in ModelFormat::ALL {
            if let Ok(found) = calls(*format, &message, &ToolNames::default()) {
                for bad in found.into_iter().filter_map(Result::err) {
                    prop_assert!(!bad.outcome().is_ok());
                }
            }
        }
    }
}

/// Responses with missing parts and values of wrong types.
fn wild_message() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!(7)),
        Just(json!("{\"a\": 1}")),
        Just(json!("tool_use")),
        Just(json!("function_call")),
        Just(json!("tools/call")),
    ];
    leaf.prop_recursive(6, 60, 5, |inner| {
        let key = select(vec![
            "content",
            "type",
            "id",
            "name",
            "input",
            "choices",
            "message",
            "tool_calls",
            "function",
            "arguments",
            "output",
            "call_id",
            "candidates",
            "parts",
            "functionCall",
            "args",
            "method",
            "params",
            "role",
            "function_call",
        ]);
        let object = vec((key, inner.clone()), 0..5).prop_map(|entries| {
            Value::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
        });
        prop_oneof![2 => object, 1 => vec(inner, 0..4).prop_map(Value::from)]
    })
}

#[test]
fn options_are_strict_only_when_asked() {
    // Keeps the default, because providers refuse more schemas in strict mode.
    assert!(!FormatOptions::default().strict && FormatOptions::strict().strict);
}
