//! The ledger on disk. Entries that arrive together are committed together. A call that may have
//! changed something is answered after its entry is committed; a read-only call may be answered
//! earlier, and its entry follows within 50 ms.
//!
//! A call that may change something has two commits: an entry before it runs, and one after it
//! ended.
//!
//! Losses by a crash: `kill -9` loses at most the read-only calls of the last 50 ms. A power
//! failure may lose what the machine had not written yet (SQLite runs with `synchronous = NORMAL`),
//! but never breaks the chain.

mod chain;
mod deferred;
mod history;
mod interrupted;
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
    deferred::flush_everything,
    history::{LedgerFilter, RecordedEntry},
    interrupted::CallEnding,
    retention::{LedgerRetention, Pruned},
    verify::{DroppedEntries, LedgerError, Verification},
};
use self::{
    chain::{Beginning, LedgerLine},
    queue::{CommitQueue, QueuedEntry},
    retention::FillLevel,
};
pub(crate) use self::{
    chain::{GENESIS, ROW_BYTES, link},
    verify::verify_in,
};
use crate::{
    OutputRetention, StoreAddress, StoreLocation,
    areas::{
        results::{KeptResult, Results},
        sessions::StoreSessions,
    },
    engine::{clock::now_ms, store::Transaction},
};

/// When a read-only call is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyTiming {
    /// After its entry is committed, like every other call: for a process that makes one call and
    /// ends.
    AfterCommit,
    /// At once. The process has to call [`flush_everything`] before it ends.
    Early,
}

/// The ledger of a store. The store is opened when the first call is recorded.
pub struct StoreLedger(Arc<LedgerInner>);

struct LedgerInner {
    location: Arc<StoreLocation>,
    reply_timing: ReplyTiming,
    queue: Mutex<CommitQueue>,
    /// Held by the caller that commits the queue. The others wait for it and for their result.
    writer: tokio::sync::Mutex<()>,
    /// Wakes the thread that writes entries that no caller waits for.
    wakeup: Condvar,
    /// True if that thread runs. Set by the first deferred entry.
    thread: OnceLock<bool>,
    /// Store of whole outcomes, if they are kept.
    results: Option<Results>,
    retention: OnceLock<LedgerRetention>,
    /// Sessions to mark as active when they record a call.
    sessions: OnceLock<Arc<StoreSessions>>,
    /// Called before an entry is written.
    before_writing: OnceLock<fn()>,
    /// Bytes added since retention became due; 0 when it is not due.
    due: AtomicU64,
    pruning: tokio::sync::Mutex<()>,
}

impl StoreLedger {
    /// Creates the ledger of a store.
    pub fn new(location: Arc<StoreLocation>, reply_timing: ReplyTiming) -> Self {
        Self::made(location, reply_timing, None)
    }

    /// Creates a ledger that also keeps the whole outcome of every call beside its entry, within
    /// the quota.
    pub fn keeping_results(
        location: Arc<StoreLocation>,
        reply_timing: ReplyTiming,
        workspace: &Path,
        retention: OutputRetention,
    ) -> Self {
        Self::made(location, reply_timing, Some(Results::new(workspace, retention)))
    }

    fn made(
        location: Arc<StoreLocation>,
        reply_timing: ReplyTiming,
        results: Option<Results>,
    ) -> Self {
        location.note_ledger();
        // The thread that writes deferred entries has no runtime, which PostgreSQL needs.
        let reply_timing = match location.address() {
            StoreAddress::Sqlite(_) => reply_timing,
            StoreAddress::Postgres(_) => ReplyTiming::AfterCommit,
        };
        Self(Arc::new(LedgerInner {
            location,
            reply_timing,
            queue: Mutex::default(),
            writer: tokio::sync::Mutex::default(),
            wakeup: Condvar::new(),
            thread: OnceLock::new(),
            results,
            retention: OnceLock::new(),
            sessions: OnceLock::new(),
            before_writing: OnceLock::new(),
            due: AtomicU64::new(0),
            pruning: tokio::sync::Mutex::default(),
        }))
    }

