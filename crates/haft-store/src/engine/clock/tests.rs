//! Tests with a clock that is set back while a store is in use. The shift applies to the thread of
//! the test, so only to work that SQLite does on it. The clock of the machine is not changed.

use std::{cell::Cell, path::Path, sync::Arc};

use haft_core::{
    CallInfo, ContentHash, Journal, NewChange, NewJournalEntry, NewMessage, OutputSource, Outputs,
    PathState, SessionEvent, Sessions, Todos,
};

use crate::{
    JournalRetention, OutputRetention, StoreAddress, StoreJournal, StoreLocation, StoreOutputs,
    StoreSessions, StoreTodos,
};

const DAY_MS: i64 = 86_400_000;

thread_local! {
    static SHIFT_MS: Cell<i64> = const { Cell::new(0) };
    static STOPPED_MS: Cell<Option<u64>> = const { Cell::new(None) };
}

pub(super) fn shifted(now: u64) -> u64 {
    STOPPED_MS.get().unwrap_or(now).saturating_add_signed(SHIFT_MS.get())
}

fn stop_clock() {
    STOPPED_MS.set(Some(super::now_ms()));
}

fn set_clock(days: i64) {
    SHIFT_MS.set(days * DAY_MS);
}

fn location() -> (tempfile::TempDir, Arc<StoreLocation>) {
    let folder = tempfile::tempdir().expect("a folder");
    let location = StoreLocation::new(StoreAddress::Sqlite(folder.path().join("haft.db")));
    (folder, location)
}

/// Returns text that hardly compresses.
fn noise(seed: u8, bytes: usize) -> String {
    let mut noise = vec![0; bytes / 2];
    blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut noise);
    noise.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns an output store with space for two outputs of [`keep`].
fn outputs() -> (tempfile::TempDir, StoreOutputs) {
    let (folder, location) = location();
    let retention = OutputRetention { bytes: 25_000, ..OutputRetention::default() };
    (folder, StoreOutputs::new(location, Path::new("/w"), retention).without_memory())
}

async fn keep(outputs: &StoreOutputs, seed: u8) -> String {
    outputs.keep(noise(seed, 20_000), OutputSource::default()).await.expect("kept").id
}

#[tokio::test]
async fn the_newest_output_is_not_taken_for_the_oldest() {
    let (_folder, outputs) = outputs();
    let keep = async |seed| keep(&outputs, seed).await;
    set_clock(40);
    let mut ids = vec![keep(0).await, keep(1).await];
    for (day, seed) in [(0, 2), (-40, 3), (-80, 4), (-120, 5), (-120, 6)] {
        set_clock(day);
        ids.push(keep(seed).await);
        for id in &ids[ids.len() - 2..] {
            assert!(outputs.read(id).await.is_ok(), "of the two newest after {seed}");
        }
    }
    assert!(outputs.read(&ids[0]).await.is_err(), "the first was dropped");
}

#[tokio::test]
async fn what_is_used_again_is_young_by_the_clock_of_now() {
    let (_folder, outputs) = outputs();
    let keep = async |seed| keep(&outputs, seed).await;
    set_clock(40);
    let (used, other) = (keep(0).await, keep(1).await);
    set_clock(0);
    keep(0).await;
    keep(2).await;
    assert!(outputs.read(&used).await.is_ok(), "used after the other one");
    assert!(outputs.read(&other).await.is_err());
}

#[tokio::test]
async fn what_is_used_again_within_the_same_millisecond_is_young_too() {
    let (_folder, outputs) = outputs();
    let keep = async |seed| keep(&outputs, seed).await;
    stop_clock();
    let (used, other) = (keep(0).await, keep(1).await);
    keep(0).await;
    keep(2).await;
    assert!(outputs.read(&used).await.is_ok(), "used after the other one");
    assert!(outputs.read(&other).await.is_err());
}

#[tokio::test]
async fn the_journal_collects_after_the_clock_was_set_back() {
    let (_folder, location) = location();
    let journal = StoreJournal::new(location, JournalRetention { days: 30, bytes: 15_000 });
    let file = |text: &str| PathState::File {
        hash: Some(ContentHash::of(text.as_bytes())),
        mode: 0o600,
        size: text.len() as u64,
    };
    let change = |seed: u8| {
        let (from, to) = (noise(seed, 10_000), noise(seed + 1, 10_000));
        let (before, after) = (file(&from), file(&to));
        let content = Some(from.into_bytes());
        let entry = NewJournalEntry { path: "a".into(), before, content, after, moved_from: None };
        let call = CallInfo::default();
        let entries = [entry];
        let change = NewChange { call: &call, tool: "edit", entries: &entries, undoes: &[] };
        journal.commit(journal.begin(&change).expect("it is kept"));
    };
    set_clock(40);
    // The first change collects while there is nothing to delete; the next changes do not collect
    // for a while.
    (0..7).for_each(change);
    set_clock(0);
    change(7);
    let oldest = ContentHash::of(noise(0, 10_000).as_bytes());
    assert_eq!(journal.content(oldest).await.expect("read"), None, "there was too much");
}

#[tokio::test]
async fn a_history_stays_in_order_and_its_pages_have_everything_once() {
    let (_folder, location) = location();
    let sessions = StoreSessions::new(location, Path::new("/w"));
    sessions.mark_active("mcp-1", &[]).await.expect("noted");
    for (number, day) in (1_u64..).zip([0, 0, -3, -3, -1, -9, 0]) {
        set_clock(day);
        let content = number.to_string();
        let (role, author) = ("agent".to_owned(), "x".to_owned());
        let message = NewMessage { role, author, content, call_id: None };
        assert_eq!(sessions.send("mcp-1", &message).await.expect("sent"), number);
        assert!(!sessions.is_noted("mcp-1") || day == 0, "it is noted again at {day}");
    }
    let mut seen = Vec::new();
    for offset in (0..8).step_by(2) {
        let page = sessions.history("mcp-1", offset, 2).await.expect("read");
        seen.extend(page.events.iter().rev().map(|it| match it {
            SessionEvent::Message(message) => message.seq,
            SessionEvent::Call(call) => panic!("{call:?}"),
        }));
        assert_eq!(page.has_more, offset < 6, "{offset}");
    }
    assert_eq!(seen, [7, 6, 5, 4, 3, 2, 1]);
}

#[tokio::test]
async fn versions_of_a_todo_list_go_on() {
    let (_folder, location) = location();
    let todos = StoreTodos::new(location, Path::new("/w"));
    for (version, day) in (0..).zip([0, -3, 5]) {
        set_clock(day);
        assert_eq!(todos.write("s", &[], Some(version)).await.expect("written"), version + 1);
    }
}
