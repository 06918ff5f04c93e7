//! `haft doctor`: tests which sandbox backends work on this machine.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use clap::Command;
use haft::host::{config::Settings, environment};
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
             allowed ones. The exit code is 0 when the configured sandbox works, else 1.",
        )
}

/// Prints the results, and the folders of the home directory that commands can access.
pub(super) fn run(
    terminal: &Terminal,
    format: Format,
    workspace: &Arc<Workspace>,
    (settings, environment): (&Settings, &CliEnvironment),
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
    let places = haft_exec::shown_places(workspace, &settings.shown, variables)?;
    let text = match format {
        Format::Text => {
            let verdicts = text(terminal, &verdicts, wanted, is_sandboxed);
            verdicts + &shown(&places, wanted, environment.host.home.as_deref())
        }
        Format::Json => format!("{}\n", as_json(&verdicts, wanted, is_sandboxed, &places)),
    };
    write_out(&text).map_err(Stop::Output)?;
    let is_ok = is_sandboxed || *wanted == ProcessSettings::Nothing;
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
    is_sandboxed: bool,
) -> String {
    let mut lines: Vec<String> = Vec::new();
    for ProbeResult { mechanism, works, detail, advice } in verdicts {
        let (tone, word) = if *works { (Tone::Good, "works") } else { (Tone::Bad, "fails") };
        lines.push(format!("{mechanism:<12} {}  {detail}", terminal.result_toned(tone, word)));
        lines.extend(advice.iter().map(|advice| format!("{:<12} next: {advice}", "")));
    }
    let summary = match (wanted, is_sandboxed) {
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
