//! haft in the configuration of the clients that people already use: where each keeps it, what an entry looks like,
//! and how one is put in, replaced and taken out again without touching anything else. Asking and telling are not here.

mod clients;
mod difference;
mod disk;
mod document;
mod jsonc;
mod launch;
mod record;
mod text;
mod toml_text;

use std::path::{Path, PathBuf};

use haft_core::{ErrorKind, ToolError};

pub(crate) use self::{
    clients::{Client, Scope},
    document::fresh,
    launch::Launch,
};
use self::{
    disk::Found,
    document::{Document, Present, Refusal},
    record::{Change, Records},
    text::Fault,
};
use crate::environment::Environment;

const BY_HAND: &str = "mend it and call again, or add the entry by hand; `--print` shows it";

/// Where clients are looked for.
pub(crate) struct House<'a> {
    pub(crate) workspace: &'a Path,
    pub(crate) environment: &'a Environment,
}

/// What is about to happen to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Nothing: the entry is there as it would be written.
    AlreadyThere,
    Add,
    /// There is an entry of that name that says something else.
    Replace,
    /// Nothing: what was changed has been changed back by somebody else.
    AlreadyBack,
    /// The file as it was before haft changed it.
    Restore,
    /// The file was changed since, so only haft's entry goes.
    TakeOut,
    /// haft made the file, and nobody has touched it.
    RemoveFile,
}

impl Deed {
    /// The name for programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AlreadyThere => "already_there",
            Self::Add => "added",
            Self::Replace => "replaced",
            Self::AlreadyBack => "already_back",
            Self::Restore => "restored",
            Self::TakeOut => "entry_removed",
            Self::RemoveFile => "file_removed",
        }
    }

    pub(crate) fn changes_something(self) -> bool {
        !matches!(self, Self::AlreadyThere | Self::AlreadyBack)
    }
}

/// A change that has been worked out and not been made.
pub(crate) struct Plan {
    pub(crate) client: Client,
    pub(crate) scope: Scope,
    pub(crate) deed: Deed,
    /// Where the file really lies.
    pub(crate) file: PathBuf,
    before: Option<String>,
    after: Option<String>,
    /// Of the change that is taken back.
    record: Option<Change>,
}

/// What is in one file of one client.
pub(crate) struct Row {
    pub(crate) client: Client,
    pub(crate) scope: Scope,
    pub(crate) file: PathBuf,
    /// `yes`, `no`, `other`, `-` when there is no file, `?` when it cannot be read.
    pub(crate) status: &'static str,
}

