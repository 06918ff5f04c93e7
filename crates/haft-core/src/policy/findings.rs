//! Findings: problems of rules that parse but never apply, match no tool, or allow more than
//! intended. Pure. A finding is reported only if it is certain.

use std::path::Path;

use serde::Serialize;

use super::{
    Action, Layer, LayerKind, Policy, Rule, Source, pattern,
    rule::{VERBS, secret_parts},
};
use crate::{
    Power, SavedRule, ToolSpec,
    nearest::{did_you_mean, nearest},
};

/// A problem in the rules that the user should check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The place where it is written.
    pub source: Source,
    /// The kind of problem.
    pub kind: FindingKind,
    /// A description of the problem.
    pub message: String,
    /// The suggested fix.
    pub hint: String,
}

/// The kind of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FindingKind {
    /// It cannot be parsed.
    Unreadable,
    /// It names something that does not exist.
    Unknown,
    /// It never has an effect.
    Idle,
    /// It allows more than intended.
    Wide,
}

/// The names that the check needs in addition to the written rules.
#[derive(Clone, Copy)]
pub struct KnownNames<'a> {
    /// All tools.
    pub tools: &'a [ToolSpec],
    /// The saved rules.
    pub saved: &'a [SavedRule],
    /// Returns true if a command pattern matches programs that run whatever their arguments say.
    pub is_wide: &'a dyn Fn(&str) -> bool,
}

/// One rule with its layer and the agent it applies to.
#[derive(Clone, Copy)]
struct ScopedRule<'a> {
    layer: &'a Layer,
    agent: Option<&'a str>,
    rule: &'a Rule,
}

impl Policy {
    /// Returns the problems of all rules, in the order they are written.
    pub fn findings(&self, known: &KnownNames<'_>) -> Vec<Finding> {
        let rules: Vec<ScopedRule<'_>> = self.layers.iter().flat_map(scoped_rules).collect();
        let mut found = Vec::new();
        for (place, scoped) in rules.iter().enumerate() {
            if scoped.layer.kind != LayerKind::BuiltIn {
                let earlier = rules.get(..place).unwrap_or_default();
                found.extend(unknown_tool(scoped.rule, known));
                found.extend(inactive(scoped, &rules, earlier, known));
                found.extend(too_wide(scoped, known));
            }
        }
        found.extend(self.profile_findings(known));
        found.extend(known.saved.iter().flat_map(|saved| saved_findings(saved, &rules, known)));
        found
    }

    fn profile_findings(&self, known: &KnownNames<'_>) -> Vec<Finding> {
        let mut found = Vec::new();
        let names = || known.tools.iter().map(|tool| &*tool.name);
        for layer in &self.layers {
            let agents = layer.agents.iter();
            for (agent, name) in agents.filter_map(|it| Some((&it.agent, it.profile.as_deref()?))) {
                if let Err(error) = self.profiles.get(name) {
                    let source = Source { file: layer.file.clone(), line: None };
                    let message =
                        format!("agent `{agent}` cannot use any tool: {}", error.message());
                    found.push(finding(source, FindingKind::Unknown, message, error.next_step()));
                }
            }
        }
        let written =
            self.profiles.names().filter_map(|name| Some((name, self.profiles.get(name).ok()?)));
        for (name, profile) in written.filter(|(_, profile)| profile.source.line.is_some()) {
            for glob in profile.globs() {
                let bare = glob.strip_prefix('!').unwrap_or(glob);
                if !names().any(|tool| pattern::wildcard(bare, tool)) {
                    let message = format!("`{glob}` in profile `{name}` matches no tool");
                    let hint = or_see_tools(did_you_mean(&nearest(bare, names())));
                    found.push(finding(
                        profile.source.clone(),
                        FindingKind::Unknown,
                        message,
                        &hint,
                    ));
                }
            }
        }
        found
    }
}

fn scoped_rules(layer: &Layer) -> Vec<ScopedRule<'_>> {
    let scoped = |agent, rule| ScopedRule { layer, agent, rule };
    let own = layer.rules.iter().map(|rule| scoped(None, rule));
    let of_agents = layer
        .agents
        .iter()
        .flat_map(|agent| agent.rules.iter().map(|rule| scoped(Some(agent.agent.as_str()), rule)));
    own.chain(of_agents).collect()
}

