//! A page as markdown, or as plain text: headings, lists, tables, code with its language, links made whole. What is never
//! shown is left out; what a page says about itself stands in front.

mod inline;
mod lists;
mod tables;
#[cfg(test)]
mod tests;

use std::cell::Cell;

use url::Url;

use super::{
    article::{self, Lengths},
    html::{Id, Kind, Page, Tag},
};

/// What a page becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Markdown,
    Plain,
}

/// A page, read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) language: String,
    pub(crate) published: String,
    pub(crate) body: String,
    /// Menus and the like were left out.
    pub(crate) is_part: bool,
}

/// Reads a page that was found at this address.
pub(crate) fn read(html: &str, address: &Url, style: Style) -> Read {
    let page = Page::parse(html);
    let lengths = Lengths::of(&page);
    let main = article::main_part(&page, &lengths);
    let base = base(&page, address);
    let mut writer = Writer::new(&page, &base, style, html.len());
    writer.heading_of_its_own(main);
    writer.blocks(main);
    let has_left_out = writer.has_left_out.get() || lengths.text(main) < lengths.text(Id::ROOT);
    let body = writer.out.finish();
    Read {
        title: title(&page),
        description: meta(&page, &["description", "og:description"]),
        language: page.attribute(Id::ROOT, "lang").unwrap_or_default().trim().to_owned(),
        published: meta(&page, &["article:published_time", "date", "dc.date"]),
        is_part: has_left_out,
        body,
    }
}

/// Addresses on the page are relative to this.
fn base(page: &Page, address: &Url) -> Url {
    let href = page.first(Tag::Base).and_then(|base| page.attribute(base, "href"));
    let named = href.and_then(|href| address.join(href.trim()).ok());
    named.filter(|base| base.as_str().len() <= LONGEST_ADDRESS).unwrap_or_else(|| address.clone())
}

fn title(page: &Page) -> String {
    let title = page.first(Tag::Title).map(|title| one_line(&page.text(title))).unwrap_or_default();
    match title.is_empty() {
        true => meta(page, &["og:title"]),
        false => title,
    }
}

fn meta(page: &Page, names: &[&str]) -> String {
    let is_named = |id: &Id, name: &str| {
        let own = page.attribute(*id, "name").or_else(|| page.attribute(*id, "property"));
        page.tag(*id) == Some(Tag::Meta) && own.is_some_and(|own| own.eq_ignore_ascii_case(name))
    };
    // They stand at the beginning; a page of megabytes is not searched to its end for each.
    let found = names.iter().find_map(|name| page.ids().take(2_000).find(|id| is_named(id, name)));
    found.and_then(|id| page.attribute(id, "content")).map(one_line).unwrap_or_default()
}

/// Without line breaks and other gaps.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        // The bytes of control characters, and the one that begins the rest of them.
        match word.bytes().any(|byte| matches!(byte, 0..=0x1f | 0x7f | 0xc2)) {
            true => line.extend(word.chars().filter(|c| !c.is_control())),
            false => line.push_str(word),
        }
    }
    line
}

/// All addresses of a page together may be as long as the page, or this.
const ADDRESSES: usize = 1 << 20;
/// A longer one leads nowhere that people have made.
const LONGEST_ADDRESS: usize = 4 << 10;

/// So many quotations and lists in each other are shown as such.
const DEEPEST_MARGIN: usize = 10;

/// What a line begins with inside a quotation or a list item.
struct Margin {
    /// Before its first line: the mark of the item.
    first: String,
    rest: String,
    is_begun: bool,
}

/// The text so far, line by line.
#[derive(Default)]
struct Out {
    text: String,
    margins: Vec<Margin>,
    /// A gap goes before what comes next.
    wants_gap: bool,
}

impl Out {
    /// One block of lines. `is_tight`: no gap to what stands before.
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

    /// Deeper than [`DEEPEST_MARGIN`] the margin stays as it is: a page of nothing but open lists would be mostly margin.
    fn within(&mut self, first: &str, rest: &str) {
        let (first, rest) =
            if self.margins.len() < DEEPEST_MARGIN { (first, rest) } else { ("", "") };
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

/// Goes through a page and writes it down.
struct Writer<'p> {
    page: &'p Page,
    base: &'p Url,
    style: Style,
    out: Out,
    /// The next block belongs to what stands before it.
    is_tight: bool,
    /// Where the next block leads as a whole.
    leads_to: Option<String>,
    has_left_out: Cell<bool>,
    /// So many bytes of addresses may still be written; what leads somewhere then is only its words.
    addresses_left: Cell<usize>,
}

impl<'p> Writer<'p> {
    fn new(page: &'p Page, base: &'p Url, style: Style, length: usize) -> Self {
        Self {
            page,
            base,
            style,
            out: Out::default(),
            is_tight: false,
            leads_to: None,
            has_left_out: Cell::new(false),
            addresses_left: Cell::new(length.max(ADDRESSES)),
        }
    }

