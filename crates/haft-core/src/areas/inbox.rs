//! The inbox: the approval requests of all workspaces and processes of a user, for surfaces that
//! list and decide them.

use std::path::PathBuf;

use serde::Serialize;

use crate::{ApprovalDecision, ApprovalRecord, ApprovalState, BoxFuture, ToolError};

/// Access to every approval request of a user, whichever process created it.
pub trait Inbox: Send + Sync {
    /// Returns the newest requests of all workspaces; none without a store.
    ///
    /// # Errors
    /// `unavailable` when the store cannot be read.
    fn entries(&self) -> BoxFuture<'_, Result<InboxListing, ToolError>>;

    /// Settles a pending request. The first decision wins.
    ///
    /// # Errors
    /// `conflict`, with the first decision, if it is already settled; `not_found` if there is no
    /// such request.
    fn decide<'a>(
        &'a self,
        id: &'a str,
        state: ApprovalState,
        verdict: ApprovalDecision,
    ) -> BoxFuture<'a, Result<ApprovalRecord, ToolError>>;

    /// Waits until the requesting process claims an approved call, or until that process is gone.
    ///
    /// # Errors
    /// `conflict` if the request is not approved, `not_found` if there is no such request.
    fn wait_for_claim<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<CallClaim, ToolError>>;
}

/// One request with its status.
#[derive(Clone, Debug)]
pub struct InboxEntry {
    /// The request and its decision.
    pub record: ApprovalRecord,
    /// The workspace of the call.
    pub workspace: PathBuf,
    /// The status of the requesting process.
    pub requester: RequesterStatus,
    /// The time of the claim, in milliseconds since 1970.
    pub taken_ms: Option<u64>,
    /// The result of the call.
    pub result: CallResult,
}

/// The status of the requesting process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequesterStatus {
    /// It is waiting.
    There,
    /// It has not renewed its lease for some seconds.
    Gone,
}

/// The result of an approved call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallResult {
    /// It did not run.
    NotRun,
    /// It finished, with this error if it failed.
    Ran(Option<String>),
    /// It started and its end is not in the ledger: it is running, or its process was killed.
    Unknown,
}

/// All requests of a user.
#[derive(Clone, Debug, Default)]
pub struct InboxListing {
    /// Oldest first.
    pub entries: Vec<InboxEntry>,
    /// Number of rows that this user's haft did not write, or that were changed.
    pub foreign: usize,
}

/// Which process runs an approved call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallClaim {
    /// The requesting process has claimed it.
    Taken,
    /// The requesting process is gone: any process may claim the call.
    Free,
}
