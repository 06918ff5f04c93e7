//! Tolerant JSON: parses the arguments of a language model when strict JSON fails, and names every
//! repair. Deliberately not here: schemas, types, and any guess at text that is missing.

use serde_json::{Map, Number, Value};

/// A parsed text and the repairs it needed.
#[derive(Debug, PartialEq)]
pub(crate) struct ParsedJson {
    pub(crate) value: Value,
    /// Each kind of repair once, in the order of occurrence. Empty for strict JSON.
    pub(crate) repairs: Vec<String>,
}

/// A parse error. `line` and `column` count from 1, in characters.
#[derive(Debug, PartialEq)]
pub(crate) struct JsonError {
    pub(crate) message: String,
    pub(crate) line: usize,
    pub(crate) column: usize,
    /// The text ended too early: the caller should send the rest, not a correction.
    pub(crate) is_incomplete: bool,
}

/// Parses strict JSON as it is, and other text as far as it has only one interpretation.
pub(crate) fn parse(text: &str) -> Result<ParsedJson, JsonError> {
    if text.trim().is_empty() {
        return Ok(ParsedJson {
            value: Value::Object(Map::new()),
            repairs: vec![EMPTY.to_owned()],
        });
    }
    Ok(decode_again(parse_once(text)?))
}

const EMPTY: &str = "read empty input as {}";
const TWICE: &str = "unwrapped JSON that was encoded twice";
const FENCE: &str = "took the JSON out of a code fence";
const DROPPED: &str = "dropped text before and after the JSON object";
const TRAILING_COMMA: &str = "removed a trailing comma";
const MISSING_COMMA: &str = "added a missing comma";
const COMMENTS: &str = "removed comments";
const SPACES: &str = "read unusual spaces as spaces";
const SINGLE_QUOTES: &str = "read single-quoted strings";
const TYPOGRAPHIC: &str = "read typographic quotes as quotes";
const UNQUOTED_KEYS: &str = "read unquoted keys";
const REPEATED_KEY: &str = "removed a key repeated with the same value";
const PYTHON: &str = "read Python True/False/None";
const PLUS: &str = "removed a plus sign before a number";
const CONTROL: &str = "escaped raw control characters in a string";
const BACKSLASH: &str = "kept a backslash that is not an escape";

/// Close to serde_json's own limit. The parser recurses, so without a limit a text of brackets
/// would overflow the stack.
const MAX_DEPTH: usize = 128;

fn parse_once(text: &str) -> Result<ParsedJson, JsonError> {
    match serde_json::from_str(text) {
        Ok(value) => Ok(ParsedJson { value, repairs: Vec::new() }),
        Err(_) => Parser { text, at: 0, open: Vec::new(), repairs: Vec::new() }.document(),
    }
}

/// Parses the content of a string that holds nothing but an object or array: it was encoded once
/// too often, because no tool takes a bare string as its arguments. Any other string is left as it
/// is.
fn decode_again(outer: ParsedJson) -> ParsedJson {
    let Value::String(text) = &outer.value else { return outer };
    if !text.trim_start().starts_with(['{', '[']) {
        return outer;
    }
    match parse_once(text) {
        Ok(inner) if !inner.repairs.iter().any(|repair| repair == DROPPED) => {
            let mut repairs = outer.repairs;
            repairs.push(TWICE.to_owned());
            for repair in inner.repairs {
                if !repairs.contains(&repair) {
                    repairs.push(repair);
                }
            }
            ParsedJson { value: inner.value, repairs }
        }
        _ => outer,
    }
}

/// A recursive descent parser over characters. It never steps back further than one escape and
/// never tries a second interpretation, so its time is linear in the text.
struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// The items open at `at`, outermost first: their number is the depth, and an incomplete text
    /// ends inside the last.
    open: Vec<OpenItem>,
    repairs: Vec<&'static str>,
}

struct OpenItem {
    what: &'static str,
    at: usize,
}

