//! Reads the keywords of one schema, each checked separately: an error affects only that keyword.

use std::collections::HashSet;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::{Additional, RareKeyword, SchemaNode, SchemaReader, Types, Union};
use crate::formats::losses::shown_name;

/// Limits that are counts.
const COUNTS: [&str; 6] =
    ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];
const NUMBERS: [&str; 3] = ["minimum", "maximum", "multipleOf"];
const TEXTS: [&str; 4] = ["pattern", "format", "contentEncoding", "contentMediaType"];
const ANNOTATIONS: [&str; 4] = ["examples", "deprecated", "readOnly", "writeOnly"];
/// Keywords with a schema that may safely accept more.
const HOLDS_SCHEMA: [&str; 4] =
    ["propertyNames", "unevaluatedProperties", "unevaluatedItems", "contentSchema"];
const HOLDS_SCHEMAS: [&str; 2] = ["patternProperties", "dependentSchemas"];
/// Keywords whose schema must be exact, because accepting more inside would accept less outside;
/// each with the keywords that need it.
const NEEDS_EXACT: [(&str, &[&str]); 3] =
    [("not", &[]), ("contains", &["minContains", "maxContains"]), ("if", &["then", "else"])];

impl<'a> SchemaReader<'a, '_> {
    /// Reads the keywords of a schema, without its references and parts.
    pub(super) fn own_keywords(
        &mut self,
        object: &'a Map<String, Value>,
    ) -> Result<SchemaNode, String> {
        let text = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
        let mut node = SchemaNode {
            title: text("title"),
            description: text("description"),
            ..SchemaNode::default()
        };
        annotations(object, &mut node);
        node.types = self.types(object);
        self.values(object, &mut node);
        self.limits(object, &mut node);
        self.properties(object, &mut node)?;
        self.items(object, &mut node)?;
        for keyword in ["anyOf", "oneOf"] {
            self.union(keyword, object, &mut node)?;
        }
        self.rare(object, &mut node)?;
        self.dependencies(object, &mut node)?;
        self.exact_keywords(object, &mut node)?;
        self.default(object, &mut node);
        Ok(node)
    }

    fn default(&mut self, object: &Map<String, Value>, node: &mut SchemaNode) {
        let Some(default) = object.get("default") else { return };
        let kind = Types::of_value(default);
        let has_type = node.types.is_none_or(|types| !types.and(kind).is_empty());
        let is_listed = node.values.as_ref().is_none_or(|values| values.contains(default));
        if has_type && is_listed {
            node.default = Some(default.clone());
        } else if !default.is_null() {
            // Generators write `"default": null` for "no default".
            self.note_loss("the `default` does not fit and is left out");
        }
    }

    fn types(&mut self, object: &Map<String, Value>) -> Option<Types> {
        let names: Vec<&Value> = match object.get("type")? {
            Value::Array(names) => names.iter().collect(),
            name => vec![name],
        };
        let mut types = Types::default();
        for name in names {
            let Some(name) = name.as_str() else {
                self.note_loss("the `type` is neither a name nor a list of names and is left out");
                return None;
            };
            let Some(known) = Types::of_name(name) else {
                self.note_loss(format!(
                    "the type `{}` is not known and is left out",
                    shown_name(name)
                ));
                return None;
            };
            types = types.or(known);
        }
        (types != Types::ALL && !types.is_empty()).then_some(types)
    }

    fn values(&mut self, object: &Map<String, Value>, node: &mut SchemaNode) {
        let values = match (object.get("const"), object.get("enum")) {
            (Some(value), Some(Value::Array(values))) if !values.contains(value) => {
                self.note_loss("`const` and `enum` contradict each other; `const` is kept");
                vec![value.clone()]
            }
            (Some(value), _) => vec![value.clone()],
            (None, Some(Value::Array(values))) if values.is_empty() => {
                return self.note_loss("the `enum` is empty and is left out");
            }
            (None, Some(Value::Array(values))) => distinct(values),
            (None, Some(_)) => return self.note_loss("the `enum` is not a list and is left out"),
            (None, None) => return,
        };
        let types = node.types.unwrap_or(Types::ALL);
        let may_be_null = is_nullable(object);
        let fits = |value: &Value| {
            !types.and(Types::of_value(value)).is_empty() || (may_be_null && value.is_null())
        };
        let (fitting, other): (Vec<Value>, Vec<Value>) = values.into_iter().partition(fits);
        if !other.is_empty() {
            self.note_loss("the `enum` has values of another type than `type` says");
        }
        if fitting.is_empty() {
            // The values are more precise than the type, so they are probably right.
            node.types = None;
            node.values = Some(other);
        } else {
            node.values = Some(fitting);
        }
    }

    fn limits(&mut self, object: &Map<String, Value>, node: &mut SchemaNode) {
        for keyword in COUNTS {
            self.limit(keyword, object, node, whole);
        }
        for keyword in NUMBERS {
            let is_fine = |value: &Value| {
                value.is_number() && (keyword != "multipleOf" || value.as_f64() > Some(0.0))
            };
            self.limit(keyword, object, node, |value| is_fine(value).then(|| value.clone()));
        }
        for keyword in TEXTS {
            self.limit(keyword, object, node, |value| value.as_str().map(Value::from));
        }
        for (keyword, plain) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
            match object.get(keyword) {
                // In draft 4 it is a flag for the bound.
                Some(Value::Bool(true)) => {
                    if let Some(bound) = node.limits.shift_remove(plain) {
                        node.limits.insert(keyword.to_owned(), bound);
                    }
                }
                Some(Value::Bool(false)) => {}
                _ => self
                    .limit(keyword, object, node, |value| value.is_number().then(|| value.clone())),
            }
        }
        if object.get("uniqueItems") == Some(&Value::Bool(true)) {
            node.limits.insert("uniqueItems".to_owned(), Value::Bool(true));
        }
    }

    fn limit(
        &mut self,
        keyword: &str,
        object: &Map<String, Value>,
        node: &mut SchemaNode,
        accept: impl Fn(&Value) -> Option<Value>,
    ) {
        let Some(value) = object.get(keyword) else { return };
        match accept(value) {
            Some(value) => {
                node.limits.insert(keyword.to_owned(), value);
            }
            None => self.note_loss(format!("`{keyword}` has a wrong value and is left out")),
        }
    }

    fn properties(
        &mut self,
        object: &'a Map<String, Value>,
        node: &mut SchemaNode,
    ) -> Result<(), String> {
        node.required = self.names("required", object.get("required"));
        match object.get("properties") {
            Some(Value::Object(properties)) => {
                for (name, schema) in properties {
                    self.property(name, schema, node)?;
                }
                let mut seen = HashSet::new();
                node.required.retain(|name| seen.insert(name.clone()));
            }
            Some(_) => self.note_loss("`properties` is not an object and is left out"),
            None => {}
        }
        node.additional = match object.get("additionalProperties") {
            None => Additional::Unspecified,
            Some(Value::Bool(false)) => Additional::Closed,
            Some(schema) => {
                let like = self.within("*", schema)?;
                if like.is_open() { Additional::Open } else { Additional::Like(Box::new(like)) }
            }
        };
        Ok(())
    }

    fn property(
        &mut self,
        name: &'a str,
        schema: &'a Value,
        node: &mut SchemaNode,
    ) -> Result<(), String> {
        let inner = self.within(name, schema)?;
        if inner.is_nothing() {
            let name = shown_name(name);
            self.note_loss(format!("the property `{name}`, which is never allowed, is left out"));
            return Ok(());
        }
        // In draft 3 it is inside the property.
        if schema.get("required") == Some(&Value::Bool(true)) {
            node.required.push(name.to_owned());
        }
        node.properties.insert(name.to_owned(), inner);
        Ok(())
    }

    /// Reads a list of names without duplicates. `required: true` belongs to the object around the
    /// property, so it is not an error here.
    fn names(&mut self, keyword: &str, value: Option<&Value>) -> Vec<String> {
        match value {
            None | Some(Value::Bool(_)) => Vec::new(),
            Some(Value::Array(names)) => {
                let mut seen = HashSet::new();
                let names = names.iter().filter_map(Value::as_str);
                names.filter(|name| seen.insert(*name)).map(str::to_owned).collect()
            }
            Some(_) => {
                self.note_loss(format!("`{keyword}` is not a list and is left out"));
                Vec::new()
            }
        }
    }

    fn items(
        &mut self,
        object: &'a Map<String, Value>,
        node: &mut SchemaNode,
    ) -> Result<(), String> {
        let (tuple, tail) = match (object.get("prefixItems"), object.get("items")) {
            (Some(Value::Array(tuple)), tail) => (Some(tuple), tail),
            (_, Some(Value::Array(tuple))) => (Some(tuple), object.get("additionalItems")),
            (_, tail) => (None, tail),
        };
        for schema in tuple.into_iter().flatten() {
            let inner = self.within("[]", schema)?;
            node.prefix.push(inner);
        }
        match tail {
            None | Some(Value::Bool(true)) => {}
            Some(Value::Bool(false)) => {
                // A tuple without further items has a maximum length.
                let most = node.prefix.len() as u64;
                let said = node.limits.get("maxItems").and_then(Value::as_u64);
                let most = said.map_or(most, |said| said.min(most));
                node.limits.insert("maxItems".to_owned(), most.into());
            }
            Some(schema) => node.items = Some(Box::new(self.within("[]", schema)?)),
        }
        Ok(())
    }

    fn union(
        &mut self,
        keyword: &str,
        object: &'a Map<String, Value>,
        node: &mut SchemaNode,
    ) -> Result<(), String> {
        let variants = match object.get(keyword) {
            None => return Ok(()),
            Some(Value::Array(variants)) => variants,
            Some(_) => {
                self.note_loss(format!("`{keyword}` is not a list and is left out"));
                return Ok(());
            }
        };
        let before = self.losses.n_changes();
        let mut read = Vec::new();
        for variant in variants {
            read.push(self.schema(variant)?);
        }
        read.retain(|variant| !variant.is_nothing());
        if read.is_empty() {
            self.note_loss(format!("`{keyword}` has no alternative and is left out"));
            return Ok(());
        }
        // An alternative that accepts more than before may now fit together with another one.
        let is_exclusive = keyword == "oneOf" && self.losses.n_changes() == before;
        node.unions.push(Union { is_exclusive, variants: read });
        Ok(())
    }

    fn rare(
        &mut self,
        object: &'a Map<String, Value>,
        node: &mut SchemaNode,
    ) -> Result<(), String> {
        for keyword in HOLDS_SCHEMA {
            let Some(schema) = object.get(keyword) else { continue };
            let inner = self.within("*", schema)?;
            node.rare.insert(keyword.to_owned(), RareKeyword::Schema(Box::new(inner)));
        }
        for keyword in HOLDS_SCHEMAS {
            let Some(Value::Object(schemas)) = object.get(keyword) else { continue };
            let mut inner = IndexMap::new();
            for (name, schema) in schemas {
                inner.insert(name.clone(), self.within("*", schema)?);
            }
            node.rare.insert(keyword.to_owned(), RareKeyword::Schemas(inner));
        }
        Ok(())
    }

    /// Reads `dependentRequired`, and `dependencies` of older drafts, which combines two keywords.
    fn dependencies(
        &mut self,
        object: &'a Map<String, Value>,
        node: &mut SchemaNode,
    ) -> Result<(), String> {
        let (mut needed, mut schemas) = (Map::new(), IndexMap::new());
        for keyword in ["dependentRequired", "dependencies"] {
            let Some(Value::Object(entries)) = object.get(keyword) else { continue };
            for (name, entry) in entries {
                if entry.is_array() {
                    needed.insert(name.clone(), self.names(keyword, Some(entry)).into());
                } else if keyword == "dependencies" {
                    schemas.insert(name.clone(), self.within("*", entry)?);
                }
            }
        }
        if !needed.is_empty() {
            node.rare.insert("dependentRequired".to_owned(), RareKeyword::Plain(needed.into()));
        }
        if !schemas.is_empty() {
            let known = node.rare.entry("dependentSchemas".to_owned());
            match known.or_insert_with(|| RareKeyword::Schemas(IndexMap::new())) {
                RareKeyword::Schemas(known) => known.extend(schemas),
                other => *other = RareKeyword::Schemas(schemas),
            }
        }
        Ok(())
    }

    /// Reads a dependent keyword: `minContains` and `maxContains` are counts, `then` and `else`
    /// schemas.
    fn dependent_keyword(
        &mut self,
        keyword: &str,
        object: &'a Map<String, Value>,
        node: &mut SchemaNode,
    ) -> Result<(), String> {
        let Some(value) = object.get(keyword) else { return Ok(()) };
        let rare = if !keyword.ends_with("Contains") {
            RareKeyword::Schema(Box::new(self.within("*", value)?))
        } else if let Some(count) = whole(value) {
            RareKeyword::Plain(count)
        } else {
            self.note_loss(format!("`{keyword}` has a wrong value and is left out"));
            return Ok(());
        };
        node.rare.insert(keyword.to_owned(), rare);
        Ok(())
    }

    /// Reads keywords that are kept only if nothing inside them was loosened.
    fn exact_keywords(
        &mut self,
        object: &'a Map<String, Value>,
        node: &mut SchemaNode,
    ) -> Result<(), String> {
        for (keyword, together) in NEEDS_EXACT {
            let Some(schema) = object.get(keyword) else { continue };
            let before = self.losses.n_changes();
            let inner = self.within("*", schema)?;
            if self.losses.n_changes() != before {
                self.note_loss(format!(
                    "`{keyword}` is left out, because its schema cannot be kept exactly"
                ));
                continue;
            }
            node.rare.insert(keyword.to_owned(), RareKeyword::Schema(Box::new(inner)));
            for keyword in together {
                self.dependent_keyword(keyword, object, node)?;
            }
        }
        Ok(())
    }
}

