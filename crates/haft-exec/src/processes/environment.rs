//! The environment of a program: a few of our variables, variables that turn off prompts and
//! pagers, and those of the launch. Variables that may hold a secret, or make a program load or run
//! something, are left out.

use std::ffi::{OsStr, OsString};

use haft_core::ToolError;

/// Only these of our variables are inherited, and those that begin with `LC_`.
const INHERITED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
];

/// No person watches a program that we start: no pager, editor, prompt or colours.
pub(crate) const NON_INTERACTIVE: &[(&str, &str)] = &[
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "true"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "true"),
    ("SSH_ASKPASS", "true"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("PYTHONUNBUFFERED", "1"),
];

/// Variables that make a program load or run another one. A launch that sets one is refused: a
/// command can set it itself, where policy sees it.
const DANGEROUS: &[&str] = &[
    "BASH_ENV",
    "ENV",
    "PROMPT_COMMAND",
    "PS4",
    "SHELLOPTS",
    "BASHOPTS",
    "IFS",
    "NODE_OPTIONS",
    "PYTHONSTARTUP",
    "PYTHONPATH",
    "PYTHONHOME",
    "PERL5OPT",
    "PERL5LIB",
    "PERL5DB",
    "RUBYOPT",
    "RUBYLIB",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_EXTERNAL_DIFF",
    "GIT_EXEC_PATH",
    "GIT_PROXY_COMMAND",
    "EDITOR",
    "VISUAL",
    "BROWSER",
    "LESSOPEN",
    "LESSCLOSE",
    "RUSTC_WRAPPER",
    "CARGO_BUILD_RUSTC_WRAPPER",
];
const DANGEROUS_BEGINNINGS: &[&str] = &["LD_", "DYLD_", "BASH_FUNC_", "GIT_CONFIG", "npm_config_"];

/// The variable with the mark of a launch, in a program and everything it starts.
pub(crate) const MARK: &str = "HAFT_PROCESS";

/// Returns the complete environment of a program.
///
/// # Errors
/// Of kind `denied` for a variable that would make programs load or run something.
pub(crate) fn of(
    ours: &[(OsString, OsString)],
    added: &[(String, String)],
    mark: &str,
) -> Result<Vec<(OsString, OsString)>, ToolError> {
    let mut all: Vec<(OsString, OsString)> =
        ours.iter().filter(|(name, _)| is_inherited(name)).cloned().collect();
    for (name, value) in NON_INTERACTIVE {
        put(&mut all, name, value);
    }
    for (name, value) in added {
        check(name, value)?;
        put(&mut all, name, value);
    }
    put(&mut all, MARK, mark);
    Ok(all)
}

pub(crate) fn is_inherited(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| INHERITED.contains(&name) || name.starts_with("LC_"))
}

/// Refuses the variables that every program has: they describe paths and the user, and sandboxes
/// are built from them, so none of them is a secret.
pub(crate) fn check_secret(name: &str) -> Result<(), ToolError> {
    let is_ours = is_inherited(OsStr::new(name))
        || NON_INTERACTIVE.iter().any(|(known, _)| *known == name)
        || ["PWD", MARK].contains(&name);
    if !is_ours {
        return Ok(());
    }
    Err(ToolError::denied(format!("the variable `{name}` already has a meaning for every program"))
        .hint("give the secret to the command under another name"))
}

fn put(all: &mut Vec<(OsString, OsString)>, name: &str, value: &str) {
    all.retain(|(known, _)| known != name);
    all.push((name.into(), value.into()));
}

/// Returns true when a git setting only disables something: a file system monitor, or repositories
/// in subfolders.
fn quiets_git(name: &str, value: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    let Some(rest) = name.strip_prefix("GIT_CONFIG_") else { return false };
    match rest.split_once('_') {
        None => rest == "COUNT" && is_number(value),
        Some(("KEY", number)) => {
            is_number(number) && ["core.fsmonitor", "safe.bareRepository"].contains(&value)
        }
        Some(("VALUE", number)) => is_number(number) && ["false", "explicit"].contains(&value),
        Some(_) => false,
    }
}

fn check(name: &str, value: &str) -> Result<(), ToolError> {
    if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
        return Err(ToolError::input(format!(
            "`{}` is not a valid variable name",
            name.escape_debug()
        ))
        .hint("give a name without `=` and a value, neither with a zero byte"));
    }
    let is_dangerous = DANGEROUS.contains(&name)
        || DANGEROUS_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning));
    if is_dangerous && !quiets_git(name, value) {
        return Err(ToolError::denied(format!(
            "the variable `{name}` makes programs load or run others"
        ))
        .hint("set it in the command itself, where policy can check it"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use haft_core::ErrorKind;

    use super::*;

    fn ours(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn value<'a>(all: &'a [(OsString, OsString)], name: &str) -> Option<&'a str> {
        all.iter().find(|(known, _)| known == name).and_then(|(_, value)| value.to_str())
    }

    #[test]
    fn only_listed_variables_are_inherited_and_prompts_are_off() {
        let ours = ours(&[
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("LD_PRELOAD", "x.so"),
            ("PAGER", "less"),
            ("GITHUB_TOKEN", "x"),
        ]);
        let all = of(&ours, &[("MINE".to_owned(), "1".to_owned())], "p1-x").expect("harmless");
        for (name, expected) in [
            ("PATH", Some("/bin")),
            ("LC_ALL", Some("C")),
            ("MINE", Some("1")),
            ("PAGER", Some("cat")),
            ("GIT_TERMINAL_PROMPT", Some("0")),
            (MARK, Some("p1-x")),
            ("AWS_SECRET_ACCESS_KEY", None),
            ("LD_PRELOAD", None),
            ("GITHUB_TOKEN", None),
        ] {
            assert_eq!(value(&all, name), expected, "{name}");
        }
        let names: std::collections::HashSet<_> = all.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), all.len(), "none twice");
    }

    #[test]
    fn what_every_program_has_is_no_place_for_a_secret() {
        for name in ["HOME", "PATH", "TMPDIR", "LC_ALL", "PWD", "TERM", MARK] {
            assert_eq!(check_secret(name).expect_err(name).kind(), ErrorKind::Denied, "{name}");
        }
        check_secret("GH_TOKEN").expect("its place");
    }

    #[test]
    fn variables_that_load_or_run_something_are_refused() {
        for name in [
            "LD_PRELOAD",
            "BASH_ENV",
            "NODE_OPTIONS",
            "GIT_SSH_COMMAND",
            "GIT_CONFIG_COUNT",
            "BASH_FUNC_ls%%",
        ] {
            let error = of(&[], &[(name.to_owned(), "x".to_owned())], "m").expect_err(name);
            assert_eq!(error.kind(), ErrorKind::Denied, "{name}");
        }
        for (name, value) in [("", "x"), ("A=B", "x"), ("A", "x\0y")] {
            let error = of(&[], &[(name.to_owned(), value.to_owned())], "m").expect_err(name);
            assert_eq!(error.kind(), ErrorKind::Input, "{name}");
        }
    }
}
