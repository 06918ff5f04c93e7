//! The window of the ledger that one step examines, and the choice of entries to drop.

use haft_core::{LedgerEntry, PrunedEntries, PrunedRange, ToolError};

use super::{LedgerRetention, Pass, PassState};
use crate::{
    areas::ledger::chain::{EntryKind, ROW_BYTES},
    engine::{
        store::Transaction,
        value::{SqlRow, Value},
    },
};

/// Number of entries that one step examines.
const WINDOW: u64 = 500;
/// Maximum number of runs of entries that one step drops: each costs several statements while the
/// head of the chain is locked.
const MAX_RUNS: usize = 64;
/// Returns the oldest of the newest hundred entries of calls that may have changed something. These
/// stay, whatever the size, because such a call may still run. Read-only calls are already dropped
/// when this is queried.
const NEWEST: &str =
    "SELECT seq FROM ledger WHERE kind IN (1, 2) ORDER BY seq DESC LIMIT 1 OFFSET 99";

/// Loads the text only if the columns are not sufficient: for anchors, and for entries of earlier
/// versions.
const SCAN: &str = "SELECT l.seq, l.session, l.kind, l.calls, l.began_ms, CAST(octet_length(l.entry) AS BIGINT), l.hash, \
    CASE WHEN l.kind IS NULL OR l.kind = 3 THEN l.entry END, \
    CAST(CASE WHEN EXISTS (SELECT 1 FROM call_results r WHERE r.seq = l.seq) \
        OR EXISTS (SELECT 1 FROM approvals a WHERE a.call_id = l.call_id \
            AND (a.state = 'pending' OR (a.state = 'approved' AND a.ended IS NULL))) \
        OR EXISTS (SELECT 1 FROM changes c JOIN entries e ON e.change = c.number WHERE c.call_id = l.call_id) \
        THEN 1 ELSE 0 END AS BIGINT) \
    FROM ledger l WHERE l.seq > $1 ORDER BY l.seq LIMIT $2";

/// The properties of an entry that matter here.
pub(super) struct Scanned {
    pub(super) seq: u64,
    pub(super) session: String,
    pub(super) kind: EntryKind,
    /// True if the store counts it as a call that changed nothing.
    is_counted_read_only: bool,
    pub(super) calls: u64,
    pub(super) began_ms: u64,
    pub(super) bytes: u64,
    pub(super) hash: String,
    /// Contents of an anchor.
    pub(super) anchor: Option<PrunedEntries>,
    /// True if an undo, a pending approval request or a stored result refers to its call.
    is_needed: bool,
}

impl Scanned {
    fn of(row: &SqlRow) -> Result<Self, ToolError> {
        let entry: Option<LedgerEntry> =
            row.maybe_text(7)?.and_then(|text| serde_json::from_str(text).ok());
        let kind = row.maybe_number(2)?;
        Ok(Self {
            seq: row.number(0)?,
            session: row.text(1)?.to_owned(),
            // An entry that cannot be parsed is dropped as late as possible.
            kind: match (kind, &entry) {
                (None, Some(entry)) => EntryKind::of(entry),
                (kind, _) => kind.and_then(EntryKind::numbered).unwrap_or(EntryKind::Changing),
            },
            is_counted_read_only: kind == Some(EntryKind::ReadOnly as u64),
            calls: row.number(3)?,
            began_ms: row.number(4)?,
            bytes: row.number(5)? + ROW_BYTES,
            hash: row.text(6)?.to_owned(),
            anchor: entry.and_then(|entry| entry.dropped),
            is_needed: row.integer(8)? != 0,
        })
    }
}

pub(super) struct LedgerWindow {
    pub(super) rows: Vec<Scanned>,
    /// True if the ledger ends with this window.
    is_last: bool,
}

/// The entries of a window to drop.
pub(super) struct WindowChoice {
    /// Indexes into the window.
    pub(super) dropped: Vec<usize>,
    pub(super) bytes: u64,
    /// Part of `bytes`: entries that the store counts as calls that changed nothing.
    pub(super) read_bytes: u64,
    /// Sequence number of the last entry examined.
    pub(super) cursor: u64,
    /// True if the pass has reached its goal.
    pub(super) is_enough: bool,
    /// True if every entry was examined.
    pub(super) is_last: bool,
}

