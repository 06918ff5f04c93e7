//! The workspace and the further roots a person added: the one [`Disk`] there is. Each method finds the place, asks the
//! warrant about it, and opens it by handle.

use std::{
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use haft_core::{
    ErrorKind, PathState, ResolvePath, SearchStep, ToolError,
    files::{
        Disk, FileGrant, FileKind, FileMetadata, FindFiles, FoundFiles, LineIndexes, Listing,
        Opened, PathRestore, PlanChanges, SearchFiles, SearchResult, ShouldStop, TreeListing,
        WalkTree, WorkspaceScan,
    },
};
use rustix::{
    fs::{FileType, OFlags},
    io::Errno,
};

use crate::files::{
    change, entries, facts, find, grep,
    locate::{LastLink, Place, locate, look_for, start},
    near,
    open_file::Handle,
    root::Root,
    survey, tree,
};

/// While somebody keeps swapping links under us, a path is looked up again this often.
pub(crate) const MOST_TRIES: usize = 64;
/// Others hold a directory for the milliseconds of a write; whoever takes longer is stuck.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The directories that tools work in.
pub struct Workspace {
    pub(crate) roots: Vec<Root>,
    lines: LineIndexes,
    /// How long a directory that another change holds is waited for.
    pub(crate) patience: Duration,
    /// Until when nobody tries to look at all files again: there were too many for the time there was.
    pub(crate) too_many_until: Mutex<Option<Instant>>,
    /// Where the person stands, below the workspace.
    pub(crate) standing: Option<PathBuf>,
}

/// A place below a root that the warrant agreed to.
pub(crate) struct Spot<'a> {
    pub(crate) root: &'a Root,
    /// Plain names, relative to the root; empty for the root itself.
    pub(crate) path: PathBuf,
    /// How it is called in messages and answers.
    pub(crate) shown: PathBuf,
    /// What was there when the path was looked up, if that was seen.
    pub(crate) seen: Option<FileType>,
}

