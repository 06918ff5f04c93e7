//! The journal of changes with real processes: killed at any moment, on a full disk, with an
//! unwritable store, and from the command line.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::{Duration, Instant},
};

use haft::{
    ApprovalRecord, ApprovalState, ChangeQuery, ContentHash, Inbox, Journal, JournalChange,
    LedgerEntry, PathState, SessionEvent, SessionMessage, Sessions,
    feed::Feed,
    store::{
        JournalRetention, StoreAddress, StoreApprovals, StoreFeed, StoreJournal, StoreLocation,
        StoreSessions,
    },
};
use serde_json::{Value, json};

use super::{
    faults::{close, open},
    recorded, usual,
};
use crate::{fixture::Fixture, mcp_stdio::Client, small_disk::SmallDisk};

/// Returns all changes in the project, newest first.
fn changes(fixture: &Fixture) -> Vec<JournalChange> {
    let place = StoreLocation::new(StoreAddress::Sqlite(usual(fixture)));
    let journal = StoreJournal::new(place, JournalRetention::DEFAULT);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let project = fixture.path("project").canonicalize().expect("it is there");
    let all = ChangeQuery { limit: usize::MAX, ..ChangeQuery::default() };
    runtime.block_on(journal.find(&project, &all)).expect("it is read")
}

fn image(path: &Path) -> PathState {
    match fs::read(path) {
        Ok(bytes) => {
            let hash = Some(ContentHash::of(&bytes));
            PathState::File { hash, mode: 0, size: bytes.len() as u64 }
        }
        Err(_) => PathState::Missing,
    }
}

fn texts(fixture: &Fixture) -> BTreeMap<String, String> {
    let text = |name: String| {
        let text = fs::read_to_string(fixture.path("project").join(&name)).unwrap_or_default();
        (name, text)
    };
    (0..4).map(|number| text(format!("{number}.txt"))).collect()
}

/// Deterministic pseudo-random numbers.
pub(super) struct PseudoRandom(pub(super) u64);

impl PseudoRandom {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    /// Waits a random part of a few milliseconds, so that the next step hits another process at any
    /// point.
    pub(super) fn dawdle(&mut self) {
        let until = Instant::now() + Duration::from_micros(self.roll(4_000));
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }
}

/// Calls per round. Two of them wait for an approval that never comes.
const CALLS: u64 = 14;
const ANSWERS: u64 = CALLS - 2;

fn work(client: &mut Client, round: u64, id: u64, dice: &mut PseudoRandom) {
    let (one, other) = (dice.roll(4), dice.roll(4));
    let path = format!("{one}.txt");
    let words = format!("{round}.{id}\n");
    match id % 7 {
        6 => client.call(id, "delete", json!({"path": "asked.txt"})),
        5 => client.call(
            id,
            "session",
            json!({"operation": "send", "session_id": "cli", "message": words}),
        ),
        4 => client.call(id, "undo", json!({})),
        3 if one != other => {
            let section = |number: u64| format!("*** Delete File: {number}.txt\n");
            let patch = format!("*** Begin Patch\n{}{}*** End Patch", section(one), section(other));
            client.call(id, "patch", json!({ "patch": patch }));
        }
        _ => client.call(id, "write", json!({"path": path, "content": words})),
    }
}

/// Checks that each file has either the content after its last change or the content before it.
fn check_files(fixture: &Fixture, changes: &[JournalChange], round: u64) {
    let mut seen = Vec::new();
    for change in changes {
        for entry in &change.entries {
            if seen.contains(&entry.path) {
                continue;
            }
            let found = image(&fixture.path("project").join(&entry.path));
            let fits = entry.after.fits(&found) || entry.before.fits(&found);
            assert!(fits, "round {round}: {found:?} at {entry:?} of {change:?}");
            seen.push(entry.path.clone());
        }
    }
}

