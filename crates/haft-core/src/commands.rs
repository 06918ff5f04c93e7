//! Programs as tools see them: the capability to run them, and the trait of the backend that does.
//! Core starts nothing; `haft-exec` implements [`Executor`] for this machine, for a sandbox on it,
//! and for containers.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::{
    Access, BoxFuture, Call, Capability, ErrorKind, Grants, Need, ParsedScript, Power, ToolError,
    files::FileGrant,
};

/// The backend that runs programs. Every program it starts has a separate process session and
/// environment. Its whole process tree ends when it is killed or when haft ends.
pub trait Executor: Send + Sync {
    /// Starts a program and returns as soon as it runs.
    ///
    /// # Errors
    /// Of kind `not_found` if the program or directory does not exist, `unavailable` if the
    /// requested confinement is not possible here. No program runs with less confinement than
    /// requested.
    fn start(&self, launch: Launch) -> Result<Arc<dyn Process>, ToolError>;

    /// Returns the known processes that a session has started, oldest first.
    fn processes(&self, session: &str) -> Vec<Arc<dyn Process>>;

    /// Returns the kind of environment in which programs run.
    fn kind(&self) -> ExecutorKind;
}

/// The kind of environment in which programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExecutorKind {
    /// On this machine, as its user.
    Local,
    /// On this machine, in a sandbox.
    Sandbox,
    /// In a container.
    Container,
}

/// A program to start, with its environment.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The session of the process. The process ends with it.
    pub session: String,
    /// The program.
    pub program: Program,
    /// The working directory, as a file tool names it: below the workspace or a root.
    pub directory: PathBuf,
    /// Environment variables in addition to the default ones.
    pub environment: Vec<(String, String)>,
    /// Environment variables with secrets: the variable and the name of the secret. Only the
    /// executor knows the values.
    pub secrets: Vec<(String, String)>,
    /// The confinement of the program.
    pub confinement: Confinement,
    /// The files of the workspace that the program may see. Executors without a sandbox cannot
    /// enforce it.
    pub grant: FileGrant,
    /// The standard input.
    pub input: Stdin,
    /// The output streams.
    pub streams: Streams,
}

impl Launch {
    /// The access that policy judges before this launch receives a secret.
    fn secret_access(&self, name: &str) -> Access {
        Access::Secret { name: name.to_owned(), command: self.script() }
    }

    /// The script as it is granted: a shell text begins with a change to its directory, because its
    /// paths depend on that.
    pub fn script(&self) -> String {
        match &self.program {
            Program::Shell(text) => script(&self.directory, text),
            Program::Direct { .. } => self.program.to_string(),
        }
    }
}

/// Puts a change of directory before a shell text.
pub fn script(directory: &Path, text: &str) -> String {
    let directory = directory.to_string_lossy();
    match directory.trim_start_matches("./").trim_end_matches('/') {
        "" | "." => text.to_owned(),
        directory => format!("cd {}\n{text}", ShellWord(directory)),
    }
}

/// A program to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A script for the shell.
    Shell(String),
    /// A program by its name, without a shell.
    Direct {
        /// Searched in `PATH`.
        name: String,
        /// The arguments of the program.
        arguments: Vec<String>,
    },
}

/// The operations that a program is allowed, apart from reading the system and computing. Executors
/// without a sandbox cannot enforce it, which policy takes into account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// True to allow network access.
    pub network: bool,
    /// True to allow changes to files of the workspace.
    pub writes: bool,
}

/// The standard input of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdin {
    /// Empty.
    Closed,
    /// Open for writing.
    Open,
    /// A terminal of this size, which also receives the output.
    Terminal {
        /// Number of lines.
        rows: u16,
        /// Number of characters in a line.
        columns: u16,
    },
}

/// The output streams of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// Standard output and standard error together, in the order of writing.
    Joined,
    /// Separate standard output and standard error.
    Apart,
}

/// A program that runs or has run.
pub trait Process: Send + Sync {
    /// The id of the process in its session.
    fn id(&self) -> &str;

    /// The command as it was requested.
    fn command(&self) -> &str;

    /// Returns the current status.
    fn status(&self) -> ProcessStatus;

    /// A counter that changes with every output and at the end, so that callers need not poll.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Returns up to `limit` bytes of the output from a position. Bytes that are no longer stored
    /// are skipped, as the chunk shows.
    ///
    /// # Errors
    /// If output stored outside memory cannot be read.
    fn output(&self, stream: Stream, from: u64, limit: usize) -> Result<OutputChunk, ToolError>;

