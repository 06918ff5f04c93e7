//! The envelope of a finished call, the same on every surface.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Attachment, ErrorKind, ToolError};

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// The canonical name of the tool, or the name that was asked for when there is no such tool.
    pub tool: String,
    /// A few words for lists and headers.
    pub title: String,
    /// What the model reads; on failure the message and the next step.
    pub content: String,
    /// What a person reads, when that differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<String>,
    /// The typed output, in the form of the tool's output schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Facts about the call for programs.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// Files that go along.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// What the gate mended in the arguments before the call ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<String>,
    /// Where the whole text is kept when `content` was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_id: Option<String>,
    /// Set when the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<OutcomeError>,
    /// How long the call took, waiting for approval included.
    pub ms: u64,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutcomeError {
    /// The stable class.
    pub kind: ErrorKind,
    /// What went wrong, naming the thing.
    pub message: String,
    /// What to do next.
    pub hint: String,
}

impl Outcome {
    /// Whether the call worked.
    pub fn is_ok(&self) -> bool {
        self.error.is_none()
    }

    /// The exit code of a command that made this call.
    pub fn exit_code(&self) -> u8 {
        self.error.as_ref().map_or(0, |error| error.kind.exit_code())
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
