//! Removes keywords that match property names by patterns, for dialects that rename properties.

use super::{Additional, RareKeyword, SchemaNode};

impl SchemaNode {
    /// Removes `propertyNames` and `patternProperties` everywhere, and returns true if there were
    /// any. Also removes keywords that are only right as a whole (`not`, `if`, `contains`).
    pub(crate) fn remove_name_patterns(&mut self) -> bool {
        let had_names = self.rare.shift_remove("propertyNames").is_some();
        let had_patterns = self.rare.shift_remove("patternProperties").is_some();
        if had_patterns {
            // Properties that the patterns allowed must stay allowed.
            self.additional = Additional::Unspecified;
        }
        let mut is_changed = had_names || had_patterns;
        for keyword in ["not", "if", "contains"] {
            let Some(RareKeyword::Schema(inner)) = self.rare.get_mut(keyword) else { continue };
            if inner.remove_name_patterns() {
                self.rare.shift_remove(keyword);
                is_changed = true;
            }
        }
        if !self.rare.contains_key("if") {
            self.rare.retain(|keyword, _| keyword != "then" && keyword != "else");
        }
        for union in &mut self.unions {
            let is_looser = remove_in(union.variants.iter_mut());
            union.is_exclusive &= !is_looser;
            is_changed |= is_looser;
        }
        is_changed |= self.remove_in_parts();
        if is_changed {
            // It depends on the properties that the rest evaluated, which are fewer now.
            self.rare.shift_remove("unevaluatedProperties");
        }
        is_changed
    }

    fn remove_in_parts(&mut self) -> bool {
        let mut is_changed = remove_in(self.properties.values_mut());
        is_changed |= remove_in(self.prefix.iter_mut().chain(self.items.as_deref_mut()));
        is_changed |= remove_in(self.parts.iter_mut());
        if let Additional::Like(like) = &mut self.additional {
            is_changed |= like.remove_name_patterns();
        }
        for rare in self.rare.values_mut() {
            is_changed |= match rare {
                RareKeyword::Plain(_) => false,
                RareKeyword::Schema(inner) => inner.remove_name_patterns(),
                RareKeyword::Schemas(inner) => remove_in(inner.values_mut()),
            };
        }
        is_changed
    }
}

fn remove_in<'a>(nodes: impl Iterator<Item = &'a mut SchemaNode>) -> bool {
    nodes.fold(false, |is_changed, node| node.remove_name_patterns() | is_changed)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::formats::{losses::Losses, schema::read};

    #[track_caller]
    fn check(schema: Value, expected: Value) {
        let node = |schema: &Value| read(schema, &mut Losses::default()).expect("it is small");
        let mut forgetful = node(&schema);
        let is_changed = forgetful.remove_name_patterns();
        assert_eq!(forgetful, node(&expected));
        assert_eq!(is_changed, schema != expected);
    }

    #[test]
    fn name_patterns_are_removed_and_nothing_becomes_stricter() {
        let names = json!({"propertyNames": {"maxLength": 3}});
        check(
            json!({"oneOf": [names, {"type": "null"}]}),
            json!({"anyOf": [{}, {"type": "null"}]}),
        );
        check(json!({"not": names, "type": "object"}), json!({"type": "object"}));
        check(json!({"if": names, "then": {"minLength": 1}}), json!({}));
        check(json!({"patternProperties": {"^x": {}}, "additionalProperties": false}), json!({}));
        check(
            json!({"anyOf": [{"patternProperties": {"^x": {}}}, {}], "unevaluatedProperties": false}),
            json!({"anyOf": [{}, {}]}),
        );
        check(
            json!({"properties": {"a": {"items": names}}}),
            json!({"properties": {"a": {"items": {}}}}),
        );
        check(
            json!({"oneOf": [{"type": "string"}, {"type": "null"}], "not": {"const": 1}}),
            json!({"oneOf": [{"type": "string"}, {"type": "null"}], "not": {"const": 1}}),
        );
    }
}
