//! Copies a whole store to another address, of either engine. All tables that the migrations make
//! are read in one snapshot and written in one transaction, which is committed only after the copy
//! was verified. If the process is killed before that, the target stays empty. The source is never
//! written to.

mod tables;

use haft_core::{ErrorKind, ToolError};
use serde::Serialize;

pub(crate) use self::tables::{Column, ColumnType, TableSchema};
use crate::{
    LedgerError, Store, StoreAddress,
    areas::ledger::verify_in,
    engine::{
        migrations,
        postgres::{Postgres, Rows},
        sqlite::Sqlite,
        store::{EngineTransaction, Transaction},
        value::{SqlCell, SqlRow},
    },
};

/// Limits of the rows in memory at once. One more row is allowed: a changed file may have 64 MiB.
const BATCH_BYTES: usize = 4 << 20;
const BATCH_ROWS: usize = 5_000;

/// The result of copying a store.
#[derive(Clone, Debug, Serialize)]
pub struct CopySummary {
    /// Number of rows per table.
    pub tables: Vec<(String, u64)>,
    /// Number of rows in all tables.
    pub rows: u64,
    /// Number of calls in the ledger.
    pub calls: u64,
    /// Breaks in the chain of the ledger, in the source as in the copy.
    pub faults: Vec<LedgerError>,
    /// Tables of the source that do not belong to haft.
    pub left_behind: Vec<String>,
    /// Calls that the source recorded during the copy, and that the copy lacks.
    pub missed: u64,
}

/// Progress of a copy.
#[derive(Clone, Copy, Debug)]
pub struct CopyStep<'a> {
    /// The table that is being copied.
    pub table: &'a str,
    /// Rows copied so far, of all tables.
    pub rows: u64,
    /// Rows to copy.
    pub of: u64,
}

