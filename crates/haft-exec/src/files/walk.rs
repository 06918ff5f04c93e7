//! Walks a directory by handles: every directory is opened below its root by the kernel's own confined lookup, and every
//! file below the handle of its directory, so that nothing that is swapped for a link meanwhile can lead out. Links are
//! never followed and mounts not entered. What is done with the files is the visitor's.

mod crew;
mod globs;
mod rules;

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
    crew::share,
    globs::Globs,
    rules::{Rules, Seen},
};
use crate::files::{
    entries::not_a_directory, facts, locate::LastLink, root::Root, workspace::Workspace,
};

/// How a file is opened: a pipe that was put in its place must not make anybody wait.
pub(crate) const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);
/// What `getdents64` fills at once; most directories need one call.
const LISTING_BYTES: usize = 64 << 10;
/// Files between two questions whether to stop.
const UNTIL_ASKED: usize = 64;
/// The same for entries while a directory is listed.
const UNTIL_ASKED_LISTING: usize = 4096;

/// Where a walk begins.
pub(crate) struct Start<'a> {
    pub(crate) root: &'a Root,
    /// Relative to the root, of plain names; empty for the root itself.
    pub(crate) path: PathBuf,
    pub(crate) shown: PathBuf,
    pub(crate) kind: FileKind,
}

/// A walk of a directory and all below it.
pub(crate) struct Walk<'a> {
    pub(crate) start: &'a Start<'a>,
    pub(crate) grant: &'a FileGrant,
    pub(crate) stop: ShouldStop<'a>,
    /// Only files that fit, by their path below the start.
    pub(crate) globs: Option<&'a Globs>,
    /// What ignore files name, too.
    pub(crate) ignored: bool,
    /// Of a directory with more files, others take some.
    pub(crate) batch: usize,
}

/// A file on the way. It is listed as a regular file or a link, fits the globs, and the warrant agrees.
pub(crate) struct Met<'a> {
    pub(crate) directory: &'a OwnedFd,
    pub(crate) name: &'a CStr,
    /// As it is called in answers.
    pub(crate) path: &'a Path,
}

impl Met<'_> {
    /// Opens it for reading; not when something is mounted on it.
    pub(crate) fn open(&self) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        match fs::openat2(self.directory, self.name, READ, Mode::empty(), resolve) {
            // As in `Root`: there is no such call, or a filter does not know it.
            Err(Errno::NOSYS | Errno::PERM) => {
                fs::openat(self.directory, self.name, READ, Mode::empty())
            }
            other => other,
        }
    }
}

/// What is done with files. Each worker has its own.
pub(crate) trait Visitor: Send {
    /// Whether links are met too, as themselves.
    const MEETS_LINKS: bool;

    /// Looks at a file; breaking off ends the whole walk.
    fn meet(&mut self, file: &Met<'_>) -> ControlFlow<()>;
}

/// How a walk went.
pub(crate) struct Walked<V> {
    pub(crate) visitors: Vec<V>,
    /// False when it was told to stop.
    pub(crate) is_complete: bool,
    /// How many directories could not be read.
    pub(crate) unreadable: usize,
}

impl<'a> Start<'a> {
    /// Finds where a path leads, if the warrant agrees.
    pub(crate) fn find(
        workspace: &'a Workspace,
        path: &Path,
        grant: &FileGrant,
    ) -> Result<Self, ToolError> {
        let mut found = None;
        let (kind, path, shown) = workspace.at(path, LastLink::Follow, grant, |spot| {
            let handle = spot.root.open_at(&spot.path, OFlags::PATH)?;
            found = workspace.roots.iter().position(|root| std::ptr::eq(root, spot.root));
            let kind = FileType::from_raw_mode(fs::fstat(&handle)?.st_mode);
            Ok((facts::kind(kind), spot.path.clone(), spot.shown.clone()))
        })?;
        let root = &workspace.roots[found.expect("a spot is below one of the roots")];
        let path = if path == Path::new(".") { PathBuf::new() } else { path };
        Ok(Self { root, path, shown, kind })
    }

    /// The same, where only a directory will do.
    pub(crate) fn directory(
        workspace: &'a Workspace,
        path: &Path,
        grant: &FileGrant,
    ) -> Result<Self, ToolError> {
        let start = Self::find(workspace, path, grant)?;
        if start.kind != FileKind::Directory {
            return Err(not_a_directory(&start.shown, start.kind));
        }
        // What is below may be passed over, but a directory that was named must be readable.
        let opened = start.root.open_at(or_dot(&start.path), OFlags::RDONLY | OFlags::DIRECTORY);
        match opened {
            Ok(_) => Ok(start),
            Err(error) => Err(workspace.failure(&start.shown, error, grant)),
        }
    }

