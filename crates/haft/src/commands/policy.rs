//! `haft policy`: explains, lists, checks and tests the rules. It runs no tool.

mod check;
mod list;
mod revoke;
mod test;
mod why;

use std::process::ExitCode;

use clap::Command;
use haft_core::{SavedRule, policy::Action};

use super::{Cli, parse, root};
use crate::{
    globals::{self, plain_words},
    safe_text::shown_in_line,
    stop::Stop,
    terminal::{Terminal, Tone},
};

pub(super) fn command() -> Command {
    Command::new("policy")
        .about("List, check and test the rules, and explain the decision on a call")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(why::command())
        .subcommand(list::command())
        .subcommand(revoke::command())
        .subcommand(check::command())
        .subcommand(test::command())
}

impl Cli<'_> {
    /// `haft policy …`
    pub(super) fn policy(&self) -> Result<ExitCode, Stop> {
        let (options, arguments) = (globals::options(), self.arguments);
        let words: Vec<_> = plain_words(arguments, &options).skip(1).take(2).collect();
        if let [(_, why), (place, word)] = words[..]
            && why == "why"
        {
            let word = word.to_string_lossy();
            return self.why(options, (arguments, place), &word);
        }
        let matches = parse(root(options).subcommand(command()), arguments)?;
        let (name, matches) = matches.subcommand().expect("clap requires a subcommand");
        match name {
            "list" => self.policy_list(matches),
            "check" => self.policy_check(matches),
            "test" => self.policy_test(matches),
            "revoke" => self.policy_revoke(matches),
            _ => unreachable!("clap knows no command `{name}`"),
        }
    }
}

/// Describes a saved rule.
fn describe_saved(saved: &SavedRule) -> String {
    let SavedRule { rule, scope, by, saved_ms, expires_ms, .. } = saved;
    let expiry = match expires_ms {
        Some(expires) => format!(", expires {}", moment(*expires)),
        None => String::new(),
    };
    format!("allow `{rule}` ({scope}, saved by {by} {}{expiry})", moment(*saved_ms))
}

/// Formats a time in the local time zone.
fn moment(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.map_or_else(
        || "at an invalid time".to_owned(),
        |time| time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string(),
    )
}

/// Formats a decision in its colour, padded to the longest one.
fn coloured(terminal: &Terminal, action: Action) -> String {
    let tone = match action {
        Action::Allow => Tone::Good,
        Action::Ask => Tone::Warning,
        Action::Deny => Tone::Bad,
    };
    let padding = " ".repeat("allow".len().saturating_sub(action.name().len()));
    format!("{}{padding}", terminal.result_toned(tone, action.name()))
}

/// Escapes untrusted text and keeps it on its line.
fn safe(terminal: &Terminal, text: &str) -> String {
    if terminal.shows_results() {
        shown_in_line(text).into_owned()
    } else {
        text.replace('\n', "⏎")
    }
}
