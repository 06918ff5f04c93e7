//! The commands: every tool by its name, and the few that are about tools. A call builds the parser of one tool only;
//! help, completions and the manual build them all.

mod approvals;
mod bench;
mod doctor;
mod init;
mod ledger;
mod listing;
mod mcp;
mod pages;
mod policy;
mod replay;
mod secret;
mod store;

use std::{ffi::OsString, io, process::ExitCode, sync::Arc};

use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;
use haft::host::{Ending, Host, catalogue, config::Settings, state};
use haft_core::{
    CallRequest, Context, Gate, Input, Outcome, Registry, Scope, Tool, ToolError, ToolSpec,
    did_you_mean, nearest,
};
use haft_exec::Programs;
use tokio::runtime::Runtime;

use crate::{
    calls::{self, Attendant, Watching},
    environment::Environment,
    globals::{self, Format, Globals, command_word},
    manual,
    prompt::TerminalPrompt,
    reference, report, stdin,
    stop::Stop,
    terminal::{Label, Terminal, Tty},
    tool_command::ToolCommand,
};

const ABOUT: &str = "The tool layer for AI agents: every action through one gate";

/// A command that is no tool.
struct OwnCommand {
    name: &'static str,
    command: fn() -> Command,
    run: Run,
}

enum Run {
    /// With its arguments parsed by its own command.
    Parsed(fn(&Cli<'_>, &ArgMatches) -> Ended),
    /// Parses the arguments itself, since they may be those of a tool.
    Unparsed(fn(&Cli<'_>) -> Ended),
}

type Ended = Result<ExitCode, Stop>;

const fn parsed(
    name: &'static str,
    command: fn() -> Command,
    run: fn(&Cli<'_>, &ArgMatches) -> Ended,
) -> OwnCommand {
    OwnCommand { name, command, run: Run::Parsed(run) }
}

const fn unparsed(
    name: &'static str,
    command: fn() -> Command,
    run: fn(&Cli<'_>) -> Ended,
) -> OwnCommand {
    OwnCommand { name, command, run: Run::Unparsed(run) }
}

/// The commands that are no tools, in the order of `haft --help`.
const COMMANDS: &[OwnCommand] = &[
    parsed("call", call_command, |bench, matches| bench.call(matches)),
    parsed("tools", listing::command, |bench, matches| bench.tools(matches)),
    unparsed("policy", policy::command, |bench| bench.policy()),
    parsed("approvals", approvals::command, |bench, matches| bench.approvals(matches)),
    parsed("mcp", mcp::command, |bench, matches| {
        mcp::run(bench.environment, bench.terminal, bench.registry.clone(), matches)
    }),
    parsed("init", init::command, |bench, matches| bench.init(matches)),
    parsed("ledger", ledger::command, |bench, matches| bench.ledger(matches)),
    parsed("replay", replay::command, |bench, matches| bench.replay(matches)),
    parsed("store", store::command, |bench, matches| bench.store(matches)),
    parsed("secret", secret::command, |bench, matches| bench.secret(matches)),
    parsed("doctor", doctor::command, |bench, matches| bench.doctor(matches)),
    parsed("bench", bench::command, |bench, matches| bench.bench(matches)),
    unparsed("completions", completions_command, |bench| bench.about_all()),
    unparsed("man", man_command, |bench| bench.about_all()),
    parsed("reference", pages::command, |bench, matches| bench.reference(matches)),
];

/// Runs what the arguments ask for.
pub(crate) fn run(
    arguments: &[OsString],
    environment: &Environment,
    terminal: &Arc<Terminal>,
) -> Ended {
    let options = globals::options();
    let bench = Cli::new(arguments, environment, terminal)?;
    let word = match command_word(arguments, &options) {
        None | Some("help") => return bench.about_all(),
        Some(word) => word,
    };
    if let Some(own) = COMMANDS.iter().find(|own| own.name == word) {
        return match own.run {
            Run::Parsed(run) => {
                run(&bench, &parse(root(options).subcommand((own.command)()), arguments)?)
            }
            Run::Unparsed(run) => run(&bench),
        };
    }
    match bench.find(word) {
        Some(tool) => bench.tool(&*tool, options),
        None => Err(bench.unknown(word).into()),
    }
}

/// What every command works with.
struct Cli<'a> {
    arguments: &'a [OsString],
    environment: &'a Environment,
    terminal: &'a Arc<Terminal>,
    registry: Registry,
    runtime: &'static Runtime,
}

impl<'a> Cli<'a> {
    /// The settings in force, with the tools in the profiles that they name.
    fn settings(&self, globals: &Globals) -> Result<Settings, ToolError> {
        let mut settings = Settings::load(&globals.choices, &self.environment.host)?;
        self.registry.place_in(&mut settings.policy.profiles);
        Ok(settings)
    }

    fn new(
        arguments: &'a [OsString],
        environment: &'a Environment,
        terminal: &'a Arc<Terminal>,
    ) -> Result<Self, ToolError> {
        let registry = catalogue()?;
        let runtime = calls::runtime().map_err(no_threads)?;
        Ok(Self { arguments, environment, terminal, registry, runtime })
    }

    /// The tool of this name, in snake case or kebab case.
    fn find(&self, word: &str) -> Option<Arc<dyn Tool>> {
        let name = if self.registry.has(word) { word.to_owned() } else { word.replace('-', "_") };
        self.runtime.block_on(self.registry.get(&name))
    }

    fn unknown(&self, word: &str) -> ToolError {
        let tools = self.registry.names();
        let known = tools.iter().map(String::as_str).chain(COMMANDS.iter().map(|own| own.name));
        let hint = match did_you_mean(&nearest(word, known)) {
            near if near.is_empty() => "see `haft --help` for the commands there are".to_owned(),
            near => near,
        };
        let shown: String = word.chars().take(80).collect();
        ToolError::not_found(format!("there is no tool or command `{shown}`")).hint(hint)
    }

    /// `haft TOOL …`
    fn tool(&self, tool: &dyn Tool, options: [Arg; 10]) -> Ended {
        let spec = tool.spec();
        let form = ToolCommand::of(&spec.input, &taken(&options));
        let matches = parse(root(options).subcommand(tool_command(spec, &form)), self.arguments)?;
        let globals = Globals::of(&matches);
        let settings = Settings::load(&globals.choices, &self.environment.host)?;
        let most = settings.limits.input_bytes;
        let input = form.input(&matches, || stdin::read_text(most))?;
        self.make(&globals, settings, tool.name(), Input::Value(input))
    }

    /// `haft call NAME [JSON|-]`
    fn call(&self, matches: &ArgMatches) -> Ended {
        let globals = Globals::of(matches);
        let settings = Settings::load(&globals.choices, &self.environment.host)?;
        let (name, input) = named_call(matches, &settings)?;
        self.make(&globals, settings, name, input)
    }

    fn make(&self, globals: &Globals, settings: Settings, tool: &str, input: Input) -> Ended {
        self.warn(&settings);
        let request = request(globals, &settings, tool, input);
        let mut prompt = self.prompt();
        if settings.store.asks_elsewhere {
            prompt = prompt.or_elsewhere();
        }
        let prompt = Arc::new(prompt);
        let gate = self.gate(settings, prompt.clone())?;
        if globals.run == globals::Run::Dry {
            let explained = self.runtime.block_on(gate.explain(request))?;
            report::explanation(self.terminal, globals.format, &explained)?;
            return Ok(ExitCode::SUCCESS);
        }
        let outcome = self.attended(&gate, request, globals.format);
        Programs::end_everything();
        let outcome = outcome?;
        self.runtime.block_on(prompt.put_away());
        Ok(report::outcome(self.terminal, globals.format, &outcome)?)
    }

    fn attended(&self, gate: &Gate, request: CallRequest, format: Format) -> Result<Outcome, Stop> {
        let is_watched = self.terminal.shows_words() && format == Format::Text;
        let watching = if is_watched { Watching::Yes } else { Watching::No };
        let attendant = Attendant::new(self.terminal.clone(), watching).map_err(no_threads)?;
        let (terminal, tool) = (self.terminal.clone(), request.tool.clone());
        // What a command leaves behind is found among our children. This thread starts no processes itself.
        Programs::take_in_orphans();
        let outcome = calls::make(self.runtime, gate, request, attendant, move |end| {
            report::abandoned(&terminal, format, &tool, &end)
        });
        outcome.map_err(|error| no_threads(error).into())
    }

    fn prompt(&self) -> TerminalPrompt {
        let Environment { host, colours, .. } = self.environment;
        let scopes = scopes_at_terminal(self.environment);
        TerminalPrompt::new(self.terminal.clone(), host.user.clone(), *colours, scopes)
    }

    fn gate(&self, settings: Settings, prompt: Arc<TerminalPrompt>) -> Result<Gate, ToolError> {
        Ok(self.host(settings)?.gate().handler(prompt).build())
    }

    /// A host for one call at a terminal.
    fn host(&self, settings: Settings) -> Result<Host, ToolError> {
        let host = Host::new(self.environment.host.clone(), settings, self.registry.clone())?;
        host.warnings().iter().for_each(|text| self.terminal.tell(Label::Warning, text));
        Ok(host.ending(Ending::WithTheCall).attended(|| Tty::open().is_ok()))
    }

    fn warn(&self, settings: &Settings) {
        if settings.has_rules {
            for warning in settings.policy.warnings(&self.registry.names()) {
                self.terminal.tell(Label::Warning, &warning);
            }
        }
    }

    /// `haft doctor`
    fn doctor(&self, matches: &ArgMatches) -> Ended {
        let globals = Globals::of(matches);
        let host = self.host(Settings::load(&globals.choices, &self.environment.host)?)?;
        let tried = self.runtime.block_on(doctor::try_command(&host));
        Programs::end_everything();
        let known = (host.settings(), self.environment);
        doctor::run(self.terminal, globals.format, host.workspace(), known, tried)
    }

    /// What needs the parser of every tool.
    fn about_all(&self) -> Ended {
        let commands = self.all_commands().after_long_help(after_help());
        let matches = commands.try_get_matches_from(with_program(self.arguments))?;
        match matches.subcommand() {
            Some(("completions", matches)) => {
                let Some(shell) = matches.get_one::<Shell>("shell") else {
                    return Ok(ExitCode::FAILURE);
                };
                let mut script = Vec::new();
                clap_complete::generate(*shell, &mut self.all_commands(), "haft", &mut script);
                self.terminal.print(&String::from_utf8_lossy(&script))?;
            }
            _ => {
                self.terminal.print(&manual::page(self.all_commands())?)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn all_commands(&self) -> Command {
        let options = globals::options();
        let taken: Vec<String> = taken(&options).into_iter().map(str::to_owned).collect();
        let taken: Vec<&str> = taken.iter().map(String::as_str).collect();
        let specs = self.specs(&reference::anywhere());
        let tools =
            specs.iter().map(|spec| tool_command(spec, &ToolCommand::of(&spec.input, &taken)));
        root(options).disable_help_subcommand(false).subcommands(own_commands()).subcommands(tools)
    }

    fn specs(&self, surroundings: &haft_core::Surroundings) -> Vec<ToolSpec> {
        let definitions = self.runtime.block_on(self.registry.definitions(surroundings));
        definitions.warnings.iter().for_each(|text| self.terminal.tell(Label::Warning, text));
        definitions.specs
    }
}

/// The tool and the input of `haft call`.
fn named_call<'m>(
    matches: &'m ArgMatches,
    settings: &Settings,
) -> Result<(&'m str, Input), ToolError> {
    let name = matches.get_one::<String>("name").map_or("", String::as_str);
    let text = match matches.get_one::<String>("input").map(String::as_str) {
        None if !stdin::is_piped() => String::new(),
        None | Some("-") => stdin::read_text(settings.limits.input_bytes)?,
        Some(text) => text.to_owned(),
    };
    // Nothing at all is a call without arguments.
    let is_blank = text.trim().is_empty();
    Ok((name, if is_blank { Input::Value(serde_json::Value::Null) } else { Input::Text(text) }))
}

/// A call as it is made from the command line.
fn request(globals: &Globals, settings: &Settings, tool: &str, input: Input) -> CallRequest {
    let mut context = Context::new("cli");
    context.agents = globals.choices.agent.iter().cloned().collect();
    context.profile.clone_from(&settings.profile);
    context.deadline = globals.timeout;
    CallRequest::new(tool, input, context)
}

/// Those whose id begins like this, with or without the word before its first `_`. An exact id stands for itself.
fn by_id<'a, T>(all: &'a [T], wanted: &str, id: impl Fn(&T) -> &str) -> Vec<&'a T> {
    if let Some(exact) = all.iter().find(|item| id(item) == wanted) {
        return vec![exact];
    }
    let begins = |item: &&T| {
        let id = id(item);
        let bare = id.split_once('_').map_or("", |(_, bare)| bare);
        !wanted.is_empty() && (id.starts_with(wanted) || bare.starts_with(wanted))
    };
    all.iter().filter(begins).collect()
}

/// The scopes that a person at a terminal may choose from. Not the session: every command is of the session `cli`, so a rule
/// of that session would be one for the project by another name.
fn scopes_at_terminal(environment: &Environment) -> Vec<Scope> {
    if state(&environment.host).is_some() { vec![Scope::Project, Scope::User] } else { Vec::new() }
}

fn no_threads(error: io::Error) -> ToolError {
    ToolError::unavailable(format!("this process cannot be given what it runs on: {error}"))
        .hint("see whether the limits on processes, threads or open files are reached")
        .caused_by(error)
}

/// The options that a tool's own may not be called.
fn taken(options: &[Arg]) -> Vec<&str> {
    options.iter().filter_map(Arg::get_long).chain(["help", "version"]).collect()
}

fn parse(command: Command, arguments: &[OsString]) -> Result<ArgMatches, clap::Error> {
    let matches = command.try_get_matches_from(with_program(arguments))?;
    // A command has been named, or we would not be here; global options are known inside it too.
    Ok(matches.subcommand().map_or_else(|| matches.clone(), |(_, inner)| inner.clone()))
}

fn with_program(arguments: &[OsString]) -> impl Iterator<Item = OsString> {
    std::iter::once(OsString::from("haft")).chain(arguments.iter().cloned())
}

fn root(options: [Arg; 10]) -> Command {
    Command::new("haft")
        .version(env!("CARGO_PKG_VERSION"))
        .about(ABOUT)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .args(options)
}

/// What stands below the help of all commands.
fn after_help() -> String {
    let codes =
        reference::exit_codes().into_iter().map(|(code, kinds)| format!("  {code:>3}  {kinds}"));
    let files = manual::FILES.map(|(file, whose)| format!("  {file:<28}{whose}"));
    let lines = ["Exit codes:".to_owned()].into_iter().chain(codes);
    lines.chain(["\nFiles:".to_owned()]).chain(files).collect::<Vec<_>>().join("\n")
}

fn tool_command(spec: &ToolSpec, form: &ToolCommand) -> Command {
    let description = reference::anywhere().describe(spec);
    let description = description.unwrap_or_else(|_| spec.description.clone());
    let kebab = spec.name.replace('_', "-");
    let command = form.command(spec, &description);
    if kebab == spec.name { command } else { command.alias(kebab) }
}

/// The parsers of all commands that are no tools.
fn own_commands() -> impl Iterator<Item = Command> {
    COMMANDS.iter().map(|own| (own.command)())
}

fn completions_command() -> Command {
    let shell = Arg::new("shell").value_name("SHELL").required(true);
    Command::new("completions")
        .about("Print a completion script for your shell")
        .arg(shell.value_parser(value_parser!(Shell)))
}

fn man_command() -> Command {
    Command::new("man").about("Print the manual page")
}

fn call_command() -> Command {
    Command::new("call")
        .about("Call a tool with JSON")
        .arg(Arg::new("name").value_name("TOOL").required(true).help("The tool"))
        .arg(
            Arg::new("input")
                .value_name("JSON")
                .help("The input, or - to read it from standard input, as it is when piped"),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_by_the_names_of_their_parsers() {
        assert!(
            own_commands()
                .map(|it| it.get_name().to_owned())
                .eq(COMMANDS.iter().map(|own| own.name))
        );
    }
}
