//! What is said about a path that is not there.

use std::{fs, path::Path};

use haft_core::ErrorKind;

use crate::place::Place;

#[track_caller]
fn check(place: &Place, path: &str, message: &str, hint: &str) {
    let error = place.read(path).expect_err("it is not there");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.to_string(), message);
    let found = error.next_step();
    assert!(found.contains(hint), "{found} without {hint}");
}

#[test]
fn near_names_are_told() {
    let place = Place::new();
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
fn a_huge_directory_is_no_hindrance() {
    let place = Place::new();
    fs::create_dir(place.root.join("many")).expect("new");
    let one = place.file("one", "");
    for number in 0..12_000 {
        // Names of one file: making as many files takes a disk its time.
        fs::hard_link(&one, place.root.join(format!("many/{number:0>200}"))).expect("new");
    }
    let error = place.read(Path::new("many").join("9".repeat(200))).expect_err("not there");
    assert_eq!(error.kind(), ErrorKind::NotFound);
}
