//! `haft approvals`: lists and answers the approval requests of all haft processes. If the process
//! that asked still waits, it runs the call. If it is gone, the recorded call runs here, once.

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
        let help = "The request's id from the list, or a prefix of it";
        Arg::new("id").value_name("ID").required(true).help(help)
    };
    Command::new("approvals")
        .about("List and answer pending approval requests from all haft processes")
        .long_about(
            "List and answer pending approval requests from all haft processes.\n\n\
             Without a command on a terminal: a live list with keys to approve and deny. An \
             approved call runs in the process that asked. If that process has ended, `approve` \
             runs the recorded call itself, once, in the workspace, session and profile of the \
             call.",
        )
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("list").about("List pending requests, oldest first").arg(
                Arg::new("all")
                    .long("all")
                    .action(ArgAction::SetTrue)
                    .help("Include decided requests and their results"),
            ),
        )
        .subcommand(Command::new("show").about("Show all details of a request").arg(id()))
        .subcommand(
            Command::new("approve")
                .about("Approve a request, so that its call runs")
                .arg(id())
                .arg(
                    Arg::new("remember")
                        .long("remember")
                        .value_name("N")
                        .value_parser(value_parser!(u32).range(1..))
                        .help("Also save the rule that `show` lists under this number"),
                )
                .arg(
                    Arg::new("scope")
                        .long("scope")
                        .value_name("SCOPE")
                        .default_value("project")
                        .value_parser(["session", "project", "user"])
                        .help("Scope of the saved rule"),
                )
                .arg(
                    Arg::new("for")
                        .long("for")
                        .value_name("TIME")
                        .value_parser(lapses)
                        .help("When the saved rule expires, such as 1h or 30d [default: never]"),
                ),
        )
        .subcommand(
            Command::new("deny").about("Deny a request").arg(id()).arg(
                Arg::new("note")
                    .long("note")
                    .value_name("TEXT")
                    .help("Message to the model: what to do instead"),
            ),
        )
}

/// Parses a time into milliseconds since 1970.
fn lapses(text: &str) -> Result<Option<u64>, String> {
    lapse(text, &Zoned::now()).ok_or_else(|| "expected a time such as 1h, 1d or never".to_owned())
}

/// The state that all subcommands share.
struct ApprovalsCommand<'a> {
    cli: &'a Cli<'a>,
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
        let inbox = inbox(&self.environment.host, &settings).ok_or_else(no_home)?;
        let feed = feed(&settings);
        let person = self.environment.host.user.clone().unwrap_or_else(|| "you".to_owned());
        let command = ApprovalsCommand { cli: self, globals, settings, inbox, feed, person };
        match word {
            "list" => command.list(matches.get_flag("all")),
            "show" => command.show(matches),
            "approve" => command.approve(matches),
            "deny" => command.deny(matches),
            _ if command.is_interactive() => command.live(),
            _ => command.list(false),
        }
    }
}

