//! The hash chain: each entry's hash covers the previous hash and the exact bytes of the entry.
//! Changing, removing or moving an entry invalidates all later hashes.

use std::{borrow::Cow, fmt, fmt::Write, str::FromStr, sync::OnceLock};

use haft_core::{LedgerEntry, ToolError, policy::Action, sha256_hex};
use serde_json::Value as Json;

use super::retention::FillLevel;
use crate::{
    areas::{
        approvals::{BEGIN, END},
        results::{KeptResult, add},
    },
    engine::{
        clock::now_ms,
        store::{EngineTransaction, Transaction},
        value::{Value, searchable},
    },
};

/// The hash before the first entry.
pub(crate) const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Returns the end of the chain and locks its row.
const TAKE_HEAD: &str = "UPDATE chain SET seq = seq WHERE id = 1 RETURNING seq, hash";
/// Returns the end of the chain, for an engine whose transaction already has the lock.
const HEAD: &str = "SELECT seq, hash FROM chain WHERE id = 1";
const ADD: &str = "INSERT INTO ledger (seq, call_id, session, tool, began_ms, action, error, entry, hash, kind, calls) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
/// The columns after the hash belong to retention. Updating them in the same statement costs a call
/// nothing extra.
const MOVE_HEAD: &str = "UPDATE chain SET seq = $1, hash = $2, bytes = bytes + $3, \
    pruned_ms = CASE WHEN pruned_ms = 0 THEN $4 ELSE pruned_ms END, read_bytes = read_bytes + $5 WHERE id = 1 \
    RETURNING bytes, pruned_bytes, pruned_ms, prune_pass";
/// Size of an entry in addition to its text: its hash, its columns and its index entry.
pub(crate) const ROW_BYTES: u64 = 200;

/// An entry as stored: its text and its search columns.
pub(super) struct LedgerLine<'a> {
    pub(super) json: String,
    pub(super) columns: EntryColumns,
    ms: u64,
    /// Time when the last of its calls began.
    last_ms: u64,
    /// True if an approver may have been asked about the call.
    was_asked: bool,
    /// The outcome, if it is kept.
    pub(super) result: Option<&'a KeptResult>,
    /// Set for an entry that is committed before its call runs.
    pub(super) beginning: Option<&'a Beginning>,
}

/// The columns beside the text of an entry.
pub(super) struct EntryColumns {
    pub(super) call_id: String,
    pub(super) session: String,
    pub(super) tool: String,
    pub(super) began_ms: u64,
    pub(super) action: Option<Cow<'static, str>>,
    pub(super) error: Option<Cow<'static, str>>,
    pub(super) kind: EntryKind,
    /// Number of calls that ended with this entry.
    pub(super) calls: u64,
}

/// Result for the caller of an entry that begins a call.
#[derive(Default)]
pub(super) struct Beginning {
    /// Token of the process that took the approved call up.
    pub(super) claim: Option<String>,
    /// Sequence number of the entry; not set when another process holds the claim.
    pub(super) seq: OnceLock<u64>,
}

/// How retention treats an entry. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    /// A call that changed nothing: it was read-only, or it was refused.
    ReadOnly = 0,
    /// Written before a call ran.
    Begun = 1,
    /// The end of a call that may have changed something.
    Changing = 2,
    /// Lists what retention has dropped.
    Anchor = 3,
}

impl EntryKind {
    pub(super) fn of(entry: &LedgerEntry) -> Self {
        if entry.is_anchor() {
            return Self::Anchor;
        }
        if entry.is_begun() {
            return Self::Begun;
        }
        let was_refused = entry.error.is_some() && !is_permitted(entry);
        let is_read_only = entry.begun_seq.is_none() && (entry.is_read_only() || was_refused);
        if is_read_only { Self::ReadOnly } else { Self::Changing }
    }

    /// Returns the kind with a stored number.
    pub(super) fn numbered(number: u64) -> Option<Self> {
        let all = [Self::ReadOnly, Self::Begun, Self::Changing, Self::Anchor];
        all.into_iter().find(|kind| *kind as u64 == number)
    }
}

