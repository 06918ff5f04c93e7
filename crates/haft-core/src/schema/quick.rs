//! A quick look whether a value fits a schema, for the keywords that typed tools use. Building a full validator takes
//! longer than a whole process may take to answer; most values fit, and those are waved through here. Whatever this
//! look is not sure of goes to the full validator.

use serde_json::{Map, Number, Value};

/// What a quick look comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Fits,
    DoesNotFit,
    /// A keyword that is not known here.
    Unsure,
}

/// Deeper schemas and values are left to the full validator.
const DEEPEST: usize = 32;

pub(super) fn look(schema: &Value, value: &Value) -> Look {
    look_at(schema, value, 0)
}

fn look_at(schema: &Value, value: &Value, depth: usize) -> Look {
    match schema {
        Value::Bool(true) => Look::Fits,
        Value::Bool(false) => Look::DoesNotFit,
        Value::Object(keywords) if depth < DEEPEST => conjunction(
            keywords
                .iter()
                .map(|(keyword, setting)| hold(keyword, setting, keywords, value, depth)),
        ),
        _ => Look::Unsure,
    }
}

fn hold(
    keyword: &str,
    setting: &Value,
    keywords: &Map<String, Value>,
    value: &Value,
    depth: usize,
) -> Look {
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
        | super::SHORT
        | super::PATH => Look::Fits,
        "type" => is_of_type(setting, value),
        "enum" => match setting {
            Value::Array(options) => {
                disjunction(options.iter().map(|option| equals(option, value)))
            }
            _ => Look::Unsure,
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
        _ => Look::Unsure,
    }
}

