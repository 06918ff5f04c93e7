//! Walks a directory by handles: the kernel's confined lookup opens every directory below its root,
//! and every file is opened below the handle of its directory, so that an entry that is replaced by
//! a link cannot lead out. Links are not followed and mounts not entered. A visitor handles the
//! files.

mod globs;
mod ignore_rules;
mod workers;

use std::{
    ffi::{CStr, OsStr},
    mem,
    ops::ControlFlow,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use haft_core::{
    ToolError,
    files::{FileGrant, FileKind, ShouldStop},
};
use rustix::{
    fs::{self, AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags},
    io::Errno,
};

pub(crate) use self::{
    globs::Globs,
    ignore_rules::{IgnoreFiles, IgnoreRules},
    workers::share,
};
use crate::files::{
    entries::not_a_directory, locate::LastLink, metadata, root::Root, workspace::Workspace,
};

/// Flags for opening a file. A pipe that replaced the file must not block.
pub(crate) const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);
/// Buffer size of one `getdents64` call; most directories need one call.
const LISTING_BYTES: usize = 64 << 10;
/// Number of files between two checks whether to stop.
const FILES_PER_STOP_CHECK: usize = 64;
/// The same for entries while a directory is listed.
const ENTRIES_PER_STOP_CHECK: usize = 4096;

/// The start of a walk.
pub(crate) struct Start<'a> {
    pub(crate) root: &'a Root,
    /// Relative to the root, with plain names; empty for the root itself.
    pub(crate) path: PathBuf,
    pub(crate) shown: PathBuf,
    pub(crate) kind: FileKind,
}

/// A walk of a directory and everything below it.
pub(crate) struct DirectoryWalk<'a> {
    pub(crate) start: &'a Start<'a>,
    pub(crate) grant: &'a FileGrant,
    pub(crate) stop: ShouldStop<'a>,
    /// Only files that match, by their path below the start.
    pub(crate) globs: Option<&'a Globs>,
    /// Includes files that ignore rules exclude.
    pub(crate) ignored: bool,
    /// In a directory with more files, other workers take some.
    pub(crate) batch: usize,
}

/// A visited file. It is listed as a regular file or a link, matches the globs, and the grant
/// permits it.
pub(crate) struct VisitedFile<'a> {
    pub(crate) directory: &'a OwnedFd,
    pub(crate) name: &'a CStr,
    /// The path as shown in results.
    pub(crate) path: &'a Path,
}

impl VisitedFile<'_> {
    /// Opens it for reading; fails when something is mounted on it.
    pub(crate) fn open(&self) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        match fs::openat2(self.directory, self.name, READ, Mode::empty(), resolve) {
            // As in `Root`: the call does not exist, or a filter does not know it.
            Err(Errno::NOSYS | Errno::PERM) => {
                fs::openat(self.directory, self.name, READ, Mode::empty())
            }
            other => other,
        }
    }
}

/// Handles the files of a walk. Each worker has its own visitor.
pub(crate) trait FileVisitor: Send {
    /// True when links are visited too, as links.
    const VISITS_LINKS: bool;
    /// True when directories are entered roughly in the order of their paths.
    const IN_ORDER: bool = false;

    /// Returns false for a directory, by its path as shown, whose files are not needed any more.
    fn needs(&self, _directory: &Path) -> bool {
        true
    }

    /// Visits a file; `Break` ends the whole walk.
    fn visit(&mut self, file: &VisitedFile<'_>) -> ControlFlow<()>;
}

/// The result of a walk.
pub(crate) struct WalkResult<V> {
    pub(crate) visitors: Vec<V>,
    /// False when the walk was stopped.
    pub(crate) is_complete: bool,
    /// Number of directories that could not be read.
    pub(crate) unreadable: usize,
}

impl<'a> Start<'a> {
    /// Resolves a path, if the grant permits it.
    pub(crate) fn find(
        workspace: &'a Workspace,
        path: &Path,
        grant: &FileGrant,
    ) -> Result<Self, ToolError> {
        let mut found = None;
        let (kind, path, shown) = workspace.at(path, LastLink::Follow, grant, |located| {
            let handle = located.root.open_at(&located.path, OFlags::PATH)?;
            found = workspace.roots.iter().position(|root| std::ptr::eq(root, located.root));
            let kind = FileType::from_raw_mode(fs::fstat(&handle)?.st_mode);
            Ok((metadata::kind(kind), located.path.clone(), located.shown.clone()))
        })?;
        let root = &workspace.roots[found.expect("a located path is below one of the roots")];
        let path = if path == Path::new(".") { PathBuf::new() } else { path };
        Ok(Self { root, path, shown, kind })
    }

