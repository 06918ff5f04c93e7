//! The changes of paths as texts for people and models.

use std::path::Path;

use haft_core::PathState;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::contents::Contents;
use crate::text::{count, diff::UnifiedDiff};

/// The change of one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangedPath {
    /// The path, relative to the workspace.
    pub path: String,
    /// The kind of change.
    pub action: PathAction,
    /// The old path, when it was moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_from: Option<String>,
    /// Lines added; absent when the content is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added: Option<usize>,
    /// Lines removed; absent when the content is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<usize>,
}

/// The kind of change of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PathAction {
    Added,
    Changed,
    Deleted,
    Moved,
}

impl ChangedPath {
    pub(crate) fn new(path: &Path, from: &PathState, to: &PathState) -> Self {
        let action = match (from, to) {
            (PathState::Missing, _) => PathAction::Added,
            (_, PathState::Missing) => PathAction::Deleted,
            _ => PathAction::Changed,
        };
        let is_directory = |state: &PathState| matches!(state, PathState::Directory { .. });
        let slash = if is_directory(from) || is_directory(to) { "/" } else { "" };
        let path = format!("{}{slash}", path.display());
        Self { path, action, moved_from: None, added: None, removed: None }
    }

    pub(crate) fn moved(path: &Path, from: &Path) -> Self {
        let path = path.display().to_string();
        let moved_from = Some(from.display().to_string());
        Self { path, action: PathAction::Moved, moved_from, added: None, removed: None }
    }

    #[must_use]
    pub(crate) fn counted(mut self, change: Option<&UnifiedDiff>) -> Self {
        self.added = change.map(|change| change.added);
        self.removed = change.map(|change| change.removed);
        self
    }

    pub(crate) fn line(&self) -> String {
        let letter = match self.action {
            PathAction::Added => "A",
            PathAction::Changed => "M",
            PathAction::Deleted => "D",
            PathAction::Moved => "R",
        };
        let from = self.moved_from.as_ref().map_or(String::new(), |from| format!(" (from {from})"));
        let lines = match (self.added, self.removed) {
            (Some(added), Some(removed)) => format!(" (+{added} -{removed})"),
            _ => String::new(),
        };
        format!("{letter} {}{from}{lines}", self.path)
    }
}

/// Formats numbers as `1, 2 and 7 more`.
pub(crate) fn numbers(numbers: &[u64]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = numbers.iter().take(SHOWN).map(u64::to_string).collect();
    match numbers.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Formats a time in UTC.
pub(crate) fn time_of(at_ms: u64) -> String {
    let time = i64::try_from(at_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.map_or_else(|| "an unknown time".to_owned(), |time| format!("{time:.0}"))
}

/// Formats how long ago a time was.
pub(crate) fn ago(at_ms: u64, now_ms: u64) -> String {
    let seconds = usize::try_from(now_ms.saturating_sub(at_ms) / 1_000).unwrap_or(usize::MAX);
    match seconds {
        0..60 => "just now".to_owned(),
        60..3_600 => format!("{} ago", count(seconds / 60, "minute")),
        3_600..86_400 => format!("{} ago", count(seconds / 3_600, "hour")),
        _ => format!("{} ago", count(seconds / 86_400, "day")),
    }
}

/// Returns the change of one path and its diff.
pub(crate) fn changed_path(
    contents: &Contents,
    path: &Path,
    from: &PathState,
    to: &PathState,
    read: &haft_core::ReadFiles,
) -> (ChangedPath, String) {
    let change = contents.difference(path, from, to, read);
    let diff = change.as_ref().map_or_else(
        || match (from, to) {
            (PathState::Directory { .. }, _) | (_, PathState::Directory { .. }) => String::new(),
            (PathState::Link { to }, PathState::Missing) => {
                format!("remove link to {}: {}\n", to.display(), path.display())
            }
            (_, PathState::Link { to }) => {
                format!("link to {}: {}\n", to.display(), path.display())
            }
            _ => format!("not text, or not kept: {}\n", path.display()),
        },
        |change| change.diff.clone(),
    );
    (ChangedPath::new(path, from, to).counted(change.as_ref()), diff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_ages() {
        for (seconds, expected) in [
            (5, "just now"),
            (61, "1 minute ago"),
            (7_300, "2 hours ago"),
            (86_400 * 3, "3 days ago"),
        ] {
            assert_eq!(ago(1_000, 1_000 + seconds * 1_000), expected);
        }
        assert_eq!(ago(5_000, 1_000), "just now");
        assert_eq!(time_of(1_769_817_600_000), "2026-01-31T00:00:00Z");
        assert_eq!(time_of(u64::MAX), "an unknown time");
    }

    #[test]
    fn many_numbers_are_counted() {
        assert_eq!(numbers(&[1, 2]), "1, 2");
        assert_eq!(numbers(&[1, 2, 3, 4, 5, 6, 7]), "1, 2, 3, 4, 5 and 2 more");
    }
}
