//! Writes a page as markdown or plain text: headings, lists, tables, code with its language, links
//! with absolute addresses. Hidden content is left out; metadata of the page is returned
//! separately.

mod inline;
mod lists;
mod tables;
#[cfg(test)]
mod tests;

use std::cell::Cell;

use url::Url;

use super::{
    article::{self, TextLengths},
    html::{HtmlPage, NodeId, NodeKind, Tag},
};

/// The format to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageStyle {
    Markdown,
    Plain,
}

/// The text and metadata of a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PageText {
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) language: String,
    pub(crate) published: String,
    pub(crate) body: String,
    /// True if menus and similar parts were left out.
    pub(crate) is_part: bool,
}

/// Reads a page from this address.
pub(crate) fn read(html: &str, address: &Url, style: PageStyle) -> PageText {
    let page = HtmlPage::parse(html);
    let lengths = TextLengths::of(&page);
    let main = article::main_part(&page, &lengths);
    let base = base(&page, address);
    let mut writer = PageWriter::new(&page, &base, style, html.len());
    writer.outer_heading(main);
    writer.blocks(main);
    let has_left_out = writer.has_left_out.get() || lengths.text(main) < lengths.text(NodeId::ROOT);
    let body = writer.out.finish();
    PageText {
        title: title(&page),
        description: meta(&page, &["description", "og:description"]),
        language: page.attribute(NodeId::ROOT, "lang").unwrap_or_default().trim().to_owned(),
        published: meta(&page, &["article:published_time", "date", "dc.date"]),
        is_part: has_left_out,
        body,
    }
}

/// Returns the base of relative addresses on the page.
fn base(page: &HtmlPage, address: &Url) -> Url {
    let href = page.first(Tag::Base).and_then(|base| page.attribute(base, "href"));
    let named = href.and_then(|href| address.join(href.trim()).ok());
    named.filter(|base| base.as_str().len() <= MAX_ADDRESS_BYTES).unwrap_or_else(|| address.clone())
}

fn title(page: &HtmlPage) -> String {
    let title = page.first(Tag::Title).map(|title| one_line(&page.text(title))).unwrap_or_default();
    match title.is_empty() {
        true => meta(page, &["og:title"]),
        false => title,
    }
}

fn meta(page: &HtmlPage, names: &[&str]) -> String {
    let is_named = |id: &NodeId, name: &str| {
        let own = page.attribute(*id, "name").or_else(|| page.attribute(*id, "property"));
        page.tag(*id) == Some(Tag::Meta) && own.is_some_and(|own| own.eq_ignore_ascii_case(name))
    };
    // Metadata is at the beginning; a page of megabytes is not searched to its end for each name.
    let found = names.iter().find_map(|name| page.ids().take(2_000).find(|id| is_named(id, name)));
    found.and_then(|id| page.attribute(id, "content")).map(one_line).unwrap_or_default()
}

/// Replaces line breaks and other white space by single spaces, and removes control characters.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        // The bytes of ASCII control characters, and the first byte of the others in UTF-8.
        match word.bytes().any(|byte| matches!(byte, 0..=0x1f | 0x7f | 0xc2)) {
            true => line.extend(word.chars().filter(|c| !c.is_control())),
            false => line.push_str(word),
        }
    }
    line
}

/// Maximum total size of all written addresses, if the page is not longer.
const MIN_ADDRESS_BUDGET: usize = 1 << 20;
/// Maximum size of an address.
const MAX_ADDRESS_BYTES: usize = 4 << 10;

/// Maximum depth of nested quotations and lists that is shown.
const MAX_MARGIN_DEPTH: usize = 10;

/// The prefix of lines inside a quotation or a list item.
struct Margin {
    /// Prefix of the first line: the mark of the item.
    first: String,
    rest: String,
    is_begun: bool,
}

/// The text written so far.
#[derive(Default)]
struct TextOutput {
    text: String,
    margins: Vec<Margin>,
    /// True if a blank line goes before the next block.
    wants_gap: bool,
}

