//! Real processes and the journal of changes: killed at any moment, on a full disk, with a store that cannot be written, and
//! what the command line makes of it.

use std::{collections::BTreeMap, fs, path::Path};

use haft::{
    Changes, ContentHash, Image, Journal, JournalChange,
    store::{Address, Keep, Place, StoreJournal},
};
use serde_json::{Value, json};

use super::{
    faults::{SmallDisk, close, open},
    recorded, usual,
};
use crate::{house::House, mcp_stdio::Client};

/// All changes in the project, newest first.
fn changes(house: &House) -> Vec<JournalChange> {
    let place = Place::new(Address::Sqlite(usual(house)));
    let journal = StoreJournal::new(place, Keep::USUAL);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let project = house.path("project").canonicalize().expect("it is there");
    let all = Changes { most: usize::MAX, ..Changes::default() };
    runtime.block_on(journal.find(&project, &all)).expect("it is read")
}

fn image(path: &Path) -> Image {
    match fs::read(path) {
        Ok(bytes) => {
            let hash = Some(ContentHash::of(&bytes));
            Image::File { hash, mode: 0, size: bytes.len() as u64 }
        }
        Err(_) => Image::Missing,
    }
}

fn texts(house: &House) -> BTreeMap<String, String> {
    let text = |name: String| {
        let text = fs::read_to_string(house.path("project").join(&name)).unwrap_or_default();
        (name, text)
    };
    (0..4).map(|number| text(format!("{number}.txt"))).collect()
}

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn work(client: &mut Client, round: u64, id: u64, dice: &mut Dice) {
    let (one, other) = (dice.roll(4), dice.roll(4));
    let path = format!("{one}.txt");
    let content = format!("{round}.{id}\n");
    match id % 5 {
        4 => client.call(id, "undo", json!({})),
        3 if one != other => {
            let section = |number: u64| format!("*** Delete File: {number}.txt\n");
            let patch = format!("*** Begin Patch\n{}{}*** End Patch", section(one), section(other));
            client.call(id, "patch", json!({ "patch": patch }));
        }
        _ => client.call(id, "write", json!({"path": path, "content": content})),
    }
}

/// Whatever the journal knows last of a file is what is there, or what is there is what was there before it.
fn check_agreement(house: &House, round: u64) {
    let mut seen = Vec::new();
    for change in changes(house) {
        for entry in &change.entries {
            if seen.contains(&entry.path) {
                continue;
            }
            let found = image(&house.path("project").join(&entry.path));
            let fits = entry.after.fits(&found) || entry.before.fits(&found);
            assert!(fits, "round {round}: {found:?} at {entry:?} of {change:?}");
            seen.push(entry.path.clone());
        }
    }
}

#[test]
fn killed_at_any_moment_files_journal_and_ledger_agree_and_undo_works() {
    const ROUNDS: u64 = 200;
    const CALLS: u64 = 12;
    let house = House::new();
    let mut dice = Dice(7);
    let mut beginning = BTreeMap::new();
    for round in 0..ROUNDS {
        if round % 20 == 0 {
            (0..4).for_each(|number| {
                let path = house.path("project").join(format!("{number}.txt"));
                fs::write(path, format!("beginning {round}\n")).expect("written");
            });
            beginning = texts(&house);
        }
        let mut client = Client::introduced(&house, json!({}));
        (0..CALLS).for_each(|id| work(&mut client, round, id, &mut dice));
        let answered: Vec<Value> = (0..dice.roll(CALLS)).map(|_| client.next()).collect();
        client.kill();
        check_agreement(&house, round);
        let calls = recorded(&usual(&house)).len() as u64;
        assert!(calls >= answered.len() as u64, "what was answered is recorded");
        if round % 20 == 19 {
            let undone = house.run(&["undo", "--session", "all", "--json"]);
            assert_eq!(undone.code, 0, "round {round}: {undone:?}");
            assert_eq!(texts(&house), beginning, "round {round}: {undone:?}");
            fs::remove_file(usual(&house)).expect("a new store for the next ones");
            for end in ["-wal", "-shm"] {
                let _ = fs::remove_file(format!("{}{end}", usual(&house).display()));
            }
        }
    }
}

