//! Which changes are meant: by number, by call, by session, by time, or simply the last one.

use std::path::{Path, PathBuf};

use haft_core::{Access, ChangeQuery, JournalChange, JournalEntry, ReadJournal, ToolError, now_ms};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::words::numbers;

/// Stands for every session.
pub(crate) const ALL: &str = "all";
/// More changes than this are not taken back at once.
pub(crate) const MOST: usize = 20_000;
/// So many are looked at together while the last one is looked for.
const PIECE: usize = 50;

/// What undo takes back, or redo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Undo,
    Redo,
}

impl Direction {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Undo => "undo",
            Self::Redo => "redo",
        }
    }

    /// Whether changes of a tool are what it is about.
    fn is_about(self, tool: &str) -> bool {
        match self {
            // An undo is taken back by redo; its changes show in what is left to be undone.
            Self::Undo => tool != "undo" && tool != "redo",
            Self::Redo => tool == "undo",
        }
    }
}

/// Which changes, or for `redo` which undos. Without any of these: the last one of this session.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "path": "src/main.rs" }))]
pub struct TakeBack {
    /// Exactly these, by the numbers that `changes` shows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-aliases" = ["change", "number", "numbers"]))]
    pub changes: Vec<u64>,
    /// All of this call; for `redo`, of this call of `undo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// All of this session; `all` means every session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// All since then, of every session unless one is named: `30m`, `2h`, `3d`, or a time with its zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only this file, or what lies below this directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-aliases" = ["file_path", "filePath", "filename"]))]
    #[schemars(with = "Option<haft_core::PathInput>")]
    pub path: Option<PathBuf>,
    /// Only show what would be done, as a difference.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["dry_run", "dryRun"]))]
    pub preview: bool,
}

/// The changes that are meant, newest first, each with the entries that are to be taken back.
///
/// # Errors
/// Of kind `not_found` when there are none, with what there is instead.
pub(crate) async fn select(
    direction: Direction,
    wish: &TakeBack,
    own_session: &str,
    journal: &ReadJournal,
) -> Result<Vec<JournalChange>, ToolError> {
    let which = which(wish)?;
    let is_narrow = !wish.changes.is_empty() || wish.call_id.is_some();
    let found = match is_own_session(wish) {
        true => last(direction, wish, own_session, journal).await?,
        false => journal.find(&which).await?,
    };
    let collected: u64 = found.iter().map(|change| change.collected).sum();
    let is_known = !found.is_empty();
    // Whoever names a change means it, whatever made it.
    let found: Vec<JournalChange> = found
        .into_iter()
        .filter(|change| is_narrow || direction.is_about(&change.tool))
        .map(|change| standing(change, wish.path.as_deref()))
        .filter(|change| !change.entries.is_empty())
        .collect();
    if found.is_empty() {
        return Err(nothing(direction, wish, own_session, is_known, collected, journal).await);
    }
    if collected > 0 && is_narrow {
        return Err(incomplete(&found, collected));
    }
    Ok(found)
}

fn which(wish: &TakeBack) -> Result<ChangeQuery, ToolError> {
    Ok(ChangeQuery {
        call_id: wish.call_id.clone(),
        session: wish.session.clone().filter(|session| session != ALL),
        since_ms: wish.since.as_deref().map(since).transpose()?.unwrap_or_default(),
        numbers: wish.changes.clone(),
        limit: MOST,
        ..ChangeQuery::default()
    })
}

/// The last call of this session that changed something and was not taken back, with all its changes.
async fn last(
    direction: Direction,
    wish: &TakeBack,
    session: &str,
    journal: &ReadJournal,
) -> Result<Vec<JournalChange>, ToolError> {
    let session = Some(session.to_owned());
    let mut which =
        ChangeQuery { session: session.clone(), limit: PIECE, ..ChangeQuery::default() };
    loop {
        let found = journal.find(&which).await?;
        for change in &found {
            let is_left = !standing(change.clone(), wish.path.as_deref()).entries.is_empty();
            if direction.is_about(&change.tool) && is_left {
                let call_id = Some(change.call_id.clone());
                let whole = ChangeQuery { call_id, session, limit: MOST, ..ChangeQuery::default() };
                let tool = change.tool.clone();
                let whole = journal.find(&whole).await?;
                return Ok(whole.into_iter().filter(|change| change.tool == tool).collect());
            }
        }
        match found.last() {
            Some(oldest) if found.len() == PIECE => which.below = Some(oldest.number),
            _ => return Ok(Vec::new()),
        }
    }
}

