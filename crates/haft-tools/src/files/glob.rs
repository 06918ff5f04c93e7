//! `glob`: finds files by path.

use std::path::PathBuf;

use haft_core::{
    Access, Cancel, Output, ReadFiles, ToolError,
    files::{FileKind, FindFiles, FoundFiles},
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

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1_000;

/// The pattern, and where to look.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "pattern": "*.rs", "path": "src" }))]
pub struct GlobInput {
    /// A glob such as `*.rs` or `src/**/*.{ts,tsx}`.
    #[schemars(length(min = 1, max = 4096), extend("x-aliases" = ["glob", "glob_pattern", "query"]))]
    pub pattern: String,
    /// The directory to search, relative to the workspace. Default: the workspace.
    #[serde(default = "workspace")]
    #[schemars(extend("x-aliases" = ["directory", "dir", "file_path", "filePath"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub path: PathBuf,
    /// Maximum number of files to show.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = MAX_LIMIT), extend("x-aliases" = ["max_results", "maxResults", "head_limit"]))]
    #[schemars(extend("x-short" = "n"))]
    pub limit: usize,
    /// The first file to show, counted from 1; the answer to one page names the offset of the next.
    #[serde(default = "page::first")]
    #[schemars(range(min = 1))]
    pub offset: usize,
    /// Also find files that .gitignore and .ignore files name.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["include_ignored", "no_ignore"]))]
    #[schemars(extend("x-short" = "u"))]
    pub ignored: bool,
}

fn default_limit() -> usize {
    DEFAULT_LIMIT
}

/// The matching files.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct GlobMatches {
    /// Relative to the workspace, newest first.
    #[schemars(extend("x-in-content" = true))]
    pub paths: Vec<String>,
    /// Number of all matching files.
    pub total: usize,
    /// There are more matching files than shown.
    pub has_more: bool,
    /// The offset to go on with; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// False when the search stopped before its end.
    pub is_complete: bool,
    /// Number of directories that could not be read.
    pub unreadable: usize,
    #[serde(skip)]
    pattern: String,
    #[serde(skip)]
    path: String,
    #[serde(skip)]
    ignored: bool,
    #[serde(skip)]
    offset: usize,
}

impl Output for GlobMatches {
    fn text(&self) -> String {
        let mut text = self.paths.join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        text + &format!("[{}{}]", self.footer(), unreadable(self.unreadable))
    }

    fn title(&self) -> Option<String> {
        Some(format!("Glob {}", self.pattern))
    }
}

impl GlobMatches {
    fn of(found: &FoundFiles, query: &FindFiles) -> Self {
        let mut bytes = 0;
        let fits = |path: &String| {
            // One is always shown, or no page would end.
            let is_first = bytes == 0;
            bytes += path.len() + 1;
            is_first || bytes <= PAGE_BYTES
        };
        let paths: Vec<String> =
            found.files.iter().map(|file| shown(&file.path)).take_while(fits).collect();
        let passed = query.skip.saturating_add(paths.len());
        let has_more = found.total > passed && !paths.is_empty();
        Self {
            total: found.total,
            has_more,
            next_offset: has_more.then(|| passed.saturating_add(1)),
            is_complete: found.is_complete,
            unreadable: found.unreadable,
            pattern: query.pattern.clone(),
            path: shown(&query.path),
            ignored: query.ignored,
            offset: query.skip.saturating_add(1),
            paths,
        }
    }

    fn footer(&self) -> String {
        let Self { pattern, path, total, .. } = self;
        let all = count(*total, "file");
        if !self.is_complete {
            return format!("partial: {all} found before the search was stopped");
        }
        if *total > 0 && self.paths.is_empty() {
            return format!("offset={} is behind the last of {all}", self.offset);
        }
        if self.has_more || self.offset > 1 {
            let shown = range("file", "files", self.offset, self.paths.len());
            let next = self.next_offset.map(page::next);
            let next =
                next.map_or(String::new(), |next| format!("; {next}, or narrow the pattern"));
            return format!("{shown} of {total}, newest first{next}");
        }
        if *total > 0 {
            return format!("{all}, newest first");
        }
        let more = if self.ignored { "" } else { "; ignored files were not searched" };
        format!("no file matches `{pattern}` below `{path}`{more}")
    }
}

impl GlobInput {
    /// Returns the directory to search. A pattern may begin with the name of a root, as in
    /// `@lib/*.rs`; then it is that root.
    fn start(&self) -> PathBuf {
        self.named_root().map_or_else(|| self.path.clone(), |(root, _)| PathBuf::from(root))
    }

    fn named_root(&self) -> Option<(&str, &str)> {
        let (root, rest) = self.pattern.split_once('/')?;
        let is_plain = root.starts_with('@') && !root.contains(['*', '?', '[', '{', '\\']);
        (is_plain && self.path == workspace() && !rest.is_empty()).then_some((root, rest))
    }

