//! HTML as a tree, leniently: whatever a page is made of becomes one, in time and memory that grow with its length alone.
//! Our own instead of html5ever, with which a page of 5 MB takes 100 ms and dom_smoothie's article 600 ms here; what is
//! nested wrongly is put right by simpler rules than a browser's, which is enough to read it.

mod entities;
mod tag;
mod tokens;

use std::borrow::Cow;

use self::tokens::{Token, Tokens, Written};
pub(crate) use self::{entities::decoded, tag::Tag};

/// Deeper than this nothing is nested: what would be lies beside. Who reads the tree may go down on the stack.
pub(crate) const DEEPEST: usize = 200;

/// Pages of 5 MB that people read have fewer, at 28 bytes each. From there on only the words count, in one piece.
const MOST_NODES: usize = 700_000;
/// From there on they are passed over.
const MOST_ATTRIBUTES: usize = 300_000;

/// A place in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id(u32);

impl Id {
    pub(crate) const ROOT: Self = Self(0);
    const NONE: Self = Self(u32::MAX);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    fn some(self) -> Option<Self> {
        (self != Self::NONE).then_some(self)
    }
}

#[derive(Debug)]
pub(crate) enum Kind<'a> {
    Element(Tag),
    Text(Cow<'a, str>),
}

/// What a node is, without what is in it: there may be hundreds of thousands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Element(Tag),
    Text(Written),
    /// All the rest of the page, marks and words.
    Rest,
}

#[derive(Debug)]
struct Node {
    parent: Id,
    first: Id,
    last: Id,
    next: Id,
    /// Where its attributes are among all, or where its text is on the page.
    range: (u32, u32),
    shape: Shape,
}

/// An attribute that somebody may ask for.
#[derive(Debug)]
pub(crate) struct Attribute<'a> {
    pub(crate) name: &'static str,
    pub(crate) value: Cow<'a, str>,
}

/// A page.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    source: &'a str,
    nodes: Vec<Node>,
    attributes: Vec<Attribute<'a>>,
}

impl<'a> Page<'a> {
    pub(crate) fn parse(text: &'a str) -> Self {
        let nodes = Vec::with_capacity(text.len() / 40);
        let mut page = Self { source: text, nodes, attributes: Vec::new() };
        page.push(Id::NONE, Shape::Element(Tag::Html), (0, 0));
        let mut builder = Builder { page, open: vec![(Id::ROOT, Tag::Html)], paragraphs: 0 };
        let mut tokens = Tokens::new(text);
        while builder.page.nodes.len() < MOST_NODES {
            let Some(token) = tokens.next(&mut builder.page.attributes) else {
                return builder.page;
            };
            match token {
                Token::Start { tag, attributes, is_closed } => {
                    builder.start(tag, attributes, is_closed)
                }
                Token::End(tag) => builder.end(tag),
                Token::Text(text, written) => builder.text(text, Shape::Text(written)),
            }
        }
        builder.text(text.get(tokens.at()..).unwrap_or_default(), Shape::Rest);
        builder.page
    }

    fn push(&mut self, parent: Id, shape: Shape, range: (u32, u32)) -> Id {
        let id = Id(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX - 1));
        let none = Id::NONE;
        self.nodes.push(Node { shape, parent, first: none, last: none, next: none, range });
        if let Some(parent) = parent.some() {
            let before = std::mem::replace(&mut self.nodes[parent.index()].last, id);
            match before.some() {
                Some(before) => self.nodes[before.index()].next = id,
                None => self.nodes[parent.index()].first = id,
            }
        }
        id
    }

    /// How long it is, in bytes.
    pub(crate) fn source_length(&self) -> usize {
        self.source.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Every node; each comes after its parent.
    pub(crate) fn ids(&self) -> impl DoubleEndedIterator<Item = Id> + use<> {
        (0..u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)).map(Id)
    }

    pub(crate) fn kind(&self, id: Id) -> Kind<'a> {
        let Node { shape, range: (start, end), .. } = self.nodes[id.index()];
        let text = || self.source.get(start as usize..end as usize).unwrap_or_default();
        match shape {
            Shape::Element(tag) => Kind::Element(tag),
            Shape::Text(Written::Plain) => Kind::Text(decoded(text())),
            Shape::Text(Written::Literal) => Kind::Text(Cow::Borrowed(text())),
            Shape::Rest => Kind::Text(Cow::Owned(words(text()))),
        }
    }

    /// What element it is; none for text.
    pub(crate) fn tag(&self, id: Id) -> Option<Tag> {
        match self.nodes[id.index()].shape {
            Shape::Element(tag) => Some(tag),
            Shape::Text(_) | Shape::Rest => None,
        }
    }

    pub(crate) fn parent(&self, id: Id) -> Option<Id> {
        self.nodes[id.index()].parent.some()
    }

    pub(crate) fn children(&self, id: Id) -> impl Iterator<Item = Id> + '_ {
        std::iter::successors(self.nodes[id.index()].first.some(), |child| {
            self.nodes[child.index()].next.some()
        })
    }

    /// Everything below, in order.
    pub(crate) fn below(&self, top: Id) -> impl Iterator<Item = Id> + '_ {
        let after = move |id: Id| {
            let mut up = id;
            while up != top {
                if let Some(next) = self.nodes[up.index()].next.some() {
                    return Some(next);
                }
                up = self.nodes[up.index()].parent;
            }
            None
        };
        std::iter::successors(self.nodes[top.index()].first.some(), move |id| {
            self.nodes[id.index()].first.some().or_else(|| after(*id))
        })
    }

    pub(crate) fn attribute(&self, id: Id, name: &str) -> Option<&str> {
        self.tag(id)?;
        let (start, end) = self.nodes[id.index()].range;
        let own = self.attributes.get(start as usize..end as usize)?;
        own.iter().find(|attribute| attribute.name == name).map(|attribute| &*attribute.value)
    }

    /// All text below, as it is.
    pub(crate) fn text(&self, id: Id) -> String {
        let mut text = String::new();
        for below in self.below(id) {
            if let Kind::Text(piece) = self.kind(below) {
                text.push_str(&piece);
            }
        }
        text
    }

    /// The first of its kind on the page.
    pub(crate) fn first(&self, tag: Tag) -> Option<Id> {
        self.ids().find(|id| self.tag(*id) == Some(tag))
    }
}

