//! What a tool says when it cannot do what was asked: a kind that programs act on, a message that names the
//! thing, and a next step. Kinds come from structure; nothing here or above reads them out of message text.

use std::{error::Error, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Reply, visible::visible};

/// The stable class of a failure, the same on every surface; it decides the exit code of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The arguments do not fit the tool.
    Input,
    /// The named thing does not exist.
    NotFound,
    /// The thing exists in another state than the call assumes.
    Conflict,
    /// A rule or the profile forbids the call.
    Denied,
    /// A person said no.
    ApprovalDenied,
    /// Nobody answered in time.
    ApprovalExpired,
    /// The call needs a yes and nobody can be asked.
    ApprovalUnavailable,
    /// The other side of a connection failed.
    Network,
    /// The thing is of a sort the tool cannot handle.
    Unsupported,
    /// Some of the work was done.
    Partial,
    /// More than a limit allows.
    TooLarge,
    /// Something the call needs is missing on this machine or busy.
    Unavailable,
    /// The deadline passed.
    Timeout,
    /// The caller called it off.
    Cancelled,
    /// The tool ran and reports failure.
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

    /// The exit code of a command line call that ends this way.
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

    /// The name on the wire, `not_found` for [`ErrorKind::NotFound`].
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

    /// The next step when the failing code knew none better: no error leaves the gate without one.
    pub(crate) fn general_hint(self) -> &'static str {
        match self {
            Self::Input => "compare the arguments with the tool's schema and call again",
            Self::NotFound => "list what exists, then call again with a name from there",
            Self::Conflict => "read the present state, then decide again",
            Self::Denied => "use another tool, or ask the owner of the rule to change it",
            Self::ApprovalDenied => "do not repeat the call; ask the person what they want instead",
            Self::ApprovalExpired => "call again when somebody is there to answer",
            Self::ApprovalUnavailable => {
                "run where a person can be asked, or have them allow it by a rule"
            }
            Self::Network => "check the address and try again later",
            Self::Unsupported => "convert the thing first, or use another tool for it",
            Self::Partial => "look at what was done, then call again for the rest",
            Self::TooLarge => "ask for less at once",
            Self::Unavailable => "see what is missing with `haft doctor`, or try again later",
            Self::Timeout => "ask for less, or give the call more time",
            Self::Cancelled => "call again if the work is still wanted",
            Self::ToolFailed => "read the message, mend its cause and call again",
            Self::Internal => "this is a bug in the tool; report it with the call that showed it",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a call failed, in words a model or a person can act on.
///
/// Messages are lower case, without a full stop, and name the path, URL or id. Controls and bidirectional marks that such a
/// name holds are escaped here, so that no error shows them raw, whichever way it leaves haft.
#[derive(Debug)]
pub struct ToolError {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    source: Option<Box<dyn Error + Send + Sync>>,
    partial: Option<Box<Reply>>,
}

impl ToolError {
    /// An error of the given kind. The constructors named after the kinds read better where the kind is known.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: visible(message), hint: None, source: None, partial: None }
    }

    /// The arguments do not fit.
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

    /// A rule forbids it.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Denied, message)
    }

    /// The tool did its work and reports failure.
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

    /// The next step. Imperative, one sentence.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(visible(hint));
        self
    }

    /// Keeps the cause for people who debug; the message must make sense without it.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What there is of a result all the same: the output of a failed command, the matches found before the deadline.
    #[must_use]
    pub fn with_partial(mut self, reply: Reply) -> Self {
        self.partial = Some(Box::new(reply));
        self
    }

    pub(crate) fn take_partial(&mut self) -> Option<Reply> {
        self.partial.take().map(|reply| *reply)
    }

    /// The class of the failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What went wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do next: the tool's own words, or the general advice for this kind.
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
