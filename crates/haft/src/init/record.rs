//! What haft changed in other programs' configuration, so that it can be taken back: a small file in the person's state
//! folder, newest last. Contents are known by their hashes only.

use std::path::{Path, PathBuf};

use haft_core::ToolError;
use serde::{Deserialize, Serialize};

use super::{clients::Client, disk};

const FILE: &str = "haft/init.json";
/// More than anybody takes back; the oldest are forgotten.
const MOST: usize = 200;

/// One change to one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Change {
    pub(super) client: String,
    /// Where the file really lies.
    pub(super) file: PathBuf,
    /// The copy of what was there; none when haft made the file.
    pub(super) backup: Option<PathBuf>,
    pub(super) before: Option<String>,
    pub(super) after: String,
    /// The folders that had to be made for it.
    #[serde(default)]
    pub(super) made: Vec<PathBuf>,
}

/// All of them.
pub(super) struct Records {
    path: PathBuf,
    changes: Vec<Change>,
}

#[derive(Default, Serialize, Deserialize)]
struct Stored {
    changes: Vec<Change>,
}

impl Records {
    pub(super) fn load(state_home: Option<&Path>) -> Result<Self, ToolError> {
        let folder = state_home.ok_or_else(|| {
            ToolError::unavailable("there is no place to remember the change in: HOME is not set")
                .hint("set HOME or XDG_STATE_HOME, or use `--print` and add the entry by hand")
        })?;
        let path = folder.join(FILE);
        let text = disk::look(&path)?.text.unwrap_or_else(|| "{\"changes\":[]}".to_owned());
        let stored: Stored = serde_json::from_str(&text).map_err(|error| {
            ToolError::input(format!("{} cannot be read: {error}", path.display()))
                .hint("mend it, or remove it and with it the memory of what haft changed")
        })?;
        Ok(Self { path, changes: stored.changes })
    }

    /// The newest change to one of these files.
    pub(super) fn last(&self, client: Client, files: &[PathBuf]) -> Option<&Change> {
        let is_meant =
            |change: &&Change| change.client == client.name() && files.contains(&change.file);
        self.changes.iter().rev().find(is_meant)
    }

    /// The newest change for this client anywhere.
    pub(super) fn elsewhere(&self, client: Client) -> Option<&Path> {
        let mut changes = self.changes.iter().rev();
        changes.find(|change| change.client == client.name()).map(|change| change.file.as_path())
    }

    pub(super) fn add(&mut self, change: Change) -> Result<(), ToolError> {
        self.changes.push(change);
        let n_old = self.changes.len().saturating_sub(MOST);
        self.changes.drain(..n_old);
        self.save()
    }

    /// Known by what it says, not by its place: another haft may have added one meanwhile.
    pub(super) fn forget(&mut self, change: &Change) -> Result<(), ToolError> {
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
            ToolError::unavailable(format!("{} cannot be written: {error}", self.path.display()))
                .hint("paths must be UTF-8 to be remembered; use `--print` instead")
        })?;
        disk::replace(&self.path, &format!("{text}\n"))
    }
}

pub(super) fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}