/// A change without what was taken back already and what lies elsewhere.
fn standing(mut change: JournalChange, below: Option<&Path>) -> JournalChange {
    let is_meant = |entry: &JournalEntry| {
        below.is_none_or(|below| {
            let is_below = |path: &Path| below == Path::new(".") || path.starts_with(below);
            is_below(&entry.path) || entry.moved_from.as_deref().is_some_and(is_below)
        })
    };
    change.entries.retain(|entry| entry.undone_by.is_none() && is_meant(entry));
    change
}

/// Whether it is about the session of the call, because nothing else was said.
fn is_own_session(wish: &TakeBack) -> bool {
    let TakeBack { changes, call_id, session, since, .. } = wish;
    changes.is_empty() && call_id.is_none() && session.is_none() && since.is_none()
}

async fn nothing(
    direction: Direction,
    wish: &TakeBack,
    own_session: &str,
    is_known: bool,
    collected: u64,
    journal: &ReadJournal,
) -> ToolError {
    let verb = direction.name();
    let asked = asked_for(wish);
    let message = match (is_known, collected) {
        (false, _) => format!("there is nothing to {verb}{asked}"),
        (true, 0) => format!("there is nothing left to {verb}{asked}: it was taken back already"),
        (true, _) => {
            format!("there is nothing left to {verb}{asked}: it was too old or too much to be kept")
        }
    };
    let newest = ChangeQuery { limit: 1, ..ChangeQuery::default() };
    let newest = journal.find(&newest).await.unwrap_or_default();
    let hint = match newest.first() {
        Some(change) => format!(
            "the last change here is number {} by `{}` in session `{}`; `changes` lists them, and `session` = \"{ALL}\" \
             means those of all sessions{}",
            change.number,
            change.tool,
            change.session,
            match is_own_session(wish) && change.session != own_session {
                true =>
                    ". For a client that keeps no session (stateless HTTP) every call is one of its own",
                false => "",
            }
        ),
        None => "nothing was changed here by a file tool yet".to_owned(),
    };
    ToolError::not_found(message).hint(hint)
}

fn asked_for(wish: &TakeBack) -> String {
    let mut words = String::new();
    if !wish.changes.is_empty() {
        words.push_str(&format!(" of change {}", numbers(&wish.changes)));
    }
    for (what, value) in
        [("of call", &wish.call_id), ("of session", &wish.session), ("since", &wish.since)]
    {
        if let Some(value) = value {
            words.push_str(&format!(" {what} `{value}`"));
        }
    }
    if let Some(path) = &wish.path {
        words.push_str(&format!(" at `{}`", path.display()));
    }
    if words.is_empty() { " in this session".to_owned() } else { words }
}

fn incomplete(found: &[JournalChange], collected: u64) -> ToolError {
    let which: Vec<u64> = found.iter().map(|change| change.number).collect();
    let message = format!(
        "of change {} {collected} files are not kept any more: they were too old or too much",
        numbers(&which)
    );
    ToolError::conflict(message).hint("name the files that are left with path, one call each")
}

/// What taking these back would touch.
pub(crate) fn touched(changes: &[JournalChange]) -> Vec<Access> {
    let entries = changes.iter().flat_map(|change| &change.entries);
    let paths = entries.flat_map(|entry| [Some(&entry.path), entry.moved_from.as_ref()]);
    paths
        .flatten()
        .flat_map(|path| [Access::Read(path.clone()), Access::Write(path.clone())])
        .collect()
}

/// Milliseconds since 1970 of a time, or of as long ago.
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
        ToolError::input(format!("`{text}` is no time"))
            .hint("say how long ago (30m, 2h, 3d) or a time with its zone (2026-01-31T12:00:00Z)")
    })
}

#[cfg(test)]
mod tests {
    use haft_core::PathState;

    use super::*;

    #[test]
    fn times_are_as_long_ago_or_with_a_zone() {
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
    fn only_what_is_left_and_lies_there_is_taken_back() {
        let mut change = JournalChange::new(1, "c", "s", "patch", 0);
        let entry = |id, path: &str| {
            JournalEntry::new(id, path.into(), PathState::Missing, PathState::Directory { mode: 0 })
        };
        change.entries = vec![entry(1, "src/a"), entry(2, "srcs/b"), entry(3, "src/c")];
        change.entries[2].undone_by = Some(9);
        let left = |below: Option<&str>| -> Vec<u64> {
            let left = standing(change.clone(), below.map(Path::new));
            left.entries.iter().map(|entry| entry.id).collect()
        };
        assert_eq!(left(None), [1, 2]);
        assert_eq!(left(Some(".")), [1, 2]);
        assert_eq!(left(Some("src")), [1]);
        assert_eq!(left(Some("else")), Vec::<u64>::new());
    }
}
