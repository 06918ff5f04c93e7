//! Parses HTML leniently into a tree. Every input becomes a tree, in time and memory proportional
//! to its length. html5gum finds the tags and decodes the entities according to the HTML standard.
//! The tree is built here: for a page of 5 MB dom_smoothie took 600 ms, this tree takes 85 ms. The
//! rules for wrong nesting are simpler than a browser's, which is enough for reading.

mod events;
mod tag;

pub(crate) use self::tag::Tag;

/// Maximum depth. Deeper elements become siblings, so that readers of the tree may recurse.
pub(crate) const MAX_DEPTH: usize = 200;

/// Maximum number of nodes, at 28 bytes each; real pages of 5 MB have fewer. All further text
/// becomes one node.
const MAX_NODES: usize = 700_000;
/// Maximum number of attributes; further ones are dropped.
const MAX_ATTRIBUTES: usize = 300_000;

/// The index of a node in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeId(u32);

impl NodeId {
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
pub(crate) enum NodeKind<'a> {
    Element(Tag),
    Text(&'a str),
}

#[derive(Debug)]
struct HtmlNode {
    parent: NodeId,
    first: NodeId,
    last: NodeId,
    next: NodeId,
    /// Range of the element's attributes, or range of the text in the page's text.
    range: (u32, u32),
    /// `None` for text.
    tag: Option<Tag>,
}

/// An attribute that other modules read.
#[derive(Debug)]
struct Attribute {
    name: &'static str,
    /// Range of the value in the page's text.
    value: (u32, u32),
}

/// A parsed page.
#[derive(Debug)]
pub(crate) struct HtmlPage {
    /// All texts and attribute values, decoded.
    text: String,
    nodes: Vec<HtmlNode>,
    attributes: Vec<Attribute>,
}

impl HtmlPage {
    pub(crate) fn parse(html: &str) -> Self {
        let nodes = Vec::with_capacity(html.len() / 40);
        let text = String::with_capacity(html.len());
        let mut page = Self { text, nodes, attributes: Vec::new() };
        page.push(NodeId::NONE, Some(Tag::Html), (0, 0));
        let mut builder =
            HtmlBuilder { page, open: vec![(NodeId::ROOT, Tag::Html)], paragraphs: 0 };
        events::read(html, &mut builder);
        builder.page
    }