/// A kind of quote. Languages disagree which typographic quote opens and which closes, so any two
/// of a kind match.
#[derive(Clone, Copy, PartialEq)]
enum Quote {
    Double,
    Single,
    CurlyDouble,
    CurlySingle,
}

impl<'a> Parser<'a> {
    fn document(mut self) -> Result<ParsedJson, JsonError> {
        self.blanks()?;
        let before = self.skip_to_brackets();
        let value = self.value()?;
        self.blanks()?;
        self.check_surrounding_text(before, &value)?;
        let repairs = self.repairs.into_iter().map(str::to_owned).collect();
        Ok(ParsedJson { value, repairs })
    }

    /// Moves to the first bracket, unless the text starts with a quote, and returns the skipped
    /// text.
    fn skip_to_brackets(&mut self) -> &'a str {
        let rest = self.rest();
        let brackets = if rest.starts_with(is_quote) { None } else { rest.find(['{', '[']) };
        let (before, _) = rest.split_at(brackets.unwrap_or(0));
        self.at += before.len();
        before
    }

    /// Accepts a code fence and prose around the JSON, but nothing that could be data.
    fn check_surrounding_text(&mut self, before: &str, value: &Value) -> Result<(), JsonError> {
        let (before, fence_opens) = strip_opening_fence(before);
        let (after, fence_closes) = strip_closing_fence(self.rest());
        let fenced = fence_opens || fence_closes;
        // Prose may contain brackets too, "[1]" for instance, so an array needs a fence to be
        // recognized.
        let found = value.is_object() || (value.is_array() && fenced);
        if fenced && found {
            self.note(FENCE);
        }
        match (before, after) {
            ("", "") => {}
            ("", ",") if found => self.note(TRAILING_COMMA),
            _ if found && is_prose(before) && is_prose(after) => self.note(DROPPED),
            (_, "") => return Err(self.error(0, "unexpected text before the JSON")),
            _ => {
                let found = after.chars().next().unwrap_or('`');
                return Err(self.unexpected(&format!("'{found}' after the end of the JSON")));
            }
        }
        Ok(())
    }

    fn value(&mut self) -> Result<Value, JsonError> {
        match self.peek() {
            None => Err(self.incomplete()),
            Some('{') => self.object(),
            Some('[') => self.array(),
            Some('0'..='9' | '-' | '+' | '.') => self.number(),
            Some(c) if is_quote(c) => self.string().map(Value::String),
            Some(c) if is_word(c) => self.word(),
            Some(c) => Err(self.unexpected(&format!("'{c}' where a value belongs"))),
        }
    }

    fn object(&mut self) -> Result<Value, JsonError> {
        self.enter("object")?;
        let mut members = Map::new();
        self.blanks()?;
        while !self.leave('}') {
            let began = self.at;
            let (key, value) = self.member()?;
            match members.get(&key) {
                None => {
                    members.insert(key, value);
                }
                Some(earlier) if *earlier == value => self.note(REPEATED_KEY),
                Some(_) => {
                    let message = format!("the key {key:?} appears twice with different values");
                    return Err(self.error(began, &message));
                }
            }
            self.after_item('}')?;
        }
        Ok(Value::Object(members))
    }

    fn array(&mut self) -> Result<Value, JsonError> {
        self.enter("array")?;
        let mut items = Vec::new();
        self.blanks()?;
        while !self.leave(']') {
            items.push(self.value()?);
            self.after_item(']')?;
        }
        Ok(Value::Array(items))
    }

    fn member(&mut self) -> Result<(String, Value), JsonError> {
        let key = self.key()?;
        self.blanks()?;
        match self.bump() {
            Some(':') => {}
            None => return Err(self.incomplete()),
            Some(c) => {
                self.at -= c.len_utf8();
                return Err(self.unexpected(&format!("'{c}' where ':' belongs")));
            }
        }
        self.blanks()?;
        Ok((key, self.value()?))
    }

    fn key(&mut self) -> Result<String, JsonError> {
        match self.peek() {
            None => Err(self.incomplete()),
            Some(c) if is_quote(c) => self.string(),
            Some(c) if is_word(c) => {
                self.note(UNQUOTED_KEYS);
                let key = self.take_while(|c| is_word(c) || c.is_alphanumeric() || c == '-');
                Ok(key.to_owned())
            }
            Some(c) => Err(self.unexpected(&format!("'{c}' where a key belongs"))),
        }
    }

    /// Parses the comma between items, and stops at `close` or at the next item.
    fn after_item(&mut self, close: char) -> Result<(), JsonError> {
        let item_end = self.at;
        self.blanks()?;
        match self.peek() {
            None => return Err(self.incomplete()),
            Some(c) if c == close => return Ok(()),
            Some(',') => self.at += 1,
            Some(next) if self.misses_comma(item_end, next, close) => self.note(MISSING_COMMA),
            Some(c) => {
                return Err(self.unexpected(&format!("'{c}' where ',' or '{close}' belongs")));
            }
        }
        self.blanks()?;
        if self.peek() == Some(close) {
            self.note(TRAILING_COMMA);
        }
        Ok(())
    }

    /// Returns true if a comma is missing here. A quote that touches the item before it is more
    /// likely an unescaped quote inside a string, and two adjacent strings in an array are one
    /// string in Python and C.
    fn misses_comma(&self, item_end: usize, next: char, close: char) -> bool {
        match close {
            '}' => is_quote(next) && self.at > item_end,
            _ => next == '{' && self.text.get(..item_end).is_some_and(|text| text.ends_with('}')),
        }
    }

    fn number(&mut self) -> Result<Value, JsonError> {
        let began = self.at;
        let token = self.take_while(|c| c.is_alphanumeric() || matches!(c, '+' | '-' | '.' | '_'));
        let digits = match token.strip_prefix('+') {
            Some(digits) if digits.starts_with(|c: char| c.is_ascii_digit()) => {
                self.note(PLUS);
                digits
            }
            _ => token,
        };
        match serde_json::from_str::<Number>(digits) {
            Ok(number) => Ok(Value::Number(number)),
            Err(_) if self.ends_inside() => Err(self.incomplete()),
            Err(_) => Err(self.not_a_value(began, token, "is not a JSON number")),
        }
    }

    fn word(&mut self) -> Result<Value, JsonError> {
        let began = self.at;
        let word = self.take_while(|c| is_word(c) || c.is_alphanumeric());
        let value = match word {
            "true" | "True" => Value::Bool(true),
            "false" | "False" => Value::Bool(false),
            "null" | "None" => Value::Null,
            _ if self.ends_inside() => return Err(self.incomplete()),
            _ => return Err(self.not_a_value(began, word, "is not JSON: a string needs quotes")),
        };
        if word.starts_with(char::is_uppercase) {
            self.note(PYTHON);
        }
        Ok(value)
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.open.push(OpenItem { what: "string", at: self.at });
        let opening = self.bump().and_then(quote);
        match opening {
            Some(Quote::Single) => self.note(SINGLE_QUOTES),
            Some(Quote::CurlyDouble | Quote::CurlySingle) => self.note(TYPOGRAPHIC),
            Some(Quote::Double) | None => {}
        }
        let mut content = String::new();
        loop {
            match self.bump() {
                None => return Err(self.incomplete()),
                Some('\\') => self.escape(opening, &mut content)?,
                Some(c) if is_quote(c) && quote(c) == opening => break,
                Some(c) => {
                    if c < ' ' {
                        self.note(CONTROL);
                    }
                    content.push(c);
                }
            }
        }
        self.open.pop();
        Ok(content)
    }

    fn escape(&mut self, opening: Option<Quote>, content: &mut String) -> Result<(), JsonError> {
        let plain = match self.bump() {
            None => return Err(self.incomplete()),
            Some('u') => return self.unicode_escape(content),
            Some(c @ ('"' | '\\' | '/')) => c,
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some(c) if is_quote(c) && quote(c) == opening => c,
            Some(c) => {
                // Not consumed: the string parser continues with it and so notices raw control
                // characters too.
                self.at -= c.len_utf8();
                self.note(BACKSLASH);
                '\\'
            }
        };
        content.push(plain);
        Ok(())
    }

    fn unicode_escape(&mut self, content: &mut String) -> Result<(), JsonError> {
        let began = self.at - 2;
        let Some(first) = self.four_hex_digits()? else {
            self.note(BACKSLASH);
            content.push_str("\\u");
            return Ok(());
        };
        let mut units = vec![first];
        if (0xD800..0xDC00).contains(&first) {
            units.extend(self.second_half()?);
        }
        match char::decode_utf16(units).next() {
            Some(Ok(c)) => content.push(c),
            _ => return Err(self.error(began, "a \\u escape holds only half of a character")),
        }
        Ok(())
    }

    /// The second unit of a surrogate pair, if a `\uXXXX` follows.
    fn second_half(&mut self) -> Result<Option<u16>, JsonError> {
        for expected in ['\\', 'u'] {
            match self.bump() {
                None => return Err(self.incomplete()),
                Some(c) if c == expected => {}
                Some(_) => return Ok(None),
            }
        }
        self.four_hex_digits()
    }

    /// Returns `None` and consumes nothing if no four digits follow.
    fn four_hex_digits(&mut self) -> Result<Option<u16>, JsonError> {
        let began = self.at;
        let mut unit = 0;
        for _ in 0..4 {
            match self.bump().map(|c| c.to_digit(16)) {
                None => return Err(self.incomplete()),
                Some(Some(digit)) => unit = unit * 16 + digit,
                Some(None) => {
                    self.at = began;
                    return Ok(None);
                }
            }
        }
        Ok(u16::try_from(unit).ok())
    }

    fn blanks(&mut self) -> Result<(), JsonError> {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' | '\r' => self.at += 1,
                c if c.is_whitespace() || c == '\u{feff}' => {
                    self.note(SPACES);
                    self.at += c.len_utf8();
                }
                '/' | '#' if self.comment()? => {}
                _ => break,
            }
        }
        Ok(())
    }

    /// Skips a comment and returns true if there was one. Text that touches a closing quote is not
    /// a comment: it is more likely the rest of a string with an unescaped quote, and must not be
    /// dropped.
    fn comment(&mut self) -> Result<bool, JsonError> {
        let (before, rest) = self.text.split_at(self.at);
        let length = if before.ends_with(is_quote) {
            None
        } else if rest.starts_with('#') || rest.starts_with("//") {
            rest.find('\n').or(Some(rest.len()))
        } else if let Some(body) = rest.strip_prefix("/*") {
            self.open.push(OpenItem { what: "comment", at: self.at });
            let length = body.find("*/").ok_or_else(|| self.incomplete())?;
            self.open.pop();
            Some(length + "/**/".len())
        } else if rest == "/" && !self.open.is_empty() {
            return Err(self.incomplete());
        } else {
            None
        };
        if let Some(length) = length {
            self.note(COMMENTS);
            self.at += length;
        }
        Ok(length.is_some())
    }

    fn enter(&mut self, what: &'static str) -> Result<(), JsonError> {
        if self.open.len() == MAX_DEPTH {
            return Err(self.error(self.at, "nested deeper than 128 levels"));
        }
        self.open.push(OpenItem { what, at: self.at });
        self.at += 1;
        Ok(())
    }

    fn leave(&mut self, close: char) -> bool {
        let here = self.peek() == Some(close);
        if here {
            self.open.pop();
            self.at += 1;
        }
        here
    }

    fn note(&mut self, repair: &'static str) {
        if !self.repairs.contains(&repair) {
            self.repairs.push(repair);
        }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).expect("the parser steps over whole characters")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let (taken, _) = rest.split_at(rest.find(|c| !belongs(c)).unwrap_or(rest.len()));
        self.at += taken.len();
        taken
    }

    /// True at the end of the text with an open item: the last token may be incomplete.
    fn ends_inside(&self) -> bool {
        self.rest().is_empty() && !self.open.is_empty()
    }

    fn incomplete(&self) -> JsonError {
        let Some(opened) = self.open.last() else {
            return self.error(self.text.len(), "the text contains no JSON");
        };
        let JsonError { line, column, .. } = self.error(opened.at, "");
        let what = opened.what;
        let message =
            format!("the JSON ends inside the {what} that began at line {line}, column {column}");
        JsonError { is_incomplete: true, ..self.error(self.text.len(), &message) }
    }

    fn not_a_value(&self, began: usize, token: &str, why: &str) -> JsonError {
        let bare = token.trim_start_matches(['+', '-']).to_ascii_lowercase();
        if matches!(bare.as_str(), "nan" | "inf" | "infinity") {
            return self
                .error(began, &format!("{token} has no form in JSON; write null or a string"));
        }
        let shown: String = token.chars().take(40).collect();
        self.error(began, &format!("{shown} {why}"))
    }

    fn unexpected(&self, what: &str) -> JsonError {
        self.error(self.at, &format!("unexpected {what}"))
    }

    fn error(&self, at: usize, message: &str) -> JsonError {
        let before = self.text.get(..at).unwrap_or(self.text);
        let last_line = before.rsplit('\n').next().unwrap_or_default();
        JsonError {
            message: message.to_owned(),
            line: before.matches('\n').count() + 1,
            column: last_line.chars().count() + 1,
            is_incomplete: false,
        }
    }
}

