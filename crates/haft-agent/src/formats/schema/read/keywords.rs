//! The keywords of one schema, each checked by itself: a slip costs that keyword only.

use std::collections::HashSet;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::{Additional, Further, Node, Reader, Types, Union};
use crate::formats::losses::shown_name;

/// Bounds that are whole numbers.
const COUNTS: [&str; 6] =
    ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];
const NUMBERS: [&str; 3] = ["minimum", "maximum", "multipleOf"];
const TEXTS: [&str; 4] = ["pattern", "format", "contentEncoding", "contentMediaType"];
const REMARKS: [&str; 4] = ["examples", "deprecated", "readOnly", "writeOnly"];
/// Keywords that hold a schema which may be loosened without harm.
const HOLDS_SCHEMA: [&str; 4] =
    ["propertyNames", "unevaluatedProperties", "unevaluatedItems", "contentSchema"];
const HOLDS_SCHEMAS: [&str; 2] = ["patternProperties", "dependentSchemas"];
/// Keywords under which looser means stricter, each with those that mean nothing without it.
const POLAR: [(&str, &[&str]); 3] =
    [("not", &[]), ("contains", &["minContains", "maxContains"]), ("if", &["then", "else"])];

impl<'a> Reader<'a, '_> {
    /// What a schema says itself, without its references and parts.
    pub(super) fn own(&mut self, object: &'a Map<String, Value>) -> Result<Node, String> {
        let text = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
        let mut node =
            Node { title: text("title"), description: text("description"), ..Node::default() };
        remarks(object, &mut node);
        node.types = self.types(object);
        self.values(object, &mut node);
        self.limits(object, &mut node);
        self.properties(object, &mut node)?;
        self.items(object, &mut node)?;
        for keyword in ["anyOf", "oneOf"] {
            self.union(keyword, object, &mut node)?;
        }
        self.further(object, &mut node)?;
        self.dependencies(object, &mut node)?;
        self.polar(object, &mut node)?;
        self.default(object, &mut node);
        Ok(node)
    }

    fn default(&mut self, object: &Map<String, Value>, node: &mut Node) {
        let Some(default) = object.get("default") else { return };
        let kind = Types::of_value(default);
        let has_type = node.types.is_none_or(|types| !types.and(kind).is_empty());
        let is_listed = node.values.as_ref().is_none_or(|values| values.contains(default));
        if has_type && is_listed {
            node.default = Some(default.clone());
        } else if !default.is_null() {
            // `"default": null` is what generators write for "no default".
            self.tell("the `default` does not fit and is left out");
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
                self.tell("the `type` is neither a name nor a list of names and is left out");
                return None;
            };
            let Some(known) = Types::of_name(name) else {
                self.tell(format!("the type `{}` is not known and is left out", shown_name(name)));
                return None;
            };
            types = types.or(known);
        }
        (types != Types::ALL && !types.is_empty()).then_some(types)
    }

    fn values(&mut self, object: &Map<String, Value>, node: &mut Node) {
        let values = match (object.get("const"), object.get("enum")) {
            (Some(value), Some(Value::Array(values))) if !values.contains(value) => {
                self.tell("`const` and `enum` contradict each other; `const` is kept");
                vec![value.clone()]
            }
            (Some(value), _) => vec![value.clone()],
            (None, Some(Value::Array(values))) if values.is_empty() => {
                return self.tell("the `enum` is empty and is left out");
            }
            (None, Some(Value::Array(values))) => distinct(values),
            (None, Some(_)) => return self.tell("the `enum` is no list and is left out"),
            (None, None) => return,
        };
        let types = node.types.unwrap_or(Types::ALL);
        let may_be_null = is_nullable(object);
        let fits = |value: &Value| {
            !types.and(Types::of_value(value)).is_empty() || (may_be_null && value.is_null())
        };
        let (fitting, other): (Vec<Value>, Vec<Value>) = values.into_iter().partition(fits);
        if !other.is_empty() {
            self.tell("the `enum` has values of another type than `type` says");
        }
        if fitting.is_empty() {
            // The values are more precise than the type, so they are what was meant.
            node.types = None;
            node.values = Some(other);
        } else {
            node.values = Some(fitting);
        }
    }

    fn limits(&mut self, object: &Map<String, Value>, node: &mut Node) {
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
                // Draft 4: a switch beside the bound.
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
        node: &mut Node,
        accept: impl Fn(&Value) -> Option<Value>,
    ) {
        let Some(value) = object.get(keyword) else { return };
        match accept(value) {
            Some(value) => {
                node.limits.insert(keyword.to_owned(), value);
            }
            None => self.tell(format!("`{keyword}` has a wrong value and is left out")),
        }
    }

    fn properties(
        &mut self,
        object: &'a Map<String, Value>,
        node: &mut Node,
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
            Some(_) => self.tell("`properties` is no object and is left out"),
            None => {}
        }
        node.additional = match object.get("additionalProperties") {
            None => Additional::Unsaid,
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
        node: &mut Node,
    ) -> Result<(), String> {
        let inner = self.within(name, schema)?;
        if inner.is_nothing() {
            let name = shown_name(name);
            self.tell(format!("the property `{name}`, which may never be there, is left out"));
            return Ok(());
        }
        // Draft 3 says it inside the property.
        if schema.get("required") == Some(&Value::Bool(true)) {
            node.required.push(name.to_owned());
        }
        node.properties.insert(name.to_owned(), inner);
        Ok(())
    }

    /// A list of names, each once. `required: true` belongs to the object around the property and is no slip here.
    fn names(&mut self, keyword: &str, value: Option<&Value>) -> Vec<String> {
        match value {
            None | Some(Value::Bool(_)) => Vec::new(),
            Some(Value::Array(names)) => {
                let mut seen = HashSet::new();
                let names = names.iter().filter_map(Value::as_str);
                names.filter(|name| seen.insert(*name)).map(str::to_owned).collect()
            }
            Some(_) => {
                self.tell(format!("`{keyword}` is no list and is left out"));
                Vec::new()
            }
        }
    }

    fn items(&mut self, object: &'a Map<String, Value>, node: &mut Node) -> Result<(), String> {
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
                // A tuple that nothing may follow is one with a greatest length.
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
        node: &mut Node,
    ) -> Result<(), String> {
        let variants = match object.get(keyword) {
            None => return Ok(()),
            Some(Value::Array(variants)) => variants,
            Some(_) => {
                self.tell(format!("`{keyword}` is no list and is left out"));
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
            self.tell(format!("`{keyword}` has no alternative and is left out"));
            return Ok(());
        }
        // An alternative that takes more than it did may now fit together with another one.
        let is_exclusive = keyword == "oneOf" && self.losses.n_changes() == before;
        node.unions.push(Union { is_exclusive, variants: read });
        Ok(())
    }

    fn further(&mut self, object: &'a Map<String, Value>, node: &mut Node) -> Result<(), String> {
        for keyword in HOLDS_SCHEMA {
            let Some(schema) = object.get(keyword) else { continue };
            let inner = self.within("*", schema)?;
            node.further.insert(keyword.to_owned(), Further::Schema(Box::new(inner)));
        }
        for keyword in HOLDS_SCHEMAS {
            let Some(Value::Object(schemas)) = object.get(keyword) else { continue };
            let mut inner = IndexMap::new();
            for (name, schema) in schemas {
                inner.insert(name.clone(), self.within("*", schema)?);
            }
            node.further.insert(keyword.to_owned(), Further::Schemas(inner));
        }
        Ok(())
    }

    /// `dependentRequired`, and `dependencies` of older drafts, which is two keywords in one.
    fn dependencies(
        &mut self,
        object: &'a Map<String, Value>,
        node: &mut Node,
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
            node.further.insert("dependentRequired".to_owned(), Further::Plain(needed.into()));
        }
        if !schemas.is_empty() {
            let known = node.further.entry("dependentSchemas".to_owned());
            match known.or_insert_with(|| Further::Schemas(IndexMap::new())) {
                Further::Schemas(known) => known.extend(schemas),
                other => *other = Further::Schemas(schemas),
            }
        }
        Ok(())
    }

    /// `minContains` and `maxContains` are counts, `then` and `else` schemas.
    fn with_polar(
        &mut self,
        keyword: &str,
        object: &'a Map<String, Value>,
        node: &mut Node,
    ) -> Result<(), String> {
        let Some(value) = object.get(keyword) else { return Ok(()) };
        let further = if !keyword.ends_with("Contains") {
            Further::Schema(Box::new(self.within("*", value)?))
        } else if let Some(count) = whole(value) {
            Further::Plain(count)
        } else {
            self.tell(format!("`{keyword}` has a wrong value and is left out"));
            return Ok(());
        };
        node.further.insert(keyword.to_owned(), further);
        Ok(())
    }

    /// Keywords that stay only if nothing inside them had to be loosened.
    fn polar(&mut self, object: &'a Map<String, Value>, node: &mut Node) -> Result<(), String> {
        for (keyword, together) in POLAR {
            let Some(schema) = object.get(keyword) else { continue };
            let before = self.losses.n_changes();
            let inner = self.within("*", schema)?;
            if self.losses.n_changes() != before {
                self.tell(format!(
                    "`{keyword}` is left out, because what it holds cannot be kept whole"
                ));
                continue;
            }
            node.further.insert(keyword.to_owned(), Further::Schema(Box::new(inner)));
            for keyword in together {
                self.with_polar(keyword, object, node)?;
            }
        }
        Ok(())
    }
}

