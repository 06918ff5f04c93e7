//! Repairs a value by its schema: field names in another spelling, numbers and lists in quotes, a
//! single item for a list, null for an omitted field.

use serde_json::{Map, Number, Value};

use super::RepairLevel;
use crate::{nearest::fold, schema::ALIASES};

/// Repairs the value in place and returns the repairs.
pub(super) fn coerce(value: &mut Value, schema: &Value, level: RepairLevel) -> Vec<String> {
    let mut repairs = Vec::new();
    walk(value, schema, "", level, &mut repairs);
    repairs
}

/// Returns true if every field is one of the schema's, by its own name, and none has nested fields.
/// [`coerce`] leaves such a value unchanged if it matches the schema.
pub(super) fn is_plainly_named(value: &Value, schema: &Value) -> bool {
    let (Value::Object(object), Some(Value::Object(properties))) =
        (value, schema.get("properties"))
    else {
        return false;
    };
    let is_flat = |value: &Value| match value {
        Value::Object(_) => false,
        Value::Array(items) => !items.iter().any(|item| item.is_object() || item.is_array()),
        _ => true,
    };
    object.iter().all(|(name, value)| is_flat(value) && properties.contains_key(name))
}

fn walk(
    value: &mut Value,
    schema: &Value,
    path: &str,
    level: RepairLevel,
    repairs: &mut Vec<String>,
) {
    repair_scalar(value, schema, path, level, repairs);
    match value {
        Value::Object(object) => {
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
                return;
            };
            rename_keys(object, properties, path, level, repairs);
            drop_nulls(object, properties, path, repairs);
            for (name, item) in object.iter_mut() {
                if let Some(schema) = properties.get(name) {
                    walk(item, schema, &join(path, name), level, repairs);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for (index, item) in items.iter_mut().enumerate() {
                    walk(item, schema, &format!("{path}[{index}]"), level, repairs);
                }
            }
        }
        _ => {}
    }
}

fn repair_scalar(
    value: &mut Value,
    schema: &Value,
    path: &str,
    level: RepairLevel,
    repairs: &mut Vec<String>,
) {
    if takes_kind_of(schema, value) {
        return;
    }
    let Some(better) = other_form(value, schema, level) else { return };
    repairs.push(format!("{path}: read {} as {}", shortened(value), shortened(&better)));
    *value = better;
}

/// The same value in a form that the schema accepts, if there is no doubt which one.
fn other_form(value: &Value, schema: &Value, level: RepairLevel) -> Option<Value> {
    match value {
        // JSON has one type for both: `10.0` and `10` are the same value.
        Value::Number(number) if takes(schema, "integer") => whole(number),
        _ if level != RepairLevel::Lenient => None,
        Value::String(text) => from_text(text, schema),
        Value::Number(number) if takes(schema, "string") => Some(Value::String(number.to_string())),
        item if takes(schema, "array") => wrapped(item, schema),
        _ => None,
    }
}

fn from_text(text: &str, schema: &Value) -> Option<Value> {
    let trimmed = text.trim();
    if (takes(schema, "integer") || takes(schema, "number"))
        && let Ok(number) = serde_json::from_str::<Number>(trimmed)
    {
        let needs_whole = number.is_f64() && !takes(schema, "number");
        return if needs_whole { whole(&number) } else { Some(Value::Number(number)) };
    }
    if takes(schema, "boolean") {
        match trimmed {
            "true" | "True" => return Some(Value::Bool(true)),
            "false" | "False" => return Some(Value::Bool(false)),
            _ => {}
        }
    }
    let wants_list = takes(schema, "array") && trimmed.starts_with('[');
    let wants_object = takes(schema, "object") && trimmed.starts_with('{');
    if wants_list || wants_object {
        // Only valid JSON is accepted here: repairing it as well could be a guess.
        return serde_json::from_str(trimmed).ok();
    }
    if takes(schema, "array") {
        return wrapped(&Value::String(text.to_owned()), schema);
    }
    None
}

/// `10.0` is the integer 10; `10.5` is not an integer.
fn whole(number: &Number) -> Option<Value> {
    const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64()?;
    if float.fract() != 0.0 || float.abs() >= MAX_EXACT_INTEGER {
        return None;
    }
    // Whole and below 2^53, so nothing is lost.
    Some(Value::Number((float as i64).into()))
}