pub(super) async fn scan(
    transaction: &mut Transaction,
    after: u64,
) -> Result<LedgerWindow, ToolError> {
    let values = [Value::number(after), Value::number(WINDOW)];
    let rows = transaction.query(SCAN, &values).await?;
    let is_last = (rows.len() as u64) < WINDOW;
    let rows = rows.iter().map(Scanned::of).collect::<Result<_, _>>()?;
    Ok(LedgerWindow { rows, is_last })
}

/// Limits on the entries that a step may drop.
#[derive(Clone, Copy)]
pub(super) struct StepBounds {
    /// The end of the chain, which stays.
    head: u64,
    /// From this entry on, calls that may have changed something stay unless they are too old.
    newest: u64,
    oldest_ms: u64,
}

impl StepBounds {
    pub(super) async fn of(
        transaction: &mut Transaction,
        (head, oldest_ms): (u64, u64),
        pass: Pass,
    ) -> Result<Self, ToolError> {
        let rows = match pass {
            Pass::Changing => transaction.query(NEWEST, &[]).await?,
            Pass::Idle | Pass::Age | Pass::ReadOnly => Vec::new(),
        };
        let newest = rows.first().map_or(Ok(0), |row| row.number(0))?;
        Ok(Self { head, newest, oldest_ms })
    }
}

impl LedgerWindow {
    pub(super) fn choose(
        &self,
        state: &PassState,
        retention: LedgerRetention,
        StepBounds { head, newest, oldest_ms }: StepBounds,
    ) -> WindowChoice {
        let mut choice = WindowChoice {
            dropped: Vec::new(),
            bytes: 0,
            read_bytes: 0,
            cursor: state.cursor,
            is_enough: false,
            is_last: self.is_last,
        };
        let mut runs = 0;
        for (at, row) in self.rows.iter().enumerate() {
            let is_too_old = row.began_ms < oldest_ms;
            choice.is_enough = !is_too_old && choice.is_satisfied(state, retention);
            if choice.is_enough {
                break;
            }
            let is_spare = !row.is_needed && row.kind != EntryKind::Anchor && row.seq < head;
            let is_too_much = match (state.fill.pass, row.kind) {
                (Pass::ReadOnly, EntryKind::ReadOnly) => true,
                (Pass::Changing, EntryKind::Begun | EntryKind::Changing) => row.seq < newest,
                _ => false,
            };
            if is_spare && (is_too_old || is_too_much) {
                let is_new_run = at == 0 || choice.dropped.last() != Some(&(at - 1));
                runs += usize::from(is_new_run);
                if runs > MAX_RUNS {
                    choice.is_last = false;
                    break;
                }
                choice.take(at, row);
            }
            choice.cursor = row.seq;
        }
        // Ages grow with the sequence numbers: if none in this window is too old, none after it is.
        let is_young = self.rows.iter().all(|row| row.began_ms >= oldest_ms);
        choice.is_enough |= state.fill.pass == Pass::Age && is_young;
        choice
    }
}

impl WindowChoice {
    fn take(&mut self, at: usize, row: &Scanned) {
        self.dropped.push(at);
        self.bytes += row.bytes;
        if row.is_counted_read_only {
            self.read_bytes += row.bytes;
        }
    }

    fn is_satisfied(&self, state: &PassState, retention: LedgerRetention) -> bool {
        match state.fill.pass {
            Pass::Idle => true,
            Pass::Age => false,
            Pass::ReadOnly => state.fill.bytes.saturating_sub(self.bytes) <= retention.goal(),
            Pass::Changing => {
                let dropped = self.bytes - self.read_bytes;
                state.changing_bytes().saturating_sub(dropped) <= retention.goal()
            }
        }
    }

    /// Returns the dropped entries as runs of adjacent ones.
    pub(super) fn runs(&self, window: &LedgerWindow) -> Vec<PrunedRange> {
        let mut runs: Vec<PrunedRange> = Vec::new();
        let mut before = None;
        for at in &self.dropped {
            let Some(row) = window.rows.get(*at) else { continue };
            let is_next = before.is_some_and(|before| before + 1 == *at);
            before = Some(*at);
            match runs.last_mut().filter(|_| is_next) {
                Some(run) => (run.last, run.hash) = (row.seq, row.hash.clone()),
                None => {
                    let (first, last) = (row.seq, row.seq);
                    runs.push(PrunedRange { first, last, hash: row.hash.clone() });
                }
            }
        }
        runs
    }
}
