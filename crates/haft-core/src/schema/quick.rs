//! A quick check whether a value matches a schema, for the keywords that typed tools use. Building
//! a full validator takes longer than a whole process may take to answer, and most values match.
//! Cases that this check cannot decide go to the full validator.

use serde_json::{Map, Number, Value};

/// The result of a quick check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuickResult {
    Fits,
    DoesNotFit,
    /// The schema has a keyword that this check does not know.
    Unsure,
}

/// Deeper schemas and values are left to the full validator.
const MAX_DEPTH: usize = 32;

pub(super) fn check(schema: &Value, value: &Value) -> QuickResult {
    check_at(schema, value, 0)
}

fn check_at(schema: &Value, value: &Value, depth: usize) -> QuickResult {
    match schema {
        Value::Bool(true) => QuickResult::Fits,
        Value::Bool(false) => QuickResult::DoesNotFit,
        Value::Object(keywords) if depth < MAX_DEPTH => conjunction(
            keywords
                .iter()
                .map(|(keyword, setting)| check_keyword(keyword, setting, keywords, value, depth)),
        ),
        _ => QuickResult::Unsure,
    }
}

fn check_keyword(
    keyword: &str,
    setting: &Value,
    keywords: &Map<String, Value>,
    value: &Value,
    depth: usize,
) -> QuickResult {
    match keyword {
        // Annotations; `format` is not asserted in 2020-12.
        "title"
        | "description"
        | "default"
        | "examples"
        | "format"
        | "$schema"
        | "$comment"
        | "deprecated"
        | "readOnly"
        | "writeOnly"
        | super::ALIASES
        | super::REFERS_TO
        | super::SHORT
        | super::PATH => QuickResult::Fits,
        "type" => is_of_type(setting, value),
        "enum" => match setting {
            Value::Array(options) => {
                disjunction(options.iter().map(|option| equals(option, value)))
            }
            _ => QuickResult::Unsure,
        },
        "const" => equals(setting, value),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
            in_range(keyword, setting, value)
        }
        "minLength" | "maxLength" | "minItems" | "maxItems" => of_length(keyword, setting, value),
        "required" => has_required(setting, value),
        "properties" => properties_fit(setting, value, depth),
        "additionalProperties" => no_others(setting, keywords, value),
        "items" => items_fit(setting, value, depth),
        "anyOf" => any_fits(setting, value, depth),
        "oneOf" => one_fits(setting, value, depth),
        _ => QuickResult::Unsure,
    }
}

