//! Edits JSON with comments and trailing commas: sets or removes one member and keeps every other
//! byte. The meaning of the values does not matter here.

mod parse;

use std::ops::Range;

use serde_json::Value;

use self::parse::{JsonKind, JsonMember, JsonNode};
pub(super) use self::parse::{JsonTree, parse};
use super::text::{TextError, TextStyle, begins_line, indentation_at};

/// Returns the text with `name` set to `value` in the object at `path`. Missing objects on the path
/// are created.
pub(super) fn set(
    text: &str,
    path: &[&str],
    name: &str,
    value: &Value,
) -> Result<String, TextError> {
    let Some(root) = parse(text)? else { return Ok(below_comments(text, path, name, value)) };
    let style = TextStyle::of(text, root.first_indentation(text));
    let (object, missing) = root.descend(path)?;
    match (missing.split_first(), object.member(name)) {
        (None, Some(member)) => {
            let indentation = indentation_at(text, member.at);
            let rendered = if object.is_on_one_line(text) {
                inline(value)
            } else {
                pretty(value, indentation, &style)
            };
            Ok(spliced(text, [(member.value.span.clone(), rendered)]))
        }
        (None, None) => Ok(insert(text, &root, object, (name, value), &style)),
        (Some((first, rest)), _) => {
            let value = wrapped(rest, name, value);
            Ok(insert(text, &root, object, (first, &value), &style))
        }
    }
}

/// Returns the text without `name` in the object at `path`.
pub(super) fn remove(text: &str, path: &[&str], name: &str) -> Result<String, TextError> {
    let mut text = text.to_owned();
    // When a name occurs twice, the last one counts. Removing only that one would make the other
    // one count.
    loop {
        let Some(root) = parse(&text)? else { return Ok(text) };
        let (object, missing) = root.descend(path)?;
        let found = object.members().iter().rposition(|member| member.name == name);
        let Some(idx) = found.filter(|_| missing.is_empty()) else { return Ok(text) };
        text = spliced(&text, removal(&text, object.members(), idx));
    }
}

/// Returns a document with only `name` at `path`, after an optional first line.
pub(super) fn document(
    first: Option<(&str, &str)>,
    path: &[&str],
    name: &str,
    value: &Value,
) -> String {
    let mut whole = wrapped(path, name, value);
    if let (Some((key, text)), Some(members)) = (first, whole.as_object_mut()) {
        members.shift_insert(0, key.to_owned(), text.into());
    }
    format!("{}\n", pretty(&whole, "", &TextStyle::default()))
}

/// Adds a root object below the text of a file that has only blanks and comments.
fn below_comments(text: &str, path: &[&str], name: &str, value: &Value) -> String {
    let style = TextStyle::of(text, None);
    let object = pretty(&wrapped(path, name, value), "", &style);
    let before = text.trim_end();
    let gap = if before.is_empty() { "" } else { style.line_end };
    format!("{before}{gap}{object}{}", style.line_end)
}

fn wrapped(path: &[&str], name: &str, value: &Value) -> Value {
    let innermost = serde_json::json!({ name: value });
    path.iter().rev().fold(innermost, |inner, key| serde_json::json!({ *key: inner }))
}

fn insert(
    text: &str,
    root: &JsonNode,
    object: &JsonNode,
    (name, value): (&str, &Value),
    style: &TextStyle,
) -> String {
    let is_minified = !root.members().is_empty() && root.is_on_one_line(text);
    let stays_on_line = !object.members().is_empty() && object.is_on_one_line(text);
    if is_minified || stays_on_line {
        insert_in_line(text, object, name, value)
    } else {
        insert_on_new_line(text, object, (name, value), style)
    }
}

fn insert_in_line(text: &str, object: &JsonNode, name: &str, value: &Value) -> String {
    let member = format!("{}: {}", quoted(name), inline(value));
    let (at, inserted) = match object.members().last() {
        None => (object.span.start + 1, member),
        Some(JsonMember { comma: Some(comma), .. }) => (comma + 1, format!(" {member},")),
        Some(last) => (last.value.span.end, format!(", {member}")),
    };
    spliced(text, [(at..at, inserted)])
}

