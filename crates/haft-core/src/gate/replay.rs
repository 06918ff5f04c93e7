//! Replay: a recording answers the calls in place of all stages after repair. The name and the
//! input are repaired as always, because calls are recorded as they ran. No call is judged,
//! approved, run or recorded.

use serde_json::Value;

use super::{CallState, GateInner, repair, resolve};
use crate::{BoxFuture, Outcome};

/// Answers calls in place of their tools.
pub trait ReplaySource: Send + Sync {
    /// Returns the outcome of a call. The call carries the tool's canonical name if there is one,
    /// and an input that is repaired and free of secrets, as in the ledger.
    fn answer<'a>(&'a self, call: RecordedCall<'a>) -> BoxFuture<'a, Outcome>;
}

/// A call to look up in a recording.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RecordedCall<'a> {
    /// The tool.
    pub tool: &'a str,
    /// The input; null if it could not be parsed.
    pub input: &'a Value,
    /// True if the tool looks up accesses before it runs, so that the recorded input may have more
    /// fields.
    pub has_lookup_fields: bool,
}

impl<'a> RecordedCall<'a> {
    /// Creates a call.
    pub fn new(tool: &'a str, input: &'a Value) -> Self {
        Self { tool, input, has_lookup_fields: false }
    }
}

pub(super) async fn answer(
    gate: &GateInner,
    call_state: &mut CallState,
    replay: &dyn ReplaySource,
) -> Outcome {
    // A call that fails here also failed when it was recorded, so the recording has the failure.
    if resolve::resolve(gate, call_state).await.is_ok() {
        let _ = repair::repair(gate, call_state);
    }
    let mut input = call_state.take_input();
    gate.redactor.value(&mut input);
    let has_lookup_fields =
        call_state.tool.as_ref().is_some_and(|tool| tool.access_lookup().is_some());
    let name = call_state.tool.as_ref().map(|tool| tool.spec().name.to_string());
    let tool = name.as_deref().unwrap_or(&call_state.requested);
    replay.answer(RecordedCall { tool, input: &input, has_lookup_fields }).await
}
