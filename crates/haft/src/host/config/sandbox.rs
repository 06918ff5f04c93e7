//! Reads `[sandbox]`: which folders outside the workspace sandboxed commands can access. `sandbox =
//! "auto"` is the short form of `[sandbox] backend = "auto"`.

use std::{path::PathBuf, sync::Arc};

use haft_core::ToolError;
use haft_exec::{ProcessSettings, ShownFolders};

use super::{
    file::{ConfigFile, ConfigSection},
    keys,
};

/// Names of the backends, in the order of the documentation.
pub const BACKENDS: &[&str] = &["auto", "required", "landlock", "bubblewrap", "container", "off"];

/// Returns the backend of this name. The container settings are merged later, from all files.
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

/// Returns the active backend: an admin's, else that of the command line, else the user's.
///
/// # Errors
/// Of kind `denied` when the command line requests another one than an admin's.
pub(super) fn backend(
    chosen: Option<&ProcessSettings>,
    admin: &[ConfigFile],
    user: &ConfigFile,
) -> Result<ProcessSettings, ToolError> {
    let fixed = admin.iter().find_map(|file| Some((file.sandbox.as_ref()?, &file.layer.file)));
    match (fixed, chosen) {
        (Some((fixed, file)), Some(chosen)) if name_of(fixed) != name_of(chosen) => {
            let message = format!(
                "sandbox `{}` cannot be used: {file} sets `{}`",
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

/// The keys that one file sets.
#[derive(Clone, Debug, Default)]
pub(super) struct SandboxConfig {
    whole_home: Option<bool>,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
}

/// Merges the files, with the admin's first: `home` comes from the first file that sets it, folders
/// are joined.
pub(super) fn merged<'f>(files: impl Iterator<Item = &'f ConfigFile> + Clone) -> ShownFolders {
    let configs = || files.clone().map(|file| &file.shown);
    ShownFolders {
        whole_home: configs().find_map(|config| config.whole_home).unwrap_or(false),
        read: configs().flat_map(|config| config.read.clone()).collect(),
        write: configs().flat_map(|config| config.write.clone()).collect(),
    }
}

impl<'a> ConfigSection<'a> {
    /// Returns the `[sandbox]` table, or `None` for the short form.
    pub(super) fn sandbox_table(&self) -> Result<Option<Self>, ToolError> {
        let written = self.table.get("sandbox").and_then(|value| value.get_ref().as_table());
        let Some(table) = written else { return Ok(None) };
        let section = Self { path: "sandbox.", table, ..*self };
        section.check_keys(&keys::SANDBOX)?;
        Ok(Some(section))
    }

    pub(super) fn shown(&self) -> Result<SandboxConfig, ToolError> {
        let Some(section) = self.sandbox_table()? else { return Ok(SandboxConfig::default()) };
        Ok(SandboxConfig {
            whole_home: section.word("home", &[("tools", false), ("all", true)])?,
            read: section.shown_folders("read")?,
            write: section.shown_folders("write")?,
        })
    }

    fn shown_folders(&self, key: &str) -> Result<Vec<PathBuf>, ToolError> {
        let folder = |(at, folder): (usize, &str)| {
            let path = PathBuf::from(self.source.path(at, folder)?);
            if path.is_absolute() && path.parent().is_some() {
                return Ok(path);
            }
            let problem = format!("`sandbox.{key}`: expected an absolute path, found `{folder}`");
            Err(self.source.error(at, &problem, "write an absolute path, or start it with `~/`"))
        };
        self.texts(key)?.into_iter().map(folder).collect()
    }
}
