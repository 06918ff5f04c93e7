//! `output_search`: finds the lines of a kept result that match a pattern.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use haft_core::{Cancel, Output, OutputPosition, ReadOutputs, ToolError, block_in_place};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

const DEFAULT_RESULTS: usize = 50;
const MAX_RESULTS: usize = 500;
/// One result shows about a hundred lines of this length.
const LINE_CHARS: usize = 400;
/// Maximum number of bytes shown, whatever `max_results` is.
const MAX_SHOWN_BYTES: usize = 40 << 10;
/// Time after which the search stops and returns its matches. It is well before the deadline.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(20);
/// Longer lines are searched in parts.
const MAX_LINE_BYTES: usize = 1 << 20;

/// The pattern, and the output to search.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "id": "out_019a8d3c5f7e7c0b9d2e4f6a8b0c1d2e", "pattern": "error|warning", "context": 2 }))]
pub struct OutputSearch {
    /// The id of the output, as the truncated result gave it: `out_…`.
    #[schemars(length(min = 1, max = 100), extend("x-aliases" = ["output_id", "outputId", "output"]))]
    #[schemars(extend("x-refers-to" = "output"))]
    pub id: String,
    /// A regular expression, or plain text when literal is set.
    #[schemars(length(min = 1, max = 10_000), extend("x-aliases" = ["query", "regex", "search"]))]
    pub pattern: String,
    /// The pattern is plain text, not a regular expression.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["fixed_strings", "is_literal", "-F"]))]
    #[schemars(extend("x-short" = "F"))]
    pub literal: bool,
    /// Ignore case.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["ignore_case", "ignoreCase", "caseInsensitive", "-i"]))]
    #[schemars(extend("x-short" = "i"))]
    pub case_insensitive: bool,
    /// Number of lines to show before and after each match.
    #[serde(default)]
    #[schemars(range(max = 20), extend("x-aliases" = ["context_lines", "contextLines", "-C"]))]
    #[schemars(extend("x-short" = "C"))]
    pub context: usize,
    /// Maximum number of matching lines to show.
    #[serde(default = "default_results")]
    #[schemars(range(min = 1, max = MAX_RESULTS), extend("x-aliases" = ["limit", "maxResults", "max_count"]))]
    #[schemars(extend("x-short" = "m"))]
    pub max_results: usize,
}

fn default_results() -> usize {
    DEFAULT_RESULTS
}

/// The matching lines.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct FoundLines {
    /// The id of the output.
    pub id: String,
    /// In order.
    #[schemars(extend("x-in-content" = true))]
    pub found: Vec<FoundLine>,
    /// Number of matching lines shown.
    pub matches: usize,
    /// There may be more matching lines than are shown.
    pub has_more: bool,
    /// False when the search was stopped before its end.
    pub is_complete: bool,
    /// Number of lines searched.
    pub searched: u64,
    /// Number of lines of the output.
    pub lines: u64,
}

/// A line.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FoundLine {
    /// Line number, counted from 1.
    pub line: u64,
    /// Text without the line ending.
    pub text: String,
    /// A line of context, which does not match.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_context: bool,
    /// The text is only a part of the line.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_cut: bool,
}

impl Output for FoundLines {
    fn text(&self) -> String {
        let has_context = self.found.iter().any(|line| line.is_context);
        let mut lines = Vec::new();
        let mut next = None;
        for line in &self.found {
            // The lines are not adjacent.
            if has_context && next.is_some_and(|next| next != line.line) {
                lines.push("--".to_owned());
            }
            let mark = if line.is_context { '-' } else { ':' };
            let cut = if line.is_cut { " […]" } else { "" };
            lines.push(format!("{}{mark} {}{cut}", line.line, line.text));
            next = line.line.checked_add(1);
        }
        lines.push(format!("[{}]", self.footer()));
        lines.join("\n")
    }

    fn title(&self) -> Option<String> {
        Some("Search in an output".to_owned())
    }
}