/// The words of a piece of a page, without its marks.
fn words(source: &str) -> String {
    let (mut tokens, mut words) = (Tokens::new(source), String::new());
    while let Some(token) = tokens.next(&mut Vec::new()) {
        if let Token::Text(text, _) = token {
            words.push_str(&decoded(text));
            words.push(' ');
        }
    }
    words
}

struct Builder<'a> {
    page: Page<'a>,
    /// What is open, the innermost last.
    open: Vec<(Id, Tag)>,
    /// So many of it are paragraphs. Mostly none is, and a block need not look for one to close.
    paragraphs: usize,
}

impl<'a> Builder<'a> {
    fn top(&self) -> Id {
        self.open.last().map_or(Id::ROOT, |(id, _)| *id)
    }

    /// A piece of the page's own text.
    fn text(&mut self, text: &'a str, shape: Shape) {
        if text.is_empty() {
            return;
        }
        let start = text.as_ptr().addr() - self.page.source.as_ptr().addr();
        let range = (u32::try_from(start), u32::try_from(start + text.len()));
        if let (Ok(start), Ok(end)) = range {
            let top = self.top();
            self.page.push(top, shape, (start, end));
        }
    }

    fn start(&mut self, tag: Tag, attributes: (u32, u32), is_closed: bool) {
        if tag == Tag::Html {
            self.page.nodes[0].range = attributes;
            return;
        }
        self.close_implied(tag);
        let top = self.top();
        let id = self.page.push(top, Shape::Element(tag), attributes);
        let is_whole = tag.is_void() || (is_closed && tag == Tag::Other);
        if !is_whole && self.open.len() < DEEPEST {
            self.open.push((id, tag));
            self.paragraphs += usize::from(tag == Tag::P);
        }
    }

    /// Closes what its author left open because everybody knows where it ends.
    fn close_implied(&mut self, tag: Tag) {
        use Tag::{
            A, Body, Dd, Dl, Dt, Head, Li, Menu, Ol, Option, P, Select, Table, Tbody, Td, Tfoot,
            Th, Thead, Tr, Ul,
        };
        match tag {
            Li => self.close_up_to(&[Li], &[Ul, Ol, Menu]),
            Dt | Dd => self.close_up_to(&[Dt, Dd], &[Dl]),
            Option => self.close_up_to(&[Option], &[Select]),
            Tr => self.close_up_to(&[Tr], &[Table, Thead, Tbody, Tfoot]),
            Td | Th => self.close_up_to(&[Td, Th], &[Table, Tr]),
            Thead | Tbody | Tfoot => self.close_up_to(&[Thead, Tbody, Tfoot], &[Table]),
            A => self.close_up_to(&[A], &[Td, Th, Table]),
            Body => self.close_up_to(&[Head], &[]),
            _ => {}
        }
        if tag.is_block() && self.paragraphs > 0 {
            self.close_up_to(&[P], &[Td, Th, Table, Li, Dd, Tag::Button, Tag::Blockquote]);
        }
        if tag.heading().is_some()
            && self.open.last().is_some_and(|(_, top)| top.heading().is_some())
        {
            self.open.pop();
        }
    }

    /// Closes the innermost of these with all that is open in it, unless one of those lies around it.
    fn close_up_to(&mut self, these: &[Tag], walls: &[Tag]) {
        for at in (1..self.open.len()).rev() {
            let (_, tag) = self.open[at];
            if these.contains(&tag) {
                return self.close(at);
            }
            if walls.contains(&tag) {
                return;
            }
        }
    }

    /// This one and all that is open in it.
    fn close(&mut self, at: usize) {
        let closed = self.open.drain(at..).filter(|(_, tag)| *tag == Tag::P).count();
        self.paragraphs -= closed;
    }

