//! Queries about many files at once, and their results. [`Disk`](super::Disk) runs them.

use std::path::PathBuf;

use super::FileKind;

/// Returns true when a walk must end early. Called often, from several threads. The result then has
/// what was found so far.
pub type ShouldStop<'a> = &'a (dyn Fn() -> bool + Sync);

/// A query for files that match a glob below a directory.
#[derive(Clone, Debug)]
pub struct FindFiles {
    /// The directory to start from.
    pub path: PathBuf,
    /// A glob for the path below it; without a slash it matches names at any depth.
    pub pattern: String,
    /// Files to leave out, the newest first.
    pub skip: usize,
    /// Maximum number of files in the result, newest first.
    pub limit: usize,
    /// True to include ignored files.
    pub ignored: bool,
}

/// A matching file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// Modification time in nanoseconds since 1970.
    pub modified_ns: i128,
    /// In bytes.
    pub size: u64,
}

/// The matching files.
#[derive(Clone, Debug, Default)]
pub struct FoundFiles {
    /// Newest first, by path if times are equal.
    pub files: Vec<FoundFile>,
    /// Number of all matches, including those beyond the limit.
    pub total: usize,
    /// False when the walk was stopped.
    pub is_complete: bool,
    /// Number of directories that could not be read.
    pub unreadable: usize,
}

/// A query for matching lines.
#[derive(Clone, Debug)]
pub struct SearchFiles {
    /// A file, or the directory to start from.
    pub path: PathBuf,
    /// A regular expression, or plain text if `is_literal`.
    pub pattern: String,
    /// True if the pattern is plain text.
    pub is_literal: bool,
    /// True to ignore case.
    pub ignores_case: bool,
    /// True if a match may span lines.
    pub is_multiline: bool,
    /// Number of context lines around each match.
    pub context: usize,
    /// Limits the search to files whose paths match this glob.
    pub include: Option<String>,
    /// Matching lines to leave out, in the order of paths.
    pub skip: usize,
    /// Maximum number of matching lines in the result.
    pub limit: usize,
    /// True to include ignored files.
    pub ignored: bool,
    /// Maximum length of a line in characters; longer lines are truncated.
    pub line_chars: usize,
}

/// A line of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchLine {
    /// Counted from 1.
    pub number: u64,
    /// The text without its line break; invalid UTF-8 is replaced.
    pub text: String,
    /// False for a context line.
    pub is_match: bool,
    /// True if the text was truncated.
    pub is_truncated: bool,
}

/// The matching lines of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMatches {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// In order.
    pub lines: Vec<MatchLine>,
}

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub struct SearchResult {
    /// Sorted by path.
    pub files: Vec<FileMatches>,
    /// Number of matching lines in the result.
    pub matches: usize,
    /// True if there are more matching lines than the limit.
    pub has_more: bool,
    /// False if the search was stopped.
    pub is_complete: bool,
    /// Number of searched files.
    pub searched: usize,
    /// Number of searched files that are binary.
    pub binary: usize,
    /// Number of files and directories that could not be read.
    pub unreadable: usize,
    /// Files that were not searched to their end, sorted by path; the first [`SearchResult::MAX_UNSEARCHED`] of them.
    pub unsearched: Vec<PathBuf>,
}

impl SearchResult {
    /// Maximum number of files that are named because they could not be searched.
    pub const MAX_UNSEARCHED: usize = 20;
}

/// A query for the tree below a directory.
#[derive(Clone, Debug)]
pub struct WalkTree {
    /// The directory to start from.
    pub path: PathBuf,
    /// Maximum depth.
    pub depth: usize,
    /// Entries to leave out in the order of a listing. `None` asks for an overview: each directory gets its share.
    pub skip: Option<usize>,
    /// Maximum number of entries in the result.
    pub limit: usize,
    /// True to include ignored files.
    pub ignored: bool,
}

/// An entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// Relative to the directory where the walk began.
    pub path: PathBuf,
    /// The kind of the entry.
    pub kind: FileKind,
    /// True for a directory whose entries are not listed, although there are or may be some.
    pub is_closed: bool,
}

/// The tree below a directory.
#[derive(Clone, Debug, Default)]
pub struct TreeListing {
    /// The directory, links resolved.
    pub path: PathBuf,
    /// Each directory is followed by its entries.
    pub entries: Vec<TreeEntry>,
    /// True if entries were omitted because of the limit.
    pub has_more: bool,
    /// With more: what to skip to go on. 0 where the entries do not follow each other in a listing of everything.
    pub next_skip: Option<usize>,
    /// False if the walk was stopped.
    pub is_complete: bool,
    /// Number of directories that could not be read.
    pub unreadable: usize,
}
