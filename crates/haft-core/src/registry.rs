//! The tools there are, by name, in the order they came. Some are made at first use; one that cannot be made costs
//! itself and a warning, never the registry.

use std::{sync::Arc, time::Duration};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use indexmap::IndexMap;
use tokio::sync::watch;

use crate::{
    BoxFuture, Policy, Tool, ToolError, ToolSpec, WorkspaceInfo,
    nearest::{fold, nearest},
    policy::{Profiles, pattern},
};

/// A tool's making must not hold up the list of all tools for longer than a person waits for a program to start.
const LONGEST_INIT: Duration = Duration::from_secs(30);

/// Why a tool was not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Another tool has the name. Nothing is ever shadowed.
    #[error("there is already a tool called `{0}`; unregister it first or choose another name")]
    Duplicate(String),
    /// The name cannot be shown to models.
    #[error("`{0}` is not a tool name: snake_case, a letter first, at most 64 characters")]
    BadName(String),
}

/// Who looks at the registry: what they are shown follows from policy and profile.
#[derive(Clone, Copy, Debug)]
pub struct AgentView<'a> {
    /// The rules.
    pub policy: &'a Policy,
    /// The chain of agents, outermost first; empty for a person.
    pub agents: &'a [String],
    /// The profile the surface was started with.
    pub profile: Option<&'a str>,
}

/// All tools by name. Cheap to clone; all clones are one registry.
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
    /// Held while the tool is being made, so that it is made once.
    made: tokio::sync::Mutex<Option<Made>>,
    /// What the last making ended in, for those who may not wait.
    failure: RwLock<Option<String>>,
}

type Made = Result<Arc<dyn Tool>, String>;

impl Registry {
    /// Adds a tool.
    ///
    /// # Errors
    /// When the name is taken or is no name.
    pub fn register(&self, tool: impl Tool + 'static) -> Result<(), RegistryError> {
        self.register_all([tool])
    }

    /// Adds several, all or none.
    ///
    /// # Errors
    /// When one of the names is taken or is no name.
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

    /// Adds a tool that is made when it is first looked at: its description or schema depends on something that must
    /// be asked for. Made once and kept until [`Registry::refresh`].
    ///
    /// # Errors
    /// When the name is taken or is no name.
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

