//! The page of the command line: the commands that are no tools, with their options, made from what clap parses.

use clap::{Arg, Command};

use super::{put, put_exit_codes, put_table};
use crate::manual::FILES;

pub(super) fn page(mut root: Command) -> String {
    root.build();
    let mut page = "# Command line\n\nMade from the commands themselves by `haft reference cli`. \
        Every tool is a command as well; those are in [tools.md](tools.md).\n"
        .to_owned();
    page.push_str("\n## Options of every command\n\n");
    put_arguments(&mut page, root.get_arguments().filter(|arg| is_shown(arg)));
    sections(&mut page, &mut root, "haft");
    put_exit_codes(&mut page);
    page.push_str("\n## Files\n\n");
    let files = FILES.map(|(file, whose)| vec![format!("`{file}`"), whose.to_owned()]);
    put_table(&mut page, &["file", "whose word it is"], files);
    page
}

/// The commands of a command, and theirs.
fn sections(page: &mut String, command: &mut Command, path: &str) {
    for inner in command.get_subcommands_mut().filter(|inner| !inner.is_hide_set()) {
        if inner.get_name() != "help" {
            let path = format!("{path} {}", inner.get_name());
            section(page, inner, &path);
            sections(page, inner, &path);
        }
    }
}

fn section(page: &mut String, command: &mut Command, path: &str) {
    let usage = command.render_usage().to_string();
    put(page, format_args!("\n## `{path}`\n"));
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string);
    put(page, format_args!("\n{}\n", about.unwrap_or_default()));
    let usage = usage.trim_start_matches("Usage:").trim();
    put(page, format_args!("\n    {usage}\n"));
    let own: Vec<&Arg> =
        command.get_arguments().filter(|arg| is_shown(arg) && !arg.is_global_set()).collect();
    if !own.is_empty() {
        page.push('\n');
        put_arguments(page, own);
    }
    if let Some(more) = command.get_after_help() {
        put(page, format_args!("\n```text\n{}\n```\n", more.to_string().trim_end()));
    }
}

/// Help and version are everywhere and say nothing new.
fn is_shown(arg: &Arg) -> bool {
    !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version")
}

fn put_arguments<'a>(page: &mut String, arguments: impl IntoIterator<Item = &'a Arg>) {
    let rows = arguments.into_iter().map(|arg| vec![name(arg), default(arg), meaning(arg)]);
    put_table(page, &["argument", "default", "meaning"], rows);
}

fn name(arg: &Arg) -> String {
    let takes_value = arg.get_action().takes_values();
    let value = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let value = value.unwrap_or_else(|| arg.get_id().to_string().to_uppercase());
    let name = match arg.get_long() {
        Some(long) if takes_value => format!("{}--{long} {value}", short(arg)),
        Some(long) => format!("{}--{long}", short(arg)),
        None => value,
    };
    format!("`{name}`{}", if arg.is_required_set() { " (required)" } else { "" })
}

fn short(arg: &Arg) -> String {
    arg.get_short().map(|short| format!("-{short}, ")).unwrap_or_default()
}

fn default(arg: &Arg) -> String {
    // A switch is off until it is given: that goes without saying.
    let values = arg.get_default_values().iter().filter(|_| arg.get_action().takes_values());
    values.map(|value| format!("`{}`", value.to_string_lossy())).collect::<Vec<_>>().join(", ")
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    if !arg.get_action().takes_values() {
        return help;
    }
    let choices: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({help})", value.get_name()),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    match (help.is_empty(), choices.is_empty()) {
        (_, true) => help,
        (true, false) => choices.join(", "),
        (false, false) => format!("{help}: {}", choices.join(", ")),
    }
}
