//! The client from the view of the code behind a request, which can ask it, notify it and write to
//! its log in either era of the protocol. A tool takes [`McpClient`] as an argument like any other
//! capability.

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

use crate::{
    cancel_on_drop::CancelOnDrop, http::sessions::AnswerStream, request_state::RequestState,
    server::Server,
};

/// How a server asks the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// Up to 2025-11-25: the server sends a request and waits.
    Stateful,
    /// From 2026-07-28: the request ends with questions, and the client repeats it with answers.
    Stateless,
}

/// The client that a request came from. Needs no permission: the client decides what it answers.
#[derive(Clone)]
pub struct McpClient(pub(crate) Arc<Link>);

pub(crate) struct Link {
    /// The request.
    pub(crate) context: RequestContext<RoleServer>,
    pub(crate) era: Era,
    pub(crate) capabilities: ClientCapabilities,
    /// The least severe log level that the client wants; `None` if it wants none.
    pub(crate) log_level: Option<LoggingLevel>,
    /// The caller, for code that calls tools on the client's behalf.
    pub(crate) caller: Arc<Caller>,
    pub(crate) request_state: Mutex<RequestState>,
    /// Questions to answer before this request can continue.
    pub(crate) questions: Mutex<InputRequests>,
    /// The protocol error to return if the work fails because of the client.
    pub(crate) refusal: Mutex<Option<ErrorData>>,
}

/// The caller as the gate sees it. The same for all calls of a connection.
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

    /// Returns the tools that the client sees.
    pub(crate) async fn tools(&self, gate: &Gate) -> Vec<ToolSpec> {
        let view = AgentView {
            policy: gate.policy(),
            agents: &self.agents,
            profile: self.profile.as_deref(),
        };
        gate.registry().tools("mcp", &view, gate.workspace_info()).await.specs
    }
}

impl Capability for McpClient {
    const NEED: Need = Need::required(Power::Free);

    fn from_call(call: &Call) -> Result<Self, ToolError> {
        call.service::<Link>().map(Self).map_err(|_| {
            ToolError::unavailable("this call did not come from an MCP client")
                .hint("call this tool over MCP")
        })
    }
}

