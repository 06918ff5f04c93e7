//! Entries on their way to the store, in the order in which their calls ended.

use std::{collections::HashMap, sync::Arc, time::Instant};

use haft_core::{LedgerEntry, ToolError, sha256_hex};
use tokio::sync::oneshot;

use super::chain::{Beginning, Line};
use crate::areas::results::KeptResult;

/// So many entries may wait at most; then read-only calls wait for their commit like the others.
const MAX_ENTRIES: usize = 4_096;
const MAX_BYTES: usize = 2 << 20;
/// So much is written at once instead of in its time, so that no call comes to a full queue.
const WRITE_AT_BYTES: usize = 512 << 10;
/// What an entry takes in memory besides its input, roughly.
const ENTRY_BYTES: usize = 1_024;

/// An entry that waits for its commit.
pub(super) struct Queued {
    pub(super) entry: LedgerEntry,
    /// The output whose hash is still to be made.
    pub(super) output: Option<String>,
    /// The outcome, where it is kept.
    pub(super) result: Option<KeptResult>,
    /// For an entry that is committed before its call runs.
    pub(super) beginning: Option<Arc<Beginning>>,
    /// Where the caller waits; none for a read-only call that was answered already.
    pub(super) caller: Option<oneshot::Sender<Result<(), ToolError>>>,
}

impl Queued {
    pub(super) fn of(entry: LedgerEntry) -> Self {
        Self { entry, output: None, result: None, beginning: None, caller: None }
    }

    /// What it takes in memory.
    pub(super) fn bytes(&self) -> usize {
        ENTRY_BYTES
            + self.entry.input_bytes()
            + self.output.as_ref().map_or(0, String::len)
            + self.result.as_ref().map_or(0, KeptResult::weight)
    }
}

/// Makes the lines of a batch. Equal read-only calls become one line, as long as no other call came between them: a client
/// that reads in a loop then costs an entry for each batch instead of one for each call.
pub(super) fn lines(batch: &mut [Queued]) -> Result<Vec<Line<'_>>, ToolError> {
    let mut lines: Vec<Line<'_>> = Vec::with_capacity(batch.len());
    let mut firsts: HashMap<String, usize> = HashMap::new();
    for queued in batch {
        if let Some(output) = queued.output.take() {
            queued.entry.output_sha256 = sha256_hex([output.as_bytes()]);
        }
        let mut line = Line::of(&queued.entry)?;
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
pub(super) struct Queue {
    entries: Vec<Queued>,
    bytes: usize,
    /// When the oldest entry came that no caller waits for.
    pub(super) since: Option<Instant>,
    /// The last commit failed: read-only calls are told so instead of being answered early.
    is_failing: bool,
    /// Entries of answered calls that could not be kept.
    lost: u64,
    /// How many callers waited for the last commit, and for the one before.
    together: [usize; 2],
    /// No more entries will come.
    pub(super) is_closed: bool,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn push(&mut self, queued: Queued) {
        self.bytes += queued.bytes();
        self.entries.push(queued);
    }

    /// Whether a call may be answered before its entry is committed.
    pub(super) fn may_defer(&self, queued: &Queued) -> bool {
        let is_full = self.entries.len() >= MAX_ENTRIES || self.bytes + queued.bytes() > MAX_BYTES;
        !is_full && !self.is_failing
    }

    /// Whether it is better not to wait for more.
    pub(super) fn is_long(&self) -> bool {
        self.bytes >= WRITE_AT_BYTES || self.entries.len() >= MAX_ENTRIES / 2
    }

    fn callers(&self) -> usize {
        self.entries.iter().filter(|queued| queued.caller.is_some()).count()
    }

    /// Callers answered by one commit tend to return together, so expect as many as in the last two batches. Two, because
    /// one that comes too late is written alone, and then the others come after it.
    pub(super) fn expects_more(&self) -> bool {
        let together = self.together[0].max(self.together[1]);
        together > 1 && self.callers() < together
    }

    pub(super) fn take(&mut self) -> Vec<Queued> {
        self.together = [self.callers(), self.together[0]];
        self.bytes = 0;
        self.since = None;
        std::mem::take(&mut self.entries)
    }

    /// Notes how a commit ended. A failure says how many calls are lost.
    pub(super) fn ended(&mut self, written: Result<(), ToolError>) -> Result<(), ToolError> {
        self.is_failing = written.is_err();
        let lost = std::mem::take(&mut self.lost);
        let Err(error) = written else { return Ok(()) };
        self.lost = lost;
        let earlier = match lost {
            0 => String::new(),
            lost => format!("; {lost} earlier calls that only looked are lost too"),
        };
        Err(ToolError::unavailable(format!("{error}{earlier}")).hint(error.next_step()))
    }

    /// Entries that no caller waits for and that were not written go back to the front, as far as there is room.
    pub(super) fn put_back(&mut self, mut kept: Vec<Queued>) {
        let surplus = (kept.len() + self.entries.len()).saturating_sub(MAX_ENTRIES).min(kept.len());
        self.lost += surplus as u64;
        kept.drain(..surplus);
        kept.append(&mut self.entries);
        self.bytes = kept.iter().map(Queued::bytes).sum();
        // No `since`: the next call tries again, not a thread every few milliseconds.
        self.entries = kept;
    }
}
