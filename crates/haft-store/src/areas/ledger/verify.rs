//! Verifies the whole chain and reports where it is broken. A program that can write the store
//! could make a new chain from an entry on; a user who kept an earlier [`Anchor`] detects that.

mod dropped;

use std::{borrow::Cow, collections::BTreeMap};

use haft_core::{LedgerEntry, ToolError};
use serde::Serialize;

use self::dropped::ChainGaps;
pub use self::dropped::DroppedEntries;

use super::{
    StoreLedger,
    chain::{Anchor, EntryColumns, GENESIS, link},
    interrupted::{CallEnding, ending},
};
use crate::engine::{
    store::Transaction,
    value::{SqlRow, Value},
};

const PAGE_ENTRIES: u64 = 1_000;
/// Maximum number of reported errors.
const MAX_ERRORS: usize = 100;

const ONWARDS: &str = "SELECT seq, hash, entry, call_id, session, tool, began_ms, action, error, \
    kind, calls, previous FROM ledger WHERE seq > $1 ORDER BY seq LIMIT $2";
const HEAD: &str = "SELECT seq, hash FROM chain WHERE id = 1";

/// Result of verifying the chain.
#[derive(Clone, Debug)]
pub struct Verification {
    /// Number of entries.
    pub entries: u64,
    /// The last entry, for the user to keep.
    pub head: Anchor,
    /// Entries that retention has dropped, according to the anchor entries.
    pub dropped: DroppedEntries,
    /// True if the entry of the given anchor was dropped, so that its hash could not be compared.
    pub anchor_is_dropped: bool,
    /// Calls that began and have no recorded end, by the sequence numbers of their entries.
    pub unended: BTreeMap<u64, CallEnding>,
    /// The errors, in the order of the chain; a hundred at most.
    pub faults: Vec<LedgerError>,
}

/// One break of the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LedgerError {
    /// Sequence number of the entry.
    pub seq: u64,
    /// Description of the error.
    pub what: String,
}

impl StoreLedger {
    /// Verifies the chain. Without a store there are no entries, and the only possible error is
    /// that the anchor knows some.
    ///
    /// # Errors
    /// `unavailable` when the store cannot be read.
    pub async fn verify(&self, anchor: Option<&Anchor>) -> Result<Verification, ToolError> {
        let mut walk = ChainWalk::new(anchor);
        if let Some(mut transaction) = self.begin_reading().await? {
            walk.along(&mut transaction).await?;
        }
        Ok(walk.end())
    }
}

/// Verifies the chain in an open transaction.
pub(crate) async fn verify_in(transaction: &mut Transaction) -> Result<Verification, ToolError> {
    let mut walk = ChainWalk::new(None);
    walk.along(transaction).await?;
    Ok(walk.end())
}

struct ChainWalk<'a> {
    anchor: Option<&'a Anchor>,
    entries: u64,
    last: Anchor,
    /// Beginnings whose end was not met yet.
    unended: BTreeMap<u64, CallEnding>,
    gaps: ChainGaps,
    anchor_is_dropped: bool,
    faults: Vec<LedgerError>,
}

impl<'a> ChainWalk<'a> {
    fn new(anchor: Option<&'a Anchor>) -> Self {
        let last = Anchor { seq: 0, hash: GENESIS.to_owned() };
        Self {
            anchor,
            entries: 0,
            last,
            unended: BTreeMap::new(),
            gaps: ChainGaps::default(),
            anchor_is_dropped: false,
            faults: Vec::new(),
        }
    }

    async fn along(&mut self, transaction: &mut Transaction) -> Result<(), ToolError> {
        self.gaps = ChainGaps::announced(transaction).await?;
        let mut after = i64::MIN;
        loop {
            let values = [Value::Integer(after), Value::number(PAGE_ENTRIES)];
            let rows = transaction.query(ONWARDS, &values).await?;
            for row in &rows {
                after = row.integer(0)?;
                self.step(row)?;
            }
            if (rows.len() as u64) < PAGE_ENTRIES {
                break;
            }
        }
        for (seq, what) in self.gaps.faults() {
            self.fault(seq, what);
        }
        let head = transaction.query(HEAD, &[]).await?;
        self.compare_head(head.first())
    }

    fn step(&mut self, row: &SqlRow) -> Result<(), ToolError> {
        let Ok(seq) = row.number(0) else {
            self.fault(0, format!("an entry has the invalid number {}", row.integer(0)?));
            return Ok(());
        };
        self.entries += 1;
        let (Ok(hash), Ok(text)) = (row.text(1), row.text(2)) else {
            self.fault(seq, "its text is not text".to_owned());
            self.last = Anchor { seq, hash: String::new() };
            return Ok(());
        };
        self.follow(seq, hash, text, row);
        self.compare_columns(seq, text, row);
        if let Ok(entry) = serde_json::from_str::<LedgerEntry>(text) {
            if let Some(process) = &entry.process {
                self.unended.insert(seq, ending(process));
            }
            entry.begun_seq.and_then(|begun| self.unended.remove(&begun));
            self.gaps.confirm(seq, &entry);
        }
        if let Some(anchor) = self.anchor.filter(|it| it.seq == seq && it.hash != hash) {
            self.fault(anchor.seq, "the anchor has another hash for it".to_owned());
        }
        self.last = Anchor { seq, hash: hash.to_owned() };
        Ok(())
    }

