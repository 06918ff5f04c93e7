//! What files say about the journal of changes. A project's file says nothing: it must not switch off what undoes its own work.

use haft_core::ToolError;
use haft_store::JournalRetention;

use super::{
    file::{File, Section},
    keys,
};

/// What one file says.
#[derive(Clone, Default)]
pub(super) struct JournalWords {
    records: Option<bool>,
    days: Option<usize>,
    bytes: Option<usize>,
}

impl Section<'_> {
    pub(super) fn journal(&self) -> Result<JournalWords, ToolError> {
        let Some(table) = self.table("journal")? else { return Ok(JournalWords::default()) };
        let section = Section { path: "journal.", table, ..*self };
        section.check_keys(&keys::JOURNAL)?;
        Ok(JournalWords {
            records: section.flag("record")?,
            days: section.number("keep_days")?,
            bytes: section.number("keep_bytes")?,
        })
    }
}

/// Put together, the admin's word first; none when nothing is kept.
pub(super) fn settled<'a>(
    files: impl Iterator<Item = &'a File> + Clone,
) -> Option<JournalRetention> {
    let records = files.clone().find_map(|file| file.journal.records).unwrap_or(true);
    let days = files.clone().find_map(|file| file.journal.days);
    let bytes = files.clone().find_map(|file| file.journal.bytes);
    records.then(|| JournalRetention {
        days: days.map_or(JournalRetention::DEFAULT.days, |days| days as u64),
        bytes: bytes.map_or(JournalRetention::DEFAULT.bytes, |bytes| bytes as u64),
    })
}
