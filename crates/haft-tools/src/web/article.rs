//! Finds the main part of a page, without menus, banners and footers: by the markup of its author,
//! or by where the prose is.

use super::html::{HtmlPage, NodeId, NodeKind, Tag};

/// Minimum text of a part that the author marks as the main one.
const MIN_MAIN_TEXT: u32 = 250;
/// A smaller marked part must have at least this fraction (1/4) of the page's text.
const MIN_MAIN_SHARE: u32 = 4;
/// Minimum text of a paragraph that counts as prose.
const MIN_PARAGRAPH_TEXT: u32 = 25;

/// Text lengths of all nodes of a page, without white space.
pub(crate) struct TextLengths {
    /// Text below each node, without hidden parts.
    text: Vec<u32>,
    /// Text below each node that is in links.
    links: Vec<u32>,
}

impl TextLengths {
    pub(crate) fn of(page: &HtmlPage) -> Self {
        let (mut text, mut links) = (vec![0; page.len()], vec![0; page.len()]);
        // Children come after their parents, so in reverse order a node is complete before its
        // parent adds it.
        for id in page.ids().rev() {
            let at = id.index();
            match page.kind(id) {
                NodeKind::Text(piece) => text[at] = letters(piece),
                NodeKind::Element(tag) if is_never_shown(page, id, tag) => {
                    (text[at], links[at]) = (0, 0)
                }
                NodeKind::Element(Tag::A) => links[at] = text[at],
                NodeKind::Element(_) => {}
            }
            if let Some(parent) = page.parent(id) {
                text[parent.index()] += text[at];
                links[parent.index()] += links[at];
            }
        }
        Self { text, links }
    }

    pub(crate) fn text(&self, id: NodeId) -> u32 {
        self.text[id.index()]
    }

    /// Returns true if more than half of the text is in links.
    fn is_mostly_links(&self, id: NodeId) -> bool {
        self.links[id.index()] * 2 > self.text[id.index()]
    }
}

fn letters(text: &str) -> u32 {
    let count = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).count();
    u32::try_from(count).unwrap_or(u32::MAX / 2)
}

/// Returns true if a browser does not show the element.
pub(crate) fn is_never_shown(page: &HtmlPage, id: NodeId, tag: Tag) -> bool {
    let is_by_tag = matches!(
        tag,
        Tag::Script
            | Tag::Style
            | Tag::Template
            | Tag::Head
            | Tag::Select
            | Tag::Textarea
            | Tag::Button
            | Tag::Dialog
            | Tag::Title
    );
    is_by_tag || is_hidden(page, id)
}

fn is_hidden(page: &HtmlPage, id: NodeId) -> bool {
    let has = |name: &str| page.attribute(id, name);
    // `until-found` content is only collapsed, so it is shown.
    has("hidden").is_some_and(|value| value != "until-found")
        || has("aria-hidden") == Some("true")
        || has("style").is_some_and(|style| {
            let style: String = style.chars().filter(|c| !c.is_whitespace()).collect();
            style.contains("display:none") || style.contains("visibility:hidden")
        })
}

/// Returns true for elements that surround the main part on most sites.
pub(crate) fn is_surrounding(page: &HtmlPage, id: NodeId, tag: Tag) -> bool {
    match page.attribute(id, "role") {
        Some(
            "navigation" | "banner" | "contentinfo" | "search" | "complementary" | "menu"
            | "toolbar",
        ) => return true,
        Some("main" | "article") => return false,
        _ => {}
    }
    matches!(tag, Tag::Nav | Tag::Footer | Tag::Search)
        || (is_container(tag) && has_surrounding_name(page, id))
}

const SURROUNDING_NAMES: [&str; 21] = [
    "ad",
    "ads",
    "advertisement",
    "banner",
    "breadcrumb",
    "breadcrumbs",
    "cookie",
    "cookies",
    "footer",
    "masthead",
    "menu",
    "nav",
    "navbar",
    "navigation",
    "newsletter",
    "pagination",
    "share",
    "sharing",
    "sidebar",
    "social",
    "toc",
];

fn has_surrounding_name(page: &HtmlPage, id: NodeId) -> bool {
    let matches = |words: &str| {
        words
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| SURROUNDING_NAMES.iter().any(|name| name.eq_ignore_ascii_case(word)))
    };
    page.attribute(id, "class").is_some_and(matches)
        || page.attribute(id, "id").is_some_and(matches)
}

fn is_container(tag: Tag) -> bool {
    matches!(
        tag,
        Tag::Div | Tag::Section | Tag::Aside | Tag::Ul | Tag::Table | Tag::Header | Tag::Form
    )
}

/// Returns the main part of a page, or its body when no part stands out.
pub(crate) fn main_part(page: &HtmlPage, lengths: &TextLengths) -> NodeId {
    let whole = page.first(Tag::Body).unwrap_or(NodeId::ROOT);
    marked(page, lengths, whole).or_else(|| prose_element(page, lengths)).unwrap_or(whole)
}

