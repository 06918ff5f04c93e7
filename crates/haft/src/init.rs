//! Puts haft into the configuration of existing clients: finds their files, adds, replaces and
//! removes the entry, and changes nothing else. Prompts and output are in `commands/init.rs`.

mod change_records;
mod clients;
mod disk;
mod document;
mod jsonc;
mod server_command;
mod text;
mod toml_text;
mod unified_diff;

use std::path::{Path, PathBuf};

use haft_core::{ErrorKind, ToolError};

use self::{
    change_records::{ChangeRecords, RecordedChange},
    disk::FoundConfig,
    document::{ConfigDocument, EditError, EntryState},
    text::TextError,
};
pub(crate) use self::{
    clients::{ClientApp, InitScope},
    document::new_file,
    server_command::ServerCommand,
};
use crate::environment::CliEnvironment;

const BY_HAND: &str = "fix it and retry, or add the entry by hand; `--print` shows it";

/// The configuration files of clients in one workspace and one environment.
pub(crate) struct ClientConfigs<'a> {
    pub(crate) workspace: &'a Path,
    pub(crate) environment: &'a CliEnvironment,
}

/// How a change affects a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfigAction {
    /// No change: the entry already has the right content.
    AlreadyThere,
    Add,
    /// An entry of that name with other content is replaced.
    Replace,
    /// No change: another program already undid the change.
    AlreadyUndone,
    /// The file gets the content from before haft's change.
    Restore,
    /// Only haft's entry is removed, because the file was changed since.
    RemoveEntry,
    /// The file is removed: haft created it and nothing changed it since.
    RemoveFile,
}

impl ConfigAction {
    /// Returns the name in JSON output.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AlreadyThere => "already_there",
            Self::Add => "added",
            Self::Replace => "replaced",
            Self::AlreadyUndone => "already_back",
            Self::Restore => "restored",
            Self::RemoveEntry => "entry_removed",
            Self::RemoveFile => "file_removed",
        }
    }

    pub(crate) fn is_change(self) -> bool {
        !matches!(self, Self::AlreadyThere | Self::AlreadyUndone)
    }
}

/// A planned change that has not been made yet.
pub(crate) struct InitPlan {
    pub(crate) client: ClientApp,
    pub(crate) scope: InitScope,
    pub(crate) action: ConfigAction,
    /// Path of the file with symbolic links resolved.
    pub(crate) file: PathBuf,
    before: Option<String>,
    after: Option<String>,
    /// The record of the change that is undone.
    record: Option<RecordedChange>,
}

/// Whether a client's file has haft's entry.
pub(crate) struct ClientStatus {
    pub(crate) client: ClientApp,
    pub(crate) scope: InitScope,
    pub(crate) file: PathBuf,
    /// `yes`, `no`, `other`, `-` for a missing file, `?` for an unreadable one.
    pub(crate) status: &'static str,
}

