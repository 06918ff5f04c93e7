//! The gate: the only way to run a tool. Every call from every surface passes the same stages in
//! the same order. Each stage is one file in this folder. Read `GateInner::run_stages` from top to
//! bottom to follow a call.

mod access;
mod approve;
mod begin;
mod bound;
mod builder;
mod detach;
mod finish;
mod policy;
mod record;
mod redact;
mod repair;
mod repeat;
mod replay;
mod resolve;
mod run;
mod turn;
mod validate;

use std::sync::{Arc, LazyLock, Weak};

use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

pub use self::{
    builder::{GateBuilder, Limits},
    replay::{RecordedCall, ReplaySource},
};
use crate::{
    Access, ApprovalDecision, ApprovalHandler, ApprovalRecord, ApprovalRequest, ApprovalState,
    Approvals, CallInfo, Confirmation, Context, Decision, Events, Ledger, Outcome, Outputs,
    ParsedScript, Policy, Power, Redactor, Registry, Reply, ResolvePath, SavedRules, Tool,
    ToolError, WorkspaceInfo,
    access::CommandReader,
    areas::approvals::{already_settled, no_such_request},
    call::{CancelSignal, ResolvedFile, Services},
    clock::now_ms,
    ids::new_call_id,
    policy::{AccessDecision, Action},
    queue::PathQueue,
};

/// Longer texts are scanned on a separate thread.
const LONG_TEXT: usize = 1 << 20;

/// One call, as a surface submits it.
#[derive(Clone, Debug)]
pub struct CallRequest {
    /// The tool's name or a close spelling of it.
    pub tool: String,
    /// The arguments.
    pub input: Input,
    /// The caller and its settings.
    pub context: Context,
}

impl CallRequest {
    /// Creates a call.
    pub fn new(tool: impl Into<String>, input: impl Into<Input>, context: Context) -> Self {
        Self { tool: tool.into(), input: input.into(), context }
    }
}

/// The arguments of a call: JSON text that still has to be parsed, or a value.
#[derive(Clone, Debug)]
pub enum Input {
    /// JSON as a model or a person wrote it. Small mistakes are repaired and reported.
    Text(String),
    /// A parsed value.
    Value(Value),
}