    /// What stands before a path of this root in answers.
    pub(crate) fn prefix(&self) -> Vec<u8> {
        self.root.name.as_ref().map_or(Vec::new(), |name| format!("@{name}/").into_bytes())
    }
}

/// A part of the work.
enum Task {
    /// A directory that the warrant agreed to.
    Directory {
        path: Vec<u8>,
        rules: Option<Arc<Rules>>,
    },
    Files(Arc<Folder>, Names),
}

/// An open directory.
struct Folder {
    handle: OwnedFd,
    /// Relative to the root.
    path: Vec<u8>,
    rules: Option<Arc<Rules>>,
}

/// Some names, each with a zero byte at its end, in one piece of memory.
#[derive(Default)]
struct Names(Vec<u8>);

impl Names {
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

struct Worker<V> {
    visitor: V,
    listing: Vec<u8>,
    /// The path of the entry at hand, as it is shown.
    shown: Vec<u8>,
    files: Names,
    directories: Names,
    unreadable: usize,
}

impl<V> Worker<V> {
    fn new(visitor: V) -> Self {
        Self {
            visitor,
            listing: Vec::with_capacity(LISTING_BYTES),
            shown: Vec::new(),
            files: Names::default(),
            directories: Names::default(),
            unreadable: 0,
        }
    }
}

impl Walk<'_> {
    /// Walks with as many threads as there are cores; `make` makes each one's visitor.
    pub(crate) fn run<V: Visitor>(&self, make: impl Fn() -> V + Sync) -> Walked<V> {
        let start = self.start;
        let rules = if self.ignored { None } else { Rules::above(start.root, &start.path) };
        let path = start.path.as_os_str().as_bytes().to_vec();
        let prefix = start.prefix();
        let run = Run {
            walk: self,
            below: if path.is_empty() { prefix.len() } else { prefix.len() + path.len() + 1 },
            prefix,
            is_stopped: AtomicBool::new(false),
        };
        let workers = crew::share(
            Task::Directory { path, rules },
            || Worker::new(make()),
            |worker, task, new| run.step(worker, task, new),
        );
        let unreadable = workers.iter().map(|worker| worker.unreadable).sum();
        let visitors = workers.into_iter().map(|worker| worker.visitor).collect();
        Walked { visitors, is_complete: !run.is_stopped.into_inner(), unreadable }
    }
}

/// A walk on its way.
struct Run<'a> {
    walk: &'a Walk<'a>,
    prefix: Vec<u8>,
    /// Where in a shown path that part begins which the globs are about.
    below: usize,
    is_stopped: AtomicBool,
}

