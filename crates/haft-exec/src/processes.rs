//! Programs: started, read, bounded and ended here, whatever stands around them.

pub(crate) mod aside;
pub(crate) mod birth;
pub(crate) mod closed;
pub(crate) mod environment;
mod family;
pub(crate) mod fence;
mod folders;
mod git_guard;
pub(crate) mod limits;
pub(crate) mod local;
mod log;
mod orphans;
mod outside;
mod process;
mod sockets;
mod spawn;
mod watched;
mod wishes;

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
    closed::Closed,
    family::Family,
    fence::{Fence, Site},
    folders::{Folders, Look},
    git_guard::GitGuard,
    limits::{Allowance, LaunchMark},
    local::Local,
    log::Log,
    outside::Outside,
    process::{Parts, Running},
    spawn::Spawner,
    wishes::Wishes,
};
use crate::{
    ContainerSettings, Credential, Workspace,
    network::credentials::{Recipient, Secrets},
    sandbox::{
        self, Listening, ShownFolders, Wanted,
        container::{self, Container},
    },
};

/// Longer texts are no commands any more; the kernel takes 128 KiB as one argument.
const LONGEST_COMMAND: usize = 100 << 10;
/// Of each session so many processes that are over are remembered.
const MOST_OVER: usize = 8;
/// Of each session so many may run at once.
const MOST_RUNNING: usize = 64;
/// How much of one output is kept on disk.
const QUOTA: u64 = 256 << 20;

/// Whether this process has started any.
static HAS_STARTED: AtomicBool = AtomicBool::new(false);

/// What stands around programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProcessSettings {
    /// The strongest sandbox that works here, or nothing where none does.
    #[default]
    Auto,
    /// The strongest sandbox; without one nothing runs.
    Sandbox,
    /// Walls of the kernel and no further program.
    Landlock,
    /// The program `bwrap`.
    Bubblewrap,
    /// A container; without one nothing runs.
    Container(Arc<ContainerSettings>),
    /// Nothing.
    Nothing,
}

impl ProcessSettings {
    /// Whether programs are really kept in, or else do not run. Found out by trying, once in the life of this process;
    /// containers are not tried, because without one nothing runs.
    pub fn works(&self) -> bool {
        // Making a fence opens nothing; it only asks what works.
        matches!(self, Self::Container(_))
            || self
                .wanted()
                .is_some_and(|wanted| sandbox::fence(wanted, Path::new("/var/tmp")).is_ok())
    }

    fn wanted(&self) -> Option<Wanted> {
        match self {
            Self::Nothing | Self::Container(_) => None,
            Self::Auto | Self::Sandbox => Some(Wanted::Auto),
            Self::Landlock => Some(Wanted::Landlock),
            Self::Bubblewrap => Some(Wanted::Bubblewrap),
        }
    }

    fn fence(&self, folder: &Path, variables: &Variables) -> Result<Box<dyn Fence>, Refusal> {
        if let Self::Container(settings) = self {
            return Ok(Box::new(Container::new(settings.clone(), variables, folder)));
        }
        match self.wanted() {
            Some(wanted) if *self != Self::Auto || self.works() => {
                sandbox::fence(wanted, folder).map_err(|error| Refusal::from(&error))
            }
            _ => Ok(Box::new(Local)),
        }
    }
}

/// Why there is no sandbox, and what to install.
struct Refusal {
    reason: String,
    advice: String,
}

impl From<&ToolError> for Refusal {
    fn from(error: &ToolError) -> Self {
        Self { reason: error.message().to_owned(), advice: error.next_step().to_owned() }
    }
}

/// The variables of a process.
pub type Variables = Vec<(OsString, OsString)>;

/// Runs programs in a workspace.
pub struct Programs {
    workspace: Arc<Workspace>,
    folders: Arc<Folders>,
    wanted: ProcessSettings,
    /// Chosen when the first program is started.
    fence: OnceLock<Result<Box<dyn Fence>, Refusal>>,
    /// Ours, of which a little is handed on. Read when the first program is started.
    environment: LazyLock<Variables, fn() -> Variables>,
    /// Where outputs go that are too long for memory.
    folder: Arc<Path>,
    known: Mutex<HashMap<String, Vec<Arc<Running>>>>,
    allowance: Allowance,
    /// Secrets by name, as the person's config has them.
    credentials: Vec<Credential>,
    vault: Option<Arc<dyn Vault>>,
    private: Arc<Vec<std::path::PathBuf>>,
    shown: Arc<ShownFolders>,
    /// The same with links followed, once: what commands write must not change what the next one sees.
    resolved: OnceLock<Arc<ShownFolders>>,
    outside: Outside,
    /// Made when the first program is started.
    spawner: OnceLock<Spawner>,
    count: AtomicU64,
    /// Tells our processes from those of another haft.
    mark: String,
}

