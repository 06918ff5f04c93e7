//! Proof that this user, on this machine, saved a record for this workspace: a keyed hash for
//! rules, which everyone may read, and an encrypted envelope for approvals and secrets. The key
//! lies beside the user's own store, outside of workspaces. Secrets have another key, in another
//! place (`vault/key.rs`).

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use haft_core::{SavedRule, ToolError};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

pub(crate) struct SealKey([u8; 32]);

impl SealKey {
    /// Returns the key, if there is one.
    pub(crate) fn existing(path: &Path) -> Result<Option<Self>, ToolError> {
        match fs::read(path) {
            Ok(bytes) => match bytes.try_into() {
                Ok(key) => Ok(Some(Self(key))),
                Err(_) => Err(unusable(path, "it is not 32 bytes long")),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unusable(path, &error.to_string())),
        }
    }

    /// Returns the key. Creates it if there is none.
    pub(crate) fn made(path: &Path) -> Result<Self, ToolError> {
        if let Some(key) = Self::existing(path)? {
            return Ok(key);
        }
        make(path).map_err(|error| unusable(path, &error.to_string()))?;
        Self::existing(path)?.ok_or_else(|| unusable(path, "it disappeared after it was created"))
    }

    /// Returns the envelope for approvals. Its key differs from the key of the seals, so that one
    /// cannot be used for the other.
    pub(crate) fn envelope(&self) -> Envelope {
        Envelope::new("haft 2026-11 envelope of approvals", &self.0)
    }

    pub(crate) fn seal(&self, rule: &SavedRule, owner: &str) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        let expires = rule.expires_ms.map(|at| at.to_string()).unwrap_or_default();
        let saved = rule.saved_ms.to_string();
        let scope = rule.scope.name();
        let parts = [owner, &rule.id, &rule.rule, scope, &rule.session, &rule.by, &saved, &expires];
        hasher.update(&joined(&parts));
        hasher.finalize().to_hex().as_str().to_owned()
    }
}

/// Encrypts texts so that no other user can read, forge or exchange them.
pub(crate) struct Envelope(LessSafeKey);

impl Envelope {
    /// Returns the envelope for secrets.
    pub(crate) fn of_secrets(key: &[u8; 32]) -> Self {
        Self::new("haft 2026-11 envelope of secrets", key)
    }

    fn new(purpose: &str, key: &[u8; 32]) -> Self {
        let key = blake3::derive_key(purpose, key);
        let key = UnboundKey::new(&CHACHA20_POLY1305, &key).expect("a key is 32 bytes long");
        Self(LessSafeKey::new(key))
    }

    /// Encrypts a text. It opens only with the same `subject`, which names what the text belongs
    /// to.
    pub(crate) fn close(&self, subject: &[&str], mut text: Vec<u8>) -> Result<Vec<u8>, ToolError> {
        let closed = |why: &str| ToolError::internal(format!("a text cannot be sealed: {why}"));
        // Random: a repeated nonce becomes likely only after billions of texts.
        let mut nonce = [0; NONCE_LEN];
        rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| closed(&error.to_string()))?;
        let aad = Aad::from(joined(subject));
        let once = Nonce::assume_unique_for_key(nonce);
        self.0.seal_in_place_append_tag(once, aad, &mut text).map_err(|_| closed("too long"))?;
        Ok([&nonce[..], &text].concat())
    }

    /// Decrypts a text. `None` if another key or another subject closed it.
    pub(crate) fn open(&self, subject: &[&str], closed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, text) = closed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = text.to_vec();
        let length = self.0.open_in_place(nonce, Aad::from(joined(subject)), &mut text).ok()?.len();
        text.truncate(length);
        Some(text)
    }
}

/// Joins texts with their lengths, so that different subjects give different bytes.
fn joined(parts: &[&str]) -> Vec<u8> {
    let part = |part: &&str| [&(part.len() as u64).to_le_bytes()[..], part.as_bytes()].concat();
    parts.iter().flat_map(part).collect()
}

/// Creates a key file atomically. If several processes do so at once, the first one's file stays.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let (mut key, mut name) = ([0; 32], [0; 8]);
    rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
    rustix::rand::getrandom(&mut name, rustix::rand::GetRandomFlags::empty())?;
    // A separate name for every attempt: a second thread writing to this name would write to the
    // key itself, once it is linked.
    let draft = path.with_extension(format!("new-{:016x}", u64::from_le_bytes(name)));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
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
    let message = format!(
        "the key of your saved rules and approvals, {}, cannot be used: {why}",
        path.display()
    );
    ToolError::unavailable(message)
        .hint("fix its permissions, or remove it and save the rules again")
}

#[cfg(test)]
mod tests {
    use std::{sync::Barrier, thread};

    use super::*;

    #[test]
    fn many_threads_can_create_a_key_at_once() {
        for _ in 0..20 {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("deep/rules.key");
            let start = Barrier::new(8);
            let make = || {
                start.wait();
                SealKey::made(&path).expect("made").0
            };
            let keys: Vec<[u8; 32]> = thread::scope(|scope| {
                let making: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
                making.into_iter().map(|it| it.join().expect("no panic")).collect()
            });
            let kept = SealKey::existing(&path).expect("read").expect("there").0;
            assert!(keys.iter().all(|key| *key == kept));
            assert_eq!(fs::read_dir(path.parent().expect("a folder")).expect("read").count(), 1);
        }
    }

    #[test]
    fn a_closed_text_opens_only_with_its_key_and_subject() {
        let (ours, other) = (SealKey([1; 32]).envelope(), SealKey([2; 32]).envelope());
        let closed = ours.close(&["request", "ask_1"], b"secret".to_vec()).expect("closed");
        assert_eq!(ours.open(&["request", "ask_1"], &closed).as_deref(), Some(&b"secret"[..]));
        assert!(!closed.windows(6).any(|piece| piece == b"secret"));
        assert_ne!(closed, ours.close(&["request", "ask_1"], b"secret".to_vec()).expect("closed"));
        assert_eq!(other.open(&["request", "ask_1"], &closed), None);
        for subject in [&["request", "ask_2"][..], &["requestask", "_1"], &["request"], &[]] {
            assert_eq!(ours.open(subject, &closed), None, "{subject:?}");
        }
        for place in 0..closed.len() {
            let mut changed = closed.clone();
            changed[place] ^= 1;
            assert_eq!(ours.open(&["request", "ask_1"], &changed), None, "{place}");
            assert_eq!(ours.open(&["request", "ask_1"], &closed[..place]), None, "{place}");
        }
    }
}
