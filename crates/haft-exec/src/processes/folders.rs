//! Scans the folders of the workspace for a sandboxed command: which entries are closed to
//! commands, and which folders git would treat as a repository. The scan runs before every command,
//! because the previous one may have renamed a folder or changed its mode. Unchanged folders are
//! not read again.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    ops::ControlFlow,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};

use haft_core::files::{FileGrant, ShouldStop};
use rustix::{
    fs::{self, AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat},
    io::Errno,
    time::ClockId,
};

use crate::{
    Workspace,
    files::{
        root::Root,
        walk::{kind_of, or_dot, share, should_report},
    },
};

/// Maximum number of remembered grants: agents with other rules have other closed files, and more
/// than these are rarely active together.
const MAX_REMEMBERED: usize = 4;

/// Number of folders that a worker scans before it shares the rest.
const FOLDERS_PER_STEP: usize = 32;

/// The same for folders of which only stamps are compared.
const STAMPS_PER_STEP: usize = 512;

/// Identifies a version of a file or folder: it changes with every change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatStamp {
    pub(crate) kind: FileType,
    device: u64,
    inode: u64,
    size: i64,
    modified: (i64, u64),
    /// Only the kernel sets it.
    changed: (i64, u64),
}

impl StatStamp {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            kind: FileType::from_raw_mode(stat.st_mode),
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

/// The relevant contents of one folder.
#[derive(Debug, Default)]
pub(crate) struct FolderState {
    /// None when the folder changed so shortly before the scan that another change might go
    /// unnoticed.
    stamp: Option<StatStamp>,
    folders: Vec<OsString>,
    /// Names that are closed to commands, and whether each is a folder.
    pub(crate) closed: Vec<(OsString, bool)>,
    /// Names of sockets.
    pub(crate) sockets: Vec<OsString>,
    /// True when it contains a `.git`.
    pub(crate) has_git: bool,
    /// True when it is, or looks like, a git directory.
    pub(crate) is_git: bool,
}

/// The folders below one root by path. The keys are plain strings: comparing paths by component
/// takes longer than the rest.
pub(crate) type RootFolders = HashMap<OsString, Arc<FolderState>>;

/// The scan of this root took too long.
#[derive(Debug)]
pub(crate) struct ScanTimeout(pub(crate) PathBuf);

/// A scan of all roots of a workspace.
#[derive(Clone)]
pub(crate) struct FolderScan {
    grant: FileGrant,
    pub(crate) roots: Vec<Arc<RootFolders>>,
    /// Folders that cannot be read.
    pub(crate) unreadable: Vec<PathBuf>,
}

/// Scans folders, and remembers the results for the next scan.
#[derive(Default)]
pub(crate) struct FolderCache {
    remembered: Mutex<Vec<FolderScan>>,
}

impl FolderCache {
    /// Scans every folder that is not closed itself, including those below mounts, because commands
    /// see them.
    ///
    /// # Errors
    /// When it was stopped.
    pub(crate) fn scan(
        &self,
        workspace: &Workspace,
        grant: &FileGrant,
        stop: ShouldStop<'_>,
    ) -> Result<FolderScan, ScanTimeout> {
        self.scan_roots(workspace.roots.iter().collect::<Vec<_>>().as_slice(), grant, stop)
    }

    /// Scans other roots than those of a workspace.
    ///
    /// # Errors
    /// When it was stopped.
    pub(crate) fn scan_roots(
        &self,
        scanned: &[&Root],
        grant: &FileGrant,
        stop: ShouldStop<'_>,
    ) -> Result<FolderScan, ScanTimeout> {
        let last =
            self.remembered().iter().find(|scan| scan.grant.is_equivalent_to(grant)).cloned();
        let mut roots = Vec::new();
        let mut unreadable = Vec::new();
        for (at, root) in scanned.iter().enumerate() {
            let known = last.as_ref().and_then(|scan| scan.roots.get(at));
            let search = RootScan { root, grant, stop, known };
            let was_complete = last.as_ref().is_some_and(|scan| scan.unreadable.is_empty());
            if let Some(known) = known.filter(|known| was_complete && search.is_unchanged(known)) {
                roots.push(known.clone());
                continue;
            }
            let (folders, unread) = search.run().ok_or_else(|| ScanTimeout(root.path.clone()))?;
            unreadable.extend(unread.into_iter().map(|folder| root.path.join(folder)));
            roots.push(folders);
        }
        let scan = FolderScan { grant: grant.clone(), roots, unreadable };
        self.remember(&scan);
        Ok(scan)
    }

    fn remember(&self, scan: &FolderScan) {
        let mut remembered = self.remembered();
        remembered.retain(|known| !known.grant.is_equivalent_to(&scan.grant));
        remembered.insert(0, scan.clone());
        remembered.truncate(MAX_REMEMBERED);
    }

