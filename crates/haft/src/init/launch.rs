//! How a client starts haft: which program, with which arguments.

use std::{
    ffi::OsStr,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use haft_core::ToolError;

use crate::globals::Globals;

const PROGRAM: &str = "haft";

/// The program and what was said about how it should run.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(super) command: String,
    options: Vec<(&'static str, String)>,
    /// A folder that somebody named; without it haft finds one where the client stands.
    workspace: Option<String>,
}

impl Launch {
    /// # Errors
    /// When a path is not UTF-8, which no client's file can hold.
    pub(crate) fn new(
        program: Option<&Path>,
        search_path: Option<&OsStr>,
        globals: &Globals,
        directory: &Path,
    ) -> Result<Self, ToolError> {
        let text = |path: &Path| match path.to_str() {
            Some(text) => Ok(text.to_owned()),
            None => {
                let message = format!("{} is not UTF-8, so it cannot be written", path.display());
                Err(ToolError::input(message).hint("give it another name"))
            }
        };
        // The client stands somewhere else, so what is relative to here is written out.
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

    /// What stands behind the program. `variable` is what the client puts the open folder in for.
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

    /// Whether the entry would hold in this one folder only.
    pub(crate) fn fixed_workspace(&self) -> Option<&str> {
        self.workspace.as_deref()
    }

    /// Whether the program is named by a path of this machine.
    pub(crate) fn fixed_program(&self) -> Option<&str> {
        Some(self.command.as_str()).filter(|command| *command != PROGRAM)
    }
}

/// Without `.` and `..`, which would be read from another place; links stay, since people name folders by them.
fn from_here(directory: &Path, path: &Path) -> PathBuf {
    let whole = directory.join(path);
    if path.is_absolute() { whole } else { whole.canonicalize().unwrap_or(whole) }
}

/// Whether `haft` alone starts this very file.
fn is_found(program: &Path, search_path: Option<&OsStr>) -> bool {
    let folders = search_path.map(std::env::split_paths).into_iter().flatten();
    let mut candidates =
        folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join(PROGRAM));
    // The first one is what a shell starts, whatever comes later.
    let first = candidates.find(|candidate| is_executable(candidate));
    first.is_some_and(|first| identity(&first).is_some_and(|id| Some(id) == identity(program)))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o111 != 0)
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    path.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()))
}
