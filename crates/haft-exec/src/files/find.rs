//! Finds files whose paths match a glob, newest first.

use std::{cmp::Reverse, collections::BinaryHeap, ops::ControlFlow, path::PathBuf};

use haft_core::{
    ToolError,
    files::{FileGrant, FindFiles, FoundFile, FoundFiles, ShouldStop},
};
use rustix::fs::{self, AtFlags};

use crate::files::{
    walk::{DirectoryWalk, FileVisitor, Globs, Start, VisitedFile, should_report},
    workspace::Workspace,
};

/// Number of files that one thread takes. Checking a file takes a microsecond, so sharing fewer
/// does not pay.
const BATCH_FILES: usize = 1024;

/// Walks, checks each matching file, and keeps the newest.
pub(crate) fn find(
    workspace: &Workspace,
    query: &FindFiles,
    grant: &FileGrant,
    stop: ShouldStop<'_>,
) -> Result<FoundFiles, ToolError> {
    let globs = Globs::one(&query.pattern)?;
    let start = Start::directory(workspace, &query.path, grant)?;
    let walk = DirectoryWalk {
        start: &start,
        grant,
        stop,
        globs: Some(&globs),
        ignored: query.ignored,
        batch: BATCH_FILES,
    };
    // Those that are skipped have to be found, too.
    let limit = query.skip.saturating_add(query.limit);
    let walked = walk.run(|| Newest { limit, ..Newest::default() });
    let mut found = FoundFiles {
        is_complete: walked.is_complete,
        unreadable: walked.unreadable,
        ..FoundFiles::default()
    };
    let mut all = Vec::new();
    for newest in walked.visitors {
        found.total += newest.total;
        found.unreadable += newest.unreadable;
        all.extend(newest.files);
    }
    all.sort_unstable();
    all.truncate(limit);
    found.files = all.into_iter().skip(query.skip).map(Aged::into_file).collect();
    Ok(found)
}

/// The newest files that one worker found.
#[derive(Default)]
struct Newest {
    limit: usize,
    /// The oldest on top, which is dropped first.
    files: BinaryHeap<Aged>,
    total: usize,
    unreadable: usize,
}

/// Ordered as in the result: the newest first, then by path.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Aged {
    modified: Reverse<(i64, u32)>,
    path: PathBuf,
    size: u64,
}

impl Aged {
    fn into_file(self) -> FoundFile {
        let Reverse((seconds, nanoseconds)) = self.modified;
        let modified_ns = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
        FoundFile { path: self.path, modified_ns, size: self.size }
    }
}

impl FileVisitor for Newest {
    const VISITS_LINKS: bool = true;

    fn visit(&mut self, file: &VisitedFile<'_>) -> ControlFlow<()> {
        let stat = match fs::statat(file.directory, file.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(error) => {
                self.unreadable += usize::from(should_report(error));
                return ControlFlow::Continue(());
            }
        };
        self.total += 1;
        let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or_default();
        let modified = Reverse((stat.st_mtime, nanoseconds));
        let is_full = self.files.len() >= self.limit;
        if is_full {
            // Most files are older than those that are kept: their path is never copied.
            let Some(oldest) = self.files.peek() else { return ControlFlow::Continue(()) };
            if (&modified, file.path) >= (&oldest.modified, oldest.path.as_path()) {
                return ControlFlow::Continue(());
            }
            self.files.pop();
        }
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        self.files.push(Aged { modified, path: file.path.to_owned(), size });
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        path::Path,
        sync::Arc,
        time::{Duration, SystemTime},
    };

    use haft_core::{ErrorKind, files::ReadFiles};
    use tempfile::TempDir;

    use super::*;

    /// Creates files with these paths, each a minute older than the one before.
    fn workspace(paths: &[&str]) -> (TempDir, ReadFiles) {
        let folder = TempDir::new().expect("a folder");
        for (age, path) in (0..).zip(paths) {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            let file = File::create(&path).expect("made");
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
            file.set_modified(now - Duration::from_secs(60 * age)).expect("set");
        }
        let workspace = Workspace::open(folder.path()).expect("opens");
        (folder, ReadFiles::unchecked(Arc::new(workspace)))
    }

    fn all(path: &str, pattern: &str) -> FindFiles {
        FindFiles {
            path: path.into(),
            pattern: pattern.into(),
            skip: 0,
            limit: 1000,
            ignored: false,
        }
    }

    #[track_caller]
    fn check(files: &ReadFiles, query: &FindFiles, expected: &[&str]) {
        let found = files.find(query, &|| false).expect("a glob");
        let paths: Vec<&Path> = found.files.iter().map(|file| file.path.as_path()).collect();
        assert_eq!(paths, expected.iter().map(Path::new).collect::<Vec<_>>(), "{query:?}");
        assert!(found.is_complete && found.unreadable == 0);
    }

    #[test]
    fn the_newest_come_first_and_all_are_counted() {
        let (_folder, files) = workspace(&["z.rs", "a/b/y.rs", "a/x.txt", "a/w.rs", ".hidden.rs"]);
        check(&files, &all(".", "*.rs"), &["z.rs", "a/b/y.rs", "a/w.rs", ".hidden.rs"]);
        check(&files, &all("a", "*.rs"), &["a/b/y.rs", "a/w.rs"]);
        check(&files, &all("a", "b/*"), &["a/b/y.rs"]);
        check(&files, &all(".", "**/w.rs"), &["a/w.rs"]);
        check(&files, &all(".", "a/*.{txt,rs}"), &["a/x.txt", "a/w.rs"]);
        let query = FindFiles { limit: 2, ..all(".", "*.rs") };
        check(&files, &query, &["z.rs", "a/b/y.rs"]);
        assert_eq!(files.find(&query, &|| false).expect("a glob").total, 4);
        let query = FindFiles { limit: 0, ..query };
        assert_eq!(files.find(&query, &|| false).expect("a glob").total, 4);
    }

