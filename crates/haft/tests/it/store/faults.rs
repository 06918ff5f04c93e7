//! Failures of real processes with one store: many at once, killed ones, a full disk, an unwritable
//! store.

use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use serde_json::{Value, json};

use super::{commands::tamper, recorded, usual};
use crate::{
    fixture::{Fixture, Screen},
    mcp_stdio::Client,
    small_disk::SmallDisk,
};

fn write(client: &mut Client, id: u64, name: &str) {
    client.call(id, "write", json!({"path": format!("{name}.txt"), "content": name}));
}

/// Returns the metadata of the answer to a call.
fn is_recorded(answer: &Value) -> bool {
    assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
    !answer.to_string().contains("not_recorded")
}

#[test]
fn servers_that_write_at_once_lose_no_call_and_are_never_told_of_locks() {
    const CALLS: u64 = 150;
    let fixture = Fixture::new();
    let mut clients = [0, 1, 2].map(|_| Client::introduced(&fixture, json!({})));
    for (number, client) in clients.iter_mut().enumerate() {
        for id in 0..CALLS {
            // Several calls are open at once; no answer is awaited before the next call.
            if id % 3 == 0 {
                client.call(id, "hello", json!({"name": "Ada"}));
            } else {
                write(client, id, &format!("{number}-{id}"));
            }
        }
        client.close();
    }
    for client in &mut clients {
        let answers = client.rest();
        assert_eq!(answers.len() as u64, CALLS);
        assert!(answers.iter().all(is_recorded), "{answers:?}");
        assert!(client.exit().success());
    }
    let entries = recorded(&usual(&fixture));
    let ids: BTreeSet<&str> = entries.iter().map(|entry| &*entry.call_id).collect();
    assert_eq!(ids.len(), entries.len(), "no call twice");
    let calls: u64 = entries.iter().map(haft::LedgerEntry::calls).sum();
    assert_eq!(calls, 3 * CALLS);
}

#[test]
fn a_killed_server_leaves_a_whole_chain_with_every_change_that_was_answered() {
    for round in 0..12 {
        let fixture = Fixture::new();
        let mut client = Client::introduced(&fixture, json!({}));
        let total = 40_u64;
        for id in 0..total {
            write(&mut client, id, &id.to_string());
        }
        // Kill it in the middle, each round a little later.
        let mut answered = Vec::new();
        for _ in 0..=round * 3 {
            answered.push(client.next());
        }
        client.kill();
        assert!(answered.iter().all(is_recorded));
        let written: BTreeSet<String> = recorded(&usual(&fixture))
            .iter()
            .filter_map(|entry| Some(entry.input.get("path")?.as_str()?.to_owned()))
            .collect();
        for answer in &answered {
            let name = format!("{}.txt", answer["id"]);
            assert!(written.contains(&name), "{name} was answered: {written:?}");
        }
        // The next process continues.
        fixture.run(&["hello", "Ada"]);
        assert_eq!(recorded(&usual(&fixture)).len(), written.len() + 1);
    }
}

fn told(fixture: &Fixture, store: &Path) -> Option<String> {
    let outcome = fixture.run(&["hello", "Ada", "--json", "--store", &store.display().to_string()]);
    let outcome = outcome.json();
    assert_eq!(outcome["content"], "Hello, Ada!", "the call works: {outcome}");
    outcome["metadata"]["not_recorded"].as_str().map(str::to_owned)
}

#[test]
fn on_a_full_disk_calls_work_and_what_was_recorded_stays_whole() {
    let fixture = Fixture::new();
    let Some(disk) = SmallDisk::new(&fixture, "640k") else {
        // Without root: limit the file size to a few pages.
        let store = fixture.path("small/haft.db");
        let line = "ulimit -f 100; exec \"$@\"";
        let haft = env!("CARGO_BIN_EXE_haft");
        let mut command = Command::new("bash");
        command.args(["-c", line, "-", haft, "hello", "Ada", "--store"]).arg(&store);
        let ran = command.current_dir(fixture.path("project")).output().expect("it runs");
        return assert!(String::from_utf8_lossy(&ran.stdout).contains("Hello, Ada!"), "{ran:?}");
    };
    let store = disk.0.join("haft.db");
    let mut calls = 0;
    let full = loop {
        match told(&fixture, &store) {
            None => calls += 1,
            Some(told) => break told,
        }
        assert!(calls < 1_000, "the disk does not fill");
    };
    assert!(calls > 0 && full.contains("the disk is full"), "{calls}: {full}");
    let room = fs::read_dir(&disk.0).expect("there").count();
    assert!(room >= 1);
    // With free space it continues where it stopped.
    let grown = Command::new("mount").args(["-o", "remount,size=4m"]).arg(&disk.0).status();
    assert!(grown.is_ok_and(|status| status.success()));
    assert_eq!(told(&fixture, &store), None);
    assert_eq!(recorded(&store).len(), calls + 1);
}

