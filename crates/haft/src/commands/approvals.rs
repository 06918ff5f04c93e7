//! `haft approvals`: the questions of every process in one list, answered here. A call whose process waits runs there; one
//! whose process is gone runs here, as it was recorded, once.

mod act;
mod live;
mod table;

use std::{process::ExitCode, sync::Arc};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use haft::host::{config::Settings, feed, inbox};
use haft_core::{
    ApprovalDecision, ApprovalRequest, ApprovalState, CallResult, Inbox, InboxEntry, InboxListing,
    Remember, Scope, ToolError, feed::Feed, no_such_request,
};
use jiff::Zoned;
use serde_json::{Value, json};

use super::{Cli, by_id};
use crate::{
    globals::{Format, Globals},
    prompt::{Conversation, lapse},
    report, stdin,
    stop::Stop,
    terminal::{Label, Tty, write_out},
};

pub(super) fn command() -> Command {
    let id = || {
        let help = "The request's id from the list, or its beginning";
        Arg::new("id").value_name("ID").required(true).help(help)
    };
    Command::new("approvals")
        .about("List and answer pending approval requests from all haft processes")
        .long_about(
            "List and answer pending approval requests from all haft processes.\n\n\
             Without a command on a terminal: a live list with keys to approve and deny. An approved call runs in the \
             process that asked. If that process has ended, `approve` runs the recorded call itself, once, in the \
             workspace, session and profile of the call.",
        )
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("list").about("What waits for a decision, oldest first").arg(
                Arg::new("all")
                    .long("all")
                    .action(ArgAction::SetTrue)
                    .help("Also what was decided, and what became of it"),
            ),
        )
        .subcommand(
            Command::new("show").about("All there is to know about a request").arg(id()),
        )
        .subcommand(
            Command::new("approve")
                .about("Let a call run")
                .arg(id())
                .arg(
                    Arg::new("remember")
                        .long("remember")
                        .value_name("N")
                        .value_parser(value_parser!(u32).range(1..))
                        .help("Also allow what `show` offers under this number from now on"),
                )
                .arg(
                    Arg::new("scope")
                        .long("scope")
                        .value_name("SCOPE")
                        .default_value("project")
                        .value_parser(["session", "project", "user"])
                        .help("Where that holds"),
                )
                .arg(
                    Arg::new("for")
                        .long("for")
                        .value_name("TIME")
                        .value_parser(lapses)
                        .help("When it lapses, such as 1h or 30d [default: never]"),
                ),
        )
        .subcommand(
            Command::new("deny").about("Refuse a call").arg(id()).arg(
                Arg::new("note")
                    .long("note")
                    .value_name("TEXT")
                    .help("Words for the model: what to do instead"),
            ),
        )
}

/// Milliseconds since 1970.
fn lapses(text: &str) -> Result<Option<u64>, String> {
    lapse(text, &Zoned::now()).ok_or_else(|| "expected a time such as 1h, 1d or never".to_owned())
}

/// What all of these work with.
struct Desk<'a> {
    bench: &'a Cli<'a>,
    globals: Globals,
    settings: Settings,
    inbox: Arc<dyn Inbox>,
    feed: Arc<dyn Feed>,
    person: String,
}

impl Cli<'_> {
    /// `haft approvals …`
    pub(super) fn approvals(&self, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let (word, matches) = matches.subcommand().unwrap_or(("", matches));
        let globals = Globals::of(matches);
        let settings = Settings::load(&globals.choices, &self.environment.host)?;
        let inbox = inbox(&self.environment.host, &settings).ok_or_else(homeless)?;
        let feed = feed(&settings);
        let person = self.environment.host.user.clone().unwrap_or_else(|| "you".to_owned());
        let desk = Desk { bench: self, globals, settings, inbox, feed, person };
        match word {
            "list" => desk.list(matches.get_flag("all")),
            "show" => desk.show(matches),
            "approve" => desk.approve(matches),
            "deny" => desk.deny(matches),
            _ if desk.has_eyes() => desk.live(),
            _ => desk.list(false),
        }
    }
}

