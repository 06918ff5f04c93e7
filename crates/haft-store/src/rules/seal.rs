//! The mark that a rule was saved by this person, on this machine, for this folder: a keyed hash. The key lies beside the
//! person's own store, out of reach of workspaces.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use haft_core::{SavedRule, ToolError};

pub(super) struct Key([u8; 32]);

impl Key {
    /// The key, if there is one.
    pub(super) fn existing(path: &Path) -> Result<Option<Self>, ToolError> {
        match fs::read(path) {
            Ok(bytes) => match bytes.try_into() {
                Ok(key) => Ok(Some(Self(key))),
                Err(_) => Err(unusable(path, "it is not 32 bytes long")),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unusable(path, &error.to_string())),
        }
    }

    /// The key, made when there is none.
    pub(super) fn made(path: &Path) -> Result<Self, ToolError> {
        if let Some(key) = Self::existing(path)? {
            return Ok(key);
        }
        make(path).map_err(|error| unusable(path, &error.to_string()))?;
        Self::existing(path)?.ok_or_else(|| unusable(path, "it is gone again"))
    }

    pub(super) fn seal(&self, rule: &SavedRule, whose: &str) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        let expires = rule.expires_ms.map(|at| at.to_string()).unwrap_or_default();
        let saved = rule.saved_ms.to_string();
        let scope = rule.scope.name();
        for part in [whose, &rule.id, &rule.rule, scope, &rule.session, &rule.by, &saved, &expires]
        {
            // With its length, so that no two rules are the same row of letters.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.finalize().to_hex().as_str().to_owned()
    }
}

/// Whole or not at all: of two that make one at once, the first one's stays.
fn make(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut key = [0; 32];
    rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
    let draft = path.with_extension(format!("new-{}", std::process::id()));
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(&key)?;
    file.sync_all()?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    }
}

fn unusable(path: &Path, why: &str) -> ToolError {
    let message = format!("the key of your saved rules, {}, cannot be used: {why}", path.display());
    ToolError::unavailable(message)
        .hint("mend its permissions, or remove it and save the rules anew")
}
