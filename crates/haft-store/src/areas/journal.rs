//! The journal of changes to files: what was there before each one, kept once per content and compressed, near ones as their
//! difference. A change is kept in one short transaction before it is made; as the ledger, that holds after `kill -9` and costs no
//! wait for the disk.

mod bases;
mod collect;
mod difference;
mod hand;
mod images;
mod packing;
mod read;
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

pub use self::collect::Keep;
use self::{
    bases::{Base, Bases},
    hand::Hand,
    write::{Prepared, Recorded},
};
use crate::{
    Address, StoreLocation,
    engine::{clock::now_ms, packing::Packer, waiting::wait_for},
};

/// What has packed a longer content holds more memory than anybody would want to keep for the next one.
const LARGEST_PACKED: usize = 128 << 10;

/// The journal of a place. The store is opened when the first change is kept.
pub struct StoreJournal {
    place: Arc<StoreLocation>,
    keep: Keep,
    /// Changes on their way that take others back.
    undoings: Mutex<HashSet<u64>>,
    /// What the next contents may be told by.
    bases: Mutex<Bases>,
    /// Making one ready takes longer than packing a small content. It is taken out to pack; whoever comes meanwhile makes another.
    packer: Mutex<Option<Packer>>,
    /// A change that was kept found that it is time to make room.
    is_due: AtomicBool,
    /// Who writes to a server, which needs a runtime of its own: changes are made on threads that must not wait for theirs.
    hand: OnceLock<Result<Hand, String>>,
}

impl StoreJournal {
    /// The journal of a place.
    pub fn new(place: Arc<StoreLocation>, keep: Keep) -> Self {
        Self {
            place,
            keep,
            undoings: Mutex::default(),
            bases: Mutex::default(),
            packer: Mutex::default(),
            is_due: AtomicBool::new(false),
            hand: OnceLock::new(),
        }
    }

    fn undoings(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.undoings.lock()
    }

    fn bases(&self) -> MutexGuard<'_, Bases> {
        self.bases.lock()
    }

    fn packer(&self) -> MutexGuard<'_, Option<Packer>> {
        self.packer.lock()
    }

    /// Keeps a change; `base_of` knows by what the content of a file may be told.
    fn record(
        &self,
        change: &NewChange<'_>,
        base_of: impl FnMut(&Path) -> Option<Arc<Base>>,
    ) -> Result<Recorded, ToolError> {
        let mut packer = self.packer().take().unwrap_or_else(Packer::new);
        let prepared = Prepared::of(change, &mut packer, base_of);
        let longest =
            change.entries.iter().filter_map(|entry| entry.content.as_ref()).map(Vec::len);
        if longest.max().unwrap_or_default() <= LARGEST_PACKED {
            *self.packer() = Some(packer);
        }
        let prepared = prepared?;
        self.at_once(async move |place: &StoreLocation| {
            let store = place.store().await?;
            write::record(&store, &prepared).await
        })
    }

    /// What is kept whole since a moment ago is what the next contents of these files are told by, as far as they stay files.
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

    /// Drops what is too old or too much, as far as no undo needs it; returns how many entries went. By itself it is done
    /// seldom, after a change.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn collect(&self) -> Result<u64, ToolError> {
        match self.place.existing().await? {
            Some(store) => collect::collect(&store, self.keep, now_ms()).await,
            None => Ok(0),
        }
    }

    /// Does something with the store now, on whatever thread this is.
    fn at_once<T, W>(&self, work: W) -> Result<T, ToolError>
    where
        T: Send + 'static,
        W: AsyncFnOnce(&StoreLocation) -> Result<T, ToolError> + Send + 'static,
    {
        match self.place.address() {
            Address::Sqlite(_) => wait_for(work(&self.place)),
            Address::Postgres(_) => {
                let start = || Hand::start(self.place.address().clone());
                match self.hand.get_or_init(start) {
                    Ok(hand) => hand.run(work),
                    Err(why) => Err(ToolError::unavailable(format!(
                        "the journal has nobody to write it: {why}"
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
            // Another process made room, or the change before this one was withdrawn.
            Recorded::WithoutBase => self.record(change, |_| None)?,
            recorded => recorded,
        };
        let Recorded::As { number, whole, state } = recorded else {
            return Err(ToolError::internal(
                "whole contents were found to lack what they are told by",
            ));
        };
        self.remember(change, &whole);
        if state.is_due(self.keep, now_ms()) {
            self.is_due.store(true, Ordering::Relaxed);
        }
        if change.undoes.iter().any(|undone| !undone.is_empty()) {
            self.undoings().insert(number);
        }
        Ok(number)
    }

    fn commit(&self, number: u64) {
        let (keep, is_undoing) = (self.keep, self.undoings().remove(&number));
        let is_due = self.is_due.swap(false, Ordering::Relaxed);
        // Nearly always: then the store is not asked a second time for every change.
        if !is_undoing && !is_due {
            return;
        }
        // Whatever goes wrong here is made good: an undo that is not marked finds everything as it was before, and upkeep is
        // tried again.
        let _ = self.at_once(async move |place: &StoreLocation| {
            let Some(store) = place.existing().await? else { return Ok(()) };
            if is_undoing {
                write::mark_undone(&store, number).await?;
            }
            collect::when_due(&store, keep, now_ms()).await
        });
    }

    fn abort(&self, number: u64) {
        self.undoings().remove(&number);
        // What cannot be withdrawn is recognised later: it was never made, so what was there before is there still.
        let _ = self.at_once(async move |place: &StoreLocation| match place.existing().await? {
            Some(store) => write::abort(&store, number).await,
            None => Ok(()),
        });
    }

    fn find<'a>(
        &'a self,
        workspace: &'a Path,
        which: &'a ChangeQuery,
    ) -> BoxFuture<'a, Result<Vec<JournalChange>, ToolError>> {
        Box::pin(async move {
            match self.place.existing().await? {
                Some(store) => read::find(&store, workspace, which).await,
                None => Ok(Vec::new()),
            }
        })
    }

    fn content(&self, hash: ContentHash) -> BoxFuture<'_, Result<Option<Vec<u8>>, ToolError>> {
        Box::pin(async move {
            match self.place.existing().await? {
                Some(store) => read::content(&store, hash).await,
                None => Ok(None),
            }
        })
    }

    fn mark_undone<'a>(&'a self, entries: &'a [u64]) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move {
            match self.place.existing().await? {
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
        let place = StoreLocation::new(Address::Sqlite(folder.path().join("haft.db")));
        let journal = StoreJournal::new(place, Keep::USUAL);
        let call = CallInfo::default();
        let entries = [NewJournalEntry::created("a".into(), PathState::Missing)];
        let change = NewChange { call: &call, tool: "edit", entries: &entries, undoes: &[] };
        for number in 1..3 {
            assert_eq!(journal.begin(&change).expect("kept"), number);
            assert!(journal.packer().is_some(), "it is there for the next one");
        }
        let content = vec![b'x'; LARGEST_PACKED + 1];
        let size = content.len() as u64;
        let before = PathState::File { hash: Some(ContentHash::of(&content)), mode: 0o644, size };
        let mut large = NewJournalEntry::created("b".into(), PathState::Missing);
        (large.before, large.content) = (before, Some(content));
        journal.begin(&NewChange { entries: &[large], ..change }).expect("kept");
        assert!(journal.packer().is_none(), "it has grown too much to be kept");
    }
}
