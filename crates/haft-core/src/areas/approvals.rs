//! Approvals: requests, the handlers that decide them, and their store. The first decision wins.
//! The recorded call runs exactly as it was shown, once, or not at all.

use std::{collections::HashMap, fmt, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use crate::{Access, BoxFuture, Effect, Remember, ToolError};

/// Whether a call needs approval, and the text an approver sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmation {
    /// True if the call needs approval before it runs.
    pub required: bool,
    /// One sentence that describes the call.
    pub message: String,
    /// The effect of the call.
    #[serde(rename = "type")]
    pub effect: Effect,
}

impl Confirmation {
    /// Builds the confirmation of a call from its accesses.
    pub(crate) fn of(title: &str, effect: Effect, accesses: &[Access], required: bool) -> Self {
        let touched: Vec<String> = accesses.iter().map(Access::to_string).collect();
        let message = if touched.is_empty() {
            title.to_owned()
        } else {
            format!("{title}: {}", touched.join(", "))
        };
        Self { required, message, effect }
    }
}

/// A call that waits for approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// The id of the request; unguessable.
    pub id: String,
    /// The id of the waiting call.
    pub call_id: String,
    /// The session of that call.
    pub session: String,
    /// The chain of calling agents, outermost first; empty when a person calls.
    pub agents: Vec<String>,
    /// The profile the surface was started with.
    pub profile: Option<String>,
    /// The canonical name of the tool.
    pub tool: String,
    /// The title of the tool, for people.
    pub title: String,
    /// The input, exactly as it will run.
    pub input: Value,
    /// A description of the call.
    pub confirmation: Confirmation,
    /// The accesses of the call.
    pub accesses: Vec<Access>,
    /// Details to check before deciding.
    pub preview: Preview,
    /// The reason why the call needs approval.
    pub reason: String,
    /// Sets of rules that an approval may save, so that similar calls need no approval; narrowest
    /// first.
    pub suggestions: Vec<Suggestion>,
    /// Creation time, in milliseconds since 1970.
    pub created_ms: u64,
    /// Expiry time, in milliseconds since 1970.
    pub expires_ms: u64,
}

/// Rules that an approval may save together. Only all of them make further approvals unnecessary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RecordedSuggestion")]
pub struct Suggestion {
    /// Allow rules, one for each access that needed approval.
    pub rules: Vec<String>,
    /// The prompts the rules would have avoided so far; `None` if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub past: Option<PromptsAvoided>,
}

/// The number of earlier prompts that rules would have avoided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptsAvoided {
    /// Prompts that would not have been needed.
    pub spared: usize,
    /// Prompts that were examined: the newest ones.
    pub asked: usize,
}

impl fmt::Display for PromptsAvoided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.spared, self.asked) {
            (0, asked) => write!(f, "would have avoided none of the last {asked} prompts"),
            (spared, asked) => write!(f, "would have avoided {spared} of the last {asked} prompts"),
        }
    }
}

/// A suggestion as stored in records: older records have a single rule.
#[derive(Deserialize)]
#[serde(untagged)]
enum RecordedSuggestion {
    Rule(String),
    Rules { rules: Vec<String>, past: Option<PromptsAvoided> },
}

impl From<RecordedSuggestion> for Suggestion {
    fn from(written: RecordedSuggestion) -> Self {
        match written {
            RecordedSuggestion::Rule(rule) => Self { rules: vec![rule], past: None },
            RecordedSuggestion::Rules { rules, past } => Self { rules, past },
        }
    }
}

/// Details of a call for the approver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "text", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Preview {
    /// The command that would run.
    Command(String),
    /// The change as a unified diff.
    Diff(String),
    /// The arguments.
    Input(String),
}

impl Preview {
    /// The command if there is one, otherwise the arguments.
    pub(crate) fn of(input: &Value, accesses: &[Access]) -> Self {
        let commands: Vec<&str> = accesses
            .iter()
            .filter_map(|access| match access {
                Access::Run(command) => Some(command.as_str()),
                _ => None,
            })
            .collect();
        if commands.is_empty() {
            let pretty = serde_json::to_string_pretty(input);
            Self::Input(pretty.unwrap_or_else(|_| input.to_string()))
        } else {
            Self::Command(commands.join("\n"))
        }
    }

