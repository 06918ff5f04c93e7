//! Errors for paths that do not exist.

use std::{fs, path::Path};

use haft_core::ErrorKind;

use crate::test_workspace::TestWorkspace;

#[track_caller]
fn check(place: &TestWorkspace, path: &str, message: &str, hint: &str) {
    let error = place.read(path).expect_err("it is not there");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.to_string(), message);
    let found = error.next_step();
    assert!(found.contains(hint), "{found} without {hint}");
}

#[test]
fn similar_names_are_suggested() {
    let place = TestWorkspace::new();
    for path in ["src/main.rs", "src/library.rs", "README.md", "src/.hidden"] {
        place.file(path, "x");
    }
    check(&place, "src/mian.rs", "there is no `src/mian.rs`", "`src/main.rs`");
    check(&place, "readme.md", "there is no `readme.md`", "`README.md`");
    check(&place, "scr/main.rs", "there is no `scr/main.rs`: no directory `scr`", "`src`");
    check(&place, "src/sub/x/y", "there is no `src/sub/x/y`: no directory `src/sub`", "relative");
    let message = "there is no `src/main.rs/x`: `src/main.rs` is no directory";
    check(&place, "src/main.rs/x", message, "name the file itself");
    check(&place, "zzzzzzzz", "there is no `zzzzzzzz`", "relative to the workspace");
}

#[test]
fn a_huge_directory_does_not_delay_the_error() {
    let place = TestWorkspace::new();
    fs::create_dir(place.root.join("many")).expect("new");
    let one = place.file("one", "");
    for number in 0..12_000 {
        // Hard links to one file: creating as many files takes a disk too long.
        fs::hard_link(&one, place.root.join(format!("many/{number:0>200}"))).expect("new");
    }
    let error = place.read(Path::new("many").join("9".repeat(200))).expect_err("not there");
    assert_eq!(error.kind(), ErrorKind::NotFound);
}
