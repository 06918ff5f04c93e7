//! Gemini's `parameters`: a subset of OpenAPI 3.0 (`Schema` in its reference) with one type per
//! node. Values that it cannot describe are sent as JSON text and restored.
//!
//! Sources of the rules: `type` is one enum value ("Proto field is not repeating, cannot start
//! list"); `anyOf` "must be the only field set" on Vertex; enum values are non-empty strings;
//! "properties: should be non-empty for OBJECT type"; "required[0]: property is not defined".
//! `additionalProperties` of a closed object is left out without a note: Gemini fills declared
//! properties only, and the gate checks again.

use std::collections::HashSet;

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::{
    DialectWriter, UnionShape, any_of, description, is_plain_pattern, limit_text, put_limits,
};
use crate::formats::{
    ModelFormat,
    losses::Losses,
    restore::{Restore, RestoreField, RestoreTree},
    schema::{Additional, SchemaNode, Types},
};

/// Writes the schema of a tool's input. `None` for a tool without parameters, because an empty
/// object is refused.
///
/// # Errors
/// When it cannot be written. The text completes a sentence that starts with the tool's name.
pub(crate) fn write(
    root: &SchemaNode,
    losses: &mut Losses,
) -> Result<(Option<Value>, Restore), String> {
    let mut writer = Writer { writer_state: DialectWriter::new(ModelFormat::Gemini, losses) };
    let mut root = root.clone();
    writer.writer_state.drop_rare(&mut root);
    if root.properties.is_empty() {
        if matches!(root.additional, Additional::Open | Additional::Like(_))
            || !root.rare.is_empty()
        {
            writer.writer_state.note_loss("properties that are not declared cannot be sent");
        }
        return Ok((None, Restore::default()));
    }
    let GeminiSchema { mut schema, tree, notes } = writer.object(&root)?;
    put_description(&mut schema, &root, &notes);
    let keys = writer.writer_state.keys.reverse_map()?;
    Ok((Some(Value::Object(schema)), Restore::new(tree, keys)))
}

struct Writer<'l> {
    writer_state: DialectWriter<'l>,
}

/// A schema, how to restore its values, and text for the description.
struct GeminiSchema {
    schema: Map<String, Value>,
    tree: RestoreTree,
    notes: Vec<String>,
}