impl Programs {
    /// Runs them as whoever runs this process. `environment` reads the one of this process; `folder` takes files without a
    /// name, for outputs that are too long for memory, and what programs keep for a while.
    pub fn local(workspace: Arc<Workspace>, environment: fn() -> Variables, folder: &Path) -> Self {
        Self::new(ProcessSettings::Nothing, workspace, environment, folder)
    }

    /// The same with something around them.
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
            fence: OnceLock::new(),
            environment: LazyLock::new(environment),
            folder: folder.into(),
            known: Mutex::default(),
            allowance: Allowance::default(),
            credentials: Vec::new(),
            vault: None,
            private: Arc::default(),
            shown: Arc::default(),
            resolved: OnceLock::new(),
            outside: Outside::default(),
            spawner: OnceLock::new(),
            count: AtomicU64::new(0),
            mark: format!("{}-{nanos:x}", std::process::id()),
        }
    }

    /// The same with other limits than the usual ones.
    #[must_use]
    pub fn limited(mut self, allowance: Allowance) -> Self {
        self.allowance = allowance;
        self
    }

    /// The same, and programs may be given secrets by their names: those that variables hold, and those of a vault.
    #[must_use]
    pub fn with_secrets(
        mut self,
        credentials: Vec<Credential>,
        vault: Option<Arc<dyn Vault>>,
    ) -> Self {
        (self.credentials, self.vault) = (credentials, vault);
        self
    }

    /// The same, and no program behind a fence sees these folders: where haft keeps what is the person's alone.
    #[must_use]
    pub fn hiding(mut self, folders: Vec<std::path::PathBuf>) -> Self {
        self.private = Arc::new(folders);
        self
    }

    /// The same, and sandboxed programs see these folders too.
    #[must_use]
    pub fn showing(mut self, folders: ShownFolders) -> Self {
        self.shown = Arc::new(folders);
        self
    }

    /// The same, and what these absolute path globs name may be closed to programs: the warrant of a launch says whether it is.
    #[must_use]
    pub fn closing(mut self, patterns: Vec<std::path::PathBuf>) -> Self {
        self.outside = Outside::new(patterns);
        self
    }

    /// Has this process take in what programs leave behind, so that it is told at once what that is. For a program of its
    /// own: its main thread must start no processes, since those that have ended are waited for here.
    pub fn take_in_orphans() {
        orphans::take_in();
    }

    /// Ends everything that this process has ever started and that still runs. For its end: what holds this may be gone, or
    /// never go.
    pub fn end_everything() {
        if HAS_STARTED.load(Ordering::Acquire) {
            container::end_everything();
            family::end_all(&format!("{}-", std::process::id()));
        }
    }

    /// Ends everything a session has started.
    pub fn end_session(&self, session: &str) {
        let of_session = self.known().remove(session).unwrap_or_default();
        of_session.iter().for_each(|process| process.kill_now(KillReason::Cancelled));
        if let Some(Ok(fence)) = self.fence.get() {
            fence.forget(session);
        }
    }

    /// # Errors
    /// Of kind `unavailable` when what is wanted cannot be had; nothing runs with less.
    fn fence(&self) -> Result<&dyn Fence, ToolError> {
        let chosen = self.fence.get_or_init(|| self.wanted.fence(&self.folder, &self.environment));
        match chosen {
            Ok(fence) => Ok(&**fence),
            Err(refusal) => Err(ToolError::unavailable(refusal.reason.as_str())
                .hint(format!("{}; `haft doctor` shows what this machine has", refusal.advice))),
        }
    }

    /// The site of a launch and the look at the folders of the workspace, where something stands around programs.
    fn site(&self, launch: &Launch, mark: &str) -> Result<(Site, Option<Look>), ToolError> {
        let (directory, path) = self.workspace.directory(&launch.directory)?;
        let mut added = launch.environment.clone();
        added.extend(self.secrets_of(launch)?);
        let mut environment = environment::of(&self.environment, &added, mark)?;
        environment.push(("PWD".into(), path.clone().into()));
        let place = self.fence()?.place();
        if place != ExecutorKind::Sandbox {
            family::note_unsandboxed();
        }
        let look = match place {
            ExecutorKind::Local => None,
            _ => Some(closed::look(&self.folders, &self.workspace, &launch.grant)?),
        };
        let mut closed = match &look {
            Some(look) => closed::files(&self.workspace, look)?,
            None => Vec::new(),
        };
        if let Some(look) = look.as_ref().filter(|_| place == ExecutorKind::Container) {
            closed.extend(closed::sockets(&self.workspace, look));
        }
        let (workspace, private) = (self.workspace.clone(), self.private.clone());
        let shown = self.resolved.get_or_init(|| Arc::new(self.shown.resolved(&workspace))).clone();
        let closed = Arc::new(closed);
        let mut site = Site { workspace, directory, path, environment, closed, private, shown };
        if place == ExecutorKind::Sandbox {
            let outside = self.closed_outside(&site, &launch.grant)?;
            if !outside.is_empty() {
                site.closed = Arc::new(site.closed.iter().cloned().chain(outside).collect());
            }
        }
        Ok((site, look))
    }

    /// What is closed to a program of the folders outside the workspace that it sees.
    fn closed_outside(&self, site: &Site, grant: &FileGrant) -> Result<Vec<Closed>, ToolError> {
        let shown = sandbox::searched(site);
        if shown.is_empty() && !self.outside.has_patterns() {
            return Ok(Vec::new());
        }
        self.outside.closed(&sandbox::areas(site), &shown, grant)
    }

    /// The variables of a launch that hold secrets, with their values.
    fn secrets_of(&self, launch: &Launch) -> Result<Vec<(String, String)>, ToolError> {
        if launch.secrets.is_empty() {
            return Ok(Vec::new());
        }
        let variables = LazyLock::force(&self.environment);
        let vault = self.vault.as_deref();
        let secrets = Secrets { credentials: &self.credentials, variables, vault };
        let valued = |(variable, name): &(String, String)| {
            environment::check_secret(variable)?;
            let value = secrets.value(name, Recipient::Program)?;
            Ok((variable.clone(), value))
        };
        launch.secrets.iter().map(valued).collect()
    }

    fn run(&self, launch: &Launch, id: String) -> Result<Arc<Running>, ToolError> {
        HAS_STARTED.store(true, Ordering::Release);
        // The dot keeps `p1` apart from `p10` for those who do not see where a variable ends.
        let mark = format!("{}-{id}.", self.mark);
        let (site, look) = self.site(launch, &mark)?;
        let mut recipe = self.fence()?.recipe(launch, &site)?;
        let listening = recipe.listening.take();
        let interior = recipe.interior.clone();
        let command = launch.program.to_string();
        let guard = look.filter(|_| launch.confinement.writes).map(|look| {
            let (workspace, folders) = (&self.workspace, &self.folders);
            Arc::new(GitGuard::before(workspace, folders, &launch.grant, look))
        });
        let number = LaunchMark::of(&mark);
        let spawner = self.spawner.get_or_init(|| Spawner::new(self.allowance));
        let born = spawner
            .start(recipe, number, site.directory, (launch.input, launch.streams))
            .map_err(|error| not_started(&command, &error))?;
        let noted = listening.map(Listening::begin).unwrap_or_default();
        let wishes = Wishes::new(noted, spawner.group());
        let ends = &born.ends;
        let pipes = [Some(&ends.out), ends.err.as_ref()];
        let pipes = pipes.into_iter().flatten().filter_map(family::inode).collect();
        let family = Family { leader: born.pid, mark, number, pipes };
        family.note();
        let log = || Log::new(self.folder.clone(), QUOTA);
        let parts = Parts {
            id,
            command,
            family,
            wishes,
            guard,
            interior,
            reads: launch.input,
            logs: (log(), log()),
        };
        Running::adopt(parts, born).map_err(|error| {
            ToolError::unavailable("the runtime cannot watch a process").caused_by(error)
        })
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Vec<Arc<Running>>>> {
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
        if running >= MOST_RUNNING {
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
            let goes = over > MOST_OVER && process.is_over();
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

    fn place(&self) -> ExecutorKind {
        self.fence().map_or(ExecutorKind::Sandbox, Fence::place)
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
        return Err(ToolError::input("the command is empty").hint("say what to run"));
    }
    if parts.iter().any(|part| part.contains('\0')) {
        return Err(ToolError::input("the command contains a zero byte")
            .hint("no program can be given one; leave it out, or write `\\0` for a program that reads that"));
    }
    let length = parts.iter().map(|part| part.len()).max().unwrap_or_default();
    if length > LONGEST_COMMAND {
        let message =
            format!("the command has {length} bytes; at most {LONGEST_COMMAND} are taken");
        return Err(ToolError::new(ErrorKind::TooLarge, message)
            .hint("write it to a file and run the file"));
    }
    Ok(())
}

fn not_started(command: &str, error: &io::Error) -> ToolError {
    let beginning: String = command.chars().take(80).collect();
    let message = format!("`{beginning}` could not be started: {error}");
    match error.kind() {
        io::ErrorKind::NotFound => {
            ToolError::not_found(message).hint("see whether it is installed")
        }
        io::ErrorKind::PermissionDenied => {
            ToolError::denied(message).hint("see whether it may be executed")
        }
        _ => ToolError::unavailable(message)
            .hint("the system may be out of processes, memory or descriptors; call again later"),
    }
}