/// Copies a store. Creates the target if it does not exist.
///
/// # Errors
/// `not_found` for a missing source, `conflict` when the target is in use or the source cannot
/// be copied as it is, `unavailable` when either cannot be reached. After an error the target holds
/// nothing of the source.
pub async fn copy_store(
    from: &StoreAddress,
    to: &StoreAddress,
    mut report: impl FnMut(CopyStep<'_>) + Send,
) -> Result<CopySummary, ToolError> {
    if is_same(from, to) {
        return Err(ToolError::input(format!("{from} cannot be copied to itself"))
            .hint("choose another target with --to"));
    }
    let tables = tables::made_by(migrations::ALL)?;
    let source = source(from).await?;
    let mut reading = source.begin_reading().await?;
    reading.lift_timeouts().await?;
    let left_behind = left_behind(&mut reading, &tables).await?;
    let mut counts = Vec::with_capacity(tables.len());
    for table in &tables {
        counts.push(reading.count(table).await?);
    }
    let target = Store::open(to).await?;
    let mut writing = target.begin().await?;
    writing.lift_timeouts().await?;
    writing.lock(&tables).await?;
    for table in &tables {
        check_unused(&mut writing, table, to).await?;
    }
    let (of, mut rows) = (counts.iter().sum(), 0);
    for table in &tables {
        writing.run_batch(&format!("DELETE FROM \"{}\"", table.name)).await?;
        let mut cursor = Cursor::Start;
        loop {
            report(CopyStep { table: &table.name, rows, of });
            let batch = reading.batch(table, &mut cursor).await?;
            if batch.rows.is_empty() {
                break;
            }
            rows += batch.rows.len() as u64;
            writing.insert(table, &batch.rows, to).await?;
        }
    }
    let (calls, faults) = check_copy(&mut reading, &mut writing, &tables, &counts).await?;
    let last = reading.number(CHAIN_END).await?;
    drop(reading);
    writing.commit_copy(to).await?;
    // An error here is ignored: the copy is complete, and the number only informs users who keep
    // using the source.
    let missed = missed(&source, last).await.unwrap_or_default();
    let tables = tables.into_iter().map(|table| table.name).zip(counts).collect();
    Ok(CopySummary { tables, rows, calls, faults, left_behind, missed })
}

const CHAIN_END: &str = "SELECT seq FROM chain WHERE id = 1";

fn is_same(from: &StoreAddress, to: &StoreAddress) -> bool {
    match (from, to) {
        (StoreAddress::Sqlite(one), StoreAddress::Sqlite(two)) => {
            let real = |path: &std::path::Path| path.canonicalize().ok();
            one == two || real(one).is_some_and(|one| real(two) == Some(one))
        }
        _ => from == to,
    }
}

/// Opens the source without migrating it. `Store::open` would migrate it, but the source must not
/// change.
async fn source(from: &StoreAddress) -> Result<Store, ToolError> {
    let pending = match from {
        StoreAddress::Sqlite(path) => Sqlite::pending_migrations(path)?,
        StoreAddress::Postgres(url) => Postgres::pending_migrations(url).await?,
    };
    if let Some(steps) = pending.filter(|steps| *steps > 0) {
        let newest = migrations::newest(migrations::ALL);
        let version = newest.saturating_sub(i64::try_from(steps).unwrap_or_default());
        let message = format!(
            "the store {from} has version {version}, written by an older haft; only version {newest} can be copied"
        );
        return Err(ToolError::conflict(message).hint(format!(
            "migrate it with `haft store info --store {from}`, which changes it, then copy it"
        )));
    }
    Store::existing(from).await?.ok_or_else(|| {
        ToolError::not_found(format!("there is no store at {from}"))
            .hint("choose another one with --from")
    })
}

async fn left_behind(
    reading: &mut Transaction,
    tables: &[TableSchema],
) -> Result<Vec<String>, ToolError> {
    let mut names = match &mut reading.engine {
        EngineTransaction::Sqlite(connection) => connection.table_names(),
        EngineTransaction::Postgres(transaction) => transaction.table_names().await,
    }?;
    names.retain(|name| name != "migrations" && tables.iter().all(|table| table.name != *name));
    Ok(names)
}

/// Refuses a target whose tables hold more than the migrations put there.
async fn check_unused(
    writing: &mut Transaction,
    table: &TableSchema,
    to: &StoreAddress,
) -> Result<(), ToolError> {
    let count = writing.count(table).await?;
    let expected = table.first_rows.len() as u64;
    if count == 0 && expected == 0 {
        return Ok(());
    }
    if count == expected {
        let found = writing.batch(table, &mut Cursor::Start).await?.rows;
        if found == table.first_rows {
            return Ok(());
        }
    }
    let rows = if count == 1 { "row" } else { "rows" };
    let message =
        format!("the store {to} is in use: its table `{}` holds {count} {rows}", table.name);
    Err(ToolError::conflict(message)
        .hint("choose a target that holds no store yet; nothing was changed"))
}

/// Compares row counts and verifies the chain. A chain that was broken in the source already is
/// reported, not refused.
async fn check_copy(
    reading: &mut Transaction,
    writing: &mut Transaction,
    tables: &[TableSchema],
    counts: &[u64],
) -> Result<(u64, Vec<LedgerError>), ToolError> {
    for (table, expected) in tables.iter().zip(counts) {
        let found = writing.count(table).await?;
        if found != *expected {
            let message = format!(
                "the copy is incomplete: `{}` has {found} rows instead of {expected}",
                table.name
            );
            return Err(ToolError::conflict(message).hint("retry; nothing was copied"));
        }
    }
    let copied = verify_in(writing).await?;
    if !copied.faults.is_empty() && verify_in(reading).await?.faults != copied.faults {
        let message = "the chain of the ledger is broken in the copy but not in the source";
        return Err(ToolError::conflict(message).hint("retry; nothing was copied"));
    }
    Ok((copied.entries, copied.faults))
}

async fn missed(source: &Store, last: u64) -> Result<u64, ToolError> {
    let mut now = source.begin_reading().await?;
    Ok(now.number(CHAIN_END).await?.saturating_sub(last))
}

/// Rows in memory at once.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) rows: Vec<SqlRow>,
    bytes: usize,
}

impl Batch {
    pub(crate) fn push(&mut self, row: SqlRow) {
        self.bytes += row.0.iter().map(SqlCell::memory_bytes).sum::<usize>();
        self.rows.push(row);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }
}

/// Position in a table that is being read.
enum Cursor {
    Start,
    After(i64),
    Streaming(Rows),
}

