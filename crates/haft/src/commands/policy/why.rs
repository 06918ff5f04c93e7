//! `haft policy why`: shows how a call would be decided, for which agent, by which rule or mode,
//! and what would change the decision.

use std::{ffi::OsString, process::ExitCode, sync::Arc};

use clap::{Arg, Command};
use haft::host::config::Settings;
use haft_core::{
    Explanation, Gate, Input, Schema, Tool,
    policy::{AccessDecision, Action, EffectiveMode, Reason},
};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    super::{Cli, call_command, named_call, request, root, taken, tool_command, with_program},
    coloured, safe,
};
use crate::{
    globals::{Format, Globals, plain_words},
    report, stdin,
    stop::Stop,
    terminal::{Terminal, Tone, write_out},
    tool_command::ToolCommand,
};

pub(super) fn command() -> Command {
    bare().arg(Arg::new("tool").value_name("TOOL").required(true).help("Name of the tool")).arg(
        Arg::new("arguments")
            .value_name("ARGUMENTS")
            .num_args(0..)
            .trailing_var_arg(true)
            .allow_hyphen_values(true)
            .help("Arguments of the tool as after `haft TOOL`, or one JSON object"),
    )
}

fn bare() -> Command {
    Command::new("why")
        .about("Show how a call would be decided, and why, without running it")
        .long_about(
            "Show how a call would be decided, and why, without running it.\n\n\
             Insert `policy why` into the command: `haft policy why bash 'git push origin main'`, \
             or `haft policy why call edit -` with JSON on standard input. The output names the \
             rule with file and line, or the mode; the decision for each command, file and \
             address; the smallest change that would alter the decision; and the rules that an \
             approver could save. The exit code is 0 for every decision.",
        )
}

/// The output of `--json`.
#[derive(Serialize)]
struct WhyReport<'a> {
    #[serde(flatten)]
    explanation: &'a Explanation,
    mode: EffectiveMode,
}

impl Cli<'_> {
    /// `haft policy why TOOL …`. `place` is the index of the tool's name.
    pub(super) fn why(
        &self,
        options: Vec<Arg>,
        (arguments, place): (&[OsString], usize),
        word: &str,
    ) -> Result<ExitCode, Stop> {
        let known = if word == "call" { None } else { self.find(word) };
        let whole = known.as_deref().and_then(|tool| {
            let rest = arguments.get(place + 1..).unwrap_or_default();
            as_json(rest, &options, &tool.spec().input)
        });
        let (globals, settings, tool, input) = match (known, whole) {
            (Some(tool), Some(input)) => {
                self.why_json(options, (arguments, place), &*tool, input)?
            }
            (Some(tool), None) => self.why_options(options, arguments, &*tool)?,
            (None, _) if word == "call" => self.why_named(options, arguments)?,
            (None, _) => return Err(self.unknown(word).into()),
        };
        self.warn(&settings);
        let request = request(&globals, &settings, &tool, input);
        let gate = self.gate(settings, Arc::new(self.prompt()))?;
        let explained = self.runtime.block_on(gate.explain(request))?;
        self.answer(&gate, &globals, &explained)?;
        Ok(ExitCode::SUCCESS)
    }

    fn why_options(&self, options: Vec<Arg>, arguments: &[OsString], tool: &dyn Tool) -> WhyCall {
        let spec = tool.spec();
        let form = ToolCommand::of(&spec.input, &taken(&options));
        let why = bare().subcommand(tool_command(spec, &form));
        let matches = innermost(options, why, arguments)?;
        let globals = Globals::of(&matches);
        let settings = self.settings(&globals)?;
        let max_bytes = settings.limits.input_bytes;
        let typed = form.input(&matches, || stdin::read_text(max_bytes))?;
        let input = whole_input(&typed, &spec.input).map_or(typed, Value::Object);
        Ok((globals, settings, tool.name().to_owned(), Input::Value(input)))
    }

    fn why_json(
        &self,
        options: Vec<Arg>,
        (arguments, place): (&[OsString], usize),
        tool: &dyn Tool,
        input: Map<String, Value>,
    ) -> WhyCall {
        // The JSON object is parsed already. Parse the remaining global options.
        let without = |(index, word): (usize, &OsString)| {
            let is_object =
                index > place && word.to_str().is_some_and(|word| word.starts_with('{'));
            (!is_object).then(|| word.clone())
        };
        let left: Vec<OsString> = arguments.iter().enumerate().filter_map(without).collect();
        // Use the name as it was typed, in either spelling.
        let typed = arguments.get(place).map(|word| word.to_string_lossy().into_owned());
        let named = Command::new(typed.unwrap_or_default());
        let matches = innermost(options, bare().subcommand(named), &left)?;
        let globals = Globals::of(&matches);
        let settings = self.settings(&globals)?;
        Ok((globals, settings, tool.name().to_owned(), Input::Value(Value::Object(input))))
    }

    fn why_named(&self, options: Vec<Arg>, arguments: &[OsString]) -> WhyCall {
        let matches = innermost(options, bare().subcommand(call_command()), arguments)?;
        let globals = Globals::of(&matches);
        let settings = self.settings(&globals)?;
        let (name, input) = named_call(&matches, &settings)?;
        Ok((globals, settings, name.to_owned(), input))
    }

    fn answer(&self, gate: &Gate, globals: &Globals, explained: &Explanation) -> Result<(), Stop> {
        let agent = explained.decision.agent.as_deref().or(globals.choices.agent.as_deref());
        let mode = gate.policy().effective_mode(agent);
        match globals.format {
            Format::Json => {
                report::json(self.terminal, &WhyReport { explanation: explained, mode })?;
            }
            Format::Text => write_out(&text(self.terminal, explained, &mode))?,
        }
        Ok(())
    }
}