fn finding(source: Source, kind: FindingKind, message: String, hint: &str) -> Finding {
    Finding { source, kind, message, hint: hint.to_owned() }
}

fn or_see_tools(near: String) -> String {
    if near.is_empty() { "`haft tools` lists all tools".to_owned() } else { near }
}

fn unknown_tool(rule: &Rule, known: &KnownNames<'_>) -> Option<Finding> {
    let near = rule.similar_tool_names(known.tools.iter().map(|tool| &*tool.name))?;
    let message = format!("{} `{}` matches no tool", rule.action, rule.text);
    Some(finding(rule.source.clone(), FindingKind::Unknown, message, &or_see_tools(near)))
}

/// Finds out whether a rule never applies, and why.
fn inactive(
    scoped: &ScopedRule<'_>,
    rules: &[ScopedRule<'_>],
    earlier: &[ScopedRule<'_>],
    known: &KnownNames<'_>,
) -> Option<Finding> {
    let ScopedRule { layer, agent, rule } = *scoped;
    let (message, hint) = if !layer.is_active(rule) {
        let message = "has no effect: a project may only restrict until you trust it".to_owned();
        (message, "add its folder to `trust` in your own config, or remove the rule".to_owned())
    } else if let Some(other) = overriding_rule(rule, agent, rules, known) {
        (format!("never applies: {other} takes precedence"), "remove one of the two".to_owned())
    } else {
        let same = |it: &&ScopedRule<'_>| {
            let is_active =
                it.layer.is_active(it.rule) && (it.agent.is_none() || it.agent == agent);
            is_active && it.rule.action == rule.action && it.rule.text == rule.text
        };
        let duplicate = earlier.iter().find(same)?;
        (
            format!("repeats the rule at {}", duplicate.rule.source),
            "remove one of the two".to_owned(),
        )
    };
    let message = format!("{} `{}` {message}", rule.action, rule.text);
    Some(finding(rule.source.clone(), FindingKind::Idle, message, &hint))
}

/// The stricter rule that applies wherever this one would.
fn overriding_rule<'a>(
    rule: &Rule,
    agent: Option<&str>,
    rules: &[ScopedRule<'a>],
    known: &KnownNames<'_>,
) -> Option<&'a Rule> {
    let stricter = rules.iter().filter(|other| other.rule.action > rule.action);
    let mut active = stricter.filter(|other| other.agent.is_none() || other.agent == agent);
    active.find(|other| covers(other.rule, rule, known.tools)).map(|other| other.rule)
}

fn too_wide(scoped: &ScopedRule<'_>, known: &KnownNames<'_>) -> Option<Finding> {
    let rule = scoped.rule;
    let is_active = rule.action == Action::Allow && scoped.layer.is_active(rule);
    let (what, hint) = excess(rule, known.is_wide).filter(|_| is_active)?;
    let message = format!("allow `{}` is very wide: {what}", rule.text);
    Some(finding(rule.source.clone(), FindingKind::Wide, message, hint))
}

/// A description of what a rule allows beyond its likely intent, with a hint on what to write
/// instead.
fn excess(rule: &Rule, is_wide: &dyn Fn(&str) -> bool) -> Option<(&'static str, &'static str)> {
    const COMMANDS: (&str, &str) = (
        "every command runs without approval, even one that deletes or cannot be parsed",
        "name the commands, as in `bash(cargo test *)`",
    );
    let runs = rule.name == "bash" || pattern::wildcard(&rule.name, "bash");
    let Some(argument) = rule.argument.as_deref() else { return runs.then_some(COMMANDS) };
    let is_all = matches!(argument, "*" | "**");
    match rule.name.as_str() {
        _ if runs && is_all => Some(COMMANDS),
        "bash" if is_wide(argument) => Some((
            "the program does whatever its arguments say",
            "name the sub-command or script, as in `bash(git log *)` or `bash(python3 build.py *)`",
        )),
        "read" | "write" if is_all || is_root(argument) => Some((
            "it reaches every file of the machine that is not secret",
            "name folders, as in `write(src/**)`",
        )),
        "secret" if secret_parts(argument).1.is_none() => Some((
            "any command or host may receive it",
            "name the command or the host, as in `secret(GH_TOKEN: gh pr list)` or \
             `secret(GH_TOKEN: api.github.com)`",
        )),
        "web_fetch" if is_all => {
            Some(("every host may be contacted", "name hosts, as in `web_fetch(docs.rs)`"))
        }
        _ => None,
    }
}

