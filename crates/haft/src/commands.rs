//! The commands: every tool by its name, and haft's own commands. A call builds the parser of one
//! command only; the manual builds them all.

mod approvals;
mod bench;
pub(crate) mod completion;
mod doctor;
mod init;
mod ledger;
mod listing;
mod mcp;
mod overview;
mod pages;
mod policy;
mod replay;
mod sample;
mod secret;
mod store;

use std::{ffi::OsString, io, process::ExitCode, sync::Arc};

use clap::{Arg, ArgMatches, Command};
use haft::host::{Host, Shutdown, catalogue, config::Settings, state_folder};
use haft_core::{
    CallRequest, Context, Gate, Input, Outcome, Registry, Scope, Tool, ToolError, ToolSpec,
    did_you_mean, nearest,
};
use haft_exec::Programs;
use tokio::runtime::Runtime;

use crate::{
    calls::{self, CallMonitor, StatusLine},
    environment::CliEnvironment,
    globals::{self, Format, Globals, command_word},
    manual,
    prompt::TerminalPrompt,
    reference, report, stdin,
    stop::Stop,
    terminal::{Label, Terminal, Tty},
    tool_command::ToolCommand,
};

const ABOUT: &str = "The tool layer for AI agents: every action through one gate";

/// A command that is not a tool.
struct OwnCommand {
    section: Section,
    name: &'static str,
    command: fn() -> Command,
    run: RunFn,
}

/// A heading of `haft --help`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Tools,
    Approvals,
    Serve,
    Records,
    Setup,
}

