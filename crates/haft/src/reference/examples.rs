//! Renders the examples of a tool's schema as shell commands. Each line is parsed again, so that no
//! page shows a line that differs from the JSON.

use clap::{Arg, ArgAction, Command};
use haft_core::{ToolError, ToolSpec};
use serde_json::Value;

use crate::tool_command::ToolCommand;

/// Returns each example as a command with options and as a command with JSON.
pub(super) fn lines(spec: &ToolSpec, form: &ToolCommand) -> Vec<String> {
    let examples = spec.input.as_value().get("examples").and_then(Value::as_array);
    let examples = examples.into_iter().flatten();
    examples
        .flat_map(|input| [with_options(spec, form, input), Some(with_json(spec, input))])
        .flatten()
        .collect()
}

/// Returns the first example that options can express, else the first one as JSON.
pub(crate) fn example(spec: &ToolSpec, form: &ToolCommand) -> Option<String> {
    let examples = spec.input.as_value().get("examples").and_then(Value::as_array)?;
    let typed = examples.iter().find_map(|input| with_options(spec, form, input));
    typed.or_else(|| Some(with_json(spec, examples.first()?)))
}

fn with_json(spec: &ToolSpec, input: &Value) -> String {
    format!("haft call {} {}", spec.name, quoted(&input.to_string()))
}

/// Returns `None` when options cannot express the input.
fn with_options(spec: &ToolSpec, form: &ToolCommand, input: &Value) -> Option<String> {
    let mut command = form.command(spec, "");
    command.build();
    let words = words(&command, input);
    let typed = [spec.name.to_string()].into_iter().chain(words.iter().cloned());
    let matches = command.try_get_matches_from(typed).ok()?;
    let nothing = || Err(ToolError::input("examples do not read standard input"));
    let is_equal = form.input(&matches, nothing).is_ok_and(|parsed| parsed == *input);
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    is_equal.then(|| format!("haft {} {}", spec.name, words.join(" ")))
}

fn words(command: &Command, input: &Value) -> Vec<String> {
    let mut words = Vec::new();
    let mut written = Vec::new();
    let positional = command.get_positionals();
    let options = command.get_arguments().filter(|arg| !arg.is_positional());
    for arg in positional.chain(options) {
        // See `Field::id`: the property's name is the last part.
        let Some((_, field)) = arg.get_id().as_str().split_once("input.") else { continue };
        let Some(value) = input.get(field).filter(|_| !written.contains(&field)) else { continue };
        written.push(field);
        words.extend(argument_words(arg, value));
    }
    words
}

fn argument_words(arg: &Arg, value: &Value) -> Vec<String> {
    let flag = arg.get_long().map(|long| format!("--{long}"));
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return flag.filter(|_| *value == Value::Bool(true)).into_iter().collect();
    }
    let values = match value {
        Value::Array(items) if matches!(arg.get_action(), ArgAction::Append) => items.clone(),
        one => vec![one.clone()],
    };
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    values.iter().flat_map(|value| flag.clone().into_iter().chain([word(value)])).collect()
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_when_a_shell_would_change_them() {
        for (word, expected) in [
            ("src/main.rs", "src/main.rs"),
            ("*.rs", "'*.rs'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("ä", "'ä'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }

    #[test]
    fn every_example_of_the_catalogue_has_a_command_line() {
        for tool in haft_tools::all() {
            let spec = haft_core::Tool::spec(tool);
            let form = ToolCommand::of(&spec.input, &["workspace", "json"]);
            let lines = lines(spec, &form);
            assert!(lines.len() >= 2 && lines.len().is_multiple_of(2), "{}: {lines:?}", spec.name);
        }
    }
}
