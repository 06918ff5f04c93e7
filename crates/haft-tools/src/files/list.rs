//! `list`: the tree below a directory.

use std::path::{Path, PathBuf};

use haft_core::{
    Access, Cancel, Output, ReadFiles, ToolError, block_in_place,
    files::{FileKind, TreeEntry, TreeListing, WalkTree},
};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::page::{self, PAGE_BYTES, range};
use crate::text::count;

const DEPTH: usize = 3;
const DEEPEST: usize = 20;
const LIMIT: usize = 500;
const MOST: usize = 2_000;

/// Which tree.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "path": "src", "depth": 1 }))]
pub struct List {
    /// The directory, relative to the workspace; the workspace itself when left out.
    #[serde(default = "workspace")]
    #[schemars(extend("x-aliases" = ["directory", "dir", "file_path", "filePath"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub path: PathBuf,
    /// How many levels down.
    #[serde(default = "depth")]
    #[schemars(range(min = 1, max = DEEPEST), extend("x-aliases" = ["max_depth", "maxDepth", "levels"]))]
    #[schemars(extend("x-short" = "L"))]
    pub depth: usize,
    /// The most entries to show.
    #[serde(default = "limit")]
    #[schemars(range(min = 1, max = MOST), extend("x-aliases" = ["max_results", "maxResults", "max_entries"]))]
    #[schemars(extend("x-short" = "n"))]
    pub limit: usize,
    /// The first entry to show, counted from 1: pages of all entries in order, as paths. Left out: an overview.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub offset: Option<usize>,
    /// Show what .gitignore and .ignore files name, too.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["include_ignored", "no_ignore"]))]
    #[schemars(extend("x-short" = "u"))]
    pub ignored: bool,
}

/// The workspace, where no path is given.
pub(super) fn workspace() -> PathBuf {
    PathBuf::from(".")
}

fn depth() -> usize {
    DEPTH
}

fn limit() -> usize {
    LIMIT
}

/// A tree. Flat lists of texts: an object for each entry would be four times as long to send and to make.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Listed {
    /// The directory, relative to the workspace, links resolved.
    pub path: String,
    /// Paths below it; each directory ends in a slash and is followed by what it holds.
    #[schemars(extend("x-in-content" = true))]
    pub entries: Vec<String>,
    /// Which of them are links, named pipes, sockets or devices.
    #[schemars(extend("x-in-content" = true))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub special: Vec<String>,
    /// Which of the directories are not shown in full.
    #[schemars(extend("x-in-content" = true))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<String>,
    /// Entries were left out because of the limit.
    pub has_more: bool,
    /// The offset to go on with; 1 when the entries shown are only an overview; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// False when the walk was stopped before its end.
    pub is_complete: bool,
    /// How many directories could not be read.
    pub unreadable: usize,
    #[serde(skip)]
    lines: String,
    #[serde(skip)]
    offset: Option<usize>,
}

impl Output for Listed {
    fn text(&self) -> String {
        let notes = self.notes();
        match (self.lines.as_str(), notes.is_empty()) {
            (lines, true) => lines.to_owned(),
            ("", false) => format!("[{}]", notes.join("; ")),
            (lines, false) => format!("{lines}\n[{}]", notes.join("; ")),
        }
    }

    fn title(&self) -> Option<String> {
        Some(format!("List {}", self.path))
    }
}

impl Listed {
    fn of(tree: TreeListing, offset: Option<usize>) -> Self {
        let mut listed = Self {
            path: shown(&tree.path),
            entries: Vec::with_capacity(tree.entries.len()),
            has_more: tree.has_more,
            next_offset: tree.next_skip.map(|skip| skip + 1),
            is_complete: tree.is_complete,
            unreadable: tree.unreadable,
            offset,
            ..Self::default()
        };
        for entry in tree.entries {
            // One is always shown, or no page would end.
            let longest = entry.path.as_os_str().len() + 32;
            let is_full = listed.lines.len() + longest > PAGE_BYTES && !listed.entries.is_empty();
            if let Some(offset) = offset.filter(|_| is_full) {
                listed.has_more = true;
                listed.next_offset = Some(offset.saturating_add(listed.entries.len()));
                break;
            }
            listed.add(entry);
        }
        listed
    }

    fn add(&mut self, entry: TreeEntry) {
        let mut path = into_shown(entry.path);
        let (level, name) = match path.rsplit_once('/') {
            // A page may begin in the middle of a directory: then only whole paths tell where an entry is.
            Some((above, name)) if self.offset.is_none() => (above.matches('/').count() + 1, name),
            _ => (0, path.as_str()),
        };
        if !self.lines.is_empty() {
            self.lines.push('\n');
        }
        self.lines.extend(std::iter::repeat_n("  ", level));
        self.lines.push_str(name);
        match entry.kind {
            FileKind::File => {}
            FileKind::Directory => {
                path.push('/');
                self.lines.push('/');
                if entry.is_closed {
                    self.lines.push('…');
                    self.closed.push(path.clone());
                }
            }
            kind => {
                self.lines.push_str(&format!(" ({})", kind.name()));
                self.special.push(path.clone());
            }
        }
        self.entries.push(path);
    }

