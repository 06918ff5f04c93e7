//! Replays a recorded session: instead of running tools, each call is answered with the recorded
//! outcome of the same call. An outcome that differs from what was returned then is not given.
//!
//! ```no_run
//! use std::{path::Path, sync::Arc};
//!
//! use haft_core::{CallRequest, Context, Gate, Registry};
//! use haft_store::{Recording, StoreAddress, StoreLocation};
//! use serde_json::json;
//!
//! # async fn replay(tools: Registry) -> Result<(), haft_core::ToolError> {
//! let store = StoreAddress::parse("tests/recorded.db", Path::new("."))?;
//! let recording = Recording::of_session(StoreLocation::new(store), "mcp-1").await?;
//! let gate = Gate::builder(tools).replay_from(Arc::new(recording)).build();
//! // The agent under test calls this gate as it would call any other.
//! let request = CallRequest::new("read", json!({"path": "a.txt"}), Context::new("test"));
//! assert!(gate.call(request).await.content.contains("what was in it then"));
//! # Ok(())
//! # }
//! ```

mod differences;

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use haft_core::{
    BoxFuture, ErrorKind, LedgerEntry, Outcome, RecordedCall, ReplaySource, ToolError,
    did_you_mean, nearest, sha256_hex,
};
use serde_json::Value as Json;

use self::differences::{canonical, differences, holds};
use crate::{
    Store, StoreLocation,
    areas::{
        ledger::{GENESIS, link},
        results,
    },
    engine::value::{SqlRow, Value, searchable},
};

const OF_SESSION: &str = "SELECT l.seq, l.hash, l.entry, COALESCE(p.hash, l.previous), r.size \
    FROM ledger l LEFT JOIN ledger p ON p.seq = l.seq - 1 \
    LEFT JOIN call_results c ON c.seq = l.seq \
    LEFT JOIN results r ON r.workspace = c.workspace AND r.hash = c.hash \
    WHERE l.session = $1 AND l.seq > $2 ORDER BY l.seq LIMIT $3";
const LOST: &str = "SELECT calls FROM ledger_losses WHERE session = $1";
const SESSIONS: &str = "SELECT DISTINCT session FROM ledger";
/// Maximum number of equal calls that one entry answers.
const MAX_REPEATS: usize = 100_000;
/// Rows read at once, so that a long session is in memory only once.
const PAGE_ROWS: u64 = 500;

/// The calls of one session. Their outcomes stay in the store until they are needed.
pub struct Recording {
    store: Store,
    session: String,
    calls: Vec<RecordingCall>,
    /// Calls of the session that retention has dropped from the ledger.
    lost: u64,
    /// Equal calls, in order, and how many of them were answered.
    same: HashMap<String, Vec<usize>>,
    answered: Mutex<HashMap<String, usize>>,
}

/// A recorded call.
#[derive(Clone, Debug)]
pub struct RecordingCall {
    /// Sequence number in the ledger.
    pub seq: u64,
    /// The ledger entry.
    pub entry: LedgerEntry,
    /// Status of its outcome.
    pub outcome_status: OutcomeStatus,
}

/// Status of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutcomeStatus {
    /// Stored: size of its JSON in bytes.
    Kept(u64),
    /// It was stored once and was dropped to free space.
    Dropped,
    /// It was never stored.
    NotKept,
    /// The entry does not follow from the one before it: the ledger was modified.
    Changed,
}

