//! Almost all of JSON Schema 2020-12, for Anthropic, and for OpenAI without strict: self-contained,
//! valid, and with an object without alternatives at the root.

use std::collections::HashMap;

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::DialectWriter;
use crate::formats::{
    ModelFormat,
    losses::Losses,
    restore::{Restore, RestoreTree},
    schema::{Additional, RareKeyword, SchemaNode, Types, Union},
};

/// Writes the schema of a tool's input; `root` is an object.
///
/// # Errors
/// When it cannot be written. The text completes a sentence that starts with the tool's name.
pub(crate) fn write(
    format: ModelFormat,
    root: &SchemaNode,
    losses: &mut Losses,
) -> Result<(Value, Restore), String> {
    let mut root = root.clone();
    // OpenAI: "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level".
    if format != ModelFormat::Anthropic && root.rare.shift_remove("not").is_some() {
        losses.add("`not` at the root is left out", &[]);
    }
    let mut of_first = losses.clone();
    let (schema, keys) = written(format, &root, &mut of_first)?;
    if keys.is_empty() || !root.remove_name_patterns() {
        *losses = of_first;
        return Ok((schema, Restore::new(RestoreTree::Same, keys)));
    }
    losses.add(
        "keywords that match property names are left out, because properties are renamed",
        &[],
    );
    let (schema, keys) = written(format, &root, losses)?;
    Ok((schema, Restore::new(RestoreTree::Same, keys)))
}

fn written(
    format: ModelFormat,
    root: &SchemaNode,
    losses: &mut Losses,
) -> Result<(Value, HashMap<String, String>), String> {
    let mut writer = Writer { writer_state: DialectWriter::new(format, losses), n_fragments: 0 };
    let mut schema = writer.schema(root);
    schema.entry("properties").or_insert_with(|| json!({}));
    Ok((Value::Object(schema), writer.writer_state.keys.reverse_map()?))
}

struct Writer<'l> {
    writer_state: DialectWriter<'l>,
    /// Number of alternatives, parts and conditions around the current schema.
    n_fragments: usize,
}

