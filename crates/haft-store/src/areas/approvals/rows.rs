//! The rows of approvals: their statements, and the contents of their envelopes.

use std::sync::Arc;

use haft_core::{ApprovalDecision, ApprovalRecord, ApprovalRequest, ApprovalState, ToolError};
use serde::{Deserialize, Serialize};

use crate::{
    Store,
    engine::value::{SqlRow, Value},
    seal::Envelope,
};

pub(super) const ADD: &str = "INSERT INTO approvals \
    (id, workspace, state, call_id, created_ms, expires_ms, request, asker, lease_ms) \
    VALUES ($1, $2, 'pending', $3, $4, $5, $6, $7, $8)";
const ONE: &str = "SELECT id, workspace, state, created_ms, expires_ms, request, verdict, decided_by, asker, lease_ms, \
    taken_by, taken_ms, begun_seq FROM approvals WHERE id = $1";
/// Includes how the call ended, if it is in the ledger: NULL, an empty text, or the kind of its
/// error.
const ALL: &str = "SELECT id, workspace, state, created_ms, expires_ms, request, verdict, decided_by, asker, lease_ms, \
    taken_by, taken_ms, begun_seq, ended FROM approvals ORDER BY created_ms DESC, id DESC LIMIT $1";
/// Runs with the ledger entry of a call, so that readers need not search the ledger.
pub(crate) const END: &str = "UPDATE approvals SET ended = $1 WHERE call_id = $2";
/// Committed with the entry that begins the call. Affects no row if another process has claimed the
/// call since.
pub(crate) const BEGIN: &str = "UPDATE approvals SET begun_seq = $1 \
    WHERE call_id = $2 AND taken_by = $3 AND (begun_seq IS NULL OR begun_seq = 0)";
pub(super) const SETTLE: &str = "UPDATE approvals SET state = $1, verdict = $2, decided_by = $3 \
    WHERE id = $4 AND state = 'pending'";
pub(super) const RENEW: &str =
    "UPDATE approvals SET lease_ms = $1 WHERE id = $2 AND asker = $3 AND state = 'pending'";
/// A lease longer than haft gives was given before the clock was set back, and does not count. A
/// process that claims a call and is killed before it begins holds it for as long as the lease:
/// `begun_seq` is 0 until then.
pub(super) const TAKE: &str = "UPDATE approvals SET taken_by = $1, taken_ms = $2, begun_seq = $3, lease_ms = $4 \
    WHERE id = $5 AND state = 'approved' AND (taken_by IS NULL AND asker = $6 \
    OR (taken_by IS NULL OR (begun_seq = 0 AND ended IS NULL)) AND (lease_ms <= $7 OR lease_ms > $4))";
pub(super) const FORGET: &str = "DELETE FROM approvals WHERE created_ms < $1 AND expires_ms < $2";

/// A row as stored, not trusted yet.
pub(super) struct SealedRow {
    id: String,
    workspace: String,
    state: String,
    created_ms: u64,
    expires_ms: u64,
    request: Vec<u8>,
    verdict: Option<Vec<u8>>,
    decided_by: Option<String>,
    asker: String,
    lease_ms: u64,
    taken_by: Option<String>,
    taken_ms: Option<u64>,
    begun_seq: Option<u64>,
}

/// A request that this user's haft stored, and its status.
pub(super) struct StoredRequest {
    pub(super) record: ApprovalRecord,
    pub(super) workspace: String,
    /// Hash of the stored request: a decision applies to this request only.
    digest: String,
    pub(super) decided_by: Option<String>,
    pub(super) decided_ms: u64,
    pub(super) asker: String,
    pub(super) lease_ms: u64,
    pub(super) taken_by: Option<String>,
    pub(super) taken_ms: Option<u64>,
    /// Sequence number of the entry that begins its call; 0 when the call was claimed by a process
    /// with a ledger and has not begun.
    pub(super) begun_seq: Option<u64>,
}

/// The contents of the second envelope.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct SealedDecision {
    pub(super) state: ApprovalState,
    pub(super) verdict: Option<ApprovalDecision>,
    pub(super) decided_ms: u64,
}

impl SealedDecision {
    pub(super) fn close(
        &self,
        envelope: &Envelope,
        kept: &StoredRequest,
    ) -> Result<Vec<u8>, ToolError> {
        envelope.close(&["decision", &kept.record.request.id, &kept.digest], as_json(self)?)
    }
}

