//! The inbox: the approval requests of all workspaces and processes of a person, as a surface shows and decides them.

use std::path::PathBuf;

use serde::Serialize;

use crate::{ApprovalDecision, ApprovalRecord, ApprovalState, BoxFuture, ToolError};

/// Every approval request that a person may see, whatever process asked.
pub trait Inbox: Send + Sync {
    /// The newest requests of all workspaces. None without a store.
    ///
    /// # Errors
    /// `unavailable` when the store cannot be read.
    fn entries(&self) -> BoxFuture<'_, Result<InboxListing, ToolError>>;

    /// Ends a pending request. The first decision wins.
    ///
    /// # Errors
    /// `conflict`, with the first decision, when it is ended already; `not_found` when there is none.
    fn decide<'a>(
        &'a self,
        id: &'a str,
        state: ApprovalState,
        verdict: ApprovalDecision,
    ) -> BoxFuture<'a, Result<ApprovalRecord, ToolError>>;

    /// Waits until an approved call is taken up by the process that asked, or until that process is gone.
    ///
    /// # Errors
    /// `conflict` when the request is not approved, `not_found` when there is none.
    fn wait_for_claim<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<CallClaim, ToolError>>;
}

/// One request, and all that is known of it.
#[derive(Clone, Debug)]
pub struct InboxEntry {
    /// The request and its decision.
    pub record: ApprovalRecord,
    /// Where its call runs.
    pub workspace: PathBuf,
    /// Whether the process that asked is there.
    pub requester: RequesterStatus,
    /// When the call was taken up, in milliseconds since 1970.
    pub taken_ms: Option<u64>,
    /// What became of the call.
    pub result: CallResult,
}

/// The process that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequesterStatus {
    /// It waits.
    There,
    /// It has not been heard of for some seconds.
    Gone,
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallResult {
    /// It did not run.
    NotRun,
    /// It ran to its end, with this error if there was one.
    Ran(Option<String>),
    /// It began and its end is not in the ledger: it runs now, or its process was ended before it could say.
    Unknown,
}

/// All requests that this person may see.
#[derive(Clone, Debug, Default)]
pub struct InboxListing {
    /// Oldest first.
    pub entries: Vec<InboxEntry>,
    /// Rows that were not made by this person's haft, or were changed.
    pub foreign: usize,
}

/// Who runs an approved call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallClaim {
    /// It was taken up.
    Taken,
    /// The process that asked is gone: any process may take it up.
    Free,
}
