//! What is said of a process: its words as plain text, how it stands, and what to do next.

use haft_core::{
    ToolError,
    commands::{Denial, OutputChunk, Process, ProcessState, ProcessStatus, Stream},
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::text::terminal;

/// How much of the beginning, and of the end, of an output is shown; the gate cuts further and keeps the rest.
const SHOWN: usize = 1 << 20;
/// So many refusals are put into the text; the data has more.
const MOST_REFUSED: usize = 5;

/// How a process stands.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Standing {
    /// Its id, for `process`.
    pub id: String,
    /// What runs.
    pub command: String,
    /// In a word.
    pub state: ProcessState,
    /// What it ended with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// How long it has run, in milliseconds.
    pub ms: u64,
    /// How many bytes it has written.
    pub bytes: u64,
    /// How many processes it has left behind that could not be ended.
    #[serde(skip_serializing_if = "is_zero")]
    pub left: usize,
    /// What it wanted and did not get from what stands around it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Denial>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
pub(super) fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Standing {
    pub(super) fn of(process: &dyn Process) -> Self {
        let ProcessStatus { state, exit_code, signal, ms, bytes, survivors, .. } = process.status();
        Self {
            id: process.id().to_owned(),
            command: process.command().to_owned(),
            state,
            exit_code,
            signal,
            ms,
            bytes,
            left: survivors,
            refused: process.denials(),
        }
    }

    /// In a few words: `exit code 1`, `running for 3 s, process p2`.
    pub(super) fn words(&self) -> String {
        let (time, after) = (time(self.ms), after(self.ms));
        let id = &self.id;
        let mut words = match (self.state, self.exit_code, self.signal) {
            (ProcessState::Exited, code, _) => format!("exit code {}{after}", code.unwrap_or(-1)),
            (ProcessState::Signalled, _, signal) => {
                format!("ended by signal {}{after}", signal.unwrap_or_default())
            }
            (ProcessState::KilledByTimeout, ..) => format!("stopped at its timeout{after}"),
            (ProcessState::Cancelled, ..) => format!("called off{after}"),
            (ProcessState::Killed, ..) => format!("killed{after}"),
            (ProcessState::Running, ..) => format!("running for {time} as process {id}"),
            (ProcessState::Silent, ..) => {
                format!("running for {time} as process {id}, silent for long")
            }
            (ProcessState::WaitingForInput, ..) => {
                format!("waiting for input for {time} as process {id}")
            }
        };
        if self.left > 0 {
            let what = if self.left == 1 { "process runs" } else { "processes run" };
            words += &format!("; {} {what} on, kill them with `process` and id={id}", self.left);
        }
        words
    }

    pub(super) fn has_failed(&self) -> bool {
        self.state.is_over() && self.exit_code != Some(0)
    }

    /// For whoever sees it fail: what it could not have, a line each.
    pub(super) fn denials(&self) -> String {
        let is_shown = |it: &&Denial| self.has_failed() || it.is_reverted;
        let shown = self.refused.iter().filter(is_shown).take(MOST_REFUSED);
        let lines = shown.map(|Denial { what, why, remedy, .. }| {
            format!("\n[refused: {what}: {why}; {remedy}]")
        });
        lines.collect()
    }
}

/// Only what took long is worth a word about its time.
fn after(ms: u64) -> String {
    if ms < 1_000 { String::new() } else { format!(" after {}", time(ms)) }
}

fn time(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{ms} ms"),
        _ => format!("{} s", ms / 1000),
    }
}

/// All that a process has written, with a gap in the middle when that is long.
pub(super) fn written(process: &dyn Process) -> Result<String, ToolError> {
    let head = process.output(Stream::Out, 0, SHOWN)?;
    let shown = head.bytes.len() as u64;
    if shown == head.total {
        return Ok(terminal::plain(&head.bytes));
    }
    let from = head.total.saturating_sub(SHOWN as u64).max(shown);
    let tail = process.output(Stream::Out, from, SHOWN)?;
    let gap = tail.begin - shown;
    let (head, tail) = (terminal::plain(&head.bytes), terminal::plain(&tail.bytes));
    if gap == 0 {
        return Ok(head + &tail);
    }
    let id = process.id();
    Ok(format!(
        "{head}\n[{gap} bytes are not shown; `process` with action=poll, id={id} and from={shown} reads on]\n{tail}"
    ))
}

/// What a process has written from a place on.
pub(super) fn from(process: &dyn Process, from: u64) -> Result<(String, OutputChunk), ToolError> {
    let mut piece = process.output(Stream::Out, from, SHOWN)?;
    let bytes = std::mem::take(&mut piece.bytes);
    let text = terminal::plain(&bytes);
    piece.begin += bytes.len() as u64;
    Ok((text, piece))
}