    /// Resolves a path that must be a directory.
    pub(crate) fn directory(
        workspace: &'a Workspace,
        path: &Path,
        grant: &FileGrant,
    ) -> Result<Self, ToolError> {
        let start = Self::find(workspace, path, grant)?;
        if start.kind != FileKind::Directory {
            return Err(not_a_directory(&start.shown, start.kind));
        }
        // Directories below may be skipped, but the start must be readable.
        let opened = start.root.open_at(or_dot(&start.path), OFlags::RDONLY | OFlags::DIRECTORY);
        match opened {
            Ok(_) => Ok(start),
            Err(error) => Err(workspace.failure(&start.shown, error, grant)),
        }
    }

    /// Returns the prefix of this root's paths in results.
    pub(crate) fn prefix(&self) -> Vec<u8> {
        self.root.name.as_ref().map_or(Vec::new(), |name| format!("@{name}/").into_bytes())
    }
}

/// A unit of work.
enum Task {
    /// A directory that the grant permits.
    Directory {
        path: Vec<u8>,
        rules: Option<Arc<IgnoreRules>>,
    },
    Files(Arc<OpenFolder>, NameList),
}

impl Task {
    fn path(&self) -> &[u8] {
        match self {
            Self::Directory { path, .. } => path,
            Self::Files(folder, _) => &folder.path,
        }
    }
}

/// An open directory.
struct OpenFolder {
    handle: OwnedFd,
    /// Relative to the root.
    path: Vec<u8>,
    rules: Option<Arc<IgnoreRules>>,
}

/// Names in one buffer, each ended by a zero byte.
#[derive(Default)]
struct NameList(Vec<u8>);

impl NameList {
    fn push(&mut self, name: &CStr) {
        self.0.extend_from_slice(name.to_bytes_with_nul());
    }

    fn iter(&self) -> impl Iterator<Item = &CStr> {
        let mut rest = self.0.as_slice();
        std::iter::from_fn(move || {
            let name = CStr::from_bytes_until_nul(rest).ok()?;
            rest = &rest[name.to_bytes_with_nul().len()..];
            Some(name)
        })
    }
}

struct WalkWorker<V> {
    visitor: V,
    listing: Vec<u8>,
    /// Path of the current entry, as shown.
    shown: Vec<u8>,
    files: NameList,
    directories: NameList,
    unreadable: usize,
}

impl<V> WalkWorker<V> {
    fn new(visitor: V) -> Self {
        Self {
            visitor,
            listing: Vec::with_capacity(LISTING_BYTES),
            shown: Vec::new(),
            files: NameList::default(),
            directories: NameList::default(),
            unreadable: 0,
        }
    }
}

impl DirectoryWalk<'_> {
    /// Walks with as many threads as there are cores; `make` creates each worker's visitor.
    pub(crate) fn run<V: FileVisitor>(&self, make: impl Fn() -> V + Sync) -> WalkResult<V> {
        let start = self.start;
        let rules = if self.ignored { None } else { IgnoreRules::above(start.root, &start.path) };
        let path = start.path.as_os_str().as_bytes().to_vec();
        let prefix = start.prefix();
        let run = RunningWalk {
            walk: self,
            below: if path.is_empty() { prefix.len() } else { prefix.len() + path.len() + 1 },
            prefix,
            is_stopped: AtomicBool::new(false),
        };
        let workers = workers::share(
            Task::Directory { path, rules },
            || WalkWorker::new(make()),
            |worker, task, new| run.step(worker, task, new),
        );
        let unreadable = workers.iter().map(|worker| worker.unreadable).sum();
        let visitors = workers.into_iter().map(|worker| worker.visitor).collect();
        WalkResult { visitors, is_complete: !run.is_stopped.into_inner(), unreadable }
    }
}

