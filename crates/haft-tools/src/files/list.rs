//! `list`: lists the tree below a directory.

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

const DEFAULT_DEPTH: usize = 3;
const MAX_DEPTH: usize = 20;
const DEFAULT_LIMIT: usize = 500;
const MAX_LIMIT: usize = 2_000;

/// The tree to list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "path": "src", "depth": 1 }))]
pub struct ListTree {
    /// The directory, relative to the workspace. Default: the workspace.
    #[serde(default = "workspace")]
    #[schemars(extend("x-aliases" = ["directory", "dir", "file_path", "filePath"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub path: PathBuf,
    /// Number of levels to show.
    #[serde(default = "default_depth")]
    #[schemars(range(min = 1, max = MAX_DEPTH), extend("x-aliases" = ["max_depth", "maxDepth", "levels"]))]
    #[schemars(extend("x-short" = "L"))]
    pub depth: usize,
    /// Maximum number of entries to show.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = MAX_LIMIT), extend("x-aliases" = ["max_results", "maxResults", "max_entries"]))]
    #[schemars(extend("x-short" = "n"))]
    pub limit: usize,
    /// The first entry to show, counted from 1: pages of all entries in order, as paths. Left out:
    /// an overview.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub offset: Option<usize>,
    /// Also show files that .gitignore and .ignore files name.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["include_ignored", "no_ignore"]))]
    #[schemars(extend("x-short" = "u"))]
    pub ignored: bool,
}

/// Returns the default path.
pub(super) fn workspace() -> PathBuf {
    PathBuf::from(".")
}

fn default_depth() -> usize {
    DEFAULT_DEPTH
}

fn default_limit() -> usize {
    DEFAULT_LIMIT
}

/// A tree as flat lists of paths: an object per entry would be four times as long.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct ListedTree {
    /// The directory, relative to the workspace, links resolved.
    pub path: String,
    /// Paths below it. A directory ends in a slash and is followed by its entries.
    #[schemars(extend("x-in-content" = true))]
    pub entries: Vec<String>,
    /// Those that are links, named pipes, sockets or devices.
    #[schemars(extend("x-in-content" = true))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub special: Vec<String>,
    /// Directories that are not shown in full.
    #[schemars(extend("x-in-content" = true))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<String>,
    /// Entries were left out because of the limit.
    pub has_more: bool,
    /// The offset to go on with; 1 when the entries shown are only an overview; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// False when the walk stopped before its end.
    pub is_complete: bool,
    /// Number of directories that could not be read.
    pub unreadable: usize,
    #[serde(skip)]
    lines: String,
    #[serde(skip)]
    offset: Option<usize>,
}

impl Output for ListedTree {
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

impl ListedTree {
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
            // A page may begin in the middle of a directory: then only whole paths tell where an
            // entry is.
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
            notes.push("partial: stopped before everything was listed".to_owned());
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
            notes.push(format!("{} is empty, or everything in it is ignored", self.path));
        }
        if self.unreadable > 0 {
            notes.push(format!("{} could not be read", count(self.unreadable, "directory")));
        }
        notes
    }
}

/// Formats a path on one line: control characters are escaped, so that a name with a line break
/// does not look like two names.
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

/// Formats a path like [`shown`], without a copy if it has no control characters.
fn into_shown(path: PathBuf) -> String {
    match path.into_os_string().into_string() {
        Ok(text) if !has_controls(&text) => text,
        Ok(text) => shown(Path::new(&text)),
        Err(raw) => shown(Path::new(&raw)),
    }
}

/// Returns true if a text may have control characters. In UTF-8 those beyond ASCII begin with the
/// byte c2; other characters with that byte only cost a second check.
fn has_controls(text: &str) -> bool {
    text.bytes().any(|byte| byte < 0x20 || byte == 0x7f || byte == 0xc2)
}

/// Formats the number of unreadable paths as the end of a note.
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
pub async fn list(
    input: ListTree,
    files: ReadFiles,
    cancel: Cancel,
) -> Result<ListedTree, ToolError> {
    let ListTree { path, depth, limit, offset, ignored } = input;
    let skip = offset.map(|offset| offset.saturating_sub(1));
    let mut query = WalkTree { path, depth, skip, limit, ignored };
    // Not on another thread: the limit keeps it short, and the thread switch would double its time.
    block_in_place(|| {
        loop {
            let listed = ListedTree::of(files.tree(&query, &|| cancel.is_cancelled())?, offset);
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
        assert_eq!(ListedTree::of(tree.clone(), None).text(), expected);
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
        assert_eq!(ListedTree::of(page, Some(7)).text(), told);
        assert_eq!(ListedTree::of(two, Some(7)).text(), "a/b/…\na/c.rs\n[entries 7-8]");
        let end = "[offset=9 is behind the last entry]";
        assert_eq!(ListedTree::of(tree(&[]), Some(9)).text(), end);
        let long = "x".repeat(PAGE_BYTES / 2);
        let names = [&*long, "b", &*long, "d"].map(|name| (name, FileKind::File, false));
        let listed = ListedTree::of(tree(&names), Some(1));
        assert_eq!(
            (listed.entries.len(), listed.next_offset),
            (2, Some(3)),
            "cut where it is full"
        );
    }

    #[test]
    fn the_notes_name_what_is_missing() {
        check(&tree(&[]), "[src is empty, or everything in it is ignored]");
        let one = tree(&[("a", FileKind::File, false)]);
        let cut = TreeListing { has_more: true, ..one.clone() };
        let more = "a\n[1 entry, there are more; next: offset=2, or give a deeper path]";
        check(&TreeListing { next_skip: Some(1), ..cut.clone() }, more);
        let more = "a\n[1 entry, there are more; next: offset=1 lists all of them in order, or give a deeper path]";
        check(&TreeListing { next_skip: Some(0), ..cut }, more);
        let partial = TreeListing { is_complete: false, unreadable: 2, ..one };
        let expected =
            "a\n[partial: stopped before everything was listed; 2 directories could not be read]";
        check(&partial, expected);
    }
}