impl McpClient {
    /// Asks the user of the client to fill in a form. `key` identifies the question within this
    /// request.
    ///
    /// # Errors
    /// When the client cannot be asked. From 2026-07-28 also when it has not answered yet: return
    /// that error, and the client repeats the request with the answer.
    pub async fn elicit(
        &self,
        key: &str,
        message: &str,
        form: Value,
    ) -> Result<ElicitResult, ToolError> {
        if !self.0.shows_forms() {
            return Err(self.cannot("fill in forms", "elicitation"));
        }
        let not_a_form = |error: &dyn std::fmt::Display| {
            ToolError::internal(format!("the form `{key}` is not a valid MCP form: {error}"))
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
                return Err(self.invalid_answer(key, &wrong.join("; ")));
            }
        }
        Ok(answer)
    }

    /// Asks the client's model.
    ///
    /// # Errors
    /// As for [`McpClient::elicit`].
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

    /// Asks for the directories that the client works in.
    ///
    /// # Errors
    /// As for [`McpClient::elicit`].
    pub async fn roots(&self, key: &str) -> Result<Value, ToolError> {
        if self.0.capabilities.roots.is_none() {
            return Err(self.cannot("say where it works", "roots"));
        }
        self.ask(key, InputRequest::ListRoots(ListRootsRequest::default())).await
    }

    /// Returns the capabilities of the client.
    pub fn capabilities(&self) -> &ClientCapabilities {
        &self.0.capabilities
    }

    /// Returns the state that an earlier round of this request saved.
    pub fn kept<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_value(self.request_state().kept.clone()?).ok()
    }

    /// Saves state for the next round of this request. The client carries it; it is signed but
    /// readable.
    pub fn keep(&self, state: &impl Serialize) {
        self.request_state().kept = serde_json::to_value(state).ok();
    }

    /// Sends a line to the client's log, if the client wants lines of this level.
    pub async fn log(&self, level: LoggingLevel, logger: &str, data: Value) {
        if self.0.log_level.is_none_or(|least| severity(level) < severity(least)) {
            return;
        }
        let message = LoggingMessageNotificationParam::new(level, data).with_logger(logger);
        // If it cannot be sent, the client is disconnecting; that is not an error.
        let _ = self.0.context.peer.notify_logging_message(message).await;
    }

    /// Closes the connection that waits for the answer to this request; the client reconnects for
    /// it. For work that takes longer than connections last. Only over HTTP up to 2025-11-25;
    /// elsewhere it does nothing.
    pub fn disconnect(&self) {
        if let Some(answer) = self.0.context.extensions.get::<Arc<AnswerStream>>() {
            answer.disconnect();
        }
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        key: &str,
        question: InputRequest,
    ) -> Result<T, ToolError> {
        let answer = match self.0.era {
            Era::Stateful => self.0.request(question).await?,
            Era::Stateless => match self.request_state().answers.get(key).cloned() {
                Some(answer) => answer,
                None => {
                    self.0.questions().insert(key.to_owned(), question);
                    return Err(ToolError::unavailable(format!(
                        "`{key}` has not been answered yet"
                    ))
                    .hint("answer it and repeat the request"));
                }
            },
        };
        serde_json::from_value(answer).map_err(|error| self.invalid_answer(key, &error.to_string()))
    }

    /// Reports that the client was not asked because it does not announce the capability.
    fn cannot(&self, what: &str, capability: &str) -> ToolError {
        let lacking = serde_json::from_value(json!({capability: {}})).unwrap_or_default();
        self.0.refuse(ErrorData::missing_required_client_capability(lacking));
        ToolError::unavailable(format!(
            "this client cannot {what}: it does not announce `{capability}`"
        ))
        .hint("use a client that announces it, or do without")
    }

    fn invalid_answer(&self, key: &str, problem: &str) -> ToolError {
        let message = format!("the client's answer to `{key}` is invalid: {problem}");
        self.0.refuse(ErrorData::invalid_params(message.clone(), None));
        ToolError::input(message).hint("answer with the requested form")
    }

    fn request_state(&self) -> MutexGuard<'_, RequestState> {
        self.0.request_state.lock()
    }
}

impl Link {
    pub(crate) fn questions(&self) -> MutexGuard<'_, InputRequests> {
        self.questions.lock()
    }

    /// Returns true if the client can show forms. A client that only opens URLs cannot.
    pub(crate) fn shows_forms(&self) -> bool {
        let elicitation = self.capabilities.elicitation.as_ref();
        elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
    }

    /// Stores a protocol error for the later era. In the earlier era the model reads the error as a
    /// result.
    fn refuse(&self, refusal: ErrorData) {
        if self.era == Era::Stateless {
            *self.refusal.lock() = Some(refusal);
        }
    }

    /// Returns the protocol error, if the work failed because of the client.
    pub(crate) fn refusal(&self) -> Option<ErrorData> {
        self.refusal.lock().take()
    }

    /// Asks a client of the earlier era and waits for its answer.
    pub(crate) async fn request(&self, question: InputRequest) -> Result<Value, ToolError> {
        let mut request = match question {
            InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
            InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
            InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
            _ => return Err(ToolError::internal("a question of an unknown kind")),
        };
        // Over HTTP the question uses the stream of the request; not every client opens a second
        // stream.
        request.extensions_mut().insert(OriginatingRequestId(self.context.id.clone()));
        let no_answer =
            |error| ToolError::unavailable(format!("the client did not answer: {error}"));
        let options = PeerRequestOptions::no_options();
        let peer = &self.context.peer;
        let asked = peer.send_cancellable_request(request, options).await.map_err(no_answer)?;
        let question = CancelOnDrop::new(peer, asked.id.clone());
        let answer = asked.await_response().await.map_err(no_answer);
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

/// Severity by RFC 5424, the least severe first.
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
