//! `haft doctor`: what this machine can hold commands with, found out by trying.

use std::process::ExitCode;

use clap::Command;
use haft_exec::{Around, ContainerSettings, Verdict, Workspace};
use serde_json::{Value, json};

use crate::{
    environment::{self, Environment},
    globals::Format,
    stop::Stop,
    terminal::{Terminal, Tone, write_out},
};

pub(super) fn command() -> Command {
    Command::new("doctor")
        .about("Try what this machine can fence commands in with, and say what to install")
        .long_about(
            "Try what this machine can fence commands in with, and say what to install.\n\n\
             Each mechanism is used for real: a program is started behind it that must fail at what is forbidden and \
             succeed at what is not. The exit code is 0 when commands are fenced in as the config asks for, else 1.",
        )
}

/// Prints the verdicts.
pub(super) fn run(
    terminal: &Terminal,
    format: Format,
    workspace: &Workspace,
    wanted: &Around,
    (environment, container): (&Environment, &ContainerSettings),
) -> Result<ExitCode, Stop> {
    let mut verdicts = haft_exec::verdicts(workspace);
    let variables = environment::all();
    let container = haft_exec::container_verdict(container, &variables, &environment.temporary);
    let is_fenced = match wanted {
        Around::Container(_) => container.works,
        others => others.works(),
    };
    verdicts.push(container);
    let text = match format {
        Format::Text => text(terminal, &verdicts, wanted, is_fenced),
        Format::Json => format!("{}\n", as_json(&verdicts, wanted, is_fenced)),
    };
    write_out(&text).map_err(Stop::Output)?;
    let is_well = is_fenced || *wanted == Around::Nothing;
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn text(terminal: &Terminal, verdicts: &[Verdict], wanted: &Around, is_fenced: bool) -> String {
    let mut lines: Vec<String> = Vec::new();
    for Verdict { mechanism, works, detail, advice } in verdicts {
        let (tone, word) = if *works { (Tone::Good, "works") } else { (Tone::Bad, "does not") };
        lines.push(format!("{mechanism:<12} {}  {detail}", terminal.result_toned(tone, word)));
        lines.extend(advice.iter().map(|advice| format!("{:<12} next: {advice}", "")));
    }
    let summary = match (wanted, is_fenced) {
        (Around::Nothing, _) => {
            "Commands run without a fence, as the config asks for (sandbox = \"off\")."
        }
        (Around::Container(_), true) => "Commands run in containers.",
        (_, true) => "Commands run fenced in.",
        (Around::Auto, false) => {
            "Commands run without a fence, and are asked about unless --approve is `all`."
        }
        (Around::Container(_), false) => {
            "No command runs: the config asks for containers, and none could be made."
        }
        (_, false) => {
            "No command runs: the config asks for a sandbox that this machine does not have."
        }
    };
    format!("{}\n\n{summary}\n", lines.join("\n"))
}

fn as_json(verdicts: &[Verdict], wanted: &Around, is_fenced: bool) -> Value {
    let verdicts: Vec<Value> = verdicts
        .iter()
        .map(|Verdict { mechanism, works, detail, advice }| {
            json!({"mechanism": mechanism, "works": works, "detail": detail, "advice": advice})
        })
        .collect();
    let wanted = match wanted {
        Around::Container(_) => "container".to_owned(),
        others => format!("{others:?}").to_lowercase(),
    };
    json!({"verdicts": verdicts, "wanted": wanted, "fenced": is_fenced})
}
