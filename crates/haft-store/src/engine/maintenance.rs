//! Maintenance of a store: information, integrity check, backup and restore.

use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use haft_core::{ErrorKind, ToolError};
use serde::Serialize;

use crate::{
    Store, StoreAddress,
    areas::ledger,
    engine::{
        clock::now_ms,
        migrations,
        sqlite::{IfMissing, Sqlite, SqliteErrors},
        store::StoreEngine,
        value::Value,
    },
};

/// Information about a store.
#[derive(Clone, Debug, Serialize)]
pub struct StoreInfo {
    /// Its address.
    pub address: String,
    /// `sqlite` or `postgres`, with the version of the engine.
    pub engine: String,
    /// Version of its tables.
    pub version: i64,
    /// Size on disk, including the write-ahead log.
    pub bytes: u64,
    /// Number of recorded calls, without those that began and did not end.
    pub calls: u64,
    /// Number of ledger entries, including those for beginnings and those that retention writes.
    pub entries: u64,
    /// Number of saved rules of all users.
    pub rules: u64,
    /// Size of each part.
    pub parts: Vec<StorePart>,
}

/// A part of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StorePart {
    /// Name of the part.
    pub name: &'static str,
    /// Number of items.
    pub rows: u64,
    /// Approximate size, without indexes.
    pub bytes: u64,
}

const COUNT: &str = "SELECT (SELECT count(*) FROM rules), (SELECT max(version) FROM migrations)";
const LEDGER: &str = "SELECT COALESCE(kind, 2), count(*), CAST(SUM(calls) AS BIGINT), \
    CAST(SUM(octet_length(entry)) AS BIGINT) FROM ledger GROUP BY 1 ORDER BY 1";
const LEDGER_PARTS: [&str; 4] =
    ["ledger, read-only", "ledger, begun", "ledger, changing", "ledger, anchors"];
const PARTS: [(&str, &str); 8] = [
    ("results", "SELECT count(*), CAST(COALESCE(SUM(packed), 0) AS BIGINT) FROM results"),
    ("outputs", "SELECT count(*), CAST(COALESCE(SUM(packed), 0) AS BIGINT) FROM output_texts"),
    (
        "journal",
        "SELECT count(*), CAST(COALESCE(SUM(octet_length(content)), 0) AS BIGINT) FROM blobs",
    ),
    (
        "approvals",
        "SELECT count(*), CAST(COALESCE(SUM(octet_length(request) + COALESCE(octet_length(verdict), 0)), 0) AS BIGINT) FROM approvals",
    ),
    ("events", "SELECT count(*), CAST(COALESCE(SUM(octet_length(body)), 0) AS BIGINT) FROM events"),
    (
        "messages",
        "SELECT count(*), CAST(COALESCE(SUM(octet_length(content)), 0) AS BIGINT) FROM messages",
    ),
    ("todos", "SELECT count(*), CAST(COALESCE(SUM(octet_length(items)), 0) AS BIGINT) FROM todos"),
    ("rules", "SELECT count(*), CAST(COALESCE(SUM(octet_length(rule)), 0) AS BIGINT) FROM rules"),
];

const SERVER: &str = "SELECT current_setting('server_version'), \
    (SELECT SUM(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'haft'::regnamespace)::BIGINT";

impl Store {
    /// Returns information about the store.
    ///
    /// # Errors
    /// `unavailable` when it cannot be read.
    pub async fn info(&self) -> Result<StoreInfo, ToolError> {
        let rows = self.query(COUNT, &[]).await?;
        let row = rows.first().ok_or_else(|| ToolError::internal("a count without a number"))?;
        let (engine, address, bytes) = match &self.engine {
            StoreEngine::Sqlite(sqlite) => {
                let engine = format!("sqlite {}", rusqlite::version());
                (engine, sqlite.path().display().to_string(), size(sqlite.path()))
            }
            StoreEngine::Postgres(postgres) => {
                let rows = self.query(SERVER, &[]).await?;
                let row = rows.first().ok_or_else(|| ToolError::internal("a size without one"))?;
                let engine = format!("postgres {}", row.text(0)?);
                (engine, postgres.shown().to_owned(), row.number(1)?)
            }
        };
        let (rules, version) = (row.number(0)?, row.integer(1)?);
        let (calls, mut parts) = self.ledger_parts().await?;
        let entries = parts.iter().map(|part| part.rows).sum();
        for (name, sql) in PARTS {
            let rows = self.query(sql, &[]).await?;
            let Some(row) = rows.first() else { continue };
            parts.push(StorePart { name, rows: row.number(0)?, bytes: row.number(1)? });
        }
        Ok(StoreInfo { address, engine, version, bytes, calls, entries, rules, parts })
    }

    /// Counts the calls of the ledger, and the size of its entries by kind.
    async fn ledger_parts(&self) -> Result<(u64, Vec<StorePart>), ToolError> {
        let (mut calls, mut parts) = (0, Vec::new());
        for row in self.query(LEDGER, &[]).await? {
            let kind = usize::try_from(row.number(0)?).unwrap_or_default();
            let name = LEDGER_PARTS.get(kind).copied().unwrap_or("ledger, unknown");
            calls += row.number(2)?;
            let rows = row.number(1)?;
            let bytes = row.number(3)? + rows * ledger::ROW_BYTES;
            parts.push(StorePart { name, rows, bytes });
        }
        Ok((calls, parts))
    }

