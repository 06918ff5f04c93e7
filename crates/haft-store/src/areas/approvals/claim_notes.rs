//! Notes beside the user's key which calls were claimed. A program that can write the store could
//! restore a row, or the whole file, and an approved call would run again within the hour. An
//! envelope does not prevent that, because the old one is valid too.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use haft_core::ToolError;

/// Much longer than an approved call may wait for its claim.
const MAX_NOTE_AGE: Duration = Duration::from_secs(2 * 86_400);

/// Notes that a call is claimed under a token. Returns false if it was claimed before under another
/// token.
///
/// # Errors
/// When the note cannot be written. Then the call must not run.
pub(super) fn note(key: &Path, id: &str, token: &str) -> Result<bool, ToolError> {
    let folder = key.with_file_name("taken");
    let path = note_path(&folder, id);
    make_folder(&folder).map_err(|error| not_noted(&path, &error))?;
    let is_first = match write(&path, token) {
        Ok(()) => true,
        // A retry after an unclear commit.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::read(&path).is_ok_and(|noted| noted == token.as_bytes())
        }
        Err(error) => return Err(not_noted(&path, &error)),
    };
    forget_old(&folder);
    Ok(is_first)
}

/// Returns true if a call can be noted as claimed, and was not yet.
///
/// # Errors
/// When the note could not be written.
pub(super) fn may_be_noted(key: &Path, id: &str) -> Result<bool, ToolError> {
    let folder = key.with_file_name("taken");
    let path = note_path(&folder, id);
    make_folder(&folder).map_err(|error| not_noted(&path, &error))?;
    Ok(path.symlink_metadata().is_err())
}

fn note_path(folder: &Path, id: &str) -> PathBuf {
    folder.join(blake3::hash(id.as_bytes()).to_hex().as_str())
}

fn not_noted(path: &Path, error: &io::Error) -> ToolError {
    let path = path.display();
    let message = format!("cannot note in {path} that the call is claimed: {error}");
    ToolError::denied(message).hint("free disk space or fix its permissions, then approve it again")
}

fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Writes the note completely or not at all: half a token would look like another one.
fn write(path: &Path, token: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let written = file.write_all(token.as_bytes());
    if written.is_err() {
        let _ = fs::remove_file(path);
    }
    written
}

/// Removes old notes. Notes that cannot be read or removed stay, which does no harm.
fn forget_old(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let age = entry.metadata().and_then(|metadata| metadata.modified());
        if age.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > MAX_NOTE_AGE)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt, time::SystemTime};

    use super::*;

    #[test]
    fn a_call_is_claimed_under_one_token() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("state/rules.key");
        let note = |id, token| note(&key, id, token).expect("it can be noted");
        assert!(note("ask_1", "one") && note("ask_1", "one"));
        assert!(!note("ask_1", "two"));
        assert!(note("ask_2/../../x", "two"));
        let taken = folder.path().join("state/taken");
        assert_eq!(fs::metadata(&taken).expect("made").permissions().mode() & 0o777, 0o700);
        let notes: Vec<_> = fs::read_dir(&taken).expect("there").filter_map(Result::ok).collect();
        assert_eq!(notes.len(), 2);
        // One of them is old.
        let old = fs::File::options().write(true).open(notes[0].path()).expect("there");
        old.set_modified(SystemTime::now() - 2 * MAX_NOTE_AGE).expect("set");
        assert!(note("ask_3", "one"));
        assert!(!notes[0].path().exists() && notes[1].path().exists());
    }

    #[test]
    fn a_call_that_cannot_be_noted_is_not_claimed() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("taken"), "in the way").expect("written");
        let error = note(&folder.path().join("rules.key"), "ask_1", "one").expect_err("reported");
        assert!(error.message().contains("cannot note in"), "{error}");
    }
}
