//! Runs programs in containers: one warm container per session and kind of launch (with or without
//! the network, with or without writing), created when it is first needed. The engine's `exec` runs
//! programs in it; the supervisor inside (`supervisor.sh`) counts, watches and ends them, and lives
//! exactly as long as the pipe that haft holds.
//!
//! Nothing runs with less isolation: without an engine or an image no program runs. haft never
//! fetches images, because no person approved the download.

mod engine;
mod isolated;
mod owner;
mod plan;
mod probe;
mod settings;
#[cfg(test)]
mod tests;
mod warm;

use std::{
    collections::HashMap,
    ffi::OsString,
    path::Path,
    sync::{Arc, OnceLock, Weak},
    thread,
};

use parking_lot::{Mutex, MutexGuard};

use haft_core::{
    ToolError,
    commands::{Confinement, ExecutorKind, Launch, Program, Stdin, Streams},
};

use self::{
    engine::{ContainerEngine, ContainerEngineKind},
    isolated::ContainerLaunch,
    plan::ContainerPlan,
    warm::WarmContainer,
};
pub use self::{probe::container_verdict, settings::ContainerSettings};
use crate::{
    processes::{
        Variables,
        backend::{ChildRestrictions, LaunchBackend, LaunchContext, Recipe},
        environment::MARK,
    },
    sandbox::Scratches,
};

/// Runs programs in containers.
pub(crate) struct Container {
    settings: Arc<ContainerSettings>,
    /// The variables of the engine's process.
    variables: Variables,
    engine: OnceLock<Arc<ContainerEngine>>,
    sessions: Mutex<HashMap<String, Arc<SessionContainers>>>,
    /// Directories whose entries cover files that programs must not see.
    scratches: Scratches,
}

/// The containers of one session.
#[derive(Default)]
struct SessionContainers {
    /// By network and writes. Each has its own lock: the first of several launches creates it, the
    /// others wait.
    containers: [Mutex<Option<Arc<WarmContainer>>>; 4],
    /// Containers that accept no further launch but in which something still runs.
    retired: Mutex<Vec<Arc<WarmContainer>>>,
}

impl Container {
    /// Creates the backend; the engine is looked up on first use.
    pub(crate) fn new(
        settings: Arc<ContainerSettings>,
        variables: &Variables,
        temporary: &Path,
    ) -> Self {
        Self {
            settings,
            variables: engine::variables(variables),
            engine: OnceLock::new(),
            sessions: Mutex::default(),
            scratches: Scratches::in_directory(temporary),
        }
    }

    fn engine(&self) -> Result<Arc<ContainerEngine>, ToolError> {
        if let Some(engine) = self.engine.get() {
            engine.check()?;
            return Ok(engine.clone());
        }
        let found = ContainerEngine::find(&self.settings, self.variables.clone())?;
        let engine = self.engine.get_or_init(|| Arc::new(found)).clone();
        let sweeper = engine.clone();
        // In parallel with the start of the first container, which takes longer.
        let _ = thread::Builder::new()
            .name("haft-sweep".to_owned())
            .spawn(move || owner::sweep(&sweeper));
        Ok(engine)
    }

    fn session(&self, session: &str) -> Arc<SessionContainers> {
        self.sessions().entry(session.to_owned()).or_default().clone()
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<SessionContainers>>> {
        self.sessions.lock()
    }

    /// Returns the container for such a launch; creates another one when the old one is gone, or
    /// when its mounts no longer cover what they must.
    fn warm(
        &self,
        launch: &Launch,
        context: &LaunchContext,
    ) -> Result<Arc<WarmContainer>, ToolError> {
        let engine = self.engine()?;
        let session = self.session(&launch.session);
        session.remove_unused();
        let Confinement { network, writes } = launch.confinement;
        let container = &session.containers[usize::from(network) + 2 * usize::from(writes)];
        let mut container = container.lock();
        if let Some(warm) = &*container {
            if warm.serves(self.settings.max_age, &context.closed) {
                return Ok(warm.clone());
            }
            session.retire(warm.clone());
            *container = None;
        }
        let cover = self.scratches.of_session(&launch.session)?;
        let plan = ContainerPlan::of(&self.settings, launch, context, &engine, &cover)?;
        let warm = Arc::new(WarmContainer::start(engine, plan)?);
        note(&warm);
        *container = Some(warm.clone());
        Ok(warm)
    }
}

impl SessionContainers {
    fn retire(&self, warm: Arc<WarmContainer>) {
        self.retired().push(warm);
        self.remove_unused();
    }

    /// Ends the retired containers in which nothing runs.
    fn remove_unused(&self) {
        self.retired().retain(|warm| {
            let is_needed = warm.is_used();
            if !is_needed {
                warm.end();
            }
            is_needed
        });
    }

    fn retired(&self) -> MutexGuard<'_, Vec<Arc<WarmContainer>>> {
        self.retired.lock()
    }

    fn end(&self) {
        let containers = self.containers.iter().filter_map(|container| {
            let mut container = container.lock();
            container.take()
        });
        let all: Vec<Arc<WarmContainer>> =
            containers.chain(std::mem::take(&mut *self.retired())).collect();
        end_all(&all);
    }
}

