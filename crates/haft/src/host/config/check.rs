//! Reads rule files to look them over: a fault in one must not hide those in the others.

use std::path::{Path, PathBuf};

use haft_core::{
    ToolError,
    policy::{Layer, LayerKind},
};

use super::{
    ADMIN_FILE, Absence, File, Files, PROJECT_FILE, Place, Settings, read, store, user_file,
    workspace,
};
use crate::host::{Choices, environment::Environment};

/// Rule files, as far as they can be read.
pub struct Checked {
    /// Those that are there.
    pub files: Vec<PathBuf>,
    /// What cannot be read, beginning with the place.
    pub faults: Vec<ToolError>,
    /// What the others say together.
    pub settings: Option<Settings>,
}

impl Settings {
    /// The files that are in force here.
    ///
    /// # Errors
    /// When there is no workspace to look for them in.
    pub fn check(choices: &Choices, environment: &Environment) -> Result<Checked, ToolError> {
        let directory = directory(environment)?;
        let workspace = workspace::find(choices.workspace.as_deref(), &directory)?;
        let (user, absence) = user_file(choices, environment);
        let mut places = vec![(LayerKind::Admin, PathBuf::from(ADMIN_FILE), Absence::Usual)];
        let admin = environment.admin_config.iter();
        places.extend(admin.map(|path| (LayerKind::Admin, path.clone(), Absence::Error)));
        places.push((LayerKind::User, user, absence));
        places.push((LayerKind::Project, workspace.join(PROJECT_FILE), Absence::Usual));
        Ok(checked(places, (choices, environment), (workspace, directory)))
    }

    /// One file by itself, as what its place says it is.
    ///
    /// # Errors
    /// When there is no workspace to speak of.
    pub fn check_file(
        file: &Path,
        choices: &Choices,
        environment: &Environment,
    ) -> Result<Checked, ToolError> {
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
        let place = (kind, file.to_owned(), Absence::Error);
        Ok(checked(vec![place], (choices, environment), (workspace, directory)))
    }
}

fn directory(environment: &Environment) -> Result<PathBuf, ToolError> {
    environment.directory.clone().ok_or_else(|| {
        ToolError::input("the folder you are in is gone").hint("change to one that is there")
    })
}

fn checked(
    places: Vec<(LayerKind, PathBuf, Absence)>,
    (choices, environment): (&Choices, &Environment),
    (workspace, directory): (PathBuf, PathBuf),
) -> Checked {
    let nowhere = Path::new("your config.toml");
    let mut all = Files {
        admin: Vec::new(),
        user: File::empty(LayerKind::User, nowhere),
        project: None,
        session: Layer::new(LayerKind::Session, "the command line"),
        sandbox: None,
    };
    let (mut files, mut faults) = (Vec::new(), Vec::new());
    for (kind, path, absence) in places {
        match read(Place::new(kind, &path, environment.home.as_deref()), &path, absence) {
            Ok(None) => continue,
            Ok(Some(file)) => match kind {
                LayerKind::Admin => all.admin.push(file),
                LayerKind::Project => all.project = Some(file),
                _ => all.user = file,
            },
            Err(fault) => faults.push(fault),
        }
        files.push(path);
    }
    let store = store::settled(choices, &all.admin, &all.user, (&workspace, &directory));
    let settings = store.and_then(|store| all.settings(workspace, directory, store));
    let settings = settings.map_err(|fault| faults.push(fault)).ok();
    Checked { files, faults, settings }
}
