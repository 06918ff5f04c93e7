//! The gaps that a step makes in the chain, with their extent at the end of the step.

use haft_core::{PrunedRange, ToolError};

use crate::engine::{store::Transaction, value::Value};

/// Maximum number of gaps of an earlier anchor that a step looks up, each with two statements.
const MAX_CARRIED: usize = 128;

const DELETE: &str = "DELETE FROM ledger WHERE seq >= $1 AND seq <= $2";
const BEFORE: &str = "SELECT seq FROM ledger WHERE seq < $1 ORDER BY seq DESC LIMIT 1";
const AFTER: &str = "SELECT seq, previous FROM ledger WHERE seq > $1 ORDER BY seq LIMIT 1";
/// Stores the hash that the entry after a gap follows from; the entry's own hash proves it.
const SET_PREVIOUS: &str = "UPDATE ledger SET previous = $1 WHERE seq = $2";

/// Gaps in order, which do not touch each other.
#[derive(Default)]
pub(super) struct StepGaps(Vec<PrunedRange>);

impl StepGaps {
    pub(super) fn ranges(self) -> Vec<PrunedRange> {
        self.0
    }

    /// Deletes the entries of a range and notes the resulting gap.
    pub(super) async fn open(
        &mut self,
        transaction: &mut Transaction,
        range: &PrunedRange,
    ) -> Result<(), ToolError> {
        let values = [Value::number(range.first), Value::number(range.last)];
        transaction.execute(DELETE, &values).await?;
        let next = transaction.query(AFTER, &[Value::number(range.last)]).await?;
        let next = next.first().map(|row| row.number(0)).transpose()?;
        if let Some(next) = next.filter(|next| *next == range.last + 1) {
            let values = [Value::Text(&range.hash), Value::number(next)];
            transaction.execute(SET_PREVIOUS, &values).await?;
        }
        self.note(transaction, range).await
    }

    /// Notes the gaps of an earlier anchor that is to be dropped. Returns false if there are too
    /// many.
    pub(super) async fn merge_earlier(
        &mut self,
        transaction: &mut Transaction,
        earlier: &[PrunedRange],
    ) -> Result<bool, ToolError> {
        let others: Vec<_> = earlier.iter().filter(|range| !self.hold(range)).collect();
        if others.len() > MAX_CARRIED {
            return Ok(false);
        }
        for range in others {
            if !self.hold(range) {
                self.note(transaction, range).await?;
            }
        }
        Ok(true)
    }

    fn hold(&self, range: &PrunedRange) -> bool {
        self.0.iter().any(|gap| gap.first <= range.first && range.last <= gap.last)
    }

    /// Determines the extent of the gap around a range whose entries are deleted.
    async fn note(
        &mut self,
        transaction: &mut Transaction,
        range: &PrunedRange,
    ) -> Result<(), ToolError> {
        let before = transaction.query(BEFORE, &[Value::number(range.first)]).await?;
        let after = transaction.query(AFTER, &[Value::number(range.last)]).await?;
        let first = before.first().map_or(Ok(1), |row| row.number(0).map(|seq| seq + 1))?;
        let Some(after) = after.first() else { return Err(broken(range)) };
        let last = after.number(0)? - 1;
        let hash = after.maybe_text(1)?.ok_or_else(|| broken(range))?.to_owned();
        self.0.retain(|gap| gap.last < first || last < gap.first);
        let at = self.0.partition_point(|gap| gap.last < first);
        self.0.insert(at, PrunedRange { first, last, hash });
        Ok(())
    }
}

/// Reports entries that are missing without an anchor. Retention then drops nothing more, to keep
/// the evidence.
fn broken(range: &PrunedRange) -> ToolError {
    let message = format!("the chain of the ledger is broken after entry {}", range.last);
    ToolError::conflict(message).hint("list the missing entries with `haft ledger verify`")
}