    fn end(&mut self, tag: Tag) {
        if tag == Tag::Br {
            return self.start(Tag::Br, (0, 0), true);
        }
        let is_formatting = tag.is_formatting();
        let mut crosses_block = false;
        for at in (1..self.open.len()).rev() {
            let (_, open) = self.open[at];
            if open == tag {
                // What opened inside and ends later goes on; only this one is over.
                if is_formatting && crosses_block {
                    self.open.remove(at);
                    return;
                }
                return self.close(at);
            }
            // The end of something outside does not end a table cell.
            if matches!(open, Tag::Td | Tag::Th | Tag::Table) && !tag.is_of_tables() {
                return;
            }
            crosses_block |= open.is_block();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use proptest::prelude::*;

    use super::*;

    /// The tree in brackets.
    fn shown(page: &Page<'_>, id: Id, out: &mut String) {
        for child in page.children(id) {
            match page.kind(child) {
                Kind::Text(text) => write!(out, "{text:?}").expect("a text takes text"),
                Kind::Element(tag) => {
                    write!(out, "{tag:?}(").expect("a text takes text");
                    shown(page, child, out);
                    out.push(')');
                }
            }
        }
    }

    #[track_caller]
    fn check(html: &str, expected: &str) {
        let mut out = String::new();
        shown(&Page::parse(html), Id::ROOT, &mut out);
        assert_eq!(out, expected, "{html}");
    }

    #[test]
    fn what_is_left_open_ends_where_everybody_knows() {
        check("<p>a<p>b", r#"P("a")P("b")"#);
        check(
            "<ul><li>a<li>b<ul><li>c</ul><li>d</ul>e",
            r#"Ul(Li("a")Li("b"Ul(Li("c")))Li("d"))"e""#,
        );
        check("<dl><dt>a<dd>b<dt>c</dl>", r#"Dl(Dt("a")Dd("b")Dt("c"))"#);
        check("<table><tr><td>a<td>b<tr><td>c</table>", r#"Table(Tr(Td("a")Td("b"))Tr(Td("c")))"#);
        check("<p>a<div>b</div>c", r#"P("a")Div("b")"c""#);
        check("<h1>a<h2>b", r#"H1("a")H2("b")"#);
        check("<a href=x>a<a href=y>b</a>", r#"A("a")A("b")"#);
    }

    #[test]
    fn wrong_nesting_keeps_what_lies_around() {
        check("<div><b>a<p>b</b>c</p>d</div>e", r#"Div(B("a"P("b""c"))"d")"e""#);
        check("<table><tr><td>a</div>b</td></tr></table>", r#"Table(Tr(Td("a""b")))"#);
        check("a</p></b></nothing>b", r#""a""b""#);
        check("<br/>a<br>b</br><img src=x>c", r#"Br()"a"Br()"b"Br()Img()"c""#);
    }

    #[test]
    fn attributes_are_found() {
        let page = Page::parse("<a HREF=\"x?a=1&amp;b\" class='c d' onclick=1 id=q>t</a>");
        let link = page.first(Tag::A).expect("a link");
        assert_eq!(page.attribute(link, "href"), Some("x?a=1&b"));
        assert_eq!(page.attribute(link, "class"), Some("c d"));
        assert_eq!(page.attribute(link, "id"), Some("q"));
        assert_eq!(page.attribute(link, "onclick"), None);
    }

    #[test]
    fn nothing_is_too_deep() {
        let deep = "<div>".repeat(100_000) + "x";
        let page = Page::parse(&deep);
        let depth = |mut id: Id| {
            let mut depth = 0;
            while let Some(parent) = page.parent(id) {
                (id, depth) = (parent, depth + 1);
            }
            depth
        };
        assert!(page.ids().map(depth).max() <= Some(DEEPEST));
        assert_eq!(page.text(Id::ROOT), "x");
    }

    #[test]
    fn too_many_nodes_are_words_without_marks() {
        let many = "<p>a</p>".repeat(MOST_NODES) + "<h1 id=x>the end</h1>";
        let page = Page::parse(&many);
        assert!(page.len() <= MOST_NODES + 1, "{}", page.len());
        assert!(page.text(Id::ROOT).ends_with("a a the end "));
        assert_eq!(page.first(Tag::H1), None);
        let many = format!("<a {}>x", "id ".repeat(MOST_ATTRIBUTES * 2));
        let page = Page::parse(&many);
        assert!(page.attributes.len() <= MOST_ATTRIBUTES);
    }

    proptest! {
        #[test]
        fn any_text_is_a_page(html in "(<|>|/|!|-|\\?|=|\"|'|&|;|#|x|a|p|li|td|table|script|title|style|b|div|[ \\n\\PC]){0,60}") {
            let page = Page::parse(&html);
            prop_assert!(page.len() >= 1);
            prop_assert_eq!(page.below(Id::ROOT).count() + 1, page.len());
        }

        #[test]
        fn text_without_marks_stays(text in "[a-zA-Z0-9 .,\\n\u{e4}\u{4e16}]{0,60}") {
            prop_assert_eq!(Page::parse(&text).text(Id::ROOT), text);
        }
    }
}
