//! Reads `[journal]`. A project's file may not set it: it must not disable undo for its own
//! changes.

use haft_core::ToolError;
use haft_store::JournalRetention;

use super::{
    file::{ConfigFile, ConfigSection},
    keys,
};

/// The keys that one file sets.
#[derive(Clone, Default)]
pub(super) struct JournalConfig {
    records: Option<bool>,
    days: Option<usize>,
    bytes: Option<usize>,
}

impl ConfigSection<'_> {
    pub(super) fn journal(&self) -> Result<JournalConfig, ToolError> {
        let Some(table) = self.table("journal")? else { return Ok(JournalConfig::default()) };
        let section = ConfigSection { path: "journal.", table, ..*self };
        section.check_keys(&keys::JOURNAL)?;
        Ok(JournalConfig {
            records: section.flag("record")?,
            days: section.number("keep_days")?,
            bytes: section.number("keep_bytes")?,
        })
    }
}

/// Merges the files, with the admin's first. Returns `None` when the journal is off.
pub(super) fn merged<'a>(
    files: impl Iterator<Item = &'a ConfigFile> + Clone,
) -> Option<JournalRetention> {
    let records = files.clone().find_map(|file| file.journal.records).unwrap_or(true);
    let days = files.clone().find_map(|file| file.journal.days);
    let bytes = files.clone().find_map(|file| file.journal.bytes);
    records.then(|| JournalRetention {
        days: days.map_or(JournalRetention::DEFAULT.days, |days| days as u64),
        bytes: bytes.map_or(JournalRetention::DEFAULT.bytes, |bytes| bytes as u64),
    })
}
