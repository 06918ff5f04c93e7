//! Writing one file: the attributes it keeps, refusals, and the state after a failure.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::{Path, PathBuf},
};

use haft_core::{
    ErrorKind,
    files::{CurrentState, PlannedChange},
};
use rustix::fs::{XattrFlags, getxattr, setxattr};

use crate::test_workspace::{
    TestWorkspace, assert_kind, is_run_with_own_mounts, mount, new_content, note, open,
};

#[test]
fn a_new_file_appears_without_a_trace() {
    let place = TestWorkspace::new();
    place.put("new.txt", "new").expect("free");
    assert_eq!(place.content("new.txt"), "new");
    place.put("a/b/c/new.txt", "deep").expect("free");
    assert_eq!(place.content("a/b/c/new.txt"), "deep");
    assert!(!place.root.join(".haft").exists(), "one new file needs no area");
    place.put("empty", "").expect("free");
    assert_eq!(place.content("empty"), "");
}

#[test]
fn a_replaced_file_has_the_new_content_and_no_neighbour() {
    let place = TestWorkspace::new();
    place.file("dir/file", "old");
    for content in ["new", "", "long ".repeat(100_000).as_str()] {
        place.put("dir/file", content).expect("there");
        assert_eq!(place.content("dir/file"), content);
        let names = fs::read_dir(place.root.join("dir")).expect("a directory").count();
        assert_eq!(names, 1);
        place.assert_clean();
    }
}

#[test]
fn nothing_unfinished_is_seen_beside_the_file() {
    let place = TestWorkspace::new();
    place.file("dir/file", "old");
    let paths = ["dir/file".into(), "dir/new".into()];
    let names = || {
        let entries = fs::read_dir(place.root.join("dir")).expect("a directory");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("one").file_name()).collect();
        names.sort();
        names
    };
    let changed = place.writes().change(&paths, &mut |_| {
        assert_eq!(names(), ["file"]);
        Ok(vec![new_content(0, "a"), new_content(1, "b")])
    });
    changed.expect("open");
    assert_eq!(names(), ["file", "new"]);
}

/// A POSIX access list in the kernel's format: the owner, user 1234, the group, the mask, the
/// others.
fn access_list(of_1234: u16, mask: u16) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    let nobody = u32::MAX;
    for (tag, rights, id) in
        [(1, 6, nobody), (2, of_1234, 1234), (4, 4, nobody), (16, mask, nobody), (32, 0, nobody)]
    {
        bytes.extend(u16::to_le_bytes(tag));
        bytes.extend(rights.to_le_bytes());
        bytes.extend(u32::to_le_bytes(id));
    }
    bytes
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 1024];
    let length = getxattr(path, name, &mut value).ok()?;
    value.truncate(length);
    Some(value)
}

#[test]
fn mode_owner_and_attributes_stay() {
    let place = TestWorkspace::new();
    let path = place.file("file", "old");
    let owned = chown(&path, Some(1234), Some(4321)).is_ok();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o4751)).expect("own file");
    let list = access_list(4, 5);
    let marked = setxattr(&path, "user.mark", b"kept", XattrFlags::empty()).is_ok();
    let listed = setxattr(&path, "system.posix_acl_access", &list, XattrFlags::empty()).is_ok();
    if !(owned && marked && listed) {
        note("not all attributes can be set here: only the others are tested");
    }
    let before = fs::metadata(&path).expect("there");
    place.put("file", "new").expect("there");
    let after = fs::metadata(&path).expect("there");
    assert_eq!(after.mode() & 0o777, before.mode() & 0o777);
    assert_eq!(after.mode() & 0o6000, 0, "changing a program drops its set-id bits");
    assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
    assert_eq!(attribute(&path, "user.mark"), marked.then(|| b"kept".to_vec()));
    assert_eq!(attribute(&path, "system.posix_acl_access"), listed.then_some(list));
}

#[test]
fn a_directorys_access_list_does_not_open_a_file_that_had_none() {
    let place = TestWorkspace::new();
    let path = place.file("dir/file", "old");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("own file");
    let (directory, name) = (place.root.join("dir"), "system.posix_acl_default");
    if setxattr(&directory, name, &access_list(7, 7), XattrFlags::empty()).is_err() {
        return note("access lists cannot be set here: this test is passed over");
    }
    place.put("dir/file", "new").expect("there");
    assert_eq!(attribute(&path, "system.posix_acl_access"), None);
    assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o640);
    place.put("dir/new", "new").expect("free");
    let new = place.root.join("dir/new");
    assert!(attribute(&new, "system.posix_acl_access").is_some(), "a new file inherits");
}

