//! The journal of file changes: the contents before each change, stored once per content and
//! compressed, similar ones as a difference. A change is stored in one short transaction before it
//! is made. Like the ledger, this survives `kill -9` and needs no disk sync.

mod bases;
mod collect;
mod difference;
mod packing;
mod path_columns;
mod read;
mod runtime_thread;
mod write;

use std::{
    collections::HashSet,
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};

use haft_core::{
    BoxFuture, ChangeQuery, ContentHash, Journal, JournalChange, NewChange, PathState, ToolError,
};

pub use self::collect::JournalRetention;
use self::{
    bases::{Base, Bases},
    runtime_thread::RuntimeThread,
    write::{Prepared, RecordResult},
};
use crate::{
    StoreAddress, StoreLocation,
    engine::{clock::now_ms, packing::Packer, waiting::wait_for},
};

/// A packer that compressed a longer content holds too much memory to be kept.
const MAX_PACKER_CONTENT: usize = 128 << 10;

/// The journal of a store. The store is opened when the first change is stored.
pub struct StoreJournal {
    location: Arc<StoreLocation>,
    retention: JournalRetention,
    /// Changes in progress that undo others.
    pending_undos: Mutex<HashSet<u64>>,
    /// Contents that the next ones may be stored as a difference from.
    bases: Mutex<Bases>,
    /// Reused, because creating a packer takes longer than compressing a small content. Taken out
    /// while in use; a concurrent caller creates another.
    packer: Mutex<Option<Packer>>,
    /// Set when a change finds that a collection is due.
    is_due: AtomicBool,
    /// The thread that writes to a server, which needs a runtime: changes are made on threads that
    /// must not wait for their own runtime.
    runtime_thread: OnceLock<Result<RuntimeThread, String>>,
}

impl StoreJournal {
    /// Creates the journal of a store.
    pub fn new(location: Arc<StoreLocation>, retention: JournalRetention) -> Self {
        Self {
            location,
            retention,
            pending_undos: Mutex::default(),
            bases: Mutex::default(),
            packer: Mutex::default(),
            is_due: AtomicBool::new(false),
            runtime_thread: OnceLock::new(),
        }
    }

    fn pending_undos(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.pending_undos.lock()
    }

    fn bases(&self) -> MutexGuard<'_, Bases> {
        self.bases.lock()
    }

    fn packer(&self) -> MutexGuard<'_, Option<Packer>> {
        self.packer.lock()
    }

    /// Stores a change. `base_of` returns the content that a file may be stored as a difference
    /// from.
    fn record(
        &self,
        change: &NewChange<'_>,
        base_of: impl FnMut(&Path) -> Option<Arc<Base>>,
    ) -> Result<RecordResult, ToolError> {
        let mut packer = self.packer().take().unwrap_or_else(Packer::new);
        let prepared = Prepared::of(change, &mut packer, base_of);
        let longest =
            change.entries.iter().filter_map(|entry| entry.content.as_ref()).map(Vec::len);
        if longest.max().unwrap_or_default() <= MAX_PACKER_CONTENT {
            *self.packer() = Some(packer);
        }
        let prepared = prepared?;
        self.run_blocking(async move |location: &StoreLocation| {
            let store = location.store().await?;
            write::record(&store, &prepared).await
        })
    }

    /// Remembers contents that were just stored whole as bases for the next contents of these
    /// files, as far as they stay files.
    fn remember(&self, change: &NewChange<'_>, whole: &HashSet<ContentHash>) {
        let mut bases = self.bases();
        for entry in change.entries {
            if matches!(entry.after, PathState::File { .. })
                && let Ok(Some((hash, content))) = write::kept(entry)
                && whole.contains(&hash)
            {
                bases.keep(&change.call.workspace, &entry.path, hash, content);
            }
        }
    }

    /// Deletes entries that are too old or exceed the size limit, unless an undo needs them.
    /// Returns the number of deleted entries. The journal rarely does so by itself, after a change.
    ///
    /// # Errors
    /// Fails if the store cannot be written.
    pub async fn collect(&self) -> Result<u64, ToolError> {
        match self.location.existing().await? {
            Some(store) => collect::collect(&store, self.retention, now_ms()).await,
            None => Ok(0),
        }
    }

    /// Runs work on the store now, on any thread.
    fn run_blocking<T, W>(&self, work: W) -> Result<T, ToolError>
    where
        T: Send + 'static,
        W: AsyncFnOnce(&StoreLocation) -> Result<T, ToolError> + Send + 'static,
    {
        match self.location.address() {
            StoreAddress::Sqlite(_) => wait_for(work(&self.location)),
            StoreAddress::Postgres(_) => {
                let start = || RuntimeThread::start(self.location.address().clone());
                match self.runtime_thread.get_or_init(start) {
                    Ok(runtime_thread) => runtime_thread.run(work),
                    Err(why) => Err(ToolError::unavailable(format!(
                        "the journal cannot start its writer: {why}"
                    ))),
                }
            }
        }
    }
}

