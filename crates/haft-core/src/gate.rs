//! The gate: the one way to run a tool. Every call, from every surface, passes the same stages in the same order, and
//! each stage is one file in this folder. Read `Inner::run_stages` from top to bottom to follow a call.

mod access;
mod answered;
mod approve;
mod begin;
mod bound;
mod builder;
mod finish;
mod handover;
mod policy;
mod record;
mod redact;
mod repair;
mod repeat;
mod resolve;
mod run;
mod turn;
mod validate;

use std::sync::{Arc, LazyLock, Weak};

use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

pub use self::{
    answered::{RecordedCall, ReplaySource},
    builder::{GateBuilder, Limits},
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

/// A text that is longer is looked through on a thread of its own.
const LONG_TEXT: usize = 1 << 20;

/// One call, as a surface hands it in.
#[derive(Clone, Debug)]
pub struct CallRequest {
    /// The tool's name, or something close to it.
    pub tool: String,
    /// The arguments.
    pub input: Input,
    /// Who calls, from where.
    pub context: Context,
}

impl CallRequest {
    /// A call.
    pub fn new(tool: impl Into<String>, input: impl Into<Input>, context: Context) -> Self {
        Self { tool: tool.into(), input: input.into(), context }
    }
}

/// Arguments: as text that still has to be read, or as a value.
#[derive(Clone, Debug)]
pub enum Input {
    /// JSON as a model or a person wrote it; small slips are mended and reported.
    Text(String),
    /// A value.
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

/// What a call that may be asked about comes to.
#[derive(Clone, Debug)]
pub enum Submission {
    /// It is over.
    Done(Box<Outcome>),
    /// Somebody has to decide; [`Gate::resume`] takes it up again.
    Pending(Arc<ApprovalRequest>),
}

/// What the gate would do with a call, without doing it.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The canonical name of the tool.
    pub tool: String,
    /// The input as it would run.
    pub input: Value,
    /// What would be mended in it.
    pub repairs: Vec<String>,
    /// What it would touch.
    pub accesses: Vec<Access>,
    /// What policy says and why.
    pub decision: Decision,
    /// What it says to each of the accesses.
    pub verdicts: Vec<AccessDecision>,
    /// Optional powers that the tool would have to do without.
    pub withheld: Vec<Power>,
    /// Who calls: the chain of agents, outermost first; empty when a person does.
    pub agents: Vec<String>,
    /// The profile in force.
    pub profile: Option<String>,
    /// Sets of rules, narrow first, each of which alone would keep the question from coming back.
    pub offers: Vec<Vec<String>>,
    /// Whether somebody would be asked, and the words.
    pub confirmation: Confirmation,
}

/// The one way to run a tool. Cheap to clone; all clones are one gate.
#[derive(Clone)]
pub struct Gate(Arc<Inner>);

pub(crate) struct Inner {
    registry: Registry,
    policy: Arc<Policy>,
    paths: Arc<dyn ResolvePath>,
    workspace_info: WorkspaceInfo,
    services: Services,
    events: Events,
    approvals: Arc<dyn Approvals>,
    handlers: Vec<Arc<dyn ApprovalHandler>>,
    /// Somebody outside this process, or outside the handlers, can settle requests.
    is_decided_externally: bool,
    /// What to do so that somebody is asked, for programs that can ask nobody.
    no_approver_hint: Option<String>,
    saved_rules: Arc<dyn SavedRules>,
    outputs: Arc<dyn Outputs>,
    ledger: Arc<dyn Ledger>,
    redactor: Redactor,
    queue: PathQueue,
    limits: Limits,
    reader: Option<CommandReader>,
    /// Whether a tool runs on its caller's thread until it first waits.
    starts_in_place: bool,
    /// What was given a moment ago, if that is not to be given again.
    repeats: Option<repeat::Repeats>,
    /// Who answers every call in place of its tool.
    answers: Option<Arc<dyn ReplaySource>>,
}

/// A call on its way through the stages; each one reads what the earlier ones left.
struct CallState {
    requested: String,
    arguments: Option<Input>,
    context: Arc<Context>,
    info: Arc<CallInfo>,
    cancel: CancelSignal,
    began: Instant,
    began_ms: u64,
    /// From resolve.
    tool: Option<Arc<dyn Tool>>,
    /// From repair.
    input: Arc<Value>,
    /// It was seen to fit as it came.
    is_right: bool,
    repairs: Vec<String>,
    /// From access: what the tool says, which is what it is granted and takes along when it runs.
    accesses: Vec<Access>,
    /// What policy judges and people see: for a text that is run, what was read in it.
    judged: Vec<Access>,
    seen: Vec<ResolvedFile>,
    /// What the reader found in the texts that are run. Each is read once.
    texts: Vec<ParsedScript>,
    /// From policy.
    decision: Option<Decision>,
    withheld: Vec<Power>,
    /// From approve.
    verdict: Option<ApprovalDecision>,
    /// The approval under which the call runs.
    approval: Option<Arc<ApprovalRecord>>,
    /// From begin: the number of the entry that was committed before the call ran.
    begun_seq: Option<u64>,
}

/// Why a call goes no further.
enum Halt {
    Failed(ToolError),
    Pending(Arc<ApprovalRequest>),
    /// Another process runs the approved call. Not recorded: the entry of that process is the one of the call.
    TakenUp(ToolError),
}

impl From<ToolError> for Halt {
    fn from(error: ToolError) -> Self {
        Self::Failed(error)
    }
}

/// What to do when somebody must decide.
#[derive(Clone)]
enum OnAsk {
    /// Wait here.
    Wait,
    /// Hand the question back.
    Return,
    /// It was decided; this is the record.
    Decided(Arc<ApprovalRecord>),
}

impl Gate {
    /// Puts a gate together.
    pub fn builder(registry: Registry) -> GateBuilder {
        GateBuilder::new(registry)
    }

    /// Runs a call to its end, waiting for a decision if one is needed. Dropping the future calls the call off; what
    /// became of it is recorded all the same. Needs a tokio runtime.
    pub async fn call(&self, request: CallRequest) -> Outcome {
        let tool = request.tool.clone();
        match self.drive(request, OnAsk::Wait).await {
            Ok(Submission::Done(outcome)) => *outcome,
            Ok(Submission::Pending(request)) => {
                unreachable!("a waiting call was handed back with request {}", request.id)
            }
            Err(error) => Outcome::failed(&tool, &error),
        }
    }

    /// Runs a call, but hands it back when somebody must decide first.
    pub async fn submit(&self, request: CallRequest) -> Submission {
        let tool = request.tool.clone();
        let answer = self.drive(request, OnAsk::Return).await;
        answer.unwrap_or_else(|error| Submission::Done(Box::new(Outcome::failed(&tool, &error))))
    }

    /// Takes up a call that was handed back. The recorded call runs exactly as it was shown, once. When it would touch
    /// something else by now, it is asked about again: the answer is then another pending request.
    ///
    /// # Errors
    /// When there is no such request, or its call was taken up before.
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

    /// What would become of a call, without running it or asking anybody.
    ///
    /// # Errors
    /// The error that the call would end in before policy.
    pub async fn explain(&self, request: CallRequest) -> Result<Explanation, ToolError> {
        let gate = &*self.0;
        let mut flight = gate.take_off(request);
        // The stages of a call that need no permission.
        resolve::resolve(gate, &mut flight).await?;
        repair::repair(gate, &mut flight)?;
        validate::validate(&mut flight)?;
        access::access(gate, self, &mut flight).await?;
        // A refusal is an answer here, not a failure.
        let judged = policy::judge(gate, &mut flight).await;
        if flight.decision.is_none() {
            judged?;
        }
        // What is wrong with them the stage before has told.
        let saved = self.0.saved_rules.active(&flight.context.session).await.unwrap_or_default();
        let question = policy::question(&flight, &flight.judged, &saved);
        let (verdicts, offers) =
            (self.0.policy.access_decisions(&question), self.0.policy.offers(&question));
        let spec = flight.tool().spec();
        let decision = flight.decision().clone();
        let is_asked = decision.action == Action::Ask;
        Ok(Explanation {
            tool: spec.name.to_string(),
            confirmation: Confirmation::of(&spec.title, spec.effect, &flight.judged, is_asked),
            input: Arc::unwrap_or_clone(flight.input),
            repairs: flight.repairs,
            accesses: flight.judged,
            decision,
            verdicts,
            withheld: flight.withheld,
            agents: flight.context.agents.clone(),
            profile: flight.context.profile.clone(),
            offers,
        })
    }

    /// The tools behind this gate.
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// The rules it holds.
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// What happens in it.
    pub fn events(&self) -> &Events {
        &self.0.events
    }

    /// The requests that wait for a decision, and those that were decided.
    pub fn approvals(&self) -> &Arc<dyn Approvals> {
        &self.0.approvals
    }

    /// The rules that people kept from earlier approvals.
    pub fn saved_rules(&self) -> &Arc<dyn SavedRules> {
        &self.0.saved_rules
    }

    /// The record of every call.
    pub fn ledger(&self) -> &Arc<dyn Ledger> {
        &self.0.ledger
    }

    /// The texts that were too long to show whole.
    pub fn outputs(&self) -> &Arc<dyn Outputs> {
        &self.0.outputs
    }

    /// Where it works.
    pub fn workspace_info(&self) -> &WorkspaceInfo {
        &self.0.workspace_info
    }

    /// The pipeline runs where its caller waits, but does not end with it: see [`handover`].
    ///
    /// # Errors
    /// `conflict` when another process has taken the approved call up.
    async fn drive(&self, request: CallRequest, on_ask: OnAsk) -> Result<Submission, ToolError> {
        let flight = self.0.take_off(request);
        let cancel = flight.cancel.token.clone();
        let requested = flight.requested.clone();
        let gate = self.clone();
        let pipeline = Box::pin(async move {
            match gate.0.run_stages(&gate, flight, on_ask).await {
                Ok(outcome) => Ok(Submission::Done(Box::new(outcome))),
                Err(Halt::Pending(request)) => Ok(Submission::Pending(request)),
                Err(Halt::Failed(error) | Halt::TakenUp(error)) => Err(error),
            }
        });
        handover::DetachedPipeline::new(pipeline, cancel).await.unwrap_or_else(|panic| {
            Ok(Submission::Done(Box::new(finish::crashed(&requested, &panic))))
        })
    }
}

impl Inner {
    /// Boxed, because the stages are futures inside futures and would copy it at every hand-over.
    fn take_off(&self, request: CallRequest) -> Box<CallState> {
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
            input: nothing(),
            is_right: false,
            repairs: Vec::new(),
            accesses: Vec::new(),
            judged: Vec::new(),
            seen: Vec::new(),
            texts: Vec::new(),
            decision: None,
            withheld: Vec::new(),
            verdict: None,
            approval: None,
            begun_seq: None,
        })
    }

    /// The way of a call: every stage, in order. Each is one file in `gate/` and reads what the earlier ones left.
    async fn run_stages(
        &self,
        gate: &Gate,
        mut flight: Box<CallState>,
        on_ask: OnAsk,
    ) -> Result<Outcome, Halt> {
        if let Some(answers) = &self.answers {
            return Ok(answered::answer(self, &mut flight, &**answers).await);
        }
        let call = &mut *flight;
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
        let mut outcome = finish::outcome(&flight, reply);
        redact::redact(self, &mut outcome).await;
        repeat::point(self, &flight, &mut outcome).await;
        bound::bound(self, &flight, &mut outcome).await;
        record::record(self, flight, &mut outcome).await;
        Ok(outcome)
    }
}

/// What calls have for an input until it is read, and once more when it is recorded.
fn nothing() -> Arc<Value> {
    static NOTHING: LazyLock<Arc<Value>> = LazyLock::new(Arc::default);
    NOTHING.clone()
}

impl CallState {
    fn tool(&self) -> &Arc<dyn Tool> {
        self.tool.as_ref().expect("resolve comes first")
    }

    fn decision(&self) -> &Decision {
        self.decision.as_ref().expect("policy comes before")
    }

    /// The input, for good.
    fn take_input(&mut self) -> Value {
        Arc::unwrap_or_clone(std::mem::replace(&mut self.input, nothing()))
    }

    /// The canonical name, or the one that was asked for.
    fn name(&self) -> &str {
        self.tool.as_ref().map_or(self.requested.as_str(), |tool| tool.name())
    }
}

/// A gate as the calls inside it hold it: they must not keep it alive.
#[derive(Clone)]
pub(crate) struct WeakGate(Weak<Inner>);

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
