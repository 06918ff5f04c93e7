//! Tools, calls and results in the format of each model API. Pure functions: [`definitions`] and
//! [`results`] write, [`calls`] reads; none opens anything, waits or reads a clock.
//!
//! ```
//! use haft_agent::formats::{FormatOptions, ModelFormat, ToolDefinition, calls, definitions};
//! use serde_json::json;
//!
//! let hello = ToolDefinition::new("hello", json!({"type": "object", "properties": {"name": {"type": "string"}}}));
//! let declared = definitions(ModelFormat::Anthropic, &[hello], &FormatOptions::default());
//! assert_eq!(declared.tools[0]["name"], "hello");
//!
//! let message = json!({"content": [{"type": "tool_use", "id": "toolu_1", "name": "hello", "input": {"name": "Ada"}}]});
//! let found = calls(ModelFormat::Anthropic, &message, &declared.names)?;
//! assert_eq!(found[0].as_ref().expect("it is whole").name, "hello");
//! # Ok::<(), haft_agent::formats::FormatError>(())
//! ```

mod calls;
mod definitions;
mod dialect;
mod losses;
mod names;
mod restore;
mod results;
mod schema;
#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr};

use serde_json::Value;

pub use self::{
    calls::{BadCall, ModelCall, calls},
    definitions::{ToolAnnotations, ToolDefinition, definitions},
    names::{ToolNames, call_id},
    results::{ModelCallResult, results},
};

/// A model API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelFormat {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's chat completions API, and compatible servers.
    OpenAi,
    /// OpenAI's Responses API.
    OpenAiResponses,
    /// Google's Gemini API.
    Gemini,
    /// The Model Context Protocol.
    Mcp,
}

impl ModelFormat {
    /// Every format.
    pub const ALL: &[Self] =
        &[Self::Anthropic, Self::OpenAi, Self::OpenAiResponses, Self::Gemini, Self::Mcp];

    /// Returns the name used on command lines and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Gemini => "gemini",
            Self::Mcp => "mcp",
        }
    }

    /// Returns true if the provider can enforce schemas with [`FormatOptions::strict`].
    pub fn knows_strict(self) -> bool {
        matches!(self, Self::Anthropic | Self::OpenAi | Self::OpenAiResponses)
    }
}

impl fmt::Display for ModelFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ModelFormat {
    type Err = FormatError;

    fn from_str(name: &str) -> Result<Self, FormatError> {
        let known = Self::ALL.iter().find(|format| format.name() == name);
        known.copied().ok_or_else(|| FormatError::Unknown(losses::shown_name(name)))
    }
}

/// Options for writing definitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FormatOptions {
    /// Asks the provider to enforce the schemas, for each tool where that is possible.
    pub strict: bool,
}

impl FormatOptions {
    /// Returns options with strict mode.
    pub fn strict() -> Self {
        Self { strict: true }
    }
}

/// Tool definitions in a provider's format.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolDefinitions {
    /// The value of `tools` in the request.
    pub tools: Value,
    /// Converts names and arguments back; [`calls`] and [`results`] need it.
    pub names: ToolNames,
    /// Everything that the format cannot express. Empty if nothing is lost.
    pub notes: Vec<Note>,
}

/// Something that is left out for a provider, or sent in another form.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Note {
    /// The tool by haft's name; `None` for a note about the whole request.
    pub tool: Option<String>,
    /// Description of the change.
    pub what: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tool {
            Some(tool) => write!(f, "{}: {}", losses::shown_name(tool), self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// The reason why an input cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// There is no format of this name.
    #[error(
        "there is no format `{0}`; the formats are anthropic, openai, openai-responses, gemini, mcp"
    )]
    Unknown(String),
    /// The value is not a message of this format.
    #[error("not a message of {format}: {expected} is missing; pass the response unchanged")]
    NotAMessage {
        /// The expected format.
        format: ModelFormat,
        /// The missing part.
        expected: &'static str,
    },
}

#[cfg(test)]
mod names_of_formats {
    use super::*;

    #[test]
    fn every_format_is_known_by_its_name_and_errors_list_them_all() {
        for format in ModelFormat::ALL {
            assert_eq!(format.name().parse(), Ok(*format));
        }
        let error = "llama".parse::<ModelFormat>().expect_err("no such format").to_string();
        let names: Vec<&str> = ModelFormat::ALL.iter().map(|format| format.name()).collect();
        assert!(error.contains("`llama`") && error.ends_with(&names.join(", ")), "{error}");
    }
}
