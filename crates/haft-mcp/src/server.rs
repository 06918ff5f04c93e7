//! The server: a gate, and its description for clients.

use std::{path::PathBuf, sync::Arc};

use haft_core::{Gate, ToolError};

use crate::{
    offers::{Prompts, Resources},
    quirks::Quirks,
    request_state::StateSealer,
};

/// A server, shared by all its clients. Cheap to clone.
#[derive(Clone)]
pub struct Server(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) gate: Gate,
    /// Makes a gate for the directories that a client works in.
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
    pub(crate) seal: StateSealer,
    pub(crate) changes: tokio::sync::broadcast::Sender<String>,
    pub(crate) stop_processes: Option<StopProcesses>,
}

/// Ends every process that tools have started.
pub(crate) type StopProcesses = Box<dyn Fn() + Send + Sync>;

/// Makes a gate for the directories of a client.
pub(crate) type ByRoots = Arc<dyn Fn(&[PathBuf]) -> Result<Gate, ToolError> + Send + Sync>;

/// When results carry typed data in addition to their text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Structured {
    /// Except to clients that are known to show their model the data instead of the text.
    #[default]
    Auto,
    /// For every client.
    Always,
    /// Never.
    Never,
}

impl Structured {
    /// Returns true if such a client receives the data.
    pub(crate) fn suits(self, client: Quirks) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => !client.reads_data_only,
        }
    }
}

impl Server {
    /// Creates a server for the tools of this gate.
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
            seal: StateSealer::new(),
            changes: tokio::sync::broadcast::Sender::new(64),
            stop_processes: None,
        })
    }

    /// Notifies the clients that subscribed to this resource of a change.
    pub fn resource_changed(&self, uri: &str) {
        // An error means that nothing is subscribed.
        let _ = self.0.changes.send(uri.to_owned());
    }
}

/// Builds a server.
pub struct ServerBuilder(Shared);

impl ServerBuilder {
    /// Sets the server's name and version for clients.
    #[must_use]
    pub fn named(mut self, name: &str, version: &str) -> Self {
        self.0.name = name.to_owned();
        self.0.version = version.to_owned();
        self
    }

    /// Sets the server's title for users.
    #[must_use]
    pub fn title(mut self, title: &str) -> Self {
        self.0.title = Some(title.to_owned());
        self
    }

    /// Sets instructions for the model.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.0.instructions = Some(instructions.into());
        self
    }

    /// Sets the profile, which limits the tools that clients see and may call. Default: all tools.
    #[must_use]
    pub fn profile(mut self, profile: Option<String>) -> Self {
        self.0.profile = profile;
        self
    }

    /// Sets the agent whose rules apply to clients. Default: no agent rules.
    #[must_use]
    pub fn agent(mut self, agent: Option<String>) -> Self {
        self.0.agent = agent;
        self
    }

    /// Uses a separate gate for clients that send the directories they work in.
    #[must_use]
    pub fn by_roots(
        mut self,
        make: impl Fn(&[PathBuf]) -> Result<Gate, ToolError> + Send + Sync + 'static,
    ) -> Self {
        self.0.by_roots = Some(Arc::new(make));
        self
    }

    /// Sets a function that ends every process that tools have started. It is called when the client
    /// at a pipe has disconnected, and shortly after it has closed its output while it still reads.
    #[must_use]
    pub fn stop_processes(mut self, stop: impl Fn() + Send + Sync + 'static) -> Self {
        self.0.stop_processes = Some(Box::new(stop));
        self
    }

    /// Sets the resources.
    #[must_use]
    pub fn resources(mut self, resources: Arc<dyn Resources>) -> Self {
        self.0.resources = Some(resources);
        self
    }

    /// Offers the files of the gate's workspace as resources, read through the tools `read`, `list`
    /// and `glob`.
    #[must_use]
    pub fn workspace_files(self) -> Self {
        self.resources(Arc::new(crate::files::WorkspaceFiles))
    }

    /// Sets the prompts.
    #[must_use]
    pub fn prompts(mut self, prompts: Arc<dyn Prompts>) -> Self {
        self.0.prompts = Some(prompts);
        self
    }

    /// Offers a prompt that tells a model where it works and what it may do.
    #[must_use]
    pub fn orientation(self) -> Self {
        self.prompts(Arc::new(crate::orientation::Orientation))
    }

    /// Sets when results carry typed data.
    #[must_use]
    pub fn structured(mut self, structured: Structured) -> Self {
        self.0.structured = structured;
        self
    }

    /// Builds the server.
    pub fn build(self) -> Server {
        Server(Arc::new(self.0))
    }
}
