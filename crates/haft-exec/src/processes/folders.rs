//! What matters of each folder of the workspace to a command in a sandbox: what in it is closed to commands, and whether
//! git would take it for a repository. The folders are looked at before every command, because the command before may
//! have renamed one or changed its mode. A folder that has not changed since is not read again.

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
        walk::{is_worth_telling, kind_of, or_dot, share},
    },
};

/// Agents with other rules have other closed files. More than these are seldom at work at once.
const MAX_REMEMBERED: usize = 4;

/// How many folders are looked at before others may take some.
const STEP: usize = 32;

/// The same for folders of which only the stamps are compared.
const AT_ONCE: usize = 512;

/// Identifies a version of a file or folder: every change of it changes this, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    pub(crate) kind: FileType,
    device: u64,
    inode: u64,
    size: i64,
    modified: (i64, u64),
    /// Set by the kernel alone.
    changed: (i64, u64),
}

impl FileStamp {
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

/// What matters of one folder.
#[derive(Debug, Default)]
pub(crate) struct Folder {
    /// None when it changed so shortly before it was read that another change might not be seen.
    stamp: Option<FileStamp>,
    folders: Vec<OsString>,
    /// Names that are closed to commands, and whether each is a folder.
    pub(crate) closed: Vec<(OsString, bool)>,
    /// Names of sockets.
    pub(crate) sockets: Vec<OsString>,
    /// It has a `.git`.
    pub(crate) has_git: bool,
    /// It is, or looks like, a git directory.
    pub(crate) is_git: bool,
}

/// The folders below one root by their paths. As plain texts: comparing paths by their parts takes longer than the rest.
pub(crate) type RootFolders = HashMap<OsString, Arc<Folder>>;

/// The look at this root took too long.
#[derive(Debug)]
pub(crate) struct CutOff(pub(crate) PathBuf);

/// One look at all roots of a workspace.
#[derive(Clone)]
pub(crate) struct Look {
    grant: FileGrant,
    pub(crate) roots: Vec<Arc<RootFolders>>,
    /// Folders that cannot be read.
    pub(crate) unreadable: Vec<PathBuf>,
}

/// Looks at folders, and remembers them from one look to the next.
#[derive(Default)]
pub(crate) struct Folders {
    remembered: Mutex<Vec<Look>>,
}

impl Folders {
    /// Looks at every folder that is not closed itself, also at those below mounts: commands see them.
    ///
    /// # Errors
    /// When it was told to stop.
    pub(crate) fn look(
        &self,
        workspace: &Workspace,
        grant: &FileGrant,
        stop: ShouldStop<'_>,
    ) -> Result<Look, CutOff> {
        self.look_at(workspace.roots.iter().collect::<Vec<_>>().as_slice(), grant, stop)
    }

    /// The same for other roots than those of a workspace.
    ///
    /// # Errors
    /// When it was told to stop.
    pub(crate) fn look_at(
        &self,
        looked: &[&Root],
        grant: &FileGrant,
        stop: ShouldStop<'_>,
    ) -> Result<Look, CutOff> {
        let last =
            self.remembered().iter().find(|look| look.grant.is_equivalent_to(grant)).cloned();
        let mut roots = Vec::new();
        let mut unreadable = Vec::new();
        for (at, root) in looked.iter().enumerate() {
            let known = last.as_ref().and_then(|look| look.roots.get(at));
            let search = Search { root, grant, stop, known };
            let was_complete = last.as_ref().is_some_and(|look| look.unreadable.is_empty());
            if let Some(known) = known.filter(|known| was_complete && search.is_as(known)) {
                roots.push(known.clone());
                continue;
            }
            let (folders, unread) = search.run().ok_or_else(|| CutOff(root.path.clone()))?;
            unreadable.extend(unread.into_iter().map(|folder| root.path.join(folder)));
            roots.push(folders);
        }
        let look = Look { grant: grant.clone(), roots, unreadable };
        self.remember(&look);
        Ok(look)
    }

    fn remember(&self, look: &Look) {
        let mut remembered = self.remembered();
        remembered.retain(|known| !known.grant.is_equivalent_to(&look.grant));
        remembered.insert(0, look.clone());
        remembered.truncate(MAX_REMEMBERED);
    }

    fn remembered(&self) -> MutexGuard<'_, Vec<Look>> {
        self.remembered.lock()
    }
}

/// A look at one root.
struct Search<'a> {
    root: &'a Root,
    grant: &'a FileGrant,
    stop: ShouldStop<'a>,
    known: Option<&'a Arc<RootFolders>>,
}

#[derive(Default)]
struct Worker {
    seen: Vec<(OsString, Arc<Folder>)>,
    /// How many of them were read.
    read: usize,
    unreadable: Vec<PathBuf>,
    is_stopped: bool,
}

