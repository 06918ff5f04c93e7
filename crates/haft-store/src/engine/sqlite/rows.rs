//! Reads and writes whole tables, for a copy of the store.

use std::path::Path;

use haft_core::ToolError;
use rusqlite::types::ValueRef;

use super::{ConnectionGuard, Sqlite, bind, opening};
use crate::engine::{
    copying::{Batch, Column, ColumnType, TableSchema},
    migrations,
    value::{SqlCell, SqlRow},
};

const NAMES: &str =
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'";

impl Sqlite {
    /// Counts the migrations that a file needs, without changing it. `None` if it cannot be read;
    /// opening it reports the cause.
    pub(crate) fn pending_migrations(path: &Path) -> Result<Option<usize>, ToolError> {
        let applied = || {
            let connection = opening::connect(path)?;
            let mut statement = connection.prepare(migrations::APPLIED)?;
            let applied = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            applied.collect::<Result<Vec<(i64, String)>, rusqlite::Error>>()
        };
        let Ok(applied) = applied() else { return Ok(None) };
        let shown = path.display().to_string();
        let pending = migrations::outstanding(migrations::ALL, &applied, &shown)?;
        Ok(Some(pending.len()))
    }
}

impl ConnectionGuard {
    pub(crate) fn table_names(&mut self) -> Result<Vec<String>, ToolError> {
        let rows = self.query(NAMES, &[])?;
        rows.iter().map(|row| Ok(row.text(0)?.to_owned())).collect()
    }

    pub(crate) fn number(&mut self, sql: &str) -> Result<u64, ToolError> {
        let number = self.connection().query_row(sql, [], |row| row.get::<_, i64>(0));
        let number = number.map_err(|error| self.failed(error))?;
        Ok(u64::try_from(number).unwrap_or_default())
    }

    pub(crate) fn run_batch(&mut self, sql: &str) -> Result<(), ToolError> {
        self.connection().execute_batch(sql).map_err(|error| self.failed(error))
    }

    /// Returns the rows after one, in the order of the file, until the batch is full. Empty at the
    /// end.
    pub(crate) fn rows_after(
        &mut self,
        table: &TableSchema,
        after: &mut i64,
    ) -> Result<Batch, ToolError> {
        let (columns, name) = (table.column_list(), &table.name);
        let sql =
            format!("SELECT rowid, {columns} FROM \"{name}\" WHERE rowid > ?1 ORDER BY rowid");
        let failed = |error| self.failed(error);
        let mut statement = self.connection().prepare_cached(&sql).map_err(failed)?;
        let mut rows = statement.query([*after]).map_err(failed)?;
        let mut batch = Batch::default();
        while !batch.is_full()
            && let Some(row) = rows.next().map_err(failed)?
        {
            *after = row.get(0).map_err(failed)?;
            let cell = |(at, column): (usize, &Column)| {
                let value = row.get_ref(at + 1).map_err(failed)?;
                self.cell_of(table, column, *after, value)
            };
            let cells = table.columns.iter().enumerate().map(cell);
            batch.push(SqlRow(cells.collect::<Result<_, _>>()?));
        }
        Ok(batch)
    }

    /// Checks the type of a value. SQLite stores any value in any column; another engine does not.
    fn cell_of(
        &self,
        table: &TableSchema,
        column: &Column,
        row: i64,
        value: ValueRef<'_>,
    ) -> Result<SqlCell, ToolError> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok().map(SqlCell::Text);
        let cell = match (column.column_type, value) {
            (_, ValueRef::Null) => Some(SqlCell::Null),
            (ColumnType::Integer, ValueRef::Integer(number)) => Some(SqlCell::Integer(number)),
            (ColumnType::Text, ValueRef::Text(bytes)) => text(bytes),
            (ColumnType::Bytes, ValueRef::Blob(bytes)) => Some(SqlCell::Bytes(bytes.to_vec())),
            _ => None,
        };
        cell.ok_or_else(|| {
            let (path, column, table) = (self.store.path().display(), &column.name, &table.name);
            let message = format!(
                "the store {path} holds a value in column `{column}` of row {row} of `{table}` that haft never writes"
            );
            ToolError::conflict(message).hint("delete that row, or copy a backup; nothing was copied")
        })
    }

    pub(crate) fn insert(&mut self, table: &TableSchema, rows: &[SqlRow]) -> Result<(), ToolError> {
        let marks = (1..=table.columns.len()).map(|at| format!("${at}")).collect::<Vec<_>>();
        let (columns, marks) = (table.column_list(), marks.join(", "));
        let sql = format!("INSERT INTO \"{}\" ({columns}) VALUES ({marks})", table.name);
        let insert = || {
            let mut statement = self.connection().prepare_cached(&sql)?;
            for row in rows {
                let values: Vec<_> = row.0.iter().map(SqlCell::as_value).collect();
                bind(&mut statement, &values)?;
                statement.raw_execute()?;
            }
            Ok(())
        };
        insert().map_err(|error| self.failed(error))
    }
}
