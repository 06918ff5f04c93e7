//! Tests of retention on a real file: whatever is dropped, the chain stays valid and no other entry
//! is missing.

use std::path::PathBuf;

use haft_core::Ledger as _;
use proptest::{collection::vec, prelude::*};
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::{
    ReplyTiming, StoreAddress, StoreLedger, StoreLocation, Verification, engine::clock::now_ms,
};

struct Fixture {
    _folder: TempDir,
    path: PathBuf,
}

fn fixture() -> Fixture {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("haft.db");
    Fixture { _folder: folder, path }
}

impl Fixture {
    fn ledger(&self, bytes: u64) -> StoreLedger {
        let location = StoreLocation::new(StoreAddress::Sqlite(self.path.clone()));
        let retention = LedgerRetention { bytes, ..LedgerRetention::default() };
        StoreLedger::new(location, ReplyTiming::AfterCommit).retaining(retention)
    }

    /// For filling: drops nothing.
    fn unlimited(&self) -> StoreLedger {
        self.ledger(u64::MAX / 2)
    }

    /// Copies the store to another file.
    fn copy(&self) -> Self {
        let copy = fixture();
        self.tamper(&format!("VACUUM INTO '{}'", copy.path.display()));
        copy
    }

    fn tamper(&self, sql: &str) {
        Connection::open(&self.path).expect("opens").execute_batch(sql).expect(sql);
    }
}

fn entry(number: u64, effect: &str) -> LedgerEntry {
    serde_json::from_value(json!({
        "call_id": format!("call_{number}"), "session": format!("s{}", number % 3), "agents": [],
        "parent": null, "tool": effect, "effect": effect, "input": {"number": number, "text": "x".repeat(300)},
        "repairs": [], "accesses": [], "decision": null, "verdict": null, "error": null,
        "output_sha256": "", "began_ms": now_ms(), "ms": 1
    }))
    .expect("an entry")
}

async fn verified(ledger: &StoreLedger) -> Verification {
    ledger.verify(None).await.expect("it is read")
}

/// Counts the calls that may have changed something.
async fn changes(ledger: &StoreLedger) -> usize {
    let all = ledger.find(&crate::LedgerFilter::default()).await.expect("it is read");
    all.iter().filter(|it| it.entry.effect != haft_core::Effect::Read).count()
}

async fn fill(ledger: &StoreLedger, numbers: std::ops::Range<u64>, effect: &str) {
    for number in numbers {
        ledger.record(entry(number, effect)).await.expect("recorded");
    }
}

#[tokio::test]
async fn calls_that_only_read_never_push_out_calls_that_changed_something() {
    let fixture = fixture();
    let ledger = fixture.ledger(200_000);
    fill(&ledger, 0..50, "write").await;
    fill(&ledger, 50..3_000, "read").await;
    assert_eq!(changes(&ledger).await, 50);
    let verified = verified(&ledger).await;
    assert_eq!(verified.faults, []);
    assert!(verified.entries < 400, "{} entries are left", verified.entries);
    assert_eq!(verified.dropped.changing, 0);
    assert!(verified.dropped.read_only > 2_500, "{:?}", verified.dropped);
    assert_eq!(verified.dropped.entries + verified.entries, verified.head.seq);
}

#[tokio::test]
async fn calls_that_changed_something_go_when_they_alone_are_too_much_the_oldest_first() {
    let fixture = fixture();
    let ledger = fixture.ledger(200_000);
    fill(&ledger, 0..1_000, "write").await;
    let verified = verified(&ledger).await;
    assert_eq!(verified.faults, []);
    assert!(verified.dropped.changing > 500, "{:?}", verified.dropped);
    let left = ledger.find(&crate::LedgerFilter::default()).await.expect("it is read");
    let newest: Vec<_> = left.iter().take(100).map(|it| it.entry.call_id.clone()).collect();
    let expected: Vec<_> = (900..1_000).rev().map(|number| format!("call_{number}")).collect();
    assert_eq!(newest, expected);
}

#[tokio::test]
async fn the_newest_stay_however_small_the_limit_is() {
    let fixture = fixture();
    let ledger = fixture.ledger(0);
    fill(&ledger, 0..300, "write").await;
    fill(&ledger, 300..400, "read").await;
    let verified = verified(&ledger).await;
    assert_eq!(verified.faults, []);
    let left = ledger.find(&crate::LedgerFilter::default()).await.expect("it is read");
    assert!(left.len() <= 140, "{} are left", left.len());
    assert!(left.iter().any(|it| it.entry.call_id == "call_299"));
}

