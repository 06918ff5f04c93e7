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
    /// False when the walk was stopped before its end.
    pub is_complete: bool,
    /// How many directories could not be read.
    pub unreadable: usize,
    #[serde(skip)]
    lines: String,
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
    fn of(tree: TreeListing) -> Self {
        let mut listed = Self {
            path: shown(&tree.path),
            entries: Vec::with_capacity(tree.entries.len()),
            has_more: tree.has_more,
            is_complete: tree.is_complete,
            unreadable: tree.unreadable,
            ..Self::default()
        };
        for entry in tree.entries {
            listed.add(entry);
        }
        listed
    }

    fn add(&mut self, entry: TreeEntry) {
        let mut path = into_shown(entry.path);
        let (level, name) = match path.rsplit_once('/') {
            Some((above, name)) => (above.matches('/').count() + 1, name),
            None => (0, path.as_str()),
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
        if self.has_more {
            let entries = count(shown, "entry");
            let more = if shown < MOST { " or a larger limit" } else { "" };
            notes.push(format!("{entries}, there are more: give a deeper path{more}"));
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
    let List { path, depth, limit, ignored } = input;
    let query = WalkTree { path, depth, limit, ignored };
    // Not on a thread of its own: its limit keeps it short, and the way there and back would double its time.
    block_in_place(|| Ok(Listed::of(files.tree(&query, &|| cancel.is_cancelled())?)))
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
        assert_eq!(Listed::of(tree.clone()).text(), expected);
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
    fn what_is_missing_is_told() {
        check(&tree(&[]), "[src is empty, or all in it is ignored]");
        let one = tree(&[("a", FileKind::File, false)]);
        let more = "a\n[1 entry, there are more: give a deeper path or a larger limit]";
        check(&TreeListing { has_more: true, ..one.clone() }, more);
        let partial = TreeListing { is_complete: false, unreadable: 2, ..one };
        let expected =
            "a\n[partial: stopped before all was listed; 2 directories could not be read]";
        check(&partial, expected);
    }
}
