//! `haft init CLIENT`: shows the change to a client's configuration, asks, and reports the result.
//! `crate::init` makes the change.

use std::{path::Path, process::ExitCode, time::Duration};

use clap::{Arg, ArgAction, ArgMatches, Command};
use haft::host::config::Settings;
use haft_core::{ErrorKind, ToolError};
use serde_json::{Value, json};

use super::Cli;
use crate::{
    environment,
    globals::{Format, Globals, Run},
    init::{
        self, ClientApp, ClientConfigs, ClientStatus, ConfigAction, InitPlan, InitScope,
        ServerCommand,
    },
    report,
    safe_text::{shown, shown_in_line},
    stop::Stop,
    terminal::{Label, Tty},
};

/// The same as the default wait for an approval: the user may be reading the diff.
const PROMPT_TIMEOUT: Duration = Duration::from_secs(600);

const QUESTIONS: &str = "\
What is written?   An MCP server called `haft` that the client starts as `haft mcp`. --profile, --agent,
                   --approve, --config and --workspace given here become its arguments.
Where?             In the project's file, or with --scope user in your own. `haft init` lists all files.
What else changes? Nothing: comments, order and layout stay. A file that does not parse is not changed.
How to undo?       `--undo` reverts the last change. Until then a backup of the old file is next to it.

Examples:
  haft init                            list the clients, and whether haft is in them
  haft init claude                     show the change and ask
  haft init zed --scope user --yes     for all your projects, without asking
  haft init codex --profile reviewer   only with the tools of one profile
  haft init cursor --print             print the entry to add by hand
  haft init claude --undo              revert the last change";

pub(super) fn command() -> Command {
    let switch = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    let clients = ClientApp::ALL.map(ClientApp::name).join(", ");
    Command::new("init")
        .about("Set up an MCP client to use haft: write its configuration, with a backup")
        .arg(
            Arg::new("client")
                .value_name("CLIENT")
                .help(format!("Client to configure: {clients}. Default: list all")),
        )
        .arg(
            Arg::new("scope")
                .long("scope")
                .value_name("SCOPE")
                .value_parser(InitScope::ALL.map(InitScope::name))
                .help("The project's configuration, or yours for all projects [default: project]"),
        )
        .arg(switch("print", "Print the entry without changing a file"))
        .arg(switch("undo", "Revert the last change").conflicts_with("print"))
        .arg(switch("yes", "Do not ask before the change"))
        .after_help(QUESTIONS)
}

