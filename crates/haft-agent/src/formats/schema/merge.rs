//! Two schemas as one: what fits both (`allOf`), and what fits any of several objects (alternatives at the root, which no
//! provider takes).

use std::collections::HashSet;

use indexmap::IndexMap;
use serde_json::Value;

use super::{Additional, Node, Types, Union};
use crate::formats::losses::Losses;

/// With so many others of the same name a property is compared.
const MOST_COMPARED: usize = 64;

/// What fits both. The words of the second win. Where the two contradict, or say what one schema cannot hold, the second
/// is kept apart. `is_looser` is set when the result takes more than both together did.
pub(crate) fn intersect(mut one: Node, other: Node, is_looser: &mut bool) -> Node {
    if one == Node::default() {
        return other;
    }
    if clash(&one, &other) {
        let (title, description, default) =
            (other.title.clone(), other.description.clone(), other.default.clone());
        one.parts.push(other.without_words());
        one.title = title.or(one.title);
        one.description = description.or(one.description);
        one.default = default.or(one.default);
        return one;
    }
    one.additional = both_additional(&one, &other, is_looser);
    one.title = other.title.or(one.title);
    one.description = other.description.or(one.description);
    one.default = other.default.or(one.default);
    one.remarks.extend(other.remarks);
    one.types = both(one.types, other.types, Types::and);
    one.values = both(one.values, other.values, |one, other| shared(&one, &other));
    for (name, node) in other.properties {
        match one.properties.get_mut(&name) {
            Some(known) => *known = intersect(std::mem::take(known), node, is_looser),
            None => drop(one.properties.insert(name, node)),
        }
    }
    let known: HashSet<String> = one.required.iter().cloned().collect();
    one.required.extend(other.required.into_iter().filter(|name| !known.contains(name)));
    one.items =
        both(one.items, other.items, |one, other| Box::new(intersect(*one, *other, is_looser)));
    one.prefix.extend(other.prefix);
    one.unions.extend(other.unions);
    one.parts.extend(other.parts);
    for (keyword, value) in other.limits {
        let tighter =
            one.limits.get(&keyword).is_none_or(|known| is_tighter(&keyword, &value, known));
        if tighter {
            one.limits.insert(keyword, value);
        }
    }
    one.further.extend(other.further);
    one
}

fn both<T>(one: Option<T>, other: Option<T>, merge: impl FnOnce(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(merge(one, other)),
        (one, other) => one.or(other),
    }
}

/// The values in both lists. By text: some lists are too long to compare each with each.
fn shared(one: &[Value], other: &[Value]) -> Vec<Value> {
    let other: HashSet<String> = other.iter().map(Value::to_string).collect();
    one.iter().filter(|value| other.contains(&value.to_string())).cloned().collect()
}

/// Whether no value can fit both, as far as types and lists of values tell.
pub(crate) fn are_disjoint(one: &Node, other: &Node) -> bool {
    let no_type = matches!((one.types, other.types), (Some(a), Some(b)) if a.and(b).is_empty());
    let no_value =
        matches!((&one.values, &other.values), (Some(a), Some(b)) if shared(a, b).is_empty());
    let all_mistyped = |types, values| n_mistyped(types, values).is_some_and(|(n, all)| n == all);
    no_type
        || no_value
        || all_mistyped(one.types, &other.values)
        || all_mistyped(other.types, &one.values)
}

/// How many of the values are of another type, and how many there are.
fn n_mistyped(types: Option<Types>, values: &Option<Vec<Value>>) -> Option<(usize, usize)> {
    let (types, values) = (types?, values.as_ref()?);
    let is_other = |value: &&Value| types.and(Types::of_value(value)).is_empty();
    Some((values.iter().filter(is_other).count(), values.len()))
}

/// Whether the two cannot become one schema.
fn clash(one: &Node, other: &Node) -> bool {
    let some_mistyped = |types, values| n_mistyped(types, values).is_some_and(|(n, _)| n > 0);
    let texts = ["pattern", "format", "multipleOf", "contentEncoding", "contentMediaType"];
    let two_texts = texts.iter().any(|keyword| {
        let (a, b) = (one.limits.get(*keyword), other.limits.get(*keyword));
        matches!((a, b), (Some(a), Some(b)) if a != b)
    });
    let has_list = |node: &Node| node.items.is_some() || !node.prefix.is_empty();
    let has_tuple = !one.prefix.is_empty() || !other.prefix.is_empty();
    are_disjoint(one, other)
        || some_mistyped(one.types, &other.values)
        || some_mistyped(other.types, &one.values)
        || two_texts
        || (has_list(one) && has_list(other) && has_tuple)
        || other.further.keys().any(|keyword| one.further.contains_key(keyword))
}