    #[test]
    fn files_of_the_same_time_are_sorted_by_path() {
        let (folder, files) = workspace(&["c.x", "a.x", "b/a.x", "b.x"]);
        for path in ["c.x", "a.x", "b/a.x", "b.x"] {
            let file = File::options().write(true).open(folder.path().join(path)).expect("opens");
            file.set_modified(SystemTime::UNIX_EPOCH).expect("set");
        }
        check(&files, &all(".", "*.x"), &["a.x", "b/a.x", "b.x", "c.x"]);
        check(&files, &FindFiles { limit: 2, ..all(".", "*.x") }, &["a.x", "b/a.x"]);
    }

    #[test]
    fn pages_follow_each_other_to_the_last_file() {
        let names: Vec<String> =
            (0..25).map(|number| format!("d{}/{number}.x", number % 3)).collect();
        let (_folder, files) = workspace(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let whole = files.find(&all(".", "*.x"), &|| false).expect("a glob").files;
        let mut paged = Vec::new();
        for skip in (0..40).step_by(10) {
            let query = FindFiles { skip, limit: 10, ..all(".", "*.x") };
            let page = files.find(&query, &|| false).expect("a glob");
            assert_eq!(page.total, 25);
            paged.extend(page.files);
        }
        assert_eq!(paged, whole);
    }

    #[test]
    fn a_large_directory_is_found_whole() {
        let names: Vec<String> = (0..5_000).map(|number| format!("d/{number}.x")).collect();
        let (_folder, files) = workspace(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let found = files.find(&all(".", "*.x"), &|| false).expect("a glob");
        assert_eq!((found.total, found.files.len()), (5_000, 1_000));
        assert_eq!(found.files[999].path, Path::new("d/999.x"));
    }

    #[test]
    fn links_are_found_as_themselves_and_never_followed() {
        let (folder, files) = workspace(&["real/in.x"]);
        let outside = TempDir::new().expect("a folder");
        fs::write(outside.path().join("secret.x"), "").expect("written");
        let link = |to: &Path, name| std::os::unix::fs::symlink(to, folder.path().join(name));
        link(outside.path(), "out.x").expect("made");
        link(Path::new("real"), "loop").expect("made");
        link(Path::new("."), "real/self").expect("made");
        fs::create_dir(folder.path().join("directory.x")).expect("made");
        check(&files, &all(".", "*.x"), &["out.x", "real/in.x"]);
        // A link given as the start is followed, since it stays inside.
        check(&files, &all("loop", "*.x"), &["real/in.x"]);
        let error = files.find(&all("out.x", "*"), &|| false).expect_err("outside");
        assert_eq!(error.kind(), ErrorKind::Denied);
    }

    #[test]
    fn what_is_ignored_is_left_out_unless_asked_for() {
        let paths = ["a/.ignore", "a/1.x", "a/b/2.x", "out/3.x", "a/b/4.log", ".git/5.x", "6.x"];
        let (folder, files) = workspace(&paths);
        let write = |path: &str, text: &str| fs::write(folder.path().join(path), text);
        write(".gitignore", "out/\n*.log\n").expect("written");
        write("a/.ignore", "!4.log\n/b/2.x\n").expect("written");
        fs::create_dir(folder.path().join(".git/info")).expect("made");
        write(".git/info/exclude", "6.x\n").expect("written");
        check(&files, &all(".", "[0-9].*"), &["a/1.x", "a/b/4.log"]);
        // The rules above the start apply too; a directory given as the start is entered.
        check(&files, &all("a/b", "*.*"), &["a/b/4.log"]);
        check(&files, &all("out", "*"), &["out/3.x"]);
        let query = FindFiles { ignored: true, ..all(".", "[0-9].*") };
        check(&files, &query, &["a/1.x", "a/b/2.x", "out/3.x", "a/b/4.log", "6.x"]);
    }

    #[test]
    fn a_stopped_walk_reports_that_it_stopped() {
        let (_folder, files) = workspace(&["a/1.x", "b/2.x"]);
        let found = files.find(&all(".", "*.x"), &|| true).expect("a glob");
        assert!(!found.is_complete && found.files.is_empty());
    }

    #[test]
    fn wrong_globs_and_wrong_starts_are_refused() {
        let (_folder, files) = workspace(&["a/1.x"]);
        for (path, pattern, kind, word) in [
            (".", "[", ErrorKind::Input, "`[`"),
            ("a/1.x", "*", ErrorKind::Input, "is a file"),
            ("b", "*", ErrorKind::NotFound, "`b`"),
            ("/", "*", ErrorKind::Denied, "outside"),
        ] {
            let error = files.find(&all(path, pattern), &|| false).expect_err(path);
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    #[test]
    fn files_of_further_roots_carry_its_name() {
        let (folder, other) = (TempDir::new().expect("one"), TempDir::new().expect("other"));
        fs::create_dir(other.path().join("sub")).expect("made");
        fs::write(other.path().join("sub/a.x"), "").expect("written");
        fs::write(other.path().join("sub/b.x"), "").expect("written");
        fs::write(other.path().join(".gitignore"), "/sub/b.x").expect("written");
        let mut workspace = Workspace::open(folder.path()).expect("opens");
        workspace.add_root("lib", other.path()).expect("opens");
        let files = ReadFiles::unchecked(Arc::new(workspace));
        check(&files, &all("@lib", "*.x"), &["@lib/sub/a.x"]);
        check(&files, &all("@lib/sub", "*.x"), &["@lib/sub/a.x"]);
        check(&files, &all("@lib", "sub/*"), &["@lib/sub/a.x"]);
    }
}
