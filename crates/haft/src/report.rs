//! Prints the result of a command to standard output, messages to standard error, and returns the
//! error kind as the exit code.

use std::{io, process::ExitCode};

use haft_core::{ErrorKind, Explanation, Outcome, ToolError};
use serde::Serialize;

use crate::{
    calls::Abandoned,
    globals::Format,
    stop::{Stop, leave},
    terminal::{Label, Terminal},
};

/// Prints the outcome of a call.
pub(crate) fn outcome(
    terminal: &Terminal,
    format: Format,
    outcome: &Outcome,
) -> io::Result<ExitCode> {
    if format == Format::Json {
        json(terminal, outcome)?;
        return Ok(ExitCode::from(outcome.exit_code()));
    }
    // A user wants to know about repairs; in a script's output they would be noise.
    if terminal.shows_words() {
        outcome.repairs.iter().for_each(|repair| terminal.tell(Label::Note, repair));
    }
    // Scripts see it too: without it a gap in the ledger goes unnoticed.
    if let Some(note) = outcome.metadata.get("not_recorded").and_then(|note| note.as_str()) {
        terminal.tell(Label::Warning, note);
    }
    let display = outcome.display.as_deref().filter(|_| terminal.shows_results());
    match &outcome.error {
        None => terminal.print_result(display.unwrap_or(&outcome.content))?,
        Some(error) => {
            if let Some(partial) = display.or_else(|| outcome.partial()) {
                terminal.print(partial)?;
            }
            failure(terminal, &error.message, &error.hint);
        }
    }
    Ok(ExitCode::from(outcome.exit_code()))
}

/// Reports a call that was abandoned, and ends the process.
pub(crate) fn abandoned(terminal: &Terminal, format: Format, tool: &str, end: &Abandoned) -> ! {
    terminal.end_status();
    let code = match end {
        Abandoned::AtOnce => ErrorKind::Cancelled.exit_code(),
        Abandoned::Stuck(error) => {
            // The process ends even if the message cannot be written.
            let _ = outcome(terminal, format, &Outcome::failed(tool, error));
            error.kind().exit_code()
        }
    };
    leave(code)
}

/// Prints what a call would do.
pub(crate) fn explanation(
    terminal: &Terminal,
    format: Format,
    explained: &Explanation,
) -> io::Result<()> {
    if format == Format::Json {
        return json(terminal, explained);
    }
    let mut lines = vec![format!("{} {}", explained.tool, explained.input)];
    lines.extend(explained.repairs.iter().map(|repair| format!("  repaired: {repair}")));
    if explained.accesses.is_empty() {
        lines.push("  no accesses".to_owned());
    }
    lines.extend(explained.accesses.iter().map(|access| format!("  would {access}")));
    let decision = &explained.decision;
    lines.push(format!("  decision: {} ({})", decision.action, decision.reason));
    lines.push(format!("  to change that: {}", decision.change));
    terminal.print(&lines.join("\n"))
}

/// Prints a value as JSON: pretty on a terminal, on one line for programs.
pub(crate) fn json(terminal: &Terminal, value: &impl Serialize) -> io::Result<()> {
    let text = if terminal.shows_results() {
        serde_json::to_string_pretty(value)
    } else {
        serde_json::to_string(value)
    };
    terminal.print(&text?)
}

/// Reports a command that ended without an outcome.
pub(crate) fn stop(terminal: &Terminal, format: Format, command: &str, stop: Stop) -> ExitCode {
    match stop {
        Stop::Failed(error) => failed(terminal, format, command, &error),
        Stop::Clap(error) => clap(terminal, format, command, &error),
        // The reader closed the pipe, as in `haft tools | head`. That is a success.
        Stop::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Stop::Output(error) => {
            failure(
                terminal,
                &format!("cannot write to standard output: {error}"),
                "free space there, or redirect the output elsewhere",
            );
            ExitCode::FAILURE
        }
    }
}

fn failed(terminal: &Terminal, format: Format, command: &str, error: &ToolError) -> ExitCode {
    match format {
        Format::Text => failure(terminal, error.message(), error.next_step()),
        Format::Json => {
            if let Err(output) = json(terminal, &Outcome::failed(command, error)) {
                return stop(terminal, Format::Text, command, Stop::Output(output));
            }
        }
    }
    ExitCode::from(error.kind().exit_code())
}

fn clap(terminal: &Terminal, format: Format, command: &str, error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return match terminal.print_help(error) {
            Ok(()) => ExitCode::SUCCESS,
            Err(output) => stop(terminal, format, command, Stop::Output(output)),
        };
    }
    if format == Format::Json {
        // The first paragraph is the error. Usage and tips follow; the help page has them too.
        let text = error.render().to_string();
        let message = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        let error = ToolError::input(message).hint(match command {
            "" => "see `haft --help`".to_owned(),
            command => format!("see `haft {command} --help`"),
        });
        return failed(terminal, format, command, &error);
    }
    terminal.complain(error);
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

fn failure(terminal: &Terminal, message: &str, hint: &str) {
    terminal.tell(Label::Error, message);
    terminal.advise(hint);
}
