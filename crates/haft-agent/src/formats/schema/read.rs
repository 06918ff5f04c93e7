//! Reads schemas of any draft, including invalid ones. Local references are resolved, cycles and
//! deep nesting are limited, and unknown parts are left out and reported. Work and size are bounded
//! for any input.

mod keywords;
mod reference;

use std::{cell::OnceCell, collections::HashMap};

use serde_json::{Map, Value};

use self::keywords::make_nullable;
use super::{Additional, RareKeyword, SchemaNode, Types, Union, intersect};
use crate::formats::losses::Losses;

/// Maximum nesting of a schema. Each level may become four levels of JSON (a property that is a
/// list of alternatives), and JSON parsers stop at 128.
const MAX_LEVELS: usize = 24;
/// Maximum number of nodes after resolving references, and maximum number of bytes of text.
const MAX_NODES: usize = 10_000;
const MAX_BYTES: usize = 1 << 20;

/// Reads a schema as a tree.
///
/// # Errors
/// When it is too large. The text completes a sentence that starts with the tool's name.
pub(crate) fn read(root: &Value, losses: &mut Losses) -> Result<SchemaNode, String> {
    let mut reader = SchemaReader {
        root,
        losses,
        path: Vec::new(),
        following: vec![root],
        n_levels: 0,
        n_nodes: 0,
        n_bytes: 0,
        anchors: OnceCell::new(),
    };
    reader.schema(root)
}

pub(crate) fn too_large() -> String {
    format!(
        "its schema has more than {MAX_NODES} parts or {} KiB once its references are followed",
        MAX_BYTES >> 10
    )
}

struct SchemaReader<'a, 'l> {
    root: &'a Value,
    losses: &'l mut Losses,
    path: Vec<&'a str>,
    /// Targets of the references around the current schema.
    following: Vec<&'a Value>,
    n_levels: usize,
    n_nodes: usize,
    n_bytes: usize,
    /// Parts with a name, collected when a reference needs one.
    anchors: OnceCell<HashMap<&'a str, &'a Value>>,
}