impl FoundLines {
    fn footer(&self) -> String {
        let Self { searched, lines, .. } = self;
        let matches = crate::text::count(self.matches, "match");
        if self.has_more {
            return format!(
                "stopped at {matches}, at line {searched} of {lines}; narrow the pattern, or raise max_results"
            );
        }
        if !self.is_complete {
            return format!("partial: {matches}, stopped at line {searched} of {lines}");
        }
        if self.matches == 0 {
            return format!("no line matches; {lines} lines searched");
        }
        format!("{matches} in {lines} lines")
    }
}

/// Searches an earlier output.
#[tool(
    idempotent,
    deadline = "30s",
    variables(line_chars = LINE_CHARS),
    profiles(mcp, researcher, reviewer)
)]
pub async fn output_search(
    input: OutputSearch,
    outputs: ReadOutputs,
    cancel: Cancel,
) -> Result<FoundLines, ToolError> {
    let pattern = pattern(&input)?;
    let kept = outputs.find(&input.id).await?;
    let began = Instant::now();
    let mut search = LineSearch::new(pattern, &input);
    let mut at = 0;
    while at < kept.bytes && !search.is_full {
        if cancel.is_cancelled() || began.elapsed() > SEARCH_TIMEOUT {
            break;
        }
        let piece = outputs.piece(&input.id, OutputPosition::Byte(at)).await?;
        if piece.text.is_empty() {
            break;
        }
        at = piece.end();
        block_in_place(|| search.take(&piece.text));
    }
    search.finish();
    Ok(FoundLines {
        id: input.id,
        matches: search.matches,
        has_more: search.is_full,
        is_complete: !search.is_full && at >= kept.bytes,
        searched: search.line,
        lines: kept.lines,
        found: search.found,
    })
}

fn pattern(input: &OutputSearch) -> Result<LinePattern, ToolError> {
    let built = RegexMatcherBuilder::new()
        .crlf(true)
        .line_terminator(Some(b'\n'))
        .multi_line(true)
        .fixed_strings(input.literal)
        .case_insensitive(input.case_insensitive)
        .size_limit(4 << 20)
        .build(&input.pattern);
    let matcher = built.map_err(|error| {
        ToolError::input(format!("pattern: {error}"))
            .hint("fix the regular expression, or set literal to search for plain text")
    })?;
    // These match at the ends of the whole text, but here each line is a text.
    let uses_text_anchors = |text: &str| {
        ["\\A", "\\z"].iter().any(|end| text.contains(end))
            || (text.contains("(?") && text.contains('-'))
    };
    Ok(LinePattern { matcher, line_by_line: !input.literal && uses_text_anchors(&input.pattern) })
}

/// A compiled pattern.
struct LinePattern {
    matcher: RegexMatcher,
    /// Lines cannot be searched together.
    line_by_line: bool,
}

impl LinePattern {
    /// Returns where the first match at or after `from` begins. A match never spans lines.
    fn find(&self, text: &str, from: usize) -> Option<usize> {
        let found = self.matcher.find_at(text.as_bytes(), from);
        found.ok().flatten().map(|found| found.start())
    }
}

/// The state of a search through the pieces of an output.
struct LineSearch {
    pattern: LinePattern,
    context: usize,
    max_results: usize,
    /// Number of lines searched.
    line: u64,
    /// The beginning of a line whose end is in the next piece.
    open: String,
    /// True if a part of the open line was already searched.
    is_going_on: bool,
    before: VecDeque<FoundLine>,
    /// Number of context lines still to be shown.
    after: usize,
    found: Vec<FoundLine>,
    bytes: usize,
    matches: usize,
    is_full: bool,
}

impl LineSearch {
    fn new(pattern: LinePattern, input: &OutputSearch) -> Self {
        Self {
            pattern,
            context: input.context,
            max_results: input.max_results,
            line: 0,
            open: String::new(),
            is_going_on: false,
            before: VecDeque::new(),
            after: 0,
            found: Vec::new(),
            bytes: 0,
            matches: 0,
            is_full: false,
        }
    }

