//! Finds and reads the config files and merges them into settings and one policy. An admin's file
//! takes precedence over the user's. A project's file comes with the code, so it may only narrow.

mod check;
mod container;
mod file;
mod journal;
pub mod keys;
mod network;
mod outputs;
mod sandbox;
mod store;
mod workspace;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_core::{
    Limits, Policy, ToolError, WorkspaceInfo,
    policy::{Layer, LayerKind, SandboxCheck},
};
use haft_exec::{Allowance, ContainerSettings, NetworkSettings, ProcessSettings, ShownFolders};
use haft_store::JournalRetention;

use self::file::{ConfigFile, ConfigLocation};
pub use self::{
    check::CheckedConfig,
    outputs::OutputSettings,
    sandbox::{BACKENDS, backend_named},
    store::{StoreSettings, default_store},
};
use super::{Choices, environment::Environment, storage};

/// The config file of the machine's admin. `$HAFT_ADMIN_CONFIG` names an additional one.
const ADMIN_FILE: &str = "/etc/haft/admin.toml";
const USER_FILE: &str = "haft/config.toml";
const PROJECT_FILE: &str = ".haft/config.toml";
/// Far more than a handwritten file has. The limit keeps a generated file from filling the memory.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The limits of calls and of commands.
#[derive(Clone, Debug, Default)]
struct AllLimits {
    calls: Limits,
    commands: Allowance,
}

/// The merged settings that calls run with.
pub struct Settings {
    /// The workspace folder.
    pub workspace: PathBuf,
    /// The user's working directory.
    pub directory: PathBuf,
    /// Additional folders that file tools may work in, by name.
    pub roots: Vec<(String, PathBuf)>,
    /// The rules of all layers.
    pub policy: Policy,
    /// Limits of calls.
    pub limits: Limits,
    /// Limits of commands.
    pub allowance: Allowance,
    /// Sandbox backend for commands.
    pub sandbox: ProcessSettings,
    /// Folders outside the workspace that sandboxed commands can access.
    pub shown: ShownFolders,
    /// Settings of the container backend. Present even when another backend is configured.
    pub container: Arc<ContainerSettings>,
    /// Network settings.
    pub network: NetworkSettings,
    /// Where and how long calls are recorded.
    pub store: StoreSettings,
    /// How long and how much is kept for undo. `None` when the journal is off.
    pub journal: Option<JournalRetention>,
    /// How long results are kept.
    pub outputs: OutputSettings,
    /// The active profile.
    pub profile: Option<String>,
    /// True when any config file has rules, so that a check for unused rules makes sense.
    pub has_rules: bool,
}

impl Settings {
    /// Reads and merges all config files.
    ///
    /// # Errors
    /// Of kind `input`, with file, line and column of an invalid entry. No call runs with an
    /// incomplete policy.
    pub fn load(choices: &Choices, environment: &Environment) -> Result<Self, ToolError> {
        let directory = environment.directory.clone().ok_or_else(|| {
            ToolError::input("the working directory no longer exists")
                .hint("change to an existing directory")
        })?;
        let workspace = workspace::find(choices.workspace.as_deref(), &directory)?;
        let files = ConfigFiles::read(choices, environment, &workspace)?;
        let store = store::merged(choices, &files.admin, &files.user, (&workspace, &directory))?;
        let mut settings = files.settings(workspace, directory, store)?;
        settings.profile = chosen_profile(choices, &files)?;
        if let Some(profile) = &settings.profile {
            settings.policy.profiles.get(profile)?;
        }
        // Set this before the policy or the executor checks whether a sandbox works.
        if let Some(folder) = storage::state_folder(environment) {
            haft_exec::remember_probes_in(&folder);
        }
        Ok(settings)
    }

    /// Returns the values that tool descriptions mention.
    pub fn workspace_info(&self) -> WorkspaceInfo {
        WorkspaceInfo {
            workspace: self.workspace.clone(),
            directory: self.directory.clone(),
            today: || jiff::Zoned::now().date().to_string(),
        }
    }
}

