//! Gemini's `parameters`: a subset of OpenAPI 3.0 (`Schema` in its reference), one type per node. What it cannot hold is
//! sent as JSON in a text and comes back as what it was.
//!
//! Where rules come from: `type` is one enum value ("Proto field is not repeating, cannot start list"); `anyOf` "must be
//! the only field set" on Vertex; enum values are texts and not empty; "properties: should be non-empty for OBJECT type";
//! "required[0]: property is not defined". `additionalProperties` is left out without a word where an object is closed:
//! Gemini fills declared properties only, and the gate looks again.

use std::collections::HashSet;

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::{Page, Shape, any_of, description, is_plain_pattern, put_limits, worded};
use crate::formats::{
    Format,
    losses::Losses,
    restore::{Field, Restore, Tree},
    schema::{Additional, Node, Types},
};

/// The schema of a tool's input, or nothing for a tool without parameters: an empty object is refused.
///
/// # Errors
/// When it cannot be written; in words that follow the tool's name.
pub(crate) fn write(root: &Node, losses: &mut Losses) -> Result<(Option<Value>, Restore), String> {
    let mut writer = Writer { page: Page::new(Format::Gemini, losses) };
    let mut root = root.clone();
    writer.page.drop_further(&mut root);
    if root.properties.is_empty() {
        if matches!(root.additional, Additional::Open | Additional::Like(_))
            || !root.further.is_empty()
        {
            writer.page.tell("properties that are not declared cannot be sent");
        }
        return Ok((None, Restore::default()));
    }
    let Written { mut schema, tree, words } = writer.object(&root)?;
    put_description(&mut schema, &root, &words);
    let keys = writer.page.keys.way_back()?;
    Ok((Some(Value::Object(schema)), Restore::new(tree, keys)))
}

struct Writer<'l> {
    page: Page<'l>,
}

/// A schema, how its values come back, and what it could not say but in words.
struct Written {
    schema: Map<String, Value>,
    tree: Tree,
    words: Vec<String>,
}

