//! Records haft's changes to other programs' configuration, so that they can be undone: a small
//! file in the user's state folder, newest change last. It stores only hashes of contents.

use std::path::{Path, PathBuf};

use haft_core::ToolError;
use serde::{Deserialize, Serialize};

use super::{clients::ClientApp, disk};

const FILE: &str = "haft/init.json";
/// More changes than a user undoes. Older ones are dropped.
const MAX_RECORDS: usize = 200;

/// A change to one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RecordedChange {
    pub(super) client: String,
    /// Path of the file with symbolic links resolved.
    pub(super) file: PathBuf,
    /// The backup of the old content. `None` when haft created the file.
    pub(super) backup: Option<PathBuf>,
    pub(super) before: Option<String>,
    pub(super) after: String,
    /// The folders that were created for the file.
    #[serde(default)]
    pub(super) made: Vec<PathBuf>,
}

/// All recorded changes.
pub(super) struct ChangeRecords {
    path: PathBuf,
    changes: Vec<RecordedChange>,
}

#[derive(Default, Serialize, Deserialize)]
struct Stored {
    changes: Vec<RecordedChange>,
}

impl ChangeRecords {
    pub(super) fn load(state_home: Option<&Path>) -> Result<Self, ToolError> {
        let folder = state_home.ok_or_else(|| {
            ToolError::unavailable("cannot record the change: $HOME is not set")
                .hint("set HOME or XDG_STATE_HOME, or use `--print` and add the entry by hand")
        })?;
        let path = folder.join(FILE);
        let text = disk::read(&path)?.text.unwrap_or_else(|| "{\"changes\":[]}".to_owned());
        let stored: Stored = serde_json::from_str(&text).map_err(|error| {
            ToolError::input(format!("cannot read {}: {error}", path.display()))
                .hint("fix it, or remove it; then haft cannot undo its earlier changes")
        })?;
        Ok(Self { path, changes: stored.changes })
    }

    /// Returns the newest change to one of these files.
    pub(super) fn last(&self, client: ClientApp, files: &[PathBuf]) -> Option<&RecordedChange> {
        let is_meant = |change: &&RecordedChange| {
            change.client == client.name() && files.contains(&change.file)
        };
        self.changes.iter().rev().find(is_meant)
    }

    /// Returns the file of the newest change for this client in any project.
    pub(super) fn elsewhere(&self, client: ClientApp) -> Option<&Path> {
        let mut changes = self.changes.iter().rev();
        changes.find(|change| change.client == client.name()).map(|change| change.file.as_path())
    }

    pub(super) fn add(&mut self, change: RecordedChange) -> Result<(), ToolError> {
        self.changes.push(change);
        let n_old = self.changes.len().saturating_sub(MAX_RECORDS);
        self.changes.drain(..n_old);
        self.save()
    }

    /// Removes a change, found by its content rather than its position: another haft process may
    /// have added one.
    pub(super) fn forget(&mut self, change: &RecordedChange) -> Result<(), ToolError> {
        if let Some(idx) = self.changes.iter().rposition(|known| known == change) {
            self.changes.remove(idx);
        }
        self.save()
    }

    fn save(&mut self) -> Result<(), ToolError> {
        disk::make_folder_of(&self.path)?;
        let stored = Stored { changes: std::mem::take(&mut self.changes) };
        let text = serde_json::to_string_pretty(&stored);
        self.changes = stored.changes;
        let text = text.map_err(|error| {
            ToolError::unavailable(format!("cannot write {}: {error}", self.path.display()))
                .hint("paths must be UTF-8; use `--print` instead")
        })?;
        disk::replace(&self.path, &format!("{text}\n"))
    }
}

pub(super) fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}
