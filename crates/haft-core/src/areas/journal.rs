//! The journal of file changes: the state before each change, stored so that the change can be
//! undone. Code that changes files reports to a [`JournalWriter`] before the change. Core stores
//! nothing itself; the store does.
//!
//! Today only the file tools report changes. The types also fit the changes of a command: scans
//! before and after it give the same entries.

use std::{
    collections::HashMap,
    fmt,
    ops::Deref,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use crate::{BoxFuture, Call, CallInfo, Capability, Need, Power, ToolError, files::Version};

/// The content of a file, by its blake3 hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub [u8; 32]);

impl ContentHash {
    /// The hash of a content.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The hash of a content that is read in pieces.
    ///
    /// # Errors
    /// Those of `next`, which returns 0 at the end.
    pub fn of_pieces<E>(mut next: impl FnMut(&mut [u8]) -> Result<usize, E>) -> Result<Self, E> {
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            match next(&mut buffer)? {
                0 => return Ok(Self(*hasher.finalize().as_bytes())),
                read => hasher.update(&buffer[..read]),
            };
        }
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The content of a file. Its hash is computed at most once, because files may be large.
#[derive(Clone, Default)]
pub struct Content {
    bytes: Vec<u8>,
    hash: OnceLock<ContentHash>,
}

impl Content {
    /// The hash of the content.
    pub fn hash(&self) -> ContentHash {
        *self.hash.get_or_init(|| ContentHash::of(&self.bytes))
    }

    /// The version of a file with this content.
    pub fn version(&self) -> Version {
        Version::of_hashed(&self.bytes, || self.hash())
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, hash: OnceLock::new() }
    }
}

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Content {}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes.fmt(f)
    }
}

/// The state of a path at some moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathState {
    /// Nothing.
    Missing,
    /// A regular file.
    File {
        /// Hash of the content; `None` if it was not read, because it does not matter or is not
        /// stored.
        hash: Option<ContentHash>,
        /// Permission bits.
        mode: u32,
        /// In bytes.
        size: u64,
    },
    /// A symbolic link.
    Link {
        /// The target, as written in the link.
        to: PathBuf,
    },
    /// A directory.
    Directory {
        /// Permission bits.
        mode: u32,
    },
    /// A pipe, a socket or a device: never changed, and never stored.
    Other,
}

impl PathState {
    /// Returns true if the recorded state `self` matches the current one. Permissions are compared
    /// separately, so that a `chmod` by the user neither prevents an undo nor is lost by it.
    pub fn fits(&self, found: &Self) -> bool {
        match (self, found) {
            (Self::File { hash: None, .. }, Self::File { .. })
            | (Self::Directory { .. }, Self::Directory { .. }) => true,
            (Self::File { hash, .. }, Self::File { hash: found, .. }) => hash == found,
            (a, b) => a == b,
        }
    }

    /// The name of the state, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Missing => "nothing",
            Self::File { .. } => "file",
            Self::Link { .. } => "link",
            Self::Directory { .. } => "directory",
            Self::Other => "special file",
        }
    }
}

/// The planned change of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJournalEntry {
    /// The path as the workspace shows it.
    pub path: PathBuf,
    /// The current state.
    pub before: PathState,
    /// The content, if a file exists.
    pub content: Option<Vec<u8>>,
    /// The planned state.
    pub after: PathState,
    /// The old path, if the file is moved.
    pub moved_from: Option<PathBuf>,
}

impl NewJournalEntry {
    /// A new file or directory at a path where nothing exists.
    pub fn created(path: PathBuf, after: PathState) -> Self {
        Self { path, before: PathState::Missing, content: None, after, moved_from: None }
    }
}

/// A change that is about to be made.
#[derive(Debug)]
pub struct NewChange<'a> {
    /// The call that makes the change.
    pub call: &'a CallInfo,
    /// The tool.
    pub tool: &'a str,
    /// The entries of the change.
    pub entries: &'a [NewJournalEntry],
    /// For each entry, in the same order, the earlier entries that it undoes.
    pub undoes: &'a [Vec<u64>],
}

/// The recorded change of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalEntry {
    /// The number of the entry.
    pub id: u64,
    /// The path as the workspace shows it.
    pub path: PathBuf,
    /// The state before the change.
    pub before: PathState,
    /// The state after the change.
    pub after: PathState,
    /// The old path, if the file was moved.
    pub moved_from: Option<PathBuf>,
    /// The entry that undid this one; its own number if it was found to be undone already.
    pub undone_by: Option<u64>,
}

impl JournalEntry {
    /// Creates an entry that is not undone.
    pub fn new(id: u64, path: PathBuf, before: PathState, after: PathState) -> Self {
        Self { id, path, before, after, moved_from: None, undone_by: None }
    }
}