    /// Sets the limits beyond which entries are dropped as calls are recorded. Default:
    /// [`LedgerRetention::default`].
    #[must_use]
    pub fn retaining(self, retention: LedgerRetention) -> Self {
        let _ = self.0.retention.set(retention);
        self
    }

    /// Marks a session as active when it records a call: an idle connection is not a session, and
    /// starting a server does not wait for the store.
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

    /// Drops all entries beyond the limits now, and returns what was dropped. Without a store it
    /// does nothing.
    ///
    /// # Errors
    /// `unavailable` when the store cannot be written, `conflict` when the chain is broken where
    /// entries would be dropped.
    pub async fn prune(&self) -> Result<Pruned, ToolError> {
        self.flush().await?;
        match self.0.location.existing().await? {
            Some(store) => retention::prune(&store, self.0.retention(), now_ms()).await,
            None => Ok(Pruned::default()),
        }
    }

    /// Estimates what [`StoreLedger::prune`] would drop now. Other processes keep working.
    ///
    /// # Errors
    /// `unavailable` when the store cannot be read.
    pub async fn preview_prune(&self) -> Result<Pruned, ToolError> {
        match self.0.location.existing().await? {
            Some(store) => retention::preview(&store, self.0.retention(), now_ms()).await,
            None => Ok(Pruned::default()),
        }
    }

    /// Writes all entries that are not written yet.
    ///
    /// # Errors
    /// When they cannot be written; they are kept for the next attempt.
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
        let may_wait = self.0.reply_timing == ReplyTiming::Early && entry.is_read_only();
        if let Some(output) = output.filter(|_| !may_wait) {
            entry.output_sha256 = sha256_hex([output.as_bytes()]);
        }
        let output = output.filter(|_| may_wait).map(str::to_owned);
        let queued = QueuedEntry { output, result, ..QueuedEntry::of(entry) };
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
        self.0
            .commit(QueuedEntry { beginning: beginning_of_line, ..QueuedEntry::of(entry) })
            .await?;
        match beginning.seq.get() {
            Some(seq) => Ok(Some(*seq)),
            None => Err(ToolError::conflict(format!(
                "call `{call_id}` was claimed by another process, which runs it"
            ))
            .hint("see its result with `haft approvals list --all`")),
        }
    }

    /// Adds an entry, then marks its session as active if that is configured and due.
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
            // The call is recorded; an error here is ignored, and the next call tries again.
            let _ = sessions.mark_active(&session, &agents).await;
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
            let filter = LedgerFilter { most, ..LedgerFilter::default() };
            let found = self.find(&filter).await?;
            let ended = found.into_iter().filter(|recorded| !recorded.entry.is_begun());
            Ok(ended.map(|recorded| recorded.entry).collect())
        })
    }
}

impl Drop for StoreLedger {
    fn drop(&mut self) {
        self.0.queue().is_closed = true;
        self.0.wakeup.notify_all();
    }
}

impl LedgerInner {
    fn prepare(&self) {
        if let Some(hook) = self.before_writing.get() {
            hook();
        }
    }

