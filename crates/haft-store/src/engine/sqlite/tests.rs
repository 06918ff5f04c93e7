//! Tests of opening and creating files: the result, and what is refused.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use haft_core::ErrorKind;
use tempfile::TempDir;

use super::*;
use crate::engine::migrations::Migration;

const ONE: &[Migration] = &[Migration { version: 1, text: "CREATE TABLE one (id {key})" }];
const TWO: &[Migration] = &[
    Migration { version: 1, text: "CREATE TABLE one (id {key})" },
    Migration { version: 2, text: "CREATE TABLE two (id {key}); INSERT INTO two VALUES (7)" },
];

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().canonicalize().expect("it is there").join(".haft/haft.db");
    (folder, path)
}

fn made(path: &Path) -> Arc<Sqlite> {
    Sqlite::open(path, IfMissing::Create).expect("it opens").expect("it is made")
}

#[track_caller]
fn refused(path: &Path, reported: &str) {
    let before = fs::read(path).ok();
    let error = Sqlite::open(path, IfMissing::Create).err().expect("it is refused");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.message().contains(reported), "{error}");
    assert!(error.message().contains("haft.db"), "{error}");
    assert_eq!(fs::read(path).ok(), before, "nothing is overwritten");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
fn a_new_store_is_for_its_owner_alone_and_not_for_git() {
    let (_folder, path) = folder();
    let store = made(&path);
    assert_eq!((mode(&path), mode(path.parent().expect("a folder"))), (0o600, 0o700));
    let ignored = fs::read_to_string(path.with_file_name(".gitignore")).expect("made");
    assert!(ignored.contains("/haft.db*\n"), "{ignored}");
    let mut connection = store.hold().expect("free");
    connection.begin().expect("free");
    connection
        .execute("INSERT INTO chain (id, seq, hash) VALUES ($1, 0, '')", &[Value::Integer(2)])
        .expect("written");
    connection.commit().expect("committed");
    assert_eq!(mode(&path.with_file_name("haft.db-wal")), 0o600);
    let mut left: Vec<_> = fs::read_dir(path.parent().expect("a folder")).expect("there").collect();
    left.retain(|entry| {
        entry.as_ref().is_ok_and(|e| e.file_name().to_string_lossy().contains("new"))
    });
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_existing_gitignore_is_kept() {
    let (_folder, path) = folder();
    let ignored = path.with_file_name(".gitignore");
    fs::create_dir(path.parent().expect("a folder")).expect("made");
    fs::write(&ignored, "mine").expect("written");
    made(&path);
    assert_eq!(fs::read_to_string(ignored).expect("there"), "mine");
}

#[test]
fn no_store_is_made_for_a_read_only_call() {
    let (_folder, path) = folder();
    assert!(Sqlite::open(&path, IfMissing::ReturnNone).expect("no failure").is_none());
    assert!(!path.parent().expect("a folder").exists());
}

#[test]
fn an_older_store_is_migrated_and_keeps_its_contents() {
    let (_folder, path) = folder();
    let old = Sqlite::open_with(&path, IfMissing::Create, ONE).expect("opens").expect("made");
    old.hold().expect("free").execute("INSERT INTO one VALUES (5)", &[]).expect("written");
    drop(old);
    let new = Sqlite::open_with(&path, IfMissing::Create, TWO).expect("opens").expect("there");
    let mut connection = new.hold().expect("free");
    let rows =
        connection.query("SELECT id FROM one UNION ALL SELECT id FROM two", &[]).expect("read");
    assert_eq!(rows, [SqlRow(vec![SqlCell::Integer(5)]), SqlRow(vec![SqlCell::Integer(7)])]);
}

#[test]
fn many_processes_can_migrate_a_store_at_once() {
    let (_folder, path) = folder();
    drop(Sqlite::open_with(&path, IfMissing::Create, ONE).expect("opens"));
    let open = || Sqlite::open_with(&path, IfMissing::Create, TWO).map(|_| ());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        for thread in threads {
            thread.join().expect("no panic").expect("it opens");
        }
    });
}