/// Returns the part that the author marks as the main one.
fn marked(page: &HtmlPage, lengths: &TextLengths, whole: NodeId) -> Option<NodeId> {
    let all = lengths.text(whole);
    let is_enough = |id: &NodeId| {
        let text = lengths.text(*id);
        text >= MIN_MAIN_TEXT || text * MIN_MAIN_SHARE >= all.max(1)
    };
    let longest = |is_one: &dyn Fn(NodeId) -> bool| {
        let ones = page.ids().filter(|id| is_one(*id) && is_enough(id));
        ones.max_by_key(|id| (lengths.text(*id), std::cmp::Reverse(*id)))
    };
    let is_main = |id: NodeId| {
        page.tag(id) == Some(Tag::Main)
            || (page.tag(id).is_some() && page.attribute(id, "role") == Some("main"))
    };
    let main = longest(&is_main);
    let is_article = |id: NodeId| {
        page.tag(id) == Some(Tag::Article)
            || (page.tag(id).is_some() && page.attribute(id, "itemprop") == Some("articleBody"))
    };
    let article = longest(&is_article);
    match (main, article) {
        // The main part is little more than one article.
        (Some(main), Some(article))
            if lengths.text(article) * 3 >= lengths.text(main) * 2
                && is_below(page, article, main) =>
        {
            Some(article)
        }
        (Some(main), _) => Some(main),
        // One of many articles is a teaser; then the whole page is the main part.
        (None, Some(article)) if lengths.text(article) * 2 >= all => Some(article),
        _ => None,
    }
}

fn is_below(page: &HtmlPage, inner: NodeId, outer: NodeId) -> bool {
    std::iter::successors(Some(inner), |id| page.parent(*id)).any(|id| id == outer)
}

/// Returns the element with the most prose outside of links.
fn prose_element(page: &HtmlPage, lengths: &TextLengths) -> Option<NodeId> {
    let mut scores = vec![0_u32; page.len()];
    for id in page.ids() {
        let is_prose = matches!(page.tag(id), Some(Tag::P | Tag::Pre | Tag::Blockquote));
        let text = lengths.text(id);
        if !is_prose || text < MIN_PARAGRAPH_TEXT || lengths.is_mostly_links(id) {
            continue;
        }
        let score = 2 + 2 * (text / 100).min(5);
        let above = std::iter::successors(page.parent(id), |id| page.parent(*id));
        // The parent gets the full score and the grandparent half, so that siblings add up.
        for (above, share) in above.zip([1, 2]) {
            scores[above.index()] += score / share;
        }
    }
    let best = page
        .ids()
        .filter(|id| !lengths.is_mostly_links(*id))
        .max_by_key(|id| (scores[id.index()], std::cmp::Reverse(*id)))?;
    let is_clear = scores[best.index()] >= 12;
    // An element with less than a third of the text is not the main part.
    let whole = lengths.text(NodeId::ROOT).max(1);
    (is_clear && lengths.text(best) * 3 >= whole).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn main_text(html: &str) -> String {
        let page = HtmlPage::parse(html);
        let main = main_part(&page, &TextLengths::of(&page));
        page.text(main).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    const PROSE: &str =
        "A sentence that goes on for a while, so that it counts as prose and not as a label. ";

    #[test]
    fn the_markup_of_the_author_comes_first() {
        let html = format!(
            "<nav>menu</nav><div>{PROSE}{PROSE}</div><main>The main part {PROSE}</main><footer>foot</footer>"
        );
        assert!(main_text(&html).starts_with("The main part"));
        let html = format!("<div role=main>Here {PROSE}</div><div>{PROSE}</div>");
        assert!(main_text(&html).starts_with("Here"));
    }

    #[test]
    fn a_marked_part_with_hardly_any_text_is_ignored() {
        let html = format!("<main>x</main><div>{}</div>", format!("<p>{PROSE}</p>").repeat(5));
        assert!(main_text(&html).contains("sentence"));
    }

    #[test]
    fn prose_is_found_without_markup() {
        let menu: String =
            (0..40).map(|n| format!("<li><a href=/{n}>A menu entry {n}</a></li>")).collect();
        let prose = format!("<p>{PROSE}{PROSE}</p>").repeat(12);
        let html =
            format!("<body><div><ul>{menu}</ul></div><div id=x>{prose}</div><div>Copyright</div>");
        let text = main_text(&html);
        assert!(
            text.starts_with("A sentence") && !text.contains("menu") && !text.contains("Copyright"),
            "{text}"
        );
    }

    #[test]
    fn many_articles_are_read_together() {
        let html: String =
            (0..5).map(|n| format!("<article><h2>Number {n}</h2>{PROSE}</article>")).collect();
        let text = main_text(&html);
        assert!(text.contains("Number 0") && text.contains("Number 4"), "{text}");
    }

    #[test]
    fn hidden_text_does_not_count() {
        let page = HtmlPage::parse(
            "<p hidden>no</p><p aria-hidden=true>no</p><p style='display : none'>no</p><p>yes</p>",
        );
        assert_eq!(TextLengths::of(&page).text(NodeId::ROOT), 3);
    }
}
