//! Scans: the files of a workspace with their stamps, to find out what a command has changed.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::Serialize;

/// The files of a workspace at a time, without those that ignore files exclude.
#[derive(Clone, Debug, Default)]
pub struct WorkspaceScan {
    /// The stamps by path.
    pub files: HashMap<PathBuf, FileStamp>,
    /// False if the scan ran out of time; then it cannot be compared.
    pub is_complete: bool,
}

/// Properties that change when a file changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    /// The inode.
    pub inode: u64,
    /// In bytes.
    pub size: u64,
    /// Time of the last write.
    pub modified_ns: i128,
    /// Kind and permissions.
    pub mode: u32,
}

/// A file that has changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct ChangedFile {
    /// Relative to the workspace.
    pub path: String,
    /// The kind of change.
    pub change: FileChange,
}

/// The kind of change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileChange {
    /// The file is new.
    Created,
    /// The file was modified.
    Modified,
    /// The file was deleted.
    Deleted,
}

impl WorkspaceScan {
    /// The changes since an earlier scan, by path; `None` if one of the scans is incomplete.
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
    fn created_modified_and_deleted_files_are_found_by_path() {
        let before = scan(&[("same", 1), ("b", 1), ("gone", 1)]);
        let after = scan(&[("same", 1), ("b", 2), ("a", 1)]);
        let changes = after.changes_since(&before).expect("both are complete");
        let shown: Vec<(&str, FileChange)> =
            changes.iter().map(|changed| (changed.path.as_str(), changed.change)).collect();
        let expected = [
            ("a", FileChange::Created),
            ("b", FileChange::Modified),
            ("gone", FileChange::Deleted),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn incomplete_scans_are_not_compared() {
        let (whole, mut part) = (scan(&[]), scan(&[]));
        part.is_complete = false;
        assert_eq!(whole.changes_since(&part), None);
        assert_eq!(part.changes_since(&whole), None);
        assert_eq!(whole.changes_since(&whole), Some(vec![]));
    }
}
