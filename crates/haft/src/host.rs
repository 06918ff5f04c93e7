//! Settings, stores, sandbox, network, redaction and policy, wired into a gate once for every surface: the command line, MCP,
//! the server and programs that embed haft.
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

mod bindings;
pub mod config;
pub mod environment;
mod keeping;

use std::{ffi::OsString, path::PathBuf, sync::Arc};

use haft_core::{
    CommandReader, Context, Gate, GateBuilder, Mode, Redactor, Registry, SecretHosts, ToolError,
    Vault, commands::Executor, files::Disk, network::NetworkClient, policy::Action,
};
use haft_exec::{Network, ProcessSettings, Programs, Workspace};
use haft_store::{Recording, StoreVault};

pub use self::keeping::{Ending, feed, flush, inbox, leases, place, state};
use self::{bindings::Bindings, config::Settings, environment::Environment};

/// What a person or a program chooses over what the files say.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// The folder to work in; else the nearest one with `.haft` or `.git`.
    pub workspace: Option<PathBuf>,
    /// Read instead of the user's own config.toml.
    pub config: Option<PathBuf>,
    /// The set of tools.
    pub profile: Option<String>,
    /// The agent whose rules hold.
    pub agent: Option<String>,
    /// What may run without approval.
    pub approve: Option<Mode>,
    /// The sandbox backend for commands.
    pub sandbox: Option<ProcessSettings>,
    /// Where calls and saved rules are kept.
    pub store: Option<String>,
    /// Whether a call waits for an approver elsewhere when none is available here.
    pub wait: bool,
}

/// What gates of one workspace are made from.
pub struct Host {
    environment: Environment,
    settings: Settings,
    registry: Registry,
    workspace: Arc<Workspace>,
    ending: Ending,
    is_attended: fn() -> bool,
    warnings: Vec<String>,
}

impl Host {
    /// Reads the environment of this process and the config files, for the tools that haft comes with.
    ///
    /// # Errors
    /// When a file has a mistake, or when the workspace cannot be opened.
    pub fn open(choices: &Choices) -> Result<Self, ToolError> {
        let environment = Environment::read();
        let settings = Settings::load(choices, &environment)?;
        Self::new(environment, settings, catalogue()?)
    }

    /// The same from what was read already, with any tools.
    ///
    /// # Errors
    /// When the workspace cannot be opened. A further root that is gone is a warning: it must not stop the rest.
    pub fn new(
        environment: Environment,
        mut settings: Settings,
        registry: Registry,
    ) -> Result<Self, ToolError> {
        let mut warnings = Vec::new();
        let workspace = open_workspace(&mut settings, &mut warnings)?;
        let (ending, is_attended) = (Ending::default(), || false);
        Ok(Self { environment, settings, registry, workspace, ending, is_attended, warnings })
    }

    /// How this process ends; else it calls [`flush`] and handles signals itself.
    #[must_use]
    pub fn ending(mut self, ending: Ending) -> Self {
        self.ending = ending;
        self
    }

    /// Asks this before an approval request is kept for a person at a terminal.
    #[must_use]
    pub fn attended(mut self, is_attended: fn() -> bool) -> Self {
        self.is_attended = is_attended;
        self
    }

    /// Roots that cannot be worked in, each with the reason.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What the files say.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The folders that file tools work in.
    pub fn workspace(&self) -> &Arc<Workspace> {
        &self.workspace
    }

    /// A gate with everything that is here.
    pub fn gate(&self) -> GateBuilder {
        let Self { environment, settings, workspace, .. } = self;
        let vault = self.vault();
        let gate = Gate::builder(self.registry.clone());
        let gate = keeping::keep(gate, environment, settings, self.ending, self.is_attended)
            .workspace_info(settings.workspace_info())
            .paths(workspace.clone())
            .service::<dyn Disk>(workspace.clone())
            .service(self.programs(vault.clone()))
            .service(self.network(vault.clone()))
            .service(self.bindings())
            .policy(settings.policy.clone())
            .command_reader(self.reader())
            .limits(settings.limits.clone())
            .redactor(self.redactor(vault));
        if settings.outputs.points_at_repeats && self.ending != Ending::WithTheCall {
            return gate.omit_repeats();
        }
        gate
    }

    /// A gate that runs nothing: a recording answers every call.
    pub fn replaying(&self, recording: Recording) -> GateBuilder {
        Gate::builder(self.registry.clone())
            .workspace_info(self.settings.workspace_info())
            .redactor(self.redactor(self.vault()))
            .limits(self.settings.limits.clone())
            .replay_from(Arc::new(recording))
    }

    /// Who calls: a session of this name, with the profile and the agent of the settings.
    pub fn context(&self, session: &str) -> Context {
        let mut context = Context::new(session);
        context.profile.clone_from(&self.settings.profile);
        context
    }

    fn vault(&self) -> Option<Arc<dyn Vault>> {
        vault(&self.environment).map(|vault| vault as _)
    }

    /// What policy judges in a command line.
    fn reader(&self) -> CommandReader {
        let home = self.environment.home.clone();
        Arc::new(move |text| haft_shell::accesses(text, home.as_deref()))
    }

    /// What runs commands, without secrets of the vault.
    pub fn executor(&self) -> Arc<dyn Executor> {
        self.programs(None)
    }

    /// What runs commands.
    fn programs(&self, vault: Option<Arc<dyn Vault>>) -> Arc<dyn Executor> {
        let Self { environment, settings, workspace, .. } = self;
        let around = settings.sandbox.clone();
        let temporary = &environment.temporary;
        let programs = Programs::new(around, workspace.clone(), environment::all, temporary)
            .limited(settings.allowance)
            .with_secrets(settings.network.credentials.clone(), vault)
            .showing(settings.shown.clone())
            .closing(self.closing())
            .hiding(state(environment).into_iter().collect());
        Arc::new(programs)
    }

    /// The absolute path globs that close something to commands: of rules that ask or deny, and of secrets.
    fn closing(&self) -> Vec<PathBuf> {
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

    /// What knows which secrets are for certain hosts only.
    fn bindings(&self) -> Arc<dyn SecretHosts> {
        Arc::new(Bindings {
            credentials: self.settings.network.credentials.clone(),
            vault: vault(&self.environment),
            variables: environment::all,
        })
    }

    /// What talks to other machines.
    fn network(&self, vault: Option<Arc<dyn Vault>>) -> Arc<dyn NetworkClient> {
        let mut settings = self.settings.network.clone();
        settings.variables = environment::all;
        settings.vault = vault;
        Arc::new(Network::new(settings))
    }

    /// What knows the secrets that must not be shown: those whose variables' names tell of them, those that a person has
    /// named, and those that are kept.
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

/// The tools that haft comes with.
///
/// # Errors
/// When two of them have one name.
pub fn catalogue() -> Result<Registry, ToolError> {
    let registry = Registry::default();
    registry
        .register_all(haft_tools::all())
        .map_err(|error| ToolError::internal(error.to_string()))?;
    Ok(registry)
}

/// The secrets of the person. None without a home.
pub fn vault(environment: &Environment) -> Option<Arc<StoreVault>> {
    Some(StoreVault::new(&state(environment)?, environment::all))
}

fn open_workspace(
    settings: &mut Settings,
    warnings: &mut Vec<String>,
) -> Result<Arc<Workspace>, ToolError> {
    let mut workspace = Workspace::open(&settings.workspace).map_err(|error| {
        let folder = settings.workspace.display();
        ToolError::unavailable(format!("the workspace {folder} cannot be opened: {error}"))
            .hint("mend its permissions, or name another one with --workspace")
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
