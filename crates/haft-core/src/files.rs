//! Files as tools see them: two capabilities, and the trait of the backend that opens files. Core
//! itself has no backend; `haft-exec` implements [`Disk`], and a capability without one fails with
//! an error.
//!
//! The methods are not async on purpose: a file in the page cache is read faster than a task is
//! woken. Work that may take long runs through [`spawn_blocking`](crate::spawn_blocking).

mod change;
mod lines;
mod metadata;
mod scan;
mod search;
mod unwritable;

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

pub use self::{
    change::{ChangeTarget, CurrentState, PathRestore, PlanChanges, PlannedChange, RestoredState},
    lines::LineIndexes,
    metadata::{DirectoryEntry, FileKind, FileMetadata, Listing, MAX_HASHED_BYTES, Version},
    scan::{ChangedFile, FileChange, FileStamp, WorkspaceScan},
    search::{
        FileMatches, FindFiles, FoundFile, FoundFiles, MatchLine, SearchFiles, SearchResult,
        ShouldStop, TreeEntry, TreeListing, WalkTree,
    },
    unwritable::UnwritablePath,
};
use crate::{
    Access, Call, Capability, ErrorKind, Grants, JournalWriter, Need, PathState, Power, PreImages,
    ToolError,
};

/// The backend that opens and changes files. Every method resolves the path itself, follows links
/// only inside the workspace, and checks the grant for the path that is really opened, not the one
/// that was named.
pub trait Disk: Send + Sync {
    /// Opens a regular file, or returns that it is a directory. Fails at once for anything else.
    ///
    /// # Errors
    /// Names the path as the workspace shows it; `not_found` lists similar names.
    fn open(&self, path: &Path, grant: &FileGrant) -> Result<Opened, ToolError>;

    /// Returns the metadata of a path without opening it. A final link is not followed.
    ///
    /// # Errors
    /// As for [`Disk::open`].
    fn metadata(&self, path: &Path, grant: &FileGrant) -> Result<FileMetadata, ToolError>;

    /// Returns the entries of a directory by name, without those that the grant hides.
    ///
    /// # Errors
    /// As for [`Disk::open`].
    fn entries(&self, path: &Path, grant: &FileGrant) -> Result<Listing, ToolError>;

    /// Finds files whose paths match a glob.
    ///
    /// # Errors
    /// If the glob is invalid or the directory cannot be opened. Unreadable directories below it
    /// are counted.
    fn find(
        &self,
        query: &FindFiles,
        grant: &FileGrant,
        stop: ShouldStop<'_>,
    ) -> Result<FoundFiles, ToolError>;

    /// Finds lines that match a pattern.
    ///
    /// # Errors
    /// If the pattern or the glob is invalid, or the path cannot be opened.
    fn search(
        &self,
        query: &SearchFiles,
        grant: &FileGrant,
        stop: ShouldStop<'_>,
    ) -> Result<SearchResult, ToolError>;

    /// Returns the tree below a directory, level by level until a limit is reached.
    ///
    /// # Errors
    /// If the directory cannot be opened.
    fn tree(
        &self,
        query: &WalkTree,
        grant: &FileGrant,
        stop: ShouldStop<'_>,
    ) -> Result<TreeListing, ToolError>;

    /// Returns the stamps of all files, without those that ignore files exclude and the grant
    /// hides. Stops at more than `max_files` files.
    ///
    /// # Errors
    /// If a root cannot be opened.
    fn scan(
        &self,
        max_files: usize,
        grant: &FileGrant,
        stop: ShouldStop<'_>,
    ) -> Result<WorkspaceScan, ToolError>;

    /// Changes files, all or nothing. The paths are opened and locked against other processes,
    /// `plan` decides the changes, and no file is touched before all of them are prepared. Missing
    /// directories are created.
    ///
    /// # Errors
    /// The error of the plan, or the reason why the change failed; then nothing has changed.
    fn change(
        &self,
        paths: &[PathBuf],
        grant: &FileGrant,
        plan: PlanChanges<'_>,
    ) -> Result<(), ToolError>;

    /// Returns the state of a path, with the hash of a file's content. A final link is not
    /// followed.
    ///
    /// # Errors
    /// If the path cannot be read. A missing path is not an error.
    fn path_state(&self, path: &Path, grant: &FileGrant) -> Result<PathState, ToolError>;

    /// Restores files and links to earlier states, all or nothing, as [`Disk::change`] does. Final
    /// links are not followed.
    ///
    /// # Errors
    /// Of kind `conflict` if one is not in the expected state; then nothing has changed.
    fn restore(&self, steps: &[PathRestore], grant: &FileGrant) -> Result<(), ToolError>;