impl<'a> SchemaReader<'a, '_> {
    fn schema(&mut self, schema: &'a Value) -> Result<SchemaNode, String> {
        self.charge(schema)?;
        match schema {
            Value::Object(object) if self.n_levels >= MAX_LEVELS => {
                self.note_loss(format!(
                    "schemas nested deeper than {MAX_LEVELS} levels accept anything"
                ));
                Ok(outline(object))
            }
            Value::Object(object) => {
                self.n_levels += 1;
                let node = self.object(object);
                self.n_levels -= 1;
                node
            }
            Value::Bool(true) => Ok(SchemaNode::default()),
            Value::Bool(false) => Ok(SchemaNode::nothing()),
            _ => {
                self.note_loss("a value that is not a schema accepts anything");
                Ok(SchemaNode::default())
            }
        }
    }

    /// Reads a nested schema: a property, the items of a list, an alternative.
    fn within(&mut self, part: &'a str, schema: &'a Value) -> Result<SchemaNode, String> {
        self.path.push(part);
        let node = self.schema(schema);
        self.path.pop();
        node
    }

    /// Merges a schema's own keywords with those of its `$ref` and `allOf`.
    fn object(&mut self, object: &'a Map<String, Value>) -> Result<SchemaNode, String> {
        let before = self.losses.n_changes();
        let mut own_keywords = self.own_keywords(object)?;
        let mut parts = self.all_of(object)?;
        parts.extend(self.referenced(object)?);
        parts.extend(lone_variants(&mut own_keywords));
        let mut merged = SchemaNode::default();
        // The schema's own annotations come last, so that they take precedence.
        for part in parts.into_iter().chain([own_keywords]) {
            merged = self.intersect(merged, part);
        }
        make_nullable(object, &mut merged);
        self.drop_unevaluated(&mut merged, before);
        Ok(merged)
    }

    /// Removes `unevaluatedProperties` and `unevaluatedItems` if a part that they depend on was
    /// left out since `before`, or could not be merged.
    fn drop_unevaluated(&mut self, node: &mut SchemaNode, before: usize) {
        if self.losses.n_changes() == before && node.parts.is_empty() {
            return;
        }
        for keyword in ["unevaluatedProperties", "unevaluatedItems"] {
            let mut had = node.rare.shift_remove(keyword).is_some();
            for part in &mut node.parts {
                had |= part.rare.shift_remove(keyword).is_some();
            }
            if had {
                self.note_loss(format!(
                    "`{keyword}` is left out, because it depends on a part that was left out"
                ));
            }
        }
    }

    fn intersect(&mut self, one: SchemaNode, other: SchemaNode) -> SchemaNode {
        let mut is_looser = false;
        let both = intersect(one, other, &mut is_looser);
        if is_looser {
            self.note_loss(
                "`additionalProperties: false` in one part of an `allOf` applies to all parts",
            );
        }
        both
    }

    fn all_of(&mut self, object: &'a Map<String, Value>) -> Result<Vec<SchemaNode>, String> {
        match object.get("allOf") {
            None => Ok(Vec::new()),
            Some(Value::Array(parts)) => parts.iter().map(|part| self.schema(part)).collect(),
            Some(_) => {
                self.note_loss("`allOf` is not a list and is left out");
                Ok(Vec::new())
            }
        }
    }

    fn charge(&mut self, schema: &Value) -> Result<(), String> {
        if let Value::Object(object) = schema {
            self.n_bytes +=
                object.iter().map(|(key, value)| key.len() + own_bytes(key, value)).sum::<usize>();
        }
        self.step()
    }

    fn step(&mut self) -> Result<(), String> {
        self.n_nodes += 1;
        let is_too_large = self.n_nodes > MAX_NODES || self.n_bytes > MAX_BYTES;
        if is_too_large { Err(too_large()) } else { Ok(()) }
    }

    fn note_loss(&mut self, what: impl Into<String>) {
        self.losses.add(what, &self.path);
    }
}

/// Takes unions with only one variant, which become parts.
fn lone_variants(node: &mut SchemaNode) -> Vec<SchemaNode> {
    let (lone, others): (Vec<Union>, Vec<Union>) =
        std::mem::take(&mut node.unions).into_iter().partition(|union| union.variants.len() == 1);
    node.unions = others;
    lone.into_iter().flat_map(|union| union.variants).collect()
}

/// Returns an outline of a schema where reading stops. It accepts more than the whole.
fn outline(object: &Map<String, Value>) -> SchemaNode {
    let text = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
    let types = object.get("type").and_then(Value::as_str).and_then(Types::of_name);
    SchemaNode {
        title: text("title"),
        description: text("description"),
        types,
        ..SchemaNode::default()
    }
}

/// Returns the number of bytes that copying a keyword's value costs. Objects are schemas or maps of
/// schemas and are counted when they are read, except in lists of values.
fn own_bytes(keyword: &str, value: &Value) -> usize {
    match (keyword, value) {
        ("enum" | "const" | "default" | "example" | "examples", _) => all_bytes(value),
        (_, Value::Array(items)) => items.iter().filter_map(Value::as_str).map(str::len).sum(),
        (_, Value::Object(object)) => object.keys().map(String::len).sum(),
        (_, Value::String(text)) => text.len(),
        _ => 0,
    }
}

