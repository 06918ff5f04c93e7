//! `haft policy check`: lists problems of the rules, each with its position and a fix.

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

/// Exit code when there are findings, as for other invalid input.
const FINDINGS_EXIT_CODE: u8 = 2;

pub(super) fn command() -> Command {
    Command::new("check")
        .about("Check the rules for errors, unused rules, unknown tools and rules that are too \
            wide")
        .long_about(
            "Check the rules for errors, unused rules, unknown tools and rules that are too wide.\n\n\
             Without FILE, all active config files are checked together with the saved rules. A \
             given file is checked alone: as an admin's if its name is admin.toml, as a project's \
             if it is .haft/config.toml, else as yours. The exit code is 0 without findings, else \
             2.",
        )
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .num_args(0..)
                .value_parser(value_parser!(PathBuf))
                .help("Config files to check [default: the active ones]"),
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
        let specs = self.specs(&reference::placeholders());
        let found: Vec<Finding> =
            all.iter().flat_map(|(checked, saved)| findings(checked, saved, &specs)).collect();
        let files: Vec<&PathBuf> = all.iter().flat_map(|(checked, _)| &checked.files).collect();
        match globals.format {
            Format::Json => {
                report::json(self.terminal, &json!({"files": files, "findings": found}))?;
            }
            Format::Text => write_out(&text(self.terminal, &files, &found))?,
        }
        Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FINDINGS_EXIT_CODE) })
    }

    /// Returns the saved rules. They can be read only if the config files are valid.
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
    let errors = checked.errors.iter().map(unreadable);
    let rules = checked.settings.iter().flat_map(|settings| settings.policy.findings(&known));
    errors.chain(rules).collect()
}

/// Converts an error of a config file. Its message starts with the position.
fn unreadable(error: &ToolError) -> Finding {
    let (position, message) = error.message().split_once(": ").unwrap_or(("", error.message()));
    Finding {
        source: Source::named(position),
        kind: FindingKind::Unreadable,
        message: message.to_owned(),
        hint: error.next_step().to_owned(),
    }
}

fn text(terminal: &Terminal, files: &[&PathBuf], found: &[Finding]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for Finding { source, kind, message, hint } in found {
        let tone = match kind {
            FindingKind::Unreadable | FindingKind::Unknown => Tone::Bad,
            _ => Tone::Warning,
        };
        let position = terminal.result_toned(tone, &safe(terminal, &source.to_string()));
        lines.push(format!("{position}: {}", safe(terminal, message)));
        let next = terminal.result_toned(Tone::Strong, "next:");
        lines.push(format!("  {next} {}", safe(terminal, hint)));
    }
    let n_files = match files.len() {
        0 => "no config file found".to_owned(),
        1 => "1 config file checked".to_owned(),
        number => format!("{number} config files checked"),
    };
    lines.push(match found.len() {
        0 => format!("{n_files}, no findings"),
        1 => format!("{n_files}, 1 finding"),
        number => format!("{n_files}, {number} findings"),
    });
    lines.join("\n") + "\n"
}
