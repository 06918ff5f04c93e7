//! Creates a store. It is completed under another name and then linked to its path. So a file at
//! that path is never half a store, and of two processes that start at once, one uses the other's.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use haft_core::ToolError;
use rusqlite::{Connection, params};

use super::{
    SqliteErrors,
    opening::{self, APPLICATION_ID, connect, dialect},
};
use crate::engine::{
    clock::now_ms,
    migrations::{self, Migration},
};

const IGNORED: &str = "# Made by haft: its own records, which are not for the repository.\n\
                       /haft.db*\n/tmp/\n/.gitignore\n";

pub(super) fn make(path: &Path, list: &[Migration]) -> Result<(), ToolError> {
    let errors = SqliteErrors(path);
    let on_disk = |error: io::Error| errors.of_file(&error);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(on_disk)?;
        keep_from_git(folder);
    }
    let path = opening::real(path).map_err(on_disk)?;
    let draft = StoreDraft::new(&path).map_err(on_disk)?;
    fill(&draft.path, list).map_err(|error| errors.of(error))?;
    let written = fs::File::open(&draft.path).and_then(|file| file.sync_all());
    written.map_err(on_disk)?;
    match fs::hard_link(&draft.path, &path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked.map_err(on_disk),
    }
}

/// Writes a `.gitignore` so that `git status` stays clean. An existing one belongs to the user and
/// is kept.
fn keep_from_git(folder: &Path) {
    if folder.file_name().is_some_and(|name| name == ".haft") {
        let file = OpenOptions::new().write(true).create_new(true).open(folder.join(".gitignore"));
        // A visible file in `git status` does not justify failing here.
        let _ = file.and_then(|mut file| io::Write::write_all(&mut file, IGNORED.as_bytes()));
    }
}

/// A store that is being made. Removed when dropped.
struct StoreDraft {
    path: PathBuf,
}

impl StoreDraft {
    fn new(path: &Path) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".new-{}-{:x}-{count}", std::process::id(), now_ms()));
        let path = path.with_file_name(name);
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { path })
    }
}

impl Drop for StoreDraft {
    fn drop(&mut self) {
        for end in ["", "-wal", "-shm"] {
            let mut name = self.path.clone().into_os_string();
            name.push(end);
            let _ = fs::remove_file(name);
        }
    }
}

fn fill(path: &Path, list: &[Migration]) -> Result<(), rusqlite::Error> {
    let connection = connect(path)?;
    // No other process sees this file, and it is synced once it is complete.
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA application_id = {APPLICATION_ID}; BEGIN"
    ))?;
    connection.execute_batch(&dialect(migrations::TABLE))?;
    for step in list {
        connection.execute_batch(&dialect(step.text))?;
        let applied_ms = i64::try_from(now_ms()).unwrap_or(i64::MAX);
        connection.execute(migrations::NOTE, params![step.version, step.checksum(), applied_ms])?;
    }
    connection.execute_batch("COMMIT")?;
    into_wal(connection)
}

/// Switches to the write-ahead log, in which readers and a writer do not wait for each other.
fn into_wal(connection: Connection) -> Result<(), rusqlite::Error> {
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    let truncate = "PRAGMA wal_checkpoint(TRUNCATE)";
    connection.query_row(truncate, [], |_| Ok(()))?;
    connection.close().map_err(|(_, error)| error)
}
