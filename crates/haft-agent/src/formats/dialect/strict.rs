//! The strict modes. Providers make grammars from these schemas, so every object is closed and only
//! some keywords are supported. A schema that cannot be expressed exactly enough makes the tool
//! non-strict, with a reason.
//!
//! OpenAI (guide "Structured outputs", supported schemas): every property is required, and optional
//! ones are nullable; strings support `pattern` and some formats, numbers their bounds, arrays
//! `minItems` and `maxItems`; at most 5,000 properties, 10 levels, 1,000 enum values, 120,000
//! characters of names and values. Anthropic (guide "Structured outputs", JSON Schema limitations):
//! properties may be optional; no bounds of numbers and lengths, `minItems` only 0 or 1; at most 20
//! strict tools in a request, with 24 optional properties and 16 unions in total.
//!
//! To fit many tools into Anthropic's limits, an optional property is written in the first of these
//! ways that is possible: required, if it has a default, which costs nothing; optional and without
//! null among its types, which means the same; required and nullable, which costs a union.

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::{DialectWriter, UnionShape, description, is_plain_pattern, limit_text, put_limits};
use crate::formats::{
    ModelFormat,
    losses::Losses,
    restore::{Restore, RestoreField, RestoreTree},
    schema::{Additional, SchemaNode, Types},
};

const FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// The part of a request's limits that a schema uses. Only Anthropic counts this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) n_optional: usize,
    pub(crate) n_unions: usize,
}

/// The schema of a tool's input; `root` is an object. Not more than `max_optional` properties are left optional, if the
/// format counts them.
///
/// # Errors
/// When it cannot be strict. The text completes a sentence after "because".
pub(crate) fn write(
    format: ModelFormat,
    root: &SchemaNode,
    max_optional: usize,
    losses: &mut Losses,
) -> Result<(Value, Restore, Cost), String> {
    let mut writer = Writer {
        writer_state: DialectWriter::new(format, losses),
        is_anthropic: format == ModelFormat::Anthropic,
        max_optional,
        cost: Cost::default(),
        n_levels: 0,
        n_properties: 0,
        n_values: 0,
        n_characters: 0,
    };
    let mut page_root = root.clone();
    writer.writer_state.drop_rare(&mut page_root);
    let StrictSchema { mut schema, tree, notes } = writer.object(&page_root)?;
    put_description(&mut schema, &page_root, &notes);
    let keys = writer.writer_state.keys.reverse_map()?;
    Ok((Value::Object(schema), Restore::new(tree, keys), writer.cost))
}

/// How a property is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PropertyForm {
    Required,
    /// Required, though it may be left out elsewhere: a model can send its default.
    Default,
    Optional,
    /// Required; null stands for a property left out.
    Nullable,
}

struct Writer<'l> {
    writer_state: DialectWriter<'l>,
    is_anthropic: bool,
    max_optional: usize,
    cost: Cost,
    n_levels: usize,
    n_properties: usize,
    n_values: usize,
    n_characters: usize,
}

/// A schema, how to restore its values, and text for the description.
struct StrictSchema {
    schema: Map<String, Value>,
    tree: RestoreTree,
    notes: Vec<String>,
}

impl StrictSchema {
    fn new(schema: Map<String, Value>, tree: RestoreTree) -> Self {
        Self { schema, tree, notes: Vec::new() }
    }
}

