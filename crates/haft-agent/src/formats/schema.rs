//! A JSON Schema of any draft as a tree with resolved references and merged parts. The dialects of
//! the providers are written from it. `read.rs` reads it, `merge.rs` merges parts.

mod merge;
mod name_patterns;
mod read;

use indexmap::IndexMap;
use serde_json::{Map, Value};

pub(crate) use self::{
    merge::{are_disjoint, as_object, intersect},
    read::{read, too_large},
};

/// A schema for one value. Empty: any value fits.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SchemaNode {
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) default: Option<Value>,
    /// `examples`, `deprecated`, `readOnly` and `writeOnly`, which are not enforced.
    pub(crate) annotations: Map<String, Value>,
    pub(crate) types: Option<Types>,
    /// `enum`, or the single value of `const`.
    pub(crate) values: Option<Vec<Value>>,
    pub(crate) properties: IndexMap<String, Self>,
    pub(crate) required: Vec<String>,
    pub(crate) additional: Additional,
    pub(crate) items: Option<Box<Self>>,
    pub(crate) prefix: Vec<Self>,
    pub(crate) unions: Vec<Union>,
    /// Parts of an `allOf` that contradict the rest or cannot be merged with it.
    pub(crate) parts: Vec<Self>,
    /// Keywords that limit a scalar, a list or an object by a number or a text: `minLength`,
    /// `pattern`.
    pub(crate) limits: Map<String, Value>,
    /// Keywords that few providers know: `not`, `if`, `patternProperties`.
    pub(crate) rare: IndexMap<String, RareKeyword>,
}

/// The properties allowed in addition to the declared ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Additional {
    #[default]
    Unspecified,
    Open,
    Closed,
    Like(Box<SchemaNode>),
}

/// Alternatives: `oneOf` if exactly one may fit, `anyOf` otherwise.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Union {
    pub(crate) is_exclusive: bool,
    pub(crate) variants: Vec<SchemaNode>,
}

/// The value of a keyword that few providers know.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RareKeyword {
    Plain(Value),
    Schema(Box<SchemaNode>),
    Schemas(IndexMap<String, SchemaNode>),
}

impl SchemaNode {
    /// The schema that no value fits.
    pub(crate) fn nothing() -> Self {
        let mut node = Self::default();
        node.rare.insert("not".to_owned(), RareKeyword::Schema(Box::default()));
        node
    }

    pub(crate) fn of(types: Types) -> Self {
        Self { types: Some(types), ..Self::default() }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self.rare.get("not"), Some(RareKeyword::Schema(all)) if **all == Self::default())
    }

    /// Returns true if only null fits.
    pub(crate) fn is_null(&self) -> bool {
        self.types == Some(Types::NULL)
            || self.values.as_ref().is_some_and(|values| values.iter().all(Value::is_null))
    }

    /// Returns true if null fits, according to types and values.
    pub(crate) fn takes_null(&self) -> bool {
        self.types.is_none_or(|types| types.contains(Types::NULL))
            && self.values.as_ref().is_none_or(|values| values.contains(&Value::Null))
            && self.unions.iter().all(|union| union.variants.iter().any(Self::takes_null))
    }

    /// Returns the schema without null among its values. A schema that only null fits stays.
    pub(crate) fn without_null(&self) -> Self {
        if !self.takes_null() || self.is_null() {
            return self.clone();
        }
        let mut node = self.clone();
        node.types = node.types.map(|types| types.without(Types::NULL));
        if let Some(values) = &mut node.values {
            values.retain(|value| !value.is_null());
        }
        for union in &mut node.unions {
            union.variants.retain(|variant| !variant.is_null());
            union.variants.iter_mut().for_each(|variant| *variant = variant.without_null());
        }
        node.with_only_variant()
    }

    /// A list of one alternative and nothing beside it is that alternative.
    fn with_only_variant(mut self) -> Self {
        let bare = Self { unions: Vec::new(), ..self.without_annotations() };
        match self.unions.as_mut_slice() {
            [Union { variants, .. }] if variants.len() == 1 && bare.is_open() => {
                let only = variants.remove(0);
                Self {
                    title: self.title.or_else(|| only.title.clone()),
                    description: self.description.or_else(|| only.description.clone()),
                    default: self.default.or_else(|| only.default.clone()),
                    ..only
                }
            }
            _ => self,
        }
    }

    /// Returns the schema without annotations: title, description, default, examples and so on.
    pub(crate) fn without_annotations(&self) -> Self {
        Self {
            title: None,
            description: None,
            default: None,
            annotations: Map::new(),
            ..self.clone()
        }
    }

    /// Returns true if it restricts nothing.
    pub(crate) fn is_open(&self) -> bool {
        self.without_annotations() == Self::default()
    }

    /// Returns true if it is a list of values and nothing else.
    pub(crate) fn is_literal(&self) -> bool {
        let bare = Self { values: None, types: None, ..self.without_annotations() };
        self.values.is_some() && bare == Self::default()
    }

    /// Returns the types, declared or implied by other keywords. `None` if any type fits.
    pub(crate) fn evident_types(&self) -> Option<Types> {
        if let Some(values) = &self.values {
            return Some(values.iter().map(Types::of_value).fold(Types::default(), Types::or));
        }
        self.types.or_else(|| self.types_by_keywords())
    }

    fn types_by_keywords(&self) -> Option<Types> {
        let has = |names: &[&str]| {
            names
                .iter()
                .any(|name| self.limits.contains_key(*name) || self.rare.contains_key(*name))
        };
        let object = ["minProperties", "maxProperties", "patternProperties", "propertyNames"];
        let of_object = !self.properties.is_empty()
            || !self.required.is_empty()
            || self.additional != Additional::Unspecified
            || has(&object);
        let of_array = self.items.is_some()
            || !self.prefix.is_empty()
            || has(&["minItems", "maxItems", "uniqueItems", "contains"]);
        if of_object {
            Some(Types::OBJECT)
        } else if of_array {
            Some(Types::ARRAY)
        } else if has(&["minLength", "maxLength", "pattern", "contentEncoding"]) {
            Some(Types::STRING)
        } else if has(&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"])
        {
            Some(Types::NUMBER)
        } else {
            None
        }
    }

    /// Counts the nodes, including itself. No deeper than the schema that was read, so recursion is
    /// safe.
    pub(crate) fn node_count(&self) -> usize {
        let like = match &self.additional {
            Additional::Like(node) => node.node_count(),
            _ => 0,
        };
        let inner = self.properties.values().chain(&self.prefix).chain(&self.parts);
        let inner = inner.chain(self.items.as_deref());
        let inner = inner.chain(self.unions.iter().flat_map(|union| &union.variants));
        let rare: usize = self.rare.values().map(RareKeyword::node_count).sum();
        1 + like + rare + inner.map(Self::node_count).sum::<usize>()
    }
}

