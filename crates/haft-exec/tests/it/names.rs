//! Renaming, removing and creating entries.

use std::{fs, path::Path};

use haft_core::{ErrorKind, ToolError};

use crate::test_workspace::{SECRET, TestWorkspace, assert_kind};

fn rename(place: &TestWorkspace, from: &str, to: &str, replace: bool) -> Result<(), ToolError> {
    let (old, new) = place.writes().rename(Path::new(from), Path::new(to), replace)?;
    assert!(!old.as_os_str().is_empty() && !new.as_os_str().is_empty());
    Ok(())
}

#[test]
fn files_links_and_directories_move() {
    let place = TestWorkspace::new();
    place.file("dir/file", "x");
    place.link("link", "dir/file");
    place.link("out", &place.outside);
    rename(&place, "dir/file", "new/sub/file", false).expect("free");
    rename(&place, "new", "other/new", false).expect("free");
    rename(&place, "link", "dir/link", false).expect("a link moves itself");
    rename(&place, "out", "dir/out", false).expect("so does one that leads out");
    assert_eq!(place.content("other/new/sub/file"), "x");
    assert!(place.root.join("dir/link").is_symlink() && place.root.join("dir/out").is_symlink());
}

#[test]
fn existing_files_are_replaced_only_on_request() {
    let place = TestWorkspace::new();
    for (path, content) in [("a", "a"), ("b", "b"), ("dir/file", "f"), ("other/file", "o")] {
        place.file(path, content);
    }
    let before = place.snapshot();
    assert_kind(rename(&place, "a", "b", false), ErrorKind::Conflict, "`b`");
    assert_kind(rename(&place, "dir", "other", true), ErrorKind::Conflict, "`other`");
    assert_kind(rename(&place, "a", "dir", true), ErrorKind::Conflict, "`dir`");
    assert_kind(rename(&place, "dir", "a", true), ErrorKind::Conflict, "`a`");
    assert_kind(rename(&place, "dir", "dir/sub/dir", false), ErrorKind::Input, "inside");
    assert_kind(rename(&place, "a", "a/b", false), ErrorKind::Conflict, "`a`");
    assert_kind(rename(&place, "missing", "c/d", false), ErrorKind::NotFound, "missing");
    assert_kind(rename(&place, ".", "c", false), ErrorKind::Input, "workspace itself");
    assert_kind(rename(&place, "a", ".", true), ErrorKind::Input, "workspace itself");
    rename(&place, "a", "a", true).expect("nothing to do");
    assert_eq!(place.snapshot(), before);
    rename(&place, "a", "b", true).expect("told to");
    assert_eq!(place.content("b"), "a");
    fs::hard_link(place.root.join("b"), place.root.join("c")).expect("new");
    rename(&place, "b", "c", true).expect("told to");
    assert!(!place.root.join("b").exists() && place.content("c") == "a");
}

#[test]
fn links_are_removed_and_not_followed() {
    let place = TestWorkspace::new();
    place.file("dir/file", "x");
    place.link("link", "dir");
    place.link("dir/out", &place.outside);
    place.link("dir/secret", place.outside.join("secret"));
    let remove = |path: &str, recursive| place.writes().remove(Path::new(path), recursive);
    assert_eq!(remove("link", true).expect("a link").1, 1);
    assert_eq!(place.content("dir/file"), "x");
    assert_kind(remove("dir", false), ErrorKind::Conflict, "not empty");
    assert_eq!(remove("dir", true).expect("open").1, 4);
    assert!(!place.root.join("dir").exists());
    assert_eq!(fs::read_to_string(place.outside.join("secret")).expect("there"), SECRET);
    assert_kind(remove("dir", true), ErrorKind::NotFound, "dir");
    assert_kind(remove(".", true), ErrorKind::Input, "workspace itself");
    assert_eq!(remove(".haft", true).expect("in its place").1, 2);
    place.assert_clean();
}

#[test]
fn a_deep_tree_is_moved_and_removed() {
    const DEPTH: u64 = 3_000;
    let place = TestWorkspace::new();
    fs::create_dir(place.root.join("top")).expect("new");
    let mut here = fs::File::open(place.root.join("top")).expect("just made");
    for _ in 1..DEPTH {
        rustix::fs::mkdirat(&here, "deeper", 0o755.into()).expect("new");
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        let next = rustix::fs::openat(&here, "deeper", flags, 0.into()).expect("just made");
        here = next.into();
    }
    rename(&place, "top", "moved", false).expect("free");
    let (_, removed) = place.writes().remove(Path::new("moved"), true).expect("open");
    assert_eq!(removed, DEPTH);
    place.assert_clean();
}

#[test]
fn what_cannot_be_removed_stays_in_its_place() {
    use std::process::Command;
    let place = TestWorkspace::new();
    let path = place.file("dir/sub/file", "x");
    let mark = |how: &str| Command::new("chattr").arg(how).arg(&path).output();
    if !mark("+i").is_ok_and(|done| done.status.success()) {
        return crate::test_workspace::note(
            "files cannot be made immutable here: this test is passed over",
        );
    }
    let removed = place.writes().remove(Path::new("dir"), true);
    let moved = place.put("dir/sub/file", "y");
    mark("-i").expect("it worked before");
    assert_kind(removed, ErrorKind::Denied, "dir");
    assert_kind(moved, ErrorKind::Denied, "dir/sub/file");
    assert_eq!(place.content("dir/sub/file"), "x");
    place.assert_clean();
}

#[test]
fn directories_are_made() {
    let place = TestWorkspace::new();
    place.file("file", "x");
    place.link("link", "made/by/link");
    let make = |path: &str| place.writes().make_directory(Path::new(path));
    assert_eq!(make("a/b/c").expect("free"), ("a/b/c".into(), true));
    assert_eq!(make("a/b/c").expect("there"), ("a/b/c".into(), false));
    assert_eq!(make("link").expect("inside"), ("made/by/link".into(), true));
    assert_eq!(make(".").expect("there"), (".".into(), false));
    assert_kind(make("file"), ErrorKind::Conflict, "file");
    assert_kind(make("file/below"), ErrorKind::Conflict, "file");
    assert_kind(make("../new"), ErrorKind::Denied, "new");
    assert!(!place.root.join(".haft").exists());
}
