//! The second net under the fence of haft-tools. Clippy knows functions and types by list; this
//! finds the modules themselves, in any spelling of `use`. It runs only as a test.

use std::{fs, path::Path};

use crate::shell;

const FENCED: &[(&str, &[&str])] =
    &[("std", &["fs", "process", "net", "env"]), ("tokio", &["fs", "process", "net"])];

/// Line and module of each mention, comments and tests included: a tool has no reason to speak of
/// them.
fn scan(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (krate, modules) in FENCED {
        let door = format!("{krate}::");
        for (start, _) in text.match_indices(&door) {
            let (_, after) = text.split_at(start + door.len());
            let names = named_after(after);
            let fenced = names.into_iter().filter(|(_, name)| modules.contains(name));
            found.extend(fenced.map(|(skip, name)| {
                (line_of(text, start + door.len() + skip), format!("{door}{name}"))
            }));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// What follows a `std::`, with offsets: one name, or with a brace the first of each item in it.
fn named_after(text: &str) -> Vec<(usize, &str)> {
    let trimmed = text.trim_start();
    if !trimmed.starts_with('{') {
        return vec![(0, first_word(trimmed))];
    }
    let mut names = Vec::new();
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if depth == 0 && c == '}' {
            break;
        }
        if depth == 1 && (c == '{' || c == ',') {
            let (_, after) = text.split_at(at + 1);
            let item = after.trim_start();
            names.push((at + 1 + after.len() - item.len(), first_word(item)));
        }
    }
    names
}

fn first_word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

fn scan_folder(folder: &Path, found: &mut Vec<String>) {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            scan_folder(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let shown = path.strip_prefix(shell::root()).unwrap_or(&path).display();
            let text = fs::read_to_string(&path).unwrap();
            found.extend(
                scan(&text).into_iter().map(|(line, name)| format!("{shown}:{line}: {name}")),
            );
        }
    }
}

#[test]
fn tools_reach_the_world_only_through_capabilities() {
    for name in ["haft-shell", "haft-tools"] {
        let mut found = Vec::new();
        scan_folder(&shell::root().join("crates").join(name).join("src"), &mut found);
        assert!(found.is_empty(), "{name} names what is outside its fence:\n{}", found.join("\n"));
    }
}

#[test]
fn every_spelling_is_found_with_its_line() {
    let found = |text: &str| {
        scan(text).into_iter().map(|(line, name)| format!("{line} {name}")).collect::<Vec<_>>()
    };
    assert_eq!(found("use std::fs;\n\nlet x = std::env::var(\"A\");"), ["1 std::fs", "3 std::env"]);
    assert_eq!(
        found("// like tokio::process\ntokio::net::TcpStream"),
        ["1 tokio::process", "2 tokio::net"]
    );
    assert_eq!(
        found("use std::{\n    fs,\n    path::{Path, PathBuf},\n    process::Command,\n};"),
        ["2 std::fs", "4 std::process"]
    );
    assert_eq!(found("use ::std::{path::Path, net};"), ["1 std::net"]);
}

#[test]
fn what_only_looks_alike_is_left_alone() {
    for text in [
        "use std::path::Path;",
        "std::fsync",
        "use std::{path::{fs}, fmt};\nmod fs;",
        "tokio::sync::mpsc",
        "env!(\"X\")",
        "use std::{fmt}; use crate::{fs, env};",
    ] {
        assert_eq!(scan(text), [], "{text}");
    }
}

/// A crate's own clippy.toml replaces the root's instead of adding to it.
#[test]
fn the_fence_repeats_the_rules_of_the_root() {
    let read = |path: &str| {
        fs::read_to_string(shell::root().join(path)).unwrap().parse::<toml::Table>().unwrap()
    };
    let (root, tools) = (read("clippy.toml"), read("crates/haft-tools/clippy.toml"));
    let paths = |table: &toml::Table| -> Vec<String> {
        let rules = table["disallowed-methods"].as_array().unwrap();
        rules.iter().map(|rule| rule["path"].as_str().unwrap().to_owned()).collect()
    };
    for path in paths(&root) {
        assert!(
            paths(&tools).contains(&path),
            "crates/haft-tools/clippy.toml does not repeat {path}"
        );
    }
    for (key, value) in root.iter().filter(|(key, _)| *key != "disallowed-methods") {
        assert_eq!(tools.get(key), Some(value), "crates/haft-tools/clippy.toml: {key}");
    }
}