impl Workspace {
    /// Opens the directory that tools work in. Leftovers of writes that a crash interrupted are removed.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let root = Root::open(None, path)?;
        change::sweep(&root);
        Ok(Self {
            roots: vec![root],
            lines: LineIndexes::default(),
            patience: LONGEST_WAIT,
            too_many_until: Mutex::default(),
            standing: None,
        })
    }

    /// Says where a person stands. Paths stay relative to the workspace, but one that was meant from there is recognised
    /// when it leads to nothing.
    pub fn stand_in(&mut self, directory: &Path) {
        let below = directory.strip_prefix(&self.roots[0].path).ok();
        self.standing = below.filter(|path| !path.as_os_str().is_empty()).map(Path::to_owned);
    }

    /// Adds a directory elsewhere, whose files are called `@name/…`; returns its real path.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn add_root(&mut self, name: &str, path: &Path) -> io::Result<PathBuf> {
        let root = Root::open(Some(name.to_owned()), path)?;
        change::sweep(&root);
        let real = root.path.clone();
        self.roots.push(root);
        Ok(real)
    }

    /// Where a path leads, if that is in the workspace and the warrant agrees.
    pub(crate) fn spot(
        &self,
        path: &Path,
        last: LastLink,
        grant: &FileGrant,
    ) -> Result<Spot<'_>, ToolError> {
        match look_for(&self.roots, path, last)? {
            (Place::Inside { root, path }, seen) => {
                let root = &self.roots[root];
                let shown = root.shown(&path);
                grant.check(&shown)?;
                let path = if path.as_os_str().is_empty() { PathBuf::from(".") } else { path };
                Ok(Spot { root, path, shown, seen })
            }
            (Place::Outside(real), _) => Err(self.outside(path, &real)),
        }
    }

    /// The place of a path as it is shown, which has no links and no dots.
    fn known_spot(&self, shown: &Path) -> Option<Spot<'_>> {
        let (root, path) = start(&self.roots, shown).ok()?;
        Some(Spot { root: &self.roots[root], path, shown: shown.to_owned(), seen: None })
    }

    /// A directory to start programs in: its handle, and its absolute path for those who need one.
    ///
    /// # Errors
    /// As opening a file there.
    pub(crate) fn directory(&self, path: &Path) -> Result<(OwnedFd, PathBuf), ToolError> {
        let found = self.at(path, LastLink::Follow, &FileGrant::none(), |spot| {
            let handle = spot.root.open_at(&spot.path, OFlags::PATH)?;
            let is_directory = facts::of(&handle, &spot.shown)?.kind == FileKind::Directory;
            Ok(is_directory.then(|| (handle, spot.root.path.join(&spot.path))))
        })?;
        found.ok_or_else(|| {
            ToolError::input(format!("`{}` is not a directory", path.display()))
                .hint("name a directory to run the command in")
        })
    }

    /// What is no path at all stays as it is: opening it will say what is wrong with it.
    fn real(&self, path: &Path, last: LastLink) -> PathBuf {
        match locate(&self.roots, path, last) {
            Ok(Place::Inside { root, path }) => self.roots[root].shown(&path),
            Ok(Place::Outside(path)) => path,
            Err(_) => path.to_owned(),
        }
    }

    /// Does something with a path, again when a link was put into it between the look and the deed.
    pub(crate) fn at<T>(
        &self,
        path: &Path,
        last: LastLink,
        grant: &FileGrant,
        mut work: impl FnMut(&Spot<'_>) -> Result<T, Errno>,
    ) -> Result<T, ToolError> {
        for _ in 0..MOST_TRIES {
            let spot = self.spot(path, last, grant)?;
            match work(&spot) {
                Err(Errno::LOOP | Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(self.failure(&spot.shown, error, grant)),
                Ok(done) => return Ok(done),
            }
        }
        Err(ToolError::conflict(format!("`{}` is being moved about by somebody", path.display()))
            .hint("call again when it has come to rest"))
    }

    fn outside(&self, named: &Path, real: &Path) -> ToolError {
        let workspace = self.roots[0].path.display();
        let leads = if named == real {
            String::new()
        } else {
            format!(" leads to `{}`, which", real.display())
        };
        let message = format!("`{}`{leads} is outside the workspace {workspace}", named.display());
        let roots: Vec<String> = self
            .roots
            .iter()
            .filter_map(|root| Some(format!("`@{}`", root.name.as_ref()?)))
            .collect();
        let hint = if roots.is_empty() {
            "name a path inside it, relative to it; a person can add a folder under [roots] in their config".to_owned()
        } else {
            format!("name a path inside it, or below {}", roots.join(", "))
        };
        ToolError::denied(message).hint(hint)
    }

    /// What the system says, in our words. The path is the real one.
    pub(crate) fn failure(&self, shown: &Path, error: Errno, grant: &FileGrant) -> ToolError {
        let path = shown.display();
        match error {
            Errno::NOENT | Errno::NOTDIR => near::not_found(self, shown, grant),
            Errno::ACCESS | Errno::PERM => {
                ToolError::denied(format!("the file system does not permit this with `{path}`"))
                    .hint("have its owner change the permissions, or leave it alone")
            }
            Errno::XDEV => ToolError::denied(format!(
                "`{path}` lies on another file system that is mounted inside the workspace"
            ))
            .hint("a person can add its folder under [roots] in their config"),
            Errno::NAMETOOLONG => ToolError::input(format!("`{path}` has a name that is too long"))
                .hint("names have at most 255 bytes"),
            Errno::NOSPC | Errno::DQUOT => {
                ToolError::unavailable(format!("there is no space left for `{path}`"))
                    .hint("nothing was changed; make room and call again")
            }
            Errno::FBIG => {
                ToolError::unavailable(format!("the system takes no file of the size of `{path}`"))
                    .hint("nothing was changed; write less, or have the limit raised")
            }
            Errno::ROFS => ToolError::denied(format!("`{path}` is on a read-only file system"))
                .hint("write elsewhere"),
            Errno::MFILE | Errno::NFILE => {
                ToolError::unavailable(format!("too many files are open to open `{path}`"))
                    .hint("call again later, or raise the limit with `ulimit -n`")
            }
            Errno::BUSY | Errno::TXTBSY => {
                ToolError::unavailable(format!("the system is using `{path}`"))
                    .hint("call again later, or leave it alone")
            }
            Errno::ISDIR => haft_core::files::is_directory(shown),
            other => {
                ToolError::failed(format!("`{path}`: {other}")).caused_by(io::Error::from(other))
            }
        }
    }
}

impl Disk for Workspace {
    fn open(&self, path: &Path, grant: &FileGrant) -> Result<Opened, ToolError> {
        if let Some(real) = grant.seen_file(path)
            && let Some(spot) = self.known_spot(real)
        {
            grant.check(&spot.shown)?;
            // Whatever has come in its place since, the long way tells.
            if let Ok(opened @ (_, FileMetadata { kind: FileKind::File, .. })) = read_at(&spot) {
                return self::opened(opened);
            }
        }
        let handle = self.at(path, LastLink::Follow, grant, |spot| {
            // First without opening: a device may act, and a pipe wait, when it is opened.
            if spot.seen.is_none_or(|seen| !seen.is_file()) {
                let facts = facts::of(&spot.root.open_at(&spot.path, OFlags::PATH)?, &spot.shown)?;
                match facts.kind {
                    FileKind::File => {}
                    // It was none when the path was looked up.
                    FileKind::Link => return Err(Errno::LOOP),
                    _ => return Ok((None, facts)),
                }
            }
            read_at(spot)
        })?;
        opened(handle)
    }

    fn metadata(&self, path: &Path, grant: &FileGrant) -> Result<FileMetadata, ToolError> {
        self.at(path, LastLink::Keep, grant, |spot| {
            facts::of(&spot.root.open_at(&spot.path, OFlags::PATH)?, &spot.shown)
        })
    }

    fn entries(&self, path: &Path, grant: &FileGrant) -> Result<Listing, ToolError> {
        entries::of(self, path, grant)
    }

    fn find(
        &self,
        query: &FindFiles,
        grant: &FileGrant,
        stop: ShouldStop<'_>,
    ) -> Result<FoundFiles, ToolError> {
        find::find(self, query, grant, stop)
    }

    fn search(
        &self,
        query: &SearchFiles,
        grant: &FileGrant,
        stop: ShouldStop<'_>,
    ) -> Result<SearchResult, ToolError> {
        grep::search(self, query, grant, stop)
    }

    fn tree(
        &self,
        query: &WalkTree,
        grant: &FileGrant,
        stop: ShouldStop<'_>,
    ) -> Result<TreeListing, ToolError> {
        tree::tree(self, query, grant, stop)
    }

    fn scan(
        &self,
        most: usize,
        grant: &FileGrant,
        stop: ShouldStop<'_>,
    ) -> Result<WorkspaceScan, ToolError> {
        survey::survey(self, most, grant, stop)
    }

    fn change(
        &self,
        paths: &[PathBuf],
        grant: &FileGrant,
        plan: PlanChanges<'_>,
    ) -> Result<(), ToolError> {
        change::change(self, paths, grant, plan)
    }

    fn path_state(&self, path: &Path, grant: &FileGrant) -> Result<PathState, ToolError> {
        change::image(self, path, grant)
    }

    fn restore(&self, steps: &[PathRestore], grant: &FileGrant) -> Result<(), ToolError> {
        change::restore(self, steps, grant)
    }

    fn rename(
        &self,
        from: &Path,
        to: &Path,
        replace: bool,
        grant: &FileGrant,
    ) -> Result<(PathBuf, PathBuf), ToolError> {
        change::rename(self, from, to, replace, grant)
    }

    fn remove(
        &self,
        path: &Path,
        recursive: bool,
        grant: &FileGrant,
    ) -> Result<(PathBuf, u64), ToolError> {
        change::remove(self, path, recursive, grant)
    }

    fn make_directory(&self, path: &Path, grant: &FileGrant) -> Result<(PathBuf, bool), ToolError> {
        change::make_directory(self, path, grant)
    }

    fn set_directory_mode(
        &self,
        path: &Path,
        mode: u32,
        grant: &FileGrant,
    ) -> Result<(), ToolError> {
        self.at(path, LastLink::Keep, grant, |spot| {
            let handle = spot.root.open_at(&spot.path, OFlags::RDONLY | OFlags::DIRECTORY)?;
            rustix::fs::fchmod(&handle, rustix::fs::Mode::from_raw_mode(mode & 0o3777))
        })
    }

    fn line_indexes(&self) -> &LineIndexes {
        &self.lines
    }
}

/// Opens what is no link to be read, without waiting for anybody at the other end.
fn read_at(spot: &Spot<'_>) -> Result<(Option<OwnedFd>, FileMetadata), Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let handle = spot.root.open_at(&spot.path, flags)?;
    let facts = facts::of(&handle, &spot.shown)?;
    Ok((Some(handle), facts))
}

/// A regular file or a directory; of everything else only the sort is told.
pub(crate) fn opened(
    (handle, facts): (Option<OwnedFd>, FileMetadata),
) -> Result<Opened, ToolError> {
    match (handle, facts.kind) {
        (Some(handle), FileKind::File) => Ok(Opened::File(Handle::new(handle, facts))),
        (_, FileKind::Directory) => Ok(Opened::Directory(facts.path)),
        (_, kind) => Err(not_regular(&facts.path, kind)),
    }
}

pub(crate) fn not_regular(path: &Path, kind: FileKind) -> ToolError {
    let message = format!("`{}` is a {}, not a regular file", path.display(), kind.name());
    ToolError::new(ErrorKind::Unsupported, message).hint("only regular files are read and changed")
}

impl ResolvePath for Workspace {
    fn resolve_file(&self, path: &Path) -> (PathBuf, bool) {
        match look_for(&self.roots, path, LastLink::Follow) {
            Ok((Place::Inside { root, path }, seen)) => {
                let shown = self.roots[root].shown(&path);
                // A folder of the workspace may be called as a root is shown; then the name alone does not tell.
                let is_clear = root > 0 || !shown.as_os_str().as_bytes().starts_with(b"@");
                (shown, is_clear && seen.is_some_and(FileType::is_file))
            }
            Ok((Place::Outside(path), _)) => (path, false),
            Err(_) => (path.to_owned(), false),
        }
    }

    fn resolve(&self, path: &Path) -> PathBuf {
        self.real(path, LastLink::Follow)
    }

    fn resolve_name(&self, path: &Path) -> PathBuf {
        self.real(path, LastLink::Keep)
    }

    fn below(
        &self,
        directory: &Path,
        enters: &dyn Fn(&Path) -> SearchStep,
    ) -> Option<Vec<PathBuf>> {
        /// Looking must not take longer than the command.
        const MAX_ENTRIES: usize = 20_000;
        let start = match directory.is_absolute() {
            true => directory.to_owned(),
            false => self.roots.first()?.path.join(directory),
        };
        let mut found = vec![self.resolve(&start)];
        let mut folders = vec![start.clone()];
        while let Some(folder) = folders.pop() {
            let entries = match std::fs::read_dir(&folder) {
                Ok(entries) => entries,
                // A file, or nothing at all: there is nothing below.
                Err(error) if is_no_folder(&error) => continue,
                Err(_) => return None,
            };
            for entry in entries {
                let path = entry.ok()?.path();
                let entry = enters(path.strip_prefix(&start).ok()?);
                if entry == SearchStep::Skip {
                    continue;
                }
                found.push(self.resolve(&path));
                if found.len() > MAX_ENTRIES {
                    return None;
                }
                // Links of a whole tree are resolved, not entered: they may lead round in circles.
                let is_folder = match entry {
                    SearchStep::IncludeAndFollow => path.is_dir(),
                    _ => std::fs::symlink_metadata(&path).ok()?.is_dir(),
                };
                if is_folder {
                    folders.push(path);
                }
            }
        }
        Some(found)
    }

    fn is_confined(&self) -> bool {
        true
    }
}

fn is_no_folder(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotADirectory | std::io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests;
