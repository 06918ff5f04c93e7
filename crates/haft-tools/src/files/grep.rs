//! `grep`: finds lines that match a pattern.

use std::path::PathBuf;

use haft_core::{
    Access, Cancel, Output, ReadFiles, ToolError,
    files::{FileMatches, MatchLine, SearchFiles, SearchResult},
    spawn_blocking,
};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    list::{shown, unreadable, workspace},
    page::{self, PAGE_BYTES, range},
};
use crate::text::count;

const DEFAULT_RESULTS: usize = 100;
const MAX_RESULTS: usize = 2_000;
/// One result shows about a hundred lines of this length.
const LINE_CHARS: usize = 500;

/// The pattern, and where to search.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "pattern": "fn main", "path": "src", "include": "*.rs", "context": 2 }))]
pub struct Grep {
    /// A regular expression, or plain text when literal is set.
    #[schemars(length(min = 1, max = 10_000), extend("x-aliases" = ["query", "regex", "search"]))]
    pub pattern: String,
    /// The file or directory to search, relative to the workspace. Default: the workspace.
    #[serde(default = "workspace")]
    #[schemars(extend("x-aliases" = ["file_path", "filePath", "directory", "dir", "file"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub path: PathBuf,
    /// Only files that match this glob; separate several with commas.
    #[serde(default)]
    #[schemars(length(max = 4096), extend("x-aliases" = ["glob", "file_pattern", "filePattern", "files"]))]
    #[schemars(extend("x-short" = "g"))]
    pub include: Option<String>,
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
    /// A match may span lines.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["multi_line", "-U"]))]
    #[schemars(extend("x-short" = "U"))]
    pub multiline: bool,
    /// Maximum number of matching lines to show.
    #[serde(default = "default_results")]
    #[schemars(range(min = 1, max = MAX_RESULTS), extend("x-aliases" = ["limit", "head_limit", "maxResults", "max_count"]))]
    #[schemars(extend("x-short" = "m"))]
    pub max_results: usize,
    /// The first matching line to show, counted from 1; the answer to one page names the offset of
    /// the next.
    #[serde(default = "page::first")]
    #[schemars(range(min = 1))]
    pub offset: usize,
    /// Also search files that .gitignore and .ignore files name.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["include_ignored", "no_ignore"]))]
    #[schemars(extend("x-short" = "u"))]
    pub ignored: bool,
}

fn default_results() -> usize {
    DEFAULT_RESULTS
}

/// The matching lines.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct GrepMatches {
    /// Sorted by path.
    #[schemars(extend("x-in-content" = true))]
    pub files: Vec<FileLines>,
    /// Number of matching lines shown.
    pub matches: usize,
    /// There are more matching lines than shown.
    pub has_more: bool,
    /// The offset to go on with; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// False when the search was stopped before its end, or could not search some files.
    pub is_complete: bool,
    /// Number of files searched.
    pub searched: usize,
    /// Number of binary files among them, of which nothing is shown.
    pub binary: usize,
    /// Number of files and directories that could not be read.
    pub unreadable: usize,
    /// Files that were not searched to their end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsearched: Vec<String>,
    #[serde(skip)]
    pattern: String,
    #[serde(skip)]
    offset: usize,
    #[serde(skip)]
    is_multiline: bool,
}

/// The matching lines of one file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileLines {
    /// Relative to the workspace.
    pub path: String,
    /// In order.
    pub lines: Vec<GrepLine>,
}

/// A line of a file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GrepLine {
    /// GrepLine number, counted from 1.
    pub line: u64,
    /// Text without the line ending.
    pub text: String,
    /// A line of context, which does not match.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_context: bool,
    /// The text is only the part around the match.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_cut: bool,
}

impl Output for GrepMatches {
    fn text(&self) -> String {
        let mut groups: Vec<String> = self.files.iter().map(FileLines::text).collect();
        groups.push(format!("[{}{}]", self.footer(), unreadable(self.unreadable)));
        groups.join("\n\n")
    }

    fn title(&self) -> Option<String> {
        Some(format!("Grep {}", self.pattern))
    }
}

impl FileLines {
    fn of(file: FileMatches) -> Self {
        let line = |line: MatchLine| GrepLine {
            line: line.number,
            text: line.text,
            is_context: !line.is_match,
            is_cut: line.is_truncated,
        };
        Self { path: shown(&file.path), lines: file.lines.into_iter().map(line).collect() }
    }

    fn text(&self) -> String {
        // A separator marks lines with context that are not adjacent.
        let has_context = self.lines.iter().any(|line| line.is_context);
        let mut lines = Vec::new();
        let mut next = None;
        for line in &self.lines {
            if has_context && next.is_some_and(|next| next != line.line) {
                lines.push("--".to_owned());
            }
            let mark = if line.is_context { '-' } else { ':' };
            let cut = if line.is_cut { " […]" } else { "" };
            lines.push(format!("{}{mark}{}{mark} {}{cut}", self.path, line.line, line.text));
            next = line.line.checked_add(1);
        }
        lines.join("\n")
    }
}

