//! The page of config files, made from the table of keys that their parser reads.

use haft_core::{Mode, policy::LayerKind};

use super::{put, put_table};
use haft::host::config::keys::{Key, Names, Sort, TABLES, Table};

use crate::manual::FILES;

pub(super) fn page() -> String {
    let mut page = "# Config files\n\nMade from the table that the parser reads by `haft reference config`. \
        Files are TOML; `docs/schemas/config.schema.json` is for editors. A fault stops everything, with its file, line and column.\n"
        .to_owned();
    page.push_str("\n| file | whose word it is |\n|---|---|\n");
    for (file, whose) in FILES {
        put(&mut page, format_args!("| `{file}` | {whose} |\n"));
    }
    put(&mut page, format_args!("\n```toml\n{}```\n", example()));
    for table in TABLES {
        section(&mut page, table);
    }
    put_modes(&mut page);
    page
}

fn section(page: &mut String, table: &Table) {
    match table.header {
        "" => page.push_str("\n## The root\n"),
        header => put(page, format_args!("\n## `[{header}]`\n")),
    }
    put(page, format_args!("\n{}\n\n", table.meaning));
    let rows = table.keys.iter().map(|key| {
        let name = match table.names {
            Names::Listed => format!("`{}`", key.name),
            Names::Free => format!("any name, such as `{}`", key.name),
        };
        let default = key.default(table).map(|default| format!("`{default}`")).unwrap_or_default();
        let example =
            if key.example.is_empty() { String::new() } else { format!("`{}`", key.example) };
        vec![name, sort(key), default, whose(key), key.meaning.to_owned(), example]
    });
    put_table(page, &["key", "type", "default", "who may set it", "meaning", "example"], rows);
}

fn put_modes(page: &mut String) {
    page.push_str("\n## Modes\n\nWhat `approve` can be, and what runs unasked:\n\n");
    let rows = Mode::ALL.iter().map(|mode| vec![format!("`{mode}`"), mode.meaning().to_owned()]);
    put_table(page, &["mode", "what runs unasked"], rows);
}

fn sort(key: &Key) -> String {
    match key.sort {
        Sort::Mode => "a mode".to_owned(),
        Sort::Text => "a string".to_owned(),
        Sort::Rules => "a list of rules".to_owned(),
        Sort::Globs => "a list of globs".to_owned(),
        Sort::Folders => "a list of paths".to_owned(),
        Sort::Folder => "a path".to_owned(),
        Sort::Limit | Sort::Number | Sort::Amount(_) => "a whole number, 0 or more".to_owned(),
        Sort::Flag => "`true` or `false`".to_owned(),
        Sort::Texts => "a list of strings".to_owned(),
        Sort::Word(words) => quoted(words),
        Sort::WordOrTable(words, table) => {
            format!("{}, or a table: `[{}]`", quoted(words), table.header)
        }
        Sort::Table(table) => format!("a table: `[{}]`", table.header),
    }
}

fn quoted(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
    words.join(", ")
}

fn whose(key: &Key) -> String {
    let word = |kind: &LayerKind| match kind {
        LayerKind::Admin => "admin",
        LayerKind::User => "you",
        _ => "project",
    };
    key.whose.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// A file in which every key is set.
fn example() -> String {
    let mut example = String::new();
    for table in TABLES {
        if !table.header.is_empty() {
            put(&mut example, format_args!("\n[{}]\n", table.header.replace("NAME", "reviewing")));
        }
        for key in table.keys.iter().filter(|key| !key.example.is_empty()) {
            put(&mut example, format_args!("{} = {}\n", key.name, key.example));
        }
    }
    example
}
