//! Collection: deletes outputs beyond the age, then the oldest until the quota is met, and
//! unfinished ones of processes that ended. Checked whenever an output is stored, with one query
//! over a narrow index.

use std::time::Duration;

use haft_core::ToolError;

use super::StoreOutputs;
use crate::{
    Store,
    engine::{
        clock::now_ms,
        value::{SqlRow, Value},
    },
};

/// Outputs younger than this are not deleted for their age, whatever is configured, and unfinished
/// ones may still be written.
const MIN_AGE: Duration = Duration::from_secs(3600);
/// Texts deleted per transaction, so that other processes do not wait long.
const BATCH_TEXTS: u64 = 8;

const STATE: &str = "SELECT CAST(COALESCE(SUM(packed), 0) AS BIGINT), CAST(COALESCE(MIN(kept_ms), 0) AS BIGINT), \
    (SELECT COUNT(*) FROM output_texts WHERE workspace = $1 AND whole = 0 AND kept_ms < $2) \
    FROM output_texts WHERE workspace = $3";
/// Skips texts that are being written: their remaining pieces would have no text.
const OLDEST: &str = "SELECT id, kept_ms, packed FROM output_texts WHERE workspace = $1 AND whole = 1 \
    ORDER BY kept_ms, id LIMIT $2";
const UNFINISHED: &str = "SELECT id, kept_ms, packed FROM output_texts WHERE workspace = $1 AND whole = 0 \
    AND kept_ms < $2 LIMIT $3";
/// Does nothing if the text was used again in the meantime.
const GONE: &str = "DELETE FROM output_texts WHERE id = $1 AND kept_ms = $2";
const NEVER_WAS: &str = "DELETE FROM output_texts WHERE id = $1 AND whole = 0";
const PIECES_GONE: &str = "DELETE FROM output_pieces WHERE text = $1";
const NAMES_GONE: &str = "DELETE FROM outputs WHERE text = $1";

impl StoreOutputs {
    /// Deletes what exceeds the limits.
    pub(super) async fn collect(&self, store: &Store) -> Result<(), ToolError> {
        let before = |age: Duration| {
            now_ms().saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
        };
        let (too_old, left_over) = (before(self.retention.age.max(MIN_AGE)), before(MIN_AGE));
        let workspace = Value::Text(&self.workspace);
        let state = store.query(STATE, &[workspace, Value::number(left_over), workspace]).await?;
        let Some(state) = state.first() else { return Ok(()) };
        if state.number(2)? > 0 {
            self.drop_unfinished(store, left_over).await?;
        }
        let is_over = state.number(0)? > self.retention.bytes;
        if is_over || is_before(state.integer(1)?, too_old) {
            self.drop_oldest(store, state.number(0)?, is_over, too_old).await?;
        }
        Ok(())
    }

    async fn drop_oldest(
        &self,
        store: &Store,
        mut taken: u64,
        is_over: bool,
        too_old: u64,
    ) -> Result<(), ToolError> {
        // Frees a tenth more, so that not every output has to collect.
        let wanted = if is_over { self.retention.bytes / 10 * 9 } else { u64::MAX };
        loop {
            let query = [Value::Text(&self.workspace), Value::number(BATCH_TEXTS + 1)];
            let rows = store.query(OLDEST, &query).await?;
            let mut going = Vec::new();
            // Never the newest: it may be the one that was just stored.
            for row in rows.iter().take(rows.len().saturating_sub(1)) {
                if !is_before(row.integer(1)?, too_old) && taken <= wanted {
                    break;
                }
                taken = taken.saturating_sub(row.number(2)?);
                going.push(row);
            }
            let is_last = (going.len() as u64) < BATCH_TEXTS;
            // Texts that stayed because they were used again are now the newest.
            if drop_texts(store, &going).await? == 0 || is_last {
                return Ok(());
            }
        }
    }

    async fn drop_unfinished(&self, store: &Store, before_ms: u64) -> Result<(), ToolError> {
        let query =
            [Value::Text(&self.workspace), Value::number(before_ms), Value::number(BATCH_TEXTS)];
        let rows = store.query(UNFINISHED, &query).await?;
        drop_texts(store, &rows.iter().collect::<Vec<_>>()).await.map(|_| ())
    }
}

fn is_before(kept_ms: i64, moment: u64) -> bool {
    u64::try_from(kept_ms).unwrap_or(0) < moment
}

/// Deletes a text that could not be stored completely.
pub(super) async fn give_up(store: &Store, text: &str) -> Result<(), ToolError> {
    let mut transaction = store.begin().await?;
    transaction.execute(NEVER_WAS, &[Value::Text(text)]).await?;
    transaction.execute(PIECES_GONE, &[Value::Text(text)]).await?;
    transaction.commit().await
}

/// Returns the number of deleted texts.
async fn drop_texts(store: &Store, rows: &[&SqlRow]) -> Result<u64, ToolError> {
    if rows.is_empty() {
        return Ok(0);
    }
    let mut transaction = store.begin().await?;
    let mut gone = 0;
    for row in rows {
        let id = Value::Text(row.text(0)?);
        let is_gone = transaction.execute(GONE, &[id, Value::Integer(row.integer(1)?)]).await?;
        if is_gone > 0 {
            transaction.execute(NAMES_GONE, &[id]).await?;
            transaction.execute(PIECES_GONE, &[id]).await?;
        }
        gone += is_gone;
    }
    transaction.commit().await?;
    Ok(gone)
}