pub(super) fn close(
    envelope: &Envelope,
    request: &ApprovalRequest,
    workspace: &str,
) -> Result<Vec<u8>, ToolError> {
    let times = [request.created_ms.to_string(), request.expires_ms.to_string()];
    let subject = ["request", &request.id, workspace, &times[0], &times[1]];
    envelope.close(&subject, as_json(request)?)
}

fn as_json(what: &impl Serialize) -> Result<Vec<u8>, ToolError> {
    serde_json::to_vec(what).map_err(|error| {
        ToolError::internal(format!("an approval cannot be written as JSON: {error}"))
    })
}

pub(super) async fn one(store: &Store, id: &str) -> Result<Option<SealedRow>, ToolError> {
    let rows = store.query(ONE, &[Value::Text(id)]).await?;
    rows.first().map(SealedRow::of).transpose()
}

/// Returns the newest `most` requests, oldest first, and how their calls ended. `None` for a row
/// that is not a request.
pub(super) async fn newest(
    store: &Store,
    most: u64,
) -> Result<Vec<Option<(SealedRow, Option<String>)>>, ToolError> {
    let rows = store.query(ALL, &[Value::number(most)]).await?;
    let read = |row: &SqlRow| {
        let ended = row.maybe_text(13).ok()?.map(str::to_owned);
        Some((SealedRow::of(row).ok()?, ended))
    };
    Ok(rows.iter().rev().map(read).collect())
}

impl SealedRow {
    fn of(row: &SqlRow) -> Result<Self, ToolError> {
        let maybe = |column| Ok::<_, ToolError>(row.maybe_text(column)?.map(str::to_owned));
        Ok(Self {
            id: row.text(0)?.to_owned(),
            workspace: row.text(1)?.to_owned(),
            state: row.text(2)?.to_owned(),
            created_ms: row.number(3)?,
            expires_ms: row.number(4)?,
            request: row.bytes(5)?.to_vec(),
            // NULL until a decision.
            verdict: row.bytes(6).ok().map(<[u8]>::to_vec),
            decided_by: maybe(7)?,
            asker: row.text(8)?.to_owned(),
            lease_ms: row.number(9)?,
            taken_by: maybe(10)?,
            taken_ms: row.maybe_number(11)?,
            begun_seq: row.maybe_number(12)?,
        })
    }

    /// Opens the envelopes. Fails if this user's haft did not write them.
    pub(super) fn open(self, envelope: &Envelope) -> Result<StoredRequest, ToolError> {
        let times = [self.created_ms.to_string(), self.expires_ms.to_string()];
        let subject = ["request", &self.id, &self.workspace, &times[0], &times[1]];
        let request = envelope.open(&subject, &self.request);
        let request = request.and_then(|text| serde_json::from_slice(&text).ok());
        let request: ApprovalRequest = request.ok_or_else(|| foreign(&self.id))?;
        let digest = blake3::hash(&self.request).to_hex().to_string();
        let decision = self.verdict.as_ref().and_then(|closed| {
            let text = envelope.open(&["decision", &self.id, &digest], closed)?;
            serde_json::from_slice::<SealedDecision>(&text).ok()
        });
        let (state, verdict, decided_ms) = match (&*self.state, decision) {
            ("pending", _) => (ApprovalState::Pending, None, 0),
            (name, Some(made)) if name == made.state.to_string() => {
                (made.state, made.verdict, made.decided_ms)
            }
            _ => return Err(undecided(&self.id)),
        };
        let is_claimed = self.taken_by.is_some();
        Ok(StoredRequest {
            record: ApprovalRecord {
                request: Arc::new(request),
                state,
                verdict,
                is_claimed,
                claim: self.taken_by.clone(),
            },
            workspace: self.workspace,
            digest,
            decided_by: self.decided_by,
            decided_ms,
            asker: self.asker,
            lease_ms: self.lease_ms,
            taken_by: self.taken_by,
            taken_ms: self.taken_ms,
            begun_seq: self.begun_seq,
        })
    }
}

pub(super) fn foreign(id: &str) -> ToolError {
    ToolError::denied(format!(
        "approval request `{id}` was not made by your haft, so it does not count"
    ))
    .hint("make the call again; a store that came with a cloned repository may contain anything")
}

fn undecided(id: &str) -> ToolError {
    ToolError::denied(format!("the decision on approval request `{id}` was not made by you"))
        .hint("make the call again; the store was modified")
}