impl Writer<'_> {
    fn schema(&mut self, node: &SchemaNode) -> Map<String, Value> {
        let mut schema = Map::new();
        put_text("title", node.title.as_deref(), &mut schema);
        put_text("description", node.description.as_deref(), &mut schema);
        if let Some(types) = node.types {
            let mut names = types.names();
            let names = if names.len() == 1 { json!(names.remove(0)) } else { json!(names) };
            schema.insert("type".to_owned(), names);
        }
        if let Some(values) = &node.values {
            schema.insert("enum".to_owned(), Value::Array(values.clone()));
        }
        self.put_properties(node, &mut schema);
        self.put_items(node, &mut schema);
        self.put_unions(node, &mut schema);
        schema.extend(node.limits.clone());
        self.put_rare(node, &mut schema);
        if let Some(default) = &node.default {
            schema.insert("default".to_owned(), default.clone());
        }
        schema.extend(node.annotations.clone());
        schema
    }

    fn within(&mut self, part: &str, node: &SchemaNode) -> Value {
        self.writer_state.path.push(part.to_owned());
        let schema = self.schema(node);
        self.writer_state.path.pop();
        Value::Object(schema)
    }

    fn fragment(&mut self, node: &SchemaNode) -> Value {
        self.n_fragments += 1;
        let schema = self.schema(node);
        self.n_fragments -= 1;
        Value::Object(schema)
    }

    fn put_properties(&mut self, node: &SchemaNode, schema: &mut Map<String, Value>) {
        if !node.properties.is_empty() {
            let mut properties = Map::new();
            for (name, inner) in &node.properties {
                let key = self.writer_state.key(name);
                let inner = self.within(name, inner);
                properties.insert(key, inner);
            }
            schema.insert("properties".to_owned(), properties.into());
        }
        // Alternatives may require properties of the schema around them, and under `not` a weaker
        // condition would refuse more.
        let is_whole = self.n_fragments == 0 && node.unions.is_empty() && node.parts.is_empty();
        let required =
            if is_whole { self.writer_state.required(node) } else { node.required.clone() };
        if !required.is_empty() {
            schema.insert("required".to_owned(), self.keys(&required));
        }
        match &node.additional {
            Additional::Unspecified => {}
            Additional::Open => drop(schema.insert("additionalProperties".to_owned(), json!(true))),
            Additional::Closed => {
                schema.insert("additionalProperties".to_owned(), json!(false));
            }
            Additional::Like(like) => {
                let like = self.within("*", like);
                schema.insert("additionalProperties".to_owned(), like);
            }
        }
    }

    fn keys(&mut self, names: &[String]) -> Value {
        names.iter().map(|name| self.writer_state.keys.key(name)).collect()
    }

    fn put_items(&mut self, node: &SchemaNode, schema: &mut Map<String, Value>) {
        if !node.prefix.is_empty() {
            let prefix: Vec<Value> =
                node.prefix.iter().map(|inner| self.within("[]", inner)).collect();
            schema.insert("prefixItems".to_owned(), prefix.into());
        }
        if let Some(items) = &node.items {
            let items = self.within("[]", items);
            schema.insert("items".to_owned(), items);
        } else if node.types.is_some_and(|types| types.contains(Types::ARRAY)) {
            // OpenAI: "array schema missing items".
            schema.insert("items".to_owned(), json!({}));
        }
    }

    fn put_unions(&mut self, node: &SchemaNode, schema: &mut Map<String, Value>) {
        let mut parts: Vec<Value> = node.parts.iter().map(|part| self.fragment(part)).collect();
        for union in &node.unions {
            let (keyword, variants) = self.union(union);
            if schema.contains_key(keyword) {
                parts.push(json!({keyword: variants}));
            } else {
                schema.insert(keyword.to_owned(), variants);
            }
        }
        if !parts.is_empty() {
            schema.insert("allOf".to_owned(), parts.into());
        }
    }

    fn union(&mut self, union: &Union) -> (&'static str, Value) {
        let keyword = if union.is_exclusive { "oneOf" } else { "anyOf" };
        let variants = union.variants.iter().map(|variant| self.fragment(variant)).collect();
        (keyword, variants)
    }

    fn put_rare(&mut self, node: &SchemaNode, schema: &mut Map<String, Value>) {
        for (keyword, rare) in &node.rare {
            let value = match rare {
                RareKeyword::Plain(value) => self.plain(keyword, value),
                RareKeyword::Schema(inner) if inner.is_nothing() => json!(false),
                RareKeyword::Schema(inner) => self.fragment(inner),
                RareKeyword::Schemas(inner) => self.schemas(keyword, inner),
            };
            schema.insert(keyword.clone(), value);
        }
    }

    /// Renames the properties in `dependentRequired`.
    fn plain(&mut self, keyword: &str, value: &Value) -> Value {
        let (true, Some(entries)) = (keyword == "dependentRequired", value.as_object()) else {
            return value.clone();
        };
        let mut renamed = Map::new();
        for (name, needed) in entries {
            let names = needed.as_array().into_iter().flatten().filter_map(Value::as_str);
            let names: Vec<String> = names.map(str::to_owned).collect();
            let key = self.writer_state.keys.key(name);
            renamed.insert(key, self.keys(&names));
        }
        renamed.into()
    }

    fn schemas(&mut self, keyword: &str, schemas: &IndexMap<String, SchemaNode>) -> Value {
        let is_by_name = keyword == "dependentSchemas";
        let mut written = Map::new();
        for (name, inner) in schemas {
            let key = if is_by_name { self.writer_state.keys.key(name) } else { name.clone() };
            let inner = if inner.is_nothing() { json!(false) } else { self.fragment(inner) };
            written.insert(key, inner);
        }
        written.into()
    }
}