/// Returns true if a path glob matches the whole disk.
fn is_root(glob: &str) -> bool {
    glob.starts_with('/') && glob.chars().all(|c| matches!(c, '/' | '*'))
}

fn saved_findings(
    saved: &SavedRule,
    rules: &[ScopedRule<'_>],
    known: &KnownNames<'_>,
) -> Vec<Finding> {
    let hint = format!("revoke it with `haft policy revoke {}`", saved.id);
    let source = Source::named(&format!("saved {}", saved.id));
    let rule = match saved.parsed() {
        Ok(rule) => rule,
        Err(error) => {
            let message = error.message().to_owned();
            return vec![finding(source, FindingKind::Unreadable, message, &hint)];
        }
    };
    let text = format!("allow `{}`", saved.rule);
    let over = overriding_rule(&rule, None, rules, known).map(|other| {
        (FindingKind::Idle, format!("{text} never applies: {other} takes precedence"))
    });
    let wide = excess(&rule, known.is_wide)
        .map(|(what, _)| (FindingKind::Wide, format!("{text} is very wide: {what}")));
    let both = over.into_iter().chain(wide);
    both.map(|(kind, message)| finding(source.clone(), kind, message, &hint)).collect()
}

/// Returns true if `outer` certainly applies wherever `inner` does.
fn covers(outer: &Rule, inner: &Rule, tools: &[ToolSpec]) -> bool {
    match (&outer.argument, &inner.argument) {
        (None, None) => pattern::wildcard(&outer.name, &inner.name),
        (None, Some(_)) => {
            let mut affected = tools.iter().filter(|tool| may_apply_to(inner, tool)).peekable();
            affected.peek().is_some()
                && affected.all(|tool| pattern::wildcard(&outer.name, &tool.name))
        }
        // A call may touch nothing that the argument could match.
        (Some(_), None) => false,
        (Some(wide), Some(narrow)) => {
            let is_verb = VERBS.contains(&inner.name.as_str());
            let has_same_name = outer.name == inner.name
                || outer.name == "*"
                || (!is_verb && pattern::wildcard(&outer.name, &inner.name));
            has_same_name && argument_covers(&inner.name, wide, narrow)
        }
    }
}

/// Returns true if a rule with an argument may apply to an access of this tool.
fn may_apply_to(rule: &Rule, tool: &ToolSpec) -> bool {
    let needs = |power| tool.needs_power(power);
    let by_verb = match rule.name.as_str() {
        // Files and addresses in a command line are judged too.
        "read" => needs(Power::ReadFiles) || needs(Power::Shell),
        "write" => needs(Power::WriteFiles) || needs(Power::Shell),
        "bash" => needs(Power::Shell),
        "secret" => needs(Power::Shell) || needs(Power::Net),
        "web_fetch" => needs(Power::Net) || needs(Power::Shell),
        _ => false,
    };
    by_verb || pattern::wildcard(&rule.name, &tool.name)
}

fn argument_covers(name: &str, wide: &str, narrow: &str) -> bool {
    if matches!(wide, "*" | "**") || wide == narrow {
        return true;
    }
    if matches!(narrow, "*" | "**") {
        return false;
    }
    match name {
        "bash" => {
            let bare = narrow.strip_suffix(" *");
            pattern::command(wide, narrow) && bare.is_none_or(|bare| pattern::command(wide, bare))
        }
        "web_fetch" => pattern::wildcard(&wide.to_ascii_lowercase(), &narrow.to_ascii_lowercase()),
        "read" | "write" => path_covers(wide, narrow),
        _ => false,
    }
}

/// Returns true if a glob, taken as a path, matches another glob, so that each of its stars falls
/// on a star.
fn path_covers(wide: &str, narrow: &str) -> bool {
    let is_plain = |glob: &str| !glob.contains(['?', '[', ']', '{', '}', '\\', '!']);
    let below = narrow.strip_suffix("/**").unwrap_or(narrow);
    let is_literal = !wide.strip_suffix("/**").unwrap_or(wide).contains('*');
    wide.starts_with('/') == narrow.starts_with('/')
        && is_plain(wide)
        && is_plain(narrow)
        && (is_literal || !below.contains("**"))
        && pattern::path(wide, Path::new(below))
}

#[cfg(test)]
mod tests;
