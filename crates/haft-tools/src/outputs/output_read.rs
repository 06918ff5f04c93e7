//! `output_read`: an earlier result that was too long to be shown whole, by pages or by lines.

use haft_core::{Output, OutputInfo, OutputPosition, ReadOutputs, ToolError};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::spans::{Span, breaks, span};

/// About how many bytes a page has. With the words around it a page is never cut again.
const PAGE: u64 = 32 << 10;
/// A page begins with a line, if one begins within so many bytes.
const SLACK: u64 = 4 << 10;
/// The most lines that are shown at once.
const LINES: u64 = 2_000;
/// What is longer is cut when lines are asked for; pages show it whole.
const LINE_BYTES: usize = 4 << 10;

/// Which output, and what of it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "id": "out_019a8d3c5f7e7c0b9d2e4f6a8b0c1d2e", "start_line": 200, "end_line": 260 }))]
pub struct OutputRead {
    /// The id of the output, as the cut result named it: `out_…`.
    #[schemars(length(min = 1, max = 100), extend("x-aliases" = ["output_id", "outputId", "output"]))]
    pub id: String,
    /// The page to show, counted from 1; the first when nothing else is asked for.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub page: Option<u64>,
    /// The first line to show, counted from 1. Not together with page.
    #[serde(default)]
    #[schemars(range(min = 1), extend("x-aliases" = ["offset", "startLine", "from_line"]))]
    pub start_line: Option<u64>,
    /// The last line to show; as many as are shown at once when left out.
    #[serde(default)]
    #[schemars(range(min = 1), extend("x-aliases" = ["endLine", "to_line"]))]
    pub end_line: Option<u64>,
}

/// A part of an output.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OutputText {
    /// The id of the output.
    pub id: String,
    /// The tool that it is of.
    pub tool: String,
    /// The text.
    #[schemars(extend("x-in-content" = true))]
    pub text: String,
    /// The first line shown, counted from 1; 0 when there is none.
    pub first_line: u64,
    /// The last line shown, or a part of it.
    pub last_line: u64,
    /// How many lines the output has.
    pub lines: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// The page shown, if a page was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<u64>,
    /// How many pages it has.
    pub pages: u64,
    /// Where to go on with start_line, when lines that were asked for are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_line: Option<u64>,
    /// How many lines were too long and are shown in part.
    pub cut_lines: u64,
}

impl Output for OutputText {
    fn text(&self) -> String {
        let gap = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { "\n" };
        format!("{}{gap}[{}]", self.text, self.footer())
    }

    fn title(&self) -> Option<String> {
        Some(format!("Output of {}", self.tool))
    }
}

impl OutputText {
    fn footer(&self) -> String {
        let Self { first_line, last_line, lines, bytes, pages, .. } = self;
        if *bytes == 0 {
            return "the output is empty".to_owned();
        }
        let cut = match self.cut_lines {
            0 => String::new(),
            count => format!("; {count} long lines are cut, a page shows them whole"),
        };
        let shown = format!("lines {first_line}-{last_line} of {lines} of output {}{cut}", self.id);
        match (self.page, self.next_line) {
            (Some(page), None) if page < *pages => {
                format!("{shown}; page {page} of {pages}, go on with page={}", page + 1)
            }
            (Some(page), None) => format!("{shown}; page {page} of {pages}"),
            (Some(page), Some(next)) => {
                format!("{shown}; page {page} of {pages} goes on with start_line={next}")
            }
            (None, Some(next)) => format!("{shown}; go on with start_line={next}"),
            (None, None) => format!("{shown}; {pages} pages in all"),
        }
    }
}

/// Shows an earlier output.
#[tool(
    idempotent,
    deadline = "30s",
    variables(page_kb = PAGE >> 10, most_lines = LINES),
    profiles(mcp, researcher, reviewer)
)]
pub async fn output_read(input: OutputRead, outputs: ReadOutputs) -> Result<OutputText, ToolError> {
    let kept = outputs.find(&input.id).await?;
    match (input.page, input.start_line, input.end_line) {
        (Some(_), Some(_), _) | (Some(_), _, Some(_)) => {
            Err(ToolError::input("page: it cannot be given together with start_line or end_line")
                .hint("ask for a page, or for lines"))
        }
        (page, None, None) => read_page(&outputs, &input.id, &kept, page.unwrap_or(1)).await,
        (None, start, end) => {
            let start = start.unwrap_or(1);
            let end = end.unwrap_or(u64::MAX);
            if end < start {
                let message = format!("end_line: {end} is before start_line, {start}");
                return Err(ToolError::input(message).hint("give the first line first"));
            }
            read_lines(&outputs, &input.id, &kept, start, end).await
        }
    }
}

fn page_count(kept: &OutputInfo) -> u64 {
    kept.bytes.div_ceil(PAGE).max(1)
}

