//! The files that say who may do what: found, read where they exist, and put together as one policy. The admin's word
//! holds, the person's comes next, and a project, whose file came with the code, may only narrow.

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

use self::file::{File, Place};
pub use self::{
    check::Checked,
    outputs::OutputSettings,
    sandbox::{BACKENDS, backend_named},
    store::{StoreSettings, usual as usual_store},
};
use super::{Choices, environment::Environment, keeping};

/// The machine owner's file. `$HAFT_ADMIN_CONFIG` names one more.
const ADMIN_FILE: &str = "/etc/haft/admin.toml";
const USER_FILE: &str = "haft/config.toml";
const PROJECT_FILE: &str = ".haft/config.toml";
/// Nobody writes more by hand, and whoever writes a config file for us should not fill our memory.
const LARGEST_FILE: u64 = 1 << 20;

/// How much calls and commands may take.
#[derive(Clone, Debug, Default)]
struct Sizes {
    calls: Limits,
    commands: Allowance,
}

/// Everything a call needs to know of its surroundings.
pub struct Settings {
    /// The folder that is worked in.
    pub workspace: PathBuf,
    /// Where the person stands.
    pub directory: PathBuf,
    /// Further folders that file tools may work in, by name.
    pub roots: Vec<(String, PathBuf)>,
    /// The rules of all layers.
    pub policy: Policy,
    /// What calls may take.
    pub limits: Limits,
    /// What commands may take.
    pub allowance: Allowance,
    /// What commands run in.
    pub sandbox: ProcessSettings,
    /// Folders outside the workspace that sandboxed commands see.
    pub shown: ShownFolders,
    /// What containers are made from, wanted or not.
    pub container: Arc<ContainerSettings>,
    /// How other machines are reached.
    pub network: NetworkSettings,
    /// Where calls are recorded.
    pub store: StoreSettings,
    /// How long and how much is kept for undo; none when nothing is.
    pub journal: Option<JournalRetention>,
    /// What is kept of long results.
    pub outputs: OutputSettings,
    /// The profile in force.
    pub profile: Option<String>,
    /// Whether any file has rules, so that looking for idle ones makes sense.
    pub has_rules: bool,
}

impl Settings {
    /// Reads what there is.
    ///
    /// # Errors
    /// Of kind `input`, with file, line and column when a file is at fault. Nothing runs under half a policy.
    pub fn load(choices: &Choices, environment: &Environment) -> Result<Self, ToolError> {
        let directory = environment.directory.clone().ok_or_else(|| {
            ToolError::input("the folder you are in is gone").hint("change to one that is there")
        })?;
        let workspace = workspace::find(choices.workspace.as_deref(), &directory)?;
        let files = Files::read(choices, environment, &workspace)?;
        let store = store::settled(choices, &files.admin, &files.user, (&workspace, &directory))?;
        let mut settings = files.settings(workspace, directory, store)?;
        settings.profile = chosen_profile(choices, &files)?;
        if let Some(profile) = &settings.profile {
            settings.policy.profiles.get(profile)?;
        }
        // Before anything asks whether a sandbox works: the policy does, and what runs commands.
        if let Some(folder) = keeping::state(environment) {
            haft_exec::remember_probes_in(&folder);
        }
        Ok(settings)
    }

    /// What descriptions speak of.
    pub fn workspace_info(&self) -> WorkspaceInfo {
        WorkspaceInfo {
            workspace: self.workspace.clone(),
            directory: self.directory.clone(),
            today: || jiff::Zoned::now().date().to_string(),
        }
    }
}

struct Files {
    /// An admin file can only narrow, so one more is always safe: that is why a variable may name it.
    admin: Vec<File>,
    user: File,
    project: Option<File>,
    /// What was said on the command line.
    session: Layer,
    /// The sandbox backend that the command line asks for.
    sandbox: Option<ProcessSettings>,
}

