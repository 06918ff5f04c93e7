//! The reference page of all tools, made from their specs. It says the same on every machine: what depends on the
//! place stands as `<workspace>`.

use std::fmt::Write;

use haft_core::{ErrorKind, Surroundings, ToolSpec};

use crate::tool_command::ToolCommand;

/// What descriptions speak of where no place is meant.
pub(crate) fn anywhere() -> Surroundings {
    Surroundings {
        workspace: "<workspace>".into(),
        directory: "<directory>".into(),
        today: || "<date>".to_owned(),
    }
}

/// The page, in Markdown. `taken` are the options that every command has.
pub(crate) fn page(specs: &[ToolSpec], taken: &[&str]) -> String {
    let mut page =
        "# Tools\n\nMade from the tools themselves by `haft tools --format markdown`.\n".to_owned();
    for group in groups(specs) {
        put(&mut page, format_args!("\n## {group}\n"));
        for spec in specs.iter().filter(|spec| spec.group == group) {
            section(&mut page, spec, taken);
        }
    }
    page.push_str("\n## Exit codes\n\n| code | outcome |\n|---|---|\n");
    for (code, kinds) in exit_codes() {
        put(&mut page, format_args!("| {code} | {kinds} |\n"));
    }
    page
}

/// Each exit code with the kinds of failure it stands for.
pub(crate) fn exit_codes() -> Vec<(u8, String)> {
    let mut codes: Vec<u8> = ErrorKind::ALL.iter().map(|kind| kind.exit_code()).collect();
    codes.sort_unstable();
    codes.dedup();
    let kinds = |code: u8| {
        let kinds = ErrorKind::ALL.iter().filter(move |kind| kind.exit_code() == code);
        kinds.map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
    };
    let failures = codes.into_iter().map(|code| (code, kinds(code)));
    [(0, "success".to_owned())].into_iter().chain(failures).collect()
}

/// In the order in which they first come.
fn groups(specs: &[ToolSpec]) -> Vec<&str> {
    let mut groups: Vec<&str> = Vec::new();
    for spec in specs {
        if !groups.contains(&&*spec.group) {
            groups.push(&spec.group);
        }
    }
    groups
}

fn section(page: &mut String, spec: &ToolSpec, taken: &[&str]) {
    let command = ToolCommand::of(&spec.input, taken);
    put(page, format_args!("\n### `{}`: {}\n\n{}\n", spec.name, spec.title, spec.description));
    put(
        page,
        format_args!("\n- effect: {}{}\n- needs: {}\n", spec.effect, traits(spec), needs(spec)),
    );
    put(page, format_args!("- command: `{}`\n", command.usage(&spec.name)));
    let parameters = command.parameters(&spec.input);
    if parameters.is_empty() {
        return;
    }
    page.push_str("\n| parameter | type | default | description |\n|---|---|---|---|\n");
    for parameter in parameters {
        let row = [
            format!("`{}`", parameter.name),
            parameter.kind,
            parameter.presence,
            parameter.description,
        ];
        put(page, format_args!("| {} |\n", row.map(|cell| in_table(&cell)).join(" | ")));
    }
}

fn traits(spec: &ToolSpec) -> String {
    let traits = [
        (spec.idempotent, "idempotent"),
        (spec.open_world, "reaches the outside world"),
        (spec.terminal, "ends the turn"),
    ];
    let words = traits.iter().filter(|(holds, _)| *holds).map(|(_, word)| format!(", {word}"));
    words.collect()
}

fn needs(spec: &ToolSpec) -> String {
    let needs = spec.needs.iter().filter(|need| need.power != haft_core::Power::Free);
    let words: Vec<String> = needs
        .map(|need| format!("{}{}", need.power, if need.optional { " (optional)" } else { "" }))
        .collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}

fn in_table(cell: &str) -> String {
    cell.replace('|', "\\|").replace('\n', " ")
}

fn put(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("writing to a string does not fail");
}
