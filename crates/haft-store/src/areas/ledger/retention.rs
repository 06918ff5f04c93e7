//! Drops old entries from the ledger, by age and size. Calls that changed nothing are dropped
//! first; entries that an undo, a pending approval request or a stored result refers to stay. Each
//! step is one short transaction that also writes an anchor entry: it lists the gaps that the step
//! made, and `verify` accepts no other gap. See docs/decisions/0004-ledger-retention.md.

mod gaps;
mod window;

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use haft_core::{LedgerEntry, PrunedEntries, PrunedRange, ToolError};
use serde::Serialize;

use self::{
    gaps::StepGaps,
    window::{Scanned, StepBounds, WindowChoice, scan},
};
use super::chain::{Anchor, EntryKind, LedgerLine, append_in, take_head};
use crate::{
    Store,
    engine::{
        store::Transaction,
        value::{SqlRow, Value},
    },
};

/// Limits on the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerRetention {
    /// Maximum age of entries.
    pub age: Duration,
    /// Maximum size of all entries, approximately.
    pub bytes: u64,
}

impl LedgerRetention {
    /// Days that entries are kept unless the configuration says otherwise.
    pub const DEFAULT_DAYS: u64 = 90;
    /// Bytes of entries that are kept unless the configuration says otherwise.
    pub const DEFAULT_BYTES: u64 = 512 << 20;

    fn oldest_ms(self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(u64::try_from(self.age.as_millis()).unwrap_or(u64::MAX))
    }

    /// Size after a pass: a tenth below the limit, so that not every call has to drop entries.
    fn goal(self) -> u64 {
        self.bytes / 10 * 9
    }
}

impl Default for LedgerRetention {
    fn default() -> Self {
        let age = Duration::from_secs(Self::DEFAULT_DAYS * 86_400);
        Self { age, bytes: Self::DEFAULT_BYTES }
    }
}

/// Interval of age checks.
const AGE_CHECK_MS: u64 = 60 * 60 * 1_000;
/// Maximum number of steps after one commit: more than any batch of entries needs.
const MAX_STEPS: usize = 8;

const STATE: &str = "SELECT bytes, pruned_bytes, pruned_ms, prune_pass, prune_seq, read_bytes FROM chain WHERE id = 1";
const NOTE: &str = "UPDATE chain SET bytes = $1, read_bytes = $2, pruned_bytes = $3, pruned_ms = $4, prune_pass = $5, \
    prune_seq = $6 WHERE id = 1";
/// Counts the lost calls of a session, for `replay`.
const LOSE: &str = "INSERT INTO ledger_losses (session, calls, last_ms) VALUES ($1, $2, $3) \
    ON CONFLICT (session) DO UPDATE SET calls = ledger_losses.calls + excluded.calls, last_ms = excluded.last_ms";
const FORGET: &str = "DELETE FROM ledger_losses WHERE session = $1 \
    AND NOT EXISTS (SELECT 1 FROM ledger WHERE ledger.session = ledger_losses.session)";

/// Entries that a pass drops. The numbers are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Pass {
    #[default]
    Idle = 0,
    /// Entries that are too old.
    Age = 1,
    /// Also calls that changed nothing, until the goal is reached.
    ReadOnly = 2,
    /// Also calls that may have changed something, because they alone exceed the limit.
    Changing = 3,
}

/// Fill level of the ledger, as returned by its last commit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FillLevel {
    bytes: u64,
    pruned_bytes: u64,
    pruned_ms: u64,
    pass: Pass,
}

impl FillLevel {
    pub(super) fn of(row: &SqlRow) -> Result<Self, ToolError> {
        let pass = match row.integer(3)? {
            1 => Pass::Age,
            2 => Pass::ReadOnly,
            3 => Pass::Changing,
            _ => Pass::Idle,
        };
        // These numbers only guide the search; another program may have written anything.
        let number = |column| row.integer(column).map(|it| u64::try_from(it).unwrap_or_default());
        Ok(Self { bytes: number(0)?, pruned_bytes: number(1)?, pruned_ms: number(2)?, pass })
    }