/// `1` and `1.0` are the same number to a schema but not here, so unlike numbers prove nothing.
fn equals(a: &Value, b: &Value) -> Look {
    match (a, b) {
        (a, b) if a == b => Look::Fits,
        (Value::Number(_), Value::Number(_)) => Look::Unsure,
        (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => Look::Unsure,
        _ => Look::DoesNotFit,
    }
}

fn is_of_type(setting: &Value, value: &Value) -> Look {
    let is = |name: &Value| match name.as_str() {
        Some("null") => sure(value.is_null()),
        Some("boolean") => sure(value.is_boolean()),
        Some("string") => sure(value.is_string()),
        Some("array") => sure(value.is_array()),
        Some("object") => sure(value.is_object()),
        Some("number") => sure(value.is_number()),
        // `1.0` is an integer too, but rare enough to leave to the full validator.
        Some("integer") => match value {
            Value::Number(number) if number.is_f64() => Look::Unsure,
            other => sure(other.is_number()),
        },
        _ => Look::Unsure,
    };
    match setting {
        Value::Array(names) => disjunction(names.iter().map(is)),
        one => is(one),
    }
}

fn in_range(keyword: &str, setting: &Value, value: &Value) -> Look {
    let Value::Number(number) = value else { return Look::Fits };
    let (Some(limit), Some(number)) = (exact(setting.as_number()), exact(Some(number))) else {
        return Look::Unsure;
    };
    sure(match keyword {
        "minimum" => number >= limit,
        "maximum" => number <= limit,
        "exclusiveMinimum" => number > limit,
        _ => number < limit,
    })
}

/// A number that `f64` holds exactly; others are left to arithmetic that takes more care.
fn exact(number: Option<&Number>) -> Option<f64> {
    const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;
    number?.as_f64().filter(|float| float.abs() < LARGEST_EXACT)
}

fn of_length(keyword: &str, setting: &Value, value: &Value) -> Look {
    let length = match (keyword, value) {
        ("minLength" | "maxLength", Value::String(text)) => text.chars().count(),
        ("minItems" | "maxItems", Value::Array(items)) => items.len(),
        _ => return Look::Fits,
    };
    let Some(limit) = setting.as_u64() else { return Look::Unsure };
    let length = length as u64;
    sure(if keyword.starts_with("min") { length >= limit } else { length <= limit })
}

fn has_required(setting: &Value, value: &Value) -> Look {
    let (Value::Array(names), Value::Object(object)) = (setting, value) else {
        return if value.is_object() { Look::Unsure } else { Look::Fits };
    };
    conjunction(names.iter().map(|name| match name.as_str() {
        Some(name) => sure(object.contains_key(name)),
        None => Look::Unsure,
    }))
}

fn properties_fit(setting: &Value, value: &Value, depth: usize) -> Look {
    let (Value::Object(properties), Value::Object(object)) = (setting, value) else {
        return if value.is_object() { Look::Unsure } else { Look::Fits };
    };
    let known = object.iter().filter_map(|(name, item)| Some((properties.get(name)?, item)));
    conjunction(known.map(|(schema, item)| look_at(schema, item, depth + 1)))
}

fn no_others(setting: &Value, keywords: &Map<String, Value>, value: &Value) -> Look {
    let Value::Object(object) = value else { return Look::Fits };
    match setting {
        Value::Bool(true) => Look::Fits,
        Value::Bool(false) if !keywords.contains_key("patternProperties") => {
            let known = keywords.get("properties").and_then(Value::as_object);
            let is_known = |name: &String| known.is_some_and(|known| known.contains_key(name));
            sure(object.keys().all(is_known))
        }
        _ => Look::Unsure,
    }
}

fn items_fit(setting: &Value, value: &Value, depth: usize) -> Look {
    match value {
        Value::Array(items) => {
            conjunction(items.iter().map(|item| look_at(setting, item, depth + 1)))
        }
        _ => Look::Fits,
    }
}

fn any_fits(setting: &Value, value: &Value, depth: usize) -> Look {
    match setting {
        Value::Array(branches) => {
            disjunction(branches.iter().map(|s| look_at(s, value, depth + 1)))
        }
        _ => Look::Unsure,
    }
}

fn one_fits(setting: &Value, value: &Value, depth: usize) -> Look {
    let Value::Array(branches) = setting else { return Look::Unsure };
    let looks: Vec<Look> = branches.iter().map(|s| look_at(s, value, depth + 1)).collect();
    if looks.contains(&Look::Unsure) {
        return Look::Unsure;
    }
    sure(looks.iter().filter(|look| **look == Look::Fits).count() == 1)
}

fn sure(fits: bool) -> Look {
    if fits { Look::Fits } else { Look::DoesNotFit }
}

fn conjunction(looks: impl Iterator<Item = Look>) -> Look {
    let mut result = Look::Fits;
    for look in looks {
        match look {
            Look::Fits => {}
            Look::DoesNotFit => return Look::DoesNotFit,
            Look::Unsure => result = Look::Unsure,
        }
    }
    result
}

fn disjunction(looks: impl Iterator<Item = Look>) -> Look {
    let mut result = Look::DoesNotFit;
    for look in looks {
        match look {
            Look::Fits => return Look::Fits,
            Look::DoesNotFit => {}
            Look::Unsure => result = Look::Unsure,
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

        /// The law of the quick look: when it is sure, the full validator agrees.
        #[test]
        fn sure_means_right(schema in any_schema(), values in prop::collection::vec(any_value(), 1..6)) {
            let Ok(full) = jsonschema::draft202012::new(&schema) else { return Ok(()) };
            for value in values {
                match look(&schema, &value) {
                    Look::Fits => prop_assert!(full.is_valid(&value), "{schema} takes {value}"),
                    Look::DoesNotFit => prop_assert!(!full.is_valid(&value), "{schema} refuses {value}"),
                    Look::Unsure => {}
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
        assert_eq!(look(&schema, &json!({"path": "a", "limit": 5, "kind": "b"})), Look::Fits);
        assert_eq!(look(&schema, &json!({"path": "a", "limit": null})), Look::Fits);
        assert_eq!(look(&schema, &json!({"path": "a", "x": 1})), Look::DoesNotFit);
        assert_eq!(look(&schema, &json!({"path": ""})), Look::DoesNotFit);
    }
}
