//! The workspace and the additional roots of the user: the only implementation of [`Disk`]. Each
//! method resolves the path, checks it with the grant, and opens it by handle.

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
    change, entries, find, grep,
    locate::{LastLink, PathLocation, locate, locate_and_probe, start},
    metadata, not_found,
    open_file::FileHandle,
    root::Root,
    survey, tree,
};

/// Maximum number of lookups of a path while another process keeps replacing links in it.
pub(crate) const MAX_TRIES: usize = 64;
/// Another process locks a directory for the milliseconds of a write; one that takes longer hangs.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The directories that tools work in.
pub struct Workspace {
    pub(crate) roots: Vec<Root>,
    lines: LineIndexes,
    /// Maximum wait for a directory that another change has locked.
    pub(crate) lock_timeout: Duration,
    /// No scan of all files is tried before this time, because the last one took too long.
    pub(crate) scan_paused_until: Mutex<Option<Instant>>,
    /// The user's current directory, below the workspace.
    pub(crate) current_directory: Option<PathBuf>,
}

/// A path below a root that the grant permits.
pub(crate) struct LocatedPath<'a> {
    pub(crate) root: &'a Root,
    /// Plain names, relative to the root; empty for the root itself.
    pub(crate) path: PathBuf,
    /// The path as shown in messages and results.
    pub(crate) shown: PathBuf,
    /// The file type, if the lookup determined it.
    pub(crate) seen: Option<FileType>,
}

