//! The strict modes: grammars are made from these schemas, so every object is closed and only some keywords are known.
//! What cannot be said exactly enough makes the tool non-strict, with the reason.
//!
//! OpenAI (guide "Structured outputs", supported schemas): every property is required and optional ones are nullable;
//! strings know `pattern` and some formats, numbers their bounds, arrays `minItems` and `maxItems`; at most 5,000
//! properties, 10 levels, 1,000 values in enums, 120,000 characters of names and values. Anthropic (guide "Structured
//! outputs", JSON Schema limitations): properties may be optional; no bounds of numbers and lengths, `minItems` only 0 or
//! 1; at most 20 strict tools in a request, 24 optional properties and 16 unions in all of them together.
//!
//! So that many tools fit into what Anthropic takes, an optional property is written there in the first of these ways that
//! is left: required when it has a default, which costs nothing; optional, without null among its types, which
//! means the same; required and nullable, which costs a union.

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::{Page, Shape, description, is_plain_pattern, put_limits, worded};
use crate::formats::{
    Format,
    losses::Losses,
    restore::{Field, Restore, Tree},
    schema::{Additional, Node, Types},
};

const FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// What a schema takes of what a request may have. Only Anthropic counts this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) n_optional: usize,
    pub(crate) n_unions: usize,
}

/// The schema of a tool's input; `root` is an object. Not more than `max_optional` properties are left optional, if the
/// format counts them.
///
/// # Errors
/// When it cannot be strict; in words that follow "because".
pub(crate) fn write(
    format: Format,
    root: &Node,
    max_optional: usize,
    losses: &mut Losses,
) -> Result<(Value, Restore, Cost), String> {
    let mut writer = Writer {
        page: Page::new(format, losses),
        is_anthropic: format == Format::Anthropic,
        max_optional,
        cost: Cost::default(),
        n_levels: 0,
        n_properties: 0,
        n_values: 0,
        n_characters: 0,
    };
    let mut page_root = root.clone();
    writer.page.drop_further(&mut page_root);
    let Written { mut schema, tree, words } = writer.object(&page_root)?;
    put_description(&mut schema, &page_root, &words);
    let keys = writer.page.keys.way_back()?;
    Ok((Value::Object(schema), Restore::new(tree, keys), writer.cost))
}

/// How a property is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Required,
    /// Required, though it may be left out elsewhere: a model can send its default.
    Default,
    Optional,
    /// Required; null stands for a property left out.
    Nullable,
}

struct Writer<'l> {
    page: Page<'l>,
    is_anthropic: bool,
    max_optional: usize,
    cost: Cost,
    n_levels: usize,
    n_properties: usize,
    n_values: usize,
    n_characters: usize,
}

/// A schema, how its values come back, and what it could not say but in words.
struct Written {
    schema: Map<String, Value>,
    tree: Tree,
    words: Vec<String>,
}

impl Written {
    fn new(schema: Map<String, Value>, tree: Tree) -> Self {
        Self { schema, tree, words: Vec::new() }
    }
}