/// Wraps a single item if the schema wants a list.
fn wrapped(item: &Value, schema: &Value) -> Option<Value> {
    let items = schema.get("items")?;
    takes_kind_of(items, item).then(|| Value::Array(vec![item.clone()]))
}

fn rename_keys(
    object: &mut Map<String, Value>,
    properties: &Map<String, Value>,
    path: &str,
    level: RepairLevel,
    repairs: &mut Vec<String>,
) {
    let unknown: Vec<String> =
        object.keys().filter(|key| !properties.contains_key(*key)).cloned().collect();
    for key in unknown {
        let Some(name) = matching_property(&key, properties, level) else { continue };
        // Two names of one field with different values: unclear which one was meant.
        if object.contains_key(name) {
            continue;
        }
        if let Some(value) = object.shift_remove(&key) {
            object.insert(name.to_owned(), value);
            repairs.push(format!("read the field `{}` as `{name}`", join(path, &key)));
        }
    }
}

/// The property that a name stands for: by a declared alias, or by another spelling.
fn matching_property<'a>(
    key: &str,
    properties: &'a Map<String, Value>,
    level: RepairLevel,
) -> Option<&'a str> {
    let folded = fold(key);
    let is_alias = |schema: &Value| {
        let aliases = schema.get(ALIASES).and_then(Value::as_array);
        aliases.into_iter().flatten().filter_map(Value::as_str).any(|alias| fold(alias) == folded)
    };
    let is_same = |name: &str, schema: &Value| {
        is_alias(schema) || (level != RepairLevel::Exact && fold(name) == folded)
    };
    let mut candidates = properties.iter().filter(|(name, schema)| is_same(name, schema));
    let (name, _) = candidates.next()?;
    candidates.next().is_none().then_some(name.as_str())
}

/// Models send null for omitted fields. If the schema does not allow null, the field is removed.
fn drop_nulls(
    object: &mut Map<String, Value>,
    properties: &Map<String, Value>,
    path: &str,
    repairs: &mut Vec<String>,
) {
    let refuses_null = |schema: &Value| has_type(schema) && !takes(schema, "null");
    let nulls: Vec<String> = object
        .iter()
        .filter(|(name, value)| value.is_null() && properties.get(*name).is_some_and(refuses_null))
        .map(|(name, _)| name.clone())
        .collect();
    for name in nulls {
        object.shift_remove(&name);
        repairs.push(format!("removed `{}`, which was null", join(path, &name)));
    }
}

fn has_type(schema: &Value) -> bool {
    schema.get("type").is_some()
}

fn takes(schema: &Value, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(several)) => several.iter().any(|one| one == kind),
        _ => false,
    }
}

