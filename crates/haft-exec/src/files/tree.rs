//! Lists the tree below a directory. Entries are collected level by level; when a level exceeds the
//! limit, each of its directories gets a share, so that a huge one does not crowd out its siblings.

use std::{
    ffi::{OsStr, OsString},
    mem,
    os::{
        fd::OwnedFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_core::{
    ToolError,
    files::{FileGrant, FileKind, ShouldStop, TreeEntry, TreeListing, WalkTree},
};
use rustix::{
    fs::{OFlags, RawDir},
    io::Errno,
};

use crate::files::{
    metadata,
    walk::{IgnoreFiles, IgnoreRules, Start, kind_of, or_dot, should_report},
    workspace::Workspace,
};

const LISTING_BYTES: usize = 64 << 10;
/// Number of entries between two checks whether to stop, while listing a directory.
const ENTRIES_PER_STOP_CHECK: usize = 4096;

/// Lists everything below a directory.
pub(crate) fn tree(
    workspace: &Workspace,
    query: &WalkTree,
    grant: &FileGrant,
    stop: ShouldStop<'_>,
) -> Result<TreeListing, ToolError> {
    let start = Start::directory(workspace, &query.path, grant)?;
    let rules = if query.ignored { None } else { IgnoreRules::above(start.root, &start.path) };
    let mut builder = TreeBuilder {
        start: &start,
        prefix: start.prefix(),
        query,
        grant,
        stop,
        listing: Vec::with_capacity(LISTING_BYTES),
        nodes: Vec::new(),
        tree: TreeListing {
            path: start.shown.clone(),
            is_complete: true,
            ..TreeListing::default()
        },
    };
    match query.skip {
        None => {
            builder.build(rules);
            Ok(builder.arranged())
        }
        Some(skip) => {
            builder.page(rules, skip);
            Ok(builder.tree)
        }
    }
}

/// A collected entry.
struct TreeNode {
    name: Vec<u8>,
    kind: FileKind,
    is_closed: bool,
    /// The indexes of its children, in order.
    below: std::ops::Range<usize>,
}

/// A directory that is still to be listed.
struct PendingDirectory {
    /// Its index among the nodes; `None` for the start.
    node: Option<usize>,
    /// Relative to the root.
    path: Vec<u8>,
    rules: Option<Arc<IgnoreRules>>,
}

/// An entry of a directory.
struct FoundEntry {
    name: Vec<u8>,
    kind: FileKind,
    is_ignored: bool,
}

/// A directory that a page has come to.
struct PageDirectory {
    /// Relative to the directory the walk began at.
    above: PathBuf,
    pending: PendingDirectory,
    rest: std::vec::IntoIter<FoundEntry>,
}

struct TreeBuilder<'a> {
    start: &'a Start<'a>,
    prefix: Vec<u8>,
    query: &'a WalkTree,
    grant: &'a FileGrant,
    stop: ShouldStop<'a>,
    listing: Vec<u8>,
    nodes: Vec<TreeNode>,
    tree: TreeListing,
}

impl TreeBuilder<'_> {
    fn build(&mut self, rules: Option<Arc<IgnoreRules>>) {
        let path = self.start.path.as_os_str().as_bytes().to_vec();
        let mut level = vec![PendingDirectory { node: None, path, rules }];
        let mut depth = 0;
        while !level.is_empty() && depth < self.query.depth {
            let mut listed = Vec::new();
            for mut pending in level {
                if !self.tree.is_complete || (self.stop)() {
                    self.tree.is_complete = false;
                    break;
                }
                let Some(found) = self.list(&mut pending) else { continue };
                listed.push((pending, found));
            }
            level = self.add_level(listed);
            depth += 1;
            if self.tree.has_more {
                // Only entries of one directory, none of which has entries behind it, stand as in a listing of everything.
                let is_beginning = depth == 1 && (level.is_empty() || self.query.depth == 1);
                self.tree.next_skip = Some(if is_beginning { self.nodes.len() } else { 0 });
            }
            if self.tree.has_more || !self.tree.is_complete {
                return;
            }
        }
    }

    /// Gathers a part of a listing of everything, in its order.
    fn page(&mut self, rules: Option<Arc<IgnoreRules>>, skip: usize) {
        let path = self.start.path.as_os_str().as_bytes().to_vec();
        let mut pending = PendingDirectory { node: None, path, rules };
        let Some(found) = self.list(&mut pending) else { return };
        let mut open =
            vec![PageDirectory { above: PathBuf::new(), pending, rest: found.into_iter() }];
        let mut passed = 0;
        while let Some(directory) = open.last_mut() {
            let Some(FoundEntry { name, kind, is_ignored }) = directory.rest.next() else {
                open.pop();
                continue;
            };
            if self.tree.entries.len() == self.query.limit {
                self.tree.has_more = true;
                self.tree.next_skip = Some(passed);
                return;
            }
            let path = directory.above.join(OsStr::from_bytes(&name));
            let mut below = None;
            if kind == FileKind::Directory && !is_ignored && open.len() < self.query.depth {
                below = self.below(open.last(), &path, &name);
            }
            if !self.tree.is_complete {
                return;
            }
            if passed >= skip {
                let is_closed = kind == FileKind::Directory && below.is_none();
                self.tree.entries.push(TreeEntry { path, kind, is_closed });
            }
            passed += 1;
            open.extend(below);
        }
    }

    /// A directory in another, listed; `None` when it cannot be read, or when the walk is stopped.
    fn below(
        &mut self,
        above: Option<&PageDirectory>,
        path: &Path,
        name: &[u8],
    ) -> Option<PageDirectory> {
        if (self.stop)() {
            self.tree.is_complete = false;
            return None;
        }
        let PendingDirectory { path: above, rules, .. } = &above?.pending;
        let mut pending =
            PendingDirectory { node: None, path: above.clone(), rules: rules.clone() };
        if !pending.path.is_empty() {
            pending.path.push(b'/');
        }
        pending.path.extend_from_slice(name);
        let rest = self.list(&mut pending)?.into_iter();
        Some(PageDirectory { above: path.to_owned(), pending, rest })
    }

    /// Returns the sorted entries of a directory; `None` when it cannot be read.
    fn list(&mut self, pending: &mut PendingDirectory) -> Option<Vec<FoundEntry>> {
        let path = Path::new(OsStr::from_bytes(&pending.path));
        let opened = self.start.root.open_at(or_dot(path), OFlags::RDONLY | OFlags::DIRECTORY);
        let found = opened.and_then(|handle| {
            let (mut found, seen) = self.read(&handle)?;
            if !self.query.ignored && seen.any() {
                pending.rules =
                    IgnoreRules::with(pending.rules.take(), &handle, seen, pending.path.len());
            }
            self.filter_entries(pending, &mut found);
            found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            Ok(found)
        });
        if let Err(error) = &found {
            self.tree.unreadable += usize::from(should_report(*error));
        }
        found.ok()
    }

    fn read(&mut self, handle: &OwnedFd) -> Result<(Vec<FoundEntry>, IgnoreFiles), Errno> {
        let (mut found, mut seen) = (Vec::new(), IgnoreFiles::default());
        let mut entries = RawDir::new(handle, self.listing.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Err(Errno::INTR) => continue,
                other => other?,
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if found.len() % ENTRIES_PER_STOP_CHECK == ENTRIES_PER_STOP_CHECK - 1 && (self.stop)() {
                self.tree.is_complete = false;
                break;
            }
            let kind = metadata::kind(kind_of(handle, name, entry.file_type()));
            seen.note(name.to_bytes(), kind == FileKind::File);
            found.push(FoundEntry { name: name.to_bytes().to_vec(), kind, is_ignored: false });
        }
        Ok((found, seen))
    }

    /// Drops closed and ignored files; ignored directories are listed without their contents.
    fn filter_entries(&self, pending: &PendingDirectory, found: &mut Vec<FoundEntry>) {
        let mut shown = self.prefix.clone();
        shown.extend_from_slice(&pending.path);
        if !pending.path.is_empty() {
            shown.push(b'/');
        }
        let base = shown.len();
        found.retain_mut(|entry| {
            shown.truncate(base);
            shown.extend_from_slice(&entry.name);
            let is_directory = entry.kind == FileKind::Directory;
            let path = shown.get(self.prefix.len()..).unwrap_or_default();
            let is_internal = entry.name == b".git" || path == b".haft/tmp";
            entry.is_ignored = (is_directory && is_internal)
                || pending.rules.as_ref().is_some_and(|rules| rules.ignore(path, is_directory));
            (is_directory || !entry.is_ignored)
                && self.grant.permits(Path::new(OsStr::from_bytes(&shown)))
        });
    }

    /// Adds the entries that fit the limit to the nodes. Returns the directories to list next.
    fn add_level(
        &mut self,
        listed: Vec<(PendingDirectory, Vec<FoundEntry>)>,
    ) -> Vec<PendingDirectory> {
        let remaining = self.query.limit.saturating_sub(self.nodes.len());
        let sizes = || listed.iter().map(|(_, found)| found.len());
        let share = share_of(remaining, sizes());
        // What cannot be divided equally goes to the first directories that can use it.
        let mut spare = remaining.saturating_sub(sizes().map(|size| size.min(share)).sum());
        let mut next = Vec::new();
        for (pending, found) in listed {
            let extra = usize::from(found.len() > share && spare > 0);
            spare -= extra;
            let share = share.saturating_add(extra);
            let is_whole = found.len() <= share;
            let first = self.nodes.len();
            for entry in found.into_iter().take(share) {
                let is_directory = entry.kind == FileKind::Directory;
                if is_directory && !entry.is_ignored {
                    let mut path = pending.path.clone();
                    if !path.is_empty() {
                        path.push(b'/');
                    }
                    path.extend_from_slice(&entry.name);
                    next.push(PendingDirectory {
                        node: Some(self.nodes.len()),
                        path,
                        rules: pending.rules.clone(),
                    });
                }
                let FoundEntry { name, kind, .. } = entry;
                self.nodes.push(TreeNode { name, kind, is_closed: is_directory, below: 0..0 });
            }
            self.tree.has_more |= !is_whole;
            let end = self.nodes.len();
            if let Some(node) = pending.node.and_then(|node| self.nodes.get_mut(node)) {
                node.below = first..end;
                node.is_closed = !is_whole;
            }
        }
        next
    }

    /// Returns the nodes in the order of a listing.
    fn arranged(mut self) -> TreeListing {
        let top = self.nodes.iter().map(|node| node.below.start).filter(|start| *start > 0).min();
        let mut ahead: Vec<(usize, PathBuf)> =
            (0..top.unwrap_or(self.nodes.len())).rev().map(|at| (at, PathBuf::new())).collect();
        while let Some((at, above)) = ahead.pop() {
            let node = &mut self.nodes[at];
            let name = PathBuf::from(OsString::from_vec(mem::take(&mut node.name)));
            let path = if above.as_os_str().is_empty() { name } else { above.join(name) };
            ahead.extend(node.below.clone().rev().map(|below| (below, path.clone())));
            let (kind, is_closed) = (node.kind, node.is_closed);
            self.tree.entries.push(TreeEntry { path, kind, is_closed });
        }
        self.tree
    }
}

