//! Formats requests as text for people. Text from calls is escaped here.

use haft_core::{ApprovalState, CallResult, InboxEntry, RequesterStatus};
use jiff::Timestamp;

use crate::{prompt::summary, safe_text::shown_in_line, terminal::shorten};

/// Longer summaries are truncated to this or to the width of the terminal; `show` prints them
/// whole.
const MAX_SUMMARY_CHARS: usize = 100;

/// Formats requests. `width` is the width of the terminal, or `None` in a pipe.
pub(super) fn of(entries: &[&InboxEntry], now: Timestamp, width: Option<usize>) -> String {
    let max_chars = width.map_or(MAX_SUMMARY_CHARS, |width| width.saturating_sub(4));
    let line = |entry: &&InboxEntry| {
        let id = shown_in_line(&entry.record.request.id).into_owned();
        let summary = shorten(&summary(&entry.record.request), max_chars);
        format!("{id}  {}\n    {summary}\n", row(entry, now))
    };
    entries.iter().map(line).collect()
}

/// Returns state, tool, age and agents of a request.
pub(super) fn row(entry: &InboxEntry, now: Timestamp) -> String {
    let request = &entry.record.request;
    let agents = match &request.agents[..] {
        [] => String::new(),
        agents => format!("  by {}", shown_in_line(&agents.join(" > "))),
    };
    let age = span(now.as_millisecond().saturating_sub(as_signed(request.created_ms)));
    format!("{}  {}  {age} ago{agents}", state(entry, now), shown_in_line(&request.tool))
}

/// Returns the header above the details of a request.
pub(super) fn about(entry: &InboxEntry, now: Timestamp) -> String {
    let request = &entry.record.request;
    let mut lines = vec![
        format!("{}  {}", shown_in_line(&request.id), row(entry, now)),
        format!(
            "in {}, session {}",
            shown_in_line(&entry.workspace.to_string_lossy()),
            shown_in_line(&request.session)
        ),
    ];
    if let Some(verdict) = &entry.record.verdict {
        let note = verdict.note.as_ref().map(|note| format!(": {note}")).unwrap_or_default();
        let word = if verdict.approved { "approved" } else { "denied" };
        let decision = format!("{word} by {} via {}{note}", verdict.by, verdict.via);
        lines.push(shown_in_line(&decision).into_owned());
    }
    lines.join("\n") + "\n"
}

/// Returns the state as text.
pub(super) fn state(entry: &InboxEntry, now: Timestamp) -> String {
    let InboxEntry { record, requester, result, .. } = entry;
    match (record.state, result, requester) {
        (ApprovalState::Pending, _, requester) => {
            let left = as_signed(record.request.expires_ms).saturating_sub(now.as_millisecond());
            let gone =
                if *requester == RequesterStatus::Gone { ", no process waits for it" } else { "" };
            format!("pending ({} left{gone})", span(left))
        }
        (ApprovalState::Approved, CallResult::NotRun, RequesterStatus::There) => {
            "approved".to_owned()
        }
        (ApprovalState::Approved, CallResult::NotRun, RequesterStatus::Gone) => {
            "approved, not run".to_owned()
        }
        (ApprovalState::Approved, CallResult::Ran(None), _) => "approved, ran".to_owned(),
        (ApprovalState::Approved, CallResult::Ran(Some(error)), _) => {
            format!("approved, ran and failed ({})", shown_in_line(error))
        }
        (ApprovalState::Approved, CallResult::Unknown, _) => {
            "approved and claimed; result unknown".to_owned()
        }
        (state, _, _) => state.to_string(),
    }
}

fn as_signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// Formats an approximate duration. A clock that was set back does not make it negative.
fn span(ms: i64) -> String {
    match ms.max(0) / 1000 {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}
