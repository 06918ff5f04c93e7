//! Checks the minimum Rust version: the same for all crates, sufficient for the dependencies, the
//! one in the README, and not above the compiler in use.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};

use crate::{metadata::Metadata, shell, step};

/// Major, minor, patch.
type RustVersion = [u64; 3];

pub(crate) fn check(metadata: &Metadata) -> Result<()> {
    let minimum = stated(metadata)?;
    let mut findings = too_new(metadata, &minimum)?;
    findings.extend(wrong_in_readme(readme()?.as_deref(), &minimum));
    findings.extend(old_compiler(&shell::rustc_field("release")?, &minimum)?);
    step::none_of(&findings)
}

fn stated(metadata: &Metadata) -> Result<String> {
    let versions: BTreeSet<&str> =
        metadata.members().map(|member| member.rust_version.as_deref().unwrap_or("none")).collect();
    match versions.into_iter().collect::<Vec<_>>().as_slice() {
        [one] => Ok((*one).to_owned()),
        several => bail!("the crates state several Rust versions: {}", several.join(", ")),
    }
}

fn too_new(metadata: &Metadata, minimum: &str) -> Result<Vec<String>> {
    let limit = parse(minimum)?;
    let mut findings = Vec::new();
    for package in metadata.built() {
        let Some(needed) = &package.rust_version else { continue };
        if parse(needed)? > limit {
            let (name, version) = (&package.name, &package.version);
            findings.push(format!(
                "{name} {version}: needs Rust {needed}, above the minimum {minimum}"
            ));
        }
    }
    Ok(findings)
}

fn readme() -> Result<Option<String>> {
    match std::fs::read_to_string(shell::root().join("README.md")) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context("cannot read README.md"),
    }
}

/// Checks that every `Rust 1.x` in the README is the minimum version, and that there is one.
fn wrong_in_readme(readme: Option<&str>, minimum: &str) -> Option<String> {
    let stated: Vec<&str> = readme?.split("Rust ").skip(1).filter_map(leading_version).collect();
    if stated.is_empty() {
        return Some(format!("README.md does not mention `Rust {minimum}`"));
    }
    let wrong = stated.into_iter().find(|version| parse(version).ok() != parse(minimum).ok())?;
    Some(format!("README.md says `Rust {wrong}`, Cargo.toml says {minimum}"))
}

/// Returns `1.95` for `1.95 or later`, and nothing for `2024 edition`.
fn leading_version(text: &str) -> Option<&str> {
    let word = text.split(|c: char| !c.is_ascii_digit() && c != '.').next()?.trim_end_matches('.');
    word.contains('.').then_some(word)
}

fn old_compiler(running: &str, minimum: &str) -> Result<Option<String>> {
    let old = parse(running)? < parse(minimum)?;
    Ok(old.then(|| {
        format!("rustc {running} is older than the minimum {minimum}: update the toolchain")
    }))
}

/// Parses a version. Missing parts are 0; text after `-` or `+` is ignored.
fn parse(text: &str) -> Result<RustVersion> {
    let numbers = text.split(['-', '+']).next().unwrap_or_default();
    let mut version = [0; 3];
    for (place, part) in numbers.split('.').enumerate() {
        let slot =
            version.get_mut(place).with_context(|| format!("`{text}` is not a Rust version"))?;
        *slot = part.parse().with_context(|| format!("`{text}` is not a Rust version"))?;
    }
    Ok(version)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::metadata::tests::fabricate;

    fn package(id: &str, rust_version: Value) -> Value {
        json!({"id": id, "name": id, "version": "1.2.3", "rust_version": rust_version})
    }

    #[test]
    fn the_real_workspace_has_a_valid_minimum() {
        check(&Metadata::load().unwrap()).unwrap();
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(parse("1.9").unwrap() < parse("1.85.0").unwrap());
        assert_eq!(parse("1.95").unwrap(), parse("1.95.0-nightly").unwrap());
        assert!(parse("none").is_err() && parse("1.2.3.4").is_err() && parse("").is_err());
    }

    #[test]
    fn a_built_dependency_may_not_need_a_newer_rust() {
        let metadata = fabricate(
            json!([
                package("haft", json!("1.95")),
                package("old", json!("1.56")),
                package("silent", Value::Null),
                package("new", json!("1.97.1")),
                package("tested", json!("1.99"))
            ]),
            &[
                ("haft", "old", None),
                ("haft", "silent", None),
                ("haft", "new", None),
                ("haft", "tested", Some("dev")),
            ],
        );
        assert_eq!(stated(&metadata).unwrap(), "1.95");
        assert_eq!(
            too_new(&metadata, "1.95").unwrap(),
            ["new 1.2.3: needs Rust 1.97.1, above the minimum 1.95"]
        );
    }

    #[test]
    fn the_crates_state_one_version() {
        let metadata = fabricate(
            json!([package("haft", json!("1.95")), package("haft-core", json!("1.90"))]),
            &[],
        );
        let message = stated(&metadata).unwrap_err().to_string();
        assert_eq!(message, "the crates state several Rust versions: 1.90, 1.95");
    }

    #[test]
    fn the_readme_states_the_same() {
        assert_eq!(wrong_in_readme(None, "1.95"), None);
        assert_eq!(wrong_in_readme(Some("Needs Rust 1.95 or later. Rust 2024."), "1.95"), None);
        assert_eq!(wrong_in_readme(Some("Needs Rust 1.95."), "1.95"), None);
        let stale = wrong_in_readme(Some("Rust 1.95, yet below Rust 1.90"), "1.95");
        assert_eq!(stale.unwrap(), "README.md says `Rust 1.90`, Cargo.toml says 1.95");
        let silent = wrong_in_readme(Some("Written in Rust."), "1.95");
        assert_eq!(silent.unwrap(), "README.md does not mention `Rust 1.95`");
    }

    #[test]
    fn an_old_compiler_is_named() {
        assert_eq!(old_compiler("1.95.0", "1.95").unwrap(), None);
        assert!(
            old_compiler("1.94.1", "1.95").unwrap().unwrap().starts_with("rustc 1.94.1 is older")
        );
    }
}
