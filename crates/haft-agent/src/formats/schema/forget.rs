//! Lets go of the keywords that speak of properties by patterns, where properties have to be renamed.

use super::{Additional, Further, Node};

impl Node {
    /// Drops `propertyNames` and `patternProperties` everywhere, and says whether there were any. What can only be right
    /// as a whole (`not`, `if`, `contains`) goes with them.
    pub(crate) fn forget_name_patterns(&mut self) -> bool {
        let had_names = self.further.shift_remove("propertyNames").is_some();
        let had_patterns = self.further.shift_remove("patternProperties").is_some();
        if had_patterns {
            // What the patterns let in must not be shut out now.
            self.additional = Additional::Unsaid;
        }
        let mut is_changed = had_names || had_patterns;
        for keyword in ["not", "if", "contains"] {
            let Some(Further::Schema(inner)) = self.further.get_mut(keyword) else { continue };
            if inner.forget_name_patterns() {
                self.further.shift_remove(keyword);
                is_changed = true;
            }
        }
        if !self.further.contains_key("if") {
            self.further.retain(|keyword, _| keyword != "then" && keyword != "else");
        }
        for union in &mut self.unions {
            let is_looser = forget_in(union.variants.iter_mut());
            union.is_exclusive &= !is_looser;
            is_changed |= is_looser;
        }
        is_changed |= self.forget_in_parts();
        if is_changed {
            // It goes by what the rest has looked at, which is less now.
            self.further.shift_remove("unevaluatedProperties");
        }
        is_changed
    }

    fn forget_in_parts(&mut self) -> bool {
        let mut is_changed = forget_in(self.properties.values_mut());
        is_changed |= forget_in(self.prefix.iter_mut().chain(self.items.as_deref_mut()));
        is_changed |= forget_in(self.parts.iter_mut());
        if let Additional::Like(like) = &mut self.additional {
            is_changed |= like.forget_name_patterns();
        }
        for further in self.further.values_mut() {
            is_changed |= match further {
                Further::Plain(_) => false,
                Further::Schema(inner) => inner.forget_name_patterns(),
                Further::Schemas(inner) => forget_in(inner.values_mut()),
            };
        }
        is_changed
    }
}

fn forget_in<'a>(nodes: impl Iterator<Item = &'a mut Node>) -> bool {
    nodes.fold(false, |is_changed, node| node.forget_name_patterns() | is_changed)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::formats::{losses::Losses, schema::read};

    #[track_caller]
    fn check(schema: Value, expected: Value) {
        let node = |schema: &Value| read(schema, &mut Losses::default()).expect("it is small");
        let mut forgetful = node(&schema);
        let is_changed = forgetful.forget_name_patterns();
        assert_eq!(forgetful, node(&expected));
        assert_eq!(is_changed, schema != expected);
    }

    #[test]
    fn what_goes_by_names_goes_and_nothing_becomes_stricter_by_it() {
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
