//! Calls as a table for eyes.

use haft_core::{LedgerEntry, policy::Reason};
use haft_store::{CallEnding, RecordedEntry};
use jiff::{Timestamp, tz::TimeZone};

use crate::safe_text::shown_in_line;

const HEADER: [&str; 7] = ["#", "time", "session", "tool", "decision", "rule", "ms"];
/// What is longer is cut: `--json` has the whole.
const LONGEST: usize = 44;

pub(super) fn of(calls: &[RecordedEntry], zone: &TimeZone) -> String {
    let rows: Vec<[String; 7]> = calls.iter().map(|call| row(call, zone)).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([HEADER[column].len()]).max().unwrap_or_default()
    };
    let widths: [usize; 7] = std::array::from_fn(width);
    let lines = [HEADER.map(str::to_owned)].into_iter().chain(rows).map(|row| line(&row, &widths));
    lines.collect::<Vec<_>>().join("\n")
}

fn line(row: &[String; 7], widths: &[usize; 7]) -> String {
    let is_number = |column| matches!(column, 0 | 6);
    let cell = |(column, text): (usize, &String)| {
        let gap = " ".repeat(widths[column].saturating_sub(text.chars().count()));
        if is_number(column) { format!("{gap}{text}") } else { format!("{text}{gap}") }
    };
    row.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ")
}

fn row(RecordedEntry { seq, entry, ending, .. }: &RecordedEntry, zone: &TimeZone) -> [String; 7] {
    [
        seq.to_string(),
        time(entry.began_ms, zone),
        short(&entry.session),
        tool(entry),
        short(&(decision(entry) + without_end(*ending))),
        short(&rule(entry)),
        entry.ms.to_string(),
    ]
}

/// The tool, with how many equal calls the entry stands for.
fn tool(entry: &LedgerEntry) -> String {
    match entry.repeated {
        Some(repeated) => format!("{} x{}", short(&entry.tool), repeated.calls),
        None => short(&entry.tool),
    }
}

pub(in crate::commands) fn time(began_ms: u64, zone: &TimeZone) -> String {
    let time = i64::try_from(began_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let shown =
        |time: Timestamp| time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string();
    time.map_or_else(|| began_ms.to_string(), shown)
}

/// What policy said, what somebody said to it, and how it failed.
fn decision(entry: &LedgerEntry) -> String {
    if let Some(dropped) = &entry.dropped {
        return format!("{} older entries dropped", dropped.entries);
    }
    let action = entry.decision.as_ref().map_or("none", |decision| decision.action.name());
    let verdict = entry.verdict.as_ref().map(|verdict| {
        let word = if verdict.approved { "yes" } else { "no" };
        format!(", {word} by {}", verdict.by)
    });
    let error = entry.error.map(|error| format!(" ({error})"));
    format!("{action}{}{}", verdict.unwrap_or_default(), error.unwrap_or_default())
}

fn without_end(ending: CallEnding) -> &'static str {
    match ending {
        CallEnding::Recorded => "",
        CallEnding::Interrupted => ", interrupted",
        CallEnding::NotRecorded => ", no end recorded",
    }
}

fn rule(entry: &LedgerEntry) -> String {
    match entry.decision.as_ref().map(|decision| &decision.reason) {
        Some(Reason::Rule(rule)) => format!("{} ({})", rule.text, rule.source),
        Some(Reason::Mode { mode, .. }) => format!("mode {}", mode.name()),
        Some(reason) => reason.to_string(),
        None => String::new(),
    }
}

fn short(text: &str) -> String {
    let text = shown_in_line(text);
    if text.chars().count() <= LONGEST {
        return text.into();
    }
    text.chars().take(LONGEST - 1).chain(['…']).collect()
}
