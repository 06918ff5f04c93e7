//! Programs as tools see them: the power to run them, and the backend that really does. Core starts nothing; `haft-exec`
//! implements [`Executor`] for this machine, a sandbox on it, and containers.

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

/// What runs programs. Whatever it starts has a session of its own, an environment of its own, and is gone as a whole when
/// it is killed, or when this program is.
pub trait Executor: Send + Sync {
    /// Starts a program and returns as soon as it runs.
    ///
    /// # Errors
    /// Of kind `not_found` for a program or directory that is not there, `unavailable` when the confinement that is asked
    /// for cannot be had here; nothing runs with less.
    fn start(&self, launch: Launch) -> Result<Arc<dyn Process>, ToolError>;

    /// The processes that a session has started and that are still known, the oldest first.
    fn processes(&self, session: &str) -> Vec<Arc<dyn Process>>;

    /// Where programs run.
    fn place(&self) -> ExecutorKind;
}

/// Where programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExecutorKind {
    /// On this machine, as its user.
    Local,
    /// On this machine, fenced in.
    Sandbox,
    /// In a container.
    Container,
}

/// What to start, and how.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Whose it is; a session's processes end with it.
    pub session: String,
    /// What to run.
    pub program: Program,
    /// Where, as a file tool names a directory: below the workspace or a root.
    pub directory: PathBuf,
    /// Variables besides the ones that every program has here.
    pub environment: Vec<(String, String)>,
    /// Variables that hold secrets: the variable, and the name of the secret. Only the executor knows the values.
    pub secrets: Vec<(String, String)>,
    /// What it may do.
    pub confinement: Confinement,
    /// What it may see of the files of the workspace. Executors without walls cannot hold it.
    pub grant: FileGrant,
    /// What it reads.
    pub input: Stdin,
    /// Where its output goes.
    pub streams: Streams,
}

impl Launch {
    /// What policy is asked about before this launch is given a secret.
    fn gives(&self, name: &str) -> Access {
        Access::Secret { name: name.to_owned(), command: self.script() }
    }

    /// What is run, as it is granted: for a shell with the way to its directory, because that is what its paths mean.
    pub fn script(&self) -> String {
        match &self.program {
            Program::Shell(text) => script(&self.directory, text),
            Program::Direct { .. } => self.program.to_string(),
        }
    }
}

/// A text for the shell, with the way to where it is run.
pub fn script(directory: &Path, text: &str) -> String {
    let directory = directory.to_string_lossy();
    match directory.trim_start_matches("./").trim_end_matches('/') {
        "" | "." => text.to_owned(),
        directory => format!("cd {}\n{text}", Word(directory)),
    }
}

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A text for the shell.
    Shell(String),
    /// A program by its name, without a shell.
    Direct {
        /// Looked up in the path.
        name: String,
        /// As the program gets them.
        arguments: Vec<String>,
    },
}

/// What a program may do besides reading the system and computing. Executors without walls cannot hold it, and policy
/// knows that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// Talk to other machines.
    pub network: bool,
    /// Change files of the workspace.
    pub writes: bool,
}

/// What a program reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: the end comes at once.
    Closed,
    /// What is written to it.
    Open,
    /// A terminal of this size, which is where its output goes too.
    Terminal {
        /// Lines.
        rows: u16,
        /// Characters of a line.
        columns: u16,
    },
}

/// Where a program's output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// What it says and what it complains about, in the order of writing.
    Joined,
    /// Each for itself.
    Apart,
}

/// A program that runs, or has run.
pub trait Process: Send + Sync {
    /// Names it among the processes of its session.
    fn id(&self) -> &str;

    /// What was started, as it was asked for.
    fn command(&self) -> &str;

    /// How it stands.
    fn status(&self) -> ProcessStatus;

    /// Counts what happens: output, and the end. Nobody has to poll.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Up to so many bytes of the output, from a place on. What is neither in memory nor kept any more is passed over, and
    /// the piece says so.
    ///
    /// # Errors
    /// When what is kept outside memory cannot be read.
    fn output(&self, stream: Stream, from: u64, most: usize) -> Result<OutputChunk, ToolError>;

