//! Files as tools see them: two capabilities, and the backend that really opens things. Core knows no disk; `haft-exec`
//! implements [`Disk`], and a capability without one says so.
//!
//! The methods are not async on purpose: a file in the page cache is read faster than a task is woken. Work that may
//! take long goes through [`lengthy`](crate::spawn_blocking).

mod change;
mod closed;
mod facts;
mod lines;
mod scan;
mod search;

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

pub use self::{
    change::{ChangeTarget, CurrentState, PathRestore, PlanChanges, PlannedChange, RestoredState},
    closed::ClosedPath,
    facts::{DirectoryEntry, FileKind, FileMetadata, Listing, MAX_HASHED_BYTES, Version},
    lines::LineIndexes,
    scan::{ChangedFile, FileChange, FileStamp, WorkspaceScan},
    search::{
        FileMatches, FindFiles, FoundFile, FoundFiles, MatchLine, SearchFiles, SearchResult,
        ShouldStop, TreeEntry, TreeListing, WalkTree,
    },
};
use crate::{
    Access, Call, Capability, ErrorKind, Grants, JournalWriter, Need, PathState, Power, PreImages,
    ToolError,
};

/// What opens and changes files. Every method resolves the path itself, follows links only inside the workspace, and
/// asks the warrant about the path that is really opened, not the one that was named.
pub trait Disk: Send + Sync {
    /// Opens a regular file, or finds that it is a directory. Anything else fails at once.
    ///
    /// # Errors
    /// Names the path as the workspace knows it; `not_found` carries near names.
    fn open(&self, path: &Path, grant: &FileGrant) -> Result<Opened, ToolError>;

    /// What is known without opening. The last link of the path is not followed.
    ///
    /// # Errors
    /// As for [`Disk::open`].
    fn metadata(&self, path: &Path, grant: &FileGrant) -> Result<FileMetadata, ToolError>;

    /// What a directory holds, by name, without what the warrant hides.
    ///
    /// # Errors
    /// As for [`Disk::open`].
    fn entries(&self, path: &Path, grant: &FileGrant) -> Result<Listing, ToolError>;

    /// Files whose paths fit a glob.
    ///
    /// # Errors
    /// When the glob is none or the directory cannot be opened. What cannot be read below it is counted.
    fn find(
        &self,
        query: &FindFiles,
        grant: &FileGrant,
        stop: ShouldStop<'_>,
    ) -> Result<FoundFiles, ToolError>;

    /// Lines that match a pattern.
    ///
    /// # Errors
    /// When the pattern or the glob is none, or the path cannot be opened.
    fn search(
        &self,
        query: &SearchFiles,
        grant: &FileGrant,
        stop: ShouldStop<'_>,
    ) -> Result<SearchResult, ToolError>;

    /// The tree below a directory, level by level until a limit is reached.
    ///
    /// # Errors
    /// When the directory cannot be opened.
    fn tree(
        &self,
        query: &WalkTree,
        grant: &FileGrant,
        stop: ShouldStop<'_>,
    ) -> Result<TreeListing, ToolError>;

    /// Every file there is, as it looks from outside, without what ignore files name and what the warrant hides. With
    /// more than so many it is broken off.
    ///
    /// # Errors
    /// When a root cannot be opened.
    fn scan(
        &self,
        most: usize,
        grant: &FileGrant,
        stop: ShouldStop<'_>,
    ) -> Result<WorkspaceScan, ToolError>;

    /// Changes some files, all or nothing. The paths are opened and held against other processes, `plan` says what is
    /// to become of them, and nothing is touched before all of it is ready. Missing directories are made.
    ///
    /// # Errors
    /// The plan's own, or what hindered the change; then everything is as before.
    fn change(
        &self,
        paths: &[PathBuf],
        grant: &FileGrant,
        plan: PlanChanges<'_>,
    ) -> Result<(), ToolError>;

