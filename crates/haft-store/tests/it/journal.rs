//! The journal on both engines: stored contents are restored, an undo of an undo restores the
//! change, and collection deletes nothing that an undo needs.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_core::{
    CallInfo, ChangeQuery, ContentHash, Journal, JournalChange, NewChange, NewJournalEntry,
    PathState,
};
use haft_store::{JournalRetention, StoreJournal, StoreLocation};

use crate::stores::{Fresh, each};

const WORKSPACE: &str = "/work/space";

/// One process with a journal.
struct JournalProcess {
    journal: Arc<StoreJournal>,
    workspace: PathBuf,
}

impl Fresh {
    fn process(&self, keep: JournalRetention) -> JournalProcess {
        let journal = StoreJournal::new(StoreLocation::new(self.address.clone()), keep);
        JournalProcess { journal: Arc::new(journal), workspace: WORKSPACE.into() }
    }
}

fn file(content: &str) -> PathState {
    let hash = Some(ContentHash::of(content.as_bytes()));
    PathState::File { hash, mode: 0o640, size: content.len() as u64 }
}

/// Changes the content of a file.
fn edit(path: &str, from: &str, to: &str) -> NewJournalEntry {
    let content = Some(from.as_bytes().to_vec());
    NewJournalEntry {
        path: path.into(),
        before: file(from),
        content,
        after: file(to),
        moved_from: None,
    }
}

impl JournalProcess {
    fn begin(&self, tool: &str, entries: &[NewJournalEntry], undoes: &[Vec<u64>]) -> u64 {
        let mut call = CallInfo::default();
        call.session = "s\0ession".to_owned();
        call.call_id = format!("call_{tool}").into();
        call.workspace.clone_from(&self.workspace);
        let change = NewChange { call: &call, tool, entries, undoes };
        self.journal.begin(&change).expect("it is kept")
    }

    fn made(&self, tool: &str, entries: &[NewJournalEntry], undoes: &[Vec<u64>]) -> u64 {
        let number = self.begin(tool, entries, undoes);
        self.journal.commit(number);
        number
    }

    async fn find(&self, which: ChangeQuery) -> Vec<JournalChange> {
        self.journal.find(&self.workspace, &which).await.expect("it is read")
    }

    async fn all(&self) -> Vec<JournalChange> {
        self.find(ChangeQuery { limit: usize::MAX, ..ChangeQuery::default() }).await
    }

    async fn numbers(&self) -> Vec<u64> {
        self.all().await.iter().map(|change| change.number).collect()
    }

    async fn entry(&self, number: u64) -> u64 {
        let found =
            self.find(ChangeQuery { numbers: vec![number], limit: 9, ..ChangeQuery::default() });
        found.await[0].entries[0].id
    }

    async fn content(&self, text: &str) -> Option<Vec<u8>> {
        self.journal.content(ContentHash::of(text.as_bytes())).await.expect("it is read")
    }

    /// Returns the changes of which nothing was undone.
    async fn not_undone(&self) -> Vec<u64> {
        let is_not_undone =
            |change: &&JournalChange| change.entries.iter().all(|entry| entry.undone_by.is_none());
        self.all().await.iter().filter(is_not_undone).map(|change| change.number).collect()
    }
}

#[tokio::test]
async fn stored_changes_are_read_back_unchanged() {
    for fresh in each().await {
        let process = fresh.process(JournalRetention::DEFAULT);
        let odd = Path::new(OsStr::from_bytes(b"d\xff/\n")).to_owned();
        let going = |path: PathBuf, before: PathState| NewJournalEntry {
            path,
            before,
            content: None,
            after: PathState::Missing,
            moved_from: None,
        };
        let mut moved = edit("to.txt", "replaced", "x");
        moved.moved_from = Some(odd.clone());
        moved.after = PathState::File { hash: None, mode: 0o755, size: 7 };
        let long = "line of a long text\n".repeat(5_000);
        let entries = [
            edit("a.txt", &long, "new"),
            NewJournalEntry::created("dir".into(), PathState::Directory { mode: 0o777 }),
            going(odd.clone(), PathState::Link { to: odd.clone() }),
            going("gone".into(), PathState::Directory { mode: 0o2750 }),
            moved,
        ];
        let number = process.made("patch", &entries, &[]);
        let found = fresh.process(JournalRetention::DEFAULT).all().await;
        let [change] = &*found else { panic!("{found:?}") };
        assert_eq!((change.number, &*change.tool, change.collected), (number, "patch", 0));
        assert_eq!(change.session, "s\u{fffd}ession");
        assert_eq!(change.entries.len(), entries.len());
        for (kept, entry) in change.entries.iter().zip(&entries) {
            assert_eq!((&kept.path, &kept.moved_from), (&entry.path, &entry.moved_from));
            assert_eq!((&kept.before, &kept.after), (&entry.before, &entry.after));
            assert_eq!(kept.undone_by, None);
        }
        assert_eq!(process.content(&long).await, Some(long.clone().into_bytes()));
        assert_eq!(process.content("replaced").await, Some(b"replaced".to_vec()));
        assert_eq!(process.content("new").await, None, "new contents are not stored");
    }
}