    /// Gives it something to read.
    ///
    /// # Errors
    /// Of kind `conflict` when it reads nothing, or nothing any more.
    fn write<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), ToolError>>;

    /// No more will be written.
    ///
    /// # Errors
    /// As [`Process::write`].
    fn close_input(&self) -> Result<(), ToolError>;

    /// Ends it and everything it has started, and returns when all of that is gone.
    fn kill(&self, why: KillReason) -> BoxFuture<'_, ()>;

    /// The same without waiting, for those who cannot.
    fn kill_soon(self: Arc<Self>, why: KillReason);

    /// What it wanted and did not get, from what stands around it. No word of the program is read for this.
    fn denials(&self) -> Vec<Denial> {
        Vec::new()
    }

    /// What keeps it from reading this absolute path, which is there for others. Reading is not watched, so this is for
    /// paths that its command line names.
    fn read_denial(&self, _path: &Path) -> Option<Denial> {
        None
    }

    /// Whether something in it accepts connections at this port.
    fn listens(&self, port: u16) -> bool;

    /// Why it is not its own doing how it ended: where it ran went away. None for all others.
    fn failure(&self) -> Option<ToolError> {
        None
    }
}

/// Which output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// What it says; with [`Streams::Joined`] everything.
    Out,
    /// What it complains about.
    Err,
}

/// A part of an output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputChunk {
    /// The bytes as the program wrote them.
    pub bytes: Vec<u8>,
    /// Where they begin; later than was asked when what lies before is kept no more.
    pub begin: u64,
    /// How long the output is so far.
    pub total: u64,
}

/// Why a process is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillReason {
    /// Its time was over.
    ByTimeout,
    /// The call that started it was called off, or its session has ended.
    Cancelled,
    /// Somebody wanted it gone.
    OnRequest,
}

/// Something that a program wanted and was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Denial {
    /// What it wanted, as `write /etc/hosts`.
    pub what: String,
    /// Why it could not have it.
    pub why: String,
    /// What would allow it, or what to do instead.
    pub remedy: String,
    /// It was done and then undone: reported even when the program has succeeded.
    #[serde(default, rename = "is_put_aside", skip_serializing_if = "std::ops::Not::not")]
    pub is_reverted: bool,
}

/// How a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStatus {
    /// In a word.
    pub state: ProcessState,
    /// What it ended with, by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// How long it has run, or did run.
    pub ms: u64,
    /// For how long it has said nothing.
    pub silent_ms: u64,
    /// How much it has said.
    pub bytes: u64,
    /// How many processes it has left behind that could not be ended.
    pub survivors: usize,
}

/// How a process stands, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProcessState {
    /// It works.
    Running,
    /// It reads what nobody has written yet.
    WaitingForInput,
    /// It works and has said nothing for long.
    Silent,
    /// It has ended by itself.
    Exited,
    /// A signal that was not ours has ended it.
    Signalled,
    /// Its time was over.
    KilledByTimeout,
    /// The call was called off.
    Cancelled,
    /// Somebody ended it.
    Killed,
}

impl ProcessState {
    /// Whether it is over.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Running | Self::WaitingForInput | Self::Silent)
    }
}

