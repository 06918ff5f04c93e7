//! The report on a process: its output as plain text, its state, and the next step.

use haft_core::{
    ToolError,
    commands::{Denial, OutputChunk, Process, ProcessState, ProcessStatus, Stream},
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::text::terminal;

/// Maximum size of the head, and of the tail, of a shown output. The gate truncates further and
/// keeps the whole.
const SHOWN_BYTES: usize = 1 << 20;
/// Maximum number of denials in the text; the data has all of them.
const MAX_SHOWN_DENIALS: usize = 5;

/// The state of a process.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProcessReport {
    /// Process id, for `process`.
    pub id: String,
    /// The command line.
    pub command: String,
    /// The state.
    pub state: ProcessState,
    /// Exit code of the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Signal that ended the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Running time in milliseconds.
    pub ms: u64,
    /// Size of the output in bytes.
    pub bytes: u64,
    /// Number of processes left behind that could not be stopped.
    #[serde(skip_serializing_if = "is_zero")]
    pub left: usize,
    /// Accesses that the sandbox denied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Denial>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires the reference")]
pub(super) fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl ProcessReport {
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

    /// Formats the state in a few words: `exit code 1`, `running for 3 s as process p2`.
    pub(super) fn words(&self) -> String {
        let (time, after) = (time(self.ms), after(self.ms));
        let id = &self.id;
        let mut words = match (self.state, self.exit_code, self.signal) {
            (ProcessState::Exited, code, _) => format!("exit code {}{after}", code.unwrap_or(-1)),
            (ProcessState::Signalled, _, signal) => {
                format!("killed by signal {}{after}", signal.unwrap_or_default())
            }
            (ProcessState::KilledByTimeout, ..) => format!("stopped at its timeout{after}"),
            (ProcessState::Cancelled, ..) => format!("cancelled{after}"),
            (ProcessState::Killed, ..) => format!("killed{after}"),
            (ProcessState::Running, ..) => format!("running for {time} as process {id}"),
            (ProcessState::Silent, ..) => {
                format!("running for {time} as process {id}, no output for a while")
            }
            (ProcessState::WaitingForInput, ..) => {
                format!("waiting for input for {time} as process {id}")
            }
        };
        if self.left > 0 {
            let what = if self.left == 1 { "process is" } else { "processes are" };
            words +=
                &format!("; {} {what} still running, kill with `process` and id={id}", self.left);
        }
        words
    }

    pub(super) fn has_failed(&self) -> bool {
        self.state.is_over() && self.exit_code != Some(0)
    }

    /// Formats what a failed command was denied, one line each.
    pub(super) fn denials(&self) -> String {
        let is_shown = |it: &&Denial| self.has_failed() || it.is_reverted;
        let shown = self.refused.iter().filter(is_shown).take(MAX_SHOWN_DENIALS);
        let lines = shown
            .map(|Denial { what, why, remedy, .. }| format!("\n[denied: {what}: {why}; {remedy}]"));
        lines.collect()
    }
}

/// Formats the running time of a command that took at least a second.
fn after(ms: u64) -> String {
    if ms < 1_000 { String::new() } else { format!(" after {}", time(ms)) }
}

fn time(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{ms} ms"),
        _ => format!("{} s", ms / 1000),
    }
}

/// Returns the whole output of a process, without its middle when it is long.
pub(super) fn written(process: &dyn Process) -> Result<String, ToolError> {
    let head = process.output(Stream::Out, 0, SHOWN_BYTES)?;
    let shown = head.bytes.len() as u64;
    if shown == head.total {
        return Ok(terminal::plain(&head.bytes));
    }
    let from = head.total.saturating_sub(SHOWN_BYTES as u64).max(shown);
    let tail = process.output(Stream::Out, from, SHOWN_BYTES)?;
    let gap = tail.begin - shown;
    let (head, tail) = (terminal::plain(&head.bytes), terminal::plain(&tail.bytes));
    if gap == 0 {
        return Ok(head + &tail);
    }
    let id = process.id();
    Ok(format!(
        "{head}\n[{gap} bytes are not shown; read on with `process` and action=poll, id={id}, from={shown}]\n{tail}"
    ))
}

/// Returns the output of a process from a byte on.
pub(super) fn from(process: &dyn Process, from: u64) -> Result<(String, OutputChunk), ToolError> {
    let mut piece = process.output(Stream::Out, from, SHOWN_BYTES)?;
    let bytes = std::mem::take(&mut piece.bytes);
    let text = terminal::plain(&bytes);
    piece.begin += bytes.len() as u64;
    Ok((text, piece))
}
