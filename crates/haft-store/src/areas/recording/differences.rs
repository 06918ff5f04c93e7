//! Compares two inputs and describes their differences.

use serde_json::{Map, Value};

/// Maximum number of characters shown of a value.
const MAX_SHOWN_CHARS: usize = 60;

/// Sorts members, so that equal objects give the same text.
pub(super) fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| name.as_str());
            let sorted = sorted.into_iter().map(|(name, value)| (name.clone(), canonical(value)));
            Value::Object(sorted.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(canonical).collect(),
        plain => plain.clone(),
    }
}

/// Returns true if a recorded input has everything that was asked for, and perhaps more.
pub(super) fn holds(recorded: &Value, asked: &Value) -> bool {
    match (recorded, asked) {
        (Value::Object(recorded), Value::Object(asked)) => {
            asked.iter().all(|(name, value)| recorded.get(name) == Some(value))
        }
        _ => recorded == asked,
    }
}

/// Describes the differences, member by member.
pub(super) fn differences(recorded: &Value, asked: &Value) -> Vec<String> {
    let (Value::Object(recorded), Value::Object(asked)) = (recorded, asked) else {
        return vec![format!("the input is {} instead of {}", shown(recorded), shown(asked))];
    };
    let mut found = Vec::new();
    for (name, value) in recorded {
        match asked.get(name) {
            Some(other) if canonical(other) == canonical(value) => {}
            Some(other) => {
                found.push(format!("`{name}` is {} instead of {}", shown(value), shown(other)));
            }
            None => found.push(format!("the recorded call also has `{name}`: {}", shown(value))),
        }
    }
    let missing = asked.iter().filter(|(name, _)| !recorded.contains_key(*name));
    found.extend(missing.map(|(name, value)| {
        format!("the recorded call has no `{name}`, which is {} here", shown(value))
    }));
    found
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    let mut shown: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(recorded: &Value, asked: &Value, expected: &[&str]) {
        assert_eq!(differences(recorded, asked), expected);
        let text = |value: &Value| canonical(value).to_string();
        assert_eq!(text(recorded) == text(asked), expected.is_empty());
    }

    #[test]
    fn members_are_compared_by_name() {
        check(
            &json!({"a": 1, "b": {"c": 2, "d": 3}}),
            &json!({"b": {"d": 3, "c": 2}, "a": 1}),
            &[],
        );
        check(&json!({"path": "a"}), &json!({"path": "b"}), &["`path` is \"a\" instead of \"b\""]);
        let (less, more) = (json!({}), json!({"n": 1}));
        check(&more, &less, &["the recorded call also has `n`: 1"]);
        check(&less, &more, &["the recorded call has no `n`, which is 1 here"]);
        check(&Value::Null, &more, &["the input is null instead of {\"n\":1}"]);
        check(&json!([1, 2]), &json!([2, 1]), &["the input is [1,2] instead of [2,1]"]);
    }

    #[test]
    fn a_completed_input_contains_the_asked_one() {
        assert!(holds(&json!({"a": 1, "b": 2}), &json!({"a": 1})));
        assert!(!holds(&json!({"a": 1}), &json!({"a": 1, "b": 2})));
        assert!(!holds(&json!({"a": 1}), &json!({"a": 2})));
    }

    proptest! {
        #[test]
        fn the_order_of_members_never_counts(
            members in proptest::collection::btree_map("[a-z]{1,3}", 0_i64..3, 0..6),
        ) {
            let one: Map<String, Value> = members.iter().map(|(k, v)| (k.clone(), (*v).into())).collect();
            let other: Map<String, Value> = members.iter().rev().map(|(k, v)| (k.clone(), (*v).into())).collect();
            check(&one.into(), &other.into(), &[]);
        }
    }
}
