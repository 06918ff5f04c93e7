//! The record of every call: what was asked, what was decided, by whom, what it touched and how it ended. The chain
//! of hashes and the disk come with the store; here are the entry, the trait and a version in memory.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use serde::Serialize;
use serde_json::Value;

use crate::{Access, BoxFuture, Decision, ErrorKind, ToolError, Verdict};

/// One call, after the fact. Free of secrets.
#[derive(Clone, Debug, Serialize)]
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
    /// The input as it ran; null when it could not be read.
    pub input: Value,
    /// What was mended in it.
    pub repairs: Vec<String>,
    /// What the call would touch.
    pub accesses: Vec<Access>,
    /// What policy said; none when the call did not get that far.
    pub decision: Option<Decision>,
    /// Who approved or refused it.
    pub verdict: Option<Verdict>,
    /// How it failed, if it did.
    pub error: Option<ErrorKind>,
    /// SHA-256 of the content that was returned, in hex.
    pub output_sha256: String,
    /// When it began, in milliseconds since 1970.
    pub began_ms: u64,
    /// How long it took.
    pub ms: u64,
}

/// Where entries go. Append only.
pub trait Ledger: Send + Sync {
    /// Adds an entry. An error does not undo the call; the outcome says that it was not recorded.
    fn record(&self, entry: LedgerEntry) -> BoxFuture<'_, Result<(), ToolError>>;
}

/// Entries in memory: the newest ones, gone with the process.
pub struct MemoryLedger {
    entries: Mutex<VecDeque<LedgerEntry>>,
    most: usize,
}

impl Default for MemoryLedger {
    fn default() -> Self {
        Self { entries: Mutex::default(), most: 10_000 }
    }
}

impl MemoryLedger {
    /// What is recorded, oldest first.
    pub fn entries(&self) -> Vec<LedgerEntry> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().cloned().collect()
    }
}

impl Ledger for MemoryLedger {
    fn record(&self, entry: LedgerEntry) -> BoxFuture<'_, Result<(), ToolError>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() == self.most {
            entries.pop_front();
        }
        entries.push_back(entry);
        Box::pin(std::future::ready(Ok(())))
    }
}