impl TextOutput {
    /// Writes a block of lines. With `is_tight` there is no blank line before it.
    fn block(&mut self, block: &str, is_tight: bool) {
        if self.wants_gap && !is_tight && !self.text.is_empty() {
            self.blank();
        }
        for line in block.split('\n') {
            let begin = self.text.len();
            for margin in &mut self.margins {
                self.text.push_str(if margin.is_begun { &margin.rest } else { &margin.first });
                margin.is_begun = true;
            }
            self.text.push_str(line);
            let trimmed = self.text.trim_end_matches([' ', '\t']).len();
            self.text.truncate(trimmed.max(begin));
            self.text.push('\n');
        }
        self.wants_gap = true;
    }

    fn blank(&mut self) {
        let begin = self.text.len();
        for margin in self.margins.iter().filter(|margin| margin.is_begun) {
            self.text.push_str(&margin.rest);
        }
        let trimmed = self.text.trim_end_matches(' ').len();
        self.text.truncate(trimmed.max(begin));
        self.text.push('\n');
    }

    /// Begins a quotation or list item. Beyond [`MAX_MARGIN_DEPTH`] the margin does not grow:
    /// otherwise a page of many nested lists would be mostly margin.
    fn within(&mut self, first: &str, rest: &str) {
        let (first, rest) =
            if self.margins.len() < MAX_MARGIN_DEPTH { (first, rest) } else { ("", "") };
        self.margins.push(Margin {
            first: first.to_owned(),
            rest: rest.to_owned(),
            is_begun: false,
        });
    }

    fn leave(&mut self) {
        self.margins.pop();
    }

    fn finish(mut self) -> String {
        let length = self.text.trim_end().len();
        self.text.truncate(length);
        self.text
    }
}

/// Walks a page and writes it.
struct PageWriter<'p> {
    page: &'p HtmlPage,
    base: &'p Url,
    style: PageStyle,
    out: TextOutput,
    /// True if the next block follows without a blank line.
    is_tight: bool,
    /// The link target of the next block as a whole.
    leads_to: Option<String>,
    has_left_out: Cell<bool>,
    /// Remaining size of addresses; when it is used up, links become plain text.
    addresses_left: Cell<usize>,
}

impl<'p> PageWriter<'p> {
    fn new(page: &'p HtmlPage, base: &'p Url, style: PageStyle, length: usize) -> Self {
        Self {
            page,
            base,
            style,
            out: TextOutput::default(),
            is_tight: false,
            leads_to: None,
            has_left_out: Cell::new(false),
            addresses_left: Cell::new(length.max(MIN_ADDRESS_BUDGET)),
        }
    }

    fn is_plain(&self) -> bool {
        self.style == PageStyle::Plain
    }

    /// Writes the only top heading of the page if it is outside of the main part.
    fn outer_heading(&mut self, main: NodeId) {
        let page = self.page;
        let headings = page.ids().filter(|id| page.tag(*id) == Some(Tag::H1));
        let mut all = headings.take(2).collect::<Vec<_>>().into_iter();
        if let (Some(only), None) = (all.next(), all.next())
            && !std::iter::successors(Some(only), |id| page.parent(*id)).any(|id| id == main)
            && !std::iter::successors(Some(only), |id| page.parent(*id))
                .any(|id| page.tag(id).is_some_and(|tag| article::is_never_shown(page, id, tag)))
        {
            self.heading(only, 1);
        }
    }

    /// Writes the content of a node: blocks, and lines between them.
    fn blocks(&mut self, top: NodeId) {
        let mut line = String::new();
        for child in self.page.children(top) {
            match self.page.kind(child) {
                NodeKind::Text(text) => self.words(text, &mut line),
                NodeKind::Element(tag) if self.is_left_out(child, tag) => {}
                NodeKind::Element(tag) if tag.is_block() || self.has_blocks(child, tag) => {
                    self.paragraph(&mut line);
                    self.block(child, tag);
                }
                NodeKind::Element(tag) => self.inline(child, tag, &mut line),
            }
        }
        self.paragraph(&mut line);
    }

