//! Starts programs, reads their output, limits them and ends them, with every sandbox backend.

pub(crate) mod backend;
pub(crate) mod child;
pub(crate) mod closed;
mod denials;
pub(crate) mod environment;
mod folders;
mod git_guard;
pub(crate) mod helper_thread;
pub(crate) mod limits;
pub(crate) mod local;
mod log;
mod orphans;
mod outside;
mod process;
mod process_tree;
mod sockets;
mod spawn;
mod watched;

use std::{
    collections::HashMap,
    ffi::OsString,
    io,
    path::Path,
    sync::{
        Arc, LazyLock, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};

use haft_core::{
    ErrorKind, ToolError, Vault,
    commands::{Executor, ExecutorKind, KillReason, Launch, Process, Program},
    files::FileGrant,
};

use self::{
    backend::{LaunchBackend, LaunchContext},
    closed::Closed,
    denials::LaunchDenials,
    folders::{FolderCache, FolderScan},
    git_guard::GitGuard,
    limits::{Allowance, LaunchMark},
    local::Local,
    log::Log,
    outside::OutsideFolders,
    process::{ProcessParts, RunningProcess},
    process_tree::ProcessTree,
    spawn::Spawner,
};
use crate::{
    ContainerSettings, Credential, Workspace,
    network::credentials::{Recipient, SecretSource},
    sandbox::{
        self, BackendChoice, NotificationListener, ShownFolders,
        container::{self, Container},
    },
};

/// Maximum length of a command; the kernel accepts 128 KiB as one argument.
const MAX_COMMAND_BYTES: usize = 100 << 10;
/// Maximum number of finished processes that are remembered per session.
const MAX_FINISHED: usize = 8;
/// Maximum number of running processes per session.
const MAX_RUNNING: usize = 64;
/// Maximum size of one output on disk.
const OUTPUT_QUOTA_BYTES: u64 = 256 << 20;

/// True once this process has started a program.
static HAS_STARTED: AtomicBool = AtomicBool::new(false);

/// The sandbox that programs run in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProcessSettings {
    /// The strongest sandbox that works here, or none if none works.
    #[default]
    Auto,
    /// The strongest sandbox; if none works, no program runs.
    Sandbox,
    /// Landlock and seccomp, without another program.
    Landlock,
    /// The program `bwrap`.
    Bubblewrap,
    /// A container; without one no program runs.
    Container(Arc<ContainerSettings>),
    /// No sandbox.
    Nothing,
}

impl ProcessSettings {
    /// Returns true when programs are really sandboxed, or else do not run. Tried once per process.
    /// Containers are not tried, because without one no program runs.
    pub fn works(&self) -> bool {
        // Creating a backend opens nothing; it only checks what works.
        matches!(self, Self::Container(_))
            || self
                .wanted()
                .is_some_and(|wanted| sandbox::backend(wanted, Path::new("/var/tmp")).is_ok())
    }

    fn wanted(&self) -> Option<BackendChoice> {
        match self {
            Self::Nothing | Self::Container(_) => None,
            Self::Auto | Self::Sandbox => Some(BackendChoice::Auto),
            Self::Landlock => Some(BackendChoice::Landlock),
            Self::Bubblewrap => Some(BackendChoice::Bubblewrap),
        }
    }

    fn backend(
        &self,
        folder: &Path,
        variables: &Variables,
    ) -> Result<Box<dyn LaunchBackend>, BackendError> {
        if let Self::Container(settings) = self {
            return Ok(Box::new(Container::new(settings.clone(), variables, folder)));
        }
        match self.wanted() {
            Some(wanted) if *self != Self::Auto || self.works() => {
                sandbox::backend(wanted, folder).map_err(|error| BackendError::from(&error))
            }
            _ => Ok(Box::new(Local)),
        }
    }
}

/// Why there is no sandbox, and what to install.
struct BackendError {
    reason: String,
    advice: String,
}

impl From<&ToolError> for BackendError {
    fn from(error: &ToolError) -> Self {
        Self { reason: error.message().to_owned(), advice: error.next_step().to_owned() }
    }
}

/// The environment variables of a process.
pub type Variables = Vec<(OsString, OsString)>;

