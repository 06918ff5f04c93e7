//! Requests as lines for eyes. Whatever comes from a call is made safe here.

use haft_core::{ApprovalState, CallResult, InboxEntry, RequesterStatus};
use jiff::Timestamp;

use crate::{prompt::summary, safe_text::shown_in_line};

/// What is longer is cut: `show` has the whole.
const LONGEST: usize = 100;

pub(super) fn of(entries: &[&InboxEntry], now: Timestamp) -> String {
    let line = |standing: &&InboxEntry| {
        let id = shown_in_line(&standing.record.request.id).into_owned();
        format!("{id}  {}\n    {}\n", row(standing, now), cut(&summary(&standing.record.request)))
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

fn cut(line: &str) -> String {
    if line.chars().count() <= LONGEST {
        return line.to_owned();
    }
    line.chars().take(LONGEST).chain("…".chars()).collect()
}