impl From<Value> for Input {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

impl From<String> for Input {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// The result of submitting a call that may need approval.
#[derive(Clone, Debug)]
pub enum Submission {
    /// The call is finished.
    Done(Box<Outcome>),
    /// The call needs an approval. [`Gate::resume`] continues it afterwards.
    Pending(Arc<ApprovalRequest>),
}

/// The result of [`Gate::explain`]: what would happen to a call.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The canonical name of the tool.
    pub tool: String,
    /// The input as it would run.
    pub input: Value,
    /// The repairs that would be made to the input.
    pub repairs: Vec<String>,
    /// The accesses of the call.
    pub accesses: Vec<Access>,
    /// The policy decision and its reason.
    pub decision: Decision,
    /// The policy decision for each access alone.
    pub verdicts: Vec<AccessDecision>,
    /// Optional powers that policy withholds from the tool.
    pub withheld: Vec<Power>,
    /// The chain of calling agents, outermost first; empty when a person calls.
    pub agents: Vec<String>,
    /// The profile in force.
    pub profile: Option<String>,
    /// Sets of rules, narrowest first. Each set alone would make further approval requests for this
    /// call unnecessary.
    pub offers: Vec<Vec<String>>,
    /// Whether the call would need approval, and the text an approver would see.
    pub confirmation: Confirmation,
}

/// The only way to run a tool. Cheap to clone; all clones share one gate.
#[derive(Clone)]
pub struct Gate(Arc<GateInner>);

pub(crate) struct GateInner {
    registry: Registry,
    policy: Arc<Policy>,
    paths: Arc<dyn ResolvePath>,
    workspace_info: WorkspaceInfo,
    services: Services,
    events: Events,
    approvals: Arc<dyn Approvals>,
    handlers: Vec<Arc<dyn ApprovalHandler>>,
    /// True if requests can be settled outside this process or outside the handlers.
    is_decided_externally: bool,
    /// A hint on how to make an approver available, for programs that have none.
    no_approver_hint: Option<String>,
    saved_rules: Arc<dyn SavedRules>,
    outputs: Arc<dyn Outputs>,
    ledger: Arc<dyn Ledger>,
    redactor: Redactor,
    queue: PathQueue,
    limits: Limits,
    reader: Option<CommandReader>,
    /// True if a tool runs on its caller's thread until it first waits.
    starts_in_place: bool,
    /// Results returned recently; `None` if repeated results are returned in full.
    repeats: Option<repeat::Repeats>,
    /// Answers every call in place of its tool.
    replay: Option<Arc<dyn ReplaySource>>,
}

/// State of a call on its way through the stages. Each stage reads what the earlier ones left.
struct CallState {
    requested: String,
    arguments: Option<Input>,
    context: Arc<Context>,
    info: Arc<CallInfo>,
    cancel: CancelSignal,
    began: Instant,
    began_ms: u64,
    /// Set by resolve.
    tool: Option<Arc<dyn Tool>>,
    /// Set by repair.
    input: Arc<Value>,
    /// True if the input matched the schema without repair.
    is_valid: bool,
    repairs: Vec<String>,
    /// Set by access: the accesses that the tool declares. The call is granted them when it runs.
    accesses: Vec<Access>,
    /// The accesses that policy judges and approvers see. A script is replaced by the accesses
    /// parsed from it.
    judged: Vec<Access>,
    resolved_files: Vec<ResolvedFile>,
    /// The scripts of this call, each parsed once.
    scripts: Vec<ParsedScript>,
    /// Set by policy.
    decision: Option<Decision>,
    withheld: Vec<Power>,
    /// Set by approve.
    verdict: Option<ApprovalDecision>,
    /// The approval under which the call runs.
    approval: Option<Arc<ApprovalRecord>>,
    /// Set by begin: the sequence number of the entry that was committed before the call ran.
    begun_seq: Option<u64>,
}

/// The reason why a call stops before its end.
enum Halt {
    Failed(ToolError),
    Pending(Arc<ApprovalRequest>),
    /// Another process runs the approved call. It is not recorded here, because that process
    /// records it.
    ClaimedElsewhere(ToolError),
}

impl From<ToolError> for Halt {
    fn from(error: ToolError) -> Self {
        Self::Failed(error)
    }
}

/// Action when a call needs approval.
#[derive(Clone)]
enum OnAsk {
    /// Wait for the decision.
    Wait,
    /// Return the pending request to the caller.
    Return,
    /// Continue with this decided request.
    Decided(Arc<ApprovalRecord>),
}

impl Gate {
    /// Starts building a gate.
    pub fn builder(registry: Registry) -> GateBuilder {
        GateBuilder::new(registry)
    }

    /// Runs a call to its end, waiting for an approval if one is needed. Dropping the future
    /// cancels the call; its outcome is recorded all the same. Needs a tokio runtime.
    pub async fn call(&self, request: CallRequest) -> Outcome {
        let tool = request.tool.clone();
        match self.drive(request, OnAsk::Wait).await {
            Ok(Submission::Done(outcome)) => *outcome,
            Ok(Submission::Pending(request)) => {
                unreachable!("a waiting call was returned as pending with request {}", request.id)
            }
            Err(error) => Outcome::failed(&tool, &error),
        }
    }

    /// Runs a call, or returns it as pending when it needs approval.
    pub async fn submit(&self, request: CallRequest) -> Submission {
        let tool = request.tool.clone();
        let answer = self.drive(request, OnAsk::Return).await;
        answer.unwrap_or_else(|error| Submission::Done(Box::new(Outcome::failed(&tool, &error))))
    }