struct ConfigFiles {
    /// An admin file can only narrow, so it is safe that an environment variable may add one.
    admin: Vec<ConfigFile>,
    user: ConfigFile,
    project: Option<ConfigFile>,
    /// Options from the command line.
    session: Layer,
    /// Sandbox backend from the command line.
    sandbox: Option<ProcessSettings>,
}

impl ConfigFiles {
    fn read(
        choices: &Choices,
        environment: &Environment,
        workspace: &Path,
    ) -> Result<Self, ToolError> {
        let home = environment.home.as_deref();
        let read = |kind, path: &Path, if_missing| {
            read_file(ConfigLocation::new(kind, path, home), path, if_missing)
        };
        let mut admin =
            Vec::from_iter(read(LayerKind::Admin, Path::new(ADMIN_FILE), MissingFile::Skip)?);
        if let Some(path) = &environment.admin_config {
            admin.extend(read(LayerKind::Admin, path, MissingFile::Fail)?);
        }
        let (user_path, if_missing) = user_file(choices, environment);
        let user = read(LayerKind::User, &user_path, if_missing)?;
        // Add the layer even without a file, because hints on what to change name it.
        let user = user.unwrap_or_else(|| ConfigFile::empty(LayerKind::User, &user_path));
        let project = read(LayerKind::Project, &workspace.join(PROJECT_FILE), MissingFile::Skip)?;
        let mut session = Layer::new(LayerKind::Session, "the command line");
        session.mode = choices.approve;
        let sandbox = choices.sandbox.clone();
        Ok(Self { admin, user, project, session, sandbox })
    }

    fn settings(
        &self,
        workspace: PathBuf,
        directory: PathBuf,
        store: StoreSettings,
    ) -> Result<Settings, ToolError> {
        let project = self.project.iter().map(|project| {
            let mut layer = project.layer.clone();
            layer.trusted = self.trusts(&workspace);
            layer
        });
        let layers = self.admin.iter().chain([&self.user]).map(|file| file.layer.clone());
        let layers: Vec<Layer> = layers.chain(project).chain([self.session.clone()]).collect();
        let has_rules = layers.iter().any(|layer| {
            !layer.rules.is_empty() || layer.agents.iter().any(|agent| !agent.rules.is_empty())
        });
        let mut policy = Policy::new(layers);
        self.add_profiles(&mut policy)?;
        self.add_secrets(&mut policy);
        let AllLimits { calls: limits, commands: allowance } = self.limits();
        let roots = self.user.roots.clone();
        let owners = || self.admin.iter().chain([&self.user]);
        let container = Arc::new(container::merged(owners().map(|file| &file.container)));
        let backend = sandbox::backend(self.sandbox.as_ref(), &self.admin, &self.user)?;
        let sandbox = match backend {
            ProcessSettings::Container(_) => ProcessSettings::Container(container.clone()),
            other => other,
        };
        let backend = sandbox.clone();
        policy.sandbox = match backend {
            ProcessSettings::Nothing => SandboxCheck::switched_off(),
            backend => SandboxCheck::new(move || backend.works()),
        };
        let profile = None;
        Ok(Settings {
            workspace,
            directory,
            roots,
            policy,
            limits,
            allowance,
            sandbox,
            shown: sandbox::merged(owners()),
            container,
            network: network::settings(self.admin.iter().chain([&self.user])),
            store,
            journal: journal::merged(owners()),
            outputs: outputs::merged(owners()),
            profile,
            has_rules,
        })
    }

    fn trusts(&self, workspace: &Path) -> bool {
        self.user
            .trust
            .iter()
            .any(|folder| folder.canonicalize().is_ok_and(|real| real == workspace))
    }

    /// Adds the profiles of all files. A user's profile may replace a built-in one, and an admin's
    /// replaces both. A project's profile needs a new name; otherwise it could widen a profile that
    /// the user chose by name.
    fn add_profiles(&self, policy: &mut Policy) -> Result<(), ToolError> {
        for file in [&self.user].into_iter().chain(&self.admin) {
            for (name, profile) in &file.profiles {
                policy.profiles.insert(name.clone(), profile.clone());
            }
        }
        for (name, profile) in self.project.iter().flat_map(|project| &project.profiles) {
            if let Ok(known) = policy.profiles.get(name) {
                let message = format!(
                    "{}: a project may not redefine the profile `{name}` ({})",
                    profile.source, known.source
                );
                return Err(
                    ToolError::input(message).hint("give the project's profile another name")
                );
            }
            policy.profiles.insert(name.clone(), profile.clone());
        }
        Ok(())
    }

