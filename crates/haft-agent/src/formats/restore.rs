//! Restores arguments: reverts a dialect's changes to a schema in the values that a model sends for
//! it.

use std::collections::HashMap;

use indexmap::IndexMap;
use serde_json::{Map, Value};

/// Restores the arguments of one tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Restore {
    tree: RestoreTree,
    /// Provider's name to original name of properties, at any position: cleaned names have digits
    /// that no other name has.
    keys: HashMap<String, String>,
}

/// The change at one position.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum RestoreTree {
    #[default]
    Same,
    /// A string that contains a value as JSON.
    Json,
    /// Strings that represent other values.
    Values(Vec<(String, Value)>),
    Object(IndexMap<String, RestoreField>),
    Items(Box<Self>),
    /// Alternatives, each with the schema that the provider received for it.
    Any(Vec<(Value, Self)>),
}

/// A property, by the provider's name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RestoreField {
    /// True if null means that the field is absent.
    pub(crate) null_is_absence: bool,
    pub(crate) tree: RestoreTree,
}

impl Restore {
    pub(crate) fn new(tree: RestoreTree, keys: HashMap<String, String>) -> Self {
        Self { tree, keys }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.tree == RestoreTree::Same && self.keys.is_empty()
    }

    pub(crate) fn apply(&self, arguments: Value) -> Value {
        let arguments = self.tree.apply(arguments);
        if self.keys.is_empty() { arguments } else { renamed(arguments, &self.keys) }
    }
}

impl RestoreTree {
    pub(crate) fn object(fields: IndexMap<String, RestoreField>) -> Self {
        let is_same =
            fields.values().all(|field| !field.null_is_absence && field.tree == Self::Same);
        if is_same { Self::Same } else { Self::Object(fields) }
    }

    pub(crate) fn items(items: Self) -> Self {
        if items == Self::Same { Self::Same } else { Self::Items(Box::new(items)) }
    }

    pub(crate) fn any(variants: Vec<(Value, Self)>) -> Self {
        let is_same = variants.iter().all(|(_, tree)| *tree == Self::Same);
        if is_same { Self::Same } else { Self::Any(variants) }
    }

    /// No deeper than the schema it was made from, so recursion is safe.
    fn apply(&self, value: Value) -> Value {
        match (self, value) {
            (Self::Json, Value::String(text)) => {
                serde_json::from_str(&text).unwrap_or(Value::String(text))
            }
            (Self::Values(values), Value::String(text)) => {
                let known = values.iter().find(|(sent, _)| *sent == text);
                known.map_or(Value::String(text), |(_, meant)| meant.clone())
            }
            (Self::Object(fields), Value::Object(object)) => in_object(fields, object),
            (Self::Items(tree), Value::Array(items)) => {
                items.into_iter().map(|item| tree.apply(item)).collect()
            }
            (Self::Any(variants), value) => {
                match variants.iter().find(|(schema, _)| fits(schema, &value)) {
                    Some((_, tree)) => tree.apply(value),
                    None => value,
                }
            }
            (_, value) => value,
        }
    }
}

/// The opposite direction, for tests: arguments as a model would send them.
#[cfg(test)]
impl Restore {
    pub(crate) fn as_sent(&self, arguments: &Value) -> Value {
        let there = self.keys.iter().map(|(sent, own)| (own.clone(), sent.clone())).collect();
        self.tree.as_sent(&renamed(arguments.clone(), &there))
    }
}

#[cfg(test)]
impl RestoreTree {
    fn as_sent(&self, value: &Value) -> Value {
        match (self, value) {
            (Self::Json, value) => Value::String(value.to_string()),
            (Self::Values(values), value) => {
                let known = values.iter().find(|(_, meant)| meant == value);
                known.map_or_else(|| value.clone(), |(sent, _)| Value::String(sent.clone()))
            }
            (Self::Object(fields), Value::Object(object)) => {
                let mut sent = object.clone();
                for (name, field) in fields {
                    match sent.get_mut(name) {
                        Some(value) => *value = field.tree.as_sent(value),
                        None if field.null_is_absence => {
                            sent.insert(name.clone(), Value::Null);
                        }
                        None => {}
                    }
                }
                Value::Object(sent)
            }
            (Self::Items(tree), Value::Array(items)) => {
                items.iter().map(|item| tree.as_sent(item)).collect()
            }
            (Self::Any(variants), value) => {
                let mut sent = variants.iter().map(|(schema, tree)| (schema, tree.as_sent(value)));
                let fitting = sent.find(|(schema, sent)| fits(schema, sent));
                fitting.map_or_else(|| value.clone(), |(_, sent)| sent)
            }
            (Self::Same | Self::Object(_) | Self::Items(_), value) => value.clone(),
        }
    }
}

