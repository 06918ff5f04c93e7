//! What files and the command line say about the store. A project's file says nothing: it came with the code, and would
//! send the record of every call wherever its author likes.

use std::{path::Path, time::Duration};

use haft_core::ToolError;
use haft_store::{EventRetention, LedgerRetention, StoreAddress};

use super::{
    file::{File, Section},
    keys,
};
use crate::host::Choices;

/// The store of a workspace when nobody names another.
const USUAL: &str = ".haft/haft.db";

/// What one file says.
#[derive(Clone, Default)]
pub(super) struct StoreWords {
    address: Option<StoreAddress>,
    records: Option<bool>,
    results: Option<bool>,
    most_events: Option<usize>,
    event_days: Option<usize>,
    ledger_days: Option<usize>,
    ledger_bytes: Option<usize>,
    elsewhere: Option<bool>,
}

/// Where calls are recorded, and whether they are.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// The file or the server.
    pub address: StoreAddress,
    /// Whether calls are recorded.
    pub records: bool,
    /// Whether whole results are kept too.
    pub keeps_results: bool,
    /// How many events are kept.
    pub retention: EventRetention,
    /// How much of the ledger is kept.
    pub ledger: LedgerRetention,
    /// Whether a question waits for `haft approvals` where nobody can be asked.
    pub asks_elsewhere: bool,
}

impl Section<'_> {
    pub(super) fn store(&self) -> Result<StoreWords, ToolError> {
        let elsewhere = match self.table("approvals")? {
            Some(table) => {
                let section = Section { path: "approvals.", table, ..*self };
                section.check_keys(&keys::APPROVALS)?;
                section.flag("elsewhere")?
            }
            None => None,
        };
        let Some(table) = self.table("store")? else {
            return Ok(StoreWords { elsewhere, ..StoreWords::default() });
        };
        let section = Section { path: "store.", table, ..*self };
        section.check_keys(&keys::STORE)?;
        let address = match section.text("url")? {
            Some((at, text)) => Some(section.address(at, text)?),
            None => None,
        };
        Ok(StoreWords {
            address,
            records: section.flag("record")?,
            results: section.flag("results")?,
            most_events: section.number("events")?,
            event_days: section.number("event_days")?,
            ledger_days: section.number("ledger_days")?,
            ledger_bytes: section.number("ledger_bytes")?,
            elsewhere,
        })
    }

    fn address(&self, at: usize, text: &str) -> Result<StoreAddress, ToolError> {
        let expanded = match text.strip_prefix("sqlite:") {
            Some(path) => format!("sqlite:{}", self.reader.path(at, path)?),
            None => self.reader.path(at, text)?,
        };
        // Relative to what? The file is not where calls are made.
        let faulty = |hint: &str| {
            let problem = "`store.url`: expected a whole path or `postgres://…`";
            self.reader.fault(at, problem, hint)
        };
        match StoreAddress::parse(&expanded, Path::new("")) {
            Ok(StoreAddress::Sqlite(path)) if !path.is_absolute() => {
                Err(faulty("write the whole path, or begin it with `~/`"))
            }
            Ok(address) => Ok(address),
            Err(error) => Err(faulty(error.next_step())),
        }
    }
}

/// Put together: the admin's word holds, then what was said on the command line, then the person's.
pub(super) fn settled(
    choices: &Choices,
    admin: &[File],
    user: &File,
    (workspace, directory): (&Path, &Path),
) -> Result<StoreSettings, ToolError> {
    let asked =
        choices.store.as_deref().map(|text| StoreAddress::parse(text, directory)).transpose()?;
    let fixed = admin.iter().find_map(|file| Some((file.store.address.clone()?, file)));
    let address = match (fixed, asked) {
        (Some((fixed, file)), Some(asked)) if fixed != asked => {
            let place = &file.layer.file;
            let message = format!("the store {asked} cannot be chosen: {place} sets {fixed}");
            return Err(ToolError::denied(message).hint("leave out --store"));
        }
        (Some((fixed, _)), _) => fixed,
        (None, Some(asked)) => asked,
        (None, None) => {
            let own = user.store.address.clone();
            own.unwrap_or_else(|| usual(workspace))
        }
    };
    let owners = || admin.iter().chain([user]).map(|file| &file.store);
    let records = owners().find_map(|words| words.records);
    let results = owners().find_map(|words| words.results);
    let elsewhere = owners().find_map(|words| words.elsewhere);
    Ok(StoreSettings {
        address,
        records: records.unwrap_or(true),
        keeps_results: results.unwrap_or(false),
        retention: retention(owners),
        ledger: ledger_retention(owners),
        asks_elsewhere: elsewhere.unwrap_or(false) || choices.wait,
    })
}

/// Where a workspace has its store when nothing else is set.
pub fn usual(workspace: &Path) -> StoreAddress {
    StoreAddress::Sqlite(workspace.join(USUAL))
}

fn retention<'a, I: Iterator<Item = &'a StoreWords>>(owners: impl Fn() -> I) -> EventRetention {
    let usual = EventRetention::default();
    let most = owners().find_map(|words| words.most_events);
    let days = owners().find_map(|words| words.event_days);
    EventRetention {
        // The newest one stays: it is being told.
        max_events: most
            .map_or(usual.max_events, |most| u64::try_from(most).unwrap_or(u64::MAX).max(1)),
        max_age: days.map_or(usual.max_age, days_long),
    }
}

fn ledger_retention<'a, I: Iterator<Item = &'a StoreWords>>(
    owners: impl Fn() -> I,
) -> LedgerRetention {
    let default = LedgerRetention::default();
    let days = owners().find_map(|words| words.ledger_days);
    let bytes = owners().find_map(|words| words.ledger_bytes);
    LedgerRetention {
        age: days.map_or(default.age, days_long),
        bytes: bytes.map_or(default.bytes, |bytes| u64::try_from(bytes).unwrap_or(u64::MAX)),
    }
}

fn days_long(days: usize) -> Duration {
    Duration::from_secs(u64::try_from(days).unwrap_or(u64::MAX).saturating_mul(86_400))
}