/// `1` and `1.0` are the same number to a schema but not here, so unequal numbers prove nothing.
fn equals(a: &Value, b: &Value) -> QuickResult {
    match (a, b) {
        (a, b) if a == b => QuickResult::Fits,
        (Value::Number(_), Value::Number(_)) => QuickResult::Unsure,
        (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => {
            QuickResult::Unsure
        }
        _ => QuickResult::DoesNotFit,
    }
}

fn is_of_type(setting: &Value, value: &Value) -> QuickResult {
    let is = |name: &Value| match name.as_str() {
        Some("null") => sure(value.is_null()),
        Some("boolean") => sure(value.is_boolean()),
        Some("string") => sure(value.is_string()),
        Some("array") => sure(value.is_array()),
        Some("object") => sure(value.is_object()),
        Some("number") => sure(value.is_number()),
        // `1.0` is an integer too, but rare enough to leave to the full validator.
        Some("integer") => match value {
            Value::Number(number) if number.is_f64() => QuickResult::Unsure,
            other => sure(other.is_number()),
        },
        _ => QuickResult::Unsure,
    };
    match setting {
        Value::Array(names) => disjunction(names.iter().map(is)),
        one => is(one),
    }
}

fn in_range(keyword: &str, setting: &Value, value: &Value) -> QuickResult {
    let Value::Number(number) = value else { return QuickResult::Fits };
    let (Some(limit), Some(number)) = (exact(setting.as_number()), exact(Some(number))) else {
        return QuickResult::Unsure;
    };
    sure(match keyword {
        "minimum" => number >= limit,
        "maximum" => number <= limit,
        "exclusiveMinimum" => number > limit,
        _ => number < limit,
    })
}

/// A number that `f64` represents exactly; others are left to the full validator.
fn exact(number: Option<&Number>) -> Option<f64> {
    const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
    number?.as_f64().filter(|float| float.abs() < MAX_EXACT_INTEGER)
}

fn of_length(keyword: &str, setting: &Value, value: &Value) -> QuickResult {
    let length = match (keyword, value) {
        ("minLength" | "maxLength", Value::String(text)) => text.chars().count(),
        ("minItems" | "maxItems", Value::Array(items)) => items.len(),
        _ => return QuickResult::Fits,
    };
    let Some(limit) = setting.as_u64() else { return QuickResult::Unsure };
    let length = length as u64;
    sure(if keyword.starts_with("min") { length >= limit } else { length <= limit })
}

fn has_required(setting: &Value, value: &Value) -> QuickResult {
    let (Value::Array(names), Value::Object(object)) = (setting, value) else {
        return if value.is_object() { QuickResult::Unsure } else { QuickResult::Fits };
    };
    conjunction(names.iter().map(|name| match name.as_str() {
        Some(name) => sure(object.contains_key(name)),
        None => QuickResult::Unsure,
    }))
}

fn properties_fit(setting: &Value, value: &Value, depth: usize) -> QuickResult {
    let (Value::Object(properties), Value::Object(object)) = (setting, value) else {
        return if value.is_object() { QuickResult::Unsure } else { QuickResult::Fits };
    };
    let known = object.iter().filter_map(|(name, item)| Some((properties.get(name)?, item)));
    conjunction(known.map(|(schema, item)| check_at(schema, item, depth + 1)))
}

fn no_others(setting: &Value, keywords: &Map<String, Value>, value: &Value) -> QuickResult {
    let Value::Object(object) = value else { return QuickResult::Fits };
    match setting {
        Value::Bool(true) => QuickResult::Fits,
        Value::Bool(false) if !keywords.contains_key("patternProperties") => {
            let known = keywords.get("properties").and_then(Value::as_object);
            let is_known = |name: &String| known.is_some_and(|known| known.contains_key(name));
            sure(object.keys().all(is_known))
        }
        _ => QuickResult::Unsure,
    }
}

fn items_fit(setting: &Value, value: &Value, depth: usize) -> QuickResult {
    match value {
        Value::Array(items) => {
            conjunction(items.iter().map(|item| check_at(setting, item, depth + 1)))
        }
        _ => QuickResult::Fits,
    }
}

fn any_fits(setting: &Value, value: &Value, depth: usize) -> QuickResult {
    match setting {
        Value::Array(branches) => {
            disjunction(branches.iter().map(|s| check_at(s, value, depth + 1)))
        }
        _ => QuickResult::Unsure,
    }
}

fn one_fits(setting: &Value, value: &Value, depth: usize) -> QuickResult {
    let Value::Array(branches) = setting else { return QuickResult::Unsure };
    let results: Vec<QuickResult> =
        branches.iter().map(|s| check_at(s, value, depth + 1)).collect();
    if results.contains(&QuickResult::Unsure) {
        return QuickResult::Unsure;
    }
    sure(results.iter().filter(|look| **look == QuickResult::Fits).count() == 1)
}

fn sure(fits: bool) -> QuickResult {
    if fits { QuickResult::Fits } else { QuickResult::DoesNotFit }
}

fn conjunction(results: impl Iterator<Item = QuickResult>) -> QuickResult {
    let mut result = QuickResult::Fits;
    for look in results {
        match look {
            QuickResult::Fits => {}
            QuickResult::DoesNotFit => return QuickResult::DoesNotFit,
            QuickResult::Unsure => result = QuickResult::Unsure,
        }
    }
    result
}

fn disjunction(results: impl Iterator<Item = QuickResult>) -> QuickResult {
    let mut result = QuickResult::DoesNotFit;
    for look in results {
        match look {
            QuickResult::Fits => return QuickResult::Fits,
            QuickResult::DoesNotFit => {}
            QuickResult::Unsure => result = QuickResult::Unsure,
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            (-3i64..12).prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-2.0f64..9.0).prop_map(Value::from),
            Just(json!(1.0)),
            "[abä]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[abc]", inner), 0..4)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    fn any_schema() -> impl Strategy<Value = Value> {
        let kind = "(string|integer|number|boolean|null|array|object)";
        let leaf = prop_oneof![
            kind.prop_map(|name| json!({"type": name})),
            (kind, kind).prop_map(|(a, b)| if a == b {
                json!({"type": a})
            } else {
                json!({"type": [a, b]})
            }),
            (0u32..5, 0u32..5)
                .prop_map(|(a, b)| json!({"minLength": a, "maxLength": b, "minItems": a})),
            (-3i64..9, -3i64..9).prop_map(|(a, b)| json!({"minimum": a, "exclusiveMaximum": b})),
            prop::collection::vec(any_value(), 1..4).prop_map(|options| json!({"enum": options})),
            any_value().prop_map(|value| json!({"const": value})),
            Just(json!({"pattern": "^a"})),
            any::<bool>().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 3, |inner| {
            prop_oneof![
                (inner.clone(), inner.clone(), any::<bool>()).prop_map(|(a, b, open)| json!({
                    "type": "object", "properties": {"a": a, "b": b}, "required": ["a"],
                    "additionalProperties": open, "description": "x", "x-aliases": ["y"],
                })),
                inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
                prop::collection::vec(inner.clone(), 1..3).prop_map(|all| json!({"anyOf": all})),
                prop::collection::vec(inner, 1..3).prop_map(|all| json!({"oneOf": all})),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        /// When the quick check is sure, the full validator agrees.
        #[test]
        fn sure_means_right(schema in any_schema(), values in prop::collection::vec(any_value(), 1..6)) {
            let Ok(full) = jsonschema::draft202012::new(&schema) else { return Ok(()) };
            for value in values {
                match check(&schema, &value) {
                    QuickResult::Fits => prop_assert!(full.is_valid(&value), "{schema} takes {value}"),
                    QuickResult::DoesNotFit => prop_assert!(!full.is_valid(&value), "{schema} refuses {value}"),
                    QuickResult::Unsure => {}
                }
            }
        }
    }

    #[test]
    fn ordinary_inputs_need_no_full_validator() {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1},
                "limit": {"type": ["integer", "null"], "minimum": 1, "format": "uint32"},
                "kind": {"oneOf": [{"const": "a", "description": "x"}, {"const": "b"}]},
            },
            "required": ["path"],
            "additionalProperties": false,
        });
        assert_eq!(
            check(&schema, &json!({"path": "a", "limit": 5, "kind": "b"})),
            QuickResult::Fits
        );
        assert_eq!(check(&schema, &json!({"path": "a", "limit": null})), QuickResult::Fits);
        assert_eq!(check(&schema, &json!({"path": "a", "x": 1})), QuickResult::DoesNotFit);
        assert_eq!(check(&schema, &json!({"path": ""})), QuickResult::DoesNotFit);
    }
}