    fn take(&mut self, text: &str) {
        let mut text = text;
        if !self.open.is_empty() || self.is_going_on {
            let (rest_of_line, rest) = text.split_at(first_line_length(text));
            self.take_part(rest_of_line);
            text = rest;
        }
        let whole = memchr::memrchr(b'\n', text.as_bytes()).map_or(0, |at| at + 1);
        let (lines, part) = text.split_at(whole);
        self.take_lines(lines);
        if !self.is_full {
            self.take_part(part);
        }
    }

    /// Takes a line, or a part of one.
    fn take_part(&mut self, part: &str) {
        self.open.push_str(part);
        let is_whole = part.ends_with('\n');
        if is_whole || self.open.len() > MAX_LINE_BYTES {
            let line = std::mem::take(&mut self.open);
            self.search_line(&line, is_whole);
        }
    }

    /// Takes whole lines and searches them together; the text between two matches is not searched
    /// line by line.
    fn take_lines(&mut self, lines: &str) {
        let mut done = 0;
        while done < lines.len() && !self.is_full {
            let start = match self.after > 0 || self.pattern.line_by_line {
                true => done,
                false => match self.pattern.find(lines, done) {
                    Some(at) => done + last_line_start(lines.split_at(at).0.split_at(done).1),
                    None => lines.len(),
                },
            };
            let (_, rest) = lines.split_at(done);
            let (passed, rest) = rest.split_at(start - done);
            self.pass(passed);
            let (line, _) = rest.split_at(first_line_length(rest));
            if !line.is_empty() {
                self.search_line(line, true);
            }
            done = start + line.len();
        }
    }

    /// Skips whole lines without a match, keeping those that may become context.
    fn pass(&mut self, lines: &str) {
        let count = memchr::memchr_iter(b'\n', lines.as_bytes()).count();
        self.line += count as u64;
        let skip = count.saturating_sub(self.context);
        let (_, near) = lines.split_at(match self.context {
            0 => lines.len(),
            // Find the line break before the first of the last `context` lines.
            context => {
                memchr::memrchr_iter(b'\n', lines.as_bytes()).nth(context).map_or(0, |at| at + 1)
            }
        });
        for (number, line) in
            (self.line - (count - skip) as u64 + 1..).zip(near.split_inclusive('\n'))
        {
            self.keep_before(clipped(without_end(line), number, 0));
        }
    }

    fn keep_before(&mut self, line: FoundLine) {
        self.before.push_back(FoundLine { is_context: true, ..line });
        if self.before.len() > self.context {
            self.before.pop_front();
        }
    }

    /// Searches the last line when it has no line break.
    fn finish(&mut self) {
        let line = std::mem::take(&mut self.open);
        if !line.is_empty() && !self.is_full {
            self.search_line(&line, true);
        }
    }

    fn search_line(&mut self, line: &str, ends: bool) {
        if !self.is_going_on {
            self.line += 1;
        }
        self.is_going_on = !ends;
        let line = without_end(line);
        match self.pattern.find(line, 0) {
            Some(_) if self.matches == self.max_results => self.is_full = true,
            Some(at) => {
                self.matches += 1;
                let before = std::mem::take(&mut self.before);
                before.into_iter().for_each(|line| self.show(line));
                self.show(clipped(line, self.line, at));
                self.after = self.context;
            }
            None if self.after > 0 => {
                self.after -= 1;
                self.show(FoundLine { is_context: true, ..clipped(line, self.line, 0) });
            }
            None if self.context > 0 => self.keep_before(clipped(line, self.line, 0)),
            None => {}
        }
    }

    fn show(&mut self, line: FoundLine) {
        self.bytes += line.text.len() + 12;
        if self.bytes > MAX_SHOWN_BYTES {
            self.is_full = true;
            self.matches -= usize::from(!line.is_context);
            return;
        }
        self.found.push(line);
    }
}