#[tokio::test]
async fn old_entries_go_by_their_age_alone() {
    let fixture = fixture();
    let unlimited = fixture.unlimited();
    let day = 86_400_000;
    for number in 0..40_u64 {
        let effect = if number % 2 == 0 { "read" } else { "write" };
        let began_ms = now_ms() - 100 * day + number * 3 * day;
        let mut old = entry(number, effect);
        old.began_ms = began_ms;
        unlimited.record(old).await.expect("recorded");
    }
    let foreseen = unlimited.preview_prune().await.expect("read");
    let pruned = unlimited.prune().await.expect("pruned");
    assert_eq!((pruned.entries, pruned.read_only, pruned.changing), (4, 2, 2));
    assert_eq!(foreseen, pruned);
    assert_eq!(unlimited.prune().await.expect("pruned"), Pruned::default());
    assert_eq!(verified(&unlimited).await.faults, []);
}

#[tokio::test]
async fn entries_needed_by_undo_approvals_or_results_stay() {
    let fixture = fixture();
    fill(&fixture.unlimited(), 0..300, "write").await;
    fill(&fixture.unlimited(), 300..600, "read").await;
    fixture.tamper(
        "INSERT INTO changes VALUES (1, 1, 'call_7', 's', 'edit', 1, 0);
         INSERT INTO entries (id, change, workspace, path, before_kind, before_mode, before_size, after_kind, after_mode, after_size)
            VALUES (1, 1, 1, 'a', 1, 1, 1, 1, 1, 1);
         INSERT INTO approvals (id, workspace, state, call_id, created_ms, expires_ms, request, asker, lease_ms)
            VALUES ('ask_1', 'w', 'pending', 'call_8', 1, 1, 'x', 'a', 1), ('ask_2', 'w', 'approved', 'call_9', 1, 1, 'x', 'a', 1),
                   ('ask_3', 'w', 'denied', 'call_10', 1, 1, 'x', 'a', 1);
         INSERT INTO call_results SELECT seq, 'w', 'h' FROM ledger WHERE call_id = 'call_310';",
    );
    let ledger = fixture.ledger(0);
    ledger.prune().await.expect("pruned");
    let left = ledger.find(&crate::LedgerFilter::default()).await.expect("it is read");
    let left: Vec<_> = left.iter().map(|it| it.entry.call_id.as_str()).collect();
    for needed in ["call_7", "call_8", "call_9", "call_310"] {
        assert!(left.contains(&needed), "{needed}: {left:?}");
    }
    for gone in ["call_6", "call_10", "call_311"] {
        assert!(!left.contains(&gone), "{gone}: {left:?}");
    }
    assert_eq!(verified(&ledger).await.faults, []);
}

#[tokio::test]
async fn a_call_that_was_refused_goes_like_one_that_only_read() {
    let fixture = fixture();
    let unlimited = fixture.unlimited();
    fill(&unlimited, 0..120, "write").await;
    for number in 120..400 {
        let mut refused = entry(number, "write");
        refused.error = Some(haft_core::ErrorKind::Denied);
        unlimited.record(refused).await.expect("recorded");
    }
    let ledger = fixture.ledger(120_000);
    let pruned = ledger.prune().await.expect("pruned");
    assert_eq!(pruned.changing, 0, "{pruned:?}");
    assert!(pruned.read_only > 200, "{pruned:?}");
}

#[tokio::test]
async fn entries_of_earlier_versions_are_classified_by_their_text() {
    let fixture = fixture();
    fill(&fixture.unlimited(), 0..50, "write").await;
    fill(&fixture.unlimited(), 50..400, "read").await;
    fixture.tamper("UPDATE ledger SET kind = NULL; UPDATE chain SET read_bytes = 0");
    let ledger = fixture.ledger(100_000);
    ledger.prune().await.expect("pruned");
    assert_eq!(changes(&ledger).await, 50);
    let verified = verified(&ledger).await;
    assert_eq!((verified.faults, verified.dropped.changing), (Vec::new(), 0));
    assert!(verified.dropped.read_only > 200);
}