impl Writer<'_> {
    fn schema(&mut self, node: &Node) -> Result<(Value, Tree), String> {
        let Written { mut schema, tree, mut words } = match self.page.shape(node)? {
            Shape::Choice(variants) => self.choice(&variants)?,
            Shape::One(node) => self.one(&node)?,
        };
        if let Some(default) = &node.default {
            if self.is_anthropic {
                schema.insert("default".to_owned(), default.clone());
            } else {
                words.extend(worded("default", default));
            }
        }
        put_description(&mut schema, node, &words);
        Ok((Value::Object(schema), tree))
    }

    fn within(&mut self, part: &str, node: &Node) -> Result<(Value, Tree), String> {
        self.page.place.push(part.to_owned());
        self.n_levels += 1;
        // Counted with lists, where the guide may mean objects only: too few levels cost only strictness.
        let written = if self.n_levels > 10 && !self.is_anthropic {
            Err(format!("{} is nested deeper than 10 levels", self.page.here()))
        } else {
            self.schema(node)
        };
        self.n_levels -= 1;
        self.page.place.pop();
        written
    }

    fn choice(&mut self, variants: &[Node]) -> Result<Written, String> {
        let (mut schemas, mut trees) = (Vec::new(), Vec::new());
        for variant in variants.iter().filter(|variant| !variant.is_null()) {
            let (schema, tree) = self.schema(variant)?;
            schemas.push(schema.clone());
            trees.push((schema, tree));
        }
        if variants.iter().any(Node::is_null) {
            schemas.push(json!({"type": "null"}));
        }
        self.cost.n_unions += 1;
        let mut schema = Map::new();
        schema.insert("anyOf".to_owned(), schemas.into());
        Ok(Written::new(schema, Tree::any(trees)))
    }

    fn one(&mut self, node: &Node) -> Result<Written, String> {
        let types = node.evident_types();
        let types = types.ok_or_else(|| format!("{} may be anything", self.page.here()))?;
        if let Some(values) = &node.values {
            return self.literals(values, types);
        }
        let kinds = types.without(Types::NULL).each();
        let is_nullable = types.contains(Types::NULL);
        match (kinds.as_slice(), is_nullable) {
            ([], _) => Ok(Written::new(typed("null"), Tree::Same)),
            ([kind], false) => self.kind(node, *kind),
            (kinds, _) => {
                let of_kind = |kind: &Types| Node { types: Some(*kind), ..node.without_words() };
                let mut variants: Vec<Node> = kinds.iter().map(of_kind).collect();
                if let ([kind], true) = (kinds, is_scalar(kinds)) {
                    self.cost.n_unions += 1;
                    let mut written = self.kind(node, *kind)?;
                    make_nullable(&mut written.schema);
                    return Ok(written);
                }
                if is_nullable {
                    variants.push(Node::of(Types::NULL));
                }
                self.choice(&variants)
            }
        }
    }

    fn literals(&mut self, values: &[Value], types: Types) -> Result<Written, String> {
        if values.iter().any(|value| value.is_object() || value.is_array()) {
            return Err(format!("{} lists values that are objects or lists", self.page.here()));
        }
        let n_characters: usize = values.iter().filter_map(Value::as_str).map(str::len).sum();
        self.n_values += values.len();
        self.n_characters += n_characters;
        let is_long = values.len() > 250 && n_characters > 15_000;
        if !self.is_anthropic && (self.n_values > 1_000 || is_long) {
            return Err(format!("{} lists too many values", self.page.here()));
        }
        self.check_characters()?;
        let names = types.names();
        let mut schema = Map::new();
        schema.insert(
            "type".to_owned(),
            if names.len() == 1 { json!(names[0]) } else { json!(names) },
        );
        schema.insert("enum".to_owned(), Value::Array(values.to_vec()));
        self.cost.n_unions += usize::from(names.len() > 1);
        Ok(Written::new(schema, Tree::Same))
    }

    fn check_characters(&self) -> Result<(), String> {
        if self.is_anthropic || self.n_characters <= 120_000 {
            return Ok(());
        }
        Err("its names and values have more than 120,000 characters".to_owned())
    }

    fn kind(&mut self, node: &Node, kind: Types) -> Result<Written, String> {
        match kind {
            Types::OBJECT => self.object(node),
            Types::ARRAY => self.array(node),
            kind => {
                let mut schema = typed(kind.names().first().copied().unwrap_or("string"));
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
        let is_anthropic = self.is_anthropic;
        let is_known = |keyword: &str, value: &Value| match (keyword, value) {
            ("format", Value::String(name)) if kind == Types::STRING => {
                FORMATS.contains(&name.as_str()) || (is_anthropic && name == "uri")
            }
            ("pattern", Value::String(pattern)) => is_plain_pattern(pattern),
            ("minItems", count) if is_anthropic => count.as_u64() <= Some(1),
            ("minItems" | "maxItems" | "multipleOf", _) => !is_anthropic,
            ("minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum", _) => !is_anthropic,
            _ => false,
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
            [] => return Err(format!("{} is a list of anything", self.page.here())),
            [only] => only.clone(),
            _ => super::any_of(parts),
        };
        let (items, tree) = self.within("[]", &items)?;
        let mut schema = typed("array");
        schema.insert("items".to_owned(), items);
        let words = self.put_limits(node, Types::ARRAY, &mut schema);
        Ok(Written { schema, tree: Tree::items(tree), words })
    }

    fn object(&mut self, node: &Node) -> Result<Written, String> {
        self.check_closed(node)?;
        let required = self.page.required(node);
        let (mut properties, mut fields, mut names) = (Map::new(), IndexMap::new(), Vec::new());
        for (name, inner) in &node.properties {
            let key = self.page.key(name);
            self.n_properties += 1;
            self.n_characters += name.len();
            let presence = self.presence(inner, required.contains(name));
            let null_is_absence = presence == Presence::Nullable;
            let can_be_absent = null_is_absence || presence == Presence::Optional;
            let without_null = (self.is_anthropic && can_be_absent).then(|| inner.without_null());
            let has_null = match &without_null {
                Some(without_null) => without_null != inner,
                None => null_is_absence && inner.takes_null(),
            };
            let (mut schema, tree) = self.within(name, without_null.as_ref().unwrap_or(inner))?;
            if has_null {
                self.page.place.push(name.clone());
                self.page.tell("null is taken as left out where a property may be both");
                self.page.place.pop();
            }
            if null_is_absence {
                self.admit_null(&mut schema);
            }
            if presence != Presence::Optional {
                names.push(Value::from(key.clone()));
            }
            properties.insert(key.clone(), schema);
            fields.insert(key, Field { null_is_absence, tree });
        }
        if self.n_properties > 5_000 && !self.is_anthropic {
            return Err("it has more than 5,000 properties".to_owned());
        }
        self.check_characters()?;
        let mut schema = typed("object");
        schema.insert("properties".to_owned(), properties.into());
        schema.insert("required".to_owned(), names.into());
        schema.insert("additionalProperties".to_owned(), json!(false));
        let words = self.put_limits(node, Types::OBJECT, &mut schema);
        Ok(Written { schema, tree: Tree::object(fields), words })
    }

    fn check_closed(&mut self, node: &Node) -> Result<(), String> {
        let here = self.page.here();
        let is_patterned = node.further.contains_key("patternProperties");
        match node.additional {
            _ if is_patterned => Err(format!("{here} takes properties by pattern")),
            Additional::Open | Additional::Like(_) => {
                Err(format!("{here} takes properties that are not declared"))
            }
            Additional::Unsaid if node.properties.is_empty() => {
                Err(format!("{here} is an object of any shape"))
            }
            Additional::Unsaid => {
                self.page.tell("objects are closed: only declared properties can be sent");
                Ok(())
            }
            Additional::Closed => Ok(()),
        }
    }

    /// Decides how a property is written, and counts it if it stays optional.
    fn presence(&mut self, node: &Node, is_required: bool) -> Presence {
        if is_required {
            return Presence::Required;
        }
        if self.is_anthropic && node.default.as_ref().is_some_and(|default| !default.is_null()) {
            return Presence::Default;
        }
        if self.is_anthropic && self.cost.n_optional < self.max_optional {
            self.cost.n_optional += 1;
            return Presence::Optional;
        }
        Presence::Nullable
    }

    /// An optional property is there all the same, as null.
    fn admit_null(&mut self, schema: &mut Value) {
        let Value::Object(schema) = schema else { return };
        let is_union =
            schema.contains_key("anyOf") || schema.get("type").is_some_and(Value::is_array);
        self.cost.n_unions += usize::from(!is_union);
        make_nullable(schema);
    }
}

fn typed(name: &str) -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), name.into())])
}