    /// Continues a call that was returned as pending. The recorded call runs once, exactly as it
    /// was shown. If it would touch something else by now, a new approval is needed and the result
    /// is another pending request.
    ///
    /// # Errors
    /// If the request does not exist, or its call was claimed before.
    pub async fn resume(
        &self,
        approval_id: &str,
        context: Context,
    ) -> Result<Submission, ToolError> {
        let record = self.0.approvals.get(approval_id).await?;
        let record = record.ok_or_else(|| no_such_request(approval_id))?;
        let record = match record.state {
            ApprovalState::Pending if now_ms() < record.request.expires_ms => {
                return Ok(Submission::Pending(record.request));
            }
            ApprovalState::Pending => {
                self.0.approvals.settle(approval_id, ApprovalState::Expired, None).await?
            }
            ApprovalState::Approved if record.is_claimed => return Err(already_settled(&record)),
            _ => record,
        };
        let asked = &record.request;
        let context = Context {
            session: asked.session.clone(),
            call_id: Some(asked.call_id.clone()),
            agents: asked.agents.clone(),
            profile: asked.profile.clone(),
            ..context
        };
        let request = CallRequest::new(asked.tool.clone(), asked.input.clone(), context);
        self.drive(request, OnAsk::Decided(Arc::new(record))).await
    }

    /// Returns what would happen to a call, without running it or asking for approval.
    ///
    /// # Errors
    /// The error that would end the call before the policy stage.
    pub async fn explain(&self, request: CallRequest) -> Result<Explanation, ToolError> {
        let gate = &*self.0;
        let mut call_state = gate.new_call_state(request);
        // These stages need no permission.
        resolve::resolve(gate, &mut call_state).await?;
        repair::repair(gate, &mut call_state)?;
        validate::validate(&mut call_state)?;
        access::access(gate, self, &mut call_state).await?;
        // A refusal is part of the explanation, not an error.
        let judged = policy::judge(gate, &mut call_state).await;
        if call_state.decision.is_none() {
            judged?;
        }
        // The policy stage has already reported an error of the saved rules.
        let saved =
            self.0.saved_rules.active(&call_state.context.session).await.unwrap_or_default();
        let query = policy::query(&call_state, &call_state.judged, &saved);
        let (verdicts, offers) =
            (self.0.policy.access_decisions(&query), self.0.policy.offers(&query));
        let spec = call_state.tool().spec();
        let decision = call_state.decision().clone();
        let is_asked = decision.action == Action::Ask;
        Ok(Explanation {
            tool: spec.name.to_string(),
            confirmation: Confirmation::of(&spec.title, spec.effect, &call_state.judged, is_asked),
            input: Arc::unwrap_or_clone(call_state.input),
            repairs: call_state.repairs,
            accesses: call_state.judged,
            decision,
            verdicts,
            withheld: call_state.withheld,
            agents: call_state.context.agents.clone(),
            profile: call_state.context.profile.clone(),
            offers,
        })
    }

    /// The tools of this gate.
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// The policy of this gate.
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// The events of all calls.
    pub fn events(&self) -> &Events {
        &self.0.events
    }

    /// Pending and decided approval requests.
    pub fn approvals(&self) -> &Arc<dyn Approvals> {
        &self.0.approvals
    }

    /// The rules that people saved with earlier approvals.
    pub fn saved_rules(&self) -> &Arc<dyn SavedRules> {
        &self.0.saved_rules
    }

    /// The record of every call.
    pub fn ledger(&self) -> &Arc<dyn Ledger> {
        &self.0.ledger
    }

    /// The outputs that were too long to return in full.
    pub fn outputs(&self) -> &Arc<dyn Outputs> {
        &self.0.outputs
    }

    /// The workspace of this gate.
    pub fn workspace_info(&self) -> &WorkspaceInfo {
        &self.0.workspace_info
    }