/// Runs programs in a workspace.
pub struct Programs {
    workspace: Arc<Workspace>,
    folders: Arc<FolderCache>,
    wanted: ProcessSettings,
    /// Chosen when the first program starts.
    backend: OnceLock<Result<Box<dyn LaunchBackend>, BackendError>>,
    /// Our own variables, few of which are inherited. Read when the first program starts.
    environment: LazyLock<Variables, fn() -> Variables>,
    /// Directory for outputs that exceed the memory limit.
    folder: Arc<Path>,
    known: Mutex<HashMap<String, Vec<Arc<RunningProcess>>>>,
    allowance: Allowance,
    /// The secrets by name, from the user's config.
    credentials: Vec<Credential>,
    vault: Option<Arc<dyn Vault>>,
    private: Arc<Vec<std::path::PathBuf>>,
    shown: Arc<ShownFolders>,
    /// The same with links resolved, once: what commands write must not change what the next one
    /// sees.
    resolved: OnceLock<Arc<ShownFolders>>,
    outside: OutsideFolders,
    /// Created when the first program starts.
    spawner: OnceLock<Spawner>,
    count: AtomicU64,
    /// Distinguishes our processes from those of another haft.
    mark: String,
}

impl Programs {
    /// Runs programs without a sandbox. `environment` reads the variables of this process; `folder`
    /// is for unnamed files with outputs that exceed the memory limit, and for temporary files of
    /// programs.
    pub fn local(workspace: Arc<Workspace>, environment: fn() -> Variables, folder: &Path) -> Self {
        Self::new(ProcessSettings::Nothing, workspace, environment, folder)
    }

