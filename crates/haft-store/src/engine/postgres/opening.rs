//! Connects to a database and migrates its tables, one process at a time.

use std::sync::Arc;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime,
};
use haft_core::ToolError;
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{Postgres, SERVER_TIMEOUT};
use crate::{
    StoreAddress,
    engine::{
        clock::now_ms,
        migrations::{self, Migration},
        sqlite::IfMissing,
    },
};

/// Maximum number of connections of one process.
pub(super) const CONNECTIONS: usize = 4;
/// Runs on every new connection. The server aborts any wait after five seconds.
const SESSION_SETTINGS: &str = "SET search_path TO haft; SET statement_timeout = '5s'; SET lock_timeout = '5s'; \
                        SET idle_in_transaction_session_timeout = '60s'";
/// Takes the lock under which tables are changed. The number is "haft".
const LOCK: &str = "SELECT pg_advisory_xact_lock(1751213684)";
const SCHEMA: &str = "CREATE SCHEMA IF NOT EXISTS haft";
const HAS_TABLES: &str = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'haft' AND table_name = 'migrations'";

impl Postgres {
    /// Opens a database. Returns `None` if it has no tables of haft and `if_missing` says not to
    /// create them.
    pub(crate) async fn open(
        url: &str,
        if_missing: IfMissing,
    ) -> Result<Option<Arc<Self>>, ToolError> {
        Self::open_with(url, if_missing, migrations::ALL).await
    }

    pub(super) async fn open_with(
        url: &str,
        if_missing: IfMissing,
        list: &[Migration],
    ) -> Result<Option<Arc<Self>>, ToolError> {
        let store = Self::reach(url)?;
        if if_missing == IfMissing::ReturnNone && !store.has_tables(&store.client().await?).await? {
            return Ok(None);
        }
        store.migrate(list).await?;
        Ok(Some(store))
    }

    /// Counts the migrations that a database needs, without changing it. `None` if it has no tables
    /// of haft.
    pub(crate) async fn pending_migrations(url: &str) -> Result<Option<usize>, ToolError> {
        let store = Self::reach(url)?;
        let client = store.client().await?;
        if !store.has_tables(&client).await? {
            return Ok(None);
        }
        let pending = store.outstanding(&client, migrations::ALL).await?;
        Ok(Some(pending.len()))
    }

    fn reach(url: &str) -> Result<Arc<Self>, ToolError> {
        let shown = StoreAddress::Postgres(url.to_owned()).to_string();
        let config = config(url, &shown)?;
        let pool = pool(config.clone(), &shown)?;
        Ok(Arc::new(Self { pool, config, shown }))
    }

    async fn has_tables(&self, client: &Object) -> Result<bool, ToolError> {
        let row = self.with_timeout(client.query_one(HAS_TABLES, &[])).await?;
        let count: i64 = row.get(0);
        Ok(count > 0)
    }

    async fn migrate(self: &Arc<Self>, list: &[Migration]) -> Result<(), ToolError> {
        let client = self.client().await?;
        let is_done =
            self.has_tables(&client).await? && self.outstanding(&client, list).await?.is_empty();
        drop(client);
        if is_done {
            return Ok(());
        }
        let mut transaction = self.begin("BEGIN").await?;
        let client = transaction.client();
        self.with_timeout(client.batch_execute(LOCK)).await?;
        // Checked again: another process may have been faster.
        if !self.has_tables(client).await? {
            self.with_timeout(client.batch_execute(SCHEMA)).await?;
            self.with_timeout(client.batch_execute(&dialect(migrations::TABLE))).await?;
        }
        for step in self.outstanding(client, list).await? {
            let client = transaction.client();
            self.with_timeout(client.batch_execute(&dialect(step.text))).await?;
            let checksum = step.checksum();
            let note = [
                crate::engine::value::Value::Integer(step.version),
                crate::engine::value::Value::Text(&checksum),
                crate::engine::value::Value::number(now_ms()),
            ];
            transaction.execute(migrations::NOTE, &note).await?;
        }
        transaction.commit().await
    }

    async fn outstanding<'a>(
        &self,
        client: &Object,
        list: &'a [Migration],
    ) -> Result<&'a [Migration], ToolError> {
        let rows = self.with_timeout(client.query(migrations::APPLIED, &[])).await?;
        let applied: Vec<(i64, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        migrations::outstanding(list, &applied, &self.shown)
    }
}

fn config(url: &str, shown: &str) -> Result<Config, ToolError> {
    let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
        let why = std::error::Error::source(&error)
            .map_or_else(|| error.to_string(), ToString::to_string);
        ToolError::input(format!("`{shown}` is not a PostgreSQL address: {why}"))
            .hint("write postgres://USER@HOST:PORT/DATABASE")
    })?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(SERVER_TIMEOUT);
    }
    if config.get_application_name().is_none() {
        config.application_name("haft");
    }
    // Local connections cannot be intercepted, and a server's self-made certificate proves nothing.
    if config.get_ssl_mode() == SslMode::Prefer && config.get_hosts().iter().all(is_local) {
        config.ssl_mode(SslMode::Disable);
    }
    Ok(config)
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => matches!(name.as_str(), "localhost" | "127.0.0.1" | "::1"),
        Host::Unix(_) => true,
    }
}

fn cannot_connect(shown: &str, why: &str) -> ToolError {
    ToolError::unavailable(format!("the store {shown} cannot be reached: {why}"))
}

pub(super) fn tls(shown: &str) -> Result<MakeRustlsConnect, ToolError> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| cannot_connect(shown, &error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(tls))
}

fn pool(config: Config, shown: &str) -> Result<Pool, ToolError> {
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config, tls(shown)?, recycling);
    let apply_settings = Hook::async_fn(|client: &mut deadpool_postgres::ClientWrapper, _| {
        Box::pin(async move {
            let applied = client.batch_execute(SESSION_SETTINGS).await;
            applied.map_err(HookError::Backend)
        })
    });
    Pool::builder(manager)
        .max_size(CONNECTIONS)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(SERVER_TIMEOUT))
        .create_timeout(Some(SERVER_TIMEOUT))
        .recycle_timeout(Some(SERVER_TIMEOUT))
        .post_create(apply_settings)
        .build()
        .map_err(|error| cannot_connect(shown, &error.to_string()))
}

fn dialect(text: &str) -> String {
    text.replace("{key}", "BIGINT PRIMARY KEY").replace("{bytes}", "BYTEA")
}
