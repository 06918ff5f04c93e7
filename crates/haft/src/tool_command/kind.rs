//! The kind of text that a person types for a property: a word, a number, one of several words,
//! JSON. A schema that is too complex for a command line takes JSON text. The gate validates the
//! value.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser, ValueParser};
use serde_json::{Number, Value};

/// Deeper references and unions take JSON text: a schema may refer to itself.
const MAX_DEPTH: usize = 8;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Text,
    Integer,
    Number,
    Boolean,
    Choice(Vec<Choice>),
    /// A list of values that are one word each.
    List(Box<Self>),
    Json,
    /// A list of objects: one object alone is a list of one.
    JsonList,
    /// The schema takes text and other types: a value that parses as JSON is JSON, any other is
    /// text.
    Loose,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice {
    value: Value,
    text: String,
    help: Option<String>,
}

impl Kind {
    pub(super) fn of(schema: &Value, root: &Value) -> Self {
        kind(schema, root, MAX_DEPTH)
    }

    /// Reports whether a value is one word: then the property may be positional.
    pub(super) fn is_word(&self) -> bool {
        matches!(self, Self::Text | Self::Integer | Self::Number | Self::Choice(_))
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Self::Integer | Self::Number)
    }

    /// The name in documentation.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Text => "string".to_owned(),
            Self::Integer => "integer".to_owned(),
            Self::Number => "number".to_owned(),
            Self::Boolean => "boolean".to_owned(),
            Self::Choice(choices) => {
                let texts: Vec<String> =
                    choices.iter().map(|choice| format!("`{}`", choice.text)).collect();
                texts.join(", ")
            }
            Self::List(item) => format!("list of {}", item.words()),
            Self::Json | Self::JsonList => "JSON".to_owned(),
            Self::Loose => "string or JSON".to_owned(),
        }
    }

    /// Parses typed text as a JSON value.
    pub(super) fn parser(&self) -> ValueParser {
        match self {
            Self::Text => ValueParser::new(|text: &str| text_value(text)),
            Self::Integer => ValueParser::new(|text: &str| integer(text)),
            Self::Number => ValueParser::new(|text: &str| number(text)),
            Self::Boolean => ValueParser::new(|text: &str| boolean(text)),
            Self::Choice(choices) => choice_parser(choices.clone()),
            Self::List(item) => item.parser(),
            Self::Json => ValueParser::new(|text: &str| json(text)),
            Self::JsonList => ValueParser::new(|text: &str| json(text).map(in_list)),
            Self::Loose => ValueParser::new(|text: &str| json(text).or_else(|_| text_value(text))),
        }
    }
}

fn kind(schema: &Value, root: &Value, depth: usize) -> Kind {
    if depth == 0 {
        return Kind::Json;
    }
    if let Some(target) = reference(schema, root) {
        return kind(target, root, depth - 1);
    }
    if let Some(choices) = choices(schema, root, depth) {
        return Kind::Choice(choices);
    }
    let branches = branches(schema);
    match (branches.as_slice(), types(schema).as_slice()) {
        ([only], []) => kind(only, root, depth - 1),
        ([], ["string"]) => Kind::Text,
        ([], ["integer"]) => Kind::Integer,
        ([], ["number"] | ["integer", "number"] | ["number", "integer"]) => Kind::Number,
        ([], ["boolean"]) => Kind::Boolean,
        ([], ["array"]) => list(schema, root, depth),
        ([], types) => {
            if types.is_empty() || types.contains(&"string") {
                Kind::Loose
            } else {
                Kind::Json
            }
        }
        (several, _) => {
            let takes_text = |branch: &&Value| {
                matches!(kind(branch, root, depth - 1), Kind::Text | Kind::Choice(_) | Kind::Loose)
            };
            if several.iter().any(takes_text) { Kind::Loose } else { Kind::Json }
        }
    }
}

fn list(schema: &Value, root: &Value, depth: usize) -> Kind {
    let has_objects =
        |items: &Value| types(reference(items, root).unwrap_or(items)).contains(&"object");
    match schema.get("items").map(|items| kind(items, root, depth - 1)) {
        Some(Kind::Json) if schema.get("items").is_some_and(has_objects) => Kind::JsonList,
        Some(Kind::Json | Kind::List(_)) => Kind::Json,
        Some(item) => Kind::List(Box::new(item)),
        None => Kind::List(Box::new(Kind::Loose)),
    }
}

fn reference<'a>(schema: &Value, root: &'a Value) -> Option<&'a Value> {
    let pointer = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
    root.pointer(pointer)
}

/// The types without null: a property that may be null may be left out.
fn types(schema: &Value) -> Vec<&str> {
    let types = match schema.get("type") {
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    types.into_iter().filter(|name| *name != "null").collect()
}

/// The branches of a union without null.
fn branches(schema: &Value) -> Vec<&Value> {
    let unions = ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| schema.get(key)?.as_array());
    unions.flatten().filter(|branch| branch.get("type").is_none_or(|kind| kind != "null")).collect()
}

