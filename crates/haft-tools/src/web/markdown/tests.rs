//! Conversion of various pages. `NAME.html` is the page, `NAME.md` the expected result; to accept a
//! change, put the printed text there.

use super::*;

const ADDRESS: &str = "https://site.example/dir/page.html";

fn address() -> Url {
    Url::parse(ADDRESS).expect("a URL")
}

/// Formats the metadata and text of a page.
fn shown(read: &PageText) -> String {
    let PageText { title, description, language, published, body, is_part } = read;
    format!("{title:?} {description:?} {language:?} {published:?} part={is_part}\n\n{body}\n")
}

macro_rules! pages {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            let html = include_str!(concat!("pages/", stringify!($name), ".html"));
            let actual = shown(&read(html, &address(), PageStyle::Markdown));
            let expected = include_str!(concat!("pages/", stringify!($name), ".md"));
            assert!(actual == expected, "<<<{}\n{actual}>>>", stringify!($name));
        }
    )*};
}

pages! { article docs tables lists definitions broken plain frames embedded rtl entities base prose empty }

#[test]
fn plain_text_has_no_marks() {
    let html = include_str!("pages/docs.html");
    let text = read(html, &address(), PageStyle::Plain).body;
    for part in
        ["Client::new()", "fn main() {", "Ctrl+C", "A *star*", "H_2O and 2^10", "# not a heading"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('`') || text.contains("let x = `raw`;"), "{text}");
    let tables = read(include_str!("pages/tables.html"), &address(), PageStyle::Plain).body;
    assert!(tables.contains("Item\tPrice\tNote\nTea\t2.50\twith | without milk"), "{tables}");
    assert!(!tables.contains("]("), "{tables}");
}

#[test]
fn deep_nesting_does_not_inflate_the_text() {
    for piece in ["<ul><li>a", "<blockquote><p>a", "<dl><dd>a", "<table><tr><td>a"] {
        let html = piece.repeat(20_000);
        let body = read(&html, &address(), PageStyle::Markdown).body;
        assert!(body.len() < 4 * html.len(), "{piece}: {} of {}", body.len(), html.len());
        assert_eq!(body.matches('a').count(), 20_000, "{piece}");
    }
}

#[test]
fn a_table_with_too_many_columns_is_written_as_its_content() {
    let html = format!("<table><tr>{}</tr><tr><td>end</td></tr></table>", "<th>x</th>".repeat(300));
    let body = read(&html, &address(), PageStyle::Markdown).body;
    assert_eq!(body.matches('x').count(), 300);
    assert!(!body.contains('|'), "{body}");
}

/// Returns a page of five megabytes with the usual elements.
fn huge() -> String {
    let paragraph = "<p>The quick brown fox jumps over <a href=\"../x/1\">the lazy dog</a>, <em>again</em> and <code>again</code>.</p>\n";
    let table = "<table><tr><th>a<th>b<tr><td>1<td>2</table>\n<pre><code class=language-rust>fn main() {}\n</code></pre>\n";
    let section =
        format!("<h2>Heading</h2>\n{}{table}<ul><li>one<li>two</ul>\n", paragraph.repeat(10));
    let count = (5 << 20) / section.len() + 1;
    format!("<title>Huge</title><nav>menu</nav><main>{}</main>", section.repeat(count))
}

#[test]
fn a_huge_page_is_read_to_its_end() {
    let html = huge() + "<p>The very end.</p>";
    let body = read(&html, &address(), PageStyle::Markdown).body;
    assert_eq!(body.matches("## Heading").count(), html.matches("<h2>").count());
    assert_eq!(body.matches("```rust").count(), html.matches("<pre>").count());
    assert!(body.len() > html.len() / 2);
}

proptest::proptest! {
    /// Any page becomes a text without relative addresses.
    #[test]
    fn any_page_becomes_a_text(html in "(<(/?(p|b|a href=x|li|ul|ol|table|tr|td|th|pre|code|dl|dt|dd|blockquote|h1|div|br|main|em|img src=y alt=z))>|[a-z*_#|`<>&\\\\ \n]|\u{4e16}){0,80}") {
        for style in [PageStyle::Markdown, PageStyle::Plain] {
            let body = read(&html, &address(), style).body;
            proptest::prop_assert!(!body.contains("](x)") && !body.contains("](y)"), "{body}");
        }
    }

    /// All words are kept, in their order.
    #[test]
    fn words_are_kept(words in proptest::collection::vec("[a-z]{3,8}", 1..20), tags in proptest::collection::vec("p|div|li|span|em|b|h2|td|dd|section", 20)) {
        let html: String = words.iter().zip(&tags).map(|(word, tag)| format!("<{tag}>{word}</{tag}> ")).collect();
        let body = read(&html, &address(), PageStyle::Plain).body;
        let found: Vec<&str> = body.split(|c: char| !c.is_ascii_lowercase()).filter(|word| !word.is_empty()).collect();
        proptest::prop_assert_eq!(found, words, "{}", body);
    }
}
