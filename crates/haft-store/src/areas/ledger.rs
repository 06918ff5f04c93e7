//! The ledger on disk. Entries that arrive together are written together; a call that may have changed something is answered
//! when its entry is committed, one that only looked may be answered before that, and its entry follows within 50 ms.
//!
//! A call that may change something is committed twice: an entry before it runs, and one when it has ended.
//!
//! What a crash can cost: `kill -9` at most the looks of the last 50 ms, nothing else. A power cut may cost whatever the
//! machine had not written yet (SQLite runs with `synchronous = NORMAL`), never the whole of the chain.

mod chain;
mod history;
mod interrupted;
mod latecomers;
mod queue;
mod retention;
mod verify;

use std::{
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use parking_lot::{Condvar, Mutex, MutexGuard};

use haft_core::{BoxFuture, Ledger, LedgerEntry, ToolError, sha256_hex};
use tokio::sync::oneshot;

pub use self::{
    chain::Anchor,
    history::{Filter, Recorded},
    interrupted::Ending,
    latecomers::flush_everything,
    retention::{LedgerRetention, Pruned},
    verify::{DroppedEntries, LedgerError, Verification},
};
use self::{
    chain::{Beginning, Line},
    queue::{Queue, Queued},
    retention::Fill,
};
pub(crate) use self::{
    chain::{GENESIS, ROW_BYTES, link},
    verify::verify_in,
};
use crate::{
    Address, OutputRetention, StoreLocation,
    areas::{
        results::{KeptResult, Results},
        sessions::StoreSessions,
    },
    engine::{clock::now_ms, store::Transaction},
};

/// When a call that only looked is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyTiming {
    /// Like every other one, when its entry is committed: for a process that makes one call and ends.
    AfterCommit,
    /// At once. The process has to call [`flush_everything`] before it ends.
    Early,
}

/// The ledger of a place. The store is opened when the first call is recorded.
pub struct StoreLedger(Arc<Inner>);

struct Inner {
    place: Arc<StoreLocation>,
    answering: ReplyTiming,
    queue: Mutex<Queue>,
    /// Held by the caller that writes the queue. The others wait for it and for their answer.
    writer: tokio::sync::Mutex<()>,
    /// Wakes the thread that writes entries that no caller waits for.
    news: Condvar,
    /// Whether there is such a thread; started by the first entry.
    thread: OnceLock<bool>,
    /// Where whole outcomes are kept, if they are.
    results: Option<Results>,
    retention: OnceLock<LedgerRetention>,
    /// Where it is noted who records a call.
    sessions: OnceLock<Arc<StoreSessions>>,
    /// Called before an entry is written.
    before_writing: OnceLock<fn()>,
    /// Bytes that were added since retention is due; 0 when it is not.
    due: AtomicU64,
    pruning: tokio::sync::Mutex<()>,
}

impl StoreLedger {
    /// The ledger of a place.
    pub fn new(place: Arc<StoreLocation>, answering: ReplyTiming) -> Self {
        Self::made(place, answering, None)
    }

    /// The same, and of every call the whole outcome is kept beside its entry, as long as there is room.
    pub fn keeping_results(
        place: Arc<StoreLocation>,
        answering: ReplyTiming,
        workspace: &Path,
        retention: OutputRetention,
    ) -> Self {
        Self::made(place, answering, Some(Results::new(workspace, retention)))
    }

    fn made(place: Arc<StoreLocation>, answering: ReplyTiming, results: Option<Results>) -> Self {
        place.note_ledger();
        // The thread that writes latecomers has no runtime, which PostgreSQL needs.
        let answering = match place.address() {
            Address::Sqlite(_) => answering,
            Address::Postgres(_) => ReplyTiming::AfterCommit,
        };
        Self(Arc::new(Inner {
            place,
            answering,
            queue: Mutex::default(),
            writer: tokio::sync::Mutex::default(),
            news: Condvar::new(),
            thread: OnceLock::new(),
            results,
            retention: OnceLock::new(),
            sessions: OnceLock::new(),
            before_writing: OnceLock::new(),
            due: AtomicU64::new(0),
            pruning: tokio::sync::Mutex::default(),
        }))
    }

    /// Keeps so much, and drops the rest as calls are recorded. Without it [`LedgerRetention::default`] holds.
    #[must_use]
    pub fn retaining(self, retention: LedgerRetention) -> Self {
        let _ = self.0.retention.set(retention);
        self
    }

    /// Notes a session when it records a call: an idle connection is no session, and the start of a server waits for no store.
    #[must_use]
    pub fn noting(self, sessions: Arc<StoreSessions>) -> Self {
        let _ = self.0.sessions.set(sessions);
        self
    }

    /// Calls this before each entry is written.
    #[must_use]
    pub fn before_writing(self, hook: fn()) -> Self {
        let _ = self.0.before_writing.set(hook);
        self
    }