impl Writer<'_> {
    fn schema(&mut self, node: &SchemaNode) -> Result<(Value, RestoreTree), String> {
        let mut written = match self.writer_state.shape(node)? {
            UnionShape::Choice(variants) => self.choice(&variants)?,
            UnionShape::One(node) => self.one(&node)?,
        };
        if let Some(default) = node.default.as_ref().filter(|default| !default.is_null()) {
            written.notes.extend(limit_text("default", default));
        }
        let GeminiSchema { mut schema, tree, notes } = written;
        put_before(shared_target(&mut schema), node, &notes);
        Ok((Value::Object(schema), tree))
    }

    fn within(&mut self, part: &str, node: &SchemaNode) -> Result<(Value, RestoreTree), String> {
        self.writer_state.path.push(part.to_owned());
        let written = self.schema(node);
        self.writer_state.path.pop();
        written
    }

    fn choice(&mut self, variants: &[SchemaNode]) -> Result<GeminiSchema, String> {
        let is_nullable = variants.iter().any(SchemaNode::takes_null);
        let others: Vec<&SchemaNode> =
            variants.iter().filter(|variant| !variant.is_null()).collect();
        let mut written = match others.as_slice() {
            [] => self.one(&SchemaNode::of(Types::NULL))?,
            [only] => {
                let (schema, tree) = self.schema(only)?;
                let Value::Object(schema) = schema else { return Err(super::too_large()) };
                GeminiSchema { schema, tree, notes: Vec::new() }
            }
            others if others.iter().all(|node| node.is_literal()) => self.all_literals(others)?,
            others => self.any_of(others)?,
        };
        if is_nullable {
            make_nullable(&mut written.schema);
        }
        Ok(written)
    }

    /// Merges alternatives that are values with descriptions into one described list.
    fn all_literals(&mut self, variants: &[&SchemaNode]) -> Result<GeminiSchema, String> {
        let values: Vec<Value> =
            variants.iter().flat_map(|node| node.values.iter().flatten().cloned()).collect();
        let declared = |node: &&SchemaNode| {
            let values: Vec<String> = node.values.iter().flatten().map(text_of).collect();
            node.description.as_ref().map(|declared| format!("{}: {declared}", values.join(", ")))
        };
        let notes = variants.iter().filter_map(declared).collect();
        let mut written = self.literals(&values)?;
        written.notes = notes;
        Ok(written)
    }

    fn any_of(&mut self, variants: &[&SchemaNode]) -> Result<GeminiSchema, String> {
        let (mut schemas, mut trees, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        for variant in variants {
            let (schema, tree) = self.schema(variant)?;
            if seen.insert(schema.to_string()) {
                schemas.push(schema.clone());
                trees.push((schema, tree));
            }
        }
        if let ([Value::Object(only)], Some((_, tree))) = (schemas.as_slice(), trees.first()) {
            return Ok(GeminiSchema {
                schema: only.clone(),
                tree: tree.clone(),
                notes: Vec::new(),
            });
        }
        let mut schema = Map::new();
        schema.insert("anyOf".to_owned(), schemas.into());
        Ok(GeminiSchema { schema, tree: RestoreTree::any(trees), notes: Vec::new() })
    }

    fn one(&mut self, node: &SchemaNode) -> Result<GeminiSchema, String> {
        let Some(types) = node.evident_types() else {
            return Ok(self.json_text("any value, written as JSON"));
        };
        if let Some(values) = &node.values {
            return self.literals(values);
        }
        let kinds = types.without(Types::NULL).each();
        let is_nullable = types.contains(Types::NULL);
        let mut written = match kinds.as_slice() {
            [] => {
                GeminiSchema { schema: typed("STRING"), tree: RestoreTree::Same, notes: Vec::new() }
            }
            [kind] => self.kind(node, *kind)?,
            kinds => {
                let of_kind =
                    |kind: &Types| SchemaNode { types: Some(*kind), ..node.without_annotations() };
                let variants: Vec<SchemaNode> = kinds.iter().map(of_kind).collect();
                self.any_of(&variants.iter().collect::<Vec<_>>())?
            }
        };
        if is_nullable {
            make_nullable(&mut written.schema);
        }
        Ok(written)
    }

    /// For values without a schema. A string that is not JSON is returned unchanged.
    fn json_text(&mut self, what: &str) -> GeminiSchema {
        self.writer_state.note_loss("values without a fixed shape are sent as JSON text");
        GeminiSchema {
            schema: typed("STRING"),
            tree: RestoreTree::Json,
            notes: vec![what.to_owned()],
        }
    }

    fn literals(&mut self, values: &[Value]) -> Result<GeminiSchema, String> {
        let is_nullable = values.contains(&Value::Null);
        let others: Vec<&Value> = values.iter().filter(|value| !value.is_null()).collect();
        let texts: Vec<String> = others.iter().map(|value| text_of(value)).collect();
        let mut schema = typed("STRING");
        let (mut tree, mut notes) = (RestoreTree::Same, Vec::new());
        let has_same = texts.iter().enumerate().any(|(index, text)| {
            // Only in short lists: "1" and 1 in one list is rare, and the check is slow for long
            // ones.
            index < 64 && texts.iter().take(index).any(|known| known == text)
        });
        if texts.iter().any(String::is_empty) || has_same {
            self.writer_state.note_loss("the list of values is only in the description");
            let all = Value::Array(others.iter().map(|value| (*value).clone()).collect());
            notes.extend(limit_text("one of", &all));
            let is_text = others.iter().all(|value| value.is_string());
            tree = if is_text { RestoreTree::Same } else { RestoreTree::Json };
        } else if !texts.is_empty() {
            if others.iter().any(|value| !value.is_string()) {
                self.writer_state.note_loss(
                    "values that are not strings are listed as strings and converted back",
                );
                let values = others.into_iter().cloned();
                tree = RestoreTree::Values(texts.iter().cloned().zip(values).collect());
            }
            schema.insert("enum".to_owned(), texts.into());
        }
        if is_nullable {
            make_nullable(&mut schema);
        }
        Ok(GeminiSchema { schema, tree, notes })
    }

    fn kind(&mut self, node: &SchemaNode, kind: Types) -> Result<GeminiSchema, String> {
        match kind {
            Types::OBJECT if node.properties.is_empty() => {
                Ok(self.json_text("an object, written as JSON"))
            }
            Types::OBJECT => self.object(node),
            Types::ARRAY => self.array(node),
            kind => {
                let name = kind.names().first().copied().unwrap_or("string");
                let mut schema = typed(&name.to_ascii_uppercase());
                let notes = self.put_limits(node, kind, &mut schema);
                Ok(GeminiSchema { schema, tree: RestoreTree::Same, notes })
            }
        }
    }

    fn put_limits(
        &mut self,
        node: &SchemaNode,
        kind: Types,
        schema: &mut Map<String, Value>,
    ) -> Vec<String> {
        let is_known = |keyword: &str, value: &Value| match (keyword, value) {
            ("format", Value::String(name)) => match kind {
                Types::STRING => name == "date-time",
                Types::INTEGER => name == "int32" || name == "int64",
                _ => name == "float" || name == "double",
            },
            ("pattern", Value::String(pattern)) => is_plain_pattern(pattern),
            ("uniqueItems" | "multipleOf", _) => false,
            ("exclusiveMinimum" | "exclusiveMaximum", _) => false,
            ("contentEncoding" | "contentMediaType", _) => false,
            _ => true,
        };
        put_limits(&mut self.writer_state, node, kind, is_known, schema)
    }

    fn array(&mut self, node: &SchemaNode) -> Result<GeminiSchema, String> {
        if !node.prefix.is_empty() {
            self.writer_state.note_loss("a tuple is sent as a list of any of its parts");
        }
        let mut parts = node.prefix.clone();
        parts.extend(node.items.as_deref().cloned());
        let items = match parts.as_slice() {
            [] => SchemaNode::default(),
            [only] => only.clone(),
            _ => any_of(parts),
        };
        let (items, tree) = self.within("[]", &items)?;
        let mut schema = typed("ARRAY");
        schema.insert("items".to_owned(), items);
        let notes = self.put_limits(node, Types::ARRAY, &mut schema);
        Ok(GeminiSchema { schema, tree: RestoreTree::items(tree), notes })
    }

    fn object(&mut self, node: &SchemaNode) -> Result<GeminiSchema, String> {
        let is_patterned = node.rare.contains_key("patternProperties");
        if is_patterned || matches!(node.additional, Additional::Open | Additional::Like(_)) {
            self.writer_state.note_loss("properties that are not declared cannot be sent");
        }
        let required = self.writer_state.required(node);
        let (mut properties, mut fields) = (Map::new(), IndexMap::new());
        for (name, inner) in &node.properties {
            let key = self.writer_state.key(name);
            let (schema, tree) = self.within(name, inner)?;
            properties.insert(key.clone(), schema);
            fields.insert(key, RestoreField { null_is_absence: false, tree });
        }
        let required: Vec<Value> =
            required.iter().map(|name| self.writer_state.keys.key(name).into()).collect();
        let mut schema = typed("OBJECT");
        schema.insert("properties".to_owned(), properties.into());
        if !required.is_empty() {
            schema.insert("required".to_owned(), required.into());
        }
        let notes = self.put_limits(node, Types::OBJECT, &mut schema);
        Ok(GeminiSchema { schema, tree: RestoreTree::object(fields), notes })
    }
}

