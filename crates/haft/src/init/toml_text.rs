//! Sets or removes one table of a TOML file as text and keeps every other byte. The parser is used
//! only to find positions.

use std::ops::Range;

use serde_json::Value;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::text::{TextError, line_end};

/// Parses the file.
///
/// # Errors
/// With the position of the first syntax error.
pub(super) fn parse(text: &str) -> Result<toml::Table, TextError> {
    text.parse().map_err(|error: toml::de::Error| text_error(&error))
}

/// Returns the text with `entry` as the table `parent.name`.
pub(super) fn set(
    text: &str,
    parent: &str,
    name: &str,
    entry: &Value,
) -> Result<String, TextError> {
    let whole = DeTable::parse(text).map_err(|error| text_error(&error))?;
    let end = line_end(text);
    let section = section(parent, name, entry).replace('\n', end);
    match Entry::find(text, whole.get_ref(), parent, name)? {
        Entry::Sections(lines) => {
            let at = lines.first().map_or(text.len(), |range| range.start);
            let (before, after) = split(text, at);
            let after = without(after, &lines, at);
            Ok(format!("{before}{section}{after}"))
        }
        Entry::Inline { value, .. } => {
            let (before, _) = split(text, value.start);
            let (_, after) = split(text, value.end);
            Ok(format!("{before}{}{after}", inline(entry)))
        }
        Entry::None => {
            let gap = match text.trim_end() {
                "" => "",
                _ if text.ends_with('\n') => end,
                _ => &end.repeat(2),
            };
            Ok(format!("{text}{gap}{section}"))
        }
    }
}

/// Returns the text without the table `parent.name`.
pub(super) fn remove(text: &str, parent: &str, name: &str) -> Result<String, TextError> {
    let whole = DeTable::parse(text).map_err(|error| text_error(&error))?;
    match Entry::find(text, whole.get_ref(), parent, name)? {
        Entry::Sections(mut lines) => {
            // Remove the blank line before the table too.
            if let Some(first) = lines.first_mut() {
                let before = text.get(..first.start).unwrap_or_default();
                let shorter = before.strip_suffix('\n').map(|before| before.trim_end_matches('\r'));
                let is_blank =
                    shorter.is_some_and(|before| before.is_empty() || before.ends_with('\n'));
                first.start = shorter.filter(|_| is_blank).map_or(first.start, str::len);
            }
            Ok(without(text, &lines, 0))
        }
        Entry::Inline { statement, .. } => Ok(without(text, &[statement], 0)),
        Entry::None => Ok(text.to_owned()),
    }
}

/// Returns a section with only this table.
pub(super) fn section(parent: &str, name: &str, entry: &Value) -> String {
    let lines = entry.as_object().into_iter().flatten();
    let lines = lines.map(|(key, value)| format!("{key} = {}\n", inline(value)));
    format!("[{parent}.{name}]\n{}", lines.collect::<String>())
}

fn inline(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| format!("{key} = {}", inline(value)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        // A JSON string is also a TOML string, except that TOML requires U+007F to be escaped.
        scalar => scalar.to_string().replace('\u{7f}', "\\u007F"),
    }
}

/// The form that the table is written in.
enum Entry {
    None,
    /// With headers. The lines of each section.
    Sections(Vec<Range<usize>>),
    /// As `name = { … }`. The lines of the statement, and its value.
    Inline {
        statement: Range<usize>,
        value: Range<usize>,
    },
}