    fn remembered(&self) -> MutexGuard<'_, Vec<FolderScan>> {
        self.remembered.lock()
    }
}

/// A scan of one root.
struct RootScan<'a> {
    root: &'a Root,
    grant: &'a FileGrant,
    stop: ShouldStop<'a>,
    known: Option<&'a Arc<RootFolders>>,
}

#[derive(Default)]
struct FolderWorker {
    seen: Vec<(OsString, Arc<FolderState>)>,
    /// Number of folders that were read.
    read: usize,
    unreadable: Vec<PathBuf>,
    is_stopped: bool,
}

impl RootScan<'_> {
    /// Returns true when no folder has changed: a new folder would have changed its parent.
    fn is_unchanged(&self, known: &RootFolders) -> bool {
        let all: Vec<(&OsString, &Arc<FolderState>)> = known.iter().collect();
        let workers = share(
            all,
            || true,
            |is_same, folders, new| {
                if folders.len() > STAMPS_PER_STEP {
                    new.extend(folders.chunks(STAMPS_PER_STEP).map(<[_]>::to_vec));
                    return ControlFlow::Continue(());
                }
                let is_stamped = |(path, folder): &(&OsString, &Arc<FolderState>)| {
                    folder.stamp.is_some() && folder.stamp == self.stamp(path)
                };
                *is_same = !(self.stop)() && folders.iter().all(is_stamped);
                if *is_same { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            },
        );
        workers.into_iter().all(|is_same| is_same)
    }

    /// Returns all folders, and those that cannot be read; None when it was stopped.
    fn run(&self) -> Option<(Arc<RootFolders>, Vec<PathBuf>)> {
        let workers = share(vec![OsString::new()], FolderWorker::default, |worker, paths, new| {
            self.step(worker, paths, new)
        });
        if workers.iter().any(|worker| worker.is_stopped) {
            return None;
        }
        let count: usize = workers.iter().map(|worker| worker.seen.len()).sum();
        let is_same = workers.iter().all(|worker| worker.read == 0);
        let mut folders = RootFolders::new();
        let mut unreadable = Vec::new();
        for worker in workers {
            folders.extend(worker.seen.into_iter().filter(|_| !is_same));
            unreadable.extend(worker.unreadable);
        }
        match self.known.filter(|known| is_same && known.len() == count) {
            Some(known) => Some((known.clone(), unreadable)),
            None => Some((Arc::new(folders), unreadable)),
        }
    }

    /// Scans some folders and some of those below, and leaves the rest to other workers.
    fn step(
        &self,
        worker: &mut FolderWorker,
        mut paths: Vec<OsString>,
        new: &mut Vec<Vec<OsString>>,
    ) -> ControlFlow<()> {
        for _ in 0..FOLDERS_PER_STEP {
            let Some(path) = paths.pop() else { break };
            if (self.stop)() {
                worker.is_stopped = true;
                return ControlFlow::Break(());
            }
            let known = self.unchanged(&path);
            worker.read += usize::from(known.is_none());
            match known.map_or_else(|| self.read(Path::new(&path)).map(Arc::new), Ok) {
                Ok(folder) => {
                    paths.extend(folder.folders.iter().map(|name| joined(&path, name)));
                    worker.seen.push((path, folder));
                }
                Err(error) if should_report(error) => worker.unreadable.push(path.into()),
                Err(_) => {}
            }
        }
        new.extend(paths.chunks(FOLDERS_PER_STEP).map(<[OsString]>::to_vec));
        ControlFlow::Continue(())
    }

    /// Returns the known contents of a folder if it has not changed. Another folder in its place
    /// has another stamp, also behind a link.
    fn unchanged(&self, path: &OsStr) -> Option<Arc<FolderState>> {
        let known = self.known?.get(path)?;
        (known.stamp? == self.stamp(path)?).then(|| known.clone())
    }

    fn stamp(&self, path: &OsStr) -> Option<StatStamp> {
        let path = or_dot(Path::new(path));
        let stat = fs::statat(&self.root.handle, path, AtFlags::SYMLINK_NOFOLLOW);
        Some(StatStamp::of(&stat.ok()?))
    }

    fn read(&self, path: &Path) -> Result<FolderState, Errno> {
        // The kernel takes change times from this clock.
        let now = rustix::time::clock_gettime(ClockId::RealtimeCoarse);
        let handle = self.open(path)?;
        let stamp = StatStamp::of(&fs::fstat(&handle)?);
        let is_older = stamp.changed < (now.tv_sec, now.tv_nsec.unsigned_abs());
        let mut folder = FolderState { stamp: is_older.then_some(stamp), ..FolderState::default() };
        let mut signs = GitSigns::default();
        for entry in Dir::read_from(&handle)? {
            let entry = entry?;
            let bytes = entry.file_name().to_bytes();
            if matches!(bytes, b"." | b"..") {
                continue;
            }
            signs.note(bytes);
            let name = OsStr::from_bytes(bytes);
            let kind = kind_of(&handle, entry.file_name(), entry.file_type());
            let is_folder = kind == FileType::Directory;
            if !self.grant.permits(&self.root.shown(&path.join(name))) {
                folder.closed.push((name.to_owned(), is_folder));
            } else if is_folder {
                folder.folders.push(name.to_owned());
            } else if kind == FileType::Socket {
                folder.sockets.push(name.to_owned());
            }
        }
        folder.has_git = signs.has_git;
        folder.is_git = signs.make_a_repository() || path.file_name() == Some(OsStr::new(".git"));
        Ok(folder)
    }

    /// Unlike the files that tools open, these may be below mounts.
    fn open(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match fs::openat2(&self.root.handle, or_dot(path), flags, Mode::empty(), resolve) {
            Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN | Errno::INTR) => {
                self.root.open_at(or_dot(path), flags)
            }
            other => other,
        }
    }
}

