//! The page of all tools: what each does, takes and needs, a call of it, and what it can end in.

use haft_core::{ErrorKind, Power, ToolSpec};

use super::{errors, examples, put, put_exit_codes, put_table};
use crate::tool_command::ToolCommand;

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
    errors::put_explanation(&mut page, specs);
    put_exit_codes(&mut page);
    page
}

/// The groups, in the order of their first tools.
pub(crate) fn groups(specs: &[ToolSpec]) -> Vec<&str> {
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
    put(page, format_args!("- ends in: {}\n", ends(spec)));
    put(page, format_args!("- command: `{}`\n", command.usage(&spec.name)));
    let parameters = command.parameters(&spec.input);
    if !parameters.is_empty() {
        page.push('\n');
        let rows = parameters.into_iter().map(|parameter| {
            let name = format!("`{}`", parameter.name);
            vec![name, parameter.kind, parameter.presence, parameter.description]
        });
        put_table(page, &["parameter", "type", "default", "description"], rows);
    }
    let lines = examples::lines(spec, &command);
    if !lines.is_empty() {
        put(page, format_args!("\n```sh\n{}\n```\n", lines.join("\n")));
    }
    let own = errors::of_fields(&spec.input);
    if !own.is_empty() {
        page.push('\n');
        let rows = own.into_iter().map(|(kind, when)| vec![format!("`{kind}`"), when.to_owned()]);
        put_table(page, &["error", "when"], rows);
    }
}

/// The kinds beyond those of any call, and how long it may take.
fn ends(spec: &ToolSpec) -> String {
    let kinds: Vec<String> =
        errors::of_tool(spec).iter().map(|kind: &ErrorKind| format!("`{kind}`")).collect();
    let seconds = spec.deadline.as_secs();
    let rest = format!("what [any call](#errors) can end in; after {seconds} s in `timeout`");
    if kinds.is_empty() { rest } else { format!("{}, or {rest}", kinds.join(", ")) }
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
    let needs = spec.needs.iter().filter(|need| need.power != Power::Free);
    let words: Vec<String> = needs
        .map(|need| format!("{}{}", need.power, if need.optional { " (optional)" } else { "" }))
        .collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}
