//! The record of every call: what was asked, what was decided, by whom, what it touched and how it ended. The chain
//! of hashes and the disk come with the store; here are the entry, the trait and a version in memory.

use std::collections::VecDeque;

use parking_lot::Mutex;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{Access, ApprovalDecision, BoxFuture, Decision, Effect, ErrorKind, Power, ToolError};

/// Tool and session that anchor entries are found by.
const RETENTION: &str = "retention";

/// One call, after the fact. Free of secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LedgerEntry {
    /// The call's id.
    pub call_id: String,
    /// The session.
    pub session: String,
    /// The chain of agents, outermost first; empty when a person called.
    pub agents: Vec<String>,
    /// The call it was made in, when a tool made it.
    pub parent: Option<String>,
    /// The tool, or the name that was asked for when there is none.
    pub tool: String,
    /// How far the tool reaches; `read` when there is no such tool.
    pub effect: Effect,
    /// The input as it ran; null when it could not be read.
    pub input: Value,
    /// What was mended in it.
    pub repairs: Vec<String>,
    /// What the call would touch.
    pub accesses: Vec<Access>,
    /// What policy said; none when the call did not get that far.
    pub decision: Option<Decision>,
    /// Who approved or refused it.
    pub verdict: Option<ApprovalDecision>,
    /// How it failed, if it did.
    pub error: Option<ErrorKind>,
    /// SHA-256 of the content that was returned, in hex.
    pub output_sha256: String,
    /// SHA-256 of the whole outcome, where it is kept: what [`Ledger::record_with`] was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_sha256: Option<String>,
    /// Number of the entry that was committed before the call ran; none for read-only calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_seq: Option<u64>,
    /// The process that runs the call. Only in an entry that is committed before the call runs; the entry of its end follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// When it began, in milliseconds since 1970.
    pub began_ms: u64,
    /// How long it took. For an entry that stands for several calls: the longest of them.
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

/// Entries that retention has dropped from the ledger. Only what is listed in such an entry may be missing from the chain.
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
    /// An entry of nothing, to be filled in.
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

    /// About how much memory its input takes.
    pub fn input_bytes(&self) -> usize {
        weight(&self.input)
    }

    /// Whether this entry is no call but says what retention has dropped.
    pub fn is_anchor(&self) -> bool {
        self.dropped.is_some()
    }

    /// Number of calls that ended with this entry: none for the entry of a beginning and for an anchor.
    pub fn calls(&self) -> u64 {
        match (self.is_begun() || self.is_anchor(), self.repeated) {
            (true, _) => 0,
            (false, Some(repeated)) => repeated.calls,
            (false, None) => 1,
        }
    }

    /// Whether this is the entry committed before its call ran, not the entry of its end.
    pub fn is_begun(&self) -> bool {
        self.process.is_some()
    }

    /// Whether the call can have changed nothing, here or elsewhere: it looked at files or at haft's own records, no more.
    pub fn is_read_only(&self) -> bool {
        Self::reads_only(self.effect, &self.accesses)
    }

    /// Whether a call of this effect that touches these things changes nothing.
    pub(crate) fn reads_only(effect: Effect, accesses: &[Access]) -> bool {
        let is_look = |access: &Access| {
            matches!(access.power(), Power::Free | Power::ReadFiles | Power::ReadStore)
        };
        effect == Effect::Read && accesses.iter().all(is_look)
    }
}

/// The SHA-256 of some texts, one behind the other, in hex.
pub fn sha256_hex<const N: usize>(texts: [&[u8]; N]) -> String {
    let hash = texts.iter().fold(Sha256::new(), |hash, text| hash.chain_update(text)).finalize();
    hash.iter().fold(String::with_capacity(64), |hex, byte| hex + &format!("{byte:02x}"))
}

/// Where entries go. Append only.
pub trait Ledger: Send + Sync {
    /// Commits an entry before its call runs and returns its number, which the entry of the end refers to. `claim` is
    /// [`crate::ApprovalRecord::claim`] of an approved call. None for a ledger that keeps no such entries.
    ///
    /// # Errors
    /// When it cannot be committed, or when another process holds the claim by now. Then the call must not run.
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

    /// Adds an entry whose hash of the output is still to be made, from the text that was returned. For a ledger that can do
    /// so when nobody waits for it any more.
    fn record_unhashed(
        &self,
        mut entry: LedgerEntry,
        output: &str,
    ) -> BoxFuture<'_, Result<(), ToolError>> {
        entry.output_sha256 = sha256_hex([output.as_bytes()]);
        self.record(entry)
    }

    /// Whether the outcomes of calls are kept beside their entries.
    fn keeps_results(&self) -> bool {
        false
    }

    /// Adds an entry with the outcome of its call, as JSON: both or none. It is without its time, which the entry has, so
    /// that the same outcome is the same text.
    fn record_with(
        &self,
        entry: LedgerEntry,
        outcome: Vec<u8>,
    ) -> BoxFuture<'_, Result<(), ToolError>> {
        drop(outcome);
        self.record(entry)
    }

    /// The newest entries, newest first.
    fn newest(&self, most: usize) -> BoxFuture<'_, Result<Vec<LedgerEntry>, ToolError>>;
}

/// Entries in memory: the newest ones, gone with the process.
pub struct MemoryLedger {
    entries: Mutex<Entries>,
    most: usize,
    most_bytes: usize,
}

#[derive(Default)]
struct Entries {
    newest: VecDeque<LedgerEntry>,
    /// What their inputs take, roughly: somebody may write large files for days.
    bytes: usize,
}

impl Default for MemoryLedger {
    fn default() -> Self {
        Self { entries: Mutex::default(), most: 2_000, most_bytes: 4 << 20 }
    }
}

/// About how much memory a value takes.
fn weight(value: &Value) -> usize {
    const EACH: usize = 32;
    EACH + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(members) => {
            members.iter().map(|(key, value)| key.len() + weight(value)).sum()
        }
        _ => 0,
    }
}

impl MemoryLedger {
    /// What is recorded, oldest first.
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
        while entries.newest.len() > self.most || entries.bytes > self.most_bytes {
            let Some(oldest) = entries.newest.pop_front() else { break };
            entries.bytes -= oldest.input_bytes();
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn newest(&self, most: usize) -> BoxFuture<'_, Result<Vec<LedgerEntry>, ToolError>> {
        let entries = self.entries.lock();
        let newest = entries.newest.iter().rev().take(most).cloned().collect();
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
        let ledger = MemoryLedger { most: 3, most_bytes: 10_000, ..MemoryLedger::default() };
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
    fn only_who_reads_files_has_changed_nothing() {
        let mut looked = entry(1, "");
        assert!(!looked.is_read_only(), "the tool may write");
        looked.effect = Effect::Read;
        assert!(looked.is_read_only());
        looked.accesses = vec![Access::Read("a".into())];
        assert!(looked.is_read_only());
        for access in
            [Access::Write("a".into()), Access::Fetch("x.org".into()), Access::Run("ls".into())]
        {
            looked.accesses = vec![Access::Read("a".into()), access];
            assert!(!looked.is_read_only(), "{:?}", looked.accesses);
        }
    }
}
