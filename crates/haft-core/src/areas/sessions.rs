//! Sessions: which client worked when, its messages, and the capabilities to list sessions, send
//! messages to them and label them. Everything belongs to one workspace.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{BoxFuture, Call, CallInfo, Capability, ErrorKind, Need, Power, Redactor, ToolError};

/// A store of the sessions of a workspace.
pub trait Sessions: Send + Sync {
    /// Returns the matching sessions, latest first.
    fn list<'a>(
        &'a self,
        query: &'a SessionQuery,
    ) -> BoxFuture<'a, Result<Vec<SessionInfo>, ToolError>>;

    /// Returns the events of a session, skipping the latest `offset` ones, up to a limit.
    ///
    /// # Errors
    /// Of kind `not_found` if there is no such session.
    fn history<'a>(
        &'a self,
        session: &'a str,
        offset: usize,
        limit: usize,
    ) -> BoxFuture<'a, Result<SessionHistory, ToolError>>;

    /// Adds a message to the end of a session and returns its number.
    ///
    /// # Errors
    /// Of kind `not_found` if there is no such session.
    fn send<'a>(
        &'a self,
        session: &'a str,
        message: &'a NewMessage,
    ) -> BoxFuture<'a, Result<u64, ToolError>>;

    /// Changes the labels of a session. With `of_caller` the session is created if it does not
    /// exist.
    ///
    /// # Errors
    /// Of kind `not_found` if there is no such session.
    fn patch<'a>(
        &'a self,
        session: &'a str,
        patch: &'a SessionPatch,
        of_caller: Option<&'a NewSession>,
    ) -> BoxFuture<'a, Result<SessionInfo, ToolError>>;
}

/// A session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionInfo {
    /// The id, for programs.
    pub id: String,
    /// The subject of the session.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub title: Option<String>,
    /// The session that started this one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parent: Option<String>,
    /// The surface of the session: `mcp`, `cli` …
    pub surface: String,
    /// The client, if an agent uses the session.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client: Option<String>,
    /// Notes of programs.
    pub metadata: Map<String, Value>,
    /// True if the session is archived.
    pub archived: bool,
    /// Number of messages.
    pub messages: u64,
    /// Start time, in milliseconds since 1970.
    pub created_ms: u64,
    /// Time of the last activity, to the minute.
    pub updated_ms: u64,
}

/// The properties of a new session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewSession {
    /// The surface of the session: `mcp`, `cli` …
    pub surface: String,
    /// The client, if an agent uses the session.
    pub client: Option<String>,
}

impl NewSession {
    /// Derives the properties from a call: session ids begin with the surface that created them.
    pub fn of(session: &str, agents: &[String]) -> Self {
        let surface = session.split('-').next().unwrap_or(session);
        Self { surface: surface.to_owned(), client: agents.last().cloned() }
    }
}

/// A filter for sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// Text to find in the title or id, regardless of case.
    pub text: Option<String>,
    /// True to include archived sessions.
    pub archived: bool,
    /// Maximum number of sessions.
    pub limit: usize,
}

/// A new message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewMessage {
    /// The role of the sender: `agent` or `person`.
    pub role: String,
    /// The session of the sender.
    pub author: String,
    /// The text.
    pub content: String,
    /// The call that sent it.
    pub call_id: Option<String>,
}

/// A message in a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionMessage {
    /// Its number in the session, from 1.
    pub seq: u64,
    /// The role of the sender: `agent` or `person`.
    pub role: String,
    /// The session of the sender.
    pub author: String,
    /// The text.
    pub content: String,
    /// The call that sent it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub call_id: Option<String>,
    /// Time in milliseconds since 1970.
    pub created_ms: u64,
}

/// A call of a session, from the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionCall {
    /// The id of the call.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// The input, without secrets.
    pub input: Value,
    /// The kind of the error, if the call failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<ErrorKind>,
    /// Start time, in milliseconds since 1970.
    pub created_ms: u64,
    /// Duration in milliseconds.
    pub ms: u64,
}

/// An event in a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SessionEvent {
    /// The session received a message.
    Message(SessionMessage),
    /// The session made a call.
    Call(SessionCall),
}

