//! The ledger on disk. Entries that arrive together are written together; a call that may have changed something is answered
//! when its entry is committed, one that only looked may be answered before that, and its entry follows within 50 ms.
//!
//! What a crash can cost: `kill -9` at most the looks of the last 50 ms, nothing else. A power cut may cost whatever the
//! machine had not written yet (SQLite runs with `synchronous = NORMAL`), never the whole of the chain.

mod chain;
mod history;
mod latecomers;
mod queue;
mod text;
mod turn;
mod verify;

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft_core::{BoxFuture, Ledger, LedgerEntry, ToolError, sha256_hex};

pub use self::{
    chain::Anchor,
    history::{Filter, Recorded},
    latecomers::flush_everything,
    verify::{Fault, Verification},
};
use self::{
    chain::Line,
    latecomers::Latecomers,
    queue::{Answer, Batch, Queue, Unwritten},
    turn::{Seat, Told, Turn},
};
pub(crate) use self::{
    chain::{GENESIS, link},
    verify::verify_in,
};
use crate::{
    Address, OutputRetention, Place,
    results::{KeptResult, Results},
};

/// When a call that only looked is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answering {
    /// Like every other one, when its entry is committed: for a process that makes one call and ends.
    AfterCommit,
    /// At once. The process has to call [`flush_everything`] before it ends.
    Early,
}

/// The ledger of a place. The store is opened when the first call is recorded.
pub struct StoreLedger(Arc<Inner>);

struct Inner {
    place: Arc<Place>,
    answering: Answering,
    queue: Mutex<Queue>,
    latecomers: Latecomers,
    /// Where whole outcomes are kept, if they are.
    results: Option<Results>,
}

impl StoreLedger {
    /// The ledger of a place.
    pub fn new(place: Arc<Place>, answering: Answering) -> Self {
        Self::made(place, answering, None)
    }

    /// The same, and of every call the whole outcome is kept beside its entry, as long as there is room.
    pub fn keeping_results(
        place: Arc<Place>,
        answering: Answering,
        workspace: &Path,
        retention: OutputRetention,
    ) -> Self {
        Self::made(place, answering, Some(Results::new(workspace, retention)))
    }

    fn made(place: Arc<Place>, answering: Answering, results: Option<Results>) -> Self {
        // The thread that writes latecomers has no runtime, which PostgreSQL needs.
        let answering = match place.address() {
            Address::Sqlite(_) => answering,
            Address::Postgres(_) => Answering::AfterCommit,
        };
        Self(Arc::new(Inner {
            place,
            answering,
            queue: Mutex::default(),
            latecomers: Latecomers::default(),
            results,
        }))
    }

    /// Writes whatever is not written yet.
    ///
    /// # Errors
    /// When it cannot be written; it is kept for the next time.
    pub async fn flush(&self) -> Result<(), ToolError> {
        self.0.flush().await
    }
}

impl StoreLedger {
    fn add(
        &self,
        mut entry: LedgerEntry,
        output: Option<&str>,
        result: Option<KeptResult>,
    ) -> BoxFuture<'_, Result<(), ToolError>> {
        let may_wait = self.0.answering == Answering::Early && entry.only_looked();
        if let Some(output) = output.filter(|_| !may_wait) {
            entry.output_sha256 = sha256_hex([output.as_bytes()]);
        }
        let line = match Line::of(entry, output.filter(|_| may_wait)) {
            Ok(line) => Line { result, ..line },
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        let line = if may_wait { self.0.defer(line) } else { Some(line) };
        match line {
            None => Box::pin(std::future::ready(Ok(()))),
            Some(mut line) => {
                line.complete();
                Box::pin(self.0.commit(line))
            }
        }
    }
}