impl GrepMatches {
    fn of(searched: SearchResult, query: &SearchFiles) -> Self {
        let mut found = Self {
            files: searched.files.into_iter().map(FileLines::of).collect(),
            matches: searched.matches,
            has_more: searched.has_more,
            next_offset: None,
            is_complete: searched.is_complete,
            searched: searched.searched,
            binary: searched.binary,
            unreadable: searched.unreadable,
            unsearched: searched.unsearched.iter().map(|path| shown(path)).collect(),
            pattern: query.pattern.clone(),
            offset: query.skip.saturating_add(1),
            is_multiline: query.is_multiline,
        };
        // Who asks for a longer page than usual gets it; what is not shown of it is kept.
        if query.skip > 0 || query.limit <= DEFAULT_RESULTS {
            found.keep_page(query.context as u64);
        }
        if found.has_more && found.matches > 0 {
            found.next_offset = Some(found.offset.saturating_add(found.matches));
        }
        found
    }

    /// Drops the matches behind those that fit into a page.
    fn keep_page(&mut self, context: u64) {
        let (mut bytes, mut matches, mut last) = (0, 0, 0);
        let mut end = None;
        'files: for (file, FileLines { path, lines }) in self.files.iter().enumerate() {
            for (at, line) in lines.iter().enumerate() {
                bytes += path.len() + line.text.len() + 24;
                // One is always shown, or no page would end.
                if bytes > PAGE_BYTES && matches > 0 {
                    end = Some((file, at));
                    break 'files;
                }
                if !line.is_context {
                    matches += 1;
                    last = line.line;
                }
            }
        }
        let Some((file, at)) = end else { return };
        self.has_more |= matches < self.matches;
        self.matches = matches;
        self.files.truncate(file + 1);
        if let Some(FileLines { lines, .. }) = self.files.last_mut() {
            lines.truncate(at);
            // What comes before the next match belongs to the next page.
            let is_later = |line: &GrepLine| line.is_context && line.line > last + context;
            let kept = lines.iter().rev().take_while(|line| is_later(line)).count();
            lines.truncate(at - kept);
        }
        self.files.retain(|file| file.lines.iter().any(|line| !line.is_context));
    }

    fn footer(&self) -> String {
        let matches = count(self.matches, "match");
        if !self.unsearched.is_empty() {
            return self.unsearched_footer(&matches);
        }
        if let Some(next) = self.next_offset {
            let shown = range("match", "matches", self.offset, self.matches);
            let next = page::next(next);
            return format!(
                "{shown}, there are more; {next}, or narrow the pattern or give include"
            );
        }
        let searched = count(self.searched, "file");
        if !self.is_complete {
            return format!(
                "partial: {matches}, stopped before all files were searched ({searched} were)"
            );
        }
        if self.offset > 1 {
            return match self.matches {
                0 => format!("offset={} is behind the last match", self.offset),
                shown => format!("{}, the last", range("match", "matches", self.offset, shown)),
            };
        }
        if self.matches > 0 {
            return format!("{matches} in {}", count(self.files.len(), "file"));
        }
        let binary = match self.binary {
            0 => String::new(),
            binary => format!(", {binary} of them binary"),
        };
        format!("no line matches; {searched} searched{binary}")
    }
}

impl GrepMatches {
    /// Names what was not searched, and why.
    fn unsearched_footer(&self, matches: &str) -> String {
        let named = self.unsearched.join(", ");
        let advice = match self.is_multiline {
            true => "a multiline search needs the whole file in memory; search without multiline",
            false => "a line is too long for this pattern; search for a plain text with literal",
        };
        let next = self.next_offset.map(|next| format!("; {}", page::next(next)));
        let next = next.unwrap_or_default();
        format!("partial: {matches}, but not searched to the end: {named} ({advice}){next}")
    }
}