    /// Returns true if there may be entries to drop.
    pub(super) fn is_due(&self, retention: LedgerRetention, now_ms: u64) -> bool {
        self.pass != Pass::Idle || self.is_full(retention) || self.is_age_due(now_ms)
    }

    /// Returns true if the ledger exceeds its limit. If nothing more could be dropped, it must
    /// first grow by a twentieth.
    fn is_full(&self, retention: LedgerRetention) -> bool {
        let tried = self.pruned_bytes.saturating_add(retention.bytes / 20);
        self.bytes > retention.bytes && (self.pruned_bytes <= retention.bytes || self.bytes > tried)
    }

    fn is_age_due(&self, now_ms: u64) -> bool {
        // `abs_diff`: a clock that was set back must not postpone the check.
        self.pruned_ms != 0 && now_ms.abs_diff(self.pruned_ms) > AGE_CHECK_MS
    }
}

/// The entries that were dropped, or would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// Number of entries, including those that only begin a call.
    pub entries: u64,
    /// Number of calls that changed nothing.
    pub read_only: u64,
    /// Number of calls that may have changed something.
    pub changing: u64,
    /// Approximate size.
    pub bytes: u64,
}

impl Pruned {
    fn add(&mut self, row: &Scanned) {
        self.entries += 1;
        self.bytes += row.bytes;
        match row.kind {
            EntryKind::ReadOnly => self.read_only += row.calls,
            EntryKind::Changing => self.changing += row.calls,
            EntryKind::Begun | EntryKind::Anchor => {}
        }
    }

    fn join(&mut self, other: &Self) {
        self.entries += other.entries;
        self.read_only += other.read_only;
        self.changing += other.changing;
        self.bytes += other.bytes;
    }
}

/// Progress of a pass.
#[derive(Clone, Copy, Debug)]
struct PassState {
    fill: FillLevel,
    /// Part of `fill.bytes`: the calls that changed nothing.
    read_bytes: u64,
    /// Sequence number of the last entry that the pass has examined.
    cursor: u64,
}

impl PassState {
    fn of(row: &SqlRow) -> Result<Self, ToolError> {
        let number = |column| row.integer(column).map(|it| u64::try_from(it).unwrap_or_default());
        Ok(Self { fill: FillLevel::of(row)?, cursor: number(4)?, read_bytes: number(5)? })
    }

    fn changing_bytes(&self) -> u64 {
        self.fill.bytes.saturating_sub(self.read_bytes)
    }

    /// Begins a pass if one is due. Returns false if there is nothing to do.
    fn begin(&mut self, retention: LedgerRetention, now_ms: u64) -> bool {
        if self.fill.pass != Pass::Idle {
            return true;
        }
        let pass = if self.fill.is_full(retention) {
            Pass::ReadOnly
        } else if self.fill.is_age_due(now_ms) {
            Pass::Age
        } else {
            return false;
        };
        (self.fill.pass, self.cursor) = (pass, 0);
        true
    }

    /// Continues after a window: with the next window, with the next pass, or idle.
    fn advance(&mut self, choice: &WindowChoice, retention: LedgerRetention, now_ms: u64) {
        self.fill.bytes = self.fill.bytes.saturating_sub(choice.bytes);
        self.read_bytes = self.read_bytes.saturating_sub(choice.read_bytes);
        self.cursor = choice.cursor;
        if !choice.is_enough && !choice.is_last {
            return;
        }
        let is_too_much = self.changing_bytes() > retention.bytes;
        let pass = match self.fill.pass {
            Pass::ReadOnly if is_too_much => Pass::Changing,
            _ => Pass::Idle,
        };
        (self.fill.pass, self.cursor) = (pass, 0);
        if pass == Pass::Idle {
            (self.fill.pruned_bytes, self.fill.pruned_ms) = (self.fill.bytes, now_ms);
        }
    }
}