/// Returns the length of the first line with its line break.
fn first_line_length(text: &str) -> usize {
    memchr::memchr(b'\n', text.as_bytes()).map_or(text.len(), |at| at + 1)
}

/// Returns where the last line begins.
fn last_line_start(text: &str) -> usize {
    memchr::memrchr(b'\n', text.as_bytes()).map_or(0, |at| at + 1)
}

fn without_end(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

/// Returns a line, truncated around byte `at` when it is too long.
fn clipped(line: &str, number: u64, at: usize) -> FoundLine {
    let (line_number, is_context) = (number, false);
    if line.len() <= LINE_CHARS {
        return FoundLine { line: line_number, text: line.to_owned(), is_context, is_cut: false };
    }
    let start = line.floor_char_boundary(at.saturating_sub(LINE_CHARS / 4));
    let (_, rest) = line.split_at(start);
    let text: String = rest.chars().take(LINE_CHARS).collect();
    let is_cut = text.len() < line.len();
    FoundLine { line: line_number, text, is_context, is_cut }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use haft_core::{
        BoxFuture, ErrorKind, MemoryOutputs, OutputInfo, OutputPiece, OutputSource, Outputs,
        StoredOutput,
    };
    use proptest::prelude::*;

    use super::*;

    /// An output store with small pieces.
    struct SmallPieces(MemoryOutputs, usize);

    impl Outputs for SmallPieces {
        fn keep(
            &self,
            text: String,
            made_by: OutputSource,
        ) -> BoxFuture<'_, Result<StoredOutput, ToolError>> {
            self.0.keep(text, made_by)
        }

        fn find<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<OutputInfo, ToolError>> {
            self.0.find(id)
        }

        fn piece<'a>(
            &'a self,
            id: &'a str,
            at: OutputPosition,
        ) -> BoxFuture<'a, Result<OutputPiece, ToolError>> {
            Box::pin(async move {
                let whole = self.0.read(id).await?;
                let OutputPosition::Byte(byte) = at else { panic!("the search goes by bytes") };
                let start = usize::try_from(byte).expect("small");
                let end = whole.ceil_char_boundary((start + self.1).min(whole.len()));
                let text = whole.get(start..end).expect("whole characters").into();
                Ok(OutputPiece { first_byte: byte, first_line: 1, text })
            })
        }
    }

    async fn search(
        text: &str,
        piece: usize,
        input: OutputSearch,
    ) -> Result<FoundLines, ToolError> {
        let outputs = SmallPieces(MemoryOutputs::default(), piece);
        let id = outputs.keep(text.to_owned(), OutputSource::default()).await.expect("kept").id;
        let outputs = ReadOutputs::unchecked(Arc::new(outputs));
        output_search(OutputSearch { id, ..input }, outputs, Cancel::never()).await
    }

    fn asked(pattern: &str) -> OutputSearch {
        OutputSearch {
            pattern: pattern.into(),
            max_results: DEFAULT_RESULTS,
            ..OutputSearch::default()
        }
    }

    #[tokio::test]
    async fn lines_are_found_with_their_numbers_and_context() {
        let text = "one\ntwo\nTHREE\nfour\nfive\r\nsix";
        let found = search(text, 4, asked("^(two|five)$")).await.expect("searched");
        assert_eq!(found.text(), "2: two\n5: five\n[2 matches in 6 lines]");
        let around = OutputSearch { context: 1, case_insensitive: true, ..asked("three|six") };
        let found = search(text, 7, around).await.expect("searched");
        assert_eq!(
            found.text(),
            "2- two\n3: THREE\n4- four\n5- five\n6: six\n[2 matches in 6 lines]"
        );
        let literal = OutputSearch { literal: true, ..asked("f(") };
        let none = search(text, 3, literal).await.expect("searched");
        assert_eq!(none.text(), "[no line matches; 6 lines searched]");
    }

    #[tokio::test]
    async fn results_beyond_the_limit_are_reported() {
        let text = "x\n".repeat(100);
        let few = OutputSearch { max_results: 2, ..asked("x") };
        let found = search(&text, 9, few).await.expect("searched");
        assert_eq!((found.matches, found.has_more, found.is_complete), (2, true, false));
        assert!(found.text().ends_with(
            "[stopped at 2 matches, at line 3 of 100; narrow the pattern, or raise max_results]"
        ));
        let exactly = OutputSearch { max_results: 100, ..asked("x") };
        assert!(!search(&text, 9, exactly).await.expect("searched").has_more);
    }

    #[tokio::test]
    async fn long_lines_are_cut_around_the_match_and_the_whole_is_bounded() {
        let text = format!("{}needle{}\n", "ä".repeat(700), "b".repeat(700)).repeat(500);
        let many = OutputSearch { max_results: MAX_RESULTS, ..asked("needle") };
        let found = search(&text, 5_000, many).await.expect("searched");
        assert!(found.found.iter().all(|line| line.text.contains("needle") && line.is_cut));
        assert!(found.has_more && found.text().len() < 50 << 10);
        assert_eq!(found.matches, found.found.len());
    }

    #[tokio::test]
    async fn an_invalid_pattern_is_refused_and_backtracking_patterns_are_fast() {
        let error = search("a", 9, asked("a(")).await.expect_err("open");
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(error.message().starts_with("pattern: "), "{error}");
        assert!(search("a", 9, asked("(a{1000}){1000}")).await.is_err(), "too large");
        assert!(search("a", 9, asked("a\\nb")).await.is_err(), "more than a line");
        let text = "a".repeat(20_000);
        let found = search(&text, 9_000, asked("(a+)+$|(a*)*b")).await.expect("linear");
        assert_eq!(found.matches, 1);
    }

    #[tokio::test]
    async fn the_ends_of_a_text_are_those_of_each_line() {
        for pattern in ["\\Ab", "b\\z", "(?-m)^b$"] {
            let found = search("a\nb\nb\n", 4, asked(pattern)).await.expect("searched");
            assert_eq!(found.matches, 2, "{pattern}");
        }
    }

    /// Returns the expected lines, found by matching every line separately.
    fn expected(text: &str, pattern: &str, context: usize) -> Vec<(u64, bool)> {
        let regex = regex::Regex::new(pattern).expect("a pattern");
        let lines: Vec<&str> = text.strip_suffix('\n').unwrap_or(text).split('\n').collect();
        let matches: Vec<bool> =
            lines.iter().map(|line| regex.is_match(without_end(line))).collect();
        let near = |at: usize| {
            let around = at.saturating_sub(context)..=(at + context).min(lines.len() - 1);
            around.into_iter().any(|at| matches[at])
        };
        let shown = (0..lines.len()).filter(|at| !text.is_empty() && near(*at));
        shown.map(|at| (at as u64 + 1, !matches[at])).collect()
    }

    const PATTERNS: [&str; 9] = ["a.?b|ä$", "a", "^a", "b$", "a\\s*b", "[^b]a", "^$", "b?", "\\bä"];

    proptest! {
        /// However the text is split into pieces, the search finds the same lines and context as in
        /// the whole text.
        #[test]
        fn pieces_make_no_difference(
            text in "([abä ]|\n|\r\n|\n\n){0,200}",
            piece in 1usize..40,
            pattern in prop::sample::select(&PATTERNS[..]),
            context in 0usize..4,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            let input = OutputSearch { max_results: MAX_RESULTS, context, ..asked(pattern) };
            let found = runtime.block_on(search(&text, piece, input)).expect("searched");
            let shown: Vec<(u64, bool)> =
                found.found.iter().map(|line| (line.line, line.is_context)).collect();
            prop_assert_eq!(shown, expected(&text, pattern, context));
            prop_assert!(found.is_complete);
            let lines: Vec<&str> = text.split('\n').collect();
            for line in &found.found {
                prop_assert_eq!(&*line.text, without_end(lines[line.line as usize - 1]));
            }
        }
    }
}