/// Checks that every change of a call is in the journal under that call, and that every answered
/// call is in both.
fn check_ledger(fixture: &Fixture, changes: &[JournalChange], answered: &[Value], round: u64) {
    // This also verifies the chain.
    let mut entries = recorded(&usual(fixture));
    // Begin entries: the call may have been killed before it changed anything.
    entries.retain(|entry| entry.process.is_none());
    let journaled: BTreeSet<&str> = changes.iter().map(|change| &*change.call_id).collect();
    let ids: BTreeSet<&str> = entries.iter().map(|entry| &*entry.call_id).collect();
    assert_eq!(ids.len(), entries.len(), "round {round}: no call twice");
    for entry in &entries {
        let is_change = matches!(&*entry.tool, "write" | "patch" | "undo" | "delete");
        if is_change && entry.error.is_none() {
            assert!(journaled.contains(&*entry.call_id), "round {round}: {entry:?}");
        }
    }
    for answer in answered {
        let words = format!("{round}.{}\n", answer["id"]);
        let is_of = |entry: &&LedgerEntry| {
            [&entry.input["content"], &entry.input["message"]].contains(&&json!(words))
        };
        if matches!(answer["id"].as_u64().map(|id| id % 7), Some(0 | 1 | 2 | 5)) {
            assert_eq!(answer["result"]["isError"], false, "round {round}: {answer}");
            assert_eq!(entries.iter().filter(is_of).count(), 1, "round {round}: {answer}");
        }
    }
}

/// Checks that messages are complete and in order, and that all answered ones exist.
fn check_session(fixture: &Fixture, answered: &[Value], round: u64) {
    let place = StoreLocation::new(StoreAddress::Sqlite(usual(fixture)));
    let sessions = StoreSessions::new(place, &fixture.path("project"));
    let history = wait(sessions.history("cli", 0, 9_999)).expect("it is read");
    let messages: Vec<&SessionMessage> = history
        .events
        .iter()
        .filter_map(|it| match it {
            SessionEvent::Message(message) => Some(message),
            SessionEvent::Call(_) => None,
        })
        .collect();
    let numbers: Vec<u64> = messages.iter().map(|message| message.seq).collect();
    assert_eq!(numbers, (1..=history.session.messages).collect::<Vec<_>>(), "round {round}");
    let different: BTreeSet<&str> = messages.iter().map(|message| &*message.content).collect();
    assert_eq!(different.len(), messages.len(), "round {round}: none twice");
    for answer in
        answered.iter().filter(|answer| answer["id"].as_u64().is_some_and(|id| id % 7 == 5))
    {
        let seq = answer["result"]["structuredContent"]["seq"].as_u64().expect("a number");
        let sent = messages.iter().find(|message| message.seq == seq);
        let words = format!("{round}.{}\n", answer["id"]);
        assert_eq!(sent.map(|message| &*message.content), Some(&*words), "round {round}");
    }
}

/// Checks that every request is readable, pending, and was announced once. Returns the ids, oldest
/// first.
fn check_approvals(fixture: &Fixture, round: u64) -> Vec<String> {
    let place = StoreLocation::new(StoreAddress::Sqlite(usual(fixture)));
    let (project, state) = (fixture.path("project"), fixture.path("home/.local/state/haft"));
    let approvals = StoreApprovals::new(place.clone(), &project, &state);
    let entries = wait(approvals.entries()).expect("they are read");
    assert_eq!(entries.foreign, 0, "round {round}");
    let told = wait(StoreFeed::new(place).since(0, usize::MAX)).expect("they are read");
    let asked = told.iter().filter(|event| event.kind == "approval.asked");
    let asked: Vec<&str> = asked.filter_map(|event| event.subject.as_deref()).collect();
    let ids = entries.entries.iter().map(|standing| {
        let ApprovalRecord { request, state, is_claimed, .. } = &standing.record;
        assert_eq!((*state, *is_claimed), (ApprovalState::Pending, false), "round {round}");
        assert_eq!(request.input["path"], "asked.txt", "round {round}");
        request.id.clone()
    });
    let ids: Vec<String> = ids.collect();
    assert_eq!(
        ids.iter().map(String::as_str).collect::<BTreeSet<_>>(),
        asked.iter().copied().collect::<BTreeSet<_>>(),
        "round {round}"
    );
    assert_eq!(ids.len(), asked.len(), "round {round}: each was announced once");
    ids
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(future)
}

/// Approves a request of a killed server, which runs the call once, and then undoes everything.
fn check_afterwards(fixture: &Fixture, asked: &[String], beginning: &BTreeMap<String, String>) {
    let path = fixture.path("project/asked.txt");
    if let Some(id) = asked.first() {
        let ran = fixture.run(&["approvals", "approve", id]);
        assert_eq!((ran.code, path.exists()), (0, false), "{ran:?}");
        let again = fixture.run(&["approvals", "approve", id]);
        assert_eq!(again.code, 4, "{again:?}");
    }
    let undone = fixture.run(&["undo", "--session", "all", "--json"]);
    assert_eq!(undone.code, 0, "{undone:?}");
    assert_eq!(&texts(fixture), beginning, "{undone:?}");
    assert!(path.exists(), "{undone:?}");
}

