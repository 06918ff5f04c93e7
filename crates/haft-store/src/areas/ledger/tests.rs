//! Tests of the ledger on a real file.

use std::{path::PathBuf, task::Poll, time::Duration};

use haft_core::ErrorKind;
use proptest::prelude::*;
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

use super::*;

struct Fixture {
    _folder: TempDir,
    path: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(".haft/haft.db");
        Self { _folder: folder, path }
    }

    fn ledger(&self, reply_timing: ReplyTiming) -> StoreLedger {
        StoreLedger::new(StoreLocation::new(StoreAddress::Sqlite(self.path.clone())), reply_timing)
    }

    /// A ledger with entries `1` to `count`.
    async fn filled(&self, count: u64) -> StoreLedger {
        let ledger = self.ledger(ReplyTiming::AfterCommit);
        for number in 1..=count {
            ledger.record(change(number)).await.expect("recorded");
        }
        ledger
    }

    fn tamper(&self, sql: &str) {
        Connection::open(&self.path).expect("opens").execute_batch(sql).expect(sql);
    }
}

fn entry(number: u64, effect: &str) -> LedgerEntry {
    serde_json::from_value(json!({
        "call_id": format!("call_{number}"), "session": format!("s{}", number % 2), "agents": [],
        "parent": null, "tool": if effect == "read" { "read" } else { "write" }, "effect": effect,
        "input": {"path": format!("a\u{0}{number}")}, "repairs": [], "accesses": [],
        "decision": null, "verdict": null, "error": if number == 3 { json!("timeout") } else { json!(null) },
        "output_sha256": "", "began_ms": 1000 + number, "ms": number
    }))
    .expect("an entry")
}

fn change(number: u64) -> LedgerEntry {
    entry(number, "write")
}

fn read_call(number: u64) -> LedgerEntry {
    entry(number, "read")
}

fn ids(entries: &[LedgerEntry]) -> Vec<&str> {
    entries.iter().map(|entry| &*entry.call_id).collect()
}

#[tokio::test]
async fn what_is_recorded_is_read_back_by_another_process() {
    let fixture = Fixture::new();
    fixture.filled(3).await;
    let again = fixture.ledger(ReplyTiming::AfterCommit);
    let newest = again.newest(2).await.expect("read");
    assert_eq!(ids(&newest), ["call_3", "call_2"]);
    assert_eq!(newest[0], change(3));
}

#[tokio::test]
async fn reading_the_ledger_creates_no_store() {
    let fixture = Fixture::new();
    let ledger = fixture.ledger(ReplyTiming::Early);
    assert!(ledger.newest(5).await.expect("nothing").is_empty());
    assert_eq!(ledger.verify(None).await.expect("nothing").entries, 0);
    assert!(!fixture.path.exists());
}

#[tokio::test]
async fn a_filter_takes_what_it_names_newest_first() {
    let fixture = Fixture::new();
    let ledger = fixture.filled(5).await;
    ledger.record(read_call(6)).await.expect("recorded");
    let found = async |filter: LedgerFilter| {
        let found = ledger.find(&filter).await.expect("read");
        found.into_iter().map(|it| it.seq).collect::<Vec<_>>()
    };
    let all = LedgerFilter::default;
    assert_eq!(found(all()).await, [6, 5, 4, 3, 2, 1]);
    assert_eq!(found(LedgerFilter { most: 2, ..all() }).await, [6, 5]);
    assert_eq!(found(LedgerFilter { session: Some("s1".into()), ..all() }).await, [5, 3, 1]);
    assert_eq!(found(LedgerFilter { tool: Some("read".into()), ..all() }).await, [6]);
    assert_eq!(found(LedgerFilter { since_ms: 1004, ..all() }).await, [6, 5, 4]);
    let both = LedgerFilter { session: Some("s0".into()), tool: Some("write".into()), ..all() };
    assert_eq!(found(both).await, [4, 2]);
}

#[tokio::test]
async fn all_pages_of_entries_are_read() {
    let fixture = Fixture::new();
    let ledger = fixture.ledger(ReplyTiming::Early);
    for number in 1..=2_001 {
        ledger.record(read_call(number)).await.expect("recorded");
    }
    let all = ledger.find(&LedgerFilter::default()).await.expect("read");
    assert!(all.iter().map(|it| it.seq).eq((1..=2_001).rev()), "{}", all.len());
    let mut onwards = Vec::new();
    let taken = ledger.each_onwards(|it| {
        onwards.push(it.seq);
        Ok::<_, ToolError>(())
    });
    taken.await.expect("read");
    assert!(onwards.into_iter().eq(1..=2_001));
    let verified = ledger.verify(None).await.expect("read");
    assert_eq!((verified.entries, verified.faults), (2_001, Vec::new()));
}

