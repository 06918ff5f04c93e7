//! What goes when there is too much: what is older than the age, then the oldest until there is room, and what a process that
//! ended has left unfinished. Looked for whenever something is kept, which is one question over a narrow index.

use std::time::Duration;

use haft_core::ToolError;

use super::StoreOutputs;
use crate::{
    Store,
    clock::now_ms,
    value::{Row, Value},
};

/// So long nothing goes for its age, whatever is configured, and what is unfinished may still be written.
const RECENT: Duration = Duration::from_secs(3600);
/// So many go in one transaction, so that nobody waits long for it.
const AT_ONCE: u64 = 8;

const STATE: &str = "SELECT CAST(COALESCE(SUM(packed), 0) AS BIGINT), CAST(COALESCE(MIN(kept_ms), 0) AS BIGINT) \
    FROM output_texts WHERE workspace = $1";
const OLDEST: &str = "SELECT id, kept_ms, packed FROM output_texts WHERE workspace = $1 \
    ORDER BY kept_ms, id LIMIT $2";
const UNFINISHED: &str = "SELECT id, kept_ms, packed FROM output_texts WHERE workspace = $1 AND whole = 0 \
    AND kept_ms < $2 LIMIT $3";
/// Not when somebody has used it again meanwhile.
const GONE: &str = "DELETE FROM output_texts WHERE id = $1 AND kept_ms = $2";
const PIECES_GONE: &str = "DELETE FROM output_pieces WHERE text = $1";
const NAMES_GONE: &str = "DELETE FROM outputs WHERE text = $1";

impl StoreOutputs {
    /// Makes room.
    pub(super) async fn collect(&self, store: &Store) -> Result<(), ToolError> {
        let before = |age: Duration| {
            now_ms().saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
        };
        let too_old = before(self.retention.age.max(RECENT));
        let rows = store.query(STATE, &[Value::Text(&self.workspace)]).await?;
        let Some(state) = rows.first() else { return Ok(()) };
        let (mut taken, oldest_ms) = (state.number(0)?, state.integer(1)?);
        let is_old = |kept_ms: i64| u64::try_from(kept_ms).unwrap_or(0) < too_old;
        let is_over = taken > self.retention.bytes;
        if !is_over && !is_old(oldest_ms) {
            return Ok(());
        }
        self.drop_unfinished(store, before(RECENT)).await?;
        // Below the quota by some: not every output that is kept should have to make room.
        let wanted = if is_over { self.retention.bytes / 10 * 9 } else { u64::MAX };
        loop {
            let query = [Value::Text(&self.workspace), Value::number(AT_ONCE)];
            let rows = store.query(OLDEST, &query).await?;
            // The youngest of all is the one that was just kept.
            let youngest = (rows.len() as u64) < AT_ONCE;
            let mut going = Vec::new();
            for (number, row) in rows.iter().enumerate() {
                let is_youngest = youngest && number + 1 == rows.len();
                if !is_old(row.integer(1)?) && (taken <= wanted || is_youngest) {
                    break;
                }
                taken = taken.saturating_sub(row.number(2)?);
                going.push(row);
            }
            let is_last = going.len() < rows.len() || rows.is_empty();
            // Those that stayed because they are used again are the youngest now.
            if drop_texts(store, &going).await? == 0 || is_last {
                return Ok(());
            }
        }
    }

    async fn drop_unfinished(&self, store: &Store, before_ms: u64) -> Result<(), ToolError> {
        let query =
            [Value::Text(&self.workspace), Value::number(before_ms), Value::number(AT_ONCE)];
        let rows = store.query(UNFINISHED, &query).await?;
        drop_texts(store, &rows.iter().collect::<Vec<_>>()).await.map(|_| ())
    }
}

/// Returns how many are gone.
async fn drop_texts(store: &Store, rows: &[&Row]) -> Result<u64, ToolError> {
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
