//! The journal on both engines: what is kept comes back, what is taken back stands again when that is taken back, and
//! making room takes nothing that an undo needs.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_core::{
    CallInfo, Changes, ContentHash, Image, Journal, JournalChange, NewChange, NewEntry,
};
use haft_store::{Keep, Place, StoreJournal};

use crate::stores::{Fresh, each};

const WORKSPACE: &str = "/work/space";

/// One process with a journal.
struct Desk {
    journal: Arc<StoreJournal>,
    workspace: PathBuf,
}

impl Fresh {
    fn desk(&self, keep: Keep) -> Desk {
        let journal = StoreJournal::new(Place::new(self.address.clone()), keep);
        Desk { journal: Arc::new(journal), workspace: WORKSPACE.into() }
    }
}

fn file(content: &str) -> Image {
    let hash = Some(ContentHash::of(content.as_bytes()));
    Image::File { hash, mode: 0o640, size: content.len() as u64 }
}

/// A file gets another content.
fn edit(path: &str, from: &str, to: &str) -> NewEntry {
    let content = Some(from.as_bytes().to_vec());
    NewEntry { path: path.into(), before: file(from), content, after: file(to), moved_from: None }
}

impl Desk {
    fn begin(&self, tool: &str, entries: &[NewEntry], undoes: &[Vec<u64>]) -> u64 {
        let mut call = CallInfo::default();
        call.session = "s\0ession".to_owned();
        call.call_id = format!("call_{tool}").into();
        call.workspace.clone_from(&self.workspace);
        let change = NewChange { call: &call, tool, entries, undoes };
        self.journal.begin(&change).expect("it is kept")
    }

    fn made(&self, tool: &str, entries: &[NewEntry], undoes: &[Vec<u64>]) -> u64 {
        let number = self.begin(tool, entries, undoes);
        self.journal.made(number);
        number
    }

    async fn find(&self, which: Changes) -> Vec<JournalChange> {
        self.journal.find(&self.workspace, &which).await.expect("it is read")
    }

    async fn all(&self) -> Vec<JournalChange> {
        self.find(Changes { most: usize::MAX, ..Changes::default() }).await
    }

    async fn numbers(&self) -> Vec<u64> {
        self.all().await.iter().map(|change| change.number).collect()
    }

    async fn entry(&self, number: u64) -> u64 {
        let found = self.find(Changes { numbers: vec![number], most: 9, ..Changes::default() });
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
        let going = |path: PathBuf, before: Image| NewEntry {
            path,
            before,
            content: None,
            after: Image::Missing,
            moved_from: None,
        };
        let mut moved = edit("to.txt", "replaced", "x");
        moved.moved_from = Some(odd.clone());
        moved.after = Image::File { hash: None, mode: 0o755, size: 7 };
        let long = "line of a long text\n".repeat(5_000);
        let entries = [
            edit("a.txt", &long, "new"),
            NewEntry::appears("dir".into(), Image::Directory { mode: 0o777 }),
            going(odd.clone(), Image::Link { to: odd.clone() }),
            going("gone".into(), Image::Directory { mode: 0o2750 }),
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
        desk.journal.withdraw(first);
        assert_eq!(desk.content("same").await, Some(b"same".to_vec()));
        desk.journal.withdraw(second);
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
        desk.journal.made(undone);
        assert_eq!(desk.standing().await, [undone]);
        let undo_entry = desk.entry(undone).await;
        let redone = desk.made("redo", &[edit("a", "1", "2")], &[vec![undo_entry]]);
        assert_eq!(desk.standing().await, [redone, edited]);
        let again = desk.begin("undo", &[edit("a", "2", "1")], &[vec![entry]]);
        desk.journal.withdraw(again);
        assert_eq!(desk.standing().await, [redone, edited]);
        desk.journal.set_aside(&[entry]).await.expect("written");
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
        let most = |most| Changes { most, ..Changes::default() };
        let count = async |which: Changes| desk.find(which).await.len();
        assert_eq!(count(most(7)).await, 7);
        assert_eq!(count(most(1_000)).await, 450);
        assert_eq!(count(Changes { tool: Some("write".into()), ..most(1_000) }).await, 150);
        assert_eq!(count(Changes { call_id: Some("call_edit".into()), ..most(1_000) }).await, 300);
        assert_eq!(count(Changes { session: Some("s\0ession".into()), ..most(1_000) }).await, 450);
        assert_eq!(count(Changes { session: Some("other".into()), ..most(9) }).await, 0);
        assert_eq!(count(Changes { since_ms: i64::MAX as u64, ..most(9) }).await, 0);
        assert_eq!(count(Changes { below: Some(4), ..most(9) }).await, 3);
        let some = desk.find(Changes { numbers: vec![3, 440, 7, 999], ..most(9) }).await;
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
    desk.journal.withdraw(1);
    desk.journal.set_aside(&[1]).await.expect("nothing to do");
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

/// Whatever happens in whatever order, every entry has its content, nothing is kept that nobody needs, and the count is right.
#[tokio::test]
async fn no_order_of_events_loses_a_content_or_keeps_one_too_many() {
    for fresh in each().await {
        let desk = fresh.desk(Keep { bytes: 6, days: 30 });
        let mut random = 12_345_u64;
        let mut next = |most: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % most
        };
        for _ in 0..150 {
            let (path, content) = (next(4).to_string(), format!("content {}", next(6)));
            let tool = ["edit", "write", "undo", "redo"][usize::try_from(next(4)).expect("small")];
            let number = desk.begin(tool, &[edit(&path, &content, "x")], &[]);
            match next(4) {
                0 => desk.journal.withdraw(number),
                1 => drop(desk.journal.collect().await.expect("collected")),
                _ => desk.journal.made(number),
            }
            let orphans =
                "SELECT count(*) FROM blobs WHERE hash NOT IN (SELECT before_what FROM entries)";
            let missing =
                "SELECT count(*) FROM entries WHERE before_what NOT IN (SELECT hash FROM blobs)";
            let surplus =
                "SELECT bytes - (SELECT coalesce(sum(length(content)), 0) FROM blobs) FROM journal";
            for check in [orphans, missing, surplus] {
                assert_eq!(fresh.number(check).await, 0, "{check}");
            }
        }
    }
}