    /// Drops all that is too old or too much now, and returns what that was. Without a store that is nothing.
    ///
    /// # Errors
    /// `unavailable` when the store cannot be written, `conflict` when the chain is broken where entries would be dropped.
    pub async fn prune(&self) -> Result<Pruned, ToolError> {
        self.flush().await?;
        match self.0.place.existing().await? {
            Some(store) => retention::prune(&store, self.0.retention(), now_ms()).await,
            None => Ok(Pruned::default()),
        }
    }

    /// What [`StoreLedger::prune`] would drop now, roughly: others go on working.
    ///
    /// # Errors
    /// `unavailable` when the store cannot be read.
    pub async fn foresee_prune(&self) -> Result<Pruned, ToolError> {
        match self.0.place.existing().await? {
            Some(store) => retention::foresee(&store, self.0.retention(), now_ms()).await,
            None => Ok(Pruned::default()),
        }
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
        let may_wait = self.0.answering == ReplyTiming::Early && entry.is_read_only();
        if let Some(output) = output.filter(|_| !may_wait) {
            entry.output_sha256 = sha256_hex([output.as_bytes()]);
        }
        let output = output.filter(|_| may_wait).map(str::to_owned);
        let queued = Queued { output, result, ..Queued::of(entry) };
        match if may_wait { self.0.defer(queued) } else { Some(queued) } {
            None => Box::pin(std::future::ready(Ok(()))),
            Some(queued) => Box::pin(self.0.commit(queued)),
        }
    }

    async fn begin_call(
        &self,
        mut entry: LedgerEntry,
        claim: Option<&str>,
    ) -> Result<Option<u64>, ToolError> {
        entry.process = Some(interrupted::this_process());
        let call_id = entry.call_id.clone();
        let claim = claim.map(str::to_owned);
        let beginning = Arc::new(Beginning { claim, ..Beginning::default() });
        let beginning_of_line = Some(beginning.clone());
        self.0.commit(Queued { beginning: beginning_of_line, ..Queued::of(entry) }).await?;
        match beginning.seq.get() {
            Some(seq) => Ok(Some(*seq)),
            None => Err(ToolError::conflict(format!(
                "call `{call_id}` was taken up by another process, which runs it"
            ))
            .hint("see what became of it with `haft approvals list --all`")),
        }
    }

    /// Adds an entry, then notes its session where that is wanted and due.
    fn add_noted(
        &self,
        entry: LedgerEntry,
        output: Option<&str>,
        result: Option<KeptResult>,
    ) -> BoxFuture<'_, Result<(), ToolError>> {
        self.0.prepare();
        let sessions = self.0.sessions.get().filter(|it| !it.is_noted(&entry.session));
        let Some(sessions) = sessions else { return self.add(entry, output, result) };
        let (session, agents) = (entry.session.clone(), entry.agents.clone());
        let added = self.add(entry, output, result);
        Box::pin(async move {
            added.await?;
            // The call is recorded, which is what was asked for; the next one tries again.
            let _ = sessions.saw(&session, &agents).await;
            Ok(())
        })
    }
}

impl Ledger for StoreLedger {
    fn begin<'a>(
        &'a self,
        entry: LedgerEntry,
        claim: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Option<u64>, ToolError>> {
        self.0.prepare();
        Box::pin(self.begin_call(entry, claim))
    }

    fn record(&self, entry: LedgerEntry) -> BoxFuture<'_, Result<(), ToolError>> {
        self.add_noted(entry, None, None)
    }

    fn record_unhashed(
        &self,
        entry: LedgerEntry,
        output: &str,
    ) -> BoxFuture<'_, Result<(), ToolError>> {
        self.add_noted(entry, Some(output), None)
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
        self.add_noted(entry, None, result)
    }

    fn newest(&self, most: usize) -> BoxFuture<'_, Result<Vec<LedgerEntry>, ToolError>> {
        Box::pin(async move {
            let filter = Filter { most, ..Filter::default() };
            let found = self.find(&filter).await?;
            let ended = found.into_iter().filter(|recorded| !recorded.entry.is_begun());
            Ok(ended.map(|recorded| recorded.entry).collect())
        })
    }
}

impl Drop for StoreLedger {
    fn drop(&mut self) {
        self.0.queue().is_closed = true;
        self.0.news.notify_all();
    }
}

