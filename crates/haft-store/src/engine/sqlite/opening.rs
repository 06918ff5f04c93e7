//! Opens a store that is there: ours, whole, not newer than we are. A store may have come with a cloned repository, so
//! nothing in it is trusted to act.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

use haft_core::ToolError;
use rusqlite::{Connection, OpenFlags, config::DbConfig};

use super::{Faults, Held, QUICK, STATEMENTS, Sqlite, creation, identity};
use crate::engine::{
    clock::now_ms,
    migrations::{self, Migration},
    value::Value,
};

/// "haft" as the application id of SQLite's file header.
pub(super) const OURS: i64 = 0x6861_6674;

/// What it means that there is no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    /// One is made.
    Make,
    /// There is no store, then.
    Leave,
}

impl Sqlite {
    /// Opens a file. None when there is none and none is wanted.
    pub(crate) fn open(path: &Path, absence: Absence) -> Result<Option<Arc<Self>>, ToolError> {
        Self::open_with(path, absence, migrations::ALL)
    }

    pub(super) fn open_with(
        path: &Path,
        absence: Absence,
        list: &[Migration],
    ) -> Result<Option<Arc<Self>>, ToolError> {
        let faults = Faults(path);
        check_folder(&faults, path)?;
        let is_there = match fs::symlink_metadata(path) {
            Ok(metadata) => {
                check_kind(&faults, &metadata)?;
                true
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(faults.of_file(&error)),
        };
        if !is_there {
            if absence == Absence::Leave {
                return Ok(None);
            }
            creation::make(path, list)?;
        }
        let path = real(path).map_err(|error| faults.of_file(&error))?;
        let connection = connect(&path).map_err(|error| faults.of(error))?;
        let identity = identity(&path).unwrap_or_default();
        let connection = Arc::new(Mutex::new(connection));
        let store = Arc::new(Self { path, identity, connection });
        let mut held = store.hold()?;
        // All in one go: each question by itself takes and gives back its own locks.
        held.begin_reading()?;
        check_owner(&mut held)?;
        check_contents(&mut held)?;
        let is_current = outstanding(&mut held, list)?.is_empty();
        held.commit()?;
        if !is_current {
            migrate(&mut held, list)?;
        }
        drop(held);
        Ok(Some(store))
    }
}

/// A link could lead to somebody's other database, a pipe would be waited for, and an empty file was longer once: haft puts
/// a store in its place only when it is whole.
fn check_kind(faults: &Faults<'_>, metadata: &fs::Metadata) -> Result<(), ToolError> {
    if metadata.is_symlink() {
        return Err(faults.foreign("it is a symbolic link"));
    }
    if !metadata.is_file() {
        return Err(faults.foreign("it is not a regular file"));
    }
    if metadata.len() == 0 {
        return Err(faults.damaged("the file is empty"));
    }
    Ok(())
}

/// A `.haft` that is a link may have come with a clone: it would make haft write its records wherever the author of the
/// repository likes.
fn check_folder(faults: &Faults<'_>, path: &Path) -> Result<(), ToolError> {
    let own = path.ancestors().skip(1).find(|folder| folder.ends_with(".haft"));
    match own {
        Some(folder) if folder.is_symlink() => {
            let what = format!("its folder {} is a symbolic link", folder.display());
            Err(faults
                .foreign(&what)
                .hint("replace the link by a folder, or name a file with --store"))
        }
        _ => Ok(()),
    }
}

/// The path without links in its folders; SQLite follows none.
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
    connection.busy_timeout(QUICK)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Bringing the file up to date costs two waits for the disk: not when `haft read` ends.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // A crash of this process loses nothing that was committed; a power cut may lose the newest.
    connection.execute_batch("PRAGMA synchronous = NORMAL")?;
    Ok(connection)
}

fn check_owner(held: &mut Held) -> Result<(), ToolError> {
    let id = held.query("PRAGMA application_id", &[])?;
    if id.first().map_or(Ok(0), |row| row.integer(0))? != OURS {
        return Err(held.home.faults().foreign("it is a database of another program"));
    }
    Ok(())
}

/// A trigger or a view of a stranger's would do as it likes when we write.
fn check_contents(held: &mut Held) -> Result<(), ToolError> {
    let active = "SELECT name FROM sqlite_schema WHERE type IN ('trigger', 'view') LIMIT 1";
    if held.query(active, &[])?.is_empty() {
        return Ok(());
    }
    Err(held.home.faults().foreign("it holds triggers or views, which haft never makes"))
}

fn migrate(held: &mut Held, list: &[Migration]) -> Result<(), ToolError> {
    held.begin()?;
    // Asked again: another process may have been faster.
    for step in outstanding(held, list)? {
        apply(held, step)?;
    }
    held.commit()
}

fn outstanding<'a>(held: &mut Held, list: &'a [Migration]) -> Result<&'a [Migration], ToolError> {
    let rows = held.query(migrations::APPLIED, &[])?;
    let applied: Result<Vec<(i64, String)>, ToolError> =
        rows.iter().map(|row| Ok((row.integer(0)?, row.text(1)?.to_owned()))).collect();
    migrations::outstanding(list, &applied?, &held.home.path.display().to_string())
}

fn apply(held: &mut Held, step: &Migration) -> Result<(), ToolError> {
    held.connection().execute_batch(&dialect(step.text)).map_err(|error| held.failed(error))?;
    let checksum = step.checksum();
    let note = [Value::Integer(step.version), Value::Text(&checksum), Value::number(now_ms())];
    held.execute(migrations::NOTE, &note).map(|_| ())
}

pub(crate) fn dialect(text: &str) -> String {
    text.replace("{key}", "INTEGER PRIMARY KEY").replace("{bytes}", "BLOB")
}