/// A recorded change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalChange {
    /// The number of the change; later changes have larger numbers.
    pub number: u64,
    /// The call that made it.
    pub call_id: String,
    /// The session of the call.
    pub session: String,
    /// The tool.
    pub tool: String,
    /// Time in milliseconds since 1970.
    pub at_ms: u64,
    /// The entries of the change, in order.
    pub entries: Vec<JournalEntry>,
    /// Number of further entries that were deleted to free space.
    pub collected: u64,
}

impl JournalChange {
    /// Creates a change without entries.
    pub fn new(number: u64, call_id: &str, session: &str, tool: &str, at_ms: u64) -> Self {
        let (call_id, session, tool) = (call_id.to_owned(), session.to_owned(), tool.to_owned());
        Self { number, call_id, session, tool, at_ms, entries: Vec::new(), collected: 0 }
    }
}

/// A filter for changes; all conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeQuery {
    /// Changes of this call.
    pub call_id: Option<String>,
    /// Changes of this session.
    pub session: Option<String>,
    /// Changes of this tool.
    pub tool: Option<String>,
    /// Changes since this time, in milliseconds since 1970.
    pub since_ms: u64,
    /// Changes with a smaller number, for the next page.
    pub below: Option<u64>,
    /// Changes with one of these numbers, if any are given.
    pub numbers: Vec<u64>,
    /// Maximum number of changes.
    pub limit: usize,
}

/// A store of changes.
pub trait Journal: Send + Sync {
    /// Records what is needed to undo a change, and returns the number of the change. Called when
    /// everything is prepared and before the first file is replaced. Once it returns, a crash
    /// cannot lose the record.
    ///
    /// # Errors
    /// If the record cannot be written; then the change is not made.
    fn begin(&self, change: &NewChange<'_>) -> Result<u64, ToolError>;

    /// Records that the change was made: the entries that it undoes now count as undone. Also a
    /// good time for maintenance.
    fn commit(&self, number: u64);

    /// Records that the change was not made.
    fn abort(&self, number: u64);

    /// Returns changes in `workspace`, newest first.
    fn find<'a>(
        &'a self,
        workspace: &'a Path,
        which: &'a ChangeQuery,
    ) -> BoxFuture<'a, Result<Vec<JournalChange>, ToolError>>;

    /// Returns the content with this hash, if it is stored.
    fn content(&self, hash: ContentHash) -> BoxFuture<'_, Result<Option<Vec<u8>>, ToolError>>;

    /// Marks entries as undone that were found to be: undone by hand, or never made.
    fn mark_undone<'a>(&'a self, entries: &'a [u64]) -> BoxFuture<'a, Result<(), ToolError>>;
}

/// How much of the previous state is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreImages {
    /// The content, so that the change can be undone.
    Content,
    /// Only the names: a person or a model asked for that.
    Names,
}

/// Reports the changes of one call to the journal.
#[derive(Clone)]
pub struct JournalWriter {
    journal: Arc<dyn Journal>,
    call: Arc<CallInfo>,
    tool: Arc<str>,
    pre_images: PreImages,
    /// The earlier entries that a new entry for a path undoes.
    undoes: Arc<HashMap<PathBuf, Vec<u64>>>,
}

impl JournalWriter {
    /// Creates the writer of a call.
    pub fn new(journal: Arc<dyn Journal>, call: Arc<CallInfo>, tool: &str) -> Self {
        Self {
            journal,
            call,
            tool: tool.into(),
            pre_images: PreImages::Content,
            undoes: Arc::default(),
        }
    }

    pub(crate) fn of(call: &Call) -> Option<Self> {
        let journal = call.maybe_service::<dyn Journal>()?;
        Some(Self::new(journal, call.info().clone(), call.grants().tool()))
    }

    #[must_use]
    pub(crate) fn with_pre_images(mut self, pre_images: PreImages) -> Self {
        self.pre_images = pre_images;
        self
    }

    #[must_use]
    pub(crate) fn undoing(mut self, undoes: HashMap<PathBuf, Vec<u64>>) -> Self {
        self.undoes = Arc::new(undoes);
        self
    }

    /// How much of the previous state is to be stored.
    pub fn pre_images(&self) -> PreImages {
        self.pre_images
    }

    /// Reports a change that is about to be made.
    ///
    /// # Errors
    /// If the record cannot be written; then the change must not be made.
    pub fn begin(&self, entries: &[NewJournalEntry]) -> Result<OpenChange, ToolError> {
        let undone =
            |entry: &NewJournalEntry| self.undoes.get(&entry.path).cloned().unwrap_or_default();
        let undoes: Vec<Vec<u64>> = entries.iter().map(undone).collect();
        let change = NewChange { call: &self.call, tool: &self.tool, entries, undoes: &undoes };
        let number =
            self.journal.begin(&change).map_err(|error| self.not_recorded(entries, error))?;
        Ok(OpenChange { journal: self.journal.clone(), number: Some(number) })
    }

