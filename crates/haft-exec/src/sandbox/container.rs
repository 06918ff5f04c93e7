//! Containers around programs: one warm container for each session and for each sort of launch (with or without the network,
//! with or without writing), made when it is first needed. Programs run in it by the engine's `exec`; what ends, counts and
//! watches them inside is the resident (`resident.sh`), which lives exactly as long as the pipe that haft holds.
//!
//! Nothing is ever held less than this: without an engine or an image nothing runs. Images are never fetched by haft, which
//! would be a download that nobody was asked about.

mod engine;
mod interior;
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
    engine::{Engine, Kind},
    interior::Inside,
    plan::Plan,
    warm::Warm,
};
pub use self::{probe::container_verdict, settings::ContainerSettings};
use crate::{
    processes::{
        Variables,
        environment::MARK,
        fence::{Fence, Recipe, Site, Walls},
    },
    sandbox::Scratches,
};

/// Programs run in containers.
pub(crate) struct Container {
    settings: Arc<ContainerSettings>,
    /// What the engine is started with.
    variables: Variables,
    engine: OnceLock<Arc<Engine>>,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// What covers files that programs must not see.
    scratches: Scratches,
}

/// The containers of one session.
#[derive(Default)]
struct Session {
    /// By network and writes. Each is made under its own lock: the first of many launches makes it, the others wait.
    rooms: [Mutex<Option<Arc<Warm>>>; 4],
    /// Those that no launch goes into any more and that something still runs in.
    retired: Mutex<Vec<Arc<Warm>>>,
}

impl Container {
    /// Looks for nothing yet.
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

    fn engine(&self) -> Result<Arc<Engine>, ToolError> {
        if let Some(engine) = self.engine.get() {
            engine.check()?;
            return Ok(engine.clone());
        }
        let found = Engine::find(&self.settings, self.variables.clone())?;
        let engine = self.engine.get_or_init(|| Arc::new(found)).clone();
        let sweeper = engine.clone();
        // Beside the start of the first container, which takes longer.
        let _ = thread::Builder::new()
            .name("haft-sweep".to_owned())
            .spawn(move || owner::sweep(&sweeper));
        Ok(engine)
    }

    fn session(&self, session: &str) -> Arc<Session> {
        self.sessions().entry(session.to_owned()).or_default().clone()
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.sessions.lock()
    }

    /// The container for such a launch; another one when the old one is gone, or when its mounts do not hold any more what
    /// they have to.
    fn warm(&self, launch: &Launch, site: &Site) -> Result<Arc<Warm>, ToolError> {
        let engine = self.engine()?;
        let session = self.session(&launch.session);
        session.bury();
        let Confinement { network, writes } = launch.confinement;
        let room = &session.rooms[usize::from(network) + 2 * usize::from(writes)];
        let mut room = room.lock();
        if let Some(warm) = &*room {
            if warm.serves(self.settings.longest, &site.closed) {
                return Ok(warm.clone());
            }
            session.retire(warm.clone());
            *room = None;
        }
        let cover = self.scratches.of_session(&launch.session)?;
        let plan = Plan::of(&self.settings, launch, site, &engine, &cover)?;
        let warm = Arc::new(Warm::start(engine, plan)?);
        note(&warm);
        *room = Some(warm.clone());
        Ok(warm)
    }
}

impl Session {
    fn retire(&self, warm: Arc<Warm>) {
        self.retired().push(warm);
        self.bury();
    }

    /// Ends the retired ones that nothing runs in.
    fn bury(&self) {
        self.retired().retain(|warm| {
            let is_needed = warm.is_used();
            if !is_needed {
                warm.end();
            }
            is_needed
        });
    }

    fn retired(&self) -> MutexGuard<'_, Vec<Arc<Warm>>> {
        self.retired.lock()
    }

    fn end(&self) {
        let rooms = self.rooms.iter().filter_map(|room| {
            let mut room = room.lock();
            room.take()
        });
        let all: Vec<Arc<Warm>> = rooms.chain(std::mem::take(&mut *self.retired())).collect();
        end_all(&all);
    }
}

/// One ends while the other does: an engine takes a quarter of a second for each.
fn end_all(all: &[Arc<Warm>]) {
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

/// Every container of this process that may live.
static ALL: Mutex<Vec<Weak<Warm>>> = Mutex::new(Vec::new());

fn note(warm: &Arc<Warm>) {
    let mut all = ALL.lock();
    all.retain(|known| known.strong_count() > 0);
    all.push(Arc::downgrade(warm));
}

/// Ends every container that this process has made.
pub(crate) fn end_everything() {
    let all = std::mem::take(&mut *ALL.lock());
    end_all(&all.iter().filter_map(Weak::upgrade).collect::<Vec<_>>());
}

impl Fence for Container {
    fn place(&self) -> ExecutorKind {
        ExecutorKind::Container
    }

    fn recipe(&self, launch: &Launch, site: &Site) -> Result<Recipe, ToolError> {
        let warm = self.warm(launch, site)?;
        let directory = plan::inside(site, &site.path)?;
        let program = warm.command(&launch.program, &directory, &self.settings)?;
        let mark = site.environment.iter().find(|(name, _)| name == MARK);
        let mark = mark.map(|(_, mark)| mark.to_string_lossy().into_owned()).unwrap_or_default();
        let inside = Inside::new(warm.clone(), &mark);
        // Its warnings would stand among the words of the program.
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
            // By name only: what stands among arguments every process of the machine can read.
            engine::check_not_its_own(variable)?;
            command.extend(["--env".into(), variable.into()]);
            let valued = site.environment.iter().find(|(name, _)| name == variable.as_str());
            environment.extend(valued.cloned());
        }
        command.push(warm.name.clone().into());
        command.extend(before(launch));
        command.extend(program);
        environment.push((MARK.into(), mark.into()));
        let interior = Some(inside as _);
        let (walls, listening) = (Walls::default(), None);
        Ok(Recipe { command, environment, walls, listening, interior })
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

/// What of its handles a program really has.
fn handles(input: Stdin, kind: Kind) -> Vec<OsString> {
    match input {
        Stdin::Closed => vec![],
        Stdin::Open => vec!["--interactive".into()],
        Stdin::Terminal { .. } => {
            // What is written is for the program: no letters may mean something to the engine. Docker takes nothing as
            // its usual keys, so it gets ones that nobody types.
            let keys = match kind {
                Kind::Podman => "",
                Kind::Docker => "ctrl-_,ctrl-^,ctrl-_,ctrl-^,ctrl-_",
            };
            let keys = format!("--detach-keys={keys}");
            vec!["--interactive".into(), "--tty".into(), keys.into()]
        }
    }
}

/// What is done inside before the program begins.
fn before(launch: &Launch) -> Vec<OsString> {
    let words = |script: &str| ["sh", "-c", script].map(OsString::from).into();
    match (launch.input, launch.streams) {
        // Docker tells a terminal its size when the program runs already, and on a busy machine so does podman.
        (Stdin::Terminal { rows, columns }, _) => {
            words(&format!(r#"stty rows {rows} cols {columns} 2>/dev/null; exec "$0" "$@""#))
        }
        // The engine carries the two outputs apart and would mix their order; joined inside they are one.
        (Stdin::Closed | Stdin::Open, Streams::Joined) => words(r#"exec "$0" "$@" 2>&1"#),
        _ => Vec::new(),
    }
}

impl Warm {
    /// The command line of a program inside.
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
