//! A database that cannot be reached, goes away, or is locked by another client.

use std::time::{Duration, Instant};

use haft_core::{ErrorKind, Ledger, OutputSource, Outputs};
use haft_store::{OutputRetention, ReplyTiming, Store, StoreAddress, StoreLedger, StoreLocation};
use tokio_postgres::NoTls;

use crate::{
    cluster::Cluster,
    stores::{Fresh, change, is_ci, postgres, run},
};

fn url(address: &StoreAddress) -> String {
    match address {
        StoreAddress::Postgres(url) => url.clone(),
        StoreAddress::Sqlite(path) => panic!("{} is a file", path.display()),
    }
}

#[tokio::test]
async fn a_missing_server_is_reported_in_bounded_time() {
    // One port without a listener, and one whose listener never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let ports = [&silent, &closed].map(|it| it.local_addr().expect("a port").port());
    drop(closed);
    for port in ports {
        let address = StoreAddress::Postgres(format!("postgres://ada:s3cret@127.0.0.1:{port}/db"));
        let began = Instant::now();
        let error = Store::open(&address).await.err().expect("there is no server");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.message().contains("cannot be reached"), "{error}");
        assert!(!error.message().contains("s3cret"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(40));
    }
    let ledger = StoreLedger::new(
        StoreLocation::new(StoreAddress::Postgres("postgres://127.0.0.1:1/x".to_owned())),
        ReplyTiming::Early,
    );
    assert_eq!(
        ledger.record(change(1)).await.expect_err("reported").kind(),
        ErrorKind::Unavailable
    );
}

#[tokio::test]
async fn lost_connections_are_made_again_and_nothing_is_recorded_twice() {
    let Some(store) = postgres().await else { return };
    let ledger = store.ledger();
    for number in 1..=30 {
        if number % 10 == 0 {
            run(&url(&store.address), CUT).await;
        }
        ledger.record(change(number)).await.expect("recorded");
    }
    let verified = ledger.verify(None).await.expect("read");
    assert_eq!((verified.entries, verified.faults), (30, Vec::new()));
}

#[tokio::test]
async fn a_locked_chain_is_reported_in_bounded_time() {
    let Some(store) = postgres().await else { return };
    let ledger = store.ledger();
    ledger.record(change(1)).await.expect("recorded");
    let (client, connection) =
        tokio_postgres::connect(&url(&store.address), NoTls).await.expect("it is reached");
    tokio::spawn(connection);
    client.batch_execute("BEGIN; UPDATE haft.chain SET seq = seq").await.expect("held");
    let error = ledger.record(change(2)).await.expect_err("held by the other");
    assert!(error.message().contains("is busy"), "{error}");
    client.batch_execute("ROLLBACK").await.expect("free");
    ledger.record(change(3)).await.expect("recorded");
    assert_eq!(ledger.verify(None).await.expect("read").entries, 2);
}

#[tokio::test]
async fn an_invalid_address_is_refused() {
    let wrong = StoreAddress::Postgres("postgres://host:port/db".to_owned());
    let error = Store::open(&wrong).await.err().expect("no number");
    assert_eq!(error.kind(), ErrorKind::Input);
}

const CUT: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";

#[tokio::test]
async fn a_read_only_database_is_reported_and_can_be_read() {
    let Some(store) = postgres().await else { return };
    let url = url(&store.address);
    let ledger = store.ledger();
    ledger.record(change(1)).await.expect("recorded");
    let (server, name) = url.rsplit_once('/').expect("a name");
    let others = format!("{server}/postgres");
    let cut = CUT.replace("current_database()", &format!("'{name}'"));
    run(&others, &format!("ALTER DATABASE {name} SET default_transaction_read_only = on")).await;
    run(&others, &cut).await;
    for ledger in [&ledger, &store.ledger()] {
        let error = ledger.record(change(2)).await.expect_err("read-only");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.message().contains("read-only transaction (25006)"), "{error}");
        assert!(error.next_step().contains("check that the user may write there"), "{error}");
        assert_eq!(ledger.newest(9).await.expect("it can be read").len(), 1);
    }
    run(&others, &format!("ALTER DATABASE {name} RESET default_transaction_read_only")).await;
    run(&others, &cut).await;
    ledger.record(change(3)).await.expect("recorded again");
    let verified = ledger.verify(None).await.expect("read");
    assert_eq!((verified.entries, verified.faults), (2, Vec::new()));
}

/// Mounts a small disk for the tables of a server, which only root can do. Returns false if that
/// fails.
fn small_disk(cluster: &Cluster, size: &str) -> bool {
    let folder = cluster.folder_for("small");
    let mut mount = std::process::Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", &format!("size={size},mode=0777"), "tmpfs"]).arg(folder);
    let is_there = mount.output().is_ok_and(|output| output.status.success());
    assert!(is_there || !is_ci(), "CI has to run this as root: a small tmpfs cannot be mounted");
    is_there
}

#[tokio::test]
async fn a_full_server_disk_is_reported_and_recording_continues_afterwards() {
    let Some(cluster) = Cluster::start() else { return };
    if !small_disk(&cluster, "6m") {
        return assert!(!cluster.folder_for("small").join("PG_VERSION").exists());
    }
    let folder = cluster.server_folder("small");
    let url = cluster.url();
    run(&url, &format!("CREATE TABLESPACE small LOCATION '{}'", folder.display())).await;
    run(&url, "ALTER DATABASE postgres SET default_tablespace = small").await;
    let address = StoreAddress::Postgres(url);
    let store = Fresh { folder: tempfile::tempdir().expect("a folder"), address };
    let (ledger, outputs) = (store.ledger(), store.outputs("/w", OutputRetention::default()));
    let noise = |seed: u64| -> String {
        (0..9_000_u64)
            .map(|it| format!("{:x}\n", (it + seed * 9_000).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .collect()
    };
    let mut full = None;
    for seed in 0..200 {
        ledger.record(change(seed)).await.expect("small enough");
        let receipt = outputs.keep(noise(seed), OutputSource::default()).await.expect("somewhere");
        if let Some(note) = receipt.note {
            full = Some((note, receipt.id, seed));
            break;
        }
    }
    let (note, id, calls) = full.expect("the disk fills");
    assert!(note.contains("in memory only") && note.contains("the disk is full"), "{note}");
    assert_eq!(*outputs.read(&id).await.expect("from memory"), noise(calls));
    // Fill the disk to its last byte.
    let mut next = calls + 1;
    let error = loop {
        let mut entry = change(next);
        entry.input = serde_json::json!({"content": noise(next)});
        match ledger.record(entry).await {
            Ok(()) => next += 1,
            Err(error) => break error,
        }
        assert!(next < 2_000, "the disk does not fill");
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.message().contains("cannot be written: the disk is full"), "{error}");
    assert!(error.next_step().contains("free space on the server"), "{error}");
    let verified = ledger.verify(None).await.expect("it can be read");
    assert_eq!((verified.entries, verified.faults), (next, Vec::new()));
    let mut grow = std::process::Command::new("mount");
    let grown = grow.args(["-o", "remount,size=64m"]).arg(&folder).status();
    assert!(grown.is_ok_and(|status| status.success()));
    ledger.record(change(next)).await.expect("there is room again");
    assert_eq!(outputs.keep(noise(999), OutputSource::default()).await.expect("kept").note, None);
    assert_eq!(ledger.verify(None).await.expect("read").entries, next + 1);
}
