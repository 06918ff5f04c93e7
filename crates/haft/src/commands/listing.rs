//! `haft tools`: the tools as others are told of them.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use haft_core::{Policy, ToolError, ToolSpec};

use super::{Bench, taken};
use crate::{
    config::Settings,
    globals::{self, Globals},
    reference, report,
    stop::Stop,
};

pub(super) fn command() -> Command {
    let format = Arg::new("format").long("format").value_name("FORMAT").default_value("json");
    Command::new("tools").about("List the tools with their schemas").arg(
        format.value_parser(["json", "markdown"]).help("json, or markdown for a reference page"),
    )
}

impl Bench<'_> {
    /// `haft tools`
    pub(super) fn tools(&self, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let globals = Globals::of(matches);
        if matches.get_one::<String>("format").is_some_and(|format| format == "markdown") {
            // The page is the same for everybody: no file of this machine has a say in it.
            let specs = self.specs(&reference::anywhere());
            let shown = visible(specs, &Policy::default(), &globals, globals.profile.as_deref())?;
            self.terminal.print(&reference::page(&shown, &taken(&globals::options())))?;
        } else {
            let settings = Settings::load(&globals, self.environment)?;
            self.warn(&settings);
            let specs = self.specs(&settings.surroundings());
            let shown = visible(specs, &settings.policy, &globals, settings.profile.as_deref())?;
            report::json(self.terminal, &shown)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The tools that this caller is shown.
fn visible(
    mut specs: Vec<ToolSpec>,
    policy: &Policy,
    globals: &Globals,
    profile: Option<&str>,
) -> Result<Vec<ToolSpec>, ToolError> {
    if let Some(profile) = profile {
        policy.profiles.get(profile)?;
    }
    let agents: Vec<String> = globals.agent.iter().cloned().collect();
    specs.retain(|spec| policy.shows(&spec.name, &agents, profile));
    Ok(specs)
}
