//! The marks and texts that a page is made of, one after the other. Every byte is looked at a bounded number of times.

use super::{Attribute, MOST_ATTRIBUTES, entities::decoded, tag::Tag};

/// The attributes that somebody may ask for; the others are passed over.
const KEPT: [&str; 32] = [
    "alt",
    "aria-hidden",
    "charset",
    "checked",
    "class",
    "colspan",
    "content",
    "data-lang",
    "data-language",
    "data-src",
    "datetime",
    "encoding",
    "height",
    "hidden",
    "href",
    "http-equiv",
    "id",
    "itemprop",
    "lang",
    "name",
    "property",
    "rel",
    "role",
    "rowspan",
    "src",
    "start",
    "style",
    "summary",
    "title",
    "type",
    "value",
    "width",
];

pub(super) enum Token<'a> {
    /// Its attributes are the last ones that were added.
    Start {
        tag: Tag,
        attributes: (u32, u32),
        is_closed: bool,
    },
    End(Tag),
    /// As it stands on the page, and what it is.
    Text(&'a str, Written),
}

/// How a text is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// With entities.
    Plain,
    /// Letter by letter.
    Literal,
}

pub(super) struct Tokens<'a> {
    text: &'a str,
    at: usize,
    /// What comes next is text up to the end of this element.
    raw: Option<Tag>,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, raw: None }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn take(&mut self, length: usize) -> &'a str {
        let taken = self.text.get(self.at..self.at + length).unwrap_or_default();
        self.at += length;
        taken
    }

    /// Where the next begins.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn next(&mut self, attributes: &mut Vec<Attribute<'a>>) -> Option<Token<'a>> {
        if let Some(tag) = self.raw.take()
            && let Some(token) = self.raw_text(tag)
        {
            return Some(token);
        }
        loop {
            if self.at >= self.text.len() {
                return None;
            }
            match (self.byte(0), self.byte(1)) {
                (Some(b'<'), Some(b'/'))
                    if self.byte(2).is_some_and(|it| it.is_ascii_alphabetic()) =>
                {
                    self.at += 2;
                    let tag = self.name();
                    self.skip_attributes();
                    return Some(Token::End(tag));
                }
                (Some(b'<'), Some(next)) if next.is_ascii_alphabetic() => {
                    self.at += 1;
                    return self.start(attributes);
                }
                (Some(b'<'), Some(b'!' | b'?' | b'/')) => {
                    if let Some(text) = self.comment() {
                        return Some(Token::Text(text, Written::Literal));
                    }
                }
                _ => return Some(self.plain()),
            }
        }
    }

    /// Up to the next mark. A `<` that begins none is text.
    fn plain(&mut self) -> Token<'a> {
        let rest = self.rest().as_bytes();
        let length = match memchr::memchr(b'<', rest.get(1..).unwrap_or_default()) {
            Some(at) => at + 1,
            None => rest.len(),
        };
        Token::Text(self.take(length), Written::Plain)
    }

    /// Passes over a comment or a declaration; the text of a CDATA section is text.
    fn comment(&mut self) -> Option<&'a str> {
        let rest = self.rest();
        let (after, end) = if let Some(after) = rest.strip_prefix("<!--") {
            // `<!-->` and `<!--->` are whole already.
            if after.starts_with('>') || after.starts_with("->") {
                (rest, ">")
            } else {
                (after, "-->")
            }
        } else if let Some(after) = rest.strip_prefix("<![CDATA[") {
            (after, "]]>")
        } else {
            (rest, ">")
        };
        let begin = rest.len() - after.len();
        let length = memchr::memmem::find(after.as_bytes(), end.as_bytes());
        let inside = after.get(..length.unwrap_or(after.len())).unwrap_or_default();
        self.at += begin + length.map_or(after.len(), |length| length + end.len());
        (end == "]]>").then_some(inside)
    }

    fn name(&mut self) -> Tag {
        let bytes = self.rest().as_bytes();
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>');
        let length = bytes.iter().position(is_end).unwrap_or(bytes.len());
        let name = self.take(length);
        // No name that makes a difference is longer.
        let mut lower = [0; 10];
        let Some(lower) = lower.get_mut(..name.len()) else { return Tag::Other };
        lower.copy_from_slice(name.as_bytes());
        lower.make_ascii_lowercase();
        std::str::from_utf8(lower).map_or(Tag::Other, Tag::named)
    }

    fn start(&mut self, attributes: &mut Vec<Attribute<'a>>) -> Option<Token<'a>> {
        let tag = self.name();
        let count = |attributes: &Vec<_>| u32::try_from(attributes.len()).unwrap_or(u32::MAX);
        let first = count(attributes);
        let is_closed = self.attributes(|attribute| {
            if attributes.len() < MOST_ATTRIBUTES {
                attributes.push(attribute);
            }
        });
        if matches!(
            tag,
            Tag::Script
                | Tag::Style
                | Tag::Title
                | Tag::Textarea
                | Tag::Iframe
                | Tag::Xmp
                | Tag::Noframes
        ) {
            self.raw = Some(tag);
        }
        Some(Token::Start { tag, attributes: (first, count(attributes)), is_closed })
    }

    fn skip_attributes(&mut self) {
        self.attributes(|_| {});
    }

    /// Up to behind the `>`; whether a `/` stands before it.
    fn attributes(&mut self, mut keep: impl FnMut(Attribute<'a>)) -> bool {
        let mut is_closed = false;
        loop {
            while self.byte(0).is_some_and(|byte| byte.is_ascii_whitespace()) {
                self.at += 1;
            }
            match self.byte(0) {
                None => return is_closed,
                Some(b'>') => {
                    self.at += 1;
                    return is_closed;
                }
                Some(b'/') => {
                    self.at += 1;
                    is_closed = true;
                }
                Some(_) => {
                    is_closed = false;
                    let name = self.attribute_name();
                    let value = self.attribute_value();
                    let known = KEPT.iter().find(|known| known.eq_ignore_ascii_case(name));
                    if let Some(name) = known {
                        keep(Attribute { name, value: decoded(value) });
                    }
                }
            }
        }
    }

    fn attribute_name(&mut self) -> &'a str {
        let bytes = self.rest().as_bytes();
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>' | b'=');
        // A `=` at the beginning belongs to the name.
        let length = bytes.iter().skip(1).position(is_end).map_or(bytes.len(), |at| at + 1);
        self.take(length)
    }

    fn attribute_value(&mut self) -> &'a str {
        let begin = self.at;
        let skip = |it: &mut Self| {
            while it.byte(0).is_some_and(|byte| byte.is_ascii_whitespace()) {
                it.at += 1;
            }
        };
        skip(self);
        if self.byte(0) != Some(b'=') {
            self.at = begin;
            return "";
        }
        self.at += 1;
        skip(self);
        match self.byte(0) {
            Some(quote @ (b'"' | b'\'')) => {
                self.at += 1;
                let bytes = self.rest().as_bytes();
                let length = memchr::memchr(quote, bytes).unwrap_or(bytes.len());
                let value = self.take(length);
                self.at = (self.at + 1).min(self.text.len());
                value
            }
            _ => {
                let bytes = self.rest().as_bytes();
                let is_end = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'>';
                let length = bytes.iter().position(is_end).unwrap_or(bytes.len());
                self.take(length)
            }
        }
    }

    /// What stands between the marks of an element whose inside is no HTML.
    fn raw_text(&mut self, tag: Tag) -> Option<Token<'a>> {
        let length = self.raw_length(tag);
        let inside = self.take(length);
        match tag {
            Tag::Title | Tag::Textarea => Some(Token::Text(inside, Written::Plain)),
            Tag::Xmp => Some(Token::Text(inside, Written::Literal)),
            _ => None,
        }
    }

    fn raw_length(&self, tag: Tag) -> usize {
        let rest = self.rest();
        for at in memchr::memmem::find_iter(rest.as_bytes(), "</") {
            let mut ahead = Self { text: self.text, at: self.at + at + 2, raw: None };
            if ahead.byte(0).is_some_and(|byte| byte.is_ascii_alphabetic()) && ahead.name() == tag {
                return at;
            }
        }
        rest.len()
    }
}