fn in_object(fields: &IndexMap<String, RestoreField>, object: Map<String, Value>) -> Value {
    let restored = object.into_iter().filter_map(|(name, value)| {
        let Some(field) = fields.get(&name) else { return Some((name, value)) };
        if field.null_is_absence && value.is_null() {
            return None;
        }
        Some((name, field.tree.apply(value)))
    });
    Value::Object(restored.collect())
}

fn renamed(value: Value, keys: &HashMap<String, String>) -> Value {
    match value {
        Value::Object(object) => {
            let own = object.into_iter().map(|(name, value)| {
                let name = keys.get(&name).cloned().unwrap_or(name);
                (name, renamed(value, keys))
            });
            Value::Object(own.collect())
        }
        Value::Array(items) => items.into_iter().map(|item| renamed(item, keys)).collect(),
        other => other,
    }
}

/// Returns true if a value fits a schema that haft wrote, as far as needed to distinguish
/// alternatives.
pub(crate) fn fits(schema: &Value, value: &Value) -> bool {
    if value.is_null() && schema["nullable"] == true {
        return true;
    }
    let has_type = match &schema["type"] {
        Value::String(name) => is_of(name, value),
        Value::Array(names) => {
            names.iter().filter_map(Value::as_str).any(|name| is_of(name, value))
        }
        _ => true,
    };
    let is_listed = schema["enum"].as_array().is_none_or(|values| values.contains(value));
    let has_variant = schema["anyOf"]
        .as_array()
        .is_none_or(|variants| variants.iter().any(|variant| fits(variant, value)));
    has_type && is_listed && has_variant && fits_inside(schema, value)
}

fn fits_inside(schema: &Value, value: &Value) -> bool {
    match value {
        Value::Object(object) => {
            let Some(properties) = schema["properties"].as_object() else { return true };
            let required = schema["required"].as_array().into_iter().flatten();
            let has_all = required.filter_map(Value::as_str).all(|name| object.contains_key(name));
            has_all
                && object.iter().all(|(name, value)| {
                    properties.get(name).is_some_and(|schema| fits(schema, value))
                })
        }
        Value::Array(items) => {
            let schema = &schema["items"];
            schema.is_null() || items.iter().all(|item| fits(schema, item))
        }
        _ => true,
    }
}

fn is_of(name: &str, value: &Value) -> bool {
    match name.to_ascii_lowercase().as_str() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(null_is_absence: bool, tree: RestoreTree) -> RestoreField {
        RestoreField { null_is_absence, tree }
    }

    #[track_caller]
    fn check(tree: &RestoreTree, sent: Value, meant: Value) {
        let keys = HashMap::from([("_top_1".to_owned(), "$top".to_owned())]);
        let restore = Restore::new(tree.clone(), keys);
        assert_eq!(restore.apply(sent), meant);
    }

    #[test]
    fn nulls_texts_and_names_are_restored() {
        let tree = RestoreTree::object(IndexMap::from([
            ("limit".to_owned(), field(true, RestoreTree::Same)),
            ("note".to_owned(), field(false, RestoreTree::Same)),
            ("any".to_owned(), field(false, RestoreTree::Json)),
            (
                "level".to_owned(),
                field(false, RestoreTree::Values(vec![("3".to_owned(), json!(3))])),
            ),
        ]));
        check(&tree, json!({"limit": null, "note": null}), json!({"note": null}));
        check(
            &tree,
            json!({"any": "{\"a\": [1]}", "level": "3"}),
            json!({"any": {"a": [1]}, "level": 3}),
        );
        check(
            &tree,
            json!({"any": "no JSON", "level": "4"}),
            json!({"any": "no JSON", "level": "4"}),
        );
        check(&tree, json!({"x": [{"_top_1": 5}]}), json!({"x": [{"$top": 5}]}));
        check(&tree, json!("not an object"), json!("not an object"));
    }

    #[test]
    fn alternatives_are_distinguished_by_their_schemas() {
        let variant = |tag: &str, tree: RestoreTree| {
            let schema = json!({"type": "object", "required": ["kind", "x"], "properties": {
                "kind": {"enum": [tag]}, "x": {"type": ["string", "null"]}}});
            (schema, tree)
        };
        let drops =
            RestoreTree::object(IndexMap::from([("x".to_owned(), field(true, RestoreTree::Same))]));
        let tree = RestoreTree::items(RestoreTree::any(vec![
            variant("a", drops),
            variant("b", RestoreTree::Same),
        ]));
        check(
            &tree,
            json!([{"kind": "a", "x": null}, {"kind": "b", "x": null}, {"kind": "c"}]),
            json!([{"kind": "a"}, {"kind": "b", "x": null}, {"kind": "c"}]),
        );
    }

    #[test]
    fn an_empty_restore_is_recognized() {
        let fields =
            IndexMap::from([("a".to_owned(), field(false, RestoreTree::items(RestoreTree::Same)))]);
        assert!(Restore::new(RestoreTree::object(fields), HashMap::new()).is_nothing());
    }
}
