//! In place of all stages behind the words of a call: somebody else answers it, from a recording. The name and the input are
//! mended as always, because calls are recorded as they ran; nothing is judged, asked, run or recorded.

use serde_json::Value;

use super::{CallState, Inner, repair, resolve};
use crate::{BoxFuture, Outcome};

/// Answers calls in place of their tools.
pub trait ReplaySource: Send + Sync {
    /// The outcome of a call. The tool is called by its own name where there is one; the input is mended and free of
    /// secrets, as the ledger has it.
    fn answer<'a>(&'a self, call: RecordedCall<'a>) -> BoxFuture<'a, Outcome>;
}

/// A call as it is looked for in a recording.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RecordedCall<'a> {
    /// The tool.
    pub tool: &'a str,
    /// The input; null when it could not be read.
    pub input: &'a Value,
    /// Whether the tool looks something up before it runs, which is then in the recorded input besides.
    pub is_completed: bool,
}

impl<'a> RecordedCall<'a> {
    /// A call.
    pub fn new(tool: &'a str, input: &'a Value) -> Self {
        Self { tool, input, is_completed: false }
    }
}

pub(super) async fn answer(
    gate: &Inner,
    flight: &mut CallState,
    answers: &dyn ReplaySource,
) -> Outcome {
    // What fails here failed when it was recorded, and that is in the recording.
    if resolve::resolve(gate, flight).await.is_ok() {
        let _ = repair::repair(gate, flight);
    }
    let mut input = flight.take_input();
    gate.redactor.value(&mut input);
    let is_completed = flight.tool.as_ref().is_some_and(|tool| tool.access_lookup().is_some());
    let name = flight.tool.as_ref().map(|tool| tool.spec().name.to_string());
    let tool = name.as_deref().unwrap_or(&flight.requested);
    answers.answer(RecordedCall { tool, input: &input, is_completed }).await
}
