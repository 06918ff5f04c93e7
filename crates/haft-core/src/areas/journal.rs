//! The journal of changes to files: what was there before each one, kept so that it can be taken back. Whoever changes files
//! tells a [`JournalWriter`] beforehand; core keeps nothing itself, the store does.
//!
//! Only the file tools tell it of changes today. A program's changes fit the same words: a survey before and after gives the
//! same entries.

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
    /// The hash of some content.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The hash of content that comes in pieces.
    ///
    /// # Errors
    /// Those of `next`, which returns an empty piece at the end.
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

/// The content of a file. Its hash is made once, however many want to know it: files are long, at times.
#[derive(Clone, Default)]
pub struct Content {
    bytes: Vec<u8>,
    hash: OnceLock<ContentHash>,
}

impl Content {
    /// Its hash.
    pub fn hash(&self) -> ContentHash {
        *self.hash.get_or_init(|| ContentHash::of(&self.bytes))
    }

    /// The version of a file that has it.
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

/// What has a path at some moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathState {
    /// Nothing.
    Missing,
    /// A regular file.
    File {
        /// Its content; `None` when that was not looked at, because it does not matter or is not kept.
        hash: Option<ContentHash>,
        /// Permission bits.
        mode: u32,
        /// In bytes.
        size: u64,
    },
    /// A symbolic link.
    Link {
        /// Where it points, as it is written in the link.
        to: PathBuf,
    },
    /// A directory.
    Directory {
        /// Permission bits.
        mode: u32,
    },
    /// A pipe, a socket or a device: never changed, and never kept.
    Other,
}

impl PathState {
    /// Whether `self`, which was recorded, is what is found now. Permissions do not count: they are looked at by themselves, so
    /// that somebody's `chmod` neither stops an undo nor is lost by it.
    pub fn fits(&self, found: &Self) -> bool {
        match (self, found) {
            (Self::File { hash: None, .. }, Self::File { .. })
            | (Self::Directory { .. }, Self::Directory { .. }) => true,
            (Self::File { hash, .. }, Self::File { hash: found, .. }) => hash == found,
            (a, b) => a == b,
        }
    }

    /// What sort of thing it is, in a word.
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

/// What is about to become of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJournalEntry {
    /// As the workspace shows it.
    pub path: PathBuf,
    /// What is there.
    pub before: PathState,
    /// The content of a file that is there.
    pub content: Option<Vec<u8>>,
    /// What will be there.
    pub after: PathState,
    /// Where it comes from, when it is moved; nothing will be left there.
    pub moved_from: Option<PathBuf>,
}

impl NewJournalEntry {
    /// Something new comes to a path where nothing was.
    pub fn created(path: PathBuf, after: PathState) -> Self {
        Self { path, before: PathState::Missing, content: None, after, moved_from: None }
    }
}

/// A change that is about to be made.
#[derive(Debug)]
pub struct NewChange<'a> {
    /// The call that makes it.
    pub call: &'a CallInfo,
    /// The tool.
    pub tool: &'a str,
    /// What becomes of each path.
    pub entries: &'a [NewJournalEntry],
    /// For each of these, in the same order, the earlier entries that it takes back.
    pub undoes: &'a [Vec<u64>],
}

/// What became of one path, as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalEntry {
    /// Its own number.
    pub id: u64,
    /// As the workspace shows it.
    pub path: PathBuf,
    /// What was there.
    pub before: PathState,
    /// What was put there.
    pub after: PathState,
    /// Where it came from, when it was moved.
    pub moved_from: Option<PathBuf>,
    /// The entry that took it back. Its own number when it was found to be taken back already.
    pub undone_by: Option<u64>,
}

impl JournalEntry {
    /// An entry that nobody took back.
    pub fn new(id: u64, path: PathBuf, before: PathState, after: PathState) -> Self {
        Self { id, path, before, after, moved_from: None, undone_by: None }
    }
}

/// A change, as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalChange {
    /// Its number; later changes have greater ones.
    pub number: u64,
    /// The call that made it.
    pub call_id: String,
    /// The session of the call.
    pub session: String,
    /// The tool.
    pub tool: String,
    /// In milliseconds since 1970.
    pub at_ms: u64,
    /// What became of each path, in order.
    pub entries: Vec<JournalEntry>,
    /// How many entries more there were, which had to make room.
    pub collected: u64,
}

impl JournalChange {
    /// A change without entries.
    pub fn new(number: u64, call_id: &str, session: &str, tool: &str, at_ms: u64) -> Self {
        let (call_id, session, tool) = (call_id.to_owned(), session.to_owned(), tool.to_owned());
        Self { number, call_id, session, tool, at_ms, entries: Vec::new(), collected: 0 }
    }
}