    fn queue(&self) -> MutexGuard<'_, CommitQueue> {
        self.queue.lock()
    }

    /// Queues an entry to be written a little later. Returns it if it has to be written now.
    fn defer(self: &Arc<Self>, queued: QueuedEntry) -> Option<QueuedEntry> {
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
        // Not for each entry: waking a thread costs more than the call, and it writes all of them.
        if is_news {
            match *self.thread.get_or_init(|| deferred::start(self)) {
                true => drop(self.wakeup.notify_one()),
                // No thread to write them later, so write now.
                false => drop(crate::engine::waiting::wait_for(self.flush())),
            }
        }
        None
    }

    /// Commits an entry together with all that wait: the first caller writes for those that come
    /// while it does.
    async fn commit(&self, mut queued: QueuedEntry) -> Result<(), ToolError> {
        let (caller, mut answer) = oneshot::channel();
        queued.caller = Some(caller);
        self.queue().push(queued);
        // Does not wait if it need not: while a call of a pipe waits, later calls of that pipe
        // would overtake it.
        let writer = match self.writer.try_lock() {
            Ok(writer) => writer,
            Err(_) => tokio::select! {
                biased;
                answer = &mut answer => return answer.unwrap_or_else(|_| Err(unknown())),
                writer = self.writer.lock() => writer,
            },
        };
        if self.queue().expects_more() {
            // Let other tasks run once: a commit for all callers takes little longer than one for
            // the first.
            tokio::task::yield_now().await;
        }
        let _ = self.write_out().await;
        drop(writer);
        self.drop_if_idle().await;
        answer.try_recv().unwrap_or_else(|_| Err(unknown()))
    }

    async fn flush(&self) -> Result<(), ToolError> {
        let writer = self.writer.lock().await;
        let written = self.write_out().await;
        drop(writer);
        // The process may end after this, which would interrupt another caller that is dropping
        // entries.
        let _pruning = self.pruning.lock().await;
        self.drop_due().await;
        written
    }

    /// Commits the queue in one transaction and answers the callers. The caller must hold `writer`.
    async fn write_out(&self) -> Result<(), ToolError> {
        if self.queue().is_empty() {
            // Do not create a store without entries.
            return Ok(());
        }
        let begun = match self.location.store().await {
            Ok(store) => store.begin().await,
            Err(error) => Err(error),
        };
        // Taken only now, to include entries that came while this waited for the store.
        let mut batch = self.queue().take();
        let bytes = batch.iter().map(QueuedEntry::bytes).sum();
        let written = match begun {
            Ok(transaction) => self.append(transaction, &mut batch).await,
            Err(error) => Err(error),
        };
        if let (Some(results), Ok(())) = (&self.results, &written) {
            // The entries are written; an error here is ignored, and the next commit tries again.
            let _ = results.collect_if_due(&self.location, bytes).await;
        }
        self.answer(batch, written)
    }

    async fn append(&self, to: Transaction, batch: &mut [QueuedEntry]) -> Result<(), ToolError> {
        let lines = queue::lines(batch)?;
        let appended = chain::append(to, &lines).await;
        self.note_fill(&appended, lines.iter().map(LedgerLine::bytes).sum());
        appended.map(drop)
    }

    /// Reports the result to the callers of a batch. After an error, the other entries wait for the
    /// next attempt.
    fn answer(
        &self,
        batch: Vec<QueuedEntry>,
        written: Result<(), ToolError>,
    ) -> Result<(), ToolError> {
        let written = self.queue().ended(written);
        let mut kept = Vec::new();
        for mut queued in batch {
            match (queued.caller.take(), &written) {
                // The caller may have stopped waiting.
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

    /// Also after an error: a full disk may have space again once entries are dropped.
    fn note_fill(&self, fill: &Result<FillLevel, ToolError>, added: u64) {
        let is_due = match fill {
            Ok(fill) => fill.is_due(self.retention(), now_ms()),
            Err(_) => true,
        };
        if is_due {
            self.due.fetch_add(added.max(1), Ordering::Relaxed);
        }
    }

    /// Drops what is due, unless another caller does so already.
    async fn drop_if_idle(&self) {
        if let Ok(_pruning) = self.pruning.try_lock() {
            self.drop_due().await;
        }
    }

    /// The caller must hold `pruning`.
    async fn drop_due(&self) {
        let added = self.due.swap(0, Ordering::Relaxed);
        if added == 0 {
            return;
        }
        if let Ok(Some(store)) = self.location.existing().await {
            // The entries are written; an error here is ignored, and the next commit tries again.
            let _ = retention::after_commit(&store, self.retention(), now_ms(), added).await;
        }
    }
}

/// Reports that the writer of an entry was stopped.
fn unknown() -> ToolError {
    ToolError::unavailable("the commit of the entry was interrupted")
        .hint("check whether it was written with `haft ledger show`")
}

#[cfg(test)]
mod tests;
