//! Selects the changes to revert: by number, call, session or time, or the last one.

use std::path::{Path, PathBuf};

use haft_core::{Access, ChangeQuery, JournalChange, JournalEntry, ReadJournal, ToolError, now_ms};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::display::numbers;

/// The value of `session` for every session.
pub(crate) const ALL_SESSIONS: &str = "all";
/// Maximum number of changes reverted at once.
pub(crate) const MAX_CHANGES: usize = 20_000;
/// Number of changes read at a time when searching for the last one.
const PAGE_SIZE: usize = 50;

/// Whether to revert changes or undos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UndoDirection {
    Undo,
    Redo,
}

impl UndoDirection {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Undo => "undo",
            Self::Redo => "redo",
        }
    }

    /// Returns true if changes of a tool can be reverted in this direction.
    fn applies_to(self, tool: &str) -> bool {
        match self {
            // Only redo reverts an undo. Changes that an undo reverted are not selected again.
            Self::Undo => tool != "undo" && tool != "redo",
            Self::Redo => tool == "undo",
        }
    }
}

/// The changes to revert; for `redo`, the undos. Default: the last one of this session.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "path": "src/main.rs" }))]
pub struct UndoInput {
    /// Exactly these, by the numbers that `changes` shows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-aliases" = ["change", "number", "numbers"]))]
    #[schemars(extend("x-refers-to" = "change"))]
    pub changes: Vec<u64>,
    /// All changes of this call; for `redo`, of this call of `undo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// All changes of this session; `all` means every session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-refers-to" = "session"))]
    pub session: Option<String>,
    /// All changes since this time, of every session unless one is named: `30m`, `2h`, `3d`, or a
    /// time with its zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only this file, or files below this directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-aliases" = ["file_path", "filePath", "filename"]))]
    #[schemars(with = "Option<haft_core::PathInput>")]
    pub path: Option<PathBuf>,
    /// Only show the diff, and change nothing.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["dry_run", "dryRun"]))]
    pub preview: bool,
}

/// Returns the selected changes, newest first, each with the entries to revert.
///
/// # Errors
/// `not_found` when there are none; the hint names the last change there is.
pub(crate) async fn select(
    direction: UndoDirection,
    input: &UndoInput,
    own_session: &str,
    journal: &ReadJournal,
) -> Result<Vec<JournalChange>, ToolError> {
    let query = query(input)?;
    let is_narrow = !input.changes.is_empty() || input.call_id.is_some();
    let found = match is_own_session(input) {
        true => last(direction, input, own_session, journal).await?,
        false => journal.find(&query).await?,
    };
    let collected: u64 = found.iter().map(|change| change.collected).sum();
    let is_known = !found.is_empty();
    // A change that the caller names is selected whatever tool made it.
    let found: Vec<JournalChange> = found
        .into_iter()
        .filter(|change| is_narrow || direction.applies_to(&change.tool))
        .map(|change| revertible(change, input.path.as_deref()))
        .filter(|change| !change.entries.is_empty())
        .collect();
    if found.is_empty() {
        return Err(nothing(direction, input, own_session, is_known, collected, journal).await);
    }
    if collected > 0 && is_narrow {
        return Err(incomplete(&found, collected));
    }
    Ok(found)
}

fn query(input: &UndoInput) -> Result<ChangeQuery, ToolError> {
    Ok(ChangeQuery {
        call_id: input.call_id.clone(),
        session: input.session.clone().filter(|session| session != ALL_SESSIONS),
        since_ms: input.since.as_deref().map(since).transpose()?.unwrap_or_default(),
        numbers: input.changes.clone(),
        limit: MAX_CHANGES,
        ..ChangeQuery::default()
    })
}

/// Returns all changes of the last call of this session that is not undone yet.
async fn last(
    direction: UndoDirection,
    input: &UndoInput,
    session: &str,
    journal: &ReadJournal,
) -> Result<Vec<JournalChange>, ToolError> {
    let session = Some(session.to_owned());
    let mut query =
        ChangeQuery { session: session.clone(), limit: PAGE_SIZE, ..ChangeQuery::default() };
    loop {
        let found = journal.find(&query).await?;
        for change in &found {
            let is_left = !revertible(change.clone(), input.path.as_deref()).entries.is_empty();
            if direction.applies_to(&change.tool) && is_left {
                let call_id = Some(change.call_id.clone());
                let whole =
                    ChangeQuery { call_id, session, limit: MAX_CHANGES, ..ChangeQuery::default() };
                let tool = change.tool.clone();
                let whole = journal.find(&whole).await?;
                return Ok(whole.into_iter().filter(|change| change.tool == tool).collect());
            }
        }
        match found.last() {
            Some(oldest) if found.len() == PAGE_SIZE => query.below = Some(oldest.number),
            _ => return Ok(Vec::new()),
        }
    }
}

/// Removes entries that are already reverted or not below the given path.
fn revertible(mut change: JournalChange, below: Option<&Path>) -> JournalChange {
    let is_selected = |entry: &JournalEntry| {
        below.is_none_or(|below| {
            let is_below = |path: &Path| below == Path::new(".") || path.starts_with(below);
            is_below(&entry.path) || entry.moved_from.as_deref().is_some_and(is_below)
        })
    };
    change.entries.retain(|entry| entry.undone_by.is_none() && is_selected(entry));
    change
}