#[tokio::test]
async fn a_content_is_stored_once_and_deleted_with_its_last_entry() {
    for fresh in each().await {
        let process = fresh.process(JournalRetention::DEFAULT);
        let first = process.begin("edit", &[edit("a", "same", "1"), edit("b", "same", "2")], &[]);
        let second = process.begin("edit", &[edit("c", "same", "3")], &[]);
        assert_eq!(fresh.number("SELECT count(*) FROM blobs").await, 1);
        assert_eq!(fresh.number("SELECT bytes FROM journal").await, 4);
        process.journal.abort(first);
        assert_eq!(process.content("same").await, Some(b"same".to_vec()));
        process.journal.abort(second);
        assert_eq!(process.content("same").await, None);
        assert_eq!(fresh.number("SELECT bytes FROM journal").await, 0);
        assert!(process.all().await.is_empty());
        assert_eq!(process.begin("edit", &[edit("a", "x", "y")], &[]), 3, "no number twice");
    }
}

#[tokio::test]
async fn an_undo_of_an_undo_restores_the_change() {
    for fresh in each().await {
        let process = fresh.process(JournalRetention::DEFAULT);
        let edited = process.made("edit", &[edit("a", "1", "2")], &[]);
        let entry = process.entry(edited).await;
        let undone = process.begin("undo", &[edit("a", "2", "1")], &[vec![entry]]);
        assert_eq!(
            process.not_undone().await,
            [undone, edited],
            "an undo that was not made does not count"
        );
        process.journal.commit(undone);
        assert_eq!(process.not_undone().await, [undone]);
        let undo_entry = process.entry(undone).await;
        let redone = process.made("redo", &[edit("a", "1", "2")], &[vec![undo_entry]]);
        assert_eq!(process.not_undone().await, [redone, edited]);
        let again = process.begin("undo", &[edit("a", "2", "1")], &[vec![entry]]);
        process.journal.abort(again);
        assert_eq!(process.not_undone().await, [redone, edited]);
        process.journal.mark_undone(&[entry]).await.expect("written");
        assert_eq!(process.not_undone().await, [redone]);
    }
}

#[tokio::test]
async fn changes_are_found_by_call_session_tool_time_and_number() {
    for fresh in each().await {
        let process = fresh.process(JournalRetention::DEFAULT);
        for number in 0..450 {
            let tool = if number % 3 == 0 { "write" } else { "edit" };
            process.begin(tool, &[edit(&format!("f{number}"), "a", "b")], &[]);
        }
        let most = |most| ChangeQuery { limit: most, ..ChangeQuery::default() };
        let count = async |which: ChangeQuery| process.find(which).await.len();
        assert_eq!(count(most(7)).await, 7);
        assert_eq!(count(most(1_000)).await, 450);
        assert_eq!(count(ChangeQuery { tool: Some("write".into()), ..most(1_000) }).await, 150);
        assert_eq!(
            count(ChangeQuery { call_id: Some("call_edit".into()), ..most(1_000) }).await,
            300
        );
        assert_eq!(
            count(ChangeQuery { session: Some("s\0ession".into()), ..most(1_000) }).await,
            450
        );
        assert_eq!(count(ChangeQuery { session: Some("other".into()), ..most(9) }).await, 0);
        assert_eq!(count(ChangeQuery { since_ms: i64::MAX as u64, ..most(9) }).await, 0);
        assert_eq!(count(ChangeQuery { below: Some(4), ..most(9) }).await, 3);
        let some = process.find(ChangeQuery { numbers: vec![3, 440, 7, 999], ..most(9) }).await;
        let names: Vec<String> =
            some.iter().map(|change| change.entries[0].path.display().to_string()).collect();
        assert_eq!(names, ["f439", "f6", "f2"]);
        let elsewhere = JournalProcess {
            workspace: "/elsewhere".into(),
            ..fresh.process(JournalRetention::DEFAULT)
        };
        assert!(elsewhere.all().await.is_empty());
        assert_eq!(elsewhere.begin("edit", &[edit("f1", "a", "b")], &[]), 451);
        assert_eq!((elsewhere.all().await.len(), process.all().await.len()), (1, 450));
    }
}