    /// Runs programs with these settings.
    pub fn new(
        wanted: ProcessSettings,
        workspace: Arc<Workspace>,
        environment: fn() -> Variables,
        folder: &Path,
    ) -> Self {
        let nanos = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos());
        Self {
            workspace,
            folders: Arc::default(),
            wanted,
            backend: OnceLock::new(),
            environment: LazyLock::new(environment),
            folder: folder.into(),
            known: Mutex::default(),
            allowance: Allowance::default(),
            credentials: Vec::new(),
            vault: None,
            private: Arc::default(),
            shown: Arc::default(),
            resolved: OnceLock::new(),
            outside: OutsideFolders::default(),
            spawner: OnceLock::new(),
            count: AtomicU64::new(0),
            mark: format!("{}-{nanos:x}", std::process::id()),
        }
    }

    /// Sets other limits than the default ones.
    #[must_use]
    pub fn limited(mut self, allowance: Allowance) -> Self {
        self.allowance = allowance;
        self
    }

    /// Allows programs to get secrets by name, from variables and from a vault.
    #[must_use]
    pub fn with_secrets(
        mut self,
        credentials: Vec<Credential>,
        vault: Option<Arc<dyn Vault>>,
    ) -> Self {
        (self.credentials, self.vault) = (credentials, vault);
        self
    }

    /// Hides these folders from sandboxed programs: haft keeps private data of the user there.
    #[must_use]
    pub fn hiding(mut self, folders: Vec<std::path::PathBuf>) -> Self {
        self.private = Arc::new(folders);
        self
    }

    /// Shows these additional folders to sandboxed programs.
    #[must_use]
    pub fn showing(mut self, folders: ShownFolders) -> Self {
        self.shown = Arc::new(folders);
        self
    }

    /// Sets absolute path globs that may be closed to programs; the grant of a launch decides.
    #[must_use]
    pub fn closing(mut self, patterns: Vec<std::path::PathBuf>) -> Self {
        self.outside = OutsideFolders::new(patterns);
        self
    }

    /// Makes this process adopt the orphans of its programs, so that they are found at once. Only
    /// for a dedicated program: its main thread must not start processes, because this code reaps
    /// its children.
    pub fn adopt_orphans() {
        orphans::adopt();
    }

    /// Ends everything that this process has started and that still runs. Call it before the
    /// process exits: the values that own the processes may be leaked or already dropped.
    pub fn end_everything() {
        if HAS_STARTED.load(Ordering::Acquire) {
            container::end_everything();
            process_tree::end_all(&format!("{}-", std::process::id()));
        }
    }

    /// Ends everything that a session has started.
    pub fn end_session(&self, session: &str) {
        let of_session = self.known().remove(session).unwrap_or_default();
        of_session.iter().for_each(|process| process.kill_now(KillReason::Cancelled));
        if let Some(Ok(backend)) = self.backend.get() {
            backend.forget(session);
        }
    }

    /// # Errors
    /// Of kind `unavailable` when the configured backend does not work; nothing runs with less.
    fn backend(&self) -> Result<&dyn LaunchBackend, ToolError> {
        let chosen =
            self.backend.get_or_init(|| self.wanted.backend(&self.folder, &self.environment));
        match chosen {
            Ok(backend) => Ok(&**backend),
            Err(error) => Err(ToolError::unavailable(error.reason.as_str())
                .hint(format!("{}; `haft doctor` shows what this machine has", error.advice))),
        }
    }

    /// Returns the context of a launch and, in a sandbox, the scan of the workspace's folders.
    fn context(
        &self,
        launch: &Launch,
        mark: &str,
    ) -> Result<(LaunchContext, Option<FolderScan>), ToolError> {
        let (directory, path) = self.workspace.directory(&launch.directory)?;
        let mut added = launch.environment.clone();
        added.extend(self.secrets_of(launch)?);
        let mut environment = environment::of(&self.environment, &added, mark)?;
        environment.push(("PWD".into(), path.clone().into()));
        let place = self.backend()?.kind();
        if place != ExecutorKind::Sandbox {
            process_tree::note_unsandboxed();
        }
        let scan = match place {
            ExecutorKind::Local => None,
            _ => Some(closed::scan(&self.folders, &self.workspace, &launch.grant)?),
        };
        let mut closed = match &scan {
            Some(scan) => closed::files(&self.workspace, scan)?,
            None => Vec::new(),
        };
        if let Some(scan) = scan.as_ref().filter(|_| place == ExecutorKind::Container) {
            closed.extend(closed::sockets(&self.workspace, scan));
        }
        let (workspace, private) = (self.workspace.clone(), self.private.clone());
        let shown = self.resolved.get_or_init(|| Arc::new(self.shown.resolved(&workspace))).clone();
        let closed = Arc::new(closed);
        let mut context =
            LaunchContext { workspace, directory, path, environment, closed, private, shown };
        if place == ExecutorKind::Sandbox {
            let outside = self.closed_outside(&context, &launch.grant)?;
            if !outside.is_empty() {
                context.closed = Arc::new(context.closed.iter().cloned().chain(outside).collect());
            }
        }
        Ok((context, scan))
    }

    /// Returns the paths outside the workspace that are closed to a program.
    fn closed_outside(
        &self,
        context: &LaunchContext,
        grant: &FileGrant,
    ) -> Result<Vec<Closed>, ToolError> {
        let shown = sandbox::searched(context);
        if shown.is_empty() && !self.outside.has_patterns() {
            return Ok(Vec::new());
        }
        self.outside.closed(&sandbox::areas(context), &shown, grant)
    }

    /// Returns the variables of a launch that hold secrets, with their values.
    fn secrets_of(&self, launch: &Launch) -> Result<Vec<(String, String)>, ToolError> {
        if launch.secrets.is_empty() {
            return Ok(Vec::new());
        }
        let variables = LazyLock::force(&self.environment);
        let vault = self.vault.as_deref();
        let secrets = SecretSource { credentials: &self.credentials, variables, vault };
        let valued = |(variable, name): &(String, String)| {
            environment::check_secret(variable)?;
            let value = secrets.value(name, Recipient::Program)?;
            Ok((variable.clone(), value))
        };
        launch.secrets.iter().map(valued).collect()
    }

    fn run(&self, launch: &Launch, id: String) -> Result<Arc<RunningProcess>, ToolError> {
        HAS_STARTED.store(true, Ordering::Release);
        // The dot distinguishes `p1` from `p10` when a prefix is compared.
        let mark = format!("{}-{id}.", self.mark);
        let (context, scan) = self.context(launch, &mark)?;
        let mut recipe = self.backend()?.recipe(launch, &context)?;
        let listening = recipe.listening.take();
        let isolated = recipe.isolated.clone();
        let command = launch.program.to_string();
        let guard = scan.filter(|_| launch.confinement.writes).map(|scan| {
            let (workspace, folders) = (&self.workspace, &self.folders);
            Arc::new(GitGuard::before(workspace, folders, &launch.grant, scan))
        });
        let number = LaunchMark::of(&mark);
        let spawner = self.spawner.get_or_init(|| Spawner::new(self.allowance));
        let spawned = spawner
            .start(recipe, number, context.directory, (launch.input, launch.streams))
            .map_err(|error| not_started(&command, &error))?;
        let reported = listening.map(NotificationListener::begin).unwrap_or_default();
        let denials = LaunchDenials::new(reported, spawner.group());
        let ends = &spawned.ends;
        let pipes = [Some(&ends.out), ends.err.as_ref()];
        let pipes = pipes.into_iter().flatten().filter_map(process_tree::inode).collect();
        let tree = ProcessTree { leader: spawned.pid, mark, number, pipes };
        tree.register();
        let log = || Log::new(self.folder.clone(), OUTPUT_QUOTA_BYTES);
        let parts = ProcessParts {
            id,
            command,
            tree,
            denials,
            guard,
            isolated,
            reads: launch.input,
            logs: (log(), log()),
        };
        RunningProcess::watch_process(parts, spawned).map_err(|error| {
            ToolError::unavailable("the runtime cannot watch a process").caused_by(error)
        })
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Vec<Arc<RunningProcess>>>> {
        self.known.lock()
    }
}