fn insert_on_new_line(
    text: &str,
    object: &JsonNode,
    (name, value): (&str, &Value),
    style: &TextStyle,
) -> String {
    let last = object.members().last();
    let outer = indentation_at(text, object.span.start);
    let indentation = match last {
        Some(last) if begins_line(text, last.at) => indentation_at(text, last.at).to_owned(),
        _ => format!("{outer}{}", style.unit),
    };
    let end_of_last = last.map_or(object.span.start + 1, JsonMember::end);
    let closing = object.span.end - 1;
    // Insert after the comments there: comments on the last member's line belong to that member.
    let at = parse::end_of_comments(text, end_of_last);
    let rest = text.get(at..closing).unwrap_or_default();
    let comma = if last.is_some_and(|last| last.comma.is_some()) { "," } else { "" };
    let rendered = pretty(value, &indentation, style);
    let mut inserted =
        format!("{}{indentation}{}: {rendered}{comma}", style.line_end, quoted(name));
    if !rest.contains('\n') {
        inserted.extend([style.line_end, outer]);
    }
    // The blanks between the braces are replaced unless they contain a line end.
    let replaced = if rest.contains('\n') { at..at } else { at..closing };
    let missing_comma = last.filter(|last| last.comma.is_none()).map(|last| last.value.span.end);
    let comma = missing_comma.map(|at| (at..at, ",".to_owned()));
    spliced(text, comma.into_iter().chain([(replaced, inserted)]))
}

/// Returns the ranges to delete for a member, its comma and its line.
fn removal(text: &str, members: &[JsonMember], idx: usize) -> Vec<(Range<usize>, String)> {
    let Some(member) = members.get(idx) else { return Vec::new() };
    let previous = idx.checked_sub(1).and_then(|idx| members.get(idx));
    let line = text.get(..member.at).and_then(|before| before.rfind('\n')).map(|at| at + 1);
    let begins_line = line.filter(|at| is_blank(text.get(*at..member.at)));
    let rest = text.get(member.end()..).unwrap_or_default();
    let end_of_line = rest.find('\n').map(|at| at + 1).filter(|at| is_blank(rest.get(..*at)));
    let range = match (begins_line, end_of_line) {
        (Some(begin), Some(end)) => begin..member.end() + end,
        _ => member.at..member.end() + rest.len() - rest.trim_start_matches([' ', '\t']).len(),
    };
    let mut cuts = vec![(range, String::new())];
    let is_last = idx + 1 == members.len();
    if let Some(comma) = previous.and_then(|previous| previous.comma)
        && is_last
        && member.comma.is_none()
    {
        cuts.insert(0, (comma..comma + 1, String::new()));
    }
    cuts
}

fn is_blank(text: Option<&str>) -> bool {
    text.is_some_and(|text| text.trim().is_empty())
}

/// Replaces each range in the text. The ranges are sorted and do not overlap.
fn spliced(text: &str, edits: impl IntoIterator<Item = (Range<usize>, String)>) -> String {
    let mut edited = String::with_capacity(text.len() + 256);
    let mut at = 0;
    for (range, replacement) in edits {
        edited.push_str(text.get(at..range.start).unwrap_or_default());
        edited.push_str(&replacement);
        at = range.end;
    }
    edited.push_str(text.get(at..).unwrap_or_default());
    edited
}

/// Formats objects on several lines and lists on one line, because the lists here are short.
fn pretty(value: &Value, indentation: &str, style: &TextStyle) -> String {
    let Value::Object(members) = value else { return inline(value) };
    let inner = format!("{indentation}{}", style.unit);
    let members: Vec<String> = members
        .iter()
        .map(|(name, value)| format!("{inner}{}: {}", quoted(name), pretty(value, &inner, style)))
        .collect();
    let between = format!(",{}", style.line_end);
    let end = style.line_end;
    format!("{{{end}{}{end}{indentation}}}", members.join(&between))
}

