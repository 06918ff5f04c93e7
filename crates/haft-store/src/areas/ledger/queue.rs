//! Entries that wait for their commit, in the order in which their calls ended.

use std::{collections::HashMap, sync::Arc, time::Instant};

use haft_core::{LedgerEntry, ToolError, sha256_hex};
use tokio::sync::oneshot;

use super::chain::{Beginning, LedgerLine};
use crate::areas::results::KeptResult;

/// Limits of the queue. Beyond them, read-only calls wait for their commit like the others.
const MAX_ENTRIES: usize = 4_096;
const MAX_BYTES: usize = 2 << 20;
/// Size at which deferred entries are written at once, so that no call meets a full queue.
const WRITE_AT_BYTES: usize = 512 << 10;
/// Approximate size of an entry in memory without its input.
const ENTRY_BYTES: usize = 1_024;

/// An entry that waits for its commit.
pub(super) struct QueuedEntry {
    pub(super) entry: LedgerEntry,
    /// The output that is still to be hashed.
    pub(super) output: Option<String>,
    /// The outcome, if it is kept.
    pub(super) result: Option<KeptResult>,
    /// Set for an entry that is committed before its call runs.
    pub(super) beginning: Option<Arc<Beginning>>,
    /// Receives the result; `None` for a read-only call that was answered already.
    pub(super) caller: Option<oneshot::Sender<Result<(), ToolError>>>,
}

impl QueuedEntry {
    pub(super) fn of(entry: LedgerEntry) -> Self {
        Self { entry, output: None, result: None, beginning: None, caller: None }
    }

    /// Returns its size in memory.
    pub(super) fn bytes(&self) -> usize {
        ENTRY_BYTES
            + self.entry.input_bytes()
            + self.output.as_ref().map_or(0, String::len)
            + self.result.as_ref().map_or(0, KeptResult::memory_bytes)
    }
}

/// Makes the lines of a batch. Equal read-only calls become one line unless another call came
/// between them: a client that reads in a loop then costs one entry per batch instead of one per
/// call.
pub(super) fn lines(batch: &mut [QueuedEntry]) -> Result<Vec<LedgerLine<'_>>, ToolError> {
    let mut lines: Vec<LedgerLine<'_>> = Vec::with_capacity(batch.len());
    let mut firsts: HashMap<String, usize> = HashMap::new();
    for queued in batch {
        if let Some(output) = queued.output.take() {
            queued.entry.output_sha256 = sha256_hex([output.as_bytes()]);
        }
        let mut line = LedgerLine::of(&queued.entry)?;
        line.result = queued.result.as_ref();
        line.beginning = queued.beginning.as_deref();
        match line.repeatable().map(|key| (key, firsts.get(key).copied())) {
            None => firsts.clear(),
            Some((key, None)) => drop(firsts.insert(key.to_owned(), lines.len())),
            Some((_, Some(at))) => {
                lines.get_mut(at).into_iter().for_each(|first| first.repeat(&line));
                continue;
            }
        }
        lines.push(line);
    }
    Ok(lines)
}

#[derive(Default)]
pub(super) struct CommitQueue {
    entries: Vec<QueuedEntry>,
    bytes: usize,
    /// Time when the oldest deferred entry came.
    pub(super) since: Option<Instant>,
    /// The last commit failed: read-only calls get the error instead of an early answer.
    is_failing: bool,
    /// Number of entries of answered calls that were lost.
    lost: u64,
    /// Number of callers of the last two commits, the last one first.
    together: [usize; 2],
    /// No more entries will come.
    pub(super) is_closed: bool,
}

impl CommitQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn push(&mut self, queued: QueuedEntry) {
        self.bytes += queued.bytes();
        self.entries.push(queued);
    }

    /// Returns true if a call may be answered before its entry is committed.
    pub(super) fn may_defer(&self, queued: &QueuedEntry) -> bool {
        let is_full = self.entries.len() >= MAX_ENTRIES || self.bytes + queued.bytes() > MAX_BYTES;
        !is_full && !self.is_failing
    }

    /// Returns true if the queue should be written now.
    pub(super) fn is_long(&self) -> bool {
        self.bytes >= WRITE_AT_BYTES || self.entries.len() >= MAX_ENTRIES / 2
    }

    fn callers(&self) -> usize {
        self.entries.iter().filter(|queued| queued.caller.is_some()).count()
    }

    /// Predicts if more callers will come. Callers answered by one commit tend to return together,
    /// so expect as many as in the last two batches. Two, because a late caller is committed alone,
    /// and then the others come after it.
    pub(super) fn expects_more(&self) -> bool {
        let together = self.together[0].max(self.together[1]);
        together > 1 && self.callers() < together
    }

    pub(super) fn take(&mut self) -> Vec<QueuedEntry> {
        self.together = [self.callers(), self.together[0]];
        self.bytes = 0;
        self.since = None;
        std::mem::take(&mut self.entries)
    }

    /// Notes the result of a commit. An error includes the number of lost calls.
    pub(super) fn ended(&mut self, written: Result<(), ToolError>) -> Result<(), ToolError> {
        self.is_failing = written.is_err();
        let lost = std::mem::take(&mut self.lost);
        let Err(error) = written else { return Ok(()) };
        self.lost = lost;
        let earlier = match lost {
            0 => String::new(),
            lost => format!("; {lost} earlier read-only calls are lost too"),
        };
        Err(ToolError::unavailable(format!("{error}{earlier}")).hint(error.next_step()))
    }

    /// Puts deferred entries that were not written back to the front, up to the limit.
    pub(super) fn put_back(&mut self, mut kept: Vec<QueuedEntry>) {
        let surplus = (kept.len() + self.entries.len()).saturating_sub(MAX_ENTRIES).min(kept.len());
        self.lost += surplus as u64;
        kept.drain(..surplus);
        kept.append(&mut self.entries);
        self.bytes = kept.iter().map(QueuedEntry::bytes).sum();
        // Leaves `since` unset: the next call tries again, instead of the thread every few
        // milliseconds.
        self.entries = kept;
    }
}