impl Search<'_> {
    /// Whether no folder has changed since: a new one would have changed the one that it is in.
    fn is_as(&self, known: &RootFolders) -> bool {
        let all: Vec<(&OsString, &Arc<Folder>)> = known.iter().collect();
        let workers = share(
            all,
            || true,
            |is_same, folders, new| {
                if folders.len() > AT_ONCE {
                    new.extend(folders.chunks(AT_ONCE).map(<[_]>::to_vec));
                    return ControlFlow::Continue(());
                }
                let is_stamped = |(path, folder): &(&OsString, &Arc<Folder>)| {
                    folder.stamp.is_some() && folder.stamp == self.stamp(path)
                };
                *is_same = !(self.stop)() && folders.iter().all(is_stamped);
                if *is_same { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            },
        );
        workers.into_iter().all(|is_same| is_same)
    }

    /// All folders and those that cannot be read; None when it was told to stop.
    fn run(&self) -> Option<(Arc<RootFolders>, Vec<PathBuf>)> {
        let workers = share(vec![OsString::new()], Worker::default, |worker, paths, new| {
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

    /// Looks at some folders and at some of those below, and leaves the rest to whoever has time.
    fn step(
        &self,
        worker: &mut Worker,
        mut paths: Vec<OsString>,
        new: &mut Vec<Vec<OsString>>,
    ) -> ControlFlow<()> {
        for _ in 0..STEP {
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
                Err(error) if is_worth_telling(error) => worker.unreadable.push(path.into()),
                Err(_) => {}
            }
        }
        new.extend(paths.chunks(STEP).map(<[OsString]>::to_vec));
        ControlFlow::Continue(())
    }

    /// What is known of a folder, if it has not changed. Another one in its place has another stamp, also behind a link.
    fn unchanged(&self, path: &OsStr) -> Option<Arc<Folder>> {
        let known = self.known?.get(path)?;
        (known.stamp? == self.stamp(path)?).then(|| known.clone())
    }

    fn stamp(&self, path: &OsStr) -> Option<FileStamp> {
        let path = or_dot(Path::new(path));
        let stat = fs::statat(&self.root.handle, path, AtFlags::SYMLINK_NOFOLLOW);
        Some(FileStamp::of(&stat.ok()?))
    }

    fn read(&self, path: &Path) -> Result<Folder, Errno> {
        // Of the clock that the kernel takes the times of changes from.
        let now = rustix::time::clock_gettime(ClockId::RealtimeCoarse);
        let handle = self.open(path)?;
        let stamp = FileStamp::of(&fs::fstat(&handle)?);
        let is_older = stamp.changed < (now.tv_sec, now.tv_nsec.unsigned_abs());
        let mut folder = Folder { stamp: is_older.then_some(stamp), ..Folder::default() };
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

    /// Unlike what tools open, also below mounts.
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

/// The names by which git knows its own directories.
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

    /// Whether there may be settings that git would obey: in the directory itself, or of one that leads to it.
    fn make_a_repository(&self) -> bool {
        self.has_common || (self.has_objects && self.has_refs) || (self.has_head && self.has_config)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn look(folders: &Folders, workspace: &Workspace) -> Vec<PathBuf> {
        let look = folders.look(workspace, &FileGrant::none(), &|| false).expect("complete");
        let mut paths: Vec<PathBuf> = look.roots[0].keys().map(PathBuf::from).collect();
        paths.sort();
        paths
    }

    #[test]
    fn every_change_is_seen_by_the_next_look() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("a/b")).expect("made");
        let workspace = Workspace::open(folder.path()).expect("a directory");
        let folders = Folders::default();
        let names = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(look(&folders, &workspace), names(&["", "a", "a/b"]));
        // Over and over, so that some changes fall into the same tick of the clock as the look before.
        for _ in 0..200 {
            fs::create_dir(path("a/b/c")).expect("made");
            assert_eq!(look(&folders, &workspace), names(&["", "a", "a/b", "a/b/c"]));
            fs::rename(path("a/b/c"), path("d")).expect("moved");
            assert_eq!(look(&folders, &workspace), names(&["", "a", "a/b", "d"]));
            fs::remove_dir(path("d")).expect("removed");
            assert_eq!(look(&folders, &workspace), names(&["", "a", "a/b"]));
        }
    }

    #[test]
    fn folders_that_did_not_change_are_not_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("a/b")).expect("made");
        let workspace = Workspace::open(folder.path()).expect("a directory");
        let folders = Folders::default();
        let look = || folders.look(&workspace, &FileGrant::none(), &|| false).expect("complete");
        // The first ones may be too near to the change.
        let mut last = look();
        let began = std::time::Instant::now();
        while !Arc::ptr_eq(&last.roots[0], &look().roots[0]) {
            assert!(began.elapsed().as_secs() < 10, "they are read again and again");
            last = look();
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
        let look =
            Folders::default().look(&workspace, &FileGrant::none(), &|| false).expect("complete");
        let is_git = |path: &str| look.roots[0][OsStr::new(path)].is_git;
        assert!(is_git("plain/.git") && is_git("bare") && is_git("common"));
        assert!(!is_git("plain") && !is_git("src"));
        assert!(look.roots[0][OsStr::new("plain")].has_git);
    }
}
