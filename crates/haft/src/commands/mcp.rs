//! `haft mcp`: the tools for a client that speaks the Model Context Protocol.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use haft::host::{Ending, Host, config::Settings, flush};
use haft_core::{CancellationToken, Gate, Registry, ToolError};
use haft_exec::Programs;
use haft_mcp::{Http, HttpError, Server, Structured};
use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};

use super::no_threads;
use crate::{
    environment::Environment,
    globals::Globals,
    stop::Stop,
    terminal::{Label, Terminal},
};

/// The profile of clients that ask for none: few tools, because each costs their model's attention.
pub(super) const PROFILE: &str = "mcp";

const INSTRUCTIONS: &str = "The files of one workspace, through one gate: `read`, `list`, `glob` and `grep` look, `write`, `edit`, \
    `edit_lines` and `patch` change, `move` and `delete` do what they say, `bash` runs a command and `process` looks after \
    those that run on. Paths are relative to the workspace. Every failure names the next step; a refused call says what would allow it.";

pub(super) fn command() -> Command {
    Command::new("mcp")
        .about("Serve the tools to MCP clients over stdio or HTTP")
        .long_about(
            "Serve the tools to an MCP client: over standard input and output, or over HTTP.\n\n\
             Without --workspace and --root the client's own roots are worked in, or else the folder that haft was \
             started in. What needs a yes is asked through the client where it can ask (elicitation); where it cannot, \
             --approve and the rules decide, and a refusal says what would allow the call.\n\n\
             `haft init CLIENT` writes this command into a client's configuration.",
        )
        .arg(
            Arg::new("root")
                .long("root")
                .value_name("DIR")
                .action(ArgAction::Append)
                .value_parser(value_parser!(PathBuf))
                .conflicts_with("workspace")
                .help("A folder to work in; the first is the workspace, further ones are @NAME"),
        )
        .arg(
            Arg::new("http")
                .long("http")
                .value_name("ADDRESS")
                .value_parser(value_parser!(SocketAddr))
                .help("Serve over HTTP at this address, such as 127.0.0.1:8765 (port 0: any)"),
        )
        .arg(
            Arg::new("token-file")
                .long("token-file")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .requires("http")
                .help("Clients must bring the token in this file [default: $HAFT_TOKEN; none on loopback]"),
        )
        .arg(
            Arg::new("host")
                .long("host")
                .value_name("NAME")
                .action(ArgAction::Append)
                .requires("http")
                .help("A further host name that clients may reach this server by"),
        )
        .arg(structured_option())
        .arg(
            Arg::new("keep-results")
                .long("keep-results")
                .action(ArgAction::SetTrue)
                .help("Keep the whole result of every call, so that `haft replay` can give it again"),
        )
}

pub(super) fn structured_option() -> Arg {
    Arg::new("structured")
        .long("structured")
        .value_name("WHEN")
        .default_value("auto")
        .value_parser(["auto", "always", "never"])
        .help("Send typed data besides the text; auto: not to clients that then drop the text")
}

/// `haft mcp`
pub(super) fn run(
    environment: &Environment,
    terminal: &Arc<Terminal>,
    registry: Registry,
    matches: &ArgMatches,
) -> Result<ExitCode, Stop> {
    Programs::adopt_orphans();
    let over_http = matches.get_one::<SocketAddr>("http").copied();
    let mut globals = Globals::of(matches);
    let roots: Vec<PathBuf> = matches.get_many("root").into_iter().flatten().cloned().collect();
    let is_placed = globals.choices.workspace.is_some() || !roots.is_empty();
    if let Some(first) = roots.first() {
        globals.choices.workspace = Some(first.clone());
    }
    let desk = Desk {
        environment: environment.clone(),
        terminal: terminal.clone(),
        registry,
        globals,
        // Over HTTP several callers share the threads, so none may keep one to itself.
        starts_in_place: over_http.is_none(),
        keeps_results: matches.get_flag("keep-results"),
    };
    let (gate, profile) = desk.gate(None, roots.get(1..).unwrap_or_default())?;
    let mut server = Server::builder(gate)
        .named("haft", env!("CARGO_PKG_VERSION"))
        .title("haft")
        .instructions(INSTRUCTIONS)
        .profile(Some(profile))
        .agent(desk.globals.choices.agent.clone())
        .structured(structured(matches))
        .stop_processes(Programs::end_everything)
        .workspace_files()
        .orientation();
    if !is_placed {
        server = server.by_roots(move |roots| {
            let (first, others) =
                roots.split_first().ok_or_else(|| ToolError::input("no roots"))?;
            Ok(desk.gate(Some(first), others)?.0)
        });
    }
    let served = match over_http {
        None => server.build().stdio().map_err(no_threads),
        Some(address) => serve_http(environment, terminal, &server.build(), address, matches),
    };
    Programs::end_everything();
    if let Err(error) = flush() {
        let message = format!("the last calls are not in the ledger: {error}");
        terminal.tell(Label::Warning, &message);
    }
    served?;
    Ok(ExitCode::SUCCESS)
}

