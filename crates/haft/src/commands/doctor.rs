//! `haft doctor`: what this machine can hold commands with, found out by trying.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::Command;
use haft::host::{Host, config::Settings, environment};
use haft_core::{
    ErrorKind, Shell, ToolError,
    commands::{Confinement, KillReason, Process, Program, Stream},
};
use haft_exec::{ProbeResult, ProcessSettings, Workspace};
use serde_json::{Value, json};

use crate::{
    environment::Environment,
    globals::Format,
    stop::Stop,
    terminal::{Terminal, Tone, write_out},
};

pub(super) fn command() -> Command {
    Command::new("doctor")
        .about("Test which sandbox backends work on this machine, and say what to install")
        .long_about(
            "Try what this machine can fence commands in with, and say what to install.\n\n\
             Each mechanism is used for real: a program is started behind it that must fail at what is forbidden and \
             succeed at what is not. At last a command is run in this workspace with your environment. The exit code is 0 when that works and \
             commands are fenced in as the config asks for, else 1.",
        )
}

/// Time for one command that does nothing.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a command as the `bash` tool would, in this workspace and with this environment: each mechanism can work by itself and
/// a folder of PATH still keep every command from starting. None where commands run in containers, which have an
/// environment of their own.
pub(super) async fn try_command(host: &Host) -> Option<ProbeResult> {
    if matches!(host.settings().sandbox, ProcessSettings::Container(_)) {
        return None;
    }
    let shell = Shell::unchecked(host.executor());
    let mut launch = shell.launch(Program::Shell("true".to_owned()), Path::new("."));
    launch.confinement = Confinement { network: false, writes: true };
    let tried = match shell.start(launch) {
        Ok(process) => ended(&*process).await,
        Err(error) => Err(error),
    };
    let (works, detail, advice) = match tried {
        Ok(()) => (true, "a command runs in this workspace with your PATH".to_owned(), None),
        Err(error) => {
            let detail = format!("no command runs here: {}", error.message());
            (false, detail, Some(error.next_step().to_owned()))
        }
    };
    Some(ProbeResult { mechanism: "commands", works, detail, advice })
}

async fn ended(process: &dyn Process) -> Result<(), ToolError> {
    let mut changes = process.changes();
    let end =
        async { while !process.status().state.is_over() && changes.changed().await.is_ok() {} };
    if tokio::time::timeout(TRIAL_TIMEOUT, end).await.is_err() {
        process.kill(KillReason::ByTimeout).await;
        let message = format!("`true` did not end within {} s", TRIAL_TIMEOUT.as_secs());
        return Err(ToolError::new(ErrorKind::Timeout, message));
    }
    if process.status().exit_code == Some(0) {
        return Ok(());
    }
    let output = process.output(Stream::Out, 0, 400)?.bytes;
    let output = String::from_utf8_lossy(&output);
    let message = format!("`true` failed: {}", output.lines().next_back().unwrap_or("no output"));
    Err(ToolError::failed(message).hint("run `haft bash true` to see what keeps it from running"))
}

/// Prints the verdicts, and what commands see of the home.
pub(super) fn run(
    terminal: &Terminal,
    format: Format,
    workspace: &Arc<Workspace>,
    (settings, environment): (&Settings, &Environment),
    tried: Option<ProbeResult>,
) -> Result<ExitCode, Stop> {
    let wanted = &settings.sandbox;
    let mut verdicts = haft_exec::verdicts(workspace);
    let variables = environment::all();
    let container = &settings.container;
    let temporary = &environment.host.temporary;
    let container = haft_exec::container_verdict(container, &variables, temporary);
    let is_fenced = match wanted {
        ProcessSettings::Container(_) => container.works,
        others => others.works(),
    };
    verdicts.push(container);
    let runs = tried.as_ref().is_none_or(|tried| tried.works);
    verdicts.extend(tried);
    let places = haft_exec::shown_places(workspace, &settings.shown, variables)?;
    let text = match format {
        Format::Text => {
            let verdicts = text(terminal, &verdicts, wanted, (is_fenced, runs));
            verdicts + &shown(&places, wanted, environment.host.home.as_deref())
        }
        Format::Json => format!("{}\n", as_json(&verdicts, wanted, is_fenced, &places)),
    };
    write_out(&text).map_err(Stop::Output)?;
    let is_well = runs && (is_fenced || *wanted == ProcessSettings::Nothing);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What sandboxed commands see of the home, and how to show them more.
fn shown(places: &[(PathBuf, bool)], wanted: &ProcessSettings, home: Option<&Path>) -> String {
    if matches!(wanted, ProcessSettings::Nothing | ProcessSettings::Container(_)) {
        return String::new();
    }
    let name = |path: &Path| match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    };
    let names = |writable: bool| -> String {
        let of_sort = places.iter().filter(|(_, is_writable)| *is_writable == writable);
        let names: Vec<String> = of_sort.map(|(path, _)| name(path)).collect();
        if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
    };
    format!(
        "\nOutside the workspace and the system, commands read {}; they write {}. Secret and denied files stay hidden.\n\
         To show a folder, put `read = [\"~/folder\"]` or `write = [\"~/folder\"]` under [sandbox] in your config; \
         `home = \"all\"` shows the whole home.\n",
        names(false),
        names(true),
    )
}

fn text(
    terminal: &Terminal,
    verdicts: &[ProbeResult],
    wanted: &ProcessSettings,
    (is_fenced, runs): (bool, bool),
) -> String {
    let mut lines: Vec<String> = Vec::new();
    for ProbeResult { mechanism, works, detail, advice } in verdicts {
        let (tone, word) = if *works { (Tone::Good, "works") } else { (Tone::Bad, "does not") };
        lines.push(format!("{mechanism:<12} {}  {detail}", terminal.result_toned(tone, word)));
        lines.extend(advice.iter().map(|advice| format!("{:<12} next: {advice}", "")));
    }
    let summary = match (wanted, is_fenced) {
        _ if !runs => "No command runs here: a trial with your environment failed.",
        (ProcessSettings::Nothing, _) => {
            "Commands run without a fence, as the config asks for (sandbox = \"off\")."
        }
        (ProcessSettings::Container(_), true) => "Commands run in containers.",
        (_, true) => "Commands run fenced in.",
        (ProcessSettings::Auto, false) => {
            "Commands run without a fence, and are asked about unless --approve is `all`."
        }
        (ProcessSettings::Container(_), false) => {
            "No command runs: the config asks for containers, and none could be made."
        }
        (_, false) => {
            "No command runs: the config asks for a sandbox that this machine does not have."
        }
    };
    format!("{}\n\n{summary}\n", lines.join("\n"))
}

fn as_json(
    verdicts: &[ProbeResult],
    wanted: &ProcessSettings,
    is_fenced: bool,
    places: &[(PathBuf, bool)],
) -> Value {
    let verdicts: Vec<Value> = verdicts
        .iter()
        .map(|ProbeResult { mechanism, works, detail, advice }| {
            json!({"mechanism": mechanism, "works": works, "detail": detail, "advice": advice})
        })
        .collect();
    let wanted = match wanted {
        ProcessSettings::Container(_) => "container".to_owned(),
        others => format!("{others:?}").to_lowercase(),
    };
    let shown: Vec<Value> = places
        .iter()
        .map(|(path, is_writable)| json!({"path": path, "writable": is_writable}))
        .collect();
    json!({"verdicts": verdicts, "wanted": wanted, "fenced": is_fenced, "shown": shown})
}