fn is_permitted(entry: &LedgerEntry) -> bool {
    entry.verdict.as_ref().is_some_and(|verdict| verdict.approved)
        || entry.decision.as_ref().is_some_and(|it| it.action == Action::Allow)
}

impl LedgerLine<'_> {
    pub(super) fn of(entry: &LedgerEntry) -> Result<Self, ToolError> {
        let json = serde_json::to_string(entry).map_err(|error| {
            ToolError::internal(format!("a ledger entry cannot be written as JSON: {error}"))
        })?;
        // An approval request may have become unnecessary, or its call impossible, since it was
        // answered.
        let is_allowed = entry.decision.as_ref().is_some_and(|it| it.action == Action::Allow);
        Ok(Self {
            json,
            columns: EntryColumns {
                call_id: searchable(&entry.call_id),
                session: searchable(&entry.session),
                tool: searchable(&entry.tool),
                began_ms: entry.began_ms.min(i64::MAX as u64),
                action: entry.decision.as_ref().map(|decision| decision.action.name().into()),
                error: entry.error.map(|error| error.name().into()),
                kind: EntryKind::of(entry),
                calls: entry.calls(),
            },
            ms: entry.ms,
            last_ms: entry.repeated.map_or(entry.began_ms, |it| it.last_ms),
            was_asked: !entry.is_begun() && (!is_allowed || entry.verdict.is_some()),
            result: None,
            beginning: None,
        })
    }

    /// Returns the part that equal read-only calls share: the whole text except the call id and the
    /// times, which are the first and the last members. `None` for an entry that cannot be merged.
    pub(super) fn repeatable(&self) -> Option<&str> {
        let is_plain = self.columns.kind == EntryKind::ReadOnly && !self.was_asked;
        // Quotes inside a text are escaped, so this finds only the members themselves.
        let body = self.json.find(",\"session\":").filter(|_| is_plain)?;
        self.json.get(body..self.times()?)
    }

    fn times(&self) -> Option<usize> {
        self.json.rfind(",\"began_ms\":")
    }

    /// Merges an equal later call into this entry.
    pub(super) fn repeat(&mut self, later: &Self) {
        let Some(times) = self.times() else { return };
        let EntryColumns { calls, began_ms, .. } = &mut self.columns;
        *calls += later.columns.calls;
        self.ms = self.ms.max(later.ms);
        self.last_ms = self.last_ms.max(later.last_ms);
        self.json.truncate(times);
        let (ms, last_ms) = (self.ms, self.last_ms);
        // Writing into memory does not fail.
        let _ = write!(
            self.json,
            ",\"began_ms\":{began_ms},\"ms\":{ms},\"repeated\":{{\"calls\":{calls},\"last_ms\":{last_ms}}}}}"
        );
    }

    /// Returns its size in the store.
    pub(super) fn bytes(&self) -> u64 {
        self.json.len() as u64 + ROW_BYTES
    }
}

impl EntryColumns {
    /// Computes the columns from a text. `None` when the text is not an entry. Reads only what it
    /// needs, so that it understands entries of every version.
    pub(super) fn read(json: &str) -> Option<Self> {
        let entry: Json = serde_json::from_str(json).ok()?;
        let whole: Option<LedgerEntry> = serde_json::from_str(json).ok();
        let text = |key: &str| Some(searchable(entry.get(key)?.as_str()?));
        let action = entry.pointer("/decision/action").and_then(Json::as_str);
        Some(Self {
            call_id: text("call_id")?,
            session: text("session")?,
            tool: text("tool")?,
            began_ms: entry.get("began_ms")?.as_u64()?.min(i64::MAX as u64),
            action: action.map(|it| searchable(it).into()),
            error: text("error").map(Cow::Owned),
            kind: whole.as_ref().map_or(EntryKind::Changing, EntryKind::of),
            calls: whole.as_ref().map_or(1, LedgerEntry::calls),
        })
    }
}

/// The position of an entry in the chain. A user who keeps it elsewhere can detect that the end was
/// cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Sequence number of the entry; 0 when there is none.
    pub seq: u64,
    /// Its hash.
    pub hash: String,
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.hash)
    }
}

