//! Builds the programs of this workspace. With `--examples` cargo unifies features as for tests, so
//! the dependencies are not compiled a second time.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::shell;

/// A program that cargo built.
#[derive(Debug, PartialEq)]
pub(crate) struct BuiltProgram {
    kind: ProgramKind,
    name: String,
    path: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ProgramKind {
    Bin,
    Example,
}

/// Builds all programs.
pub(crate) fn build() -> Result<Vec<BuiltProgram>> {
    let words = "cargo build --quiet --workspace --bins --examples \
                 --message-format json-render-diagnostics";
    let messages = shell::capture(&words.split(' ').collect::<Vec<_>>())?;
    Ok(messages.lines().filter_map(program).collect())
}

/// Returns the path of a program.
pub(crate) fn named<'a>(
    programs: &'a [BuiltProgram],
    kind: ProgramKind,
    name: &str,
) -> Result<&'a Path> {
    let found = programs.iter().find(|program| program.kind == kind && program.name == name);
    found
        .map(|program| program.path.as_path())
        .with_context(|| format!("cargo did not build {name}"))
}

/// Runs every example: each asserts its own results.
pub(crate) fn run_examples() -> Result<()> {
    for example in build()?.iter().filter(|program| program.kind == ProgramKind::Example) {
        let path = example.path.to_str().context("the path of the target folder is not UTF-8")?;
        shell::capture(&[path])?;
        println!("example {} ran", example.name);
    }
    Ok(())
}

#[derive(Deserialize)]
struct Artifact {
    target: Target,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

fn program(message: &str) -> Option<BuiltProgram> {
    // Other messages of cargo have other fields and fail to parse here.
    let artifact: Artifact = serde_json::from_str(message).ok()?;
    let kind = match artifact.target.kind.first()?.as_str() {
        "bin" => ProgramKind::Bin,
        "example" => ProgramKind::Example,
        _ => return None,
    };
    Some(BuiltProgram { kind, name: artifact.target.name, path: artifact.executable? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_among_cargos_messages() {
        let message = |kind: &str, name: &str| {
            format!(
                r#"{{"target":{{"name":"{name}","kind":["{kind}"]}},"executable":"/t/{name}"}}"#
            )
        };
        let programs: Vec<BuiltProgram> = [
            message("bin", "haft"),
            message("example", "demo"),
            message("lib", "haft"),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ]
        .iter()
        .filter_map(|message| program(message))
        .collect();
        assert_eq!(programs.len(), 2);
        assert_eq!(named(&programs, ProgramKind::Bin, "haft").unwrap(), Path::new("/t/haft"));
        assert_eq!(named(&programs, ProgramKind::Example, "demo").unwrap(), Path::new("/t/demo"));
        let missing = named(&programs, ProgramKind::Example, "haft").unwrap_err().to_string();
        assert_eq!(missing, "cargo did not build haft");
    }
}
