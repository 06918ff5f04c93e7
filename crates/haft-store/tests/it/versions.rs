//! Migration of stores of every earlier version: the result equals a new store and keeps its
//! contents.

use haft_core::{Ledger, Remember, SavedRules, Scope};
use haft_store::{Store, StoreAddress};
use tokio_postgres::NoTls;

use crate::stores::{Fresh, change, each};

/// Every column and index, by name.
async fn shape(store: &Fresh) -> Vec<String> {
    match &store.address {
        StoreAddress::Sqlite(path) => {
            let sql = "SELECT it.name || '.' || c.name || ' ' || c.type FROM sqlite_master it, pragma_table_info(it.name) c \
                WHERE it.type = 'table' UNION ALL SELECT name FROM sqlite_master WHERE type = 'index' ORDER BY 1";
            let connection = rusqlite::Connection::open(path).expect("it opens");
            let mut statement = connection.prepare(sql).expect(sql);
            let rows = statement.query_map([], |row| row.get(0)).expect(sql);
            rows.collect::<Result<_, _>>().expect(sql)
        }
        StoreAddress::Postgres(url) => {
            let sql = "SELECT table_name || '.' || column_name || ' ' || data_type AS it FROM information_schema.columns \
                WHERE table_schema = 'haft' UNION ALL SELECT indexname FROM pg_indexes WHERE schemaname = 'haft' ORDER BY it";
            let (client, connection) =
                tokio_postgres::connect(url, NoTls).await.expect("it is reached");
            tokio::spawn(connection);
            client.query(sql, &[]).await.expect(sql).iter().map(|row| row.get(0)).collect()
        }
    }
}

#[tokio::test]
async fn every_earlier_version_migrates_to_the_newest_and_keeps_its_contents() {
    for store in each().await {
        store.ledger().record(change(1)).await.expect("recorded");
        let rules =
            Remember { rules: vec!["write".into()], scope: Scope::Project, expires_ms: None };
        store.rules("w").save("s", "Ann", &rules).await.expect("saved");
        let (new, newest) =
            (shape(&store).await, store.number("SELECT max(version) FROM migrations").await);
        assert!(new.len() > 100 && newest > 7, "{newest}: {new:?}");
        for version in 1..newest {
            store.make_older(version).await;
            assert_ne!(shape(&store).await, new, "version {version} is another one");
            drop(Store::existing(&store.address).await.expect("migrated").expect("there"));
            assert_eq!(shape(&store).await, new, "from version {version}");
            assert_eq!(store.number("SELECT max(version) FROM migrations").await, newest);
            // One more call each time.
            let (ledger, calls) = (store.ledger(), version.unsigned_abs() + 1);
            ledger.record(change(calls)).await.expect("recorded");
            let verified = ledger.verify(None).await.expect("read");
            assert_eq!((verified.entries, &*verified.faults), (calls, &[][..]), "{version}");
            let kept = store.rules("w").active("s").await.expect("read");
            assert_eq!(kept.len(), 1, "from version {version}");
        }
    }
}
