//! `haft --help` and `haft help`: every command and every tool on two screens. Only names and
//! summaries are needed, so no schema and no tool's parser is built.

use std::{ffi::OsString, process::ExitCode};

use clap::{Arg, ArgAction, Command};
use haft_core::ToolSpec;

use super::{ABOUT, COMMANDS, Cli, Ended, root, with_program};
use crate::{
    globals::{self, plain_words},
    reference,
    terminal::{Tone, in_tone, shorten},
};

/// Width of the column with names, without its margin. No command and no tool has a longer name.
const NAME_WIDTH: usize = 15;
const OPTION_WIDTH: usize = 17;
/// The first line of a tool's description is at most this long; a plugin's is shortened.
const SUMMARY_CHARS: usize = 80;
/// `haft help tools` is about the tools, not about the command `tools`.
const TOOLS: &str = "tools";
const FOOTER: &str =
    "Each tool is a command too: `haft read README.md`. `haft help NAME` explains a command or a tool.
`haft man` is the manual, with exit codes and files.";

pub(super) fn help_command() -> Command {
    Command::new("help")
        .about("Print help for a command or a tool; `haft help tools` lists all tools")
        .arg(Arg::new("command").value_name("COMMAND").num_args(0..))
}

impl Cli<'_> {
    /// `haft` and `haft --help`
    pub(super) fn overview(&self, options: Vec<Arg>) -> Ended {
        let text = self.overview_text(&options);
        let command = root(options).override_usage("haft [OPTIONS] <COMMAND>");
        command.override_help(text).try_get_matches_from(with_program(self.arguments))?;
        // Without a command, clap reports help or an error.
        Ok(ExitCode::FAILURE)
    }

    /// `haft help [COMMAND]…`: the help page that `--help` prints after the same words.
    pub(super) fn help(&self) -> Ended {
        let options = globals::options();
        let words: Vec<OsString> =
            plain_words(self.arguments, &options).skip(1).map(|(_, word)| word.clone()).collect();
        match words.as_slice() {
            [] => {
                self.terminal.print_page(&self.overview_text(&options))?;
                Ok(ExitCode::SUCCESS)
            }
            [only] if only == TOOLS => {
                self.terminal.print_page(&self.tools_text())?;
                Ok(ExitCode::SUCCESS)
            }
            _ => {
                let arguments: Vec<OsString> = words.into_iter().chain(["--help".into()]).collect();
                super::run(&arguments, self.environment, self.terminal)
            }
        }
    }

    fn overview_text(&self, options: &[Arg]) -> String {
        let page = HelpPage { width: self.terminal.width() };
        let mut lines = vec![
            ABOUT.to_owned(),
            String::new(),
            format!("{} haft [OPTIONS] <COMMAND or TOOL> ...", heading("Usage:")),
        ];
        let mut section = None;
        for own in COMMANDS {
            if section.replace(own.section) != Some(own.section) {
                lines.extend([String::new(), heading(own.section.title())]);
            }
            let about = (own.command)().get_about().map(ToString::to_string).unwrap_or_default();
            lines.push(page.row(own.name, &about));
        }
        lines.extend(page.tools(&self.specs(&reference::placeholders())));
        lines.extend([String::new(), heading(globals::HEADING)]);
        lines.extend(options.iter().map(|option| page.option(option)));
        lines.extend([String::new(), FOOTER.to_owned()]);
        lines.join("\n") + "\n"
    }

    fn tools_text(&self) -> String {
        let page = HelpPage { width: self.terminal.width() };
        let lines = page.tools(&self.specs(&reference::placeholders()));
        lines.join("\n").trim_start().to_owned() + "\n"
    }
}

/// The width that lines are shortened to; none in a pipe.
struct HelpPage {
    width: Option<usize>,
}

impl HelpPage {
    /// The tools below the names of their groups.
    fn tools(&self, specs: &[ToolSpec]) -> Vec<String> {
        let mut lines = Vec::new();
        for group in reference::groups(specs) {
            lines.extend([String::new(), heading(&format!("Tools: {group}"))]);
            let of_group = specs.iter().filter(|spec| spec.group == group);
            lines.extend(of_group.map(|spec| self.row(&spec.name, &summary(&spec.description))));
        }
        lines
    }

    fn row(&self, name: &str, about: &str) -> String {
        self.line(name, NAME_WIDTH, about)
    }

    fn option(&self, option: &Arg) -> String {
        let value = option.get_value_names().and_then(|names| names.first());
        let long = option.get_long().unwrap_or_default();
        let name = match value.filter(|_| option.get_action().takes_values()) {
            Some(value) => format!("--{long} {value}"),
            None => format!("--{long}"),
        };
        let about = option.get_help().map(ToString::to_string).unwrap_or_default();
        let choices = choices(option);
        self.line(&name, OPTION_WIDTH, &format!("{about}{choices}"))
    }

    fn line(&self, name: &str, width: usize, about: &str) -> String {
        let room = self.width.map(|all| all.saturating_sub(width + 4));
        let about = room.map_or_else(|| about.to_owned(), |room| shorten(about, room));
        let padding = " ".repeat(width.saturating_sub(name.chars().count()));
        format!("  {}{padding}  {about}", in_tone(Tone::Strong, name))
    }
}

fn choices(option: &Arg) -> String {
    if matches!(option.get_action(), ArgAction::SetTrue) {
        return String::new();
    }
    let values = option.get_possible_values();
    let names: Vec<&str> =
        values.iter().filter(|value| !value.is_hide_set()).map(|value| value.get_name()).collect();
    if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) }
}

/// The first line of a description, or as much of it as a list shows.
pub(super) fn summary(description: &str) -> String {
    let line = description.lines().next().unwrap_or_default();
    if line.chars().count() <= SUMMARY_CHARS {
        return line.to_owned();
    }
    let sentence = line.split_inclusive(['.', ':', ';']).next().unwrap_or(line);
    shorten(sentence.trim_end_matches(['.', ':', ';']), SUMMARY_CHARS)
}

fn heading(text: &str) -> String {
    in_tone(Tone::Heading, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_are_one_short_line() {
        assert_eq!(summary("Reads a file.\n\nMore."), "Reads a file.");
        let long = format!("Reads a file; {}", "very ".repeat(30));
        assert_eq!(summary(&long), "Reads a file");
        let endless = "word ".repeat(40);
        let shortened = summary(&endless);
        assert!(shortened.ends_with('…') && shortened.chars().count() <= SUMMARY_CHARS);
        assert_eq!(summary(""), "");
    }
}
