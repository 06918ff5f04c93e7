//! A fresh store of each engine for a test.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use haft_core::LedgerEntry;
use haft_store::{
    OutputRetention, ReplyTiming, StoreAddress, StoreLedger, StoreLocation, StoreOutputs,
    StoreRules,
};
use serde_json::json;
use tempfile::TempDir;
use tokio_postgres::NoTls;

/// A store for one test.
pub(crate) struct Fresh {
    pub(crate) folder: TempDir,
    pub(crate) address: StoreAddress,
}

/// Returns a store of each engine. Without PostgreSQL only SQLite is tested; in CI that is a
/// failure.
pub(crate) async fn each() -> Vec<Fresh> {
    let folder = tempfile::tempdir().expect("a folder");
    let address = StoreAddress::Sqlite(folder.path().join("project/.haft/haft.db"));
    let mut stores = vec![Fresh { folder, address }];
    if let Some(server) = server() {
        stores.push(database(&server).await);
    }
    stores
}

/// Returns a separate database, if there is a server.
pub(crate) async fn postgres() -> Option<Fresh> {
    Some(database(&server()?).await)
}

async fn database(server: &str) -> Fresh {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("test_{}_{number}", std::process::id());
    run(server, &format!("DROP DATABASE IF EXISTS {name}")).await;
    run(server, &format!("CREATE DATABASE {name}")).await;
    let (before, _) = server.rsplit_once('/').expect("an address of a database");
    let address = StoreAddress::Postgres(format!("{before}/{name}"));
    Fresh { folder: tempfile::tempdir().expect("a folder"), address }
}

fn server() -> Option<String> {
    let server = variable("HAFT_TEST_POSTGRES").filter(|url| !url.is_empty());
    assert!(server.is_some() || !is_ci(), "in CI there has to be a PostgreSQL");
    server
}

/// Returns true in CI, where no test may be skipped.
pub(crate) fn is_ci() -> bool {
    variable("CI").is_some_and(|value| value == "true")
}

#[expect(clippy::disallowed_methods, reason = "the only access of these tests to the environment")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Runs a statement on a server without haft.
pub(crate) async fn run(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("it is reached");
    tokio::spawn(connection);
    client.batch_execute(sql).await.expect(sql);
}

/// Statements that revert each migration, newest first.
const STEPS_BACK: [(i64, &[&str]); 9] = [
    (
        10,
        &[
            "ALTER TABLE ledger DROP COLUMN kind",
            "ALTER TABLE ledger DROP COLUMN calls",
            "ALTER TABLE ledger DROP COLUMN previous",
            "ALTER TABLE chain DROP COLUMN bytes",
            "ALTER TABLE chain DROP COLUMN read_bytes",
            "ALTER TABLE chain DROP COLUMN pruned_bytes",
            "ALTER TABLE chain DROP COLUMN pruned_ms",
            "ALTER TABLE chain DROP COLUMN prune_pass",
            "ALTER TABLE chain DROP COLUMN prune_seq",
            "DROP TABLE ledger_losses",
        ],
    ),
    (9, &["ALTER TABLE approvals DROP COLUMN begun_seq"]),
    (
        8,
        &[
            "CREATE INDEX ledger_by_tool ON ledger (tool, seq)",
            "CREATE INDEX ledger_by_call ON ledger (call_id)",
            "DROP INDEX approvals_by_call",
            "ALTER TABLE approvals DROP COLUMN ended",
        ],
    ),
    (7, &["DROP INDEX blobs_by_base", "ALTER TABLE blobs DROP COLUMN base"]),
    (6, &["DROP TABLE results", "DROP TABLE call_results"]),
    (5, &["DROP INDEX output_texts_unfinished", "ALTER TABLE output_pieces DROP COLUMN packing"]),
    (
        4,
        &[
            "DROP TABLE output_texts",
            "DROP TABLE output_pieces",
            "DROP TABLE outputs",
            "DROP TABLE sessions",
            "DROP TABLE messages",
            "DROP TABLE todos",
            "DROP TABLE leases",
        ],
    ),
    (
        3,
        &[
            "DROP TABLE journal",
            "DROP TABLE workspaces",
            "DROP TABLE changes",
            "DROP TABLE entries",
            "DROP TABLE undoings",
            "DROP TABLE blobs",
        ],
    ),
    (2, &["DROP TABLE events", "DROP TABLE event_head", "DROP TABLE approvals"]),
];

impl Fresh {
    /// Reverts the store to an earlier version.
    pub(crate) async fn make_older(&self, version: i64) {
        for (_, step) in STEPS_BACK.iter().filter(|(step, _)| *step > version) {
            for sql in *step {
                self.tamper(sql).await;
            }
        }
        self.tamper(&format!("DELETE FROM migrations WHERE version > {version}")).await;
    }

    /// The ledger as another process has it.
    pub(crate) fn ledger(&self) -> Arc<StoreLedger> {
        Arc::new(StoreLedger::new(StoreLocation::new(self.address.clone()), ReplyTiming::Early))
    }

    pub(crate) fn rules(&self, workspace: &str) -> StoreRules {
        let (location, folder) = (StoreLocation::new(self.address.clone()), self.folder.path());
        StoreRules::new(location, &folder.join(workspace), &folder.join("state/haft"))
    }

    pub(crate) fn outputs(&self, workspace: &str, retention: OutputRetention) -> StoreOutputs {
        StoreOutputs::new(StoreLocation::new(self.address.clone()), Path::new(workspace), retention)
    }

    /// Queries a number without haft.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        match &self.address {
            StoreAddress::Sqlite(path) => {
                let connection = rusqlite::Connection::open(path).expect("it opens");
                connection.query_row(sql, [], |row| row.get(0)).expect(sql)
            }
            StoreAddress::Postgres(url) => {
                let (client, connection) =
                    tokio_postgres::connect(url, NoTls).await.expect("it is reached");
                tokio::spawn(connection);
                client.batch_execute("SET search_path TO haft").await.expect("set");
                let wide = format!("SELECT ({sql})::bigint");
                client.query_one(&wide, &[]).await.expect(sql).get(0)
            }
        }
    }

    /// Changes the store without haft.
    pub(crate) async fn tamper(&self, sql: &str) {
        match &self.address {
            StoreAddress::Sqlite(path) => {
                let connection = rusqlite::Connection::open(path).expect("it opens");
                connection.execute_batch(sql).expect(sql);
            }
            StoreAddress::Postgres(url) => {
                run(url, &format!("SET search_path TO haft; {sql}")).await
            }
        }
    }
}

pub(crate) fn entry(number: u64, effect: &str) -> LedgerEntry {
    serde_json::from_value(json!({
        "call_id": format!("call_{number}"), "session": format!("s\u{0}{}", number % 2), "agents": [],
        "parent": null, "tool": if effect == "read" { "read" } else { "write" }, "effect": effect,
        "input": {"path": format!("ä\u{0}{number}")}, "repairs": [], "accesses": [], "decision": null,
        "verdict": null, "error": if number == 3 { json!("timeout") } else { json!(null) },
        "output_sha256": "", "began_ms": 1000 + number, "ms": number
    }))
    .expect("an entry")
}

pub(crate) fn change(number: u64) -> LedgerEntry {
    entry(number, "write")
}

pub(crate) fn read_call(number: u64) -> LedgerEntry {
    entry(number, "read")
}
