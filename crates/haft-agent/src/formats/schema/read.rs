//! Reads a schema as strangers write it: any draft, any slip. Local references are followed, cycles and abysses are cut,
//! and what cannot be understood is left out and told. Work and size are bounded whatever comes.

mod keywords;
mod reference;

use std::{cell::OnceCell, collections::HashMap};

use serde_json::{Map, Value};

use self::keywords::make_nullable;
use super::{Additional, Further, Node, Types, Union, intersect};
use crate::formats::losses::Losses;

/// So deep a schema is read. Every level may become four of JSON (a property that is a list of alternatives), and JSON
/// readers give up at 128.
const MOST_LEVELS: usize = 24;
/// So many nodes a schema may have once its references are followed, and so many bytes of text.
const MOST_NODES: usize = 10_000;
const MOST_BYTES: usize = 1 << 20;

/// The schema as a tree.
///
/// # Errors
/// When it is too large; in words that follow the tool's name.
pub(crate) fn read(root: &Value, losses: &mut Losses) -> Result<Node, String> {
    let mut reader = Reader {
        root,
        losses,
        place: Vec::new(),
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
        "its schema has more than {MOST_NODES} parts or {} KiB once its references are followed",
        MOST_BYTES >> 10
    )
}

struct Reader<'a, 'l> {
    root: &'a Value,
    losses: &'l mut Losses,
    place: Vec<&'a str>,
    /// The targets of the references that we are inside of.
    following: Vec<&'a Value>,
    n_levels: usize,
    n_nodes: usize,
    n_bytes: usize,
    /// The parts that carry a name, gathered when the first reference asks for one.
    anchors: OnceCell<HashMap<&'a str, &'a Value>>,
}

