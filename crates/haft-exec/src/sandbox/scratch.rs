//! Directories of one session: the `/tmp` of its programs, and the empty files that cover secrets.
//! They are removed with the backend; the next haft removes those of a haft that was killed.

use std::{
    collections::HashMap,
    fs, io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::{Arc, Once},
};

use parking_lot::Mutex;

use haft_core::ToolError;
use rustix::fs::{CWD, FileType, FlockOperation, Mode, mknodat};

/// The directories of one session.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    /// Shows another haft, which may not see our process, that the directories are in use.
    _lock: OwnedFd,
}

/// The directories of all sessions.
pub(crate) struct Scratches {
    base: PathBuf,
    of_sessions: Mutex<HashMap<String, Arc<Scratch>>>,
    /// The directory for temporary files may be large: it is swept when the first session starts,
    /// not on creation.
    swept: Once,
}

const NAME_PREFIX: &str = "haft-sandbox-";

impl Scratches {
    /// Creates them below this directory.
    pub(crate) fn in_directory(base: &Path) -> Self {
        Self { base: base.to_owned(), of_sessions: Mutex::default(), swept: Once::new() }
    }

    /// # Errors
    /// Of kind `unavailable` when the directory cannot be created.
    pub(crate) fn of_session(&self, session: &str) -> Result<Arc<Scratch>, ToolError> {
        let mut all = self.of_sessions.lock();
        if let Some(scratch) = all.get(session).filter(|scratch| scratch.tmp().is_dir()) {
            return Ok(scratch.clone());
        }
        self.swept.call_once(|| sweep(&self.base));
        let scratch = Scratch::make(&self.base).map_err(|error| {
            let message = format!("cannot create a private directory in `{}`", self.base.display());
            ToolError::unavailable(message)
                .hint("free some space there, or make it writable")
                .caused_by(error)
        })?;
        let scratch = Arc::new(scratch);
        all.insert(session.to_owned(), scratch.clone());
        Ok(scratch)
    }

    /// Removes the directories of a finished session without living programs.
    pub(crate) fn forget(&self, session: &str) {
        self.of_sessions.lock().remove(session);
    }
}

impl Scratch {
    fn make(base: &Path) -> io::Result<Self> {
        let own = std::process::id();
        for number in 0..100_000_u32 {
            let path = base.join(format!("{NAME_PREFIX}{own}-{number}"));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    let lock = OwnedFd::from(fs::File::open(&path)?);
                    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared)?;
                    // From here on drop removes it.
                    let scratch = Self { path, _lock: lock };
                    scratch.fill()?;
                    return Ok(scratch);
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn fill(&self) -> io::Result<()> {
        for shared in [self.tmp(), self.shm()] {
            fs::create_dir(&shared)?;
            fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777))?;
        }
        fs::create_dir(self.nothing(true))?;
        // A device without a driver, which every user may create: on a mount without devices no
        // process can open it, including root. An empty file could be read, and git would commit
        // it.
        let (kind, mode) = (FileType::CharacterDevice, Mode::empty());
        if mknodat(CWD, self.nothing(false), kind, mode, 0).is_err() {
            fs::write(self.nothing(false), "")?;
            fs::set_permissions(self.nothing(false), fs::Permissions::from_mode(0o000))?;
        }
        fs::set_permissions(self.nothing(true), fs::Permissions::from_mode(0o555))
    }

    pub(crate) fn tmp(&self) -> PathBuf {
        self.path.join("tmp")
    }

    pub(crate) fn shm(&self) -> PathBuf {
        self.path.join("shm")
    }

    /// Returns the file or directory that covers secrets.
    pub(crate) fn nothing(&self, is_directory: bool) -> PathBuf {
        self.path.join(if is_directory { "empty" } else { "nothing" })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes our directories whose haft is gone.
fn sweep(base: &Path) {
    let Ok(listing) = fs::read_dir(base) else { return };
    let own = rustix::process::geteuid().as_raw();
    for entry in listing.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| {
            name.strip_prefix(NAME_PREFIX)?.split('-').next()?.parse::<u32>().ok()
        });
        let Some(pid) = pid else { continue };
        let is_ours = entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == own);
        if is_ours && !Path::new(&format!("/proc/{pid}")).exists() && is_free(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_free(path: &Path) -> bool {
    fs::File::open(path).is_ok_and(|directory| {
        rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_keeps_its_directory_until_the_backend_is_dropped() {
        let base = tempfile::tempdir().expect("a directory");
        let all = Scratches::in_directory(base.path());
        let first = all.of_session("a").expect("a directory").tmp();
        assert_eq!(all.of_session("a").expect("a directory").tmp(), first);
        assert_ne!(all.of_session("b").expect("a directory").tmp(), first);
        all.forget("b");
        assert_eq!(fs::read_dir(base.path()).expect("there").count(), 1);
        let gone = base.path().join("haft-sandbox-4194999-0");
        fs::create_dir(&gone).expect("made");
        let another = Scratches::in_directory(base.path());
        assert!(gone.exists(), "asking changes nothing");
        let kept = another.of_session("a").expect("a directory");
        assert!(!gone.exists() && first.exists() && kept.tmp().exists());
        drop((all, another, kept));
        assert_eq!(fs::read_dir(base.path()).expect("there").count(), 0);
    }

    #[test]
    fn what_a_haft_left_that_is_gone_is_removed_and_nothing_else() {
        let base = tempfile::tempdir().expect("a directory");
        let own = std::process::id();
        let names = [
            "haft-sandbox-4194999-0".to_owned(),
            format!("haft-sandbox-{own}-7"),
            "haft-sandbox-x".to_owned(),
        ];
        names.iter().for_each(|name| fs::create_dir(base.path().join(name)).expect("made"));
        let held = base.path().join("haft-sandbox-4194999-2");
        fs::create_dir(&held).expect("made");
        let lock = fs::File::open(&held).expect("opened");
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared).expect("free");
        fs::write(base.path().join("haft-sandbox-4194999-1"), "a file").expect("written");
        sweep(base.path());
        let mut left: Vec<_> = fs::read_dir(base.path())
            .expect("there")
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        left.sort();
        let held: [std::ffi::OsString; 2] =
            ["haft-sandbox-4194999-1".into(), "haft-sandbox-4194999-2".into()];
        let mut expected = vec![names[1].clone().into(), names[2].clone().into()];
        expected.extend(held);
        expected.sort();
        assert_eq!(left, expected);
    }
}