    /// The tool of this name, made if need be.
    pub async fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let entry = self.read().get(name).cloned()?;
        match entry {
            Entry::Ready(tool) => Some(tool),
            Entry::Lazy(lazy) => self.make(name, &lazy).await,
        }
    }

    /// Whether there is such a tool. One that could not be made is not there.
    pub fn has(&self, name: &str) -> bool {
        self.read().get(name).is_some_and(Entry::is_there)
    }

    /// Takes a tool away; says whether it was there. Calls that run already go on.
    pub fn unregister(&self, name: &str) -> bool {
        let removed = self.write().shift_remove(name).is_some();
        if removed {
            self.changed();
        }
        removed
    }

    /// The names of all tools, in order, without making any.
    pub fn names(&self) -> Vec<String> {
        let known = self.read();
        known.iter().filter(|(_, entry)| entry.is_there()).map(|(name, _)| name.clone()).collect()
    }

    /// Puts the tools into the built-in profiles that they name. Tools that are made later are in `developer` only.
    pub fn add_to_profiles(&self, profiles: &mut Profiles) {
        for entry in self.read().values() {
            if let Entry::Ready(tool) = entry {
                profiles.add(tool.name(), tool.profiles());
            }
        }
    }

    /// All tools, in order; those that can be made are.
    pub async fn all(&self) -> Vec<Arc<dyn Tool>> {
        let entries: Vec<(String, Entry)> =
            self.read().iter().map(|(name, entry)| (name.clone(), entry.clone())).collect();
        // All start at once, so that the slowest decides, not the sum.
        let makings: Vec<_> = entries
            .into_iter()
            .map(|(name, entry)| match entry {
                Entry::Ready(tool) => Making::Done(tool),
                Entry::Lazy(lazy) => {
                    let registry = self.clone();
                    Making::Started(tokio::spawn(async move { registry.make(&name, &lazy).await }))
                }
            })
            .collect();
        let mut tools = Vec::with_capacity(makings.len());
        for making in makings {
            match making {
                Making::Done(tool) => tools.push(tool),
                Making::Started(task) => tools.extend(task.await.ok().flatten()),
            }
        }
        tools
    }

    /// What models and surfaces are told of all tools, variables filled in. A description that cannot be filled in
    /// takes its tool off the list and leaves a warning.
    pub async fn definitions(&self, workspace_info: &WorkspaceInfo) -> Definitions {
        define_all(self.all().await, self.warnings(), workspace_info)
    }

    /// The tools an agent is shown. Being shown is not being allowed: the gate asks policy again.
    pub async fn enabled(&self, view: &AgentView<'_>) -> Vec<Arc<dyn Tool>> {
        let mut tools = self.all().await;
        tools.retain(|tool| view.policy.is_visible(tool.name(), view.agents, view.profile));
        tools
    }

    /// What a model of this provider is told when this agent uses it.
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

    /// Forgets what was made, so that the next look makes it anew. For when what it depends on has changed.
    pub async fn refresh(&self, name: &str) {
        let entry = self.read().get(name).cloned();
        if let Some(Entry::Lazy(lazy)) = entry {
            *lazy.made.lock().await = None;
            *lazy.failure.write() = None;
            self.changed();
        }
    }

    /// The tool of this name if it need not be made first.
    pub fn ready(&self, name: &str) -> Option<Arc<dyn Tool>> {
        match self.read().get(name)? {
            Entry::Ready(tool) => Some(tool.clone()),
            Entry::Lazy(_) => None,
        }
    }

    /// Sees a new number whenever the list of tools changes.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// The tools that could not be made, and why.
    pub fn warnings(&self) -> Vec<String> {
        let known = self.read();
        let failures = known.iter().filter_map(|(name, entry)| match entry {
            Entry::Lazy(lazy) => {
                lazy.failure().map(|why| format!("tool `{name}` is left out: {why}"))
            }
            Entry::Ready(_) => None,
        });
        failures.collect()
    }

    /// The known name that differs from this one only in case and separators, if it is the only one.
    pub(crate) fn same_but_for_spelling(&self, name: &str) -> Option<String> {
        let wanted = fold(name);
        let mut same = self.names().into_iter().filter(|known| fold(known) == wanted);
        let first = same.next()?;
        same.next().is_none().then_some(first)
    }

    /// The names nearest to a misspelt one.
    pub(crate) fn nearest(&self, name: &str) -> Vec<String> {
        let names = self.names();
        nearest(name, names.iter().map(String::as_str)).into_iter().map(str::to_owned).collect()
    }

    async fn make(&self, name: &str, lazy: &Lazy) -> Option<Arc<dyn Tool>> {
        let mut made = lazy.made.lock().await;
        if made.is_none() {
            let result = make_guarded(name, lazy).await;
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

enum Making {
    Done(Arc<dyn Tool>),
    Started(tokio::task::JoinHandle<Option<Arc<dyn Tool>>>),
}

/// Specs with their descriptions filled in, and what had to be left out.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    /// In registry order.
    pub specs: Vec<ToolSpec>,
    /// One line for each tool that is missing.
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
                definitions.warnings.push(format!("tool `{}` is left out: {why}", spec.name));
            }
        }
    }
    definitions
}

/// Foreign code runs here: it may hang, panic, or give back another tool than it promised.
async fn make_guarded(name: &str, lazy: &Lazy) -> Made {
    let making = tokio::spawn((lazy.init)());
    let abort = making.abort_handle();
    let joined = tokio::time::timeout(LONGEST_INIT, making).await;
    let tool = match joined {
        Err(_elapsed) => {
            abort.abort();
            return Err(format!("it was not ready within {} s", LONGEST_INIT.as_secs()));
        }
        Ok(Err(_panicked)) => return Err("its initialisation panicked".to_owned()),
        Ok(Ok(Err(error))) => return Err(error.to_string()),
        Ok(Ok(Ok(tool))) => tool,
    };
    if tool.name() == name { Ok(tool) } else { Err(format!("it calls itself `{}`", tool.name())) }
}

impl Entry {
    fn is_there(&self) -> bool {
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
