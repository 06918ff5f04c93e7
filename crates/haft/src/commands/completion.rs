//! Shell completion. `haft completions SHELL` prints a script; it runs haft again with
//! `$HAFT_COMPLETE` set at every Tab, which builds one command's parser and prints what fits.
//! Values that only a store knows (ids, sessions, changes) are read then, and a store that does not
//! exist is not made.

use std::{ffi::OsString, path::PathBuf, process::ExitCode, sync::Arc};

use clap::{Arg, ArgMatches, Command, builder::PossibleValuesParser};
use clap_complete::{
    engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter},
    env::Shells,
};
use haft::host::{
    Choices, config::Settings, environment::Environment as HostEnvironment, inbox, state_folder,
    store_location,
};
use haft_core::{ChangeQuery, Journal, SavedRules, SessionQuery, Sessions, ToolError, ToolSpec};
use haft_store::{StoreJournal, StoreOutputs, StoreRules, StoreSessions};
use tokio::runtime::Runtime;

use super::{COMMANDS, Cli, Ended, OwnCommand, overview::summary, root, taken};
use crate::{
    globals::{self, command_word},
    prompt,
    reference::placeholders,
    safe_text::shown_in_line,
    terminal::write_out,
    tool_command::ToolCommand,
};

/// Names the shell that asks for completion.
pub(crate) const VARIABLE: &str = "HAFT_COMPLETE";
/// A shell shows no more at once.
const MAX_CANDIDATES: usize = 100;
const NAMES: &[&str] = &["bash", "elvish", "fish", "powershell", "zsh"];