#[test]
fn many_processes_can_create_a_store_at_once() {
    let (_folder, path) = folder();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| made(&path).identity)).collect();
        let seen: Vec<_> = threads.into_iter().map(|it| it.join().expect("no panic")).collect();
        assert!(seen.iter().all(|identity| *identity == seen[0]), "{seen:?}");
    });
}

#[test]
fn a_newer_store_is_refused_with_advice() {
    let (_folder, path) = folder();
    let ours = crate::engine::migrations::ALL;
    let ours_too = |step: &Migration| Migration { version: step.version, text: step.text };
    let mut newer: Vec<Migration> = ours.iter().map(ours_too).collect();
    let version = newer.len() as i64 + 1;
    newer.push(Migration { version, text: "CREATE TABLE later (id {key})" });
    drop(Sqlite::open_with(&path, IfMissing::Create, &newer).expect("opens"));
    refused(&path, &format!("has version {version}, written by a newer haft"));
}

#[test]
fn a_file_that_is_not_a_store_is_left_as_it_is() {
    let (_folder, path) = folder();
    fs::create_dir(path.parent().expect("a folder")).expect("made");
    fs::write(&path, "").expect("written");
    refused(&path, "the file is empty");
    fs::write(&path, "another program's text, long enough to be read as a page ".repeat(40))
        .expect("written");
    refused(&path, "is damaged");
    fs::remove_file(&path).expect("there");
    Connection::open(&path).expect("opens").execute_batch("CREATE TABLE x (y)").expect("made");
    refused(&path, "database of another program");
    fs::remove_file(&path).expect("there");
    fs::create_dir(&path).expect("made");
    refused(&path, "not a regular file");
    fs::remove_dir(&path).expect("there");
    std::os::unix::fs::symlink("/etc/passwd", &path).expect("made");
    refused(&path, "symbolic link");
}

#[test]
fn a_store_with_a_trigger_in_it_is_refused() {
    let (_folder, path) = folder();
    drop(made(&path));
    let stranger = Connection::open(&path).expect("opens");
    let trigger = "CREATE TRIGGER t AFTER INSERT ON ledger BEGIN DELETE FROM ledger; END";
    stranger.execute_batch(trigger).expect("made");
    drop(stranger);
    refused(&path, "triggers or views");
}

#[test]
fn an_uncommitted_transaction_is_rolled_back() {
    let (_folder, path) = folder();
    let store = made(&path);
    let mut connection = store.hold().expect("free");
    connection.begin().expect("free");
    connection.execute("DELETE FROM chain", &[]).expect("done");
    drop(connection);
    let rows = store.hold().expect("free").query("SELECT id FROM chain", &[]).expect("read");
    assert_eq!(rows.len(), 1);
}

#[test]
fn a_busy_store_is_reported_in_bounded_time() {
    let (_folder, path) = folder();
    let (one, two) = (made(&path), made(&path));
    let mut connection = one.hold().expect("free");
    connection.begin().expect("free");
    let began = Instant::now();
    let error = two.hold().expect("its own").begin().expect_err("kept by the other");
    assert!(error.message().contains("is busy"), "{error}");
    assert!(began.elapsed() >= BUSY_TIMEOUT && began.elapsed() < BUSY_TIMEOUT * 6);
    drop(connection);
    two.hold().expect("its own").begin().expect("free again");
}

#[test]
fn a_file_that_was_moved_away_is_noticed() {
    let (_folder, path) = folder();
    let store = made(&path);
    assert!(store.is_in_place());
    fs::rename(&path, path.with_file_name("other")).expect("moved");
    assert!(!store.is_in_place());
    made(&path);
    assert!(!store.is_in_place(), "another file is not ours");
}
