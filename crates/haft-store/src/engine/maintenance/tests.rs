//! Tests of backup and restore on real files.

use std::os::unix::fs::PermissionsExt;

use haft_core::{Ledger, LedgerEntry};
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::{ReplyTiming, StoreLedger, StoreLocation};

fn entry(number: u64) -> LedgerEntry {
    serde_json::from_value(json!({
        "call_id": number.to_string(), "session": "s", "agents": [], "parent": null, "tool": "write",
        "effect": "write", "input": {"text": "x".repeat(500)}, "repairs": [], "accesses": [], "decision": null,
        "verdict": null, "error": null, "output_sha256": "", "began_ms": 1, "ms": 1
    }))
    .expect("an entry")
}

async fn filled(path: &Path, count: u64) -> StoreLedger {
    let ledger = StoreLedger::new(
        StoreLocation::new(StoreAddress::Sqlite(path.to_owned())),
        ReplyTiming::AfterCommit,
    );
    for number in 1..=count {
        ledger.record(entry(number)).await.expect("recorded");
    }
    ledger
}

async fn open(path: &Path) -> Store {
    Store::open(&StoreAddress::Sqlite(path.to_owned())).await.expect("it opens")
}

async fn count(path: &Path) -> u64 {
    open(path).await.info().await.expect("it is read").entries
}

fn folder() -> (TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, backup) = (folder.path().join("haft.db"), folder.path().join("backup.db"));
    (folder, store, backup)
}

#[tokio::test]
async fn a_backup_is_whole_for_its_owner_alone_and_never_written_over() {
    let (_folder, path, backup) = folder();
    let ledger = filled(&path, 30).await;
    let store = open(&path).await;
    store.back_up(&backup).await.expect("copied");
    assert_eq!(fs::metadata(&backup).expect("there").permissions().mode() & 0o777, 0o600);
    ledger.record(entry(31)).await.expect("recorded");
    assert_eq!((count(&path).await, count(&backup).await), (31, 30));
    let error = store.back_up(&backup).await.expect_err("it is there");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(open(&backup).await.check().await.expect("read"), [""; 0]);
}

#[tokio::test]
async fn a_restored_backup_replaces_the_store_and_the_old_one_is_kept() {
    let (_folder, path, backup) = folder();
    let ledger = filled(&path, 3).await;
    open(&path).await.back_up(&backup).await.expect("copied");
    let address = StoreAddress::Sqlite(path.clone());
    for number in 4..=9 {
        ledger.record(entry(number)).await.expect("recorded");
    }
    let aside = restore(&address, &backup).await.expect("put back").expect("there was one");
    assert_eq!((count(&path).await, count(&aside).await), (3, 9));
    // A process that had the old file open continues in the new one.
    ledger.record(entry(10)).await.expect("recorded");
    let verified = ledger.verify(None).await.expect("read");
    assert_eq!((verified.entries, verified.faults), (4, Vec::new()));
    fs::remove_file(&path).expect("there");
    assert_eq!(restore(&address, &backup).await.expect("put back"), None);
}

#[tokio::test]
async fn a_file_that_is_not_a_complete_backup_changes_nothing() {
    let (folder, path, backup) = folder();
    filled(&path, 40).await;
    let address = StoreAddress::Sqlite(path.clone());
    let gone = restore(&address, &backup).await.expect_err("not there");
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    open(&path).await.back_up(&backup).await.expect("copied");
    let whole = fs::read(&backup).expect("there");
    let mut torn = whole.clone();
    torn[20_000..24_000].fill(0x55);
    for broken in [b"words".repeat(1000), whole[..whole.len() / 2].to_vec(), Vec::new(), torn] {
        fs::write(&backup, &broken).expect("written");
        let error = restore(&address, &backup).await.expect_err("not whole");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert_eq!(fs::read(&backup).expect("there"), broken, "the backup is as it was");
        assert_eq!(count(&path).await, 40);
    }
    let names = fs::read_dir(folder.path()).expect("there").filter_map(Result::ok);
    let drafts = names.filter(|name| name.file_name().to_string_lossy().contains("new"));
    assert_eq!(drafts.count(), 0, "nothing half-made is left");
}

#[tokio::test]
async fn a_damaged_store_is_reported_and_not_overwritten() {
    for cut in [false, true] {
        let (_folder, path, backup) = folder();
        drop(filled(&path, 200).await);
        let store = open(&path).await;
        store.back_up(&backup).await.expect("copied");
        drop(store);
        let whole = fs::read(&backup).expect("there");
        let broken = if cut {
            whole[..whole.len() / 2].to_vec()
        } else {
            let mut torn = whole.clone();
            let half = torn.len() / 2;
            torn[half..half + 6_000].fill(0xAA);
            torn
        };
        let broken_path = path.with_file_name("broken.db");
        fs::write(&broken_path, &broken).expect("written");
        let address = StoreAddress::Sqlite(broken_path.clone());
        let reported = match Store::existing(&address).await {
            Ok(store) => match store.expect("there").check().await {
                Ok(wrong) => wrong.join("; "),
                Err(error) => error.to_string(),
            },
            Err(error) => error.to_string(),
        };
        assert!(!reported.is_empty(), "cut: {cut}");
        assert_eq!(fs::read(&broken_path).expect("there"), broken, "nothing is overwritten");
    }
}