    /// Runs the pipeline while the caller waits. If the caller stops waiting, the pipeline still
    /// finishes: see [`detach`].
    ///
    /// # Errors
    /// `conflict` when another process has claimed the approved call.
    async fn drive(&self, request: CallRequest, on_ask: OnAsk) -> Result<Submission, ToolError> {
        let call_state = self.0.new_call_state(request);
        let cancel = call_state.cancel.token.clone();
        let requested = call_state.requested.clone();
        let gate = self.clone();
        let pipeline = Box::pin(async move {
            match gate.0.run_stages(&gate, call_state, on_ask).await {
                Ok(outcome) => Ok(Submission::Done(Box::new(outcome))),
                Err(Halt::Pending(request)) => Ok(Submission::Pending(request)),
                Err(Halt::Failed(error) | Halt::ClaimedElsewhere(error)) => Err(error),
            }
        });
        detach::DetachedPipeline::new(pipeline, cancel).await.unwrap_or_else(|panic| {
            Ok(Submission::Done(Box::new(finish::crashed(&requested, &panic))))
        })
    }
}

impl GateInner {
    /// Creates the state of a new call. Boxed, because the stages are nested futures and would copy
    /// it at every level.
    fn new_call_state(&self, request: CallRequest) -> Box<CallState> {
        let CallRequest { tool, input, context } = request;
        let call_id: Arc<str> = match &context.call_id {
            Some(id) => id.as_str().into(),
            None => new_call_id().into(),
        };
        let info = CallInfo {
            session: context.session.clone(),
            message: context.message.clone(),
            call_id,
            agents: context.agents.clone(),
            workspace: self.workspace_info.workspace.clone(),
            extra: context.extra.clone(),
        };
        Box::new(CallState {
            requested: tool,
            arguments: Some(input),
            info: Arc::new(info),
            cancel: CancelSignal::new(context.cancel.child_token()),
            context: Arc::new(context),
            began: Instant::now(),
            began_ms: now_ms(),
            tool: None,
            input: null_input(),
            is_valid: false,
            repairs: Vec::new(),
            accesses: Vec::new(),
            judged: Vec::new(),
            resolved_files: Vec::new(),
            scripts: Vec::new(),
            decision: None,
            withheld: Vec::new(),
            verdict: None,
            approval: None,
            begun_seq: None,
        })
    }

    /// Runs every stage in order. Each is one file in `gate/` and reads what the earlier ones left.
    async fn run_stages(
        &self,
        gate: &Gate,
        mut call_state: Box<CallState>,
        on_ask: OnAsk,
    ) -> Result<Outcome, Halt> {
        if let Some(replay) = &self.replay {
            return Ok(replay::answer(self, &mut call_state, &**replay).await);
        }
        let call = &mut *call_state;
        let ran: Result<Reply, Halt> = async {
            resolve::resolve(self, call).await?;
            repair::repair(self, call)?;
            validate::validate(call)?;
            access::access(self, gate, call).await?;
            policy::judge(self, call).await?;
            approve::approve(self, gate, call, on_ask).await?;
            run::run(self, gate, call).await
        }
        .await;
        let reply = match ran {
            Ok(reply) => Ok(reply),
            Err(Halt::Failed(error)) => Err(error),
            Err(halt) => return Err(halt),
        };
        let mut outcome = finish::outcome(&call_state, reply);
        redact::redact(self, &mut outcome).await;
        repeat::mark_repeat(self, &call_state, &mut outcome).await;
        bound::bound(self, &call_state, &mut outcome).await;
        record::record(self, call_state, &mut outcome).await;
        Ok(outcome)
    }
}

/// The input of calls before it is read, and again after it is recorded.
fn null_input() -> Arc<Value> {
    static NULL: LazyLock<Arc<Value>> = LazyLock::new(Arc::default);
    NULL.clone()
}

impl CallState {
    fn tool(&self) -> &Arc<dyn Tool> {
        self.tool.as_ref().expect("resolve runs before")
    }

    fn decision(&self) -> &Decision {
        self.decision.as_ref().expect("policy runs before")
    }

    /// Takes the input out of the state.
    fn take_input(&mut self) -> Value {
        Arc::unwrap_or_clone(std::mem::replace(&mut self.input, null_input()))
    }

    /// The canonical name of the tool, or the requested one.
    fn name(&self) -> &str {
        self.tool.as_ref().map_or(self.requested.as_str(), |tool| tool.name())
    }
}

/// A weak handle on the gate for calls made by tools, which must not keep the gate alive.
#[derive(Clone)]
pub(crate) struct WeakGate(Weak<GateInner>);

impl WeakGate {
    pub(crate) fn of(gate: &Gate) -> Self {
        Self(Arc::downgrade(&gate.0))
    }

    pub(crate) async fn call(&self, request: CallRequest) -> Outcome {
        match self.0.upgrade() {
            // Boxed: a gate's call contains a tool's call, which may contain a gate's call.
            Some(inner) => Box::pin(Gate(inner).call(request)).await,
            None => finish::crashed(&request.tool, "the gate was closed"),
        }
    }
}

#[cfg(test)]
mod tests;
