//! The file of secrets: what stands in it, and how it changes: under a lock, whole or not at all. Names, hosts and times can
//! be read by its owner without a key, and are bound to the values.

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

use super::key::KeyPlace;
use crate::seal::Envelope;

const VERSION: u64 = 1;
const NAME: &str = "secrets.json";
const LOCK: &str = "secrets.lock";
const DRAFT: &str = "secrets.new-";
/// A person's secrets are a few kilobytes; more is not ours.
const LONGEST: u64 = 64 << 20;
/// Who changes the file holds the lock for milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
const GLANCE: Duration = Duration::from_millis(5);

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SecretsFile {
    version: u64,
    pub(super) key: KeyPlace,
    /// Opens with the right key and no other, so that a wrong one is told from damage.
    check: String,
    pub(super) secrets: Vec<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) hosts: Vec<String>,
    pub(super) set_ms: u64,
    sealed: String,
}

/// Which file it is: every change makes another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    place: (u64, u64),
    bytes: u64,
    changed: (i64, i64),
}

pub(super) struct Folder(PathBuf);

impl SecretsFile {
    pub(super) fn new(key: KeyPlace, envelope: &Envelope) -> Result<Self, ToolError> {
        let check = HEX.encode(&envelope.close(&["check"], Vec::new())?);
        Ok(Self { version: VERSION, key, check, secrets: Vec::new() })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.secrets.iter().any(|entry| entry.name == name)
    }

    pub(super) fn put(&mut self, entry: Entry) {
        self.secrets.retain(|known| known.name != entry.name);
        self.secrets.push(entry);
    }

    pub(super) fn check_key(&self, envelope: &Envelope, folder: &Folder) -> Result<(), ToolError> {
        let check = HEX
            .decode(self.check.as_bytes())
            .map_err(|_| folder.damaged("its check is no number"))?;
        match envelope.open(&["check"], &check) {
            Some(_) => Ok(()),
            None => Err(self.key.is_wrong(&folder.file())),
        }
    }
}

impl Entry {
    pub(super) fn closed(
        name: &str,
        value: &str,
        hosts: Vec<String>,
        set_ms: u64,
        envelope: &Envelope,
    ) -> Result<Self, ToolError> {
        let mut entry = Self { name: name.to_owned(), hosts, set_ms, sealed: String::new() };
        entry.sealed = HEX.encode(&entry.within(|it| envelope.close(it, value.into()))?);
        Ok(entry)
    }

    pub(super) fn opened(&self, envelope: &Envelope, folder: &Folder) -> Result<String, ToolError> {
        let opened = HEX
            .decode(self.sealed.as_bytes())
            .ok()
            .and_then(|sealed| self.within(|it| envelope.open(it, &sealed)))
            .and_then(|value| String::from_utf8(value).ok());
        opened.ok_or_else(|| {
            let name: String = self.name.chars().take(80).collect();
            let path = folder.file();
            ToolError::unavailable(format!(
                "the secret `{name}` in {} is damaged, or was altered",
                path.display()
            ))
            .hint(format!("have it removed with `haft secret remove {name}` and set anew"))
        })
    }

    /// What a value belongs to: with another name, host or time it does not open.
    fn within<T>(&self, use_it: impl FnOnce(&[&str]) -> T) -> T {
        let time = self.set_ms.to_string();
        let mut subject = vec!["secret", &self.name, &time];
        subject.extend(self.hosts.iter().map(String::as_str));
        use_it(&subject)
    }
}

impl Folder {
    pub(super) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    pub(super) fn file(&self) -> PathBuf {
        self.0.join(NAME)
    }

    pub(super) fn is_there(&self) -> Result<bool, ToolError> {
        Ok(self.stamp()?.is_some())
    }

