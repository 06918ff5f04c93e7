//! `haft policy list`: lists everything that decides on calls, with the position of each rule.

use std::{process::ExitCode, sync::Arc};

use clap::{ArgMatches, Command};
use haft_core::{
    Policy, SavedRule,
    policy::{AgentRules, Layer, LayerKind, Rule},
};
use serde_json::{Map, Value, json};

use super::{super::Cli, coloured, describe_saved, safe};
use crate::{
    globals::{Format, Globals},
    report,
    stop::Stop,
    terminal::{Terminal, Tone, write_out},
};

pub(super) fn command() -> Command {
    Command::new("list")
        .about("List all active rules with file and line, saved rules, mode, secrets and profiles")
}

impl Cli<'_> {
    /// `haft policy list`
    pub(super) fn policy_list(&self, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let globals = Globals::of(matches);
        let settings = self.settings(&globals)?;
        let profile = settings.profile.clone();
        let gate = self.gate(settings, Arc::new(self.prompt()))?;
        let saved = self.runtime.block_on(gate.saved_rules().list())?;
        let all = PolicyListing {
            policy: gate.policy(),
            saved: &saved,
            agent: globals.choices.agent.as_deref(),
            profile: profile.as_deref(),
        };
        match globals.format {
            Format::Json => report::json(self.terminal, &all.json())?,
            Format::Text => write_out(&all.text(self.terminal))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

struct PolicyListing<'a> {
    policy: &'a Policy,
    saved: &'a [SavedRule],
    agent: Option<&'a str>,
    profile: Option<&'a str>,
}

impl PolicyListing<'_> {
    fn text(&self, terminal: &Terminal) -> String {
        let mode = self.policy.effective_mode(self.agent);
        let strong = |text: &str| terminal.result_toned(Tone::Strong, text);
        let mut lines = vec![format!(
            "{} {} ({})",
            strong("mode"),
            mode.mode,
            safe(terminal, &mode.by.to_string())
        )];
        if let Some(profile) = self.profile {
            lines.push(format!("{} {}", strong("profile"), safe(terminal, profile)));
        }
        for layer in self.policy.layers().iter().filter(|layer| !is_empty(layer)) {
            let title = match layer.kind {
                LayerKind::BuiltIn => "built-in rules".to_owned(),
                LayerKind::Session => layer.file.to_string(),
                kind => format!("{} rules ({})", kind.name(), layer.file),
            };
            lines.push(format!("\n{}", strong(&safe(terminal, &title))));
            lines.extend(layer_lines(terminal, layer));
        }
        lines.push(format!("\n{}", strong("saved rules")));
        lines.extend(self.saved_lines(terminal));
        lines.push(format!("\n{}", strong("secret paths, denied in every mode")));
        lines.extend(self.secret_lines().iter().map(|line| format!("  {}", safe(terminal, line))));
        lines.push(format!("\n{}", strong("profiles")));
        lines.extend(self.profile_lines().iter().map(|line| format!("  {}", safe(terminal, line))));
        lines.join("\n") + "\n"
    }

    fn saved_lines(&self, terminal: &Terminal) -> Vec<String> {
        if self.saved.is_empty() {
            return vec!["  none".to_owned()];
        }
        let line = |saved: &SavedRule| {
            format!("  {} {}", saved.id, safe(terminal, &describe_saved(saved)))
        };
        self.saved.iter().map(line).collect()
    }

    /// Formats the globs of each source on one line.
    fn secret_lines(&self) -> Vec<String> {
        let secrets = &self.policy.secret_paths;
        let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
        let hidden = secrets.hidden().map(|path| (path.source.to_string(), &path.glob));
        let open =
            secrets.revealed().map(|path| (format!("excepted, {}", path.source), &path.glob));
        for (place, glob) in hidden.chain(open) {
            match lines.last_mut().filter(|(known, _)| *known == place) {
                Some((_, globs)) => globs.push(glob),
                None => lines.push((place, vec![glob])),
            }
        }
        lines.iter().map(|(place, globs)| format!("{} ({place})", globs.join(" "))).collect()
    }

    fn profile_lines(&self) -> Vec<String> {
        let profiles = &self.policy.profiles;
        let known = profiles.names().filter_map(|name| Some((name, profiles.get(name).ok()?)));
        known
            .map(|(name, profile)| {
                let globs: Vec<&str> = profile.globs().collect();
                format!("{name}: {} ({})", globs.join(" "), profile.source)
            })
            .collect()
    }

    fn json(&self) -> Value {
        let Policy { profiles, secret_paths: secrets, .. } = self.policy;
        let path = |path: &haft_core::policy::SecretPath| json!({"glob": path.glob, "source": path.source});
        let profile = |name: &str| {
            let profile = profiles.get(name).ok()?;
            let tools: Vec<&str> = profile.globs().collect();
            Some((name.to_owned(), json!({"tools": tools, "source": profile.source})))
        };
        json!({
            "mode": self.policy.effective_mode(self.agent),
            "profile": self.profile,
            "layers": self.policy.layers().iter().map(layer_json).collect::<Vec<_>>(),
            "saved": self.saved,
            "secrets": {
                "hidden": secrets.hidden().map(path).collect::<Vec<_>>(),
                "revealed": secrets.revealed().map(path).collect::<Vec<_>>(),
            },
            "profiles": profiles.names().filter_map(profile).collect::<Map<_, _>>(),
        })
    }
}