#[tokio::test]
async fn the_latest_change_of_every_file_stays_whatever_its_age_and_size() {
    for keep in [
        JournalRetention { days: 0, ..JournalRetention::DEFAULT },
        JournalRetention { bytes: 0, ..JournalRetention::DEFAULT },
    ] {
        for fresh in each().await {
            let process = fresh.process(JournalRetention::DEFAULT);
            process.made("edit", &[edit("a", "1", "2")], &[]);
            process.made("patch", &[edit("a", "2", "3"), edit("b", "1", "2")], &[]);
            let last = process.made("edit", &[edit("a", "3", "4")], &[]);
            let entry = process.entry(last).await;
            process.made("undo", &[edit("a", "4", "3")], &[vec![entry]]);
            // So that a collection a moment later finds everything old.
            fresh.tamper("UPDATE changes SET at_ms = at_ms - 1000").await;
            let gone = fresh.process(keep).journal.collect().await.expect("collected");
            assert_eq!(gone, 2, "{keep:?}");
            let left = process.all().await;
            let expected: Vec<(u64, usize, u64)> = left
                .iter()
                .map(|change| (change.number, change.entries.len(), change.collected))
                .collect();
            assert_eq!(expected, [(4, 1, 0), (3, 1, 0), (2, 1, 1), (1, 0, 1)]);
            for kept in ["3", "4", "1"] {
                assert!(process.content(kept).await.is_some(), "{kept} is needed");
            }
            assert_eq!(process.content("2").await, None);
            assert_eq!(fresh.number("SELECT bytes FROM journal").await, 3);
            assert_eq!(fresh.process(keep).journal.collect().await.expect("collected"), 0);
        }
    }
}

#[tokio::test]
async fn a_change_collects_when_the_journal_is_too_large() {
    for fresh in each().await {
        let process = fresh.process(JournalRetention { bytes: 4, ..JournalRetention::DEFAULT });
        for number in 0..9 {
            let (from, to) = (number.to_string(), (number + 1).to_string());
            process.made("edit", &[edit("a", &from, &to)], &[]);
        }
        // The first change collected and found nothing to do; the next collection is not due yet.
        assert_eq!(fresh.number("SELECT bytes FROM journal").await, 9);
        fresh.tamper("UPDATE journal SET looked_ms = looked_ms - 100000").await;
        process.made("edit", &[edit("a", "9", "10")], &[]);
        assert!(fresh.number("SELECT bytes FROM journal").await <= 4);
        assert!(process.content("9").await.is_some());
    }
}

#[tokio::test]
async fn reading_creates_no_store() {
    let fresh = each().await.swap_remove(0);
    let process = fresh.process(JournalRetention::DEFAULT);
    assert!(process.all().await.is_empty());
    assert_eq!(process.content("x").await, None);
    assert_eq!(process.journal.collect().await.expect("nothing to do"), 0);
    process.journal.abort(1);
    process.journal.mark_undone(&[1]).await.expect("nothing to do");
    assert!(!fresh.folder.path().join("project").exists());
}

#[tokio::test]
async fn a_modified_content_is_refused() {
    for fresh in each().await {
        let process = fresh.process(JournalRetention::DEFAULT);
        process.begin("edit", &[edit("a", "old", "new")], &[]);
        fresh.tamper("UPDATE blobs SET size = 2, content = (SELECT hash FROM blobs)").await;
        let error = process.journal.content(ContentHash::of(b"old")).await.expect_err("damaged");
        assert!(error.message().contains("was changed"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_writers_get_different_numbers() {
    for fresh in each().await {
        let fresh = Arc::new(fresh);
        fresh.process(JournalRetention::DEFAULT).begin("edit", &[edit("x", "0", "1")], &[]);
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let process = fresh.process(JournalRetention::DEFAULT);
                tokio::task::spawn_blocking(move || {
                    let own = format!("{writer}");
                    (0..25).map(|_| process.begin("edit", &[edit(&own, &own, "n")], &[])).collect()
                })
            })
            .collect();
        let mut numbers: Vec<u64> = vec![1];
        for writer in writers {
            let own: Vec<u64> = writer.await.expect("it ends");
            numbers.extend(own);
        }
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=101).collect::<Vec<u64>>());
        let mut found = fresh.process(JournalRetention::DEFAULT).numbers().await;
        found.reverse();
        assert_eq!(found, numbers);
    }
}

