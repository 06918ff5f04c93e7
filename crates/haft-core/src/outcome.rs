//! The envelope of a finished call, the same on every surface.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Attachment, ErrorKind, ToolError, visible::visible};

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// The canonical name of the tool, or the requested name if there is no such tool.
    pub tool: String,
    /// A short title for lists and headers.
    pub title: String,
    /// The text for the model; on failure the message and the next step.
    pub content: String,
    /// The text for people, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<String>,
    /// The typed output, matching the tool's output schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Data about the call for programs.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// Attached files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// The repairs that the gate made to the arguments before the call ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<String>,
    /// The id of the full text if `content` was truncated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_id: Option<String>,
    /// The error, if the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<OutcomeError>,
    /// Duration of the call in milliseconds, including the wait for approval.
    pub ms: u64,
}

/// The error of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutcomeError {
    /// The kind of the error.
    pub kind: ErrorKind,
    /// The message, which names the thing.
    pub message: String,
    /// The next step.
    pub hint: String,
}

impl Outcome {
    /// The outcome of a call that failed before it ran.
    pub fn failed(tool: &str, error: &ToolError) -> Self {
        Self {
            tool: tool.to_owned(),
            title: visible(tool),
            content: content_of_failure(String::new(), error),
            display: None,
            data: None,
            metadata: Map::new(),
            attachments: Vec::new(),
            repairs: Vec::new(),
            output_id: None,
            error: Some(error.into()),
            ms: 0,
        }
    }

    /// The partial result of a failed call, without the text of the error.
    pub fn partial(&self) -> Option<&str> {
        let words = self.error.as_ref()?.words();
        let partial = self.content.strip_suffix(&words).unwrap_or(&self.content);
        Some(partial.trim_end_matches('\n')).filter(|partial| !partial.is_empty())
    }

    /// Returns true if the call succeeded.
    pub fn is_ok(&self) -> bool {
        self.error.is_none()
    }

    /// The exit code of a command that made this call.
    pub fn exit_code(&self) -> u8 {
        self.error.as_ref().map_or(0, |error| error.kind.exit_code())
    }
}

impl OutcomeError {
    fn words(&self) -> String {
        format!("error ({}): {}\nnext: {}", self.kind, self.message, self.hint)
    }
}

impl From<&ToolError> for OutcomeError {
    fn from(error: &ToolError) -> Self {
        Self {
            kind: error.kind(),
            message: error.message().to_owned(),
            hint: error.next_step().to_owned(),
        }
    }
}

/// The text for the model when a call failed: the partial result, then the message and the next
/// step.
pub(crate) fn content_of_failure(partial: String, error: &ToolError) -> String {
    let failure = OutcomeError::from(error).words();
    if partial.is_empty() { failure } else { format!("{partial}\n\n{failure}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_result_precedes_the_text_of_the_error() {
        let error = ToolError::failed("it broke").hint("fix it");
        let mut outcome = Outcome::failed("grep", &error);
        assert_eq!(outcome.content, "error (tool_failed): it broke\nnext: fix it");
        assert_eq!(outcome.partial(), None);
        outcome.content = content_of_failure("a:1: x".to_owned(), &error);
        assert_eq!(outcome.partial(), Some("a:1: x"));
    }
}