    /// Renames a file, link or directory; returns the old and the new path.
    ///
    /// # Errors
    /// Of kind `conflict` if `to` exists and may not be replaced.
    fn rename(
        &self,
        from: &Path,
        to: &Path,
        replace: bool,
        grant: &FileGrant,
    ) -> Result<(PathBuf, PathBuf), ToolError>;

    /// Removes a file, a link or a directory; returns its path and the number of removed entries.
    ///
    /// # Errors
    /// Of kind `conflict` for a directory that is not empty, unless `recursive`.
    fn remove(
        &self,
        path: &Path,
        recursive: bool,
        grant: &FileGrant,
    ) -> Result<(PathBuf, u64), ToolError>;

    /// Creates a directory and its parents; returns its path, and false if it already existed.
    ///
    /// # Errors
    /// Of kind `conflict` if the path exists and is not a directory.
    fn make_directory(&self, path: &Path, grant: &FileGrant) -> Result<(PathBuf, bool), ToolError>;

    /// Restores the permissions of a directory.
    ///
    /// # Errors
    /// If the path is not a directory, or belongs to another user.
    fn set_directory_mode(
        &self,
        path: &Path,
        mode: u32,
        grant: &FileGrant,
    ) -> Result<(), ToolError>;

    /// Returns the positions of lines in files that were read before.
    fn line_indexes(&self) -> &LineIndexes;
}

/// The result of opening a path.
pub enum Opened {
    /// A regular file, open for reading.
    File(Arc<dyn OpenFile>),
    /// A directory, by its real path.
    Directory(PathBuf),
}

/// A regular file, open for reading.
pub trait OpenFile: Send + Sync {
    /// The metadata at the time of opening; its path is the resolved one.
    fn metadata(&self) -> &FileMetadata;

    /// Reads at a position; 0 at the end.
    ///
    /// # Errors
    /// Names the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, ToolError>;
}

/// Maximum size of files that are read into memory as a whole.
pub const MAX_WHOLE_FILE_BYTES: u64 = 64 << 20;

impl dyn OpenFile + '_ {
    /// Reads the whole content.
    ///
    /// # Errors
    /// Of kind `too_large` beyond [`MAX_WHOLE_FILE_BYTES`].
    pub fn read_whole(&self) -> Result<Vec<u8>, ToolError> {
        let FileMetadata { path, size, .. } = self.metadata();
        if *size > MAX_WHOLE_FILE_BYTES {
            return Err(too_large(path, *size));
        }
        let expected = usize::try_from(*size).unwrap_or(usize::MAX);
        // One byte more than expected, so that a full buffer shows that the file has grown.
        let mut bytes = vec![0; expected.saturating_add(1)];
        let mut filled = 0;
        loop {
            let read = self.read_at(&mut bytes[filled..], filled as u64)?;
            if read == 0 {
                bytes.truncate(filled);
                return Ok(bytes);
            }
            filled += read;
            if filled == bytes.len() {
                if filled as u64 > MAX_WHOLE_FILE_BYTES {
                    return Err(too_large(path, filled as u64));
                }
                bytes.resize(filled * 2, 0);
            }
        }
    }
}

fn too_large(path: &Path, size: u64) -> ToolError {
    let (path, limit) = (path.display(), MAX_WHOLE_FILE_BYTES >> 20);
    let message = format!("`{path}` has {size} bytes; files above {limit} MiB cannot be edited");
    ToolError::new(ErrorKind::TooLarge, message)
        .hint("read a part of it with offset and limit, or change it with a program")
}

/// The permission of a capability to open files. The backend checks it for every path that it
/// really opens.
#[derive(Clone)]
pub struct FileGrant {
    grants: Option<Grants>,
    kind: fn(PathBuf) -> Access,
    scope: GrantScope,
    journal_writer: Option<JournalWriter>,
}

impl fmt::Debug for FileGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileGrant({:?})", self.scope)
    }
}

/// The scope of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GrantScope {
    /// The accesses that the call was granted.
    Granted,
    /// Everything that no rule and no secret path closes. For programs, which open any file.
    NotClosed,
}

impl FileGrant {
    /// A grant without checks, for accesses that are permitted in another way.
    pub fn none() -> Self {
        Self::granted(None, Access::Read)
    }

    fn granted(grants: Option<Grants>, kind: fn(PathBuf) -> Access) -> Self {
        Self { grants, kind, scope: GrantScope::Granted, journal_writer: None }
    }

    /// Permits reading everything that is not closed to a call, whatever it was granted.
    pub(crate) fn for_programs(grants: Option<Grants>) -> Self {
        Self { grants, kind: Access::Read, scope: GrantScope::NotClosed, journal_writer: None }
    }

    /// The journal writer to report changes to before they are made, if there is one.
    pub fn journal_writer(&self) -> Option<&JournalWriter> {
        self.journal_writer.as_ref()
    }

