//! What is wrong with rules that parse: they are never heard, speak of no tool, or allow more than anybody means. Pure;
//! a finding is made only where it is certain.

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

/// Something in the rules that a person should look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Where it is written.
    pub source: Source,
    /// What sort of thing it is.
    pub kind: FindingKind,
    /// What is found.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// What sort of thing is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FindingKind {
    /// It cannot be read.
    Unreadable,
    /// It names something that does not exist.
    Unknown,
    /// It is never heard.
    Idle,
    /// It allows more than anybody means.
    Wide,
}

/// What is known besides the rules that are written.
#[derive(Clone, Copy)]
pub struct KnownNames<'a> {
    /// The tools.
    pub tools: &'a [ToolSpec],
    /// The rules that people kept.
    pub saved: &'a [SavedRule],
    /// Whether a pattern for commands stands for programs that do whatever their arguments say.
    pub is_wide: &'a dyn Fn(&str) -> bool,
}

/// One rule with who says it and of whom.
#[derive(Clone, Copy)]
struct Voice<'a> {
    layer: &'a Layer,
    agent: Option<&'a str>,
    rule: &'a Rule,
}

impl Policy {
    /// What is wrong with the rules, in the order they are written.
    pub fn findings(&self, known: &KnownNames<'_>) -> Vec<Finding> {
        let voices: Vec<Voice<'_>> = self.layers.iter().flat_map(voices_of).collect();
        let mut found = Vec::new();
        for (place, voice) in voices.iter().enumerate() {
            if voice.layer.kind != LayerKind::BuiltIn {
                let earlier = voices.get(..place).unwrap_or_default();
                found.extend(unknown_tool(voice.rule, known));
                found.extend(idle(voice, &voices, earlier, known));
                found.extend(too_wide(voice, known));
            }
        }
        found.extend(self.profile_findings(known));
        found.extend(known.saved.iter().flat_map(|saved| saved_findings(saved, &voices, known)));
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
                    let message = format!("agent `{agent}` may do nothing: {}", error.message());
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
                    let message = format!("`{glob}` in profile `{name}` fits no tool");
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

fn voices_of(layer: &Layer) -> Vec<Voice<'_>> {
    let voice = |agent, rule| Voice { layer, agent, rule };
    let own = layer.rules.iter().map(|rule| voice(None, rule));
    let of_agents = layer
        .agents
        .iter()
        .flat_map(|agent| agent.rules.iter().map(|rule| voice(Some(agent.agent.as_str()), rule)));
    own.chain(of_agents).collect()
}

fn finding(source: Source, kind: FindingKind, message: String, hint: &str) -> Finding {
    Finding { source, kind, message, hint: hint.to_owned() }
}

fn or_see_tools(near: String) -> String {
    if near.is_empty() { "`haft tools` lists the tools there are".to_owned() } else { near }
}

fn unknown_tool(rule: &Rule, known: &KnownNames<'_>) -> Option<Finding> {
    let near = rule.fits_no_tool(known.tools.iter().map(|tool| &*tool.name))?;
    let message = format!("{} `{}` fits no tool", rule.action, rule.text);
    Some(finding(rule.source.clone(), FindingKind::Unknown, message, &or_see_tools(near)))
}

/// A rule that can never speak, and what silences it.
fn idle(
    voice: &Voice<'_>,
    voices: &[Voice<'_>],
    earlier: &[Voice<'_>],
    known: &KnownNames<'_>,
) -> Option<Finding> {
    let Voice { layer, agent, rule } = *voice;
    let (message, hint) = if !layer.is_active(rule) {
        let message = "is not in force: a project may only narrow until you trust it".to_owned();
        (message, "add its folder to `trust` in your own config, or take the rule out".to_owned())
    } else if let Some(other) = silencer(rule, agent, voices, known) {
        (format!("never speaks: {other} goes before it"), "take out one of the two".to_owned())
    } else {
        let same = |it: &&Voice<'_>| {
            let is_heard = it.layer.is_active(it.rule) && (it.agent.is_none() || it.agent == agent);
            is_heard && it.rule.action == rule.action && it.rule.text == rule.text
        };
        let twin = earlier.iter().find(same)?;
        (format!("says again what {} says", twin.rule.source), "take out one of the two".to_owned())
    };
    let message = format!("{} `{}` {message}", rule.action, rule.text);
    Some(finding(rule.source.clone(), FindingKind::Idle, message, &hint))
}

/// The stricter rule that speaks wherever this one would.
fn silencer<'a>(
    rule: &Rule,
    agent: Option<&str>,
    voices: &[Voice<'a>],
    known: &KnownNames<'_>,
) -> Option<&'a Rule> {
    let stricter = voices.iter().filter(|other| other.rule.action > rule.action);
    let mut heard = stricter.filter(|other| other.agent.is_none() || other.agent == agent);
    heard.find(|other| covers(other.rule, rule, known.tools)).map(|other| other.rule)
}

fn too_wide(voice: &Voice<'_>, known: &KnownNames<'_>) -> Option<Finding> {
    let rule = voice.rule;
    let is_heard = rule.action == Action::Allow && voice.layer.is_active(rule);
    let (what, hint) = width(rule, known.is_wide).filter(|_| is_heard)?;
    let message = format!("allow `{}` is very wide: {what}", rule.text);
    Some(finding(rule.source.clone(), FindingKind::Wide, message, hint))
}

/// What a rule lets through that its author may not think of, and what to write instead.
fn width(rule: &Rule, is_wide: &dyn Fn(&str) -> bool) -> Option<(&'static str, &'static str)> {
    const COMMANDS: (&str, &str) = (
        "every command runs unasked, what deletes and what cannot be read too",
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
            "whatever command or host is given it may send it anywhere",
            "name the command or the host, as in `secret(GH_TOKEN: gh pr list)` or `secret(GH_TOKEN: api.github.com)`",
        )),
        "web_fetch" if is_all => {
            Some(("every host may be talked to", "name hosts, as in `web_fetch(docs.rs)`"))
        }
        _ => None,
    }
}