impl Executor for Programs {
    fn start(&self, launch: Launch) -> Result<Arc<dyn Process>, ToolError> {
        check(&launch.program)?;
        let running = {
            let known = self.known();
            let of_session = known.get(&launch.session);
            of_session.map_or(0, |all| all.iter().filter(|process| !process.is_over()).count())
        };
        if running >= MAX_RUNNING {
            let message = format!("{running} processes of this session are running");
            return Err(ToolError::unavailable(message).hint("end some with `process` first"));
        }
        let id = format!("p{}", self.count.fetch_add(1, Ordering::Relaxed) + 1);
        let process = haft_core::block_in_place(|| self.run(&launch, id))?;
        let mut known = self.known();
        let of_session = known.entry(launch.session).or_default();
        of_session.push(process.clone());
        let mut over = of_session.iter().filter(|process| process.is_over()).count();
        of_session.retain(|process| {
            let goes = over > MAX_FINISHED && process.is_over();
            over -= usize::from(goes);
            !goes
        });
        Ok(process)
    }

    fn processes(&self, session: &str) -> Vec<Arc<dyn Process>> {
        let known = self.known();
        let of_session = known.get(session).into_iter().flatten();
        of_session.map(|process| process.clone() as Arc<dyn Process>).collect()
    }

    fn kind(&self) -> ExecutorKind {
        self.backend().map_or(ExecutorKind::Sandbox, LaunchBackend::kind)
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        let sessions: Vec<String> = self.known().keys().cloned().collect();
        sessions.iter().for_each(|session| self.end_session(session));
    }
}

fn check(program: &Program) -> Result<(), ToolError> {
    let parts: Vec<&str> = match program {
        Program::Shell(text) => vec![text],
        Program::Direct { name, arguments } => {
            [name].into_iter().chain(arguments).map(String::as_str).collect()
        }
    };
    if parts.iter().all(|part| part.trim().is_empty()) {
        return Err(ToolError::input("the command is empty").hint("name a command to run"));
    }
    if parts.iter().any(|part| part.contains('\0')) {
        return Err(ToolError::input("the command contains a zero byte")
            .hint("programs cannot receive one; leave it out, or write `\\0` for a program that reads that"));
    }
    let length = parts.iter().map(|part| part.len()).max().unwrap_or_default();
    if length > MAX_COMMAND_BYTES {
        let message =
            format!("the command has {length} bytes; at most {MAX_COMMAND_BYTES} are allowed");
        return Err(ToolError::new(ErrorKind::TooLarge, message)
            .hint("write it to a file and run the file"));
    }
    Ok(())
}

fn not_started(command: &str, error: &io::Error) -> ToolError {
    let beginning: String = command.chars().take(80).collect();
    let message = format!("`{beginning}` could not be started: {error}");
    match error.kind() {
        io::ErrorKind::NotFound => ToolError::not_found(message).hint("check that it is installed"),
        io::ErrorKind::PermissionDenied => {
            ToolError::denied(message).hint("check that it is executable")
        }
        _ => ToolError::unavailable(message)
            .hint("the system may be out of processes, memory or descriptors; retry later"),
    }
}