/// Drops entries after a commit of `added` bytes: a few steps, until twice as much is dropped.
pub(super) async fn after_commit(
    store: &Store,
    retention: LedgerRetention,
    now_ms: u64,
    added: u64,
) -> Result<(), ToolError> {
    // Checked first: after a failed commit it is unknown if anything is due.
    let rows = store.query(STATE, &[]).await?;
    if !rows
        .first()
        .is_some_and(|row| FillLevel::of(row).is_ok_and(|it| it.is_due(retention, now_ms)))
    {
        return Ok(());
    }
    let mut dropped = 0;
    for _ in 0..MAX_STEPS {
        match step(store, retention, now_ms, false).await? {
            Some(pruned) => dropped += pruned.bytes,
            None => return Ok(()),
        }
        if dropped >= added.saturating_mul(2) {
            return Ok(());
        }
    }
    Ok(())
}

/// Drops everything beyond the limits. Other processes keep working.
pub(super) async fn prune(
    store: &Store,
    retention: LedgerRetention,
    now_ms: u64,
) -> Result<Pruned, ToolError> {
    let mut all = Pruned::default();
    let mut is_first = true;
    while let Some(pruned) = step(store, retention, now_ms, is_first).await? {
        all.join(&pruned);
        is_first = false;
    }
    Ok(all)
}

/// Returns what [`prune`] would drop now.
pub(super) async fn preview(
    store: &Store,
    retention: LedgerRetention,
    now_ms: u64,
) -> Result<Pruned, ToolError> {
    let mut transaction = store.begin_reading().await?;
    let mut state = state(&mut transaction).await?;
    let head = head_seq(&mut transaction).await?;
    let mut all = Pruned::default();
    // Nothing is deleted here, so a later pass meets the same entries again.
    let mut met = HashSet::new();
    restart(&mut state, retention);
    while state.fill.pass != Pass::Idle {
        let window = scan(&mut transaction, state.cursor).await?;
        let limits = (head, retention.oldest_ms(now_ms));
        let bounds = StepBounds::of(&mut transaction, limits, state.fill.pass).await?;
        let choice = window.choose(&state, retention, bounds);
        let dropped = choice.dropped.iter().filter_map(|at| window.rows.get(*at));
        for row in dropped.filter(|row| met.insert(row.seq)) {
            all.add(row);
        }
        state.advance(&choice, retention, now_ms);
    }
    Ok(all)
}

/// A pass that a user requested begins at the oldest entry, whenever the last pass was.
fn restart(state: &mut PassState, retention: LedgerRetention) {
    let is_over = state.fill.bytes > retention.bytes;
    (state.fill.pass, state.cursor) = (if is_over { Pass::ReadOnly } else { Pass::Age }, 0);
}

async fn state(transaction: &mut Transaction) -> Result<PassState, ToolError> {
    let rows = transaction.query(STATE, &[]).await?;
    let row = rows.first().ok_or_else(|| {
        ToolError::unavailable("the end of the ledger's chain is missing")
            .hint("check the ledger with `haft ledger verify`")
    })?;
    PassState::of(row)
}

async fn head_seq(transaction: &mut Transaction) -> Result<u64, ToolError> {
    let rows = transaction.query("SELECT seq FROM chain WHERE id = 1", &[]).await?;
    rows.first().map_or(Ok(0), |row| row.number(0))
}