    /// Returns the errors in its file, in the engine's words. Empty if there are none.
    ///
    /// # Errors
    /// `unavailable` when it cannot be read at all.
    pub async fn check(&self) -> Result<Vec<String>, ToolError> {
        match &self.engine {
            StoreEngine::Sqlite(sqlite) => {
                let rows = sqlite.hold()?.query("PRAGMA integrity_check(20)", &[])?;
                let reported = rows.iter().map(|row| Ok(row.text(0)?.to_owned()));
                let reported: Vec<String> = reported.collect::<Result<_, ToolError>>()?;
                Ok(reported.into_iter().filter(|line| line != "ok").collect())
            }
            // A PostgreSQL server checks its own files.
            StoreEngine::Postgres(_) => Ok(Vec::new()),
        }
    }

    /// Copies it to a new file, as it is at this moment. Other processes can keep working.
    ///
    /// # Errors
    /// `conflict` when the file exists, `unsupported` for PostgreSQL, which has its own tools.
    pub async fn back_up(&self, to: &Path) -> Result<(), ToolError> {
        match &self.engine {
            StoreEngine::Sqlite(sqlite) => {
                make_empty(to)?;
                let copied = copy(sqlite, to);
                if copied.is_err() {
                    // Remove an incomplete backup.
                    let _ = fs::remove_file(to);
                }
                copied
            }
            StoreEngine::Postgres(_) => Err(sqlite_only()),
        }
    }
}

/// Replaces a store by a backup. Keeps the old file under another name and returns that name.
///
/// # Errors
/// When the file is not a backup or is damaged; then nothing has changed.
pub async fn restore(address: &StoreAddress, backup: &Path) -> Result<Option<PathBuf>, ToolError> {
    let StoreAddress::Sqlite(path) = address else { return Err(sqlite_only()) };
    if !backup.is_file() {
        let message = format!("there is no backup at {}", backup.display());
        return Err(ToolError::not_found(message).hint("name a file that `haft store backup` made"));
    }
    let draft = with_end(path, &format!(".new-{}-{:x}", std::process::id(), now_ms()));
    let restored = put_in_place(path, backup, &draft).await;
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(with_end(&draft, end));
    }
    restored
}

async fn put_in_place(
    path: &Path,
    backup: &Path,
    draft: &Path,
) -> Result<Option<PathBuf>, ToolError> {
    let errors = SqliteErrors(path);
    let on_disk = |error: io::Error| errors.of_file(&error);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(on_disk)?;
    }
    make_empty(draft)?;
    fs::copy(backup, draft).map_err(on_disk)?;
    check_backup(draft, backup).await?;
    fs::File::open(draft).and_then(|file| file.sync_all()).map_err(on_disk)?;
    let aside = with_end(path, &format!(".before-{:x}", now_ms()));
    let was_there = path.symlink_metadata().is_ok();
    if was_there {
        fs::rename(path, &aside).map_err(on_disk)?;
    }
    // SQLite's log moves along with its file: applied to another file, it would destroy that file.
    for end in ["-wal", "-shm"] {
        match fs::rename(with_end(path, end), with_end(&aside, end)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            moved => moved.map_err(on_disk)?,
        }
    }
    fs::hard_link(draft, path).map_err(on_disk)?;
    Ok(was_there.then_some(aside))
}

/// Checks a copy of the backup, so that the backup itself is not written to.
async fn check_backup(draft: &Path, backup: &Path) -> Result<(), ToolError> {
    let unusable = |why: String| {
        ToolError::conflict(format!("the backup {} cannot be used: {why}", backup.display()))
            .hint("choose another one; nothing was changed")
    };
    let shown = |text: &str| text.replace(&draft.display().to_string(), "in it");
    let opened = Sqlite::open(draft, IfMissing::ReturnNone);
    let sqlite = opened.map_err(|error| unusable(shown(error.message())))?;
    let Some(sqlite) = sqlite else { return Err(unusable("its copy has disappeared".to_owned())) };
    let store = Store::of(StoreEngine::Sqlite(sqlite.clone()));
    let wrong = store.check().await.map_err(|error| unusable(shown(error.message())))?;
    if let Some(first) = wrong.first() {
        return Err(unusable(first.clone()));
    }
    // Writes the changes of migrations into the file itself.
    sqlite.hold()?.query("PRAGMA wal_checkpoint(TRUNCATE)", &[]).map(|_| ())
}

fn make_empty(path: &Path) -> Result<(), ToolError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(ToolError::conflict(format!("{} already exists", path.display()))
                .hint("choose a file that does not exist"))
        }
        Err(error) => Err(ToolError::unavailable(format!("{}: {error}", path.display()))
            .hint("choose a path that you may write to")),
    }
}

fn copy(sqlite: &std::sync::Arc<Sqlite>, to: &Path) -> Result<(), ToolError> {
    let Some(name) = to.to_str() else {
        return Err(ToolError::input(format!("{} is not UTF-8", to.display())));
    };
    sqlite.hold()?.execute("VACUUM INTO $1", &[Value::Text(name)])?;
    let synced = fs::File::open(to).and_then(|file| file.sync_all());
    synced.map_err(|error| ToolError::unavailable(format!("{}: {error}", to.display())))
}

fn size(path: &Path) -> u64 {
    let of = |end| fs::metadata(with_end(path, end)).map_or(0, |metadata| metadata.len());
    of("") + of("-wal")
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(end);
    name.into()
}

fn sqlite_only() -> ToolError {
    ToolError::new(ErrorKind::Unsupported, "haft can back up and restore SQLite stores only")
        .hint("use pg_dump and pg_restore for a PostgreSQL database")
}

/// Returns the version of the tables that this haft makes.
pub fn newest_version() -> i64 {
    migrations::newest(migrations::ALL)
}

#[cfg(test)]
mod tests;