impl Inner {
    fn prepare(&self) {
        if let Some(hook) = self.before_writing.get() {
            hook();
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    /// Queues an entry to be written a little later. Gives it back when it has to be written now.
    fn defer(self: &Arc<Self>, queued: Queued) -> Option<Queued> {
        let mut queue = self.queue();
        if !queue.may_defer(&queued) {
            return Some(queued);
        }
        let was_long = queue.is_long();
        queue.push(queued);
        let is_first = queue.since.is_none();
        queue.since.get_or_insert_with(Instant::now);
        let is_news = is_first || (!was_long && queue.is_long());
        drop(queue);
        // Not for each: waking a thread costs more than the call, and it comes for all of them.
        if is_news {
            match *self.thread.get_or_init(|| latecomers::start(self)) {
                true => drop(self.news.notify_one()),
                // No thread to write them later: then now.
                false => drop(crate::engine::waiting::wait_for(self.flush())),
            }
        }
        None
    }

    /// Writes an entry, together with all that wait: the first caller writes for those that come meanwhile.
    async fn commit(&self, mut queued: Queued) -> Result<(), ToolError> {
        let (caller, mut answer) = oneshot::channel();
        queued.caller = Some(caller);
        self.queue().push(queued);
        // Without a wait where there is none to be had: a call at a pipe that waits lets later ones go before it.
        let writer = match self.writer.try_lock() {
            Ok(writer) => writer,
            Err(_) => tokio::select! {
                biased;
                answer = &mut answer => return answer.unwrap_or_else(|_| Err(unknown())),
                writer = self.writer.lock() => writer,
            },
        };
        if self.queue().expects_more() {
            // Once round the runtime: a commit for all callers takes little longer than one for the first.
            tokio::task::yield_now().await;
        }
        let _ = self.write_out().await;
        drop(writer);
        self.make_room().await;
        answer.try_recv().unwrap_or_else(|_| Err(unknown()))
    }

    async fn flush(&self) -> Result<(), ToolError> {
        let writer = self.writer.lock().await;
        let written = self.write_out().await;
        drop(writer);
        // The process may end after this, and would take along another caller that is dropping entries.
        let _pruning = self.pruning.lock().await;
        self.drop_due().await;
        written
    }

    /// Writes what waits, in one transaction, and answers the callers. Only for who holds `writer`.
    async fn write_out(&self) -> Result<(), ToolError> {
        if self.queue().is_empty() {
            // No store is made for nothing.
            return Ok(());
        }
        let begun = match self.place.store().await {
            Ok(store) => store.begin().await,
            Err(error) => Err(error),
        };
        // Only now: what came while we waited for the store goes along.
        let mut batch = self.queue().take();
        let bytes = batch.iter().map(Queued::bytes).sum();
        let written = match begun {
            Ok(transaction) => self.append(transaction, &mut batch).await,
            Err(error) => Err(error),
        };
        if let (Some(results), Ok(())) = (&self.results, &written) {
            // The entries are written, which is what was asked for; the next ones try again.
            let _ = results.make_room(&self.place, bytes).await;
        }
        self.answer(batch, written)
    }

    async fn append(&self, to: Transaction, batch: &mut [Queued]) -> Result<(), ToolError> {
        let lines = queue::lines(batch)?;
        let appended = chain::append(to, &lines).await;
        self.note_fill(&appended, lines.iter().map(Line::bytes).sum());
        appended.map(drop)
    }

    /// Tells the callers of a batch how it ended. If it failed, the other entries wait for the next try.
    fn answer(&self, batch: Vec<Queued>, written: Result<(), ToolError>) -> Result<(), ToolError> {
        let written = self.queue().ended(written);
        let mut kept = Vec::new();
        for mut queued in batch {
            match (queued.caller.take(), &written) {
                // A caller that does not listen any more is gone.
                (Some(caller), Ok(())) => drop(caller.send(Ok(()))),
                (Some(caller), Err(error)) => {
                    let error = ToolError::unavailable(error.message()).hint(error.next_step());
                    let _ = caller.send(Err(error));
                }
                (None, Ok(())) => {}
                (None, Err(_)) => kept.push(queued),
            }
        }
        if !kept.is_empty() {
            self.queue().put_back(kept);
        }
        written
    }

    fn retention(&self) -> LedgerRetention {
        self.retention.get().copied().unwrap_or_default()
    }

    /// After a failure too: a full disk may have room again once entries are dropped.
    fn note_fill(&self, fill: &Result<Fill, ToolError>, added: u64) {
        let is_due = match fill {
            Ok(fill) => fill.is_due(self.retention(), now_ms()),
            Err(_) => true,
        };
        if is_due {
            self.due.fetch_add(added.max(1), Ordering::Relaxed);
        }
    }

    /// Drops what is due, unless another caller is at it.
    async fn make_room(&self) {
        if let Ok(_pruning) = self.pruning.try_lock() {
            self.drop_due().await;
        }
    }

    /// Only for the holder of `pruning`.
    async fn drop_due(&self) {
        let added = self.due.swap(0, Ordering::Relaxed);
        if added == 0 {
            return;
        }
        if let Ok(Some(store)) = self.place.existing().await {
            // The entries are written, which is what was asked for; the next commit tries again.
            let _ = retention::after_commit(&store, self.retention(), now_ms(), added).await;
        }
    }
}

/// The writer of an entry was stopped.
fn unknown() -> ToolError {
    ToolError::unavailable("nobody said what became of the entry")
        .hint("see whether it is there with `haft ledger show`")
}

#[cfg(test)]
mod tests;
