//! Operations on files that are not regular return at once.

use std::{fs, os::unix::net::UnixListener, path::Path};

use haft_core::{ErrorKind, files::FileKind};
use rustix::fs::{CWD, FileType, Mode, makedev};

use crate::test_workspace::{TestWorkspace, assert_kind, is_directory, note};

#[track_caller]
fn check(place: &TestWorkspace, name: &str, kind: FileKind) {
    let path = Path::new(name);
    assert_kind(place.read(name), ErrorKind::Unsupported, kind.name());
    assert_kind(place.put(name, "x"), ErrorKind::Unsupported, kind.name());
    assert_kind(place.files().entries(path), ErrorKind::Unsupported, kind.name());
    assert_kind(place.put(path.join("below"), "x"), ErrorKind::Conflict, name);
    assert_kind(place.writes().make_directory(path), ErrorKind::Conflict, kind.name());
    assert_eq!(place.files().metadata(path).expect("there").kind, kind);
    let listing = place.files().entries(Path::new(".")).expect("the root");
    assert!(listing.entries.iter().any(|entry| entry.name == name && entry.kind == kind));
}

#[test]
fn a_named_pipe_is_not_waited_for() {
    let place = TestWorkspace::new();
    rustix::fs::mknodat(CWD, place.root.join("pipe"), FileType::Fifo, Mode::RWXU, 0).expect("new");
    check(&place, "pipe", FileKind::Fifo);
}

#[test]
fn a_socket_is_not_read() {
    let place = TestWorkspace::new();
    let _socket = UnixListener::bind(place.root.join("socket")).expect("new");
    check(&place, "socket", FileKind::Socket);
}

#[test]
fn a_device_is_not_opened() {
    let place = TestWorkspace::new();
    let (path, null) = (place.root.join("device"), makedev(1, 3));
    if rustix::fs::mknodat(CWD, path, FileType::CharacterDevice, Mode::RWXU, null).is_err() {
        return note("no device can be made here: this test is passed over");
    }
    check(&place, "device", FileKind::Device);
}

#[test]
fn a_directory_is_a_directory() {
    let place = TestWorkspace::new();
    place.file("dir/file", "x");
    place.link("link", "dir");
    for name in ["dir", "link"] {
        assert!(is_directory(&place.files().open(Path::new(name)).expect("there")));
        assert_kind(place.read(name), ErrorKind::Input, "`dir` is a directory");
        assert_kind(place.put(name, "x"), ErrorKind::Input, "`dir` is a directory");
        let listing = place.files().entries(Path::new(name)).expect("a directory");
        assert_eq!((listing.path.as_path(), listing.entries.len()), (Path::new("dir"), 1));
        assert!(!place.writes().make_directory(Path::new(name)).expect("there").1);
    }
    assert_eq!(place.files().metadata(Path::new("link")).expect("there").kind, FileKind::Link);
    assert_kind(place.files().entries(Path::new("dir/file")), ErrorKind::Input, "dir/file");
    assert_kind(place.put("dir/file/x", "x"), ErrorKind::Conflict, "dir/file");
    let listing = place.files().entries(Path::new(".")).expect("the root");
    let link = listing.entries.iter().find(|entry| entry.name == "link").expect("listed");
    assert!(link.is_directory && link.kind == FileKind::Link);
    fs::remove_dir_all(place.root.join("dir")).expect("there");
    let listing = place.files().entries(Path::new(".")).expect("the root");
    assert!(!listing.entries[0].is_directory);
}