async fn read_page(
    outputs: &ReadOutputs,
    id: &str,
    kept: &OutputInfo,
    page: u64,
) -> Result<OutputText, ToolError> {
    let pages = page_count(kept);
    if page > pages {
        let message = format!("page: the output has {pages} pages, not {page}");
        return Err(ToolError::input(message).hint(format!("give a page from 1 to {pages}")));
    }
    let (from, to) = ((page - 1) * PAGE, page * PAGE);
    // With the byte before: a line that begins exactly there begins the page.
    let around = span(outputs, id, from.saturating_sub(1), to.saturating_add(SLACK)).await?;
    let (start, end) = (snapped(&around, from), snapped(&around, to));
    let (before, rest) = around.text.split_at(start);
    let (text, _) = rest.split_at(end.saturating_sub(start));
    let first_line = around.first_line + breaks(before);
    let (text, next_line) = first_lines(text, first_line);
    Ok(OutputText { page: Some(page), next_line, ..shown(id, kept, first_line, text.to_owned()) })
}

/// Where a page that should begin at a byte begins: with the next line, if that is near, else with the next character.
fn snapped(span: &Span, byte: u64) -> usize {
    let at = usize::try_from(byte.saturating_sub(span.first_byte)).unwrap_or(usize::MAX);
    if byte == 0 || at >= span.text.len() {
        return if byte == 0 { 0 } else { span.text.len() };
    }
    let at = span.text.ceil_char_boundary(at);
    let bytes = span.text.as_bytes();
    let near = bytes.iter().skip(at.saturating_sub(1)).take(SLACK as usize);
    let line = near.copied().position(|byte| byte == b'\n');
    line.map_or(at, |line| at.saturating_sub(1) + line + 1)
}

/// At most so many lines as are shown at once, and the line that comes next.
fn first_lines(text: &str, first_line: u64) -> (&str, Option<u64>) {
    let mut breaks = memchr::memchr_iter(b'\n', text.as_bytes());
    match breaks.nth(LINES as usize - 1) {
        Some(at) if at + 1 < text.len() => (text.split_at(at + 1).0, Some(first_line + LINES)),
        _ => (text, None),
    }
}

fn shown(id: &str, kept: &OutputInfo, first_line: u64, text: String) -> OutputText {
    let inner = breaks(text.strip_suffix('\n').unwrap_or(&text));
    OutputText {
        id: id.to_owned(),
        tool: kept.made_by.tool.clone(),
        first_line: if text.is_empty() { 0 } else { first_line },
        last_line: if text.is_empty() { 0 } else { first_line + inner },
        text,
        lines: kept.lines,
        bytes: kept.bytes,
        pages: page_count(kept),
        ..OutputText::default()
    }
}

async fn read_lines(
    outputs: &ReadOutputs,
    id: &str,
    kept: &OutputInfo,
    start: u64,
    end: u64,
) -> Result<OutputText, ToolError> {
    if start > kept.lines {
        let message = format!("start_line: the output has {} lines, not {start}", kept.lines);
        return Err(ToolError::input(message).hint("give a line that is there, or a page"));
    }
    let end = end.min(kept.lines);
    let mut piece = outputs.piece(id, OutputPosition::Line(start)).await?;
    let mut lines = Lines { start, end, line: piece.first_line, ..Lines::default() };
    while lines.take(&piece.text) {
        piece = outputs.piece(id, OutputPosition::Byte(piece.end())).await?;
        if piece.text.is_empty() {
            break;
        }
    }
    let (next_line, cut_lines) = (lines.next, lines.cut);
    Ok(OutputText { next_line, cut_lines, ..shown(id, kept, start, lines.text) })
}

/// Lines on their way from pieces to a page.
#[derive(Default)]
struct Lines {
    start: u64,
    end: u64,
    /// The line that comes next, or goes on.
    line: u64,
    /// How much of that line is taken already.
    taken: usize,
    text: String,
    next: Option<u64>,
    cut: u64,
}

impl Lines {
    /// Whether more is wanted.
    fn take(&mut self, text: &str) -> bool {
        for part in text.split_inclusive('\n') {
            if self.line > self.end || self.next.is_some() {
                return false;
            }
            if self.line >= self.start && !self.take_part(part) {
                return false;
            }
            if part.ends_with('\n') {
                self.line += 1;
                self.taken = 0;
            }
        }
        self.line <= self.end
    }

