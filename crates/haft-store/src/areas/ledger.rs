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
mod text;
mod turn;
mod verify;

use std::{
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use haft_core::{BoxFuture, Ledger, LedgerEntry, ToolError, sha256_hex};

pub use self::{
    chain::Anchor,
    history::{Filter, Recorded},
    interrupted::Ending,
    latecomers::flush_everything,
    retention::{LedgerRetention, Pruned},
    verify::{DroppedEntries, Fault, Verification},
};
use self::{
    chain::{Beginning, Line},
    latecomers::Latecomers,
    queue::{Answer, Batch, Queue, Unwritten},
    retention::Fill,
    turn::{Seat, Told, Turn},
};
pub(crate) use self::{
    chain::{GENESIS, ROW_BYTES, link},
    verify::verify_in,
};
use crate::{
    Address, OutputRetention, Place,
    areas::{
        results::{KeptResult, Results},
        sessions::StoreSessions,
    },
    engine::clock::now_ms,
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
    retention: OnceLock<LedgerRetention>,
    /// Where it is noted who records a call.
    sessions: OnceLock<Arc<StoreSessions>>,
    /// Called before an entry is written.
    before_writing: OnceLock<fn()>,
    /// Bytes that were added when retention was last due; 0 when it is not.
    due: AtomicU64,
    is_pruning: AtomicBool,
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
        place.note_ledger();
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
            retention: OnceLock::new(),
            sessions: OnceLock::new(),
            before_writing: OnceLock::new(),
            due: AtomicU64::new(0),
            is_pruning: AtomicBool::new(false),
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

impl StoreLedger {
    async fn begin_call(
        &self,
        mut entry: LedgerEntry,
        claim: Option<&str>,
    ) -> Result<Option<u64>, ToolError> {
        entry.process = Some(interrupted::this_process());
        let call_id = entry.call_id.clone();
        let claim = claim.map(str::to_owned);
        let beginning = Arc::new(Beginning { claim, ..Beginning::default() });
        let line = Line { beginning: Some(beginning.clone()), ..Line::of(entry, None)? };
        self.0.commit(line).await?;
        match beginning.seq.get() {
            Some(seq) => Ok(Some(*seq)),
            None => Err(ToolError::conflict(format!(
                "call `{call_id}` was taken up by another process, which runs it"
            ))
            .hint("see what became of it with `haft approvals list --all`")),
        }
    }
}

impl StoreLedger {
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
        self.0.latecomers.close(&self.0);
    }
}

impl Inner {
    fn prepare(&self) {
        if let Some(hook) = self.before_writing.get() {
            hook();
        }
    }

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
            let _ = crate::engine::waiting::wait_for(self.flush());
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
        self.make_room().await;
        answer.map_err(Unwritten::told)
    }

    async fn flush(self: &Arc<Self>) -> Result<(), ToolError> {
        let Some(seat) = self.queue().await_all() else { return Ok(()) };
        let answer = match self.turn(seat).await {
            Told::Written(answer) => answer,
            Told::YourTurn(turn) => {
                let answer = self.write_out().await;
                drop(turn);
                self.make_room().await;
                answer
            }
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
        batch.coalesce();
        let written = match begun {
            Ok(transaction) => {
                let appended = chain::append(transaction, batch.lines()).await;
                self.note_fill(&appended, batch.lines().map(Line::bytes).sum());
                appended.map(|_| ())
            }
            Err(error) => Err(error),
        };
        if let (Some(results), Ok(())) = (&self.results, &written) {
            // The entries are written, which is what was asked for; the next ones try again.
            let bytes = batch.lines().map(Line::weight).sum();
            let _ = results.make_room(&self.place, bytes).await;
        }
        self.settle(batch, written)
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
            self.due.store(added.max(1), Ordering::Relaxed);
        }
    }

    /// Drops what is due. Nobody waits for it but the call that wrote last.
    async fn make_room(&self) {
        if self.due.load(Ordering::Relaxed) == 0 || self.is_pruning.swap(true, Ordering::Acquire) {
            return;
        }
        let _pruning = Pruning(&self.is_pruning);
        let added = self.due.swap(0, Ordering::Relaxed);
        if let Ok(Some(store)) = self.place.existing().await {
            // The entries are written, which is what was asked for; the next commit tries again.
            let _ = retention::after_commit(&store, self.retention(), now_ms(), added).await;
        }
    }

    fn settle(&self, batch: Batch, written: Result<(), ToolError>) -> Answer {
        let answer = self.queue().answer(written);
        let unawaited = batch.tell(&answer);
        self.queue().put_back(unawaited);
        answer
    }
}

/// Whoever makes room, until this is dropped.
struct Pruning<'a>(&'a AtomicBool);

impl Drop for Pruning<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
