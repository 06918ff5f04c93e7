//! Reads and writes whole tables, for a copy of the store. Both directions are streamed, so that
//! each side has at most one batch in memory.

use std::{future::poll_fn, pin::Pin, time::Duration};

use futures_core::Stream;
use haft_core::ToolError;
use tokio_postgres::{RowStream, binary_copy::BinaryCopyInWriter, types::ToSql};

use super::{PostgresTransaction, Type, row};
use crate::engine::{
    copying::{Batch, ColumnType, TableSchema},
    value::{SqlCell, SqlRow, Value},
};

/// Limit for one batch over a slow connection to a busy server.
const COPY_TIMEOUT: Duration = Duration::from_secs(120);
/// Lifts the server's limits: a stream lasts as long as its table and waits while the other side
/// writes. Each wait for its rows is limited by `COPY_TIMEOUT`.
const LIFT_TIMEOUTS: &str =
    "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = '15min'";
const NAMES: &str = "SELECT table_name::TEXT FROM information_schema.tables \
    WHERE table_schema = 'haft' AND table_type = 'BASE TABLE'";

/// Rows streamed from the server. `None` at the end.
pub(crate) struct Rows(Option<Pin<Box<RowStream>>>);

impl PostgresTransaction {
    pub(crate) async fn lift_timeouts(&mut self) -> Result<(), ToolError> {
        self.store.with_timeout(self.client().batch_execute(LIFT_TIMEOUTS)).await
    }

    pub(crate) async fn table_names(&mut self) -> Result<Vec<String>, ToolError> {
        let rows = self.query(NAMES, &[]).await?;
        rows.iter().map(|row| Ok(row.text(0)?.to_owned())).collect()
    }

    pub(crate) async fn number(&mut self, sql: &str) -> Result<u64, ToolError> {
        let found = self.with_copy_timeout(self.client().query_one(sql, &[])).await?;
        let number: i64 = found.try_get(0).map_err(|error| self.store.errors().of(error))?;
        Ok(u64::try_from(number).unwrap_or_default())
    }

    pub(crate) async fn run_batch(&mut self, sql: &str) -> Result<(), ToolError> {
        self.with_copy_timeout(self.client().batch_execute(sql)).await
    }

    pub(crate) async fn rows(&mut self, table: &TableSchema) -> Result<Rows, ToolError> {
        let sql = format!("SELECT {} FROM \"{}\"", table.column_list(), table.name);
        let none: [Value<'_>; 0] = [];
        self.with_copy_timeout(self.client().query_raw(&sql, none))
            .await
            .map(|rows| Rows(Some(Box::pin(rows))))
    }

    /// Returns the next batch. Empty at the end.
    pub(crate) async fn next_rows(&mut self, rows: &mut Rows) -> Result<Batch, ToolError> {
        let mut batch = Batch::default();
        while !batch.is_full()
            && let Some(stream) = &mut rows.0
        {
            let next = poll_fn(|context| stream.as_mut().poll_next(context));
            match self.with_copy_timeout(async { next.await.transpose() }).await? {
                Some(found) => {
                    batch.push(row(&found).map_err(|error| self.store.errors().of(error))?);
                }
                None => rows.0 = None,
            }
        }
        Ok(batch)
    }

    pub(crate) async fn insert(
        &mut self,
        table: &TableSchema,
        rows: &[SqlRow],
    ) -> Result<(), ToolError> {
        let sql = format!("COPY \"{}\" ({}) FROM STDIN BINARY", table.name, table.column_list());
        let column_type = |column: &crate::engine::copying::Column| match column.column_type {
            ColumnType::Integer => Type::INT8,
            ColumnType::Text => Type::TEXT,
            ColumnType::Bytes => Type::BYTEA,
        };
        let column_types: Vec<Type> = table.columns.iter().map(column_type).collect();
        let copied = async {
            let sink = self.client().copy_in(&sql).await?;
            let mut writer = std::pin::pin!(BinaryCopyInWriter::new(sink, &column_types));
            for row in rows {
                let values: Vec<_> = row.0.iter().map(SqlCell::as_value).collect();
                let values: Vec<_> = values.iter().map(|it| it as &(dyn ToSql + Sync)).collect();
                writer.as_mut().write(&values).await?;
            }
            writer.finish().await
        };
        self.with_copy_timeout(copied).await.map(|_| ())
    }

    /// Commits like [`PostgresTransaction::commit`], with a longer timeout, because there may be
    /// much to write to the disk.
    pub(crate) async fn commit_copy(mut self) -> Result<(), ToolError> {
        self.with_copy_timeout(self.client().batch_execute("COMMIT")).await?;
        self.client = None;
        Ok(())
    }

    async fn with_copy_timeout<T>(
        &self,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, ToolError> {
        match tokio::time::timeout(COPY_TIMEOUT, work).await {
            Ok(done) => done.map_err(|error| self.store.errors().of(error)),
            Err(_) => Err(self.store.errors().not_responding()),
        }
    }
}
