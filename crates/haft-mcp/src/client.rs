//! The client as the code behind a request sees it: it can be asked, told and logged to, whichever era it speaks. A tool
//! takes [`Client`] as an argument like any other capability.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use haft_core::{
    AgentView, Call, CancellationToken, Capability, Context, Gate, Need, Power, Schema, ToolError,
    ToolSpec,
};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        ClientCapabilities, ClientResult, CreateMessageRequest, CreateMessageRequestParams,
        ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, GetExtensions,
        InputRequest, InputRequests, ListRootsRequest, LoggingLevel,
        LoggingMessageNotificationParam, ServerRequest,
    },
    service::{OriginatingRequestId, PeerRequestOptions, RequestContext},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{http::sessions::Answer, rounds::Rounds, server::Server, withdrawal::Question};

/// Which way of asking the client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// Up to 2025-11-25: the server sends a request of its own and waits.
    Stateful,
    /// From 2026-07-28: the request ends with questions and comes again with answers.
    Stateless,
}

/// The client that a request came from. Free: what it answers is its own decision.
#[derive(Clone)]
pub struct Client(pub(crate) Arc<Link>);

pub(crate) struct Link {
    /// Of the request that this is about.
    pub(crate) context: RequestContext<RoleServer>,
    pub(crate) era: Era,
    pub(crate) capabilities: ClientCapabilities,
    /// The least severe message it wants to see; none when it wants none.
    pub(crate) log_level: Option<LoggingLevel>,
    /// Who calls, for code that calls tools on the client's behalf.
    pub(crate) caller: Arc<Caller>,
    pub(crate) rounds: Mutex<Rounds>,
    /// What has to be answered before this can go on.
    pub(crate) wanted: Mutex<InputRequests>,
    /// What the protocol itself says when the work fails for the client's sake.
    pub(crate) refusal: Mutex<Option<ErrorData>>,
}

/// Who calls, as the gate is told of it. The same for all calls of a connection.
pub(crate) struct Caller {
    session: String,
    pub(crate) agents: Vec<String>,
    profile: Option<String>,
}

impl Caller {
    pub(crate) fn new(server: &Server) -> Self {
        Self {
            session: format!("mcp-{}", uuid::Uuid::now_v7().simple()),
            agents: vec![server.0.agent.clone().unwrap_or_else(|| "mcp".to_owned())],
            profile: server.0.profile.clone(),
        }
    }

    pub(crate) fn context(&self, cancel: CancellationToken) -> Context {
        let mut context = Context::with_cancel(&*self.session, cancel);
        context.agents.clone_from(&self.agents);
        context.profile.clone_from(&self.profile);
        context
    }

    /// What it is shown.
    pub(crate) async fn tools(&self, gate: &Gate) -> Vec<ToolSpec> {
        let view = AgentView {
            policy: gate.policy(),
            agents: &self.agents,
            profile: self.profile.as_deref(),
        };
        gate.registry().tools("mcp", &view, gate.workspace_info()).await.specs
    }
}

impl Capability for Client {
    const NEED: Need = Need::required(Power::Free);

    fn from_call(call: &Call) -> Result<Self, ToolError> {
        call.service::<Link>().map(Self).map_err(|_| {
            ToolError::unavailable("this call did not come from an MCP client")
                .hint("call this tool over MCP")
        })
    }
}