impl Writer<'_> {
    fn schema(&mut self, node: &SchemaNode) -> Result<(Value, RestoreTree), String> {
        let StrictSchema { mut schema, tree, mut notes } = match self.writer_state.shape(node)? {
            UnionShape::Choice(variants) => self.choice(&variants)?,
            UnionShape::One(node) => self.one(&node)?,
        };
        if let Some(default) = &node.default {
            if self.is_anthropic {
                schema.insert("default".to_owned(), default.clone());
            } else {
                notes.extend(limit_text("default", default));
            }
        }
        put_description(&mut schema, node, &notes);
        Ok((Value::Object(schema), tree))
    }

    fn within(&mut self, part: &str, node: &SchemaNode) -> Result<(Value, RestoreTree), String> {
        self.writer_state.path.push(part.to_owned());
        self.n_levels += 1;
        // Counts lists too, where the guide may mean only objects: an overestimate costs only
        // strictness.
        let written = if self.n_levels > 10 && !self.is_anthropic {
            Err(format!("{} is nested deeper than 10 levels", self.writer_state.current_path()))
        } else {
            self.schema(node)
        };
        self.n_levels -= 1;
        self.writer_state.path.pop();
        written
    }

    fn choice(&mut self, variants: &[SchemaNode]) -> Result<StrictSchema, String> {
        let (mut schemas, mut trees) = (Vec::new(), Vec::new());
        for variant in variants.iter().filter(|variant| !variant.is_null()) {
            let (schema, tree) = self.schema(variant)?;
            schemas.push(schema.clone());
            trees.push((schema, tree));
        }
        if variants.iter().any(SchemaNode::is_null) {
            schemas.push(json!({"type": "null"}));
        }
        self.cost.n_unions += 1;
        let mut schema = Map::new();
        schema.insert("anyOf".to_owned(), schemas.into());
        Ok(StrictSchema::new(schema, RestoreTree::any(trees)))
    }

    fn one(&mut self, node: &SchemaNode) -> Result<StrictSchema, String> {
        let types = node.evident_types();
        let types =
            types.ok_or_else(|| format!("{} may be anything", self.writer_state.current_path()))?;
        if let Some(values) = &node.values {
            return self.literals(values, types);
        }
        let kinds = types.without(Types::NULL).each();
        let is_nullable = types.contains(Types::NULL);
        match (kinds.as_slice(), is_nullable) {
            ([], _) => Ok(StrictSchema::new(typed("null"), RestoreTree::Same)),
            ([kind], false) => self.kind(node, *kind),
            (kinds, _) => {
                let of_kind =
                    |kind: &Types| SchemaNode { types: Some(*kind), ..node.without_annotations() };
                let mut variants: Vec<SchemaNode> = kinds.iter().map(of_kind).collect();
                if let ([kind], true) = (kinds, is_scalar(kinds)) {
                    self.cost.n_unions += 1;
                    let mut written = self.kind(node, *kind)?;
                    make_nullable(&mut written.schema);
                    return Ok(written);
                }
                if is_nullable {
                    variants.push(SchemaNode::of(Types::NULL));
                }
                self.choice(&variants)
            }
        }
    }

    fn literals(&mut self, values: &[Value], types: Types) -> Result<StrictSchema, String> {
        if values.iter().any(|value| value.is_object() || value.is_array()) {
            return Err(format!(
                "{} lists values that are objects or lists",
                self.writer_state.current_path()
            ));
        }
        let n_characters: usize = values.iter().filter_map(Value::as_str).map(str::len).sum();
        self.n_values += values.len();
        self.n_characters += n_characters;
        let is_long = values.len() > 250 && n_characters > 15_000;
        if !self.is_anthropic && (self.n_values > 1_000 || is_long) {
            return Err(format!("{} lists too many values", self.writer_state.current_path()));
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
        Ok(StrictSchema::new(schema, RestoreTree::Same))
    }

    fn check_characters(&self) -> Result<(), String> {
        if self.is_anthropic || self.n_characters <= 120_000 {
            return Ok(());
        }
        Err("its names and values have more than 120,000 characters".to_owned())
    }

    fn kind(&mut self, node: &SchemaNode, kind: Types) -> Result<StrictSchema, String> {
        match kind {
            Types::OBJECT => self.object(node),
            Types::ARRAY => self.array(node),
            kind => {
                let mut schema = typed(kind.names().first().copied().unwrap_or("string"));
                let notes = self.put_limits(node, kind, &mut schema);
                Ok(StrictSchema { schema, tree: RestoreTree::Same, notes })
            }
        }
    }

    fn put_limits(
        &mut self,
        node: &SchemaNode,
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
        put_limits(&mut self.writer_state, node, kind, is_known, schema)
    }

    fn array(&mut self, node: &SchemaNode) -> Result<StrictSchema, String> {
        if !node.prefix.is_empty() {
            self.writer_state.note_loss("a tuple is sent as a list of any of its parts");
        }
        let mut parts = node.prefix.clone();
        parts.extend(node.items.as_deref().cloned());
        let items = match parts.as_slice() {
            [] => {
                return Err(format!("{} is a list of anything", self.writer_state.current_path()));
            }
            [only] => only.clone(),
            _ => super::any_of(parts),
        };
        let (items, tree) = self.within("[]", &items)?;
        let mut schema = typed("array");
        schema.insert("items".to_owned(), items);
        let notes = self.put_limits(node, Types::ARRAY, &mut schema);
        Ok(StrictSchema { schema, tree: RestoreTree::items(tree), notes })
    }

    fn object(&mut self, node: &SchemaNode) -> Result<StrictSchema, String> {
        self.check_closed(node)?;
        let required = self.writer_state.required(node);
        let (mut properties, mut fields, mut names) = (Map::new(), IndexMap::new(), Vec::new());
        for (name, inner) in &node.properties {
            let key = self.writer_state.key(name);
            self.n_properties += 1;
            self.n_characters += name.len();
            let presence = self.presence(inner, required.contains(name));
            let null_is_absence = presence == PropertyForm::Nullable;
            let can_be_absent = null_is_absence || presence == PropertyForm::Optional;
            let without_null = (self.is_anthropic && can_be_absent).then(|| inner.without_null());
            let has_null = match &without_null {
                Some(without_null) => without_null != inner,
                None => null_is_absence && inner.takes_null(),
            };
            let (mut schema, tree) = self.within(name, without_null.as_ref().unwrap_or(inner))?;
            if has_null {
                self.writer_state.path.push(name.clone());
                self.writer_state
                    .note_loss("null counts as absent where an optional property allows null");
                self.writer_state.path.pop();
            }
            if null_is_absence {
                self.admit_null(&mut schema);
            }
            if presence != PropertyForm::Optional {
                names.push(Value::from(key.clone()));
            }
            properties.insert(key.clone(), schema);
            fields.insert(key, RestoreField { null_is_absence, tree });
        }
        if self.n_properties > 5_000 && !self.is_anthropic {
            return Err("it has more than 5,000 properties".to_owned());
        }
        self.check_characters()?;
        let mut schema = typed("object");
        schema.insert("properties".to_owned(), properties.into());
        schema.insert("required".to_owned(), names.into());
        schema.insert("additionalProperties".to_owned(), json!(false));
        let notes = self.put_limits(node, Types::OBJECT, &mut schema);
        Ok(StrictSchema { schema, tree: RestoreTree::object(fields), notes })
    }

    fn check_closed(&mut self, node: &SchemaNode) -> Result<(), String> {
        let current_path = self.writer_state.current_path();
        let is_patterned = node.rare.contains_key("patternProperties");
        match node.additional {
            _ if is_patterned => Err(format!("{current_path} accepts properties by pattern")),
            Additional::Open | Additional::Like(_) => {
                Err(format!("{current_path} accepts properties that are not declared"))
            }
            Additional::Unspecified if node.properties.is_empty() => {
                Err(format!("{current_path} is an object of any shape"))
            }
            Additional::Unspecified => {
                self.writer_state
                    .note_loss("objects are closed: only declared properties can be sent");
                Ok(())
            }
            Additional::Closed => Ok(()),
        }
    }

    /// Decides how a property is written, and counts it if it stays optional.
    fn presence(&mut self, node: &SchemaNode, is_required: bool) -> PropertyForm {
        if is_required {
            return PropertyForm::Required;
        }
        if self.is_anthropic && node.default.as_ref().is_some_and(|default| !default.is_null()) {
            return PropertyForm::Default;
        }
        if self.is_anthropic && self.cost.n_optional < self.max_optional {
            self.cost.n_optional += 1;
            return PropertyForm::Optional;
        }
        PropertyForm::Nullable
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

fn put_description(schema: &mut Map<String, Value>, node: &SchemaNode, notes: &[String]) {
    if let Some(description) = description(node, notes) {
        schema.insert("description".to_owned(), description.into());
    }
}

/// Makes a schema accept null.
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

    fn written(format: ModelFormat, schema: &Value) -> (Strict, Vec<String>) {
        let mut losses = Losses::default();
        let node = read(schema, &mut losses).and_then(|node| as_object(node, &mut losses));
        let written = write(format, &node.expect("an object"), MANY, &mut losses);
        (written, losses.into_notes())
    }

    /// More optional properties than any tool here has.
    const MANY: usize = 100;

    /// One property called `a`, which is not required.
    #[track_caller]
    fn check(format: ModelFormat, property: Value, expected: Value) -> Vec<String> {
        let schema = json!({"properties": {"a": property}, "additionalProperties": false});
        let (written, notes) = written(format, &schema);
        let (written, _, _) = written.expect("it can be strict");
        assert_eq!(written["properties"]["a"], expected);
        assert_eq!(written["additionalProperties"], false);
        notes
    }

    #[track_caller]
    fn check_refused(format: ModelFormat, property: Value, reason: &str) {
        let schema = json!({"properties": {"a": property}, "additionalProperties": false});
        let (written, _) = written(format, &schema);
        assert!(written.as_ref().is_err_and(|declared| declared.contains(reason)), "{written:?}");
    }

    #[test]
    fn openai_wants_every_property_and_optional_ones_nullable() {
        let open = ModelFormat::OpenAi;
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
        let (written, _) = written(ModelFormat::Anthropic, &schema);
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
            let written = write(ModelFormat::Anthropic, &node, max_optional, &mut losses);
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
            ModelFormat::OpenAi,
            number.clone(),
            json!({"type": ["integer", "null"], "minimum": 1, "description": "How many. (default: 3)"}),
        );
        let notes = check(
            ModelFormat::Anthropic,
            number,
            json!({"type": "integer", "default": 3, "description": "How many. (minimum: 1)"}),
        );
        assert_eq!(notes, ["`minimum` is only in the description (a)"]);
        let text = json!({"type": "string", "minLength": 1, "pattern": "^a", "format": "uri"});
        check(
            ModelFormat::OpenAi,
            text.clone(),
            json!({"type": ["string", "null"], "pattern": "^a", "description": "minLength: 1, format: uri"}),
        );
        check(
            ModelFormat::Anthropic,
            text,
            json!({"type": "string", "pattern": "^a", "format": "uri", "description": "minLength: 1"}),
        );
        let list = json!({"type": "array", "items": {"type": "string"}, "minItems": 2, "uniqueItems": true});
        check(
            ModelFormat::Anthropic,
            list,
            json!({"type": "array", "items": {"type": "string"}, "description": "minItems: 2, uniqueItems: true"}),
        );
    }

    #[test]
    fn keywords_beside_alternatives_are_merged_into_each() {
        let schema = json!({"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "string"}},
            "additionalProperties": false, "oneOf": [{"required": ["x"]}, {"required": ["y"]}]});
        let notes = check(
            ModelFormat::Anthropic,
            schema,
            json!({"anyOf": [
                {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "string"}}, "required": ["x"], "additionalProperties": false},
                {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "string"}}, "required": ["y"], "additionalProperties": false}]}),
        );
        assert_eq!(notes, ["`oneOf` is sent as `anyOf` (a)"]);
    }

    #[test]
    fn alternatives_that_cannot_be_merged_are_loosened_and_impossible_ones_removed() {
        let notes = check(
            ModelFormat::Anthropic,
            json!({"type": "string", "pattern": "^a", "anyOf": [{"pattern": "b$"}, {"maxLength": 3}, {"type": "integer"}]}),
            json!({"anyOf": [{"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^a", "description": "maxLength: 3"}]}),
        );
        assert!(notes[0].contains("cannot be merged"), "{notes:?}");
    }

    #[test]
    fn several_types_are_alternatives() {
        check(
            ModelFormat::OpenAi,
            json!({"type": ["string", "array", "null"], "items": {"type": "number"}}),
            json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "number"}}, {"type": "null"}]}),
        );
    }

    #[test]
    fn tuples_are_lists_of_any_of_their_parts() {
        let notes = check(
            ModelFormat::Anthropic,
            json!({"type": "array", "items": [{"type": "string"}, {"type": "number"}]}),
            json!({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "number"}]}}),
        );
        assert_eq!(notes, ["a tuple is sent as a list of any of its parts (a)"]);
    }

    #[test]
    fn unspecified_objects_are_closed_and_reported() {
        let notes = check(
            ModelFormat::Anthropic,
            json!({"properties": {"b": {"type": "string"}}}),
            json!({"type": "object", "properties": {"b": {"type": "string"}}, "required": [], "additionalProperties": false}),
        );
        assert_eq!(notes, ["objects are closed: only declared properties can be sent (a)"]);
    }

    #[test]
    fn a_schema_that_cannot_be_strict_gives_a_reason() {
        let open = ModelFormat::OpenAi;
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
            "`a` accepts properties that are not declared",
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
        assert!(written(ModelFormat::OpenAi, &schema).0.is_err());
        let names: Map<String, Value> = (0..100)
            .map(|number| (format!("{number:0>1300}"), json!({"type": "string"})))
            .collect();
        assert!(written(ModelFormat::OpenAi, &json!({"properties": names})).0.is_err());
    }

    #[test]
    fn a_null_with_its_own_meaning_is_reported() {
        let notes = check(
            ModelFormat::OpenAi,
            json!({"type": ["string", "null"]}),
            json!({"type": ["string", "null"]}),
        );
        assert_eq!(notes, ["null counts as absent where an optional property allows null (a)"]);
    }
}
