//! `haft replay`: a recorded session, served in the place of the tools, listed, or compared with what the same looks give today.

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

/// What is longer is cut in the list: `--json` has the whole.
const SHORT_INPUT: usize = 60;

const INSTRUCTIONS: &str = "A recording: every call is answered with what the same call came to in an earlier session. Nothing is \
    run. A call that was not made then is told so, with the nearest one that was.";

pub(super) fn command() -> Command {
    let choice = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    Command::new("replay")
        .about("Serve the recorded results of a session again, instead of `haft mcp`")
        .long_about(
            "Serve a recorded session over standard input and output, in place of `haft mcp`: a client that makes the same calls \
             gets the same results, byte for byte, and nothing is run, asked or changed. A call that was made several times \
             is answered in the order of then; once more, or with another input, it is told that it was not recorded.\n\n\
             Results are there for sessions that were recorded with `haft mcp --keep-results`, or with `results = true` under \
             `[store]` in your config.toml. Each is proven by the ledger before it is given.",
        )
        .arg(Arg::new("session").value_name("SESSION").required(true).help(
            "The session, as `haft ledger show` names it; mcp-… for a client of `haft mcp`",
        ))
        .arg(choice("list", "Show the calls of the session, and what there is of their results"))
        .arg(
            choice("check", "Make the calls that only looked again, and show which results differ today; exits with 1 then")
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
            self.warn_of_losses(&recording);
            return self.list_recording(&recording, globals.format);
        }
        self.warn_of_gaps(&recording)?;
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

    /// A recording without results is none; one with gaps is told.
    fn warn_of_gaps(&self, recording: &Recording) -> Result<(), ToolError> {
        let count = |is_meant: fn(OutcomeStatus) -> bool| {
            recording.calls().iter().filter(|call| is_meant(call.outcome_status)).count()
        };
        let session = recording.session();
        self.warn_of_losses(recording);
        if count(|outcome_status| {
            matches!(outcome_status, OutcomeStatus::Kept(_) | OutcomeStatus::Changed)
        }) == 0
        {
            let dropped = count(|outcome_status| outcome_status == OutcomeStatus::Dropped);
            let (what, hint) = if dropped > 0 {
                (
                    "is left",
                    "raise `max_bytes` or `max_age_days` under `[outputs]` in your config.toml, and record anew",
                )
            } else {
                (
                    "was kept",
                    "set `results = true` under `[store]` in your config.toml, or serve with `haft mcp --keep-results`, and record anew",
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
                "of {all} results of session {session} {missing} are not there; `haft replay {session} --list` shows which"
            );
            self.terminal.tell(Label::Warning, &message);
        }
        Ok(())
    }

    /// Calls that retention has dropped from the ledger leave no trace in the list of those that are there.
    fn warn_of_losses(&self, recording: &Recording) {
        let (lost, session) = (recording.lost(), recording.session());
        if lost > 0 {
            let calls = if lost == 1 { "call was" } else { "calls were" };
            let message = format!(
                "session {session} is not whole: {lost} older {calls} dropped from the ledger (`ledger_days`, `ledger_bytes`)"
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

/// What reads a recording has to go on while another runtime serves it: connections to a server live in the one that made them.
fn runtime() -> Result<&'static Runtime, ToolError> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    Ok(Box::leak(Box::new(runtime.map_err(no_threads)?)))
}

fn as_json(call: &RecordingCall) -> Value {
    let RecordingCall { seq, entry, outcome_status } = call;
    let (bytes, word) = told(*outcome_status);
    json!({
        "seq": seq, "call_id": entry.call_id, "began_ms": entry.began_ms, "tool": entry.tool, "input": entry.input,
        "error": entry.error, "parent": entry.parent, "result": word, "bytes": bytes,
    })
}

fn line(call: &RecordingCall, zone: &TimeZone) -> String {
    let RecordingCall { seq, entry, outcome_status } = call;
    let time = table::time(entry.began_ms, zone);
    let result = match told(*outcome_status) {
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

fn told(outcome_status: OutcomeStatus) -> (Option<u64>, &'static str) {
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
    if text.chars().count() <= SHORT_INPUT {
        return text.into();
    }
    text.chars().take(SHORT_INPUT - 1).chain(['…']).collect()
}