impl Cli<'_> {
    /// `haft init [CLIENT]`
    pub(super) fn init(&self, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let globals = Globals::of(matches);
        let settings = Settings::load(&globals.choices, &self.environment.host)?;
        let server = ServerCommand::new(
            environment::program().as_deref(),
            self.environment.search_path.as_deref(),
            &globals,
            &settings.directory,
        )?;
        let configs =
            ClientConfigs { workspace: &settings.workspace, environment: self.environment };
        let Some(word) = matches.get_one::<String>("client") else {
            return self.list_clients(matches, &globals, &configs, &server);
        };
        let client = ClientApp::named(word)?;
        if matches.get_flag("print") {
            self.terminal.print(&init::new_file(client, &server))?;
            return Ok(ExitCode::SUCCESS);
        }
        let scope = scope_of(matches);
        let plan = if matches.get_flag("undo") {
            configs.plan_undo(client, scope)?
        } else {
            configs.plan(client, scope.unwrap_or(InitScope::Project), &server)?
        };
        self.warn_about_fixed_paths(&plan, &server);
        self.apply(plan, &globals, Consent::of(matches))
    }

    fn list_clients(
        &self,
        matches: &ArgMatches,
        globals: &Globals,
        configs: &ClientConfigs<'_>,
        server: &ServerCommand,
    ) -> Result<ExitCode, Stop> {
        let needs_client = ["print", "undo", "yes"].into_iter().find(|name| matches.get_flag(name));
        if let Some(name) = needs_client {
            let error = ToolError::input(format!("--{name} needs a client"));
            let names = ClientApp::ALL.map(ClientApp::name).join(", ");
            return Err(error.hint(format!("add one of {names}")).into());
        }
        let scope = scope_of(matches);
        let mut rows = configs.survey(server);
        rows.retain(|row| scope.is_none_or(|scope| row.scope == scope));
        match globals.format {
            Format::Json => {
                report::json(self.terminal, &rows.iter().map(as_json).collect::<Value>())?
            }
            Format::Text => self.terminal.print(&table(&rows, configs))?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn warn_about_fixed_paths(&self, plan: &InitPlan, server: &ServerCommand) {
        if !matches!(plan.action, ConfigAction::Add | ConfigAction::Replace) {
            return;
        }
        if let (InitScope::User, Some(folder)) = (plan.scope, server.fixed_workspace()) {
            let message = format!(
                "haft will work in {folder} whatever project {} has open; leave out --workspace \
                 to use the open project",
                plan.client.name()
            );
            self.terminal.tell(Label::Warning, &message);
        }
        if let (InitScope::Project, Some(program)) = (plan.scope, server.fixed_program()) {
            let message = format!(
                "`haft` on your PATH is not this program, so the entry names {program}, which \
                 other machines may not have"
            );
            self.terminal.tell(Label::Note, &message);
        }
    }

    fn apply(&self, plan: InitPlan, globals: &Globals, consent: Consent) -> Result<ExitCode, Stop> {
        let is_asked = consent == Consent::Asked && plan.action.is_change();
        if globals.run == Run::Dry {
            return self.report_change(&ChangeReport::of(&plan), globals.format, "would be");
        }
        if is_asked {
            self.ask(&plan)?;
        }
        let mut report = ChangeReport::of(&plan);
        if is_asked {
            // The user has just read the diff.
            report.diff.clear();
        }
        report.backup = match plan.action {
            ConfigAction::AlreadyThere => None,
            _ => plan.apply(self.environment)?.map(|backup| backup.display().to_string()),
        };
        self.report_change(&report, globals.format, "was")
    }

    /// Asks the user and returns an error unless the answer is yes.
    fn ask(&self, plan: &InitPlan) -> Result<(), ToolError> {
        let file = plan.file.display().to_string();
        let not_approved = |why: &str| {
            let message = format!("{file} was not changed: {why}");
            ToolError::new(ErrorKind::ApprovalUnavailable, message).hint(
                "add `--yes` to write it without asking, or `--print` to see what to add by hand",
            )
        };
        let tty = Tty::open().map_err(|_| not_approved("no terminal is available to ask"))?;
        tty.forget_typed_ahead();
        let diff = plan.diff();
        let diff: String = shown(&diff).lines().map(|line| format!("  | {line}\n")).collect();
        let what =
            format!("{} ({}, {})", shown_in_line(&file), plan.client.name(), plan.scope.name());
        tty.write(&format!("\nhaft would change {what}:\n{diff}"));
        loop {
            tty.write("  [y] yes   [n] no\n> ");
            let line = self
                .runtime
                .block_on(async { tokio::time::timeout(PROMPT_TIMEOUT, tty.line()).await });
            let line = line.ok().flatten().ok_or_else(|| not_approved("no answer came"))?;
            match line.to_lowercase().as_str() {
                "y" | "yes" => return Ok(()),
                "n" | "no" => {
                    let message = format!("{file} was not changed: you answered no");
                    return Err(ToolError::new(ErrorKind::ApprovalDenied, message)
                        .hint("`--print` shows what to add by hand"));
                }
                _ => {}
            }
        }
    }

    fn report_change(
        &self,
        report: &ChangeReport,
        format: Format,
        was: &str,
    ) -> Result<ExitCode, Stop> {
        match format {
            Format::Json => report::json(self.terminal, &report.as_json())?,
            Format::Text => self.terminal.print(&report.text(was))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Whether the user must be asked.
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

/// The report of a change.
struct ChangeReport {
    client: ClientApp,
    scope: InitScope,
    action: ConfigAction,
    file: String,
    diff: String,
    backup: Option<String>,
}

impl ChangeReport {
    fn of(plan: &InitPlan) -> Self {
        let diff = if plan.action.is_change() { plan.diff() } else { String::new() };
        let file = plan.file.display().to_string();
        Self {
            client: plan.client,
            scope: plan.scope,
            action: plan.action,
            file,
            diff,
            backup: None,
        }
    }

    fn text(&self, was: &str) -> String {
        let (file, client) = (&self.file, self.client.name());
        let action = match self.action {
            ConfigAction::AlreadyThere => format!("haft is already in {file}"),
            ConfigAction::Add => format!("haft {was} added to {file}"),
            ConfigAction::Replace => format!("the haft entry {was} replaced in {file}"),
            ConfigAction::AlreadyUndone => {
                format!("haft's last change in {file} is already undone")
            }
            ConfigAction::Restore => format!("{file} {was} restored to its previous content"),
            ConfigAction::RemoveEntry => {
                format!("{file} has changed since, so only haft's entry {was} removed")
            }
            ConfigAction::RemoveFile => format!("{file} {was} removed; haft had created it"),
        };
        let mut text = format!("{}{action}\n", self.diff);
        if let Some(backup) = &self.backup {
            text.push_str(&format!("backup of the old file: {backup}\n"));
        }
        if matches!(self.action, ConfigAction::Add | ConfigAction::Replace) && was == "was" {
            text.push_str(&format!("next: {}\n", self.client.next_step(self.scope)));
            text.push_str(&format!("`haft init {client} --undo` reverts it\n"));
        }
        text
    }

    fn as_json(&self) -> Value {
        json!({
            "client": self.client.name(),
            "scope": self.scope.name(),
            "file": self.file,
            "change": self.action.name(),
            "diff": self.diff,
            "backup": self.backup,
        })
    }
}

fn scope_of(matches: &ArgMatches) -> Option<InitScope> {
    let name = matches.get_one::<String>("scope")?;
    InitScope::ALL.into_iter().find(|scope| scope.name() == name)
}

fn as_json(row: &ClientStatus) -> Value {
    json!({
        "client": row.client.name(),
        "scope": row.scope.name(),
        "haft": row.status,
        "file": row.file.display().to_string(),
    })
}

fn table(rows: &[ClientStatus], configs: &ClientConfigs<'_>) -> String {
    let line = |client: &str, scope: &str, status: &str, file: &str| {
        format!("{client:<9} {scope:<8} {status:<6} {file}\n")
    };
    let mut table = line("client", "scope", "haft", "file");
    for row in rows {
        let file = short(&row.file, configs);
        table.push_str(&line(row.client.name(), row.scope.name(), row.status, &file));
    }
    table.push_str(
        "\nhaft: yes, no, other (an entry with other content), - (no file), ? (unreadable file)\n",
    );
    table
}

/// Shortens a path relative to the project or the home directory.
fn short(file: &Path, configs: &ClientConfigs<'_>) -> String {
    let home = configs.environment.host.home.as_deref().and_then(|home| home.canonicalize().ok());
    let in_home = home.and_then(|home| Some(Path::new("~").join(file.strip_prefix(home).ok()?)));
    let in_project = file.strip_prefix(configs.workspace).ok().map(Path::to_owned);
    in_project.or(in_home).unwrap_or_else(|| file.to_owned()).display().to_string()
}
