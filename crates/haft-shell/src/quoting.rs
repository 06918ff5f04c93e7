//! Parses words as bash does: quotes, escapes, expansions and the commands inside them.

use std::rc::Rc;

use super::{
    parse::{ParseProblem, ShellParser},
    syntax::{Arithmetic, Expansion, Quoting, StatementList, SyntaxWord, WordPart},
};

/// Splits `name=value`. The last value is true when the name has an index.
pub(super) fn assigned(word: &SyntaxWord) -> Option<(String, SyntaxWord, bool)> {
    let [WordPart::Literal { text, is_quoted: false }, rest @ ..] = word.parts.as_slice() else {
        return None;
    };
    let value = |text: &str, rest: &[WordPart]| {
        let mut parts = vec![WordPart::Literal { text: text.to_owned(), is_quoted: false }];
        parts.extend_from_slice(rest);
        SyntaxWord { parts, source: word.source.clone(), start: word.start }
    };
    if let Some((name, first)) = text.split_once('=') {
        let name = name.strip_suffix('+').unwrap_or(name);
        return is_name(name).then(|| (name.to_owned(), value(first, rest), false));
    }
    // `name[0]=value` with a plain index. Any other index is treated as a pattern in command
    // position.
    let [WordPart::Glob('['), WordPart::Literal { text: index, is_quoted: false }, rest @ ..] =
        rest
    else {
        return None;
    };
    let (index, first) = index.split_once("]=").or_else(|| index.split_once("]+="))?;
    let is_plain = index.bytes().all(|byte| byte.is_ascii_digit());
    (is_name(text) && is_plain).then(|| (text.clone(), value(first, rest), true))
}