/// A walk in progress.
struct RunningWalk<'a> {
    walk: &'a DirectoryWalk<'a>,
    prefix: Vec<u8>,
    /// Offset in a shown path where the part begins that the globs match.
    below: usize,
    is_stopped: AtomicBool,
}

impl RunningWalk<'_> {
    fn step<V: FileVisitor>(
        &self,
        worker: &mut WalkWorker<V>,
        task: Task,
        new: &mut Vec<Task>,
    ) -> ControlFlow<()> {
        self.check_stop()?;
        match task {
            Task::Directory { path, rules } => self.enter(worker, path, rules, new),
            Task::Files(folder, names) => self.visit_all(worker, &folder, &names),
        }
    }

    fn check_stop(&self) -> ControlFlow<()> {
        if !(self.walk.stop)() {
            return ControlFlow::Continue(());
        }
        self.is_stopped.store(true, Ordering::Relaxed);
        ControlFlow::Break(())
    }

    fn enter<V: FileVisitor>(
        &self,
        worker: &mut WalkWorker<V>,
        path: Vec<u8>,
        rules: Option<Arc<IgnoreRules>>,
        new: &mut Vec<Task>,
    ) -> ControlFlow<()> {
        worker.shown.clear();
        worker.shown.extend_from_slice(&self.prefix);
        worker.shown.extend_from_slice(&path);
        if !worker.visitor.needs(Path::new(OsStr::from_bytes(&worker.shown))) {
            return ControlFlow::Continue(());
        }
        // Open it by its whole path: an open parent for each waiting directory would take too many
        // handles, and this is one call.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let name = Path::new(OsStr::from_bytes(&path));
        let handle = match self.walk.start.root.open_at(or_dot(name), flags) {
            Ok(handle) => handle,
            Err(error) => {
                if should_report(error) {
                    worker.unreadable += 1;
                }
                return ControlFlow::Continue(());
            }
        };
        let mut folder = OpenFolder { handle, path, rules };
        let seen = self.list(worker, &folder.handle);
        if !self.walk.ignored && seen.any() {
            let length = folder.path.len();
            folder.rules = IgnoreRules::with(folder.rules.take(), &folder.handle, seen, length);
        }
        self.queue_directories(worker, &folder, new);
        let files = mem::take(&mut worker.files);
        let (folder, files) = self.split(folder, files, new);
        let flow = self.visit_all(worker, &folder, &files);
        worker.files = files;
        flow
    }

    /// Reads a directory: the names of files that may match, of directories, and of its ignore
    /// files.
    fn list<V: FileVisitor>(&self, worker: &mut WalkWorker<V>, handle: &OwnedFd) -> IgnoreFiles {
        let WalkWorker { listing, files, directories, unreadable, .. } = worker;
        files.0.clear();
        directories.0.clear();
        let mut seen = IgnoreFiles::default();
        let mut entries = RawDir::new(handle, listing.spare_capacity_mut());
        let mut listed = 0_usize;
        while let Some(entry) = entries.next() {
            listed += 1;
            if listed.is_multiple_of(ENTRIES_PER_STOP_CHECK) && self.check_stop().is_break() {
                break;
            }
            let entry = match entry {
                Ok(entry) => entry,
                Err(Errno::INTR) => continue,
                Err(error) => {
                    *unreadable += usize::from(should_report(error));
                    break;
                }
            };
            let name = entry.file_name();
            match kind_of(handle, name, entry.file_type()) {
                FileType::Directory if !matches!(name.to_bytes(), b"." | b".." | b".git") => {
                    directories.push(name);
                }
                kind @ (FileType::RegularFile | FileType::Symlink) => {
                    let is_file = kind == FileType::RegularFile;
                    seen.note(name.to_bytes(), is_file);
                    let fits = |globs: &Globs| globs.may_match_name(name.to_bytes());
                    if (is_file || V::VISITS_LINKS) && self.walk.globs.is_none_or(fits) {
                        files.push(name);
                    }
                }
                _ => {}
            }
        }
        seen
    }

    fn queue_directories<V: FileVisitor>(
        &self,
        worker: &mut WalkWorker<V>,
        folder: &OpenFolder,
        new: &mut Vec<Task>,
    ) {
        let base = self.go_to(&mut worker.shown, folder);
        let first = new.len();
        for name in worker.directories.iter() {
            worker.shown.truncate(base);
            worker.shown.extend_from_slice(name.to_bytes());
            let path = worker.shown.get(self.prefix.len()..).unwrap_or_default();
            let below = worker.shown.get(self.below..).unwrap_or_default();
            let is_wanted = self.walk.globs.is_none_or(|globs| globs.may_match_below(below))
                && !folder.rules.as_ref().is_some_and(|rules| rules.ignore(path, true));
            let shown = Path::new(OsStr::from_bytes(&worker.shown));
            if is_wanted && self.walk.grant.permits(shown) {
                new.push(Task::Directory { path: path.to_vec(), rules: folder.rules.clone() });
            }
        }
        if V::IN_ORDER {
            // The newest task is taken first.
            new[first..].sort_unstable_by(|a, b| b.path().cmp(a.path()));
        }
    }

    /// Puts all files but the first batch into the queue for other workers. They are queued last
    /// and taken first, so the handle is not kept open for long.
    fn split(
        &self,
        folder: OpenFolder,
        files: NameList,
        new: &mut Vec<Task>,
    ) -> (Arc<OpenFolder>, NameList) {
        let folder = Arc::new(folder);
        let mut first = NameList::default();
        let mut batch = NameList::default();
        for (at, name) in files.iter().enumerate() {
            if at > 0 && at % self.walk.batch == 0 {
                let full = mem::take(&mut batch);
                if first.0.is_empty() {
                    first = full;
                } else {
                    new.push(Task::Files(Arc::clone(&folder), full));
                }
            }
            batch.push(name);
        }
        if first.0.is_empty() {
            return (folder, files);
        }
        new.push(Task::Files(Arc::clone(&folder), batch));
        (folder, first)
    }

    fn visit_all<V: FileVisitor>(
        &self,
        worker: &mut WalkWorker<V>,
        folder: &OpenFolder,
        names: &NameList,
    ) -> ControlFlow<()> {
        let base = self.go_to(&mut worker.shown, folder);
        for (at, name) in names.iter().enumerate() {
            if at % FILES_PER_STOP_CHECK == FILES_PER_STOP_CHECK - 1 {
                self.check_stop()?;
            }
            worker.shown.truncate(base);
            worker.shown.extend_from_slice(name.to_bytes());
            let path = worker.shown.get(self.prefix.len()..).unwrap_or_default();
            let below = worker.shown.get(self.below..).unwrap_or_default();
            let shown = Path::new(OsStr::from_bytes(&worker.shown));
            // Check the grant last; it is the expensive check.
            let is_wanted = self.walk.globs.is_none_or(|globs| globs.matches(below))
                && !folder.rules.as_ref().is_some_and(|rules| rules.ignore(path, false));
            if is_wanted && self.walk.grant.permits(shown) {
                let file = VisitedFile { directory: &folder.handle, name, path: shown };
                worker.visitor.visit(&file)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Writes a directory's path into the buffer. Returns the offset for names.
    fn go_to(&self, shown: &mut Vec<u8>, folder: &OpenFolder) -> usize {
        shown.clear();
        shown.extend_from_slice(&self.prefix);
        shown.extend_from_slice(&folder.path);
        if !folder.path.is_empty() {
            shown.push(b'/');
        }
        shown.len()
    }
}

/// Returns the path, or a dot for the empty one, which the kernel does not accept.
pub(crate) fn or_dot(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// Returns false for entries that were removed or replaced during the walk, and for mounts, which
/// are skipped on purpose.
pub(crate) fn should_report(error: Errno) -> bool {
    !matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV)
}

/// Some file systems do not report the kind of an entry in the listing.
pub(crate) fn kind_of(directory: &OwnedFd, name: &CStr, listed: FileType) -> FileType {
    match listed {
        FileType::Unknown => fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
        known => known,
    }
}

#[cfg(test)]
mod tests {
    use std::{fs as disk, sync::Arc, thread};

    use haft_core::files::{FindFiles, ReadFiles, SearchFiles};
    use rustix::fs::{CWD, RenameFlags};
    use tempfile::TempDir;

    use super::*;

    fn search(pattern: &str) -> SearchFiles {
        SearchFiles {
            path: ".".into(),
            pattern: pattern.into(),
            is_literal: true,
            ignores_case: false,
            is_multiline: false,
            context: 0,
            include: None,
            skip: 0,
            limit: 10,
            ignored: false,
            line_chars: 100,
        }
    }

    #[test]
    fn a_directory_that_becomes_a_link_during_the_walk_does_not_lead_out() {
        let (folder, outside) = (TempDir::new().expect("one"), TempDir::new().expect("other"));
        let (inner, link) = (folder.path().join("a"), folder.path().join("b"));
        disk::create_dir(&inner).expect("made");
        disk::write(inner.join("file"), "inside").expect("written");
        disk::create_dir(outside.path().join("sub")).expect("made");
        disk::write(outside.path().join("sub/secret"), "outside").expect("written");
        std::os::unix::fs::symlink(outside.path(), &link).expect("made");
        let files = ReadFiles::unchecked(Arc::new(Workspace::open(folder.path()).expect("opens")));
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let _ = fs::renameat_with(CWD, &inner, CWD, &link, RenameFlags::EXCHANGE);
                }
            });
            let all = FindFiles {
                path: ".".into(),
                pattern: "**".into(),
                skip: 0,
                limit: 10,
                ignored: false,
            };
            // Nothing here may panic before the other thread is stopped.
            let mut leaks = 0;
            for _ in 0..500 {
                let is_secret = |path: &Path| path.ends_with("secret");
                leaks += files.find(&all, &|| false).map_or(1, |found| {
                    found.files.iter().filter(|file| is_secret(&file.path)).count()
                });
                let found = files.search(&search("outside"), &|| false);
                leaks += found.map_or(1, |found| found.matches);
            }
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(leaks, 0);
        });
    }

    #[test]
    fn a_deep_tree_is_walked_whole() {
        let folder = TempDir::new().expect("a folder");
        let mut deep = folder.path().to_owned();
        for level in 0..120 {
            deep.push(format!("d{level}"));
            disk::create_dir(&deep).expect("made");
            disk::create_dir(deep.join("side")).expect("made");
            disk::write(deep.join("side/f"), "x").expect("written");
        }
        let files = ReadFiles::unchecked(Arc::new(Workspace::open(folder.path()).expect("opens")));
        let all =
            FindFiles { path: ".".into(), pattern: "f".into(), skip: 0, limit: 10, ignored: false };
        assert_eq!(files.find(&all, &|| false).expect("a walk").total, 120);
    }

    #[test]
    fn names_that_are_no_text_are_walked() {
        let folder = TempDir::new().expect("a folder");
        let name = OsStr::from_bytes(b"\xff\n*");
        disk::create_dir(folder.path().join(name)).expect("made");
        disk::write(folder.path().join(name).join("f.x"), "needle").expect("written");
        let files = ReadFiles::unchecked(Arc::new(Workspace::open(folder.path()).expect("opens")));
        let found = files.search(&search("needle"), &|| false).expect("a search");
        assert_eq!(found.files[0].path, Path::new(name).join("f.x"));
    }
}
