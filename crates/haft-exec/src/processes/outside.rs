//! Closed paths in folders outside the workspace that commands see. Rules with an absolute path are
//! resolved; folders that the user shows are searched like the workspace. Toolchains and caches are
//! not searched for secret names: their only secrets have known locations (docs/decisions/0002).

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

use haft_core::{ToolError, files::FileGrant};

use super::{
    closed::{self, Closed},
    folders::FolderCache,
};
use crate::files::root::Root;

/// The state that is kept between launches.
#[derive(Default)]
pub(crate) struct OutsideFolders {
    /// Absolute path globs of rules and secrets.
    patterns: Vec<PathBuf>,
    folders: FolderCache,
    /// Opened once; a folder that replaces one of them is opened again.
    roots: Mutex<HashMap<PathBuf, Arc<Root>>>,
}

/// A name that no file has, to check whether everything in a folder is closed.
const ANY_NAME: &str = "haft-any-name";

impl OutsideFolders {
    pub(crate) fn new(patterns: Vec<PathBuf>) -> Self {
        Self { patterns, ..Self::default() }
    }

    pub(crate) fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Returns the closed paths in the folders that commands see (`areas`), and in those of them
    /// that are searched (`shown`).
    ///
    /// # Errors
    /// Of kind `unavailable` when they cannot be found or covered.
    pub(crate) fn closed(
        &self,
        areas: &[PathBuf],
        shown: &[PathBuf],
        grant: &FileGrant,
    ) -> Result<Vec<Closed>, ToolError> {
        let mut found = Vec::new();
        let mut searched: Vec<PathBuf> = shown.to_vec();
        for place in self.patterns.iter().flat_map(|pattern| places(pattern, areas)) {
            match closed_as_a_whole(&place, grant) {
                Some(closed) => found.push(closed),
                None if place.is_dir() => searched.push(place),
                None => {}
            }
        }
        searched.sort();
        searched.dedup();
        let mut tops: Vec<PathBuf> = Vec::new();
        for folder in searched {
            if !tops.iter().any(|top| folder.starts_with(top)) {
                tops.push(folder);
            }
        }
        found.extend(self.search(&tops, grant)?);
        closed::checked(found)
    }

    fn search(&self, tops: &[PathBuf], grant: &FileGrant) -> Result<Vec<Closed>, ToolError> {
        let roots: Vec<Arc<Root>> = tops.iter().filter_map(|path| self.root(path)).collect();
        let roots: Vec<&Root> = roots.iter().map(Arc::as_ref).collect();
        let scan = closed::scan_outside(&self.folders, &roots, grant)?;
        Ok(closed::found_in(roots, &scan))
    }

    /// Returns None when the folder is gone, or is not a folder.
    fn root(&self, path: &Path) -> Option<Arc<Root>> {
        let mut roots = self.roots.lock();
        let is_there = |root: &Arc<Root>| {
            let now = rustix::fs::stat(path).ok();
            let then = rustix::fs::fstat(&root.handle).ok();
            now.zip(then)
                .is_some_and(|(now, then)| (now.st_dev, now.st_ino) == (then.st_dev, then.st_ino))
        };
        if let Some(root) = roots.get(path).filter(|root| is_there(root)) {
            return Some(root.clone());
        }
        let root = Arc::new(Root::outside(path).ok()?);
        roots.insert(path.to_owned(), root.clone());
        Some(root)
    }
}

/// Returns the paths where a pattern may match in these folders: its fixed beginning, or the
/// folders below that.
fn places(pattern: &Path, areas: &[PathBuf]) -> Vec<PathBuf> {
    let is_fixed = |part: &std::path::Component<'_>| {
        let part = part.as_os_str().as_encoded_bytes();
        !part.iter().any(|byte| b"*?[{".contains(byte))
    };
    let beginning: PathBuf = pattern.components().take_while(is_fixed).collect();
    // Rules contain the paths that people use; mounts need the real ones.
    let beginning = beginning.canonicalize().unwrap_or(beginning);
    if areas.iter().any(|area| beginning.starts_with(area)) {
        return vec![beginning];
    }
    areas.iter().filter(|area| area.starts_with(&beginning)).cloned().collect()
}

/// Returns a path that is closed itself, or a folder in which everything is.
fn closed_as_a_whole(path: &Path, grant: &FileGrant) -> Option<Closed> {
    let is_directory = path.symlink_metadata().ok()?.is_dir();
    let (child, grandchild) = (path.join(ANY_NAME), path.join(ANY_NAME).join(ANY_NAME));
    let is_closed = !grant.permits(path)
        || (is_directory && !grant.permits(&child) && !grant.permits(&grandchild));
    is_closed.then(|| Closed { path: path.to_owned(), is_directory })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, expected: &[&str]) {
        let areas = ["/etc", "/h/u/.cargo", "/h/u/docs"].map(PathBuf::from);
        let found = places(Path::new(pattern), &areas);
        assert_eq!(found, expected.iter().map(PathBuf::from).collect::<Vec<_>>(), "{pattern}");
    }

    #[test]
    fn a_pattern_is_followed_to_where_it_can_meet_something() {
        check("/h/u/docs/private/**", &["/h/u/docs/private"]);
        check("/h/u/docs/a/*.txt", &["/h/u/docs/a"]);
        check("/h/u/docs/notes.txt", &["/h/u/docs/notes.txt"]);
        check("/h/u/other/**", &[]);
        check("/h/u/**/*.kdbx", &["/h/u/.cargo", "/h/u/docs"]);
        check("/h/u/do*/x", &["/h/u/.cargo", "/h/u/docs"]);
        check("/**", &["/etc", "/h/u/.cargo", "/h/u/docs"]);
    }
}
