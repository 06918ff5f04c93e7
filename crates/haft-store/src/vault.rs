//! A user's secrets: each value is sealed separately in a file, and the key is kept elsewhere.
//! Nothing is read before a caller asks; on a machine without secrets that costs one `stat` call.

mod file;
mod key;
mod keyring;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};

use haft_core::{
    Secret, ToolError, Vault, block_in_place, invalid_secret_reason, is_secret_name, nearest,
    now_ms,
};

pub use self::key::KeyWanted;
use self::{
    file::{SecretEntry, SecretsFile, SecretsFileStamp, SecretsFolder},
    key::KeyStore,
};
use crate::seal::Envelope;

/// Maximum delay until redaction in this process knows a secret that another process has set. A
/// lookup by name sees it at once.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The secrets of a user, in a separate directory.
pub struct StoreVault {
    folder: SecretsFolder,
    keys: KeyStore,
    begun: Instant,
    /// Set after the file was read for the first time. Until then all threads wait, because no text
    /// may be shown before the secrets in it are known.
    first_check: OnceLock<()>,
    /// Time of the next check of the file, in milliseconds since `begun`.
    next_check: AtomicU64,
    version: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The state of the file that `secrets` was read from.
    stamp: Option<SecretsFileStamp>,
    secrets: BTreeMap<String, Secret>,
    /// All secrets that this process has ever read.
    known: Vec<(String, String)>,
}

/// A secret as listed, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptSecret {
    /// Name used in requests and commands.
    pub name: String,
    /// Hosts that may receive it. Empty: every host and every command.
    pub hosts: Vec<String>,
    /// Time when it was set, in milliseconds since 1970.
    pub set_ms: u64,
    /// Description of where it is stored.
    pub place: String,
}

/// The action if a secret of the same name exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Keep the existing one.
    Keep,
    /// Replace it.
    Replace,
}

impl StoreVault {
    /// Creates a vault without opening anything. `folder` belongs to the user and lies outside
    /// every workspace. `variables` is called for `HAFT_PASSPHRASE` and `DBUS_SESSION_BUS_ADDRESS`
    /// when there is a secret to open.
    pub fn new(folder: &Path, variables: fn() -> Vec<(OsString, OsString)>) -> Arc<Self> {
        Arc::new(Self {
            folder: SecretsFolder::new(folder),
            keys: KeyStore::new(folder, variables),
            begun: Instant::now(),
            first_check: OnceLock::new(),
            next_check: AtomicU64::new(RECHECK_INTERVAL.as_millis() as u64),
            version: AtomicU64::new(0),
            state: Mutex::default(),
        })
    }

    /// Returns the path of the file, which may not exist.
    pub fn path(&self) -> PathBuf {
        self.folder.file()
    }

    /// Lists everything but the values, sorted by name. Needs no key.
    ///
    /// # Errors
    /// Fails if the file is damaged, has a later version, or cannot be read.
    pub fn list(&self) -> Result<Vec<KeptSecret>, ToolError> {
        let Some((file, _)) = self.folder.read()? else { return Ok(Vec::new()) };
        let place = file.key.description();
        let mut kept: Vec<KeptSecret> = file
            .secrets
            .into_iter()
            .map(|SecretEntry { name, hosts, set_ms, .. }| KeptSecret {
                name,
                hosts,
                set_ms,
                place: place.clone(),
            })
            .collect();
        kept.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(kept)
    }

    /// Stores a secret. Trims white space around the value.
    ///
    /// # Errors
    /// `input` for an invalid name, value or host, `conflict` when the secret exists and `existing`
    /// says to keep it; else when the file or its key cannot be used. After an error nothing is
    /// changed.
    pub fn set(
        &self,
        name: &str,
        value: &str,
        hosts: &[String],
        existing: Existing,
    ) -> Result<KeptSecret, ToolError> {
        self.set_with(name, value, hosts, existing, KeyWanted::Auto)
    }

    /// Stores a secret like [`StoreVault::set`]; `wanted` chooses the location of the key if this
    /// is the first secret.
    ///
    /// # Errors
    /// As [`StoreVault::set`].
    pub fn set_with(
        &self,
        name: &str,
        value: &str,
        hosts: &[String],
        existing: Existing,
        wanted: KeyWanted,
    ) -> Result<KeptSecret, ToolError> {
        check_name(name)?;
        if let Some(fault) = invalid_secret_reason(value) {
            return Err(ToolError::input(format!("the value of `{name}` cannot be stored: {fault}"))
                .hint("use one line of 6 to 32768 characters; put a value with several lines, such as a private key, in a file"));
        }
        let hosts = hosts.iter().map(|host| host_name(host)).collect::<Result<Vec<_>, _>>()?;
        let _lock = self.folder.lock()?;
        let found = self.folder.read()?.map(|(file, _)| file);
        if found.as_ref().is_some_and(|file| file.has(name)) && existing == Existing::Keep {
            return Err(exists(name));
        }
        let (mut file, envelope) = match found {
            Some(file) => {
                let envelope = self.keys.envelope(&file.key)?;
                // Adds nothing with a different key, or beside an entry that cannot be opened.
                self.opened(&file, &envelope)?;
                (file, envelope)
            }
            None => {
                let (place, envelope) = self.keys.made(wanted)?;
                (SecretsFile::new(place, &envelope)?, envelope)
            }
        };
        let entry = SecretEntry::closed(name, value.trim(), hosts.clone(), now_ms(), &envelope)?;
        let kept = KeptSecret {
            name: name.to_owned(),
            hosts,
            set_ms: entry.set_ms,
            place: file.key.description(),
        };
        file.put(entry);
        self.folder.write(&file)?;
        Ok(kept)
    }