    /// Costs one look; none when there is no file.
    pub(super) fn stamp(&self) -> Result<Option<Stamp>, ToolError> {
        match fs::metadata(self.file()) {
            Ok(metadata) => Ok(Some(Stamp::of(&metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.unreadable(&error)),
        }
    }

    pub(super) fn read(&self) -> Result<Option<(SecretsFile, Stamp)>, ToolError> {
        let file = match File::open(self.file()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.unreadable(&error)),
        };
        let metadata = file.metadata().map_err(|error| self.unreadable(&error))?;
        if !metadata.is_file() || metadata.len() > LONGEST {
            return Err(self.damaged("it is no file of this kind"));
        }
        let text = io::read_to_string(file).map_err(|error| self.unreadable(&error))?;
        Ok(Some((self.parsed(&text)?, Stamp::of(&metadata))))
    }

    fn parsed(&self, text: &str) -> Result<SecretsFile, ToolError> {
        /// What every version has.
        #[derive(Deserialize)]
        struct AnyVersion {
            version: u64,
        }
        let fault = |error: serde_json::Error| {
            // Its words could quote what stands there.
            self.damaged(&format!("it cannot be read beyond line {}", error.line()))
        };
        let AnyVersion { version } = serde_json::from_str(text).map_err(fault)?;
        if version > VERSION {
            let message = format!(
                "{} is of version {version}, and this haft knows up to {VERSION}",
                self.file().display()
            );
            return Err(ToolError::new(ErrorKind::Unsupported, message)
                .hint("use the newer haft that wrote it; it is left as it is"));
        }
        let file: SecretsFile = serde_json::from_str(text).map_err(fault)?;
        match file.secrets.iter().all(|entry| is_secret_name(&entry.name)) {
            true => Ok(file),
            false => Err(self.damaged("a name in it is none")),
        }
    }

    /// Nobody else changes the file while this is held.
    pub(super) fn lock(&self) -> Result<File, ToolError> {
        let fail = |error: &io::Error| {
            let folder = self.0.display();
            ToolError::unavailable(format!("secrets cannot be changed in {folder}: {error}"))
                .hint("see whether the folder can be written and the disk has room")
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
                Err(TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => {
                    thread::sleep(GLANCE)
                }
                Err(TryLockError::WouldBlock) => {
                    let message = format!("another haft is changing {}", self.file().display());
                    return Err(ToolError::unavailable(message).hint("try again when it is done"));
                }
                Err(TryLockError::Error(error)) => return Err(fail(&error)),
            }
        }
    }

    /// Puts a whole file in the place of the old one. The lock must be held.
    pub(super) fn write(&self, file: &SecretsFile) -> Result<(), ToolError> {
        let text = serde_json::to_string_pretty(file)
            .map_err(|error| ToolError::internal(format!("secrets cannot be written: {error}")))?;
        self.replace(&text).map_err(|error| {
            ToolError::unavailable(format!("{} cannot be written: {error}", self.file().display()))
                .hint("see whether the folder can be written and the disk has room")
        })
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        self.sweep();
        let draft = self.0.join(format!("{DRAFT}{}", std::process::id()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(text.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&draft, self.file())?;
        File::open(&self.0)?.sync_all()
    }

    /// The last secret is gone. The lock must be held.
    pub(super) fn clear(&self) -> Result<(), ToolError> {
        self.sweep();
        fs::remove_file(self.file()).map_err(|error| self.unreadable(&error))
    }

    /// Whoever left a draft was killed: it would hold the lock otherwise.
    fn sweep(&self) {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        for entry in entries {
            if entry.file_name().to_string_lossy().starts_with(DRAFT) {
                // What cannot be removed is no worse than before.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn damaged(&self, why: &str) -> ToolError {
        let path = self.file();
        let path = path.display();
        ToolError::unavailable(format!("the secrets in {path} are damaged: {why}")).hint(format!(
            "put a copy back, or move it away with `mv {path} {path}.damaged` and set the secrets anew; haft leaves it as it is"
        ))
    }

    fn unreadable(&self, error: &io::Error) -> ToolError {
        let path = self.file();
        ToolError::unavailable(format!("the secrets in {} cannot be had: {error}", path.display()))
            .hint("mend the permissions of the file and its folder")
    }
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            place: (metadata.dev(), metadata.ino()),
            bytes: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}