/// Returns true if the input selects the last change of the calling session.
fn is_own_session(input: &UndoInput) -> bool {
    let UndoInput { changes, call_id, session, since, .. } = input;
    changes.is_empty() && call_id.is_none() && session.is_none() && since.is_none()
}

async fn nothing(
    direction: UndoDirection,
    input: &UndoInput,
    own_session: &str,
    is_known: bool,
    collected: u64,
    journal: &ReadJournal,
) -> ToolError {
    let verb = direction.name();
    let selection = selection(input);
    let message = match (is_known, collected) {
        (false, _) => format!("nothing to {verb}{selection}"),
        (true, 0) => format!("nothing left to {verb}{selection}: it was already reverted"),
        (true, _) => {
            format!("nothing left to {verb}{selection}: it was too old or too large to be kept")
        }
    };
    let newest = ChangeQuery { limit: 1, ..ChangeQuery::default() };
    let newest = journal.find(&newest).await.unwrap_or_default();
    let hint = match newest.first() {
        Some(change) => format!(
            "the last change here is number {} by `{}` in session `{}`; `changes` lists all, and \
             `session` = \"{ALL_SESSIONS}\" selects every session{}",
            change.number,
            change.tool,
            change.session,
            match is_own_session(input) && change.session != own_session {
                true =>
                    ". For a client without sessions (stateless HTTP) every call is a separate session",
                false => "",
            }
        ),
        None => "no file tool has changed anything here yet".to_owned(),
    };
    ToolError::not_found(message).hint(hint)
}

fn selection(input: &UndoInput) -> String {
    let mut words = String::new();
    if !input.changes.is_empty() {
        words.push_str(&format!(" of change {}", numbers(&input.changes)));
    }
    for (what, value) in
        [("of call", &input.call_id), ("of session", &input.session), ("since", &input.since)]
    {
        if let Some(value) = value {
            words.push_str(&format!(" {what} `{value}`"));
        }
    }
    if let Some(path) = &input.path {
        words.push_str(&format!(" at `{}`", path.display()));
    }
    if words.is_empty() { " in this session".to_owned() } else { words }
}

fn incomplete(found: &[JournalChange], collected: u64) -> ToolError {
    let changes: Vec<u64> = found.iter().map(|change| change.number).collect();
    let message = format!(
        "{collected} files of change {} are no longer kept: they were too old or too large",
        numbers(&changes)
    );
    ToolError::conflict(message).hint("name the remaining files with path, one call each")
}

/// Returns the accesses of reverting these changes.
pub(crate) fn touched(changes: &[JournalChange]) -> Vec<Access> {
    let entries = changes.iter().flat_map(|change| &change.entries);
    let paths = entries.flat_map(|entry| [Some(&entry.path), entry.moved_from.as_ref()]);
    paths
        .flatten()
        .flat_map(|path| [Access::Read(path.clone()), Access::Write(path.clone())])
        .collect()
}

/// Parses a time or an age into milliseconds since 1970.
pub(crate) fn since(text: &str) -> Result<u64, ToolError> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_ms: Option<u64> = match text.strip_prefix(digits) {
        Some("s") => Some(1_000),
        Some("m" | "min") => Some(60_000),
        Some("h") => Some(3_600_000),
        Some("d") => Some(86_400_000),
        Some("w") => Some(7 * 86_400_000),
        _ => None,
    };
    if let (Some(unit_ms), Ok(count)) = (unit_ms, digits.parse::<u64>()) {
        return Ok(now_ms().saturating_sub(count.saturating_mul(unit_ms)));
    }
    let time = text.parse::<Timestamp>().ok().map(|time| time.as_millisecond());
    time.and_then(|time| u64::try_from(time).ok()).ok_or_else(|| {
        ToolError::input(format!("`{text}` is not a time"))
            .hint("give an age (30m, 2h, 3d) or a time with its zone (2026-01-31T12:00:00Z)")
    })
}

#[cfg(test)]
mod tests {
    use haft_core::PathState;

    use super::*;

    #[test]
    fn a_time_is_an_age_or_has_a_zone() {
        let hour = since("1h").expect("a time");
        assert!(now_ms().abs_diff(hour + 3_600_000) < 60_000, "{hour}");
        assert!(since("3d").expect("a time") < since("2h").expect("a time"));
        assert_eq!(since("2026-01-31T00:00:00Z").ok(), Some(1_769_817_600_000));
        assert_eq!(since("99999999999999999999d").ok(), None);
        assert_eq!(since("9999999999999999d").ok(), Some(0));
        for wrong in ["", "soon", "-2h", "5", "m", "2026-01-31", "1é"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_entries_below_the_path_that_are_left_are_reverted() {
        let mut change = JournalChange::new(1, "c", "s", "patch", 0);
        let entry = |id, path: &str| {
            JournalEntry::new(id, path.into(), PathState::Missing, PathState::Directory { mode: 0 })
        };
        change.entries = vec![entry(1, "src/a"), entry(2, "srcs/b"), entry(3, "src/c")];
        change.entries[2].undone_by = Some(9);
        let left = |below: Option<&str>| -> Vec<u64> {
            let left = revertible(change.clone(), below.map(Path::new));
            left.entries.iter().map(|entry| entry.id).collect()
        };
        assert_eq!(left(None), [1, 2]);
        assert_eq!(left(Some(".")), [1, 2]);
        assert_eq!(left(Some("src")), [1]);
        assert_eq!(left(Some("else")), Vec::<u64>::new());
    }
}
