//! Finds the secrets that config files or the vault bind to certain hosts. The network client sends
//! such a secret to no other host, so using it needs no approval.

use std::{ffi::OsString, sync::Arc};

use haft_core::SecretHosts;
use haft_exec::Credential;
use haft_store::StoreVault;

/// The bindings of the user's secrets.
pub(super) struct BoundSecrets {
    pub(super) credentials: Vec<Credential>,
    pub(super) vault: Option<Arc<StoreVault>>,
    pub(super) variables: fn() -> Vec<(OsString, OsString)>,
}

impl SecretHosts for BoundSecrets {
    fn is_bound(&self, name: &str) -> bool {
        let known = self.credentials.iter().find(|known| known.name == name);
        if known.is_some_and(|known| !known.hosts.is_empty()) {
            return true;
        }
        // A variable takes precedence over the vault, and then the vault's hosts do not apply.
        let variable = known.map(|known| known.variable.clone());
        let variable = OsString::from(variable.unwrap_or_else(|| format!("HAFT_SECRET_{name}")));
        if (self.variables)().iter().any(|(known, value)| *known == variable && !value.is_empty()) {
            return false;
        }
        // An unreadable vault also returns no secret. Its secrets count as unbound, so that using
        // one needs approval.
        let kept = self.vault.as_ref().and_then(|vault| vault.list().ok()).unwrap_or_default();
        kept.iter().any(|kept| kept.name == name && !kept.hosts.is_empty())
    }
}