#[test]
fn a_new_file_copies_the_attributes_of_another_on_request() {
    let place = TestWorkspace::new();
    let path = place.file("old", "old");
    fs::set_permissions(path, PermissionsExt::from_mode(0o751)).expect("own file");
    let paths = ["old".into(), "sub/new".into()];
    let changed = place.writes().change(&paths, &mut |targets| {
        assert!(matches!(targets[0].current, CurrentState::File(_)));
        assert!(matches!(targets[1].current, CurrentState::Missing));
        let put = PlannedChange::Put { target: 1, bytes: b"new".to_vec().into(), like: Some(0) };
        Ok(vec![put, PlannedChange::Remove { target: 0 }])
    });
    changed.expect("open");
    assert!(!place.root.join("old").exists());
    let new = fs::metadata(place.root.join("sub/new")).expect("made");
    assert_eq!(new.mode() & 0o777, 0o751);
    place.assert_clean();
}

#[test]
fn a_link_is_written_through_and_stays() {
    let place = TestWorkspace::new();
    place.file("dir/file", "old");
    place.link("link", "dir/file");
    place.link("dangling", "dir/new");
    place.put("link", "new").expect("inside");
    place.put("dangling", "made").expect("inside");
    assert!(place.root.join("link").is_symlink() && place.root.join("dangling").is_symlink());
    assert_eq!(place.content("dir/file"), "new");
    assert_eq!(place.content("dir/new"), "made");
}

#[test]
fn a_plan_that_fails_changes_nothing() {
    let place = TestWorkspace::new();
    place.file("file", "old");
    let before = place.snapshot();
    let paths = [PathBuf::from("file"), "new/dir/file".into()];
    let failed = place.writes().change(&paths, &mut |_| Err(haft_core::ToolError::input("no")));
    assert_kind(failed, ErrorKind::Input, "no");
    for wrong in [
        vec![new_content(0, "a"), new_content(0, "b")],
        vec![new_content(0, "a"), new_content(7, "b")],
        vec![PlannedChange::Put { target: 0, bytes: Vec::new().into(), like: Some(9) }],
    ] {
        let failed = place.writes().change(&paths, &mut |_| Ok(wrong.clone()));
        assert_kind(failed, ErrorKind::Internal, "plan");
    }
    let removed =
        place.writes().change(&paths, &mut |_| Ok(vec![PlannedChange::Remove { target: 1 }]));
    assert_kind(removed, ErrorKind::NotFound, "new/dir/file");
    assert_eq!(place.snapshot(), before);
    place.writes().change(&paths, &mut |_| Ok(Vec::new())).expect("nothing to do");
    assert_eq!(place.snapshot(), before);
}

#[test]
fn the_same_path_twice_is_refused() {
    let place = TestWorkspace::new();
    place.file("dir/file", "old");
    place.link("link", "dir/file");
    for (one, other) in [("x", "x"), ("dir/file", "link"), ("n/x", "dir/../n/x")] {
        let failed = place.put_all(&[(one, "1"), (other, "2")], || {});
        assert_kind(failed, ErrorKind::Input, "twice");
    }
}

#[test]
fn concurrent_changes_are_not_overwritten() {
    let place = TestWorkspace::new();
    place.file("file", "old");
    place.file("dir/file", "old");
    let meanwhile = |path: &'static str, content: &'static str| {
        let path = place.root.join(path);
        move || fs::write(&path, content).expect("writable")
    };
    let failed = place.put_all(&[("file", "ours")], meanwhile("file", "theirs"));
    assert_kind(failed, ErrorKind::Conflict, "file");
    assert_eq!(place.content("file"), "theirs");
    let failed = place.put_all(&[("new", "ours")], meanwhile("new", "theirs"));
    assert_kind(failed, ErrorKind::Conflict, "new");
    assert_eq!(place.content("new"), "theirs");
    let made = || {
        fs::create_dir_all(place.root.join("a/b")).expect("new");
        fs::write(place.root.join("a/b/new"), "theirs").expect("new");
    };
    let failed = place.put_all(&[("a/b/new", "ours")], made);
    assert_kind(failed, ErrorKind::Conflict, "a/b/new");
    assert_eq!(place.content("a/b/new"), "theirs");
    let moved = || {
        fs::rename(place.root.join("dir"), place.root.join("moved")).expect("free");
        place.link("dir", &place.outside);
    };
    let failed = place.put_all(&[("dir/file", "ours")], moved);
    assert_kind(failed, ErrorKind::Conflict, "dir/file");
    assert_eq!(place.content("moved/file"), "old");
    assert!(!place.outside.join("file").exists());
    place.assert_clean();
}