impl Recording {
    /// Reads the recording of a session.
    ///
    /// # Errors
    /// `not_found` when there is no session of that name, `unavailable` when the store cannot be
    /// read.
    pub async fn of_session(
        location: Arc<StoreLocation>,
        session: &str,
    ) -> Result<Self, ToolError> {
        let Some(store) = location.existing().await? else {
            let message = format!("there is no store at {}", location.address());
            return Err(ToolError::not_found(message).hint("choose another one with --store"));
        };
        let calls = read(&store, &searchable(session)).await?;
        if calls.is_empty() {
            return Err(no_such_recording(&store, session).await?);
        }
        let mut same: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, call) in calls.iter().enumerate() {
            // A nested call is part of the result of the tool that made it.
            if call.entry.parent.is_none() {
                let same = same.entry(key(&call.entry.tool, &call.entry.input)).or_default();
                // An entry may stand for several equal calls.
                let times = usize::try_from(call.entry.calls()).unwrap_or(usize::MAX);
                same.extend(std::iter::repeat_n(at, times.min(MAX_REPEATS)));
            }
        }
        let lost = store.query(LOST, &[Value::Text(&searchable(session))]).await?;
        let lost = lost.first().map_or(Ok(0), |row| row.number(0))?;
        let (session, answered) = (session.to_owned(), Mutex::default());
        Ok(Self { store, session, calls, lost, same, answered })
    }

    /// Number of calls of the session that retention has dropped from the ledger.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the end of an error message about a missing call.
    fn losses(&self) -> String {
        match self.lost {
            0 => String::new(),
            1 => {
                "; 1 call of the session was dropped from the ledger by its age or size".to_owned()
            }
            lost => format!(
                "; {lost} calls of the session were dropped from the ledger by their age or size"
            ),
        }
    }

    /// Returns all calls, in the order in which they ended.
    pub fn calls(&self) -> &[RecordingCall] {
        &self.calls
    }

    /// Returns the session id.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Returns the outcome of a recorded call.
    ///
    /// # Errors
    /// `not_found` when it was not stored or was dropped, `conflict` when it is not what the call
    /// returned.
    pub async fn outcome(&self, call: &RecordingCall) -> Result<Outcome, ToolError> {
        let (tool, seq) = (&call.entry.tool, call.seq);
        let missing = |what: &str| {
            ToolError::not_found(format!("the result of entry {seq}, `{tool}`, {what}"))
        };
        match call.outcome_status {
            OutcomeStatus::NotKept => Err(missing("was not kept").hint(KEEP_HINT)),
            OutcomeStatus::Dropped => Err(missing("was dropped to free space").hint(SPACE_HINT)),
            OutcomeStatus::Changed => Err(changed(call)),
            OutcomeStatus::Kept(_) => match results::find(&self.store, seq).await? {
                Some(text) => verified(call, &text).ok_or_else(|| changed(call)),
                None => Err(missing("was dropped to free space").hint(SPACE_HINT)),
            },
        }
    }

    /// Returns the outcome of a recorded call with this tool and input; of equal calls, each time
    /// the next one.
    ///
    /// # Errors
    /// `not_found` when no such call is left; the message names the nearest call. Otherwise as
    /// [`Recording::outcome`].
    pub async fn next(&self, asked: RecordedCall<'_>) -> Result<Outcome, ToolError> {
        let key = self.key_of(asked)?;
        let same = self.same.get(&key).map(Vec::as_slice).unwrap_or_default();
        let index = {
            let mut answered = self.answered.lock();
            let index = answered.entry(key).or_default();
            *index += 1;
            *index - 1
        };
        let Some(call) = same.get(index).and_then(|at| self.calls.get(*at)) else {
            let (times, tool) = (same.len(), asked.tool);
            let times = if times == 1 { "once".to_owned() } else { format!("{times} times") };
            let message = format!(
                "`{tool}` with this input was called {times} in session {}, and every result was used{}",
                self.session,
                self.losses()
            );
            return Err(ToolError::not_found(message)
                .hint("make the call as often as it was recorded, or record the session again"));
        };
        self.outcome(call).await
    }

    /// Returns the key of the recorded calls that answer this one.
    fn key_of(&self, asked: RecordedCall<'_>) -> Result<String, ToolError> {
        let own = key(asked.tool, asked.input);
        if self.same.contains_key(&own) {
            return Ok(own);
        }
        let of_tool = || {
            let calls = self.calls.iter().filter(|call| call.entry.parent.is_none());
            calls.filter(|call| call.entry.tool == asked.tool)
        };
        if asked.has_lookup_fields {
            let mut completed = of_tool().map(|call| &call.entry.input);
            if let Some(input) = completed.find(|input| holds(input, asked.input)) {
                return Ok(key(asked.tool, input));
            }
        }
        let near = of_tool().map(|call| (differences(&call.entry.input, asked.input), call));
        let near = near.min_by_key(|(differences, _)| differences.len());
        Err(match near {
            Some((differences, call)) => self.no_equal_input(asked, call, &differences),
            None => self.no_such_tool(asked.tool),
        })
    }

    fn no_equal_input(
        &self,
        asked: RecordedCall<'_>,
        call: &RecordingCall,
        differences: &[String],
    ) -> ToolError {
        let (tool, session, seq) = (asked.tool, &self.session, call.seq);
        let shown = differences.iter().take(3).map(String::as_str).collect::<Vec<_>>().join("; ");
        let more = differences.len().saturating_sub(3);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        ToolError::not_found(format!(
            "`{tool}` was not called with this input in session {session}; the nearest call is entry {seq}, where {shown}{more}{}",
            self.losses()
        ))
        .hint("make the recorded call, or record the session again")
    }

    fn no_such_tool(&self, tool: &str) -> ToolError {
        let known = self.calls.iter().map(|call| call.entry.tool.as_str());
        let mut known: Vec<&str> = known.collect();
        known.sort_unstable();
        known.dedup();
        let (session, known) = (&self.session, known.join(", "));
        let losses = self.losses();
        ToolError::not_found(format!("`{tool}` was not called in session {session}{losses}"))
            .hint(format!("recorded tools: {known}"))
    }
}

