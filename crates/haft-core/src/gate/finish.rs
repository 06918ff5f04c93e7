//! Turns the result of the stages into an outcome.

use super::CallState;
use crate::{
    Outcome, OutcomeError, Reply, ToolError, outcome::content_of_failure, visible::visible,
};

pub(super) fn outcome(call_state: &CallState, result: Result<Reply, ToolError>) -> Outcome {
    let title = || call_state.tool.as_ref().map(|tool| tool.spec().title.to_string());
    let (reply, error) = match result {
        Ok(reply) => (reply, None),
        Err(mut error) => (error.take_partial().unwrap_or_default(), Some(error)),
    };
    let content = match &error {
        None => reply.content,
        Some(error) => content_of_failure(reply.content, error),
    };
    Outcome {
        tool: call_state.name().to_owned(),
        title: visible(reply.title.or_else(title).unwrap_or_else(|| call_state.requested.clone())),
        content,
        display: reply.display,
        data: reply.data,
        metadata: reply.metadata,
        attachments: reply.attachments,
        repairs: call_state.repairs.iter().map(visible).collect(),
        output_id: None,
        error: error.as_ref().map(OutcomeError::from),
        ms: u64::try_from(call_state.began.elapsed().as_millis()).unwrap_or(u64::MAX),
    }
}

/// The outcome of a call whose pipeline failed: a bug in the gate or a runtime that is shutting
/// down.
pub(super) fn crashed(tool: &str, why: &str) -> Outcome {
    Outcome::failed(
        tool,
        &ToolError::internal(format!("the call of `{tool}` did not finish: {why}")),
    )
}