impl Entry {
    fn find(text: &str, whole: &DeTable<'_>, parent: &str, name: &str) -> Result<Self, TextError> {
        let Some((key, tables)) = whole.get_key_value(parent) else { return Ok(Self::None) };
        let by_hand = |at: usize, what: &str| {
            let problem = format!("{what} is written in a form that haft cannot edit");
            Err(TextError::new(at, problem))
        };
        let Some(table) = tables.get_ref().as_table() else {
            let problem = format!("`{parent}` must be a table");
            return Err(TextError::new(key.span().start, problem));
        };
        let Some((key, value)) = table.get_key_value(name) else {
            let is_inline = text.get(tables.span()).is_some_and(|text| text.starts_with('{'));
            return if is_inline {
                by_hand(tables.span().start, &format!("`{parent}`"))
            } else {
                Ok(Self::None)
            };
        };
        let sections = sections(text, whole, &[parent, name]);
        if !sections.is_empty() {
            return Ok(Self::Sections(sections));
        }
        let is_inline = text.get(value.span()).is_some_and(|text| text.starts_with('{'));
        let statement = line_begin(text, key.span().start)..line_after(text, value.span().end);
        let before = text.get(statement.start..key.span().start).unwrap_or_default();
        if is_inline && before.trim().is_empty() {
            return Ok(Self::Inline { statement, value: value.span() });
        }
        by_hand(key.span().start, &format!("`{parent}.{name}`"))
    }
}

/// Returns the lines of every section whose header starts with `path`: from the header to the last
/// statement. Later comments belong to what follows.
fn sections(text: &str, whole: &DeTable<'_>, path: &[&str]) -> Vec<Range<usize>> {
    let mut values = Vec::new();
    spans_of_values(whole, &mut values);
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut is_inside = false;
    let mut begin = 0;
    for line in text.split_inclusive('\n') {
        let (start, end) = (begin, begin + line.len());
        begin = end;
        let goes_on = values.iter().any(|value| value.start < start && start < value.end);
        let statement = line.trim();
        if !goes_on && statement.starts_with('[') {
            is_inside = header(statement).is_some_and(|header| header.starts_with(&owned(path)));
            if is_inside {
                found.push(start..end);
            }
        } else if is_inside && (goes_on || !(statement.is_empty() || statement.starts_with('#'))) {
            found.last_mut().expect("being inside began with a section").end = end;
        }
    }
    found
}

fn owned(path: &[&str]) -> Vec<String> {
    path.iter().map(|key| (*key).to_owned()).collect()
}

/// Returns the keys of a header line.
fn header(line: &str) -> Option<Vec<String>> {
    let table = DeTable::parse(line).ok()?;
    let mut keys = Vec::new();
    let mut inner = Some(table.get_ref());
    while let Some((key, value)) = inner.and_then(|table| table.iter().next()) {
        keys.push(key.get_ref().to_string());
        inner = match value.get_ref() {
            DeValue::Array(items) => items.iter().next().and_then(|item| item.get_ref().as_table()),
            other => other.as_table(),
        };
    }
    Some(keys)
}

fn spans_of_values(table: &DeTable<'_>, spans: &mut Vec<Range<usize>>) {
    fn walk(value: &Spanned<DeValue<'_>>, spans: &mut Vec<Range<usize>>) {
        match value.get_ref() {
            DeValue::Table(table) => table.iter().for_each(|(_, value)| walk(value, spans)),
            DeValue::Array(items) => {
                spans.push(value.span());
                items.iter().for_each(|item| walk(item, spans));
            }
            _ => spans.push(value.span()),
        }
    }
    table.iter().for_each(|(_, value)| walk(value, spans));
}

/// Returns the text without the ranges. The ranges start `offset` bytes before the text.
fn without(text: &str, ranges: &[Range<usize>], offset: usize) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut at = 0;
    for range in ranges {
        kept.push_str(text.get(at..range.start - offset).unwrap_or_default());
        at = range.end - offset;
    }
    kept.push_str(text.get(at..).unwrap_or_default());
    kept
}

fn split(text: &str, at: usize) -> (&str, &str) {
    text.split_at_checked(at).unwrap_or((text, ""))
}

fn line_begin(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1)
}

fn line_after(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.find('\n')).map_or(text.len(), |end| at + end + 1)
}

fn text_error(error: &toml::de::Error) -> TextError {
    TextError::new(error.span().map_or(0, |span| span.start), error.message())
}

#[cfg(test)]
mod tests;
