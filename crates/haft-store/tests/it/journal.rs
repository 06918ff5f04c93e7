//! The journal on both engines: what is kept comes back, what is taken back stands again when that is taken back, and
//! making room takes nothing that an undo needs.

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
use haft_store::{Keep, StoreJournal, StoreLocation};

use crate::stores::{Fresh, each};

const WORKSPACE: &str = "/work/space";

/// One process with a journal.
struct Desk {
    journal: Arc<StoreJournal>,
    workspace: PathBuf,
}

impl Fresh {
    fn desk(&self, keep: Keep) -> Desk {
        let journal = StoreJournal::new(StoreLocation::new(self.address.clone()), keep);
        Desk { journal: Arc::new(journal), workspace: WORKSPACE.into() }
    }
}

fn file(content: &str) -> PathState {
    let hash = Some(ContentHash::of(content.as_bytes()));
    PathState::File { hash, mode: 0o640, size: content.len() as u64 }
}

/// A file gets another content.
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

impl Desk {
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

    /// Which changes have nothing that was taken back.
    async fn standing(&self) -> Vec<u64> {
        let is_standing =
            |change: &&JournalChange| change.entries.iter().all(|entry| entry.undone_by.is_none());
        self.all().await.iter().filter(is_standing).map(|change| change.number).collect()
    }
}

#[tokio::test]
async fn what_is_kept_comes_back_as_it_was() {
    for fresh in each().await {
        let desk = fresh.desk(Keep::USUAL);
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
        let number = desk.made("patch", &entries, &[]);
        let found = fresh.desk(Keep::USUAL).all().await;
        let [change] = &*found else { panic!("{found:?}") };
        assert_eq!((change.number, &*change.tool, change.collected), (number, "patch", 0));
        assert_eq!(change.session, "s\u{fffd}ession");
        assert_eq!(change.entries.len(), entries.len());
        for (kept, entry) in change.entries.iter().zip(&entries) {
            assert_eq!((&kept.path, &kept.moved_from), (&entry.path, &entry.moved_from));
            assert_eq!((&kept.before, &kept.after), (&entry.before, &entry.after));
            assert_eq!(kept.undone_by, None);
        }
        assert_eq!(desk.content(&long).await, Some(long.clone().into_bytes()));
        assert_eq!(desk.content("replaced").await, Some(b"replaced".to_vec()));
        assert_eq!(desk.content("new").await, None, "what comes is not kept");
    }
}

#[tokio::test]
async fn one_content_is_kept_once_and_goes_with_the_last_who_needs_it() {
    for fresh in each().await {
        let desk = fresh.desk(Keep::USUAL);
        let first = desk.begin("edit", &[edit("a", "same", "1"), edit("b", "same", "2")], &[]);
        let second = desk.begin("edit", &[edit("c", "same", "3")], &[]);
        assert_eq!(fresh.number("SELECT count(*) FROM blobs").await, 1);
        assert_eq!(fresh.number("SELECT bytes FROM journal").await, 4);
        desk.journal.abort(first);
        assert_eq!(desk.content("same").await, Some(b"same".to_vec()));
        desk.journal.abort(second);
        assert_eq!(desk.content("same").await, None);
        assert_eq!(fresh.number("SELECT bytes FROM journal").await, 0);
        assert!(desk.all().await.is_empty());
        assert_eq!(desk.begin("edit", &[edit("a", "x", "y")], &[]), 3, "no number twice");
    }
}

#[tokio::test]
async fn what_was_taken_back_stands_again_when_that_is_taken_back() {
    for fresh in each().await {
        let desk = fresh.desk(Keep::USUAL);
        let edited = desk.made("edit", &[edit("a", "1", "2")], &[]);
        let entry = desk.entry(edited).await;
        let undone = desk.begin("undo", &[edit("a", "2", "1")], &[vec![entry]]);
        assert_eq!(
            desk.standing().await,
            [undone, edited],
            "an undo that was not made counts for nothing"
        );
        desk.journal.commit(undone);
        assert_eq!(desk.standing().await, [undone]);
        let undo_entry = desk.entry(undone).await;
        let redone = desk.made("redo", &[edit("a", "1", "2")], &[vec![undo_entry]]);
        assert_eq!(desk.standing().await, [redone, edited]);
        let again = desk.begin("undo", &[edit("a", "2", "1")], &[vec![entry]]);
        desk.journal.abort(again);
        assert_eq!(desk.standing().await, [redone, edited]);
        desk.journal.mark_undone(&[entry]).await.expect("written");
        assert_eq!(desk.standing().await, [redone]);
    }
}

