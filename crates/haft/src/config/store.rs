//! What files and the command line say about the store. A project's file says nothing: it came with the code, and would
//! send the record of every call wherever its author likes.

use std::path::Path;

use haft_core::ToolError;
use haft_store::Address;

use super::{
    file::{File, Section},
    keys,
};
use crate::globals::Globals;

/// The store of a workspace when nobody names another.
const USUAL: &str = ".haft/haft.db";

/// What one file says.
#[derive(Clone, Default)]
pub(super) struct StoreWords {
    address: Option<Address>,
    records: Option<bool>,
}

/// Where calls are recorded, and whether they are.
#[derive(Clone, Debug)]
pub(crate) struct StoreSettings {
    pub(crate) address: Address,
    pub(crate) records: bool,
}

impl Section<'_> {
    pub(super) fn store(&self) -> Result<StoreWords, ToolError> {
        let Some(table) = self.table("store")? else { return Ok(StoreWords::default()) };
        let section = Section { path: "store.", table, ..*self };
        section.check_keys(&keys::STORE)?;
        let address = match section.text("url")? {
            Some((at, text)) => Some(section.address(at, text)?),
            None => None,
        };
        Ok(StoreWords { address, records: section.flag("record")? })
    }

    fn address(&self, at: usize, text: &str) -> Result<Address, ToolError> {
        let expanded = match text.strip_prefix("sqlite:") {
            Some(path) => format!("sqlite:{}", self.reader.path(at, path)?),
            None => self.reader.path(at, text)?,
        };
        // Relative to what? The file is not where calls are made.
        let faulty = |hint: &str| {
            let problem = "`store.url`: expected a whole path or `postgres://…`";
            self.reader.fault(at, problem, hint)
        };
        match Address::parse(&expanded, Path::new("")) {
            Ok(Address::Sqlite(path)) if !path.is_absolute() => {
                Err(faulty("write the whole path, or begin it with `~/`"))
            }
            Ok(address) => Ok(address),
            Err(error) => Err(faulty(error.next_step())),
        }
    }
}

/// Put together: the admin's word holds, then what was said on the command line, then the person's.
pub(super) fn settled(
    globals: &Globals,
    admin: &[File],
    user: &File,
    (workspace, directory): (&Path, &Path),
) -> Result<StoreSettings, ToolError> {
    let asked = globals.store.as_deref().map(|text| Address::parse(text, directory)).transpose()?;
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
            own.unwrap_or_else(|| Address::Sqlite(workspace.join(USUAL)))
        }
    };
    let records = admin.iter().chain([user]).find_map(|file| file.store.records);
    Ok(StoreSettings { address, records: records.unwrap_or(true) })
}
