//! The command line that a client starts haft with.

use std::{
    ffi::OsStr,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use haft_core::ToolError;

use crate::globals::Globals;

const PROGRAM: &str = "haft";

/// The program and its options.
#[derive(Clone, Debug)]
pub(crate) struct ServerCommand {
    pub(super) command: String,
    options: Vec<(&'static str, String)>,
    /// A folder that the user named. Without it haft searches from the directory where the client
    /// starts it.
    workspace: Option<String>,
}

impl ServerCommand {
    /// # Errors
    /// When a path is not UTF-8, which no client's file supports.
    pub(crate) fn new(
        program: Option<&Path>,
        search_path: Option<&OsStr>,
        globals: &Globals,
        directory: &Path,
    ) -> Result<Self, ToolError> {
        let text = |path: &Path| match path.to_str() {
            Some(text) => Ok(text.to_owned()),
            None => {
                let message =
                    format!("{} is not UTF-8, so it cannot be written to the file", path.display());
                Err(ToolError::input(message).hint("rename it"))
            }
        };
        // The client starts haft in another directory, so relative paths become absolute.
        let absolute = |path: &PathBuf| text(&from_here(directory, path));
        let mut options = Vec::new();
        options.extend(globals.choices.profile.clone().map(|name| ("--profile", name)));
        options.extend(globals.choices.agent.clone().map(|name| ("--agent", name)));
        options.extend(globals.choices.approve.map(|mode| ("--approve", mode.name().to_owned())));
        if let Some(file) = &globals.choices.config {
            options.push(("--config", absolute(file)?));
        }
        let command = match program.filter(|program| !is_found(program, search_path)) {
            Some(program) => text(program)?,
            None => PROGRAM.to_owned(),
        };
        let workspace = globals.choices.workspace.as_ref().map(absolute).transpose()?;
        Ok(Self { command, options, workspace })
    }

    /// Returns the arguments after the program. `variable` is the client's placeholder for the open
    /// folder.
    pub(super) fn arguments(&self, variable: Option<&str>) -> Vec<String> {
        let options =
            self.options.iter().flat_map(|(name, value)| [(*name).to_owned(), value.clone()]);
        let workspace = self.workspace.as_deref().or(variable);
        let workspace = workspace.map(|folder| ["--workspace".to_owned(), folder.to_owned()]);
        ["mcp".to_owned()]
            .into_iter()
            .chain(options)
            .chain(workspace.into_iter().flatten())
            .collect()
    }

    /// Returns the folder if the entry fixes one.
    pub(crate) fn fixed_workspace(&self) -> Option<&str> {
        self.workspace.as_deref()
    }

    /// Returns the program's path if the entry does not just name `haft`.
    pub(crate) fn fixed_program(&self) -> Option<&str> {
        Some(self.command.as_str()).filter(|command| *command != PROGRAM)
    }
}

/// Resolves a relative path against the working directory. An absolute path keeps its symbolic
/// links, because users refer to folders by them.
fn from_here(directory: &Path, path: &Path) -> PathBuf {
    let whole = directory.join(path);
    if path.is_absolute() { whole } else { whole.canonicalize().unwrap_or(whole) }
}

/// Returns true when `haft` on the search path is this program.
fn is_found(program: &Path, search_path: Option<&OsStr>) -> bool {
    let folders = search_path.map(std::env::split_paths).into_iter().flatten();
    let mut candidates =
        folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join(PROGRAM));
    // A shell starts the first one.
    let first = candidates.find(|candidate| is_executable(candidate));
    first.is_some_and(|first| identity(&first).is_some_and(|id| Some(id) == identity(program)))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o111 != 0)
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    path.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()))
}