/// Which changes are asked for; all conditions hold together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeQuery {
    /// Of this call.
    pub call_id: Option<String>,
    /// Of this session.
    pub session: Option<String>,
    /// Of this tool.
    pub tool: Option<String>,
    /// Since then, in milliseconds since 1970.
    pub since_ms: u64,
    /// With a smaller number than this, for the next page.
    pub below: Option<u64>,
    /// With one of these numbers, if any are given.
    pub numbers: Vec<u64>,
    /// So many at most.
    pub limit: usize,
}

/// Keeps changes.
pub trait Journal: Send + Sync {
    /// Keeps what is needed to take a change back, and returns the number of the change. Called when everything is ready
    /// and before the first name changes hands; when it returns, a crash cannot lose it.
    ///
    /// # Errors
    /// When it cannot be kept; then the change is not made.
    fn begin(&self, change: &NewChange<'_>) -> Result<u64, ToolError>;

    /// The change was made: from now on what it takes back counts as taken back. The time for upkeep, too.
    fn commit(&self, number: u64);

    /// The change was not made after all.
    fn abort(&self, number: u64);

    /// Changes in `workspace`, newest first.
    fn find<'a>(
        &'a self,
        workspace: &'a Path,
        which: &'a ChangeQuery,
    ) -> BoxFuture<'a, Result<Vec<JournalChange>, ToolError>>;

    /// The content with this hash, if it is kept.
    fn content(&self, hash: ContentHash) -> BoxFuture<'_, Result<Option<Vec<u8>>, ToolError>>;

    /// These entries were found to be taken back already, by hand or because they never came to be.
    fn mark_undone<'a>(&'a self, entries: &'a [u64]) -> BoxFuture<'a, Result<(), ToolError>>;
}

/// How much of what goes is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreImages {
    /// Everything, so that it can be taken back.
    Content,
    /// Only that it was there: a person or a model said so.
    Names,
}

/// Tells the journal of the changes of one call.
#[derive(Clone)]
pub struct JournalWriter {
    journal: Arc<dyn Journal>,
    call: Arc<CallInfo>,
    tool: Arc<str>,
    pre_images: PreImages,
    /// Which earlier entries a new entry about a path takes back.
    undoes: Arc<HashMap<PathBuf, Vec<u64>>>,
}

impl JournalWriter {
    /// The scribe of a call.
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

    /// How much of what goes is to be kept.
    pub fn pre_images(&self) -> PreImages {
        self.pre_images
    }

    /// Tells of a change that is about to be made.
    ///
    /// # Errors
    /// When it cannot be kept; then the change must not be made.
    pub fn begin(&self, entries: &[NewJournalEntry]) -> Result<OpenChange, ToolError> {
        let undone =
            |entry: &NewJournalEntry| self.undoes.get(&entry.path).cloned().unwrap_or_default();
        let undoes: Vec<Vec<u64>> = entries.iter().map(undone).collect();
        let change = NewChange { call: &self.call, tool: &self.tool, entries, undoes: &undoes };
        let number = self.journal.begin(&change).map_err(|error| self.unkept(entries, error))?;
        Ok(OpenChange { journal: self.journal.clone(), number: Some(number) })
    }

    fn unkept(&self, entries: &[NewJournalEntry], error: ToolError) -> ToolError {
        let first = entries.first().map_or(Path::new("."), |entry| &entry.path).display();
        let message = format!(
            "`{first}` was not changed, because what is there could not be kept for undo: {error}"
        );
        let hint = format!(
            "{}; a person can switch undo off with `record = false` under [journal]",
            error.next_step()
        );
        ToolError::unavailable(message).hint(hint)
    }
}

/// A change that the journal knows of. Dropped without [`OpenChange::commit`] it was not made.
#[must_use]
pub struct OpenChange {
    journal: Arc<dyn Journal>,
    number: Option<u64>,
}

impl OpenChange {
    /// It was made.
    pub fn commit(mut self) {
        if let Some(number) = self.number.take() {
            self.journal.commit(number);
        }
    }

    /// Some of it may have been made: it stays, and whoever wants to take it back looks what is there.
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
            ToolError::unavailable("no journal of changes is kept here")
                .hint("a person can switch it on with `record = true` under [journal]")
        })?;
        Ok(Self { journal, workspace: call.info().workspace.clone() })
    }
}

impl ReadJournal {
    /// The journal of a workspace; for calling a tool's function directly.
    pub fn unchecked(journal: Arc<dyn Journal>, workspace: PathBuf) -> Self {
        Self { journal, workspace }
    }

    /// Changes, newest first.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn find(&self, which: &ChangeQuery) -> Result<Vec<JournalChange>, ToolError> {
        self.journal.find(&self.workspace, which).await
    }

    /// The content with this hash, if it is kept.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn content(&self, hash: ContentHash) -> Result<Option<Vec<u8>>, ToolError> {
        self.journal.content(hash).await
    }

    /// Tells the journal that entries were found to be taken back already. No more than a correction of the record.
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
    fn what_is_found_is_compared_by_content() {
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
    fn a_content_knows_the_hash_and_the_version_of_its_bytes() {
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
