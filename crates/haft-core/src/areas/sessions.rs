//! Sessions: who worked here when, what was said to them, and the power to look at them, to write to them and to label them.
//! Everything is about one workspace.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{BoxFuture, Call, CallInfo, Capability, ErrorKind, Need, Power, Redactor, ToolError};

/// Keeps the sessions of a workspace.
pub trait Sessions: Send + Sync {
    /// Those that are wanted, the latest first.
    fn list<'a>(
        &'a self,
        query: &'a SessionQuery,
    ) -> BoxFuture<'a, Result<Vec<SessionInfo>, ToolError>>;

    /// What happened in a session, `offset` things before the latest, and so many at most.
    ///
    /// # Errors
    /// Of kind `not_found` when there is no such session.
    fn history<'a>(
        &'a self,
        session: &'a str,
        offset: usize,
        limit: usize,
    ) -> BoxFuture<'a, Result<SessionHistory, ToolError>>;

    /// Adds a message to a session, behind all others, and returns its number.
    ///
    /// # Errors
    /// Of kind `not_found` when there is no such session.
    fn send<'a>(
        &'a self,
        session: &'a str,
        message: &'a NewMessage,
    ) -> BoxFuture<'a, Result<u64, ToolError>>;

    /// Changes what is said about a session. With `of_caller` it is made when it is not there yet.
    ///
    /// # Errors
    /// Of kind `not_found` when there is no such session.
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
    /// Its name for programs.
    pub id: String,
    /// What it is about.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub title: Option<String>,
    /// The session that it was begun from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parent: Option<String>,
    /// How it came: `mcp`, `cli` …
    pub surface: String,
    /// The agent behind it, if it is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client: Option<String>,
    /// What programs have noted about it.
    pub metadata: Map<String, Value>,
    /// It is put away.
    pub archived: bool,
    /// How many messages it has.
    pub messages: u64,
    /// When it began, in milliseconds since 1970.
    pub created_ms: u64,
    /// When it last did something, to the minute.
    pub updated_ms: u64,
}

/// Who opens a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewSession {
    /// How it comes: `mcp`, `cli` …
    pub surface: String,
    /// The agent behind it, if it is one.
    pub client: Option<String>,
}

impl NewSession {
    /// As a call tells it: session names begin with the surface that made them.
    pub fn of(session: &str, agents: &[String]) -> Self {
        let surface = session.split('-').next().unwrap_or(session);
        Self { surface: surface.to_owned(), client: agents.last().cloned() }
    }
}

/// Which sessions are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// With this in its title or id, in whatever case.
    pub text: Option<String>,
    /// Those that are put away, too.
    pub archived: bool,
    /// So many at most.
    pub limit: usize,
}

/// A message to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewMessage {
    /// In what capacity: `agent` or `person`.
    pub role: String,
    /// The session that it comes from.
    pub author: String,
    /// The words.
    pub content: String,
    /// The call that sent it.
    pub call_id: Option<String>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionMessage {
    /// Its number in its session, from 1.
    pub seq: u64,
    /// In what capacity it was sent: `agent` or `person`.
    pub role: String,
    /// The session that it came from.
    pub author: String,
    /// The words.
    pub content: String,
    /// The call that sent it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub call_id: Option<String>,
    /// When, in milliseconds since 1970.
    pub created_ms: u64,
}

/// A call, as the ledger has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionCall {
    /// Its id.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// The input, without secrets.
    pub input: Value,
    /// How it failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<ErrorKind>,
    /// When it began, in milliseconds since 1970.
    pub created_ms: u64,
    /// How long it took.
    pub ms: u64,
}

/// Something that happened in a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SessionEvent {
    /// It was sent a message.
    Message(SessionMessage),
    /// It made a call.
    Call(SessionCall),
}

impl SessionEvent {
    /// When, in milliseconds since 1970.
    pub fn created_ms(&self) -> u64 {
        match self {
            Self::Message(message) => message.created_ms,
            Self::Call(call) => call.created_ms,
        }
    }
}

/// What happened in a session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionHistory {
    /// The session.
    pub session: SessionInfo,
    /// The oldest first.
    pub events: Vec<SessionEvent>,
    /// There is more before that.
    pub has_more: bool,
}

/// What is to be changed about a session; what is none stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionPatch {
    /// What it is about; empty takes the title away.
    pub title: Option<String>,
    /// Merged into what is there: null takes a member away.
    pub metadata: Option<Map<String, Value>>,
    /// Put away, or fetched back.
    pub archived: Option<bool>,
}

/// There is no such session. For those who implement [`Sessions`].
pub fn no_such_session(id: &str) -> ToolError {
    ToolError::not_found(format!("this workspace has no session `{id}`"))
        .hint("list the sessions with operation `list`, and take an id from there")
}

/// The power to look at sessions.
#[derive(Clone)]
pub struct ReadSessions(Arc<dyn Sessions>);

impl ReadSessions {
    /// Those of a keeper; for calling a tool's function directly.
    pub fn unchecked(sessions: Arc<dyn Sessions>) -> Self {
        Self(sessions)
    }

    /// As [`Sessions::list`].
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn list(&self, query: &SessionQuery) -> Result<Vec<SessionInfo>, ToolError> {
        self.0.list(query).await
    }

    /// As [`Sessions::history`].
    ///
    /// # Errors
    /// Of kind `not_found` when there is no such session.
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

/// The power to write to sessions and to label them, in the name of the caller and without secrets.
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
    /// Of kind `not_found` when there is no such session.
    pub async fn send(&self, session: &str, words: &str) -> Result<u64, ToolError> {
        let message = NewMessage {
            role: if self.info.agents.is_empty() { "person" } else { "agent" }.to_owned(),
            author: self.info.session.clone(),
            content: self.redactor.text(words).into_owned(),
            call_id: Some(self.info.call_id.to_string()),
        };
        self.sessions.send(session, &message).await
    }

    /// As [`Sessions::patch`]; the caller's own session when none is named.
    ///
    /// # Errors
    /// Of kind `not_found` when there is no such session.
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
