//! A store in a file. Calls run inline, because a statement takes less time than waking another
//! thread. The process has one connection, which one caller at a time can use.

mod creation;
mod errors;
mod opening;
mod rows;
mod watching;

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{ArcMutexGuard, Mutex, RawMutex};

use haft_core::{ToolError, block_in_place};
use rusqlite::{Connection, ErrorCode, ToSql, types::ValueRef};

pub(crate) use self::{
    errors::SqliteErrors,
    opening::{IfMissing, dialect},
};
use crate::engine::value::{SqlCell, SqlRow, Value};

/// How long to wait for another process or thread that uses the store.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Part of that wait during which the thread is not given to other tasks.
const INLINE_WAIT: Duration = Duration::from_millis(20);
/// About a hundred pages, or twenty calls. Reading them again takes 0.2 ms; checkpointing them
/// takes two disk syncs.
const MAX_WAL_BYTES: u64 = 400 << 10;
/// Enough for every statement of this crate.
const STATEMENT_CACHE_SIZE: usize = 128;

pub(crate) struct Sqlite {
    path: PathBuf,
    /// Device and inode: the file may be removed or replaced while it is open.
    identity: (u64, u64),
    connection: Arc<Mutex<Connection>>,
}

/// Exclusive use of the connection. Rolls back an uncommitted transaction when dropped.
pub(crate) struct ConnectionGuard {
    // Dropped before `store`, whose `drop` takes the lock again if this was the last use.
    connection: ArcMutexGuard<RawMutex, Connection>,
    store: Arc<Sqlite>,
}

impl Sqlite {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the open file is still the one at its path.
    pub(crate) fn is_in_place(&self) -> bool {
        identity(&self.path) == Some(self.identity)
    }

    /// Waits a limited time for the connection.
    pub(crate) fn hold(self: &Arc<Self>) -> Result<ConnectionGuard, ToolError> {
        let at_once = self.connection.try_lock_arc_for(INLINE_WAIT);
        match at_once.or_else(|| block_in_place(|| self.connection.try_lock_arc_for(BUSY_TIMEOUT)))
        {
            Some(connection) => Ok(ConnectionGuard { store: self.clone(), connection }),
            None => Err(self.errors().busy()),
        }
    }

    pub(crate) fn errors(&self) -> SqliteErrors<'_> {
        SqliteErrors(&self.path)
    }
}

impl Drop for Sqlite {
    /// Checkpoints a long write-ahead log. The next process to open the store reads the whole log,
    /// and a user who only types commands never has a process that lives long enough for SQLite to
    /// checkpoint.
    fn drop(&mut self) {
        let connection = self.connection.lock();
        if log_size(&self.path) > MAX_WAL_BYTES {
            // Without waiting for other processes. A later process tries again.
            let _ = connection.busy_timeout(Duration::ZERO);
            let _ = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
        }
    }
}

impl ConnectionGuard {
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    fn failed(&self, error: rusqlite::Error) -> ToolError {
        self.store.errors().of(error)
    }

    /// Begins a write transaction, always immediate: SQLite refuses a transaction that reads first
    /// and writes later if another process wrote in between.
    pub(crate) fn begin(&mut self) -> Result<(), ToolError> {
        const BEGIN: &str = "BEGIN IMMEDIATE";
        match self.run(BEGIN) {
            Err(error) if is_busy(&error) => {}
            transaction => return transaction.map_err(|error| self.failed(error)),
        }
        // Each attempt waits a little by itself; a runtime can run other tasks during that time.
        let began = Instant::now();
        block_in_place(|| {
            loop {
                match self.run(BEGIN) {
                    Err(error) if is_busy(&error) && began.elapsed() < BUSY_TIMEOUT => {}
                    transaction => return transaction.map_err(|error| self.failed(error)),
                }
            }
        })
    }

    /// Begins a transaction that reads one snapshot.
    pub(crate) fn begin_reading(&mut self) -> Result<(), ToolError> {
        self.run("BEGIN DEFERRED").map_err(|error| self.failed(error))
    }

    pub(crate) fn commit(&mut self) -> Result<(), ToolError> {
        self.run("COMMIT").map_err(|error| self.failed(error))
    }

    fn run(&self, sql: &'static str) -> Result<(), rusqlite::Error> {
        self.connection().prepare_cached(sql)?.execute([]).map(|_| ())
    }

    /// Returns the number of affected rows.
    pub(crate) fn execute(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<u64, ToolError> {
        let execute = || {
            let mut statement = self.connection().prepare_cached(sql)?;
            bind(&mut statement, values)?;
            statement.raw_execute()
        };
        let touched = execute().map_err(|error| self.failed(error))?;
        Ok(u64::try_from(touched).unwrap_or_default())
    }

    pub(crate) fn query(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<SqlRow>, ToolError> {
        let query = || {
            let mut statement = self.connection().prepare_cached(sql)?;
            bind(&mut statement, values)?;
            let columns = statement.column_count();
            let mut rows = statement.raw_query();
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let cells = (0..columns).map(|column| row.get_ref(column).map(cell));
                found.push(SqlRow(cells.collect::<Result<_, _>>()?));
            }
            Ok(found)
        };
        query().map_err(|error| self.failed(error))
    }

    /// Returns a number that changes whenever another connection has committed.
    pub(crate) fn data_version(&mut self) -> Result<i64, ToolError> {
        let rows = self.query("PRAGMA data_version", &[])?;
        rows.first().map_or(Ok(0), |row| row.integer(0))
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        if !self.connection.is_autocommit() {
            // This fails if the error that led here has already rolled back.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }
}

/// Binds values by position. SQLite takes `$1` as a name and numbers names in order of appearance;
/// the assertions check that ours appear in order, and the tests run every statement.
fn bind(
    statement: &mut rusqlite::Statement<'_>,
    values: &[Value<'_>],
) -> Result<(), rusqlite::Error> {
    debug_assert_eq!(statement.parameter_count(), values.len());
    for (index, value) in values.iter().enumerate() {
        debug_assert_eq!(statement.parameter_name(index + 1), Some(&*format!("${}", index + 1)));
        let value: &dyn ToSql = match value {
            Value::Integer(number) => number,
            Value::Text(text) => text,
            Value::Bytes(bytes) => bytes,
            Value::Null => &rusqlite::types::Null,
        };
        statement.raw_bind_parameter(index + 1, value)?;
    }
    Ok(())
}

pub(crate) fn cell(value: ValueRef<'_>) -> SqlCell {
    match value {
        ValueRef::Null => SqlCell::Null,
        ValueRef::Integer(number) => SqlCell::Integer(number),
        ValueRef::Real(number) => SqlCell::Text(number.to_string()),
        ValueRef::Text(bytes) => SqlCell::Text(String::from_utf8_lossy(bytes).into_owned()),
        ValueRef::Blob(bytes) => SqlCell::Bytes(bytes.to_vec()),
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Returns the size of the write-ahead log.
fn log_size(path: &Path) -> u64 {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    fs::metadata(log).map_or(0, |log| log.len())
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests;
