//! `haft policy revoke`: deletes saved rules: all that are named, or none if one name is ambiguous.

use std::{process::ExitCode, sync::Arc};

use clap::{Arg, ArgMatches, Command};
use haft::host::config::Settings;
use haft_core::{SavedRule, ToolError, no_such_rule};

use super::{
    super::{Cli, by_id},
    describe_saved,
};
use crate::{
    globals::{Format, Globals},
    report,
    stop::Stop,
};

pub(super) fn command() -> Command {
    Command::new("revoke").about("Delete saved rules, so that their calls need approval again").arg(
        Arg::new("id")
            .value_name("ID")
            .required(true)
            .num_args(1..)
            .help("The rule's id from `haft policy list`, or a prefix of it"),
    )
}

impl Cli<'_> {
    /// `haft policy revoke ID…`
    pub(super) fn policy_revoke(&self, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let globals = Globals::of(matches);
        let settings = Settings::load(&globals.choices, &self.environment.host)?;
        let gate = self.gate(settings, Arc::new(self.prompt()))?;
        let saved = self.runtime.block_on(gate.saved_rules().list())?;
        let wanted = matches.get_many::<String>("id").into_iter().flatten();
        let mut selected: Vec<&SavedRule> = Vec::new();
        for id in wanted {
            let rule = named(&saved, id)?;
            if !selected.contains(&rule) {
                selected.push(rule);
            }
        }
        let mut revoked = Vec::new();
        for rule in selected {
            revoked.push(self.runtime.block_on(gate.saved_rules().revoke(&rule.id))?);
        }
        match globals.format {
            Format::Json => report::json(self.terminal, &revoked)?,
            Format::Text => {
                let lines = revoked
                    .iter()
                    .map(|rule| format!("revoked: {} {}", rule.id, describe_saved(rule)));
                self.terminal.print(&lines.collect::<Vec<_>>().join("\n"))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Finds the rule with this id prefix. The part up to the first `_` is optional.
fn named<'a>(saved: &'a [SavedRule], id: &str) -> Result<&'a SavedRule, ToolError> {
    let found = by_id(saved, id, |rule| &rule.id);
    match found[..] {
        [one] => Ok(one),
        [] => Err(no_such_rule(id)),
        _ => {
            let ids: Vec<&str> = found.iter().map(|rule| rule.id.as_str()).collect();
            let message = format!("`{id}` matches {} saved rules", ids.len());
            Err(ToolError::input(message)
                .hint(format!("use a longer prefix of one of {}", ids.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use haft_core::Scope;

    use super::*;

    fn saved(id: &str) -> SavedRule {
        serde_json::from_value(serde_json::json!({
            "id": id,
            "rule": "bash(make *)",
            "scope": Scope::User,
            "session": "s",
            "by": "ada",
            "saved_ms": 0,
            "expires_ms": null,
        }))
        .expect("a rule")
    }

    #[test]
    fn an_unambiguous_prefix_of_an_id_is_enough() {
        let all = ["rule_ab1", "rule_ab2", "rule_c", "rule_ab"].map(saved);
        let check = |id: &str, expected: Result<&str, &str>| {
            let found = named(&all, id);
            let found = found.as_ref().map(|rule| rule.id.as_str()).map_err(ToolError::message);
            assert_eq!(found, expected, "{id}");
        };
        check("rule_ab1", Ok("rule_ab1"));
        check("rule_ab", Ok("rule_ab"));
        check("c", Ok("rule_c"));
        check("rule_c", Ok("rule_c"));
        check("ab2", Ok("rule_ab2"));
        check("a", Err("`a` matches 3 saved rules"));
        check("rule", Err("`rule` matches 4 saved rules"));
        check("x", Err("unknown saved rule `x`"));
        check("", Err("unknown saved rule ``"));
    }
}