    /// Writes to the standard input.
    ///
    /// # Errors
    /// Of kind `conflict` if the process has no open standard input.
    fn write<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), ToolError>>;

    /// Closes the standard input.
    ///
    /// # Errors
    /// As [`Process::write`].
    fn close_input(&self) -> Result<(), ToolError>;

    /// Kills the process tree and returns when all its processes are gone.
    fn kill(&self, why: KillReason) -> BoxFuture<'_, ()>;

    /// The same without waiting, for callers that cannot wait.
    fn kill_soon(self: Arc<Self>, why: KillReason);

    /// The operations that were denied to the process, as reported by the sandbox. The program's
    /// output is not parsed for this.
    fn denials(&self) -> Vec<Denial> {
        Vec::new()
    }

    /// The reason why the process cannot read this existing absolute path, if any. Reads are not
    /// monitored, so this is for paths in the command line.
    fn read_denial(&self, _path: &Path) -> Option<Denial> {
        None
    }

    /// Returns true if a process of the tree listens on this port.
    fn listens(&self, port: u16) -> bool;

    /// The error if the process ended because its environment went away; otherwise `None`.
    fn failure(&self) -> Option<ToolError> {
        None
    }
}

/// An output stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output; with [`Streams::Joined`] everything.
    Out,
    /// Standard error.
    Err,
}

/// A part of an output stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputChunk {
    /// The bytes as the program wrote them.
    pub bytes: Vec<u8>,
    /// The position of the first byte; larger than requested if earlier bytes are no longer stored.
    pub begin: u64,
    /// Current length of the output.
    pub total: u64,
}

/// The reason for killing a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillReason {
    /// The timeout passed.
    ByTimeout,
    /// The call that started it was cancelled, or its session ended.
    Cancelled,
    /// A caller requested it.
    OnRequest,
}

/// An operation that was denied to a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Denial {
    /// The operation, as `write /etc/hosts`.
    pub what: String,
    /// The reason.
    pub why: String,
    /// The change that would allow it, or an alternative.
    pub remedy: String,
    /// True if the change was made and then reverted. Reported even if the program succeeded.
    #[serde(default, rename = "is_put_aside", skip_serializing_if = "std::ops::Not::not")]
    pub is_reverted: bool,
}

/// The status of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStatus {
    /// The state of the process.
    pub state: ProcessState,
    /// The exit code, if the process exited by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended the process.
    pub signal: Option<i32>,
    /// Running time in milliseconds.
    pub ms: u64,
    /// Time since the last output, in milliseconds.
    pub silent_ms: u64,
    /// Length of the output.
    pub bytes: u64,
    /// Number of processes it left behind that could not be killed.
    pub survivors: usize,
}

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProcessState {
    /// The process is running.
    Running,
    /// The process waits for input.
    WaitingForInput,
    /// The process is running but has been silent for a long time.
    Silent,
    /// The process exited by itself.
    Exited,
    /// A signal from outside haft ended the process.
    Signalled,
    /// Killed after its timeout.
    KilledByTimeout,
    /// Killed because its call was cancelled.
    Cancelled,
    /// Killed on request.
    Killed,
}

impl ProcessState {
    /// Returns true if the process has ended.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Running | Self::WaitingForInput | Self::Silent)
    }
}

/// The capability to run programs.
#[derive(Clone)]
pub struct Shell {
    executor: Arc<dyn Executor>,
    grants: Option<Grants>,
    session: String,
}

#[diagnostic::do_not_recommend]
impl Capability for Shell {
    const NEED: Need = Need::required(Power::Shell);

    fn from_call(call: &Call) -> Result<Self, ToolError> {
        let session = call.info().session.clone();
        Ok(Self { executor: call.service()?, grants: Some(call.grants().clone()), session })
    }
}

impl Shell {
    /// Runs everything the executor can run, for calling a tool's function directly.
    pub fn unchecked(executor: Arc<dyn Executor>) -> Self {
        Self { executor, grants: None, session: "direct".to_owned() }
    }

    /// Creates a launch with the permissions of this call: the workspace is read-only if the call
    /// may not write, and there is no network if the call was not granted it.
    pub fn launch(&self, program: Program, directory: &Path) -> Launch {
        let has = |power| self.grants.as_ref().is_none_or(|grants| grants.has(power));
        Launch {
            session: self.session.clone(),
            program,
            directory: directory.to_owned(),
            environment: Vec::new(),
            secrets: Vec::new(),
            confinement: Confinement { network: has(Power::Net), writes: has(Power::WriteFiles) },
            grant: FileGrant::for_programs(self.grants.clone()),
            input: Stdin::Closed,
            streams: Streams::Joined,
        }
    }

    /// The parsed script of a launch, if the gate parsed it for this call.
    pub fn parsed_script(&self, launch: &Launch) -> Option<&ParsedScript> {
        self.grants.as_ref()?.parsed_script(&launch.script())
    }

    /// Starts a program that was granted.
    ///
    /// # Errors
    /// Of kind `denied` for anything else; otherwise as [`Executor::start`].
    pub fn start(&self, launch: Launch) -> Result<Arc<dyn Process>, ToolError> {
        if let Some(grants) = &self.grants {
            grants.check(&Access::Run(launch.script()))?;
            for (_, name) in &launch.secrets {
                grants.check(&launch.secret_access(name))?;
            }
        }
        self.executor.start(launch)
    }

