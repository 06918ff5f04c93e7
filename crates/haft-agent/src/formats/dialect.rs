//! The JSON Schema dialects of the providers, each written from the same tree. Parts that a dialect
//! cannot express are moved to the description for the model, and reported.

pub(crate) mod gemini;
pub(crate) mod liberal;
pub(crate) mod strict;

use serde_json::{Map, Value};

use super::{
    losses::{Losses, path_text, shown_name},
    names::PropertyNames,
    schema::{
        Additional, RareKeyword, SchemaNode, Types, Union, are_disjoint, intersect, too_large,
    },
};

/// Maximum number of nodes that a dialect writes: merging into alternatives multiplies them.
const MAX_WRITTEN: usize = 20_000;
/// Longer values are not repeated in descriptions.
const MAX_TEXT_BYTES: usize = 500;

/// State that every dialect's writer needs.
struct DialectWriter<'l> {
    losses: &'l mut Losses,
    path: Vec<String>,
    keys: PropertyNames,
    n_written: usize,
}

/// A schema for dialects without `allOf`, and without keywords beside alternatives.
enum UnionShape {
    /// Alternatives, at least two.
    Choice(Vec<SchemaNode>),
    /// No alternatives.
    One(Box<SchemaNode>),
}

impl<'l> DialectWriter<'l> {
    fn new(format: super::ModelFormat, losses: &'l mut Losses) -> Self {
        Self { losses, path: Vec::new(), keys: PropertyNames::new(format), n_written: 0 }
    }

    fn note_loss(&mut self, what: impl Into<String>) {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        self.losses.add(what, &path);
    }

    /// Returns the current path for error messages: `` `limit` ``, or the input as a whole.
    fn current_path(&self) -> String {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        match path_text(&path) {
            path if path.is_empty() => "the input".to_owned(),
            path => format!("`{path}`"),
        }
    }

    fn step(&mut self) -> Result<(), String> {
        self.n_written += 1;
        if self.n_written > MAX_WRITTEN { Err(too_large()) } else { Ok(()) }
    }

    /// Merges keywords beside alternatives into the alternatives, and drops keywords that the
    /// dialect does not have.
    fn shape(&mut self, node: &SchemaNode) -> Result<UnionShape, String> {
        self.step()?;
        let mut base = SchemaNode { unions: Vec::new(), parts: Vec::new(), ..node.clone() };
        if !node.parts.is_empty() {
            self.note_loss("a part of an `allOf` that cannot be merged is left out");
        }
        self.drop_rare(&mut base);
        let mut unions = node.unions.iter();
        let Some(union) = unions.next() else { return Ok(UnionShape::One(Box::new(base))) };
        if unions.next().is_some() {
            self.note_loss("of several lists of alternatives only the first is kept");
        }
        if union.is_exclusive && !union.variants.iter().any(SchemaNode::is_null) {
            self.note_loss("`oneOf` is sent as `anyOf`");
        }
        let base = base.without_annotations();
        if base.is_open() {
            return Ok(UnionShape::Choice(union.variants.clone()));
        }
        if base.node_count().saturating_mul(union.variants.len()) > MAX_WRITTEN {
            return Err(too_large());
        }
        let fitting = union.variants.iter().filter(|variant| !are_disjoint(&base, variant));
        let both = |variant: &SchemaNode| intersect(base.clone(), variant.clone(), &mut false);
        let mut variants: Vec<SchemaNode> = fitting.map(both).collect();
        Ok(match variants.pop() {
            None => UnionShape::One(Box::new(base)),
            Some(only) if variants.is_empty() => UnionShape::One(Box::new(only)),
            Some(last) => {
                variants.push(last);
                UnionShape::Choice(variants)
            }
        })
    }

    /// Drops rare keywords except `patternProperties`, which decides if an object is open.
    fn drop_rare(&mut self, node: &mut SchemaNode) {
        let is_closed = node.rare.shift_remove("unevaluatedProperties");
        if let Some(RareKeyword::Schema(inner)) = is_closed
            && inner.is_nothing()
            && node.additional == Additional::Unspecified
        {
            node.additional = Additional::Closed;
        }
        let keywords: Vec<String> = node.rare.keys().cloned().collect();
        for keyword in keywords.into_iter().filter(|keyword| keyword != "patternProperties") {
            node.rare.shift_remove(&keyword);
            // `then` and `else` go with `if`; a schema of decoded content is not enforced.
            if !["then", "else", "minContains", "maxContains", "contentSchema"]
                .contains(&keyword.as_str())
            {
                self.note_loss(format!("`{keyword}` is not supported and is left out"));
            }
        }
    }

    /// Returns the provider's name for a property.
    fn key(&mut self, name: &str) -> String {
        let key = self.keys.key(name);
        if key != name {
            self.note_loss(format!("the property `{}` is sent as `{key}`", shown_name(name)));
        }
        key
    }

