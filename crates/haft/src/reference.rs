//! The reference pages, generated from the tools, the commands, the table of config keys and the
//! types. They are the same on every machine: paths appear as placeholders such as `<workspace>`.

mod cli;
mod config;
mod errors;
mod examples;
mod schemas;
mod tools;

use std::fmt::Write;

use clap::Command;
use haft_core::{ErrorKind, WorkspaceInfo};

pub(crate) use self::{
    examples::example,
    tools::{groups, page},
};

/// Placeholders for tool descriptions on the pages.
pub(crate) fn placeholders() -> WorkspaceInfo {
    WorkspaceInfo {
        workspace: "<workspace>".into(),
        directory: "<directory>".into(),
        today: || "<date>".to_owned(),
    }
}

/// A reference page other than the page of tools, which `haft tools` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReferencePage {
    Cli,
    Config,
    ConfigSchema,
    OutcomeSchema,
    ToolSchemas,
}

impl ReferencePage {
    pub(crate) const ALL: [Self; 5] =
        [Self::Cli, Self::Config, Self::ConfigSchema, Self::OutcomeSchema, Self::ToolSchemas];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cli => "cli",
            Self::Config => "config",
            Self::ConfigSchema => "config-schema",
            Self::OutcomeSchema => "outcome-schema",
            Self::ToolSchemas => "tool-schemas",
        }
    }

    pub(crate) fn about(self) -> &'static str {
        match self {
            Self::Cli => "the commands and their options",
            Self::Config => "the keys of config files",
            Self::ConfigSchema => "the JSON Schema of config files, for editors",
            Self::OutcomeSchema => "the JSON Schema of the output of --json",
            Self::ToolSchemas => {
                "the JSON Schemas of the tools, one tool a line: name, input, output"
            }
        }
    }

    /// Returns the page. `root` has the global options and the commands that are not tools.
    pub(crate) fn text(self, root: Command) -> String {
        match self {
            Self::Cli => cli::page(root),
            Self::Config => config::page(),
            Self::ConfigSchema => schemas::config(),
            Self::OutcomeSchema => schemas::outcome(),
            Self::ToolSchemas => schemas::tools(),
        }
    }
}

/// Returns each exit code with the error kinds that it stands for.
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

fn put_exit_codes(page: &mut String) {
    page.push_str("\n## Exit codes\n\n");
    put_table(
        page,
        &["code", "outcome"],
        exit_codes().into_iter().map(|(code, kinds)| vec![code.to_string(), kinds]),
    );
}

fn put_table(page: &mut String, heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    put(page, format_args!("| {} |\n|{}\n", heads.join(" | "), "---|".repeat(heads.len())));
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| in_table(cell)).collect();
        put(page, format_args!("| {} |\n", cells.join(" | ")));
    }
}

fn in_table(cell: &str) -> String {
    cell.replace('|', "\\|").replace('\n', " ")
}

fn put(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("writing to a string does not fail");
}
