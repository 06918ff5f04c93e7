//! The ledger's retention on both engines, with several concurrent writers.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use haft_core::{Ledger, LedgerEntry};
use haft_store::{
    LedgerFilter, LedgerRetention, Recording, ReplyTiming, Store, StoreLedger, StoreLocation,
};

use serde_json::json;

use crate::stores::{Fresh, each, entry};

/// An allowed call of the current time.
fn allowed(number: u64, effect: &str) -> LedgerEntry {
    // The entries below 10 include one with an error.
    let mut made = entry(number + 10, effect);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    made.began_ms = u64::try_from(since.as_millis()).expect("soon enough");
    made.decision = serde_json::from_value(json!({
        "action": "allow", "reason": {"mode": {"mode": "contained", "access": null}}, "change": "", "agent": null
    }))
    .expect("a decision");
    made
}

fn read_call(number: u64) -> LedgerEntry {
    allowed(number, "read")
}

fn change(number: u64) -> LedgerEntry {
    allowed(number, "write")
}

/// The ledger as another process has it.
fn ledger(store: &Fresh, bytes: u64) -> Arc<StoreLedger> {
    let location = StoreLocation::new(store.address.clone());
    let retention = LedgerRetention { bytes, ..LedgerRetention::default() };
    let ledger = StoreLedger::new(location, ReplyTiming::AfterCommit);
    Arc::new(ledger.retaining(retention))
}

async fn all(ledger: &StoreLedger) -> Vec<LedgerEntry> {
    let found = ledger.find(&LedgerFilter::default()).await.expect("it is read");
    found.into_iter().map(|it| it.entry).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_writers_and_prunes_lose_nothing_that_must_stay() {
    for store in each().await {
        let (small, large) = (ledger(&store, 100_000), ledger(&store, u64::MAX / 2));
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..4_u64 {
            let ledger = if task % 2 == 0 { small.clone() } else { large.clone() };
            tasks.spawn(async move {
                for number in 0..100 {
                    let made = if number % 10 == 0 { change } else { read_call };
                    ledger.record(made(task * 1_000 + number)).await.expect("recorded");
                }
            });
        }
        for _ in 0..2 {
            let ledger = small.clone();
            tasks.spawn(async move {
                for _ in 0..10 {
                    ledger.prune().await.expect("pruned");
                    tokio::task::yield_now().await;
                }
            });
        }
        while let Some(task) = tasks.join_next().await {
            task.expect("no panic");
        }
        let verified = large.verify(None).await.expect("read");
        assert_eq!(verified.faults, []);
        let left = all(&large).await;
        assert_eq!(left.iter().filter(|it| it.tool == "write").count(), 40);
        let calls: u64 = left.iter().map(LedgerEntry::calls).sum();
        assert_eq!(calls + verified.dropped.read_only, 400, "{:?}", verified.dropped);
        assert!(verified.dropped.read_only > 0);
    }
}

#[tokio::test]
async fn the_oldest_go_by_size_and_the_store_reports_its_size() {
    for store in each().await {
        let ledger = ledger(&store, 150_000);
        for number in 0..400 {
            ledger.record(change(number)).await.expect("recorded");
        }
        let verified = ledger.verify(None).await.expect("read");
        assert_eq!(verified.faults, []);
        assert!(verified.dropped.changing > 50, "{:?}", verified.dropped);
        let opened = Store::existing(&store.address).await.expect("opens").expect("there");
        let info = opened.info().await.expect("read");
        assert_eq!(info.calls + verified.dropped.changing, 400);
        let part = |name| info.parts.iter().find(|part| part.name == name).map(|part| part.bytes);
        assert!(part("ledger, changing").is_some_and(|bytes| bytes < 200_000), "{info:?}");
        assert!(part("ledger, anchors").is_some_and(|bytes| bytes < 20_000), "{info:?}");
    }
}

#[tokio::test]
async fn equal_read_only_calls_become_one_entry_that_counts_them() {
    for store in each().await {
        let ledger = store.ledger();
        let task = |number: u64| {
            let ledger = ledger.clone();
            async move { ledger.record(read_call(number)).await.expect("recorded") }
        };
        // Concurrently, so that they form few batches on either engine.
        let mut tasks = tokio::task::JoinSet::new();
        (0..300).for_each(|number| drop(tasks.spawn(task(number % 3))));
        while let Some(task) = tasks.join_next().await {
            task.expect("no panic");
        }
        ledger.flush().await.expect("written");
        let left = all(&ledger).await;
        assert_eq!(left.iter().map(LedgerEntry::calls).sum::<u64>(), 300);
        assert!(left.len() < 150, "{} entries for 300 calls", left.len());
        let verified = ledger.verify(None).await.expect("read");
        assert_eq!(verified.faults, []);
        // A replay contains each of them.
        let recording =
            Recording::of_session(StoreLocation::new(store.address.clone()), "s\u{0}1").await;
        let calls: u64 = recording.expect("there").calls().iter().map(|it| it.entry.calls()).sum();
        assert_eq!(calls, 100);
    }
}

#[tokio::test]
async fn a_changing_call_is_never_merged_and_keeps_its_position() {
    for store in each().await {
        let ledger = store.ledger();
        for number in [1, 1, 2, 2] {
            ledger.record(read_call(number)).await.expect("recorded");
        }
        for _ in 0..2 {
            ledger.record(change(9)).await.expect("recorded");
        }
        ledger.record(read_call(1)).await.expect("recorded");
        ledger.flush().await.expect("written");
        let left = all(&ledger).await;
        let expected: Vec<_> = left.iter().rev().map(|it| (it.tool.clone(), it.calls())).collect();
        let changes: Vec<usize> = expected
            .iter()
            .enumerate()
            .filter(|(_, (tool, _))| tool == "write")
            .map(|(at, _)| at)
            .collect();
        assert_eq!(changes.len(), 2, "{expected:?}");
        assert_eq!(expected.last(), Some(&("read".to_owned(), 1)), "{expected:?}");
        assert_eq!(expected.iter().map(|(_, calls)| calls).sum::<u64>(), 7);
    }
}

#[tokio::test]
async fn a_recording_counts_its_dropped_calls() {
    for store in each().await {
        let large = ledger(&store, u64::MAX / 2);
        for number in 0..40 {
            large.record(read_call(number)).await.expect("recorded");
        }
        let location = || StoreLocation::new(store.address.clone());
        assert_eq!(Recording::of_session(location(), "s\u{0}1").await.expect("there").lost(), 0);
        let opened = ledger(&store, 8_000);
        opened.prune().await.expect("pruned");
        let recording = Recording::of_session(location(), "s\u{0}1").await.expect("there");
        let left = recording.calls().len() as u64;
        assert_eq!(recording.lost() + left, 20);
        assert!(recording.lost() > 0);
        // An entry after the gap still follows from the last dropped one.
        let is_changed = |it: &haft_store::RecordingCall| {
            it.outcome_status == haft_store::OutcomeStatus::Changed
        };
        assert!(!recording.calls().iter().any(is_changed));
    }
}
