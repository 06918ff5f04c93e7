//! Checks that haft-tools and haft-shell do not use modules with IO. Their clippy.toml lists
//! functions and types; this test finds the modules themselves, in any spelling of `use`.

use std::{fs, path::Path};

use crate::shell;

const BANNED: &[(&str, &[&str])] =
    &[("std", &["fs", "process", "net", "env"]), ("tokio", &["fs", "process", "net"])];

/// Returns line and module of each mention, including comments and tests.
fn scan(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (krate, modules) in BANNED {
        let prefix = format!("{krate}::");
        for (start, _) in text.match_indices(&prefix) {
            let (_, after) = text.split_at(start + prefix.len());
            let names = named_after(after);
            let banned = names.into_iter().filter(|(_, name)| modules.contains(name));
            found.extend(banned.map(|(skip, name)| {
                (line_of(text, start + prefix.len() + skip), format!("{prefix}{name}"))
            }));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Returns the names after a `std::`, with offsets: one name, or the first of each item in braces.
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
fn tools_use_only_capabilities() {
    for name in ["haft-shell", "haft-tools"] {
        let mut found = Vec::new();
        scan_folder(&shell::root().join("crates").join(name).join("src"), &mut found);
        assert!(found.is_empty(), "{name} uses banned modules:\n{}", found.join("\n"));
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
fn similar_names_are_not_reported() {
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

/// Checks that the crate's clippy.toml repeats the root's rules, because it replaces that file.
#[test]
fn the_crate_rules_include_those_of_the_root() {
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
