//! Inline content: words, links, images, code, emphasis.

use super::{
    super::html::{NodeId, NodeKind, Tag},
    MAX_ADDRESS_BYTES, PageWriter, one_line,
};

/// Texts of links that point to their own heading.
const ANCHORS: [&str; 6] = ["#", "\u{b6}", "\u{a7}", "\u{1f517}", "link", "permalink"];

impl PageWriter<'_> {
    /// Writes all descendants of a node as one line; blocks become line breaks.
    pub(super) fn inlines(&self, top: NodeId, line: &mut String) {
        for child in self.page.children(top) {
            match self.page.kind(child) {
                NodeKind::Text(text) => self.words(text, line),
                NodeKind::Element(tag) if self.is_left_out(child, tag) => {}
                NodeKind::Element(tag) => {
                    if tag.is_block() {
                        self.line_break(line);
                    }
                    self.inline(child, tag, line);
                    if tag.is_block() {
                        self.line_break(line);
                    }
                }
            }
        }
    }

    /// Writes text with its white space collapsed.
    pub(super) fn words(&self, text: &str, line: &mut String) {
        let mut rest = text;
        while !rest.is_empty() {
            // Only these bytes are white space in HTML; other spaces are kept.
            let is_gap = |byte: u8| byte.is_ascii_whitespace();
            let word_end = rest.bytes().position(is_gap).unwrap_or(rest.len());
            let (word, after) = rest.split_at(word_end);
            if is_harmless(word) {
                line.push_str(word);
            } else if self.is_plain() {
                line.extend(word.chars().filter(|c| !is_invisible(*c)).map(plain_space));
            } else {
                escape(word, line);
            }
            let trimmed = after.trim_ascii_start();
            if trimmed.len() < after.len() {
                gap(line);
            }
            rest = trimmed;
        }
    }

    pub(super) fn inline(&self, id: NodeId, tag: Tag, line: &mut String) {
        match tag {
            Tag::Br => line.push_str(self.hard_break()),
            Tag::Img => self.picture(id, line),
            Tag::A => self.link(id, line),
            Tag::Code | Tag::Kbd | Tag::Samp | Tag::Tt => self.code_in_line(id, line),
            Tag::Strong | Tag::B => self.marked("**", id, line),
            Tag::Em | Tag::I | Tag::Cite | Tag::Var | Tag::Dfn => self.marked("*", id, line),
            Tag::Del | Tag::S | Tag::Strike => self.marked("~~", id, line),
            Tag::Sup | Tag::Sub => self.raised(id, tag, line),
            Tag::Q => {
                line.push('"');
                self.inlines(id, line);
                line.push('"');
            }
            Tag::Rt => {
                line.push('(');
                self.inlines(id, line);
                line.push(')');
            }
            Tag::Iframe | Tag::Embed | Tag::Frame => self.embedded(id, "frame", line),
            Tag::Video => self.embedded(id, "video", line),
            Tag::Audio => self.embedded(id, "audio", line),
            Tag::Math => self.formula(id, line),
            Tag::Input => self.field(id, line),
            Tag::Svg | Tag::Rp | Tag::Title => {}
            _ => self.inlines(id, line),
        }
    }

    fn hard_break(&self) -> &'static str {
        if self.is_plain() { "\n" } else { "\\\n" }
    }

    /// Writes a line break where a block begins or ends inside a line.
    fn line_break(&self, line: &mut String) {
        let written = line.trim_end_matches(' ').len();
        line.truncate(written);
        if !line.is_empty() && !line.ends_with('\n') {
            line.push_str(self.hard_break());
        }
    }

    fn marked(&self, mark: &str, id: NodeId, line: &mut String) {
        let mut inner = String::new();
        self.inlines(id, &mut inner);
        let text = inner.trim();
        // Without text, with the same mark inside, or over several lines, marks would be wrong.
        if self.is_plain() || text.is_empty() || text.contains(mark) || text.contains("\\\n") {
            line.push_str(&inner);
            return;
        }
        if inner.starts_with(' ') {
            gap(line);
        }
        // Two adjacent marks would form another one.
        if line.ends_with('*') && mark.starts_with('*') && !line.ends_with("\\*") {
            line.push_str(text);
        } else {
            line.push_str(&format!("{mark}{text}{mark}"));
        }
        if inner.ends_with(' ') {
            gap(line);
        }
    }

    fn raised(&self, id: NodeId, tag: Tag, line: &mut String) {
        let mut inner = String::new();
        self.inlines(id, &mut inner);
        let name = if tag == Tag::Sup { "sup" } else { "sub" };
        match (self.is_plain(), inner.trim()) {
            (_, "") => {}
            (true, text) => {
                line.push_str(&format!("{}{text}", if tag == Tag::Sup { "^" } else { "_" }))
            }
            (false, text) if text.starts_with('[') => line.push_str(text),
            (false, text) => line.push_str(&format!("<{name}>{text}</{name}>")),
        }
    }

    fn code_in_line(&self, id: NodeId, line: &mut String) {
        let text = one_line(&self.page.text(id));
        if self.is_plain() {
            line.push_str(&text);
        } else if !text.is_empty() {
            let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
            let fence = "`".repeat(longest + 1);
            let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
            line.push_str(&format!("{fence}{space}{text}{space}{fence}"));
        }
    }

    fn link(&self, id: NodeId, line: &mut String) {
        let mut inner = String::new();
        self.inlines(id, &mut inner);
        let text = one_line(&inner.replace("\\\n", " "));
        let href = self.page.attribute(id, "href").unwrap_or_default().trim();
        if href.starts_with('#') && ANCHORS.contains(&text.to_lowercase().as_str()) {
            return;
        }
        if inner.starts_with(char::is_whitespace) {
            gap(line);
        }
        match self.whole(href).filter(|_| !self.is_plain() && !text.is_empty()) {
            Some(address) => line.push_str(&format!("[{}]({address})", bracketed(&text))),
            None => line.push_str(&text),
        }
        if inner.ends_with(char::is_whitespace) {
            gap(line);
        }
    }

    fn picture(&self, id: NodeId, line: &mut String) {
        let has = |name: &str| self.page.attribute(id, name).map(str::trim).unwrap_or_default();
        let alt = one_line(has("alt"));
        let is_speck = |name: &str| matches!(has(name), "0" | "1" | "0px" | "1px");
        if is_speck("width") || is_speck("height") {
            return;
        }
        let own = has("src");
        let source = if own.is_empty() || own.starts_with("data:") { has("data-src") } else { own };
        let address = self.whole(source).filter(|_| !self.is_plain());
        match (address, alt.as_str()) {
            (Some(address), alt) => line.push_str(&format!("![{}]({address})", bracketed(alt))),
            (None, "") => {}
            (None, alt) => line.push_str(&format!("[image: {alt}]")),
        }
    }

    /// Writes a link to embedded content.
    pub(super) fn embedded(&self, id: NodeId, what: &str, line: &mut String) {
        let has = |id: NodeId, name: &str| {
            self.page.attribute(id, name).filter(|value| !value.is_empty())
        };
        let sources =
            self.page.children(id).filter(|child| self.page.tag(*child) == Some(Tag::Source));
        let source = [id].into_iter().chain(sources).find_map(|id| has(id, "src"));
        let Some(address) = source.and_then(|source| self.whole(source)) else { return };
        let name = has(id, "title").or_else(|| has(id, "name")).map(one_line).unwrap_or_default();
        let text = if name.is_empty() { what.to_owned() } else { format!("{what}: {name}") };
        gap(line);
        match self.is_plain() {
            true => line.push_str(&format!("{text} {address}")),
            false => line.push_str(&format!("[{}]({address})", bracketed(&text))),
        }
        gap(line);
    }

    /// Writes a formula as TeX if the page has it.
    fn formula(&self, id: NodeId, line: &mut String) {
        let is_tex = |child: &NodeId| {
            self.page.attribute(*child, "encoding").is_some_and(|it| it.contains("tex"))
        };
        match self.page.below(id).find(is_tex) {
            Some(tex) => line.push_str(&format!("${}$", one_line(&self.page.text(tex)))),
            None => line.push_str(&one_line(&self.page.text(id))),
        }
    }

    fn field(&self, id: NodeId, line: &mut String) {
        if self.page.attribute(id, "type") == Some("checkbox") {
            let is_checked = self.page.attribute(id, "checked").is_some();
            line.push_str(if is_checked { "[x] " } else { "[ ] " });
        }
    }

    /// Returns an absolute address. `None` for an invalid or useless one, or when the budget for
    /// addresses is used up.
    pub(super) fn whole(&self, href: &str) -> Option<String> {
        if href.is_empty() || href.starts_with('#') {
            return None;
        }
        // A page with a long base address may link to it a hundred thousand times.
        let cost = self.base.as_str().len() + href.len();
        if cost > 2 * MAX_ADDRESS_BYTES {
            return None;
        }
        let left = self.addresses_left.get().checked_sub(cost)?;
        self.addresses_left.set(left);
        let address = self.base.join(href).ok()?;
        let is_useful = matches!(address.scheme(), "http" | "https" | "mailto" | "ftp" | "tel");
        let address = is_useful.then(|| String::from(address))?;
        Some(match address.contains(['(', ')']) {
            true => address.replace('(', "%28").replace(')', "%29"),
            false => address,
        })
    }
}

