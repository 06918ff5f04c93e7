//! What a page is about, apart from its menus, banners and footers: by what its author says, or by where the prose is.

use super::html::{Id, Kind, Page, Tag};

/// What an author marks as the main part must have so much text, or this share of the page's.
const ENOUGH: u32 = 250;
const SHARE: u32 = 4;
/// A paragraph that counts.
const PARAGRAPH: u32 = 25;

/// Lengths of texts, for every node of a page.
pub(crate) struct Lengths {
    /// Letters below it, without what is never shown.
    text: Vec<u32>,
    /// Those of them that stand in links.
    links: Vec<u32>,
}

impl Lengths {
    pub(crate) fn of(page: &Page) -> Self {
        let (mut text, mut links) = (vec![0; page.len()], vec![0; page.len()]);
        // Children come after their parents, so from behind every node is whole when its parent takes it.
        for id in page.ids().rev() {
            let at = id.index();
            match page.kind(id) {
                Kind::Text(piece) => text[at] = letters(piece),
                Kind::Element(tag) if is_never_shown(page, id, tag) => {
                    (text[at], links[at]) = (0, 0)
                }
                Kind::Element(Tag::A) => links[at] = text[at],
                Kind::Element(_) => {}
            }
            if let Some(parent) = page.parent(id) {
                text[parent.index()] += text[at];
                links[parent.index()] += links[at];
            }
        }
        Self { text, links }
    }

    pub(crate) fn text(&self, id: Id) -> u32 {
        self.text[id.index()]
    }

    /// Whether most of it leads elsewhere.
    fn is_mostly_links(&self, id: Id) -> bool {
        self.links[id.index()] * 2 > self.text[id.index()]
    }
}

fn letters(text: &str) -> u32 {
    let count = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).count();
    u32::try_from(count).unwrap_or(u32::MAX / 2)
}

