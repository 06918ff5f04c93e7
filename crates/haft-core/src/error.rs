//! Errors of tools: a kind that programs act on, a message that names the thing, and a next step.
//! Kinds come from structure; no code reads them from message text.

use std::{error::Error, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Reply, visible::visible};

/// The stable kind of a failure, the same on every surface. It determines the exit code of the
/// command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The arguments do not match the tool's schema.
    Input,
    /// The named thing does not exist.
    NotFound,
    /// The thing is in another state than the call assumes.
    Conflict,
    /// A rule or the profile forbids the call.
    Denied,
    /// An approver denied the call.
    ApprovalDenied,
    /// No approver decided in time.
    ApprovalExpired,
    /// The call needs approval and no approver is available.
    ApprovalUnavailable,
    /// The remote side of a connection failed.
    Network,
    /// The tool does not support this kind of thing.
    Unsupported,
    /// Part of the work was done.
    Partial,
    /// A limit was exceeded.
    TooLarge,
    /// Something the call needs is missing on this machine or busy.
    Unavailable,
    /// The deadline passed.
    Timeout,
    /// The caller cancelled the call.
    Cancelled,
    /// The tool ran and reported a failure.
    ToolFailed,
    /// A bug: a panic, a broken invariant.
    Internal,
}

impl ErrorKind {
    /// Every kind, in the order of the documentation.
    pub const ALL: &[Self] = &[
        Self::Input,
        Self::NotFound,
        Self::Conflict,
        Self::Denied,
        Self::ApprovalDenied,
        Self::ApprovalExpired,
        Self::ApprovalUnavailable,
        Self::Network,
        Self::Unsupported,
        Self::Partial,
        Self::TooLarge,
        Self::Unavailable,
        Self::Timeout,
        Self::Cancelled,
        Self::ToolFailed,
        Self::Internal,
    ];

    /// The exit code of a command line call with this result.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Input => 2,
            Self::NotFound => 3,
            Self::Conflict => 4,
            Self::Denied
            | Self::ApprovalDenied
            | Self::ApprovalExpired
            | Self::ApprovalUnavailable => 5,
            Self::Network => 6,
            Self::Unsupported => 7,
            Self::Partial => 8,
            Self::TooLarge => 9,
            Self::Unavailable => 10,
            Self::Timeout => 124,
            Self::Cancelled => 130,
            Self::ToolFailed | Self::Internal => 1,
        }
    }

    /// The name in JSON, `not_found` for [`ErrorKind::NotFound`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Denied => "denied",
            Self::ApprovalDenied => "approval_denied",
            Self::ApprovalExpired => "approval_expired",
            Self::ApprovalUnavailable => "approval_unavailable",
            Self::Network => "network",
            Self::Unsupported => "unsupported",
            Self::Partial => "partial",
            Self::TooLarge => "too_large",
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::ToolFailed => "tool_failed",
            Self::Internal => "internal",
        }
    }

    /// The next step if the error has none: every error that leaves the gate has one.
    pub(crate) fn general_hint(self) -> &'static str {
        match self {
            Self::Input => "compare the arguments with the tool's schema and call again",
            Self::NotFound => "list what exists, then call again with a name from there",
            Self::Conflict => "read the current state, then decide again",
            Self::Denied => "use another tool, or ask the owner of the rule to change it",
            Self::ApprovalDenied => "do not repeat the call; ask the user what to do instead",
            Self::ApprovalExpired => "call again when an approver is available",
            Self::ApprovalUnavailable => {
                "run it where an approver is available, or have a rule allow it"
            }
            Self::Network => "check the address and try again later",
            Self::Unsupported => "convert the thing first, or use another tool for it",
            Self::Partial => "look at what was done, then call again for the rest",
            Self::TooLarge => "request less at once",
            Self::Unavailable => "find out what is missing with `haft doctor`, or try again later",
            Self::Timeout => "request less, or give the call more time",
            Self::Cancelled => "call again if the work is still wanted",
            Self::ToolFailed => "read the message, fix its cause and call again",
            Self::Internal => "this is a bug in the tool; report it with the call that showed it",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The failure of a call, in words that a model or a person can act on.
///
/// Messages are lower case, without a full stop, and name the path, URL or id. Control characters
/// and bidirectional marks in such names are escaped here, so that no surface shows them raw.
#[derive(Debug)]
pub struct ToolError {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    source: Option<Box<dyn Error + Send + Sync>>,
    partial: Option<Box<Reply>>,
}

impl ToolError {
    /// Creates an error of the given kind. If the kind is known, prefer the constructors named
    /// after the kinds.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: visible(message), hint: None, source: None, partial: None }
    }

    /// The arguments do not match.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Input, message)
    }

    /// The named thing does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// The thing is in another state than the call assumes.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// A rule forbids the call.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Denied, message)
    }

    /// The tool ran and reported a failure.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::ToolFailed, message)
    }

    /// Something the call needs is missing or busy.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// A broken invariant of the tool itself.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// Sets the next step: imperative, one sentence.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(visible(hint));
        self
    }

    /// Sets the cause, for debugging; the message must make sense without it.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Adds a partial result: the output of a failed command, the matches found before the
    /// deadline.
    #[must_use]
    pub fn with_partial(mut self, reply: Reply) -> Self {
        self.partial = Some(Box::new(reply));
        self
    }

    pub(crate) fn take_partial(&mut self) -> Option<Reply> {
        self.partial.take().map(|reply| *reply)
    }

    /// The kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The next step: the one of this error, or the general one for its kind.
    pub fn next_step(&self) -> &str {
        self.hint.as_deref().unwrap_or_else(|| self.kind.general_hint())
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for ToolError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_name_and_serde_agree() {
        for kind in ErrorKind::ALL {
            let wire = serde_json::to_value(kind).expect("a unit variant serialises");
            assert_eq!(wire, kind.name());
        }
    }

    #[test]
    fn exit_codes_are_the_documented_ones() {
        let codes: Vec<u8> = ErrorKind::ALL.iter().map(|kind| kind.exit_code()).collect();
        assert_eq!(codes, [2, 3, 4, 5, 5, 5, 5, 6, 7, 8, 9, 10, 124, 130, 1, 1]);
    }

    #[test]
    fn no_name_in_an_error_reorders_or_controls_what_is_shown() {
        let error = ToolError::not_found("no file `a\u{202e}b`").hint("did you mean `\u{1b}[2J`?");
        assert_eq!(error.message(), "no file `a\\u{202e}b`");
        assert_eq!(error.next_step(), "did you mean `\\u{1b}[2J`?");
    }

    #[test]
    fn own_hint_beats_the_general_one() {
        let error = ToolError::not_found("no file a.txt");
        assert_eq!(error.next_step(), ErrorKind::NotFound.general_hint());
        assert_eq!(error.hint("try b.txt").next_step(), "try b.txt");
    }
}
