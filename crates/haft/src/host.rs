//! Wires settings, stores, sandbox, network, redaction and policy into a gate: for the command
//! line, MCP, the server and programs that embed haft.
//!
//! ```no_run
//! use haft::{CallRequest, host::{Choices, Host}};
//! use serde_json::json;
//!
//! # async fn example() -> Result<(), haft::ToolError> {
//! let host = Host::open(&Choices::default())?;
//! let gate = host.gate().build();
//! let request = CallRequest::new("read", json!({"path": "Cargo.toml"}), host.context("my-session"));
//! let outcome = gate.call(request).await;
//! assert!(outcome.is_ok(), "{}", outcome.content);
//! haft::host::flush()
//! # }
//! ```

pub mod config;
pub mod environment;
mod secret_hosts;
mod storage;

use std::{ffi::OsString, path::PathBuf, sync::Arc};

use haft_core::{
    CommandReader, Context, Gate, GateBuilder, Mode, Redactor, Registry, SecretHosts, ToolError,
    Vault, commands::Executor, files::Disk, network::NetworkClient, policy::Action,
};
use haft_exec::{Network, ProcessSettings, Programs, Workspace};
use haft_store::{Recording, StoreVault};

pub use self::storage::{Shutdown, feed, flush, inbox, leases, state_folder, store_location};
use self::{config::Settings, environment::Environment, secret_hosts::BoundSecrets};

/// Choices of the user or the embedding program that override the config files.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// Folder to work in. Default: the nearest parent folder with `.haft` or `.git`.
    pub workspace: Option<PathBuf>,
    /// Config file to read instead of the user's own config.toml.
    pub config: Option<PathBuf>,
    /// Name of the profile, which is the set of tools.
    pub profile: Option<String>,
    /// Name of the agent whose rules apply.
    pub agent: Option<String>,
    /// Approval mode: which calls may run without approval.
    pub approve: Option<Mode>,
    /// Sandbox backend for commands.
    pub sandbox: Option<ProcessSettings>,
    /// Store for recorded calls and saved rules: a file or a database URL.
    pub store: Option<String>,
    /// Lets a call wait for an approver in another process when none is available here.
    pub wait: bool,
}

/// Everything that the gates of one workspace share.
pub struct Host {
    environment: Environment,
    settings: Settings,
    registry: Registry,
    workspace: Arc<Workspace>,
    shutdown: Shutdown,
    is_attended: fn() -> bool,
    warnings: Vec<String>,
}

impl Host {
    /// Opens a host with haft's own tools, from this process's environment and the config files.
    ///
    /// # Errors
    /// When a file has a mistake, or when the workspace cannot be opened.
    pub fn open(choices: &Choices) -> Result<Self, ToolError> {
        let environment = Environment::read();
        let settings = Settings::load(choices, &environment)?;
        Self::new(environment, settings, catalogue()?)
    }

    /// Opens a host with the given tools from an environment and settings that are already loaded.
    ///
    /// # Errors
    /// When the workspace cannot be opened. An additional root that is missing is only a warning,
    /// so that the others stay usable.
    pub fn new(
        environment: Environment,
        mut settings: Settings,
        registry: Registry,
    ) -> Result<Self, ToolError> {
        let mut warnings = Vec::new();
        let workspace = open_workspace(&mut settings, &mut warnings)?;
        let (shutdown, is_attended) = (Shutdown::default(), || false);
        Ok(Self { environment, settings, registry, workspace, shutdown, is_attended, warnings })
    }

    /// Sets how this process ends. By default the caller calls [`flush`] and handles signals
    /// itself.
    #[must_use]
    pub fn with_shutdown(mut self, shutdown: Shutdown) -> Self {
        self.shutdown = shutdown;
        self
    }

    /// Sets the check for a user at a terminal. It runs before an approval request is stored for
    /// that user.
    #[must_use]
    pub fn attended(mut self, is_attended: fn() -> bool) -> Self {
        self.is_attended = is_attended;
        self
    }

    /// Returns the configured roots that cannot be opened, each with the reason.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the settings from the config files.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the folders that file tools work in.
    pub fn workspace(&self) -> &Arc<Workspace> {
        &self.workspace
    }

    /// Starts a gate with all stores, capabilities and policy of this host.
    pub fn gate(&self) -> GateBuilder {
        let Self { environment, settings, workspace, .. } = self;
        let vault = self.vault();
        let gate = Gate::builder(self.registry.clone());
        let gate = storage::attach(gate, environment, settings, self.shutdown, self.is_attended)
            .workspace_info(settings.workspace_info())
            .paths(workspace.clone())
            .service::<dyn Disk>(workspace.clone())
            .service(self.programs(vault.clone()))
            .service(self.network(vault.clone()))
            .service(self.secret_hosts())
            .policy(settings.policy.clone())
            .command_reader(self.command_reader())
            .limits(settings.limits.clone())
            .redactor(self.redactor(vault));
        if settings.outputs.points_at_repeats && self.shutdown != Shutdown::AfterOneCall {
            return gate.omit_repeats();
        }
        gate
    }

    /// Starts a gate that runs nothing: a recording answers every call.
    pub fn replaying(&self, recording: Recording) -> GateBuilder {
        Gate::builder(self.registry.clone())
            .workspace_info(self.settings.workspace_info())
            .redactor(self.redactor(self.vault()))
            .limits(self.settings.limits.clone())
            .replay_from(Arc::new(recording))
    }