/// The words of an enumeration: an `enum`, a `const`, or a union of nothing else.
fn choices(schema: &Value, root: &Value, depth: usize) -> Option<Vec<Choice>> {
    let help = schema.get("description").and_then(Value::as_str);
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let values = values.iter().filter(|value| !value.is_null());
        return values.map(|value| Choice::new(value, None)).collect();
    }
    if let Some(value) = schema.get("const") {
        return Choice::new(value, help).map(|choice| vec![choice]);
    }
    let branches = branches(schema);
    if branches.is_empty() || depth == 0 {
        return None;
    }
    let each: Option<Vec<Vec<Choice>>> = branches
        .into_iter()
        .map(|branch| choices(reference(branch, root).unwrap_or(branch), root, depth - 1))
        .collect();
    each.map(|choices| choices.concat())
}

impl Choice {
    fn new(value: &Value, help: Option<&str>) -> Option<Self> {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            _ => return None,
        };
        Some(Self { value: value.clone(), text, help: help.map(str::to_owned) })
    }
}

fn choice_parser(choices: Vec<Choice>) -> ValueParser {
    let possible = choices.iter().map(|choice| {
        let value = PossibleValue::new(choice.text.clone());
        if let Some(help) = &choice.help { value.help(help.clone()) } else { value }
    });
    let parser = PossibleValuesParser::new(possible.collect::<Vec<_>>());
    ValueParser::new(parser.map(move |text| {
        let chosen = choices.iter().find(|choice| choice.text == text);
        chosen.map_or(Value::String(text), |choice| choice.value.clone())
    }))
}

fn in_list(value: Value) -> Value {
    if value.is_object() { Value::Array(vec![value]) } else { value }
}

fn text_value(text: &str) -> Result<Value, String> {
    Ok(Value::from(text))
}

fn integer(text: &str) -> Result<Value, String> {
    let number = serde_json::from_str::<Number>(text).ok().filter(|number| !number.is_f64());
    number.map(Value::Number).ok_or_else(|| "expected a whole number".to_owned())
}

fn number(text: &str) -> Result<Value, String> {
    // A person writes `.5` and `+3`, which JSON does not accept.
    let as_json = || serde_json::from_str::<Number>(text).ok();
    let as_float = || text.parse().ok().and_then(Number::from_f64);
    as_json().or_else(as_float).map(Value::Number).ok_or_else(|| "expected a number".to_owned())
}

fn boolean(text: &str) -> Result<Value, String> {
    let value = text.parse::<bool>().map_err(|_| "expected true or false".to_owned())?;
    Ok(Value::Bool(value))
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("expected JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: Value, expected: &str) {
        let root = json!({"$defs": {
            "colour": {"enum": ["red", "green"]},
            "loop": {"anyOf": [{"$ref": "#/$defs/loop"}]},
        }});
        assert_eq!(Kind::of(&schema, &root).words(), expected, "{schema}");
    }

    #[test]
    fn schemas_become_what_a_person_types() {
        check(json!({"type": "string"}), "string");
        check(json!({"type": ["integer", "null"]}), "integer");
        check(json!({"type": ["number", "integer"]}), "number");
        check(json!({"anyOf": [{"type": "boolean"}, {"type": "null"}]}), "boolean");
        check(json!({"enum": ["a", "b", null]}), "`a`, `b`");
        check(json!({"type": "integer", "enum": [1, 2]}), "`1`, `2`");
        check(json!({"oneOf": [{"const": "a"}, {"enum": ["b"]}, {"type": "null"}]}), "`a`, `b`");
        check(json!({"$ref": "#/$defs/colour"}), "`red`, `green`");
        check(json!({"anyOf": [{"$ref": "#/$defs/colour"}, {"type": "null"}]}), "`red`, `green`");
        check(json!({"type": "array", "items": {"type": "string"}}), "list of string");
        check(json!({"type": "array", "items": {"enum": ["x"]}}), "list of `x`");
        check(json!({"type": "array"}), "list of string or JSON");
        check(json!({"type": "array", "items": {"type": "object"}}), "JSON");
        check(json!({"type": "object"}), "JSON");
        check(json!({"type": ["string", "integer"]}), "string or JSON");
        check(json!({"anyOf": [{"type": "string"}, {"type": "array"}]}), "string or JSON");
        check(json!({"anyOf": [{"type": "object"}, {"type": "integer"}]}), "JSON");
        check(json!(true), "string or JSON");
        check(json!({"$ref": "#/$defs/loop"}), "JSON");
    }

    #[test]
    fn numbers_are_read_as_a_person_writes_them() {
        assert_eq!(integer("-7"), Ok(json!(-7)));
        assert_eq!(integer("18446744073709551615"), Ok(json!(u64::MAX)));
        assert!(integer("1.5").is_err() && integer("ten").is_err() && integer("").is_err());
        assert_eq!(number("3"), Ok(json!(3)));
        assert_eq!(number(".5"), Ok(json!(0.5)));
        assert_eq!(number("-1e3"), Ok(json!(-1000.0)));
        assert!(number("NaN").is_err() && number("1e999").is_err());
    }
}