/// Ends them in parallel: an engine takes a quarter of a second for each.
fn end_all(all: &[Arc<WarmContainer>]) {
    match all {
        [] => {}
        [one] => one.end(),
        many => thread::scope(|scope| {
            many.iter().for_each(|warm| {
                scope.spawn(|| warm.end());
            });
        }),
    }
}

/// Every container of this process that may be alive.
static ALL: Mutex<Vec<Weak<WarmContainer>>> = Mutex::new(Vec::new());

fn note(warm: &Arc<WarmContainer>) {
    let mut all = ALL.lock();
    all.retain(|known| known.strong_count() > 0);
    all.push(Arc::downgrade(warm));
}

/// Ends every container that this process has created.
pub(crate) fn end_everything() {
    let all = std::mem::take(&mut *ALL.lock());
    end_all(&all.iter().filter_map(Weak::upgrade).collect::<Vec<_>>());
}

impl LaunchBackend for Container {
    fn kind(&self) -> ExecutorKind {
        ExecutorKind::Container
    }

    fn recipe(&self, launch: &Launch, context: &LaunchContext) -> Result<Recipe, ToolError> {
        let warm = self.warm(launch, context)?;
        let directory = plan::inside(context, &context.path)?;
        let program = warm.command(&launch.program, &directory, &self.settings)?;
        let mark = context.environment.iter().find(|(name, _)| name == MARK);
        let mark = mark.map(|(_, mark)| mark.to_string_lossy().into_owned()).unwrap_or_default();
        let inside = ContainerLaunch::new(warm.clone(), &mark);
        // Its warnings would mix with the output of the program.
        let mut command = warm.engine.words(["--log-level", "fatal", "exec"]);
        command.extend(handles(launch.input, warm.engine.kind));
        command.extend(["--workdir".into(), directory.into_os_string()]);
        let own = [(MARK.to_owned(), mark.clone())];
        let home = [("HOME".to_owned(), warm.home.clone())];
        let added = launch.environment.iter().cloned();
        for (name, value) in home.into_iter().chain(added).chain(own) {
            command.extend(["--env".into(), format!("{name}={value}").into()]);
        }
        let mut environment = self.variables.clone();
        for (variable, _) in &launch.secrets {
            // By name only: every process of the machine can read arguments.
            engine::check_not_its_own(variable)?;
            command.extend(["--env".into(), variable.into()]);
            let valued = context.environment.iter().find(|(name, _)| name == variable.as_str());
            environment.extend(valued.cloned());
        }
        command.push(warm.name.clone().into());
        command.extend(before(launch));
        command.extend(program);
        environment.push((MARK.into(), mark.into()));
        let isolated = Some(inside as _);
        let (restrictions, listening) = (ChildRestrictions::default(), None);
        Ok(Recipe { command, environment, restrictions, listening, isolated })
    }

    fn forget(&self, name: &str) {
        let gone = self.sessions().remove(name);
        if let Some(session) = gone {
            session.end();
        }
        self.scratches.forget(name);
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let all = std::mem::take(&mut *self.sessions());
        all.values().for_each(|session| session.end());
    }
}

/// The options for the input of a program.
fn handles(input: Stdin, kind: ContainerEngineKind) -> Vec<OsString> {
    match input {
        Stdin::Closed => vec![],
        Stdin::Open => vec!["--interactive".into()],
        Stdin::Terminal { .. } => {
            // The input is for the program: no key may have a meaning for the engine. Docker treats
            // an empty value as its default keys, so it gets keys that are never typed.
            let keys = match kind {
                ContainerEngineKind::Podman => "",
                ContainerEngineKind::Docker => "ctrl-_,ctrl-^,ctrl-_,ctrl-^,ctrl-_",
            };
            let keys = format!("--detach-keys={keys}");
            vec!["--interactive".into(), "--tty".into(), keys.into()]
        }
    }
}

/// The command line that runs before the program.
fn before(launch: &Launch) -> Vec<OsString> {
    let words = |script: &str| ["sh", "-c", script].map(OsString::from).into();
    match (launch.input, launch.streams) {
        // Docker sets the terminal's size only after the program has started, and so does podman on
        // a busy machine.
        (Stdin::Terminal { rows, columns }, _) => {
            words(&format!(r#"stty rows {rows} cols {columns} 2>/dev/null; exec "$0" "$@""#))
        }
        // The engine transports the two outputs separately and would mix their order; joined inside
        // they are one.
        (Stdin::Closed | Stdin::Open, Streams::Joined) => words(r#"exec "$0" "$@" 2>&1"#),
        _ => Vec::new(),
    }
}

impl WarmContainer {
    /// Returns the command line of a program in the container.
    ///
    /// # Errors
    /// Of kind `not_found` when the image has no such program.
    fn command(
        &self,
        program: &Program,
        directory: &Path,
        settings: &ContainerSettings,
    ) -> Result<Vec<OsString>, ToolError> {
        match program {
            Program::Shell(text) => Ok(vec![self.shell.clone().into(), "-c".into(), text.into()]),
            Program::Direct { name, arguments } => {
                let found = self.find(name, directory)?.ok_or_else(|| {
                    let image = &settings.image;
                    let message =
                        format!("there is no program `{name}` in the path of the image `{image}`");
                    ToolError::not_found(message)
                        .hint("name another, or set an image that has it as `image` in [container]")
                })?;
                let arguments = arguments.iter().map(OsString::from);
                Ok([found.into()].into_iter().chain(arguments).collect())
            }
        }
    }
}