impl ClientConfigs<'_> {
    /// Plans how to add haft to a client's file.
    ///
    /// # Errors
    /// When the file cannot be read, or has something else where the entry belongs.
    pub(crate) fn plan(
        &self,
        client: ClientApp,
        scope: InitScope,
        server: &ServerCommand,
    ) -> Result<InitPlan, ToolError> {
        let FoundConfig { path: file, text: before } = self.file_of(client, scope)?;
        let Some(text) = &before else {
            let after = Some(new_file(client, server));
            return Ok(InitPlan {
                client,
                scope,
                action: ConfigAction::Add,
                file,
                before,
                after,
                record: None,
            });
        };
        let document =
            ConfigDocument::read(client, text).map_err(|error| invalid(&file, text, &error))?;
        let action = match document.entry_state(server) {
            EntryState::Same => ConfigAction::AlreadyThere,
            EntryState::Different => ConfigAction::Replace,
            EntryState::Missing => ConfigAction::Add,
        };
        let after = match action {
            ConfigAction::AlreadyThere => text.clone(),
            _ => document.with(server).map_err(|error| edit_error(&file, text, error))?,
        };
        Ok(InitPlan { client, scope, action, file, before, after: Some(after), record: None })
    }

    /// Plans how to undo the last change to a client's file. Without a scope it is the last change
    /// to any of the client's files.
    ///
    /// # Errors
    /// When haft changed nothing here.
    pub(crate) fn plan_undo(
        &self,
        client: ClientApp,
        scope: Option<InitScope>,
    ) -> Result<InitPlan, ToolError> {
        let records = ChangeRecords::load(self.environment.host.state_home.as_deref())?;
        let (mut files, mut scopes) = (Vec::new(), Vec::new());
        for scope in
            InitScope::ALL.into_iter().filter(|known| scope.is_none_or(|scope| scope == *known))
        {
            for file in client.files(scope, self.workspace, self.environment).unwrap_or_default() {
                files.push(disk::read(&file).map_or(file, |found| found.path));
                scopes.push(scope);
            }
        }
        let Some(change) = records.last(client, &files) else {
            return Err(nothing_to_undo(client, &records));
        };
        let place = files.iter().position(|file| *file == change.file);
        let scope = place.and_then(|idx| scopes.get(idx)).copied().unwrap_or(InitScope::User);
        plan_undo_of(client, scope, change.clone())
    }

    /// Returns the status of all clients.
    pub(crate) fn survey(&self, server: &ServerCommand) -> Vec<ClientStatus> {
        let mut rows = Vec::new();
        for client in ClientApp::ALL {
            for scope in InitScope::ALL {
                // A user file needs a home directory.
                let Ok(files) = client.files(scope, self.workspace, self.environment) else {
                    continue;
                };
                let Some(default) = files.first().cloned() else { continue };
                let (file, status) = match self.file_of(client, scope) {
                    Ok(found) => (found.path.clone(), status(client, &found, server)),
                    Err(_) => (default, "?"),
                };
                rows.push(ClientStatus { client, scope, file, status });
            }
        }
        rows
    }

    /// Finds the file to change: the one with haft in it, else an existing one, else the one to
    /// create.
    fn file_of(&self, client: ClientApp, scope: InitScope) -> Result<FoundConfig, ToolError> {
        let files = client.files(scope, self.workspace, self.environment)?;
        let mut found = files.iter().map(|file| disk::read(file)).collect::<Result<Vec<_>, _>>()?;
        let has_entry = |found: &FoundConfig| {
            let text = found.text.as_deref().unwrap_or_default();
            ConfigDocument::read(client, text).is_ok_and(|document| document.has_entry())
        };
        let idx = found.iter().position(has_entry);
        let idx = idx.or_else(|| found.iter().position(|found| found.text.is_some()));
        Ok(found.swap_remove(idx.unwrap_or(0)))
    }
}

impl InitPlan {
    /// Returns the change as a unified diff.
    pub(crate) fn diff(&self) -> String {
        let path = self.file.display().to_string();
        unified_diff::unified(&path, self.before.as_deref(), self.after.as_deref())
    }

    /// Makes the change and returns the path of the backup, if there is one.
    ///
    /// # Errors
    /// Of kind `conflict` when the file changed in the meantime. After any error the file is
    /// unchanged.
    pub(crate) fn apply(self, environment: &CliEnvironment) -> Result<Option<PathBuf>, ToolError> {
        self.check_unchanged()?;
        let mut records = ChangeRecords::load(environment.host.state_home.as_deref())?;
        match (&self.record, &self.after) {
            (None, Some(after)) => self.write(after, &mut records),
            (Some(change), _) => self.undo(change, &mut records),
            (None, None) => Ok(None),
        }
    }

    /// Checks that the client did not write its file while the user was asked.
    fn check_unchanged(&self) -> Result<(), ToolError> {
        if disk::read(&self.file)?.text == self.before {
            return Ok(());
        }
        let message =
            format!("{} was changed by another process in the meantime", self.file.display());
        Err(ToolError::conflict(message).hint("retry to see the change to the new content"))
    }

    fn write(
        &self,
        after: &str,
        records: &mut ChangeRecords,
    ) -> Result<Option<PathBuf>, ToolError> {
        let made = disk::make_folder_of(&self.file)?;
        let backup =
            self.before.as_deref().map(|before| disk::back_up(&self.file, before)).transpose()?;
        let change = RecordedChange {
            client: self.client.name().to_owned(),
            file: self.file.clone(),
            backup: backup.clone(),
            before: self.before.as_deref().map(change_records::hash),
            after: change_records::hash(after),
            made,
        };
        // Record the change first: a recorded change that was not made is detected by its hash, but
        // an unrecorded change could not be undone.
        let written = records.add(change.clone()).and_then(|()| {
            // If removing the record fails too, the hash shows that the change was not made.
            let forget = |_: &ToolError| drop(records.forget(&change));
            disk::replace(&self.file, after).inspect_err(forget)
        });
        written.inspect_err(|_| {
            let _ = backup.as_deref().map(disk::remove);
            remove_folders(&change.made);
        })?;
        Ok(backup)
    }