#[tokio::test]
async fn a_read_only_call_is_answered_early_and_written_soon_after() {
    let fixture = Fixture::new();
    let ledger = fixture.ledger(ReplyTiming::Early);
    ledger.record(read_call(1)).await.expect("taken");
    let began = std::time::Instant::now();
    // Another process sees it without a further call.
    let other = fixture.ledger(ReplyTiming::AfterCommit);
    while other.newest(1).await.expect("read").is_empty() {
        assert!(began.elapsed() < Duration::from_secs(30), "it is not written");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_output_is_hashed_now_or_later_but_before_it_is_written() {
    let fixture = Fixture::new();
    for (number, reply_timing) in [(1, ReplyTiming::Early), (2, ReplyTiming::AfterCommit)] {
        let ledger = fixture.ledger(reply_timing);
        for entry in [read_call(number), change(number)] {
            ledger.record_unhashed(entry, "what was shown").await.expect("taken");
        }
        ledger.flush().await.expect("written");
    }
    let ledger = fixture.ledger(ReplyTiming::AfterCommit);
    let entries = ledger.newest(9).await.expect("read");
    assert_eq!(ids(&entries), ["call_2", "call_2", "call_1", "call_1"]);
    let hash = sha256_hex([b"what was shown"]);
    assert!(entries.iter().all(|entry| entry.output_sha256 == hash), "{entries:?}");
    assert_eq!(ledger.verify(None).await.expect("read").faults, []);
}

#[test]
fn a_long_queue_is_written_at_once() {
    let mut queue = CommitQueue::default();
    let mut taken = 0;
    while !queue.is_long() {
        let queued =
            QueuedEntry { output: Some("x".repeat(100_000)), ..QueuedEntry::of(read_call(1)) };
        assert!(queue.may_defer(&queued));
        queue.push(queued);
        taken += 1;
    }
    assert_eq!(taken, 6, "outputs that are not hashed yet count");
    drop(queue.take());
    assert!(!queue.is_long());
}

#[tokio::test]
async fn a_change_is_answered_after_its_commit_and_the_earlier_reads() {
    let fixture = Fixture::new();
    let ledger = fixture.ledger(ReplyTiming::Early);
    ledger.record(read_call(1)).await.expect("taken");
    ledger.record(change(2)).await.expect("recorded");
    let other = fixture.ledger(ReplyTiming::AfterCommit);
    assert_eq!(ids(&other.newest(9).await.expect("read")), ["call_2", "call_1"]);
}

#[tokio::test]
async fn the_end_of_the_process_loses_nothing() {
    let fixture = Fixture::new();
    let ledger = fixture.ledger(ReplyTiming::Early);
    for number in 1..=100 {
        ledger.record(read_call(number)).await.expect("taken");
    }
    flush_everything().expect("written");
    let other = fixture.ledger(ReplyTiming::AfterCommit);
    assert_eq!(other.newest(999).await.expect("read").len(), 100);
}

#[tokio::test]
async fn a_store_that_was_removed_is_created_again() {
    let fixture = Fixture::new();
    let ledger = fixture.filled(2).await;
    std::fs::remove_dir_all(fixture.path.parent().expect("a folder")).expect("removed");
    ledger.record(change(3)).await.expect("recorded");
    let other = fixture.ledger(ReplyTiming::AfterCommit);
    assert_eq!(ids(&other.newest(9).await.expect("read")), ["call_3"]);
}

#[tokio::test]
async fn a_failed_write_is_reported_and_reads_are_kept_for_later() {
    let fixture = Fixture::new();
    std::fs::create_dir_all(&fixture.path).expect("something in the way");
    let ledger = fixture.ledger(ReplyTiming::Early);
    ledger.record(read_call(1)).await.expect("taken");
    let error = ledger.record(change(2)).await.expect_err("not written");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    ledger.record(read_call(3)).await.expect_err("it fails at once while writing fails");
    std::fs::remove_dir(&fixture.path).expect("out of the way");
    ledger.record(change(4)).await.expect("recorded");
    assert_eq!(ids(&ledger.newest(9).await.expect("read")), ["call_4", "call_1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_at_once_make_one_chain() {
    let fixture = Fixture::new();
    let ledgers = [fixture.ledger(ReplyTiming::Early), fixture.ledger(ReplyTiming::AfterCommit)];
    let ledgers: Vec<_> = ledgers.into_iter().map(Arc::new).collect();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..16_u64 {
        let ledger = ledgers[(task % 2) as usize].clone();
        tasks.spawn(async move {
            for number in 0..50 {
                let made = if number % 2 == 0 { read_call } else { change };
                ledger.record(made(task * 100 + number)).await.expect("recorded");
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("no panic");
    }
    for ledger in &ledgers {
        ledger.flush().await.expect("written");
    }
    let verified = ledgers[0].verify(None).await.expect("read");
    assert_eq!((verified.entries, verified.faults), (800, Vec::new()));
    let all = ledgers[0].newest(9_999).await.expect("read");
    let different: std::collections::BTreeSet<_> = ids(&all).into_iter().collect();
    assert_eq!(different.len(), 800, "none lost, none twice");
}

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), work).await.expect("it is done in time")
}

#[tokio::test]
async fn a_cancelled_writer_leaves_the_commit_to_the_next_caller() {
    let fixture = Fixture::new();
    let ledger = fixture.ledger(ReplyTiming::AfterCommit);
    let writer = ledger.0.writer.lock().await;
    let mut records = [1, 2, 3].map(|number| ledger.record(change(number)));
    for waits in &mut records {
        let waits = std::future::poll_fn(|context| Poll::Ready(waits.as_mut().poll(context)));
        assert!(waits.await.is_pending());
    }
    let [stopped, also_stopped, next] = records;
    drop(stopped);
    drop(writer);
    // It was given the lock, and is not polled any more.
    drop(also_stopped);
    in_time(next).await.expect("recorded");
    assert_eq!(ids(&ledger.newest(9).await.expect("read")), ["call_3", "call_2", "call_1"]);
    in_time(ledger.record(change(4))).await.expect("no caller has the lock any more");
}

#[test]
fn equal_reads_in_a_row_become_one_line() {
    let batch = |numbers: &[u64]| -> Vec<QueuedEntry> {
        let equal = |number: &u64| {
            let mut entry = if *number == 0 { change(9) } else { read_call(5) };
            entry.began_ms += number;
            entry.ms = *number;
            entry.call_id = format!("\"began_ms\": {number},\"session\":");
            entry
        };
        numbers.iter().map(|number| QueuedEntry::of(equal(number))).collect()
    };
    // An entry without decision and verdict counts as asked; these calls were allowed.
    for (numbers, calls) in [(&[1, 2, 3][..], &[3][..]), (&[1, 2, 0, 3], &[2, 1, 1])] {
        let mut batch = batch(numbers);
        for queued in &mut batch {
            queued.entry.decision = serde_json::from_value(json!({
                "action": "allow", "reason": {"mode": {"mode": "contained", "access": {"read": "a"}}}, "change": "x", "agent": null
            }))
            .expect("a decision");
        }
        let lines = super::queue::lines(&mut batch).expect("JSON");
        assert!(lines.iter().map(|line| line.columns.calls).eq(calls.iter().copied()));
        for line in &lines {
            let entry: LedgerEntry = serde_json::from_str(&line.json).expect("an entry");
            assert_eq!(serde_json::to_string(&entry).expect("JSON"), line.json);
            assert_eq!(entry.calls(), line.columns.calls);
        }
    }
}

#[test]
fn more_callers_are_expected_after_larger_batches() {
    let mut queue = CommitQueue::default();
    let mut come = |count: u64| {
        for number in 0..count {
            let caller = Some(tokio::sync::oneshot::channel().0);
            queue.push(QueuedEntry { caller, ..QueuedEntry::of(change(number)) });
        }
        let expects_more = queue.expects_more();
        drop(queue.take());
        expects_more
    };
    assert!(!come(7), "there is no earlier batch");
    assert!(come(1));
    assert!(come(1), "one came late; the others come after it");
    assert!(!come(1), "they are gone");
}

#[tokio::test]
async fn a_single_caller_is_answered_without_a_wait() {
    let fixture = Fixture::new();
    let ledger = fixture.filled(1).await;
    for number in 2..=300 {
        let mut record = ledger.record(change(number));
        let polled = std::future::poll_fn(|context| Poll::Ready(record.as_mut().poll(context)));
        assert!(matches!(polled.await, Poll::Ready(Ok(()))), "{number}");
    }
}

#[track_caller]
fn check_found(faults: &[LedgerError], seq: u64, expected: &str) {
    let found = faults.iter().any(|fault| fault.seq == seq && fault.what.contains(expected));
    assert!(found, "{seq}: {expected}: {faults:?}");
}

#[tokio::test]
async fn tampering_is_found_where_it_was_done() {
    for (sql, seq, expected) in [
        ("UPDATE ledger SET entry = replace(entry, 'write', 'read') WHERE seq = 3", 3, "hash"),
        ("UPDATE ledger SET hash = upper(hash) WHERE seq = 3", 3, "hash"),
        ("UPDATE ledger SET tool = 'read' WHERE seq = 4", 4, "column `tool`"),
        ("UPDATE ledger SET error = NULL WHERE seq = 3", 3, "column `error`"),
        ("UPDATE ledger SET action = 'allow' WHERE seq = 2", 2, "column `action`"),
        ("UPDATE ledger SET began_ms = 1 WHERE seq = 2", 2, "column `began_ms`"),
        ("UPDATE ledger SET entry = 'x' WHERE seq = 2", 2, "not an entry"),
        ("DELETE FROM ledger WHERE seq = 1", 1, "entry 1 is missing"),
        ("DELETE FROM ledger WHERE seq IN (2, 3)", 2, "entries 2 to 3 are missing"),
        ("DELETE FROM ledger WHERE seq = 5", 5, "the last, is missing: the store knows"),
        ("DELETE FROM ledger", 1, "entries 1 to 5, the last, are missing"),
        (
            "UPDATE ledger SET seq = 99 WHERE seq = 2; UPDATE ledger SET seq = 2 WHERE seq = 4; UPDATE ledger SET seq = 4 WHERE seq = 99",
            2,
            "moved here",
        ),
        ("UPDATE chain SET seq = 4", 5, "appended after the end"),
        ("UPDATE chain SET hash = 'x'", 5, "another hash for its end"),
        ("DELETE FROM chain", 5, "the end of the chain is missing"),
        ("UPDATE ledger SET seq = -1 WHERE seq = 5", 0, "the invalid number -1"),
    ] {
        let fixture = Fixture::new();
        let ledger = fixture.filled(5).await;
        let whole = ledger.verify(None).await.expect("read");
        assert_eq!((whole.entries, whole.head.seq, &*whole.faults), (5, 5, &[][..]));
        fixture.tamper(sql);
        let faults = ledger.verify(None).await.expect("read").faults;
        assert!(
            faults.iter().any(|fault| fault.seq == seq && fault.what.contains(expected)),
            "{sql}: {faults:?}"
        );
    }
}

#[tokio::test]
async fn an_end_cut_off_together_with_its_head_is_detected_by_an_anchor() {
    let fixture = Fixture::new();
    let ledger = fixture.filled(5).await;
    let anchor = ledger.verify(None).await.expect("read").head;
    fixture.tamper(
        "DELETE FROM ledger WHERE seq > 3; UPDATE chain SET seq = 3, hash = (SELECT hash FROM ledger WHERE seq = 3)",
    );
    assert_eq!(ledger.verify(None).await.expect("read").faults, []);
    let faults = ledger.verify(Some(&anchor)).await.expect("read").faults;
    check_found(&faults, 4, "entries 4 to 5, the last, are missing: the anchor knows them");
    for number in 6..=8 {
        ledger.record(change(number)).await.expect("recorded");
    }
    let faults = ledger.verify(Some(&anchor)).await.expect("read").faults;
    check_found(&faults, 5, "the anchor has another hash");
    assert_eq!(anchor.to_string().parse(), Ok(anchor));
}

#[tokio::test]
async fn a_chain_whose_end_was_moved_back_is_not_overwritten() {
    let fixture = Fixture::new();
    let ledger = fixture.filled(3).await;
    fixture.tamper("UPDATE chain SET seq = 1");
    let error = ledger.record(change(4)).await.expect_err("there is an entry 2 already");
    assert!(error.next_step().contains("haft ledger verify"), "{error}: {}", error.next_step());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whichever byte of an entry is changed, the entry is reported.
    #[test]
    fn any_changed_byte_is_found(seq in 1_u64..=4, at in 0_usize..200, letter in "[a-z0-9]") {
        let fixture = Fixture::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let ledger = runtime.block_on(fixture.filled(4));
        let before = runtime.block_on(ledger.find(&LedgerFilter::default())).expect("read");
        let text = &before.iter().find(|it| it.seq == seq).expect("there").text;
        let at = at % text.len();
        prop_assume!(text.is_ascii() && text.as_bytes()[at] != letter.as_bytes()[0]);
        let mut changed = text.clone();
        changed.replace_range(at..=at, &letter);
        let connection = Connection::open(&fixture.path).expect("opens");
        connection.execute("UPDATE ledger SET entry = ?1 WHERE seq = ?2", (changed, seq as i64)).expect("done");
        let faults = runtime.block_on(ledger.verify(None)).expect("read").faults;
        prop_assert!(faults.iter().any(|fault| fault.seq == seq), "{:?}", faults);
    }
}