impl Files {
    fn read(
        choices: &Choices,
        environment: &Environment,
        workspace: &Path,
    ) -> Result<Self, ToolError> {
        let home = environment.home.as_deref();
        let read = |kind, path: &Path, absence| read(Place::new(kind, path, home), path, absence);
        let mut admin =
            Vec::from_iter(read(LayerKind::Admin, Path::new(ADMIN_FILE), Absence::Usual)?);
        if let Some(path) = &environment.admin_config {
            admin.extend(read(LayerKind::Admin, path, Absence::Error)?);
        }
        let (user_path, absence) = user_file(choices, environment);
        let user = read(LayerKind::User, &user_path, absence)?;
        // Without a file the layer is still there: advice on what to change has to name it.
        let user = user.unwrap_or_else(|| File::empty(LayerKind::User, &user_path));
        let project = read(LayerKind::Project, &workspace.join(PROJECT_FILE), Absence::Usual)?;
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
        let Sizes { calls: limits, commands: allowance } = self.sizes();
        let roots = self.user.roots.clone();
        let owners = || self.admin.iter().chain([&self.user]);
        let container = Arc::new(container::settled(owners().map(|file| &file.container)));
        let backend = sandbox::backend(self.sandbox.as_ref(), &self.admin, &self.user)?;
        let sandbox = match backend {
            ProcessSettings::Container(_) => ProcessSettings::Container(container.clone()),
            other => other,
        };
        let checked = sandbox.clone();
        policy.sandbox = match checked {
            ProcessSettings::Nothing => SandboxCheck::switched_off(),
            around => SandboxCheck::new(move || around.works()),
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
            shown: sandbox::settled(owners()),
            container,
            network: network::settings(self.admin.iter().chain([&self.user])),
            store,
            journal: journal::settled(owners()),
            outputs: outputs::settled(owners()),
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

    /// A person's profile may replace a built-in one, the admin's replaces both; a project's may only be new, or it
    /// could widen what somebody chose by name.
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

    /// What an admin hides stays hidden; the exceptions of others are about the rest.
    fn add_secrets(&self, policy: &mut Policy) {
        let by_admin = self.admin.iter().flat_map(|file| file.secrets.iter().cloned());
        policy.secret_paths.hide_always(by_admin);
        let others = [&self.user].into_iter().chain(&self.project);
        policy.secret_paths.hide(others.flat_map(|file| file.secrets.iter().cloned()));
        let owners = self.admin.iter().chain([&self.user]);
        policy.secret_paths.reveal(owners.flat_map(|file| file.except.iter().cloned()));
    }

    /// A person sets them; admin and project may only lower them.
    fn sizes(&self) -> Sizes {
        let mut limits = Sizes::default();
        for (limit, value) in &self.user.limits {
            limit.set(&mut limits, *value);
        }
        for (limit, value) in self.admin.iter().chain(&self.project).flat_map(|file| &file.limits) {
            limit.lower(&mut limits, *value);
        }
        limits
    }
}

/// The person's own file, and whether it must be there.
fn user_file(choices: &Choices, environment: &Environment) -> (PathBuf, Absence) {
    match (&choices.config, &environment.config_home) {
        (Some(path), _) => (path.clone(), Absence::Error),
        (None, Some(folder)) => (folder.join(USER_FILE), Absence::Usual),
        (None, None) => (Path::new("~/.config").join(USER_FILE), Absence::Usual),
    }
}

/// The profile that was asked for, unless an admin file names one: then that one holds.
fn chosen_profile(choices: &Choices, files: &Files) -> Result<Option<String>, ToolError> {
    let fixed = files.admin.iter().find_map(|file| Some((file.profile.clone()?, &file.layer.file)));
    match (fixed, &choices.profile) {
        (Some((fixed, file)), Some(asked)) if fixed != *asked => {
            let message = format!("profile `{asked}` cannot be chosen: {file} sets `{fixed}`");
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

/// What it means that a file is not there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Absence {
    /// Most people have none.
    Usual,
    /// Somebody named it.
    Error,
}

fn read(place: Place<'_>, path: &Path, absence: Absence) -> Result<Option<File>, ToolError> {
    let fail = |problem: String| {
        let hint = "mend the file or its permissions; nothing runs while it cannot be read";
        ToolError::input(format!("{}: {problem}", path.display())).hint(hint)
    };
    // Looked at before it is opened: opening a pipe that a project put here would wait for ever.
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && absence == Absence::Usual => {
            return Ok(None);
        }
        Err(error) => return Err(fail(format!("cannot be read: {error}"))),
    };
    if !metadata.is_file() {
        return Err(fail("is not a regular file".to_owned()));
    }
    if metadata.len() > LARGEST_FILE {
        return Err(fail(format!("is larger than {LARGEST_FILE} bytes")));
    }
    let text =
        std::fs::read_to_string(path).map_err(|error| fail(format!("cannot be read: {error}")))?;
    file::parse(&text, &place).map(Some)
}

/// How a file is called in messages and rules.
fn name_of(path: &Path) -> Arc<str> {
    path.display().to_string().into()
}

#[cfg(test)]
mod tests;
