//! Runs other programs, always in the root of the repository.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}

pub(crate) fn command(words: &[&str]) -> Command {
    let (program, arguments) =
        words.split_first().expect("every command line here starts with a program");
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// Runs a command with the stdout and stderr of this process. An exit code other than 0 is an
/// error.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    run_with(words, &[])
}

/// Runs a command with additional variables; those with an empty value are skipped.
pub(crate) fn run_with(words: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    let line = words.join(" ");
    let mut command = command(words);
    command.envs(variables.iter().copied().filter(|(_, value)| !value.is_empty()));
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// Runs a command and returns its stdout. Its stderr is shown.
pub(crate) fn capture(words: &[&str]) -> Result<String> {
    output_of(command(words).stdin(Stdio::null()), &words.join(" "))
}

pub(crate) fn output_of(command: &mut Command, line: &str) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` ended with {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("the output of `{line}` is not UTF-8"))
}

/// Returns true if a command runs here; being in PATH is not enough.
pub(crate) fn works(words: &[&str]) -> bool {
    let quiet = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()
    };
    quiet(&mut command(words)).is_ok_and(|status| status.success())
}

/// Returns a field of `rustc -vV`, such as `host` or `release`.
pub(crate) fn rustc_field(field: &str) -> Result<String> {
    let text = capture(&["rustc", "-vV"])?;
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(": "));
    value.map(str::to_owned).with_context(|| format!("`rustc -vV` has no field `{field}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_contains_the_workspace() {
        assert!(root().join("Cargo.toml").is_file());
        assert!(root().join("xtask").is_dir());
    }

    #[test]
    fn a_failing_or_missing_program_is_named() {
        let failed = run(&["git", "no-such-subcommand"]).unwrap_err().to_string();
        assert!(failed.starts_with("`git no-such-subcommand` ended with"), "{failed}");
        let missing = capture(&["haft-no-such-program"]).unwrap_err().to_string();
        assert_eq!(missing, "cannot start `haft-no-such-program`");
        assert!(!works(&["haft-no-such-program"]) && works(&["git", "--version"]));
    }

    #[test]
    fn rustc_has_a_host_and_a_release() {
        assert!(rustc_field("host").unwrap().contains('-'));
        assert!(rustc_field("release").unwrap().starts_with("1."));
        assert!(rustc_field("phase of the moon").is_err());
    }
}