/// Runs one window of entries in one transaction. `None` when no pass is due.
async fn step(
    store: &Store,
    retention: LedgerRetention,
    now_ms: u64,
    is_asked_for: bool,
) -> Result<Option<Pruned>, ToolError> {
    let mut transaction = store.begin().await?;
    // The lock on the head keeps all other processes from appending or pruning until the commit.
    let head = take_head(&mut transaction).await?;
    let mut state = state(&mut transaction).await?;
    if is_asked_for {
        restart(&mut state, retention);
    } else if !state.begin(retention, now_ms) {
        return Ok(None);
    }
    let window = scan(&mut transaction, state.cursor).await?;
    let limits = (head.seq, retention.oldest_ms(now_ms));
    let bounds = StepBounds::of(&mut transaction, limits, state.fill.pass).await?;
    let choice = window.choose(&state, retention, bounds);
    let dropped: Vec<&Scanned> =
        choice.dropped.iter().filter_map(|at| window.rows.get(*at)).collect();
    let mut pruned = Pruned::default();
    dropped.iter().for_each(|row| pruned.add(row));
    state.advance(&choice, retention, now_ms);
    let anchor = match dropped.is_empty() {
        true => None,
        false => {
            let anchors: Vec<_> = window.rows.iter().filter(|row| row.seq < head.seq).collect();
            Some(drop_rows(&mut transaction, &choice.runs(&window), &anchors, &pruned).await?)
        }
    };
    if let Some((_, replaced_bytes)) = &anchor {
        state.fill.bytes = state.fill.bytes.saturating_sub(*replaced_bytes);
    }
    note_losses(&mut transaction, &dropped).await?;
    note(&mut transaction, &state).await?;
    if let Some((anchor, _)) = anchor {
        append_anchor(&mut transaction, head, anchor, now_ms).await?;
    }
    transaction.commit().await?;
    Ok(Some(pruned))
}

/// Deletes runs of entries, and the earlier anchors among `anchors` whose gaps fit into the new
/// one. Returns the contents of the new anchor, and the size of the anchors that it replaces.
async fn drop_rows(
    transaction: &mut Transaction,
    runs: &[PrunedRange],
    anchors: &[&Scanned],
    pruned: &Pruned,
) -> Result<(PrunedEntries, u64), ToolError> {
    let mut gaps = StepGaps::default();
    for run in runs {
        gaps.open(transaction, run).await?;
    }
    let Pruned { mut entries, mut read_only, mut changing, .. } = *pruned;
    let mut bytes = 0;
    for row in anchors {
        let Some(earlier) = &row.anchor else { continue };
        if !gaps.merge_earlier(transaction, &earlier.ranges).await? {
            continue;
        }
        let own = PrunedRange { first: row.seq, last: row.seq, hash: row.hash.clone() };
        gaps.open(transaction, &own).await?;
        entries += earlier.entries + 1;
        read_only += earlier.read_only;
        changing += earlier.changing;
        bytes += row.bytes;
    }
    Ok((PrunedEntries { ranges: gaps.ranges(), entries, read_only, changing }, bytes))
}

async fn append_anchor(
    transaction: &mut Transaction,
    head: Anchor,
    dropped: PrunedEntries,
    now_ms: u64,
) -> Result<(), ToolError> {
    let line = LedgerLine::of(&LedgerEntry::anchor(dropped, now_ms))?;
    append_in(transaction, head, &[line]).await.map(|_| ())
}

async fn note_losses(transaction: &mut Transaction, dropped: &[&Scanned]) -> Result<(), ToolError> {
    let mut sessions: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for row in dropped {
        let (calls, last_ms) = sessions.entry(&row.session).or_default();
        *calls += row.calls;
        *last_ms = row.began_ms.max(*last_ms);
    }
    for (session, (calls, last_ms)) in sessions {
        let session = Value::Text(session);
        let values = [session, Value::number(calls), Value::number(last_ms)];
        transaction.execute(LOSE, &values).await?;
        transaction.execute(FORGET, &[session]).await?;
    }
    Ok(())
}

async fn note(transaction: &mut Transaction, state: &PassState) -> Result<(), ToolError> {
    let PassState { fill, read_bytes, cursor } = *state;
    let values =
        [fill.bytes, read_bytes, fill.pruned_bytes, fill.pruned_ms, fill.pass as u64, cursor];
    transaction.execute(NOTE, &values.map(Value::number)).await.map(|_| ())
}

#[cfg(test)]
mod tests;