impl Journal for StoreJournal {
    fn begin(&self, change: &NewChange<'_>) -> Result<u64, ToolError> {
        let workspace = &change.call.workspace;
        let recorded = match self.record(change, |path| self.bases().of(workspace, path))? {
            // Another process collected, or the change before this one was withdrawn.
            RecordResult::WithoutBase => self.record(change, |_| None)?,
            recorded => recorded,
        };
        let RecordResult::Stored { number, whole, state } = recorded else {
            return Err(ToolError::internal(
                "whole contents were stored without a base but reported a missing one",
            ));
        };
        self.remember(change, &whole);
        if state.is_due(self.retention, now_ms()) {
            self.is_due.store(true, Ordering::Relaxed);
        }
        if change.undoes.iter().any(|undone| !undone.is_empty()) {
            self.pending_undos().insert(number);
        }
        Ok(number)
    }

    fn commit(&self, number: u64) {
        let (retention, is_undoing) = (self.retention, self.pending_undos().remove(&number));
        let is_due = self.is_due.swap(false, Ordering::Relaxed);
        // The common case needs no second access to the store.
        if !is_undoing && !is_due {
            return;
        }
        // Errors here are harmless: an undo that is not marked finds everything as it was before,
        // and the next change collects again.
        let _ = self.run_blocking(async move |location: &StoreLocation| {
            let Some(store) = location.existing().await? else { return Ok(()) };
            if is_undoing {
                write::mark_undone(&store, number).await?;
            }
            collect::when_due(&store, retention, now_ms()).await
        });
    }

    fn abort(&self, number: u64) {
        self.pending_undos().remove(&number);
        // Errors here are harmless: a change that was not withdrawn was never made, so the previous
        // contents are still there.
        let _ = self.run_blocking(async move |location: &StoreLocation| {
            match location.existing().await? {
                Some(store) => write::abort(&store, number).await,
                None => Ok(()),
            }
        });
    }

    fn find<'a>(
        &'a self,
        workspace: &'a Path,
        which: &'a ChangeQuery,
    ) -> BoxFuture<'a, Result<Vec<JournalChange>, ToolError>> {
        Box::pin(async move {
            match self.location.existing().await? {
                Some(store) => read::find(&store, workspace, which).await,
                None => Ok(Vec::new()),
            }
        })
    }

    fn content(&self, hash: ContentHash) -> BoxFuture<'_, Result<Option<Vec<u8>>, ToolError>> {
        Box::pin(async move {
            match self.location.existing().await? {
                Some(store) => read::content(&store, hash).await,
                None => Ok(None),
            }
        })
    }

    fn mark_undone<'a>(&'a self, entries: &'a [u64]) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move {
            match self.location.existing().await? {
                Some(store) => write::mark_entries_undone(&store, entries).await,
                None => Ok(()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use haft_core::{CallInfo, NewJournalEntry};

    use super::*;

    #[test]
    fn one_packer_packs_one_change_after_the_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let location = StoreLocation::new(StoreAddress::Sqlite(folder.path().join("haft.db")));
        let journal = StoreJournal::new(location, JournalRetention::DEFAULT);
        let call = CallInfo::default();
        let entries = [NewJournalEntry::created("a".into(), PathState::Missing)];
        let change = NewChange { call: &call, tool: "edit", entries: &entries, undoes: &[] };
        for number in 1..3 {
            assert_eq!(journal.begin(&change).expect("kept"), number);
            assert!(journal.packer().is_some(), "it is kept for the next one");
        }
        let content = vec![b'x'; MAX_PACKER_CONTENT + 1];
        let size = content.len() as u64;
        let before = PathState::File { hash: Some(ContentHash::of(&content)), mode: 0o644, size };
        let mut large = NewJournalEntry::created("b".into(), PathState::Missing);
        (large.before, large.content) = (before, Some(content));
        journal.begin(&NewChange { entries: &[large], ..change }).expect("kept");
        assert!(journal.packer().is_none(), "it holds too much memory to be kept");
    }
}