enum RunFn {
    /// Runs with the parsed arguments.
    Parsed(fn(&Cli<'_>, &ArgMatches) -> Ended),
    /// Parses the arguments itself, because they may be those of a tool.
    Unparsed(fn(&Cli<'_>) -> Ended),
}

type Ended = Result<ExitCode, Stop>;

const fn parsed(
    section: Section,
    name: &'static str,
    command: fn() -> Command,
    run: fn(&Cli<'_>, &ArgMatches) -> Ended,
) -> OwnCommand {
    OwnCommand { section, name, command, run: RunFn::Parsed(run) }
}

const fn unparsed(
    section: Section,
    name: &'static str,
    command: fn() -> Command,
    run: fn(&Cli<'_>) -> Ended,
) -> OwnCommand {
    OwnCommand { section, name, command, run: RunFn::Unparsed(run) }
}

/// haft's own commands, in the order of `haft --help`.
const COMMANDS: &[OwnCommand] = &[
    parsed(Section::Tools, "tools", listing::command, |cli, matches| cli.tools(matches)),
    parsed(Section::Tools, "call", call_command, |cli, matches| cli.call(matches)),
    unparsed(Section::Tools, "help", overview::help_command, |cli| cli.help()),
    parsed(Section::Approvals, "approvals", approvals::command, |cli, matches| {
        cli.approvals(matches)
    }),
    unparsed(Section::Approvals, "policy", policy::command, |cli| cli.policy()),
    parsed(Section::Serve, "mcp", mcp::command, |cli, matches| {
        mcp::run(cli.environment, cli.terminal, cli.registry.clone(), matches)
    }),
    parsed(Section::Records, "ledger", ledger::command, |cli, matches| cli.ledger(matches)),
    parsed(Section::Records, "replay", replay::command, |cli, matches| cli.replay(matches)),
    parsed(Section::Records, "store", store::command, |cli, matches| cli.store(matches)),
    parsed(Section::Setup, "sample", sample::command, |_, matches| sample::run(matches)),
    parsed(Section::Setup, "init", init::command, |cli, matches| cli.init(matches)),
    parsed(Section::Setup, "doctor", doctor::command, |cli, matches| cli.doctor(matches)),
    parsed(Section::Setup, "secret", secret::command, |cli, matches| cli.secret(matches)),
    parsed(Section::Setup, "bench", bench::command, |cli, matches| cli.bench(matches)),
    parsed(Section::Setup, "completions", completion::command, |cli, matches| {
        cli.completions(matches)
    }),
    parsed(Section::Setup, "man", man_command, |cli, _| cli.man()),
    parsed(Section::Setup, "reference", pages::command, |cli, matches| cli.reference(matches)),
];

impl Section {
    fn title(self) -> &'static str {
        match self {
            Self::Tools => "Work with tools",
            Self::Approvals => "Approvals and policy",
            Self::Serve => "Serve",
            Self::Records => "Records",
            Self::Setup => "Setup",
        }
    }
}

/// Runs what the arguments ask for.
pub(crate) fn run(
    arguments: &[OsString],
    environment: &CliEnvironment,
    terminal: &Arc<Terminal>,
) -> Ended {
    let options = globals::options();
    let cli = Cli::new(arguments, environment, terminal)?;
    if let Some(shell) = &environment.completion {
        return cli.complete(shell);
    }
    let Some(word) = command_word(arguments, &options) else { return cli.overview(options) };
    if let Some(own) = own_command(word) {
        return match own.run {
            RunFn::Parsed(run) => {
                run(&cli, &parse(root(options).subcommand((own.command)()), arguments)?)
            }
            RunFn::Unparsed(run) => run(&cli),
        };
    }
    match cli.find(word) {
        Some(tool) => cli.tool(&*tool, options),
        None => Err(cli.unknown(word).into()),
    }
}

fn own_command(word: &str) -> Option<&'static OwnCommand> {
    COMMANDS.iter().find(|own| own.name == word)
}

/// The state that every command uses.
struct Cli<'a> {
    arguments: &'a [OsString],
    environment: &'a CliEnvironment,
    terminal: &'a Arc<Terminal>,
    registry: Registry,
    runtime: &'static Runtime,
}

impl<'a> Cli<'a> {
    /// The settings in force, with the tools in the profiles that they name.
    fn settings(&self, globals: &Globals) -> Result<Settings, ToolError> {
        let mut settings = Settings::load(&globals.choices, &self.environment.host)?;
        self.registry.add_to_profiles(&mut settings.policy.profiles);
        Ok(settings)
    }

    fn new(
        arguments: &'a [OsString],
        environment: &'a CliEnvironment,
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
            near if near.is_empty() => "run `haft --help` for a list of commands".to_owned(),
            near => near,
        };
        let shown: String = word.chars().take(80).collect();
        ToolError::not_found(format!("no tool or command is called `{shown}`")).hint(hint)
    }

    /// `haft TOOL …`
    fn tool(&self, tool: &dyn Tool, options: Vec<Arg>) -> Ended {
        let spec = tool.spec();
        let form = ToolCommand::of(&spec.input, &taken(&options));
        let mut command = tool_command(spec, &form);
        if asks_for_help(self.arguments)
            && let Some(example) = reference::example(spec, &form)
        {
            command = command.after_help(format!("Example:\n  {example}"));
        }
        let matches = parse(root(options).subcommand(command), self.arguments)?;
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
        self.runtime.block_on(prompt.closed());
        Ok(report::outcome(self.terminal, globals.format, &outcome)?)
    }

    fn attended(&self, gate: &Gate, request: CallRequest, format: Format) -> Result<Outcome, Stop> {
        let is_watched = self.terminal.shows_words() && format == Format::Text;
        let status_line = if is_watched { StatusLine::Shown } else { StatusLine::Hidden };
        let monitor = CallMonitor::new(self.terminal.clone(), status_line).map_err(no_threads)?;
        let (terminal, tool) = (self.terminal.clone(), request.tool.clone());
        // Orphaned processes of a command become children of this process. This thread starts no
        // processes itself.
        Programs::adopt_orphans();
        let outcome = calls::make(self.runtime, gate, request, monitor, move |end| {
            report::abandoned(&terminal, format, &tool, &end)
        });
        outcome.map_err(|error| no_threads(error).into())
    }

    fn prompt(&self) -> TerminalPrompt {
        let CliEnvironment { host, colours, .. } = self.environment;
        let scopes = scopes_at_terminal(self.environment);
        TerminalPrompt::new(self.terminal.clone(), host.user.clone(), *colours, scopes)
    }

    fn gate(&self, settings: Settings, prompt: Arc<TerminalPrompt>) -> Result<Gate, ToolError> {
        Ok(self.host(settings)?.gate().handler(prompt).build())
    }

    /// A host for one call from the command line.
    fn host(&self, settings: Settings) -> Result<Host, ToolError> {
        let host = Host::new(self.environment.host.clone(), settings, self.registry.clone())?;
        host.warnings().iter().for_each(|text| self.terminal.tell(Label::Warning, text));
        Ok(host.with_shutdown(Shutdown::AfterOneCall).attended(|| Tty::open().is_ok()))
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

    /// `haft man`
    fn man(&self) -> Ended {
        self.terminal.print(&manual::page(self.all_commands())?)?;
        Ok(ExitCode::SUCCESS)
    }

    /// The parsers of all commands and tools.
    fn all_commands(&self) -> Command {
        let options = globals::options();
        let taken: Vec<String> = taken(&options).into_iter().map(str::to_owned).collect();
        let taken: Vec<&str> = taken.iter().map(String::as_str).collect();
        let specs = self.specs(&reference::placeholders());
        let tools =
            specs.iter().map(|spec| tool_command(spec, &ToolCommand::of(&spec.input, &taken)));
        root(options).subcommands(own_commands()).subcommands(tools)
    }

    fn specs(&self, workspace_info: &haft_core::WorkspaceInfo) -> Vec<ToolSpec> {
        let definitions = self.runtime.block_on(self.registry.definitions(workspace_info));
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
    // Blank input is a call without arguments.
    let is_blank = text.trim().is_empty();
    Ok((name, if is_blank { Input::Value(serde_json::Value::Null) } else { Input::Text(text) }))
}

/// Builds a call that comes from the command line.
fn request(globals: &Globals, settings: &Settings, tool: &str, input: Input) -> CallRequest {
    let mut context = Context::new("cli");
    context.agents = globals.choices.agent.iter().cloned().collect();
    context.profile.clone_from(&settings.profile);
    context.deadline = globals.timeout;
    CallRequest::new(tool, input, context)
}

/// Returns the items whose id starts with `wanted`, with or without the prefix before its first
/// `_`. An exact id matches only itself.
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

/// The scopes that a person at a terminal may choose from. The session scope is left out: every
/// command belongs to the session `cli`, so a rule for it would be a rule for the project under
/// another name.
fn scopes_at_terminal(environment: &CliEnvironment) -> Vec<Scope> {
    if state_folder(&environment.host).is_some() {
        vec![Scope::Project, Scope::User]
    } else {
        Vec::new()
    }
}

fn no_threads(error: io::Error) -> ToolError {
    ToolError::unavailable(format!("cannot start a thread: {error}"))
        .hint("check the limits on processes, threads and open files")
        .caused_by(error)
}

/// The long names that an option of a tool may not use.
fn taken(options: &[Arg]) -> Vec<&str> {
    options.iter().filter_map(Arg::get_long).chain(["help", "version"]).collect()
}

fn parse(command: Command, arguments: &[OsString]) -> Result<ArgMatches, clap::Error> {
    let matches = command.try_get_matches_from(with_program(arguments))?;
    // The caller found a command name, so there is a subcommand; it knows the global options too.
    Ok(matches.subcommand().map_or_else(|| matches.clone(), |(_, inner)| inner.clone()))
}

/// Reports whether help may be asked for. Only a help page shows an example, and making one takes
/// time.
fn asks_for_help(arguments: &[OsString]) -> bool {
    arguments.iter().any(|word| word == "--help" || word == "-h")
}

fn with_program(arguments: &[OsString]) -> impl Iterator<Item = OsString> {
    std::iter::once(OsString::from("haft")).chain(arguments.iter().cloned())
}

fn root(options: Vec<Arg>) -> Command {
    Command::new("haft")
        .version(env!("CARGO_PKG_VERSION"))
        .about(ABOUT)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .args(options)
}

fn tool_command(spec: &ToolSpec, form: &ToolCommand) -> Command {
    let description = reference::placeholders().describe(spec);
    let description = description.unwrap_or_else(|_| spec.description.clone());
    let kebab = spec.name.replace('_', "-");
    let command = form.command(spec, &description);
    if kebab == spec.name { command } else { command.alias(kebab) }
}

/// The parsers of haft's own commands.
fn own_commands() -> impl Iterator<Item = Command> {
    COMMANDS.iter().map(|own| (own.command)())
}

fn man_command() -> Command {
    Command::new("man").about("Print the manual page")
}

fn call_command() -> Command {
    Command::new("call")
        .about("Call a tool with JSON input")
        .arg(Arg::new("name").value_name("TOOL").required(true).help("Name of the tool"))
        .arg(
            Arg::new("input")
                .value_name("JSON")
                .help("The input as a JSON object; - or a pipe reads it from standard input"),
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