    /// What has a path, with the hash of a file's content. The last link is not followed.
    ///
    /// # Errors
    /// When it cannot be looked at; that there is nothing is no error.
    fn path_state(&self, path: &Path, grant: &FileGrant) -> Result<PathState, ToolError>;

    /// Brings files and links to earlier states, all or nothing, as [`Disk::change`] does; the last links of the paths are not
    /// followed.
    ///
    /// # Errors
    /// Of kind `conflict` when one is not in the state that is expected; then everything is as before.
    fn restore(&self, steps: &[PathRestore], grant: &FileGrant) -> Result<(), ToolError>;

    /// Gives a file, link or directory another place; returns the old and the new path.
    ///
    /// # Errors
    /// Of kind `conflict` when there is something at `to` and it may not be replaced.
    fn rename(
        &self,
        from: &Path,
        to: &Path,
        replace: bool,
        grant: &FileGrant,
    ) -> Result<(PathBuf, PathBuf), ToolError>;

    /// Removes a file, a link or a directory; returns its path and how many entries went.
    ///
    /// # Errors
    /// Of kind `conflict` for a directory that is not empty, unless `recursive`.
    fn remove(
        &self,
        path: &Path,
        recursive: bool,
        grant: &FileGrant,
    ) -> Result<(PathBuf, u64), ToolError>;

    /// Makes a directory and those above it; returns its path, and false when it was there already.
    ///
    /// # Errors
    /// Of kind `conflict` when something else has the name.
    fn make_directory(&self, path: &Path, grant: &FileGrant) -> Result<(PathBuf, bool), ToolError>;

    /// Gives a directory its permissions back.
    ///
    /// # Errors
    /// When it is none, or not ours.
    fn set_directory_mode(
        &self,
        path: &Path,
        mode: u32,
        grant: &FileGrant,
    ) -> Result<(), ToolError>;

    /// Where lines begin in files that were read before.
    fn line_indexes(&self) -> &LineIndexes;
}

/// What a path turned out to be.
pub enum Opened {
    /// A regular file, open for reading.
    File(Arc<dyn OpenFile>),
    /// A directory, by its real path.
    Directory(PathBuf),
}

/// A regular file, open for reading.
pub trait OpenFile: Send + Sync {
    /// What was known of it when it was opened; its path is the real one.
    fn metadata(&self) -> &FileMetadata;

    /// Reads from a place; 0 at the end.
    ///
    /// # Errors
    /// Names the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, ToolError>;
}

/// The longest file that is taken into memory whole.
pub const MAX_WHOLE_FILE_BYTES: u64 = 64 << 20;

impl dyn OpenFile + '_ {
    /// The whole content.
    ///
    /// # Errors
    /// Of kind `too_large` beyond [`MAX_WHOLE_FILE_BYTES`].
    pub fn read_whole(&self) -> Result<Vec<u8>, ToolError> {
        let FileMetadata { path, size, .. } = self.metadata();
        if *size > MAX_WHOLE_FILE_BYTES {
            return Err(too_large(path, *size));
        }
        let expected = usize::try_from(*size).unwrap_or(usize::MAX);
        // One more than expected: a full buffer would not tell a grown file from a finished one.
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
    let message = format!("`{path}` has {size} bytes; files above {limit} MiB are not edited");
    ToolError::new(ErrorKind::TooLarge, message)
        .hint("read a part of it with offset and limit, or change it with a program")
}

/// A capability's right to open things, which the backend asks about every path it really opens.
#[derive(Clone)]
pub struct FileGrant {
    grants: Option<Grants>,
    kind: fn(PathBuf) -> Access,
    extent: GrantScope,
    journal_writer: Option<JournalWriter>,
}

impl fmt::Debug for FileGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileGrant({:?})", self.extent)
    }
}

/// How far a warrant goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GrantScope {
    /// To what the call was granted.
    Granted,
    /// To all that neither a rule nor secrecy closes. For programs, which open what they like.
    NotClosed,
}

impl FileGrant {
    /// Asks nobody, for what a call reaches by another right than to its files.
    pub fn none() -> Self {
        Self::granted(None, Access::Read)
    }

