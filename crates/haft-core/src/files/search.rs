//! Questions about many files at once, and their answers. How they are answered is the disk's.

use std::path::PathBuf;

use super::FileKind;

/// Says when a walk must end early; asked often, from several threads. What was found until then is the answer.
pub type ShouldStop<'a> = &'a (dyn Fn() -> bool + Sync);

/// Which files: a glob below a directory.
#[derive(Clone, Debug)]
pub struct FindFiles {
    /// The directory to start from.
    pub path: PathBuf,
    /// A glob on the path below it; without a slash it is about names at any depth.
    pub pattern: String,
    /// Files to leave out, the newest first.
    pub skip: usize,
    /// The most files in the answer, newest first.
    pub limit: usize,
    /// Ignored files too.
    pub ignored: bool,
}

/// A file that fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// When its content changed, in nanoseconds since 1970.
    pub modified_ns: i128,
    /// In bytes.
    pub size: u64,
}

/// The files that fit.
#[derive(Clone, Debug, Default)]
pub struct FoundFiles {
    /// Newest first, by path where times are equal.
    pub files: Vec<FoundFile>,
    /// How many fit in all, those beyond the limit included.
    pub total: usize,
    /// False when the walk was stopped.
    pub is_complete: bool,
    /// How many directories could not be read.
    pub unreadable: usize,
}

/// Which lines.
#[derive(Clone, Debug)]
pub struct SearchFiles {
    /// A file, or the directory to start from.
    pub path: PathBuf,
    /// A regular expression, or a text when `is_literal`.
    pub pattern: String,
    /// The pattern is plain text.
    pub is_literal: bool,
    /// Upper and lower case are the same.
    pub ignores_case: bool,
    /// A match may span lines.
    pub is_multiline: bool,
    /// Lines shown around each match.
    pub context: usize,
    /// Only files whose path fits this glob.
    pub include: Option<String>,
    /// Matching lines to leave out, in the order of paths.
    pub skip: usize,
    /// The most matching lines in the answer.
    pub limit: usize,
    /// Ignored files too.
    pub ignored: bool,
    /// Lines longer than this many characters are cut.
    pub line_chars: usize,
}

/// A line of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchLine {
    /// Counted from 1.
    pub number: u64,
    /// Without its ending; invalid UTF-8 is replaced.
    pub text: String,
    /// False for a line of context.
    pub is_match: bool,
    /// Whether the text was cut.
    pub is_truncated: bool,
}

/// The lines of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMatches {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// In order.
    pub lines: Vec<MatchLine>,
}

/// What a search found.
#[derive(Clone, Debug, Default)]
pub struct SearchResult {
    /// Sorted by path.
    pub files: Vec<FileMatches>,
    /// How many matching lines there are in the answer.
    pub matches: usize,
    /// True when there are more matching lines than the limit.
    pub has_more: bool,
    /// False when the search was stopped.
    pub is_complete: bool,
    /// How many files were looked into.
    pub searched: usize,
    /// How many of them turned out binary.
    pub binary: usize,
    /// How many files and directories could not be read.
    pub unreadable: usize,
    /// Files that were not searched to their end, sorted by path; the first [`SearchResult::MAX_UNSEARCHED`] of them.
    pub unsearched: Vec<PathBuf>,
}

impl SearchResult {
    /// So many files that could not be searched are named.
    pub const MAX_UNSEARCHED: usize = 20;
}

/// How much of a tree.
#[derive(Clone, Debug)]
pub struct WalkTree {
    /// The directory to start from.
    pub path: PathBuf,
    /// How many levels down.
    pub depth: usize,
    /// Entries to leave out in the order of a listing. `None` asks for an overview: each directory gets its share.
    pub skip: Option<usize>,
    /// The most entries in the answer.
    pub limit: usize,
    /// Ignored files too.
    pub ignored: bool,
}

/// An entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// Relative to the directory the walk began at.
    pub path: PathBuf,
    /// What sort of thing it is.
    pub kind: FileKind,
    /// For a directory that was not gone into: there is more below, or may be.
    pub is_closed: bool,
}

/// A tree.
#[derive(Clone, Debug, Default)]
pub struct TreeListing {
    /// The directory, links resolved.
    pub path: PathBuf,
    /// In the order of a listing: each directory is followed by what it holds.
    pub entries: Vec<TreeEntry>,
    /// True when entries were left out because of the limit.
    pub has_more: bool,
    /// With more: what to skip to go on. 0 where the entries do not follow each other in a listing of everything.
    pub next_skip: Option<usize>,
    /// False when the walk was stopped.
    pub is_complete: bool,
    /// How many directories could not be read.
    pub unreadable: usize,
}
