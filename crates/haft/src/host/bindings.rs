//! Which secrets are for certain hosts only, as config files and the vault say. The network client sends those to no other
//! host, so that nobody has to be asked about them.

use std::{ffi::OsString, sync::Arc};

use haft_core::SecretHosts;
use haft_exec::Credential;
use haft_store::StoreVault;

/// Answers for the secrets of a person.
pub(super) struct Bindings {
    pub(super) credentials: Vec<Credential>,
    pub(super) vault: Option<Arc<StoreVault>>,
    pub(super) variables: fn() -> Vec<(OsString, OsString)>,
}

impl SecretHosts for Bindings {
    fn is_bound(&self, name: &str) -> bool {
        let known = self.credentials.iter().find(|known| known.name == name);
        if known.is_some_and(|known| !known.hosts.is_empty()) {
            return true;
        }
        // A variable goes before the vault, and then nobody asks the vault for hosts.
        let variable = known.map(|known| known.variable.clone());
        let variable = OsString::from(variable.unwrap_or_else(|| format!("HAFT_SECRET_{name}")));
        if (self.variables)().iter().any(|(known, value)| *known == variable && !value.is_empty()) {
            return false;
        }
        // A vault that cannot be read gives no secret away either; then it is asked about.
        let kept = self.vault.as_ref().and_then(|vault| vault.list().ok()).unwrap_or_default();
        kept.iter().any(|kept| kept.name == name && !kept.hosts.is_empty())
    }
}