    fn granted(grants: Option<Grants>, kind: fn(PathBuf) -> Access) -> Self {
        Self { grants, kind, extent: GrantScope::Granted, journal_writer: None }
    }

    /// To read all that is not closed to a call, whatever it was granted.
    pub(crate) fn of_what_is_open(grants: Option<Grants>) -> Self {
        Self { grants, kind: Access::Read, extent: GrantScope::NotClosed, journal_writer: None }
    }

    /// Who is to be told of changes before they are made, if anybody.
    pub fn journal_writer(&self) -> Option<&JournalWriter> {
        self.journal_writer.as_ref()
    }

    /// Whether every path gets the same answer from both, so that what one was told can be kept for the other.
    pub fn is_equivalent_to(&self, other: &Self) -> bool {
        match (&self.grants, &other.grants) {
            (None, None) => true,
            (Some(grants), Some(others)) => {
                // Elsewhere it counts what was granted, which may be something else in each call.
                let are_wide = [self, other].iter().all(|it| it.extent == GrantScope::NotClosed);
                let is_same_kind = (self.kind)(PathBuf::new()) == (other.kind)(PathBuf::new());
                are_wide && is_same_kind && grants.is_equivalent_to(others, self.kind)
            }
            _ => false,
        }
    }

    /// Whether this may be opened.
    ///
    /// # Errors
    /// Of kind `denied`, naming what closes it.
    pub fn check(&self, path: &Path) -> Result<(), ToolError> {
        match &self.grants {
            Some(grants) => grants.check(&(self.kind)(path.to_owned())),
            None => Ok(()),
        }
    }

    /// Where a named path led when the gate looked, if it saw a regular file there. It may have changed since: whoever
    /// opens it must be sure to open nothing else.
    pub fn seen_file(&self, named: &Path) -> Option<&Path> {
        self.grants.as_ref()?.seen_file(named)
    }

    /// Whether rules or secrecy close a path, whether or not the call was granted it. What is closed is not even named.
    pub fn hides(&self, path: &Path) -> bool {
        self.grants.as_ref().is_some_and(|grants| grants.closes(&(self.kind)(path.to_owned())))
    }

    /// The same for walks, which pass over what is closed: no message is made.
    pub fn permits(&self, path: &Path) -> bool {
        self.grants.as_ref().is_none_or(|grants| match self.extent {
            GrantScope::Granted => grants.permits(path, self.kind),
            GrantScope::NotClosed => grants.leaves_open(path, self.kind),
        })
    }
}

/// The power to read files of the workspace.
#[derive(Clone)]
pub struct ReadFiles {
    disk: Arc<dyn Disk>,
    grant: FileGrant,
}

/// The power to change files of the workspace.
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
    /// Reads whatever the disk reaches; for calling a tool's function directly.
    pub fn unchecked(disk: Arc<dyn Disk>) -> Self {
        Self { disk, grant: FileGrant::granted(None, Access::Read) }
    }

    /// Whether a path that some other capability opened may be read. The path must be the real one.
    ///
    /// # Errors
    /// Of kind `denied`, naming what closes it.
    pub fn check(&self, path: &Path) -> Result<(), ToolError> {
        self.grant.check(path)
    }

    /// Opens a file, or finds that it is a directory.
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

    /// What has a path, with the hash of a file's content.
    ///
    /// # Errors
    /// As [`Disk::image`].
    pub fn path_state(&self, path: &Path) -> Result<PathState, ToolError> {
        self.disk.path_state(path, &self.grant)
    }

    /// What is known of a path.
    ///
    /// # Errors
    /// As [`Disk::metadata`].
    pub fn metadata(&self, path: &Path) -> Result<FileMetadata, ToolError> {
        self.disk.metadata(path, &self.grant)
    }

    /// What a directory holds.
    ///
    /// # Errors
    /// As [`Disk::entries`].
    pub fn entries(&self, path: &Path) -> Result<Listing, ToolError> {
        self.disk.entries(path, &self.grant)
    }

    /// Files whose paths fit a glob.
    ///
    /// # Errors
    /// As [`Disk::find`].
    pub fn find(&self, query: &FindFiles, stop: ShouldStop<'_>) -> Result<FoundFiles, ToolError> {
        self.disk.find(query, &self.grant, stop)
    }

    /// Lines that match a pattern.
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

    /// The tree below a directory.
    ///
    /// # Errors
    /// As [`Disk::tree`].
    pub fn tree(&self, query: &WalkTree, stop: ShouldStop<'_>) -> Result<TreeListing, ToolError> {
        self.disk.tree(query, &self.grant, stop)
    }

    /// Where lines begin in files that were read before.
    pub fn line_indexes(&self) -> &LineIndexes {
        self.disk.line_indexes()
    }
}