#[test]
fn a_store_that_cannot_be_written_is_told_and_nothing_is_changed() {
    let fixture = Fixture::new();
    fixture.run(&["hello", "Ada"]);
    let store = usual(&fixture);
    let folder = store.parent().expect("a folder").to_owned();
    let is_closed = close(&folder);
    if is_closed {
        let told = told(&fixture, &store).expect("it is told");
        assert!(told.contains("cannot be"), "{told}");
        // A script sees one line.
        let plain = fixture.run(&["hello", "Ada"]);
        assert_eq!((plain.code, &*plain.out), (0, "Hello, Ada!"), "{plain:?}");
        let warning = "warning: this call is not in the ledger: ";
        assert!(plain.err.starts_with(warning) && plain.err.lines().count() == 1, "{plain:?}");
        // A user at a terminal sees it too.
        let screen = Screen::haft(&fixture, &["hello", "Ada"]);
        let (code, shown) = (screen.exit_code(), screen.wait_for("Hello, Ada!"));
        // Existing data can be read.
        let [listed, verified, checked] =
            [&["ledger", "show"], &["ledger", "verify"], &["store", "check"]]
                .map(|it| fixture.run(it));
        open(&folder);
        assert!(code == 0 && shown.contains("this call is not in the ledger: "), "{shown}");
        assert_eq!((listed.code, listed.out.lines().count()), (0, 2), "{listed:?}");
        assert_eq!((verified.code, checked.code), (0, 0), "{verified:?} {checked:?}");
    }
    assert_eq!(recorded(&store).len(), 1);
}

#[test]
fn without_a_journal_too_nothing_is_changed_that_cannot_be_recorded() {
    let fixture = Fixture::new()
        .user_config("sandbox = \"off\"\napprove = \"all\"\n[journal]\nrecord = false\n");
    fs::write(fixture.path("project/a.txt"), "as it was\n").expect("written");
    fixture.run(&["hello", "Ada"]);
    let folder = usual(&fixture).parent().expect("a folder").to_owned();
    if close(&folder) {
        let calls = [
            json!({"path": "a.txt", "content": "x"}).to_string(),
            json!({"command": "echo x > a.txt"}).to_string(),
        ];
        let refused = ["write", "bash"].iter().zip(&calls);
        let refused: Vec<_> =
            refused.map(|(tool, input)| fixture.run(&["call", tool, input])).collect();
        let read = fixture.run(&["read", "a.txt"]);
        open(&folder);
        for (tool, ran) in ["write", "bash"].iter().zip(&refused) {
            assert_eq!(ran.code, 10, "{ran:?}");
            assert!(
                ran.err.contains(&format!("`{tool}` did not run: its start cannot be recorded")),
                "{ran:?}"
            );
            assert!(ran.err.contains("next: ") && ran.err.contains("haft store check"), "{ran:?}");
        }
        assert!(read.code == 0 && read.out.contains("as it was"), "{read:?}");
    }
    assert_eq!(fs::read_to_string(fixture.path("project/a.txt")).expect("there"), "as it was\n");
}

#[test]
fn with_a_store_of_a_newer_haft_calls_work_edits_do_not_and_nothing_is_written_to_it() {
    let fixture = Fixture::new();
    fixture.run(&["write", "a.txt", "one"]);
    let store = usual(&fixture);
    tamper(&fixture, "INSERT INTO migrations VALUES (99, 'x', 0); PRAGMA wal_checkpoint(TRUNCATE)");
    let before = fs::read(&store).expect("there");
    let outcome = fixture.run(&["hello", "Ada", "--json"]).json();
    let told = outcome["metadata"]["not_recorded"].as_str().expect("it is told");
    assert!(told.contains("has version 99, written by a newer haft"), "{told}");
    let edit = fixture.run(&["write", "a.txt", "two"]);
    assert_ne!(edit.code, 0);
    assert!(
        edit.err.contains("`write` did not run") && edit.err.contains("newer haft"),
        "{edit:?}"
    );
    assert!(edit.err.contains("update haft, or use another store with --store"), "{edit:?}");
    for arguments in [&["ledger", "show"][..], &["store", "info"], &["approvals", "list"]] {
        let ran = fixture.run(arguments);
        assert_eq!(ran.code, 10, "{arguments:?}: {ran:?}");
        assert!(ran.err.contains("newer haft") && ran.err.contains("update haft"), "{ran:?}");
    }
    assert_eq!(fs::read_to_string(fixture.path("project/a.txt")).expect("there"), "one");
    assert_eq!(fs::read(&store).expect("there"), before, "nothing was written to it");
}

