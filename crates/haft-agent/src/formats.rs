//! What each model API calls a tool, a call and a result. Pure functions: [`definitions`] out, [`calls`] in, [`results`]
//! out; nothing here opens, waits or looks at a clock.
//!
//! ```
//! use haft_agent::formats::{Definition, Format, Options, calls, definitions};
//! use serde_json::json;
//!
//! let hello = Definition::new("hello", json!({"type": "object", "properties": {"name": {"type": "string"}}}));
//! let told = definitions(Format::Anthropic, &[hello], &Options::default());
//! assert_eq!(told.tools[0]["name"], "hello");
//!
//! let message = json!({"content": [{"type": "tool_use", "id": "toolu_1", "name": "hello", "input": {"name": "Ada"}}]});
//! let found = calls(Format::Anthropic, &message, &told.names)?;
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
    calls::{BadCall, Call, calls},
    definitions::{Annotations, Definition, definitions},
    names::{Names, call_id},
    results::{CallResult, results},
};

/// Whose words are spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's chat completions, and everything that is compatible with them.
    OpenAi,
    /// OpenAI's Responses.
    OpenAiResponses,
    /// Google's Gemini.
    Gemini,
    /// The Model Context Protocol.
    Mcp,
}

impl Format {
    /// Every format.
    pub const ALL: &[Self] =
        &[Self::Anthropic, Self::OpenAi, Self::OpenAiResponses, Self::Gemini, Self::Mcp];

    /// The name on command lines and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Gemini => "gemini",
            Self::Mcp => "mcp",
        }
    }

    /// Whether the provider can bind its model to a schema by [`Options::strict`].
    pub fn knows_strict(self) -> bool {
        matches!(self, Self::Anthropic | Self::OpenAi | Self::OpenAiResponses)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(name: &str) -> Result<Self, FormatError> {
        let known = Self::ALL.iter().find(|format| format.name() == name);
        known.copied().ok_or_else(|| FormatError::Unknown(losses::shown_name(name)))
    }
}

/// How definitions are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Have the provider bind its model to the schemas, tool by tool where that is possible.
    pub strict: bool,
}

impl Options {
    /// Strict wherever that is possible.
    pub fn strict() -> Self {
        Self { strict: true }
    }
}

/// Tools as a provider takes them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Definitions {
    /// What goes into the request as `tools`.
    pub tools: Value,
    /// How names and arguments come back; [`calls`] and [`results`] want it.
    pub names: Names,
    /// Everything that could not be said in this format. Empty when nothing is lost.
    pub notes: Vec<Note>,
}

/// Something that a provider is not told, or told in another way.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Note {
    /// The tool, by haft's name; `None` when it is about the request as a whole.
    pub tool: Option<String>,
    /// What happened, in words.
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

/// Why nothing could be made of what came in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// No format has this name.
    #[error(
        "there is no format `{0}`; the formats are anthropic, openai, openai-responses, gemini, mcp"
    )]
    Unknown(String),
    /// The message is none of this provider's.
    #[error("this is no message of {format}: {expected} is missing; pass the response as it came")]
    NotAMessage {
        /// The format that was expected.
        format: Format,
        /// What such a message has.
        expected: &'static str,
    },
}

#[cfg(test)]
mod names_of_formats {
    use super::*;

    #[test]
    fn every_format_is_known_by_its_name_and_errors_list_them_all() {
        for format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(*format));
        }
        let error = "llama".parse::<Format>().expect_err("no such format").to_string();
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        assert!(error.contains("`llama`") && error.ends_with(&names.join(", ")), "{error}");
    }
}