impl Writer<'_> {
    fn schema(&mut self, node: &Node) -> Result<(Value, Tree), String> {
        let mut written = match self.page.shape(node)? {
            Shape::Choice(variants) => self.choice(&variants)?,
            Shape::One(node) => self.one(&node)?,
        };
        if let Some(default) = node.default.as_ref().filter(|default| !default.is_null()) {
            written.words.extend(worded("default", default));
        }
        let Written { mut schema, tree, words } = written;
        put_before(bearer(&mut schema), node, &words);
        Ok((Value::Object(schema), tree))
    }

    fn within(&mut self, part: &str, node: &Node) -> Result<(Value, Tree), String> {
        self.page.place.push(part.to_owned());
        let written = self.schema(node);
        self.page.place.pop();
        written
    }

    fn choice(&mut self, variants: &[Node]) -> Result<Written, String> {
        let is_nullable = variants.iter().any(Node::takes_null);
        let others: Vec<&Node> = variants.iter().filter(|variant| !variant.is_null()).collect();
        let mut written = match others.as_slice() {
            [] => self.one(&Node::of(Types::NULL))?,
            [only] => {
                let (schema, tree) = self.schema(only)?;
                let Value::Object(schema) = schema else { return Err(super::too_large()) };
                Written { schema, tree, words: Vec::new() }
            }
            others if others.iter().all(|node| node.is_literal()) => self.all_literals(others)?,
            others => self.any_of(others)?,
        };
        if is_nullable {
            make_nullable(&mut written.schema);
        }
        Ok(written)
    }

    /// Alternatives that are values each with its description are one list of values, described together.
    fn all_literals(&mut self, variants: &[&Node]) -> Result<Written, String> {
        let values: Vec<Value> =
            variants.iter().flat_map(|node| node.values.iter().flatten().cloned()).collect();
        let told = |node: &&Node| {
            let values: Vec<String> = node.values.iter().flatten().map(text_of).collect();
            node.description.as_ref().map(|told| format!("{}: {told}", values.join(", ")))
        };
        let words = variants.iter().filter_map(told).collect();
        let mut written = self.literals(&values)?;
        written.words = words;
        Ok(written)
    }

    fn any_of(&mut self, variants: &[&Node]) -> Result<Written, String> {
        let (mut schemas, mut trees, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        for variant in variants {
            let (schema, tree) = self.schema(variant)?;
            if seen.insert(schema.to_string()) {
                schemas.push(schema.clone());
                trees.push((schema, tree));
            }
        }
        if let ([Value::Object(only)], Some((_, tree))) = (schemas.as_slice(), trees.first()) {
            return Ok(Written { schema: only.clone(), tree: tree.clone(), words: Vec::new() });
        }
        let mut schema = Map::new();
        schema.insert("anyOf".to_owned(), schemas.into());
        Ok(Written { schema, tree: Tree::any(trees), words: Vec::new() })
    }

    fn one(&mut self, node: &Node) -> Result<Written, String> {
        let Some(types) = node.evident_types() else {
            return Ok(self.json_text("any value, written as JSON"));
        };
        if let Some(values) = &node.values {
            return self.literals(values);
        }
        let kinds = types.without(Types::NULL).each();
        let is_nullable = types.contains(Types::NULL);
        let mut written = match kinds.as_slice() {
            [] => Written { schema: typed("STRING"), tree: Tree::Same, words: Vec::new() },
            [kind] => self.kind(node, *kind)?,
            kinds => {
                let of_kind = |kind: &Types| Node { types: Some(*kind), ..node.without_words() };
                let variants: Vec<Node> = kinds.iter().map(of_kind).collect();
                self.any_of(&variants.iter().collect::<Vec<_>>())?
            }
        };
        if is_nullable {
            make_nullable(&mut written.schema);
        }
        Ok(written)
    }

    /// For what has no schema here. Whatever is no JSON comes back as the text it is.
    fn json_text(&mut self, what: &str) -> Written {
        self.page.tell("what has no fixed shape is sent as JSON in a text");
        Written { schema: typed("STRING"), tree: Tree::Json, words: vec![what.to_owned()] }
    }

    fn literals(&mut self, values: &[Value]) -> Result<Written, String> {
        let is_nullable = values.contains(&Value::Null);
        let others: Vec<&Value> = values.iter().filter(|value| !value.is_null()).collect();
        let texts: Vec<String> = others.iter().map(|value| text_of(value)).collect();
        let mut schema = typed("STRING");
        let (mut tree, mut words) = (Tree::Same, Vec::new());
        let has_same = texts.iter().enumerate().any(|(index, text)| {
            // Short lists only: "1" and 1 in one list is rare, and looking for it in a long one takes too long.
            index < 64 && texts.iter().take(index).any(|known| known == text)
        });
        if texts.iter().any(String::is_empty) || has_same {
            self.page.tell("the list of values is said in words only");
            let all = Value::Array(others.iter().map(|value| (*value).clone()).collect());
            words.extend(worded("one of", &all));
            let is_text = others.iter().all(|value| value.is_string());
            tree = if is_text { Tree::Same } else { Tree::Json };
        } else if !texts.is_empty() {
            if others.iter().any(|value| !value.is_string()) {
                self.page.tell(
                    "values that are no texts are listed as texts and come back as they were",
                );
                let values = others.into_iter().cloned();
                tree = Tree::Values(texts.iter().cloned().zip(values).collect());
            }
            schema.insert("enum".to_owned(), texts.into());
        }
        if is_nullable {
            make_nullable(&mut schema);
        }
        Ok(Written { schema, tree, words })
    }

    fn kind(&mut self, node: &Node, kind: Types) -> Result<Written, String> {
        match kind {
            Types::OBJECT if node.properties.is_empty() => {
                Ok(self.json_text("an object, written as JSON"))
            }
            Types::OBJECT => self.object(node),
            Types::ARRAY => self.array(node),
            kind => {
                let name = kind.names().first().copied().unwrap_or("string");
                let mut schema = typed(&name.to_ascii_uppercase());
                let words = self.put_limits(node, kind, &mut schema);
                Ok(Written { schema, tree: Tree::Same, words })
            }
        }
    }

    fn put_limits(
        &mut self,
        node: &Node,
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
        put_limits(&mut self.page, node, kind, is_known, schema)
    }

    fn array(&mut self, node: &Node) -> Result<Written, String> {
        if !node.prefix.is_empty() {
            self.page.tell("a tuple is sent as a list of any of its parts");
        }
        let mut parts = node.prefix.clone();
        parts.extend(node.items.as_deref().cloned());
        let items = match parts.as_slice() {
            [] => Node::default(),
            [only] => only.clone(),
            _ => any_of(parts),
        };
        let (items, tree) = self.within("[]", &items)?;
        let mut schema = typed("ARRAY");
        schema.insert("items".to_owned(), items);
        let words = self.put_limits(node, Types::ARRAY, &mut schema);
        Ok(Written { schema, tree: Tree::items(tree), words })
    }

    fn object(&mut self, node: &Node) -> Result<Written, String> {
        let is_patterned = node.further.contains_key("patternProperties");
        if is_patterned || matches!(node.additional, Additional::Open | Additional::Like(_)) {
            self.page.tell("properties that are not declared cannot be sent");
        }
        let required = self.page.required(node);
        let (mut properties, mut fields) = (Map::new(), IndexMap::new());
        for (name, inner) in &node.properties {
            let key = self.page.key(name);
            let (schema, tree) = self.within(name, inner)?;
            properties.insert(key.clone(), schema);
            fields.insert(key, Field { null_is_absence: false, tree });
        }
        let required: Vec<Value> =
            required.iter().map(|name| self.page.keys.key(name).into()).collect();
        let mut schema = typed("OBJECT");
        schema.insert("properties".to_owned(), properties.into());
        if !required.is_empty() {
            schema.insert("required".to_owned(), required.into());
        }
        let words = self.put_limits(node, Types::OBJECT, &mut schema);
        Ok(Written { schema, tree: Tree::object(fields), words })
    }
}

