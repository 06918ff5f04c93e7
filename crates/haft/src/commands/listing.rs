//! `haft tools`: the tools as a table, as definitions for programs and models, and one tool with
//! its flags.

use std::{process::ExitCode, sync::Arc};

use clap::{Arg, ArgAction, ArgMatches, Command, builder::PossibleValuesParser};
use haft::host::config::Settings;
use haft_agent::formats::{FormatOptions, ModelFormat, ToolDefinition, definitions};
use haft_core::{
    AgentView, CallRequest, Context, Gate, Policy, ToolError, ToolSpec, did_you_mean, nearest,
    policy::{Action, PolicyQuery},
};
use serde_json::{Value, json};

use super::{Cli, overview::summary, taken, tool_command};
use crate::{
    globals::{self, Globals},
    reference, report,
    safe_text::{shown, shown_in_line},
    stop::Stop,
    terminal::{Label, Tone, shorten},
    tool_command::ToolCommand,
};

/// A table keeps this many columns for the summary, however narrow the terminal is.
const MIN_SUMMARY_WIDTH: usize = 16;
const HEADS: [&str; 5] = ["tool", "group", "effect", "approval", "summary"];

pub(super) fn command() -> Command {
    let models = ModelFormat::ALL.iter().map(|format| format.name());
    let names: Vec<&str> = ["table", "json", "markdown"].into_iter().chain(models).collect();
    Command::new("tools")
        .about("List the tools, or show one with its flags and an example")
        .long_about(
            "List the tools, or show one with its flags and an example.\n\n\
             The column `approval` shows what policy decides here on the tool's example call: `no` runs without \
             approval, `yes` needs approval, `denied` does not run.",
        )
        .arg(Arg::new("name").value_name("NAME").help("Show only this tool"))
        .arg(
            Arg::new("format")
                .long("format")
                .value_name("FORMAT")
                .value_parser(PossibleValuesParser::new(names))
                .help(
                    "table, json, markdown for a reference page, or the definitions for a model API \
                     [default: table on a terminal, json in a pipe]",
                ),
        )
        .arg(
            Arg::new("strict")
                .long("strict")
                .action(ArgAction::SetTrue)
                .help("Make the API enforce the schemas, where it can"),
        )
}

