//! The gaps that a step makes in the chain, each as wide as it is when the step ends.

use haft_core::{PrunedRange, ToolError};

use crate::engine::{store::Transaction, value::Value};

/// Gaps of an earlier anchor that a step looks up, each with two statements.
const MAX_CARRIED: usize = 128;

const DELETE: &str = "DELETE FROM ledger WHERE seq >= $1 AND seq <= $2";
const BEFORE: &str = "SELECT seq FROM ledger WHERE seq < $1 ORDER BY seq DESC LIMIT 1";
const AFTER: &str = "SELECT seq, previous FROM ledger WHERE seq > $1 ORDER BY seq LIMIT 1";
/// An entry behind a gap has the hash that it follows from beside it; its own hash proves it.
const GO_ON: &str = "UPDATE ledger SET previous = $1 WHERE seq = $2";

/// Gaps that do not touch each other, in order.
#[derive(Default)]
pub(super) struct Gaps(Vec<PrunedRange>);

impl Gaps {
    pub(super) fn ranges(self) -> Vec<PrunedRange> {
        self.0
    }

    /// Deletes the entries of a range and notes the gap that is there then.
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
            transaction.execute(GO_ON, &values).await?;
        }
        self.note(transaction, range).await
    }

    /// Notes the gaps of an earlier anchor, which is to be dropped. False when they are too many.
    pub(super) async fn carry(
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

    /// Finds how wide the gap around a range is, which holds no entry any more.
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

/// Entries are missing that retention has not dropped: nothing more is taken away from what is left as evidence.
fn broken(range: &PrunedRange) -> ToolError {
    let message = format!("the chain of the ledger is broken behind entry {}", range.last);
    ToolError::conflict(message).hint("see what is missing with `haft ledger verify`")
}