    /// The text itself.
    pub fn text(&self) -> &str {
        match self {
            Self::Command(text) | Self::Diff(text) | Self::Input(text) => text,
        }
    }
}

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// Not decided yet.
    Pending,
    /// The call may run.
    Approved,
    /// The call may not run.
    Denied,
    /// No decision in time.
    Expired,
    /// The caller cancelled the call.
    Cancelled,
}

impl fmt::Display for ApprovalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        })
    }
}

/// The decision of an approver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalDecision {
    /// True to approve, false to deny.
    pub approved: bool,
    /// The name of the approver.
    pub by: String,
    /// The surface of the decision: `terminal`, `console`, `rpc`.
    pub via: String,
    /// A note of the approver; with a denial it reaches the model.
    pub note: Option<String>,
    /// The rules to save.
    pub remember: Option<Remember>,
}

impl ApprovalDecision {
    /// Approves this one call.
    pub fn approve(by: impl Into<String>, via: impl Into<String>) -> Self {
        Self { approved: true, by: by.into(), via: via.into(), note: None, remember: None }
    }

    /// Denies the call, with an optional note for the model.
    pub fn deny(by: impl Into<String>, via: impl Into<String>, note: Option<String>) -> Self {
        Self { approved: false, by: by.into(), via: via.into(), note, remember: None }
    }
}

/// An approver's interface: a prompt, a dialog, a program of yours.
pub trait ApprovalHandler: Send + Sync {
    /// Returns the decision, or `None` if no approver is available here (no terminal, for example).
    /// The future is dropped when another handler decides or the request expires.
    fn decide<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> BoxFuture<'a, Option<ApprovalDecision>>;
}

/// A request and its decision.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalRecord {
    /// The request.
    pub request: Arc<ApprovalRequest>,
    /// The state of the request.
    pub state: ApprovalState,
    /// The decision, if there is one.
    pub verdict: Option<ApprovalDecision>,
    /// True if a process has claimed the recorded call to run it.
    pub is_claimed: bool,
    /// The id of the claim, if several processes could run the call. [`crate::Ledger::begin`]
    /// checks that it still holds.
    pub claim: Option<String>,
}

/// A store of approval requests: in memory here, or in a database for several processes.
pub trait Approvals: Send + Sync {
    /// Stores a new request.
    fn create(&self, request: Arc<ApprovalRequest>) -> BoxFuture<'_, Result<(), ToolError>>;

    /// Returns one request.
    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<ApprovalRecord>, ToolError>>;

    /// Returns all requests in a state, oldest first; all requests for `None`.
    fn list(
        &self,
        state: Option<ApprovalState>,
    ) -> BoxFuture<'_, Result<Vec<ApprovalRecord>, ToolError>>;

    /// Settles a pending request. A second decision fails with `conflict`, which names the first
    /// one.
    fn settle<'a>(
        &'a self,
        id: &'a str,
        state: ApprovalState,
        verdict: Option<ApprovalDecision>,
    ) -> BoxFuture<'a, Result<ApprovalRecord, ToolError>>;

    /// Waits until a request is no longer pending.
    fn settled<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<ApprovalRecord, ToolError>>;

    /// Claims an approved call to run it. A second claim fails with `conflict`.
    fn claim<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<ApprovalRecord, ToolError>>;

    /// Records that a claimed call starts to run. If this fails, the call must not run.
    fn mark_started<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), ToolError>> {
        let _ = id;
        Box::pin(std::future::ready(Ok(())))
    }

    /// The reason why a request is visible to this process only, if it should be visible to others.
    fn local_only_reason(&self, _id: &str) -> Option<String> {
        None
    }
}

/// Maximum number of settled requests that are kept for late readers. Pending ones are never
/// dropped.
const MAX_SETTLED: usize = 1_000;

/// Requests in memory, lost with the process.
#[derive(Default)]
pub struct MemoryApprovals {
    records: Mutex<HashMap<String, watch::Sender<ApprovalRecord>>>,
}

impl MemoryApprovals {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<ApprovalRecord>>> {
        self.records.lock()
    }