/// A text of a few KB with different lines, one of them changed.
fn long(changed: usize) -> String {
    let line = |number: usize| match number == changed {
        true => format!("line {number} was changed\n"),
        false => format!("line {number} of a text says {}\n", number * 7_919 % 1_000),
    };
    (0..200).map(line).collect()
}

const DIFFERENCES: &str = "SELECT count(*) FROM blobs WHERE base IS NOT NULL";
const BYTES: &str = "SELECT bytes FROM journal";

#[tokio::test]
async fn a_repeatedly_edited_file_is_stored_once_and_then_as_differences() {
    for fresh in each().await {
        let process = fresh.process(JournalRetention::DEFAULT);
        process.made("edit", &[edit("a", &long(0), "x")], &[]);
        let whole = fresh.number(BYTES).await;
        for changed in 1..50 {
            let entry = edit("a", &long(changed * 3), &long(changed * 3 + 3));
            process.made("edit", &[entry], &[]);
        }
        assert_eq!(fresh.number(DIFFERENCES).await, 49);
        let more = fresh.number(BYTES).await - whole;
        assert!(more < 49 * 150, "{whole} and {more} bytes");
        for changed in 0..50 {
            let kept = fresh.process(JournalRetention::DEFAULT).content(&long(changed * 3)).await;
            assert_eq!(kept, Some(long(changed * 3).into_bytes()));
        }
    }
}

#[tokio::test]
async fn an_unlike_content_is_stored_whole_and_becomes_the_base() {
    for fresh in each().await {
        let process = fresh.process(JournalRetention::DEFAULT);
        let other = |changed| long(changed).replace("text", "quite different text");
        for content in [long(0), other(1), other(2), other(3)] {
            process.made("write", &[edit("a", &content, "x")], &[]);
        }
        assert_eq!(fresh.number(DIFFERENCES).await, 2);
        // Another file, and the same file of another workspace.
        process.made("write", &[edit("b", &other(4), "x")], &[]);
        let elsewhere =
            JournalProcess { workspace: "/elsewhere".into(), journal: process.journal.clone() };
        elsewhere.made("write", &[edit("a", &other(5), "x")], &[]);
        assert_eq!(fresh.number(DIFFERENCES).await, 2);
    }
}

#[tokio::test]
async fn a_base_stays_while_differences_need_it() {
    for fresh in each().await {
        let process = fresh.process(JournalRetention::DEFAULT);
        let numbers: Vec<u64> =
            (0..3).map(|n| process.begin("edit", &[edit("a", &long(n), "x")], &[])).collect();
        process.journal.abort(numbers[0]);
        process.journal.abort(numbers[2]);
        assert_eq!(process.content(&long(1)).await, Some(long(1).into_bytes()));
        assert_eq!(fresh.number("SELECT count(*) FROM blobs").await, 2);
        process.journal.abort(numbers[1]);
        assert_eq!(fresh.number("SELECT count(*) FROM blobs").await, 0);
        assert_eq!(fresh.number(BYTES).await, 0);
        let number = process.begin("edit", &[edit("a", &long(4), "x")], &[]);
        assert_eq!(number, 4, "the failed attempt took no number");
        assert_eq!(fresh.number(DIFFERENCES).await, 0, "its base is gone");
        process.begin("edit", &[edit("a", &long(5), "x")], &[]);
        assert_eq!(fresh.number(DIFFERENCES).await, 1);
    }
}

/// One process stores a difference from a content that another process has stored as a difference.
#[tokio::test]
async fn no_base_is_itself_a_difference() {
    for fresh in each().await {
        let (one, two) =
            (fresh.process(JournalRetention::DEFAULT), fresh.process(JournalRetention::DEFAULT));
        let first = one.begin("edit", &[edit("a", &long(1), "x")], &[]);
        two.begin("edit", &[edit("a", &long(2), "x")], &[]);
        one.journal.abort(first);
        two.begin("edit", &[edit("a", &long(1), "x")], &[]);
        one.begin("edit", &[edit("a", &long(3), "x")], &[]);
        let chained =
            "SELECT count(*) FROM blobs d JOIN blobs w ON w.hash = d.base WHERE w.base IS NOT NULL";
        assert_eq!((fresh.number(DIFFERENCES).await, fresh.number(chained).await), (1, 0));
        for changed in 1..4 {
            assert_eq!(one.content(&long(changed)).await, Some(long(changed).into_bytes()));
        }
    }
}