impl Client {
    /// Asks the person behind the client to fill in a form. `key` names the question among those of this request.
    ///
    /// # Errors
    /// When the client cannot be asked. From 2026-07-28 also when it has not answered yet: hand that error on, and the
    /// request is made again with the answer.
    pub async fn elicit(
        &self,
        key: &str,
        message: &str,
        form: Value,
    ) -> Result<ElicitResult, ToolError> {
        if !self.0.fills_in_forms() {
            return Err(self.cannot("fill in forms", "elicitation"));
        }
        let not_a_form = |error: &dyn std::fmt::Display| {
            ToolError::internal(format!("the form `{key}` is not one that MCP knows: {error}"))
        };
        let fields = Schema::from_value(form.clone()).map_err(|error| not_a_form(&error))?;
        let requested_schema = serde_json::from_value(form).map_err(|error| not_a_form(&error))?;
        let params = ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: message.to_owned(),
            requested_schema,
        };
        let question = InputRequest::Elicitation(ElicitRequest::new(params));
        let answer: ElicitResult = self.ask(key, question).await?;
        if answer.action == ElicitationAction::Accept {
            let content = answer.content.clone().unwrap_or_else(|| json!({}));
            let wrong = fields.violations(&content);
            if !wrong.is_empty() {
                return Err(self.senseless(key, &wrong.join("; ")));
            }
        }
        Ok(answer)
    }

    /// Asks the client's model.
    ///
    /// # Errors
    /// As for [`Client::elicit`].
    pub async fn sample(
        &self,
        key: &str,
        params: CreateMessageRequestParams,
    ) -> Result<Value, ToolError> {
        if self.0.capabilities.sampling.is_none() {
            return Err(self.cannot("ask its model", "sampling"));
        }
        self.ask(key, InputRequest::CreateMessage(CreateMessageRequest::new(params))).await
    }

    /// Asks which folders the client works in.
    ///
    /// # Errors
    /// As for [`Client::elicit`].
    pub async fn roots(&self, key: &str) -> Result<Value, ToolError> {
        if self.0.capabilities.roots.is_none() {
            return Err(self.cannot("say where it works", "roots"));
        }
        self.ask(key, InputRequest::ListRoots(ListRootsRequest::default())).await
    }

    /// What the client can do.
    pub fn capabilities(&self) -> &ClientCapabilities {
        &self.0.capabilities
    }

    /// What was remembered in an earlier round of this request.
    pub fn kept<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_value(self.rounds().kept.clone()?).ok()
    }

    /// Remembers something for the next round of this request. The client carries it, sealed but readable.
    pub fn keep(&self, state: &impl Serialize) {
        self.rounds().kept = serde_json::to_value(state).ok();
    }

    /// A line for the client's log; nothing when it did not ask for such lines.
    pub async fn log(&self, level: LoggingLevel, logger: &str, data: Value) {
        if self.0.log_level.is_none_or(|least| severity(level) < severity(least)) {
            return;
        }
        let message = LoggingMessageNotificationParam::new(level, data).with_logger(logger);
        // A log line that cannot be sent is not worth failing for: the client is going.
        let _ = self.0.context.peer.notify_logging_message(message).await;
    }

    /// Lets go of the connection that waits for the answer to this request; the client comes back for it. For work that
    /// takes longer than connections last. Over HTTP up to 2025-11-25; elsewhere nothing happens.
    pub fn hang_up(&self) {
        if let Some(answer) = self.0.context.extensions.get::<Arc<Answer>>() {
            answer.hang_up();
        }
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        key: &str,
        question: InputRequest,
    ) -> Result<T, ToolError> {
        let answer = match self.0.era {
            Era::Stateful => self.0.request(question).await?,
            Era::Stateless => match self.rounds().answers.get(key).cloned() {
                Some(answer) => answer,
                None => {
                    self.0.wanted().insert(key.to_owned(), question);
                    return Err(ToolError::unavailable(format!(
                        "`{key}` has not been answered yet"
                    ))
                    .hint("answer it and make the same request again"));
                }
            },
        };
        serde_json::from_value(answer).map_err(|error| self.senseless(key, &error.to_string()))
    }

    /// What the client was not asked because it did not say that it can answer.
    fn cannot(&self, what: &str, capability: &str) -> ToolError {
        let lacking = serde_json::from_value(json!({capability: {}})).unwrap_or_default();
        self.0.refuse(ErrorData::missing_required_client_capability(lacking));
        ToolError::unavailable(format!(
            "this client cannot {what}: it does not announce `{capability}`"
        ))
        .hint("use a client that does, or do without")
    }

    fn senseless(&self, key: &str, problem: &str) -> ToolError {
        let message = format!("the client's answer to `{key}` makes no sense: {problem}");
        self.0.refuse(ErrorData::invalid_params(message.clone(), None));
        ToolError::input(message).hint("answer in the form that was asked for")
    }

    fn rounds(&self) -> MutexGuard<'_, Rounds> {
        self.0.rounds.lock()
    }
}

impl Link {
    pub(crate) fn wanted(&self) -> MutexGuard<'_, InputRequests> {
        self.wanted.lock()
    }

    /// Whether it can be asked by a form; one that opens addresses only cannot.
    pub(crate) fn fills_in_forms(&self) -> bool {
        let elicitation = self.capabilities.elicitation.as_ref();
        elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
    }

    /// From 2026-07-28 these are errors of the protocol and not results; before, a model reads them like any failure.
    fn refuse(&self, refusal: ErrorData) {
        if self.era == Era::Stateless {
            *self.refusal.lock() = Some(refusal);
        }
    }

    /// How the protocol says that the work failed, if it failed for the client's sake.
    pub(crate) fn refusal(&self) -> Option<ErrorData> {
        self.refusal.lock().take()
    }

    /// Asks a client of the earlier era and waits for its answer.
    pub(crate) async fn request(&self, question: InputRequest) -> Result<Value, ToolError> {
        let mut request = match question {
            InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
            InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
            InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
            _ => return Err(ToolError::internal("a question that this version does not know")),
        };
        // Over HTTP the question goes out where the answer to the request will; not every client opens a second stream.
        request.extensions_mut().insert(OriginatingRequestId(self.context.id.clone()));
        let silent = |error| ToolError::unavailable(format!("the client did not answer: {error}"));
        let options = PeerRequestOptions::no_options();
        let peer = &self.context.peer;
        let asked = peer.send_cancellable_request(request, options).await.map_err(silent)?;
        let question = Question::new(peer, asked.id.clone());
        let answer = asked.await_response().await.map_err(silent);
        question.answered();
        let answer = answer?;
        let answer = match answer {
            ClientResult::ElicitResult(answer) => serde_json::to_value(answer),
            ClientResult::CreateMessageResult(answer) => serde_json::to_value(answer),
            ClientResult::ListRootsResult(answer) => serde_json::to_value(answer),
            other => serde_json::to_value(other),
        };
        answer.map_err(|error| ToolError::internal(format!("the client's answer: {error}")))
    }
}

/// The order of RFC 5424, least severe first.
fn severity(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}