    /// Returns true if both give the same answer for every path, so that results for one can be
    /// cached for the other.
    pub fn is_equivalent_to(&self, other: &Self) -> bool {
        match (&self.grants, &other.grants) {
            (None, None) => true,
            (Some(grants), Some(others)) => {
                // Other scopes depend on what was granted, which may differ between calls.
                let are_not_closed =
                    [self, other].iter().all(|it| it.scope == GrantScope::NotClosed);
                let is_same_kind = (self.kind)(PathBuf::new()) == (other.kind)(PathBuf::new());
                are_not_closed && is_same_kind && grants.is_equivalent_to(others, self.kind)
            }
            _ => false,
        }
    }

    /// Checks whether a path may be opened.
    ///
    /// # Errors
    /// Of kind `denied`, naming the rule or secret path.
    pub fn check(&self, path: &Path) -> Result<(), ToolError> {
        match &self.grants {
            Some(grants) => grants.check(&(self.kind)(path.to_owned())),
            None => Ok(()),
        }
    }

    /// The resolved path of a named path, if the gate saw a regular file there. The path may have
    /// changed since, so the backend must make sure that it opens nothing else.
    pub fn resolved_file(&self, named: &Path) -> Option<&Path> {
        self.grants.as_ref()?.resolved_file(named)
    }

    /// Returns true if a rule or secret path closes a path, whatever the call was granted. Closed
    /// paths are not even named.
    pub fn hides(&self, path: &Path) -> bool {
        self.grants.as_ref().is_some_and(|grants| grants.closes(&(self.kind)(path.to_owned())))
    }

    /// The same as `check` without an error message, for walks that skip closed paths.
    pub fn permits(&self, path: &Path) -> bool {
        self.grants.as_ref().is_none_or(|grants| match self.scope {
            GrantScope::Granted => grants.permits(path, self.kind),
            GrantScope::NotClosed => grants.leaves_open(path, self.kind),
        })
    }
}

/// The capability to read files of the workspace.
#[derive(Clone)]
pub struct ReadFiles {
    disk: Arc<dyn Disk>,
    grant: FileGrant,
}

/// The capability to change files of the workspace.
#[derive(Clone)]
pub struct WriteFiles {
    disk: Arc<dyn Disk>,
    grant: FileGrant,
}

#[diagnostic::do_not_recommend]
impl Capability for ReadFiles {
    const NEED: Need = Need::required(Power::ReadFiles);

    fn from_call(call: &Call) -> Result<Self, ToolError> {
        let grants = Some(call.grants().clone());
        Ok(Self { disk: call.service()?, grant: FileGrant::granted(grants, Access::Read) })
    }
}

#[diagnostic::do_not_recommend]
impl Capability for WriteFiles {
    const NEED: Need = Need::required(Power::WriteFiles);

    fn from_call(call: &Call) -> Result<Self, ToolError> {
        let mut grant = FileGrant::granted(Some(call.grants().clone()), Access::Write);
        grant.journal_writer = JournalWriter::of(call);
        Ok(Self { disk: call.service()?, grant })
    }
}

impl ReadFiles {
    /// Reads everything the disk can reach, for calling a tool's function directly.
    pub fn unchecked(disk: Arc<dyn Disk>) -> Self {
        Self { disk, grant: FileGrant::granted(None, Access::Read) }
    }

    /// Checks whether a path that another capability opened may be read. The path must be the
    /// resolved one.
    ///
    /// # Errors
    /// Of kind `denied`, naming the rule or secret path.
    pub fn check(&self, path: &Path) -> Result<(), ToolError> {
        self.grant.check(path)
    }

    /// Opens a file, or returns that it is a directory.
    ///
    /// # Errors
    /// As [`Disk::open`].
    pub fn open(&self, path: &Path) -> Result<Opened, ToolError> {
        self.disk.open(path, &self.grant)
    }

    /// Opens a file.
    ///
    /// # Errors
    /// As [`Disk::open`]; of kind `input` for a directory.
    pub fn open_file(&self, path: &Path) -> Result<Arc<dyn OpenFile>, ToolError> {
        match self.open(path)? {
            Opened::File(file) => Ok(file),
            Opened::Directory(path) => Err(is_directory(&path)),
        }
    }

    /// Returns the state of a path, with the hash of a file's content.
    ///
    /// # Errors
    /// As [`Disk::path_state`].
    pub fn path_state(&self, path: &Path) -> Result<PathState, ToolError> {
        self.disk.path_state(path, &self.grant)
    }

    /// Returns the metadata of a path.
    ///
    /// # Errors
    /// As [`Disk::metadata`].
    pub fn metadata(&self, path: &Path) -> Result<FileMetadata, ToolError> {
        self.disk.metadata(path, &self.grant)
    }