#[tokio::test]
async fn a_difference_without_its_base_is_refused() {
    for (tampering, expected) in [
        ("DELETE FROM blobs WHERE base IS NULL", "has lost its base"),
        ("UPDATE blobs SET base = hash", "has lost its base"),
        ("UPDATE blobs SET content = hash, packing = 0 WHERE base IS NULL", "was changed"),
        ("UPDATE blobs SET content = hash WHERE base IS NOT NULL", "was changed"),
        ("UPDATE blobs SET base = NULL", "was changed"),
    ] {
        for fresh in each().await {
            let process = fresh.process(JournalRetention::DEFAULT);
            for changed in 1..3 {
                process.begin("edit", &[edit("a", &long(changed), "x")], &[]);
            }
            fresh.tamper(tampering).await;
            let hash = ContentHash::of(long(2).as_bytes());
            let error = process.journal.content(hash).await.expect_err("damaged");
            assert!(error.message().contains(expected), "{tampering}: {error}");
            assert!(error.next_step().contains("haft store check"), "{error}");
        }
    }
}

#[tokio::test]
async fn contents_of_an_earlier_haft_are_migrated_and_used_as_bases() {
    for fresh in each().await {
        fresh.process(JournalRetention::DEFAULT).begin("edit", &[edit("a", &long(1), "x")], &[]);
        fresh.make_older(6).await;
        let process = fresh.process(JournalRetention::DEFAULT);
        for changed in 2..4 {
            process.begin("edit", &[edit("a", &long(changed), "x")], &[]);
        }
        assert_eq!(fresh.number(DIFFERENCES).await, 1);
        for changed in 1..4 {
            assert_eq!(process.content(&long(changed)).await, Some(long(changed).into_bytes()));
        }
    }
}

/// Conditions that must hold after every event: each count is 0.
const NOTHING_OF: [&str; 4] = [
    "SELECT count(*) FROM blobs b WHERE hash NOT IN (SELECT before_what FROM entries) \
        AND NOT EXISTS (SELECT 1 FROM blobs d WHERE d.base = b.hash)",
    "SELECT count(*) FROM entries WHERE before_what NOT IN (SELECT hash FROM blobs)",
    "SELECT count(*) FROM blobs WHERE base NOT IN (SELECT hash FROM blobs WHERE base IS NULL)",
    "SELECT bytes - (SELECT coalesce(sum(length(content)), 0) FROM blobs) FROM journal",
];

/// Whatever the order of events, every entry has its content, no unneeded content is stored, and
/// the size is right.
#[tokio::test]
async fn any_order_of_events_keeps_exactly_the_needed_contents() {
    for fresh in each().await {
        // Two processes: each deletes the bases of the other.
        let processes = [0, 0].map(|_| fresh.process(JournalRetention { bytes: 6, days: 30 }));
        let mut random = 12_345_u64;
        let mut next = |most: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from((random >> 33) % most).expect("small")
        };
        let contents: Vec<String> =
            (0..6).map(|n| format!("content {n}")).chain((0..6).map(|n| long(n * 30))).collect();
        let mut differences = 0;
        for _ in 0..200 {
            let (path, content) = (next(4).to_string(), &contents[next(12)]);
            let (process, tool) = (&processes[next(2)], ["edit", "write", "undo", "redo"][next(4)]);
            let number = process.begin(tool, &[edit(&path, content, "x")], &[]);
            match next(4) {
                0 => process.journal.abort(number),
                1 => drop(process.journal.collect().await.expect("collected")),
                _ => process.journal.commit(number),
            }
            for check in NOTHING_OF {
                assert_eq!(fresh.number(check).await, 0, "{check}");
            }
            for content in &contents {
                let kept = process.content(content).await;
                assert!(kept.is_none_or(|kept| kept == content.as_bytes()));
            }
            differences += fresh.number(DIFFERENCES).await;
        }
        assert!(differences > 50, "only {differences} differences");
    }
}