fn put_text(keyword: &str, text: Option<&str>, schema: &mut Map<String, Value>) {
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        schema.insert(keyword.to_owned(), text.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::schema::{as_object, read};

    #[track_caller]
    fn check(format: ModelFormat, schema: Value, expected: Value) -> Vec<String> {
        let mut losses = Losses::default();
        let node = read(&schema, &mut losses).and_then(|node| as_object(node, &mut losses));
        let (written, _) = write(format, &node.expect("an object"), &mut losses).expect("written");
        assert_eq!(written, expected);
        losses.into_notes()
    }

    #[test]
    fn a_valid_schema_is_unchanged() {
        let schema = json!({"type": "object", "properties": {
            "path": {"description": "Where.", "type": "string", "minLength": 1},
            "kind": {"oneOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
            "tuple": {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "number"}},
            "either": {"anyOf": [{"required": ["x"]}, {"required": ["y"]}]},
            "none": {"not": {"type": "string"}, "if": {"type": "number"}, "then": {"minimum": 3}, "default": 5}},
            "required": ["path"], "additionalProperties": false, "dependentRequired": {"path": ["kind"]}});
        for format in [ModelFormat::Anthropic, ModelFormat::OpenAi] {
            assert!(check(format, schema.clone(), schema.clone()).is_empty());
        }
    }

    #[test]
    fn a_list_of_anything_has_explicit_items() {
        let notes = check(
            ModelFormat::OpenAi,
            json!({"properties": {"a": {"type": "array"}}}),
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {}}}}),
        );
        assert!(notes.is_empty());
    }

    #[test]
    fn properties_are_renamed_where_the_provider_refuses_them_and_wherever_they_are_named() {
        let schema = json!({"properties": {"$top": {}, "a": {}}, "required": ["$top"], "dependentRequired": {"$top": ["a"]}});
        let notes = check(
            ModelFormat::Anthropic,
            schema.clone(),
            json!({"type": "object", "properties": {"_top_6be7f10b": {}, "a": {}},
                "required": ["_top_6be7f10b"], "dependentRequired": {"_top_6be7f10b": ["a"]}}),
        );
        assert_eq!(notes, ["the property `$top` is sent as `_top_6be7f10b`"]);
        let same = json!({"type": "object", "properties": {"$top": {}, "a": {}}, "required": ["$top"], "dependentRequired": {"$top": ["a"]}});
        assert!(check(ModelFormat::OpenAi, schema, same).is_empty());
    }

    #[test]
    fn keywords_that_match_names_go_where_names_change() {
        let schema = json!({"properties": {"o": {"properties": {"$a": {}}, "propertyNames": {"maxLength": 2},
            "patternProperties": {"^x": {}}, "additionalProperties": false, "not": {"propertyNames": {"maxLength": 1}}}}});
        let notes = check(
            ModelFormat::Anthropic,
            schema.clone(),
            json!({"type": "object", "properties": {"o": {"properties": {"_a_cc7ab9a2": {}}}}}),
        );
        assert!(notes[0].contains("match property names are left out"), "{notes:?}");
        let (mut same, plain) = (schema.clone(), schema);
        same["type"] = json!("object");
        assert!(check(ModelFormat::OpenAi, plain, same).is_empty());
    }

    #[test]
    fn what_is_required_must_exist() {
        let notes = check(
            ModelFormat::OpenAi,
            json!({"properties": {"a": {}}, "required": ["a", "b"]}),
            json!({"type": "object", "properties": {"a": {}}, "required": ["a"]}),
        );
        assert_eq!(notes, ["`required` names `b`, which is not a property"]);
    }

    #[test]
    fn a_negation_at_the_root_is_removed_where_it_is_refused() {
        let schema = json!({"type": "object", "properties": {}, "not": {"required": ["a"]}});
        assert!(check(ModelFormat::Anthropic, schema.clone(), schema.clone()).is_empty());
        let notes = check(ModelFormat::OpenAi, schema, json!({"type": "object", "properties": {}}));
        assert_eq!(notes, ["`not` at the root is left out"]);
    }

    #[test]
    fn several_lists_of_alternatives_and_parts_that_do_not_merge_stay() {
        let schema = json!({"type": "object", "properties": {"a": {
            "anyOf": [{"minLength": 1}, {"maxLength": 9}],
            "allOf": [{"pattern": "a"}, {"pattern": "b"}, {"anyOf": [{"pattern": "c"}, {"pattern": "d"}]}]}}});
        let written = json!({"type": "object", "properties": {"a": {
            "anyOf": [{"pattern": "c"}, {"pattern": "d"}], "pattern": "a",
            "allOf": [{"pattern": "b"}, {"anyOf": [{"minLength": 1}, {"maxLength": 9}]}]}}});
        assert!(check(ModelFormat::Anthropic, schema, written).is_empty());
    }
}