    fn push(&mut self, parent: NodeId, tag: Option<Tag>, range: (u32, u32)) -> NodeId {
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX - 1));
        let none = NodeId::NONE;
        self.nodes.push(HtmlNode { tag, parent, first: none, last: none, next: none, range });
        if let Some(parent) = parent.some() {
            let before = std::mem::replace(&mut self.nodes[parent.index()].last, id);
            match before.some() {
                Some(before) => self.nodes[before.index()].next = id,
                None => self.nodes[parent.index()].first = id,
            }
        }
        id
    }

    /// Appends to the page's text and returns the range.
    fn keep(&mut self, text: &str) -> (u32, u32) {
        let end = |kept: &str| u32::try_from(kept.len()).unwrap_or(u32::MAX);
        let start = end(&self.text);
        self.text.push_str(text);
        (start, end(&self.text))
    }

    fn kept(&self, (start, end): (u32, u32)) -> &str {
        self.text.get(start as usize..end as usize).unwrap_or_default()
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns every node; parents come before their children.
    pub(crate) fn ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)).map(NodeId)
    }

    pub(crate) fn kind(&self, id: NodeId) -> NodeKind<'_> {
        let node = &self.nodes[id.index()];
        node.tag.map_or_else(|| NodeKind::Text(self.kept(node.range)), NodeKind::Element)
    }

    /// Returns the tag of an element, `None` for text.
    pub(crate) fn tag(&self, id: NodeId) -> Option<Tag> {
        self.nodes[id.index()].tag
    }

    pub(crate) fn parent(&self, id: NodeId) -> Option<NodeId> {
        self.nodes[id.index()].parent.some()
    }

    pub(crate) fn children(&self, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::successors(self.nodes[id.index()].first.some(), |child| {
            self.nodes[child.index()].next.some()
        })
    }

    /// Returns all descendants of a node, in document order.
    pub(crate) fn below(&self, top: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let after = move |id: NodeId| {
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

    pub(crate) fn attribute(&self, id: NodeId, name: &str) -> Option<&str> {
        self.tag(id)?;
        let (start, end) = self.nodes[id.index()].range;
        let own = self.attributes.get(start as usize..end as usize)?;
        own.iter()
            .find(|attribute| attribute.name == name)
            .map(|attribute| self.kept(attribute.value))
    }

    /// Returns the text of all descendants, unchanged.
    pub(crate) fn text(&self, id: NodeId) -> String {
        let mut text = String::new();
        for below in self.below(id) {
            if let NodeKind::Text(piece) = self.kind(below) {
                text.push_str(piece);
            }
        }
        text
    }

    /// Returns the first element with this tag.
    pub(crate) fn first(&self, tag: Tag) -> Option<NodeId> {
        self.ids().find(|id| self.tag(*id) == Some(tag))
    }
}

struct HtmlBuilder {
    page: HtmlPage,
    /// The open elements, innermost last.
    open: Vec<(NodeId, Tag)>,
    /// Number of open paragraphs. It is usually 0, which saves searching for one to close.
    paragraphs: usize,
}

impl HtmlBuilder {
    /// Returns true if no more elements are added, only text.
    fn is_full(&self) -> bool {
        self.page.nodes.len() >= MAX_NODES
    }

    fn top(&self) -> NodeId {
        self.open.last().map_or(NodeId::ROOT, |(id, _)| *id)
    }

    fn text(&mut self, text: &str) {
        let (start, mut end) = self.page.keep(text);
        if self.is_full() {
            (_, end) = self.page.keep(" ");
        }
        let has_rest = self.page.nodes.len() > MAX_NODES;
        match self.page.nodes.last_mut().filter(|_| has_rest) {
            Some(rest) => rest.range.1 = end,
            None => {
                self.page.push(self.top(), None, (start, end));
            }
        }
    }

    fn start(&mut self, tag: Tag, attributes: (u32, u32), is_closed: bool) {
        if self.is_full() {
            return;
        }
        if tag == Tag::Html {
            self.page.nodes[0].range = attributes;
            return;
        }
        self.close_implied(tag);
        let top = self.top();
        let id = self.page.push(top, Some(tag), attributes);
        let is_whole = tag.is_void() || (is_closed && tag == Tag::Other);
        if !is_whole && self.open.len() < MAX_DEPTH {
            self.open.push((id, tag));
            self.paragraphs += usize::from(tag == Tag::P);
        }
    }

    /// Closes elements whose end tag the author may leave out.
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

    /// Closes the innermost of `these` with everything open in it, unless one of `boundaries` is
    /// closer.
    fn close_up_to(&mut self, these: &[Tag], boundaries: &[Tag]) {
        for at in (1..self.open.len()).rev() {
            let (_, tag) = self.open[at];
            if these.contains(&tag) {
                return self.close(at);
            }
            if boundaries.contains(&tag) {
                return;
            }
        }
    }

    /// Closes an open element and everything open in it.
    fn close(&mut self, at: usize) {
        let closed = self.open.drain(at..).filter(|(_, tag)| *tag == Tag::P).count();
        self.paragraphs -= closed;
    }

    fn end(&mut self, tag: Tag) {
        if self.is_full() {
            return;
        }
        if tag == Tag::Br {
            return self.start(Tag::Br, (0, 0), true);
        }
        let is_formatting = tag.is_formatting();
        let mut crosses_block = false;
        for at in (1..self.open.len()).rev() {
            let (_, open) = self.open[at];
            if open == tag {
                // Elements that were opened inside stay open; only this one is closed.
                if is_formatting && crosses_block {
                    self.open.remove(at);
                    return;
                }
                return self.close(at);
            }
            // The end tag of an outer element does not end a table cell.
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

    /// Writes the tree in brackets.
    fn shown(page: &HtmlPage, id: NodeId, out: &mut String) {
        for child in page.children(id) {
            match page.kind(child) {
                NodeKind::Text(text) => write!(out, "{text:?}").expect("a text takes text"),
                NodeKind::Element(tag) => {
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
        shown(&HtmlPage::parse(html), NodeId::ROOT, &mut out);
        assert_eq!(out, expected, "{html}");
    }

    #[test]
    fn omitted_end_tags_are_implied() {
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
    fn wrong_nesting_keeps_the_outer_elements() {
        check("<div><b>a<p>b</b>c</p>d</div>e", r#"Div(B("a"P("b""c"))"d")"e""#);
        check("<table><tr><td>a</div>b</td></tr></table>", r#"Table(Tr(Td("a""b")))"#);
        check("a</p></b></nothing>b", r#""a""b""#);
        check("<br/>a<br>b</br><img src=x>c", r#"Br()"a"Br()"b"Br()Img()"c""#);
    }

    #[test]
    fn attributes_are_found() {
        let page = HtmlPage::parse("<a HREF=\"x?a=1&amp;b\" class='c d' onclick=1 id=q>t</a>");
        let link = page.first(Tag::A).expect("a link");
        assert_eq!(page.attribute(link, "href"), Some("x?a=1&b"));
        assert_eq!(page.attribute(link, "class"), Some("c d"));
        assert_eq!(page.attribute(link, "id"), Some("q"));
        assert_eq!(page.attribute(link, "onclick"), None);
    }

    #[test]
    fn entities_are_decoded_by_name_and_number() {
        for (html, expected) in [
            ("a &amp; b &lt;c&gt; &quot;d&quot; &apos;", "a & b <c> \"d\" '"),
            ("&eacute;&#233;&#xE9;&#Xe9", "\u{e9}\u{e9}\u{e9}\u{e9}"),
            ("&copy 2024 &nbsp;x", "\u{a9} 2024 \u{a0}x"),
            ("&unknown; &; & &# &#x; &#99999999999;", "&unknown; &; & &# &#x; \u{fffd}"),
            ("&#147;x&#148; &#0;&#xd800;", "\u{201c}x\u{201d} \u{fffd}\u{fffd}"),
            ("&amp;amp;", "&amp;"),
            ("plain", "plain"),
        ] {
            assert_eq!(HtmlPage::parse(html).text(NodeId::ROOT), expected);
        }
        // In a query, `&copy=1` is a parameter.
        let page = HtmlPage::parse("<a href='?a=1&copy=2&b=3'>");
        let link = page.first(Tag::A).expect("a link");
        assert_eq!(page.attribute(link, "href"), Some("?a=1&copy=2&b=3"));
    }

    #[test]
    fn content_that_is_not_html_is_text_or_dropped() {
        check("<![CDATA[a <b> &amp;]]>c", r#""a <b> &amp;c""#);
        check("<xmp>a <b> &amp;</xmp>c", r#"Xmp("a <b> &amp;")"c""#);
        check("<title>a <b> &amp;</title>c", r#"Title("a <b> &")"c""#);
        check("<script>a</style></script>b<style>c", r#"Script()"b"Style()"#);
    }

    #[test]
    fn the_depth_is_limited() {
        let deep = "<div>".repeat(100_000) + "x";
        let page = HtmlPage::parse(&deep);
        let depth = |mut id: NodeId| {
            let mut depth = 0;
            while let Some(parent) = page.parent(id) {
                (id, depth) = (parent, depth + 1);
            }
            depth
        };
        assert!(page.ids().map(depth).max() <= Some(MAX_DEPTH));
        assert_eq!(page.text(NodeId::ROOT), "x");
    }

    #[test]
    fn beyond_the_node_limit_only_text_is_kept() {
        let many = "<p>a</p>".repeat(MAX_NODES) + "<h1 id=x>the end</h1>";
        let page = HtmlPage::parse(&many);
        assert!(page.len() <= MAX_NODES + 1, "{}", page.len());
        assert!(page.text(NodeId::ROOT).ends_with("a a the end "));
        assert_eq!(page.first(Tag::H1), None);
        let many = format!("<a {}>x", "id ".repeat(MAX_ATTRIBUTES * 2));
        let page = HtmlPage::parse(&many);
        assert!(page.attributes.len() <= MAX_ATTRIBUTES);
    }

    proptest! {
        #[test]
        fn any_text_is_a_page(html in "(<|>|/|!|-|\\?|=|\"|'|&|;|#|x|a|p|li|td|table|script|title|style|b|div|[ \\n\\PC]){0,60}") {
            let page = HtmlPage::parse(&html);
            prop_assert!(page.len() >= 1);
            prop_assert_eq!(page.below(NodeId::ROOT).count() + 1, page.len());
        }

        #[test]
        fn text_without_marks_stays(text in "[a-zA-Z0-9 .,\\n\u{e4}\u{4e16}]{0,60}") {
            prop_assert_eq!(HtmlPage::parse(&text).text(NodeId::ROOT), text);
        }
    }
}