    fn not_recorded(&self, entries: &[NewJournalEntry], error: ToolError) -> ToolError {
        let first = entries.first().map_or(Path::new("."), |entry| &entry.path).display();
        let message = format!(
            "`{first}` was not changed, because its current state could not be stored for undo: \
             {error}"
        );
        let hint = format!(
            "{}; a person can disable undo with `record = false` under [journal]",
            error.next_step()
        );
        ToolError::unavailable(message).hint(hint)
    }
}

/// A recorded change in progress. If dropped without [`OpenChange::commit`], it is recorded as not
/// made.
#[must_use]
pub struct OpenChange {
    journal: Arc<dyn Journal>,
    number: Option<u64>,
}

impl OpenChange {
    /// Records that the change was made.
    pub fn commit(mut self) {
        if let Some(number) = self.number.take() {
            self.journal.commit(number);
        }
    }

    /// Leaves the record as it is, because part of the change may have been made. An undo then
    /// compares the current state.
    pub fn in_doubt(mut self) {
        self.number = None;
    }
}

impl Drop for OpenChange {
    fn drop(&mut self) {
        if let Some(number) = self.number.take() {
            self.journal.abort(number);
        }
    }
}

/// The power to read the journal.
#[derive(Clone)]
pub struct ReadJournal {
    journal: Arc<dyn Journal>,
    workspace: PathBuf,
}

#[diagnostic::do_not_recommend]
impl Capability for ReadJournal {
    const NEED: Need = Need::required(Power::ReadStore);

    fn from_call(call: &Call) -> Result<Self, ToolError> {
        let journal = call.maybe_service::<dyn Journal>().ok_or_else(|| {
            ToolError::unavailable("this program has no journal of changes")
                .hint("a person can enable it with `record = true` under [journal]")
        })?;
        Ok(Self { journal, workspace: call.info().workspace.clone() })
    }
}

impl ReadJournal {
    /// The journal of a workspace, for calling a tool's function directly.
    pub fn unchecked(journal: Arc<dyn Journal>, workspace: PathBuf) -> Self {
        Self { journal, workspace }
    }

    /// Returns changes, newest first.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn find(&self, which: &ChangeQuery) -> Result<Vec<JournalChange>, ToolError> {
        self.journal.find(&self.workspace, which).await
    }

    /// Returns the content with this hash, if it is stored.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn content(&self, hash: ContentHash) -> Result<Option<Vec<u8>>, ToolError> {
        self.journal.content(hash).await
    }

    /// Marks entries as undone that were found to be undone already. Only corrects the record.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub async fn mark_undone(&self, entries: &[u64]) -> Result<(), ToolError> {
        self.journal.mark_undone(entries).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &str, mode: u32) -> PathState {
        let size = content.len() as u64;
        PathState::File { hash: Some(ContentHash::of(content.as_bytes())), mode, size }
    }

    #[track_caller]
    fn check(recorded: &PathState, found: &PathState, expected: bool) {
        assert_eq!(recorded.fits(found), expected, "{recorded:?} {found:?}");
    }

    #[test]
    fn states_are_compared_by_content() {
        check(&file("a", 0o644), &file("a", 0o644), true);
        check(&file("a", 0o644), &file("b", 0o644), false);
        check(&file("a", 0o644), &file("a", 0o755), true);
        check(&PathState::File { hash: None, mode: 0, size: 9 }, &file("b", 0o600), true);
        check(&file("a", 0o644), &PathState::File { hash: None, mode: 0o644, size: 1 }, false);
        check(&PathState::Directory { mode: 0o755 }, &PathState::Directory { mode: 0o700 }, true);
        check(&PathState::Missing, &PathState::Missing, true);
        check(&PathState::Missing, &file("", 0o644), false);
        let link = |to: &str| PathState::Link { to: to.into() };
        check(&link("a"), &link("a"), true);
        check(&link("a"), &link("b"), false);
    }

    #[test]
    fn a_content_has_the_hash_and_the_version_of_its_bytes() {
        for bytes in [&b""[..], b"a", &[7; 200_000]] {
            let content = Content::from(bytes.to_vec());
            assert_eq!(content.version(), Version::of_content(bytes));
            assert_eq!(
                (content.hash(), content.hash.get().is_some()),
                (ContentHash::of(bytes), true)
            );
            assert!(content == Content::from(bytes.to_vec()) && *content == *bytes);
        }
    }

    #[test]
    fn content_in_pieces_has_the_hash_of_the_whole() {
        let content = vec![7_u8; 200_000];
        let mut rest = &*content;
        let pieces = ContentHash::of_pieces(|buffer| {
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            Ok::<usize, ()>(count)
        });
        assert_eq!(pieces, Ok(ContentHash::of(&content)));
    }
}