impl WriteFiles {
    /// Changes whatever the disk reaches; for calling a tool's function directly.
    pub fn unchecked(disk: Arc<dyn Disk>) -> Self {
        Self { disk, grant: FileGrant::granted(None, Access::Write) }
    }

    /// The same, telling somebody of its changes.
    #[must_use]
    pub fn with_journal_writer(mut self, journal_writer: JournalWriter) -> Self {
        self.grant.journal_writer = Some(journal_writer);
        self
    }

    /// Whether changes are kept, so that they can be taken back.
    pub fn has_journal_writer(&self) -> bool {
        self.grant.journal_writer.is_some()
    }

    /// The same, but what goes is not kept, only that it was there.
    #[must_use]
    pub fn without_undo(mut self) -> Self {
        self.grant.journal_writer = self
            .grant
            .journal_writer
            .map(|journal_writer| journal_writer.with_pre_images(PreImages::Names));
        self
    }

    /// The same, taking back earlier entries of the journal: which ones, by the path that changes.
    #[must_use]
    pub fn undoing(mut self, undoes: HashMap<PathBuf, Vec<u64>>) -> Self {
        self.grant.journal_writer =
            self.grant.journal_writer.map(|journal_writer| journal_writer.undoing(undoes));
        self
    }

    /// Gives a directory its permissions back.
    ///
    /// # Errors
    /// As [`Disk::set_directory_mode`].
    pub fn set_directory_mode(&self, path: &Path, mode: u32) -> Result<(), ToolError> {
        self.disk.set_directory_mode(path, mode, &self.grant)
    }

    /// Brings files and links to earlier states, all or nothing.
    ///
    /// # Errors
    /// As [`Disk::restore`].
    pub fn restore(&self, steps: &[PathRestore]) -> Result<(), ToolError> {
        self.disk.restore(steps, &self.grant)
    }

    /// Every file there is, as it looks from outside.
    ///
    /// # Errors
    /// As [`Disk::survey`].
    pub fn scan(&self, most: usize, stop: ShouldStop<'_>) -> Result<WorkspaceScan, ToolError> {
        self.disk.scan(most, &self.grant, stop)
    }

    /// Changes some files, all or nothing.
    ///
    /// # Errors
    /// As [`Disk::change`].
    pub fn change(&self, paths: &[PathBuf], plan: PlanChanges<'_>) -> Result<(), ToolError> {
        self.disk.change(paths, &self.grant, plan)
    }

    /// Gives something another place.
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

    /// Removes something.
    ///
    /// # Errors
    /// As [`Disk::remove`].
    pub fn remove(&self, path: &Path, recursive: bool) -> Result<(PathBuf, u64), ToolError> {
        self.disk.remove(path, recursive, &self.grant)
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// As [`Disk::make_directory`].
    pub fn make_directory(&self, path: &Path) -> Result<(PathBuf, bool), ToolError> {
        self.disk.make_directory(path, &self.grant)
    }
}

/// What a tool says that wants a file and was given a directory.
pub fn is_directory(path: &Path) -> ToolError {
    ToolError::input(format!("`{}` is a directory, not a file", path.display()))
        .hint("name a file in it; `list` shows what there is")
}
