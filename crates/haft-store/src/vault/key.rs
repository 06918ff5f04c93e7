//! The key of the secrets: derived from `HAFT_PASSPHRASE`, kept in the keyring of the desktop, or
//! kept in a file beside the secrets that only its owner can read.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read},
    num::NonZeroU32,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;

use data_encoding::HEXLOWER_PERMISSIVE as HEX;
use haft_core::ToolError;
use ring::pbkdf2;
use serde::{Deserialize, Serialize};

use super::keyring::{Keyring, KeyringError};
use crate::seal::{self, Envelope};

const PASSPHRASE_VARIABLE: &str = "HAFT_PASSPHRASE";
const BUS_VARIABLE: &str = "DBUS_SESSION_BUS_ADDRESS";
/// The number that OWASP recommends for PBKDF2 with SHA-256.
const ROUNDS: u32 = 600_000;
/// Upper limit for the number in a file, which may have been modified.
const MAX_ROUNDS: u32 = 10_000_000;
const MIN_PASSPHRASE_CHARS: usize = 8;

/// Location of the key of a file of secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "in", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum KeyLocation {
    /// In a file beside the secrets.
    File,
    /// In the keyring of the desktop.
    Keyring,
    /// Not stored: derived from a passphrase.
    Passphrase { salt: String, rounds: u32 },
}

/// Location to choose for the key when the first secret is set. Later secrets use the same key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyWanted {
    /// Derived from `HAFT_PASSPHRASE` if that is set; else in the keyring of the desktop if there
    /// is one; else in a file beside the secrets.
    #[default]
    Auto,
    /// In the keyring.
    Keyring,
    /// In a file beside the secrets.
    File,
}

type SecretsKey = [u8; 32];

pub(super) struct KeyStore {
    folder: PathBuf,
    variables: fn() -> Vec<(OsString, OsString)>,
    /// The last key derived from a passphrase or read from a keyring, both of which are slow.
    made: Mutex<Option<(KeyLocation, SecretsKey)>>,
}

impl KeyLocation {
    pub(super) fn description(&self) -> String {
        match self {
            Self::File => "file, its key beside it".to_owned(),
            Self::Keyring => "file, its key in the keyring".to_owned(),
            Self::Passphrase { .. } => format!("file, opened by ${PASSPHRASE_VARIABLE}"),
        }
    }

    /// Reports that the key is not the one that closed the file.
    pub(super) fn wrong_key(&self, file: &Path) -> ToolError {
        let file = file.display();
        match self {
            Self::File => ToolError::unavailable(format!("the key beside {file} does not match it"))
                .hint("restore the right secrets.key; without it the secrets are lost and must be set again"),
            Self::Keyring => {
                ToolError::unavailable(format!("the key in the keyring does not match {file}"))
                    .hint("restore a copy of the keyring; without its key the secrets must be set again")
            }
            Self::Passphrase { .. } => {
                ToolError::denied(format!("${PASSPHRASE_VARIABLE} does not open {file}"))
                    .hint("use the passphrase that the secrets were set with")
            }
        }
    }
}

impl KeyStore {
    pub(super) fn new(folder: &Path, variables: fn() -> Vec<(OsString, OsString)>) -> Self {
        Self { folder: folder.to_owned(), variables, made: Mutex::default() }
    }

    /// Returns the envelope that opens a file.
    pub(super) fn envelope(&self, place: &KeyLocation) -> Result<Envelope, ToolError> {
        let key = match place {
            KeyLocation::File => self.read_key_file()?.ok_or_else(|| {
                let path = self.path();
                ToolError::unavailable(format!(
                    "the key of your secrets, {}, is missing",
                    path.display()
                ))
                .hint("restore it; without it the secrets are lost and must be set again")
            })?,
            KeyLocation::Keyring => self.in_keyring()?,
            KeyLocation::Passphrase { salt, rounds } => self.derived(place, salt, *rounds)?,
        };
        Ok(Envelope::of_secrets(&key))
    }

    /// Creates a key for a new file. Returns its location and the envelope for the file.
    pub(super) fn made(&self, wanted: KeyWanted) -> Result<(KeyLocation, Envelope), ToolError> {
        let place = match self.passphrase().filter(|_| wanted == KeyWanted::Auto) {
            Some(passphrase) if passphrase.chars().count() < MIN_PASSPHRASE_CHARS => {
                let message = format!(
                    "${PASSPHRASE_VARIABLE} is shorter than {MIN_PASSPHRASE_CHARS} characters"
                );
                return Err(ToolError::input(message)
                    .hint("choose a longer one, or unset the variable to use a generated key"));
            }
            Some(_) => {
                let salt: [u8; 16] = random_bytes()?;
                KeyLocation::Passphrase { salt: HEX.encode(&salt), rounds: ROUNDS }
            }
            None if wanted != KeyWanted::File && self.keep_in_keyring(wanted)? => {
                KeyLocation::Keyring
            }
            None => {
                if self.read_key_file()?.is_none() {
                    seal::make(&self.path()).map_err(|error| self.unusable(&error))?;
                }
                KeyLocation::File
            }
        };
        let envelope = self.envelope(&place)?;
        Ok((place, envelope))
    }

