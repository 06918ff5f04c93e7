//! Between stages 8 and 9: a client that is given the very text that it was given a moment ago gets a line that says so, so
//! that a model's context is not filled twice. Off unless the gate is told to; a surface for people never is.
//!
//! A client may have dropped the earlier text from its model's context, or have another agent behind the same session, and we
//! are not told. So a pointer is only given for a short while and little traffic, names an output that has the text, and is
//! never given twice in a row: whoever makes the call once more gets the whole.

use std::{collections::VecDeque, time::Duration};

use parking_lot::Mutex;

use serde_json::Value;
use tokio::time::Instant;

use super::{CallState, Inner, bound};
use crate::{Effect, Outcome, count_lines};

/// Shorter texts are not worth a second look.
const LEAST: usize = 4 << 10;
/// After this a client has most likely moved on.
const RECENT: Duration = Duration::from_secs(600);
/// So many bytes of results later a client may have made room for them.
const TRAFFIC: u64 = 200 << 10;
/// Texts that are remembered, by their hashes, for all sessions together.
const MOST: usize = 512;

#[derive(Default)]
pub(crate) struct Repeats(Mutex<Memory>);

#[derive(Default)]
struct Memory {
    /// The latest last.
    given: VecDeque<Given>,
    /// How much each session was given, the latest last.
    traffic: VecDeque<(String, u64)>,
}

struct Given {
    session: String,
    tool: String,
    content: blake3::Hash,
    call_id: String,
    at: Instant,
    /// What the session had been given until then.
    traffic: u64,
    /// The latest answer was only a pointer.
    was_pointer: bool,
    output_id: Option<String>,
}

/// The earlier result that a text repeats.
struct Earlier {
    call_id: String,
    ago: Duration,
    output_id: Option<String>,
}

pub(super) async fn point(gate: &Inner, flight: &CallState, outcome: &mut Outcome) {
    let Some(repeats) = &gate.repeats else { return };
    let session = &flight.info.session;
    if !may_be_pointed_at(gate, flight, outcome) {
        repeats.pass(session, outcome.content.len());
        return;
    }
    let content = blake3::hash(outcome.content.as_bytes());
    let earlier = repeats.look(session, &outcome.tool, &flight.info.call_id, &content, outcome);
    let Some(Earlier { call_id, ago, output_id }) = earlier else { return };
    let id = match output_id {
        Some(id) => id,
        None => {
            let text = outcome.content.clone();
            // Without a place for it nobody is sent there.
            let Ok(id) = bound::keep(gate, flight, outcome, text).await else { return };
            repeats.remember_output(&content, &id);
            id
        }
    };
    let (lines, bytes, seconds) =
        (count_lines(&outcome.content), outcome.content.len(), ago.as_secs());
    outcome.content = format!(
        "[unchanged: the same {lines} lines ({bytes} bytes) that you were given {seconds} s ago by {call_id}. If you do not \
         have them before you any more, make the same call again and it gives them whole; output_read shows them as {id}]"
    );
    outcome.metadata.insert("repeats".to_owned(), Value::String(call_id));
    outcome.output_id = Some(id);
}

/// Only what an agent asked for directly, what only looks, and what would be shown whole.
fn may_be_pointed_at(gate: &Inner, flight: &CallState, outcome: &Outcome) -> bool {
    let Some(tool) = &flight.tool else { return false };
    let spec = tool.spec();
    let has_few_lines = || {
        let lines = usize::try_from(count_lines(&outcome.content)).unwrap_or(usize::MAX);
        lines < gate.limits.content_lines
    };
    spec.effect == Effect::Read
        // Who reads an output wants to see it.
        && spec.group != "outputs"
        && outcome.error.is_none()
        && outcome.attachments.is_empty()
        && !flight.context.agents.is_empty()
        && flight.context.lineage.ancestors.is_empty()
        && (LEAST..=gate.limits.content_bytes).contains(&outcome.content.len())
        && has_few_lines()
}

impl Repeats {
    fn memory(&self) -> parking_lot::MutexGuard<'_, Memory> {
        self.0.lock()
    }

    /// A result that is no candidate.
    fn pass(&self, session: &str, bytes: usize) {
        self.memory().count(session, bytes);
    }

    /// Remembers a result; gives back what it repeats, if a pointer to that is in place.
    fn look(
        &self,
        session: &str,
        tool: &str,
        call_id: &str,
        content: &blake3::Hash,
        outcome: &Outcome,
    ) -> Option<Earlier> {
        let mut memory = self.memory();
        let traffic = memory.count(session, 0);
        let same = |given: &Given| {
            given.content == *content && given.tool == tool && given.session == session
        };
        let place = memory.given.iter().position(same);
        let known = place.and_then(|place| memory.given.remove(place));
        let now = Instant::now();
        let near =
            known.filter(|it| now - it.at < RECENT && traffic.saturating_sub(it.traffic) < TRAFFIC);
        let (given, earlier) = match near {
            Some(mut given) if !given.was_pointer => {
                given.was_pointer = true;
                let (call_id, output_id) = (given.call_id.clone(), given.output_id.clone());
                let earlier = Earlier { call_id, ago: now - given.at, output_id };
                (given, Some(earlier))
            }
            near => {
                let traffic = memory.count(session, outcome.content.len());
                let given = Given {
                    session: session.to_owned(),
                    tool: tool.to_owned(),
                    content: *content,
                    call_id: call_id.to_owned(),
                    at: now,
                    traffic,
                    was_pointer: false,
                    output_id: near.and_then(|it| it.output_id),
                };
                (given, None)
            }
        };
        memory.given.push_back(given);
        if memory.given.len() > MOST {
            memory.given.pop_front();
        }
        earlier
    }

    fn remember_output(&self, content: &blake3::Hash, id: &str) {
        let mut memory = self.memory();
        for given in memory.given.iter_mut().filter(|given| given.content == *content) {
            given.output_id = Some(id.to_owned());
        }
    }
}

impl Memory {
    /// Adds to what a session was given, and says how much that is.
    fn count(&mut self, session: &str, bytes: usize) -> u64 {
        // Most often it is the one that was given something last.
        if let Some((_, total)) = self.traffic.back_mut().filter(|(known, _)| known == session) {
            *total += bytes as u64;
            return *total;
        }
        let place = self.traffic.iter().position(|(known, _)| known == session);
        let known = place.and_then(|place| self.traffic.remove(place));
        let total = known.map_or(0, |(_, total)| total) + bytes as u64;
        self.traffic.push_back((session.to_owned(), total));
        if self.traffic.len() > MOST {
            self.traffic.pop_front();
        }
        total
    }
}