#[test]
fn killed_at_any_moment_files_journal_ledger_sessions_and_approvals_agree_and_undo_works() {
    const ROUNDS: u64 = 200;
    let config = "ask = [\"delete\"]\n[approvals]\nelsewhere = true\n";
    let fixture = Fixture::new().user_config(config);
    let mut dice = PseudoRandom(7);
    let mut beginning = BTreeMap::new();
    let mut questions = 0;
    for round in 0..ROUNDS {
        if round % 20 == 0 {
            (0..4).for_each(|number| {
                let path = fixture.path("project").join(format!("{number}.txt"));
                fs::write(path, format!("beginning {round}\n")).expect("written");
            });
            fs::write(fixture.path("project/asked.txt"), "asked\n").expect("written");
            beginning = texts(&fixture);
            assert_eq!(fixture.run(&["session", "patch", "--title", "x"]).code, 0);
        }
        let mut client = Client::introduced(&fixture, json!({}));
        (0..CALLS).for_each(|id| work(&mut client, round, id, &mut dice));
        let answered: Vec<Value> = (0..=dice.roll(ANSWERS)).map(|_| client.next()).collect();
        dice.dawdle();
        client.kill();
        let changes = changes(&fixture);
        check_files(&fixture, &changes, round);
        check_ledger(&fixture, &changes, &answered, round);
        check_session(&fixture, &answered, round);
        let asked = check_approvals(&fixture, round);
        if round % 20 == 19 {
            questions += asked.len();
            check_afterwards(&fixture, &asked, &beginning);
            for end in ["", "-wal", "-shm"] {
                // A new store for the next rounds.
                let _ = fs::remove_file(format!("{}{end}", usual(&fixture).display()));
            }
        }
    }
    assert!(questions >= 20, "{questions} is too few for a test of them");
}

/// Returns the user's files in the project with their texts. Files that disappear during the
/// listing are skipped.
fn tree(fixture: &Fixture) -> BTreeMap<String, String> {
    let files = fs::read_dir(fixture.path("project")).expect("there").filter_map(Result::ok);
    let text = |file: fs::DirEntry| {
        let text = fs::read_to_string(file.path()).ok()?;
        Some((file.file_name().to_string_lossy().into_owned(), text))
    };
    files.filter_map(text).collect()
}

#[test]
fn an_undo_of_moves_that_was_killed_is_finished_by_the_next_one() {
    let mut dice = PseudoRandom(11);
    let mut half_done = 0;
    for round in 0..16 {
        let fixture = Fixture::new();
        for number in 0..4 {
            let (from, to) = (format!("{number}.txt"), format!("moved-{number}.txt"));
            fs::write(fixture.path("project").join(&from), format!("{number}\n")).expect("written");
            let moved = fixture.run(&["move", &from, &to]);
            assert_eq!(moved.code, 0, "{moved:?}");
        }
        let after = tree(&fixture);
        let mut client = Client::introduced(&fixture, json!({}));
        client.call(1, "undo", json!({"session": "all"}));
        // Kill it at the first change, and in some rounds a little later.
        let began = Instant::now();
        while tree(&fixture) == after {
            assert!(began.elapsed() < Duration::from_secs(60), "nothing is taken back");
        }
        if round % 4 == 3 {
            dice.dawdle();
        }
        client.kill();
        let left = tree(&fixture);
        let is_done = left.keys().all(|name| !name.starts_with("moved"));
        half_done += usize::from(!is_done);
        let undone = fixture.run(&["undo", "--session", "all"]);
        // If the first process was done, nothing is left to undo.
        assert!(undone.code == 0 || is_done, "round {round}: {left:?} {undone:?}");
        let beginning = (0..4).map(|number| (format!("{number}.txt"), format!("{number}\n")));
        assert_eq!(tree(&fixture), beginning.collect(), "round {round}: {left:?} {undone:?}");
    }
    assert!(half_done > 0, "no undo was caught in the middle");
}