/// Arguments of haft's own commands with values that a table of clap does not know: the command,
/// the argument's id and the source of its values.
const VALUES: &[(&str, &str, ValueSource)] = &[
    ("approvals approve", "id", ValueSource::Approvals),
    ("approvals deny", "id", ValueSource::Approvals),
    ("approvals show", "id", ValueSource::Approvals),
    ("call", "name", ValueSource::Tools),
    ("help", "command", ValueSource::Commands),
    ("policy revoke", "id", ValueSource::Rules),
    ("policy why", "tool", ValueSource::Tools),
    ("replay", "session", ValueSource::Sessions),
    ("secret remove", "name", ValueSource::Secrets),
    ("tools", "name", ValueSource::Tools),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueSource {
    Approvals,
    Changes,
    Commands,
    Outputs,
    Profiles,
    Rules,
    Secrets,
    Sessions,
    Tools,
}

pub(super) fn command() -> Command {
    let shell = Arg::new("shell").value_name("SHELL").required(true);
    Command::new("completions")
        .about("Print a shell completion script")
        .long_about(
            "Print a shell completion script. It completes commands, tools, options, their values, ids and paths.\n\n\
             bash: add `source <(haft completions bash)` to ~/.bashrc\n\
             zsh: add `source <(haft completions zsh)` to ~/.zshrc, after compinit\n\
             fish: haft completions fish > ~/.config/fish/completions/haft.fish",
        )
        .arg(shell.value_parser(PossibleValuesParser::new(NAMES)).help("The shell"))
}

impl Cli<'_> {
    /// `haft completions SHELL`
    pub(super) fn completions(&self, matches: &ArgMatches) -> Ended {
        let shell = matches.get_one::<String>("shell").map_or("", String::as_str);
        let shells = Shells::builtins();
        let Some(shell) = shells.completer(shell) else { return Ok(ExitCode::FAILURE) };
        let mut script = Vec::new();
        shell.write_registration(VARIABLE, "haft", "haft", "haft", &mut script)?;
        self.terminal.print(&String::from_utf8_lossy(&script))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Answers the script of this shell. `arguments` are a `--`, the program's name and the words
    /// of the line.
    pub(super) fn complete(&self, shell: &str) -> Ended {
        let shells = Shells::builtins();
        let Some(shell) = shells.completer(shell) else {
            let message = format!("${VARIABLE} names no shell that is known: {shell}");
            return Err(ToolError::input(message).hint("run `haft completions --help`").into());
        };
        let words = match self.arguments {
            [dashes, words @ ..] if dashes == "--" => words.to_vec(),
            words => words.to_vec(),
        };
        let typed = words.get(1..).unwrap_or_default();
        let mut command = self.completable(typed);
        let mut found = Vec::new();
        // A line that cannot be completed has no candidates.
        let _ = shell.write_complete(
            &mut command,
            words.clone(),
            self.environment.host.directory.as_deref(),
            &mut found,
        );
        write_out(&String::from_utf8_lossy(&found))?;
        Ok(ExitCode::SUCCESS)
    }

    /// The names of all commands and tools, and the parser of the one that is on the line.
    fn completable(&self, typed: &[OsString]) -> Command {
        let options = globals::options();
        let values = Values::new(self, typed);
        let named = command_word(typed, &options);
        let kebab = |name: &str| name.replace('_', "-");
        let taken = taken(&options).into_iter().map(str::to_owned).collect::<Vec<_>>();
        let taken: Vec<&str> = taken.iter().map(String::as_str).collect();
        let own = COMMANDS.iter().map(|own| match named {
            Some(name) if name == own.name => values.added_to((own.command)(), own.name),
            _ => name_only(own),
        });
        let specs = self.specs(&placeholders());
        let tools = specs.iter().map(|spec| {
            let is_named = named.is_some_and(|name| name == spec.name || name == kebab(&spec.name));
            let command = if is_named {
                let form = ToolCommand::of(&spec.input, &taken);
                values.added_to_tool(form.command(spec, &spec.description), spec)
            } else {
                Command::new(spec.name.to_string()).about(summary(&spec.description))
            };
            let alias = kebab(&spec.name);
            if alias == spec.name { command } else { command.alias(alias) }
        });
        let options = options.into_iter().map(|option| match option.get_id().as_str() {
            "profile" => values.with(option, ValueSource::Profiles),
            _ => option,
        });
        root(options.collect()).subcommands(own).subcommands(tools)
    }
}

fn name_only(own: &OwnCommand) -> Command {
    let about = (own.command)().get_about().cloned().unwrap_or_default();
    Command::new(own.name).about(about)
}

/// The data that the sources of values read.
#[derive(Clone)]
struct Values {
    environment: Arc<HostEnvironment>,
    choices: Arc<Choices>,
    tools: Arc<Vec<(String, String)>>,
    runtime: &'static Runtime,
}

impl Values {
    fn new(cli: &Cli<'_>, typed: &[OsString]) -> Self {
        let tools = cli.specs(&placeholders());
        let tools = tools.iter().map(|spec| (spec.name.to_string(), summary(&spec.description)));
        Self {
            environment: Arc::new(cli.environment.host.clone()),
            choices: Arc::new(choices(typed)),
            tools: Arc::new(tools.collect()),
            runtime: cli.runtime,
        }
    }

    fn added_to(&self, command: Command, path: &str) -> Command {
        let names: Vec<String> =
            command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
        let command = command.mut_args(|arg| {
            let is_it =
                |(at, id, _): &&(&str, &str, ValueSource)| *at == path && arg.get_id() == id;
            match VALUES.iter().find(is_it) {
                Some((_, _, source)) => self.with(arg, *source),
                None => arg,
            }
        });
        names.into_iter().fold(command, |command, name| {
            let path = format!("{path} {name}");
            command.mut_subcommand(name, |inner| self.added_to(inner, &path))
        })
    }

    fn added_to_tool(&self, command: Command, spec: &ToolSpec) -> Command {
        command.mut_args(|arg| {
            // See `Field::id`: the name of the property comes last.
            let Some((_, field)) = arg.get_id().as_str().split_once("input.") else { return arg };
            let field = field.to_owned();
            if spec.input.is_path(&field) {
                return arg.add(ArgValueCompleter::new(PathCompleter::any()));
            }
            match spec.input.refers_to(&field) {
                Some("change") => self.with(arg, ValueSource::Changes),
                Some("output") => self.with(arg, ValueSource::Outputs),
                Some("session") => self.with(arg, ValueSource::Sessions),
                _ => arg,
            }
        })
    }

    fn with(&self, arg: Arg, source: ValueSource) -> Arg {
        let values = self.clone();
        arg.add(ArgValueCandidates::new(move || values.of(source)))
    }

    fn of(&self, source: ValueSource) -> Vec<CompletionCandidate> {
        let found = match source {
            ValueSource::Tools => Ok(self.tools.to_vec()),
            ValueSource::Commands => Ok(self.commands()),
            source => self.runtime.block_on(self.stored(source)),
        };
        let candidate = |(value, help): (String, String)| {
            let help = shown_in_line(&help).into_owned();
            CompletionCandidate::new(value).help((!help.is_empty()).then(|| help.into()))
        };
        // Completion reports no errors: the command that is typed will.
        found.unwrap_or_default().into_iter().take(MAX_CANDIDATES).map(candidate).collect()
    }

    fn commands(&self) -> Vec<(String, String)> {
        let about = |own: &OwnCommand| (own.command)().get_about().map(ToString::to_string);
        let own = COMMANDS.iter().map(|own| (own.name.to_owned(), about(own).unwrap_or_default()));
        own.chain(self.tools.iter().cloned()).collect()
    }

    async fn stored(&self, source: ValueSource) -> Result<Vec<(String, String)>, ToolError> {
        let settings = Settings::load(&self.choices, &self.environment)?;
        let (place, workspace) = (store_location(&settings), &settings.workspace);
        Ok(match source {
            ValueSource::Approvals => {
                let Some(inbox) = inbox(&self.environment, &settings) else {
                    return Ok(Vec::new());
                };
                let found = inbox.entries().await?.entries;
                let open = found.iter().filter(|entry| super::approvals::is_open(entry));
                let named = open.map(|entry| {
                    let request = &entry.record.request;
                    (request.id.clone(), prompt::summary(request))
                });
                named.collect()
            }
            ValueSource::Changes => {
                let Some(keep) = settings.journal else { return Ok(Vec::new()) };
                let query = ChangeQuery { limit: MAX_CANDIDATES, ..ChangeQuery::default() };
                let changes = StoreJournal::new(place, keep).find(workspace, &query).await?;
                let named = changes.into_iter().map(|change| {
                    let paths = change.entries.iter().map(|it| it.path.display().to_string());
                    let paths = paths.collect::<Vec<_>>().join(", ");
                    (change.number.to_string(), format!("{} {paths}", change.tool))
                });
                named.collect()
            }
            ValueSource::Outputs => {
                let outputs =
                    StoreOutputs::new(place, workspace, settings.outputs.retention.clone());
                let named = outputs.newest(MAX_CANDIDATES).await?.into_iter();
                named.map(|(id, made_by)| (id, made_by.tool)).collect()
            }
            ValueSource::Rules => {
                let Some(state) = state_folder(&self.environment) else { return Ok(Vec::new()) };
                let rules = StoreRules::new(place, workspace, &state).list().await?;
                rules.into_iter().map(|saved| (saved.id, saved.rule)).collect()
            }
            ValueSource::Secrets => {
                let vault = haft::host::vault(&self.environment);
                let kept = vault.map(|vault| vault.list()).transpose()?.unwrap_or_default();
                kept.into_iter().map(|secret| (secret.name, secret.hosts.join(", "))).collect()
            }
            ValueSource::Sessions => {
                let query = SessionQuery { text: None, archived: true, limit: MAX_CANDIDATES };
                let sessions = StoreSessions::new(place, workspace).list(&query).await?;
                let named = sessions.into_iter().map(|session| {
                    let help = session.title.or(session.client).unwrap_or_default();
                    (session.id, help)
                });
                named.collect()
            }
            ValueSource::Profiles => {
                let named = settings.policy.profiles.names().map(str::to_owned);
                named.map(|name| (name, String::new())).collect()
            }
            ValueSource::Commands | ValueSource::Tools => Vec::new(),
        })
    }
}

/// The options of every command that say where values are kept, from a line that need not parse.
fn choices(typed: &[OsString]) -> Choices {
    let value = |name: &str| {
        let long = format!("--{name}");
        typed.iter().enumerate().find_map(|(index, word)| {
            if *word == *long {
                return typed.get(index + 1).cloned();
            }
            let inline = word.to_str()?.strip_prefix(&long)?.strip_prefix('=')?;
            Some(OsString::from(inline))
        })
    };
    Choices {
        workspace: value("workspace").map(PathBuf::from),
        config: value("config").map(PathBuf::from),
        store: value("store").and_then(|store| store.into_string().ok()),
        ..Choices::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::own_command, *};

    #[test]
    fn every_source_is_attached_to_an_argument_that_exists() {
        for (path, id, _) in VALUES {
            let mut words = path.split(' ');
            let own = words.next().and_then(own_command).expect("a command");
            let mut command = (own.command)();
            for word in words {
                command = command.find_subcommand(word).expect("a command in it").clone();
            }
            assert!(command.get_arguments().any(|arg| arg.get_id() == id), "{path}: {id}");
        }
    }

    #[test]
    fn the_shells_are_the_ones_of_the_engine() {
        assert_eq!(Shells::builtins().names().collect::<Vec<_>>(), NAMES);
    }

    #[test]
    fn places_are_read_from_an_unfinished_line() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let found = choices(&words("--workspace /w --store=s.db approvals show --json"));
        assert_eq!(found.workspace, Some("/w".into()));
        assert_eq!(found.store.as_deref(), Some("s.db"));
        assert_eq!(choices(&words("--workspace")).workspace, None);
    }
}
