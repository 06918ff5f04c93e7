//! What is served: a gate, and what its clients are told about it.

use std::{path::PathBuf, sync::Arc};

use haft_core::{Gate, ToolError};

use crate::{
    offers::{Prompts, Resources},
    quirks::Quirks,
    rounds::Seal,
};

/// Everything that all clients of one server share. Cheap to clone.
#[derive(Clone)]
pub struct Server(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) gate: Gate,
    /// Makes a gate for the folders that a client says it works in.
    pub(crate) by_roots: Option<ByRoots>,
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) version: String,
    pub(crate) instructions: Option<String>,
    pub(crate) profile: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) resources: Option<Arc<dyn Resources>>,
    pub(crate) prompts: Option<Arc<dyn Prompts>>,
    pub(crate) structured: Structured,
    pub(crate) seal: Seal,
    pub(crate) changes: tokio::sync::broadcast::Sender<String>,
    pub(crate) stop_processes: Option<StopProcesses>,
}

/// Ends every process that tools have started.
pub(crate) type StopProcesses = Box<dyn Fn() + Send + Sync>;

/// Makes a gate for the folders of a client.
pub(crate) type ByRoots = Arc<dyn Fn(&[PathBuf]) -> Result<Gate, ToolError> + Send + Sync>;

/// Whether results carry typed data besides their text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Structured {
    /// Except to clients that are known to show their model the data instead of the text.
    #[default]
    Auto,
    /// To every client.
    Always,
    /// To none.
    Never,
}

impl Structured {
    /// Whether such a client gets it.
    pub(crate) fn suits(self, client: Quirks) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => !client.reads_data_only,
        }
    }
}

impl Server {
    /// A server for the tools behind this gate.
    pub fn builder(gate: Gate) -> ServerBuilder {
        ServerBuilder(Shared {
            gate,
            by_roots: None,
            name: "haft".to_owned(),
            title: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: None,
            profile: None,
            agent: None,
            resources: None,
            prompts: None,
            structured: Structured::default(),
            seal: Seal::new(),
            changes: tokio::sync::broadcast::Sender::new(64),
            stop_processes: None,
        })
    }

    /// Tells the clients that watch this resource that it has changed.
    pub fn resource_changed(&self, uri: &str) {
        // Without watchers nobody misses it.
        let _ = self.0.changes.send(uri.to_owned());
    }
}

/// A server in the making.
pub struct ServerBuilder(Shared);

impl ServerBuilder {
    /// What clients call it.
    #[must_use]
    pub fn named(mut self, name: &str, version: &str) -> Self {
        self.0.name = name.to_owned();
        self.0.version = version.to_owned();
        self
    }

    /// What people call it.
    #[must_use]
    pub fn title(mut self, title: &str) -> Self {
        self.0.title = Some(title.to_owned());
        self
    }

    /// What a model should know before it uses the tools.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.0.instructions = Some(instructions.into());
        self
    }

    /// The tools that clients see and may call. All of them without one.
    #[must_use]
    pub fn profile(mut self, profile: Option<String>) -> Self {
        self.0.profile = profile;
        self
    }

    /// Under whose rules clients call. Without one they are agents without rules of their own.
    #[must_use]
    pub fn agent(mut self, agent: Option<String>) -> Self {
        self.0.agent = agent;
        self
    }

    /// Clients that say where they work get a gate of their own for these folders.
    #[must_use]
    pub fn by_roots(
        mut self,
        make: impl Fn(&[PathBuf]) -> Result<Gate, ToolError> + Send + Sync + 'static,
    ) -> Self {
        self.0.by_roots = Some(Arc::new(make));
        self
    }

    /// Ends every process that tools have started. Called when the client at a pipe is gone, after its calls were cancelled.
    #[must_use]
    pub fn stop_processes(mut self, stop: impl Fn() + Send + Sync + 'static) -> Self {
        self.0.stop_processes = Some(Box::new(stop));
        self
    }

    /// What clients may look at.
    #[must_use]
    pub fn resources(mut self, resources: Arc<dyn Resources>) -> Self {
        self.0.resources = Some(resources);
        self
    }

    /// The files of the gate's workspace as resources, read through its `read`, `list` and `glob`.
    #[must_use]
    pub fn workspace_files(self) -> Self {
        self.resources(Arc::new(crate::files::WorkspaceFiles))
    }

    /// What a person can begin with.
    #[must_use]
    pub fn prompts(mut self, prompts: Arc<dyn Prompts>) -> Self {
        self.0.prompts = Some(prompts);
        self
    }

    /// A prompt that tells a model where it is and what it may do.
    #[must_use]
    pub fn orientation(self) -> Self {
        self.prompts(Arc::new(crate::orientation::Orientation))
    }

    /// Whether results carry typed data.
    #[must_use]
    pub fn structured(mut self, structured: Structured) -> Self {
        self.0.structured = structured;
        self
    }

    /// The server.
    pub fn build(self) -> Server {
        Server(Arc::new(self.0))
    }
}