    /// Returns the context of a caller in this session, with the profile of the settings.
    pub fn context(&self, session: &str) -> Context {
        let mut context = Context::new(session);
        context.profile.clone_from(&self.settings.profile);
        context
    }

    fn vault(&self) -> Option<Arc<dyn Vault>> {
        vault(&self.environment).map(|vault| vault as _)
    }

    /// Returns the function that lists the accesses of a command line for the policy.
    fn command_reader(&self) -> CommandReader {
        let home = self.environment.home.clone();
        Arc::new(move |text| haft_shell::accesses(text, home.as_deref()))
    }

    /// Returns the executor of commands, without the secrets of the vault.
    pub fn executor(&self) -> Arc<dyn Executor> {
        self.programs(None)
    }

    /// Returns the executor of commands.
    fn programs(&self, vault: Option<Arc<dyn Vault>>) -> Arc<dyn Executor> {
        let Self { environment, settings, workspace, .. } = self;
        let sandbox = settings.sandbox.clone();
        let temporary = &environment.temporary;
        let programs = Programs::new(sandbox, workspace.clone(), environment::all, temporary)
            .limited(settings.allowance)
            .with_secrets(settings.network.credentials.clone(), vault)
            .showing(settings.shown.clone())
            .closing(self.closed_globs())
            .hiding(state_folder(environment).into_iter().collect());
        Arc::new(programs)
    }

    /// Returns the absolute path globs that commands may not access: those of secrets and of rules
    /// that ask or deny.
    fn closed_globs(&self) -> Vec<PathBuf> {
        let policy = &self.settings.policy;
        let of_agents =
            policy.layers().iter().flat_map(|layer| &layer.agents).flat_map(|it| &it.rules);
        let rules = policy.layers().iter().flat_map(|layer| &layer.rules).chain(of_agents);
        let closing = rules.filter(|rule| rule.action != Action::Allow);
        let of_rules = closing.filter_map(|rule| {
            let (name, argument) = rule.text.split_once('(')?;
            (!["bash", "secret"].contains(&name)).then(|| argument.trim_end_matches(')').trim())
        });
        let secrets = policy.secret_paths.hidden().map(|secret| secret.glob.as_str());
        let home = self.environment.home.as_deref();
        let absolute = |glob: &str| match glob.strip_prefix("~/") {
            Some(rest) => home.map(|home| home.join(rest)),
            None => glob.starts_with('/').then(|| PathBuf::from(glob)),
        };
        of_rules.chain(secrets).filter_map(absolute).collect()
    }

    /// Returns the lookup of secrets that are bound to certain hosts.
    fn secret_hosts(&self) -> Arc<dyn SecretHosts> {
        Arc::new(BoundSecrets {
            credentials: self.settings.network.credentials.clone(),
            vault: vault(&self.environment),
            variables: environment::all,
        })
    }

    /// Returns the network client.
    fn network(&self, vault: Option<Arc<dyn Vault>>) -> Arc<dyn NetworkClient> {
        let mut settings = self.settings.network.clone();
        settings.variables = environment::all;
        settings.vault = vault;
        Arc::new(Network::new(settings))
    }

    /// Returns the redactor. It knows the variables whose names mark them as secrets, the
    /// credentials of the config files, and the secrets in the vault.
    fn redactor(&self, vault: Option<Arc<dyn Vault>>) -> Redactor {
        let credentials = &self.settings.network.credentials;
        let named = |(name, value): (OsString, OsString)| {
            let known = credentials.iter().find(|known| *name == *known.variable)?;
            Some((known.name.clone(), value.into_string().ok()?))
        };
        let all = if credentials.is_empty() { Vec::new() } else { environment::all() };
        let named = all.into_iter().filter_map(named);
        let redactor = Redactor::new(self.environment.secrets.iter().cloned().chain(named));
        match vault {
            Some(vault) => redactor.with_vault(vault),
            None => redactor,
        }
    }
}

/// Returns haft's own tools.
///
/// # Errors
/// When two of them have the same name.
pub fn catalogue() -> Result<Registry, ToolError> {
    let registry = Registry::default();
    registry
        .register_all(haft_tools::all())
        .map_err(|error| ToolError::internal(error.to_string()))?;
    Ok(registry)
}

/// Returns the user's vault of secrets, or `None` without a home directory.
pub fn vault(environment: &Environment) -> Option<Arc<StoreVault>> {
    Some(StoreVault::new(&state_folder(environment)?, environment::all))
}

fn open_workspace(
    settings: &mut Settings,
    warnings: &mut Vec<String>,
) -> Result<Arc<Workspace>, ToolError> {
    let mut workspace = Workspace::open(&settings.workspace).map_err(|error| {
        let folder = settings.workspace.display();
        ToolError::unavailable(format!("cannot open the workspace {folder}: {error}"))
            .hint("fix its permissions, or choose another with --workspace")
    })?;
    workspace.set_current_directory(&settings.directory);
    for (name, path) in &settings.roots {
        match workspace.add_root(name, path) {
            Ok(real) => settings.policy.roots.named.push((name.clone(), real)),
            Err(error) => {
                warnings.push(format!("the root `@{name}` ({}): {error}", path.display()));
            }
        }
    }
    Ok(Arc::new(workspace))
}
