//! Requests as lines for a person. Text that comes from a call is made safe here.

use haft_core::{ApprovalState, CallResult, InboxEntry, RequesterStatus};
use jiff::Timestamp;

use crate::{prompt::summary, safe_text::shown_in_line, terminal::shorten};

/// Longer summaries are shortened, to this or to the width of the terminal; `show` has them whole.
const MAX_SUMMARY_CHARS: usize = 100;

/// `width` is the one of the terminal; none in a pipe.
pub(super) fn of(entries: &[&InboxEntry], now: Timestamp, width: Option<usize>) -> String {
    let max_chars = width.map_or(MAX_SUMMARY_CHARS, |width| width.saturating_sub(4));
    let line = |entry: &&InboxEntry| {
        let id = shown_in_line(&entry.record.request.id).into_owned();
        let summary = shorten(&summary(&entry.record.request), max_chars);
        format!("{id}  {}\n    {summary}\n", row(entry, now))
    };
    entries.iter().map(line).collect()
}

/// State, tool, age and who asks.
pub(super) fn row(standing: &InboxEntry, now: Timestamp) -> String {
    let request = &standing.record.request;
    let agents = match &request.agents[..] {
        [] => String::new(),
        agents => format!("  by {}", shown_in_line(&agents.join(" > "))),
    };
    let age = span(now.as_millisecond().saturating_sub(as_signed(request.created_ms)));
    format!("{}  {}  {age} ago{agents}", state(standing, now), shown_in_line(&request.tool))
}

/// What stands above the details of a request.
pub(super) fn about(standing: &InboxEntry, now: Timestamp) -> String {
    let request = &standing.record.request;
    let mut lines = vec![
        format!("{}  {}", shown_in_line(&request.id), row(standing, now)),
        format!(
            "in {}, session {}",
            shown_in_line(&standing.workspace.to_string_lossy()),
            shown_in_line(&request.session)
        ),
    ];
    if let Some(verdict) = &standing.record.verdict {
        let note = verdict.note.as_ref().map(|note| format!(": {note}")).unwrap_or_default();
        let word = if verdict.approved { "yes" } else { "no" };
        let said = format!("{word} by {} via {}{note}", verdict.by, verdict.via);
        lines.push(shown_in_line(&said).into_owned());
    }
    lines.join("\n") + "\n"
}

/// Where it stands, in words.
pub(super) fn state(standing: &InboxEntry, now: Timestamp) -> String {
    let InboxEntry { record, requester, result, .. } = standing;
    match (record.state, result, requester) {
        (ApprovalState::Pending, _, requester) => {
            let left = as_signed(record.request.expires_ms).saturating_sub(now.as_millisecond());
            let gone =
                if *requester == RequesterStatus::Gone { ", nobody waits for it" } else { "" };
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
            "approved and taken up; whether it ran is not known".to_owned()
        }
        (state, _, _) => state.to_string(),
    }
}

fn as_signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// A length of time, roughly. A clock that was set back makes none of it negative.
fn span(ms: i64) -> String {
    match ms.max(0) / 1000 {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}
