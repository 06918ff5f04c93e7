//! A database that is out of reach, goes away, or is held by somebody else.

use std::time::{Duration, Instant};

use haft_core::{ErrorKind, Ledger};
use haft_store::{Address, Answering, Place, Store, StoreLedger};
use tokio_postgres::NoTls;

use crate::stores::{change, postgres, run};

fn url(address: &Address) -> String {
    match address {
        Address::Postgres(url) => url.clone(),
        Address::Sqlite(path) => panic!("{} is a file", path.display()),
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_in_bounded_time() {
    // A port of our own that nobody listens at, and one where somebody listens and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let ports = [&silent, &closed].map(|it| it.local_addr().expect("a port").port());
    drop(closed);
    for port in ports {
        let address = Address::Postgres(format!("postgres://ada:s3cret@127.0.0.1:{port}/db"));
        let began = Instant::now();
        let error = Store::open(&address).await.err().expect("nobody is there");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.message().contains("is out of reach"), "{error}");
        assert!(!error.message().contains("s3cret"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(40));
    }
    let ledger = StoreLedger::new(
        Place::new(Address::Postgres("postgres://127.0.0.1:1/x".to_owned())),
        Answering::Early,
    );
    assert_eq!(ledger.record(change(1)).await.expect_err("told").kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn connections_that_were_cut_are_made_again_and_nothing_is_recorded_twice() {
    let Some(store) = postgres().await else { return };
    let ledger = store.ledger();
    for number in 1..=30 {
        if number % 10 == 0 {
            let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                       WHERE datname = current_database() AND pid <> pg_backend_pid()";
            run(&url(&store.address), cut).await;
        }
        ledger.record(change(number)).await.expect("recorded");
    }
    let verified = ledger.verify(None).await.expect("read");
    assert_eq!((verified.entries, verified.faults), (30, Vec::new()));
}

#[tokio::test]
async fn a_chain_that_somebody_holds_is_told_in_bounded_time() {
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
async fn an_address_that_is_none_is_refused() {
    let wrong = Address::Postgres("postgres://host:port/db".to_owned());
    let error = Store::open(&wrong).await.err().expect("no number");
    assert_eq!(error.kind(), ErrorKind::Input);
}
