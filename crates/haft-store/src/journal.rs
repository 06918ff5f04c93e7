//! The journal of changes to files: what was there before each one, kept once per content and compressed. A change is kept in
//! one short transaction before it is made; as the ledger, that holds after `kill -9` and costs no wait for the disk.

mod collect;
mod hand;
mod images;
mod packing;
mod read;
mod write;

use std::{
    collections::HashSet,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use haft_core::{BoxFuture, Changes, ContentHash, Journal, JournalChange, NewChange, ToolError};

pub use self::collect::Keep;
use self::{hand::Hand, write::Prepared};
use crate::{Address, Place, clock::now_ms, waiting::wait_for};

/// The journal of a place. The store is opened when the first change is kept.
pub struct StoreJournal {
    place: Arc<Place>,
    keep: Keep,
    /// Changes on their way that take others back.
    undoings: Mutex<HashSet<u64>>,
    /// Who writes to a server, which needs a runtime of its own: changes are made on threads that must not wait for theirs.
    hand: OnceLock<Result<Hand, String>>,
}

impl StoreJournal {
    /// The journal of a place.
    pub fn new(place: Arc<Place>, keep: Keep) -> Self {
        Self { place, keep, undoings: Mutex::default(), hand: OnceLock::new() }
    }

    fn undoings(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.undoings.lock().unwrap_or_else(PoisonError::into_inner)
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
        W: AsyncFnOnce(&Place) -> Result<T, ToolError> + Send + 'static,
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
        let prepared = Prepared::of(change)?;
        let is_undoing = prepared.is_undoing();
        let number = self.at_once(async move |place: &Place| {
            let store = place.store().await?;
            write::record(&store, &prepared).await
        })?;
        if is_undoing {
            self.undoings().insert(number);
        }
        Ok(number)
    }

    fn made(&self, number: u64) {
        let (keep, is_undoing) = (self.keep, self.undoings().remove(&number));
        // Whatever goes wrong here is made good: an undo that is not marked finds everything as it was before, and upkeep is
        // tried again.
        let _ = self.at_once(async move |place: &Place| {
            let Some(store) = place.existing().await? else { return Ok(()) };
            if is_undoing {
                write::mark_undone(&store, number).await?;
            }
            collect::when_due(&store, keep, now_ms()).await
        });
    }

    fn withdraw(&self, number: u64) {
        self.undoings().remove(&number);
        // What cannot be withdrawn is recognised later: it was never made, so what was there before is there still.
        let _ = self.at_once(async move |place: &Place| match place.existing().await? {
            Some(store) => write::withdraw(&store, number).await,
            None => Ok(()),
        });
    }

    fn find<'a>(
        &'a self,
        workspace: &'a Path,
        which: &'a Changes,
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

    fn set_aside<'a>(&'a self, entries: &'a [u64]) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async move {
            match self.place.existing().await? {
                Some(store) => write::set_aside(&store, entries).await,
                None => Ok(()),
            }
        })
    }
}
