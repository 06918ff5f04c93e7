//! Reads config files to check them. An error in one file does not hide errors in the others.

use std::path::{Path, PathBuf};

use haft_core::{
    ToolError,
    policy::{Layer, LayerKind},
};

use super::{
    ADMIN_FILE, ConfigFile, ConfigFiles, ConfigLocation, MissingFile, PROJECT_FILE, Settings,
    read_file, store, user_file, workspace,
};
use crate::host::{Choices, environment::Environment};

/// The result of checking config files.
pub struct CheckedConfig {
    /// The files that exist.
    pub files: Vec<PathBuf>,
    /// Errors, each starting with the position in the file.
    pub errors: Vec<ToolError>,
    /// The merged settings of the valid files.
    pub settings: Option<Settings>,
}

impl Settings {
    /// Checks the config files that apply in the working directory.
    ///
    /// # Errors
    /// When there is no workspace.
    pub fn check(choices: &Choices, environment: &Environment) -> Result<CheckedConfig, ToolError> {
        let directory = directory(environment)?;
        let workspace = workspace::find(choices.workspace.as_deref(), &directory)?;
        let (user, if_missing) = user_file(choices, environment);
        let mut places = vec![(LayerKind::Admin, PathBuf::from(ADMIN_FILE), MissingFile::Skip)];
        let admin = environment.admin_config.iter();
        places.extend(admin.map(|path| (LayerKind::Admin, path.clone(), MissingFile::Fail)));
        places.push((LayerKind::User, user, if_missing));
        places.push((LayerKind::Project, workspace.join(PROJECT_FILE), MissingFile::Skip));
        Ok(checked(places, (choices, environment), (workspace, directory)))
    }

    /// Checks one file alone. Its path decides whether it counts as an admin's, the user's or a
    /// project's file.
    ///
    /// # Errors
    /// When there is no workspace.
    pub fn check_file(
        file: &Path,
        choices: &Choices,
        environment: &Environment,
    ) -> Result<CheckedConfig, ToolError> {
        let directory = directory(environment)?;
        let workspace = workspace::find(choices.workspace.as_deref(), &directory)?;
        let is_admin = file == Path::new(ADMIN_FILE)
            || environment.admin_config.as_deref() == Some(file)
            || file.file_name().is_some_and(|name| name == "admin.toml");
        let kind = match () {
            () if is_admin => LayerKind::Admin,
            () if file.ends_with(PROJECT_FILE) => LayerKind::Project,
            () => LayerKind::User,
        };
        let place = (kind, file.to_owned(), MissingFile::Fail);
        Ok(checked(vec![place], (choices, environment), (workspace, directory)))
    }
}

fn directory(environment: &Environment) -> Result<PathBuf, ToolError> {
    environment.directory.clone().ok_or_else(|| {
        ToolError::input("the working directory no longer exists")
            .hint("change to an existing directory")
    })
}

fn checked(
    places: Vec<(LayerKind, PathBuf, MissingFile)>,
    (choices, environment): (&Choices, &Environment),
    (workspace, directory): (PathBuf, PathBuf),
) -> CheckedConfig {
    let unnamed = Path::new("your config.toml");
    let mut all = ConfigFiles {
        admin: Vec::new(),
        user: ConfigFile::empty(LayerKind::User, unnamed),
        project: None,
        session: Layer::new(LayerKind::Session, "the command line"),
        sandbox: None,
    };
    let (mut files, mut errors) = (Vec::new(), Vec::new());
    for (kind, path, if_missing) in places {
        match read_file(
            ConfigLocation::new(kind, &path, environment.home.as_deref()),
            &path,
            if_missing,
        ) {
            Ok(None) => continue,
            Ok(Some(file)) => match kind {
                LayerKind::Admin => all.admin.push(file),
                LayerKind::Project => all.project = Some(file),
                _ => all.user = file,
            },
            Err(error) => errors.push(error),
        }
        files.push(path);
    }
    let store = store::merged(choices, &all.admin, &all.user, (&workspace, &directory));
    let settings = store.and_then(|store| all.settings(workspace, directory, store));
    let settings = settings.map_err(|error| errors.push(error)).ok();
    CheckedConfig { files, errors, settings }
}