    /// Returns `required` without names that are not properties.
    fn required(&mut self, node: &SchemaNode) -> Vec<String> {
        let (known, unknown): (Vec<&String>, Vec<&String>) =
            node.required.iter().partition(|name| node.properties.contains_key(*name));
        for name in unknown {
            let name = shown_name(name);
            self.note_loss(format!("`required` names `{name}`, which is not a property"));
        }
        known.into_iter().cloned().collect()
    }
}

/// Returns a schema that accepts any of these.
fn any_of(variants: Vec<SchemaNode>) -> SchemaNode {
    SchemaNode { unions: vec![Union { is_exclusive: false, variants }], ..SchemaNode::default() }
}

/// Returns the keywords that limit a value of this type.
fn limits_of(kind: Types) -> &'static [&'static str] {
    match kind {
        Types::STRING => {
            &["minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"]
        }
        Types::INTEGER | Types::NUMBER => {
            &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format"]
        }
        Types::ARRAY => &["minItems", "maxItems", "uniqueItems"],
        Types::OBJECT => &["minProperties", "maxProperties"],
        _ => &[],
    }
}

/// Adds the limits that the dialect knows to the schema. Returns the others as text.
fn put_limits(
    writer_state: &mut DialectWriter<'_>,
    node: &SchemaNode,
    kind: Types,
    is_known: impl Fn(&str, &Value) -> bool,
    schema: &mut Map<String, Value>,
) -> Vec<String> {
    let mut notes = Vec::new();
    for keyword in limits_of(kind) {
        let Some(value) = node.limits.get(*keyword) else { continue };
        if is_known(keyword, value) {
            schema.insert((*keyword).to_owned(), value.clone());
            continue;
        }
        // A format is not enforced unless both sides agree on it, so describing it loses nothing.
        if *keyword != "format" {
            writer_state.note_loss(format!("`{keyword}` is only in the description"));
        }
        notes.extend(limit_text(keyword, value));
    }
    notes
}

/// Returns `minLength: 3`, unless it is too long.
fn limit_text(keyword: &str, value: &Value) -> Option<String> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    (text.len() <= MAX_TEXT_BYTES).then(|| format!("{keyword}: {text}"))
}

/// Returns the description, or else the title, with additional text.
fn description(node: &SchemaNode, notes: &[String]) -> Option<String> {
    let declared = node
        .description
        .as_deref()
        .or(node.title.as_deref())
        .filter(|declared| !declared.is_empty());
    match (declared, notes.is_empty()) {
        (declared, true) => declared.map(str::to_owned),
        (None, false) => Some(notes.join(", ")),
        (Some(declared), false) => Some(format!("{declared} ({})", notes.join(", "))),
    }
}

/// Returns true if every engine supports a pattern: no lookaround, backreferences, word boundaries
/// or large counts. Strict modes compile patterns to grammars and refuse the whole request for a
/// pattern that they do not support.
fn is_plain_pattern(pattern: &str) -> bool {
    if pattern.len() > MAX_TEXT_BYTES || !pattern.is_ascii() {
        return false;
    }
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        let next = rest.peek().copied();
        match (c, next) {
            ('(', Some('?')) => return false,
            ('\\', Some(escaped)) => {
                if escaped.is_ascii_digit() || "bBAzZkpPGQEuxc".contains(escaped) {
                    return false;
                }
                rest.next();
            }
            ('\\', None) => return false,
            ('{', Some(digit)) if digit.is_ascii_digit() => {
                let count: String = rest.by_ref().take_while(|c| *c != '}').collect();
                let is_small = |n: &str| n.is_empty() || n.parse::<u32>().is_ok_and(|n| n <= 100);
                if !count.split(',').all(is_small) {
                    return false;
                }
            }
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_plain_when_every_engine_supports_them() {
        for plain in ["^[a-z]+$", r"^\d{3}-\d{1,4}$", "a|b", r"\.\w*", "^x{2,}$"] {
            assert!(is_plain_pattern(plain), "{plain}");
        }
        for other in
            ["(?=x)", "(?:x)", r"(a)\1", r"\bword", r"\p{L}", "a{1000}", "é", "\\", r"\u{61}"]
        {
            assert!(!is_plain_pattern(other), "{other}");
        }
    }

    #[test]
    fn additional_text_follows_the_description() {
        let said = |description: Option<&str>, notes: &[&str]| {
            let node =
                SchemaNode { description: description.map(str::to_owned), ..SchemaNode::default() };
            let notes: Vec<String> = notes.iter().map(|word| (*word).to_owned()).collect();
            super::description(&node, &notes)
        };
        assert_eq!(
            said(Some("A name."), &["minLength: 1"]).as_deref(),
            Some("A name. (minLength: 1)")
        );
        assert_eq!(said(None, &["a: 1", "b: 2"]).as_deref(), Some("a: 1, b: 2"));
        assert_eq!(said(None, &[]), None);
    }
}
