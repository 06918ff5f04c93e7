//! Where the key of the secrets is: made from `HAFT_PASSPHRASE`, in the keyring of the desktop, or in a file beside them that
//! only its owner can read.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read},
    num::NonZeroU32,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use data_encoding::HEXLOWER_PERMISSIVE as HEX;
use haft_core::ToolError;
use ring::pbkdf2;
use serde::{Deserialize, Serialize};

use super::keyring::{Fault, Keyring};
use crate::seal::{self, Envelope};

const VARIABLE: &str = "HAFT_PASSPHRASE";
const BUS: &str = "DBUS_SESSION_BUS_ADDRESS";
/// What OWASP advises for this way.
const ROUNDS: u32 = 600_000;
/// A file that wants more is not ours.
const MOST_ROUNDS: u32 = 10_000_000;
const SHORTEST_PASSPHRASE: usize = 8;

/// Where the key of a file of secrets is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "in", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum KeyPlace {
    /// In a file beside the secrets.
    File,
    /// In the keyring of the desktop.
    Keyring,
    /// Nowhere: it is made from what somebody knows.
    Passphrase { salt: String, rounds: u32 },
}

/// Where the key of the first secret is to be. Later ones go where that is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyWanted {
    /// Made from `HAFT_PASSPHRASE` if that is set; in the keyring of the desktop if there is one; in a file beside the secrets.
    #[default]
    Auto,
    /// In the keyring.
    Keyring,
    /// In a file beside the secrets.
    File,
}

type Key = [u8; 32];

pub(super) struct Keys {
    folder: PathBuf,
    variables: fn() -> Vec<(OsString, OsString)>,
    /// The last one that was made from a passphrase or came from a keyring, which takes long.
    made: Mutex<Option<(KeyPlace, Key)>>,
}

impl KeyPlace {
    pub(super) fn words(&self) -> String {
        match self {
            Self::File => "file, its key beside it".to_owned(),
            Self::Keyring => "file, its key in the keyring".to_owned(),
            Self::Passphrase { .. } => format!("file, opened by ${VARIABLE}"),
        }
    }

    /// The key is not the one that closed the file.
    pub(super) fn is_wrong(&self, file: &Path) -> ToolError {
        let file = file.display();
        match self {
            Self::File => ToolError::unavailable(format!("the key beside {file} is not its own"))
                .hint("put the right secrets.key back; without it the secrets are lost and have to be set anew"),
            Self::Keyring => {
                ToolError::unavailable(format!("the key in the keyring is not that of {file}"))
                    .hint("put a copy of the keyring back; without its key the secrets have to be set anew")
            }
            Self::Passphrase { .. } => {
                ToolError::denied(format!("${VARIABLE} does not open {file}"))
                    .hint("give the passphrase that the secrets were set with")
            }
        }
    }
}

impl Keys {
    pub(super) fn new(folder: &Path, variables: fn() -> Vec<(OsString, OsString)>) -> Self {
        Self { folder: folder.to_owned(), variables, made: Mutex::default() }
    }

    /// What a file is opened with.
    pub(super) fn envelope(&self, place: &KeyPlace) -> Result<Envelope, ToolError> {
        let key = match place {
            KeyPlace::File => self.beside()?.ok_or_else(|| {
                let path = self.path();
                ToolError::unavailable(format!(
                    "the key of your secrets, {}, is gone",
                    path.display()
                ))
                .hint("put it back; without it the secrets are lost and have to be set anew")
            })?,
            KeyPlace::Keyring => self.in_keyring()?,
            KeyPlace::Passphrase { salt, rounds } => self.derived(place, salt, *rounds)?,
        };
        Ok(Envelope::of_secrets(&key))
    }

    /// A place for the key of a new file, and what the file is closed with.
    pub(super) fn made(&self, wanted: KeyWanted) -> Result<(KeyPlace, Envelope), ToolError> {
        let place = match self.passphrase().filter(|_| wanted == KeyWanted::Auto) {
            Some(passphrase) if passphrase.chars().count() < SHORTEST_PASSPHRASE => {
                let message =
                    format!("${VARIABLE} is shorter than {SHORTEST_PASSPHRASE} characters");
                return Err(ToolError::input(message)
                    .hint("choose a longer one, or unset it to have a key made"));
            }
            Some(_) => {
                let salt: [u8; 16] = by_chance()?;
                KeyPlace::Passphrase { salt: HEX.encode(&salt), rounds: ROUNDS }
            }
            None if wanted != KeyWanted::File && self.keep_in_keyring(wanted)? => KeyPlace::Keyring,
            None => {
                if self.beside()?.is_none() {
                    seal::make(&self.path()).map_err(|error| self.unusable(&error))?;
                }
                KeyPlace::File
            }
        };
        let envelope = self.envelope(&place)?;
        Ok((place, envelope))
    }