impl ApprovalsCommand<'_> {
    fn is_interactive(&self) -> bool {
        let Globals { format, .. } = self.globals;
        let is_shown = self.cli.terminal.shows_results() && format == Format::Text;
        is_shown && !stdin::is_piped() && Tty::open().is_ok()
    }

    async fn entries(&self) -> Result<InboxListing, ToolError> {
        let found = self.inbox.entries().await?;
        if found.foreign > 0 {
            let requests = if found.foreign == 1 { "request was" } else { "requests were" };
            let message = format!(
                "{} {requests} not created by your haft, or changed since, and ignored: {}",
                found.foreign, self.settings.store.address
            );
            self.cli.terminal.tell(Label::Warning, &message);
        }
        Ok(found)
    }

    fn list(&self, all: bool) -> Result<ExitCode, Stop> {
        let found = self.cli.runtime.block_on(self.entries())?;
        let wanted = |entry: &&InboxEntry| all || is_open(entry);
        let entries: Vec<&InboxEntry> = found.entries.iter().filter(wanted).collect();
        match self.globals.format {
            Format::Json => {
                let rows: Vec<Value> = entries.into_iter().map(as_json).collect();
                report::json(self.cli.terminal, &rows)?;
            }
            Format::Text if entries.is_empty() => {
                self.cli.terminal.print("no pending requests")?;
            }
            Format::Text => {
                let width = self.cli.terminal.width();
                write_out(&table::of(&entries, Zoned::now().timestamp(), width))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Finds the request with this id prefix. The part up to the first `_` is optional.
    fn named(&self, matches: &ArgMatches) -> Result<InboxEntry, ToolError> {
        let wanted = matches.get_one::<String>("id").map_or("", String::as_str);
        let found = self.cli.runtime.block_on(self.entries())?;
        let fitting = by_id(&found.entries, wanted, |entry| &entry.record.request.id);
        match fitting[..] {
            [one] => Ok(one.clone()),
            [] => Err(no_such_request(wanted)),
            _ => {
                let message = format!("`{wanted}` matches {} requests", fitting.len());
                Err(ToolError::input(message).hint("use a longer prefix of the id"))
            }
        }
    }

    fn show(&self, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let entry = self.named(matches)?;
        match self.globals.format {
            Format::Json => report::json(self.cli.terminal, &as_json(&entry))?,
            Format::Text => {
                let scopes = scopes_of(&entry.record.request);
                let colours = self.cli.terminal.result_colours();
                let request = &entry.record.request;
                let talk = Conversation::new(request, scopes, &self.person, colours);
                let about = table::about(&entry, Zoned::now().timestamp());
                write_out(&format!("{about}\n{}", talk.details()))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn approve(&self, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let entry = self.named(matches)?;
        let mut verdict = ApprovalDecision::approve(&self.person, "approvals");
        verdict.remember = remember(&entry, matches)?;
        self.decide(&entry, ApprovalState::Approved, verdict)?;
        self.run_or_wait(&entry)
    }

    fn deny(&self, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let entry = self.named(matches)?;
        let note = matches.get_one::<String>("note").cloned();
        let verdict = ApprovalDecision::deny(&self.person, "approvals", note);
        self.decide(&entry, ApprovalState::Denied, verdict)?;
        self.report(&entry, "denied", "the call will not run")
    }

    fn report(&self, entry: &InboxEntry, state: &str, words: &str) -> Result<ExitCode, Stop> {
        let id = &entry.record.request.id;
        match self.globals.format {
            Format::Json => {
                let report = json!({"id": id, "state": state, "note": words});
                report::json(self.cli.terminal, &report)?;
            }
            Format::Text => self.cli.terminal.print(&format!("{state}: {words}"))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn remember(entry: &InboxEntry, matches: &ArgMatches) -> Result<Option<Remember>, ToolError> {
    let Some(number) = matches.get_one::<u32>("remember") else { return Ok(None) };
    let suggestions = &entry.record.request.suggestions;
    let place = usize::try_from(*number).unwrap_or(usize::MAX).saturating_sub(1);
    let suggestion = suggestions.get(place).ok_or_else(|| {
        let id = &entry.record.request.id;
        let count = suggestions.len();
        ToolError::input(format!(
            "request `{id}` offers {count} rules to save, so number {number} does not exist"
        ))
        .hint(format!("list them with `haft approvals show {id}`"))
    })?;
    let word = matches.get_one::<String>("scope").map_or("", String::as_str);
    let scopes = scopes_of(&entry.record.request);
    let scope = scopes.iter().copied().find(|scope| scope.name() == word).ok_or_else(|| {
        ToolError::input(format!(
            "a rule of scope `{word}` would never expire: all command line calls share one session"
        ))
        .hint("use --scope project with --for TIME")
    })?;
    let expires_ms = matches.get_one::<Option<u64>>("for").copied().flatten();
    Ok(Some(Remember { rules: suggestion.rules.clone(), scope, expires_ms }))
}

/// Returns the scopes for a saved rule. All command line calls belong to the session `cli`, which
/// never ends.
fn scopes_of(request: &ApprovalRequest) -> &'static [Scope] {
    match request.session.as_str() {
        "cli" => &[Scope::Project, Scope::User],
        _ => &[Scope::Session, Scope::Project, Scope::User],
    }
}

/// Returns true for a request that still needs an action of the user.
pub(super) fn is_open(entry: &InboxEntry) -> bool {
    match entry.record.state {
        ApprovalState::Pending => true,
        ApprovalState::Approved => !matches!(entry.result, CallResult::Ran(_)),
        _ => false,
    }
}

fn as_json(entry: &InboxEntry) -> Value {
    let InboxEntry { record, workspace, requester, taken_ms, result } = entry;
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

fn no_home() -> ToolError {
    ToolError::unavailable("cannot read approval requests: $HOME is not set")
        .hint("set $HOME or $XDG_STATE_HOME")
}