    /// Runs a program to its end and returns up to `limit` bytes of each stream. Dropping the
    /// future kills it.
    ///
    /// # Errors
    /// As [`Shell::start`], and of kind `unavailable` if the environment of the program went away.
    /// A failing program is not an error.
    pub async fn finish(&self, launch: Launch, limit: usize) -> Result<FinishedProcess, ToolError> {
        let process = self.start(launch)?;
        let kill_guard = KillOnDrop::new(process.clone());
        let mut changes = process.changes();
        // The sender lives in the process, which is still alive here.
        while !process.status().state.is_over() && changes.changed().await.is_ok() {}
        drop(kill_guard);
        if let Some(failure) = process.failure() {
            return Err(failure);
        }
        let (out, err) =
            (process.output(Stream::Out, 0, limit)?, process.output(Stream::Err, 0, limit)?);
        let is_truncated =
            [&out, &err].iter().any(|piece| (piece.bytes.len() as u64) < piece.total);
        Ok(FinishedProcess {
            status: process.status(),
            out: out.bytes,
            err: err.bytes,
            is_truncated,
        })
    }

    /// Writes to the standard input of a process. A shell runs its input, so the text must be
    /// granted like a command.
    ///
    /// # Errors
    /// Of kind `denied` for what was not granted; otherwise as [`Process::write`].
    pub async fn write(&self, process: &dyn Process, text: &str) -> Result<(), ToolError> {
        if let Some(grants) = &self.grants {
            grants.check(&Access::Run(text.to_owned()))?;
        }
        process.write(text.as_bytes()).await
    }

    /// Returns the processes of this session, oldest first.
    pub fn processes(&self) -> Vec<Arc<dyn Process>> {
        self.executor.processes(&self.session)
    }

    /// Returns one process.
    ///
    /// # Errors
    /// Of kind `not_found`, with the known ids.
    pub fn process(&self, id: &str) -> Result<Arc<dyn Process>, ToolError> {
        let known = self.processes();
        if let Some(process) = known.iter().find(|process| process.id() == id) {
            return Ok(process.clone());
        }
        let ids: Vec<&str> = known.iter().map(|process| process.id()).collect();
        let hint = match ids.as_slice() {
            [] => "this session has no processes; start one with `bash`".to_owned(),
            ids => format!("the processes of this session are {}", ids.join(", ")),
        };
        Err(ToolError::new(ErrorKind::NotFound, format!("unknown process `{id}`")).hint(hint))
    }

    /// Returns the kind of environment in which programs run.
    pub fn kind(&self) -> ExecutorKind {
        self.executor.kind()
    }
}

/// The output and status of a finished program.
#[derive(Clone, Debug)]
pub struct FinishedProcess {
    /// The final status.
    pub status: ProcessStatus,
    /// Standard output.
    pub out: Vec<u8>,
    /// Standard error, if it is separate.
    pub err: Vec<u8>,
    /// True if the output was longer.
    pub is_truncated: bool,
}

/// Kills a process when dropped, unless it is released.
pub struct KillOnDrop(Option<Arc<dyn Process>>);

impl KillOnDrop {
    /// Kills the process when this is dropped.
    pub fn new(process: Arc<dyn Process>) -> Self {
        Self(Some(process))
    }

    /// Keeps the process running.
    pub fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(process) = self.0.take().filter(|process| !process.status().state.is_over()) {
            process.kill_soon(KillReason::Cancelled);
        }
    }
}

impl std::fmt::Display for Program {
    /// Formats the program for rules and people.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Shell(text) => f.write_str(text),
            Self::Direct { name, arguments } => {
                f.write_str(name)?;
                arguments.iter().try_for_each(|argument| write!(f, " {}", ShellWord(argument)))
            }
        }
    }
}

/// Quotes a word for a shell.
struct ShellWord<'a>(&'a str);

impl std::fmt::Display for ShellWord<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./=:@%+,^".contains(&byte);
        if !self.0.is_empty() && self.0.bytes().all(is_plain) {
            return f.write_str(self.0);
        }
        write!(f, "'{}'", self.0.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_formatted_with_shell_quoting() {
        let arguments = ["log", "-n", "1", "--", "a b", "it's", "", "$x"].map(str::to_owned);
        let program = Program::Direct { name: "git".to_owned(), arguments: arguments.into() };
        assert_eq!(program.to_string(), r"git log -n 1 -- 'a b' 'it'\''s' '' '$x'");
        assert_eq!(Program::Shell("a | b".to_owned()).to_string(), "a | b");
    }

    #[test]
    fn a_script_begins_with_a_change_to_its_directory() {
        for (directory, expected) in [
            (".", "make"),
            ("./", "make"),
            ("", "make"),
            ("sub", "cd sub\nmake"),
            ("./a b/", "cd 'a b'\nmake"),
            ("/w", "cd /w\nmake"),
        ] {
            assert_eq!(script(Path::new(directory), "make"), expected, "{directory}");
        }
    }

    #[test]
    fn only_running_states_are_not_over() {
        let going_on = [ProcessState::Running, ProcessState::WaitingForInput, ProcessState::Silent];
        assert!(going_on.iter().all(|state| !state.is_over()));
        let over = [
            ProcessState::Exited,
            ProcessState::Signalled,
            ProcessState::KilledByTimeout,
            ProcessState::Cancelled,
        ];
        assert!(over.iter().all(|state| state.is_over()) && ProcessState::Killed.is_over());
    }
}