/// Adds a space, unless the line is empty or has one.
pub(super) fn gap(line: &mut String) {
    if !line.is_empty() && !line.ends_with([' ', '\n']) {
        line.push(' ');
    }
}

fn bracketed(text: &str) -> String {
    // An image in a link keeps its brackets.
    if text.contains("](") { text.to_owned() } else { text.replace('[', "\\[").replace(']', "\\]") }
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}' | '\u{feff}') || (c.is_control() && c != '\n' && c != '\t')
}

fn plain_space(c: char) -> char {
    if c == '\u{a0}' { ' ' } else { c }
}

/// Returns true if a word can be copied unchanged: no byte of it can be markup or begin an
/// invisible character.
fn is_harmless(word: &str) -> bool {
    let may_matter = |byte: u8| {
        matches!(byte, b'*' | b'`' | b'_' | b'<' | b'\\' | 0..=0x1f | 0x7f | 0xc2 | 0xe2 | 0xef)
    };
    !word.bytes().any(may_matter)
}

/// Writes a word with markup characters escaped.
fn escape(word: &str, line: &mut String) {
    let mut before = line.chars().next_back().unwrap_or(' ');
    let mut letters = word.chars().peekable();
    while let Some(letter) = letters.next() {
        if is_invisible(letter) {
            continue;
        }
        let next = letters.peek().copied().unwrap_or(' ');
        let is_mark = match letter {
            '*' | '`' => true,
            '_' => !(before.is_alphanumeric() && next.is_alphanumeric()),
            '<' => next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?'),
            '\\' => next.is_ascii_punctuation(),
            _ => false,
        };
        if is_mark {
            line.push('\\');
        }
        line.push(plain_space(letter));
        before = letter;
    }
}

/// Escapes lines that would be read as headings, lists, quotations or rules.
pub(super) fn guarded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            out.push('\n');
        }
        let line = line.trim_start();
        let first = line.chars().next().unwrap_or(' ');
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        let after = line.get(digits..).unwrap_or_default();
        let is_item = |rest: &str| rest.is_empty() || rest.starts_with(' ');
        if digits > 0 && digits < 10 && (after.starts_with(". ") || after.starts_with(") ")) {
            let (number, mark) = line.split_at(digits);
            out.push_str(number);
            out.push('\\');
            out.push_str(mark);
            continue;
        }
        let rest = line.get(first.len_utf8()..).unwrap_or_default();
        let is_taken = match first {
            '#' => is_item(rest.trim_start_matches('#')),
            '>' => true,
            '-' | '+' => is_item(rest) || line.chars().all(|c| c == first),
            '=' => line.chars().all(|c| c == '='),
            '~' => line.starts_with("~~~"),
            _ => false,
        };
        if is_taken {
            out.push('\\');
        }
        out.push_str(line);
    }
    out
}
