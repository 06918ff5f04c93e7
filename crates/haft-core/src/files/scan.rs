//! What files there are and how they look from outside, so that what a command has changed can be told.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::Serialize;

/// The files of a workspace at a time, without those that ignore files name.
#[derive(Clone, Debug, Default)]
pub struct WorkspaceScan {
    /// Each by its path.
    pub files: HashMap<PathBuf, FileStamp>,
    /// False when there was no time to look at all of them: then nothing can be told from it.
    pub is_complete: bool,
}

/// What changes when a file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    /// Which file it is.
    pub inode: u64,
    /// In bytes.
    pub size: u64,
    /// When it was written last.
    pub modified_ns: i128,
    /// Its sort and permissions.
    pub mode: u32,
}

/// A file that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct ChangedFile {
    /// Relative to the workspace.
    pub path: String,
    /// What became of it.
    pub change: FileChange,
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileChange {
    /// It was not there.
    Created,
    /// It was otherwise.
    Modified,
    /// It is not there any more.
    Deleted,
}

impl WorkspaceScan {
    /// What is otherwise now, by path; none when either time not everything was looked at.
    pub fn changes_since(&self, earlier: &Self) -> Option<Vec<ChangedFile>> {
        if !self.is_complete || !earlier.is_complete {
            return None;
        }
        let changed =
            |path: &Path, change| ChangedFile { path: path.display().to_string(), change };
        let now = self.files.iter().filter_map(|(path, stamp)| match earlier.files.get(path) {
            None => Some(changed(path, FileChange::Created)),
            Some(before) if before != stamp => Some(changed(path, FileChange::Modified)),
            Some(_) => None,
        });
        let gone = earlier.files.keys().filter(|path| !self.files.contains_key(*path));
        let gone = gone.map(|path| changed(path, FileChange::Deleted));
        let mut all: Vec<ChangedFile> = now.chain(gone).collect();
        all.sort_unstable();
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(files: &[(&str, u64)]) -> WorkspaceScan {
        let stamp = |size| FileStamp { inode: 1, size, modified_ns: 0, mode: 0 };
        let files = files.iter().map(|(path, size)| (PathBuf::from(path), stamp(*size))).collect();
        WorkspaceScan { files, is_complete: true }
    }

    #[test]
    fn what_came_went_or_changed_is_told_by_path() {
        let before = scan(&[("same", 1), ("b", 1), ("gone", 1)]);
        let after = scan(&[("same", 1), ("b", 2), ("a", 1)]);
        let changes = after.changes_since(&before).expect("both are complete");
        let told: Vec<(&str, FileChange)> =
            changes.iter().map(|changed| (changed.path.as_str(), changed.change)).collect();
        let expected = [
            ("a", FileChange::Created),
            ("b", FileChange::Modified),
            ("gone", FileChange::Deleted),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn what_was_not_looked_at_whole_tells_nothing() {
        let (whole, mut part) = (scan(&[]), scan(&[]));
        part.is_complete = false;
        assert_eq!(whole.changes_since(&part), None);
        assert_eq!(part.changes_since(&whole), None);
        assert_eq!(whole.changes_since(&whole), Some(vec![]));
    }
}