impl<'a> Reader<'a, '_> {
    fn schema(&mut self, schema: &'a Value) -> Result<Node, String> {
        self.charge(schema)?;
        match schema {
            Value::Object(object) if self.n_levels >= MOST_LEVELS => {
                self.tell(format!("what is nested deeper than {MOST_LEVELS} levels is left open"));
                Ok(outline(object))
            }
            Value::Object(object) => {
                self.n_levels += 1;
                let node = self.object(object);
                self.n_levels -= 1;
                node
            }
            Value::Bool(true) => Ok(Node::default()),
            Value::Bool(false) => Ok(Node::nothing()),
            _ => {
                self.tell("what is no schema is taken as anything");
                Ok(Node::default())
            }
        }
    }

    /// Inside a property, a list's items, an alternative.
    fn within(&mut self, part: &'a str, schema: &'a Value) -> Result<Node, String> {
        self.place.push(part);
        let node = self.schema(schema);
        self.place.pop();
        node
    }

    /// What a schema says itself, and what it says by `$ref` and `allOf`, as one.
    fn object(&mut self, object: &'a Map<String, Value>) -> Result<Node, String> {
        let before = self.losses.n_changes();
        let mut own = self.own(object)?;
        let mut parts = self.all_of(object)?;
        parts.extend(self.referred(object)?);
        parts.extend(lone_variants(&mut own));
        let mut merged = Node::default();
        // The nearest words come last, because they win.
        for part in parts.into_iter().chain([own]) {
            merged = self.intersect(merged, part);
        }
        make_nullable(object, &mut merged);
        self.drop_unevaluated(&mut merged, before);
        Ok(merged)
    }

    /// `unevaluatedProperties` and `unevaluatedItems` go by what the rest has looked at. They go where something of the
    /// rest is missing since `before`, or stands apart.
    fn drop_unevaluated(&mut self, node: &mut Node, before: usize) {
        if self.losses.n_changes() == before && node.parts.is_empty() {
            return;
        }
        for keyword in ["unevaluatedProperties", "unevaluatedItems"] {
            let mut had = node.further.shift_remove(keyword).is_some();
            for part in &mut node.parts {
                had |= part.further.shift_remove(keyword).is_some();
            }
            if had {
                self.tell(format!("`{keyword}` is left out, because what it goes by is not whole"));
            }
        }
    }

    fn intersect(&mut self, one: Node, other: Node) -> Node {
        let mut is_looser = false;
        let both = intersect(one, other, &mut is_looser);
        if is_looser {
            self.tell(
                "`additionalProperties: false` in one part of an `allOf` speaks of all parts",
            );
        }
        both
    }

    fn all_of(&mut self, object: &'a Map<String, Value>) -> Result<Vec<Node>, String> {
        match object.get("allOf") {
            None => Ok(Vec::new()),
            Some(Value::Array(parts)) => parts.iter().map(|part| self.schema(part)).collect(),
            Some(_) => {
                self.tell("`allOf` is no list and is left out");
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
        let is_too_large = self.n_nodes > MOST_NODES || self.n_bytes > MOST_BYTES;
        if is_too_large { Err(too_large()) } else { Ok(()) }
    }

    fn tell(&mut self, what: impl Into<String>) {
        self.losses.tell(what, &self.place);
    }
}

/// An alternative without another one is no alternative.
fn lone_variants(node: &mut Node) -> Vec<Node> {
    let (lone, others): (Vec<Union>, Vec<Union>) =
        std::mem::take(&mut node.unions).into_iter().partition(|union| union.variants.len() == 1);
    node.unions = others;
    lone.into_iter().flat_map(|union| union.variants).collect()
}

/// What is left of a schema where reading stops: looser than the whole.
fn outline(object: &Map<String, Value>) -> Node {
    let text = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
    let types = object.get("type").and_then(Value::as_str).and_then(Types::of_name);
    Node { title: text("title"), description: text("description"), types, ..Node::default() }
}

/// The bytes that a keyword's value costs when it is copied. Objects are schemas or maps of them and are charged when
/// they are read, except where values are listed.
fn own_bytes(keyword: &str, value: &Value) -> usize {
    match (keyword, value) {
        ("enum" | "const" | "default" | "example" | "examples", _) => all_bytes(value),
        (_, Value::Array(items)) => items.iter().filter_map(Value::as_str).map(str::len).sum(),
        (_, Value::Object(object)) => object.keys().map(String::len).sum(),
        (_, Value::String(text)) => text.len(),
        _ => 0,
    }
}

/// About how many bytes a value is, counted without recursion.
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

    fn read_with_notes(schema: &Value) -> (Node, Vec<String>) {
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
        assert!(notes.iter().any(|told| told.contains(note)), "{notes:?}");
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
    fn cycles_are_cut_to_what_is_known_without_them() {
        let tree = json!({"$ref": "#/$defs/T", "$defs": {"T": {"type": "object", "description": "a tree", "properties": {
            "left": {"$ref": "#/$defs/T"}}}}});
        let cut = json!({"type": "object", "description": "a tree", "properties": {
            "left": {"type": "object", "description": "a tree"}}});
        check_lossy(tree, cut, "recursive `$ref` #/$defs/T is cut");
        check_lossy(
            json!({"properties": {"a": {"$ref": "#"}}}),
            json!({"properties": {"a": {}}}),
            "`$ref` # is cut (a)",
        );
    }

    #[test]
    fn references_that_lead_nowhere_leave_what_stands_beside_them() {
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
                "leads nowhere",
            );
        }
        check_lossy(json!({"$dynamicRef": "#meta"}), json!({}), "`$dynamicRef` is left out");
        check_lossy(json!({"$ref": 5}), json!({}), "`$ref` is no text");
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
            "speaks of all parts",
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
    fn keywords_of_no_meaning_here_go_silently() {
        check(
            json!({"$schema": "x", "$id": "y", "$comment": "z", "$defs": {}, "x-order": 1, "discriminator": {}, "type": "string"}),
            json!({"type": "string"}),
        );
    }

    #[test]
    fn keywords_with_a_wrong_value_are_left_out_and_told() {
        for (schema, note) in [
            (json!({"type": 5}), "`type` is neither"),
            (json!({"type": "file"}), "`file` is not known"),
            (json!({"minimum": "3"}), "`minimum` has a wrong value"),
            (json!({"minLength": -1}), "`minLength` has a wrong value"),
            (json!({"enum": "a"}), "`enum` is no list"),
            (json!({"enum": ["a"], "const": 1}), "`const` and `enum` contradict"),
            (json!({"enum": []}), "`enum` is empty"),
            (json!({"required": "a"}), "`required` is no list"),
            (json!({"properties": []}), "`properties` is no object"),
            (json!({"anyOf": {}}), "`anyOf` is no list"),
            (json!({"anyOf": [false]}), "`anyOf` has no alternative"),
            (json!({"allOf": 1}), "`allOf` is no list"),
            (json!({"items": "string"}), "no schema"),
            (json!({"if": true, "then": 0}), "no schema"),
            (json!({"contains": true, "maxContains": {}}), "`maxContains` has a wrong value"),
            (json!({"type": "string", "default": 4}), "`default` does not fit"),
            (json!({"properties": {"a": false}}), "never be there"),
        ] {
            let (_, notes) = read_with_notes(&schema);
            assert!(notes.iter().any(|told| told.contains(note)), "{schema}: {notes:?}");
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
    fn a_negation_that_would_deny_more_than_it_did_is_left_out() {
        check_lossy(json!({"not": {"$ref": "#/nowhere"}}), json!({}), "`not` is left out");
        check_lossy(
            json!({"$ref": "#/nowhere", "unevaluatedProperties": false}),
            json!({}),
            "`unevaluatedProperties` is left out",
        );
        let two = json!({"allOf": [{"unevaluatedProperties": {"const": 1}}], "unevaluatedProperties": false});
        let (node, _) = read_with_notes(&two);
        assert!(node.further.is_empty() && node.parts.iter().all(|part| part.further.is_empty()));
        check_lossy(
            json!({"if": {"$ref": "#/nowhere"}, "then": {"type": "string"}}),
            json!({}),
            "`if` is left out",
        );
    }

    #[test]
    fn references_inside_of_each_other_cost_no_levels_but_end() {
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
        assert!(notes[0].contains("is cut"), "{notes:?}");
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
        check_lossy(json!({"$ref": "#/$defs/a", "$defs": tail}), json!({}), "leads nowhere");
    }

    #[test]
    fn depth_is_cut_and_size_is_refused() {
        let mut deep = json!({"type": "string"});
        for _ in 0..60 {
            deep = json!({"type": "object", "properties": {"a": deep}});
        }
        let (node, notes) = read_with_notes(&deep);
        assert!(node.weight() <= MOST_LEVELS + 1, "{}", node.weight());
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