/// What can only be said of the whole: `nullable` speaks of a `$ref` beside it too.
pub(super) fn make_nullable(object: &Map<String, Value>, node: &mut Node) {
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
        if !union.variants.iter().any(Node::takes_null) {
            union.variants.push(Node::of(Types::NULL));
        }
    }
}

fn remarks(object: &Map<String, Value>, node: &mut Node) {
    for keyword in REMARKS {
        let Some(value) = object.get(keyword) else { continue };
        let is_fine = if keyword == "examples" { value.is_array() } else { value.is_boolean() };
        if is_fine {
            node.remarks.insert(keyword.to_owned(), value.clone());
        }
    }
    if let (Some(example), None) = (object.get("example"), object.get("examples")) {
        node.remarks.insert("examples".to_owned(), Value::Array(vec![example.clone()]));
    }
}

fn is_nullable(object: &Map<String, Value>) -> bool {
    object.get("nullable") == Some(&Value::Bool(true))
}

/// A whole number from zero on; `3.0` is one.
fn whole(value: &Value) -> Option<Value> {
    if value.is_u64() {
        return Some(value.clone());
    }
    let number = value.as_f64().filter(|number| number.fract() == 0.0)?;
    // Beyond 2^53 nobody means a length.
    (0.0..9e15).contains(&number).then(|| Value::from(number as u64))
}

/// Each value once. By text, because comparing each with each takes too long for the lists that some servers send.
fn distinct(values: &[Value]) -> Vec<Value> {
    let mut seen = HashSet::new();
    values.iter().filter(|value| seen.insert(value.to_string())).cloned().collect()
}