impl SessionEvent {
    /// Time in milliseconds since 1970.
    pub fn created_ms(&self) -> u64 {
        match self {
            Self::Message(message) => message.created_ms,
            Self::Call(call) => call.created_ms,
        }
    }
}

/// The events of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionHistory {
    /// The session.
    pub session: SessionInfo,
    /// The events, oldest first.
    pub events: Vec<SessionEvent>,
    /// True if there are earlier events.
    pub has_more: bool,
}

/// Changes to the labels of a session; `None` leaves a label unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionPatch {
    /// The new title; an empty one removes it.
    pub title: Option<String>,
    /// Merged into the existing metadata: null removes a member.
    pub metadata: Option<Map<String, Value>>,
    /// True to archive the session, false to restore it.
    pub archived: Option<bool>,
}

/// The error for an unknown session. For implementations of [`Sessions`].
pub fn no_such_session(id: &str) -> ToolError {
    ToolError::not_found(format!("unknown session `{id}` in this workspace"))
        .hint("list the sessions with operation `list` and use an id from there")
}

/// The capability to read sessions.
#[derive(Clone)]
pub struct ReadSessions(Arc<dyn Sessions>);

impl ReadSessions {
    /// The sessions of a store, for calling a tool's function directly.
    pub fn unchecked(sessions: Arc<dyn Sessions>) -> Self {
        Self(sessions)
    }

    /// As [`Sessions::list`].
    ///
    /// # Errors
    /// If they cannot be read.
    pub async fn list(&self, query: &SessionQuery) -> Result<Vec<SessionInfo>, ToolError> {
        self.0.list(query).await
    }

    /// As [`Sessions::history`].
    ///
    /// # Errors
    /// Of kind `not_found` if there is no such session.
    pub async fn history(
        &self,
        session: &str,
        offset: usize,
        limit: usize,
    ) -> Result<SessionHistory, ToolError> {
        self.0.history(session, offset, limit).await
    }
}

#[diagnostic::do_not_recommend]
impl Capability for ReadSessions {
    const NEED: Need = Need::required(Power::ReadStore);

    fn from_call(call: &Call) -> Result<Self, ToolError> {
        call.service().map(Self)
    }
}

/// The capability to send messages to sessions and to label them, in the name of the caller and
/// without secrets.
#[derive(Clone)]
pub struct WriteSessions {
    sessions: Arc<dyn Sessions>,
    info: Arc<CallInfo>,
    redactor: Redactor,
}

impl WriteSessions {
    /// As [`Sessions::send`].
    ///
    /// # Errors
    /// Of kind `not_found` if there is no such session.
    pub async fn send(&self, session: &str, text: &str) -> Result<u64, ToolError> {
        let message = NewMessage {
            role: if self.info.agents.is_empty() { "person" } else { "agent" }.to_owned(),
            author: self.info.session.clone(),
            content: self.redactor.text(text).into_owned(),
            call_id: Some(self.info.call_id.to_string()),
        };
        self.sessions.send(session, &message).await
    }

    /// As [`Sessions::patch`]; for the caller's own session if none is named.
    ///
    /// # Errors
    /// Of kind `not_found` if there is no such session.
    pub async fn patch(
        &self,
        session: Option<&str>,
        mut patch: SessionPatch,
    ) -> Result<SessionInfo, ToolError> {
        let own = &*self.info.session;
        let session = session.unwrap_or(own);
        let newcomer = NewSession::of(own, &self.info.agents);
        let of_caller = Some(&newcomer).filter(|_| session == own);
        patch.title = patch.title.map(|title| self.redactor.text(&title).into_owned());
        patch.metadata = patch.metadata.map(|metadata| {
            let mut value = Value::Object(metadata);
            self.redactor.value(&mut value);
            value.as_object().cloned().unwrap_or_default()
        });
        self.sessions.patch(session, &patch, of_caller).await
    }
}

#[diagnostic::do_not_recommend]
impl Capability for WriteSessions {
    const NEED: Need = Need::required(Power::WriteStore);

    fn from_call(call: &Call) -> Result<Self, ToolError> {
        Ok(Self {
            sessions: call.service()?,
            info: call.info().clone(),
            redactor: call.sender.redactor.clone(),
        })
    }
}