    /// Checks that an entry follows the one before it, or the last one that retention has dropped
    /// before it.
    fn follow(&mut self, seq: u64, hash: &str, text: &str, row: &SqlRow) {
        let expected = self.last.seq + 1;
        let dropped = (seq > expected).then(|| self.gaps.hash_of(seq - 1)).flatten();
        let previous = match &dropped {
            Some(hash) => hash.clone(),
            None => self.last.hash.clone(),
        };
        if row.maybe_text(11).ok().flatten() != dropped.as_deref() {
            self.fault(seq, "its column `previous` differs from the anchor entries".to_owned());
        }
        if seq > expected && dropped.is_some() {
            self.gaps.meet(expected, seq - 1);
            self.compare_dropped(expected, seq - 1);
        } else if seq != expected {
            let gap = if seq == expected + 1 {
                format!("entry {expected} is missing")
            } else {
                format!("entries {expected} to {} are missing", seq.saturating_sub(1))
            };
            return self.fault(expected, gap + ", and no anchor entry lists this as dropped");
        }
        if link(&previous, text) != hash {
            let what = "its hash does not match its text and the previous entry: one of them was changed, or it was moved here";
            self.fault(seq, what.to_owned());
        }
    }

    /// Compares the given anchor with a gap. The hash of a dropped entry is known only for the last
    /// entry of a gap.
    fn compare_dropped(&mut self, first: u64, last: u64) {
        let Some(anchor) = self.anchor.filter(|it| (first..=last).contains(&it.seq)) else {
            return;
        };
        match self.gaps.hash_of(anchor.seq) {
            Some(hash) if hash != anchor.hash => {
                self.fault(anchor.seq, "the anchor has another hash for it".to_owned());
            }
            Some(_) => {}
            None => self.anchor_is_dropped = true,
        }
    }

    /// Checks the search columns, because searches rely on them.
    fn compare_columns(&mut self, seq: u64, text: &str, row: &SqlRow) {
        let Some(columns) = EntryColumns::read(text) else {
            return self.fault(seq, "its text is not an entry".to_owned());
        };
        let is_text = |column, expected: &str| row.text(column).is_ok_and(|it| it == expected);
        let is_maybe = |column, expected: &Option<Cow<'static, str>>| {
            row.maybe_text(column).is_ok_and(|it| it == expected.as_deref())
        };
        let compared = [
            ("call_id", is_text(3, &columns.call_id)),
            ("session", is_text(4, &columns.session)),
            ("tool", is_text(5, &columns.tool)),
            ("began_ms", row.number(6).is_ok_and(|it| it == columns.began_ms)),
            ("action", is_maybe(7, &columns.action)),
            ("error", is_maybe(8, &columns.error)),
            // Entries of earlier versions have no kind and count as one call.
            (
                "kind",
                row.maybe_number(9).is_ok_and(|it| it.is_none_or(|it| it == columns.kind as u64)),
            ),
            (
                "calls",
                row.maybe_number(9).is_ok_and(|it| it.is_none())
                    || row.number(10).is_ok_and(|it| it == columns.calls),
            ),
        ];
        for (name, _) in compared.into_iter().filter(|(_, is_right)| !is_right) {
            self.fault(seq, format!("its column `{name}` differs from its text"));
        }
    }

    /// Compares the end of the chain with the head that the store keeps.
    fn compare_head(&mut self, head: Option<&SqlRow>) -> Result<(), ToolError> {
        let Some(head) = head else {
            self.fault(self.last.seq, "the end of the chain is missing from the store".to_owned());
            return Ok(());
        };
        let known = Anchor { seq: head.number(0)?, hash: head.text(1)?.to_owned() };
        if known.seq > self.last.seq {
            self.cut_off(&known, "the store knows");
        } else if known.seq < self.last.seq {
            let what = format!("it was appended after the end, which is entry {}", known.seq);
            self.fault(known.seq + 1, what);
        } else if known.hash != self.last.hash {
            self.fault(known.seq, "the store has another hash for its end".to_owned());
        }
        Ok(())
    }

    fn cut_off(&mut self, known: &Anchor, known_by: &str) {
        let first = self.last.seq + 1;
        let what = if known.seq == first {
            format!("entry {first}, the last, is missing: {known_by} it")
        } else {
            format!("entries {first} to {}, the last, are missing: {known_by} them", known.seq)
        };
        self.fault(first, what);
    }

    fn end(mut self) -> Verification {
        if let Some(anchor) = self.anchor.filter(|anchor| anchor.seq > self.last.seq).cloned() {
            self.cut_off(&anchor, "the anchor knows");
        }
        let Self { entries, last: head, unended, gaps, anchor_is_dropped, faults, .. } = self;
        let dropped = gaps.dropped_entries();
        Verification { entries, head, dropped, anchor_is_dropped, unended, faults }
    }

    fn fault(&mut self, seq: u64, what: String) {
        if self.faults.len() < MAX_ERRORS {
            self.faults.push(LedgerError { seq, what });
        }
    }
}
