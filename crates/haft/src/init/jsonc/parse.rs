//! Reads JSON with comments and trailing commas into a tree of places. It is no stricter than the clients are: which
//! escapes and numbers are right is left to them.

use std::ops::Range;

use super::super::text::Fault;

/// Deeper than any configuration; below what would overflow the stack.
const DEEPEST: usize = 200;

/// A value and where it stands.
#[derive(Debug)]
pub(crate) struct Node {
    pub(super) span: Range<usize>,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Object(Vec<Member>),
    List(Vec<Node>),
    /// A string, a number or a word, as it is written.
    Scalar(String),
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    /// Where its name begins.
    pub(super) at: usize,
    pub(super) value: Node,
    /// The comma behind it.
    pub(super) comma: Option<usize>,
}

impl Member {
    /// Behind the value, and behind its comma if it has one.
    pub(super) fn end(&self) -> usize {
        self.comma.map_or(self.value.span.end, |comma| comma + 1)
    }
}

/// What a tree says, apart from how it is laid out. Order and repeated names count.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Tree {
    Object(Vec<(String, Self)>),
    List(Vec<Self>),
    Scalar(String),
}

impl Node {
    pub(super) fn members(&self) -> &[Member] {
        match &self.kind {
            Kind::Object(members) => members,
            _ => &[],
        }
    }

    pub(crate) fn tree(&self) -> Tree {
        match &self.kind {
            Kind::Object(members) => {
                let member = |member: &Member| (member.name.clone(), member.value.tree());
                Tree::Object(members.iter().map(member).collect())
            }
            Kind::List(items) => Tree::List(items.iter().map(Self::tree).collect()),
            Kind::Scalar(written) => Tree::Scalar(written.clone()),
        }
    }
}

/// The root; none when there is nothing but blanks and comments.
///
/// # Errors
/// With the first place that cannot be read.
pub(crate) fn parse(text: &str) -> Result<Option<Node>, Fault> {
    let mut parser = Parser { text, at: 0 };
    parser.skip()?;
    if parser.at == text.len() {
        return Ok(None);
    }
    let root = parser.value(0)?;
    parser.skip()?;
    if parser.at < text.len() {
        return Err(parser.fault("expected the end of the file"));
    }
    Ok(Some(root))
}

/// The end of the last comment before anything else comes, or `from`.
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

    fn next_is(&self, mark: char) -> bool {
        self.rest().starts_with(mark)
    }

    fn take(&mut self, mark: char) -> bool {
        let is_there = self.next_is(mark);
        self.at += if is_there { mark.len_utf8() } else { 0 };
        is_there
    }

    fn fault(&self, expected: &str) -> Fault {
        let found = match self.rest().chars().next() {
            Some(c) if c.is_control() => format!("`{}`", c.escape_debug()),
            Some(c) => format!("`{c}`"),
            None => "the end of the file".to_owned(),
        };
        Fault::new(self.at, format!("{expected}, found {found}"))
    }

    /// Goes on behind blanks and comments; tells where the last comment ended, if there was one.
    fn skip(&mut self) -> Result<Option<usize>, Fault> {
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
                end.ok_or_else(|| Fault::new(self.at, "this comment is never closed"))?
            } else {
                return Ok(last_comment);
            };
            self.at += length;
            last_comment = Some(self.at);
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, Fault> {
        if depth > DEEPEST {
            return Err(Fault::new(self.at, format!("nested deeper than {DEEPEST} levels")));
        }
        let start = self.at;
        let kind = match self.rest().chars().next() {
            Some('{') => Kind::Object(self.members(depth)?),
            Some('[') => Kind::List(self.items(depth)?),
            Some('"') => Kind::Scalar(self.string()?.to_owned()),
            _ => Kind::Scalar(self.word()?),
        };
        Ok(Node { span: start..self.at, kind })
    }

    fn members(&mut self, depth: usize) -> Result<Vec<Member>, Fault> {
        let mut members: Vec<Member> = Vec::new();
        self.at += 1;
        loop {
            self.skip()?;
            if self.take('}') {
                return Ok(members);
            }
            if members.last().is_some_and(|last| last.comma.is_none()) {
                return Err(self.fault("expected `,` or `}`"));
            }
            let at = self.at;
            if !self.next_is('"') {
                return Err(self.fault("expected a name in quotes or `}`"));
            }
            let name = self.string()?;
            // Half a character, which scripts leave behind when they cut a text, is no string for serde.
            let name = serde_json::from_str(name).unwrap_or_else(|_| name.to_owned());
            self.skip()?;
            if !self.take(':') {
                return Err(self.fault("expected `:`"));
            }
            self.skip()?;
            let value = self.value(depth + 1)?;
            self.skip()?;
            let comma = self.at;
            let comma = self.take(',').then_some(comma);
            members.push(Member { name, at, value, comma });
        }
    }

    fn items(&mut self, depth: usize) -> Result<Vec<Node>, Fault> {
        let mut items = Vec::new();
        self.at += 1;
        let mut may_go_on = true;
        loop {
            self.skip()?;
            if self.take(']') {
                return Ok(items);
            }
            if !may_go_on {
                return Err(self.fault("expected `,` or `]`"));
            }
            items.push(self.value(depth + 1)?);
            self.skip()?;
            may_go_on = self.take(',');
        }
    }

    /// With its quotes, as it is written.
    fn string(&mut self) -> Result<&str, Fault> {
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
        Err(Fault::new(start, "this string is never closed"))
    }

    fn word(&mut self) -> Result<String, Fault> {
        let rest = self.rest();
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let word = rest.get(..rest.find(|c| !is_part(c)).unwrap_or(rest.len())).unwrap_or_default();
        let is_number = word.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        if !is_number && !matches!(word, "true" | "false" | "null") {
            return Err(self.fault("expected a value"));
        }
        let word = word.to_owned();
        self.at += word.len();
        Ok(word)
    }
}