/// The power to run programs.
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
    /// Runs whatever the executor runs; for calling a tool's function directly.
    pub fn unchecked(executor: Arc<dyn Executor>) -> Self {
        Self { executor, grants: None, session: "direct".to_owned() }
    }

    /// A launch with what this call holds: the workspace is read-only to a call that may not write, and there is no
    /// network for one that was not granted it.
    pub fn launch(&self, program: Program, directory: &Path) -> Launch {
        let has = |power| self.grants.as_ref().is_none_or(|grants| grants.has(power));
        Launch {
            session: self.session.clone(),
            program,
            directory: directory.to_owned(),
            environment: Vec::new(),
            secrets: Vec::new(),
            confinement: Confinement { network: has(Power::Net), writes: has(Power::WriteFiles) },
            grant: FileGrant::of_what_is_open(self.grants.clone()),
            input: Stdin::Closed,
            streams: Streams::Joined,
        }
    }

    /// What the gate's reader found in the text of a launch, when it judged this call.
    pub fn parsed_script(&self, launch: &Launch) -> Option<&ParsedScript> {
        self.grants.as_ref()?.parsed_script(&launch.script())
    }

    /// Starts what was granted.
    ///
    /// # Errors
    /// Of kind `denied` for anything else; otherwise as [`Executor::start`].
    pub fn start(&self, launch: Launch) -> Result<Arc<dyn Process>, ToolError> {
        if let Some(grants) = &self.grants {
            grants.check(&Access::Run(launch.script()))?;
            for (_, name) in &launch.secrets {
                grants.check(&launch.gives(name))?;
            }
        }
        self.executor.start(launch)
    }

    /// Runs a program to its end and takes what it says, up to so many bytes of each stream. Whoever stops waiting for it
    /// ends it.
    ///
    /// # Errors
    /// As [`Shell::start`], and of kind `unavailable` when what it ran in went away. That the program fails is no error here.
    pub async fn finish(&self, launch: Launch, most: usize) -> Result<FinishedProcess, ToolError> {
        let process = self.start(launch)?;
        let awaited = KillOnDrop::new(process.clone());
        let mut changes = process.changes();
        // The sender lives in the process, which is here.
        while !process.status().state.is_over() && changes.changed().await.is_ok() {}
        drop(awaited);
        if let Some(failure) = process.failure() {
            return Err(failure);
        }
        let (out, err) =
            (process.output(Stream::Out, 0, most)?, process.output(Stream::Err, 0, most)?);
        let is_truncated =
            [&out, &err].iter().any(|piece| (piece.bytes.len() as u64) < piece.total);
        Ok(FinishedProcess {
            status: process.status(),
            out: out.bytes,
            err: err.bytes,
            is_truncated,
        })
    }

    /// Gives a process something to read. A shell runs what it reads, so it has to be granted like a command.
    ///
    /// # Errors
    /// Of kind `denied` for what was not granted; otherwise as [`Process::write`].
    pub async fn write(&self, process: &dyn Process, text: &str) -> Result<(), ToolError> {
        if let Some(grants) = &self.grants {
            grants.check(&Access::Run(text.to_owned()))?;
        }
        process.write(text.as_bytes()).await
    }

    /// The processes of this session, the oldest first.
    pub fn processes(&self) -> Vec<Arc<dyn Process>> {
        self.executor.processes(&self.session)
    }

    /// One of them.
    ///
    /// # Errors
    /// Of kind `not_found`, with the ids there are.
    pub fn process(&self, id: &str) -> Result<Arc<dyn Process>, ToolError> {
        let known = self.processes();
        if let Some(process) = known.iter().find(|process| process.id() == id) {
            return Ok(process.clone());
        }
        let ids: Vec<&str> = known.iter().map(|process| process.id()).collect();
        let hint = match ids.as_slice() {
            [] => "no process of this session is known; start one with `bash`".to_owned(),
            ids => format!("the processes of this session are {}", ids.join(", ")),
        };
        Err(ToolError::new(ErrorKind::NotFound, format!("there is no process `{id}`")).hint(hint))
    }

    /// Where programs run.
    pub fn place(&self) -> ExecutorKind {
        self.executor.place()
    }
}

/// What a program has said and how it has ended.
#[derive(Clone, Debug)]
pub struct FinishedProcess {
    /// How it has ended.
    pub status: ProcessStatus,
    /// What it said.
    pub out: Vec<u8>,
    /// What it complained about, where that came apart.
    pub err: Vec<u8>,
    /// There was more than was taken.
    pub is_truncated: bool,
}

/// A process that is of no use any more when nobody waits for it.
pub struct KillOnDrop(Option<Arc<dyn Process>>);

impl KillOnDrop {
    /// Ends it when this is dropped.
    pub fn new(process: Arc<dyn Process>) -> Self {
        Self(Some(process))
    }

    /// It is of use without anybody waiting.
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
    /// As rules and people read it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Shell(text) => f.write_str(text),
            Self::Direct { name, arguments } => {
                f.write_str(name)?;
                arguments.iter().try_for_each(|argument| write!(f, " {}", Word(argument)))
            }
        }
    }
}

/// A word as a shell would have to be given it.
struct Word<'a>(&'a str);

impl std::fmt::Display for Word<'_> {
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
    fn a_program_reads_as_a_shell_would_have_to_be_given_it() {
        let arguments = ["log", "-n", "1", "--", "a b", "it's", "", "$x"].map(str::to_owned);
        let program = Program::Direct { name: "git".to_owned(), arguments: arguments.into() };
        assert_eq!(program.to_string(), r"git log -n 1 -- 'a b' 'it'\''s' '' '$x'");
        assert_eq!(Program::Shell("a | b".to_owned()).to_string(), "a | b");
    }

    #[test]
    fn a_script_begins_with_the_way_to_its_directory() {
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
    fn only_what_goes_on_is_not_over() {
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
