//! `output_read`: shows a kept result by pages or by lines.

use haft_core::{Output, OutputInfo, OutputPosition, ReadOutputs, ToolError};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::spans::{Span, count_line_breaks, span};

/// Approximate size of a page. With the surrounding text a page is never truncated again.
const PAGE_BYTES: u64 = 32 << 10;
/// A page begins at a line start if there is one within this distance.
const PAGE_SLACK_BYTES: u64 = 4 << 10;
/// Maximum number of lines shown at once.
const MAX_LINES: u64 = 2_000;
/// Longer lines are truncated when lines are requested; pages show them in full.
const MAX_LINE_BYTES: usize = 4 << 10;

/// The output, and the part to show.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "id": "out_019a8d3c5f7e7c0b9d2e4f6a8b0c1d2e", "start_line": 200, "end_line": 260 }))]
pub struct OutputRead {
    /// The id of the output, as the truncated result gave it: `out_…`.
    #[schemars(length(min = 1, max = 100), extend("x-aliases" = ["output_id", "outputId", "output"]))]
    #[schemars(extend("x-refers-to" = "output"))]
    pub id: String,
    /// The page to show, counted from 1. Default: the first.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub page: Option<u64>,
    /// The first line to show, counted from 1. Not together with page.
    #[serde(default)]
    #[schemars(range(min = 1), extend("x-aliases" = ["offset", "startLine", "from_line"]))]
    pub start_line: Option<u64>,
    /// The last line to show. Default: as many lines as are shown at once.
    #[serde(default)]
    #[schemars(range(min = 1), extend("x-aliases" = ["endLine", "to_line"]))]
    pub end_line: Option<u64>,
}

/// A part of an output.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OutputText {
    /// The id of the output.
    pub id: String,
    /// The tool that returned the output.
    pub tool: String,
    /// The text.
    #[schemars(extend("x-in-content" = true))]
    pub text: String,
    /// The first line shown, counted from 1; 0 when no line is shown.
    pub first_line: u64,
    /// The last line shown, which may be shown in part.
    pub last_line: u64,
    /// Number of lines of the output.
    pub lines: u64,
    /// Size of the output in bytes.
    pub bytes: u64,
    /// The page shown, if a page was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<u64>,
    /// Number of pages of the output.
    pub pages: u64,
    /// The start_line to continue with, when requested lines are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_line: Option<u64>,
    /// Number of lines that were too long and are shown in part.
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
            count => format!("; {count} long lines are truncated, a page shows them in full"),
        };
        let shown = format!("lines {first_line}-{last_line} of {lines} of output {}{cut}", self.id);
        match (self.page, self.next_line) {
            (Some(page), None) if page < *pages => {
                format!("{shown}; page {page} of {pages}, continue with page={}", page + 1)
            }
            (Some(page), None) => format!("{shown}; page {page} of {pages}"),
            (Some(page), Some(next)) => {
                format!("{shown}; page {page} of {pages} continues with start_line={next}")
            }
            (None, Some(next)) => format!("{shown}; continue with start_line={next}"),
            (None, None) => format!("{shown}; {pages} pages in all"),
        }
    }
}

/// Shows an earlier output.
#[tool(
    idempotent,
    deadline = "30s",
    variables(page_kb = PAGE_BYTES >> 10, max_lines = MAX_LINES),
    profiles(mcp, researcher, reviewer)
)]
pub async fn output_read(input: OutputRead, outputs: ReadOutputs) -> Result<OutputText, ToolError> {
    let kept = outputs.find(&input.id).await?;
    match (input.page, input.start_line, input.end_line) {
        (Some(_), Some(_), _) | (Some(_), _, Some(_)) => {
            Err(ToolError::input("page: cannot be combined with start_line or end_line")
                .hint("give either page, or start_line and end_line"))
        }
        (page, None, None) => read_page(&outputs, &input.id, &kept, page.unwrap_or(1)).await,
        (None, start, end) => {
            let start = start.unwrap_or(1);
            let end = end.unwrap_or(u64::MAX);
            if end < start {
                let message = format!("end_line: {end} is before start_line, {start}");
                return Err(ToolError::input(message).hint("give the smaller line as start_line"));
            }
            read_lines(&outputs, &input.id, &kept, start, end).await
        }
    }
}

fn page_count(kept: &OutputInfo) -> u64 {
    kept.bytes.div_ceil(PAGE_BYTES).max(1)
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
    let (from, to) = ((page - 1) * PAGE_BYTES, page * PAGE_BYTES);
    // Include the byte before, so that a line that begins exactly there begins the page.
    let span_end = to.saturating_add(PAGE_SLACK_BYTES);
    let around = span(outputs, id, from.saturating_sub(1), span_end).await?;
    let (start, end) = (page_start(&around, from), page_start(&around, to));
    let (before, rest) = around.text.split_at(start);
    let (text, _) = rest.split_at(end.saturating_sub(start));
    let first_line = around.first_line + count_line_breaks(before);
    let (text, next_line) = first_lines(text, first_line);
    Ok(OutputText { page: Some(page), next_line, ..shown(id, kept, first_line, text.to_owned()) })
}