fn both_additional(one: &Node, other: &Node, is_looser: &mut bool) -> Additional {
    let adds = |from: &Node, to: &Node| {
        from.properties.keys().any(|name| !to.properties.contains_key(name))
    };
    match (&one.additional, &other.additional) {
        (Additional::Closed, theirs) => {
            *is_looser |= adds(other, one) || (*theirs == Additional::Closed && adds(one, other));
            Additional::Closed
        }
        (_, Additional::Closed) => {
            *is_looser |= adds(one, other);
            Additional::Closed
        }
        (Additional::Like(like), theirs) => {
            *is_looser |= adds(other, one) || matches!(theirs, Additional::Like(_));
            Additional::Like(like.clone())
        }
        (ours, Additional::Unsaid) => ours.clone(),
        (_, theirs) => {
            *is_looser |= matches!(theirs, Additional::Like(_)) && adds(one, other);
            theirs.clone()
        }
    }
}

fn is_tighter(keyword: &str, new: &Value, known: &Value) -> bool {
    let (Some(new), Some(known)) = (new.as_f64(), known.as_f64()) else { return false };
    if keyword.starts_with("min") || keyword == "exclusiveMinimum" {
        new > known
    } else {
        new < known
    }
}

/// The root of a tool's input as one object, which is all that providers take: alternatives are united, and what
/// speaks of other types is dropped, because a call's arguments are an object.
///
/// # Errors
/// When no object can fit; in words that follow the tool's name.
pub(crate) fn as_object(mut node: Node, losses: &mut Losses) -> Result<Node, String> {
    if node.is_nothing() {
        return Err("its schema lets nothing fit".to_owned());
    }
    if let Some(types) = node.types.filter(|types| !types.contains(Types::OBJECT)) {
        return Err(format!("its schema is for {}, not for an object", types.names().join(" or ")));
    }
    node.types = Some(Types::OBJECT);
    if node.values.take().is_some() {
        losses.tell("the list of whole inputs (`enum` at the root) is left out", &[]);
    }
    if !std::mem::take(&mut node.parts).is_empty() {
        losses.tell("a part of the root's `allOf` that contradicts another is left out", &[]);
    }
    for union in std::mem::take(&mut node.unions) {
        let united = united(union, losses)?;
        let mut is_looser = false;
        node = intersect(united, node, &mut is_looser);
        // Only what stands apart for good could not be merged.
        if !std::mem::take(&mut node.parts).is_empty() {
            losses.tell("alternatives at the root that contradict the rest are left out", &[]);
        }
    }
    Ok(node)
}

fn united(union: Union, losses: &mut Losses) -> Result<Node, String> {
    let n_variants = union.variants.len();
    let mut objects = Vec::new();
    for variant in union.variants {
        let is_null = variant.is_null();
        match as_object(variant, losses) {
            Ok(object) => objects.push(object),
            Err(_) if is_null => {}
            Err(_) => losses.tell("an alternative at the root that is no object is left out", &[]),
        }
    }
    if objects.is_empty() {
        return Err("none of its alternatives is an object".to_owned());
    }
    if objects.len() > 1 {
        let what = format!(
            "its {n_variants} alternatives are merged into one object: which fields belong together is not said"
        );
        losses.tell(what, &[]);
    }
    Ok(unite(objects))
}