    /// Removes a secret. Needs no key.
    ///
    /// # Errors
    /// `not_found` for an unknown name.
    pub fn remove(&self, name: &str) -> Result<(), ToolError> {
        let unknown = |file: Option<&SecretsFile>| {
            let names = file.iter().flat_map(|file| &file.secrets).map(|entry| entry.name.as_str());
            let hint = match haft_core::did_you_mean(&nearest(name, names)) {
                near if near.is_empty() => "list the secrets with `haft secret list`".to_owned(),
                near => near,
            };
            let shown: String = name.chars().take(80).collect();
            ToolError::not_found(format!(
                "there is no secret `{shown}` in {}",
                self.path().display()
            ))
            .hint(hint)
        };
        if !self.folder.exists()? {
            return Err(unknown(None));
        }
        let _lock = self.folder.lock()?;
        let Some((mut file, _)) = self.folder.read()? else { return Err(unknown(None)) };
        if !file.has(name) {
            return Err(unknown(Some(&file)));
        }
        file.secrets.retain(|entry| entry.name != name);
        match file.secrets.is_empty() {
            true => self.folder.clear(),
            false => self.folder.write(&file),
        }
    }

    fn opened(
        &self,
        file: &SecretsFile,
        envelope: &Envelope,
    ) -> Result<BTreeMap<String, Secret>, ToolError> {
        file.check_key(envelope, &self.folder)?;
        let open = |entry: &SecretEntry| {
            let value = entry.opened(envelope, &self.folder)?;
            Ok((entry.name.clone(), Secret { value, hosts: entry.hosts.clone() }))
        };
        file.secrets.iter().map(open).collect()
    }

    /// Reads the file again if it was replaced.
    fn refresh(&self) -> Result<MutexGuard<'_, State>, ToolError> {
        let mut state = self.state.lock();
        if self.folder.stamp()? == state.stamp {
            return Ok(state);
        }
        let (secrets, stamp) = match self.folder.read()? {
            Some((file, stamp)) => {
                let envelope = self.keys.envelope(&file.key)?;
                (self.opened(&file, &envelope)?, Some(stamp))
            }
            None => (BTreeMap::new(), None),
        };
        let mut has_new = false;
        for (name, secret) in &secrets {
            if !state.known.iter().any(|(known, value)| known == name && *value == secret.value) {
                state.known.push((name.clone(), secret.value.clone()));
                has_new = true;
            }
        }
        (state.secrets, state.stamp) = (secrets, stamp);
        if has_new {
            self.version.fetch_add(1, Ordering::Release);
        }
        Ok(state)
    }
}

impl Vault for StoreVault {
    fn find(&self, name: &str) -> Result<Option<Secret>, ToolError> {
        Ok(self.refresh()?.secrets.get(name).cloned())
    }

    fn version(&self) -> u64 {
        // A secret that cannot be opened now cannot leak either; a lookup by name reports the
        // cause.
        let refresh = || drop(block_in_place(|| self.refresh().map(drop)));
        self.first_check.get_or_init(refresh);
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let due = self.next_check.load(Ordering::Relaxed);
        let next = now + RECHECK_INTERVAL.as_millis() as u64;
        let is_mine = now >= due
            && self
                .next_check
                .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if is_mine {
            refresh();
        }
        self.version.load(Ordering::Acquire)
    }

    fn known(&self) -> Vec<(String, String)> {
        self.state.lock().known.clone()
    }
}

impl std::fmt::Debug for StoreVault {
    /// Shows the path, but none of the contents.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreVault").field("path", &self.path()).finish_non_exhaustive()
    }
}

fn check_name(name: &str) -> Result<(), ToolError> {
    if is_secret_name(name) {
        return Ok(());
    }
    let shown: String = name.chars().take(80).collect();
    Err(ToolError::input(format!("{shown:?} cannot be the name of a secret"))
        .hint("use 1 to 64 letters, digits and `_`, as in GH_TOKEN"))
}

/// Normalizes a host name for comparison with requests.
fn host_name(text: &str) -> Result<String, ToolError> {
    let host = text.trim().trim_end_matches('.').to_ascii_lowercase();
    let bare = host.strip_prefix("*.").unwrap_or(&host);
    let is_host = !bare.is_empty()
        && bare.len() <= 253
        && !bare.starts_with('.')
        && bare.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':'))
        && (!bare.contains(':') || bare.parse::<std::net::Ipv6Addr>().is_ok());
    if is_host {
        return Ok(host);
    }
    let shown: String = text.chars().take(80).collect();
    Err(ToolError::input(format!("{shown:?} is not a host"))
        .hint("use a name without scheme, port and path, as in api.example.org or *.example.org"))
}

fn exists(name: &str) -> ToolError {
    ToolError::conflict(format!("the secret `{name}` already exists"))
        .hint("choose another name, or replace it with --force")
}

#[cfg(test)]
mod tests;