impl Transaction {
    /// Raises the timeouts: copying takes longer than anything else that haft does in a store.
    async fn lift_timeouts(&mut self) -> Result<(), ToolError> {
        match &mut self.engine {
            EngineTransaction::Sqlite(_) => Ok(()),
            EngineTransaction::Postgres(transaction) => transaction.lift_timeouts().await,
        }
    }

    /// Keeps other processes from starting to use a target that was found unused.
    async fn lock(&mut self, tables: &[TableSchema]) -> Result<(), ToolError> {
        match &mut self.engine {
            // The transaction has the file to itself.
            EngineTransaction::Sqlite(_) => Ok(()),
            EngineTransaction::Postgres(transaction) => {
                let names: Vec<_> = tables.iter().map(|it| format!("\"{}\"", it.name)).collect();
                let sql = format!("LOCK TABLE {} IN EXCLUSIVE MODE", names.join(", "));
                transaction.run_batch(&sql).await
            }
        }
    }

    async fn run_batch(&mut self, sql: &str) -> Result<(), ToolError> {
        match &mut self.engine {
            EngineTransaction::Sqlite(connection) => connection.run_batch(sql),
            EngineTransaction::Postgres(transaction) => transaction.run_batch(sql).await,
        }
    }

    async fn number(&mut self, sql: &str) -> Result<u64, ToolError> {
        match &mut self.engine {
            EngineTransaction::Sqlite(connection) => connection.number(sql),
            EngineTransaction::Postgres(transaction) => transaction.number(sql).await,
        }
    }

    async fn count(&mut self, table: &TableSchema) -> Result<u64, ToolError> {
        self.number(&format!("SELECT count(*) FROM \"{}\"", table.name)).await
    }

    /// Returns the next rows of a table. Empty at its end.
    async fn batch(
        &mut self,
        table: &TableSchema,
        cursor: &mut Cursor,
    ) -> Result<Batch, ToolError> {
        match &mut self.engine {
            EngineTransaction::Sqlite(connection) => {
                let mut after = if let Cursor::After(row) = cursor { *row } else { i64::MIN };
                let batch = connection.rows_after(table, &mut after)?;
                *cursor = Cursor::After(after);
                Ok(batch)
            }
            EngineTransaction::Postgres(transaction) => {
                if !matches!(cursor, Cursor::Streaming(_)) {
                    *cursor = Cursor::Streaming(transaction.rows(table).await?);
                }
                match cursor {
                    Cursor::Streaming(rows) => transaction.next_rows(rows).await,
                    _ => Ok(Batch::default()),
                }
            }
        }
    }

    async fn insert(
        &mut self,
        table: &TableSchema,
        rows: &[SqlRow],
        to: &StoreAddress,
    ) -> Result<(), ToolError> {
        match &mut self.engine {
            EngineTransaction::Sqlite(connection) => connection.insert(table, rows),
            EngineTransaction::Postgres(transaction) => {
                check_texts(table, rows, to)?;
                transaction.insert(table, rows).await
            }
        }
    }

    async fn commit_copy(self, to: &StoreAddress) -> Result<(), ToolError> {
        match self.engine {
            EngineTransaction::Sqlite(mut connection) => {
                connection.commit()?;
                // Written to the disk now, because the user may remove the source next.
                connection.query("PRAGMA wal_checkpoint(TRUNCATE)", &[]).map(|_| ())
            }
            EngineTransaction::Postgres(transaction) => {
                transaction.commit_copy().await.map_err(|error| {
                    let message = format!("{error}; the copy may or may not be complete");
                    let check_hint = format!("check with `haft store info --store {to}`");
                    ToolError::new(ErrorKind::Unavailable, message).hint(check_hint)
                })
            }
        }
    }
}

/// Refuses texts with a NUL character, which PostgreSQL cannot store. haft writes none where both
/// engines must hold the text.
fn check_texts(table: &TableSchema, rows: &[SqlRow], to: &StoreAddress) -> Result<(), ToolError> {
    for row in rows {
        for (column, cell) in table.columns.iter().zip(&row.0) {
            if matches!(cell, SqlCell::Text(text) if text.contains('\0')) {
                let (column, table) = (&column.name, &table.name);
                let message = format!(
                    "a text in column `{column}` of `{table}` contains a NUL character, which {to} cannot hold"
                );
                return Err(ToolError::conflict(message).hint("delete that row, or copy to a file"));
            }
        }
    }
    Ok(())
}
