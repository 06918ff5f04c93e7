//! The registry: all tools by name, in order of registration. Some are created at first use. A tool
//! that cannot be created is missing with a warning; the others still work.

use std::{sync::Arc, time::Duration};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use indexmap::IndexMap;
use tokio::sync::watch;

use crate::{
    BoxFuture, Policy, Tool, ToolError, ToolSpec, WorkspaceInfo,
    nearest::{fold, nearest},
    policy::{Profiles, pattern},
};

/// Creating a tool must not delay the list of all tools for longer than a person waits for a
/// program to start.
const INIT_TIMEOUT: Duration = Duration::from_secs(30);

/// The reason why a tool was not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Another tool has the name. A tool never shadows another.
    #[error("there is already a tool called `{0}`; unregister it first or choose another name")]
    Duplicate(String),
    /// The name is not valid for models.
    #[error("`{0}` is not a tool name: snake_case, a letter first, at most 64 characters")]
    BadName(String),
}

/// The viewer of the registry: policy and profile decide which tools are visible.
#[derive(Clone, Copy, Debug)]
pub struct AgentView<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// The chain of agents, outermost first; empty for a person.
    pub agents: &'a [String],
    /// The profile the surface was started with.
    pub profile: Option<&'a str>,
}

/// All tools by name. Cheap to clone; all clones share one registry.
#[derive(Clone, Default)]
pub struct Registry(Arc<Inner>);

#[derive(Default)]
struct Inner {
    tools: RwLock<IndexMap<String, Entry>>,
    changes: watch::Sender<u64>,
}

#[derive(Clone)]
enum Entry {
    Ready(Arc<dyn Tool>),
    Lazy(Arc<Lazy>),
}

type Init = dyn Fn() -> BoxFuture<'static, Result<Arc<dyn Tool>, ToolError>> + Send + Sync;

struct Lazy {
    init: Box<Init>,
    /// Held while the tool is being created, so that it is created once.
    made: tokio::sync::Mutex<Option<CreationResult>>,
    /// The latest result, for callers that may not wait.
    failure: RwLock<Option<String>>,
}

type CreationResult = Result<Arc<dyn Tool>, String>;

impl Registry {
    /// Registers a tool.
    ///
    /// # Errors
    /// If the name is taken or invalid.
    pub fn register(&self, tool: impl Tool + 'static) -> Result<(), RegistryError> {
        self.register_all([tool])
    }

