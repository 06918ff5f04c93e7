//! `haft init CLIENT`: shows what would change in a client's configuration, asks, and tells what was done. The change
//! itself is made in `crate::init`.

use std::{path::Path, process::ExitCode, time::Duration};

use clap::{Arg, ArgAction, ArgMatches, Command};
use haft::host::config::Settings;
use haft_core::{ErrorKind, ToolError};
use serde_json::{Value, json};

use super::Cli;
use crate::{
    environment,
    globals::{Format, Globals, Run},
    init::{self, Client, Deed, House, Launch, Plan, Row, Scope},
    report,
    safe_text::{shown, shown_in_line},
    stop::Stop,
    terminal::{Label, Tty},
};

/// As long as an approval waits by default: somebody may be reading the diff.
const PATIENCE: Duration = Duration::from_secs(600);

const QUESTIONS: &str = "\
What is written?   An MCP server called `haft` that the client starts as `haft mcp`. --profile, --agent, --approve,
                   --config and --workspace given here are written into it.
Where?             In the project's file, or with --scope user in your own. `haft init` alone lists them all.
What else changes? Nothing: comments, order and layout stay, and what cannot be read is not written.
And back?          `--undo` takes the last change back. A copy of the old file lies beside it until then.

Examples:
  haft init                            which clients there are, and whether haft is in them
  haft init claude                     shows the change and asks
  haft init zed --scope user --yes     for all your projects, unasked
  haft init codex --profile reviewer   with the tools of one profile only
  haft init cursor --print             what to add by hand
  haft init claude --undo              as if nothing had been";

pub(super) fn command() -> Command {
    let switch = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    let clients = Client::ALL.map(Client::name).join(", ");
    Command::new("init")
        .about("Set up an MCP client to use haft: write its configuration, with a backup")
        .arg(Arg::new("client").value_name("CLIENT").help(format!(
            "Which client: {clients}. Without one, all are listed"
        )))
        .arg(
            Arg::new("scope")
                .long("scope")
                .value_name("SCOPE")
                .value_parser(Scope::ALL.map(Scope::name))
                .help("Whose configuration: the project's, or yours for every project [default: project]"),
        )
        .arg(switch("print", "Print what would be added, and touch nothing"))
        .arg(switch("undo", "Take the last change back").conflicts_with("print"))
        .arg(switch("yes", "Do not ask"))
        .after_help(QUESTIONS)
}