/// Applies `nullable` to the merged schema, because it also applies to a `$ref` beside it.
pub(super) fn make_nullable(object: &Map<String, Value>, node: &mut SchemaNode) {
    if !is_nullable(object) {
        return;
    }
    node.types = node.types.map(|types| types.or(Types::NULL));
    if let Some(values) = &mut node.values
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    for union in &mut node.unions {
        if !union.variants.iter().any(SchemaNode::takes_null) {
            union.variants.push(SchemaNode::of(Types::NULL));
        }
    }
}

fn annotations(object: &Map<String, Value>, node: &mut SchemaNode) {
    for keyword in ANNOTATIONS {
        let Some(value) = object.get(keyword) else { continue };
        let is_fine = if keyword == "examples" { value.is_array() } else { value.is_boolean() };
        if is_fine {
            node.annotations.insert(keyword.to_owned(), value.clone());
        }
    }
    if let (Some(example), None) = (object.get("example"), object.get("examples")) {
        node.annotations.insert("examples".to_owned(), Value::Array(vec![example.clone()]));
    }
}

fn is_nullable(object: &Map<String, Value>) -> bool {
    object.get("nullable") == Some(&Value::Bool(true))
}

/// Returns a non-negative whole number; `3.0` is one.
fn whole(value: &Value) -> Option<Value> {
    if value.is_u64() {
        return Some(value.clone());
    }
    let number = value.as_f64().filter(|number| number.fract() == 0.0)?;
    // Larger values are not meant as lengths.
    (0.0..9e15).contains(&number).then(|| Value::from(number as u64))
}

/// Removes duplicate values. Compares their text, because comparing all pairs takes too long for
/// the lists of some servers.
fn distinct(values: &[Value]) -> Vec<Value> {
    let mut seen = HashSet::new();
    values.iter().filter(|value| seen.insert(value.to_string())).cloned().collect()
}
