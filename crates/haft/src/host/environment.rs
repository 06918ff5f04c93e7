//! The environment variables and the working directory of the process. They are read once and
//! passed on as values.

use std::{ffi::OsString, path::PathBuf};

/// The environment that the process was started in.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// Working directory. `None` when it no longer exists.
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
    /// `$TMPDIR`, or `/var/tmp`, which is not in memory on common systems.
    pub temporary: PathBuf,
    /// Variables that hold secrets, to be redacted from all output.
    pub secrets: Vec<(String, String)>,
}

impl Environment {
    /// Reads the variables and the working directory of this process.
    pub fn read() -> Self {
        let home = variable("HOME").map(PathBuf::from);
        // The XDG specification requires relative paths to be ignored.
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

/// Returns all variables, for child processes. Only a few of them are passed on.
#[expect(clippy::disallowed_methods, reason = "this is the door the environment enters by")]
pub fn all() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

/// Returns a variable unless it is unset or empty.
#[expect(clippy::disallowed_methods, reason = "this is the door the environment enters by")]
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Parts of names by which a variable counts as a secret.
const SECRET_NAMES: &[&str] =
    &["TOKEN", "SECRET", "PASSWORD", "PASSPHRASE", "API_KEY", "ACCESS_KEY", "PRIVATE_KEY"];

#[expect(clippy::disallowed_methods, reason = "this is the door the environment enters by")]
fn secrets() -> Vec<(String, String)> {
    let named = |(name, value): (OsString, OsString)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        let is_secret = SECRET_NAMES.iter().any(|part| name.contains(part));
        // The path of a secret file is not secret itself, and tools need to print paths.
        (is_secret && !value.starts_with('/')).then_some((name, value))
    };
    std::env::vars_os().filter_map(named).collect()
}