fn joined(path: &OsStr, name: &OsStr) -> OsString {
    let mut joined = OsString::with_capacity(path.len() + 1 + name.len());
    joined.push(path);
    if !path.is_empty() {
        joined.push("/");
    }
    joined.push(name);
    joined
}

/// The names by which git recognises its directories.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "one for each name")]
struct GitSigns {
    has_git: bool,
    has_objects: bool,
    has_refs: bool,
    has_common: bool,
    has_head: bool,
    has_config: bool,
}

impl GitSigns {
    fn note(&mut self, name: &[u8]) {
        match name {
            b".git" => self.has_git = true,
            b"objects" => self.has_objects = true,
            b"refs" => self.has_refs = true,
            b"commondir" => self.has_common = true,
            b"HEAD" => self.has_head = true,
            b"config" => self.has_config = true,
            _ => {}
        }
    }

    /// Returns true when it may contain settings that git would obey: its own, or those of a
    /// directory that it points to.
    fn make_a_repository(&self) -> bool {
        self.has_common || (self.has_objects && self.has_refs) || (self.has_head && self.has_config)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn scan(folders: &FolderCache, workspace: &Workspace) -> Vec<PathBuf> {
        let scan = folders.scan(workspace, &FileGrant::none(), &|| false).expect("complete");
        let mut paths: Vec<PathBuf> = scan.roots[0].keys().map(PathBuf::from).collect();
        paths.sort();
        paths
    }

    #[test]
    fn every_change_is_seen_by_the_next_look() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("a/b")).expect("made");
        let workspace = Workspace::open(folder.path()).expect("a directory");
        let folders = FolderCache::default();
        let names = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(scan(&folders, &workspace), names(&["", "a", "a/b"]));
        // Repeat it, so that some changes fall into the same clock tick as the scan before.
        for _ in 0..200 {
            fs::create_dir(path("a/b/c")).expect("made");
            assert_eq!(scan(&folders, &workspace), names(&["", "a", "a/b", "a/b/c"]));
            fs::rename(path("a/b/c"), path("d")).expect("moved");
            assert_eq!(scan(&folders, &workspace), names(&["", "a", "a/b", "d"]));
            fs::remove_dir(path("d")).expect("removed");
            assert_eq!(scan(&folders, &workspace), names(&["", "a", "a/b"]));
        }
    }

    #[test]
    fn folders_that_did_not_change_are_not_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("a/b")).expect("made");
        let workspace = Workspace::open(folder.path()).expect("a directory");
        let folders = FolderCache::default();
        let scan = || folders.scan(&workspace, &FileGrant::none(), &|| false).expect("complete");
        // The first scans may be too close to the change.
        let mut last = scan();
        let began = std::time::Instant::now();
        while !Arc::ptr_eq(&last.roots[0], &scan().roots[0]) {
            assert!(began.elapsed().as_secs() < 10, "they are read again and again");
            last = scan();
        }
    }

    #[test]
    fn git_directories_are_known_by_what_is_in_them() {
        let folder = tempfile::tempdir().expect("a folder");
        for made in ["plain/.git", "bare/objects", "bare/refs", "common", "src/objects"] {
            fs::create_dir_all(folder.path().join(made)).expect("made");
        }
        fs::write(folder.path().join("common/commondir"), "../x").expect("written");
        let workspace = Workspace::open(folder.path()).expect("a directory");
        let scan = FolderCache::default()
            .scan(&workspace, &FileGrant::none(), &|| false)
            .expect("complete");
        let is_git = |path: &str| scan.roots[0][OsStr::new(path)].is_git;
        assert!(is_git("plain/.git") && is_git("bare") && is_git("common"));
        assert!(!is_git("plain") && !is_git("src"));
        assert!(scan.roots[0][OsStr::new("plain")].has_git);
    }
}
