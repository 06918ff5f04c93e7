//! Formats calls as a table.

use haft_core::{LedgerEntry, policy::Reason};
use haft_store::{CallEnding, RecordedEntry};
use jiff::{Timestamp, tz::TimeZone};

use crate::{safe_text::shown_in_line, terminal::shorten};

const HEADER: [&str; 7] = ["#", "time", "session", "tool", "decision", "rule", "ms"];
/// Longer cells are truncated; `--json` has the whole.
const MAX_CELL_CHARS: usize = 44;
/// Columns that shrink on a narrow terminal, in this order, down to `MIN_CELL_CHARS`.
const FLEXIBLE: [usize; 4] = [5, 4, 2, 3];
const MIN_CELL_CHARS: usize = 8;

/// `width` is the one of the terminal; none in a pipe.
pub(super) fn of(calls: &[RecordedEntry], zone: &TimeZone, width: Option<usize>) -> String {
    let mut rows: Vec<[String; 7]> = calls.iter().map(|call| row(call, zone)).collect();
    fit(&mut rows, width.unwrap_or(usize::MAX));
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([HEADER[column].len()]).max().unwrap_or_default()
    };
    let widths: [usize; 7] = std::array::from_fn(width);
    let lines = [HEADER.map(str::to_owned)].into_iter().chain(rows).map(|row| line(&row, &widths));
    lines.collect::<Vec<_>>().join("\n")
}

fn fit(rows: &mut [[String; 7]], width: usize) {
    for column in FLEXIBLE {
        let widest = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([HEADER[column].len()]).max().unwrap_or_default()
        };
        let all: usize = (0..HEADER.len()).map(widest).sum::<usize>() + 2 * (HEADER.len() - 1);
        let excess = all.saturating_sub(width);
        if excess == 0 {
            return;
        }
        let room = widest(column).saturating_sub(excess).max(MIN_CELL_CHARS);
        rows.iter_mut().for_each(|row| row[column] = shorten(&row[column], room));
    }
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

/// Returns the tool, with the number of equal calls that the entry stands for.
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

/// Returns the policy's decision, the approver's answer and the error.
fn decision(entry: &LedgerEntry) -> String {
    if let Some(dropped) = &entry.dropped {
        return format!("{} older entries dropped", dropped.entries);
    }
    let action = entry.decision.as_ref().map_or("none", |decision| decision.action.name());
    let verdict = entry.verdict.as_ref().map(|verdict| {
        let word = if verdict.approved { "approved" } else { "denied" };
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
    shorten(&shown_in_line(text), MAX_CELL_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits_the_terminal() {
        let row = || {
            let long = "x".repeat(MAX_CELL_CHARS);
            ["1", "2026-01-01 00:00:00", "cli", "bash", &long, &long, "12"].map(str::to_owned)
        };
        for (width, expected) in
            [(usize::MAX, [44, 44]), (120, [44, 31]), (90, [37, 8]), (10, [8, 8])]
        {
            let mut rows = [row()];
            fit(&mut rows, width);
            let chars = [4, 5].map(|column: usize| rows[0][column].chars().count());
            assert_eq!(chars, expected, "{width}");
        }
    }
}