    fn take_part(&mut self, part: &str) -> bool {
        let is_full = self.text.len() as u64 >= PAGE || self.line - self.start >= LINES;
        if self.taken == 0 && is_full {
            self.next = Some(self.line);
            return false;
        }
        let content = part.strip_suffix('\n').unwrap_or(part);
        let room = LINE_BYTES.saturating_sub(self.taken);
        let (shown, left_out) =
            content.split_at(content.floor_char_boundary(room.min(content.len())));
        self.text.push_str(shown);
        if !left_out.is_empty() && self.taken <= LINE_BYTES {
            self.text.push_str(" […]");
            self.cut += 1;
            // Said once, however many pieces the line has.
            self.taken = LINE_BYTES + 1;
        }
        self.taken += shown.len();
        if part.ends_with('\n') {
            self.text.push('\n');
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use haft_core::{ErrorKind, MemoryOutputs, OutputSource, Outputs};
    use proptest::prelude::*;

    use super::*;

    async fn kept(text: &str) -> (ReadOutputs, String) {
        let outputs = MemoryOutputs::default();
        let made_by = OutputSource { tool: "bash".into(), ..OutputSource::default() };
        let id = outputs.keep(text.to_owned(), made_by).await.expect("kept").id;
        (ReadOutputs::unchecked(Arc::new(outputs)), id)
    }

    fn numbered(lines: usize) -> String {
        (1..=lines).map(|line| format!("line {line} of many\n")).collect()
    }

    async fn page(text: &str, page: u64) -> Result<OutputText, ToolError> {
        let (outputs, id) = kept(text).await;
        output_read(OutputRead { id, page: Some(page), ..OutputRead::default() }, outputs).await
    }

    async fn lines(text: &str, start: u64, end: Option<u64>) -> Result<OutputText, ToolError> {
        let (outputs, id) = kept(text).await;
        let asked = OutputRead { id, start_line: Some(start), end_line: end, page: None };
        output_read(asked, outputs).await
    }

    #[tokio::test]
    async fn pages_begin_with_lines_and_say_where_to_go_on() {
        let text = numbered(4_000);
        let first = page(&text, 1).await.expect("there");
        assert!(first.text.starts_with("line 1 of many\n") && first.text.ends_with('\n'));
        assert_eq!((first.first_line, first.lines, first.pages), (1, 4_000, 3));
        let second = page(&text, 2).await.expect("there");
        assert_eq!(second.first_line, first.last_line + 1);
        let footer = format!("of 4000 of output {}; page 2 of 3, go on with page=3]", second.id);
        assert!(second.text().ends_with(&footer), "{}", second.footer());
    }

    #[tokio::test]
    async fn many_short_lines_of_a_page_go_on_by_lines() {
        let text = "x\n".repeat(10_000);
        let first = page(&text, 1).await.expect("there");
        assert_eq!((first.last_line, first.next_line), (2_000, Some(2_001)));
        assert!(first.footer().ends_with("page 1 of 1 goes on with start_line=2001"));
    }

    #[tokio::test]
    async fn lines_are_shown_as_they_were_asked_for() {
        let text = numbered(5_000);
        let some = lines(&text, 200, Some(202)).await.expect("there");
        assert_eq!(some.text, "line 200 of many\nline 201 of many\nline 202 of many\n");
        assert_eq!((some.first_line, some.last_line, some.next_line), (200, 202, None));
        let last = lines(&text, 5_000, None).await.expect("there");
        assert_eq!(last.text, "line 5000 of many\n");
        let many = lines(&text, 10, None).await.expect("there");
        let next = many.next_line.expect("not all at once");
        assert_eq!(many.last_line + 1, next);
        assert!(many.text().len() < 50 << 10);
        let long = lines(&format!("{}\nb\n", "ä".repeat(9_000)), 1, Some(2)).await.expect("there");
        assert!(long.text.ends_with("ä […]\nb\n") && long.cut_lines == 1, "{}", long.footer());
    }

    #[tokio::test]
    async fn what_is_not_there_is_told() {
        for (error, told) in [
            (page("a\nb", 2).await, "the output has 1 pages, not 2"),
            (lines("a\nb", 3, None).await, "the output has 2 lines, not 3"),
            (lines("a\nb", 2, Some(1)).await, "1 is before start_line, 2"),
        ] {
            let error = error.expect_err("not there");
            assert_eq!(error.kind(), ErrorKind::Input);
            assert!(error.message().contains(told), "{error}");
        }
        let (outputs, id) = kept("a").await;
        let both = OutputRead { id, page: Some(1), start_line: Some(1), end_line: None };
        assert_eq!(
            output_read(both, outputs.clone()).await.expect_err("both").kind(),
            ErrorKind::Input
        );
        let unknown = OutputRead { id: "out_x".into(), ..OutputRead::default() };
        assert_eq!(
            output_read(unknown, outputs).await.expect_err("none").kind(),
            ErrorKind::NotFound
        );
        assert_eq!(page("", 1).await.expect("empty").text(), "[the output is empty]");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// Every byte is on exactly one page, whatever the lines are like.
        #[test]
        fn the_pages_are_the_text(
            pieces in prop::collection::vec(("[a-zä😀 ]{0,40}", 1usize..800, any::<bool>()), 0..12),
        ) {
            let text: String = pieces
                .iter()
                .map(|(piece, times, ends)| piece.repeat(*times) + if *ends { "\n" } else { "" })
                .collect();
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            let (outputs, id) = runtime.block_on(kept(&text));
            let mut whole = String::new();
            let mut number = 1;
            loop {
                let input = OutputRead { id: id.clone(), page: Some(number), ..OutputRead::default() };
                let page = runtime.block_on(output_read(input, outputs.clone())).expect("there");
                prop_assert!(page.text.is_empty() || page.first_line == breaks(&whole) + 1);
                whole.push_str(&page.text);
                if number == page.pages {
                    break;
                }
                number += 1;
            }
            prop_assert_eq!(whole, text);
        }
    }
}
