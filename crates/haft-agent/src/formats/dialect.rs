//! The dialects of JSON Schema that providers take, each written from the same tree. What a dialect cannot say is put in
//! words where a model can use them, and told.

pub(crate) mod gemini;
pub(crate) mod liberal;
pub(crate) mod strict;

use serde_json::{Map, Value};

use super::{
    losses::{Losses, shown_name, shown_place},
    names::Keys,
    schema::{Additional, Further, Node, Types, Union, are_disjoint, intersect, too_large},
};

/// So many nodes a dialect may write: alternatives are multiplied out on the way.
const MOST_WRITTEN: usize = 20_000;
/// Longer values are not repeated in words.
const LONGEST_WORDS: usize = 500;

/// What every dialect is written with.
struct Page<'l> {
    losses: &'l mut Losses,
    place: Vec<String>,
    keys: Keys,
    n_written: usize,
}

/// A schema for dialects without `allOf`, and without anything beside alternatives.
enum Shape {
    /// Alternatives, at least two.
    Choice(Vec<Node>),
    /// No alternatives.
    One(Box<Node>),
}

impl<'l> Page<'l> {
    fn new(format: super::Format, losses: &'l mut Losses) -> Self {
        Self { losses, place: Vec::new(), keys: Keys::new(format), n_written: 0 }
    }

    fn tell(&mut self, what: impl Into<String>) {
        let place: Vec<&str> = self.place.iter().map(String::as_str).collect();
        self.losses.tell(what, &place);
    }

    /// The place in words, for reasons: `` `limit` ``, or the input as a whole.
    fn here(&self) -> String {
        let place: Vec<&str> = self.place.iter().map(String::as_str).collect();
        match shown_place(&place) {
            place if place.is_empty() => "the input".to_owned(),
            place => format!("`{place}`"),
        }
    }

    fn step(&mut self) -> Result<(), String> {
        self.n_written += 1;
        if self.n_written > MOST_WRITTEN { Err(too_large()) } else { Ok(()) }
    }

    /// Multiplies what stands beside alternatives into them, and lets go of what the dialect has no word for.
    fn shape(&mut self, node: &Node) -> Result<Shape, String> {
        self.step()?;
        let mut base = Node { unions: Vec::new(), parts: Vec::new(), ..node.clone() };
        if !node.parts.is_empty() {
            self.tell("a part of an `allOf` that cannot be merged is left out");
        }
        self.drop_further(&mut base);
        let mut unions = node.unions.iter();
        let Some(union) = unions.next() else { return Ok(Shape::One(Box::new(base))) };
        if unions.next().is_some() {
            self.tell("of several lists of alternatives only the first is kept");
        }
        if union.is_exclusive && !union.variants.iter().any(Node::is_null) {
            self.tell("`oneOf` is sent as `anyOf`");
        }
        let base = base.without_words();
        if base.is_open() {
            return Ok(Shape::Choice(union.variants.clone()));
        }
        if base.weight().saturating_mul(union.variants.len()) > MOST_WRITTEN {
            return Err(too_large());
        }
        let fitting = union.variants.iter().filter(|variant| !are_disjoint(&base, variant));
        let both = |variant: &Node| intersect(base.clone(), variant.clone(), &mut false);
        let mut variants: Vec<Node> = fitting.map(both).collect();
        Ok(match variants.pop() {
            None => Shape::One(Box::new(base)),
            Some(only) if variants.is_empty() => Shape::One(Box::new(only)),
            Some(last) => {
                variants.push(last);
                Shape::Choice(variants)
            }
        })
    }

    /// `patternProperties` stays: objects have to know that they are open.
    fn drop_further(&mut self, node: &mut Node) {
        let is_closed = node.further.shift_remove("unevaluatedProperties");
        if let Some(Further::Schema(inner)) = is_closed
            && inner.is_nothing()
            && node.additional == Additional::Unsaid
        {
            node.additional = Additional::Closed;
        }
        let keywords: Vec<String> = node.further.keys().cloned().collect();
        for keyword in keywords.into_iter().filter(|keyword| keyword != "patternProperties") {
            node.further.shift_remove(&keyword);
            // `then` and `else` go with `if`; a schema of decoded content binds nobody.
            if !["then", "else", "minContains", "maxContains", "contentSchema"]
                .contains(&keyword.as_str())
            {
                self.tell(format!("`{keyword}` cannot be said and is left out"));
            }
        }
    }

    /// The provider's name for a property.
    fn key(&mut self, name: &str) -> String {
        let key = self.keys.key(name);
        if key != name {
            self.tell(format!("the property `{}` is sent as `{key}`", shown_name(name)));
        }
        key
    }

    /// `required` without names that no property has.
    fn required(&mut self, node: &Node) -> Vec<String> {
        let (known, unknown): (Vec<&String>, Vec<&String>) =
            node.required.iter().partition(|name| node.properties.contains_key(*name));
        for name in unknown {
            let name = shown_name(name);
            self.tell(format!("`required` names `{name}`, which is no property"));
        }
        known.into_iter().cloned().collect()
    }
}

/// What fits any of these.
fn any_of(variants: Vec<Node>) -> Node {
    Node { unions: vec![Union { is_exclusive: false, variants }], ..Node::default() }
}

/// The keywords that bound a value of this type.
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

/// Puts the bounds of a type that the dialect knows into the schema, the others into words.
fn put_limits(
    page: &mut Page<'_>,
    node: &Node,
    kind: Types,
    is_known: impl Fn(&str, &Value) -> bool,
    schema: &mut Map<String, Value>,
) -> Vec<String> {
    let mut words = Vec::new();
    for keyword in limits_of(kind) {
        let Some(value) = node.limits.get(*keyword) else { continue };
        if is_known(keyword, value) {
            schema.insert((*keyword).to_owned(), value.clone());
            continue;
        }
        // A format binds nobody unless both sides agree on it, so nothing is lost when it is only said.
        if *keyword != "format" {
            page.tell(format!("`{keyword}` is said in words only"));
        }
        words.extend(worded(keyword, value));
    }
    words
}

/// `minLength: 3`, unless it is too long to be read.
fn worded(keyword: &str, value: &Value) -> Option<String> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    (text.len() <= LONGEST_WORDS).then(|| format!("{keyword}: {text}"))
}

/// The description, or the title in its place, with what else has to be said.
fn description(node: &Node, words: &[String]) -> Option<String> {
    let told =
        node.description.as_deref().or(node.title.as_deref()).filter(|told| !told.is_empty());
    match (told, words.is_empty()) {
        (told, true) => told.map(str::to_owned),
        (None, false) => Some(words.join(", ")),
        (Some(told), false) => Some(format!("{told} ({})", words.join(", "))),
    }
}

/// Whether a pattern is one that every engine reads: no looking around, no going back, no word borders, no large counts.
/// Strict modes compile patterns into grammars and refuse the whole request for one they cannot.
fn is_plain_pattern(pattern: &str) -> bool {
    if pattern.len() > LONGEST_WORDS || !pattern.is_ascii() {
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
    fn patterns_are_plain_when_every_engine_reads_them() {
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
    fn words_follow_the_description() {
        let said = |description: Option<&str>, words: &[&str]| {
            let node = Node { description: description.map(str::to_owned), ..Node::default() };
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            super::description(&node, &words)
        };
        assert_eq!(
            said(Some("A name."), &["minLength: 1"]).as_deref(),
            Some("A name. (minLength: 1)")
        );
        assert_eq!(said(None, &["a: 1", "b: 2"]).as_deref(), Some("a: 1, b: 2"));
        assert_eq!(said(None, &[]), None);
    }
}
