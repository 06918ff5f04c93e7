//! The chain: each entry's hash is made from the hash before it and the exact bytes of the entry, so that nothing can be
//! changed, taken out or moved without every later hash telling.

use std::{borrow::Cow, fmt, str::FromStr};

use haft_core::{LedgerEntry, ToolError, policy::Action, sha256_hex};
use serde_json::Value as Json;

use super::text;
use crate::{
    approvals::END,
    results::{KeptResult, add},
    store::{On, Transaction},
    value::Value,
};

/// The hash before the first entry.
pub(crate) const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Takes the row that says where the chain ends, and with it the right to go on from there.
const TAKE_HEAD: &str = "UPDATE chain SET seq = seq WHERE id = 1 RETURNING seq, hash";
/// The same where whoever has begun has that right.
const HEAD: &str = "SELECT seq, hash FROM chain WHERE id = 1";
const ADD: &str = "INSERT INTO ledger (seq, call_id, session, tool, began_ms, action, error, entry, hash) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
const MOVE_HEAD: &str = "UPDATE chain SET seq = $1, hash = $2 WHERE id = 1";

/// What an entry takes that says what most do.
const USUAL: usize = 1024;

/// An entry as it is kept: its text, and beside it what is searched for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) json: String,
    /// What of the text is still to be made, by who writes it.
    pub(super) unhashed: Option<Unhashed>,
    pub(super) call_id: String,
    pub(super) session: String,
    pub(super) tool: String,
    pub(super) began_ms: u64,
    pub(super) action: Option<Cow<'static, str>>,
    pub(super) error: Option<Cow<'static, str>>,
    /// Whether somebody may have been asked about the call.
    pub(super) was_asked: bool,
    /// The outcome, where it is kept.
    pub(super) result: Option<KeptResult>,
}

/// A text whose hash has a place in an entry, and is not there yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unhashed {
    at: usize,
    output: String,
}

impl Line {
    /// The line of an entry. The hash of its output is made later if the output comes along.
    pub(super) fn of(entry: LedgerEntry, output: Option<&str>) -> Result<Self, ToolError> {
        let mut json = Vec::with_capacity(USUAL);
        let hash = if output.is_some() { GENESIS } else { &entry.output_sha256 };
        let at = text::put(&mut json, &entry, hash)
            .map_err(|error| ToolError::internal(format!("a ledger entry is no JSON: {error}")))?;
        // A question that was answered long ago may have become needless, or impossible to carry out, since.
        let is_allowed = entry.decision.as_ref().is_some_and(|it| it.action == Action::Allow);
        Ok(Self {
            json: String::from_utf8(json).expect("JSON is text"),
            unhashed: output.map(|output| Unhashed { at, output: output.to_owned() }),
            was_asked: !is_allowed || entry.verdict.is_some(),
            call_id: searchable(entry.call_id),
            session: searchable(entry.session),
            tool: searchable(entry.tool),
            began_ms: entry.began_ms.min(i64::MAX as u64),
            action: entry.decision.as_ref().map(|decision| decision.action.name().into()),
            error: entry.error.map(|error| error.name().into()),
            result: None,
        })
    }

    /// Makes what was left for later.
    pub(super) fn complete(&mut self) {
        if let Some(Unhashed { at, output }) = self.unhashed.take() {
            let hash = sha256_hex([output.as_bytes()]);
            self.json.replace_range(at..at + hash.len(), &hash);
        }
    }

    /// What it takes in memory.
    pub(super) fn weight(&self) -> usize {
        self.json.len()
            + self.unhashed.as_ref().map_or(0, |unhashed| unhashed.output.len())
            + self.result.as_ref().map_or(0, KeptResult::weight)
    }

    /// What the columns beside a text have to be. None when the text is no entry. Reads no more than it needs, so that it
    /// understands the entries of every version.
    pub(super) fn read(json: &str) -> Option<Self> {
        let entry: Json = serde_json::from_str(json).ok()?;
        let text = |key: &str| Some(searchable(entry.get(key)?.as_str()?.to_owned()));
        Some(Self {
            json: json.to_owned(),
            unhashed: None,
            call_id: text("call_id")?,
            session: text("session")?,
            tool: text("tool")?,
            began_ms: entry.get("began_ms")?.as_u64()?.min(i64::MAX as u64),
            action: entry
                .pointer("/decision/action")
                .and_then(Json::as_str)
                .map(|it| searchable(it.to_owned()).into()),
            error: text("error").map(Cow::Owned),
            was_asked: false,
            result: None,
        })
    }
}

/// PostgreSQL has no texts with the character zero.
fn searchable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

/// The place of an entry in the chain, to be kept elsewhere: whoever has it notices when the end is cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The number of the entry; 0 when there is none.
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

/// The hash of an entry.
pub(crate) fn link(previous: &str, json: &str) -> String {
    sha256_hex([previous.as_bytes(), json.as_bytes()])
}

/// Adds lines at the end, all or none.
pub(super) async fn append(
    mut transaction: Transaction,
    lines: impl Iterator<Item = &Line> + Send,
) -> Result<(), ToolError> {
    let head = match transaction.on {
        On::Sqlite(_) => HEAD,
        On::Postgres(_) => TAKE_HEAD,
    };
    let head = transaction.query(head, &[]).await?;
    let Some(head) = head.first() else {
        return Err(ToolError::unavailable("the ledger has lost the end of its chain")
            .hint("see what is left with `haft ledger verify`"));
    };
    let (mut seq, mut hash) = (head.number(0)?, head.text(1)?.to_owned());
    for line in lines {
        seq += 1;
        debug_assert!(line.unhashed.is_none(), "a line is complete before it is written");
        hash = link(&hash, &line.json);
        let row = [
            Value::number(seq),
            Value::Text(&line.call_id),
            Value::Text(&line.session),
            Value::Text(&line.tool),
            Value::number(line.began_ms),
            Value::maybe(line.action.as_deref()),
            Value::maybe(line.error.as_deref()),
            Value::Text(&line.json),
            Value::Text(&hash),
        ];
        transaction.execute(ADD, &row).await?;
        if line.was_asked {
            let end =
                [Value::Text(line.error.as_deref().unwrap_or("")), Value::Text(&line.call_id)];
            transaction.execute(END, &end).await?;
        }
        if let Some(result) = &line.result {
            add(&mut transaction, seq, result).await?;
        }
    }
    transaction.execute(MOVE_HEAD, &[Value::number(seq), Value::Text(&hash)]).await?;
    transaction.commit().await
}