#[tokio::test]
async fn an_anchor_accepts_dropped_entries() {
    let fixture = fixture();
    let unlimited = fixture.unlimited();
    fill(&unlimited, 0..300, "read").await;
    let kept = verified(&unlimited).await.head;
    fill(&unlimited, 300..600, "read").await;
    fixture.ledger(0).prune().await.expect("pruned");
    let found = unlimited.verify(Some(&kept)).await.expect("read");
    assert_eq!((found.faults, found.anchor_is_dropped), (Vec::new(), true));
    let last = unlimited.find(&crate::LedgerFilter { anchors: true, ..Default::default() }).await;
    let last = last.expect("read");
    let dropped = last.first().and_then(|it| it.entry.dropped.clone()).expect("an anchor");
    let range = dropped.ranges.last().expect("a gap");
    let ours = super::super::Anchor { seq: range.last, hash: range.hash.clone() };
    let found = unlimited.verify(Some(&ours)).await.expect("read");
    assert_eq!((found.faults, found.anchor_is_dropped), (Vec::new(), false));
    let other = super::super::Anchor { hash: "0".repeat(64), ..ours };
    let found = unlimited.verify(Some(&other)).await.expect("read");
    assert!(found.faults.iter().any(|it| it.what.contains("anchor has another hash")));
}

/// A ledger with gaps: entries 1 to 300, some of which were dropped, and an anchor.
async fn with_gaps() -> (Fixture, StoreLedger) {
    let fixture = fixture();
    let unlimited = fixture.unlimited();
    for number in 1..=300 {
        let effect = if number % 10 == 0 { "write" } else { "read" };
        unlimited.record(entry(number, effect)).await.expect("recorded");
    }
    fixture.ledger(100_000).prune().await.expect("pruned");
    let found = verified(&unlimited).await;
    assert_eq!(found.faults, []);
    assert!(found.dropped.read_only > 100, "{:?}", found.dropped);
    (fixture, unlimited)
}

#[tokio::test]
async fn tampering_is_found_beside_gaps_too() {
    let (whole, _) = with_gaps().await;
    for (sql, expected) in [
        ("DELETE FROM ledger WHERE seq = 10", "and no anchor entry lists"),
        ("DELETE FROM ledger WHERE seq = 20", "and no anchor entry lists"),
        ("DELETE FROM ledger WHERE seq = 290", "entry 290 is missing, and no anchor entry lists"),
        ("DELETE FROM ledger WHERE kind = 3", "are missing"),
        ("UPDATE ledger SET session = 'x' WHERE kind = 3", "column `session`"),
        ("UPDATE ledger SET kind = 0 WHERE kind = 3", "column `kind`"),
        ("UPDATE ledger SET kind = 0 WHERE seq = 10", "column `kind`"),
        ("UPDATE ledger SET kind = 9 WHERE seq = 10", "column `kind`"),
        ("UPDATE ledger SET calls = 7 WHERE seq = 10", "column `calls`"),
        ("UPDATE ledger SET previous = NULL WHERE seq = 10", "column `previous`"),
        ("UPDATE ledger SET previous = hash WHERE seq = 10", "column `previous`"),
        ("UPDATE ledger SET previous = hash WHERE seq = 295", "column `previous`"),
        ("UPDATE ledger SET entry = replace(entry, 'xx', 'yy') WHERE seq = 20", "hash"),
        (
            "UPDATE ledger SET entry = replace(entry, '\"last\":9', '\"last\":10') WHERE kind = 3; DELETE FROM ledger WHERE seq = 10",
            "hash",
        ),
        (
            "INSERT INTO ledger SELECT 5, call_id, session, tool, began_ms, action, error, entry, hash, kind, calls, previous FROM ledger WHERE seq = 10",
            "but not all of them are missing",
        ),
        ("UPDATE ledger SET seq = 5 WHERE seq = 10", "but not all of them are missing"),
    ] {
        let fixture = whole.copy();
        fixture.tamper(sql);
        let faults = verified(&fixture.unlimited()).await.faults;
        assert!(faults.iter().any(|fault| fault.what.contains(expected)), "{sql}: {faults:?}");
    }
}