type WhyCall = Result<(Globals, Settings, String, Input), Stop>;

/// Returns the matches of `haft policy why TOOL`.
fn innermost(
    options: Vec<Arg>,
    why: Command,
    arguments: &[OsString],
) -> Result<clap::ArgMatches, clap::Error> {
    let command = root(options).subcommand(Command::new("policy").subcommand(why));
    let mut matches = command.try_get_matches_from(with_program(arguments))?;
    while let Some((_, inner)) = matches.subcommand() {
        matches = inner.clone();
    }
    Ok(matches)
}

/// Returns the single argument after the tool if it is the input as JSON: an object with only
/// fields of the tool.
fn as_json(rest: &[OsString], options: &[Arg], schema: &Schema) -> Option<Map<String, Value>> {
    let words: Vec<_> = plain_words(rest, options).collect();
    match words[..] {
        [(_, only)] => object(only.to_str()?, schema),
        _ => None,
    }
}

/// Does the same for a text from standard input that went into the only field.
fn whole_input(typed: &Value, schema: &Schema) -> Option<Map<String, Value>> {
    let fields = typed.as_object().filter(|fields| fields.len() == 1)?;
    object(fields.values().next()?.as_str()?, schema)
}

fn object(text: &str, schema: &Schema) -> Option<Map<String, Value>> {
    let object = serde_json::from_str::<Map<String, Value>>(text).ok()?;
    let is_field = |name: &str| schema.properties().any(|(known, _)| known == name);
    (!object.is_empty() && object.keys().all(|name| is_field(name))).then_some(object)
}

fn text(terminal: &Terminal, explained: &Explanation, mode: &EffectiveMode) -> String {
    let Explanation { tool, input, decision, .. } = explained;
    let strong = |text: &str| terminal.result_toned(Tone::Strong, text);
    let call = safe(terminal, &format!("{tool} {input}"));
    let mut lines = vec![format!("{} {}", coloured(terminal, decision.action), strong(&call))];
    let mut row = |name: &str, text: &str| {
        lines.push(format!("  {name:<9}{}", safe(terminal, text)));
    };
    for repair in &explained.repairs {
        row("repaired", repair);
    }
    row("for", &describe_caller(explained, mode));
    row("because", &decision.reason.to_string());
    row("change", &decision.change);
    for power in &explained.withheld {
        row("without", &format!("{power}, which a rule denies and the tool does not require"));
    }
    lines.push("\naccesses".to_owned());
    if explained.verdicts.is_empty() {
        lines.push("  none".to_owned());
    }
    lines.extend(explained.verdicts.iter().map(|verdict| access_line(terminal, verdict)));
    if decision.action == Action::Ask {
        lines.extend(offer_lines(terminal, explained));
    }
    lines.join("\n") + "\n"
}

/// Describes the user or agent that makes the call, with mode and profile.
fn describe_caller(explained: &Explanation, mode: &EffectiveMode) -> String {
    let caller = match explained.agents.as_slice() {
        [] => "you".to_owned(),
        agents => format!("agent {}", agents.join(" > ")),
    };
    let lowered = match mode.asked {
        asked if asked == mode.mode => String::new(),
        asked => format!(", which lowers `{asked}`"),
    };
    let profile = explained.profile.as_deref();
    let profile = profile.map_or(String::new(), |name| format!(", profile `{name}`"));
    format!("{caller}, mode `{}` ({}{lowered}){profile}", mode.mode, mode.by)
}

fn access_line(terminal: &Terminal, verdict: &AccessDecision) -> String {
    let AccessDecision { access, decision } = verdict;
    let why = match &decision.reason {
        // The line already has the access.
        Reason::Mode { mode, .. } => format!("mode `{mode}`"),
        Reason::Secret { glob, source, .. } => format!("`{glob}` is a secret path ({source})"),
        other => other.to_string(),
    };
    let why = terminal.result_toned(Tone::Faint, &safe(terminal, &why));
    let access = safe(terminal, &access.to_string());
    format!("  {} {access}  {why}", coloured(terminal, decision.action))
}

fn offer_lines(terminal: &Terminal, explained: &Explanation) -> Vec<String> {
    if explained.offers.is_empty() {
        let why = match explained.decision.reason {
            Reason::Rule(_) => "a rule in a config file asks, and saved rules cannot override it",
            _ => "a part of this call can only be approved once",
        };
        return vec![format!("\nno rule can be saved: {why}")];
    }
    let heading = "\nrules that an approver could save, each line is sufficient".to_owned();
    let sets =
        explained.offers.iter().map(|rules| format!("  {}", safe(terminal, &rules.join("  "))));
    [heading].into_iter().chain(sets).collect()
}