fn typed(name: &str) -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), name.into())])
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn put_description(schema: &mut Map<String, Value>, node: &SchemaNode, notes: &[String]) {
    if let Some(description) = description(node, notes) {
        schema.insert("description".to_owned(), description.into());
    }
}

/// Puts the description of the whole before the description of an alternative.
fn put_before(schema: &mut Map<String, Value>, node: &SchemaNode, notes: &[String]) {
    let known = schema.get("description").and_then(Value::as_str).map(str::to_owned);
    let whole = description(node, notes);
    let text = match (whole, known) {
        (Some(whole), Some(known)) if !whole.contains(&known) => Some(format!("{whole} {known}")),
        (whole, known) => whole.or(known),
    };
    if let Some(text) = text {
        schema.insert("description".to_owned(), text.into());
    }
}

fn make_nullable(schema: &mut Map<String, Value>) {
    shared_target(schema).insert("nullable".to_owned(), json!(true));
}

/// Returns the schema for shared keywords. No keyword may be beside alternatives, so the first of
/// them carries these.
fn shared_target(schema: &mut Map<String, Value>) -> &mut Map<String, Value> {
    let has_variants = schema.get("anyOf").is_some_and(|variants| variants[0].is_object());
    if !has_variants {
        return schema;
    }
    let first = schema.get_mut("anyOf").and_then(|variants| variants.get_mut(0));
    shared_target(first.and_then(Value::as_object_mut).expect("checked above"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::schema::{as_object, read};

    fn written(schema: &Value) -> (Option<Value>, Restore, Vec<String>) {
        let mut losses = Losses::default();
        let node = read(schema, &mut losses).and_then(|node| as_object(node, &mut losses));
        let (written, restore) = write(&node.expect("an object"), &mut losses).expect("written");
        (written, restore, losses.into_notes())
    }

    /// Checks one property called `a`.
    #[track_caller]
    fn check(property: Value, expected: Value) -> Vec<String> {
        let (schema, _, notes) = written(&json!({"properties": {"a": property}}));
        assert_eq!(schema.expect("it has a property")["properties"]["a"], expected);
        notes
    }

    #[track_caller]
    fn check_back(property: Value, sent: Value, meant: Value) {
        let (_, restore, _) = written(&json!({"properties": {"a": property}}));
        assert_eq!(restore.apply(json!({"a": sent})), json!({"a": meant}));
    }

    #[test]
    fn a_tool_without_parameters_declares_none() {
        let (schema, _, notes) = written(&json!({"type": "object", "properties": {}}));
        assert_eq!((schema, notes), (None, Vec::<String>::new()));
        let (schema, _, notes) = written(&json!({"type": "object", "additionalProperties": true}));
        assert_eq!(schema, None);
        assert_eq!(notes, ["properties that are not declared cannot be sent"]);
    }

    #[test]
    fn types_are_single_and_null_is_a_switch() {
        check(json!({"type": ["string", "null"]}), json!({"type": "STRING", "nullable": true}));
        check(
            json!({"type": ["string", "integer", "null"], "description": "x"}),
            json!({"anyOf": [{"type": "STRING", "nullable": true, "description": "x"}, {"type": "INTEGER"}]}),
        );
        check(
            json!({"anyOf": [{"type": "number"}, {"type": "null"}], "description": "x"}),
            json!({"type": "NUMBER", "nullable": true, "description": "x"}),
        );
        check(json!({"type": "null"}), json!({"type": "STRING", "nullable": true}));
    }

    #[test]
    fn values_are_strings_and_are_converted_back() {
        check(
            json!({"enum": ["a", null]}),
            json!({"type": "STRING", "enum": ["a"], "nullable": true}),
        );
        let notes = check(json!({"enum": [1, 2]}), json!({"type": "STRING", "enum": ["1", "2"]}));
        assert_eq!(notes.len(), 1);
        check_back(json!({"enum": [1, true]}), json!("true"), json!(true));
        check(
            json!({"enum": ["", "b"]}),
            json!({"type": "STRING", "description": "one of: [\"\",\"b\"]"}),
        );
        check(
            json!({"enum": ["1", 1]}),
            json!({"type": "STRING", "description": "one of: [\"1\",1]"}),
        );
        check_back(json!({"enum": ["1", 1]}), json!("1"), json!(1));
        check_back(json!({"enum": ["1", 1]}), json!("\"1\""), json!("1"));
    }

    #[test]
    fn described_values_are_one_list() {
        check(
            json!({"description": "How.", "oneOf": [{"const": "fast", "description": "Hurry."}, {"const": "slow"}]}),
            json!({"type": "STRING", "enum": ["fast", "slow"], "description": "How. (fast: Hurry.)"}),
        );
    }

    #[test]
    fn values_without_a_shape_are_json_text() {
        check(json!({}), json!({"type": "STRING", "description": "any value, written as JSON"}));
        check(
            json!({"type": "object", "additionalProperties": {"type": "string"}, "description": "Labels."}),
            json!({"type": "STRING", "description": "Labels. (an object, written as JSON)"}),
        );
        check_back(json!({"type": "object"}), json!("{\"b\": 1}"), json!({"b": 1}));
        check_back(json!({"type": "array"}), json!(["{}", "x"]), json!([{}, "x"]));
    }

    #[test]
    fn known_limits_stay_and_others_are_described() {
        check(
            json!({"type": "integer", "minimum": 1, "multipleOf": 2, "format": "uint32"}),
            json!({"type": "INTEGER", "minimum": 1, "description": "multipleOf: 2, format: uint32"}),
        );
        check(
            json!({"type": "string", "format": "date-time", "minLength": 3, "pattern": "^a"}),
            json!({"type": "STRING", "format": "date-time", "minLength": 3, "pattern": "^a"}),
        );
        check(
            json!({"type": "array", "items": {"type": "string"}, "maxItems": 3}),
            json!({"type": "ARRAY", "items": {"type": "STRING"}, "maxItems": 3}),
        );
    }

    #[test]
    fn objects_require_only_declared_properties() {
        let notes = check(
            json!({"type": "object", "properties": {"b c": {"type": "boolean"}}, "required": ["b c", "d"], "additionalProperties": false}),
            json!({"type": "OBJECT", "properties": {"b_c_2a61ac2f": {"type": "BOOLEAN"}}, "required": ["b_c_2a61ac2f"]}),
        );
        assert_eq!(notes.len(), 2, "{notes:?}");
        check_back(
            json!({"properties": {"b c": {"type": "boolean"}}}),
            json!({"b_c_2a61ac2f": true}),
            json!({"b c": true}),
        );
    }

    #[test]
    fn alternatives_stand_alone() {
        check(
            json!({"description": "Which.", "default": 3, "anyOf": [{"type": "string"}, {"type": "object", "properties": {"b": {"type": "string"}}}]}),
            json!({"anyOf": [{"type": "STRING", "description": "Which. (default: 3)"}, {"type": "OBJECT", "properties": {"b": {"type": "STRING"}}}]}),
        );
    }
}