impl Run<'_> {
    fn step<V: Visitor>(
        &self,
        worker: &mut Worker<V>,
        task: Task,
        new: &mut Vec<Task>,
    ) -> ControlFlow<()> {
        self.ask()?;
        match task {
            Task::Directory { path, rules } => self.enter(worker, path, rules, new),
            Task::Files(folder, names) => self.meet_all(worker, &folder, &names),
        }
    }

    fn ask(&self) -> ControlFlow<()> {
        if !(self.walk.stop)() {
            return ControlFlow::Continue(());
        }
        self.is_stopped.store(true, Ordering::Relaxed);
        ControlFlow::Break(())
    }

    fn enter<V: Visitor>(
        &self,
        worker: &mut Worker<V>,
        path: Vec<u8>,
        rules: Option<Arc<Rules>>,
        new: &mut Vec<Task>,
    ) -> ControlFlow<()> {
        // By its whole path: an open parent for each waiting directory would be too many handles, and this is one call.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let name = Path::new(OsStr::from_bytes(&path));
        let handle = match self.walk.start.root.open_at(or_dot(name), flags) {
            Ok(handle) => handle,
            Err(error) => {
                if is_worth_telling(error) {
                    worker.unreadable += 1;
                }
                return ControlFlow::Continue(());
            }
        };
        let mut folder = Folder { handle, path, rules };
        let seen = self.list(worker, &folder.handle);
        if !self.walk.ignored && seen.any() {
            let length = folder.path.len();
            folder.rules = Rules::with(folder.rules.take(), &folder.handle, seen, length);
        }
        self.queue_directories(worker, &folder, new);
        let files = mem::take(&mut worker.files);
        let (folder, files) = self.split(folder, files, new);
        let flow = self.meet_all(worker, &folder, &files);
        worker.files = files;
        flow
    }

    /// Reads the directory: names of files that could fit, of directories, and which ignore files there are.
    fn list<V: Visitor>(&self, worker: &mut Worker<V>, handle: &OwnedFd) -> Seen {
        let Worker { listing, files, directories, unreadable, .. } = worker;
        files.0.clear();
        directories.0.clear();
        let mut seen = Seen::default();
        let mut entries = RawDir::new(handle, listing.spare_capacity_mut());
        let mut listed = 0_usize;
        while let Some(entry) = entries.next() {
            listed += 1;
            if listed.is_multiple_of(UNTIL_ASKED_LISTING) && self.ask().is_break() {
                break;
            }
            let entry = match entry {
                Ok(entry) => entry,
                Err(Errno::INTR) => continue,
                Err(error) => {
                    *unreadable += usize::from(is_worth_telling(error));
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
                    let fits = |globs: &Globs| globs.fit_name(name.to_bytes());
                    if (is_file || V::MEETS_LINKS) && self.walk.globs.is_none_or(fits) {
                        files.push(name);
                    }
                }
                _ => {}
            }
        }
        seen
    }

    fn queue_directories<V: Visitor>(
        &self,
        worker: &mut Worker<V>,
        folder: &Folder,
        new: &mut Vec<Task>,
    ) {
        let base = self.go_to(&mut worker.shown, folder);
        for name in worker.directories.iter() {
            worker.shown.truncate(base);
            worker.shown.extend_from_slice(name.to_bytes());
            let path = worker.shown.get(self.prefix.len()..).unwrap_or_default();
            let below = worker.shown.get(self.below..).unwrap_or_default();
            let is_wanted = self.walk.globs.is_none_or(|globs| globs.reach_into(below))
                && !folder.rules.as_ref().is_some_and(|rules| rules.ignore(path, true));
            let shown = Path::new(OsStr::from_bytes(&worker.shown));
            if is_wanted && self.walk.grant.permits(shown) {
                new.push(Task::Directory { path: path.to_vec(), rules: folder.rules.clone() });
            }
        }
    }

    /// Of many files all but the first batch go to whoever has time. They are queued last, so taken first: the handle is
    /// not kept open for long.
    fn split(&self, folder: Folder, files: Names, new: &mut Vec<Task>) -> (Arc<Folder>, Names) {
        let folder = Arc::new(folder);
        let mut first = Names::default();
        let mut batch = Names::default();
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

    fn meet_all<V: Visitor>(
        &self,
        worker: &mut Worker<V>,
        folder: &Folder,
        names: &Names,
    ) -> ControlFlow<()> {
        let base = self.go_to(&mut worker.shown, folder);
        for (at, name) in names.iter().enumerate() {
            if at % UNTIL_ASKED == UNTIL_ASKED - 1 {
                self.ask()?;
            }
            worker.shown.truncate(base);
            worker.shown.extend_from_slice(name.to_bytes());
            let path = worker.shown.get(self.prefix.len()..).unwrap_or_default();
            let below = worker.shown.get(self.below..).unwrap_or_default();
            let shown = Path::new(OsStr::from_bytes(&worker.shown));
            // The warrant last: it is dear.
            let is_wanted = self.walk.globs.is_none_or(|globs| globs.fit(below))
                && !folder.rules.as_ref().is_some_and(|rules| rules.ignore(path, false));
            if is_wanted && self.walk.grant.permits(shown) {
                let met = Met { directory: &folder.handle, name, path: shown };
                worker.visitor.meet(&met)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Puts a directory's path into the buffer; returns where names go.
    fn go_to(&self, shown: &mut Vec<u8>, folder: &Folder) -> usize {
        shown.clear();
        shown.extend_from_slice(&self.prefix);
        shown.extend_from_slice(&folder.path);
        if !folder.path.is_empty() {
            shown.push(b'/');
        }
        shown.len()
    }
}

/// The path itself, or a dot for the empty one, which the kernel does not take.
pub(crate) fn or_dot(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// What is gone or no longer what it was is nobody's concern, and mounts are passed over on purpose.
pub(crate) fn is_worth_telling(error: Errno) -> bool {
    !matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV)
}

/// Some file systems do not say in the listing what an entry is.
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
            // Nothing here may panic before the other thread is told to end.
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