impl Workspace {
    /// Opens the directory that tools work in, and removes leftovers of writes that a crash
    /// interrupted.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let root = Root::open(None, path)?;
        change::sweep(&root);
        Ok(Self {
            roots: vec![root],
            lines: LineIndexes::default(),
            lock_timeout: LOCK_TIMEOUT,
            scan_paused_until: Mutex::default(),
            current_directory: None,
        })
    }

    /// Sets the user's current directory. Paths stay relative to the workspace, but a missing path
    /// that exists below this directory is recognised.
    pub fn set_current_directory(&mut self, directory: &Path) {
        let below = directory.strip_prefix(&self.roots[0].path).ok();
        self.current_directory =
            below.filter(|path| !path.as_os_str().is_empty()).map(Path::to_owned);
    }

    /// Adds another directory, whose files are called `@name/…`, and returns its real path.
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

    /// Resolves a path that must be inside the workspace and permitted by the grant.
    pub(crate) fn located(
        &self,
        path: &Path,
        last: LastLink,
        grant: &FileGrant,
    ) -> Result<LocatedPath<'_>, ToolError> {
        match locate_and_probe(&self.roots, path, last)? {
            (PathLocation::Inside { root, path }, seen) => {
                let root = &self.roots[root];
                let shown = root.shown(&path);
                grant.check(&shown)?;
                let path = if path.as_os_str().is_empty() { PathBuf::from(".") } else { path };
                Ok(LocatedPath { root, path, shown, seen })
            }
            (PathLocation::Outside(real), _) => Err(self.outside(path, &real)),
        }
    }

    /// Splits a shown path, which has no links and no dots.
    fn split_shown(&self, shown: &Path) -> Option<LocatedPath<'_>> {
        let (root, path) = start(&self.roots, shown).ok()?;
        Some(LocatedPath { root: &self.roots[root], path, shown: shown.to_owned(), seen: None })
    }

    /// Opens a directory in which a program starts. Returns its handle and its absolute path.
    ///
    /// # Errors
    /// As when opening a file there.
    pub(crate) fn directory(&self, path: &Path) -> Result<(OwnedFd, PathBuf), ToolError> {
        let found = self.at(path, LastLink::Follow, &FileGrant::none(), |located| {
            let handle = located.root.open_at(&located.path, OFlags::PATH)?;
            let is_directory = metadata::of(&handle, &located.shown)?.kind == FileKind::Directory;
            Ok(is_directory.then(|| (handle, located.root.path.join(&located.path))))
        })?;
        found.ok_or_else(|| {
            ToolError::input(format!("`{}` is not a directory", path.display()))
                .hint("name a directory to run the command in")
        })
    }

    /// An invalid path stays as it is: opening it will report the error.
    fn real(&self, path: &Path, last: LastLink) -> PathBuf {
        match locate(&self.roots, path, last) {
            Ok(PathLocation::Inside { root, path }) => self.roots[root].shown(&path),
            Ok(PathLocation::Outside(path)) => path,
            Err(_) => path.to_owned(),
        }
    }

    /// Runs an operation on a path, and retries when a link was put into the path after the lookup.
    pub(crate) fn at<T>(
        &self,
        path: &Path,
        last: LastLink,
        grant: &FileGrant,
        mut work: impl FnMut(&LocatedPath<'_>) -> Result<T, Errno>,
    ) -> Result<T, ToolError> {
        for _ in 0..MAX_TRIES {
            let located = self.located(path, last, grant)?;
            match work(&located) {
                Err(Errno::LOOP | Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(self.failure(&located.shown, error, grant)),
                Ok(done) => return Ok(done),
            }
        }
        Err(ToolError::conflict(format!("`{}` keeps changing", path.display()))
            .hint("retry when no other process is renaming it"))
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

    /// Converts a system error. The path is the real one.
    pub(crate) fn failure(&self, shown: &Path, error: Errno, grant: &FileGrant) -> ToolError {
        let path = shown.display();
        match error {
            Errno::NOENT | Errno::NOTDIR => not_found::not_found(self, shown, grant),
            Errno::ACCESS | Errno::PERM => {
                ToolError::denied(format!("permission denied: `{path}`"))
                    .hint("its owner can change the permissions")
            }
            Errno::XDEV => ToolError::denied(format!(
                "`{path}` is on another file system that is mounted inside the workspace"
            ))
            .hint("a person can add its folder under [roots] in their config"),
            Errno::NAMETOOLONG => ToolError::input(format!("`{path}` has a name that is too long"))
                .hint("names have at max 255 bytes"),
            Errno::NOSPC | Errno::DQUOT => {
                ToolError::unavailable(format!("no space left on the device for `{path}`"))
                    .hint("nothing was changed; free some space and retry")
            }
            Errno::FBIG => {
                ToolError::unavailable(format!("`{path}` would exceed the maximum file size"))
                    .hint("nothing was changed; write less, or raise the limit")
            }
            Errno::ROFS => ToolError::denied(format!("`{path}` is on a read-only file system"))
                .hint("write elsewhere"),
            Errno::MFILE | Errno::NFILE => {
                ToolError::unavailable(format!("too many open files to open `{path}`"))
                    .hint("retry later, or raise the limit with `ulimit -n`")
            }
            Errno::BUSY | Errno::TXTBSY => {
                ToolError::unavailable(format!("`{path}` is busy")).hint("retry later")
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
        if let Some(real) = grant.resolved_file(path)
            && let Some(located) = self.split_shown(real)
        {
            grant.check(&located.shown)?;
            // If the file was replaced since, the full lookup below handles it.
            if let Ok(opened @ (_, FileMetadata { kind: FileKind::File, .. })) = read_at(&located) {
                return self::opened(opened);
            }
        }
        let handle = self.at(path, LastLink::Follow, grant, |located| {
            // Check the type first: opening a device may have effects, and opening a pipe may
            // block.
            if located.seen.is_none_or(|seen| !seen.is_file()) {
                let metadata = metadata::of(
                    &located.root.open_at(&located.path, OFlags::PATH)?,
                    &located.shown,
                )?;
                match metadata.kind {
                    FileKind::File => {}
                    // It was not a link when the path was looked up.
                    FileKind::Link => return Err(Errno::LOOP),
                    _ => return Ok((None, metadata)),
                }
            }
            read_at(located)
        })?;
        opened(handle)
    }

    fn metadata(&self, path: &Path, grant: &FileGrant) -> Result<FileMetadata, ToolError> {
        self.at(path, LastLink::Keep, grant, |located| {
            metadata::of(&located.root.open_at(&located.path, OFlags::PATH)?, &located.shown)
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
        max: usize,
        grant: &FileGrant,
        stop: ShouldStop<'_>,
    ) -> Result<WorkspaceScan, ToolError> {
        survey::survey(self, max, grant, stop)
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
        change::path_state(self, path, grant)
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
        self.at(path, LastLink::Keep, grant, |located| {
            let handle = located.root.open_at(&located.path, OFlags::RDONLY | OFlags::DIRECTORY)?;
            rustix::fs::fchmod(&handle, rustix::fs::Mode::from_raw_mode(mode & 0o3777))
        })
    }

    fn line_indexes(&self) -> &LineIndexes {
        &self.lines
    }
}

/// Opens an entry that is not a link for reading, without waiting for the other end of a pipe.
fn read_at(located: &LocatedPath<'_>) -> Result<(Option<OwnedFd>, FileMetadata), Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let handle = located.root.open_at(&located.path, flags)?;
    let metadata = metadata::of(&handle, &located.shown)?;
    Ok((Some(handle), metadata))
}

/// Returns a regular file or a directory, and an error that names the kind for everything else.
pub(crate) fn opened(
    (handle, metadata): (Option<OwnedFd>, FileMetadata),
) -> Result<Opened, ToolError> {
    match (handle, metadata.kind) {
        (Some(handle), FileKind::File) => Ok(Opened::File(FileHandle::new(handle, metadata))),
        (_, FileKind::Directory) => Ok(Opened::Directory(metadata.path)),
        (_, kind) => Err(not_regular(&metadata.path, kind)),
    }
}

pub(crate) fn not_regular(path: &Path, kind: FileKind) -> ToolError {
    let message = format!("`{}` is a {}, not a regular file", path.display(), kind.name());
    ToolError::new(ErrorKind::Unsupported, message)
        .hint("only regular files can be read and changed")
}

impl ResolvePath for Workspace {
    fn resolve_file(&self, path: &Path) -> (PathBuf, bool) {
        match locate_and_probe(&self.roots, path, LastLink::Follow) {
            Ok((PathLocation::Inside { root, path }, seen)) => {
                let shown = self.roots[root].shown(&path);
                // A folder of the workspace may have a name that looks like a root; then the name
                // alone is ambiguous.
                let is_clear = root > 0 || !shown.as_os_str().as_bytes().starts_with(b"@");
                (shown, is_clear && seen.is_some_and(FileType::is_file))
            }
            Ok((PathLocation::Outside(path), _)) => (path, false),
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
        /// Looking up entries must not take longer than the command.
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
                // A file, or nothing: there is nothing below.
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
                // Links of a whole tree are resolved but not entered: they may form loops.
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