    /// Whether a new key is in the keyring now; if there is none, that is no fault where nobody asked for it.
    fn keep_in_keyring(&self, wanted: KeyWanted) -> Result<bool, ToolError> {
        let (file, key) = (self.file(), by_chance::<32>()?);
        let kept = self.keyring().and_then(|keyring| {
            if keyring.find(&file)?.is_none() {
                keyring.keep(&file, &key)?;
            }
            Ok(())
        });
        match kept {
            Ok(()) => Ok(true),
            Err(Fault::Absent(_)) if wanted == KeyWanted::Auto => Ok(false),
            Err(fault) => Err(no_keyring(&fault)),
        }
    }

    fn in_keyring(&self) -> Result<Key, ToolError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((KeyPlace::Keyring, key)) = &*made {
            return Ok(*key);
        }
        let found = self.keyring().and_then(|keyring| keyring.find(&self.file()));
        let key = found.map_err(|fault| no_keyring(&fault))?.and_then(|key| key.try_into().ok());
        let key = key.ok_or_else(|| {
            ToolError::unavailable("the key of your secrets is not in the keyring any more").hint(
                "put a copy of the keyring back; without its key the secrets have to be set anew",
            )
        })?;
        *made = Some((KeyPlace::Keyring, key));
        Ok(key)
    }

    fn keyring(&self) -> Result<Keyring, Fault> {
        // Nobody looks where a bus might be: a program that was given none is to stay away from it.
        match self.variable(BUS) {
            Some(addresses) => Keyring::open(&addresses),
            None => Err(Fault::Absent(format!("${BUS} is not set"))),
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.join("secrets.json")
    }

    fn path(&self) -> PathBuf {
        self.folder.join("secrets.key")
    }

    /// The key in the file, if there is one.
    fn beside(&self) -> Result<Option<Key>, ToolError> {
        let mut file = match File::open(self.path()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.unusable(&error)),
        };
        let mode = file.metadata().map_err(|error| self.unusable(&error))?.mode() & 0o777;
        if mode & 0o077 != 0 {
            let path = self.path();
            let path = path.display();
            let message =
                format!("the key of your secrets, {path}, is open to others (mode {mode:o})");
            return Err(ToolError::denied(message).hint(format!(
                "close it with `chmod 600 {path}`; if somebody may have read it, change the secrets where they come from"
            )));
        }
        let mut key = Vec::new();
        file.by_ref().take(33).read_to_end(&mut key).map_err(|error| self.unusable(&error))?;
        let key = key.try_into().map_err(|_| self.unusable(&"it is not 32 bytes long"))?;
        Ok(Some(key))
    }

    fn derived(&self, place: &KeyPlace, salt: &str, rounds: u32) -> Result<Key, ToolError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, key)) = made.as_ref().filter(|(known, _)| known == place) {
            return Ok(*key);
        }
        let passphrase = self.passphrase().ok_or_else(|| {
            ToolError::unavailable(format!(
                "your secrets are closed by a passphrase and ${VARIABLE} is not set"
            ))
            .hint(format!("set {VARIABLE} where haft runs"))
        })?;
        let salt = HEX.decode(salt.as_bytes()).ok().filter(|_| rounds <= MOST_ROUNDS);
        let (Some(salt), Some(rounds)) = (salt, NonZeroU32::new(rounds)) else {
            return Err(ToolError::unavailable("the way to the key of your secrets is damaged")
                .hint(
                    "put a copy of secrets.json back, or move it away and set the secrets anew",
                ));
        };
        let mut key = [0; 32];
        let way = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(way, rounds, &salt, passphrase.as_bytes(), &mut key);
        *made = Some((place.clone(), key));
        Ok(key)
    }

    fn passphrase(&self) -> Option<String> {
        self.variable(VARIABLE)
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
        .hint("mend it, or put a copy back; without it the secrets have to be set anew")
    }
}

fn by_chance<const LENGTH: usize>() -> Result<[u8; LENGTH], ToolError> {
    let mut bytes = [0; LENGTH];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| ToolError::internal(format!("no chance to be had: {error}")))?;
    Ok(bytes)
}

fn no_keyring(fault: &Fault) -> ToolError {
    match fault {
        Fault::Locked => ToolError::unavailable("the keyring that has the key of your secrets is locked")
            .hint("unlock it on your desktop and try again; for the first secret `--key file` keeps the key in a file instead"),
        Fault::Absent(why) => ToolError::unavailable(format!("there is no keyring to be had: {why}"))
            .hint("run haft in the session of your desktop, where the keyring is; for the first secret `--key file` keeps the key in a file instead"),
    }
}
