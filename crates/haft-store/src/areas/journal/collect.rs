//! Collection: deletes old entries, and if that is not enough, the oldest ones. The latest change
//! of every file stays, together with all undos and redos since, so that an undo always finds what
//! it needs.

use haft_core::ToolError;

use super::write::{TAKE_NUMBERS, drop_entries};
use crate::{
    Store,
    engine::{store::Transaction, value::Value},
};

/// Limits on the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalRetention {
    /// Days that changes are kept.
    pub days: u64,
    /// Maximum number of bytes of contents, as stored.
    pub bytes: u64,
}

impl JournalRetention {
    /// The limits without a configuration.
    pub const DEFAULT: Self = Self { days: 30, bytes: 1 << 30 };
}

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
/// Pause between two attempts while the journal is too large and nothing can be deleted.
const RETRY_PAUSE_MS: u64 = 60 * 1_000;
/// Days that an empty change is kept to show that it existed.
const EMPTY_CHANGE_DAYS: u64 = 400;
/// Entries deleted per transaction, which bounds how long the store is locked.
const BATCH_ENTRIES: u64 = 200;

const STATE: &str = "SELECT bytes, looked_ms FROM journal WHERE id = 1";
const LOOKED: &str = "UPDATE journal SET looked_ms = $1 WHERE id = 1";
/// Entries with a later change of the same file, oldest first. Undo and redo do not count as later
/// changes: reverting them leads to where the file was before.
const SPARE: &str = "SELECT e.id, e.before_kind, e.before_what, e.change FROM entries e \
    JOIN changes c ON c.number = e.change \
    WHERE c.at_ms < $1 AND EXISTS (SELECT 1 FROM entries n JOIN changes m ON m.number = n.change \
        WHERE n.workspace = e.workspace AND n.path = e.path AND n.id > e.id AND m.tool <> 'undo' AND m.tool <> 'redo') \
    ORDER BY e.id LIMIT $2";
const COUNT: &str = "UPDATE changes SET collected = collected + 1 WHERE number = $1";
const FORGET: &str = "DELETE FROM changes WHERE at_ms < $1 \
    AND NOT EXISTS (SELECT 1 FROM entries WHERE entries.change = changes.number)";

/// Collects once a day, or when the journal is too large.
pub(super) async fn when_due(
    store: &Store,
    retention: JournalRetention,
    now_ms: u64,
) -> Result<(), ToolError> {
    let rows = store.query(STATE, &[]).await?;
    let Some(row) = rows.first() else { return Ok(()) };
    let state = JournalState { bytes: row.number(0)?, looked_ms: row.number(1)? };
    if state.is_due(retention, now_ms) {
        collect(store, retention, now_ms).await?;
    }
    Ok(())
}

/// State of the journal.
#[derive(Clone, Copy)]
pub(super) struct JournalState {
    pub(super) bytes: u64,
    pub(super) looked_ms: u64,
}

impl JournalState {
    /// Returns true if it is time to collect.
    pub(super) fn is_due(self, retention: JournalRetention, now_ms: u64) -> bool {
        // `abs_diff`: a clock that was set back must not postpone the collection.
        let since = now_ms.abs_diff(self.looked_ms);
        since > DAY_MS || (self.bytes > retention.bytes && since > RETRY_PAUSE_MS)
    }
}

/// Returns the number of deleted entries.
pub(super) async fn collect(
    store: &Store,
    retention: JournalRetention,
    now_ms: u64,
) -> Result<u64, ToolError> {
    let oldest = now_ms.saturating_sub(retention.days.saturating_mul(DAY_MS));
    let mut gone = 0;
    loop {
        let mut transaction = store.begin().await?;
        let taken =
            transaction.query(TAKE_NUMBERS, &[Value::Integer(0), Value::Integer(0)]).await?;
        let bytes = taken.first().map_or(Ok(0), |row| row.number(2))?;
        let mut dropped = drop_before(&mut transaction, oldest, BATCH_ENTRIES).await?;
        if dropped == 0 && bytes > retention.bytes {
            // A few at a time: one entry may be as large as all others together.
            dropped = drop_before(&mut transaction, u64::MAX, 8).await?;
        }
        gone += dropped;
        if dropped == 0 {
            let forgotten = now_ms.saturating_sub(EMPTY_CHANGE_DAYS * DAY_MS);
            transaction.execute(FORGET, &[Value::number(forgotten)]).await?;
            transaction.execute(LOOKED, &[Value::number(now_ms)]).await?;
            transaction.commit().await?;
            return Ok(gone);
        }
        transaction.commit().await?;
    }
}

async fn drop_before(
    transaction: &mut Transaction,
    before_ms: u64,
    most: u64,
) -> Result<u64, ToolError> {
    let rows = transaction.query(SPARE, &[Value::number(before_ms), Value::number(most)]).await?;
    for row in &rows {
        transaction.execute(COUNT, &[Value::number(row.number(3)?)]).await?;
    }
    drop_entries(transaction, &rows).await?;
    Ok(rows.len() as u64)
}
