//! Parses JSON with comments and trailing commas into a tree with positions. It is no stricter than
//! the clients: they decide which escapes and numbers are valid.

use std::ops::Range;

use super::super::text::TextError;

/// Deeper than any configuration, and less than would overflow the stack.
const MAX_DEPTH: usize = 200;

/// A value and its position.
#[derive(Debug)]
pub(crate) struct JsonNode {
    pub(super) span: Range<usize>,
    pub(super) kind: JsonKind,
}

#[derive(Debug)]
pub(super) enum JsonKind {
    Object(Vec<JsonMember>),
    List(Vec<JsonNode>),
    /// The source text of a string, a number or a word.
    Scalar(String),
}

#[derive(Debug)]
pub(super) struct JsonMember {
    pub(super) name: String,
    /// Start of the name.
    pub(super) at: usize,
    pub(super) value: JsonNode,
    /// Position of the comma after the value.
    pub(super) comma: Option<usize>,
}

impl JsonMember {
    /// Returns the end of the value, or of its comma if it has one.
    pub(super) fn end(&self) -> usize {
        self.comma.map_or(self.value.span.end, |comma| comma + 1)
    }
}

/// The content of a tree without its layout. Order and repeated names count.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum JsonTree {
    Object(Vec<(String, Self)>),
    List(Vec<Self>),
    Scalar(String),
}

impl JsonNode {
    pub(super) fn members(&self) -> &[JsonMember] {
        match &self.kind {
            JsonKind::Object(members) => members,
            _ => &[],
        }
    }

    pub(crate) fn tree(&self) -> JsonTree {
        match &self.kind {
            JsonKind::Object(members) => {
                let member = |member: &JsonMember| (member.name.clone(), member.value.tree());
                JsonTree::Object(members.iter().map(member).collect())
            }
            JsonKind::List(items) => JsonTree::List(items.iter().map(Self::tree).collect()),
            JsonKind::Scalar(written) => JsonTree::Scalar(written.clone()),
        }
    }
}

/// Parses the root. Returns `None` for a text of only blanks and comments.
///
/// # Errors
/// With the position of the first syntax error.
pub(crate) fn parse(text: &str) -> Result<Option<JsonNode>, TextError> {
    let mut parser = Parser { text, at: 0 };
    parser.skip()?;
    if parser.at == text.len() {
        return Ok(None);
    }
    let root = parser.value(0)?;
    parser.skip()?;
    if parser.at < text.len() {
        return Err(parser.error("expected the end of the file"));
    }
    Ok(Some(root))
}

/// Returns the end of the last comment before any other token, or `from`.
pub(super) fn end_of_comments(text: &str, from: usize) -> usize {
    let mut parser = Parser { text, at: from };
    parser.skip().unwrap_or(None).unwrap_or(from)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn next_is(&self, c: char) -> bool {
        self.rest().starts_with(c)
    }

    fn take(&mut self, c: char) -> bool {
        let is_next = self.next_is(c);
        self.at += if is_next { c.len_utf8() } else { 0 };
        is_next
    }

    fn error(&self, expected: &str) -> TextError {
        let found = match self.rest().chars().next() {
            Some(c) if c.is_control() => format!("`{}`", c.escape_debug()),
            Some(c) => format!("`{c}`"),
            None => "the end of the file".to_owned(),
        };
        TextError::new(self.at, format!("{expected}, found {found}"))
    }

    /// Skips blanks and comments. Returns the end of the last comment, if there was one.
    fn skip(&mut self) -> Result<Option<usize>, TextError> {
        let mut last_comment = None;
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start().len();
            self.at += blank;
            let rest = self.rest();
            let length = if rest.starts_with("//") {
                rest.find(['\n', '\r']).unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                let end = rest.find("*/").map(|end| end + 2);
                end.ok_or_else(|| TextError::new(self.at, "this comment is never closed"))?
            } else {
                return Ok(last_comment);
            };
            self.at += length;
            last_comment = Some(self.at);
        }
    }

    fn value(&mut self, depth: usize) -> Result<JsonNode, TextError> {
        if depth > MAX_DEPTH {
            return Err(TextError::new(self.at, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let start = self.at;
        let kind = match self.rest().chars().next() {
            Some('{') => JsonKind::Object(self.members(depth)?),
            Some('[') => JsonKind::List(self.items(depth)?),
            Some('"') => JsonKind::Scalar(self.string()?.to_owned()),
            _ => JsonKind::Scalar(self.word()?),
        };
        Ok(JsonNode { span: start..self.at, kind })
    }

    fn members(&mut self, depth: usize) -> Result<Vec<JsonMember>, TextError> {
        let mut members: Vec<JsonMember> = Vec::new();
        self.at += 1;
        loop {
            self.skip()?;
            if self.take('}') {
                return Ok(members);
            }
            if members.last().is_some_and(|last| last.comma.is_none()) {
                return Err(self.error("expected `,` or `}`"));
            }
            let at = self.at;
            if !self.next_is('"') {
                return Err(self.error("expected a name in quotes or `}`"));
            }
            let name = self.string()?;
            // serde rejects half a surrogate pair, which scripts leave when they truncate a text.
            let name = serde_json::from_str(name).unwrap_or_else(|_| name.to_owned());
            self.skip()?;
            if !self.take(':') {
                return Err(self.error("expected `:`"));
            }
            self.skip()?;
            let value = self.value(depth + 1)?;
            self.skip()?;
            let comma = self.at;
            let comma = self.take(',').then_some(comma);
            members.push(JsonMember { name, at, value, comma });
        }
    }

    fn items(&mut self, depth: usize) -> Result<Vec<JsonNode>, TextError> {
        let mut items = Vec::new();
        self.at += 1;
        let mut may_go_on = true;
        loop {
            self.skip()?;
            if self.take(']') {
                return Ok(items);
            }
            if !may_go_on {
                return Err(self.error("expected `,` or `]`"));
            }
            items.push(self.value(depth + 1)?);
            self.skip()?;
            may_go_on = self.take(',');
        }
    }

    /// Returns the source text of a string with its quotes.
    fn string(&mut self) -> Result<&str, TextError> {
        let start = self.at;
        let mut is_escaped = false;
        for (at, c) in self.rest().char_indices().skip(1) {
            match c {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                '"' => {
                    self.at += at + 1;
                    return Ok(self.text.get(start..self.at).unwrap_or_default());
                }
                '\n' | '\r' => break,
                _ => {}
            }
        }
        Err(TextError::new(start, "this string is never closed"))
    }

    fn word(&mut self) -> Result<String, TextError> {
        let rest = self.rest();
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let word = rest.get(..rest.find(|c| !is_part(c)).unwrap_or(rest.len())).unwrap_or_default();
        let is_number = word.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        if !is_number && !matches!(word, "true" | "false" | "null") {
            return Err(self.error("expected a value"));
        }
        let word = word.to_owned();
        self.at += word.len();
        Ok(word)
    }
}
