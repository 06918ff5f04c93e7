//! The record of every call: the request, the decision, the approver, the accesses and the result.
//! The hash chain and the disk belong to the store; this file has the entry, the trait and an
//! in-memory version.

use std::collections::VecDeque;

use parking_lot::Mutex;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{Access, ApprovalDecision, BoxFuture, Decision, Effect, ErrorKind, Power, ToolError};

/// The tool and session of anchor entries.
const RETENTION: &str = "retention";

/// The record of one call. Free of secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LedgerEntry {
    /// The call's id.
    pub call_id: String,
    /// The session.
    pub session: String,
    /// The chain of agents, outermost first; empty when a person called.
    pub agents: Vec<String>,
    /// The call that made this one, if a tool made it.
    pub parent: Option<String>,
    /// The tool, or the requested name if there is no such tool.
    pub tool: String,
    /// The effect of the tool; `read` if there is no such tool.
    pub effect: Effect,
    /// The input as it ran; null if it could not be parsed.
    pub input: Value,
    /// The repairs made to the input.
    pub repairs: Vec<String>,
    /// The accesses of the call.
    pub accesses: Vec<Access>,
    /// The policy decision; `None` if the call did not reach the policy stage.
    pub decision: Option<Decision>,
    /// The approval or denial.
    pub verdict: Option<ApprovalDecision>,
    /// The kind of the error, if the call failed.
    pub error: Option<ErrorKind>,
    /// SHA-256 of the returned content, in hex.
    pub output_sha256: String,
    /// SHA-256 of the full outcome that was given to [`Ledger::record_with`], if outcomes are
    /// stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_sha256: Option<String>,
    /// Number of the entry that was committed before the call ran; `None` for read-only calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_seq: Option<u64>,
    /// The process that runs the call. Only in an entry that is committed before the call runs; a
    /// second entry records its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// Start time, in milliseconds since 1970.
    pub began_ms: u64,
    /// Duration in milliseconds. For an entry that stands for several calls, the longest of them.
    pub ms: u64,
    /// Set when this entry stands for several equal read-only calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<RepeatedCalls>,
    /// Set in an anchor entry only: the entries that retention has dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<PrunedEntries>,
}

/// Equal read-only calls that one entry stands for: same session, tool, input, decision and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatedCalls {
    /// Number of calls, with the first.
    pub calls: u64,
    /// When the last of them began, in milliseconds since 1970.
    pub last_ms: u64,
}

/// Entries that retention has dropped from the ledger. Only what is listed in such an entry may be
/// missing from the chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrunedEntries {
    /// The gaps in the chain, as they were after the drop, in order.
    pub ranges: Vec<PrunedRange>,
    /// Number of dropped entries, with those of the earlier anchor entries that this one replaces.
    pub entries: u64,
    /// Number of dropped calls that changed nothing.
    pub read_only: u64,
    /// Number of dropped calls that may have changed something.
    pub changing: u64,
}

/// One gap in the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrunedRange {
    /// Number of the first missing entry.
    pub first: u64,
    /// Number of the last missing entry.
    pub last: u64,
    /// Hash of the last missing entry, from which the chain goes on.
    pub hash: String,
}

impl LedgerEntry {
    /// An empty entry, to be filled in.
    pub(crate) fn blank(began_ms: u64) -> Self {
        Self {
            call_id: String::new(),
            session: String::new(),
            agents: Vec::new(),
            parent: None,
            tool: String::new(),
            effect: Effect::Read,
            input: Value::Null,
            repairs: Vec::new(),
            accesses: Vec::new(),
            decision: None,
            verdict: None,
            error: None,
            output_sha256: String::new(),
            result_sha256: None,
            begun_seq: None,
            process: None,
            began_ms,
            ms: 0,
            repeated: None,
            dropped: None,
        }
    }

    /// The anchor entry that is written when retention drops entries.
    pub fn anchor(dropped: PrunedEntries, at_ms: u64) -> Self {
        let (session, tool) = (RETENTION.to_owned(), RETENTION.to_owned());
        Self { session, tool, dropped: Some(dropped), ..Self::blank(at_ms) }
    }

    /// Approximate memory size of the input.
    pub fn input_bytes(&self) -> usize {
        memory_size(&self.input)
    }

    /// Returns true if this entry is not a call but lists what retention has dropped.
    pub fn is_anchor(&self) -> bool {
        self.dropped.is_some()
    }

    /// Number of calls that ended with this entry: 0 for an entry of a start and for an anchor.
    pub fn calls(&self) -> u64 {
        match (self.is_begun() || self.is_anchor(), self.repeated) {
            (true, _) => 0,
            (false, Some(repeated)) => repeated.calls,
            (false, None) => 1,
        }
    }

    /// Returns true if this is the entry committed before its call ran, not the entry of its end.
    pub fn is_begun(&self) -> bool {
        self.process.is_some()
    }

    /// Returns true if the call cannot have changed anything, here or elsewhere: it only read files
    /// or haft's own records.
    pub fn is_read_only(&self) -> bool {
        Self::reads_only(self.effect, &self.accesses)
    }

    /// Returns true if a call with this effect and these accesses changes nothing.
    pub(crate) fn reads_only(effect: Effect, accesses: &[Access]) -> bool {
        let is_look = |access: &Access| {
            matches!(access.power(), Power::Free | Power::ReadFiles | Power::ReadStore)
        };
        effect == Effect::Read && accesses.iter().all(is_look)
    }
}

/// The SHA-256 of the concatenated texts, in hex.
pub fn sha256_hex<const N: usize>(texts: [&[u8]; N]) -> String {
    let hash = texts.iter().fold(Sha256::new(), |hash, text| hash.chain_update(text)).finalize();
    hash.iter().fold(String::with_capacity(64), |hex, byte| hex + &format!("{byte:02x}"))
}

