//! The arguments of the program and the environment variables that only the command line reads.

use std::{ffi::OsString, path::PathBuf};

use haft::host::environment::{self, variable};

use crate::commands::completion::VARIABLE;

/// The environment of the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct CliEnvironment {
    /// The part that hosts need.
    pub(crate) host: environment::Environment,
    /// `$PATH`, the search path for programs.
    pub(crate) search_path: Option<OsString>,
    /// `$CODEX_HOME`, the folder of Codex's configuration, if not in the home directory.
    pub(crate) codex_home: Option<PathBuf>,
    /// `$CLAUDE_CONFIG_DIR`, the same for Claude Code.
    pub(crate) claude_home: Option<PathBuf>,
    /// `$HAFT_TOKEN`, the token that HTTP clients must send.
    pub(crate) token: Option<String>,
    pub(crate) colours: Colours,
    /// `$COLUMNS`: the width of the terminal, where a person sets it.
    pub(crate) columns: Option<usize>,
    pub(crate) backtraces: Backtraces,
    /// The shell that asks for completion.
    pub(crate) completion: Option<String>,
}

/// Whether terminal output may have colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Colours {
    /// On a terminal.
    Welcome,
    /// In pipes too, because `$CLICOLOR_FORCE` asks for it.
    Forced,
    #[default]
    Unwanted,
}

impl Colours {
    /// Decides for one output stream.
    pub(crate) fn are_shown(self, is_terminal: bool) -> bool {
        match self {
            Self::Welcome => is_terminal,
            Self::Forced => true,
            Self::Unwanted => false,
        }
    }
}

/// Whether a panic prints a backtrace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Backtraces {
    Wanted,
    #[default]
    Unwanted,
}

/// Returns the arguments after the program's name.
pub(crate) fn arguments() -> Vec<OsString> {
    std::env::args_os().skip(1).collect()
}

/// Returns the executable file of this process.
pub(crate) fn program() -> Option<PathBuf> {
    // The kernel names a file that was replaced since the start `… (deleted)`.
    std::env::current_exe().ok().filter(|program| program.is_file())
}

impl CliEnvironment {
    pub(crate) fn read() -> Self {
        let folder = |name: &str| {
            variable(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute())
        };
        let columns = variable("COLUMNS").and_then(|columns| columns.to_str()?.parse().ok());
        Self {
            host: environment::Environment::read(),
            search_path: variable("PATH"),
            codex_home: folder("CODEX_HOME"),
            claude_home: folder("CLAUDE_CONFIG_DIR"),
            token: variable("HAFT_TOKEN").and_then(|token| token.into_string().ok()),
            colours: colours(),
            completion: variable(VARIABLE).and_then(|shell| shell.into_string().ok()),
            columns: columns.filter(|columns| *columns > 0),
            backtraces: match variable("RUST_BACKTRACE") {
                Some(level) if level != "0" => Backtraces::Wanted,
                _ => Backtraces::Unwanted,
            },
        }
    }
}

/// `$NO_COLOR` and `$CLICOLOR_FORCE` as on bixense.com/clicolors; the first of them wins.
fn colours() -> Colours {
    let is = |name: &str, word: &str| variable(name).is_some_and(|value| value == word);
    let is_forced = variable("CLICOLOR_FORCE").is_some_and(|value| value != "0");
    match () {
        () if variable("NO_COLOR").is_some() => Colours::Unwanted,
        () if is_forced => Colours::Forced,
        () if is("TERM", "dumb") || is("CLICOLOR", "0") => Colours::Unwanted,
        () => Colours::Welcome,
    }
}