#[tokio::test]
async fn changes_are_found_by_call_session_tool_time_and_number() {
    for fresh in each().await {
        let desk = fresh.desk(Keep::USUAL);
        for number in 0..450 {
            let tool = if number % 3 == 0 { "write" } else { "edit" };
            desk.begin(tool, &[edit(&format!("f{number}"), "a", "b")], &[]);
        }
        let most = |most| ChangeQuery { limit: most, ..ChangeQuery::default() };
        let count = async |which: ChangeQuery| desk.find(which).await.len();
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
        let some = desk.find(ChangeQuery { numbers: vec![3, 440, 7, 999], ..most(9) }).await;
        let names: Vec<String> =
            some.iter().map(|change| change.entries[0].path.display().to_string()).collect();
        assert_eq!(names, ["f439", "f6", "f2"]);
        let elsewhere = Desk { workspace: "/elsewhere".into(), ..fresh.desk(Keep::USUAL) };
        assert!(elsewhere.all().await.is_empty());
        assert_eq!(elsewhere.begin("edit", &[edit("f1", "a", "b")], &[]), 451);
        assert_eq!((elsewhere.all().await.len(), desk.all().await.len()), (1, 450));
    }
}

#[tokio::test]
async fn the_latest_change_of_every_file_stays_whatever_its_age_and_size() {
    for keep in [Keep { days: 0, ..Keep::USUAL }, Keep { bytes: 0, ..Keep::USUAL }] {
        for fresh in each().await {
            let desk = fresh.desk(Keep::USUAL);
            desk.made("edit", &[edit("a", "1", "2")], &[]);
            desk.made("patch", &[edit("a", "2", "3"), edit("b", "1", "2")], &[]);
            let last = desk.made("edit", &[edit("a", "3", "4")], &[]);
            let entry = desk.entry(last).await;
            desk.made("undo", &[edit("a", "4", "3")], &[vec![entry]]);
            // Whoever is asked a moment later finds everything old.
            fresh.tamper("UPDATE changes SET at_ms = at_ms - 1000").await;
            let gone = fresh.desk(keep).journal.collect().await.expect("collected");
            assert_eq!(gone, 2, "{keep:?}");
            let left = desk.all().await;
            let told: Vec<(u64, usize, u64)> = left
                .iter()
                .map(|change| (change.number, change.entries.len(), change.collected))
                .collect();
            assert_eq!(told, [(4, 1, 0), (3, 1, 0), (2, 1, 1), (1, 0, 1)]);
            for kept in ["3", "4", "1"] {
                assert!(desk.content(kept).await.is_some(), "{kept} is needed");
            }
            assert_eq!(desk.content("2").await, None);
            assert_eq!(fresh.number("SELECT bytes FROM journal").await, 3);
            assert_eq!(fresh.desk(keep).journal.collect().await.expect("collected"), 0);
        }
    }
}

#[tokio::test]
async fn room_is_made_after_a_change_when_there_is_too_much() {
    for fresh in each().await {
        let desk = fresh.desk(Keep { bytes: 4, ..Keep::USUAL });
        for number in 0..9 {
            let (from, to) = (number.to_string(), (number + 1).to_string());
            desk.made("edit", &[edit("a", &from, &to)], &[]);
        }
        // The first change looked, and found nothing to do; the next look is not before a while.
        assert_eq!(fresh.number("SELECT bytes FROM journal").await, 9);
        fresh.tamper("UPDATE journal SET looked_ms = looked_ms - 100000").await;
        desk.made("edit", &[edit("a", "9", "10")], &[]);
        assert!(fresh.number("SELECT bytes FROM journal").await <= 4);
        assert!(desk.content("9").await.is_some());
    }
}

