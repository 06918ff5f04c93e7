//! Reads recorded entries.

use std::collections::HashSet;

use haft_core::{LedgerEntry, ToolError};

use super::{
    StoreLedger,
    interrupted::{CallEnding, ending},
};
use crate::engine::{
    store::Transaction,
    value::{SqlRow, Value},
};

/// Selects entries, newest first.
#[derive(Clone, Debug)]
pub struct LedgerFilter {
    /// Only entries of this session.
    pub session: Option<String>,
    /// Only entries of this tool.
    pub tool: Option<String>,
    /// Only calls that began at this time or later, in milliseconds since 1970.
    pub since_ms: u64,
    /// Maximum number of entries.
    pub most: usize,
    /// Includes anchor entries, which are not calls.
    pub anchors: bool,
}

impl Default for LedgerFilter {
    fn default() -> Self {
        Self { session: None, tool: None, since_ms: 0, most: usize::MAX, anchors: false }
    }
}

/// An entry and its position in the chain.
#[derive(Clone, Debug)]
pub struct RecordedEntry {
    /// Sequence number.
    pub seq: u64,
    /// Hash of the chain up to this entry.
    pub hash: String,
    /// The exact text that the hash covers.
    pub text: String,
    /// The parsed text.
    pub entry: LedgerEntry,
    /// How the call ended, as far as the ledger knows.
    pub ending: CallEnding,
}

/// Rows read at once, so that a long ledger is not in memory at once.
const PAGE_ENTRIES: usize = 1_000;

const ALL: &str = "SELECT seq, hash, entry FROM ledger WHERE began_ms >= $1 AND seq < $2 ORDER BY seq DESC LIMIT $3";
const OF_SESSION: &str = "SELECT seq, hash, entry FROM ledger \
    WHERE began_ms >= $1 AND seq < $2 AND session = $3 ORDER BY seq DESC LIMIT $4";
const OF_TOOL: &str = "SELECT seq, hash, entry FROM ledger \
    WHERE began_ms >= $1 AND seq < $2 AND tool = $3 ORDER BY seq DESC LIMIT $4";
const OF_BOTH: &str = "SELECT seq, hash, entry FROM ledger \
    WHERE began_ms >= $1 AND seq < $2 AND session = $3 AND tool = $4 ORDER BY seq DESC LIMIT $5";
/// Oldest first.
const ONWARDS: &str = "SELECT seq, hash, entry FROM ledger WHERE seq > $1 ORDER BY seq LIMIT $2";

impl StoreLedger {
    /// Returns the selected entries, newest first. Empty without a store.
    ///
    /// # Errors
    /// `unavailable` when the store cannot be read or holds an invalid entry.
    pub async fn find(&self, filter: &LedgerFilter) -> Result<Vec<RecordedEntry>, ToolError> {
        let mut found = Vec::new();
        self.each(filter, |recorded| found.push(recorded)).await?;
        Ok(found)
    }

    /// Passes every selected call to `take`, newest first: the entry of its end, or of its
    /// beginning if it has no end.
    ///
    /// # Errors
    /// As [`StoreLedger::find`].
    pub async fn each(
        &self,
        filter: &LedgerFilter,
        mut take: impl FnMut(RecordedEntry) + Send,
    ) -> Result<(), ToolError> {
        let Some(mut transaction) = self.begin_reading().await? else { return Ok(()) };
        let (mut before, mut left) = (i64::MAX as u64, filter.most);
        // Beginnings whose ends were passed on; each is met once.
        let mut ended = HashSet::new();
        while left > 0 {
            let piece = left.saturating_mul(2).min(PAGE_ENTRIES);
            let rows = newest(&mut transaction, filter, before, piece).await?;
            let is_last = rows.len() < piece;
            for row in rows {
                let recorded = recorded(&row)?;
                before = recorded.seq;
                ended.extend(recorded.entry.begun_seq);
                let is_wanted = filter.anchors || !recorded.entry.is_anchor();
                if left > 0 && is_wanted && !ended.remove(&recorded.seq) {
                    left -= 1;
                    take(recorded);
                }
            }
            if is_last {
                break;
            }
        }
        Ok(())
    }

    /// Passes every entry to `take`, oldest first, until `take` fails.
    ///
    /// # Errors
    /// The error of `take`, or as [`StoreLedger::find`].
    pub async fn each_onwards<E: From<ToolError>>(
        &self,
        mut take: impl FnMut(RecordedEntry) -> Result<(), E> + Send,
    ) -> Result<(), E> {
        let Some(mut transaction) = self.begin_reading().await? else { return Ok(()) };
        let mut after = 0;
        loop {
            let values = [Value::number(after), Value::number(PAGE_ENTRIES as u64)];
            let rows = transaction.query(ONWARDS, &values).await?;
            let is_last = rows.len() < PAGE_ENTRIES;
            for row in rows {
                let recorded = recorded(&row)?;
                after = recorded.seq;
                take(recorded)?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Flushes the queue and begins reading. `None` without a store.
    pub(super) async fn begin_reading(&self) -> Result<Option<Transaction>, ToolError> {
        // The calls of entries that cannot be written report the error.
        let _ = self.flush().await;
        match self.0.location.existing().await? {
            Some(store) => store.begin_reading().await.map(Some),
            None => Ok(None),
        }
    }
}

async fn newest(
    transaction: &mut Transaction,
    filter: &LedgerFilter,
    before: u64,
    piece: usize,
) -> Result<Vec<SqlRow>, ToolError> {
    let mut values = vec![Value::number(filter.since_ms), Value::number(before)];
    let named = [&filter.session, &filter.tool];
    values.extend(named.into_iter().flatten().map(|text| Value::Text(text)));
    values.push(Value::number(piece as u64));
    let statement = match (&filter.session, &filter.tool) {
        (None, None) => ALL,
        (Some(_), None) => OF_SESSION,
        (None, Some(_)) => OF_TOOL,
        (Some(_), Some(_)) => OF_BOTH,
    };
    transaction.query(statement, &values).await
}

fn recorded(row: &SqlRow) -> Result<RecordedEntry, ToolError> {
    let seq = row.number(0)?;
    let text = row.text(2)?.to_owned();
    let entry: LedgerEntry = serde_json::from_str(&text).map_err(|error| {
        ToolError::unavailable(format!("entry {seq} of the ledger cannot be read: {error}"))
            .hint("check the ledger with `haft ledger verify`")
    })?;
    let ending = entry.process.as_deref().map_or(CallEnding::Recorded, ending);
    Ok(RecordedEntry { seq, hash: row.text(1)?.to_owned(), text, entry, ending })
}