#[test]
fn a_file_and_a_directory_of_one_name_are_refused() {
    let place = TestWorkspace::new();
    let before = place.snapshot();
    assert!(place.put_all(&[("a", "file"), ("a/b", "below")], || {}).is_err());
    assert!(place.put_all(&[("a/b", "below"), ("a", "file")], || {}).is_err());
    assert_eq!(place.snapshot(), before);
}

#[test]
fn a_full_disk_leaves_the_old_file() {
    if is_run_with_own_mounts("writing::a_full_disk_leaves_the_old_file") {
        return;
    }
    let place = TestWorkspace::new();
    mount(&["-t", "tmpfs", "-o", "size=256k", "none", &place.root.display().to_string()]);
    let disk = open(&place.root);
    let place = place.with(disk);
    place.file("file", "old");
    place.file("other", "old");
    let before = place.snapshot();
    let large = "x".repeat(300 << 10);
    assert_kind(
        place.put("file", &large),
        ErrorKind::Unavailable,
        "no space left on the device for `file`",
    );
    assert_kind(place.put("a/b/new", &large), ErrorKind::Unavailable, "a/b/new");
    let several = place.put_all(&[("other", "new"), ("file", &large), ("new", "new")], || {});
    assert_kind(several, ErrorKind::Unavailable, "`file`");
    assert_eq!(place.snapshot(), before);
    place.put("file", "fits").expect("there is test again");
}

#[test]
fn handles_are_not_leaked() {
    let place = TestWorkspace::new();
    // Other tests of this program open and close files at the same time.
    let is_own = |path: PathBuf| path.starts_with(&place.root);
    let open = || {
        let handles = fs::read_dir("/proc/self/fd").expect("linux");
        let targets = handles.filter_map(|handle| fs::read_link(handle.ok()?.path()).ok());
        targets.filter(|target| is_own(target.clone())).count()
    };
    let work = |number: usize| {
        place.put(format!("d/{}", number % 7), "x").expect("open");
        place.put_all(&[("a/x", "1"), ("a/y", "2")], || {}).expect("open");
        place.put("d/0/below", "x").expect_err("a file is above");
        place.read("missing").expect_err("it is");
        place.files().entries(Path::new("d")).expect("there");
        place.writes().rename(Path::new("a"), Path::new("b"), false).expect("free");
        place.writes().remove(Path::new("b"), true).expect("there");
    };
    work(0);
    let before = open();
    (1..60).for_each(work);
    assert_eq!(open(), before);
    place.assert_clean();
}

#[test]
fn a_link_in_the_place_of_the_area_leads_nowhere() {
    for target in ["outside", "missing", "file"] {
        for at in [".haft", ".haft/tmp"] {
            let mut place = TestWorkspace::new();
            place.file("file", "old");
            place.file("dir/file", "x");
            place.link(at, place.outside.join("../").join(target));
            place.disk = open(&place.root);
            let before = fs::read_dir(&place.outside).expect("there").count();
            assert_kind(place.put("file", "new"), ErrorKind::Conflict, ".haft");
            let several = place.put_all(&[("file", "new"), ("new", "new")], || {});
            assert_kind(several, ErrorKind::Conflict, ".haft");
            place.put("single", "new").expect("it needs no area");
            place.writes().remove(Path::new("dir"), true).expect("removed in its place");
            assert_eq!(place.content("file"), "old");
            assert!(!place.root.join("dir").exists());
            assert_eq!(fs::read_dir(&place.outside).expect("there").count(), before);
            assert!(!place.outside.join("../missing").exists());
        }
    }
}