impl Desk<'_> {
    fn has_eyes(&self) -> bool {
        let Globals { format, .. } = self.globals;
        let is_shown = self.bench.terminal.shows_results() && format == Format::Text;
        is_shown && !stdin::is_piped() && Tty::open().is_ok()
    }

    async fn entries(&self) -> Result<InboxListing, ToolError> {
        let found = self.inbox.entries().await?;
        if found.foreign > 0 {
            let requests = if found.foreign == 1 { "request was" } else { "requests were" };
            let message = format!(
                "{} {requests} not made by your haft, or changed since, and left out: {}",
                found.foreign, self.settings.store.address
            );
            self.bench.terminal.tell(Label::Warning, &message);
        }
        Ok(found)
    }

    fn list(&self, all: bool) -> Result<ExitCode, Stop> {
        let found = self.bench.runtime.block_on(self.entries())?;
        let wanted = |standing: &&InboxEntry| all || is_open(standing);
        let entries: Vec<&InboxEntry> = found.entries.iter().filter(wanted).collect();
        match self.globals.format {
            Format::Json => {
                let rows: Vec<Value> = entries.into_iter().map(as_json).collect();
                report::json(self.bench.terminal, &rows)?;
            }
            Format::Text if entries.is_empty() => {
                self.bench.terminal.print("nothing waits for a decision")?;
            }
            Format::Text => {
                let width = self.bench.terminal.width();
                write_out(&table::of(&entries, Zoned::now().timestamp(), width))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The one request whose id begins like this, with or without the word before its first `_`.
    fn named(&self, matches: &ArgMatches) -> Result<InboxEntry, ToolError> {
        let wanted = matches.get_one::<String>("id").map_or("", String::as_str);
        let found = self.bench.runtime.block_on(self.entries())?;
        let fitting = by_id(&found.entries, wanted, |standing| &standing.record.request.id);
        match fitting[..] {
            [one] => Ok(one.clone()),
            [] => Err(no_such_request(wanted)),
            _ => {
                let message = format!("`{wanted}` is the beginning of {} requests", fitting.len());
                Err(ToolError::input(message).hint("write more of the id that you mean"))
            }
        }
    }

    fn show(&self, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let standing = self.named(matches)?;
        match self.globals.format {
            Format::Json => report::json(self.bench.terminal, &as_json(&standing))?,
            Format::Text => {
                let scopes = scopes_of(&standing.record.request);
                let colours = self.bench.terminal.result_colours();
                let request = &standing.record.request;
                let talk = Conversation::new(request, scopes, &self.person, colours);
                let about = table::about(&standing, Zoned::now().timestamp());
                write_out(&format!("{about}\n{}", talk.details()))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn approve(&self, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let standing = self.named(matches)?;
        let mut verdict = ApprovalDecision::approve(&self.person, "approvals");
        verdict.remember = remember(&standing, matches)?;
        self.decide(&standing, ApprovalState::Approved, verdict)?;
        self.see_it_run(&standing)
    }

    fn deny(&self, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let standing = self.named(matches)?;
        let note = matches.get_one::<String>("note").cloned();
        let verdict = ApprovalDecision::deny(&self.person, "approvals", note);
        self.decide(&standing, ApprovalState::Denied, verdict)?;
        self.say(&standing, "denied", "the call does not run")
    }

    fn say(&self, standing: &InboxEntry, state: &str, words: &str) -> Result<ExitCode, Stop> {
        let id = &standing.record.request.id;
        match self.globals.format {
            Format::Json => {
                let told = json!({"id": id, "state": state, "note": words});
                report::json(self.bench.terminal, &told)?;
            }
            Format::Text => self.bench.terminal.print(&format!("{state}: {words}"))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn remember(standing: &InboxEntry, matches: &ArgMatches) -> Result<Option<Remember>, ToolError> {
    let Some(number) = matches.get_one::<u32>("remember") else { return Ok(None) };
    let suggestions = &standing.record.request.suggestions;
    let place = usize::try_from(*number).unwrap_or(usize::MAX).saturating_sub(1);
    let suggestion = suggestions.get(place).ok_or_else(|| {
        let id = &standing.record.request.id;
        let count = suggestions.len();
        ToolError::input(format!("request `{id}` offers {count} ways to remember it, not {number}"))
            .hint(format!("see them with `haft approvals show {id}`"))
    })?;
    let word = matches.get_one::<String>("scope").map_or("", String::as_str);
    let scopes = scopes_of(&standing.record.request);
    let scope = scopes.iter().copied().find(|scope| scope.name() == word).ok_or_else(|| {
        ToolError::input(format!(
            "a rule of scope `{word}` would never end: every command line call is of one session"
        ))
        .hint("use --scope project with --for TIME")
    })?;
    let expires_ms = matches.get_one::<Option<u64>>("for").copied().flatten();
    Ok(Some(Remember { rules: suggestion.rules.clone(), scope, expires_ms }))
}

/// Where a rule may hold. Every call from a command line is of the session `cli`, which never ends.
fn scopes_of(request: &ApprovalRequest) -> &'static [Scope] {
    match request.session.as_str() {
        "cli" => &[Scope::Project, Scope::User],
        _ => &[Scope::Session, Scope::Project, Scope::User],
    }
}

/// Whether somebody may want to do something about it.
pub(super) fn is_open(standing: &InboxEntry) -> bool {
    match standing.record.state {
        ApprovalState::Pending => true,
        ApprovalState::Approved => !matches!(standing.result, CallResult::Ran(_)),
        _ => false,
    }
}

fn as_json(standing: &InboxEntry) -> Value {
    let InboxEntry { record, workspace, requester, taken_ms, result } = standing;
    json!({
        "request": record.request,
        "state": record.state,
        "verdict": record.verdict,
        "workspace": workspace,
        "asker": requester,
        "taken_ms": taken_ms,
        "fate": result,
    })
}

fn homeless() -> ToolError {
    ToolError::unavailable("without a home there is no key that requests could be read with")
        .hint("set $HOME or $XDG_STATE_HOME")
}
