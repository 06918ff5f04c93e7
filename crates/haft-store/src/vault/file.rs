//! The file of secrets: its contents, and how it changes (under a lock, completely or not at all).
//! Its owner can read names, hosts and times without a key; they are authenticated together with
//! the values.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use data_encoding::HEXLOWER_PERMISSIVE as HEX;
use haft_core::{ErrorKind, ToolError, is_secret_name};
use serde::{Deserialize, Serialize};

use super::key::KeyLocation;
use crate::seal::Envelope;

const VERSION: u64 = 1;
const NAME: &str = "secrets.json";
const LOCK: &str = "secrets.lock";
const DRAFT_PREFIX: &str = "secrets.new-";
/// Upper limit of the file size. A user's secrets take a few kilobytes.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// A process that changes the file holds the lock for milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SecretsFile {
    version: u64,
    pub(super) key: KeyLocation,
    /// Opens with the right key only, which distinguishes a wrong key from a damaged file.
    check: String,
    pub(super) secrets: Vec<SecretEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SecretEntry {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) hosts: Vec<String>,
    pub(super) set_ms: u64,
    sealed: String,
}

/// Identifies one state of the file: every change replaces the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SecretsFileStamp {
    identity: (u64, u64),
    bytes: u64,
    changed: (i64, i64),
}

pub(super) struct SecretsFolder(PathBuf);

impl SecretsFile {
    pub(super) fn new(key: KeyLocation, envelope: &Envelope) -> Result<Self, ToolError> {
        let check = HEX.encode(&envelope.close(&["check"], Vec::new())?);
        Ok(Self { version: VERSION, key, check, secrets: Vec::new() })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.secrets.iter().any(|entry| entry.name == name)
    }

    pub(super) fn put(&mut self, entry: SecretEntry) {
        self.secrets.retain(|known| known.name != entry.name);
        self.secrets.push(entry);
    }

    pub(super) fn check_key(
        &self,
        envelope: &Envelope,
        folder: &SecretsFolder,
    ) -> Result<(), ToolError> {
        let check = HEX
            .decode(self.check.as_bytes())
            .map_err(|_| folder.damaged("its check value is not hexadecimal"))?;
        match envelope.open(&["check"], &check) {
            Some(_) => Ok(()),
            None => Err(self.key.wrong_key(&folder.file())),
        }
    }
}

impl SecretEntry {
    pub(super) fn closed(
        name: &str,
        value: &str,
        hosts: Vec<String>,
        set_ms: u64,
        envelope: &Envelope,
    ) -> Result<Self, ToolError> {
        let mut entry = Self { name: name.to_owned(), hosts, set_ms, sealed: String::new() };
        entry.sealed = HEX.encode(&entry.with_subject(|it| envelope.close(it, value.into()))?);
        Ok(entry)
    }

    pub(super) fn opened(
        &self,
        envelope: &Envelope,
        folder: &SecretsFolder,
    ) -> Result<String, ToolError> {
        let opened = HEX
            .decode(self.sealed.as_bytes())
            .ok()
            .and_then(|sealed| self.with_subject(|it| envelope.open(it, &sealed)))
            .and_then(|value| String::from_utf8(value).ok());
        opened.ok_or_else(|| {
            let name: String = self.name.chars().take(80).collect();
            let path = folder.file();
            ToolError::unavailable(format!(
                "the secret `{name}` in {} is damaged or was modified",
                path.display()
            ))
            .hint(format!("remove it with `haft secret remove {name}`, then set it again"))
        })
    }

    /// Binds a value to its name, hosts and time: with any other, it does not open.
    fn with_subject<T>(&self, use_it: impl FnOnce(&[&str]) -> T) -> T {
        let time = self.set_ms.to_string();
        let mut subject = vec!["secret", &self.name, &time];
        subject.extend(self.hosts.iter().map(String::as_str));
        use_it(&subject)
    }
}

impl SecretsFolder {
    pub(super) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    pub(super) fn file(&self) -> PathBuf {
        self.0.join(NAME)
    }

    pub(super) fn exists(&self) -> Result<bool, ToolError> {
        Ok(self.stamp()?.is_some())
    }