    /// Stores a new key in the keyring. Returns false if there is no keyring and none was asked
    /// for.
    fn keep_in_keyring(&self, wanted: KeyWanted) -> Result<bool, ToolError> {
        let (file, key) = (self.file(), random_bytes::<32>()?);
        let kept = self.keyring().and_then(|keyring| {
            if keyring.find(&file)?.is_none() {
                keyring.keep(&file, &key)?;
            }
            Ok(())
        });
        match kept {
            Ok(()) => Ok(true),
            Err(KeyringError::Absent(_)) if wanted == KeyWanted::Auto => Ok(false),
            Err(fault) => Err(keyring_error(&fault)),
        }
    }

    fn in_keyring(&self) -> Result<SecretsKey, ToolError> {
        let mut made = self.made.lock();
        if let Some((KeyLocation::Keyring, key)) = &*made {
            return Ok(*key);
        }
        let found = self.keyring().and_then(|keyring| keyring.find(&self.file()));
        let key = found.map_err(|fault| keyring_error(&fault))?.and_then(|key| key.try_into().ok());
        let key = key.ok_or_else(|| {
            ToolError::unavailable("the key of your secrets is no longer in the keyring").hint(
                "restore a copy of the keyring; without its key the secrets must be set again",
            )
        })?;
        *made = Some((KeyLocation::Keyring, key));
        Ok(key)
    }

    fn keyring(&self) -> Result<Keyring, KeyringError> {
        // haft does not search for a bus: a program that was given no address must not use one.
        match self.variable(BUS_VARIABLE) {
            Some(addresses) => Keyring::open(&addresses),
            None => Err(KeyringError::Absent(format!("${BUS_VARIABLE} is not set"))),
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.join("secrets.json")
    }

    fn path(&self) -> PathBuf {
        self.folder.join("secrets.key")
    }

    /// Reads the key file, if there is one.
    fn read_key_file(&self) -> Result<Option<SecretsKey>, ToolError> {
        let mut file = match File::open(self.path()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.unusable(&error)),
        };
        let mode = file.metadata().map_err(|error| self.unusable(&error))?.mode() & 0o777;
        if mode & 0o077 != 0 {
            let path = self.path();
            let path = path.display();
            let message = format!(
                "the key of your secrets, {path}, is accessible to other users (mode {mode:o})"
            );
            return Err(ToolError::denied(message).hint(format!(
                "close it with `chmod 600 {path}`; if another user may have read it, replace the secrets at their issuers"
            )));
        }
        let mut key = Vec::new();
        file.by_ref().take(33).read_to_end(&mut key).map_err(|error| self.unusable(&error))?;
        let key = key.try_into().map_err(|_| self.unusable(&"it is not 32 bytes long"))?;
        Ok(Some(key))
    }

    fn derived(
        &self,
        place: &KeyLocation,
        salt: &str,
        rounds: u32,
    ) -> Result<SecretsKey, ToolError> {
        let mut made = self.made.lock();
        if let Some((_, key)) = made.as_ref().filter(|(known, _)| known == place) {
            return Ok(*key);
        }
        let passphrase = self.passphrase().ok_or_else(|| {
            ToolError::unavailable(format!(
                "your secrets need a passphrase, but ${PASSPHRASE_VARIABLE} is not set"
            ))
            .hint(format!("set {PASSPHRASE_VARIABLE} in the environment of haft"))
        })?;
        let salt = HEX.decode(salt.as_bytes()).ok().filter(|_| rounds <= MAX_ROUNDS);
        let (Some(salt), Some(rounds)) = (salt, NonZeroU32::new(rounds)) else {
            return Err(ToolError::unavailable("the key parameters of your secrets are damaged")
                .hint(
                    "restore a copy of secrets.json, or move it away and set the secrets again",
                ));
        };
        let mut key = [0; 32];
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(algorithm, rounds, &salt, passphrase.as_bytes(), &mut key);
        *made = Some((place.clone(), key));
        Ok(key)
    }

    fn passphrase(&self) -> Option<String> {
        self.variable(PASSPHRASE_VARIABLE)
    }

    fn variable(&self, name: &str) -> Option<String> {
        let set = (self.variables)().into_iter().find(|(known, _)| known == name);
        set.and_then(|(_, value)| value.into_string().ok()).filter(|value| !value.is_empty())
    }

    fn unusable(&self, why: &dyn std::fmt::Display) -> ToolError {
        let path = self.path();
        ToolError::unavailable(format!(
            "the key of your secrets, {}, cannot be used: {why}",
            path.display()
        ))
        .hint("fix it or restore a copy; without it the secrets must be set again")
    }
}

fn random_bytes<const LENGTH: usize>() -> Result<[u8; LENGTH], ToolError> {
    let mut bytes = [0; LENGTH];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| ToolError::internal(format!("no random numbers available: {error}")))?;
    Ok(bytes)
}

fn keyring_error(fault: &KeyringError) -> ToolError {
    match fault {
        KeyringError::Locked => ToolError::unavailable("the keyring that has the key of your secrets is locked")
            .hint("unlock it on your desktop and retry; for the first secret `--key file` keeps the key in a file instead"),
        KeyringError::Absent(why) => ToolError::unavailable(format!("no keyring is available: {why}"))
            .hint("run haft in your desktop session, which has the keyring; for the first secret `--key file` keeps the key in a file instead"),
    }
}
