//! A type name means one thing in the workspace: a reader who meets it in two crates must not have to ask which one is
//! meant. Tests are left out.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::step;

/// Names that a convention explains, as long as they are private to their file.
const CONVENTIONAL: &[&str] = &[
    "Err", "Error", "Entry", "Inner", "Kind", "Options", "Parser", "Reader", "Row", "State",
    "Step", "Writer",
];
const KEYWORDS: &[&str] = &["struct ", "enum ", "trait ", "type ", "union "];

pub(crate) fn check() -> Result<()> {
    let mut definitions: BTreeMap<String, Vec<Definition>> = BTreeMap::new();
    for file in sources()? {
        let text =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        for (name, definition) in definitions_in(&file, &text) {
            definitions.entry(name).or_default().push(definition);
        }
    }
    step::none_of(&findings(&definitions))
}

struct Definition {
    file: PathBuf,
    line: usize,
    is_private: bool,
}

fn findings(definitions: &BTreeMap<String, Vec<Definition>>) -> Vec<String> {
    let is_ambiguous = |(name, found): &(&String, &Vec<Definition>)| {
        let is_convention = CONVENTIONAL.contains(&name.as_str());
        let files = found.iter().any(|one| one.file != found[0].file);
        files && !(is_convention && found.iter().all(|one| one.is_private))
    };
    let described = |(name, found): (&String, &Vec<Definition>)| {
        let places = found.iter().map(|one| format!("{}:{}", one.file.display(), one.line));
        let places: Vec<String> = places.collect();
        format!("the type name `{name}` has {} meanings: {}", found.len(), places.join(", "))
    };
    definitions.iter().filter(is_ambiguous).map(described).collect()
}

fn definitions_in(file: &Path, text: &str) -> Vec<(String, Definition)> {
    // By convention the tests of a file stand at its end.
    let lines = text.lines().enumerate().take_while(|(_, line)| *line != "#[cfg(test)]");
    lines
        .filter_map(|(index, line)| {
            // Associated types are indented.
            let rest = line.trim_start();
            let (rest, is_private) = match rest.strip_prefix("pub") {
                Some(public) => (public.split_once(' ')?.1, false),
                None => (rest, true),
            };
            let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
            let keyword = KEYWORDS.iter().find(|keyword| rest.starts_with(**keyword))?;
            if *keyword == "type " && line.starts_with(' ') {
                return None;
            }
            let name = rest.strip_prefix(keyword)?;
            let name: String = name
                .chars()
                .take_while(|letter| letter.is_alphanumeric() || *letter == '_')
                .collect();
            Some((name, Definition { file: file.to_owned(), line: index + 1, is_private }))
        })
        .filter(|(name, _)| name.starts_with(|letter: char| letter.is_ascii_uppercase()))
        .collect()
}

fn sources() -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::from("crates"), PathBuf::from("xtask")];
    while let Some(folder) = folders.pop() {
        let listing =
            fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in listing {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_test = matches!(
                name.as_str(),
                "tests" | "benches" | "tests.rs" | "properties.rs" | "target"
            );
            if is_test {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: usize) {
        let mut definitions: BTreeMap<String, Vec<Definition>> = BTreeMap::new();
        for (file, text) in files {
            for (name, definition) in definitions_in(Path::new(file), text) {
                definitions.entry(name).or_default().push(definition);
            }
        }
        let found = findings(&definitions);
        assert_eq!(found.len(), expected, "{found:?}");
    }

    #[test]
    fn a_name_with_two_meanings_is_found_and_conventions_are_not() {
        check(&[("a.rs", "pub(crate) struct Place {"), ("b.rs", "enum Place {")], 1);
        check(&[("a.rs", "struct State;"), ("b.rs", "struct State {")], 0);
        check(&[("a.rs", "pub struct State;"), ("b.rs", "struct State {")], 1);
        check(&[("a.rs", "impl A {\n    type Err = X;"), ("b.rs", "pub type Err = Y;")], 0);
        check(
            &[("a.rs", "struct Place;"), ("b.rs", "#[cfg(test)]\nmod tests { struct Place; }")],
            0,
        );
        check(&[("a.rs", "struct A<T>(T);\ntrait B {}"), ("b.rs", "struct A;\nunion B {}")], 2);
    }
}