    /// Adds the secret paths of all files. Exceptions of the user do not apply to paths that an
    /// admin hides.
    fn add_secrets(&self, policy: &mut Policy) {
        let by_admin = self.admin.iter().flat_map(|file| file.secrets.iter().cloned());
        policy.secret_paths.hide_always(by_admin);
        let others = [&self.user].into_iter().chain(&self.project);
        policy.secret_paths.hide(others.flat_map(|file| file.secrets.iter().cloned()));
        let owners = self.admin.iter().chain([&self.user]);
        policy.secret_paths.reveal(owners.flat_map(|file| file.except.iter().cloned()));
    }

    /// Merges the limits. The user sets them; an admin and a project may only lower them.
    fn limits(&self) -> AllLimits {
        let mut limits = AllLimits::default();
        for (limit, value) in &self.user.limits {
            limit.set(&mut limits, *value);
        }
        for (limit, value) in self.admin.iter().chain(&self.project).flat_map(|file| &file.limits) {
            limit.lower(&mut limits, *value);
        }
        limits
    }
}

/// Returns the path of the user's file, and whether it may be missing.
fn user_file(choices: &Choices, environment: &Environment) -> (PathBuf, MissingFile) {
    match (&choices.config, &environment.config_home) {
        (Some(path), _) => (path.clone(), MissingFile::Fail),
        (None, Some(folder)) => (folder.join(USER_FILE), MissingFile::Skip),
        (None, None) => (Path::new("~/.config").join(USER_FILE), MissingFile::Skip),
    }
}

/// Returns the requested profile, unless an admin file sets one: then that one.
fn chosen_profile(choices: &Choices, files: &ConfigFiles) -> Result<Option<String>, ToolError> {
    let fixed = files.admin.iter().find_map(|file| Some((file.profile.clone()?, &file.layer.file)));
    match (fixed, &choices.profile) {
        (Some((fixed, file)), Some(asked)) if fixed != *asked => {
            let message = format!("profile `{asked}` cannot be used: {file} sets `{fixed}`");
            Err(ToolError::denied(message).hint("leave out --profile"))
        }
        (Some((fixed, _)), _) => Ok(Some(fixed)),
        (None, Some(asked)) => Ok(Some(asked.clone())),
        (None, None) => {
            let project = files.project.iter().find_map(|project| project.profile.clone());
            Ok(files.user.profile.clone().or(project))
        }
    }
}

/// Effect of a missing file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MissingFile {
    /// The file is optional.
    Skip,
    /// The user named the file.
    Fail,
}

fn read_file(
    location: ConfigLocation<'_>,
    path: &Path,
    if_missing: MissingFile,
) -> Result<Option<ConfigFile>, ToolError> {
    let fail = |problem: String| {
        let hint = "fix the file or its permissions; no call runs until it can be read";
        ToolError::input(format!("{}: {problem}", path.display())).hint(hint)
    };
    // Check the file type before opening: opening a named pipe that a project put here would block
    // forever.
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error)
            if error.kind() == std::io::ErrorKind::NotFound && if_missing == MissingFile::Skip =>
        {
            return Ok(None);
        }
        Err(error) => return Err(fail(format!("cannot read the file: {error}"))),
    };
    if !metadata.is_file() {
        return Err(fail("not a regular file".to_owned()));
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(fail(format!("larger than {MAX_FILE_BYTES} bytes")));
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| fail(format!("cannot read the file: {error}")))?;
    file::parse(&text, &location).map(Some)
}

/// Returns a file's name as it appears in messages and rules.
fn name_of(path: &Path) -> Arc<str> {
    path.display().to_string().into()
}

#[cfg(test)]
mod tests;
