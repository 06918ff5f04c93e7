//! `haft doctor`: tests which sandbox backends work on this machine.

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
    environment::CliEnvironment,
    globals::Format,
    stop::Stop,
    terminal::{Terminal, Tone, write_out},
};

pub(super) fn command() -> Command {
    Command::new("doctor")
        .about("Test which sandbox backends work on this machine, and say what to install")
        .long_about(
            "Test the sandbox backends on this machine, and suggest what to install.\n\n\
             Each backend runs a test program that must fail at forbidden accesses and succeed at \
             allowed ones. Then a command runs in this workspace with your environment. The exit \
             code is 0 when that works in the configured sandbox, else 1.",
        )
}

/// Maximum time for a command that does nothing.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a command as the `bash` tool does, in this workspace and with this environment: each
/// backend can work, and still a folder on PATH can prevent every command from starting. Returns
/// none where commands run in containers, which have a separate environment.
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

/// Prints the results, and the folders of the home directory that commands can access.
pub(super) fn run(
    terminal: &Terminal,
    format: Format,
    workspace: &Arc<Workspace>,
    (settings, environment): (&Settings, &CliEnvironment),
    tried: Option<ProbeResult>,
) -> Result<ExitCode, Stop> {
    let wanted = &settings.sandbox;
    let mut verdicts = haft_exec::verdicts(workspace);
    let variables = environment::all();
    let container = &settings.container;
    let temporary = &environment.host.temporary;
    let container = haft_exec::container_verdict(container, &variables, temporary);
    let is_sandboxed = match wanted {
        ProcessSettings::Container(_) => container.works,
        others => others.works(),
    };
    verdicts.push(container);
    let runs = tried.as_ref().is_none_or(|tried| tried.works);
    verdicts.extend(tried);
    let places = haft_exec::shown_places(workspace, &settings.shown, variables)?;
    let text = match format {
        Format::Text => {
            let verdicts = text(terminal, &verdicts, wanted, (is_sandboxed, runs));
            verdicts + &shown(&places, wanted, environment.host.home.as_deref())
        }
        Format::Json => format!("{}\n", as_json(&verdicts, wanted, is_sandboxed, &places)),
    };
    write_out(&text).map_err(Stop::Output)?;
    let is_ok = runs && (is_sandboxed || *wanted == ProcessSettings::Nothing);
    Ok(if is_ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the text on folders that sandboxed commands can access, and how to add more.
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
        let matching = places.iter().filter(|(_, is_writable)| *is_writable == writable);
        let names: Vec<String> = matching.map(|(path, _)| name(path)).collect();
        if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
    };
    format!(
        "\nOutside the workspace and the system's folders, commands can read {}; they can write {}. Secret and \
         denied files stay hidden.\n\
         To add a folder, put `read = [\"~/folder\"]` or `write = [\"~/folder\"]` under [sandbox] in your \
         config; `home = \"all\"` adds the whole home.\n",
        names(false),
        names(true),
    )
}

fn text(
    terminal: &Terminal,
    verdicts: &[ProbeResult],
    wanted: &ProcessSettings,
    (is_sandboxed, runs): (bool, bool),
) -> String {
    let mut lines: Vec<String> = Vec::new();
    for ProbeResult { mechanism, works, detail, advice } in verdicts {
        let (tone, word) = if *works { (Tone::Good, "works") } else { (Tone::Bad, "fails") };
        lines.push(format!("{mechanism:<12} {}  {detail}", terminal.result_toned(tone, word)));
        lines.extend(advice.iter().map(|advice| format!("{:<12} next: {advice}", "")));
    }
    let summary = match (wanted, is_sandboxed) {
        _ if !runs => "No command runs here: a trial with your environment failed.",
        (ProcessSettings::Nothing, _) => {
            "Commands run without a sandbox, as configured (sandbox = \"off\")."
        }
        (ProcessSettings::Container(_), true) => "Commands run in containers.",
        (_, true) => "Commands run in a sandbox.",
        (ProcessSettings::Auto, false) => {
            "Commands run without a sandbox, and need approval unless --approve is `all`."
        }
        (ProcessSettings::Container(_), false) => {
            "No command runs: the config requires containers, but none could be started."
        }
        (_, false) => {
            "No command runs: the config requires a sandbox that does not work on this machine."
        }
    };
    format!("{}\n\n{summary}\n", lines.join("\n"))
}

fn as_json(
    verdicts: &[ProbeResult],
    wanted: &ProcessSettings,
    is_sandboxed: bool,
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
    json!({"verdicts": verdicts, "wanted": wanted, "fenced": is_sandboxed, "shown": shown})
}