impl House<'_> {
    /// How haft would be put into a client's file.
    ///
    /// # Errors
    /// When the file cannot be read, or has something else where the entry belongs.
    pub(crate) fn plan(
        &self,
        client: Client,
        scope: Scope,
        launch: &Launch,
    ) -> Result<Plan, ToolError> {
        let Found { path: file, text: before } = self.file_of(client, scope)?;
        let Some(text) = &before else {
            let after = Some(fresh(client, launch));
            return Ok(Plan { client, scope, deed: Deed::Add, file, before, after, record: None });
        };
        let document = Document::read(client, text).map_err(|fault| faulty(&file, text, &fault))?;
        let deed = match document.present(launch) {
            Present::Same => Deed::AlreadyThere,
            Present::Other => Deed::Replace,
            Present::Nothing => Deed::Add,
        };
        let after = match deed {
            Deed::AlreadyThere => text.clone(),
            _ => document.with(launch).map_err(|refusal| refused(&file, text, refusal))?,
        };
        Ok(Plan { client, scope, deed, file, before, after: Some(after), record: None })
    }

    /// How the last change to a client's file would be taken back; with no scope, the last one to either.
    ///
    /// # Errors
    /// When nothing was changed here.
    pub(crate) fn plan_undo(
        &self,
        client: Client,
        scope: Option<Scope>,
    ) -> Result<Plan, ToolError> {
        let records = Records::load(self.environment.host.state_home.as_deref())?;
        let (mut files, mut scopes) = (Vec::new(), Vec::new());
        for scope in
            Scope::ALL.into_iter().filter(|known| scope.is_none_or(|scope| scope == *known))
        {
            for file in client.files(scope, self.workspace, self.environment).unwrap_or_default() {
                files.push(disk::look(&file).map_or(file, |found| found.path));
                scopes.push(scope);
            }
        }
        let Some(change) = records.last(client, &files) else {
            return Err(nothing_to_undo(client, &records));
        };
        let place = files.iter().position(|file| *file == change.file);
        let scope = place.and_then(|idx| scopes.get(idx)).copied().unwrap_or(Scope::User);
        plan_of_undoing(client, scope, change.clone())
    }

    /// What is where.
    pub(crate) fn survey(&self, launch: &Launch) -> Vec<Row> {
        let mut rows = Vec::new();
        for client in Client::ALL {
            for scope in Scope::ALL {
                // Without a home there is no file of one's own to speak of.
                let Ok(files) = client.files(scope, self.workspace, self.environment) else {
                    continue;
                };
                let Some(usual) = files.first().cloned() else { continue };
                let (file, status) = match self.file_of(client, scope) {
                    Ok(found) => (found.path.clone(), status(client, &found, launch)),
                    Err(_) => (usual, "?"),
                };
                rows.push(Row { client, scope, file, status });
            }
        }
        rows
    }

    /// The file that counts: the one with haft in it, else one that is there, else the one to make.
    fn file_of(&self, client: Client, scope: Scope) -> Result<Found, ToolError> {
        let files = client.files(scope, self.workspace, self.environment)?;
        let mut found = files.iter().map(|file| disk::look(file)).collect::<Result<Vec<_>, _>>()?;
        let has_entry = |found: &Found| {
            let text = found.text.as_deref().unwrap_or_default();
            Document::read(client, text).is_ok_and(|document| document.has_entry())
        };
        let idx = found.iter().position(has_entry);
        let idx = idx.or_else(|| found.iter().position(|found| found.text.is_some()));
        Ok(found.swap_remove(idx.unwrap_or(0)))
    }
}

impl Plan {
    /// The change as a unified diff.
    pub(crate) fn diff(&self) -> String {
        let path = self.file.display().to_string();
        difference::unified(&path, self.before.as_deref(), self.after.as_deref())
    }

    /// Makes the change and returns where the copy of the old file is, if there is one.
    ///
    /// # Errors
    /// Of kind `conflict` when the file is not what it was any more; nothing is written then, nor when anything else
    /// goes wrong.
    pub(crate) fn carry_out(self, environment: &Environment) -> Result<Option<PathBuf>, ToolError> {
        self.check_unchanged()?;
        let mut records = Records::load(environment.host.state_home.as_deref())?;
        match (&self.record, &self.after) {
            (None, Some(after)) => self.write(after, &mut records),
            (Some(change), _) => self.take_back(change, &mut records),
            (None, None) => Ok(None),
        }
    }

    /// While somebody was asked, the client may have written its file.
    fn check_unchanged(&self) -> Result<(), ToolError> {
        if disk::look(&self.file)?.text == self.before {
            return Ok(());
        }
        let message = format!("{} was changed by somebody else meanwhile", self.file.display());
        Err(ToolError::conflict(message).hint("call again to see the change as it would be now"))
    }

    fn write(&self, after: &str, records: &mut Records) -> Result<Option<PathBuf>, ToolError> {
        let made = disk::make_folder_of(&self.file)?;
        let backup =
            self.before.as_deref().map(|before| disk::back_up(&self.file, before)).transpose()?;
        let change = Change {
            client: self.client.name().to_owned(),
            file: self.file.clone(),
            backup: backup.clone(),
            before: self.before.as_deref().map(record::hash),
            after: record::hash(after),
            made,
        };
        // Remembered first: a change that is remembered and was not made is noticed by its hash, the other way round
        // nobody could take it back.
        let written = records.add(change.clone()).and_then(|()| {
            // Should forgetting fail too, the hash tells that the change was not made.
            let forget = |_: &ToolError| drop(records.forget(&change));
            disk::replace(&self.file, after).inspect_err(forget)
        });
        written.inspect_err(|_| {
            let _ = backup.as_deref().map(disk::remove);
            remove_folders(&change.made);
        })?;
        Ok(backup)
    }

