//! Opening a workspace removes the leftovers of a crash, and nothing else.

use std::{
    fs,
    io::Write,
    os::{
        fd::AsFd,
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::Path,
};

use rustix::fs::{FlockOperation, flock};

use crate::test_workspace::{SECRET, TestWorkspace, new_content, open};

fn hex(path: &str) -> String {
    Path::new(path).as_os_str().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn area(place: &TestWorkspace) -> std::path::PathBuf {
    let area = place.root.join(".haft/tmp");
    fs::create_dir_all(&area).expect("made");
    area
}

/// Writes a record as a change does: its first line binds it to its directory.
fn record(place: &TestWorkspace, lines: &str) {
    let area = area(place);
    let mut file = fs::File::create(area.join("1-1-1.undo")).expect("new");
    let number = |known: fs::Metadata| known.ino();
    let (above, own) = (fs::metadata(&area).expect("there"), file.metadata().expect("there"));
    write!(file, "haft {} {}\n{lines}end\n", number(above), number(own)).expect("writable");
}

fn state(path: &Path) -> String {
    let known = fs::metadata(path).expect("there");
    let time = i128::from(known.mtime()) * 1_000_000_000 + i128::from(known.mtime_nsec());
    format!("{}:{}:{time}", known.ino(), known.size())
}

/// A change of two files, an old and a new one, that a crash stopped after both were renamed.
fn crashed() -> TestWorkspace {
    let place = TestWorkspace::new();
    fs::write(area(&place).join("1-1-0"), "old").expect("new");
    let (one, two) = (place.file("one", "new"), place.file("two", "new"));
    let lines = format!("{} 1-1-0 {}\n{} - {}\n", state(&one), hex("one"), state(&two), hex("two"));
    record(&place, &lines);
    place
}

#[test]
fn an_interrupted_change_is_reverted() {
    let place = crashed();
    open(&place.root);
    assert_eq!(place.content("one"), "old");
    assert!(!place.root.join("two").exists());
    place.assert_clean();
}

#[test]
fn a_later_edit_is_left_alone() {
    let place = crashed();
    // In place and with the same length: the inode number stays.
    let mut file = fs::OpenOptions::new().write(true).open(place.root.join("one")).expect("there");
    file.write_all(b"NEW").expect("writable");
    file.set_modified(std::time::SystemTime::now()).expect("own file");
    drop(file);
    open(&place.root);
    assert_eq!(place.content("one"), "NEW");
    place.assert_clean();
}

#[test]
fn a_removed_file_comes_back_and_is_not_put_over_a_new_one() {
    for theirs in [None, Some("theirs")] {
        let place = TestWorkspace::new();
        fs::write(area(&place).join("1-1-0"), "old").expect("new");
        record(&place, &format!("- 1-1-0 {}\n", hex("dir/one")));
        fs::create_dir(place.root.join("dir")).expect("new");
        if let Some(theirs) = theirs {
            place.file("dir/one", theirs);
        }
        open(&place.root);
        assert_eq!(place.content("dir/one"), theirs.unwrap_or("old"));
        place.assert_clean();
    }
}

/// A repository may contain `.haft/tmp` with records that haft did not write.
#[test]
fn a_foreign_record_does_nothing() {
    let place = TestWorkspace::new();
    fs::write(area(&place).join("hook"), "#!/bin/sh").expect("new");
    let theirs = format!("- hook {}\n", hex(".git/hooks/post-commit"));
    fs::create_dir_all(place.root.join(".git/hooks")).expect("new");
    for first in ["", "haft 1 2\n", "haft 0 0\n"] {
        fs::write(area(&place).join("x.undo"), format!("{first}{theirs}end\n")).expect("new");
    }
    open(&place.root);
    assert!(!place.root.join(".git/hooks/post-commit").exists());
    place.assert_clean();
}

#[test]
fn a_record_cannot_name_other_paths() {
    for (backup, path) in [
        ("../../../outside/secret", "stolen"),
        ("..", "stolen"),
        ("1-1-0", "../outside/planted"),
        ("1-1-0", "out/planted"),
        ("1-1-0", "/tmp/haft-test-planted"),
    ] {
        let place = TestWorkspace::new();
        place.link("out", &place.outside);
        fs::write(area(&place).join("1-1-0"), "planted").expect("new");
        record(&place, &format!("- {backup} {}\n", hex(path)));
        open(&place.root);
        assert!(
            !place.root.join("stolen").exists() && !Path::new("/tmp/haft-test-planted").exists()
        );
        let outside = fs::read_dir(&place.outside).expect("there").count();
        assert_eq!(outside, 1, "{backup} {path}");
        assert_eq!(fs::read_to_string(place.outside.join("secret")).expect("there"), SECRET);
    }
}

#[test]
fn everything_in_the_staging_area_is_removed() {
    let place = TestWorkspace::new();
    place.file(".haft/tmp/dir/sub/file", "x");
    place.file(".haft/tmp/half.undo", "no end");
    place.link(".haft/tmp/link", &place.outside);
    place.link(".haft/tmp/dir/link", &place.outside);
    place.file(".haft/config.toml", "kept");
    let pipe = area(&place).join("pipe.undo");
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, pipe, fifo, 0o600.into(), 0).expect("new");
    open(&place.root);
    place.assert_clean();
    assert_eq!(place.content(".haft/config.toml"), "kept");
    assert!(place.outside.join("secret").exists());
}

#[test]
fn nothing_is_swept_while_a_process_holds_the_lock() {
    let place = crashed();
    let somebody = fs::File::open(area(&place)).expect("there");
    flock(somebody.as_fd(), FlockOperation::LockShared).expect("free");
    open(&place.root);
    assert_eq!(place.content("one"), "new");
    assert_eq!(fs::read_dir(area(&place)).expect("there").count(), 2);
    drop(somebody);
    open(&place.root);
    assert_eq!(place.content("one"), "old");
    place.assert_clean();
}

#[test]
fn opening_a_workspace_within_a_change_does_not_disturb_it() {
    let place = TestWorkspace::new();
    place.file("one", "old");
    let paths = ["one".into(), "two".into()];
    let changed = place.writes().change(&paths, &mut |_| {
        open(&place.root);
        Ok(vec![new_content(0, "new"), new_content(1, "new")])
    });
    changed.expect("open");
    assert_eq!(place.content("one") + &place.content("two"), "newnew");
}
