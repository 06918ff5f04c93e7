//! An open store: the interface of the rest of this crate to both engines, which run the same
//! statements.

use std::sync::Arc;

use haft_core::ToolError;

use crate::{
    StoreAddress,
    areas::feed::FeedHub,
    engine::{
        postgres::{Postgres, PostgresTransaction},
        sqlite::{ConnectionGuard, IfMissing, Sqlite},
        value::{SqlRow, Value},
    },
};

/// An open store. Cheap to clone; all clones share one connection or pool.
#[derive(Clone)]
pub struct Store {
    pub(crate) engine: StoreEngine,
    /// Subscribers of this process to the events of this store.
    pub(crate) hub: Arc<FeedHub>,
}

#[derive(Clone)]
pub(crate) enum StoreEngine {
    Sqlite(Arc<Sqlite>),
    Postgres(Arc<Postgres>),
}

/// Statements that belong together. Rolled back when dropped without a commit.
pub(crate) struct Transaction {
    pub(crate) engine: EngineTransaction,
    pub(crate) hub: Arc<FeedHub>,
    /// True if the commit has to wake subscribers.
    pub(crate) has_events: bool,
}

pub(crate) enum EngineTransaction {
    Sqlite(ConnectionGuard),
    Postgres(Box<PostgresTransaction>),
}

impl Store {
    /// Opens the store at an address. Creates it if there is none.
    ///
    /// # Errors
    /// `unavailable` when it is busy, unreachable, damaged, or written by a newer haft.
    pub async fn open(address: &StoreAddress) -> Result<Self, ToolError> {
        let opened = Self::open_as(address, IfMissing::Create).await?;
        opened.ok_or_else(|| ToolError::internal(format!("the store {address} was not made")))
    }

    /// Opens the store at an address if there is one.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub async fn existing(address: &StoreAddress) -> Result<Option<Self>, ToolError> {
        Self::open_as(address, IfMissing::ReturnNone).await
    }

    async fn open_as(
        address: &StoreAddress,
        if_missing: IfMissing,
    ) -> Result<Option<Self>, ToolError> {
        match address {
            StoreAddress::Sqlite(path) => {
                let opened = Sqlite::open(path, if_missing)?;
                Ok(opened.map(|sqlite| Self::of(StoreEngine::Sqlite(sqlite))))
            }
            StoreAddress::Postgres(url) => {
                let opened = Postgres::open(url, if_missing).await?;
                Ok(opened.map(|postgres| Self::of(StoreEngine::Postgres(postgres))))
            }
        }
    }

    pub(crate) fn of(engine: StoreEngine) -> Self {
        Self { engine, hub: Arc::default() }
    }

    fn transaction(&self, engine: EngineTransaction) -> Transaction {
        Transaction { engine, hub: self.hub.clone(), has_events: false }
    }

    /// Returns true if both are the same open store.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (&self.engine, &other.engine) {
            (StoreEngine::Sqlite(one), StoreEngine::Sqlite(two)) => Arc::ptr_eq(one, two),
            (StoreEngine::Postgres(one), StoreEngine::Postgres(two)) => Arc::ptr_eq(one, two),
            _ => false,
        }
    }

    /// Returns true if the open store is still the one at its address.
    pub(crate) fn is_in_place(&self) -> bool {
        match &self.engine {
            StoreEngine::Sqlite(sqlite) => sqlite.is_in_place(),
            StoreEngine::Postgres(_) => true,
        }
    }

    /// Begins a write transaction.
    pub(crate) async fn begin(&self) -> Result<Transaction, ToolError> {
        match &self.engine {
            StoreEngine::Sqlite(sqlite) => {
                let mut connection = sqlite.hold()?;
                connection.begin()?;
                Ok(self.transaction(EngineTransaction::Sqlite(connection)))
            }
            StoreEngine::Postgres(postgres) => {
                let transaction = postgres.begin("BEGIN").await?;
                Ok(self.transaction(EngineTransaction::Postgres(Box::new(transaction))))
            }
        }
    }

    /// Begins a transaction that reads one snapshot.
    pub(crate) async fn begin_reading(&self) -> Result<Transaction, ToolError> {
        match &self.engine {
            StoreEngine::Sqlite(sqlite) => {
                let mut connection = sqlite.hold()?;
                connection.begin_reading()?;
                Ok(self.transaction(EngineTransaction::Sqlite(connection)))
            }
            StoreEngine::Postgres(postgres) => {
                let transaction = postgres.begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
                Ok(self.transaction(EngineTransaction::Postgres(Box::new(transaction.await?))))
            }
        }
    }

    /// Runs one query.
    pub(crate) async fn query(
        &self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<SqlRow>, ToolError> {
        match &self.engine {
            StoreEngine::Sqlite(sqlite) => sqlite.hold()?.query(sql, values),
            StoreEngine::Postgres(postgres) => postgres.query(sql, values).await,
        }
    }
}

impl Transaction {
    /// Returns the number of affected rows.
    pub(crate) async fn execute(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<u64, ToolError> {
        match &mut self.engine {
            EngineTransaction::Sqlite(connection) => connection.execute(sql, values),
            EngineTransaction::Postgres(transaction) => transaction.execute(sql, values).await,
        }
    }

    pub(crate) async fn query(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<SqlRow>, ToolError> {
        match &mut self.engine {
            EngineTransaction::Sqlite(connection) => connection.query(sql, values),
            EngineTransaction::Postgres(transaction) => transaction.query(sql, values).await,
        }
    }

    /// Runs a statement for its effect, whatever it returns.
    pub(crate) async fn query_nothing(&mut self, sql: &'static str) -> Result<(), ToolError> {
        match &mut self.engine {
            EngineTransaction::Sqlite(connection) => connection.execute(sql, &[]).map(|_| ()),
            EngineTransaction::Postgres(transaction) => {
                transaction.execute(sql, &[]).await.map(|_| ())
            }
        }
    }

    pub(crate) async fn commit(self) -> Result<(), ToolError> {
        match self.engine {
            EngineTransaction::Sqlite(mut connection) => connection.commit(),
            EngineTransaction::Postgres(transaction) => transaction.commit().await,
        }?;
        if self.has_events {
            self.hub.notify();
        }
        Ok(())
    }
}