#[tokio::test]
async fn nothing_is_dropped_beside_a_foreign_gap() {
    let fixture = fixture();
    fill(&fixture.unlimited(), 0..300, "read").await;
    fixture.tamper("DELETE FROM ledger WHERE seq = 1");
    let ledger = fixture.ledger(0);
    let before = verified(&ledger).await;
    ledger.prune().await.expect("a gap before the first entry cannot be detected");
    let after = verified(&ledger).await;
    assert!(!before.faults.is_empty() && !after.faults.is_empty(), "{:?}", after.faults);
}

#[derive(Clone, Copy, Debug)]
enum Work {
    Reads(u64),
    Same(u64),
    Writes(u64),
    Prune(u64),
}

fn work() -> impl Strategy<Value = Work> {
    prop_oneof![
        (1..60_u64).prop_map(Work::Reads),
        (1..60_u64).prop_map(Work::Same),
        (1..30_u64).prop_map(Work::Writes),
        (0..60_000_u64).prop_map(Work::Prune),
    ]
}

async fn carry_out(fixture: &Fixture, all: &[Work]) -> u64 {
    let location = StoreLocation::new(StoreAddress::Sqlite(fixture.path.clone()));
    let retention = LedgerRetention { bytes: u64::MAX / 2, ..LedgerRetention::default() };
    let ledger = StoreLedger::new(location, ReplyTiming::Early).retaining(retention);
    let mut number = 0;
    for work in all {
        match *work {
            Work::Reads(count) => fill(&ledger, number..number + count, "read").await,
            Work::Same(count) => {
                for _ in 0..count {
                    ledger.record(entry(0, "read")).await.expect("recorded");
                }
            }
            Work::Writes(count) => fill(&ledger, number..number + count, "write").await,
            Work::Prune(bytes) => {
                ledger.flush().await.expect("written");
                fixture.ledger(bytes).prune().await.expect("pruned");
            }
        }
        number += match *work {
            Work::Reads(count) | Work::Writes(count) | Work::Same(count) => count,
            Work::Prune(_) => 0,
        };
    }
    ledger.flush().await.expect("written");
    number
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn calls_and_prunes_in_any_order_leave_a_whole_chain(all in vec(work(), 1..20)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (fixture, calls, found, left) = runtime.block_on(async {
            let fixture = fixture();
            let calls = carry_out(&fixture, &all).await;
            let ledger = fixture.unlimited();
            let left = ledger.find(&crate::LedgerFilter::default()).await.expect("read");
            let left: u64 = left.iter().map(|it| it.entry.calls()).sum();
            (fixture, calls, verified(&ledger).await, left)
        });
        prop_assert_eq!(&found.faults, &[]);
        prop_assert_eq!(left + found.dropped.read_only + found.dropped.changing, calls);
        // A deleted entry is found.
        if found.entries > 0 {
            fixture.tamper("DELETE FROM ledger WHERE seq = (SELECT seq FROM ledger ORDER BY hash LIMIT 1)");
            let faults = runtime.block_on(verified(&fixture.unlimited())).faults;
            prop_assert!(!faults.is_empty());
        }
    }
}

#[tokio::test]
async fn a_forged_anchor_is_reported() {
    // A program that can write the store can append an entry; then at least the number of
    // dropped calls is reported.
    let (fixture, ledger) = with_gaps().await;
    let head = verified(&ledger).await.head;
    let victim: (String, String) = Connection::open(&fixture.path)
        .expect("opens")
        .query_row("SELECT hash, entry FROM ledger WHERE seq = 290", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .expect("there");
    let range = PrunedRange { first: 290, last: 290, hash: victim.0.clone() };
    let forged = PrunedEntries { ranges: vec![range], entries: 1, read_only: 1, changing: 0 };
    let line = LedgerLine::of(&LedgerEntry::anchor(forged, 1)).expect("JSON");
    let store = Store::existing(&StoreAddress::Sqlite(fixture.path.clone())).await.expect("opens");
    let mut transaction = store.expect("there").begin().await.expect("begun");
    let end = take_head(&mut transaction).await.expect("there");
    append_in(&mut transaction, end, &[line]).await.expect("added");
    transaction.commit().await.expect("committed");
    // The entry is still there, so the anchor is wrong.
    let faults = verified(&ledger).await.faults;
    assert!(
        faults.iter().any(|it| it.what.contains("but not all of them are missing")),
        "{faults:?}"
    );
    assert!(ledger.verify(Some(&head)).await.expect("read").head.seq > head.seq);
}
