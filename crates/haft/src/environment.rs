//! What the program was started with: arguments, and the variables that only its surface reads.

use std::{ffi::OsString, path::PathBuf};

use haft::host::environment::{self, variable};

/// What the process was started with, besides its arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    /// What gates are made from.
    pub(crate) host: environment::Environment,
    /// `$PATH`: where programs are looked for.
    pub(crate) search_path: Option<OsString>,
    /// `$CODEX_HOME`: where Codex keeps its configuration, if not in the home.
    pub(crate) codex_home: Option<PathBuf>,
    /// `$CLAUDE_CONFIG_DIR`: the same for Claude Code.
    pub(crate) claude_home: Option<PathBuf>,
    /// `$HAFT_TOKEN`: what clients over HTTP have to bring.
    pub(crate) token: Option<String>,
    pub(crate) colours: Colours,
    pub(crate) backtraces: Backtraces,
}

/// Whether colours are welcome where there is a terminal to show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Colours {
    Welcome,
    #[default]
    Unwanted,
}

/// Whether a panic should be told in full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Backtraces {
    Wanted,
    #[default]
    Unwanted,
}

/// The arguments after the program's name.
pub(crate) fn arguments() -> Vec<OsString> {
    std::env::args_os().skip(1).collect()
}

/// The file that this program was started from.
pub(crate) fn program() -> Option<PathBuf> {
    // A file that was replaced since is shown as `… (deleted)`.
    std::env::current_exe().ok().filter(|program| program.is_file())
}

impl Environment {
    pub(crate) fn read() -> Self {
        let folder = |name: &str| {
            variable(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute())
        };
        let is_dumb = variable("TERM").is_some_and(|terminal| terminal == "dumb");
        let wants_no_colours = is_dumb || variable("NO_COLOR").is_some();
        Self {
            host: environment::Environment::read(),
            search_path: variable("PATH"),
            codex_home: folder("CODEX_HOME"),
            claude_home: folder("CLAUDE_CONFIG_DIR"),
            token: variable("HAFT_TOKEN").and_then(|token| token.into_string().ok()),
            colours: if wants_no_colours { Colours::Unwanted } else { Colours::Welcome },
            backtraces: match variable("RUST_BACKTRACE") {
                Some(level) if level != "0" => Backtraces::Wanted,
                _ => Backtraces::Unwanted,
            },
        }
    }
}