fn strip_opening_fence(before: &str) -> (&str, bool) {
    let before = before.trim();
    let ticks = before.trim_end_matches(char::is_alphanumeric);
    if ticks.ends_with("```") || before.ends_with('`') {
        (ticks.trim_end_matches('`').trim_end(), true)
    } else {
        (before, false)
    }
}

fn strip_closing_fence(after: &str) -> (&str, bool) {
    let after = after.trim();
    (after.trim_start_matches('`').trim_start(), after.starts_with('`'))
}

/// Returns false for text that may be data: brackets of a second value, members without their outer
/// braces, as in `"key": {…}`, `a: 1, b: {…}` or `a={…}`, and the continuation of a list or an
/// object.
fn is_prose(text: &str) -> bool {
    let members = text.contains(['"', '=']) || text.matches(':').count() > 1;
    !members && !text.contains(['{', '}', '[', ']']) && !text.starts_with([',', ':'])
}

fn is_word(c: char) -> bool {
    c.is_alphabetic() || c == '_' || c == '$'
}

fn is_quote(c: char) -> bool {
    quote(c).is_some()
}

fn quote(c: char) -> Option<Quote> {
    match c {
        '"' => Some(Quote::Double),
        '\'' => Some(Quote::Single),
        '“' | '”' | '„' | '‟' => Some(Quote::CurlyDouble),
        '‘' | '’' | '‚' | '‛' => Some(Quote::CurlySingle),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, value: Value, repairs: &[&str]) {
        let repairs = repairs.iter().map(|&repair| repair.to_owned()).collect();
        assert_eq!(parse(text), Ok(ParsedJson { value, repairs }), "{text}");
    }

    #[track_caller]
    fn check_broken(text: &str, message: &str, (line, column): (usize, usize)) {
        let error = parse(text).expect_err(text);
        let expected =
            JsonError { message: message.to_owned(), line, column, is_incomplete: false };
        assert_eq!(error, expected, "{text}");
    }

    #[track_caller]
    fn check_incomplete(text: &str, message: &str) {
        let error = parse(text).expect_err(text);
        assert_eq!((error.message.as_str(), error.is_incomplete), (message, true), "{text}");
    }

    #[test]
    fn strict_json_needs_no_repair() {
        check(r#"{"a": [1, "x", null]}"#, json!({"a": [1, "x", null]}), &[]);
        check(r#"{"a": 1, "a": 2}"#, json!({"a": 2}), &[]);
        check(r#""{} is text""#, json!("{} is text"), &[]);
        check(&format!("{}{}", "[".repeat(128), "]".repeat(128)), nested(128), &[]);
    }

    #[test]
    fn each_repair_is_named_once() {
        check(" \n", json!({}), &[EMPTY]);
        check(r#"{"a": [1, 2,], "b": 3,}"#, json!({"a": [1, 2], "b": 3}), &[TRAILING_COMMA]);
        check(r#"{"a": 1},"#, json!({"a": 1}), &[TRAILING_COMMA]);
        check(r#"{"a": 1 "b": 2}"#, json!({"a": 1, "b": 2}), &[MISSING_COMMA]);
        check(r#"[{"a": 1} {"a": 2}]"#, json!([{"a": 1}, {"a": 2}]), &[MISSING_COMMA]);
        check(r#"{'it\'s': 'a "b"'}"#, json!({"it's": "a \"b\""}), &[SINGLE_QUOTES]);
        check("{“a”: ‘b’, „c“: 1}", json!({"a": "b", "c": 1}), &[TYPOGRAPHIC]);
        check("{a: 1, content-type: 2}", json!({"a": 1, "content-type": 2}), &[UNQUOTED_KEYS]);
        check(r#"{"a": True, "b": None}"#, json!({"a": true, "b": null}), &[PYTHON]);
        check("{\"a\": \"x\n\ty\"}", json!({"a": "x\n\ty"}), &[CONTROL]);
        check("{ // one\n \"a\": /* two */ 1 # three\n}", json!({"a": 1}), &[COMMENTS]);
        check(r#"{"a": "\d+\.\w C:\Users"}"#, json!({"a": "\\d+\\.\\w C:\\Users"}), &[BACKSLASH]);
        check(
            r#"{"a": "C:\users", "b": "\u00e9\d"}"#,
            json!({"a": "C:\\users", "b": "é\\d"}),
            &[BACKSLASH],
        );
        check(r#"{"a": +1.5}"#, json!({"a": 1.5}), &[PLUS]);
        check("\u{feff}{\"a\":\u{a0}1}", json!({"a": 1}), &[SPACES]);
        check(r#"{"a": 1, 'a': 1}"#, json!({"a": 1}), &[SINGLE_QUOTES, REPEATED_KEY]);
    }

    #[test]
    fn fences_and_prose_are_dropped() {
        check("```json\n{\"a\": 1}\n```", json!({"a": 1}), &[FENCE]);
        check("```\n[1, 2]\n```\n", json!([1, 2]), &[FENCE]);
        check("`{\"a\": 1}`", json!({"a": 1}), &[FENCE]);
        check(
            "Sure, here's it:\n```json\n{\"a\": 1}\n```\nDone.",
            json!({"a": 1}),
            &[FENCE, DROPPED],
        );
        check("I call it with {'a': 1}.", json!({"a": 1}), &[SINGLE_QUOTES, DROPPED]);
        check("search({\"a\": 1})", json!({"a": 1}), &[DROPPED]);
    }

    #[test]
    fn double_encoding_is_unwrapped_once() {
        check(r#""{\"a\": 1}""#, json!({"a": 1}), &[TWICE]);
        check(r#""[1]""#, json!([1]), &[TWICE]);
        check(r#"'{"a": 1,}'"#, json!({"a": 1}), &[SINGLE_QUOTES, TWICE, TRAILING_COMMA]);
        check(r#""\"{}\"""#, json!("\"{}\""), &[]);
        check(r#""[a-z]+""#, json!("[a-z]+"), &[]);
    }

    #[test]
    fn what_could_lose_data_is_refused() {
        let twice = "the key \"a\" appears twice with different values";
        check_broken("{\"a\": 1,\n é: 2, 'a': 3}", twice, (2, 8));
        check_broken(r#"{"a": 1} {"b": 2}"#, "unexpected '{' after the end of the JSON", (1, 10));
        check_broken(r#"{"a": 1}}"#, "unexpected '}' after the end of the JSON", (1, 9));
        check_broken(r#"{"a": 1}, b: 2"#, "unexpected ',' after the end of the JSON", (1, 9));
        check_broken(r#"x, "opts": {"a": 1}"#, "unexpected text before the JSON", (1, 1));
        check_broken(r#"a: 1, b: {"c": 1}"#, "unexpected text before the JSON", (1, 1));
        check_broken("see [1] there", "unexpected 't' after the end of the JSON", (1, 9));
        check_broken(
            r#"{"a": "say "hi" now"}"#,
            "unexpected 'h' where ',' or '}' belongs",
            (1, 13),
        );
        check_broken(r#"{"a": "x"//y"}"#, "unexpected '/' where ',' or '}' belongs", (1, 10));
        check_broken(r#"["a" "b",]"#, "unexpected '\"' where ',' or ']' belongs", (1, 6));
        check_broken("[1,,2]", "unexpected ',' where a value belongs", (1, 4));
        check_broken(r#"{"a": [1}"#, "unexpected '}' where ',' or ']' belongs", (1, 9));
        check_broken(r#"{"a" 1,}"#, "unexpected '1' where ':' belongs", (1, 6));
        check_broken("{1: 2}", "unexpected '1' where a key belongs", (1, 2));
    }

    #[test]
    fn invalid_values_are_named() {
        check_broken("hello", "hello is not JSON: a string needs quotes", (1, 1));
        check_broken("{a: b}", "b is not JSON: a string needs quotes", (1, 5));
        check_broken("[.5]", ".5 is not a JSON number", (1, 2));
        check_broken("[1.]", "1. is not a JSON number", (1, 2));
        check_broken("[007]", "007 is not a JSON number", (1, 2));
        check_broken("[+-1]", "+-1 is not a JSON number", (1, 2));
        check_broken("[NaN]", "NaN has no form in JSON; write null or a string", (1, 2));
        check_broken(
            "[-Infinity]",
            "-Infinity has no form in JSON; write null or a string",
            (1, 2),
        );
        check_broken(r#"["\ud83d!"]"#, "a \\u escape holds only half of a character", (1, 3));
        check_broken(r#"["\ud83dé"]"#, "a \\u escape holds only half of a character", (1, 3));
        check_broken(r#"["\ude00"]"#, "a \\u escape holds only half of a character", (1, 3));
        check_broken("// nothing", "the text contains no JSON", (1, 11));
    }

    #[test]
    fn incomplete_text_is_never_completed() {
        let inside = |what, column| {
            format!("the JSON ends inside the {what} that began at line 1, column {column}")
        };
        check_incomplete(r#"{"path": "a", "b"#, &inside("string", 15));
        check_incomplete(r#"{"a": 1"#, &inside("object", 1));
        check_incomplete(r#"{"a": 1,"#, &inside("object", 1));
        check_incomplete(r#"{"a": [1, tr"#, &inside("array", 7));
        check_incomplete(r#"{"a": "\ud83d\u"#, &inside("string", 7));
        check_incomplete(r#"{"a": 1} /* b"#, &inside("comment", 10));
        check_incomplete("Here you go: {'a': {'b': 1}", &inside("object", 14));
    }

    #[test]
    fn depth_is_bounded() {
        let deep = "nested deeper than 128 levels";
        check_broken(&"[".repeat(50_000_000), deep, (1, 129));
        check_broken(&"{a:".repeat(1_000_000), deep, (1, 385));
        check_broken(&format!("{}{}", "[".repeat(129), "]".repeat(129)), deep, (1, 129));
    }

    fn nested(depth: usize) -> Value {
        (1..depth).fold(json!([]), |inner, _| json!([inner]))
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            // Eighths print exactly: serde_json may miss the last bit of other floats.
            any::<i32>().prop_map(|eighths| Value::from(f64::from(eighths) / 8.0)),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::hash_map(any::<String>(), inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// Any value inside an object, as in the arguments of a call.
    fn any_object() -> impl Strategy<Value = Value> {
        any_value().prop_map(|value| json!({"key": value, "": [1, true]}))
    }

    #[derive(Debug, Clone, Copy)]
    struct Style {
        quote: char,
        gap: &'static str,
        comma_after_last: bool,
        python: bool,
        fenced: bool,
    }

    fn any_style() -> impl Strategy<Value = Style> {
        let gaps = prop::sample::select(vec!["", " ", "\n", " // it's {\n", "/* [\" */", " # '\n"]);
        let flags = any::<(bool, bool, bool)>();
        (prop::sample::select(vec!['"', '\'']), gaps, flags).prop_map(|(quote, gap, flags)| {
            let (comma_after_last, python, fenced) = flags;
            Style { quote, gap, comma_after_last, python, fenced }
        })
    }

    impl Style {
        fn document(self, value: &Value) -> String {
            let mut text = String::new();
            self.print(value, &mut text);
            if self.fenced { format!("```json\n{text}\n```") } else { text }
        }

        fn print(self, value: &Value, out: &mut String) {
            match value {
                Value::Null if self.python => out.push_str("None"),
                Value::Bool(yes) if self.python => {
                    out.push_str(if *yes { "True" } else { "False" })
                }
                Value::String(text) => self.print_string(text, out),
                Value::Array(items) => self.print_list(items.iter(), "[]", out, |item, out| {
                    self.print(item, out);
                }),
                Value::Object(members) => {
                    self.print_list(members.iter(), "{}", out, |(key, value), out| {
                        self.print_string(key, out);
                        out.push(':');
                        self.print(value, out);
                    });
                }
                plain => out.push_str(&plain.to_string()),
            }
        }

        fn print_list<T>(
            self,
            items: impl ExactSizeIterator<Item = T>,
            brackets: &str,
            out: &mut String,
            print: impl Fn(T, &mut String),
        ) {
            let (open, close) = brackets.split_at(1);
            let last = items.len().wrapping_sub(1);
            // Spaces first: a comment must not touch a closing quote.
            let gap = format!(" {}", self.gap);
            out.push_str(&format!("{open}{gap}"));
            for (idx, item) in items.enumerate() {
                print(item, out);
                out.push_str(&gap);
                if idx != last || self.comma_after_last {
                    out.push_str(&format!(",{gap}"));
                }
            }
            out.push_str(close);
        }

        /// Escapes only what would end the string; control characters stay raw.
        fn print_string(self, text: &str, out: &mut String) {
            out.push(self.quote);
            for c in text.chars() {
                if c == '\\' || c == self.quote {
                    out.push('\\');
                }
                out.push(c);
            }
            out.push(self.quote);
        }
    }

    proptest! {
        #[test]
        fn printed_json_comes_back_unrepaired(value in any_value(), pretty: bool) {
            // A string alone might contain JSON.
            let value = if value.is_string() { json!([value]) } else { value };
            let text = if pretty { format!("{value:#}") } else { value.to_string() };
            prop_assert_eq!(parse(&text), Ok(ParsedJson { value, repairs: vec![] }));
        }

        #[test]
        fn mangled_json_comes_back_equal(value in any_object(), style in any_style()) {
            let text = style.document(&value);
            prop_assert_eq!(parse(&text).map(|parsed| parsed.value), Ok(value), "{}", text);
        }

        #[test]
        fn prefixes_of_objects_are_incomplete(value in any_object(), style in any_style(), strict: bool) {
            let style = Style { fenced: false, ..style };
            let text = if strict { value.to_string() } else { style.document(&value) };
            for (end, _) in text.char_indices().skip(1) {
                let (prefix, _) = text.split_at(end);
                let is_incomplete = parse(prefix).map_err(|error| error.is_incomplete);
                prop_assert_eq!(is_incomplete, Err(true), "{}", prefix);
            }
        }

        #[test]
        fn nothing_panics(text: String, scraps in r#"([\[\]{}:,"'\\/*#`u0d8e+.\n“é ]|True|\\ud8){0,40}"#) {
            for text in [text, scraps] {
                if let Err(error) = parse(&text) {
                    prop_assert!(error.line > 0 && error.column > 0 && !error.message.is_empty());
                }
            }
        }
    }
}