/// Returns true for a layer without anything to list.
fn is_empty(layer: &Layer) -> bool {
    layer.rules.is_empty() && layer.agents.is_empty() && layer.mode.is_none()
}

fn layer_lines(terminal: &Terminal, layer: &Layer) -> Vec<String> {
    let line = |rule: &Rule| rule_line(terminal, layer, rule);
    let mode = layer.mode.iter().map(|mode| format!("  mode  {mode}"));
    let mut lines: Vec<String> = mode.chain(layer.rules.iter().map(line)).collect();
    for agent in &layer.agents {
        let AgentRules { agent: name, mode, profile, rules } = agent;
        let mode = mode.map(|mode| format!(", mode {mode}")).unwrap_or_default();
        let profile = profile.as_ref().map(|it| format!(", profile {it}")).unwrap_or_default();
        lines.push(format!("  {}", safe(terminal, &format!("agent {name}{mode}{profile}"))));
        lines.extend(rules.iter().map(|rule| format!("  {}", line(rule))));
    }
    lines
}

fn rule_line(terminal: &Terminal, layer: &Layer, rule: &Rule) -> String {
    let place = &rule.source;
    let inactive = match layer.is_active(rule) {
        true => "",
        false => ", inactive: a project may only narrow until you trust it",
    };
    let place = terminal.result_toned(Tone::Faint, &safe(terminal, &format!("{place}{inactive}")));
    format!("  {} {}  {place}", coloured(terminal, rule.action), safe(terminal, &rule.text))
}

fn layer_json(layer: &Layer) -> Value {
    let rules = |rules: &[Rule]| {
        let rule = |rule: &Rule| {
            json!({
                "action": rule.action,
                "text": rule.text,
                "source": rule.source,
                "in_force": layer.is_active(rule),
            })
        };
        rules.iter().map(rule).collect::<Vec<_>>()
    };
    let agent = |agent: &AgentRules| {
        json!({
            "agent": agent.agent,
            "mode": agent.mode,
            "profile": agent.profile,
            "rules": rules(&agent.rules),
        })
    };
    json!({
        "layer": layer.kind,
        "file": layer.file,
        "mode": layer.mode,
        "trusted": layer.may_grant(),
        "rules": rules(&layer.rules),
        "agents": layer.agents.iter().map(agent).collect::<Vec<_>>(),
    })
}
