//! `haft policy test`: shows how a rule would have decided recorded calls. Nothing is changed.

use std::{collections::BTreeMap, process::ExitCode, sync::Arc};

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, value_parser};
use haft_core::{
    Gate, LedgerEntry, Policy, ToolError,
    policy::{Action, Rule, Source},
};
use serde::Serialize;
use serde_json::Value;

use super::{
    super::{Cli, ledger::since},
    coloured, moment, safe,
};
use crate::{
    globals::{Format, Globals},
    report,
    stop::Stop,
    terminal::{Label, Terminal, Tone, write_out},
};

/// More examples would not convince a reader more.
const MAX_EXAMPLES: usize = 5;
/// Inputs are truncated, because they may be whole files.
const MAX_INPUT_CHARS: usize = 160;

pub(super) fn command() -> Command {
    let says = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    Command::new("test")
        .about("Show how a rule would have decided recorded calls")
        .arg(
            Arg::new("rule")
                .value_name("RULE")
                .required(true)
                .help("A rule, such as `bash(git push *)`"),
        )
        .arg(says("allow", "Matching calls run without approval (default)"))
        .arg(says("ask", "Matching calls need approval"))
        .arg(says("deny", "Matching calls are denied"))
        .group(ArgGroup::new("action").args(["allow", "ask", "deny"]))
        .arg(
            Arg::new("since")
                .long("since")
                .value_name("TIME")
                .value_parser(since)
                .help("Only calls since this time: 12h, 7d, 2026-01-31 or 2026-01-31T12:00"),
        )
        .arg(
            Arg::new("limit")
                .long("limit")
                .value_name("N")
                .default_value("10000")
                .value_parser(value_parser!(u32).range(1..=1_000_000))
                .help("Maximum number of calls to check, newest first"),
        )
}

/// The result of the test.
#[derive(Serialize)]
struct Trial {
    rule: String,
    action: Action,
    /// Number of calls checked.
    calls: usize,
    /// Number of calls that the rule matches.
    speaks_of: usize,
    /// Time of the oldest call, in milliseconds since 1970.
    since_ms: Option<u64>,
    changes: Vec<DecisionChange>,
}

/// Calls whose decision changes in the same way.
#[derive(Serialize)]
struct DecisionChange {
    from: Action,
    to: Action,
    calls: usize,
    /// The newest of these calls.
    examples: Vec<Example>,
}

#[derive(Serialize)]
struct Example {
    call_id: String,
    session: String,
    began_ms: u64,
    tool: String,
    input: Value,
}

impl Cli<'_> {
    /// `haft policy test RULE`
    pub(super) fn policy_test(&self, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let globals = Globals::of(matches);
        let rule = rule(matches)?;
        let settings = self.settings(&globals)?;
        let gate = self.gate(settings, Arc::new(self.prompt()))?;
        let alone = Policy::default().with_rule(rule.clone());
        for warning in alone.warnings(&self.registry.names()) {
            self.terminal.tell(Label::Warning, &warning);
        }
        let max = matches.get_one::<u32>("limit").map_or(0, |max| *max as usize);
        let since = matches.get_one::<u64>("since").copied().unwrap_or_default();
        let mut entries = self.runtime.block_on(gate.ledger().newest(max))?;
        entries.retain(|entry| entry.began_ms >= since);
        let saved = self.runtime.block_on(gate.saved_rules().active("cli"))?;
        let trial = trial(&gate, &saved, rule, &entries);
        match globals.format {
            Format::Json => report::json(self.terminal, &trial)?,
            Format::Text => write_out(&text(self.terminal, &trial))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn rule(matches: &ArgMatches) -> Result<Rule, ToolError> {
    let action = match () {
        () if matches.get_flag("deny") => Action::Deny,
        () if matches.get_flag("ask") => Action::Ask,
        () => Action::Allow,
    };
    let text = matches.get_one::<String>("rule").map_or("", String::as_str);
    Rule::parse(action, text, Source::named("the tested rule")).map_err(|error| {
        ToolError::input(error.to_string())
            .hint("a rule looks like `read`, `web_*` or `write(src/**)`")
    })
}

fn trial(gate: &Gate, saved: &[Rule], rule: Rule, entries: &[LedgerEntry]) -> Trial {
    let now = gate.policy();
    let then = now.with_rule(rule.clone());
    let mut changes: BTreeMap<(Action, Action), DecisionChange> = BTreeMap::new();
    let (mut calls, mut speaks_of, mut since_ms) = (0, 0, None);
    for entry in entries {
        let decided = (now.replay(entry, saved), then.replay(entry, saved));
        let (Some(from), Some(to)) = decided else { continue };
        calls += 1;
        since_ms = Some(entry.began_ms.min(since_ms.unwrap_or(u64::MAX)));
        speaks_of += usize::from(now.rule_applies(&rule, &entry.tool, &entry.accesses));
        if from != to {
            let none = || DecisionChange { from, to, calls: 0, examples: Vec::new() };
            let change = changes.entry((from, to)).or_insert_with(none);
            change.calls += 1;
            if change.examples.len() < MAX_EXAMPLES {
                change.examples.push(example(entry));
            }
        }
    }
    let changes = changes.into_values().collect();
    Trial { rule: rule.text, action: rule.action, calls, speaks_of, since_ms, changes }
}

fn example(entry: &LedgerEntry) -> Example {
    let LedgerEntry { call_id, session, began_ms, tool, input, .. } = entry.clone();
    Example { call_id, session, began_ms, tool, input }
}

fn text(terminal: &Terminal, trial: &Trial) -> String {
    let Trial { rule, action, calls, speaks_of, since_ms, changes } = trial;
    let rule = terminal.result_toned(Tone::Strong, &safe(terminal, rule));
    let Some(since) = since_ms else {
        return format!(
            "{} {rule}\n  no recorded calls to test it on\n",
            coloured(terminal, *action)
        );
    };
    let mut lines = vec![
        format!("{} {rule}", coloured(terminal, *action)),
        format!("  matches {speaks_of} of {calls} recorded calls since {}", moment(*since)),
    ];
    if changes.is_empty() {
        lines.push("  and would not have changed a decision".to_owned());
    }
    for DecisionChange { from, to, calls, examples } in changes {
        let (from, to) = (coloured(terminal, *from), coloured(terminal, *to));
        lines.push(format!("\n  {} to {}: {}", from.trim_end(), to.trim_end(), counted(*calls)));
        lines.extend(examples.iter().map(|example| {
            let call = format!("{} {}", example.tool, example.input);
            let short: String = call.chars().take(MAX_INPUT_CHARS).collect();
            let more = if short.len() < call.len() { "…" } else { "" };
            format!("    {}  {}{more}", moment(example.began_ms), safe(terminal, &short))
        }));
        if *calls > examples.len() {
            lines.push(format!("    and {} earlier", calls - examples.len()));
        }
    }
    lines.join("\n") + "\n"
}

fn counted(calls: usize) -> String {
    if calls == 1 { "1 call".to_owned() } else { format!("{calls} calls") }
}