fn typed(name: &str) -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), name.into())])
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn put_description(schema: &mut Map<String, Value>, node: &Node, words: &[String]) {
    if let Some(description) = description(node, words) {
        schema.insert("description".to_owned(), description.into());
    }
}

/// What is said of the whole, before what an alternative says of itself.
fn put_before(schema: &mut Map<String, Value>, node: &Node, words: &[String]) {
    let known = schema.get("description").and_then(Value::as_str).map(str::to_owned);
    let whole = description(node, words);
    let text = match (whole, known) {
        (Some(whole), Some(known)) if !whole.contains(&known) => Some(format!("{whole} {known}")),
        (whole, known) => whole.or(known),
    };
    if let Some(text) = text {
        schema.insert("description".to_owned(), text.into());
    }
}

fn make_nullable(schema: &mut Map<String, Value>) {
    bearer(schema).insert("nullable".to_owned(), json!(true));
}

/// Nothing may stand beside alternatives, so the first of them carries what is said of all.
fn bearer(schema: &mut Map<String, Value>) -> &mut Map<String, Value> {
    let has_variants = schema.get("anyOf").is_some_and(|variants| variants[0].is_object());
    if !has_variants {
        return schema;
    }
    let first = schema.get_mut("anyOf").and_then(|variants| variants.get_mut(0));
    bearer(first.and_then(Value::as_object_mut).expect("it was looked at"))
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

    /// One property called `a`.
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
    fn values_are_texts_and_come_back_as_what_they_were() {
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
    fn what_has_no_shape_is_json_in_a_text() {
        check(json!({}), json!({"type": "STRING", "description": "any value, written as JSON"}));
        check(
            json!({"type": "object", "additionalProperties": {"type": "string"}, "description": "Labels."}),
            json!({"type": "STRING", "description": "Labels. (an object, written as JSON)"}),
        );
        check_back(json!({"type": "object"}), json!("{\"b\": 1}"), json!({"b": 1}));
        check_back(json!({"type": "array"}), json!(["{}", "x"]), json!([{}, "x"]));
    }

    #[test]
    fn known_bounds_stay_and_others_are_said() {
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
    fn objects_name_only_what_they_have() {
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