impl ReplaySource for Recording {
    fn answer<'a>(&'a self, asked: RecordedCall<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let answered = self.next(asked).await;
            answered.unwrap_or_else(|error| Outcome::failed(asked.tool, &error))
        })
    }
}

const KEEP_HINT: &str = "set `results = true` under `[store]` in your config.toml, or serve with \
                    `haft mcp --keep-results`, and record again";
const SPACE_HINT: &str =
    "raise `max_bytes` or `max_age_days` under `[outputs]` in your config.toml, and record again";

fn changed(call: &RecordingCall) -> ToolError {
    let (tool, seq) = (&call.entry.tool, call.seq);
    let message = format!(
        "the stored result of entry {seq}, `{tool}`, is not what the call returned: it was modified"
    );
    ToolError::new(ErrorKind::Conflict, message).hint("check the ledger with `haft ledger verify`")
}

/// Returns the outcome if its bytes match the hash in the entry.
fn verified(call: &RecordingCall, text: &[u8]) -> Option<Outcome> {
    let entry = &call.entry;
    if entry.result_sha256.as_deref() != Some(&sha256_hex([text])) {
        return None;
    }
    let mut outcome: Outcome = serde_json::from_slice(text).ok()?;
    outcome.ms = entry.ms;
    (sha256_hex([outcome.content.as_bytes()]) == entry.output_sha256).then_some(outcome)
}

async fn read(store: &Store, session: &str) -> Result<Vec<RecordingCall>, ToolError> {
    let (mut calls, mut after) = (Vec::new(), 0);
    loop {
        let values = [Value::Text(session), Value::number(after), Value::number(PAGE_ROWS)];
        let rows = store.query(OF_SESSION, &values).await?;
        for row in &rows {
            let call = call_of(row)?;
            after = call.seq;
            // Only the end of a call has an outcome.
            if !call.entry.is_begun() {
                calls.push(call);
            }
        }
        if (rows.len() as u64) < PAGE_ROWS {
            return Ok(calls);
        }
    }
}

fn call_of(row: &SqlRow) -> Result<RecordingCall, ToolError> {
    let (seq, text) = (row.number(0)?, row.text(2)?);
    let entry: LedgerEntry = serde_json::from_str(text).map_err(|error| {
        ToolError::unavailable(format!("entry {seq} of the ledger cannot be read: {error}"))
            .hint("check the ledger with `haft ledger verify`")
    })?;
    let follows = link(row.maybe_text(3)?.unwrap_or(GENESIS), text) == row.text(1)?;
    let outcome_status = match row.maybe_number(4)? {
        _ if !follows => OutcomeStatus::Changed,
        Some(size) => OutcomeStatus::Kept(size),
        None if entry.result_sha256.is_some() => OutcomeStatus::Dropped,
        None => OutcomeStatus::NotKept,
    };
    Ok(RecordingCall { seq, entry, outcome_status })
}

async fn no_such_recording(store: &Store, session: &str) -> Result<ToolError, ToolError> {
    let rows = store.query(SESSIONS, &[]).await?;
    let known = rows.iter().map(|row| row.text(0)).collect::<Result<Vec<_>, _>>()?;
    let near = did_you_mean(&nearest(session, known.iter().copied()));
    let hint =
        if near.is_empty() { "list the sessions with `haft ledger show`".to_owned() } else { near };
    let shown: String = session.chars().take(80).collect();
    Ok(ToolError::not_found(format!("no call of session `{shown}` is recorded")).hint(hint))
}

/// Returns the same key for equal calls, whatever the order of their fields.
fn key(tool: &str, input: &Json) -> String {
    format!("{tool} {}", canonical(input))
}
