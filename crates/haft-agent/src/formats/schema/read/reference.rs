//! `$ref`: resolving it, and when to stop following it.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{SchemaNode, SchemaReader, outline};
use crate::formats::losses::shown_name;

/// Maximum number of nested references.
const MAX_FOLLOWED: usize = 48;

impl<'a> SchemaReader<'a, '_> {
    /// Reads the target of a schema's `$ref`, if it has one.
    pub(super) fn referenced(
        &mut self,
        object: &'a Map<String, Value>,
    ) -> Result<Option<SchemaNode>, String> {
        for unknown in ["$dynamicRef", "$recursiveRef"] {
            if object.contains_key(unknown) {
                self.note_loss(format!("`{unknown}` is left out"));
            }
        }
        let text = match object.get("$ref") {
            None => return Ok(None),
            Some(Value::String(text)) => text,
            Some(_) => {
                self.note_loss("`$ref` is not a string and is left out");
                return Ok(None);
            }
        };
        let Some(target) = self.target(text)? else {
            let text = shown_name(text);
            self.note_loss(format!("the `$ref` {text} cannot be resolved and accepts anything"));
            return Ok(None);
        };
        // Nested references in parts: reasonable schemas do not go this deep.
        if self.is_followed(target) || self.following.len() > MAX_FOLLOWED {
            self.note_loss(format!(
                "the recursive `$ref` {} is not followed further",
                shown_name(text)
            ));
            return Ok(target.as_object().map(outline));
        }
        self.follow(target).map(Some)
    }

    /// Reads the target of a reference, which does not count as a level.
    fn follow(&mut self, target: &'a Value) -> Result<SchemaNode, String> {
        self.following.push(target);
        self.n_levels -= 1;
        let node = self.schema(target);
        self.n_levels += 1;
        self.following.pop();
        node
    }

    /// Compares addresses, not texts, because a cycle can be written in several ways.
    fn is_followed(&self, target: &Value) -> bool {
        self.following.iter().any(|followed| std::ptr::eq(*followed, target))
    }

    /// Follows a chain of plain references, so that its length costs neither levels nor stack. A
    /// chain that returns to itself cannot be resolved.
    fn target(&mut self, text: &str) -> Result<Option<&'a Value>, String> {
        let mut target = self.resolve(text);
        let mut passed: HashSet<*const Value> = HashSet::new();
        while let (Some(here), Some(next)) = (target, target.and_then(only_reference)) {
            if self.is_followed(here) {
                break;
            }
            if !passed.insert(std::ptr::from_ref(here)) {
                return Ok(None);
            }
            self.step()?;
            target = self.resolve(next);
        }
        Ok(target)
    }

    fn resolve(&self, text: &str) -> Option<&'a Value> {
        let (document, fragment) = text.split_once('#').unwrap_or((text, ""));
        let id = self.root.get("$id").or_else(|| self.root.get("id")).and_then(Value::as_str);
        let is_here =
            document.is_empty() || id.is_some_and(|id| id.trim_end_matches('#') == document);
        if !is_here {
            return None;
        }
        let fragment = percent_decoded(fragment)?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return self.root.pointer(&fragment);
        }
        self.anchors.get_or_init(|| anchors(self.root)).get(fragment.as_str()).copied()
    }
}

/// Returns the text of a schema that is only a reference.
fn only_reference(schema: &Value) -> Option<&str> {
    let object = schema.as_object()?;
    if object.len() == 1 { object.get("$ref")?.as_str() } else { None }
}

/// Collects the parts with an `$anchor` (or `$id: "#name"` in old drafts), without recursion.
fn anchors(root: &Value) -> HashMap<&str, &Value> {
    let mut anchors = HashMap::new();
    let mut open = vec![root];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(object) => {
                let text = |key: &str| object.get(key).and_then(Value::as_str);
                let old =
                    ["$id", "id"].into_iter().filter_map(text).find_map(|id| id.strip_prefix('#'));
                if let Some(name) = text("$anchor").or(old) {
                    anchors.insert(name, value);
                }
                open.extend(object.values());
            }
            _ => {}
        }
    }
    anchors
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        let code = digit(rest.next())? * 16 + digit(rest.next())?;
        bytes.push(u8::try_from(code).ok()?);
    }
    String::from_utf8(bytes).ok()
}
