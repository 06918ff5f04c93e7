//! The one door to arguments, variables and the working directory. What comes in is handed on as values; nothing here
//! is looked at twice and nothing is ever set.

use std::{ffi::OsString, path::PathBuf};

/// What the process was started with, besides its arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    /// Where the person stands; none when that directory is gone.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) home: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME`, or `.config` in the home.
    pub(crate) config_home: Option<PathBuf>,
    /// `$XDG_STATE_HOME`, or `.local/state` in the home.
    pub(crate) state_home: Option<PathBuf>,
    /// `$PATH`: where programs are looked for.
    pub(crate) search_path: Option<OsString>,
    /// `$CODEX_HOME`: where Codex keeps its configuration, if not in the home.
    pub(crate) codex_home: Option<PathBuf>,
    /// `$CLAUDE_CONFIG_DIR`: the same for Claude Code.
    pub(crate) claude_home: Option<PathBuf>,
    /// `$HAFT_TOKEN`: what clients over HTTP have to bring.
    pub(crate) token: Option<String>,
    /// `$HAFT_ADMIN_CONFIG`: one more admin file.
    pub(crate) admin_config: Option<PathBuf>,
    pub(crate) user: Option<String>,
    /// `$TMPDIR`, or where the system keeps what is not for memory.
    pub(crate) temporary: PathBuf,
    /// The variables that hold secrets, to be kept out of everything that is shown.
    pub(crate) secrets: Vec<(String, String)>,
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
    // A file that was replaced meanwhile is told as `… (deleted)`.
    std::env::current_exe().ok().filter(|program| program.is_file())
}

impl Environment {
    pub(crate) fn read() -> Self {
        let home = variable("HOME").map(PathBuf::from);
        // The specification has relative paths ignored here.
        let folder = |name: &str| {
            variable(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute())
        };
        let in_home = |path: &str| home.as_ref().map(|home| home.join(path));
        let is_dumb = variable("TERM").is_some_and(|terminal| terminal == "dumb");
        let wants_no_colours = is_dumb || variable("NO_COLOR").is_some();
        Self {
            directory: std::env::current_dir().ok(),
            config_home: folder("XDG_CONFIG_HOME").or_else(|| in_home(".config")),
            state_home: folder("XDG_STATE_HOME").or_else(|| in_home(".local/state")),
            search_path: variable("PATH"),
            codex_home: folder("CODEX_HOME"),
            claude_home: folder("CLAUDE_CONFIG_DIR"),
            home,
            admin_config: variable("HAFT_ADMIN_CONFIG").map(PathBuf::from),
            token: variable("HAFT_TOKEN").and_then(|token| token.into_string().ok()),
            temporary: folder("TMPDIR").unwrap_or_else(|| "/var/tmp".into()),
            user: variable("USER").and_then(|name| name.into_string().ok()),
            secrets: secrets(),
            colours: if wants_no_colours { Colours::Unwanted } else { Colours::Welcome },
            backtraces: match variable("RUST_BACKTRACE") {
                Some(level) if level != "0" => Backtraces::Wanted,
                _ => Backtraces::Unwanted,
            },
        }
    }
}

/// All of them, for programs that are started; a few are handed on.
#[expect(clippy::disallowed_methods, reason = "this is the door the environment enters by")]
pub(crate) fn all() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

/// A variable that is set to something.
#[expect(clippy::disallowed_methods, reason = "this is the door the environment enters by")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// What the names of variables that hold secrets have in them.
const SECRET_NAMES: &[&str] =
    &["TOKEN", "SECRET", "PASSWORD", "PASSPHRASE", "API_KEY", "ACCESS_KEY", "PRIVATE_KEY"];

#[expect(clippy::disallowed_methods, reason = "this is the door the environment enters by")]
fn secrets() -> Vec<(String, String)> {
    let named = |(name, value): (OsString, OsString)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        let is_secret = SECRET_NAMES.iter().any(|part| name.contains(part));
        // Where a secret lies is not the secret, and tools have to speak of paths.
        (is_secret && !value.starts_with('/')).then_some((name, value))
    };
    std::env::vars_os().filter_map(named).collect()
}