/// What nobody sees who looks at the page.
pub(crate) fn is_never_shown(page: &Page, id: Id, tag: Tag) -> bool {
    let is_machinery = matches!(
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
    is_machinery || is_hidden(page, id)
}

fn is_hidden(page: &Page, id: Id) -> bool {
    let has = |name: &str| page.attribute(id, name);
    // Found when asked for is shown all the same: it is only folded.
    has("hidden").is_some_and(|value| value != "until-found")
        || has("aria-hidden") == Some("true")
        || has("style").is_some_and(|style| {
            let style: String = style.chars().filter(|c| !c.is_whitespace()).collect();
            style.contains("display:none") || style.contains("visibility:hidden")
        })
}

/// What is around the main part on nearly every site.
pub(crate) fn is_surrounding(page: &Page, id: Id, tag: Tag) -> bool {
    match page.attribute(id, "role") {
        Some(
            "navigation" | "banner" | "contentinfo" | "search" | "complementary" | "menu"
            | "toolbar",
        ) => return true,
        Some("main" | "article") => return false,
        _ => {}
    }
    matches!(tag, Tag::Nav | Tag::Footer | Tag::Search)
        || (is_container(tag) && has_telling_name(page, id))
}

const TELLING_NAMES: [&str; 21] = [
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

fn has_telling_name(page: &Page, id: Id) -> bool {
    let tells = |words: &str| {
        words
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| TELLING_NAMES.iter().any(|telling| telling.eq_ignore_ascii_case(word)))
    };
    page.attribute(id, "class").is_some_and(tells) || page.attribute(id, "id").is_some_and(tells)
}

fn is_container(tag: Tag) -> bool {
    matches!(
        tag,
        Tag::Div | Tag::Section | Tag::Aside | Tag::Ul | Tag::Table | Tag::Header | Tag::Form
    )
}

/// The part of the page to read; the whole of it when no part stands out.
pub(crate) fn main_part(page: &Page, lengths: &Lengths) -> Id {
    let whole = page.first(Tag::Body).unwrap_or(Id::ROOT);
    marked(page, lengths, whole).or_else(|| where_the_prose_is(page, lengths)).unwrap_or(whole)
}

/// What its author says it is.
fn marked(page: &Page, lengths: &Lengths, whole: Id) -> Option<Id> {
    let all = lengths.text(whole);
    let is_enough = |id: &Id| {
        let text = lengths.text(*id);
        text >= ENOUGH || text * SHARE >= all.max(1)
    };
    let longest = |is_one: &dyn Fn(Id) -> bool| {
        let ones = page.ids().filter(|id| is_one(*id) && is_enough(id));
        ones.max_by_key(|id| (lengths.text(*id), std::cmp::Reverse(*id)))
    };
    let is_main = |id: Id| {
        page.tag(id) == Some(Tag::Main)
            || (page.tag(id).is_some() && page.attribute(id, "role") == Some("main"))
    };
    let main = longest(&is_main);
    let is_article = |id: Id| {
        page.tag(id) == Some(Tag::Article)
            || (page.tag(id).is_some() && page.attribute(id, "itemprop") == Some("articleBody"))
    };
    let article = longest(&is_article);
    match (main, article) {
        // A main part that is little more than one article.
        (Some(main), Some(article))
            if lengths.text(article) * 3 >= lengths.text(main) * 2
                && is_below(page, article, main) =>
        {
            Some(article)
        }
        (Some(main), _) => Some(main),
        // One of many is a list of teasers, which is read as a whole.
        (None, Some(article)) if lengths.text(article) * 2 >= all => Some(article),
        _ => None,
    }
}

fn is_below(page: &Page, inner: Id, outer: Id) -> bool {
    std::iter::successors(Some(inner), |id| page.parent(*id)).any(|id| id == outer)
}

/// The element whose paragraphs say most without leading elsewhere.
fn where_the_prose_is(page: &Page, lengths: &Lengths) -> Option<Id> {
    let mut scores = vec![0_u32; page.len()];
    for id in page.ids() {
        let is_prose = matches!(page.tag(id), Some(Tag::P | Tag::Pre | Tag::Blockquote));
        let text = lengths.text(id);
        if !is_prose || text < PARAGRAPH || lengths.is_mostly_links(id) {
            continue;
        }
        let score = 2 + 2 * (text / 100).min(5);
        let above = std::iter::successors(page.parent(id), |id| page.parent(*id));
        // The parent takes all of it, the grandparent half, so that neighbours count together.
        for (above, share) in above.zip([1, 2]) {
            scores[above.index()] += score / share;
        }
    }
    let best = page
        .ids()
        .filter(|id| !lengths.is_mostly_links(*id))
        .max_by_key(|id| (scores[id.index()], std::cmp::Reverse(*id)))?;
    let is_clear = scores[best.index()] >= 12;
    // Who has a third of all the text in another place is no main part.
    let whole = lengths.text(Id::ROOT).max(1);
    (is_clear && lengths.text(best) * 3 >= whole).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn main_text(html: &str) -> String {
        let page = Page::parse(html);
        let main = main_part(&page, &Lengths::of(&page));
        page.text(main).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    const PROSE: &str =
        "A sentence that goes on for a while, so that it counts as prose and not as a label. ";

    #[test]
    fn the_author_has_the_first_word() {
        let html = format!(
            "<nav>menu</nav><div>{PROSE}{PROSE}</div><main>The main part {PROSE}</main><footer>foot</footer>"
        );
        assert!(main_text(&html).starts_with("The main part"));
        let html = format!("<div role=main>Here {PROSE}</div><div>{PROSE}</div>");
        assert!(main_text(&html).starts_with("Here"));
    }

    #[test]
    fn a_main_part_that_is_nearly_empty_is_none() {
        let html = format!("<main>x</main><div>{}</div>", format!("<p>{PROSE}</p>").repeat(5));
        assert!(main_text(&html).contains("sentence"));
    }

    #[test]
    fn prose_is_found_without_marks() {
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
        let page = Page::parse(
            "<p hidden>no</p><p aria-hidden=true>no</p><p style='display : none'>no</p><p>yes</p>",
        );
        assert_eq!(Lengths::of(&page).text(Id::ROOT), 3);
    }
}