    /// Returns the entries of a directory.
    ///
    /// # Errors
    /// As [`Disk::entries`].
    pub fn entries(&self, path: &Path) -> Result<Listing, ToolError> {
        self.disk.entries(path, &self.grant)
    }

    /// Finds files whose paths match a glob.
    ///
    /// # Errors
    /// As [`Disk::find`].
    pub fn find(&self, query: &FindFiles, stop: ShouldStop<'_>) -> Result<FoundFiles, ToolError> {
        self.disk.find(query, &self.grant, stop)
    }

    /// Finds lines that match a pattern.
    ///
    /// # Errors
    /// As [`Disk::search`].
    pub fn search(
        &self,
        query: &SearchFiles,
        stop: ShouldStop<'_>,
    ) -> Result<SearchResult, ToolError> {
        self.disk.search(query, &self.grant, stop)
    }

    /// Returns the tree below a directory.
    ///
    /// # Errors
    /// As [`Disk::tree`].
    pub fn tree(&self, query: &WalkTree, stop: ShouldStop<'_>) -> Result<TreeListing, ToolError> {
        self.disk.tree(query, &self.grant, stop)
    }

    /// Returns the positions of lines in files that were read before.
    pub fn line_indexes(&self) -> &LineIndexes {
        self.disk.line_indexes()
    }
}

impl WriteFiles {
    /// Changes everything the disk can reach, for calling a tool's function directly.
    pub fn unchecked(disk: Arc<dyn Disk>) -> Self {
        Self { disk, grant: FileGrant::granted(None, Access::Write) }
    }

    /// Reports changes to this journal writer.
    #[must_use]
    pub fn with_journal_writer(mut self, journal_writer: JournalWriter) -> Self {
        self.grant.journal_writer = Some(journal_writer);
        self
    }

    /// Returns true if changes are recorded, so that they can be undone.
    pub fn has_journal_writer(&self) -> bool {
        self.grant.journal_writer.is_some()
    }

    /// Records only the names of removed files, not their content.
    #[must_use]
    pub fn without_undo(mut self) -> Self {
        self.grant.journal_writer = self
            .grant
            .journal_writer
            .map(|journal_writer| journal_writer.with_pre_images(PreImages::Names));
        self
    }

    /// Records changes as undoing earlier journal entries, given by path.
    #[must_use]
    pub fn undoing(mut self, undoes: HashMap<PathBuf, Vec<u64>>) -> Self {
        self.grant.journal_writer =
            self.grant.journal_writer.map(|journal_writer| journal_writer.undoing(undoes));
        self
    }

    /// Restores the permissions of a directory.
    ///
    /// # Errors
    /// As [`Disk::set_directory_mode`].
    pub fn set_directory_mode(&self, path: &Path, mode: u32) -> Result<(), ToolError> {
        self.disk.set_directory_mode(path, mode, &self.grant)
    }

    /// Restores files and links to earlier states, all or nothing.
    ///
    /// # Errors
    /// As [`Disk::restore`].
    pub fn restore(&self, steps: &[PathRestore]) -> Result<(), ToolError> {
        self.disk.restore(steps, &self.grant)
    }

    /// Returns the stamps of all files.
    ///
    /// # Errors
    /// As [`Disk::scan`].
    pub fn scan(&self, max_files: usize, stop: ShouldStop<'_>) -> Result<WorkspaceScan, ToolError> {
        self.disk.scan(max_files, &self.grant, stop)
    }

    /// Changes files, all or nothing.
    ///
    /// # Errors
    /// As [`Disk::change`].
    pub fn change(&self, paths: &[PathBuf], plan: PlanChanges<'_>) -> Result<(), ToolError> {
        self.disk.change(paths, &self.grant, plan)
    }

    /// Renames a file, link or directory.
    ///
    /// # Errors
    /// As [`Disk::rename`].
    pub fn rename(
        &self,
        from: &Path,
        to: &Path,
        replace: bool,
    ) -> Result<(PathBuf, PathBuf), ToolError> {
        self.disk.rename(from, to, replace, &self.grant)
    }

    /// Removes a file, link or directory.
    ///
    /// # Errors
    /// As [`Disk::remove`].
    pub fn remove(&self, path: &Path, recursive: bool) -> Result<(PathBuf, u64), ToolError> {
        self.disk.remove(path, recursive, &self.grant)
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// As [`Disk::make_directory`].
    pub fn make_directory(&self, path: &Path) -> Result<(PathBuf, bool), ToolError> {
        self.disk.make_directory(path, &self.grant)
    }
}

/// The error of a tool that needs a file and was given a directory.
pub fn is_directory(path: &Path) -> ToolError {
    ToolError::input(format!("`{}` is a directory, not a file", path.display()))
        .hint("name a file in it; use `list` to see its entries")
}
