//! Opens an existing store: one that haft made, that is not damaged and not newer than this haft. A
//! store may have come with a cloned repository, so nothing in it may run code.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

use haft_core::ToolError;
use rusqlite::{Connection, OpenFlags, config::DbConfig};

use super::{
    ConnectionGuard, INLINE_WAIT, STATEMENT_CACHE_SIZE, Sqlite, SqliteErrors, creation, identity,
};
use crate::engine::{
    clock::now_ms,
    migrations::{self, Migration},
    value::Value,
};

/// "haft" as the application id of SQLite's file header.
pub(super) const APPLICATION_ID: i64 = 0x6861_6674;

/// The action if the file does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfMissing {
    /// Create a store.
    Create,
    /// Return `None`.
    ReturnNone,
}

impl Sqlite {
    /// Opens a file. Returns `None` if the file is missing and `if_missing` says
    /// not to create it.
    pub(crate) fn open(path: &Path, if_missing: IfMissing) -> Result<Option<Arc<Self>>, ToolError> {
        Self::open_with(path, if_missing, migrations::ALL)
    }

    pub(super) fn open_with(
        path: &Path,
        if_missing: IfMissing,
        list: &[Migration],
    ) -> Result<Option<Arc<Self>>, ToolError> {
        let errors = SqliteErrors(path);
        check_folder(&errors, path)?;
        let is_there = match fs::symlink_metadata(path) {
            Ok(metadata) => {
                check_kind(&errors, &metadata)?;
                true
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(errors.of_file(&error)),
        };
        if !is_there {
            if if_missing == IfMissing::ReturnNone {
                return Ok(None);
            }
            creation::make(path, list)?;
        }
        let path = real(path).map_err(|error| errors.of_file(&error))?;
        let connection = connect(&path).map_err(|error| errors.of(error))?;
        let identity = identity(&path).unwrap_or_default();
        let connection = Arc::new(Mutex::new(connection));
        let store = Arc::new(Self { path, identity, connection });
        let mut connection = store.hold()?;
        // In one transaction, because each separate query would take and release its own locks.
        connection.begin_reading()?;
        check_owner(&mut connection)?;
        check_contents(&mut connection)?;
        let is_current = outstanding(&mut connection, list)?.is_empty();
        connection.commit()?;
        if !is_current {
            migrate(&mut connection, list)?;
        }
        drop(connection);
        Ok(Some(store))
    }
}

/// Refuses anything but a regular file with contents. A link could lead to another program's
/// database, a pipe would block, and an empty file has lost its contents: haft links a store to its
/// path only when it is complete.
fn check_kind(errors: &SqliteErrors<'_>, metadata: &fs::Metadata) -> Result<(), ToolError> {
    if metadata.is_symlink() {
        return Err(errors.foreign("it is a symbolic link"));
    }
    if !metadata.is_file() {
        return Err(errors.foreign("it is not a regular file"));
    }
    if metadata.len() == 0 {
        return Err(errors.damaged("the file is empty"));
    }
    Ok(())
}

/// Refuses a `.haft` that is a symbolic link. It may have come with a clone, and would make haft
/// write its records wherever the author of the repository likes.
fn check_folder(errors: &SqliteErrors<'_>, path: &Path) -> Result<(), ToolError> {
    let own = path.ancestors().skip(1).find(|folder| folder.ends_with(".haft"));
    match own {
        Some(folder) if folder.is_symlink() => {
            let what = format!("its directory {} is a symbolic link", folder.display());
            Err(errors
                .foreign(&what)
                .hint("replace the link by a directory, or choose a file with --store"))
        }
        _ => Ok(()),
    }
}

/// Resolves links in the directories of a path. SQLite follows none.
pub(super) fn real(path: &Path) -> io::Result<PathBuf> {
    let (folder, name) = (path.parent(), path.file_name());
    match (folder, name) {
        (Some(folder), Some(name)) => {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            Ok(folder.canonicalize()?.join(name))
        }
        _ => path.canonicalize(),
    }
}

pub(super) fn connect(path: &Path) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(INLINE_WAIT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE_SIZE);
    // A checkpoint costs two disk syncs, too slow for the end of every `haft read`.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // A crash of this process loses no commit; a power failure may lose the newest ones.
    connection.execute_batch("PRAGMA synchronous = NORMAL")?;
    Ok(connection)
}

fn check_owner(connection: &mut ConnectionGuard) -> Result<(), ToolError> {
    let id = connection.query("PRAGMA application_id", &[])?;
    if id.first().map_or(Ok(0), |row| row.integer(0))? != APPLICATION_ID {
        return Err(connection.store.errors().foreign("it is a database of another program"));
    }
    Ok(())
}

/// Refuses triggers and views: another program's would run when haft writes.
fn check_contents(connection: &mut ConnectionGuard) -> Result<(), ToolError> {
    let active = "SELECT name FROM sqlite_schema WHERE type IN ('trigger', 'view') LIMIT 1";
    if connection.query(active, &[])?.is_empty() {
        return Ok(());
    }
    Err(connection.store.errors().foreign("it holds triggers or views, which haft never makes"))
}

fn migrate(connection: &mut ConnectionGuard, list: &[Migration]) -> Result<(), ToolError> {
    connection.begin()?;
    // Checked again: another process may have been faster.
    for step in outstanding(connection, list)? {
        apply(connection, step)?;
    }
    connection.commit()
}

fn outstanding<'a>(
    connection: &mut ConnectionGuard,
    list: &'a [Migration],
) -> Result<&'a [Migration], ToolError> {
    let rows = connection.query(migrations::APPLIED, &[])?;
    let applied: Result<Vec<(i64, String)>, ToolError> =
        rows.iter().map(|row| Ok((row.integer(0)?, row.text(1)?.to_owned()))).collect();
    migrations::outstanding(list, &applied?, &connection.store.path.display().to_string())
}

fn apply(connection: &mut ConnectionGuard, step: &Migration) -> Result<(), ToolError> {
    connection
        .connection()
        .execute_batch(&dialect(step.text))
        .map_err(|error| connection.failed(error))?;
    let checksum = step.checksum();
    let note = [Value::Integer(step.version), Value::Text(&checksum), Value::number(now_ms())];
    connection.execute(migrations::NOTE, &note).map(|_| ())
}

pub(crate) fn dialect(text: &str) -> String {
    text.replace("{key}", "INTEGER PRIMARY KEY").replace("{bytes}", "BLOB")
}
