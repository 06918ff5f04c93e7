//! Sessions and their messages in the store. A session has a row from its first recorded call on,
//! or when a user or client labels it. Its calls are in the ledger; its history is both, ordered by
//! time.

use std::{collections::HashMap, path::Path, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use haft_core::{
    BoxFuture, LedgerEntry, NewMessage, NewSession, SessionCall, SessionEvent, SessionHistory,
    SessionInfo, SessionMessage, SessionPatch, SessionQuery, Sessions, ToolError, no_such_session,
};
use serde_json::{Map, Value as Json};

use crate::{
    Store, StoreAddress, StoreLocation,
    engine::{
        clock::now_ms,
        store::Transaction,
        value::{SqlRow, Value, searchable},
    },
};

/// The activity of a session is noted at most once in this time.
const NOTE_INTERVAL_MS: u64 = 60_000;
/// Maximum size of the metadata of a session.
const MAX_METADATA_BYTES: usize = 64 << 10;

const SEEN: &str = "INSERT INTO sessions (workspace, id, surface, client, metadata, archived, messages, created_ms, updated_ms) \
    VALUES ($1, $2, $3, $4, '{}', 0, 0, $5, $6) \
    ON CONFLICT (workspace, id) DO UPDATE SET updated_ms = excluded.updated_ms";
const ONE: &str = "SELECT id, title, parent, surface, client, metadata, archived, messages, created_ms, updated_ms \
    FROM sessions WHERE workspace = $1 AND id = $2";
const LIST: &str = "SELECT id, title, parent, surface, client, metadata, archived, messages, created_ms, updated_ms \
    FROM sessions WHERE workspace = $1 AND archived <= $2 ORDER BY updated_ms DESC, id DESC LIMIT $3";
/// Two patterns: some engines lower-case only ASCII letters, others all letters.
const SEARCH: &str = "SELECT id, title, parent, surface, client, metadata, archived, messages, created_ms, updated_ms \
    FROM sessions WHERE workspace = $1 AND archived <= $2 \
    AND (LOWER(COALESCE(title, '')) LIKE $3 ESCAPE '!' OR LOWER(COALESCE(title, '')) LIKE $4 ESCAPE '!' OR LOWER(id) LIKE $5 ESCAPE '!') \
    ORDER BY updated_ms DESC, id DESC LIMIT $6";
/// Locks the row, so that concurrent changes wait for each other.
const TAKE: &str = "UPDATE sessions SET updated_ms = $1 WHERE workspace = $2 AND id = $3 \
    RETURNING title, metadata, archived";
const PATCH: &str =
    "UPDATE sessions SET title = $1, metadata = $2, archived = $3 WHERE workspace = $4 AND id = $5";
const NEXT: &str = "UPDATE sessions SET messages = messages + 1, updated_ms = $1 WHERE workspace = $2 AND id = $3 \
    RETURNING messages";
const SEND: &str = "INSERT INTO messages (workspace, session, seq, role, author, content, call_id, created_ms) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
const MESSAGES: &str = "SELECT seq, role, author, content, call_id, created_ms FROM messages \
    WHERE workspace = $1 AND session = $2 ORDER BY seq DESC LIMIT $3";
const CALLS: &str = "SELECT entry FROM ledger WHERE session = $1 ORDER BY seq DESC LIMIT $2";

/// The sessions of a workspace.
pub struct StoreSessions {
    location: Arc<StoreLocation>,
    workspace: String,
    /// True if the store belongs to this workspace alone. Ledger entries do not name their
    /// workspace.
    is_own: bool,
    /// Time when each session of this process was last noted.
    noted: Mutex<HashMap<String, u64>>,
}

impl StoreSessions {
    /// Creates the sessions of a workspace. Opens nothing.
    pub fn new(location: Arc<StoreLocation>, workspace: &Path) -> Self {
        let is_own =
            matches!(location.address(), StoreAddress::Sqlite(path) if path.starts_with(workspace));
        let workspace = searchable(&workspace.to_string_lossy());
        Self { location, workspace, is_own, noted: Mutex::default() }
    }

    /// Returns true if the activity of a session was noted within the last minute.
    pub fn is_noted(&self, session: &str) -> bool {
        let now = now_ms();
        self.noted().get(session).is_some_and(|at| now.abs_diff(*at) < NOTE_INTERVAL_MS)
    }

    /// Notes that a session is active, at most once a minute.
    ///
    /// # Errors
    /// When it cannot be written; the next call tries again.
    pub async fn mark_active(&self, session: &str, agents: &[String]) -> Result<(), ToolError> {
        if self.is_noted(session) {
            return Ok(());
        }
        let now = now_ms();
        {
            let mut noted = self.noted();
            // Forget idle sessions: a server may have thousands.
            noted.retain(|_, at| now.abs_diff(*at) < NOTE_INTERVAL_MS);
            noted.insert(session.to_owned(), now);
        }
        let written = self.note(session, agents, now).await;
        if written.is_err() {
            self.noted().remove(session);
        }
        written
    }

    fn noted(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.noted.lock()
    }

    async fn note(&self, session: &str, agents: &[String], now: u64) -> Result<(), ToolError> {
        let mut transaction = self.location.store().await?.begin().await?;
        self.make(&mut transaction, session, &NewSession::of(session, agents), now).await?;
        transaction.commit().await
    }

    async fn make(
        &self,
        transaction: &mut Transaction,
        session: &str,
        new_session: &NewSession,
        now: u64,
    ) -> Result<(), ToolError> {
        let (id, surface) = (searchable(session), searchable(&new_session.surface));
        let client = new_session.client.as_deref().map(searchable);
        let row = [
            Value::Text(&self.workspace),
            Value::Text(&id),
            Value::Text(&surface),
            Value::maybe(client.as_deref()),
            Value::number(now),
            Value::number(now),
        ];
        transaction.execute(SEEN, &row).await.map(|_| ())
    }

    async fn find(&self, query: &SessionQuery) -> Result<Vec<SessionInfo>, ToolError> {
        let Some(store) = self.location.existing().await? else { return Ok(Vec::new()) };
        let workspace = Value::Text(&self.workspace);
        let (archived, limit) =
            (Value::Integer(i64::from(query.archived)), Value::number(query.limit as u64));
        let rows = match &query.text {
            None => store.query(LIST, &[workspace, archived, limit]).await?,
            Some(text) => {
                let (small, ascii) = (like(&text.to_lowercase()), like(&text.to_ascii_lowercase()));
                let (small, ascii) = (Value::Text(&small), Value::Text(&ascii));
                store.query(SEARCH, &[workspace, archived, small, ascii, small, limit]).await?
            }
        };
        rows.iter().map(session_info).collect()
    }

    async fn existing(&self, session: &str) -> Result<(Store, SessionInfo), ToolError> {
        let missing = || no_such_session(session);
        let store = self.location.existing().await?.ok_or_else(missing)?;
        let id = searchable(session);
        let rows = store.query(ONE, &[Value::Text(&self.workspace), Value::Text(&id)]).await?;
        let info = session_info(rows.first().ok_or_else(missing)?)?;
        Ok((store, info))
    }

    async fn read_history(
        &self,
        session: &str,
        offset: usize,
        limit: usize,
    ) -> Result<SessionHistory, ToolError> {
        let (store, info) = self.existing(session).await?;
        let id = searchable(session);
        // One more than requested, to find out if there are more.
        let most = Value::number(offset.saturating_add(limit).saturating_add(1) as u64);
        let query = [Value::Text(&self.workspace), Value::Text(&id), most];
        let rows = store.query(MESSAGES, &query).await?;
        let messages = rows.iter().map(message).collect::<Result<Vec<_>, ToolError>>()?;
        // A session id without `-` is the same in all workspaces, so it does not identify the
        // workspace of a call.
        let calls = match self.is_own || id.contains('-') {
            true => store.query(CALLS, &[Value::Text(&id), most]).await?,
            false => Vec::new(),
        };
        let latest = latest_first(messages, calls.iter().filter_map(past_call));
        let mut page: Vec<SessionEvent> = latest.skip(offset).take(limit + 1).collect();
        let has_more = page.len() > limit;
        page.truncate(limit);
        page.reverse();
        Ok(SessionHistory { session: info, events: page, has_more })
    }

    async fn add(&self, session: &str, message: &NewMessage) -> Result<u64, ToolError> {
        let (store, info) = self.existing(session).await?;
        let now = Value::number(now_ms());
        let (workspace, id) = (Value::Text(&self.workspace), Value::Text(&info.id));
        let mut transaction = store.begin().await?;
        let rows = transaction.query(NEXT, &[now, workspace, id]).await?;
        let seq = rows.first().ok_or_else(|| no_such_session(session))?.number(0)?;
        let clean = [&message.role, &message.author, &message.content].map(|it| searchable(it));
        let [role, author, content] = &clean;
        let call_id = message.call_id.as_deref().map(searchable);
        let row = [
            workspace,
            id,
            Value::number(seq),
            Value::Text(role),
            Value::Text(author),
            Value::Text(content),
            Value::maybe(call_id.as_deref()),
            now,
        ];
        transaction.execute(SEND, &row).await?;
        transaction.commit().await?;
        Ok(seq)
    }

    async fn change(
        &self,
        session: &str,
        patch: &SessionPatch,
        of_caller: Option<&NewSession>,
    ) -> Result<SessionInfo, ToolError> {
        let store = match of_caller {
            Some(_) => self.location.store().await?,
            None => self.existing(session).await?.0,
        };
        let (id, now) = (searchable(session), now_ms());
        let mut transaction = store.begin().await?;
        if let Some(new_session) = of_caller {
            self.make(&mut transaction, session, new_session, now).await?;
        }
        let (workspace, key) = (Value::Text(&self.workspace), Value::Text(&id));
        let rows = transaction.query(TAKE, &[Value::number(now), workspace, key]).await?;
        let row = rows.first().ok_or_else(|| no_such_session(session))?;
        let title = match &patch.title {
            Some(title) => Some(searchable(title)).filter(|title| !title.trim().is_empty()),
            None => row.maybe_text(0)?.map(str::to_owned),
        };
        let mut metadata = metadata_of(row.text(1)?);
        merge(&mut metadata, patch.metadata.as_ref());
        let metadata = Json::Object(metadata).to_string();
        if metadata.len() > MAX_METADATA_BYTES {
            let message =
                format!("metadata: {} bytes are more than {MAX_METADATA_BYTES}", metadata.len());
            return Err(ToolError::input(message).hint("keep large things in files"));
        }
        let archived = patch.archived.map_or(row.integer(2)?, i64::from);
        let values = [
            Value::maybe(title.as_deref()),
            Value::Text(&metadata),
            Value::Integer(archived),
            workspace,
            key,
        ];
        transaction.execute(PATCH, &values).await?;
        transaction.commit().await?;
        self.existing(session).await.map(|(_, info)| info)
    }
}

impl Sessions for StoreSessions {
    fn list<'a>(
        &'a self,
        query: &'a SessionQuery,
    ) -> BoxFuture<'a, Result<Vec<SessionInfo>, ToolError>> {
        Box::pin(self.find(query))
    }

    fn history<'a>(
        &'a self,
        session: &'a str,
        offset: usize,
        limit: usize,
    ) -> BoxFuture<'a, Result<SessionHistory, ToolError>> {
        Box::pin(self.read_history(session, offset, limit))
    }

    fn send<'a>(
        &'a self,
        session: &'a str,
        message: &'a NewMessage,
    ) -> BoxFuture<'a, Result<u64, ToolError>> {
        Box::pin(self.add(session, message))
    }

    fn patch<'a>(
        &'a self,
        session: &'a str,
        patch: &'a SessionPatch,
        of_caller: Option<&'a NewSession>,
    ) -> BoxFuture<'a, Result<SessionInfo, ToolError>> {
        Box::pin(self.change(session, patch, of_caller))
    }
}

