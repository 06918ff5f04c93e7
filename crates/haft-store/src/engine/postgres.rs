//! A store in a PostgreSQL database, in its own schema `haft`. Several machines may share it.

mod errors;
mod listening;
mod opening;
mod rows;

use std::{error::Error, sync::Arc, time::Duration};

use deadpool_postgres::{Object, Pool};
use haft_core::ToolError;
use tokio_postgres::{
    Config,
    types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked},
};

use self::errors::PostgresErrors;
pub(crate) use self::rows::Rows;
use crate::engine::value::{SqlCell, SqlRow, Value};

/// Limit of the server for a statement, for a lock and for a connection.
const SERVER_TIMEOUT: Duration = Duration::from_secs(5);
/// Limit of the client. Longer than the server's, so that the server reports the cause.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(8);

pub(crate) struct Postgres {
    pool: Pool,
    /// For connections outside the pool.
    config: Config,
    /// The address without its password.
    shown: String,
}

/// A connection with an open transaction. Dropped before its commit, it closes the connection, so
/// that the next user of the pool does not inherit the transaction.
pub(crate) struct PostgresTransaction {
    store: Arc<Postgres>,
    client: Option<Object>,
}

impl Postgres {
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    fn errors(&self) -> PostgresErrors<'_> {
        PostgresErrors(&self.shown)
    }

    async fn client(&self) -> Result<Object, ToolError> {
        self.pool.get().await.map_err(|error| self.errors().of_pool(error))
    }

    /// Begins a transaction.
    pub(crate) async fn begin(
        self: &Arc<Self>,
        statement: &'static str,
    ) -> Result<PostgresTransaction, ToolError> {
        let (client, _) = self.run_first(FirstStatement::Begin(statement)).await?;
        Ok(PostgresTransaction { store: self.clone(), client: Some(client) })
    }

    /// Runs one query outside of any transaction, in one round trip.
    pub(crate) async fn query(
        &self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<SqlRow>, ToolError> {
        let (_, rows) = self.run_first(FirstStatement::Query(sql, values)).await?;
        Ok(rows)
    }

    /// Runs the first statement on a connection. It changes nothing, so it is retried on another
    /// connection when this one turns out to be dead: a restarted server has closed all of them.
    async fn run_first(
        &self,
        statement: FirstStatement<'_>,
    ) -> Result<(Object, Vec<SqlRow>), ToolError> {
        let mut left = opening::CONNECTIONS;
        loop {
            let client = self.client().await?;
            match tokio::time::timeout(CLIENT_TIMEOUT, statement.run_on(&client)).await {
                Ok(Ok(answer)) => return Ok((client, answer)),
                Ok(Err(error)) => {
                    let is_dead = client.is_closed() || errors::is_disconnected(&error);
                    drop(Object::take(client));
                    if !is_dead || left == 0 {
                        return Err(self.errors().of(error));
                    }
                }
                Err(_) => {
                    drop(Object::take(client));
                    return Err(self.errors().not_responding());
                }
            }
            left -= 1;
        }
    }

    async fn with_timeout<T>(
        &self,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, ToolError> {
        match tokio::time::timeout(CLIENT_TIMEOUT, work).await {
            Ok(done) => done.map_err(|error| self.errors().of(error)),
            Err(_) => Err(self.errors().not_responding()),
        }
    }
}

impl PostgresTransaction {
    fn client(&self) -> &Object {
        self.client.as_ref().expect("only `commit` and `drop` take it")
    }

    pub(crate) async fn execute(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<u64, ToolError> {
        let client = self.client();
        let work = async {
            let statement = client.prepare_cached(sql).await?;
            client.execute(&statement, &parameters(values)).await
        };
        self.store.with_timeout(work).await
    }

    pub(crate) async fn query(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<SqlRow>, ToolError> {
        self.store.with_timeout(run_query(self.client(), sql, values)).await
    }

    /// Commits, then returns the connection to the pool.
    pub(crate) async fn commit(mut self) -> Result<(), ToolError> {
        self.store.with_timeout(self.client().batch_execute("COMMIT")).await?;
        self.client = None;
        Ok(())
    }
}

impl Drop for PostgresTransaction {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}

/// The first statement on a connection.
enum FirstStatement<'a> {
    Begin(&'static str),
    Query(&'static str, &'a [Value<'a>]),
}

impl FirstStatement<'_> {
    async fn run_on(&self, client: &Object) -> Result<Vec<SqlRow>, tokio_postgres::Error> {
        match self {
            Self::Begin(statement) => client.batch_execute(statement).await.map(|()| Vec::new()),
            Self::Query(sql, values) => run_query(client, sql, values).await,
        }
    }
}

async fn run_query(
    client: &Object,
    sql: &'static str,
    values: &[Value<'_>],
) -> Result<Vec<SqlRow>, tokio_postgres::Error> {
    let statement = client.prepare_cached(sql).await?;
    let rows = client.query(&statement, &parameters(values)).await?;
    rows.iter().map(row).collect()
}

fn parameters<'a>(values: &'a [Value<'_>]) -> Vec<&'a (dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

fn row(row: &tokio_postgres::Row) -> Result<SqlRow, tokio_postgres::Error> {
    let cell = |(index, column): (usize, &tokio_postgres::Column)| {
        if *column.type_() == Type::INT8 {
            let number: Option<i64> = row.try_get(index)?;
            return Ok(number.map_or(SqlCell::Null, SqlCell::Integer));
        }
        if *column.type_() == Type::BYTEA {
            let bytes: Option<Vec<u8>> = row.try_get(index)?;
            return Ok(bytes.map_or(SqlCell::Null, SqlCell::Bytes));
        }
        let text: Option<String> = row.try_get(index)?;
        Ok(text.map_or(SqlCell::Null, SqlCell::Text))
    };
    row.columns().iter().enumerate().map(cell).collect::<Result<_, _>>().map(SqlRow)
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Integer(number) => number.to_sql(kind, out),
            Self::Text(text) => text.to_sql(kind, out),
            Self::Bytes(bytes) => bytes.to_sql(kind, out),
            Self::Null => Ok(IsNull::Yes),
        }
    }

    /// The server determines the type; the tables have no other types.
    fn accepts(kind: &Type) -> bool {
        matches!(*kind, Type::INT8 | Type::TEXT | Type::BYTEA)
    }

    to_sql_checked!();
}