    /// Writes a node that is misplaced directly in a list or a table.
    fn stray(&mut self, id: NodeId) {
        let mut line = String::new();
        match self.page.kind(id) {
            NodeKind::Text(text) => self.words(text, &mut line),
            NodeKind::Element(tag) if self.is_left_out(id, tag) => {}
            NodeKind::Element(tag) if tag.is_block() || self.has_blocks(id, tag) => {
                self.block(id, tag)
            }
            NodeKind::Element(tag) => self.inline(id, tag, &mut line),
        }
        self.paragraph(&mut line);
    }

    fn is_left_out(&self, id: NodeId, tag: Tag) -> bool {
        if article::is_never_shown(self.page, id, tag) {
            return true;
        }
        let is_surrounding = article::is_surrounding(self.page, id, tag);
        self.has_left_out.set(self.has_left_out.get() || is_surrounding);
        is_surrounding
    }

    /// Returns the text as a link if it is the first line of a block that links as a whole.
    fn leading(&mut self, text: String) -> String {
        match self.leads_to.take_if(|_| !text.contains("](") && !text.contains('\n')) {
            Some(address) => format!("[{text}]({address})"),
            None => text,
        }
    }

    /// Returns true if an inline element contains blocks: a link around a card, a span around a
    /// table.
    fn has_blocks(&self, id: NodeId, tag: Tag) -> bool {
        let may = matches!(
            tag,
            Tag::A
                | Tag::Span
                | Tag::Other
                | Tag::Font
                | Tag::Ins
                | Tag::Del
                | Tag::Object
                | Tag::Noscript
                | Tag::Label
                | Tag::B
                | Tag::Strong
                | Tag::Em
                | Tag::I
                | Tag::Small
        );
        may && self.page.children(id).any(|child| {
            self.page.tag(child).is_some_and(|tag| tag.is_block() || self.has_blocks(child, tag))
        })
    }

    fn paragraph(&mut self, line: &mut String) {
        let text = line.trim_matches([' ', '\n', '\\']);
        if !text.is_empty() {
            let text = if self.is_plain() { text.to_owned() } else { inline::guarded(text) };
            // The line may be all of a large page; free it before the text is copied again.
            *line = String::new();
            let text = self.leading(text);
            let is_tight = std::mem::take(&mut self.is_tight);
            self.out.block(&text, is_tight);
        }
        line.clear();
    }

    fn block(&mut self, id: NodeId, tag: Tag) {
        match tag {
            Tag::Ul | Tag::Ol | Tag::Menu | Tag::Dir => self.list(id, tag),
            Tag::Dl => self.definitions(id),
            Tag::Pre | Tag::Xmp => self.code(id),
            Tag::Blockquote => {
                self.out.within(
                    if self.is_plain() { "  " } else { "> " },
                    if self.is_plain() { "  " } else { "> " },
                );
                self.blocks(id);
                self.out.leave();
            }
            Tag::Table => self.table(id),
            Tag::Hr => self.out.block(if self.is_plain() { "" } else { "---" }, false),
            Tag::Frame => self.frame(id),
            Tag::Summary | Tag::Legend | Tag::Caption => self.emphasised(id),
            Tag::A => {
                let href = self.page.attribute(id, "href").unwrap_or_default().trim();
                self.leads_to = self.whole(href).filter(|_| !self.is_plain());
                self.blocks(id);
                self.leads_to = None;
            }
            _ => match tag.heading() {
                Some(depth) => self.heading(id, depth),
                None => self.blocks(id),
            },
        }
    }

    fn heading(&mut self, id: NodeId, depth: usize) {
        let mut line = String::new();
        self.inlines(id, &mut line);
        let text = one_line(&line.replace("\\\n", " "));
        let text = text.trim();
        if !text.is_empty() {
            let marks = if self.is_plain() { String::new() } else { "#".repeat(depth) + " " };
            let text = self.leading(text.to_owned());
            self.is_tight = false;
            self.out.block(&format!("{marks}{text}"), false);
        }
    }

    fn emphasised(&mut self, id: NodeId) {
        let mut line = String::new();
        self.inlines(id, &mut line);
        let text = one_line(&line);
        if !text.is_empty() {
            let text =
                if self.is_plain() || text.contains("**") { text } else { format!("**{text}**") };
            self.out.block(&text, false);
        }
    }

    fn frame(&mut self, id: NodeId) {
        let mut line = String::new();
        self.embedded(id, "frame", &mut line);
        self.paragraph(&mut line);
    }

