//! Changes of several files: all of them change, or none.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use haft_core::{ErrorKind, files::PlannedChange};

use crate::test_workspace::{TestWorkspace, assert_kind, new_content};

fn three(place: &TestWorkspace) {
    for name in ["one", "dir/two", "three"] {
        let path = place.file(name, &format!("old {name}"));
        fs::set_permissions(path, PermissionsExt::from_mode(0o711)).expect("own file");
    }
}

#[test]
fn several_change_at_once() {
    let place = TestWorkspace::new();
    three(&place);
    let paths: Vec<PathBuf> =
        ["one", "dir/two", "three", "new/four"].iter().map(PathBuf::from).collect();
    let changed = place.writes().change(&paths, &mut |_| {
        let remove = PlannedChange::Remove { target: 2 };
        Ok(vec![new_content(0, "1"), new_content(1, "2"), remove, new_content(3, "4")])
    });
    changed.expect("open");
    assert_eq!((place.content("one"), place.content("dir/two")), ("1".into(), "2".into()));
    assert_eq!(place.content("new/four"), "4");
    assert!(!place.root.join("three").exists());
    place.assert_clean();
}

/// Checks that everything is unchanged after a change whose last part fails because of what happens
/// during planning.
#[track_caller]
fn check_undone(
    happens: impl Fn(&TestWorkspace),
    repair: impl Fn(&TestWorkspace),
    kind: ErrorKind,
) {
    let place = TestWorkspace::new();
    three(&place);
    place.put_all(&[("x", ""), ("y", "")], || {}).expect("so that the area is there");
    let before = place.snapshot();
    let files = [("one", "1"), ("new/sub/file", "n"), ("dir/two", "2"), ("last", "3")];
    assert_kind(place.put_all(&files, || happens(&place)), kind, "");
    repair(&place);
    assert_eq!(place.snapshot(), before);
}

#[test]
fn a_directory_in_the_place_of_a_new_file_undoes_all() {
    check_undone(
        |place| fs::create_dir(place.root.join("last")).expect("new"),
        |place| fs::remove_dir(place.root.join("last")).expect("theirs"),
        ErrorKind::Conflict,
    );
}

#[test]
fn a_directory_that_was_moved_undoes_all() {
    check_undone(
        |place| fs::rename(place.root.join("dir"), place.root.join("away")).expect("there"),
        |place| fs::rename(place.root.join("away"), place.root.join("dir")).expect("moved"),
        ErrorKind::Conflict,
    );
}

#[test]
fn a_file_in_the_place_of_a_missing_directory_undoes_all() {
    check_undone(
        |place| fs::write(place.root.join("new"), "theirs").expect("new"),
        |place| fs::remove_file(place.root.join("new")).expect("theirs"),
        ErrorKind::Conflict,
    );
}

/// This one fails after names were replaced: the new file is found only when it is its turn.
#[test]
fn a_file_that_appeared_in_a_new_directory_undoes_what_had_moved() {
    check_undone(
        |place| {
            fs::create_dir_all(place.root.join("new/sub")).expect("new");
            fs::write(place.root.join("new/sub/file"), "theirs").expect("new");
        },
        |place| {
            assert_eq!(place.content("new/sub/file"), "theirs");
            fs::remove_dir_all(place.root.join("new")).expect("theirs");
        },
        ErrorKind::Conflict,
    );
}
