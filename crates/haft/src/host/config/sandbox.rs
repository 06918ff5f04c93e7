//! `[sandbox]`: which folders outside the workspace sandboxed commands see. `sandbox = "auto"` is the short form of
//! `[sandbox] backend = "auto"`.

use std::{path::PathBuf, sync::Arc};

use haft_core::ToolError;
use haft_exec::{ProcessSettings, ShownFolders};

use super::{
    file::{File, Section},
    keys,
};

/// The names of the backends, in the order of the documentation.
pub const BACKENDS: &[&str] = &["auto", "required", "landlock", "bubblewrap", "container", "off"];

/// The backend of this name. The settings of a container are added when all files are read.
pub fn backend_named(name: &str) -> Option<ProcessSettings> {
    match name {
        "auto" => Some(ProcessSettings::Auto),
        "required" => Some(ProcessSettings::Sandbox),
        "landlock" => Some(ProcessSettings::Landlock),
        "bubblewrap" => Some(ProcessSettings::Bubblewrap),
        "container" => Some(ProcessSettings::Container(Arc::default())),
        "off" => Some(ProcessSettings::Nothing),
        _ => None,
    }
}

fn name_of(backend: &ProcessSettings) -> &'static str {
    let is_it = |name: &&&str| {
        let named = backend_named(name);
        named.is_some_and(|it| std::mem::discriminant(&it) == std::mem::discriminant(backend))
    };
    BACKENDS.iter().find(is_it).copied().unwrap_or("another backend")
}

/// The backend in force: an admin's, else the one of the command line, else the user's.
///
/// # Errors
/// Of kind `denied` when the command line asks for another one than an admin's.
pub(super) fn backend(
    chosen: Option<&ProcessSettings>,
    admin: &[File],
    user: &File,
) -> Result<ProcessSettings, ToolError> {
    let fixed = admin.iter().find_map(|file| Some((file.sandbox.as_ref()?, &file.layer.file)));
    match (fixed, chosen) {
        (Some((fixed, file)), Some(chosen)) if name_of(fixed) != name_of(chosen) => {
            let message = format!(
                "sandbox `{}` cannot be chosen: {file} sets `{}`",
                name_of(chosen),
                name_of(fixed)
            );
            Err(ToolError::denied(message).hint("leave out --sandbox"))
        }
        (Some((fixed, _)), _) => Ok(fixed.clone()),
        (None, Some(chosen)) => Ok(chosen.clone()),
        (None, None) => Ok(user.sandbox.clone().unwrap_or_default()),
    }
}

/// What one file says.
#[derive(Clone, Debug, Default)]
pub(super) struct ShownWords {
    whole_home: Option<bool>,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
}

/// What all of them say, an admin's first: the first word about the home holds, folders add up.
pub(super) fn settled<'f>(files: impl Iterator<Item = &'f File> + Clone) -> ShownFolders {
    let words = || files.clone().map(|file| &file.shown);
    ShownFolders {
        whole_home: words().find_map(|words| words.whole_home).unwrap_or(false),
        read: words().flat_map(|words| words.read.clone()).collect(),
        write: words().flat_map(|words| words.write.clone()).collect(),
    }
}

impl<'a> Section<'a> {
    /// The section, where it is not the short form.
    pub(super) fn sandbox_table(&self) -> Result<Option<Self>, ToolError> {
        let written = self.table.get("sandbox").and_then(|value| value.get_ref().as_table());
        let Some(table) = written else { return Ok(None) };
        let section = Self { path: "sandbox.", table, ..*self };
        section.check_keys(&keys::SANDBOX)?;
        Ok(Some(section))
    }

    pub(super) fn shown(&self) -> Result<ShownWords, ToolError> {
        let Some(section) = self.sandbox_table()? else { return Ok(ShownWords::default()) };
        Ok(ShownWords {
            whole_home: section.word("home", &[("tools", false), ("all", true)])?,
            read: section.shown_folders("read")?,
            write: section.shown_folders("write")?,
        })
    }

    fn shown_folders(&self, key: &str) -> Result<Vec<PathBuf>, ToolError> {
        let folder = |(at, folder): (usize, &str)| {
            let path = PathBuf::from(self.reader.path(at, folder)?);
            if path.is_absolute() && path.parent().is_some() {
                return Ok(path);
            }
            let problem = format!("`sandbox.{key}`: expected a whole path, found `{folder}`");
            Err(self.reader.fault(at, &problem, "write the whole path, or begin it with `~/`"))
        };
        self.texts(key)?.into_iter().map(folder).collect()
    }
}
