//! What a host knows of its process: variables and the working directory, read once and handed on as values.

use std::{ffi::OsString, path::PathBuf};

/// What the process was started with, besides its arguments.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// Where the person stands; none when that directory is gone.
    pub directory: Option<PathBuf>,
    /// `$HOME`.
    pub home: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME`, or `.config` in the home.
    pub config_home: Option<PathBuf>,
    /// `$XDG_STATE_HOME`, or `.local/state` in the home.
    pub state_home: Option<PathBuf>,
    /// `$HAFT_ADMIN_CONFIG`: one more admin file.
    pub admin_config: Option<PathBuf>,
    /// `$USER`.
    pub user: Option<String>,
    /// `$TMPDIR`, or where the system keeps what is not for memory.
    pub temporary: PathBuf,
    /// The variables that hold secrets, to be kept out of everything that is shown.
    pub secrets: Vec<(String, String)>,
}

impl Environment {
    /// Reads the variables and the working directory of this process.
    pub fn read() -> Self {
        let home = variable("HOME").map(PathBuf::from);
        // The specification has relative paths ignored here.
        let folder = |name: &str| {
            variable(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute())
        };
        let in_home = |path: &str| home.as_ref().map(|home| home.join(path));
        Self {
            directory: std::env::current_dir().ok(),
            config_home: folder("XDG_CONFIG_HOME").or_else(|| in_home(".config")),
            state_home: folder("XDG_STATE_HOME").or_else(|| in_home(".local/state")),
            home,
            admin_config: variable("HAFT_ADMIN_CONFIG").map(PathBuf::from),
            temporary: folder("TMPDIR").unwrap_or_else(|| "/var/tmp".into()),
            user: variable("USER").and_then(|name| name.into_string().ok()),
            secrets: secrets(),
        }
    }
}

/// All of them, for programs that are started; a few are handed on.
#[expect(clippy::disallowed_methods, reason = "this is the door the environment enters by")]
pub fn all() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

/// A variable that is set to something.
#[expect(clippy::disallowed_methods, reason = "this is the door the environment enters by")]
pub fn variable(name: &str) -> Option<OsString> {
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