    fn is_plain(&self) -> bool {
        self.style == Style::Plain
    }

    /// A heading that stands outside of the main part belongs to it, if that has none.
    fn heading_of_its_own(&mut self, main: Id) {
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

    /// What lies below a node: blocks, and lines between them.
    fn blocks(&mut self, top: Id) {
        let mut line = String::new();
        for child in self.page.children(top) {
            match self.page.kind(child) {
                Kind::Text(text) => self.words(text, &mut line),
                Kind::Element(tag) if self.is_left_out(child, tag) => {}
                Kind::Element(tag) if tag.is_block() || self.has_blocks(child, tag) => {
                    self.paragraph(&mut line);
                    self.block(child, tag);
                }
                Kind::Element(tag) => self.inline(child, tag, &mut line),
            }
        }
        self.paragraph(&mut line);
    }

    /// What stands where it should not, directly in a list or a table: it is read all the same.
    fn stray(&mut self, id: Id) {
        let mut line = String::new();
        match self.page.kind(id) {
            Kind::Text(text) => self.words(text, &mut line),
            Kind::Element(tag) if self.is_left_out(id, tag) => {}
            Kind::Element(tag) if tag.is_block() || self.has_blocks(id, tag) => self.block(id, tag),
            Kind::Element(tag) => self.inline(id, tag, &mut line),
        }
        self.paragraph(&mut line);
    }

    fn is_left_out(&self, id: Id, tag: Tag) -> bool {
        if article::is_never_shown(self.page, id, tag) {
            return true;
        }
        let is_surrounding = article::is_surrounding(self.page, id, tag);
        self.has_left_out.set(self.has_left_out.get() || is_surrounding);
        is_surrounding
    }

    /// The words as a link, if the block leads somewhere as a whole and this is its first line.
    fn leading(&mut self, text: String) -> String {
        match self.leads_to.take_if(|_| !text.contains("](") && !text.contains('\n')) {
            Some(address) => format!("[{text}]({address})"),
            None => text,
        }
    }

    /// Whether a thing that stands in a line has blocks in it all the same: a link around a card, a span around a table.
    fn has_blocks(&self, id: Id, tag: Tag) -> bool {
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
            // A line may be all of a large page; it is not kept beside its copies.
            *line = String::new();
            let text = self.leading(text);
            let is_tight = std::mem::take(&mut self.is_tight);
            self.out.block(&text, is_tight);
        }
        line.clear();
    }

    fn block(&mut self, id: Id, tag: Tag) {
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

    fn heading(&mut self, id: Id, depth: usize) {
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

    fn emphasised(&mut self, id: Id) {
        let mut line = String::new();
        self.inlines(id, &mut line);
        let text = one_line(&line);
        if !text.is_empty() {
            let text =
                if self.is_plain() || text.contains("**") { text } else { format!("**{text}**") };
            self.out.block(&text, false);
        }
    }

    fn frame(&mut self, id: Id) {
        let mut line = String::new();
        self.embedded(id, "frame", &mut line);
        self.paragraph(&mut line);
    }

    fn code(&mut self, id: Id) {
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

    /// The letters as they are, without the numbers that some pages put before lines.
    fn raw(&self, id: Id, text: &mut String) {
        for child in self.page.children(id) {
            match self.page.kind(child) {
                Kind::Text(piece) => text.push_str(&piece.replace('\r', "")),
                Kind::Element(Tag::Br) => text.push('\n'),
                Kind::Element(tag) if article::is_never_shown(self.page, child, tag) => {}
                Kind::Element(_) if is_line_number(self.page, child) => {}
                Kind::Element(tag) => {
                    self.raw(child, text);
                    let is_line = matches!(tag, Tag::Div | Tag::P | Tag::Li | Tag::Tr);
                    if is_line && !text.ends_with('\n') {
                        text.push('\n');
                    }
                }
            }
        }
    }

    /// What a block of code is written in, as the many ways to say so have it.
    fn language(&self, id: Id) -> Option<String> {
        let inner = self.page.children(id).filter(|child| self.page.tag(*child) == Some(Tag::Code));
        let around =
            std::iter::successors(self.page.parent(id), |id| self.page.parent(*id)).take(2);
        let places: Vec<Id> = [id].into_iter().chain(inner).chain(around).collect();
        let by_name = |place: &Id| {
            let named = ["data-lang", "data-language"]
                .iter()
                .find_map(|name| self.page.attribute(*place, name));
            named.map(str::to_owned)
        };
        let by_class = |place: &Id| {
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

pub(super) fn is_line_number(page: &Page, id: Id) -> bool {
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

/// `language-rust`, `lang-rust`, `highlight-source-rust`, `brush: rust`, `hljs rust`, `sourceCode rust`.
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
