//! `haft replay`: serves the recorded results of a session, lists its calls, or runs its read-only
//! calls again and compares the results.

mod again;

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use haft::host::config::Settings;
use haft_core::ToolError;
use haft_mcp::Server;
use haft_store::{OutcomeStatus, Recording, RecordingCall, StoreLocation};
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use super::{Cli, ledger::table, mcp, no_threads};
use crate::{
    globals::{Format, Globals},
    report,
    safe_text::shown_in_line,
    stop::Stop,
    terminal::Label,
};

/// Longer inputs are truncated in the list; `--json` has the whole.
const MAX_INPUT_CHARS: usize = 60;

const INSTRUCTIONS: &str = "This is a recording: every call returns the result that the same call had in an earlier session. No tool \
    runs. A call that was not recorded returns an error with the nearest recorded one.";

pub(super) fn command() -> Command {
    let choice = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    Command::new("replay")
        .about("Serve the recorded results of a session to MCP clients; nothing runs")
        .long_about(
            "Serve a recorded session over standard input and output, in place of `haft mcp`: a client that makes the \
             same calls gets the same results, byte for byte, and nothing is run, asked or \
             changed. Results of repeated calls come in the recorded order. A call beyond these, \
             or with another input, returns an error that it was not recorded.\n\n\
             Results exist for sessions that were recorded with `haft mcp --keep-results`, or with \
             `results = true` under `[store]` in your config.toml. Each result is verified against \
             the ledger before it is returned.",
        )
        .arg(Arg::new("session").value_name("SESSION").required(true).help(
            "Session id from `haft ledger show`; mcp-… for a client of `haft mcp`",
        ))
        .arg(choice("list", "List the calls of the session, and whether their results are kept"))
        .arg(
            choice("check", "Run the read-only calls again and show which results differ; exits with 1 if any does")
                .conflicts_with("list"),
        )
        .arg(mcp::structured_option())
}

impl Cli<'_> {
    /// `haft replay SESSION`
    pub(super) fn replay(&self, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let globals = Globals::of(matches);
        let settings = Settings::load(&globals.choices, &self.environment.host)?;
        let session = matches.get_one::<String>("session").map_or("", String::as_str);
        let place = StoreLocation::new(settings.store.address.clone());
        let runtime = runtime()?;
        let recording = runtime.block_on(Recording::of_session(place, session))?;
        if matches.get_flag("list") {
            self.warn_about_dropped_calls(&recording);
            return self.list_recording(&recording, globals.format);
        }
        self.warn_about_missing_results(&recording)?;
        if matches.get_flag("check") {
            return self.check_again(settings, &recording, globals.format);
        }
        let host = self.host(settings)?;
        let gate = host.replaying(recording).start_in_place().build();
        let server = Server::builder(gate)
            .named("haft", env!("CARGO_PKG_VERSION"))
            .title("haft, replaying")
            .instructions(INSTRUCTIONS)
            .profile(Some(
                host.settings().profile.clone().unwrap_or_else(|| mcp::PROFILE.to_owned()),
            ))
            .structured(mcp::structured(matches));
        server.build().stdio().map_err(no_threads)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Returns an error for a recording without results, and warns about missing results.
    fn warn_about_missing_results(&self, recording: &Recording) -> Result<(), ToolError> {
        let count = |matches: fn(OutcomeStatus) -> bool| {
            recording.calls().iter().filter(|call| matches(call.outcome_status)).count()
        };
        let session = recording.session();
        self.warn_about_dropped_calls(recording);
        if count(|outcome_status| {
            matches!(outcome_status, OutcomeStatus::Kept(_) | OutcomeStatus::Changed)
        }) == 0
        {
            let dropped = count(|outcome_status| outcome_status == OutcomeStatus::Dropped);
            let (what, hint) = if dropped > 0 {
                (
                    "is left",
                    "raise `max_bytes` or `max_age_days` under `[outputs]` in your config.toml, \
                     then record again",
                )
            } else {
                (
                    "was kept",
                    "set `results = true` under `[store]` in your config.toml, or serve with \
                     `haft mcp --keep-results`, then record again",
                )
            };
            let message = format!("no result of session {session} {what}");
            return Err(ToolError::not_found(message).hint(hint));
        }
        let missing = count(|outcome_status| {
            matches!(outcome_status, OutcomeStatus::Dropped | OutcomeStatus::NotKept)
        });
        if missing > 0 {
            let all = recording.calls().len();
            let message = format!(
                "{missing} of {all} results of session {session} are missing; `haft replay \
                 {session} --list` shows which"
            );
            self.terminal.tell(Label::Warning, &message);
        }
        Ok(())
    }

    /// Warns about calls that retention dropped from the ledger, because the list does not show
    /// them.
    fn warn_about_dropped_calls(&self, recording: &Recording) {
        let (lost, session) = (recording.lost(), recording.session());
        if lost > 0 {
            let calls = if lost == 1 { "call was" } else { "calls were" };
            let message = format!(
                "session {session} is incomplete: {lost} older {calls} dropped from the ledger \
                 (`ledger_days`, `ledger_bytes`)"
            );
            self.terminal.tell(Label::Warning, &message);
        }
    }

    fn list_recording(&self, recording: &Recording, format: Format) -> Result<ExitCode, Stop> {
        let calls = recording.calls();
        match format {
            Format::Json => {
                let calls: Vec<Value> = calls.iter().map(as_json).collect();
                report::json(self.terminal, &calls)?;
            }
            Format::Text => {
                let zone = TimeZone::system();
                let lines: Vec<String> = calls.iter().map(|call| line(call, &zone)).collect();
                self.terminal.print(&lines.join("\n"))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Creates a runtime for reading the recording. It must keep running while another runtime serves,
/// because database connections belong to the runtime that opened them.
fn runtime() -> Result<&'static Runtime, ToolError> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    Ok(Box::leak(Box::new(runtime.map_err(no_threads)?)))
}

fn as_json(call: &RecordingCall) -> Value {
    let RecordingCall { seq, entry, outcome_status } = call;
    let (bytes, word) = result_status(*outcome_status);
    json!({
        "seq": seq, "call_id": entry.call_id, "began_ms": entry.began_ms, "tool": entry.tool, "input": entry.input,
        "error": entry.error, "parent": entry.parent, "result": word, "bytes": bytes,
    })
}

fn line(call: &RecordingCall, zone: &TimeZone) -> String {
    let RecordingCall { seq, entry, outcome_status } = call;
    let time = table::time(entry.began_ms, zone);
    let result = match result_status(*outcome_status) {
        (Some(bytes), word) => format!("{word}, {bytes} bytes"),
        (None, word) => word.to_owned(),
    };
    let error = entry.error.map(|error| format!(" ({error})")).unwrap_or_default();
    format!(
        "{seq:>5}  {time}  {}  {}{error}  [{result}]",
        shown_in_line(&entry.tool),
        short(&entry.input)
    )
}

fn result_status(outcome_status: OutcomeStatus) -> (Option<u64>, &'static str) {
    match outcome_status {
        OutcomeStatus::Kept(bytes) => (Some(bytes), "kept"),
        OutcomeStatus::Dropped => (None, "dropped"),
        OutcomeStatus::NotKept => (None, "not kept"),
        OutcomeStatus::Changed => (None, "changed"),
    }
}

fn short(input: &Value) -> String {
    let text = input.to_string();
    let text = shown_in_line(&text);
    if text.chars().count() <= MAX_INPUT_CHARS {
        return text.into();
    }
    text.chars().take(MAX_INPUT_CHARS - 1).chain(['…']).collect()
}
