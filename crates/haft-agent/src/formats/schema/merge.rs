//! Merges schemas: the parts of an `allOf` into one schema, and the alternatives at the root into
//! one object, because providers refuse alternatives there.

use std::collections::HashSet;

use indexmap::IndexMap;
use serde_json::Value;

use super::{Additional, SchemaNode, Types, Union};
use crate::formats::losses::Losses;

/// Maximum number of equal-named properties that a property is compared with.
const MAX_COMPARED: usize = 64;

/// Returns a schema for values that fit both. Annotations of the second take precedence. If the two
/// contradict, or cannot be expressed as one schema, the second is kept as a part. `is_looser` is
/// set if the result accepts more than both together.
pub(crate) fn intersect(
    mut one: SchemaNode,
    other: SchemaNode,
    is_looser: &mut bool,
) -> SchemaNode {
    if one == SchemaNode::default() {
        return other;
    }
    if clash(&one, &other) {
        let (title, description, default) =
            (other.title.clone(), other.description.clone(), other.default.clone());
        one.parts.push(other.without_annotations());
        one.title = title.or(one.title);
        one.description = description.or(one.description);
        one.default = default.or(one.default);
        return one;
    }
    one.additional = both_additional(&one, &other, is_looser);
    one.title = other.title.or(one.title);
    one.description = other.description.or(one.description);
    one.default = other.default.or(one.default);
    one.annotations.extend(other.annotations);
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
    one.rare.extend(other.rare);
    one
}

fn both<T>(one: Option<T>, other: Option<T>, merge: impl FnOnce(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(merge(one, other)),
        (one, other) => one.or(other),
    }
}

/// Returns the values in both lists. Compares their text, because some lists are too long to
/// compare all pairs.
fn shared(one: &[Value], other: &[Value]) -> Vec<Value> {
    let other: HashSet<String> = other.iter().map(Value::to_string).collect();
    one.iter().filter(|value| other.contains(&value.to_string())).cloned().collect()
}

/// Returns true if no value can fit both, according to types and lists of values.
pub(crate) fn are_disjoint(one: &SchemaNode, other: &SchemaNode) -> bool {
    let no_type = matches!((one.types, other.types), (Some(a), Some(b)) if a.and(b).is_empty());
    let no_value =
        matches!((&one.values, &other.values), (Some(a), Some(b)) if shared(a, b).is_empty());
    let all_mistyped = |types, values| n_mistyped(types, values).is_some_and(|(n, all)| n == all);
    no_type
        || no_value
        || all_mistyped(one.types, &other.values)
        || all_mistyped(other.types, &one.values)
}

/// Returns the number of values with another type, and the number of all values.
fn n_mistyped(types: Option<Types>, values: &Option<Vec<Value>>) -> Option<(usize, usize)> {
    let (types, values) = (types?, values.as_ref()?);
    let is_other = |value: &&Value| types.and(Types::of_value(value)).is_empty();
    Some((values.iter().filter(is_other).count(), values.len()))
}

/// Returns true if the two cannot become one schema.
fn clash(one: &SchemaNode, other: &SchemaNode) -> bool {
    let some_mistyped = |types, values| n_mistyped(types, values).is_some_and(|(n, _)| n > 0);
    let texts = ["pattern", "format", "multipleOf", "contentEncoding", "contentMediaType"];
    let two_texts = texts.iter().any(|keyword| {
        let (a, b) = (one.limits.get(*keyword), other.limits.get(*keyword));
        matches!((a, b), (Some(a), Some(b)) if a != b)
    });
    let has_list = |node: &SchemaNode| node.items.is_some() || !node.prefix.is_empty();
    let has_tuple = !one.prefix.is_empty() || !other.prefix.is_empty();
    are_disjoint(one, other)
        || some_mistyped(one.types, &other.values)
        || some_mistyped(other.types, &one.values)
        || two_texts
        || (has_list(one) && has_list(other) && has_tuple)
        || other.rare.keys().any(|keyword| one.rare.contains_key(keyword))
}