impl RareKeyword {
    fn node_count(&self) -> usize {
        match self {
            Self::Plain(_) => 1,
            Self::Schema(node) => node.node_count(),
            Self::Schemas(nodes) => nodes.values().map(SchemaNode::node_count).sum(),
        }
    }
}

/// A set of JSON types. A number is an integer or a fraction, so that intersections are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Types(u8);

impl Types {
    pub(crate) const NULL: Self = Self(1);
    pub(crate) const BOOLEAN: Self = Self(2);
    pub(crate) const INTEGER: Self = Self(4);
    pub(crate) const NUMBER: Self = Self(4 | 8);
    pub(crate) const STRING: Self = Self(16);
    pub(crate) const ARRAY: Self = Self(32);
    pub(crate) const OBJECT: Self = Self(64);
    pub(crate) const ALL: Self = Self(127);

    const NAMES: [(Self, &str); 7] = [
        (Self::STRING, "string"),
        (Self::NUMBER, "number"),
        (Self::INTEGER, "integer"),
        (Self::BOOLEAN, "boolean"),
        (Self::ARRAY, "array"),
        (Self::OBJECT, "object"),
        (Self::NULL, "null"),
    ];

    /// Finds a type by its name in any case, or by its name in other languages.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let known = Self::NAMES.iter().find(|(_, known)| *known == name);
        known.map(|(types, _)| *types).or(match name.as_str() {
            "str" | "text" => Some(Self::STRING),
            "int" | "int32" | "int64" | "long" => Some(Self::INTEGER),
            "float" | "double" | "decimal" => Some(Self::NUMBER),
            "bool" => Some(Self::BOOLEAN),
            "list" | "tuple" => Some(Self::ARRAY),
            "dict" | "map" | "record" => Some(Self::OBJECT),
            "none" | "nil" => Some(Self::NULL),
            "any" => Some(Self::ALL),
            _ => None,
        })
    }

    pub(crate) fn of_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(number) => {
                // 3.0 is an integer in JSON Schema.
                let is_whole = number.as_f64().is_some_and(|number| number.fract() == 0.0);
                if number.is_f64() && !is_whole { Self(8) } else { Self::INTEGER }
            }
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns each type separately, number and integer as one.
    pub(crate) fn each(self) -> Vec<Self> {
        self.names().into_iter().filter_map(Self::of_name).collect()
    }

    pub(crate) fn names(self) -> Vec<&'static str> {
        let mut names = Vec::new();
        let mut rest = self;
        for (types, name) in Self::NAMES {
            // A fraction alone has no name; the smallest named set is the set of numbers.
            let is_there = rest.contains(types) || (types == Self::NUMBER && rest.0 & 8 != 0);
            if is_there {
                names.push(name);
                rest = rest.without(types);
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_types_names_numbers_once() {
        assert_eq!(Types::NUMBER.or(Types::NULL).names(), ["number", "null"]);
        assert_eq!(Types::NUMBER.and(Types::INTEGER).names(), ["integer"]);
        assert_eq!(Types::of_value(&Value::from(1.5)).names(), ["number"]);
        assert_eq!(Types::of_value(&Value::from(3.0)).names(), ["integer"]);
        assert_eq!(Types::ALL.each().len(), 6);
    }

    #[test]
    fn types_are_known_by_the_names_that_servers_use() {
        for (name, types) in
            [("Object", Types::OBJECT), ("STRING", Types::STRING), ("int", Types::INTEGER)]
        {
            assert_eq!(Types::of_name(name), Some(types), "{name}");
        }
        assert_eq!(Types::of_name("file"), None);
    }
}