/// One object that takes what any of these takes. A property that only some have counts as theirs: what the others
/// would let stand there in its place is nothing that anybody means.
fn unite(objects: Vec<Node>) -> Node {
    let mut objects = objects.into_iter();
    let Some(mut whole) = objects.next() else { return Node::default() };
    let first = std::mem::take(&mut whole.properties);
    let mut properties: IndexMap<String, Vec<Node>> =
        first.into_iter().map(|(name, node)| (name, vec![node])).collect();
    for object in objects {
        for (name, node) in object.properties {
            let known = properties.entry(name).or_default();
            // Equal ones are rare among many different ones, so the search for them may end early.
            if !known.iter().take(MOST_COMPARED).any(|known| *known == node) {
                known.push(node);
            }
        }
        let required: HashSet<String> = object.required.into_iter().collect();
        whole.required.retain(|name| required.contains(name));
        if whole.additional != object.additional {
            whole.additional = Additional::Unsaid;
        }
        whole.limits.retain(|keyword, value| object.limits.get(keyword) == Some(value));
        whole.further.retain(|keyword, value| object.further.get(keyword) == Some(value));
        if whole.description != object.description {
            whole.description = None;
        }
        if whole.title != object.title {
            whole.title = None;
        }
    }
    whole.default = None;
    whole.properties = properties.into_iter().map(|(name, nodes)| (name, either(nodes))).collect();
    whole
}

/// What fits any of these. Lists of values become one list, which is how the tags of alternatives are best read.
fn either(mut nodes: Vec<Node>) -> Node {
    if nodes.len() == 1
        && let Some(only) = nodes.pop()
    {
        return only;
    }
    let words = nodes.iter().find_map(|node| node.description.clone());
    if !nodes.iter().all(Node::is_literal) {
        let union = Union { is_exclusive: false, variants: nodes };
        return Node { unions: vec![union], ..Node::default() };
    }
    let mut seen = HashSet::new();
    let values = nodes.into_iter().filter_map(|node| node.values).flatten();
    let values = values.filter(|value| seen.insert(value.to_string())).collect();
    Node { values: Some(values), description: words, ..Node::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::formats::schema::read;

    fn object(schema: Value) -> (Result<Node, String>, Vec<String>) {
        let mut losses = Losses::default();
        let node = read(&schema, &mut losses).and_then(|node| as_object(node, &mut losses));
        (node, losses.into_notes())
    }

    #[track_caller]
    fn check(schema: Value, expected: Value) {
        let (node, _) = object(schema);
        let mut losses = Losses::default();
        assert_eq!(node, Ok(read(&expected, &mut losses).expect("it is small")));
    }

    #[test]
    fn alternatives_at_the_root_become_one_object() {
        check(
            json!({"oneOf": [
                {"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "string"}}, "required": ["kind", "x"]},
                {"type": "object", "properties": {"kind": {"const": "b"}, "y": {"type": "number"}, "x": {"type": "integer"}}, "required": ["kind"]}]}),
            json!({"type": "object", "properties": {
                "kind": {"enum": ["a", "b"]}, "x": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "y": {"type": "number"}},
                "required": ["kind"]}),
        );
    }

    #[test]
    fn alternatives_that_only_require_leave_the_properties_as_they_are() {
        check(
            json!({"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            json!({"type": "object", "properties": {"a": {}, "b": {}}}),
        );
    }

    #[test]
    fn what_is_closed_in_every_alternative_stays_closed() {
        let closed = |name: &str| json!({"type": "object", "properties": {name: {}}, "additionalProperties": false});
        check(
            json!({"anyOf": [closed("a"), closed("b")]}),
            json!({"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": false}),
        );
        check(
            json!({"anyOf": [closed("a"), {"properties": {"b": {}}}]}),
            json!({"type": "object", "properties": {"a": {}, "b": {}}}),
        );
    }

    #[test]
    fn a_root_that_is_no_object_is_refused_with_the_reason() {
        for (schema, reason) in [
            (json!({"type": "string"}), "is for string, not for an object"),
            (json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), "none of its alternatives"),
            (json!(false), "lets nothing fit"),
        ] {
            let (refused, _) = object(schema);
            assert!(refused.as_ref().is_err_and(|told| told.contains(reason)), "{refused:?}");
        }
        let (node, notes) =
            object(json!({"anyOf": [{"type": "object"}, {"type": "null"}, {"type": "string"}]}));
        assert_eq!(node, Ok(Node::of(Types::OBJECT)));
        assert_eq!(notes, ["an alternative at the root that is no object is left out"]);
    }

    #[test]
    fn merging_tells_what_belonged_together() {
        let (_, notes) =
            object(json!({"oneOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}));
        assert!(notes[0].contains("2 alternatives are merged"), "{notes:?}");
    }
}