fn is_scalar(kinds: &[Types]) -> bool {
    kinds.iter().all(|kind| *kind != Types::OBJECT && *kind != Types::ARRAY)
}

fn put_description(schema: &mut Map<String, Value>, node: &Node, words: &[String]) {
    if let Some(description) = description(node, words) {
        schema.insert("description".to_owned(), description.into());
    }
}

/// The same schema, or null.
fn make_nullable(schema: &mut Map<String, Value>) {
    let null = json!({"type": "null"});
    if let Some(Value::Array(variants)) = schema.get_mut("anyOf") {
        if !variants.contains(&null) {
            variants.push(null);
        }
        return;
    }
    let mut names: Vec<Value> = match schema.get("type") {
        Some(Value::Array(names)) => names.clone(),
        Some(name) => vec![name.clone()],
        None => return,
    };
    if names.contains(&json!("object")) || names.contains(&json!("array")) {
        let description = schema.shift_remove("description");
        let whole = Value::Object(std::mem::take(schema));
        schema.insert("anyOf".to_owned(), Value::Array(vec![whole, null]));
        schema.extend(description.map(|text| ("description".to_owned(), text)));
        return;
    }
    if !names.contains(&json!("null")) {
        names.push(json!("null"));
    }
    let type_ = if names.len() == 1 { names.remove(0) } else { Value::Array(names) };
    schema.insert("type".to_owned(), type_);
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::schema::{as_object, read};

    type Strict = Result<(Value, Restore, Cost), String>;

    fn written(format: Format, schema: &Value) -> (Strict, Vec<String>) {
        let mut losses = Losses::default();
        let node = read(schema, &mut losses).and_then(|node| as_object(node, &mut losses));
        let written = write(format, &node.expect("an object"), MANY, &mut losses);
        (written, losses.into_notes())
    }

    /// More optional properties than any tool here has.
    const MANY: usize = 100;

    /// One property called `a`, which is not required.
    #[track_caller]
    fn check(format: Format, property: Value, expected: Value) -> Vec<String> {
        let schema = json!({"properties": {"a": property}, "additionalProperties": false});
        let (written, notes) = written(format, &schema);
        let (written, _, _) = written.expect("it can be strict");
        assert_eq!(written["properties"]["a"], expected);
        assert_eq!(written["additionalProperties"], false);
        notes
    }

    #[track_caller]
    fn check_refused(format: Format, property: Value, reason: &str) {
        let schema = json!({"properties": {"a": property}, "additionalProperties": false});
        let (written, _) = written(format, &schema);
        assert!(written.as_ref().is_err_and(|told| told.contains(reason)), "{written:?}");
    }

    #[test]
    fn openai_wants_every_property_and_optional_ones_nullable() {
        let open = Format::OpenAi;
        check(open, json!({"type": "string"}), json!({"type": ["string", "null"]}));
        check(
            open,
            json!({"enum": ["x", "y"]}),
            json!({"type": ["string", "null"], "enum": ["x", "y", null]}),
        );
        check(
            open,
            json!({"type": "array", "items": {"type": "string"}, "description": "Some."}),
            json!({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}], "description": "Some."}),
        );
        check(
            open,
            json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
            json!({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}),
        );
        let schema = json!({"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["b"], "additionalProperties": false});
        let (written, _) = written(open, &schema);
        let (written, restore, _) = written.expect("it can be strict");
        assert_eq!(written["required"], json!(["a", "b"]));
        assert_eq!(restore.apply(json!({"a": null, "b": null})), json!({"b": null}));
    }

    #[test]
    fn anthropic_lets_properties_be_optional_and_counts_them() {
        let schema = json!({"properties": {"a": {"type": "string"}, "b": {"type": ["string", "null"]}}, "required": ["b"], "additionalProperties": false});
        let (written, _) = written(Format::Anthropic, &schema);
        let (written, restore, cost) = written.expect("it can be strict");
        assert_eq!(written["required"], json!(["b"]));
        assert!(restore.is_nothing());
        assert_eq!(cost, Cost { n_optional: 1, n_unions: 1 });
    }

    #[test]
    fn anthropic_is_sent_few_optional_properties() {
        let schema = json!({"properties": {
            "given": {"type": "integer", "default": 3},
            "text": {"type": ["string", "null"]},
            "list": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}], "description": "Some."},
            "level": {"enum": ["a", "b", null]},
        }, "additionalProperties": false});
        let mut losses = Losses::default();
        let node = read(&schema, &mut losses).expect("a schema");
        let cases = [
            (9, json!(["given"]), Cost { n_optional: 3, n_unions: 0 }),
            (1, json!(["given", "list", "level"]), Cost { n_optional: 1, n_unions: 2 }),
            (0, json!(["given", "text", "list", "level"]), Cost { n_optional: 0, n_unions: 3 }),
        ];
        for (max_optional, required, expected) in cases {
            let written = write(Format::Anthropic, &node, max_optional, &mut losses);
            let (written, restore, cost) = written.expect("it can be strict");
            assert_eq!((&written["required"], cost), (&required, expected));
            let is_left = |name: &str| !required.as_array().expect("a list").contains(&name.into());
            let list = json!({"type": "array", "items": {"type": "string"}});
            let properties = &written["properties"];
            if is_left("text") {
                assert_eq!(properties["text"], json!({"type": "string"}));
            } else {
                assert_eq!(properties["text"], json!({"type": ["string", "null"]}));
                assert_eq!(restore.apply(json!({"text": null, "given": 3})), json!({"given": 3}));
            }
            if is_left("list") {
                assert_eq!(properties["list"]["items"], list["items"]);
                assert_eq!(properties["list"]["description"], "Some.");
            } else {
                assert_eq!(properties["list"]["anyOf"], json!([list, {"type": "null"}]));
            }
        }
    }

    #[test]
    fn each_keeps_the_keywords_it_knows_and_says_the_others() {
        let number =
            json!({"type": "integer", "minimum": 1, "description": "How many.", "default": 3});
        check(
            Format::OpenAi,
            number.clone(),
            json!({"type": ["integer", "null"], "minimum": 1, "description": "How many. (default: 3)"}),
        );
        let notes = check(
            Format::Anthropic,
            number,
            json!({"type": "integer", "default": 3, "description": "How many. (minimum: 1)"}),
        );
        assert_eq!(notes, ["`minimum` is said in words only (a)"]);
        let text = json!({"type": "string", "minLength": 1, "pattern": "^a", "format": "uri"});
        check(
            Format::OpenAi,
            text.clone(),
            json!({"type": ["string", "null"], "pattern": "^a", "description": "minLength: 1, format: uri"}),
        );
        check(
            Format::Anthropic,
            text,
            json!({"type": "string", "pattern": "^a", "format": "uri", "description": "minLength: 1"}),
        );
        let list = json!({"type": "array", "items": {"type": "string"}, "minItems": 2, "uniqueItems": true});
        check(
            Format::Anthropic,
            list,
            json!({"type": "array", "items": {"type": "string"}, "description": "minItems: 2, uniqueItems: true"}),
        );
    }

    #[test]
    fn what_stands_beside_alternatives_goes_into_each() {
        let schema = json!({"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "string"}},
            "additionalProperties": false, "oneOf": [{"required": ["x"]}, {"required": ["y"]}]});
        let notes = check(
            Format::Anthropic,
            schema,
            json!({"anyOf": [
                {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "string"}}, "required": ["x"], "additionalProperties": false},
                {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "string"}}, "required": ["y"], "additionalProperties": false}]}),
        );
        assert_eq!(notes, ["`oneOf` is sent as `anyOf` (a)"]);
    }

    #[test]
    fn alternatives_that_cannot_be_merged_with_the_rest_are_loosened_and_impossible_ones_go() {
        let notes = check(
            Format::Anthropic,
            json!({"type": "string", "pattern": "^a", "anyOf": [{"pattern": "b$"}, {"maxLength": 3}, {"type": "integer"}]}),
            json!({"anyOf": [{"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^a", "description": "maxLength: 3"}]}),
        );
        assert!(notes[0].contains("cannot be merged"), "{notes:?}");
    }

    #[test]
    fn several_types_are_alternatives() {
        check(
            Format::OpenAi,
            json!({"type": ["string", "array", "null"], "items": {"type": "number"}}),
            json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "number"}}, {"type": "null"}]}),
        );
    }

    #[test]
    fn tuples_are_lists_of_any_of_their_parts() {
        let notes = check(
            Format::Anthropic,
            json!({"type": "array", "items": [{"type": "string"}, {"type": "number"}]}),
            json!({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "number"}]}}),
        );
        assert_eq!(notes, ["a tuple is sent as a list of any of its parts (a)"]);
    }

    #[test]
    fn objects_that_do_not_say_whether_they_are_closed_are_closed_and_told() {
        let notes = check(
            Format::Anthropic,
            json!({"properties": {"b": {"type": "string"}}}),
            json!({"type": "object", "properties": {"b": {"type": "string"}}, "required": [], "additionalProperties": false}),
        );
        assert_eq!(notes, ["objects are closed: only declared properties can be sent (a)"]);
    }

    #[test]
    fn what_cannot_be_strict_says_why() {
        let open = Format::OpenAi;
        check_refused(open, json!({}), "`a` may be anything");
        check_refused(open, json!({"type": "array"}), "`a` is a list of anything");
        check_refused(open, json!({"type": "object"}), "`a` is an object of any shape");
        check_refused(
            open,
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            "not declared",
        );
        check_refused(
            open,
            json!({"properties": {"b": {"type": "string"}}, "additionalProperties": true}),
            "`a` takes properties that are not declared",
        );
        check_refused(open, json!({"patternProperties": {"^x": {}}}), "by pattern");
        check_refused(open, json!({"enum": [{"a": 1}]}), "objects or lists");
        let many: Vec<usize> = (0..1_001).collect();
        check_refused(open, json!({"enum": many}), "too many values");
        let long: Vec<String> = (0..251).map(|number| format!("{number:0>60}")).collect();
        check_refused(open, json!({"enum": long}), "too many values");
        let mut deep = json!({"type": "string"});
        for _ in 0..11 {
            deep = json!({"properties": {"b": deep}, "additionalProperties": false});
        }
        check_refused(open, deep, "deeper than 10 levels");
        let (written, _) = written(open, &json!({"type": "object"}));
        assert!(written.is_err_and(|reason| reason == "the input is an object of any shape"));
    }

    #[test]
    fn the_number_of_properties_is_bounded() {
        let properties: Map<String, Value> =
            (0..5_001).map(|number| (format!("p{number}"), json!({"type": "string"}))).collect();
        let schema = json!({"properties": properties});
        assert!(written(Format::OpenAi, &schema).0.is_err());
        let names: Map<String, Value> = (0..100)
            .map(|number| (format!("{number:0>1300}"), json!({"type": "string"})))
            .collect();
        assert!(written(Format::OpenAi, &json!({"properties": names})).0.is_err());
    }

    #[test]
    fn a_null_that_has_a_meaning_of_its_own_is_told() {
        let notes = check(
            Format::OpenAi,
            json!({"type": ["string", "null"]}),
            json!({"type": ["string", "null"]}),
        );
        assert_eq!(notes, ["null is taken as left out where a property may be both (a)"]);
    }
}