impl Cli<'_> {
    /// `haft init [CLIENT]`
    pub(super) fn init(&self, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let globals = Globals::of(matches);
        let settings = Settings::load(&globals.choices, &self.environment.host)?;
        let launch = Launch::new(
            environment::program().as_deref(),
            self.environment.search_path.as_deref(),
            &globals,
            &settings.directory,
        )?;
        let house = House { workspace: &settings.workspace, environment: self.environment };
        let Some(word) = matches.get_one::<String>("client") else {
            return self.list_clients(matches, &globals, &house, &launch);
        };
        let client = Client::named(word)?;
        if matches.get_flag("print") {
            self.terminal.print(&init::fresh(client, &launch))?;
            return Ok(ExitCode::SUCCESS);
        }
        let scope = scope_of(matches);
        let plan = if matches.get_flag("undo") {
            house.plan_undo(client, scope)?
        } else {
            house.plan(client, scope.unwrap_or(Scope::Project), &launch)?
        };
        self.warn_of_fixed_paths(&plan, &launch);
        self.settle(plan, &globals, Consent::of(matches))
    }

    fn list_clients(
        &self,
        matches: &ArgMatches,
        globals: &Globals,
        house: &House<'_>,
        launch: &Launch,
    ) -> Result<ExitCode, Stop> {
        let aimless = ["print", "undo", "yes"].into_iter().find(|name| matches.get_flag(name));
        if let Some(name) = aimless {
            let error = ToolError::input(format!("--{name} needs a client"));
            let names = Client::ALL.map(Client::name).join(", ");
            return Err(error.hint(format!("name one of {names}")).into());
        }
        let scope = scope_of(matches);
        let mut rows = house.survey(launch);
        rows.retain(|row| scope.is_none_or(|scope| row.scope == scope));
        match globals.format {
            Format::Json => {
                report::json(self.terminal, &rows.iter().map(as_json).collect::<Value>())?
            }
            Format::Text => self.terminal.print(&table(&rows, house))?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn warn_of_fixed_paths(&self, plan: &Plan, launch: &Launch) {
        if !matches!(plan.deed, Deed::Add | Deed::Replace) {
            return;
        }
        if let (Scope::User, Some(folder)) = (plan.scope, launch.fixed_workspace()) {
            let message = format!(
                "whatever project {} is in, haft will work in {folder}; leave out --workspace to have it follow",
                plan.client.name()
            );
            self.terminal.tell(Label::Warning, &message);
        }
        if let (Scope::Project, Some(program)) = (plan.scope, launch.fixed_program()) {
            let message = format!(
                "`haft` on your PATH is not this program, so {program} is written, which other machines may not have"
            );
            self.terminal.tell(Label::Note, &message);
        }
    }

    fn settle(&self, plan: Plan, globals: &Globals, consent: Consent) -> Result<ExitCode, Stop> {
        let is_asked = consent == Consent::Asked && plan.deed.changes_something();
        if globals.run == Run::Dry {
            return self.tell_deed(&Told::of(&plan), globals.format, "would be");
        }
        if is_asked {
            self.ask(&plan)?;
        }
        let mut told = Told::of(&plan);
        if is_asked {
            // It has just been read.
            told.diff.clear();
        }
        told.backup = match plan.deed {
            Deed::AlreadyThere => None,
            _ => plan.carry_out(self.environment)?.map(|backup| backup.display().to_string()),
        };
        self.tell_deed(&told, globals.format, "was")
    }

    /// Waits for a yes.
    fn ask(&self, plan: &Plan) -> Result<(), ToolError> {
        let file = plan.file.display().to_string();
        let nobody = |why: &str| {
            let message = format!("{file} was not changed: {why}");
            ToolError::new(ErrorKind::ApprovalUnavailable, message)
                .hint("add `--yes` to write it unasked, or `--print` to see what to add by hand")
        };
        let tty = Tty::open().map_err(|_| nobody("there is no terminal to ask at"))?;
        tty.forget_typed_ahead();
        let diff = plan.diff();
        let diff: String = shown(&diff).lines().map(|line| format!("  | {line}\n")).collect();
        let what =
            format!("{} ({}, {})", shown_in_line(&file), plan.client.name(), plan.scope.name());
        tty.write(&format!("\nhaft would change {what}:\n{diff}"));
        loop {
            tty.write("  [y] yes   [n] no\n> ");
            let line =
                self.runtime.block_on(async { tokio::time::timeout(PATIENCE, tty.line()).await });
            let line = line.ok().flatten().ok_or_else(|| nobody("nobody answered"))?;
            match line.to_lowercase().as_str() {
                "y" | "yes" => return Ok(()),
                "n" | "no" => {
                    let message = format!("{file} was not changed: you said no");
                    return Err(ToolError::new(ErrorKind::ApprovalDenied, message)
                        .hint("`--print` shows what to add by hand"));
                }
                _ => {}
            }
        }
    }

    fn tell_deed(&self, told: &Told, format: Format, was: &str) -> Result<ExitCode, Stop> {
        match format {
            Format::Json => report::json(self.terminal, &told.as_json())?,
            Format::Text => self.terminal.print(&told.words(was))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Whether somebody has to be asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Consent {
    Given,
    Asked,
}

impl Consent {
    fn of(matches: &ArgMatches) -> Self {
        if matches.get_flag("yes") { Self::Given } else { Self::Asked }
    }
}

/// What is said about a change.
struct Told {
    client: Client,
    scope: Scope,
    deed: Deed,
    file: String,
    diff: String,
    backup: Option<String>,
}

impl Told {
    fn of(plan: &Plan) -> Self {
        let diff = if plan.deed.changes_something() { plan.diff() } else { String::new() };
        let file = plan.file.display().to_string();
        Self { client: plan.client, scope: plan.scope, deed: plan.deed, file, diff, backup: None }
    }

    fn words(&self, was: &str) -> String {
        let (file, client) = (&self.file, self.client.name());
        let deed = match self.deed {
            Deed::AlreadyThere => format!("haft is already there: {file}"),
            Deed::Add => format!("haft {was} added to {file}"),
            Deed::Replace => format!("the haft entry {was} replaced in {file}"),
            Deed::AlreadyBack => format!("there is nothing of haft's last change left in {file}"),
            Deed::Restore => format!("{file} {was} put back as it was before"),
            Deed::TakeOut => {
                format!("{file} was changed since, so only haft's entry {was} taken out of it")
            }
            Deed::RemoveFile => format!("{file} {was} removed; haft had made it"),
        };
        let mut words = format!("{}{deed}\n", self.diff);
        if let Some(backup) = &self.backup {
            words.push_str(&format!("the file as it was before: {backup}\n"));
        }
        if matches!(self.deed, Deed::Add | Deed::Replace) && was == "was" {
            words.push_str(&format!("next: {}\n", self.client.next_step(self.scope)));
            words.push_str(&format!("`haft init {client} --undo` takes it back\n"));
        }
        words
    }

    fn as_json(&self) -> Value {
        json!({
            "client": self.client.name(),
            "scope": self.scope.name(),
            "file": self.file,
            "change": self.deed.name(),
            "diff": self.diff,
            "backup": self.backup,
        })
    }
}

fn scope_of(matches: &ArgMatches) -> Option<Scope> {
    let name = matches.get_one::<String>("scope")?;
    Scope::ALL.into_iter().find(|scope| scope.name() == name)
}

fn as_json(row: &Row) -> Value {
    json!({
        "client": row.client.name(),
        "scope": row.scope.name(),
        "haft": row.status,
        "file": row.file.display().to_string(),
    })
}

fn table(rows: &[Row], house: &House<'_>) -> String {
    let line = |client: &str, scope: &str, status: &str, file: &str| {
        format!("{client:<9} {scope:<8} {status:<6} {file}\n")
    };
    let mut table = line("client", "scope", "haft", "file");
    for row in rows {
        let file = short(&row.file, house);
        table.push_str(&line(row.client.name(), row.scope.name(), row.status, &file));
    }
    table.push_str("\nhaft: yes, no, other (an entry that says something else), - (no file), ? (cannot be read)\n");
    table
}

/// From the project or from the home, as people say it.
fn short(file: &Path, house: &House<'_>) -> String {
    let home = house.environment.host.home.as_deref().and_then(|home| home.canonicalize().ok());
    let in_home = home.and_then(|home| Some(Path::new("~").join(file.strip_prefix(home).ok()?)));
    let in_project = file.strip_prefix(house.workspace).ok().map(Path::to_owned);
    in_project.or(in_home).unwrap_or_else(|| file.to_owned()).display().to_string()
}