fn both_additional(one: &SchemaNode, other: &SchemaNode, is_looser: &mut bool) -> Additional {
    let adds = |from: &SchemaNode, to: &SchemaNode| {
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
        (ours, Additional::Unspecified) => ours.clone(),
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

/// Returns the root of a tool's input as one object, as providers require it. Alternatives are
/// merged, and keywords for other types are dropped, because a call's arguments are an object.
///
/// # Errors
/// When no object can fit. The text completes a sentence that starts with the tool's name.
pub(crate) fn as_object(mut node: SchemaNode, losses: &mut Losses) -> Result<SchemaNode, String> {
    if node.is_nothing() {
        return Err("no value fits its schema".to_owned());
    }
    if let Some(types) = node.types.filter(|types| !types.contains(Types::OBJECT)) {
        return Err(format!("its schema is for {}, not for an object", types.names().join(" or ")));
    }
    node.types = Some(Types::OBJECT);
    if node.values.take().is_some() {
        losses.add("the list of whole inputs (`enum` at the root) is left out", &[]);
    }
    if !std::mem::take(&mut node.parts).is_empty() {
        losses.add("a part of the root's `allOf` that contradicts another is left out", &[]);
    }
    for union in std::mem::take(&mut node.unions) {
        let united = united(union, losses)?;
        let mut is_looser = false;
        node = intersect(united, node, &mut is_looser);
        // Only parts that contradict the rest remain.
        if !std::mem::take(&mut node.parts).is_empty() {
            losses.add("alternatives at the root that contradict the rest are left out", &[]);
        }
    }
    Ok(node)
}

fn united(union: Union, losses: &mut Losses) -> Result<SchemaNode, String> {
    let n_variants = union.variants.len();
    let mut objects = Vec::new();
    for variant in union.variants {
        let is_null = variant.is_null();
        match as_object(variant, losses) {
            Ok(object) => objects.push(object),
            Err(_) if is_null => {}
            Err(_) => {
                losses.add("an alternative at the root that is not an object is left out", &[])
            }
        }
    }
    if objects.is_empty() {
        return Err("none of its alternatives is an object".to_owned());
    }
    if objects.len() > 1 {
        let what = format!(
            "its {n_variants} alternatives are merged into one object, which does not show which fields belong together"
        );
        losses.add(what, &[]);
    }
    Ok(unite(objects))
}

/// Merges objects into one that accepts values of any of them. A property that only some declare
/// keeps their schema, although the others would allow any value for it.
fn unite(objects: Vec<SchemaNode>) -> SchemaNode {
    let mut objects = objects.into_iter();
    let Some(mut whole) = objects.next() else { return SchemaNode::default() };
    let first = std::mem::take(&mut whole.properties);
    let mut properties: IndexMap<String, Vec<SchemaNode>> =
        first.into_iter().map(|(name, node)| (name, vec![node])).collect();
    for object in objects {
        for (name, node) in object.properties {
            let known = properties.entry(name).or_default();
            // Equal schemas are rare among many different ones, so the comparison may stop early.
            if !known.iter().take(MAX_COMPARED).any(|known| *known == node) {
                known.push(node);
            }
        }
        let required: HashSet<String> = object.required.into_iter().collect();
        whole.required.retain(|name| required.contains(name));
        if whole.additional != object.additional {
            whole.additional = Additional::Unspecified;
        }
        whole.limits.retain(|keyword, value| object.limits.get(keyword) == Some(value));
        whole.rare.retain(|keyword, value| object.rare.get(keyword) == Some(value));
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

/// Returns a schema that accepts any of these. Lists of values become one list, which describes the
/// tags of alternatives best.
fn either(mut nodes: Vec<SchemaNode>) -> SchemaNode {
    if nodes.len() == 1
        && let Some(only) = nodes.pop()
    {
        return only;
    }
    let words = nodes.iter().find_map(|node| node.description.clone());
    if !nodes.iter().all(SchemaNode::is_literal) {
        let union = Union { is_exclusive: false, variants: nodes };
        return SchemaNode { unions: vec![union], ..SchemaNode::default() };
    }
    let mut seen = HashSet::new();
    let values = nodes.into_iter().filter_map(|node| node.values).flatten();
    let values = values.filter(|value| seen.insert(value.to_string())).collect();
    SchemaNode { values: Some(values), description: words, ..SchemaNode::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::formats::schema::read;

    fn object(schema: Value) -> (Result<SchemaNode, String>, Vec<String>) {
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
    fn a_root_that_is_not_an_object_is_refused_with_the_reason() {
        for (schema, reason) in [
            (json!({"type": "string"}), "is for string, not for an object"),
            (json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), "none of its alternatives"),
            (json!(false), "no value fits"),
        ] {
            let (refused, _) = object(schema);
            assert!(
                refused.as_ref().is_err_and(|declared| declared.contains(reason)),
                "{refused:?}"
            );
        }
        let (node, notes) =
            object(json!({"anyOf": [{"type": "object"}, {"type": "null"}, {"type": "string"}]}));
        assert_eq!(node, Ok(SchemaNode::of(Types::OBJECT)));
        assert_eq!(notes, ["an alternative at the root that is not an object is left out"]);
    }

    #[test]
    fn merging_alternatives_is_reported() {
        let (_, notes) =
            object(json!({"oneOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}));
        assert!(notes[0].contains("2 alternatives are merged"), "{notes:?}");
    }
}