impl Cli<'_> {
    /// `haft tools`
    pub(super) fn tools(&self, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let globals = Globals::of(matches);
        let is_json = globals.format == globals::Format::Json || !self.terminal.shows_results();
        let default = if is_json { "json" } else { "table" };
        let name = matches.get_one::<String>("format").map_or(default, String::as_str);
        let format = name.parse::<ModelFormat>().ok();
        let is_strict = matches.get_flag("strict");
        if is_strict && !format.is_some_and(ModelFormat::knows_strict) {
            return Err(not_strict(name).into());
        }
        let only = matches.get_one::<String>("name").map(String::as_str);
        match (format, name) {
            (Some(format), _) => self.tools_for(format, is_strict, &globals, only)?,
            (None, "markdown") => {
                // The page is the same on every machine, so no config file is read.
                let (specs, profile) =
                    (self.specs(&reference::placeholders()), globals.choices.profile.as_deref());
                let mut policy = Policy::default();
                self.registry.add_to_profiles(&mut policy.profiles);
                let shown = self.only(visible(specs, &policy, &globals, profile)?, only)?;
                self.terminal.print(&reference::page(&shown, &taken(&globals::options())))?;
            }
            (None, name) => {
                let settings = self.settings(&globals)?;
                self.warn(&settings);
                let (specs, profile) =
                    (self.specs(&settings.workspace_info()), settings.profile.as_deref());
                let shown = visible(specs, &settings.policy, &globals, profile)?;
                let shown = self.only(shown, only)?;
                match (name, only, shown.as_slice()) {
                    ("json", Some(_), [spec]) => report::json(self.terminal, spec)?,
                    ("json", ..) => report::json(self.terminal, &shown)?,
                    (_, Some(_), [spec]) => self.show_tool(spec, settings, &globals)?,
                    _ => self.show_table(&shown, settings, &globals)?,
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The tool of this name, in snake case or kebab case; all of them without a name.
    fn only(&self, specs: Vec<ToolSpec>, name: Option<&str>) -> Result<Vec<ToolSpec>, ToolError> {
        let Some(wanted) = name else { return Ok(specs) };
        let name = wanted.replace('-', "_");
        let found: Vec<ToolSpec> =
            specs.iter().filter(|spec| spec.name == name || spec.name == wanted).cloned().collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let hint = match did_you_mean(&nearest(wanted, specs.iter().map(|spec| &*spec.name))) {
            near if near.is_empty() => "run `haft tools` for a list".to_owned(),
            near => near,
        };
        let message = format!("no tool is called `{}`", shorten(wanted, 80));
        Err(ToolError::not_found(message).hint(hint))
    }

    fn show_table(
        &self,
        specs: &[ToolSpec],
        settings: Settings,
        globals: &Globals,
    ) -> Result<(), Stop> {
        let approvals = self.approvals_of(specs, settings, globals)?;
        let rows: Vec<[String; 5]> = specs
            .iter()
            .zip(approvals)
            .map(|(spec, approval)| {
                let cells = [&*spec.name, &*spec.group, spec.effect.name(), approval];
                let [name, group, effect, approval] =
                    cells.map(|cell| shown_in_line(cell).into_owned());
                let about = shown_in_line(&summary(&spec.description)).into_owned();
                [name, group, effect, approval, about]
            })
            .collect();
        let mut widths = HEADS.map(str::len);
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let [name, group, effect, approval, _] = widths;
        let before = name + group + effect + approval + 8;
        let room = self
            .terminal
            .width()
            .map_or(usize::MAX, |all| all.saturating_sub(before).max(MIN_SUMMARY_WIDTH));
        let line = |cells: [&str; 5], tones: [Option<Tone>; 5]| {
            let mut line = String::new();
            for ((cell, width), tone) in cells.iter().zip(widths).zip(tones).take(4) {
                let padding = " ".repeat(width.saturating_sub(cell.chars().count()) + 2);
                line.push_str(&self.styled(tone, cell));
                line.push_str(&padding);
            }
            line + &self.styled(tones[4], &shorten(cells[4], room))
        };
        let heads = line(HEADS, [Some(Tone::Faint); 5]);
        let body = rows.iter().map(|row| {
            let tone = match row[3].as_str() {
                "yes" => Some(Tone::Warning),
                "denied" => Some(Tone::Bad),
                _ => None,
            };
            line(row.each_ref().map(String::as_str), [Some(Tone::Strong), None, None, tone, None])
        });
        let lines: Vec<String> = [heads].into_iter().chain(body).collect();
        Ok(crate::terminal::write_out(&(lines.join("\n") + "\n"))?)
    }

    fn styled(&self, tone: Option<Tone>, text: &str) -> String {
        tone.map_or_else(|| text.to_owned(), |tone| self.terminal.result_toned(tone, text))
    }

    /// One tool for a person: facts, flags and an example.
    fn show_tool(
        &self,
        spec: &ToolSpec,
        settings: Settings,
        globals: &Globals,
    ) -> Result<(), Stop> {
        let approvals = self.approvals_of(std::slice::from_ref(spec), settings, globals)?;
        let form = ToolCommand::of(&spec.input, &taken(&globals::options()));
        let mut command = tool_command(spec, &form).disable_help_flag(true);
        if let Some(example) = reference::example(spec, &form) {
            command = command.after_long_help(format!("Example:\n  {example}"));
        }
        command = command.bin_name(format!("haft {}", spec.name));
        let help = command.render_long_help().ansi().to_string();
        let approval = approvals.first().copied().unwrap_or_default();
        let facts = format!(
            "{}: {}\ngroup: {}   effect: {}   needs approval here: {approval}\n\n",
            spec.name, spec.title, spec.group, spec.effect
        );
        Ok(self.terminal.print_page(&format!("{}{help}", shown(&facts)))?)
    }

    /// Decides for each tool whether its example call would need approval in this workspace.
    fn approvals_of(
        &self,
        specs: &[ToolSpec],
        settings: Settings,
        globals: &Globals,
    ) -> Result<Vec<&'static str>, ToolError> {
        let profile = settings.profile.clone();
        let gate = self.gate(settings, Arc::new(self.prompt()))?;
        let decide = |spec: &ToolSpec| {
            let mut context = Context::new("cli");
            context.agents = globals.choices.agent.iter().cloned().collect();
            context.profile.clone_from(&profile);
            self.approval_of(&gate, spec, context)
        };
        Ok(specs.iter().map(decide).collect())
    }

    fn approval_of(&self, gate: &Gate, spec: &ToolSpec, context: Context) -> &'static str {
        let examples = spec.input.as_value().get("examples").and_then(Value::as_array);
        let example = examples.and_then(|all| all.first()).cloned().unwrap_or_else(|| json!({}));
        let (agents, profile) = (context.agents.clone(), context.profile.clone());
        let request = CallRequest::new(spec.name.to_string(), example, context);
        let explained = self.runtime.block_on(gate.explain(request));
        let action = explained.map(|explained| explained.decision.action).unwrap_or_else(|_| {
            // The example cannot run here, as `undo` without a change: only the tool's name is
            // known to policy.
            let query = PolicyQuery {
                tool: &spec.name,
                effect: spec.effect,
                accesses: &[],
                agents: &agents,
                profile: profile.as_deref(),
                saved: &[],
            };
            gate.policy().decide(&query).action
        });
        match action {
            Action::Allow => "no",
            Action::Ask => "yes",
            Action::Deny => "denied",
        }
    }

    /// `haft tools --format anthropic`: the tools of a request. Prints to standard error what the
    /// API is not defined.
    fn tools_for(
        &self,
        format: ModelFormat,
        is_strict: bool,
        globals: &Globals,
        only: Option<&str>,
    ) -> Result<(), Stop> {
        let settings = self.settings(globals)?;
        self.warn(&settings);
        let specs = self.only(self.offered(format, &settings, globals)?, only)?;
        let tools: Vec<ToolDefinition> = specs.iter().map(ToolDefinition::from).collect();
        let options = if is_strict { FormatOptions::strict() } else { FormatOptions::default() };
        let defined = definitions(format, &tools, &options);
        for note in &defined.notes {
            self.terminal.tell(Label::Warning, &note.to_string());
        }
        let text = serde_json::to_string_pretty(&defined.tools).map_err(std::io::Error::from)?;
        Ok(self.terminal.print(&text)?)
    }

    /// The tools that this caller may see and that are meant for this provider.
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
        let workspace_info = settings.workspace_info();
        let offered = self.registry.tools(format.name(), &view, &workspace_info);
        let offered = self.runtime.block_on(offered);
        offered.warnings.iter().for_each(|text| self.terminal.tell(Label::Warning, text));
        Ok(offered.specs)
    }
}

fn not_strict(name: &str) -> ToolError {
    let known = ModelFormat::ALL.iter().filter(|format| format.knows_strict());
    let known: Vec<&str> = known.map(|format| format.name()).collect();
    ToolError::input(format!("the format {name} has no strict form"))
        .hint(format!("leave --strict out, or choose one of {}", known.join(", ")))
}

/// The tools that this caller may see.
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
    specs.retain(|spec| policy.is_visible(&spec.name, &agents, profile));
    Ok(specs)
}
