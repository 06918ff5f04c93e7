//! `haft tools`: the tools as others are told of them.

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, builder::PossibleValuesParser};
use haft::host::config::Settings;
use haft_agent::formats::{FormatOptions, ModelFormat, ToolDefinition, definitions};
use haft_core::{AgentView, Policy, ToolError, ToolSpec};

use super::{Cli, taken};
use crate::{
    globals::{self, Globals},
    reference, report,
    stop::Stop,
    terminal::Label,
};

pub(super) fn command() -> Command {
    let models = ModelFormat::ALL.iter().map(|format| format.name());
    let names: Vec<&str> = ["json", "markdown"].into_iter().chain(models).collect();
    Command::new("tools")
        .about("List the tools with their schemas")
        .arg(
            Arg::new("format")
                .long("format")
                .value_name("FORMAT")
                .default_value("json")
                .value_parser(PossibleValuesParser::new(names))
                .help(
                    "json, markdown for a reference page, or what a model API wants as its tools",
                ),
        )
        .arg(
            Arg::new("strict")
                .long("strict")
                .action(ArgAction::SetTrue)
                .help("Have the API bind its model to the schemas, where both can"),
        )
}

impl Cli<'_> {
    /// `haft tools`
    pub(super) fn tools(&self, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let globals = Globals::of(matches);
        let name = matches.get_one::<String>("format").map_or("json", String::as_str);
        let format = name.parse::<ModelFormat>().ok();
        let is_strict = matches.get_flag("strict");
        if is_strict && !format.is_some_and(ModelFormat::knows_strict) {
            return Err(not_strict(name).into());
        }
        match format {
            Some(format) => self.tools_for(format, is_strict, &globals)?,
            None if name == "markdown" => {
                // The page is the same for everybody: no file of this machine has a say in it.
                let (specs, profile) =
                    (self.specs(&reference::anywhere()), globals.choices.profile.as_deref());
                let mut policy = Policy::default();
                self.registry.place_in(&mut policy.profiles);
                let shown = visible(specs, &policy, &globals, profile)?;
                self.terminal.print(&reference::page(&shown, &taken(&globals::options())))?;
            }
            None => {
                let settings = self.settings(&globals)?;
                self.warn(&settings);
                let (specs, profile) =
                    (self.specs(&settings.surroundings()), settings.profile.as_deref());
                let shown = visible(specs, &settings.policy, &globals, profile)?;
                report::json(self.terminal, &shown)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// `haft tools --format anthropic`: what goes into a request as its tools. What the API is not told stands on
    /// standard error.
    fn tools_for(
        &self,
        format: ModelFormat,
        is_strict: bool,
        globals: &Globals,
    ) -> Result<(), Stop> {
        let settings = self.settings(globals)?;
        self.warn(&settings);
        let specs = self.offered(format, &settings, globals)?;
        let tools: Vec<ToolDefinition> = specs.iter().map(ToolDefinition::from).collect();
        let options = if is_strict { FormatOptions::strict() } else { FormatOptions::default() };
        let told = definitions(format, &tools, &options);
        for note in &told.notes {
            self.terminal.tell(Label::Warning, &note.to_string());
        }
        let text = serde_json::to_string_pretty(&told.tools).map_err(std::io::Error::from)?;
        Ok(self.terminal.print(&text)?)
    }

    /// The tools that this caller is shown and that are meant for this provider.
    fn offered(
        &self,
        format: ModelFormat,
        settings: &Settings,
        globals: &Globals,
    ) -> Result<Vec<ToolSpec>, ToolError> {
        let profile = settings.profile.as_deref();
        if let Some(profile) = profile {
            settings.policy.profiles.get(profile)?;
        }
        let agents: Vec<String> = globals.choices.agent.iter().cloned().collect();
        let view = AgentView { policy: &settings.policy, agents: &agents, profile };
        let surroundings = settings.surroundings();
        let offered = self.registry.tools(format.name(), &view, &surroundings);
        let offered = self.runtime.block_on(offered);
        offered.warnings.iter().for_each(|text| self.terminal.tell(Label::Warning, text));
        Ok(offered.specs)
    }
}

fn not_strict(name: &str) -> ToolError {
    let known = ModelFormat::ALL.iter().filter(|format| format.knows_strict());
    let known: Vec<&str> = known.map(|format| format.name()).collect();
    ToolError::input(format!("the format {name} knows no --strict"))
        .hint(format!("leave --strict out, or choose one of {}", known.join(", ")))
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
    let agents: Vec<String> = globals.choices.agent.iter().cloned().collect();
    specs.retain(|spec| policy.shows(&spec.name, &agents, profile));
    Ok(specs)
}