/// Returns true if the schema accepts this kind of value. A schema without a type (a union,
/// anything) may.
fn takes_kind_of(schema: &Value, value: &Value) -> bool {
    if !has_type(schema) {
        return true;
    }
    match value {
        Value::Null => takes(schema, "null"),
        Value::Bool(_) => takes(schema, "boolean"),
        Value::Number(number) if number.is_f64() => takes(schema, "number"),
        Value::Number(_) => takes(schema, "integer") || takes(schema, "number"),
        Value::String(_) => takes(schema, "string"),
        Value::Array(_) => takes(schema, "array"),
        Value::Object(_) => takes(schema, "object"),
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn shortened(value: &Value) -> String {
    const MAX_CHARS: usize = 40;
    let text = value.to_string();
    if text.chars().count() <= MAX_CHARS {
        return text;
    }
    format!("{}…", text.chars().take(MAX_CHARS).collect::<String>())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "file_path": {"type": "string", "x-aliases": ["file", "filename"]},
                "limit": {"type": ["integer", "null"]},
                "ratio": {"type": "number"},
                "all": {"type": "boolean"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "patches": {"type": "array", "items": {
                    "type": "object", "properties": {"start_line": {"type": "integer"}}}},
            },
        })
    }

    #[track_caller]
    fn check(given: Value, expected: Value, n_repairs: usize) {
        let mut value = given;
        let repairs = coerce(&mut value, &schema(), RepairLevel::Lenient);
        assert_eq!(value, expected);
        assert_eq!(repairs.len(), n_repairs, "{repairs:?}");
    }

    #[test]
    fn clear_values_are_repaired() {
        check(json!({"limit": "50"}), json!({"limit": 50}), 1);
        check(json!({"limit": 10.0}), json!({"limit": 10}), 1);
        check(json!({"limit": "10.0"}), json!({"limit": 10}), 1);
        check(json!({"ratio": "0.5"}), json!({"ratio": 0.5}), 1);
        check(json!({"all": "true"}), json!({"all": true}), 1);
        check(json!({"tags": "[\"a\"]"}), json!({"tags": ["a"]}), 1);
        check(json!({"tags": "a"}), json!({"tags": ["a"]}), 1);
        check(json!({"file_path": 7}), json!({"file_path": "7"}), 1);
        check(json!({"filePath": "x"}), json!({"file_path": "x"}), 1);
        check(json!({"filename": "x"}), json!({"file_path": "x"}), 1);
        check(json!({"all": null, "limit": null}), json!({"limit": null}), 1);
        check(json!({"patches": [{"startLine": "3"}]}), json!({"patches": [{"start_line": 3}]}), 2);
    }

    #[test]
    fn doubtful_values_are_left_alone() {
        for doubtful in [
            json!({"limit": "ten"}),
            json!({"limit": 10.5}),
            json!({"limit": "1e400"}),
            json!({"all": "yes"}),
            json!({"all": 1}),
            json!({"tags": "[a"}),
            json!({"pathh": "x"}),
            json!({"file_path": "x", "file": "y"}),
            json!({"file_path": {"text": "x"}}),
        ] {
            check(doubtful.clone(), doubtful, 0);
        }
    }

    #[test]
    fn a_tool_that_changes_something_gets_values_as_they_were_written() {
        for given in [
            json!({"file_path": 5}),
            json!({"tags": "a"}),
            json!({"tags": "[\"a\"]"}),
            json!({"limit": "5"}),
            json!({"ratio": "0.5"}),
            json!({"all": "true"}),
            json!({"patches": "[{\"start_line\": 3}]"}),
            json!({"patches": [{"start_line": "3"}]}),
        ] {
            for level in [RepairLevel::Typed, RepairLevel::Exact] {
                let mut value = given.clone();
                assert_eq!(coerce(&mut value, &schema(), level), [] as [String; 0]);
                assert_eq!(value, given);
            }
        }
        // Unambiguous spellings are still repaired.
        for (given, typed, exact) in [
            (json!({"file": "x"}), json!({"file_path": "x"}), json!({"file_path": "x"})),
            (json!({"filePath": "x"}), json!({"file_path": "x"}), json!({"filePath": "x"})),
            (json!({"limit": 10.0}), json!({"limit": 10}), json!({"limit": 10})),
            (json!({"all": null}), json!({}), json!({})),
        ] {
            for (level, expected) in [(RepairLevel::Typed, typed), (RepairLevel::Exact, exact)] {
                let mut value = given.clone();
                assert_eq!(coerce(&mut value, &schema(), level).is_empty(), value == given);
                assert_eq!(value, expected);
            }
        }
    }

    fn fits(value: &Value) -> bool {
        crate::Schema::from_value(schema()).expect("a schema").surely_fits(value)
    }

    #[test]
    fn only_fields_by_their_own_names_are_plain() {
        for (value, is_plain) in [
            (json!({}), true),
            (json!({"file_path": "x", "limit": null, "tags": ["a"]}), true),
            (json!({"file": "x"}), false),
            (json!({"other": 1}), false),
            (json!({"patches": [{"start_line": 3}]}), false),
            (json!({"tags": [["a"]]}), false),
            (json!(null), false),
            (json!([]), false),
        ] {
            assert_eq!(is_plainly_named(&value, &schema()), is_plain, "{value}");
            assert!(!is_plain || fits(&value), "{value}");
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[ -~]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec(("(file_path|limit|tags|patches|all|x)", inner), 0..6)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// A second repair finds nothing to repair, so the report is complete.
        #[test]
        fn one_repair_is_enough(value in any_json()) {
            let mut value = value;
            coerce(&mut value, &schema(), RepairLevel::Lenient);
            let once = value.clone();
            let again = coerce(&mut value, &schema(), RepairLevel::Lenient);
            prop_assert_eq!(&value, &once, "{:?}", again);
        }

        #[test]
        fn valid_plain_values_are_unchanged(value in any_json()) {
            if is_plainly_named(&value, &schema()) && fits(&value) {
                let mut same = value.clone();
                prop_assert_eq!(coerce(&mut same, &schema(), RepairLevel::Lenient), Vec::<String>::new());
                prop_assert_eq!(same, value);
            }
        }
    }
}