fn inline(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let member =
                |(name, value): (&String, &Value)| format!("{}: {}", quoted(name), inline(value));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        scalar => scalar.to_string(),
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

impl JsonTree {
    /// Returns the tree with `name` at `path` set, or `None` when a value on the path is not an
    /// object.
    pub(super) fn with(
        before: Option<Self>,
        path: &[&str],
        name: &str,
        value: &Value,
    ) -> Option<Self> {
        let mut root = before.unwrap_or(Self::Object(Vec::new()));
        let mut object = &mut root;
        for key in path {
            object = object.member_or_insert(key, Self::Object(Vec::new()))?;
        }
        *object.member_or_insert(name, Self::Scalar(String::new()))? = Self::of(value);
        Some(root)
    }

    /// Returns the tree without `name` at `path`.
    pub(super) fn without(mut self, path: &[&str], name: &str) -> Self {
        let mut object = Some(&mut self);
        for key in path {
            object = object.and_then(|object| object.member_mut(key));
        }
        if let Some(Self::Object(members)) = object {
            members.retain(|(key, _)| key != name);
        }
        self
    }

    /// Converts to a value. Of several members with the same name the last one counts.
    pub(super) fn value(&self) -> Value {
        match self {
            Self::Object(members) => {
                members.iter().map(|(key, value)| (key.clone(), value.value())).collect()
            }
            Self::List(items) => items.iter().map(Self::value).collect(),
            Self::Scalar(written) => {
                serde_json::from_str(written).unwrap_or_else(|_| written.as_str().into())
            }
        }
    }

    fn of(value: &Value) -> Self {
        match value {
            Value::Object(members) => {
                let member = |(key, value): (&String, &Value)| (key.clone(), Self::of(value));
                Self::Object(members.iter().map(member).collect())
            }
            Value::Array(items) => Self::List(items.iter().map(Self::of).collect()),
            scalar => Self::Scalar(scalar.to_string()),
        }
    }

    fn member_mut(&mut self, name: &str) -> Option<&mut Self> {
        let Self::Object(members) = self else { return None };
        members.iter_mut().rev().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    fn member_or_insert(&mut self, name: &str, absent: Self) -> Option<&mut Self> {
        let Self::Object(members) = self else { return None };
        let found = members.iter().rposition(|(key, _)| key == name);
        let idx = found.unwrap_or(members.len());
        if found.is_none() {
            members.push((name.to_owned(), absent));
        }
        members.get_mut(idx).map(|(_, value)| value)
    }
}

impl JsonNode {
    /// Returns the object at `path`, or the innermost existing one with the missing rest of the
    /// path.
    fn descend<'a, 'p>(
        &'a self,
        path: &'p [&'p str],
    ) -> Result<(&'a Self, &'p [&'p str]), TextError> {
        let mut object = self;
        object.must_be_object("the file")?;
        for (idx, key) in path.iter().enumerate() {
            let Some(member) = object.member(key) else {
                return Ok((object, path.get(idx..).unwrap_or_default()));
            };
            object = &member.value;
            object.must_be_object(&format!("`{key}`"))?;
        }
        Ok((object, &[]))
    }

    fn must_be_object(&self, what: &str) -> Result<(), TextError> {
        match self.kind {
            JsonKind::Object(_) => Ok(()),
            _ => {
                Err(TextError::new(self.span.start, format!("{what} must be an object in braces")))
            }
        }
    }

    /// Returns the member of this name: the last one if there are several.
    fn member(&self, name: &str) -> Option<&JsonMember> {
        self.members().iter().rev().find(|member| member.name == name)
    }

    fn is_on_one_line(&self, text: &str) -> bool {
        text.get(self.span.clone()).is_some_and(|text| !text.contains('\n'))
    }

    /// Returns the first member's indentation, if it starts a line.
    fn first_indentation<'t>(&self, text: &'t str) -> Option<&'t str> {
        let first = self.members().first()?;
        begins_line(text, first.at).then(|| indentation_at(text, first.at))
    }
}

#[cfg(test)]
mod tests;
