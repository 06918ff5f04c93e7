//! Reads `[store]`, `[approvals]` and `--store`. A project's file may not set them: it comes with
//! the code, and could send the record of every call anywhere.

use std::{path::Path, time::Duration};

use haft_core::ToolError;
use haft_store::{EventRetention, LedgerRetention, StoreAddress};

use super::{
    file::{ConfigFile, ConfigSection},
    keys,
};
use crate::host::Choices;

/// Default store of a workspace.
const DEFAULT_STORE: &str = ".haft/haft.db";

/// The keys that one file sets.
#[derive(Clone, Default)]
pub(super) struct StoreConfig {
    address: Option<StoreAddress>,
    records: Option<bool>,
    results: Option<bool>,
    max_events: Option<usize>,
    event_days: Option<usize>,
    ledger_days: Option<usize>,
    ledger_bytes: Option<usize>,
    elsewhere: Option<bool>,
}

/// The merged settings of the store.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// File or database server.
    pub address: StoreAddress,
    /// Records every call.
    pub records: bool,
    /// Keeps whole results too.
    pub keeps_results: bool,
    /// How many events are kept, and how long.
    pub retention: EventRetention,
    /// How much of the ledger is kept, and how long.
    pub ledger: LedgerRetention,
    /// Lets an approval request wait for `haft approvals` when no approver is available here.
    pub asks_elsewhere: bool,
}

impl ConfigSection<'_> {
    pub(super) fn store(&self) -> Result<StoreConfig, ToolError> {
        let elsewhere = match self.table("approvals")? {
            Some(table) => {
                let section = ConfigSection { path: "approvals.", table, ..*self };
                section.check_keys(&keys::APPROVALS)?;
                section.flag("elsewhere")?
            }
            None => None,
        };
        let Some(table) = self.table("store")? else {
            return Ok(StoreConfig { elsewhere, ..StoreConfig::default() });
        };
        let section = ConfigSection { path: "store.", table, ..*self };
        section.check_keys(&keys::STORE)?;
        let address = match section.text("url")? {
            Some((at, text)) => Some(section.address(at, text)?),
            None => None,
        };
        Ok(StoreConfig {
            address,
            records: section.flag("record")?,
            results: section.flag("results")?,
            max_events: section.number("events")?,
            event_days: section.number("event_days")?,
            ledger_days: section.number("ledger_days")?,
            ledger_bytes: section.number("ledger_bytes")?,
            elsewhere,
        })
    }

    fn address(&self, at: usize, text: &str) -> Result<StoreAddress, ToolError> {
        let expanded = match text.strip_prefix("sqlite:") {
            Some(path) => format!("sqlite:{}", self.source.path(at, path)?),
            None => self.source.path(at, text)?,
        };
        // A relative path would be ambiguous, because calls run in other directories than the
        // config file's.
        let invalid = |hint: &str| {
            let problem = "`store.url`: expected an absolute path or `postgres://…`";
            self.source.error(at, problem, hint)
        };
        match StoreAddress::parse(&expanded, Path::new("")) {
            Ok(StoreAddress::Sqlite(path)) if !path.is_absolute() => {
                Err(invalid("write an absolute path, or start it with `~/`"))
            }
            Ok(address) => Ok(address),
            Err(error) => Err(invalid(error.next_step())),
        }
    }
}

/// Merges the files. An admin's address takes precedence, then `--store`, then the user's.
pub(super) fn merged(
    choices: &Choices,
    admin: &[ConfigFile],
    user: &ConfigFile,
    (workspace, directory): (&Path, &Path),
) -> Result<StoreSettings, ToolError> {
    let asked =
        choices.store.as_deref().map(|text| StoreAddress::parse(text, directory)).transpose()?;
    let fixed = admin.iter().find_map(|file| Some((file.store.address.clone()?, file)));
    let address = match (fixed, asked) {
        (Some((fixed, file)), Some(asked)) if fixed != asked => {
            let source = &file.layer.file;
            let message = format!("the store {asked} cannot be used: {source} sets {fixed}");
            return Err(ToolError::denied(message).hint("leave out --store"));
        }
        (Some((fixed, _)), _) => fixed,
        (None, Some(asked)) => asked,
        (None, None) => {
            let own = user.store.address.clone();
            own.unwrap_or_else(|| default_store(workspace))
        }
    };
    let owners = || admin.iter().chain([user]).map(|file| &file.store);
    let records = owners().find_map(|config| config.records);
    let results = owners().find_map(|config| config.results);
    let elsewhere = owners().find_map(|config| config.elsewhere);
    Ok(StoreSettings {
        address,
        records: records.unwrap_or(true),
        keeps_results: results.unwrap_or(false),
        retention: retention(owners),
        ledger: ledger_retention(owners),
        asks_elsewhere: elsewhere.unwrap_or(false) || choices.wait,
    })
}

/// Returns the default store of a workspace.
pub fn default_store(workspace: &Path) -> StoreAddress {
    StoreAddress::Sqlite(workspace.join(DEFAULT_STORE))
}

fn retention<'a, I: Iterator<Item = &'a StoreConfig>>(owners: impl Fn() -> I) -> EventRetention {
    let default = EventRetention::default();
    let max = owners().find_map(|config| config.max_events);
    let days = owners().find_map(|config| config.event_days);
    EventRetention {
        // Keep at least the newest event, which is being delivered.
        max_events: max
            .map_or(default.max_events, |max| u64::try_from(max).unwrap_or(u64::MAX).max(1)),
        max_age: days.map_or(default.max_age, whole_days),
    }
}

fn ledger_retention<'a, I: Iterator<Item = &'a StoreConfig>>(
    owners: impl Fn() -> I,
) -> LedgerRetention {
    let default = LedgerRetention::default();
    let days = owners().find_map(|config| config.ledger_days);
    let bytes = owners().find_map(|config| config.ledger_bytes);
    LedgerRetention {
        age: days.map_or(default.age, whole_days),
        bytes: bytes.map_or(default.bytes, |bytes| u64::try_from(bytes).unwrap_or(u64::MAX)),
    }
}

fn whole_days(days: usize) -> Duration {
    Duration::from_secs(u64::try_from(days).unwrap_or(u64::MAX).saturating_mul(86_400))
}