/// Returns the approximate size of a value, without recursion.
fn all_bytes(value: &Value) -> usize {
    let mut n_bytes = 0;
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        n_bytes += 8;
        match value {
            Value::String(text) => n_bytes += text.len(),
            Value::Array(items) => open.extend(items),
            Value::Object(object) => {
                n_bytes += object.keys().map(String::len).sum::<usize>();
                open.extend(object.values());
            }
            _ => {}
        }
    }
    n_bytes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_with_notes(schema: &Value) -> (SchemaNode, Vec<String>) {
        let mut losses = Losses::default();
        let node = read(schema, &mut losses).expect("it is small");
        (node, losses.into_notes())
    }

    #[track_caller]
    fn check(schema: Value, expected: Value) {
        let ((node, notes), (same, _)) = (read_with_notes(&schema), read_with_notes(&expected));
        assert_eq!(node, same);
        assert!(notes.is_empty(), "{notes:?}");
    }

    #[track_caller]
    fn check_lossy(schema: Value, expected: Value, note: &str) {
        let ((node, notes), (same, _)) = (read_with_notes(&schema), read_with_notes(&expected));
        assert_eq!(node, same);
        assert!(notes.iter().any(|declared| declared.contains(note)), "{notes:?}");
    }

    #[test]
    fn references_are_followed_with_their_escapes_and_siblings() {
        check(
            json!({"$ref": "#/$defs/a~1b%20c", "description": "here", "$defs": {"a/b c": {"type": "string", "description": "there"}}}),
            json!({"type": "string", "description": "here"}),
        );
        check(
            json!({"$ref": "#/definitions/A", "definitions": {"A": {"$ref": "#/definitions/B"}, "B": {"type": "integer"}}}),
            json!({"type": "integer"}),
        );
        check(
            json!({"properties": {"x": {"$ref": "#/properties/y"}, "y": {"type": "null"}}}),
            json!({"properties": {"x": {"type": "null"}, "y": {"type": "null"}}}),
        );
        check(
            json!({"$ref": "#name", "$defs": {"A": {"$anchor": "name", "minLength": 3}}, "type": "string"}),
            json!({"type": "string", "minLength": 3}),
        );
        check(
            json!({"$id": "https://example.test/s.json", "$ref": "https://example.test/s.json#/$defs/A", "$defs": {"A": {"type": "string"}}}),
            json!({"type": "string"}),
        );
    }

    #[test]
    fn cycles_end_with_an_outline() {
        let tree = json!({"$ref": "#/$defs/T", "$defs": {"T": {"type": "object", "description": "a tree", "properties": {
            "left": {"$ref": "#/$defs/T"}}}}});
        let cut = json!({"type": "object", "description": "a tree", "properties": {
            "left": {"type": "object", "description": "a tree"}}});
        check_lossy(tree, cut, "recursive `$ref` #/$defs/T is not followed further");
        check_lossy(
            json!({"properties": {"a": {"$ref": "#"}}}),
            json!({"properties": {"a": {}}}),
            "`$ref` # is not followed further (a)",
        );
    }

    #[test]
    fn unresolved_references_leave_the_keywords_beside_them() {
        for away in [
            "https://example.test/other.json",
            "#/$defs/missing",
            "other.json#/A",
            "#nothing",
            "#/%zz",
        ] {
            check_lossy(
                json!({"$ref": away, "title": "t"}),
                json!({"title": "t"}),
                "cannot be resolved",
            );
        }
        check_lossy(json!({"$dynamicRef": "#meta"}), json!({}), "`$dynamicRef` is left out");
        check_lossy(json!({"$ref": 5}), json!({}), "`$ref` is not a string");
    }

    #[test]
    fn parts_are_merged() {
        check(
            json!({"allOf": [{"properties": {"a": {"type": "number"}}, "required": ["a"]}, {"properties": {"a": {"type": "integer"}, "b": {}}, "required": ["b"]}]}),
            json!({"properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a", "b"]}),
        );
        check(
            json!({"type": ["string", "null"], "allOf": [{"minLength": 1}, {"minLength": 3}]}),
            json!({"type": ["string", "null"], "minLength": 3}),
        );
        check_lossy(
            json!({"allOf": [{"properties": {"a": {}}, "additionalProperties": false}, {"properties": {"b": {}}}]}),
            json!({"properties": {"a": {}, "b": {}}, "additionalProperties": false}),
            "applies to all parts",
        );
        let (node, _) = read_with_notes(&json!({"allOf": [{"pattern": "a"}, {"pattern": "b"}]}));
        assert_eq!(node.parts.len(), 1, "what cannot be merged stays apart");
    }

    #[test]
    fn old_drafts_and_dialects_are_understood() {
        check(
            json!({"type": "number", "minimum": 3, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false}),
            json!({"type": "number", "exclusiveMinimum": 3, "maximum": 9}),
        );
        check(json!({"type": "string", "nullable": true}), json!({"type": ["string", "null"]}));
        check(
            json!({"$ref": "#/$defs/A", "nullable": true, "$defs": {"A": {"type": "object"}}}),
            json!({"type": ["object", "null"]}),
        );
        check(
            json!({"type": "array", "items": [{"type": "string"}, {}], "additionalItems": false}),
            json!({"type": "array", "prefixItems": [{"type": "string"}, {}], "items": false}),
        );
        check(
            json!({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}),
            json!({"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}}),
        );
        check(json!({"type": "Object"}), json!({"type": "object"}));
        check(json!({"type": "any"}), json!({}));
        check(
            json!({"properties": {"a": {"type": "string", "required": true}}}),
            json!({"properties": {"a": {"type": "string"}}, "required": ["a"]}),
        );
        check(json!({"example": 1}), json!({"examples": [1]}));
    }

    #[test]
    fn keywords_without_meaning_are_removed_silently() {
        check(
            json!({"$schema": "x", "$id": "y", "$comment": "z", "$defs": {}, "x-order": 1, "discriminator": {}, "type": "string"}),
            json!({"type": "string"}),
        );
    }

    #[test]
    fn keywords_with_a_wrong_value_are_left_out_and_reported() {
        for (schema, note) in [
            (json!({"type": 5}), "`type` is neither"),
            (json!({"type": "file"}), "`file` is not known"),
            (json!({"minimum": "3"}), "`minimum` has a wrong value"),
            (json!({"minLength": -1}), "`minLength` has a wrong value"),
            (json!({"enum": "a"}), "`enum` is not a list"),
            (json!({"enum": ["a"], "const": 1}), "`const` and `enum` contradict"),
            (json!({"enum": []}), "`enum` is empty"),
            (json!({"required": "a"}), "`required` is not a list"),
            (json!({"properties": []}), "`properties` is not an object"),
            (json!({"anyOf": {}}), "`anyOf` is not a list"),
            (json!({"anyOf": [false]}), "`anyOf` has no alternative"),
            (json!({"allOf": 1}), "`allOf` is not a list"),
            (json!({"items": "string"}), "not a schema"),
            (json!({"if": true, "then": 0}), "not a schema"),
            (json!({"contains": true, "maxContains": {}}), "`maxContains` has a wrong value"),
            (json!({"type": "string", "default": 4}), "`default` does not fit"),
            (json!({"properties": {"a": false}}), "never allowed"),
        ] {
            let (_, notes) = read_with_notes(&schema);
            assert!(notes.iter().any(|declared| declared.contains(note)), "{schema}: {notes:?}");
        }
    }

    #[test]
    fn values_and_types_are_made_to_agree() {
        check(json!({"enum": [1, 1, "a"]}), json!({"enum": [1, "a"]}));
        check(json!({"const": null}), json!({"enum": [null]}));
        check_lossy(
            json!({"type": "string", "enum": ["a", 1]}),
            json!({"type": "string", "enum": ["a"]}),
            "of another type",
        );
        check_lossy(
            json!({"type": "string", "enum": [1, 2]}),
            json!({"enum": [1, 2]}),
            "of another type",
        );
        check(
            json!({"type": "string", "nullable": true, "enum": ["a"]}),
            json!({"type": ["string", "null"], "enum": ["a", null]}),
        );
    }

    #[test]
    fn exactly_one_becomes_any_where_an_alternative_was_loosened() {
        let (node, _) =
            read_with_notes(&json!({"oneOf": [{"type": "string"}, {"$ref": "#/nowhere"}]}));
        assert!(!node.unions[0].is_exclusive);
        let (node, _) = read_with_notes(&json!({"oneOf": [{"type": "string"}, {"type": "null"}]}));
        assert!(node.unions[0].is_exclusive);
    }

    #[test]
    fn a_negation_that_would_refuse_more_is_left_out() {
        check_lossy(json!({"not": {"$ref": "#/nowhere"}}), json!({}), "`not` is left out");
        check_lossy(
            json!({"$ref": "#/nowhere", "unevaluatedProperties": false}),
            json!({}),
            "`unevaluatedProperties` is left out",
        );
        let two = json!({"allOf": [{"unevaluatedProperties": {"const": 1}}], "unevaluatedProperties": false});
        let (node, _) = read_with_notes(&two);
        assert!(node.rare.is_empty() && node.parts.iter().all(|part| part.rare.is_empty()));
        check_lossy(
            json!({"if": {"$ref": "#/nowhere"}, "then": {"type": "string"}}),
            json!({}),
            "`if` is left out",
        );
    }

    #[test]
    fn nested_references_cost_no_levels_but_are_limited() {
        let chain = |n_links: usize| {
            let mut links = Map::new();
            for number in 0..n_links {
                let next = json!({"$ref": format!("#/$defs/d{}", number + 1), "minLength": number});
                links.insert(format!("d{number}"), next);
            }
            links.insert(format!("d{n_links}"), json!({"type": "string"}));
            json!({"$ref": "#/$defs/d0", "$defs": links})
        };
        check(chain(40), json!({"type": "string", "minLength": 39}));
        let (node, notes) = read_with_notes(&chain(200));
        assert_eq!(node.types, None);
        assert!(notes[0].contains("is not followed further"), "{notes:?}");
    }

    #[test]
    fn long_chains_of_references_are_followed_and_endless_ones_are_not() {
        let mut links = Map::new();
        for number in 0..500 {
            links.insert(format!("d{number}"), json!({"$ref": format!("#/$defs/d{}", number + 1)}));
        }
        links.insert("d500".to_owned(), json!({"type": "string"}));
        check(json!({"$ref": "#/$defs/d0", "$defs": links}), json!({"type": "string"}));

        let tail = json!({"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/b"}});
        check_lossy(json!({"$ref": "#/$defs/a", "$defs": tail}), json!({}), "cannot be resolved");
    }

    #[test]
    fn depth_is_limited_and_size_is_refused() {
        let mut deep = json!({"type": "string"});
        for _ in 0..60 {
            deep = json!({"type": "object", "properties": {"a": deep}});
        }
        let (node, notes) = read_with_notes(&deep);
        assert!(node.node_count() <= MAX_LEVELS + 1, "{}", node.node_count());
        assert!(notes[0].contains("nested deeper"), "{notes:?}");

        let mut laughs = Map::new();
        for number in 0..30 {
            let next = json!({"$ref": format!("#/$defs/d{}", number + 1)});
            laughs.insert(format!("d{number}"), json!({"properties": {"a": next, "b": next}}));
        }
        laughs.insert("d30".to_owned(), json!({"type": "string"}));
        let bomb = json!({"$ref": "#/$defs/d0", "$defs": laughs});
        assert!(read(&bomb, &mut Losses::default()).is_err());

        let text = json!({"type": "string", "description": "x".repeat(100_000)});
        let copies: Map<String, Value> =
            (0..100).map(|number| (format!("p{number}"), json!({"$ref": "#/$defs/A"}))).collect();
        for heavy in [text, json!({"enum": [{"a": "x".repeat(100_000)}]})] {
            let heavy = json!({"properties": copies, "$defs": {"A": heavy}});
            assert!(read(&heavy, &mut Losses::default()).is_err());
        }
    }
}