    fn query(&self, files: &ReadFiles) -> FindFiles {
        let (mut path, mut pattern) = (self.start(), self.pattern.as_str());
        if let Some((_, rest)) = self.named_root() {
            pattern = rest;
        } else if let Some((above, rest)) = split_absolute(pattern)
            && files.metadata(above.as_ref()).is_ok_and(|facts| facts.kind == FileKind::Directory)
        {
            (path, pattern) = (PathBuf::from(above), rest);
        }
        let (pattern, limit, ignored) = (pattern.to_owned(), self.limit, self.ignored);
        FindFiles { path, pattern, skip: self.offset.saturating_sub(1), limit, ignored }
    }
}

/// Splits an absolute pattern into the directory without wildcards and the rest.
fn split_absolute(pattern: &str) -> Option<(&str, &str)> {
    let plain = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
    let (plain, _) = pattern.split_at_checked(plain)?;
    let (above, _) = plain.rsplit_once('/')?;
    let rest = pattern.strip_prefix(above)?.strip_prefix('/')?;
    (above.starts_with('/') && !rest.is_empty()).then_some((above, rest))
}

/// Finds files by path.
#[tool(
    idempotent,
    deadline = "60s",
    access = |input| vec![Access::Read(input.start())],
    profiles(mcp, researcher, reviewer)
)]
pub async fn glob(
    input: GlobInput,
    files: ReadFiles,
    cancel: Cancel,
) -> Result<GlobMatches, ToolError> {
    spawn_blocking(move || {
        let query = input.query(&files);
        let found = files.find(&query, &|| cancel.is_cancelled())?;
        Ok(GlobMatches::of(&found, &query))
    })
    .await
}

#[cfg(test)]
mod tests {
    use haft_core::files::FoundFile;

    use super::*;

    fn found(paths: &[&str], total: usize) -> FoundFiles {
        let file = |path: &&str| FoundFile { path: path.into(), modified_ns: 0, size: 0 };
        let files = paths.iter().map(file).collect();
        FoundFiles { files, total, is_complete: true, unreadable: 0 }
    }

    #[track_caller]
    fn check(found: &FoundFiles, expected: &str) {
        check_from(0, found, expected);
    }

    #[track_caller]
    fn check_from(skip: usize, found: &FoundFiles, expected: &str) {
        let (path, pattern) = ("a".into(), "*.x".into());
        let query = FindFiles { path, pattern, skip, limit: 2, ignored: false };
        assert_eq!(GlobMatches::of(found, &query).text(), expected);
    }

    #[test]
    fn a_page_says_how_to_get_the_next_one() {
        let next =
            "b.x\nc.x\n[files 3-4 of 12, newest first; next: offset=5, or narrow the pattern]";
        check_from(2, &found(&["b.x", "c.x"], 12), next);
        check_from(11, &found(&["c.x"], 12), "c.x\n[file 12 of 12, newest first]");
        check_from(12, &found(&[], 12), "[offset=13 is behind the last of 12 files]");
        let long = "x".repeat(PAGE_BYTES - 10);
        let paths = [&*long, "b.x", "123456789", "c.x"];
        let listed = GlobMatches::of(
            &found(&paths, 4),
            &FindFiles { path: "a".into(), pattern: "*".into(), skip: 0, limit: 9, ignored: false },
        );
        assert_eq!((listed.paths.len(), listed.next_offset), (2, Some(3)), "cut where it is full");
    }

    #[test]
    fn paths_are_one_a_line_with_a_count_at_the_end() {
        check(&found(&["b.x", "a\n.x"], 2), "b.x\na\\n.x\n[2 files, newest first]");
        let cut =
            "b.x\nc.x\n[files 1-2 of 12, newest first; next: offset=3, or narrow the pattern]";
        check(&found(&["b.x", "c.x"], 12), cut);
        check(&found(&[], 0), "[no file matches `*.x` below `a`; ignored files were not searched]");
        let partial = FoundFiles { is_complete: false, unreadable: 1, ..found(&["b.x"], 1) };
        let expected =
            "b.x\n[partial: 1 file found before the search was stopped; 1 path could not be read]";
        check(&partial, expected);
    }

    #[test]
    fn a_pattern_may_name_the_directory_to_search() {
        let glob = |pattern: &str, path: &str| GlobInput {
            pattern: pattern.into(),
            path: path.into(),
            limit: 1,
            offset: 1,
            ignored: false,
        };
        for (pattern, path, start) in [
            ("@lib/src/*.rs", ".", "@lib"),
            ("@lib/*.rs", "src", "src"),
            ("@*/x", ".", "."),
            ("@lib", ".", "."),
            ("*.rs", "src", "src"),
        ] {
            assert_eq!(glob(pattern, path).start(), PathBuf::from(start), "{pattern}");
        }
        for (pattern, split) in [
            ("/w/src/**/*.rs", Some(("/w/src", "**/*.rs"))),
            ("/w/a.rs", Some(("/w", "a.rs"))),
            ("/w/x{a,b}/c", Some(("/w", "x{a,b}/c"))),
            ("/*.rs", None),
            ("src/*.rs", None),
            ("/w/", None),
        ] {
            assert_eq!(split_absolute(pattern), split, "{pattern}");
        }
    }
}