    /// Returns the state of the file with one `stat` call. `None` if the file is missing.
    pub(super) fn stamp(&self) -> Result<Option<SecretsFileStamp>, ToolError> {
        match fs::metadata(self.file()) {
            Ok(metadata) => Ok(Some(SecretsFileStamp::of(&metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.unreadable(&error)),
        }
    }

    pub(super) fn read(&self) -> Result<Option<(SecretsFile, SecretsFileStamp)>, ToolError> {
        let file = match File::open(self.file()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.unreadable(&error)),
        };
        let metadata = file.metadata().map_err(|error| self.unreadable(&error))?;
        if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
            return Err(self.damaged("it is not a secrets file"));
        }
        let text = io::read_to_string(file).map_err(|error| self.unreadable(&error))?;
        Ok(Some((self.parsed(&text)?, SecretsFileStamp::of(&metadata))))
    }

    fn parsed(&self, text: &str) -> Result<SecretsFile, ToolError> {
        /// The field that every version has.
        #[derive(Deserialize)]
        struct AnyVersion {
            version: u64,
        }
        let damaged = |error: serde_json::Error| {
            // The parser's own message could quote a value.
            self.damaged(&format!("syntax error in line {}", error.line()))
        };
        let AnyVersion { version } = serde_json::from_str(text).map_err(damaged)?;
        if version > VERSION {
            let message = format!(
                "{} has version {version}, but this haft supports versions up to {VERSION}",
                self.file().display()
            );
            return Err(ToolError::new(ErrorKind::Unsupported, message)
                .hint("use the newer haft that wrote it; the file was not changed"));
        }
        let file: SecretsFile = serde_json::from_str(text).map_err(damaged)?;
        match file.secrets.iter().all(|entry| is_secret_name(&entry.name)) {
            true => Ok(file),
            false => Err(self.damaged("it contains an invalid name")),
        }
    }

    /// Locks the file against changes by other processes.
    pub(super) fn lock(&self) -> Result<File, ToolError> {
        let fail = |error: &io::Error| {
            let folder = self.0.display();
            ToolError::unavailable(format!("secrets cannot be changed in {folder}: {error}"))
                .hint("check that the directory is writable and the disk has space")
        };
        let open = || {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
            let options = &mut OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600).open(self.0.join(LOCK))
        };
        let lock = open().map_err(|error| fail(&error))?;
        let begun = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_TIMEOUT => {
                    thread::sleep(LOCK_RETRY_INTERVAL)
                }
                Err(TryLockError::WouldBlock) => {
                    let message =
                        format!("another haft process is changing {}", self.file().display());
                    return Err(ToolError::unavailable(message).hint("retry when it is done"));
                }
                Err(TryLockError::Error(error)) => return Err(fail(&error)),
            }
        }
    }

    /// Replaces the file. The caller must hold the lock.
    pub(super) fn write(&self, file: &SecretsFile) -> Result<(), ToolError> {
        let text = serde_json::to_string_pretty(file)
            .map_err(|error| ToolError::internal(format!("secrets cannot be written: {error}")))?;
        self.replace(&text).map_err(|error| {
            ToolError::unavailable(format!("{} cannot be written: {error}", self.file().display()))
                .hint("check that the directory is writable and the disk has space")
        })
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        self.sweep();
        let draft = self.0.join(format!("{DRAFT_PREFIX}{}", std::process::id()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(text.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&draft, self.file())?;
        File::open(&self.0)?.sync_all()
    }

    /// Removes the file after its last secret was removed. The caller must hold the lock.
    pub(super) fn clear(&self) -> Result<(), ToolError> {
        self.sweep();
        fs::remove_file(self.file()).map_err(|error| self.unreadable(&error))
    }

    /// Removes drafts of killed processes. A living process would hold the lock.
    fn sweep(&self) {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        for entry in entries {
            if entry.file_name().to_string_lossy().starts_with(DRAFT_PREFIX) {
                // A draft that cannot be removed does no harm.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn damaged(&self, why: &str) -> ToolError {
        let path = self.file();
        let path = path.display();
        ToolError::unavailable(format!("the secrets in {path} are damaged: {why}")).hint(format!(
            "restore a copy, or move the file away with `mv {path} {path}.damaged` and set the \
             secrets again; haft does not change it"
        ))
    }

    fn unreadable(&self, error: &io::Error) -> ToolError {
        let path = self.file();
        ToolError::unavailable(format!("the secrets in {} cannot be read: {error}", path.display()))
            .hint("fix the permissions of the file and its directory")
    }
}

impl SecretsFileStamp {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            identity: (metadata.dev(), metadata.ino()),
            bytes: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}