#[test]
fn on_a_full_disk_nothing_is_changed_that_could_not_be_taken_back() {
    let house = House::new();
    let Some(disk) = SmallDisk::new(&house) else {
        // Without root there is no small disk; the store that cannot be written is tested below.
        return assert!(!house.path("small/haft.db").exists());
    };
    let store = disk.0.join("haft.db").display().to_string();
    let path = house.path("project/a.txt");
    let write = |number: u64| {
        // Noise, so that packing it does not help.
        let noise: Vec<String> =
            (0..200).map(|line| ContentHash::of(&[number as u8, line]).to_string()).collect();
        let content = noise.join("\n");
        let input = json!({"path": "a.txt", "content": content}).to_string();
        (house.run(&["call", "write", &input, "--json", "--store", &store]).json(), content)
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
        let undone = house.run(&["undo", "--store", &store]);
        assert_eq!(undone.code, 0, "{undone:?}");
    }
    assert!(!path.exists());
}

#[test]
fn with_a_store_that_cannot_be_written_edits_fail_clearly_and_a_person_can_do_without() {
    let house = House::new();
    house.run(&["write", "a.txt", "one"]);
    let folder = usual(&house).parent().expect("a folder").to_owned();
    // The area for unfinished writes lies in the same folder; so the store alone is somewhere else here.
    let apart = house.path("apart");
    fs::create_dir(&apart).expect("made");
    fs::rename(usual(&house), apart.join("haft.db")).expect("moved");
    for end in ["-wal", "-shm"] {
        let _ =
            fs::rename(folder.join(format!("haft.db{end}")), apart.join(format!("haft.db{end}")));
    }
    let store = apart.join("haft.db").display().to_string();
    if !close(&apart) {
        return open(&apart);
    }
    let refused = house.run(&["write", "a.txt", "two", "--store", &store]);
    let without = house.user_config("[journal]\nrecord = false\n");
    let written = without.run(&["write", "a.txt", "two", "--store", &store]);
    let undone = without.run(&["undo", "--store", &store]);
    open(&apart);
    assert_ne!(refused.code, 0);
    assert!(refused.err.contains("`a.txt` was not changed"), "{refused:?}");
    assert!(refused.err.contains("record = false"), "{refused:?}");
    assert_eq!(written.code, 0, "{written:?}");
    assert!(undone.err.contains("no journal"), "{undone:?}");
}

#[test]
fn the_command_line_undoes_and_shows_changes() {
    let house = House::new();
    house.run(&["write", "a.txt", "one\n"]);
    house.run(&["edit", "a.txt", "one", "two"]);
    let listed = house.run(&["changes"]);
    assert!(
        listed.out.contains("edit  session cli") && listed.out.contains("M a.txt (+1 -1)"),
        "{listed:?}"
    );
    let dry = house.run(&["undo", "--preview"]);
    assert!(dry.out.contains("-two\n+one"), "{dry:?}");
    assert_eq!(fs::read_to_string(house.path("project/a.txt")).expect("there"), "two\n");
    let undone = house.run(&["undo"]);
    assert!(undone.out.contains("Undid change 2 (edit, just now)"), "{undone:?}");
    assert_eq!(fs::read_to_string(house.path("project/a.txt")).expect("there"), "one\n");
    fs::write(house.path("project/a.txt"), "theirs\n").expect("written");
    let conflict = house.run(&["redo"]);
    assert_eq!(conflict.code, 4, "{conflict:?}");
    assert!(conflict.err.contains("changed by somebody else"), "{conflict:?}");
}

#[test]
fn whoever_only_looks_for_changes_makes_no_journal() {
    let house = House::new().user_config("[store]\nrecord = false\n");
    assert!(house.run(&["changes"]).out.contains("No change is known"));
    assert_ne!(house.run(&["undo"]).code, 0);
    assert!(!usual(&house).exists());
    house.run(&["write", "a.txt", "one"]);
    assert!(usual(&house).exists(), "what undo needs is kept all the same");
    assert_eq!(house.run(&["undo"]).code, 0);
}