#[tokio::test]
async fn whoever_only_looks_makes_no_store() {
    let fresh = each().await.swap_remove(0);
    let desk = fresh.desk(Keep::USUAL);
    assert!(desk.all().await.is_empty());
    assert_eq!(desk.content("x").await, None);
    assert_eq!(desk.journal.collect().await.expect("nothing to do"), 0);
    desk.journal.abort(1);
    desk.journal.mark_undone(&[1]).await.expect("nothing to do");
    assert!(!fresh.folder.path().join("project").exists());
}

#[tokio::test]
async fn a_content_that_somebody_changed_is_not_handed_out() {
    for fresh in each().await {
        let desk = fresh.desk(Keep::USUAL);
        desk.begin("edit", &[edit("a", "old", "new")], &[]);
        fresh.tamper("UPDATE blobs SET size = 2, content = (SELECT hash FROM blobs)").await;
        let error = desk.journal.content(ContentHash::of(b"old")).await.expect_err("damaged");
        assert!(error.message().contains("is not what it was"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn several_who_write_at_once_get_numbers_of_their_own() {
    for fresh in each().await {
        let fresh = Arc::new(fresh);
        fresh.desk(Keep::USUAL).begin("edit", &[edit("x", "0", "1")], &[]);
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let desk = fresh.desk(Keep::USUAL);
                tokio::task::spawn_blocking(move || {
                    let own = format!("{writer}");
                    (0..25).map(|_| desk.begin("edit", &[edit(&own, &own, "n")], &[])).collect()
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
        let mut found = fresh.desk(Keep::USUAL).numbers().await;
        found.reverse();
        assert_eq!(found, numbers);
    }
}

/// A text of some KB whose lines are all different, one of them changed.
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
async fn a_file_that_is_edited_again_and_again_is_kept_once_and_then_what_differs() {
    for fresh in each().await {
        let desk = fresh.desk(Keep::USUAL);
        desk.made("edit", &[edit("a", &long(0), "x")], &[]);
        let whole = fresh.number(BYTES).await;
        for changed in 1..50 {
            let entry = edit("a", &long(changed * 3), &long(changed * 3 + 3));
            desk.made("edit", &[entry], &[]);
        }
        assert_eq!(fresh.number(DIFFERENCES).await, 49);
        let more = fresh.number(BYTES).await - whole;
        assert!(more < 49 * 150, "{whole} and {more} bytes");
        for changed in 0..50 {
            let kept = fresh.desk(Keep::USUAL).content(&long(changed * 3)).await;
            assert_eq!(kept, Some(long(changed * 3).into_bytes()));
        }
    }
}

#[tokio::test]
async fn what_has_little_in_common_with_the_last_is_kept_whole_and_told_by_then() {
    for fresh in each().await {
        let desk = fresh.desk(Keep::USUAL);
        let other = |changed| long(changed).replace("text", "quite different text");
        for content in [long(0), other(1), other(2), other(3)] {
            desk.made("write", &[edit("a", &content, "x")], &[]);
        }
        assert_eq!(fresh.number(DIFFERENCES).await, 2);
        // Another file, and the same one of another workspace.
        desk.made("write", &[edit("b", &other(4), "x")], &[]);
        let elsewhere = Desk { workspace: "/elsewhere".into(), journal: desk.journal.clone() };
        elsewhere.made("write", &[edit("a", &other(5), "x")], &[]);
        assert_eq!(fresh.number(DIFFERENCES).await, 2);
    }
}

#[tokio::test]
async fn a_base_stays_for_who_is_told_by_it_and_goes_with_the_last() {
    for fresh in each().await {
        let desk = fresh.desk(Keep::USUAL);
        let numbers: Vec<u64> =
            (0..3).map(|n| desk.begin("edit", &[edit("a", &long(n), "x")], &[])).collect();
        desk.journal.abort(numbers[0]);
        desk.journal.abort(numbers[2]);
        assert_eq!(desk.content(&long(1)).await, Some(long(1).into_bytes()));
        assert_eq!(fresh.number("SELECT count(*) FROM blobs").await, 2);
        desk.journal.abort(numbers[1]);
        assert_eq!(fresh.number("SELECT count(*) FROM blobs").await, 0);
        assert_eq!(fresh.number(BYTES).await, 0);
        let number = desk.begin("edit", &[edit("a", &long(4), "x")], &[]);
        assert_eq!(number, 4, "what was tried in vain took no number");
        assert_eq!(fresh.number(DIFFERENCES).await, 0, "its base is gone");
        desk.begin("edit", &[edit("a", &long(5), "x")], &[]);
        assert_eq!(fresh.number(DIFFERENCES).await, 1);
    }
}

/// One process keeps as a difference what another still takes for whole.
#[tokio::test]
async fn no_content_is_told_by_one_that_is_told_by_another() {
    for fresh in each().await {
        let (one, two) = (fresh.desk(Keep::USUAL), fresh.desk(Keep::USUAL));
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
async fn a_difference_without_its_base_is_not_handed_out() {
    for (tampering, told) in [
        ("DELETE FROM blobs WHERE base IS NULL", "has lost what it is told by"),
        ("UPDATE blobs SET base = hash", "has lost what it is told by"),
        ("UPDATE blobs SET content = hash, packing = 0 WHERE base IS NULL", "is not what it was"),
        ("UPDATE blobs SET content = hash WHERE base IS NOT NULL", "is not what it was"),
        ("UPDATE blobs SET base = NULL", "is not what it was"),
    ] {
        for fresh in each().await {
            let desk = fresh.desk(Keep::USUAL);
            for changed in 1..3 {
                desk.begin("edit", &[edit("a", &long(changed), "x")], &[]);
            }
            fresh.tamper(tampering).await;
            let hash = ContentHash::of(long(2).as_bytes());
            let error = desk.journal.content(hash).await.expect_err("damaged");
            assert!(error.message().contains(told), "{tampering}: {error}");
            assert!(error.next_step().contains("haft store check"), "{error}");
        }
    }
}

#[tokio::test]
async fn what_an_earlier_haft_has_kept_is_brought_forward_and_told_by() {
    for fresh in each().await {
        fresh.desk(Keep::USUAL).begin("edit", &[edit("a", &long(1), "x")], &[]);
        fresh.make_older(6).await;
        let desk = fresh.desk(Keep::USUAL);
        for changed in 2..4 {
            desk.begin("edit", &[edit("a", &long(changed), "x")], &[]);
        }
        assert_eq!(fresh.number(DIFFERENCES).await, 1);
        for changed in 1..4 {
            assert_eq!(desk.content(&long(changed)).await, Some(long(changed).into_bytes()));
        }
    }
}

/// What has to hold after every event.
const NOTHING_OF: [&str; 4] = [
    "SELECT count(*) FROM blobs b WHERE hash NOT IN (SELECT before_what FROM entries) \
        AND NOT EXISTS (SELECT 1 FROM blobs d WHERE d.base = b.hash)",
    "SELECT count(*) FROM entries WHERE before_what NOT IN (SELECT hash FROM blobs)",
    "SELECT count(*) FROM blobs WHERE base NOT IN (SELECT hash FROM blobs WHERE base IS NULL)",
    "SELECT bytes - (SELECT coalesce(sum(length(content)), 0) FROM blobs) FROM journal",
];

/// Whatever happens in whatever order, every entry has its content, nothing is kept that nobody needs, and the count is right.
#[tokio::test]
async fn no_order_of_events_loses_a_content_or_keeps_one_too_many() {
    for fresh in each().await {
        // Two processes: each drops what the other takes for its base.
        let desks = [0, 0].map(|_| fresh.desk(Keep { bytes: 6, days: 30 }));
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
            let (desk, tool) = (&desks[next(2)], ["edit", "write", "undo", "redo"][next(4)]);
            let number = desk.begin(tool, &[edit(&path, content, "x")], &[]);
            match next(4) {
                0 => desk.journal.abort(number),
                1 => drop(desk.journal.collect().await.expect("collected")),
                _ => desk.journal.commit(number),
            }
            for check in NOTHING_OF {
                assert_eq!(fresh.number(check).await, 0, "{check}");
            }
            for content in &contents {
                let kept = desk.content(content).await;
                assert!(kept.is_none_or(|kept| kept == content.as_bytes()));
            }
            differences += fresh.number(DIFFERENCES).await;
        }
        assert!(differences > 50, "only {differences} were told by others");
    }
}