fn serve_http(
    environment: &Environment,
    terminal: &Terminal,
    server: &Server,
    address: SocketAddr,
    matches: &ArgMatches,
) -> Result<(), ToolError> {
    let token = match matches.get_one::<PathBuf>("token-file") {
        Some(file) => Some(token_in(file)?),
        None => environment.token.clone(),
    };
    let is_open = token.is_none();
    let mut http = Http::at(address).token(token);
    for host in matches.get_many::<String>("host").into_iter().flatten() {
        http = http.host(host);
    }
    let runtime = Builder::new_multi_thread().enable_all().build().map_err(no_threads)?;
    let stopped = CancellationToken::new();
    runtime.block_on(async {
        let listening = server.listen(http).await.map_err(not_listening)?;
        let url = listening.url().map_err(no_threads)?;
        terminal.tell(Label::Note, &format!("serving MCP at {url}"));
        if is_open {
            let message = "no token: every program on this machine can call these tools; \
                               set $HAFT_TOKEN or --token-file to change that";
            terminal.tell(Label::Warning, message);
        }
        let stop = stopped.clone();
        tokio::spawn(async move {
            told_to_stop().await;
            stop.cancel();
        });
        listening.serve(stopped).await;
        Ok(())
    })
}

async fn told_to_stop() {
    match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        }
        // A signal that cannot be caught keeps its usual meaning.
        _ => std::future::pending().await,
    }
}

/// Makes gates: one at the start, and one for each place that a client says it works in.
struct Desk {
    environment: Environment,
    terminal: Arc<Terminal>,
    registry: Registry,
    globals: Globals,
    starts_in_place: bool,
    keeps_results: bool,
}

impl Desk {
    /// A gate, and the profile that its clients have.
    fn gate(
        &self,
        workspace: Option<&PathBuf>,
        further: &[PathBuf],
    ) -> Result<(Gate, String), ToolError> {
        let mut globals = self.globals.clone();
        if workspace.is_some() {
            globals.choices.workspace = workspace.cloned();
        }
        let mut settings = Settings::load(&globals.choices, &self.environment.host)?;
        if settings.has_rules {
            for warning in settings.policy.warnings(&self.registry.names()) {
                self.terminal.tell(Label::Warning, &warning);
            }
        }
        if globals.choices.workspace.is_some() {
            settings.directory.clone_from(&settings.workspace);
        }
        add_roots(&mut settings, further)?;
        keep_results(&mut settings, self.keeps_results)?;
        let profile = settings.profile.clone().unwrap_or_else(|| PROFILE.to_owned());
        // Over HTTP signals are heard already.
        let ending = if self.starts_in_place { Ending::BySignal } else { Ending::Flushed };
        let host = Host::new(self.environment.host.clone(), settings, self.registry.clone())?;
        host.warnings().iter().for_each(|text| self.terminal.tell(Label::Warning, text));
        let mut gate = host.ending(ending).gate();
        if self.starts_in_place {
            gate = gate.start_in_place();
        }
        Ok((gate.build(), profile))
    }
}

/// What was asked for by name is not left out silently.
fn keep_results(settings: &mut Settings, is_asked: bool) -> Result<(), ToolError> {
    settings.store.keeps_results |= is_asked;
    if is_asked && !settings.store.records {
        let message = "results are kept beside the record of calls, and `record = false` under `[store]` switches that off";
        return Err(
            ToolError::input(message).hint("take that line out, or leave out --keep-results")
        );
    }
    Ok(())
}

/// Each is called by its own name; a second one of the same name gets a number.
fn add_roots(settings: &mut Settings, folders: &[PathBuf]) -> Result<(), ToolError> {
    for folder in folders {
        let folder = folder.canonicalize().map_err(|error| {
            ToolError::input(format!("the root {} cannot be opened: {error}", folder.display()))
                .hint("name a folder that is there")
        })?;
        if folder == settings.workspace || settings.roots.iter().any(|(_, known)| *known == folder)
        {
            continue;
        }
        let name = name_of(&folder);
        let is_taken = |name: &str| settings.roots.iter().any(|(taken, _)| taken == name);
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let name = std::iter::once(name.clone()).chain(numbered).find(|name| !is_taken(name));
        settings.roots.push((name.unwrap_or_default(), folder));
    }
    Ok(())
}

fn name_of(folder: &Path) -> String {
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let plain = |letter: char| {
        if letter.is_alphanumeric() || "-_.".contains(letter) { letter } else { '-' }
    };
    name.filter(|name| !name.is_empty())
        .map_or_else(|| "root".to_owned(), |name| name.chars().map(plain).collect())
}

pub(super) fn structured(matches: &ArgMatches) -> Structured {
    match matches.get_one::<String>("structured").map(String::as_str) {
        Some("always") => Structured::Always,
        Some("never") => Structured::Never,
        _ => Structured::Auto,
    }
}

fn token_in(file: &Path) -> Result<String, ToolError> {
    let refuse = |problem: String| {
        ToolError::input(format!("the token file {}: {problem}", file.display()))
            .hint("put one line with at least 16 characters into it")
    };
    let text = std::fs::read_to_string(file).map_err(|error| refuse(error.to_string()))?;
    let token = text.trim();
    if token.len() < 16 || token.contains(char::is_whitespace) {
        return Err(refuse("holds no usable token".to_owned()));
    }
    Ok(token.to_owned())
}

fn not_listening(error: HttpError) -> ToolError {
    let hint = match &error {
        HttpError::NoToken(_) => "set $HAFT_TOKEN or --token-file, or serve at 127.0.0.1",
        _ => "choose another port, or 0 for any",
    };
    ToolError::unavailable(error.to_string()).hint(hint)
}