impl FromStr for Anchor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_hash = |hash: &&str| {
            hash.len() == 64 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        let (seq, hash) = text.split_once(':').unwrap_or_default();
        match (seq.parse(), Some(hash).filter(is_hash)) {
            (Ok(seq), Some(hash)) => Ok(Self { seq, hash: hash.to_owned() }),
            _ => Err("expected NUMBER:HASH, as `haft ledger verify` prints it".to_owned()),
        }
    }
}

/// Returns the hash of an entry.
pub(crate) fn link(previous: &str, json: &str) -> String {
    sha256_hex([previous.as_bytes(), json.as_bytes()])
}

/// Returns the end of the chain and locks it for appending.
pub(super) async fn take_head(transaction: &mut Transaction) -> Result<Anchor, ToolError> {
    let head = match transaction.engine {
        EngineTransaction::Sqlite(_) => HEAD,
        EngineTransaction::Postgres(_) => TAKE_HEAD,
    };
    let head = transaction.query(head, &[]).await?;
    let Some(head) = head.first() else {
        return Err(ToolError::unavailable("the end of the ledger's chain is missing")
            .hint("check the ledger with `haft ledger verify`"));
    };
    Ok(Anchor { seq: head.number(0)?, hash: head.text(1)?.to_owned() })
}

/// Appends lines, all or none. Returns the fill level for retention.
pub(super) async fn append(
    mut transaction: Transaction,
    lines: &[LedgerLine<'_>],
) -> Result<FillLevel, ToolError> {
    let head = take_head(&mut transaction).await?;
    let fill = append_in(&mut transaction, head, lines).await?;
    transaction.commit().await?;
    Ok(fill)
}

/// Appends lines in a transaction that has locked the end of the chain.
pub(super) async fn append_in(
    transaction: &mut Transaction,
    Anchor { mut seq, mut hash }: Anchor,
    lines: &[LedgerLine<'_>],
) -> Result<FillLevel, ToolError> {
    let (mut bytes, mut read_bytes) = (0, 0);
    for line in lines {
        if !begins(transaction, line, seq + 1).await? {
            continue;
        }
        seq += 1;
        hash = link(&hash, &line.json);
        let EntryColumns { call_id, session, tool, began_ms, action, error, kind, calls } =
            &line.columns;
        let row = [
            Value::number(seq),
            Value::Text(call_id),
            Value::Text(session),
            Value::Text(tool),
            Value::number(*began_ms),
            Value::maybe(action.as_deref()),
            Value::maybe(error.as_deref()),
            Value::Text(&line.json),
            Value::Text(&hash),
            Value::number(*kind as u64),
            Value::number(*calls),
        ];
        transaction.execute(ADD, &row).await?;
        bytes += line.bytes();
        read_bytes += if *kind == EntryKind::ReadOnly { line.bytes() } else { 0 };
        if line.was_asked {
            let end = [Value::Text(error.as_deref().unwrap_or("")), Value::Text(call_id)];
            transaction.execute(END, &end).await?;
        }
        if let Some(result) = line.result {
            add(transaction, seq, result).await?;
        }
    }
    let values = [
        Value::number(seq),
        Value::Text(&hash),
        Value::number(bytes),
        Value::number(now_ms()),
        Value::number(read_bytes),
    ];
    let rows = transaction.query(MOVE_HEAD, &values).await?;
    rows.first().map_or(Ok(FillLevel::default()), FillLevel::of)
}

/// Notes at the approved request that its call begins. Returns false when another process holds the
/// claim; then nothing is appended.
async fn begins(
    transaction: &mut Transaction,
    line: &LedgerLine<'_>,
    seq: u64,
) -> Result<bool, ToolError> {
    let Some(beginning) = line.beginning else { return Ok(true) };
    if let Some(claim) = &beginning.claim {
        let values = [Value::number(seq), Value::Text(&line.columns.call_id), Value::Text(claim)];
        if transaction.execute(BEGIN, &values).await? == 0 {
            return Ok(false);
        }
    }
    let _ = beginning.seq.set(seq);
    Ok(true)
}