/// A store of entries. Append only.
pub trait Ledger: Send + Sync {
    /// Commits an entry before its call runs and returns its number, which the entry of the end
    /// refers to; `None` for a ledger that stores no such entries. `claim` is
    /// [`crate::ApprovalRecord::claim`] of an approved call.
    ///
    /// # Errors
    /// If it cannot be committed, or another process has claimed the call. Then the call must not
    /// run.
    fn begin<'a>(
        &'a self,
        entry: LedgerEntry,
        claim: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Option<u64>, ToolError>> {
        drop((entry, claim));
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Adds an entry. An error does not undo the call; the outcome says that it was not recorded.
    fn record(&self, entry: LedgerEntry) -> BoxFuture<'_, Result<(), ToolError>>;

    /// Adds an entry whose output hash is still to be computed from the returned text. A ledger can
    /// do that after the caller has its result.
    fn record_unhashed(
        &self,
        mut entry: LedgerEntry,
        output: &str,
    ) -> BoxFuture<'_, Result<(), ToolError>> {
        entry.output_sha256 = sha256_hex([output.as_bytes()]);
        self.record(entry)
    }

    /// Returns true if the outcomes of calls are stored with their entries.
    fn keeps_results(&self) -> bool {
        false
    }

    /// Adds an entry with the outcome of its call as JSON: both or none. The outcome has no
    /// duration, which the entry has, so that equal outcomes are equal texts.
    fn record_with(
        &self,
        entry: LedgerEntry,
        outcome: Vec<u8>,
    ) -> BoxFuture<'_, Result<(), ToolError>> {
        drop(outcome);
        self.record(entry)
    }

    /// Returns the newest entries, newest first.
    fn newest(&self, limit: usize) -> BoxFuture<'_, Result<Vec<LedgerEntry>, ToolError>>;
}

/// Entries in memory: the newest ones, lost with the process.
pub struct MemoryLedger {
    entries: Mutex<LedgerEntries>,
    limit: usize,
    most_bytes: usize,
}

#[derive(Default)]
struct LedgerEntries {
    newest: VecDeque<LedgerEntry>,
    /// Approximate size of their inputs, which is limited because calls may write large files for
    /// days.
    bytes: usize,
}

impl Default for MemoryLedger {
    fn default() -> Self {
        Self { entries: Mutex::default(), limit: 2_000, most_bytes: 4 << 20 }
    }
}

/// Approximate memory size of a value.
fn memory_size(value: &Value) -> usize {
    const EACH: usize = 32;
    EACH + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(memory_size).sum(),
        Value::Object(members) => {
            members.iter().map(|(key, value)| key.len() + memory_size(value)).sum()
        }
        _ => 0,
    }
}

impl MemoryLedger {
    /// The recorded entries, oldest first.
    pub fn entries(&self) -> Vec<LedgerEntry> {
        let entries = self.entries.lock();
        entries.newest.iter().cloned().collect()
    }
}

impl Ledger for MemoryLedger {
    fn record(&self, entry: LedgerEntry) -> BoxFuture<'_, Result<(), ToolError>> {
        let mut entries = self.entries.lock();
        entries.bytes += entry.input_bytes();
        entries.newest.push_back(entry);
        while entries.newest.len() > self.limit || entries.bytes > self.most_bytes {
            let Some(oldest) = entries.newest.pop_front() else { break };
            entries.bytes -= oldest.input_bytes();
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn newest(&self, limit: usize) -> BoxFuture<'_, Result<Vec<LedgerEntry>, ToolError>> {
        let entries = self.entries.lock();
        let newest = entries.newest.iter().rev().take(limit).cloned().collect();
        Box::pin(std::future::ready(Ok(newest)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(number: usize, content: &str) -> LedgerEntry {
        LedgerEntry {
            call_id: number.to_string(),
            tool: "write".to_owned(),
            effect: Effect::Write,
            input: json!({"content": content}),
            ..LedgerEntry::blank(0)
        }
    }

    #[tokio::test]
    async fn memory_keeps_the_newest_by_number_and_by_size() {
        let ledger = MemoryLedger { limit: 3, most_bytes: 10_000, ..MemoryLedger::default() };
        for number in 0..5 {
            ledger.record(entry(number, "x")).await.expect("recorded");
        }
        let ids = || ledger.entries().into_iter().map(|entry| entry.call_id).collect::<Vec<_>>();
        assert_eq!(ids(), ["2", "3", "4"]);
        let newest = ledger.newest(2).await.expect("entries");
        assert_eq!(newest.iter().map(|entry| &*entry.call_id).collect::<Vec<_>>(), ["4", "3"]);
        ledger.record(entry(5, &"x".repeat(9_000))).await.expect("recorded");
        ledger.record(entry(6, &"x".repeat(9_000))).await.expect("recorded");
        assert_eq!(ids(), ["6"], "the large ones do not add up");
    }

    #[test]
    fn only_calls_that_read_files_are_read_only() {
        let mut entry = entry(1, "");
        assert!(!entry.is_read_only(), "the tool may write");
        entry.effect = Effect::Read;
        assert!(entry.is_read_only());
        entry.accesses = vec![Access::Read("a".into())];
        assert!(entry.is_read_only());
        for access in
            [Access::Write("a".into()), Access::Fetch("x.org".into()), Access::Run("ls".into())]
        {
            entry.accesses = vec![Access::Read("a".into()), access];
            assert!(!entry.is_read_only(), "{:?}", entry.accesses);
        }
    }
}
