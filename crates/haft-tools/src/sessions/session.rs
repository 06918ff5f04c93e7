//! `session`: the sessions of this workspace; what happened in one, a message to one, and what is said about one.

use haft_core::{
    Access, CallInfo, Output, Power, ReadSessions, SessionCall, SessionEvent, SessionHistory,
    SessionInfo, SessionPatch, SessionQuery, ToolError, WriteSessions,
};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

const LISTED: usize = 20;
const MOST: usize = 200;
/// How much of a call's input a line of the history has.
const INPUT_CHARS: usize = 200;
/// How far back a history goes.
const FARTHEST: usize = 10_000;

/// What to do, and with which session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "operation": "send", "session_id": "mcp-019a8d3c5f7e7c0b9d2e4f6a8b0c1d2e", "message": "The parser is done; tests are green." }))]
pub struct Session {
    /// What to do.
    #[schemars(extend("x-aliases" = ["action", "op"]))]
    pub operation: Operation,
    /// The session; for history and patch your own when left out.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200), extend("x-aliases" = ["session", "sessionId", "id"]))]
    pub session_id: Option<String>,
    /// For list: only sessions with this in their title or id.
    #[serde(default)]
    #[schemars(length(max = 200), extend("x-aliases" = ["query", "search"]))]
    pub filter: Option<String>,
    /// For list: those that are put away, too. For patch: put it away, or fetch it back.
    #[serde(default)]
    pub archived: Option<bool>,
    /// For list and history: the most to show.
    #[serde(default = "listed")]
    #[schemars(range(min = 1, max = MOST))]
    pub limit: usize,
    /// For history: how many of the latest to pass over, to see what was before.
    #[serde(default)]
    #[schemars(range(max = FARTHEST))]
    pub offset: usize,
    /// For send: the words.
    #[serde(default)]
    #[schemars(length(min = 1, max = 65_536), extend("x-aliases" = ["text", "content"]))]
    pub message: Option<String>,
    /// For patch: what the session is about; empty takes the title away.
    #[serde(default)]
    #[schemars(length(max = 200))]
    pub title: Option<String>,
    /// For patch: merged into what is there, null takes a member away.
    #[serde(default)]
    pub metadata: Option<Map<String, Value>>,
}

fn listed() -> usize {
    LISTED
}

/// What can be done with sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    List,
    SessionHistory,
    Send,
    Patch,
}

/// What came of it. Only the parts of the operation are there.
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
    /// For history: there is more before that.
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
        Operation::List | Operation::SessionHistory => vec![Access::Any(Power::ReadStore)],
        Operation::Send | Operation::Patch => {
            vec![Access::Any(Power::ReadStore), Access::Any(Power::WriteStore)]
        }
    }
}

/// Looks at sessions, writes to them, labels them.
#[tool(deadline = "30s", access = |input| accesses(input.operation))]
pub async fn session(
    input: Session,
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
            let found = sessions.list(&SessionQuery { text, archived, limit }).await?;
            Ok(list_of(found, &info.session))
        }
        Operation::SessionHistory => {
            let session = named.unwrap_or(&info.session);
            let history = sessions.history(session, input.offset, input.limit).await?;
            Ok(told(history, input.offset))
        }
        Operation::Send => {
            let session = named.ok_or_else(|| missing("session_id", "say to whom"))?;
            let words = input.message.ok_or_else(|| missing("message", "say what"))?;
            let seq = write()?.send(session, &words).await?;
            let text = format!("sent to {session} as its message {seq}");
            Ok(SessionReport { seq: Some(seq), text, ..SessionReport::default() })
        }
        Operation::Patch => {
            let Session { title, metadata, archived, .. } = input;
            if title.is_none() && metadata.is_none() && archived.is_none() {
                return Err(missing("title, metadata or archived", "say what is to be changed"));
            }
            let patch = SessionPatch { title, metadata, archived };
            let session = write()?.patch(input.session_id.as_deref(), patch).await?;
            let text = line(&session, &info.session);
            Ok(SessionReport { session: Some(session), text, ..SessionReport::default() })
        }
    }
}

fn not_granted() -> ToolError {
    ToolError::denied("this call was not granted the power to write to sessions")
}

fn missing(field: &str, hint: &str) -> ToolError {
    ToolError::input(format!("{field}: it is missing for this operation")).hint(hint)
}

fn list_of(sessions: Vec<SessionInfo>, own: &str) -> SessionReport {
    let mut lines: Vec<String> = sessions.iter().map(|session| line(session, own)).collect();
    lines.push(match sessions.len() {
        0 => "[no sessions]".to_owned(),
        1 => "[1 session]".to_owned(),
        count => format!("[{count} sessions, the latest first]"),
    });
    SessionReport { sessions: Some(sessions), text: lines.join("\n"), ..SessionReport::default() }
}

fn line(session: &SessionInfo, own: &str) -> String {
    let mut words = vec![session.id.clone()];
    words.extend(session.title.clone());
    words.push(format!("at work until {}", time(session.updated_ms)));
    words.extend(session.client.as_ref().map(|client| format!("agent {client}")));
    words.extend((session.messages > 0).then(|| format!("{} messages", session.messages)));
    words.extend(
        (!session.metadata.is_empty()).then(|| Value::from(session.metadata.clone()).to_string()),
    );
    words.extend(session.archived.then(|| "put away".to_owned()));
    words.extend((session.id == own).then(|| "this session".to_owned()));
    words.join("; ")
}

fn told(history: SessionHistory, offset: usize) -> SessionReport {
    let mut lines: Vec<String> = history.events.iter().map(event).collect();
    let count = history.events.len();
    lines.push(if history.has_more {
        format!("[{count} things; for what was before give offset={}]", offset + count)
    } else {
        format!("[{count} things, from the beginning]")
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

/// In UTC, to the second.
fn time(ms: u64) -> String {
    let moment = i64::try_from(ms / 1000).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
    moment.map_or_else(|| "some time".to_owned(), |moment| moment.to_string())
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
        assert_eq!(line(&bare, "cli"), "mcp-1; at work until 2023-11-14T22:13:20Z");
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
            "mcp-1; Parser; at work until 2023-11-14T22:13:20Z; agent claude; 2 messages; {\"a\":1}; put away; this session"
        );
    }

    #[test]
    fn a_history_is_one_line_for_each_thing() {
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
        let text = told(history, 3).text();
        assert!(text.starts_with("1970-01-01T00:00:00Z message 1 from mcp-2 (agent): one\n    two\n1970-01-01T00:00:01Z read {\"path\":\"xx"), "{text}");
        assert!(
            text.contains(
                "x…: not_found, 7 ms, call_1\n[2 things; for what was before give offset=5]"
            ),
            "{text}"
        );
    }

    #[test]
    fn looking_needs_no_power_to_write() {
        for (operation, writes) in [
            (Operation::List, false),
            (Operation::SessionHistory, false),
            (Operation::Send, true),
            (Operation::Patch, true),
        ] {
            let has = accesses(operation).contains(&Access::Any(Power::WriteStore));
            assert_eq!(has, writes, "{operation:?}");
        }
    }
}