/// Returns where in the span the page that starts at `byte` begins: at the next line if it is near,
/// else at the next character.
fn page_start(span: &Span, byte: u64) -> usize {
    let at = usize::try_from(byte.saturating_sub(span.first_byte)).unwrap_or(usize::MAX);
    if byte == 0 || at >= span.text.len() {
        return if byte == 0 { 0 } else { span.text.len() };
    }
    let at = span.text.ceil_char_boundary(at);
    let bytes = span.text.as_bytes();
    let near = bytes.iter().skip(at.saturating_sub(1)).take(PAGE_SLACK_BYTES as usize);
    let line = near.copied().position(|byte| byte == b'\n');
    line.map_or(at, |line| at.saturating_sub(1) + line + 1)
}

/// Returns at most `MAX_LINES` lines of a text, and the number of the next line.
fn first_lines(text: &str, first_line: u64) -> (&str, Option<u64>) {
    let mut breaks = memchr::memchr_iter(b'\n', text.as_bytes());
    match breaks.nth(MAX_LINES as usize - 1) {
        Some(at) if at + 1 < text.len() => (text.split_at(at + 1).0, Some(first_line + MAX_LINES)),
        _ => (text, None),
    }
}

fn shown(id: &str, kept: &OutputInfo, first_line: u64, text: String) -> OutputText {
    let inner = count_line_breaks(text.strip_suffix('\n').unwrap_or(&text));
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
        return Err(ToolError::input(message)
            .hint(format!("give a start_line from 1 to {}, or a page", kept.lines)));
    }
    let end = end.min(kept.lines);
    let mut piece = outputs.piece(id, OutputPosition::Line(start)).await?;
    let mut lines = OutputLines { start, end, line: piece.first_line, ..Default::default() };
    while lines.take(&piece.text) {
        piece = outputs.piece(id, OutputPosition::Byte(piece.end())).await?;
        if piece.text.is_empty() {
            break;
        }
    }
    let (next_line, cut_lines) = (lines.next, lines.cut);
    Ok(OutputText { next_line, cut_lines, ..shown(id, kept, start, lines.text) })
}

/// Collects a range of lines from pieces.
#[derive(Default)]
struct OutputLines {
    start: u64,
    end: u64,
    /// The line that the next text belongs to.
    line: u64,
    /// Number of bytes already taken from that line.
    taken: usize,
    text: String,
    next: Option<u64>,
    cut: u64,
}

impl OutputLines {
    /// Takes the lines of a piece. Returns true if more text is needed.
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
        let is_full = self.text.len() as u64 >= PAGE_BYTES || self.line - self.start >= MAX_LINES;
        if self.taken == 0 && is_full {
            self.next = Some(self.line);
            return false;
        }
        let content = part.strip_suffix('\n').unwrap_or(part);
        let room = MAX_LINE_BYTES.saturating_sub(self.taken);
        let (shown, left_out) =
            content.split_at(content.floor_char_boundary(room.min(content.len())));
        self.text.push_str(shown);
        if !left_out.is_empty() && self.taken <= MAX_LINE_BYTES {
            self.text.push_str(" […]");
            self.cut += 1;
            // Added once, however many pieces the line has.
            self.taken = MAX_LINE_BYTES + 1;
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
    async fn pages_begin_with_lines_and_say_where_to_continue() {
        let text = numbered(4_000);
        let first = page(&text, 1).await.expect("there");
        assert!(first.text.starts_with("line 1 of many\n") && first.text.ends_with('\n'));
        assert_eq!((first.first_line, first.lines, first.pages), (1, 4_000, 3));
        let second = page(&text, 2).await.expect("there");
        assert_eq!(second.first_line, first.last_line + 1);
        let footer = format!("of 4000 of output {}; page 2 of 3, continue with page=3]", second.id);
        assert!(second.text().ends_with(&footer), "{}", second.footer());
    }

    #[tokio::test]
    async fn a_page_of_many_short_lines_continues_by_lines() {
        let text = "x\n".repeat(10_000);
        let first = page(&text, 1).await.expect("there");
        assert_eq!((first.last_line, first.next_line), (2_000, Some(2_001)));
        assert!(first.footer().ends_with("page 1 of 1 continues with start_line=2001"));
    }

    #[tokio::test]
    async fn the_requested_lines_are_shown() {
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
    async fn a_request_beyond_the_output_is_refused() {
        for (error, expected) in [
            (page("a\nb", 2).await, "the output has 1 pages, not 2"),
            (lines("a\nb", 3, None).await, "the output has 2 lines, not 3"),
            (lines("a\nb", 2, Some(1)).await, "1 is before start_line, 2"),
        ] {
            let error = error.expect_err("not there");
            assert_eq!(error.kind(), ErrorKind::Input);
            assert!(error.message().contains(expected), "{error}");
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

        /// Every byte is on exactly one page.
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
                prop_assert!(page.text.is_empty() || page.first_line == count_line_breaks(&whole) + 1);
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