    fn change(
        &self,
        id: &str,
        change: impl FnOnce(&mut ApprovalRecord) -> Result<(), ToolError>,
    ) -> Result<ApprovalRecord, ToolError> {
        let records = self.lock();
        let sender = records.get(id).ok_or_else(|| no_such_request(id))?;
        let mut result = Ok(());
        sender.send_if_modified(|record| {
            result = change(record);
            result.is_ok()
        });
        result.map(|()| sender.borrow().clone())
    }
}

impl Approvals for MemoryApprovals {
    fn create(&self, request: Arc<ApprovalRequest>) -> BoxFuture<'_, Result<(), ToolError>> {
        let mut records = self.lock();
        forget_oldest_settled(&mut records);
        let id = request.id.clone();
        let state = ApprovalState::Pending;
        let record =
            ApprovalRecord { request, state, verdict: None, is_claimed: false, claim: None };
        records.insert(id, watch::Sender::new(record));
        Box::pin(std::future::ready(Ok(())))
    }

    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<ApprovalRecord>, ToolError>> {
        let found = self.lock().get(id).map(|sender| sender.borrow().clone());
        Box::pin(std::future::ready(Ok(found)))
    }

    fn list(
        &self,
        state: Option<ApprovalState>,
    ) -> BoxFuture<'_, Result<Vec<ApprovalRecord>, ToolError>> {
        let records = self.lock();
        let all = records.values().map(|sender| sender.borrow().clone());
        let mut found: Vec<ApprovalRecord> =
            all.filter(|record| state.is_none_or(|state| record.state == state)).collect();
        found.sort_by(|a, b| {
            (a.request.created_ms, &a.request.id).cmp(&(b.request.created_ms, &b.request.id))
        });
        Box::pin(std::future::ready(Ok(found)))
    }

    fn settle<'a>(
        &'a self,
        id: &'a str,
        state: ApprovalState,
        verdict: Option<ApprovalDecision>,
    ) -> BoxFuture<'a, Result<ApprovalRecord, ToolError>> {
        let settled = self.change(id, |record| {
            if record.state != ApprovalState::Pending {
                return Err(already_settled(record));
            }
            record.state = state;
            record.verdict = verdict;
            Ok(())
        });
        Box::pin(std::future::ready(settled))
    }

    fn settled<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<ApprovalRecord, ToolError>> {
        let receiver = self.lock().get(id).map(watch::Sender::subscribe);
        Box::pin(async move {
            let mut receiver = receiver.ok_or_else(|| no_such_request(id))?;
            let settled = receiver.wait_for(|record| record.state != ApprovalState::Pending).await;
            let record = settled.map_err(|_| no_such_request(id))?;
            Ok(record.clone())
        })
    }

    fn claim<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<ApprovalRecord, ToolError>> {
        let taken = self.change(id, |record| {
            if record.state != ApprovalState::Approved || record.is_claimed {
                return Err(already_settled(record));
            }
            record.is_claimed = true;
            Ok(())
        });
        Box::pin(std::future::ready(taken))
    }
}

fn forget_oldest_settled(records: &mut HashMap<String, watch::Sender<ApprovalRecord>>) {
    if records.len() < MAX_SETTLED {
        return;
    }
    let oldest = records
        .values()
        .map(|sender| sender.borrow().clone())
        .filter(|record| record.state != ApprovalState::Pending)
        .min_by_key(|record| record.request.created_ms);
    if let Some(oldest) = oldest {
        records.remove(&oldest.request.id);
    }
}

/// The error for an unknown request.
pub fn no_such_request(id: &str) -> ToolError {
    ToolError::not_found(format!("unknown approval request `{id}`"))
        .hint("list the pending requests and use an id from there")
}

/// The error for a request that is already settled.
pub fn already_settled(record: &ApprovalRecord) -> ToolError {
    let by = record
        .verdict
        .as_ref()
        .map_or(String::new(), |verdict| format!(" by {} via {}", verdict.by, verdict.via));
    let ran = if record.is_claimed { ", and its call was claimed" } else { "" };
    let message =
        format!("approval request `{}` is already {}{by}{ran}", record.request.id, record.state);
    ToolError::conflict(message).hint("there is nothing left to decide")
}
