//! Approvals: the request a person decides on, the ways to decide, and where requests are kept. The first decision
//! wins; the recorded call runs as it was shown, once, or not at all.

use std::{collections::HashMap, fmt, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use crate::{Access, BoxFuture, Effect, Remember, ToolError};

/// Whether a call wants a yes, and the words to ask with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmation {
    /// True when somebody must decide before the call runs.
    pub required: bool,
    /// One sentence that says what the call would do.
    pub message: String,
    /// How far it would reach.
    #[serde(rename = "type")]
    pub effect: Effect,
}

impl Confirmation {
    /// The confirmation of a call, from what it would touch.
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

/// A call that waits for somebody's word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// Names the request; unguessable.
    pub id: String,
    /// The call it holds up.
    pub call_id: String,
    /// The session of that call.
    pub session: String,
    /// Who calls: the chain of agents, outermost first; empty when a person does.
    pub agents: Vec<String>,
    /// The profile the surface was started with.
    pub profile: Option<String>,
    /// The canonical name of the tool.
    pub tool: String,
    /// Its title, for people.
    pub title: String,
    /// The input, exactly as it will run.
    pub input: Value,
    /// What it would do, in words.
    pub confirmation: Confirmation,
    /// What it would touch.
    pub accesses: Vec<Access>,
    /// What to look at before deciding.
    pub preview: Preview,
    /// Why it is asked for.
    pub reason: String,
    /// What a yes may remember, so that this and its kin are not asked for again; narrow first.
    pub suggestions: Vec<Suggestion>,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// When it lapses.
    pub expires_ms: u64,
}

/// Rules that a yes may keep. They belong together: only all of them keep the question from coming back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenSuggestion")]
pub struct Suggestion {
    /// Allow rules, one for each thing that was asked about.
    pub rules: Vec<String>,
    /// What they would have spared people so far; none when nothing is known of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub past: Option<PromptsAvoided>,
}

/// What rules would have spared people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptsAvoided {
    /// The questions that would not have been asked.
    pub spared: usize,
    /// The questions that were looked at: the newest ones.
    pub asked: usize,
}

impl fmt::Display for PromptsAvoided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.spared, self.asked) {
            (0, _) => f.write_str("would have spared no question so far"),
            (spared, asked) => write!(f, "would have spared {spared} of {asked} questions so far"),
        }
    }
}

/// A suggestion as records have it: earlier ones have a rule and nothing more.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenSuggestion {
    Rule(String),
    Rules { rules: Vec<String>, past: Option<PromptsAvoided> },
}

impl From<WrittenSuggestion> for Suggestion {
    fn from(written: WrittenSuggestion) -> Self {
        match written {
            WrittenSuggestion::Rule(rule) => Self { rules: vec![rule], past: None },
            WrittenSuggestion::Rules { rules, past } => Self { rules, past },
        }
    }
}

/// What a person looks at before deciding.
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
    /// The command if there is one, else the arguments.
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

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// Nobody has decided.
    Pending,
    /// It may run.
    Approved,
    /// It may not.
    Denied,
    /// Nobody decided in time.
    Expired,
    /// The caller called it off.
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

/// Somebody's decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalDecision {
    /// Yes or no.
    pub approved: bool,
    /// Who decided.
    pub by: String,
    /// Where: `terminal`, `console`, `rpc`.
    pub via: String,
    /// Words that go along; with a no they reach the model.
    pub note: Option<String>,
    /// What not to ask again.
    pub remember: Option<Remember>,
}

impl ApprovalDecision {
    /// A yes for this one call.
    pub fn approve(by: impl Into<String>, via: impl Into<String>) -> Self {
        Self { approved: true, by: by.into(), via: via.into(), note: None, remember: None }
    }

    /// A no, with words for the model if there are any.
    pub fn deny(by: impl Into<String>, via: impl Into<String>, note: Option<String>) -> Self {
        Self { approved: false, by: by.into(), via: via.into(), note, remember: None }
    }
}

/// A way to decide: a prompt, a dialog, a program of yours.
pub trait ApprovalHandler: Send + Sync {
    /// Decides, or gives `None` when this way is closed (no terminal, nobody there). The future is dropped when the
    /// decision falls elsewhere or the request lapses.
    fn decide<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> BoxFuture<'a, Option<ApprovalDecision>>;
}

/// A request and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalRecord {
    /// What was asked.
    pub request: Arc<ApprovalRequest>,
    /// Where it stands.
    pub state: ApprovalState,
    /// Who decided, if anybody did.
    pub verdict: Option<ApprovalDecision>,
    /// Whether the recorded call was taken up to be run.
    pub is_claimed: bool,
    /// Names who took it up, where several processes could; [`crate::Ledger::begin`] checks that it still holds.
    pub claim: Option<String>,
}

/// Where requests are kept. In memory here; in the database for several processes.
pub trait Approvals: Send + Sync {
    /// Keeps a new request.
    fn create(&self, request: Arc<ApprovalRequest>) -> BoxFuture<'_, Result<(), ToolError>>;

    /// One request.
    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<ApprovalRecord>, ToolError>>;

    /// All requests in a state, oldest first; all of them for `None`.
    fn list(
        &self,
        state: Option<ApprovalState>,
    ) -> BoxFuture<'_, Result<Vec<ApprovalRecord>, ToolError>>;

    /// Ends a pending request. Who comes second gets `conflict`, with what the first one decided.
    fn settle<'a>(
        &'a self,
        id: &'a str,
        state: ApprovalState,
        verdict: Option<ApprovalDecision>,
    ) -> BoxFuture<'a, Result<ApprovalRecord, ToolError>>;

    /// Waits until a request is no longer pending.
    fn settled<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<ApprovalRecord, ToolError>>;

    /// Takes an approved call up to run it. Only once: the second time is a `conflict`.
    fn claim<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<ApprovalRecord, ToolError>>;

    /// Notes that a call that was taken up begins to run. An error keeps it from running.
    fn mark_started<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), ToolError>> {
        let _ = id;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Why a request is known to this process only, though it should be known to others.
    fn local_only_reason(&self, _id: &str) -> Option<String> {
        None
    }
}

/// Settled requests kept for those who ask late; pending ones are never dropped.
const MOST_SETTLED: usize = 1_000;

/// Requests in memory, gone with the process.
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
    if records.len() < MOST_SETTLED {
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

/// The error for a request that is not kept, or not any more.
pub fn no_such_request(id: &str) -> ToolError {
    ToolError::not_found(format!("there is no approval request `{id}`"))
        .hint("list the pending requests and use an id from there")
}

/// The error for whoever comes second.
pub fn already_settled(record: &ApprovalRecord) -> ToolError {
    let by = record
        .verdict
        .as_ref()
        .map_or(String::new(), |verdict| format!(" by {} via {}", verdict.by, verdict.via));
    let ran = if record.is_claimed { " and its call was taken up" } else { "" };
    let message =
        format!("approval request `{}` is already {}{by}{ran}", record.request.id, record.state);
    ToolError::conflict(message).hint("nothing is left to decide here")
}
