//! An open store: the interface of the rest of this crate to both engines, which run the same
//! statements.

use std::sync::Arc;

use haft_core::ToolError;

use crate::{
    Address,
    areas::feed::Hub,
    engine::{
        postgres::{Begun, Postgres},
        sqlite::{Absence, Held, Sqlite},
        value::{Row, Value},
    },
};

/// An open store. Cheap to clone; all clones share one connection or pool.
#[derive(Clone)]
pub struct Store {
    pub(crate) engine: Engine,
    /// Subscribers of this process to the events of this store.
    pub(crate) hub: Arc<Hub>,
}

#[derive(Clone)]
pub(crate) enum Engine {
    Sqlite(Arc<Sqlite>),
    Postgres(Arc<Postgres>),
}

/// Statements that belong together. Rolled back when dropped without a commit.
pub(crate) struct Transaction {
    pub(crate) on: On,
    pub(crate) hub: Arc<Hub>,
    /// True if the commit has to wake subscribers.
    pub(crate) has_news: bool,
}

pub(crate) enum On {
    Sqlite(Held),
    Postgres(Box<Begun>),
}

impl Store {
    /// Opens the store at an address. Creates it if there is none.
    ///
    /// # Errors
    /// `unavailable` when it is busy, out of reach, damaged, or written by a newer haft.
    pub async fn open(address: &Address) -> Result<Self, ToolError> {
        let opened = Self::open_as(address, Absence::Make).await?;
        opened.ok_or_else(|| ToolError::internal(format!("the store {address} was not made")))
    }

    /// Opens the store at an address if there is one.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub async fn existing(address: &Address) -> Result<Option<Self>, ToolError> {
        Self::open_as(address, Absence::Leave).await
    }

    async fn open_as(address: &Address, absence: Absence) -> Result<Option<Self>, ToolError> {
        match address {
            Address::Sqlite(path) => {
                let opened = Sqlite::open(path, absence)?;
                Ok(opened.map(|sqlite| Self::of(Engine::Sqlite(sqlite))))
            }
            Address::Postgres(url) => {
                let opened = Postgres::open(url, absence).await?;
                Ok(opened.map(|postgres| Self::of(Engine::Postgres(postgres))))
            }
        }
    }

    pub(crate) fn of(engine: Engine) -> Self {
        Self { engine, hub: Arc::default() }
    }

    fn transaction(&self, on: On) -> Transaction {
        Transaction { on, hub: self.hub.clone(), has_news: false }
    }

    /// Returns true if both are the same open store.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (&self.engine, &other.engine) {
            (Engine::Sqlite(one), Engine::Sqlite(two)) => Arc::ptr_eq(one, two),
            (Engine::Postgres(one), Engine::Postgres(two)) => Arc::ptr_eq(one, two),
            _ => false,
        }
    }

    /// Returns true if the open store is still the one at its address.
    pub(crate) fn is_in_place(&self) -> bool {
        match &self.engine {
            Engine::Sqlite(sqlite) => sqlite.is_in_place(),
            Engine::Postgres(_) => true,
        }
    }

    /// Begins a write transaction.
    pub(crate) async fn begin(&self) -> Result<Transaction, ToolError> {
        match &self.engine {
            Engine::Sqlite(sqlite) => {
                let mut held = sqlite.hold()?;
                held.begin()?;
                Ok(self.transaction(On::Sqlite(held)))
            }
            Engine::Postgres(postgres) => {
                let begun = postgres.begin("BEGIN").await?;
                Ok(self.transaction(On::Postgres(Box::new(begun))))
            }
        }
    }

    /// Begins a transaction that reads one snapshot.
    pub(crate) async fn begin_reading(&self) -> Result<Transaction, ToolError> {
        match &self.engine {
            Engine::Sqlite(sqlite) => {
                let mut held = sqlite.hold()?;
                held.begin_reading()?;
                Ok(self.transaction(On::Sqlite(held)))
            }
            Engine::Postgres(postgres) => {
                let begun = postgres.begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
                Ok(self.transaction(On::Postgres(Box::new(begun.await?))))
            }
        }
    }

    /// Runs one query.
    pub(crate) async fn query(
        &self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, ToolError> {
        match &self.engine {
            Engine::Sqlite(sqlite) => sqlite.hold()?.query(sql, values),
            Engine::Postgres(postgres) => postgres.query(sql, values).await,
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
        match &mut self.on {
            On::Sqlite(held) => held.execute(sql, values),
            On::Postgres(begun) => begun.execute(sql, values).await,
        }
    }

    pub(crate) async fn query(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, ToolError> {
        match &mut self.on {
            On::Sqlite(held) => held.query(sql, values),
            On::Postgres(begun) => begun.query(sql, values).await,
        }
    }

    /// Runs a statement for its effect, whatever it returns.
    pub(crate) async fn query_nothing(&mut self, sql: &'static str) -> Result<(), ToolError> {
        match &mut self.on {
            On::Sqlite(held) => held.execute(sql, &[]).map(|_| ()),
            On::Postgres(begun) => begun.execute(sql, &[]).await.map(|_| ()),
        }
    }

    pub(crate) async fn commit(self) -> Result<(), ToolError> {
        match self.on {
            On::Sqlite(mut held) => held.commit(),
            On::Postgres(begun) => begun.commit().await,
        }?;
        if self.has_news {
            self.hub.ring();
        }
        Ok(())
    }
}