    fn notes(&self) -> Vec<String> {
        let shown = self.entries.len();
        let mut notes = Vec::new();
        if !self.is_complete {
            notes.push("partial: stopped before all was listed".to_owned());
        }
        if let Some(offset) = self.offset {
            notes.push(match shown {
                0 => format!("offset={offset} is behind the last entry"),
                _ => range("entry", "entries", offset, shown),
            });
            notes.extend(self.next_offset.map(page::next));
        } else if self.has_more {
            let entries = count(shown, "entry");
            let next = match self.next_offset {
                Some(1) => "next: offset=1 lists all of them in order".to_owned(),
                offset => page::next(offset.unwrap_or(1)),
            };
            notes.push(format!("{entries}, there are more; {next}, or give a deeper path"));
        } else if shown == 0 && self.is_complete {
            notes.push(format!("{} is empty, or all in it is ignored", self.path));
        }
        if self.unreadable > 0 {
            notes.push(format!("{} could not be read", count(self.unreadable, "directory")));
        }
        notes
    }
}

/// A path on one line, whatever is in it: a name with a line break must not look like two.
pub(super) fn shown(path: &Path) -> String {
    let text = path.to_string_lossy();
    if !has_controls(&text) {
        return text.into_owned();
    }
    let escaped = |character: char| match character.is_control() {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    };
    text.chars().map(escaped).collect()
}

/// The same, without a copy where none is needed.
fn into_shown(path: PathBuf) -> String {
    match path.into_os_string().into_string() {
        Ok(text) if !has_controls(&text) => text,
        Ok(text) => shown(Path::new(&text)),
        Err(raw) => shown(Path::new(&raw)),
    }
}

/// Control characters beyond ASCII begin with the byte c2 in UTF-8; others that do are only looked at more closely.
fn has_controls(text: &str) -> bool {
    text.bytes().any(|byte| byte < 0x20 || byte == 0x7f || byte == 0xc2)
}

/// What a walk could not read, as the end of a note.
pub(super) fn unreadable(number: usize) -> String {
    match number {
        0 => String::new(),
        number => format!("; {} could not be read", count(number, "path")),
    }
}

/// Lists a tree.
#[tool(
    idempotent,
    deadline = "60s",
    access = |input| vec![Access::Read(input.path.clone())],
    profiles(mcp, researcher, reviewer)
)]
pub async fn list(input: List, files: ReadFiles, cancel: Cancel) -> Result<Listed, ToolError> {
    let List { path, depth, limit, offset, ignored } = input;
    let skip = offset.map(|offset| offset.saturating_sub(1));
    let mut query = WalkTree { path, depth, skip, limit, ignored };
    // Not on a thread of its own: its limit keeps it short, and the way there and back would double its time.
    block_in_place(|| {
        loop {
            let listed = Listed::of(files.tree(&query, &|| cancel.is_cancelled())?, offset);
            let bytes = listed.lines.len();
            if bytes <= PAGE_BYTES || query.limit <= 1 {
                return Ok(listed);
            }
            // An overview gives each directory its share of what fits, so it is made again.
            let fitting = listed.entries.len() * PAGE_BYTES / bytes;
            query.limit = (fitting * 9 / 10).clamp(1, query.limit - 1);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(entries: &[(&str, FileKind, bool)]) -> TreeListing {
        let entry = |(path, kind, is_closed): &(&str, _, _)| TreeEntry {
            path: path.into(),
            kind: *kind,
            is_closed: *is_closed,
        };
        TreeListing {
            path: "src".into(),
            entries: entries.iter().map(entry).collect(),
            is_complete: true,
            ..TreeListing::default()
        }
    }

    #[track_caller]
    fn check(tree: &TreeListing, expected: &str) {
        assert_eq!(Listed::of(tree.clone(), None).text(), expected);
    }

    #[test]
    fn a_tree_is_indented() {
        let tree = tree(&[
            ("a", FileKind::Directory, false),
            ("a/b", FileKind::Directory, true),
            ("a/c.rs", FileKind::File, false),
            ("l", FileKind::Link, false),
            ("two\nlines", FileKind::File, false),
        ]);
        check(&tree, "a/\n  b/…\n  c.rs\nl (link)\ntwo\\nlines");
    }

    #[test]
    fn a_page_has_whole_paths_and_says_how_to_get_the_next_one() {
        let two = tree(&[("a/b", FileKind::Directory, true), ("a/c.rs", FileKind::File, false)]);
        let page = TreeListing { has_more: true, next_skip: Some(8), ..two.clone() };
        let told = "a/b/…\na/c.rs\n[entries 7-8; next: offset=9]";
        assert_eq!(Listed::of(page, Some(7)).text(), told);
        assert_eq!(Listed::of(two, Some(7)).text(), "a/b/…\na/c.rs\n[entries 7-8]");
        let end = "[offset=9 is behind the last entry]";
        assert_eq!(Listed::of(tree(&[]), Some(9)).text(), end);
        let long = "x".repeat(PAGE_BYTES / 2);
        let names = [&*long, "b", &*long, "d"].map(|name| (name, FileKind::File, false));
        let listed = Listed::of(tree(&names), Some(1));
        assert_eq!(
            (listed.entries.len(), listed.next_offset),
            (2, Some(3)),
            "cut where it is full"
        );
    }

    #[test]
    fn what_is_missing_is_told() {
        check(&tree(&[]), "[src is empty, or all in it is ignored]");
        let one = tree(&[("a", FileKind::File, false)]);
        let cut = TreeListing { has_more: true, ..one.clone() };
        let more = "a\n[1 entry, there are more; next: offset=2, or give a deeper path]";
        check(&TreeListing { next_skip: Some(1), ..cut.clone() }, more);
        let more = "a\n[1 entry, there are more; next: offset=1 lists all of them in order, or give a deeper path]";
        check(&TreeListing { next_skip: Some(0), ..cut }, more);
        let partial = TreeListing { is_complete: false, unreadable: 2, ..one };
        let expected =
            "a\n[partial: stopped before all was listed; 2 directories could not be read]";
        check(&partial, expected);
    }
}
