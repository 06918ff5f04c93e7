//! Gaps in the chain that retention has made. Anchor entries list them. A gap that no anchor lists
//! is an error, and so is an entry inside a gap that an anchor lists.

use std::collections::BTreeMap;

use haft_core::{LedgerEntry, PrunedRange, ToolError};
use serde::Serialize;

use crate::engine::store::Transaction;

const ANCHORS: &str =
    "SELECT entry FROM ledger WHERE session = 'retention' AND kind = 3 ORDER BY seq";

/// Entries that retention has dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DroppedEntries {
    /// Number of dropped entries.
    pub entries: u64,
    /// Number of dropped calls that changed nothing.
    pub read_only: u64,
    /// Number of dropped calls that may have changed something.
    pub changing: u64,
    /// Time of the last drop, in milliseconds since 1970; 0 if none.
    pub last_ms: u64,
}

#[derive(Default)]
pub(super) struct ChainGaps {
    /// Hashes of the last entries of gaps, from the anchors. The entry after each gap proves its
    /// hash.
    hashes: BTreeMap<u64, String>,
    /// Gaps found in the chain.
    met: Vec<(u64, u64)>,
    /// Gaps listed by anchors, with the sequence numbers of the anchors.
    listed: Vec<(u64, PrunedRange)>,
    dropped_entries: DroppedEntries,
}

impl ChainGaps {
    /// Reads the anchors first, because they come after the gaps that they list.
    pub(super) async fn announced(transaction: &mut Transaction) -> Result<Self, ToolError> {
        let mut gaps = Self::default();
        for row in transaction.query(ANCHORS, &[]).await? {
            let entry =
                row.text(0).ok().and_then(|it| serde_json::from_str::<LedgerEntry>(it).ok());
            let ranges = entry.and_then(|entry| entry.dropped).unwrap_or_default().ranges;
            gaps.hashes.extend(ranges.into_iter().map(|range| (range.last, range.hash)));
        }
        Ok(gaps)
    }

    pub(super) fn hash_of(&self, seq: u64) -> Option<String> {
        self.hashes.get(&seq).cloned()
    }

    pub(super) fn meet(&mut self, first: u64, last: u64) {
        self.met.push((first, last));
    }

    /// Adds the contents of an anchor that was met in the chain.
    pub(super) fn confirm(&mut self, seq: u64, entry: &LedgerEntry) {
        let Some(dropped) = &entry.dropped else { return };
        self.listed.extend(dropped.ranges.iter().map(|range| (seq, range.clone())));
        self.dropped_entries.entries += dropped.entries;
        self.dropped_entries.read_only += dropped.read_only;
        self.dropped_entries.changing += dropped.changing;
        self.dropped_entries.last_ms = self.dropped_entries.last_ms.max(entry.began_ms);
    }

    pub(super) fn dropped_entries(self) -> DroppedEntries {
        self.dropped_entries
    }

    /// Returns contradictions between gaps and anchors, by sequence number.
    pub(super) fn faults(&mut self) -> Vec<(u64, String)> {
        let mut faults = Vec::new();
        self.listed.sort_by_key(|(_, range)| (range.first, range.last));
        for (anchor, range) in &self.listed {
            let at = self.met.partition_point(|(_, last)| *last < range.last);
            let is_gap = self.met.get(at).is_some_and(|(first, _)| *first <= range.first);
            if !is_gap || range.last >= *anchor || range.first > range.last {
                let PrunedRange { first, last, .. } = range;
                let what = format!(
                    "anchor entry {anchor} lists entries {first} to {last} as dropped, but not all of them are missing"
                );
                faults.push((*first, what));
            }
        }
        for (first, last) in &self.met {
            if !self.is_listed(*first, *last) {
                let what = format!(
                    "entries {first} to {last} are missing, and no anchor entry lists them as dropped"
                );
                faults.push((*first, what));
            }
        }
        let sizes = self.met.iter().map(|(first, last)| last - first + 1);
        let missing: u64 = sizes.sum();
        if faults.is_empty() && missing != self.dropped_entries.entries {
            let what = format!(
                "{missing} entries are missing, but the anchor entries list {} as dropped",
                self.dropped_entries.entries
            );
            faults.push((self.met.first().map_or(0, |(first, _)| *first), what));
        }
        faults
    }

    /// Returns true if the listed ranges, which are in order, cover a gap.
    fn is_listed(&self, first: u64, last: u64) -> bool {
        let mut next = first;
        for (_, range) in &self.listed {
            if range.first <= next && range.last >= next {
                next = range.last + 1;
            }
        }
        next > last
    }
}
