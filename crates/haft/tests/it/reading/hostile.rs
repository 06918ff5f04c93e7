//! Texts that look harmless but are not, run by the real shell and programs in a temporary folder:
//! a text that changes a file must not be analysed as read-only.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use haft_shell::read;

/// One text per line; `NEWLINE` stands for a line end in it. A text that has an effect creates `e`.
const TEXTS: &str = include_str!("hostile.txt");

#[test]
fn what_changes_a_file_is_never_only_looking() {
    let fixture = tempfile::tempdir().expect("a temporary folder");
    let (mut hidden, mut harmful) = (Vec::new(), 0);
    let texts = TEXTS.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    for (index, line) in texts.enumerate() {
        let text = line.replace("NEWLINE", "\n");
        let place = fixture.path().join(index.to_string());
        make_files(&place);
        let before = contents(&place);
        run(&text, &place);
        let has_changed = contents(&place) != before;
        harmful += usize::from(has_changed);
        if has_changed && read(&text).is_read_only() {
            hidden.push(line);
        }
    }
    assert!(hidden.is_empty(), "{}", hidden.join("\n"));
    // Some need programs that not every machine has.
    assert!(harmful > 100, "only {harmful} of the texts do anything here");
}

fn run(text: &str, place: &Path) {
    let done = Command::new("/usr/bin/timeout")
        .args(["-s", "KILL", "20", "/bin/bash", "-c", text])
        .current_dir(place)
        .env("HOME", place.join("home"))
        .stdin(Stdio::null())
        .output();
    done.expect("bash starts");
}

fn make_files(place: &Path) {
    let script = format!("#!/bin/sh\n/usr/bin/touch '{}/e'\n", place.display());
    for folder in ["bin", "0", "home", ".git/objects", ".git/refs"] {
        fs::create_dir_all(place.join(folder)).expect("a folder");
    }
    for program in ["evil", "bin/ls", "0/ls"] {
        fs::write(place.join(program), &script).expect("written");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(place.join(program), mode).expect("made executable");
    }
    for (name, text) in [
        ("a", "x\"y a/b ]\n"),
        ("b", "bb\n"),
        ("da", "x\n"),
        ("db", "other\n"),
        ("names", "names\n"),
        ("script", "w e\n"),
        ("evilrc", "touch e\n"),
        (".git/HEAD", "ref: refs/heads/main\n"),
    ] {
        fs::write(place.join(name), text).expect("written");
    }
}

/// Returns every file with its content, except git's.
fn contents(place: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![place.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() && !path.ends_with(".git") {
                folders.push(path);
            } else if path.is_file() {
                found.insert(path.clone(), fs::read(&path).expect("read"));
            }
        }
    }
    found
}
