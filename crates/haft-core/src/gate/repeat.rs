//! Between stages 8 and 9: a client that receives the same text as a moment ago gets one line that
//! says so, so that a model's context is not filled twice. Off by default; surfaces for people
//! never enable it.
//!
//! A client may have dropped the earlier text from its model's context, or may serve another agent
//! in the same session, and haft cannot know that. So a pointer is only sent for a short time and
//! little traffic, names an output that holds the text, and is never sent twice in a row: repeating
//! the call returns the full text.

use std::{collections::VecDeque, time::Duration};

use parking_lot::Mutex;

use serde_json::Value;
use tokio::time::Instant;

use super::{CallState, GateInner, bound};
use crate::{Effect, Outcome, count_lines};

/// Shorter texts are returned in full.
const MIN_BYTES: usize = 4 << 10;
/// After this time a client has most likely moved on.
const MAX_AGE: Duration = Duration::from_secs(600);
/// After this many bytes of further results a client may have dropped the earlier ones.
const MAX_TRAFFIC_BYTES: u64 = 200 << 10;
/// Maximum number of remembered texts and of sessions, for the whole gate.
const MAX_ENTRIES: usize = 512;

#[derive(Default)]
pub(crate) struct Repeats(Mutex<RepeatMemory>);

#[derive(Default)]
struct RepeatMemory {
    /// The newest last.
    delivered: VecDeque<DeliveredResult>,
    /// Bytes returned to each session, the newest session last.
    traffic: VecDeque<(String, u64)>,
}

struct DeliveredResult {
    session: String,
    tool: String,
    content: blake3::Hash,
    call_id: String,
    at: Instant,
    /// Bytes returned to the session before this result.
    traffic: u64,
    /// True if the last answer was only a pointer.
    was_pointer: bool,
    output_id: Option<String>,
}

/// The earlier result that a text repeats.
struct EarlierResult {
    call_id: String,
    ago: Duration,
    output_id: Option<String>,
}

pub(super) async fn mark_repeat(gate: &GateInner, call_state: &CallState, outcome: &mut Outcome) {
    let Some(repeats) = &gate.repeats else { return };
    let session = &call_state.info.session;
    if !is_candidate(gate, call_state, outcome) {
        repeats.count_only(session, outcome.content.len());
        return;
    }
    let content = blake3::hash(outcome.content.as_bytes());
    let earlier =
        repeats.find_repeat(session, &outcome.tool, &call_state.info.call_id, &content, outcome);
    let Some(EarlierResult { call_id, ago, output_id }) = earlier else { return };
    let id = match output_id {
        Some(id) => id,
        None => {
            let text = outcome.content.clone();
            // Without a stored output there is nothing to point to.
            let Ok(id) = bound::keep(gate, call_state, outcome, text).await else { return };
            repeats.remember_output(&content, &id);
            id
        }
    };
    let (lines, bytes, seconds) =
        (count_lines(&outcome.content), outcome.content.len(), ago.as_secs());
    outcome.content = format!(
        "[unchanged: the same {lines} lines ({bytes} bytes) that call {call_id} returned {seconds} s \
         ago. If you no longer have them, repeat the call to get them in full, or read output {id} \
         with output_read]"
    );
    outcome.metadata.insert("repeats".to_owned(), Value::String(call_id));
    outcome.output_id = Some(id);
}

/// Only results that an agent asked for directly, from a read-only tool, and that would be shown in
/// full.
fn is_candidate(gate: &GateInner, call_state: &CallState, outcome: &Outcome) -> bool {
    let Some(tool) = &call_state.tool else { return false };
    let spec = tool.spec();
    let has_few_lines = || {
        let lines = usize::try_from(count_lines(&outcome.content)).unwrap_or(usize::MAX);
        lines < gate.limits.content_lines
    };
    spec.effect == Effect::Read
        // An agent that reads an output wants to see it.
        && spec.group != "outputs"
        && outcome.error.is_none()
        && outcome.attachments.is_empty()
        && !call_state.context.agents.is_empty()
        && call_state.context.lineage.ancestors.is_empty()
        && (MIN_BYTES..=gate.limits.content_bytes).contains(&outcome.content.len())
        && has_few_lines()
}

impl Repeats {
    fn memory(&self) -> parking_lot::MutexGuard<'_, RepeatMemory> {
        self.0.lock()
    }

    /// Counts a result that is never replaced by a pointer.
    fn count_only(&self, session: &str, bytes: usize) {
        self.memory().count(session, bytes);
    }

    /// Remembers a result. Returns the earlier result if a pointer to it may be sent.
    fn find_repeat(
        &self,
        session: &str,
        tool: &str,
        call_id: &str,
        content: &blake3::Hash,
        outcome: &Outcome,
    ) -> Option<EarlierResult> {
        let mut memory = self.memory();
        let traffic = memory.count(session, 0);
        let same = |delivered: &DeliveredResult| {
            delivered.content == *content && delivered.tool == tool && delivered.session == session
        };
        let place = memory.delivered.iter().position(same);
        let known = place.and_then(|place| memory.delivered.remove(place));
        let now = Instant::now();
        let near = known.filter(|it| {
            now - it.at < MAX_AGE && traffic.saturating_sub(it.traffic) < MAX_TRAFFIC_BYTES
        });
        let (delivered, earlier) = match near {
            Some(mut delivered) if !delivered.was_pointer => {
                delivered.was_pointer = true;
                let (call_id, output_id) = (delivered.call_id.clone(), delivered.output_id.clone());
                let earlier = EarlierResult { call_id, ago: now - delivered.at, output_id };
                (delivered, Some(earlier))
            }
            near => {
                let traffic = memory.count(session, outcome.content.len());
                let delivered = DeliveredResult {
                    session: session.to_owned(),
                    tool: tool.to_owned(),
                    content: *content,
                    call_id: call_id.to_owned(),
                    at: now,
                    traffic,
                    was_pointer: false,
                    output_id: near.and_then(|it| it.output_id),
                };
                (delivered, None)
            }
        };
        memory.delivered.push_back(delivered);
        if memory.delivered.len() > MAX_ENTRIES {
            memory.delivered.pop_front();
        }
        earlier
    }

    fn remember_output(&self, content: &blake3::Hash, id: &str) {
        let mut memory = self.memory();
        for delivered in
            memory.delivered.iter_mut().filter(|delivered| delivered.content == *content)
        {
            delivered.output_id = Some(id.to_owned());
        }
    }
}

impl RepeatMemory {
    /// Adds to the bytes returned to a session and returns the total.
    fn count(&mut self, session: &str, bytes: usize) -> u64 {
        // Usually the session is the newest one.
        if let Some((_, total)) = self.traffic.back_mut().filter(|(known, _)| known == session) {
            *total += bytes as u64;
            return *total;
        }
        let place = self.traffic.iter().position(|(known, _)| known == session);
        let known = place.and_then(|place| self.traffic.remove(place));
        let total = known.map_or(0, |(_, total)| total) + bytes as u64;
        self.traffic.push_back((session.to_owned(), total));
        if self.traffic.len() > MAX_ENTRIES {
            self.traffic.pop_front();
        }
        total
    }
}