/// Approves a call at a terminal and returns the screen.
fn asked(fixture: &Fixture, store: &Path) -> String {
    let store = store.display().to_string();
    let screen = Screen::haft(fixture, &["--approve", "none", "hello", "Ada", "--store", &store]);
    screen.wait_for("[y] yes, once");
    screen.press(&["y"]);
    assert_eq!(screen.exit_code(), 0);
    let shown = screen.wait_for("Hello, Ada!");
    // It ran once, and no other process can run it.
    let listed = fixture.run(&["approvals", "list", "--all", "--json", "--store", &store]);
    assert!(!listed.out.contains("pending"), "{listed:?}");
    shown
}

#[test]
fn where_a_question_cannot_be_kept_it_is_asked_in_its_process_and_that_is_told() {
    const TOLD: &str = "the approval request is visible in this process only: ";
    let fixture = Fixture::new();
    fixture.run(&["hello", "Ada"]);
    let store = usual(&fixture);
    assert!(!asked(&fixture, &store).contains(TOLD));
    let folder = store.parent().expect("a folder").to_owned();
    if close(&folder) {
        let shown = asked(&fixture, &store);
        open(&folder);
        assert!(shown.contains(TOLD), "{shown}");
    }
    let Some(disk) = SmallDisk::new(&fixture, "640k") else { return };
    let full = disk.0.join("haft.db");
    assert_eq!(told(&fixture, &full), None);
    let mut junk = fs::File::create(disk.0.join("junk")).expect("made");
    while std::io::Write::write_all(&mut junk, &[7; 512]).is_ok() {}
    let shown = asked(&fixture, &full);
    assert!(shown.contains(TOLD) && shown.contains("full"), "{shown}");
}

/// Makes the folder unwritable and returns true on success. Permissions do not stop root; a
/// read-only file system does.
pub(super) fn close(folder: &Path) -> bool {
    let mount = |options: &[&str]| {
        let mut mount = Command::new("mount");
        mount.args(options).arg(folder);
        mount.output().is_ok_and(|output| output.status.success())
    };
    let path = folder.display().to_string();
    let is_bound = mount(&["--bind", &path]) && mount(&["-o", "remount,bind,ro"]);
    if is_bound {
        return true;
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o500)).expect("ours");
    fs::write(folder.join("probe"), "").is_err()
}

pub(super) fn open(folder: &Path) {
    let _ = Command::new("umount").arg("-l").arg(folder).output();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).expect("ours");
}

#[test]
fn a_damaged_store_is_reported_with_the_way_out_of_it() {
    let fixture = Fixture::new();
    for _ in 0..30 {
        fixture.run(&["hello", "Ada"]);
    }
    let backup = fixture.path("backup.db");
    let backup = backup.to_str().expect("it is UTF-8");
    assert_eq!(fixture.run(&["store", "backup", backup]).code, 0);
    let whole = fs::read(backup).expect("there");
    let store = usual(&fixture);
    for damage in ["cut", "torn"] {
        let mut broken = whole.clone();
        if damage == "cut" {
            broken.truncate(whole.len() / 2);
        } else {
            broken[whole.len() / 2..].fill(0x5A);
        }
        for end in ["-wal", "-shm"] {
            let _ = fs::remove_file(format!("{}{end}", store.display()));
        }
        fs::write(&store, &broken).expect("written");
        let checked = fixture.run(&["store", "check"]);
        assert!(matches!(checked.code, 4 | 10), "{damage}: {checked:?}");
        assert!(checked.err.contains("haft store restore"), "{damage}: {checked:?}");
        // Commands do not change the damaged store. SQLite may still find half of it valid and
        // append to its log.
        fixture.run(&["ledger", "verify"]);
        let called = fixture.run(&["hello", "Ada"]);
        assert_eq!((called.code, &*called.out), (0, "Hello, Ada!"), "{damage}");
        // SQLite may still be able to append to a store that is damaged in the middle.
        let is_told = called.err.starts_with("warning: this call is not in the ledger: ");
        assert!(is_told || damage == "torn", "{damage}: {called:?}");
        assert_eq!(fs::read(&store).expect("there"), broken, "{damage}: nothing is overwritten");
        let restored = fixture.run(&["store", "restore", backup]);
        assert_eq!(restored.code, 0, "{restored:?}");
        assert!(restored.out.contains("the old store is now"), "{restored:?}");
        let aside = restored.out.split_whitespace().find(|word| word.contains(".before-"));
        let aside =
            aside.expect("it is named").replace("<root>/", &fixture.path("").display().to_string());
        let aside = aside.trim_end_matches(['.', ',', '`', ')']);
        assert_eq!(fs::read(aside).expect("kept"), broken, "{damage}: it is kept as it was");
        assert_eq!(recorded(&store).len(), 30, "{damage}");
        assert_eq!(fs::read(backup).expect("there"), whole, "the backup is as it was");
    }
}