/// Searches file content.
#[tool(
    idempotent,
    deadline = "60s",
    access = |input| vec![Access::Read(input.path.clone())],
    variables(line_chars = LINE_CHARS),
    profiles(mcp, researcher, reviewer)
)]
pub async fn grep(input: Grep, files: ReadFiles, cancel: Cancel) -> Result<GrepMatches, ToolError> {
    let query = SearchFiles {
        path: input.path,
        pattern: input.pattern,
        is_literal: input.literal,
        ignores_case: input.case_insensitive,
        is_multiline: input.multiline,
        context: input.context,
        include: input.include.filter(|include| !include.trim().is_empty()),
        skip: input.offset.saturating_sub(1),
        limit: input.max_results,
        ignored: input.ignored,
        line_chars: LINE_CHARS,
    };
    spawn_blocking(move || {
        let searched = files.search(&query, &|| cancel.is_cancelled())?;
        Ok(GrepMatches::of(searched, &query))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(limit: usize) -> SearchFiles {
        SearchFiles {
            path: ".".into(),
            pattern: "x".into(),
            is_literal: false,
            ignores_case: false,
            is_multiline: false,
            context: 0,
            include: None,
            skip: 0,
            limit,
            ignored: false,
            line_chars: LINE_CHARS,
        }
    }

    fn line(number: u64, is_match: bool) -> MatchLine {
        MatchLine { number, text: format!("text {number}"), is_match, is_truncated: false }
    }

    fn searched(files: &[(&str, &[(u64, bool)])]) -> SearchResult {
        let file = |(path, lines): &(&str, &[(u64, bool)])| FileMatches {
            path: path.into(),
            lines: lines.iter().map(|(number, is_match)| line(*number, *is_match)).collect(),
        };
        let files: Vec<FileMatches> = files.iter().map(file).collect();
        let matches =
            files.iter().flat_map(|file| &file.lines).filter(|line| line.is_match).count();
        SearchResult { files, matches, is_complete: true, searched: 9, ..SearchResult::default() }
    }

    #[track_caller]
    fn check(searched: SearchResult, expected: &str) {
        assert_eq!(GrepMatches::of(searched, &query(2)).text(), expected);
    }

    #[test]
    fn lines_are_grouped_by_file() {
        check(
            searched(&[("a.rs", &[(1, true), (7, true)]), ("b", &[(3, true)])]),
            "a.rs:1: text 1\na.rs:7: text 7\n\nb:3: text 3\n\n[3 matches in 2 files]",
        );
        check(
            searched(&[("a", &[(1, false), (2, true), (8, true), (9, false)])]),
            "a-1- text 1\na:2: text 2\n--\na:8: text 8\na-9- text 9\n\n[2 matches in 1 file]",
        );
    }

    #[test]
    fn truncated_lines_and_paths_with_control_characters_are_marked() {
        let mut found = searched(&[("a\n:1: b", &[(1, true)])]);
        found.files[0].lines[0].is_truncated = true;
        check(found, "a\\n:1: b:1: text 1 […]\n\n[1 match in 1 file]");
    }

    #[test]
    fn the_footer_names_what_is_missing() {
        check(searched(&[]), "[no line matches; 9 files searched]");
        check(
            SearchResult { binary: 2, unreadable: 1, ..searched(&[]) },
            "[no line matches; 9 files searched, 2 of them binary; 1 path could not be read]",
        );
        let one = searched(&[("a", &[(1, true)])]);
        check(
            SearchResult { is_complete: false, ..one.clone() },
            "a:1: text 1\n\n[partial: 1 match, stopped before all files were searched (9 files were)]",
        );
        let more = SearchResult { has_more: true, ..one.clone() };
        let text = GrepMatches::of(more.clone(), &query(2)).text();
        let advice =
            "[match 1, there are more; next: offset=2, or narrow the pattern or give include]";
        assert!(text.ends_with(advice), "{text}");
        let unsearched = vec!["big.json".into(), "b".into()];
        let text =
            GrepMatches::of(SearchResult { unsearched, is_complete: false, ..one }, &query(2))
                .text();
        let named = "[partial: 1 match, but not searched to the end: big.json, b (";
        assert!(text.contains(named), "{text}");
    }

    #[test]
    fn a_page_ends_where_it_is_full_and_says_how_to_go_on() {
        let lines: Vec<(u64, bool)> = (1..=300).map(|number| (number, number % 3 == 2)).collect();
        let mut found = searched(&[("a", &lines[..150]), ("b", &lines)]);
        for line in found.files.iter_mut().flat_map(|file| &mut file.lines) {
            line.text = "x".repeat(480);
        }
        let whole = found.matches;
        let query = SearchFiles { skip: 10, context: 1, ..query(DEFAULT_RESULTS) };
        let page = GrepMatches::of(found, &query);
        assert!(page.text().len() <= PAGE_BYTES + 200, "{}", page.text().len());
        assert!(page.has_more && page.matches < whole);
        assert_eq!(page.next_offset, Some(11 + page.matches));
        let shown = page.files.iter().flat_map(|file| &file.lines).filter(|line| !line.is_context);
        assert_eq!(shown.count(), page.matches);
        let last = page.files.last().and_then(|file| file.lines.last()).expect("a line");
        assert_ne!(last.line % 3, 1, "the context before a match goes with it");
        let end = SearchFiles { skip: 10, ..query.clone() };
        let last = GrepMatches::of(searched(&[("a", &[(1, true)])]), &end).text();
        assert!(last.ends_with("[match 11, the last]"), "{last}");
    }
}
