//! `haft policy check`: what is wrong with the rules, each with its place and what to do.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use clap::{Arg, ArgMatches, Command, value_parser};
use haft::host::config::{CheckedConfig, Settings};
use haft_core::{
    SavedRule, ToolError, ToolSpec,
    policy::{Finding, FindingKind, KnownNames, Source},
};
use serde_json::json;

use super::{super::Cli, safe};
use crate::{
    globals::{Format, Globals},
    reference, report,
    stop::Stop,
    terminal::{Terminal, Tone, write_out},
};

/// Something is wrong, as with any other input.
const WRONG: u8 = 2;

pub(super) fn command() -> Command {
    Command::new("check")
        .about("Look the rules over: what does not parse, is never heard, fits no tool or is too wide")
        .long_about(
            "Look the rules over: what does not parse, is never heard, fits no tool or is too wide.\n\n\
             Without FILE the files that are in force here are read together, with the saved rules; a named file is \
             read by itself, as an admin's when it is called admin.toml, as a project's when it is .haft/config.toml, \
             else as yours. The exit code is 0 when nothing is found and 2 when something is.",
        )
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .num_args(0..)
                .value_parser(value_parser!(PathBuf))
                .help("Rule files to look at [default: those in force]"),
        )
}

impl Cli<'_> {
    /// `haft policy check [FILE…]`
    pub(super) fn policy_check(&self, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let globals = Globals::of(matches);
        let named: Vec<&PathBuf> = matches.get_many("file").into_iter().flatten().collect();
        let mut all = Vec::new();
        for file in &named {
            all.push((
                Settings::check_file(file, &globals.choices, &self.environment.host)?,
                Vec::new(),
            ));
        }
        if named.is_empty() {
            let checked = Settings::check(&globals.choices, &self.environment.host)?;
            let saved = self.saved_rules(&globals, &checked)?;
            all.push((checked, saved));
        }
        let specs = self.specs(&reference::anywhere());
        let found: Vec<Finding> =
            all.iter().flat_map(|(checked, saved)| findings(checked, saved, &specs)).collect();
        let files: Vec<&PathBuf> = all.iter().flat_map(|(checked, _)| &checked.files).collect();
        match globals.format {
            Format::Json => {
                report::json(self.terminal, &json!({"files": files, "findings": found}))?;
            }
            Format::Text => write_out(&text(self.terminal, &files, &found))?,
        }
        Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(WRONG) })
    }

    /// The saved rules, which are there only where the rest can be read.
    fn saved_rules(
        &self,
        globals: &Globals,
        checked: &CheckedConfig,
    ) -> Result<Vec<SavedRule>, Stop> {
        if !checked.errors.is_empty() {
            return Ok(Vec::new());
        }
        let settings = self.settings(globals)?;
        let gate = self.gate(settings, Arc::new(self.prompt()))?;
        Ok(self.runtime.block_on(gate.saved_rules().list())?)
    }
}

fn findings(checked: &CheckedConfig, saved: &[SavedRule], tools: &[ToolSpec]) -> Vec<Finding> {
    let is_wide: &dyn Fn(&str) -> bool = &haft_shell::is_too_wide;
    let known = KnownNames { tools, saved, is_wide };
    let faults = checked.errors.iter().map(unreadable);
    let rules = checked.settings.iter().flat_map(|settings| settings.policy.findings(&known));
    faults.chain(rules).collect()
}

/// The message of a fault begins with its place.
fn unreadable(fault: &ToolError) -> Finding {
    let (place, message) = fault.message().split_once(": ").unwrap_or(("", fault.message()));
    Finding {
        source: Source::named(place),
        kind: FindingKind::Unreadable,
        message: message.to_owned(),
        hint: fault.next_step().to_owned(),
    }
}

fn text(terminal: &Terminal, files: &[&PathBuf], found: &[Finding]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for Finding { source, kind, message, hint } in found {
        let tone = match kind {
            FindingKind::Unreadable | FindingKind::Unknown => Tone::Bad,
            _ => Tone::Warning,
        };
        let place = terminal.result_toned(tone, &safe(terminal, &source.to_string()));
        lines.push(format!("{place}: {}", safe(terminal, message)));
        let next = terminal.result_toned(Tone::Strong, "next:");
        lines.push(format!("  {next} {}", safe(terminal, hint)));
    }
    let n_files = match files.len() {
        0 => "no rule file is there".to_owned(),
        1 => "1 rule file read".to_owned(),
        number => format!("{number} rule files read"),
    };
    lines.push(match found.len() {
        0 => format!("{n_files}, nothing found"),
        1 => format!("{n_files}, 1 thing to look at"),
        number => format!("{n_files}, {number} things to look at"),
    });
    lines.join("\n") + "\n"
}