    fn take_back(
        &self,
        change: &Change,
        records: &mut Records,
    ) -> Result<Option<PathBuf>, ToolError> {
        match (self.deed, &self.after) {
            (Deed::AlreadyBack, _) => {}
            (_, Some(after)) => disk::replace(&self.file, after)?,
            (_, None) => {
                disk::remove(&self.file)?;
                remove_folders(&change.made);
            }
        }
        records.forget(change)?;
        // A copy of what is there again is of no use; one of what was there before others changed it may be.
        let backup = change.backup.clone();
        if self.deed == Deed::TakeOut {
            return Ok(backup);
        }
        backup.map_or(Ok(()), |backup| disk::remove(&backup))?;
        Ok(None)
    }
}

fn plan_of_undoing(client: Client, scope: Scope, change: Change) -> Result<Plan, ToolError> {
    let before = disk::look(&change.file)?.text;
    let now = before.as_deref().map(record::hash);
    let backup = change.backup.as_ref().and_then(|backup| disk::look(backup).ok()?.text);
    let backup = backup.filter(|text| Some(record::hash(text)) == change.before);
    let (deed, after) = match &before {
        None => (Deed::AlreadyBack, None),
        Some(_) if now == change.before => (Deed::AlreadyBack, before.clone()),
        Some(_) if now.as_ref() == Some(&change.after) && change.before.is_none() => {
            (Deed::RemoveFile, None)
        }
        Some(_) if now.as_ref() == Some(&change.after) && backup.is_some() => {
            (Deed::Restore, backup)
        }
        Some(text) => {
            let document = Document::read(client, text);
            let document = document.map_err(|fault| faulty(&change.file, text, &fault))?;
            let after = document.without().map_err(|why| refused(&change.file, text, why))?;
            let deed = if after == *text { Deed::AlreadyBack } else { Deed::TakeOut };
            (deed, Some(after))
        }
    };
    let file = change.file.clone();
    Ok(Plan { client, scope, deed, file, before, after, record: Some(change) })
}

fn status(client: Client, found: &Found, launch: &Launch) -> &'static str {
    let Some(text) = &found.text else { return "-" };
    match Document::read(client, text).map(|document| document.present(launch)) {
        Ok(Present::Same) => "yes",
        Ok(Present::Other) => "other",
        Ok(Present::Nothing) => "no",
        Err(_) => "?",
    }
}

/// Takes away the folders that were made, as long as nothing else is in them.
fn remove_folders(made: &[PathBuf]) {
    for folder in made.iter().rev() {
        // The first one that is in use keeps the ones around it too.
        if std::fs::remove_dir(folder).is_err() {
            return;
        }
    }
}

fn nothing_to_undo(client: Client, records: &Records) -> ToolError {
    let name = client.name();
    let hint = match records.elsewhere(client) {
        Some(file) => {
            format!("the last change was to {}; call from that project", file.display())
        }
        None => format!("`haft init {name} --print` shows what to take out by hand"),
    };
    ToolError::not_found(format!("haft has changed nothing of {name} here")).hint(hint)
}

fn faulty(file: &Path, text: &str, fault: &Fault) -> ToolError {
    let (line, column) = fault.place(text.trim_start_matches('\u{feff}'));
    ToolError::input(format!("{}:{line}:{column}: {}", file.display(), fault.problem)).hint(BY_HAND)
}

fn refused(file: &Path, text: &str, refusal: Refusal) -> ToolError {
    match refusal {
        Refusal::Faulty(fault) => faulty(file, text, &fault),
        Refusal::Unsafe => {
            let message = format!(
                "{} was left alone: the edit would have changed more than haft's entry",
                file.display()
            );
            ToolError::new(ErrorKind::Internal, message).hint(BY_HAND)
        }
    }
}