    /// Registers several tools, all or none.
    ///
    /// # Errors
    /// If one of the names is taken or invalid.
    pub fn register_all<T: Tool + 'static>(
        &self,
        tools: impl IntoIterator<Item = T>,
    ) -> Result<(), RegistryError> {
        let mut added: IndexMap<String, Entry> = IndexMap::new();
        let mut known = self.write();
        for tool in tools {
            let name = tool.name().to_owned();
            check_name(&name)?;
            if known.contains_key(&name) || added.contains_key(&name) {
                return Err(RegistryError::Duplicate(name));
            }
            added.insert(name, Entry::Ready(Arc::new(tool)));
        }
        known.extend(added);
        drop(known);
        self.changed();
        Ok(())
    }

    /// Registers a tool that is created at first use, because its description or schema must be
    /// requested from elsewhere. It is kept until [`Registry::refresh`].
    ///
    /// # Errors
    /// If the name is taken or invalid.
    pub fn define<F, Fut>(&self, name: &str, init: F) -> Result<(), RegistryError>
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Arc<dyn Tool>, ToolError>> + Send + 'static,
    {
        check_name(name)?;
        let mut known = self.write();
        if known.contains_key(name) {
            return Err(RegistryError::Duplicate(name.to_owned()));
        }
        let lazy = Lazy {
            init: Box::new(move || Box::pin(init())),
            made: tokio::sync::Mutex::new(None),
            failure: RwLock::default(),
        };
        known.insert(name.to_owned(), Entry::Lazy(Arc::new(lazy)));
        drop(known);
        self.changed();
        Ok(())
    }

    /// Returns the tool of this name, and creates it if necessary.
    pub async fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let entry = self.read().get(name).cloned()?;
        match entry {
            Entry::Ready(tool) => Some(tool),
            Entry::Lazy(lazy) => self.create(name, &lazy).await,
        }
    }

    /// Returns true if there is such a tool. A tool that could not be created does not count.
    pub fn has(&self, name: &str) -> bool {
        self.read().get(name).is_some_and(Entry::is_available)
    }

    /// Unregisters a tool and returns whether it existed. Running calls continue.
    pub fn unregister(&self, name: &str) -> bool {
        let removed = self.write().shift_remove(name).is_some();
        if removed {
            self.changed();
        }
        removed
    }

    /// The names of all tools, in order, without creating any.
    pub fn names(&self) -> Vec<String> {
        let known = self.read();
        known
            .iter()
            .filter(|(_, entry)| entry.is_available())
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Adds the tools to the built-in profiles that they name. Tools that are created later are in
    /// `developer` only.
    pub fn add_to_profiles(&self, profiles: &mut Profiles) {
        for entry in self.read().values() {
            if let Entry::Ready(tool) = entry {
                profiles.add(tool.name(), tool.profiles());
            }
        }
    }

    /// Returns all tools, in order, and creates those that can be created.
    pub async fn all(&self) -> Vec<Arc<dyn Tool>> {
        let entries: Vec<(String, Entry)> =
            self.read().iter().map(|(name, entry)| (name.clone(), entry.clone())).collect();
        // All start at once, so that the slowest one decides, not the sum.
        let creations: Vec<_> = entries
            .into_iter()
            .map(|(name, entry)| match entry {
                Entry::Ready(tool) => Creation::Done(tool),
                Entry::Lazy(lazy) => {
                    let registry = self.clone();
                    Creation::Started(tokio::spawn(
                        async move { registry.create(&name, &lazy).await },
                    ))
                }
            })
            .collect();
        let mut tools = Vec::with_capacity(creations.len());
        for creating in creations {
            match creating {
                Creation::Done(tool) => tools.push(tool),
                Creation::Started(task) => tools.extend(task.await.ok().flatten()),
            }
        }
        tools
    }

    /// The definitions of all tools, with variables filled in. A tool whose description cannot be
    /// filled in is omitted with a warning.
    pub async fn definitions(&self, workspace_info: &WorkspaceInfo) -> Definitions {
        define_all(self.all().await, self.warnings(), workspace_info)
    }

    /// The tools that are visible to an agent. Being visible is not being allowed: the gate asks
    /// policy again.
    pub async fn enabled(&self, view: &AgentView<'_>) -> Vec<Arc<dyn Tool>> {
        let mut tools = self.all().await;
        tools.retain(|tool| view.policy.is_visible(tool.name(), view.agents, view.profile));
        tools
    }

    /// The definitions for a model of this provider, used by this agent.
    pub async fn tools(
        &self,
        provider: &str,
        view: &AgentView<'_>,
        workspace_info: &WorkspaceInfo,
    ) -> Definitions {
        let mut tools = self.enabled(view).await;
        tools.retain(|tool| {
            let globs = &tool.spec().providers;
            globs.is_empty() || globs.iter().any(|glob| pattern::wildcard(glob, provider))
        });
        define_all(tools, self.warnings(), workspace_info)
    }

    /// Drops a created tool, so that the next use creates it again. For when its sources have
    /// changed.
    pub async fn refresh(&self, name: &str) {
        let entry = self.read().get(name).cloned();
        if let Some(Entry::Lazy(lazy)) = entry {
            *lazy.made.lock().await = None;
            *lazy.failure.write() = None;
            self.changed();
        }
    }

    /// Returns the tool of this name if it need not be created first.
    pub fn ready(&self, name: &str) -> Option<Arc<dyn Tool>> {
        match self.read().get(name)? {
            Entry::Ready(tool) => Some(tool.clone()),
            Entry::Lazy(_) => None,
        }
    }

    /// Subscribes to a number that changes whenever the list of tools does.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// The tools that could not be created, with the reason.
    pub fn warnings(&self) -> Vec<String> {
        let known = self.read();
        let failures = known.iter().filter_map(|(name, entry)| match entry {
            Entry::Lazy(lazy) => {
                lazy.failure().map(|why| format!("tool `{name}` is omitted: {why}"))
            }
            Entry::Ready(_) => None,
        });
        failures.collect()
    }

    /// The known name that differs only in case and separators, if there is exactly one.
    pub(crate) fn same_but_for_spelling(&self, name: &str) -> Option<String> {
        let wanted = fold(name);
        let mut same = self.names().into_iter().filter(|known| fold(known) == wanted);
        let first = same.next()?;
        same.next().is_none().then_some(first)
    }

    /// The names closest to a misspelled one.
    pub(crate) fn nearest(&self, name: &str) -> Vec<String> {
        let names = self.names();
        nearest(name, names.iter().map(String::as_str)).into_iter().map(str::to_owned).collect()
    }

    async fn create(&self, name: &str, lazy: &Lazy) -> Option<Arc<dyn Tool>> {
        let mut made = lazy.made.lock().await;
        if made.is_none() {
            let result = create_guarded(name, lazy).await;
            let failure = result.as_ref().err().cloned();
            let has_failed = failure.is_some();
            *lazy.failure.write() = failure;
            *made = Some(result);
            if has_failed {
                self.changed();
            }
        }
        made.as_ref().and_then(|made| made.as_ref().ok().cloned())
    }

    fn changed(&self) {
        self.0.changes.send_modify(|number| *number += 1);
    }

    fn read(&self) -> RwLockReadGuard<'_, IndexMap<String, Entry>> {
        self.0.tools.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, IndexMap<String, Entry>> {
        self.0.tools.write()
    }
}

