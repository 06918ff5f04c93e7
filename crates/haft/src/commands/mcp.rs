//! `haft mcp`: serves the tools over the Model Context Protocol.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use haft::host::{Host, Shutdown, config::Settings, flush};
use haft_core::{CancellationToken, Gate, Registry, ToolError};
use haft_exec::Programs;
use haft_mcp::{Http, HttpError, Server, Structured};
use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};

use super::no_threads;
use crate::{
    environment::CliEnvironment,
    globals::Globals,
    stop::Stop,
    terminal::{Label, Terminal},
};

/// Default profile. It has few tools, because each one costs the model attention.
pub(super) const PROFILE: &str = "mcp";

const INSTRUCTIONS: &str = "Tools for the files of one workspace: `read`, `list`, `glob` and `grep` read, \
    `write`, `edit`, `edit_lines` and `patch` change files, `move` and `delete` move and delete \
    them, `bash` runs a command, and `process` manages commands that keep running. Paths are \
    relative to the workspace. Every error names the next step; a denied call says what would \
    allow it.";

pub(super) fn command() -> Command {
    Command::new("mcp")
        .about("Serve the tools to MCP clients over stdio or HTTP")
        .long_about(
            "Serve the tools to an MCP client over standard input and output, or over HTTP.\n\n\
             Without --workspace and --root, haft works in the client's roots, or else in the \
             directory it was started in. Calls that need approval are asked through the client if \
             it supports elicitation. If it does not, they are denied, and the error says what \
             would allow the call.\n\n\
             `haft init CLIENT` adds this command to a client's configuration.",
        )
        .arg(
            Arg::new("root")
                .long("root")
                .value_name("DIR")
                .action(ArgAction::Append)
                .value_parser(value_parser!(PathBuf))
                .conflicts_with("workspace")
                .help("Folder to work in; the first is the workspace, the others are @NAME"),
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
                .help(
                    "File with the token that clients must send [default: $HAFT_TOKEN; none on \
                    loopback]",
                ),
        )
        .arg(
            Arg::new("host")
                .long("host")
                .value_name("NAME")
                .action(ArgAction::Append)
                .requires("http")
                .help("Additional host name of this server that clients may use"),
        )
        .arg(structured_option())
        .arg(
            Arg::new("keep-results")
                .long("keep-results")
                .action(ArgAction::SetTrue)
                .help("Keep the whole result of every call, so that `haft replay` can return it"),
        )
}

pub(super) fn structured_option() -> Arg {
    Arg::new("structured")
        .long("structured")
        .value_name("WHEN")
        .default_value("auto")
        .value_parser(["auto", "always", "never"])
        .help(
            "Send structured data in addition to text; auto: not to clients that would then \
            ignore the text",
        )
}

/// `haft mcp`
pub(super) fn run(
    environment: &CliEnvironment,
    terminal: &Arc<Terminal>,
    registry: Registry,
    matches: &ArgMatches,
) -> Result<ExitCode, Stop> {
    Programs::adopt_orphans();
    let over_http = matches.get_one::<SocketAddr>("http").copied();
    let mut globals = Globals::of(matches);
    let roots: Vec<PathBuf> = matches.get_many("root").into_iter().flatten().cloned().collect();
    let has_workspace = globals.choices.workspace.is_some() || !roots.is_empty();
    if let Some(first) = roots.first() {
        globals.choices.workspace = Some(first.clone());
    }
    let gates = GateFactory {
        environment: environment.clone(),
        terminal: terminal.clone(),
        registry,
        globals,
        // Over HTTP several callers share the threads, so no call may block one.
        starts_in_place: over_http.is_none(),
        keeps_results: matches.get_flag("keep-results"),
    };
    let (gate, profile) = gates.gate(None, roots.get(1..).unwrap_or_default())?;
    let mut server = Server::builder(gate)
        .named("haft", env!("CARGO_PKG_VERSION"))
        .title("haft")
        .instructions(INSTRUCTIONS)
        .profile(Some(profile))
        .agent(gates.globals.choices.agent.clone())
        .structured(structured(matches))
        .stop_processes(Programs::end_everything)
        .workspace_files()
        .orientation();
    if !has_workspace {
        server = server.by_roots(move |roots| {
            let (first, others) =
                roots.split_first().ok_or_else(|| ToolError::input("no roots"))?;
            Ok(gates.gate(Some(first), others)?.0)
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
    environment: &CliEnvironment,
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
            stop_signal().await;
            stop.cancel();
        });
        listening.serve(stopped).await;
        Ok(())
    })
}

async fn stop_signal() {
    match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        }
        // A signal that cannot be caught keeps its default action.
        _ => std::future::pending().await,
    }
}

/// Builds gates: one at startup, and one for each set of roots that a client sends.
struct GateFactory {
    environment: CliEnvironment,
    terminal: Arc<Terminal>,
    registry: Registry,
    globals: Globals,
    starts_in_place: bool,
    keeps_results: bool,
}

impl GateFactory {
    /// Builds a gate and returns it with the profile of its clients.
    fn gate(
        &self,
        workspace: Option<&PathBuf>,
        more_roots: &[PathBuf],
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
        add_roots(&mut settings, more_roots)?;
        keep_results(&mut settings, self.keeps_results)?;
        let profile = settings.profile.clone().unwrap_or_else(|| PROFILE.to_owned());
        // Over HTTP, signals are handled already.
        let ending =
            if self.starts_in_place { Shutdown::OnSignal } else { Shutdown::CallerFlushes };
        let host = Host::new(self.environment.host.clone(), settings, self.registry.clone())?;
        host.warnings().iter().for_each(|text| self.terminal.tell(Label::Warning, text));
        let mut gate = host.with_shutdown(ending).gate();
        if self.starts_in_place {
            gate = gate.start_in_place();
        }
        Ok((gate.build(), profile))
    }
}

/// Keeps results if requested. Returns an error if calls are not recorded, rather than ignoring the
/// request.
fn keep_results(settings: &mut Settings, is_asked: bool) -> Result<(), ToolError> {
    settings.store.keeps_results |= is_asked;
    if is_asked && !settings.store.records {
        let message = "results are kept with the record of calls, which `record = false` under \
            `[store]` disables";
        return Err(ToolError::input(message).hint("remove that line, or leave out --keep-results"));
    }
    Ok(())
}

/// Adds roots named after their folders. A second root of the same name gets a number.
fn add_roots(settings: &mut Settings, folders: &[PathBuf]) -> Result<(), ToolError> {
    for folder in folders {
        let folder = folder.canonicalize().map_err(|error| {
            ToolError::input(format!("cannot open the root {}: {error}", folder.display()))
                .hint("choose an existing folder")
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
            .hint("write one line with at least 16 characters to it")
    };
    let text = std::fs::read_to_string(file).map_err(|error| refuse(error.to_string()))?;
    let token = text.trim();
    if token.len() < 16 || token.contains(char::is_whitespace) {
        return Err(refuse("has no usable token".to_owned()));
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