#[test]
fn a_folder_of_haft_that_is_a_link_is_not_followed_for_the_store() {
    let fixture = Fixture::new();
    let own = fixture.path("project/.haft");
    let elsewhere = fixture.path("elsewhere");
    fs::remove_dir(&own).expect("empty");
    fs::create_dir(&elsewhere).expect("a folder");
    std::os::unix::fs::symlink(&elsewhere, &own).expect("a link");
    let is_empty = || fs::read_dir(&elsewhere).expect("readable").next().is_none();
    let ran = fixture.run(&["call", "write", r#"{"path": "a.txt", "content": "x"}"#]);
    assert!(ran.code != 0 && ran.err.contains("is a symbolic link"), "{ran:?}");
    assert!(is_empty(), "nothing is written where the link leads");
    fixture.run(&["hello", "Ada"]);
    fixture.run(&["ledger", "show"]);
    fixture.run(&["bash", "echo x"]);
    assert!(is_empty(), "nothing is written where the link leads");
    // A broken link is not replaced by a folder.
    fs::remove_dir(&elsewhere).expect("empty");
    let ran = fixture.run(&["call", "write", r#"{"path": "a.txt", "content": "x"}"#]);
    assert!(ran.code != 0 && !elsewhere.exists(), "{ran:?}");
}

/// Returns haft as a user who owns the project but not its `.haft`. `None` if the tests cannot
/// switch to that user, or that user cannot access the program.
fn as_a_stranger(fixture: &Fixture, arguments: &[&str]) -> Option<std::process::Output> {
    const NOBODY: u32 = 65_534;
    let own = |path: &str| std::os::unix::fs::chown(fixture.path(path), Some(NOBODY), Some(NOBODY));
    for path in ["home", "home/.config", "home/.config/haft", "project", "project/a.txt"] {
        own(path).ok()?;
    }
    fs::set_permissions(fixture.path(""), fs::Permissions::from_mode(0o755)).ok()?;
    let run = |arguments: &[&str]| {
        let haft = fixture.haft(&[]);
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(haft.get_program());
        command.args(arguments).current_dir(fixture.path("project"));
        for (name, value) in haft.get_envs() {
            value.map(|value| command.env(name, value));
        }
        command.output().ok()
    };
    run(&["--version"]).filter(|output| output.status.success())?;
    run(arguments)
}

#[test]
fn a_haft_folder_of_another_user_is_named_with_its_owner_and_the_next_step() {
    for has_area in [false, true] {
        let fixture = Fixture::new().user_config("approve = \"all\"\nsandbox = \"off\"\n");
        fs::write(fixture.path("project/a.txt"), "as it was\n").expect("written");
        if has_area {
            fs::create_dir(fixture.path("project/.haft/tmp")).expect("made");
        }
        let folder = fixture.path("project/.haft").display().to_string();
        let elsewhere = fixture.path("home/elsewhere.db").display().to_string();
        let write = ["write", "a.txt", "changed"];
        let recorded_there = [&write[..], &["--store", &elsewhere]].concat();
        for arguments in [&write[..], &recorded_there] {
            let Some(ran) = as_a_stranger(&fixture, arguments) else { return };
            let told = String::from_utf8_lossy(&ran.stderr);
            assert!(!ran.status.success(), "{arguments:?}: {told}");
            let reason = format!("haft cannot write to `{folder}");
            assert!(told.contains(&reason), "{arguments:?}: {told}");
            assert!(told.contains("belongs to root (uid 0), and haft runs as"), "{told}");
            assert!(told.contains("next: run `sudo chown -R 65534 "), "{told}");
        }
        assert_eq!(
            fs::read_to_string(fixture.path("project/a.txt")).expect("there"),
            "as it was\n"
        );
    }
}