#[test]
fn on_a_full_disk_nothing_is_changed_that_could_not_be_taken_back() {
    let fixture = Fixture::new();
    let Some(disk) = SmallDisk::new(&fixture, "640k") else {
        // Without root there is no small disk. Another test covers the unwritable store.
        return assert!(!fixture.path("small/haft.db").exists());
    };
    let store = disk.0.join("haft.db").display().to_string();
    let path = fixture.path("project/a.txt");
    let write = |number: u64| {
        // Random data, which cannot be compressed.
        let noise: Vec<String> =
            (0..200).map(|line| ContentHash::of(&[number as u8, line]).to_string()).collect();
        let content = noise.join("\n");
        let input = json!({"path": "a.txt", "content": content}).to_string();
        (fixture.run(&["call", "write", &input, "--json", "--store", &store]).json(), content)
    };
    let mut last = String::new();
    let mut count = 0;
    let refused = loop {
        let (outcome, content) = write(count);
        if outcome["error"].is_object() {
            break outcome;
        }
        assert!(count < 200, "the disk does not fill");
        (last, count) = (content, count + 1);
    };
    assert!(count > 1, "{refused}");
    assert_eq!(refused["error"]["kind"], "unavailable", "{refused}");
    let message = refused["error"]["message"].as_str().expect("words");
    assert!(message.contains("`a.txt` was not changed") && message.contains("undo"), "{message}");
    assert_eq!(fs::read_to_string(&path).expect("there"), last, "as it was");
    let grown =
        std::process::Command::new("mount").args(["-o", "remount,size=8m"]).arg(&disk.0).status();
    assert!(grown.is_ok_and(|status| status.success()));
    for _ in 0..count {
        let undone = fixture.run(&["undo", "--store", &store]);
        assert_eq!(undone.code, 0, "{undone:?}");
    }
    assert!(!path.exists());
}

#[test]
fn with_a_store_that_cannot_be_written_edits_fail_clearly() {
    let fixture = Fixture::new();
    fixture.run(&["write", "a.txt", "one"]);
    let folder = usual(&fixture).parent().expect("a folder").to_owned();
    // The folder for temporary files is in the same folder, so only the store is moved elsewhere.
    let apart = fixture.path("apart");
    fs::create_dir(&apart).expect("made");
    fs::rename(usual(&fixture), apart.join("haft.db")).expect("moved");
    for end in ["-wal", "-shm"] {
        let _ =
            fs::rename(folder.join(format!("haft.db{end}")), apart.join(format!("haft.db{end}")));
    }
    let store = apart.join("haft.db").display().to_string();
    if !close(&apart) {
        return open(&apart);
    }
    let refused = fixture.run(&["write", "a.txt", "two", "--store", &store]);
    let without = fixture.user_config("[journal]\nrecord = false\n");
    let written = without.run(&["write", "a.txt", "two", "--store", &store]);
    let undone = without.run(&["undo", "--store", &store]);
    open(&apart);
    assert_ne!(refused.code, 0);
    assert!(refused.err.contains("`write` did not run"), "{refused:?}");
    assert!(refused.err.contains("--store"), "{refused:?}");
    // Also without a journal: a change that cannot be recorded is not made.
    assert_eq!(written.code, refused.code, "{written:?}");
    assert_ne!(undone.code, 0, "{undone:?}");
}

#[test]
fn the_command_line_undoes_and_shows_changes() {
    let fixture = Fixture::new();
    fixture.run(&["write", "a.txt", "one\n"]);
    fixture.run(&["edit", "a.txt", "one", "two"]);
    let listed = fixture.run(&["changes"]);
    assert!(
        listed.out.contains("edit  session cli") && listed.out.contains("M a.txt (+1 -1)"),
        "{listed:?}"
    );
    let dry = fixture.run(&["undo", "--preview"]);
    assert!(dry.out.contains("-two\n+one"), "{dry:?}");
    assert_eq!(fs::read_to_string(fixture.path("project/a.txt")).expect("there"), "two\n");
    let undone = fixture.run(&["undo"]);
    assert!(undone.out.contains("Undid change 2 (edit, just now)"), "{undone:?}");
    assert_eq!(fs::read_to_string(fixture.path("project/a.txt")).expect("there"), "one\n");
    fs::write(fixture.path("project/a.txt"), "theirs\n").expect("written");
    let conflict = fixture.run(&["redo"]);
    assert_eq!(conflict.code, 4, "{conflict:?}");
    assert!(conflict.err.contains("changed by another process"), "{conflict:?}");
}

#[test]
fn whoever_only_looks_for_changes_makes_no_journal() {
    let fixture = Fixture::new().user_config("[store]\nrecord = false\n");
    assert!(fixture.run(&["changes"]).out.contains("No changes found"));
    assert_ne!(fixture.run(&["undo"]).code, 0);
    assert!(!usual(&fixture).exists());
    fixture.run(&["write", "a.txt", "one"]);
    assert!(usual(&fixture).exists(), "what undo needs is kept all the same");
    assert_eq!(fixture.run(&["undo"]).code, 0);
}