pub(super) fn is_name(text: &str) -> bool {
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts_well && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

pub(super) fn is_unquoted_number(word: &SyntaxWord) -> bool {
    match word.parts.as_slice() {
        [WordPart::Literal { text, is_quoted: false }] => {
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
        }
        _ => false,
    }
}

pub(super) fn quoted_word(text: &str, start: usize) -> SyntaxWord {
    let parts = vec![WordPart::Literal { text: text.to_owned(), is_quoted: true }];
    SyntaxWord { parts, source: text.to_owned(), start }
}

impl ShellParser<'_> {
    /// Parses the word that begins here, if there is one.
    pub(super) fn word(&mut self) -> Result<Option<SyntaxWord>, ParseProblem> {
        let start = self.at;
        let mut word = SyntaxWord { parts: Vec::new(), source: String::new(), start };
        while let Some(byte) = self.peek() {
            match byte {
                b'<' | b'>' if self.ahead(1) == Some(b'(') => {
                    self.at += 2;
                    let list = self.substitution()?;
                    word.expand(
                        Expansion { lists: vec![list], ..Expansion::default() },
                        Quoting::Quoted,
                    );
                }
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')' => break,
                b'\\' => self.escape(&mut word),
                b'\'' => self.single_quotes(&mut word)?,
                b'"' => {
                    self.at += 1;
                    self.double_quotes(&mut word)?;
                }
                b'$' => self.dollar(&mut word, Quoting::Bare)?,
                b'`' => self.backtick(&mut word, Quoting::Bare)?,
                b'*' | b'?' | b'[' => {
                    self.at += 1;
                    if self.peek() == Some(b'(') {
                        return Err("an extended pattern");
                    }
                    word.parts.push(WordPart::Glob(byte.into()));
                }
                b'{' | b',' | b'}' => {
                    self.at += 1;
                    word.parts.push(WordPart::Brace(byte.into()));
                }
                b'~' if self.at == start => {
                    self.at += 1;
                    word.parts.push(WordPart::Tilde);
                }
                _ => self.plain(&mut word),
            }
        }
        if self.at == start {
            return Ok(None);
        }
        word.source = self.source(start);
        Ok(Some(word))
    }

    /// Parses the text of a here-document: like double quotes, except that quotes are literal.
    pub(super) fn expanding_text(&mut self) -> Result<SyntaxWord, ParseProblem> {
        let start = self.at;
        let mut word = SyntaxWord { parts: Vec::new(), source: String::new(), start };
        while let Some(byte) = self.peek() {
            self.inside_double_quotes(byte, &mut word)?;
        }
        word.source = self.source(start);
        Ok(word)
    }

    fn plain(&mut self, word: &mut SyntaxWord) {
        let rest = self.text.get(self.at..self.end).unwrap_or_default();
        let special = |c: char| " \t\n;&|<>()'\"\\$`*?[{,}".contains(c);
        let length = rest.find(special).unwrap_or(rest.len()).max(1);
        let length =
            (length..=rest.len()).find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
        word.literal_text(rest.get(..length).unwrap_or_default(), false);
        self.at += length;
    }

    /// `\x` is x; an escaped line end is removed.
    fn escape(&mut self, word: &mut SyntaxWord) {
        self.at += 1;
        let rest = self.text.get(self.at..self.end).unwrap_or_default();
        match rest.chars().next() {
            Some('\n') => self.at += 1,
            Some(escaped) => {
                self.at += escaped.len_utf8();
                word.literal_text(escaped.encode_utf8(&mut [0; 4]), true);
            }
            None => word.literal_text("\\", true),
        }
    }

    fn single_quotes(&mut self, word: &mut SyntaxWord) -> Result<(), ParseProblem> {
        self.at += 1;
        let rest = self.text.get(self.at..self.end).unwrap_or_default();
        let length = rest.find('\'').ok_or("a quote is not closed")?;
        word.literal_text(rest.get(..length).unwrap_or_default(), true);
        self.at += length + 1;
        Ok(())
    }

    fn double_quotes(&mut self, word: &mut SyntaxWord) -> Result<(), ParseProblem> {
        word.literal_text("", true);
        loop {
            match self.peek().ok_or("a quote is not closed")? {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' if self.ahead(1) == Some(b'"') => {
                    word.literal_text("\"", true);
                    self.at += 2;
                }
                byte => self.inside_double_quotes(byte, word)?,
            }
        }
    }

    fn inside_double_quotes(
        &mut self,
        byte: u8,
        word: &mut SyntaxWord,
    ) -> Result<(), ParseProblem> {
        match byte {
            b'\\' => match self.ahead(1) {
                Some(b'\n') => self.at += 2,
                Some(escaped @ (b'$' | b'`' | b'\\')) => {
                    word.literal_text(char::from(escaped).encode_utf8(&mut [0; 4]), true);
                    self.at += 2;
                }
                _ => {
                    word.literal_text("\\", true);
                    self.at += 1;
                }
            },
            b'$' => self.dollar(word, Quoting::Quoted)?,
            b'`' => self.backtick(word, Quoting::Quoted)?,
            b'"' => {
                word.literal_text("\"", true);
                self.at += 1;
            }
            _ => {
                let rest = self.text.get(self.at..self.end).unwrap_or_default();
                let length = rest.find(['\\', '$', '`', '"']).unwrap_or(rest.len());
                word.literal_text(rest.get(..length).unwrap_or_default(), true);
                self.at += length;
            }
        }
        Ok(())
    }

    fn dollar(&mut self, word: &mut SyntaxWord, quoting: Quoting) -> Result<(), ParseProblem> {
        let bare = quoting == Quoting::Bare;
        match self.ahead(1) {
            Some(b'(') if self.ahead(2) == Some(b'(') => {
                self.at += 3;
                let arithmetic = vec![self.arithmetic("))")?];
                word.expand(
                    Expansion { arithmetic, is_number: true, ..Expansion::default() },
                    quoting,
                );
            }
            Some(b'(') => {
                self.at += 2;
                let list = self.substitution()?;
                word.expand(Expansion { lists: vec![list], ..Expansion::default() }, quoting);
            }
            Some(b'{') => {
                self.at += 2;
                let expansion = self.deeper(|parser| parser.parameter(quoting))?;
                word.expand(expansion, quoting);
            }
            Some(b'[') => return Err("obsolete `$[…]` arithmetic"),
            Some(b'\'') if bare => {
                self.at += 2;
                self.ansi_quotes(word)?;
            }
            Some(b'"') if bare => return Err("a translated string in `$` quotes"),
            Some(b'\\') if self.ahead(2) == Some(b'\n') => {
                return Err("a `$` at the end of a line");
            }
            _ => self.variable(word, quoting),
        }
        Ok(())
    }

    fn variable(&mut self, word: &mut SyntaxWord, quoting: Quoting) {
        self.at += 1;
        let rest = self.text.get(self.at..self.end).unwrap_or_default();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = match rest.chars().next() {
            Some(c) if c.is_ascii_digit() || "@*#?-$!".contains(c) => 1,
            Some(c) if is_part(c) => rest.find(|c: char| !is_part(c)).unwrap_or(rest.len()),
            _ => return word.literal_text("$", false),
        };
        let name = rest.get(..length).unwrap_or_default();
        self.at += length;
        let is_number = matches!(name, "#" | "?" | "$" | "!");
        let expansion =
            Expansion { is_number, variable: Some(name.to_owned()), ..Expansion::default() };
        word.expand(expansion, quoting);
    }

    /// Parses `${…}` after the brace.
    fn parameter(&mut self, quoting: Quoting) -> Result<Expansion, ParseProblem> {
        let mut expansion = Expansion::default();
        match self.peek() {
            Some(b' ' | b'\t' | b'\n' | b'|') => return Err("a command in `${ }`"),
            Some(b'!') if self.ahead(1) != Some(b'}') => {
                expansion.doubt = Some("a variable is named by another variable");
                self.at += 1;
            }
            Some(b'#') if self.ahead(1) != Some(b'}') => {
                expansion.is_number = true;
                self.at += 1;
            }
            _ => {}
        }
        let name = self.parameter_name()?;
        if self.eat("[") {
            expansion.arithmetic.push(self.arithmetic("]")?);
        }
        if self.eat("}") {
            if expansion.doubt.is_none() && expansion.arithmetic.is_empty() {
                expansion.variable = Some(name);
            }
            return Ok(expansion);
        }
        let is_assigning = self.looks_at("=") || self.looks_at(":=");
        if is_assigning && !expansion.arithmetic.is_empty() {
            expansion.list = Some(name.clone());
        }
        expansion.assigns = is_assigning.then_some(name);
        if self.looks_at("@") {
            expansion.doubt = Some("a variable's value is transformed");
        }
        let takes_word = matches!(self.ahead(1), Some(b'-' | b'=' | b'+' | b'?'));
        if self.peek() == Some(b':') && !takes_word {
            self.at += 1;
            expansion.arithmetic.push(self.arithmetic("}")?);
            return Ok(expansion);
        }
        let word = self.parameter_word(quoting)?;
        expansion.words.push(word);
        Ok(expansion)
    }

    fn parameter_name(&mut self) -> Result<String, ParseProblem> {
        let rest = self.text.get(self.at..self.end).unwrap_or_default();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = match rest.chars().next() {
            Some(c) if "@*#?-$!".contains(c) => 1,
            Some(c) if is_part(c) => rest.find(|c: char| !is_part(c)).unwrap_or(rest.len()),
            _ => return Err("an unsupported expansion"),
        };
        self.at += length;
        Ok(rest.get(..length).unwrap_or_default().to_owned())
    }

    /// Parses the text after the operator, up to the brace.
    fn parameter_word(&mut self, quoting: Quoting) -> Result<SyntaxWord, ParseProblem> {
        let start = self.at;
        let mut word = SyntaxWord { parts: Vec::new(), source: String::new(), start };
        loop {
            match self.peek().ok_or("an expansion is not closed")? {
                b'}' => {
                    word.source = self.source(start);
                    self.at += 1;
                    return Ok(word);
                }
                b'\\' => self.escape(&mut word),
                b'\'' if quoting == Quoting::Bare => self.single_quotes(&mut word)?,
                b'\'' => return Err("single quotes in an expansion in double quotes"),
                b'"' => {
                    self.at += 1;
                    self.double_quotes(&mut word)?;
                }
                b'$' => self.dollar(&mut word, quoting)?,
                b'`' => self.backtick(&mut word, quoting)?,
                b'<' | b'>' if self.ahead(1) == Some(b'(') => {
                    return Err("a process substitution in an expansion");
                }
                _ => {
                    let rest = self.text.get(self.at..self.end).unwrap_or_default();
                    let length = rest.chars().next().map_or(1, char::len_utf8);
                    word.literal_text(rest.get(..length).unwrap_or_default(), false);
                    self.at += length;
                }
            }
        }
    }

    /// The text between backticks is parsed as a separate text, after unescaping.
    fn backtick(&mut self, word: &mut SyntaxWord, quoting: Quoting) -> Result<(), ParseProblem> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        let rest = self.text.get(self.at..self.end).unwrap_or_default();
        let mut characters = rest.char_indices().peekable();
        let length = loop {
            let (index, c) = characters.next().ok_or("a backtick is not closed")?;
            let next = characters.peek().map(|(_, next)| *next);
            let is_escape = matches!(next, Some('`' | '\\' | '$'));
            match c {
                // Whether the backslash is removed depends on the context: quotes, a here-document,
                // an expansion.
                '\\' if next == Some('"') => return Err("an escaped quote in backticks"),
                '`' => break index,
                '\\' if is_escape => {
                    text.extend(next);
                    characters.next();
                }
                _ => text.push(c),
            }
        };
        self.at += length + 1;
        self.backticks.push((start, self.at));
        let list = self.deeper(|parser| parser.other_text(&text))?;
        word.expand(Expansion { lists: vec![list], ..Expansion::default() }, quoting);
        Ok(())
    }

    fn other_text(&mut self, text: &str) -> Result<StatementList, ParseProblem> {
        let mut inner = ShellParser::new(text, self.depth);
        inner.bodies = std::mem::take(&mut self.bodies);
        let mut list = StatementList::default();
        let result = inner.program(&mut list);
        self.bodies = inner.bodies;
        result.map(|()| list)
    }

    fn ansi_quotes(&mut self, word: &mut SyntaxWord) -> Result<(), ParseProblem> {
        let rest = self.text.get(self.at..self.end).unwrap_or_default();
        let (text, length) = super::ansi::decode(rest)?;
        word.literal_text(&text, true);
        self.at += length;
        Ok(())
    }

    /// Parses up to `close`, with balanced brackets of all kinds.
    pub(super) fn arithmetic_until(&mut self, close: &str) -> Result<Arithmetic, ParseProblem> {
        let mut found = Arithmetic::default();
        let mut word = SyntaxWord::default();
        let mut open = Vec::new();
        loop {
            if open.is_empty() && self.eat(close) {
                found.parts = word.parts;
                return Ok(found);
            }
            match self.peek().ok_or("arithmetic is not closed")? {
                b'$' => self.dollar(&mut word, Quoting::Quoted)?,
                b'`' => self.backtick(&mut word, Quoting::Quoted)?,
                b'"' => self.at += 1,
                b'\'' | b'\\' | b'{' | b';' if close != "))" => {
                    return Err("unsupported arithmetic");
                }
                b'\'' | b'\\' | b'{' => return Err("unsupported arithmetic"),
                bracket @ (b'(' | b'[') => {
                    open.push(if bracket == b'(' { b')' } else { b']' });
                    self.at += 1;
                }
                bracket @ (b')' | b']' | b'}') => {
                    if open.pop() != Some(bracket) {
                        return Err("it is ambiguous whether this is arithmetic");
                    }
                    self.at += 1;
                }
                b'#' if close == "))" => return Err("unsupported arithmetic"),
                byte if byte.is_ascii_alphanumeric() || byte == b'_' => self.operand(&mut found),
                _ => self.at += 1,
            }
        }
    }

    fn operand(&mut self, found: &mut Arithmetic) {
        let rest = self.text.get(self.at..self.end).unwrap_or_default();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let name = rest.get(..length).unwrap_or_default();
        self.at += length;
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            return;
        }
        let after = rest.get(length..).unwrap_or_default().trim_start();
        if after.starts_with('[') {
            found.lists.push(name.to_owned());
        }
        let is_set = after.starts_with('=') && !after.starts_with("==");
        if is_set {
            found.assigned.push(name.to_owned());
        } else {
            found.names.push(name.to_owned());
        }
    }
}

impl SyntaxWord {
    pub(super) fn literal_text(&mut self, more: &str, quoted: bool) {
        match self.parts.last_mut() {
            Some(WordPart::Literal { text, is_quoted }) if *is_quoted == quoted => {
                text.push_str(more)
            }
            _ => self.parts.push(WordPart::Literal { text: more.to_owned(), is_quoted: quoted }),
        }
    }

    fn expand(&mut self, expansion: Expansion, quoting: Quoting) {
        self.parts.push(WordPart::Expansion(Rc::new(expansion), quoting));
    }
}
