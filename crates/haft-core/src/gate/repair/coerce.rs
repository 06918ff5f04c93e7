//! Mends a value by its schema: field names in another spelling, numbers and lists in quotes, a lone item where a
//! list is wanted, null where a field may be left out.

use serde_json::{Map, Number, Value};

use super::Care;
use crate::{nearest::fold, schema::ALIASES};

/// Mends in place and says what was mended.
pub(super) fn coerce(value: &mut Value, schema: &Value, care: Care) -> Vec<String> {
    let mut mended = Vec::new();
    walk(value, schema, "", care, &mut mended);
    mended
}

/// Whether every field is one of the schema's, by its own name, and none has fields of its own. Such a value that fits is left
/// as it is by [`coerce`].
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

fn walk(value: &mut Value, schema: &Value, path: &str, care: Care, mended: &mut Vec<String>) {
    mend_scalar(value, schema, path, care, mended);
    match value {
        Value::Object(object) => {
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
                return;
            };
            rename_keys(object, properties, path, care, mended);
            drop_nulls(object, properties, path, mended);
            for (name, item) in object.iter_mut() {
                if let Some(schema) = properties.get(name) {
                    walk(item, schema, &join(path, name), care, mended);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for (index, item) in items.iter_mut().enumerate() {
                    walk(item, schema, &format!("{path}[{index}]"), care, mended);
                }
            }
        }
        _ => {}
    }
}

fn mend_scalar(
    value: &mut Value,
    schema: &Value,
    path: &str,
    care: Care,
    mended: &mut Vec<String>,
) {
    if takes_kind_of(schema, value) {
        return;
    }
    let Some(better) = other_form(value, schema, care) else { return };
    mended.push(format!("{path}: read {} as {}", block_in_place(value), block_in_place(&better)));
    *value = better;
}

/// The same thing in a form the schema takes, when there is no doubt what it is.
fn other_form(value: &Value, schema: &Value, care: Care) -> Option<Value> {
    match value {
        // JSON has one type for both: `10.0` and `10` are the same value.
        Value::Number(number) if takes(schema, "integer") => whole(number),
        _ if care != Care::Usual => None,
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
        // A list in quotes is read only if it is faultless: a mended one could be a guess.
        return serde_json::from_str(trimmed).ok();
    }
    if takes(schema, "array") {
        return wrapped(&Value::String(text.to_owned()), schema);
    }
    None
}

/// `10.0` is the integer 10; `10.5` is none.
fn whole(number: &Number) -> Option<Value> {
    const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64()?;
    if float.fract() != 0.0 || float.abs() >= LARGEST_EXACT {
        return None;
    }
    // Whole and below 2^53, so nothing is lost.
    Some(Value::Number((float as i64).into()))
}

/// A lone item where a list is wanted.
fn wrapped(item: &Value, schema: &Value) -> Option<Value> {
    let items = schema.get("items")?;
    takes_kind_of(items, item).then(|| Value::Array(vec![item.clone()]))
}

fn rename_keys(
    object: &mut Map<String, Value>,
    properties: &Map<String, Value>,
    path: &str,
    care: Care,
    mended: &mut Vec<String>,
) {
    let unknown: Vec<String> =
        object.keys().filter(|key| !properties.contains_key(*key)).cloned().collect();
    for key in unknown {
        let Some(name) = meant(&key, properties, care) else { continue };
        // Two names for one field with different values: nobody can say which one was meant.
        if object.contains_key(name) {
            continue;
        }
        if let Some(value) = object.shift_remove(&key) {
            object.insert(name.to_owned(), value);
            mended.push(format!("read the field `{}` as `{name}`", join(path, &key)));
        }
    }
}

/// The one property this name stands for: a declared alias, or the same word in another spelling.
fn meant<'a>(key: &str, properties: &'a Map<String, Value>, care: Care) -> Option<&'a str> {
    let folded = fold(key);
    let is_alias = |schema: &Value| {
        let aliases = schema.get(ALIASES).and_then(Value::as_array);
        aliases.into_iter().flatten().filter_map(Value::as_str).any(|alias| fold(alias) == folded)
    };
    let is_same = |name: &str, schema: &Value| {
        is_alias(schema) || (care != Care::Exact && fold(name) == folded)
    };
    let mut candidates = properties.iter().filter(|(name, schema)| is_same(name, schema));
    let (name, _) = candidates.next()?;
    candidates.next().is_none().then_some(name.as_str())
}

/// Models send null for what they leave out; where the schema has no null that means "not given".
fn drop_nulls(
    object: &mut Map<String, Value>,
    properties: &Map<String, Value>,
    path: &str,
    mended: &mut Vec<String>,
) {
    let refuses_null = |schema: &Value| has_type(schema) && !takes(schema, "null");
    let nulls: Vec<String> = object
        .iter()
        .filter(|(name, value)| value.is_null() && properties.get(*name).is_some_and(refuses_null))
        .map(|(name, _)| name.clone())
        .collect();
    for name in nulls {
        object.shift_remove(&name);
        mended.push(format!("left out `{}`, which was null", join(path, &name)));
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

/// Whether the schema takes values of this sort as they are. Without a type (a union, anything) it may.
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

fn block_in_place(value: &Value) -> String {
    const LONGEST: usize = 40;
    let text = value.to_string();
    if text.chars().count() <= LONGEST {
        return text;
    }
    format!("{}…", text.chars().take(LONGEST).collect::<String>())
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
    fn check(given: Value, expected: Value, n_mendings: usize) {
        let mut value = given;
        let mended = coerce(&mut value, &schema(), Care::Usual);
        assert_eq!(value, expected);
        assert_eq!(mended.len(), n_mendings, "{mended:?}");
    }

    #[test]
    fn what_leaves_no_doubt_is_mended() {
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
    fn what_leaves_doubt_is_left_alone() {
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
            for care in [Care::Typed, Care::Exact] {
                let mut value = given.clone();
                assert_eq!(coerce(&mut value, &schema(), care), [] as [String; 0]);
                assert_eq!(value, given);
            }
        }
        // What cannot mean anything else is still repaired.
        for (given, typed, exact) in [
            (json!({"file": "x"}), json!({"file_path": "x"}), json!({"file_path": "x"})),
            (json!({"filePath": "x"}), json!({"file_path": "x"}), json!({"filePath": "x"})),
            (json!({"limit": 10.0}), json!({"limit": 10}), json!({"limit": 10})),
            (json!({"all": null}), json!({}), json!({})),
        ] {
            for (care, expected) in [(Care::Typed, typed), (Care::Exact, exact)] {
                let mut value = given.clone();
                assert_eq!(coerce(&mut value, &schema(), care).is_empty(), value == given);
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
        /// A second mending finds nothing to mend, so what is reported is the whole story.
        #[test]
        fn mending_is_done_in_one_go(value in any_json()) {
            let mut value = value;
            coerce(&mut value, &schema(), Care::Usual);
            let once = value.clone();
            let again = coerce(&mut value, &schema(), Care::Usual);
            prop_assert_eq!(&value, &once, "{:?}", again);
        }

        #[test]
        fn what_fits_by_its_own_names_is_left_as_it_is(value in any_json()) {
            if is_plainly_named(&value, &schema()) && fits(&value) {
                let mut same = value.clone();
                prop_assert_eq!(coerce(&mut same, &schema(), Care::Usual), Vec::<String>::new());
                prop_assert_eq!(same, value);
            }
        }
    }
}