    fn code(&mut self, id: NodeId) {
        let mut text = String::new();
        self.raw(id, &mut text);
        let text = text.strip_prefix('\n').unwrap_or(&text).trim_end();
        if text.trim().is_empty() {
            return;
        }
        self.is_tight = false;
        if self.is_plain() {
            self.out.block(text, false);
            return;
        }
        let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        let language = self.language(id).unwrap_or_default();
        self.out.block(&format!("{fence}{language}\n{text}\n{fence}"), false);
    }

    /// Collects code unchanged, without the line numbers that some pages add.
    fn raw(&self, id: NodeId, text: &mut String) {
        for child in self.page.children(id) {
            match self.page.kind(child) {
                NodeKind::Text(piece) => text.push_str(&piece.replace('\r', "")),
                NodeKind::Element(Tag::Br) => text.push('\n'),
                NodeKind::Element(tag) if article::is_never_shown(self.page, child, tag) => {}
                NodeKind::Element(_) if is_line_number(self.page, child) => {}
                NodeKind::Element(tag) => {
                    self.raw(child, text);
                    let is_line = matches!(tag, Tag::Div | Tag::P | Tag::Li | Tag::Tr);
                    if is_line && !text.ends_with('\n') {
                        text.push('\n');
                    }
                }
            }
        }
    }

    /// Returns the language of a code block, from the various attributes and classes in use.
    fn language(&self, id: NodeId) -> Option<String> {
        let inner = self.page.children(id).filter(|child| self.page.tag(*child) == Some(Tag::Code));
        let around =
            std::iter::successors(self.page.parent(id), |id| self.page.parent(*id)).take(2);
        let places: Vec<NodeId> = [id].into_iter().chain(inner).chain(around).collect();
        let by_name = |place: &NodeId| {
            let named = ["data-lang", "data-language"]
                .iter()
                .find_map(|name| self.page.attribute(*place, name));
            named.map(str::to_owned)
        };
        let by_class = |place: &NodeId| {
            language_in(
                self.page.attribute(*place, "class")?,
                self.page.tag(*place) != Some(Tag::Pre) && self.page.tag(*place) != Some(Tag::Code),
            )
        };
        let found = places.iter().find_map(|place| by_name(place).or_else(|| by_class(place)))?;
        let is_name =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '#' | '_' | '.');
        (!found.is_empty() && found.len() <= 20 && found.chars().all(is_name))
            .then(|| found.to_ascii_lowercase())
    }
}

pub(super) fn is_line_number(page: &HtmlPage, id: NodeId) -> bool {
    let names = [
        "lineno",
        "linenos",
        "line-numbers-rows",
        "gutter",
        "line-number",
        "rouge-gutter",
        "blob-num",
        "linenumber",
    ];
    page.attribute(id, "class")
        .is_some_and(|class| class.split_whitespace().any(|word| names.contains(&word)))
}

/// Returns the language from a class: `language-rust`, `lang-rust`, `highlight-source-rust`,
/// `brush: rust`, `hljs rust`, `sourceCode rust`.
fn language_in(class: &str, is_around: bool) -> Option<String> {
    let words: Vec<&str> =
        class.split([' ', ';', '\t', '\n']).filter(|word| !word.is_empty()).collect();
    let prefixed = |word: &&str| {
        let prefixes: &[&str] = match is_around {
            true => &["language-", "highlight-source-", "highlight-"],
            false => &["language-", "lang-", "highlight-source-", "brush:"],
        };
        prefixes.iter().find_map(|prefix| word.strip_prefix(prefix)).map(str::to_owned)
    };
    if let Some(found) = words.iter().find_map(prefixed).filter(|found| !found.is_empty()) {
        return Some(found);
    }
    let follows = |mark: &str| {
        let at = words.iter().position(|word| *word == mark)?;
        words.get(at + 1).map(|word| (*word).to_owned())
    };
    ["brush:", "hljs", "sourceCode", "prettyprint"]
        .into_iter()
        .find_map(follows)
        .filter(|word| !["linenums", "copy", "hljs"].contains(&word.as_str()))
}