enum Creation {
    Done(Arc<dyn Tool>),
    Started(tokio::task::JoinHandle<Option<Arc<dyn Tool>>>),
}

/// Specs with their descriptions filled in, and warnings about omitted tools.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    /// In the order of the registry.
    pub specs: Vec<ToolSpec>,
    /// One line for each omitted tool.
    pub warnings: Vec<String>,
}

fn define_all(
    tools: Vec<Arc<dyn Tool>>,
    warnings: Vec<String>,
    workspace_info: &WorkspaceInfo,
) -> Definitions {
    let mut definitions = Definitions { specs: Vec::with_capacity(tools.len()), warnings };
    for tool in tools {
        let spec = tool.spec();
        match workspace_info.describe(spec) {
            Ok(description) => {
                definitions.specs.push(ToolSpec { description, ..spec.clone() });
            }
            Err(why) => {
                definitions.warnings.push(format!("tool `{}` is omitted: {why}", spec.name));
            }
        }
    }
    definitions
}

/// Creates a tool with code from outside haft, which may hang, panic, or return another tool than
/// it promised.
async fn create_guarded(name: &str, lazy: &Lazy) -> CreationResult {
    let creating = tokio::spawn((lazy.init)());
    let abort = creating.abort_handle();
    let joined = tokio::time::timeout(INIT_TIMEOUT, creating).await;
    let tool = match joined {
        Err(_elapsed) => {
            abort.abort();
            return Err(format!("it was not ready within {} s", INIT_TIMEOUT.as_secs()));
        }
        Ok(Err(_panicked)) => return Err("its initialisation panicked".to_owned()),
        Ok(Ok(Err(error))) => return Err(error.to_string()),
        Ok(Ok(Ok(tool))) => tool,
    };
    if tool.name() == name { Ok(tool) } else { Err(format!("its name is `{}`", tool.name())) }
}

impl Entry {
    fn is_available(&self) -> bool {
        match self {
            Self::Ready(_) => true,
            Self::Lazy(lazy) => lazy.failure().is_none(),
        }
    }
}

impl Lazy {
    fn failure(&self) -> Option<String> {
        self.failure.read().clone()
    }
}

fn check_name(name: &str) -> Result<(), RegistryError> {
    let mut letters = name.bytes();
    let begins_well = letters.next().is_some_and(|first| first.is_ascii_lowercase());
    let goes_on_well = letters.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if begins_well && goes_on_well && name.len() <= 64 {
        Ok(())
    } else {
        Err(RegistryError::BadName(name.to_owned()))
    }
}

#[cfg(test)]
mod tests;
