//! The arguments of the program and the environment variables that only the command line reads.

use std::{ffi::OsString, path::PathBuf};

use haft::host::environment::{self, variable};

/// The environment of the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
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
    pub(crate) backtraces: Backtraces,
}

/// Whether terminal output may have colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Colours {
    Welcome,
    #[default]
    Unwanted,
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
