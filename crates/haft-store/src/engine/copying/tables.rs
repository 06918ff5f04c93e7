//! The tables of a store, found by creating a store in memory, so that later migrations need no
//! change here.

use haft_core::ToolError;
use rusqlite::Connection;

use crate::engine::{
    migrations::{self, Migration},
    sqlite,
    value::SqlRow,
};

/// A table as the migrations leave it.
#[derive(Debug)]
pub(crate) struct TableSchema {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    /// Rows that the migrations insert.
    pub(crate) first_rows: Vec<SqlRow>,
}

#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) column_type: ColumnType,
}

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnType {
    Integer,
    Text,
    Bytes,
}

// In creation order, so that a table comes after those it refers to. The table `migrations` is not
// copied: it describes how this store was made.
const TABLES: &str = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!' \
    AND name <> 'migrations' ORDER BY rowid";
const COLUMNS: &str = "SELECT name, type FROM pragma_table_info($1) ORDER BY cid";

/// Returns the tables that these migrations make.
pub(crate) fn made_by(list: &[Migration]) -> Result<Vec<TableSchema>, ToolError> {
    let found = found(list).map_err(|error| {
        ToolError::internal(format!("cannot create a store in memory: {error}"))
    })?;
    found.into_iter().map(RawTable::table).collect()
}

/// A table as SQLite describes it.
struct RawTable {
    name: String,
    columns: Vec<(String, String)>,
    first_rows: Vec<SqlRow>,
}

impl RawTable {
    fn table(self) -> Result<TableSchema, ToolError> {
        let Self { name, columns, first_rows } = self;
        let column = |(column, declared): (String, String)| {
            let column_type = match declared.as_str() {
                "INTEGER" | "BIGINT" => ColumnType::Integer,
                "TEXT" => ColumnType::Text,
                "BLOB" => ColumnType::Bytes,
                _ => {
                    let message =
                        format!("column `{column}` of table `{name}` has type {declared}");
                    return Err(
                        ToolError::internal(message).hint("copying does not support this type yet")
                    );
                }
            };
            Ok(Column { name: column, column_type })
        };
        let columns = columns.into_iter().map(column).collect::<Result<_, _>>()?;
        Ok(TableSchema { name, columns, first_rows })
    }
}

fn found(list: &[Migration]) -> Result<Vec<RawTable>, rusqlite::Error> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch(&sqlite::dialect(migrations::TABLE))?;
    for step in list {
        connection.execute_batch(&sqlite::dialect(step.text))?;
    }
    let mut tables = connection.prepare(TABLES)?;
    let names = tables.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    let raw_table = |name: String| {
        let mut statement = connection.prepare(COLUMNS)?;
        let columns = statement.query_map([&name], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let columns = columns.collect::<Result<Vec<(String, String)>, _>>()?;
        let mut statement = connection.prepare(&format!("SELECT * FROM \"{name}\""))?;
        let width = columns.len();
        let rows = statement.query_map([], |row| {
            (0..width)
                .map(|at| row.get_ref(at).map(sqlite::cell))
                .collect::<Result<_, _>>()
                .map(SqlRow)
        })?;
        Ok(RawTable { first_rows: rows.collect::<Result<_, _>>()?, name, columns })
    };
    names.into_iter().map(raw_table).collect()
}

impl TableSchema {
    /// `"a", "b"`
    pub(crate) fn column_list(&self) -> String {
        let quoted = self.columns.iter().map(|column| format!("\"{}\"", column.name));
        quoted.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_all_migrations_are_found_with_their_columns() {
        let tables = made_by(migrations::ALL).expect("they are made");
        let text: String = migrations::ALL.iter().map(|step| step.text).collect();
        assert_eq!(tables.len(), text.matches("CREATE TABLE").count());
        let chain = tables.iter().find(|table| table.name == "chain").expect("it is there");
        let columns: Vec<_> = chain.columns.iter().map(|it| (&*it.name, it.column_type)).collect();
        let expected =
            [("id", ColumnType::Integer), ("seq", ColumnType::Integer), ("hash", ColumnType::Text)];
        assert_eq!((columns.get(..3), chain.first_rows.len()), (Some(&expected[..]), 1));
    }

    #[test]
    fn a_column_of_another_type_is_reported_before_anything_is_copied() {
        let list = [Migration { version: 1, text: "CREATE TABLE a (b REAL)" }];
        let error = made_by(&list).expect_err("no such type");
        assert!(error.message().contains("column `b` of table `a` has type REAL"), "{error}");
    }

    #[test]
    fn columns_that_a_later_step_adds_are_found_too() {
        let list = [
            Migration { version: 1, text: "CREATE TABLE a (b {key}); INSERT INTO a VALUES (7)" },
            Migration { version: 2, text: "ALTER TABLE a ADD COLUMN c {bytes}" },
        ];
        let tables = made_by(&list).expect("they are made");
        assert_eq!(tables.first().map(TableSchema::column_list).as_deref(), Some("\"b\", \"c\""));
    }
}
