//! `session`: lists the sessions of this workspace, shows the history of one, sends a message to
//! one, and changes the title and metadata of one.

use haft_core::{
    Access, CallInfo, Output, Power, ReadSessions, SessionCall, SessionEvent, SessionHistory,
    SessionInfo, SessionPatch, SessionQuery, ToolError, WriteSessions,
};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 200;
/// Maximum length of a call's input in a line of the history.
const INPUT_CHARS: usize = 200;
/// Maximum offset into a history.
const MAX_OFFSET: usize = 10_000;

/// The operation, and its session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "operation": "send", "session_id": "mcp-019a8d3c5f7e7c0b9d2e4f6a8b0c1d2e", "message": "The parser is done; tests are green." }))]
pub struct SessionInput {
    /// The operation to carry out.
    #[schemars(extend("x-aliases" = ["action", "op"]))]
    pub operation: Operation,
    /// The session. Default for history and patch: your own.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200), extend("x-aliases" = ["session", "sessionId", "id"]))]
    #[schemars(extend("x-refers-to" = "session"))]
    pub session_id: Option<String>,
    /// For list: only sessions with this in their title or id.
    #[serde(default)]
    #[schemars(length(max = 200), extend("x-aliases" = ["query", "search"]))]
    pub filter: Option<String>,
    /// For list: include archived sessions. For patch: archive the session, or restore it.
    #[serde(default)]
    pub archived: Option<bool>,
    /// For list and history: the maximum number of results.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = MAX_LIMIT))]
    pub limit: usize,
    /// For history: the number of latest events to skip, to see earlier ones.
    #[serde(default)]
    #[schemars(range(max = MAX_OFFSET))]
    pub offset: usize,
    /// For send: the text of the message.
    #[serde(default)]
    #[schemars(length(min = 1, max = 65_536), extend("x-aliases" = ["text", "content"]))]
    pub message: Option<String>,
    /// For patch: what the session is about; empty removes the title.
    #[serde(default)]
    #[schemars(length(max = 200))]
    pub title: Option<String>,
    /// For patch: merged into the existing metadata; null removes a member.
    #[serde(default)]
    pub metadata: Option<Map<String, Value>>,
}

fn default_limit() -> usize {
    DEFAULT_LIMIT
}

/// An operation on sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    List,
    History,
    Send,
    Patch,
}

/// The result. Only the fields of the operation are present.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct SessionReport {
    /// For list.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-in-content" = true))]
    pub sessions: Option<Vec<SessionInfo>>,
    /// For history and patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionInfo>,
    /// For history, the oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-in-content" = true))]
    pub happened: Option<Vec<SessionEvent>>,
    /// For history: there are earlier events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_more: Option<bool>,
    /// For send: the number of the message in its session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    #[serde(skip)]
    text: String,
}

impl Output for SessionReport {
    fn text(&self) -> String {
        self.text.clone()
    }
}

fn accesses(operation: Operation) -> Vec<Access> {
    match operation {
        Operation::List | Operation::History => vec![Access::Any(Power::ReadStore)],
        Operation::Send | Operation::Patch => {
            vec![Access::Any(Power::ReadStore), Access::Any(Power::WriteStore)]
        }
    }
}

/// Lists, reads, messages and labels sessions.
#[tool(deadline = "30s", access = |input| accesses(input.operation))]
pub async fn session(
    input: SessionInput,
    sessions: ReadSessions,
    write: Option<WriteSessions>,
    info: CallInfo,
) -> Result<SessionReport, ToolError> {
    let write = || write.clone().ok_or_else(not_granted);
    let named = input.session_id.as_deref();
    match input.operation {
        Operation::List => {
            let (text, limit) = (input.filter, input.limit);
            let archived = input.archived.unwrap_or(false);
            let sessions = sessions.list(&SessionQuery { text, archived, limit }).await?;
            Ok(list_of(sessions, &info.session))
        }
        Operation::History => {
            let session = named.unwrap_or(&info.session);
            let history = sessions.history(session, input.offset, input.limit).await?;
            Ok(history_report(history, input.offset))
        }
        Operation::Send => {
            let session = named.ok_or_else(|| missing("session_id", "give the receiver"))?;
            let content = input.message.ok_or_else(|| missing("message", "give its text"))?;
            let seq = write()?.send(session, &content).await?;
            let text = format!("sent to {session} as its message {seq}");
            Ok(SessionReport { seq: Some(seq), text, ..SessionReport::default() })
        }
        Operation::Patch => {
            let SessionInput { title, metadata, archived, .. } = input;
            if title.is_none() && metadata.is_none() && archived.is_none() {
                return Err(missing("title, metadata or archived", "give what to change"));
            }
            let patch = SessionPatch { title, metadata, archived };
            let session = write()?.patch(input.session_id.as_deref(), patch).await?;
            let text = line(&session, &info.session);
            Ok(SessionReport { session: Some(session), text, ..SessionReport::default() })
        }
    }
}

fn not_granted() -> ToolError {
    ToolError::denied("this call has no permission to write to sessions")
}

fn missing(field: &str, hint: &str) -> ToolError {
    ToolError::input(format!("{field}: required for this operation")).hint(hint)
}