/// Returns the maximum number of entries per directory so that a level fits: small directories
/// completely, large ones equally.
fn share_of(remaining: usize, sizes: impl Iterator<Item = usize>) -> usize {
    let mut sizes: Vec<usize> = sizes.collect();
    if sizes.iter().sum::<usize>() <= remaining {
        return usize::MAX;
    }
    sizes.sort_unstable();
    let mut remaining = remaining;
    for (at, size) in sizes.iter().enumerate() {
        let share = remaining / (sizes.len() - at);
        if *size > share {
            return share;
        }
        remaining -= size;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use haft_core::{ErrorKind, files::ReadFiles};
    use tempfile::TempDir;

    use super::*;

    fn workspace(paths: &[&str]) -> (TempDir, ReadFiles) {
        let folder = TempDir::new().expect("a folder");
        for path in paths {
            let place = folder.path().join(path);
            fs::create_dir_all(place.parent().expect("a parent")).expect("made");
            match path.strip_suffix('/') {
                Some(_) => fs::create_dir_all(place).expect("made"),
                None => fs::write(place, "").expect("written"),
            }
        }
        let workspace = Workspace::open(folder.path()).expect("opens");
        (folder, ReadFiles::unchecked(Arc::new(workspace)))
    }

    fn whole(path: &str) -> WalkTree {
        WalkTree { path: path.into(), depth: 9, skip: None, limit: 1000, ignored: false }
    }

    fn formatted(tree: &TreeListing) -> Vec<String> {
        let formatted = tree.entries.iter().map(|entry| {
            let mark = match (entry.kind, entry.is_closed) {
                (FileKind::Directory, true) => "/…",
                (FileKind::Directory, false) => "/",
                (FileKind::Link, _) => "@",
                _ => "",
            };
            format!("{}{mark}", entry.path.display())
        });
        formatted.collect()
    }

    #[track_caller]
    fn check(files: &ReadFiles, query: &WalkTree, has_more: bool, expected: &[&str]) {
        let tree = files.tree(query, &|| false).expect("a tree");
        assert_eq!(formatted(&tree), expected, "{query:?}");
        assert!(tree.is_complete && tree.unreadable == 0);
        assert_eq!(tree.has_more, has_more);
    }

    #[test]
    fn each_directory_is_followed_by_what_it_holds() {
        let (folder, files) = workspace(&["b/y", "b/x/1", "a", "c/", ".dot"]);
        std::os::unix::fs::symlink("b", folder.path().join("l")).expect("made");
        check(&files, &whole("."), false, &[".dot", "a", "b/", "b/x/", "b/x/1", "b/y", "c/", "l@"]);
        check(&files, &whole("b"), false, &["x/", "x/1", "y"]);
        check(&files, &whole("l"), false, &["x/", "x/1", "y"]);
        check(
            &files,
            &WalkTree { depth: 1, ..whole(".") },
            false,
            &[".dot", "a", "b/…", "c/…", "l@"],
        );
        check(&files, &WalkTree { depth: 2, ..whole("b") }, false, &["x/", "x/1", "y"]);
        assert_eq!(files.tree(&whole("l"), &|| false).expect("a tree").path, Path::new("b"));
    }

    #[test]
    fn what_is_ignored_is_not_entered() {
        let paths = ["target/x", ".git/config", "a.log", "src/b.log", "src/c", "deep/target/y"];
        let (folder, files) = workspace(&paths);
        fs::write(folder.path().join(".gitignore"), "target\n*.log\n").expect("written");
        check(
            &files,
            &whole("."),
            false,
            &[".git/…", ".gitignore", "deep/", "deep/target/…", "src/", "src/c", "target/…"],
        );
        check(&files, &whole("src"), false, &["c"]);
        check(&files, &whole("target"), false, &["x"]);
        let query = WalkTree { ignored: true, depth: 2, ..whole(".") };
        let tree = files.tree(&query, &|| false).expect("a tree");
        let formatted = formatted(&tree);
        assert!(formatted.contains(&"src/b.log".into()) && formatted.contains(&"target/x".into()));
        assert!(formatted.contains(&".git/…".into()), "{formatted:?}");
    }

    #[test]
    fn a_huge_directory_does_not_hide_its_neighbours() {
        let mut paths: Vec<String> = (0..100).map(|number| format!("a/{number:02}")).collect();
        paths.extend(["b/1", "b/2", "c/1"].map(str::to_owned));
        let (_folder, files) = workspace(&paths.iter().map(String::as_str).collect::<Vec<_>>());
        let query = WalkTree { limit: 10, ..whole(".") };
        let expected = ["a/…", "a/00", "a/01", "a/02", "a/03", "b/", "b/1", "b/2", "c/", "c/1"];
        check(&files, &query, true, &expected);
        check(&files, &WalkTree { limit: 3, ..query.clone() }, true, &["a/…", "b/…", "c/…"]);
        check(&files, &WalkTree { limit: 2, ..query.clone() }, true, &["a/…", "b/…"]);
        check(&files, &WalkTree { limit: 0, ..query }, true, &[]);
    }

    #[test]
    fn pages_follow_each_other_to_the_last_entry() {
        let mut paths: Vec<String> =
            (0..40).map(|number| format!("d{}/e{}/{number:02}", number % 3, number % 2)).collect();
        paths.extend([".git/config", "target/x", "a", "z"].map(str::to_owned));
        let (folder, files) = workspace(&paths.iter().map(String::as_str).collect::<Vec<_>>());
        fs::write(folder.path().join(".gitignore"), "target\n").expect("written");
        for depth in [1, 2, 9] {
            let whole = files.tree(&WalkTree { depth, ..whole(".") }, &|| false).expect("a tree");
            for limit in [1, 7, 100] {
                let (mut paged, mut skip) = (Vec::new(), Some(0));
                while let Some(next) = skip {
                    let query = WalkTree { depth, skip, limit, ..super::tests::whole(".") };
                    let page = files.tree(&query, &|| false).expect("a tree");
                    assert_eq!(next, paged.len());
                    assert_eq!(page.has_more, page.next_skip.is_some());
                    paged.extend(page.entries);
                    skip = page.next_skip;
                }
                assert_eq!(paged, whole.entries, "{depth} {limit}");
            }
        }
    }

    #[test]
    fn an_overview_says_where_a_listing_of_everything_goes_on() {
        let (_folder, files) = workspace(&["a", "b", "c", "d/1", "d/2"]);
        for (path, depth, limit, next_skip) in
            [(".", 9, 2, Some(2)), (".", 9, 5, Some(0)), (".", 1, 3, Some(3)), (".", 9, 6, None)]
        {
            let query = WalkTree { depth, limit, ..whole(path) };
            assert_eq!(files.tree(&query, &|| false).expect("a tree").next_skip, next_skip);
        }
    }

    #[test]
    fn a_tree_of_exactly_the_limit_is_whole() {
        let (_folder, files) = workspace(&["a/1", "b/1", "b/2"]);
        let query = WalkTree { limit: 5, ..whole(".") };
        check(&files, &query, false, &["a/", "a/1", "b/", "b/1", "b/2"]);
    }

    #[test]
    fn what_cannot_be_listed_is_reported() {
        let (_folder, files) = workspace(&["a/1"]);
        let error = files.tree(&whole("a/1"), &|| false).expect_err("a file");
        assert_eq!(error.kind(), ErrorKind::Input);
        let stopped = files.tree(&whole("."), &|| true).expect("a tree");
        assert!(!stopped.is_complete && stopped.entries.is_empty());
    }

    #[test]
    fn the_limit_is_shared_fairly() {
        for (remaining, sizes, share) in [
            (10, &[3, 3][..], usize::MAX),
            (10, &[5, 5], usize::MAX),
            (10, &[100, 2, 1], 7),
            (10, &[100, 100], 5),
            (1, &[2, 2], 0),
            (0, &[], usize::MAX),
        ] {
            assert_eq!(
                share_of(remaining, sizes.iter().copied()),
                share,
                "{sizes:?} in {remaining}"
            );
        }
    }
}