/// Returns a `LIKE` pattern for texts that contain this one.
fn like(text: &str) -> String {
    let mut pattern = "%".to_owned();
    for letter in searchable(text).chars() {
        if matches!(letter, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(letter);
    }
    pattern + "%"
}

fn session_info(row: &SqlRow) -> Result<SessionInfo, ToolError> {
    let maybe = |column| row.maybe_text(column).map(|text| text.map(str::to_owned));
    Ok(SessionInfo {
        id: row.text(0)?.to_owned(),
        title: maybe(1)?,
        parent: maybe(2)?,
        surface: row.text(3)?.to_owned(),
        client: maybe(4)?,
        metadata: metadata_of(row.text(5)?),
        archived: row.integer(6)? != 0,
        messages: row.number(7)?,
        created_ms: row.number(8)?,
        updated_ms: row.number(9)?,
    })
}

/// Parses metadata. Anything but an object counts as empty; another program may have written it.
fn metadata_of(text: &str) -> Map<String, Json> {
    serde_json::from_str(text).unwrap_or_default()
}

fn message(row: &SqlRow) -> Result<SessionMessage, ToolError> {
    Ok(SessionMessage {
        seq: row.number(0)?,
        role: row.text(1)?.to_owned(),
        author: row.text(2)?.to_owned(),
        content: row.text(3)?.to_owned(),
        call_id: row.maybe_text(4)?.map(str::to_owned),
        created_ms: row.number(5)?,
    })
}

/// Returns `None` for an entry that cannot be read, which `haft ledger verify` reports.
fn past_call(row: &SqlRow) -> Option<SessionCall> {
    let entry: LedgerEntry = serde_json::from_str(row.text(0).ok()?).ok()?;
    // The entry of its end says more; a call without one may still be running.
    if entry.is_begun() || entry.is_anchor() {
        return None;
    }
    Some(SessionCall {
        call_id: entry.call_id,
        tool: entry.tool,
        input: entry.input,
        error: entry.error,
        created_ms: entry.began_ms,
        ms: entry.ms,
    })
}

/// Merges two lists, the newest event first. Each keeps its own order, whatever its times say: a
/// clock may have been set back, and a call that began first may end last. If they were sorted by
/// time, an event could move from an unread page to one that was read already.
fn latest_first(
    messages: Vec<SessionMessage>,
    calls: impl Iterator<Item = SessionCall>,
) -> impl Iterator<Item = SessionEvent> {
    let (mut messages, mut calls) = (messages.into_iter().peekable(), calls.peekable());
    std::iter::from_fn(move || {
        // A call is recorded when it ends.
        let ended_ms = calls.peek().map(|call| call.created_ms.saturating_add(call.ms));
        let sent_ms = messages.peek().map(|message| message.created_ms);
        match sent_ms > ended_ms {
            true => messages.next().map(SessionEvent::Message),
            false => calls.next().map(SessionEvent::Call),
        }
    })
}

/// Merges a patch: null removes a member, objects are merged, anything else replaces the old value.
fn merge(into: &mut Map<String, Json>, patch: Option<&Map<String, Json>>) {
    for (key, value) in patch.into_iter().flatten() {
        match value {
            Json::Null => {
                into.shift_remove(key);
            }
            Json::Object(patch) => {
                let known = into.entry(key.clone()).or_insert(Json::Null);
                if !known.is_object() {
                    *known = Json::Object(Map::new());
                }
                if let Json::Object(known) = known {
                    merge(known, Some(patch));
                }
            }
            other => {
                into.insert(key.clone(), other.clone());
            }
        }
    }
}