fn list_of(sessions: Vec<SessionInfo>, own: &str) -> SessionReport {
    let mut lines: Vec<String> = sessions.iter().map(|session| line(session, own)).collect();
    lines.push(match sessions.len() {
        0 => "[no sessions]".to_owned(),
        1 => "[1 session]".to_owned(),
        count => format!("[{count} sessions, latest first]"),
    });
    SessionReport { sessions: Some(sessions), text: lines.join("\n"), ..SessionReport::default() }
}

fn line(session: &SessionInfo, own: &str) -> String {
    let mut words = vec![session.id.clone()];
    words.extend(session.title.clone());
    words.push(format!("last active {}", time(session.updated_ms)));
    words.extend(session.client.as_ref().map(|client| format!("agent {client}")));
    words.extend((session.messages > 0).then(|| format!("{} messages", session.messages)));
    words.extend(
        (!session.metadata.is_empty()).then(|| Value::from(session.metadata.clone()).to_string()),
    );
    words.extend(session.archived.then(|| "archived".to_owned()));
    words.extend((session.id == own).then(|| "this session".to_owned()));
    words.join("; ")
}

fn history_report(history: SessionHistory, offset: usize) -> SessionReport {
    let mut lines: Vec<String> = history.events.iter().map(event).collect();
    let count = history.events.len();
    lines.push(if history.has_more {
        format!("[{count} events; for earlier ones give offset={}]", offset + count)
    } else {
        format!("[{count} events, from the beginning]")
    });
    SessionReport {
        session: Some(history.session),
        happened: Some(history.events),
        has_more: Some(history.has_more),
        text: lines.join("\n"),
        ..SessionReport::default()
    }
}

fn event(happened: &SessionEvent) -> String {
    let at = time(happened.created_ms());
    match happened {
        SessionEvent::Message(message) => {
            let indented = message.content.replace('\n', "\n    ");
            format!(
                "{at} message {} from {} ({}): {indented}",
                message.seq, message.author, message.role
            )
        }
        SessionEvent::Call(SessionCall { call_id, tool, input, error, ms, .. }) => {
            let input = input.to_string();
            let short: String = input.chars().take(INPUT_CHARS).collect();
            let more = if short.len() < input.len() { "…" } else { "" };
            let end = error.map_or_else(|| "ok".to_owned(), |kind| kind.to_string());
            format!("{at} {tool} {short}{more}: {end}, {ms} ms, {call_id}")
        }
    }
}

/// Formats a time in UTC, to the second.
fn time(ms: u64) -> String {
    let moment = i64::try_from(ms / 1000).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
    moment.map_or_else(|| "unknown time".to_owned(), |moment| moment.to_string())
}

#[cfg(test)]
mod tests {
    use haft_core::{ErrorKind, SessionMessage};

    use super::*;

    #[test]
    fn a_session_is_one_line_with_what_is_known_of_it() {
        let bare = SessionInfo {
            id: "mcp-1".into(),
            updated_ms: 1_700_000_000_123,
            ..SessionInfo::default()
        };
        assert_eq!(line(&bare, "cli"), "mcp-1; last active 2023-11-14T22:13:20Z");
        let known = SessionInfo {
            title: Some("Parser".into()),
            client: Some("claude".into()),
            messages: 2,
            metadata: Map::from_iter([("a".to_owned(), json!(1))]),
            archived: true,
            ..bare
        };
        assert_eq!(
            line(&known, "mcp-1"),
            "mcp-1; Parser; last active 2023-11-14T22:13:20Z; agent claude; 2 messages; {\"a\":1}; archived; this session"
        );
    }

    #[test]
    fn a_history_has_one_line_per_event() {
        let message = SessionMessage {
            seq: 1,
            role: "agent".into(),
            author: "mcp-2".into(),
            content: "one\ntwo".into(),
            call_id: None,
            created_ms: 0,
        };
        let call = SessionCall {
            call_id: "call_1".into(),
            tool: "read".into(),
            input: json!({"path": "x".repeat(300)}),
            error: Some(ErrorKind::NotFound),
            created_ms: 1_000,
            ms: 7,
        };
        let history = SessionHistory {
            session: SessionInfo::default(),
            events: vec![SessionEvent::Message(message), SessionEvent::Call(call)],
            has_more: true,
        };
        let text = history_report(history, 3).text();
        assert!(text.starts_with("1970-01-01T00:00:00Z message 1 from mcp-2 (agent): one\n    two\n1970-01-01T00:00:01Z read {\"path\":\"xx"), "{text}");
        assert!(
            text.contains(
                "x…: not_found, 7 ms, call_1\n[2 events; for earlier ones give offset=5]"
            ),
            "{text}"
        );
    }

    #[test]
    fn read_only_operations_need_no_write_power() {
        for (operation, writes) in [
            (Operation::List, false),
            (Operation::History, false),
            (Operation::Send, true),
            (Operation::Patch, true),
        ] {
            let has = accesses(operation).contains(&Access::Any(Power::WriteStore));
            assert_eq!(has, writes, "{operation:?}");
        }
    }
}