/// Whether a path glob is the whole disk.
fn is_root(glob: &str) -> bool {
    glob.starts_with('/') && glob.chars().all(|c| matches!(c, '/' | '*'))
}

fn saved_findings(saved: &SavedRule, voices: &[Voice<'_>], known: &KnownNames<'_>) -> Vec<Finding> {
    let hint = format!("`haft policy revoke {}` takes it back", saved.id);
    let source = Source::named(&format!("saved {}", saved.id));
    let rule = match saved.parsed() {
        Ok(rule) => rule,
        Err(error) => {
            let message = error.message().to_owned();
            return vec![finding(source, FindingKind::Unreadable, message, &hint)];
        }
    };
    let text = format!("allow `{}`", saved.rule);
    let over = silencer(&rule, None, voices, known)
        .map(|other| (FindingKind::Idle, format!("{text} never speaks: {other} goes before it")));
    let wide = width(&rule, known.is_wide)
        .map(|(what, _)| (FindingKind::Wide, format!("{text} is very wide: {what}")));
    let both = over.into_iter().chain(wide);
    both.map(|(kind, message)| finding(source.clone(), kind, message, &hint)).collect()
}

/// Whether `outer` certainly speaks wherever `inner` does.
fn covers(outer: &Rule, inner: &Rule, tools: &[ToolSpec]) -> bool {
    match (&outer.argument, &inner.argument) {
        (None, None) => pattern::wildcard(&outer.name, &inner.name),
        (None, Some(_)) => {
            let mut speaks_for = tools.iter().filter(|tool| may_speak_for(inner, tool)).peekable();
            speaks_for.peek().is_some()
                && speaks_for.all(|tool| pattern::wildcard(&outer.name, &tool.name))
        }
        // A call may touch nothing that an argument could fit.
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

/// Whether a rule with an argument may speak of an access of this tool.
fn may_speak_for(rule: &Rule, tool: &ToolSpec) -> bool {
    let needs = |power| tool.needs_power(power);
    let by_verb = match rule.name.as_str() {
        // What a command line names is judged as files and addresses, too.
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

/// A glob read as a path fits another glob where each of its stars falls on a star.
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