impl Ledger for StoreLedger {
    fn record(&self, entry: LedgerEntry) -> BoxFuture<'_, Result<(), ToolError>> {
        self.add(entry, None, None)
    }

    fn record_unhashed(
        &self,
        entry: LedgerEntry,
        output: &str,
    ) -> BoxFuture<'_, Result<(), ToolError>> {
        self.add(entry, Some(output), None)
    }

    fn keeps_results(&self) -> bool {
        self.0.results.is_some()
    }

    fn record_with(
        &self,
        entry: LedgerEntry,
        outcome: Vec<u8>,
    ) -> BoxFuture<'_, Result<(), ToolError>> {
        let result = self
            .0
            .results
            .as_ref()
            .and_then(|results| results.pack(entry.result_sha256.as_deref(), outcome));
        self.add(entry, None, result)
    }

    fn newest(&self, most: usize) -> BoxFuture<'_, Result<Vec<LedgerEntry>, ToolError>> {
        Box::pin(async move {
            let filter = Filter { most, ..Filter::default() };
            let found = self.find(&filter).await?;
            Ok(found.into_iter().map(|recorded| recorded.entry).collect())
        })
    }
}

impl Drop for StoreLedger {
    fn drop(&mut self) {
        self.0.latecomers.close(&self.0);
    }
}

impl Inner {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a line where it is written a little later. Gives it back when it has to be written now.
    fn defer(self: &Arc<Self>, line: Line) -> Option<Line> {
        let mut queue = self.queue();
        let (is_first, was_long) = (queue.since.is_none(), queue.is_long());
        let left = queue.defer(line);
        let is_news = is_first || (!was_long && queue.is_long());
        drop(queue);
        // Not for each: waking a thread costs more than the call, and it comes for all of them.
        if left.is_none() && is_news && !self.latecomers.expect_some(self) {
            // Nobody to write them later: then now, by the next turn, which is ours.
            let _ = crate::waiting::wait_for(self.flush());
        }
        left
    }

    async fn commit(self: &Arc<Self>, line: Line) -> Result<(), ToolError> {
        let seat = self.queue().push(line);
        let turn = match self.turn(seat).await {
            Told::Written(answer) => return answer.map_err(Unwritten::told),
            Told::YourTurn(turn) => turn,
        };
        if self.queue().expects_more() {
            // Once round the runtime for them: a commit for all takes little longer than one for the first.
            tokio::task::yield_now().await;
        }
        let answer = self.write_out().await;
        drop(turn);
        answer.map_err(Unwritten::told)
    }

    async fn flush(self: &Arc<Self>) -> Result<(), ToolError> {
        let Some(seat) = self.queue().await_all() else { return Ok(()) };
        let answer = match self.turn(seat).await {
            Told::Written(answer) => answer,
            Told::YourTurn(_turn) => self.write_out().await,
        };
        answer.map_err(Unwritten::told)
    }

    /// Waits until somebody has written what was put there, or asks to.
    async fn turn(self: &Arc<Self>, seat: Seat) -> Told {
        match seat {
            Seat::First => Told::YourTurn(Turn::new(self)),
            Seat::Behind(told) => {
                told.await.unwrap_or_else(|_| Told::Written(Err(Unwritten::unknown())))
            }
        }
    }

    /// Writes what waits, in one transaction.
    async fn write_out(&self) -> Answer {
        if !self.queue().has_lines() {
            // Somebody else has written it meanwhile: then no store is made for nothing.
            let batch = self.queue().take();
            return self.settle(batch, Ok(()));
        }
        let begun = match self.place.store().await {
            Ok(store) => store.begin().await,
            Err(error) => Err(error),
        };
        // Only now: what came while we waited for the store goes along.
        let mut batch = self.queue().take();
        batch.complete();
        let written = match begun {
            Ok(transaction) => chain::append(transaction, batch.lines()).await,
            Err(error) => Err(error),
        };
        if let (Some(results), Ok(())) = (&self.results, &written) {
            // The entries are written, which is what was asked for; the next ones try again.
            let bytes = batch.lines().map(Line::weight).sum();
            let _ = results.make_room(&self.place, bytes).await;
        }
        self.settle(batch, written)
    }

    fn settle(&self, batch: Batch, written: Result<(), ToolError>) -> Answer {
        let answer = self.queue().answer(written);
        let unawaited = batch.tell(&answer);
        self.queue().put_back(unawaited);
        answer
    }
}

#[cfg(test)]
mod tests;