    fn undo(
        &self,
        change: &RecordedChange,
        records: &mut ChangeRecords,
    ) -> Result<Option<PathBuf>, ToolError> {
        match (self.action, &self.after) {
            (ConfigAction::AlreadyUndone, _) => {}
            (_, Some(after)) => disk::replace(&self.file, after)?,
            (_, None) => {
                disk::remove(&self.file)?;
                remove_folders(&change.made);
            }
        }
        records.forget(change)?;
        // The backup is useless once its content is restored. If other programs changed the file,
        // the backup may still be needed.
        let backup = change.backup.clone();
        if self.action == ConfigAction::RemoveEntry {
            return Ok(backup);
        }
        backup.map_or(Ok(()), |backup| disk::remove(&backup))?;
        Ok(None)
    }
}

fn plan_undo_of(
    client: ClientApp,
    scope: InitScope,
    change: RecordedChange,
) -> Result<InitPlan, ToolError> {
    let before = disk::read(&change.file)?.text;
    let now = before.as_deref().map(change_records::hash);
    let backup = change.backup.as_ref().and_then(|backup| disk::read(backup).ok()?.text);
    let backup = backup.filter(|text| Some(change_records::hash(text)) == change.before);
    let (action, after) = match &before {
        None => (ConfigAction::AlreadyUndone, None),
        Some(_) if now == change.before => (ConfigAction::AlreadyUndone, before.clone()),
        Some(_) if now.as_ref() == Some(&change.after) && change.before.is_none() => {
            (ConfigAction::RemoveFile, None)
        }
        Some(_) if now.as_ref() == Some(&change.after) && backup.is_some() => {
            (ConfigAction::Restore, backup)
        }
        Some(text) => {
            let document = ConfigDocument::read(client, text);
            let document = document.map_err(|error| invalid(&change.file, text, &error))?;
            let after = document.without().map_err(|why| edit_error(&change.file, text, why))?;
            let action = if after == *text {
                ConfigAction::AlreadyUndone
            } else {
                ConfigAction::RemoveEntry
            };
            (action, Some(after))
        }
    };
    let file = change.file.clone();
    Ok(InitPlan { client, scope, action, file, before, after, record: Some(change) })
}

fn status(client: ClientApp, found: &FoundConfig, server: &ServerCommand) -> &'static str {
    let Some(text) = &found.text else { return "-" };
    match ConfigDocument::read(client, text).map(|document| document.entry_state(server)) {
        Ok(EntryState::Same) => "yes",
        Ok(EntryState::Different) => "other",
        Ok(EntryState::Missing) => "no",
        Err(_) => "?",
    }
}

/// Removes the folders that haft created if they are empty.
fn remove_folders(made: &[PathBuf]) {
    for folder in made.iter().rev() {
        // A folder that is not empty keeps its parents too.
        if std::fs::remove_dir(folder).is_err() {
            return;
        }
    }
}

fn nothing_to_undo(client: ClientApp, records: &ChangeRecords) -> ToolError {
    let name = client.name();
    let hint = match records.elsewhere(client) {
        Some(file) => {
            format!("the last change was to {}; run the command in that project", file.display())
        }
        None => format!("`haft init {name} --print` shows the entry to remove by hand"),
    };
    ToolError::not_found(format!("haft has not changed the configuration of {name} here"))
        .hint(hint)
}

fn invalid(file: &Path, text: &str, error: &TextError) -> ToolError {
    let (line, column) = error.position(text.trim_start_matches('\u{feff}'));
    ToolError::input(format!("{}:{line}:{column}: {}", file.display(), error.problem)).hint(BY_HAND)
}

fn edit_error(file: &Path, text: &str, error: EditError) -> ToolError {
    match error {
        EditError::Invalid(error) => invalid(file, text, &error),
        EditError::Unsafe => {
            let message = format!(
                "{} was not changed: the edit would have changed more than haft's entry",
                file.display()
            );
            ToolError::new(ErrorKind::Internal, message).hint(BY_HAND)
        }
    }
}
