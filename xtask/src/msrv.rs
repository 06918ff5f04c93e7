//! The promise of a Rust version: one number for all our crates, high enough for what we build on,
//! the one README names, and not above the compiler that runs here.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};

use crate::{metadata::Metadata, shell, step};

/// Major, minor, patch.
type Version = [u64; 3];

pub(crate) fn check(metadata: &Metadata) -> Result<()> {
    let promise = promised(metadata)?;
    let mut findings = too_new(metadata, &promise)?;
    findings.extend(wrong_in_readme(readme()?.as_deref(), &promise));
    findings.extend(old_compiler(&shell::rustc_says("release")?, &promise)?);
    step::none_of(&findings)
}

fn promised(metadata: &Metadata) -> Result<String> {
    let versions: BTreeSet<&str> =
        metadata.members().map(|member| member.rust_version.as_deref().unwrap_or("none")).collect();
    match versions.into_iter().collect::<Vec<_>>().as_slice() {
        [one] => Ok((*one).to_owned()),
        several => bail!("our crates state several rust versions: {}", several.join(", ")),
    }
}

fn too_new(metadata: &Metadata, promise: &str) -> Result<Vec<String>> {
    let limit = parse(promise)?;
    let mut findings = Vec::new();
    for package in metadata.built() {
        let Some(needed) = &package.rust_version else { continue };
        if parse(needed)? > limit {
            let (name, version) = (&package.name, &package.version);
            findings.push(format!("{name} {version}: needs Rust {needed}, we promise {promise}"));
        }
    }
    Ok(findings)
}

fn readme() -> Result<Option<String>> {
    match std::fs::read_to_string(shell::root().join("README.md")) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context("README.md cannot be read"),
    }
}

/// Every `Rust 1.x` in the README must be the promise, and there must be one.
fn wrong_in_readme(readme: Option<&str>, promise: &str) -> Option<String> {
    let stated: Vec<&str> = readme?.split("Rust ").skip(1).filter_map(leading_version).collect();
    if stated.is_empty() {
        return Some(format!("README.md does not say `Rust {promise}`"));
    }
    let wrong = stated.into_iter().find(|version| parse(version).ok() != parse(promise).ok())?;
    Some(format!("README.md says `Rust {wrong}`, Cargo.toml says {promise}"))
}

/// `1.95` of `1.95 or later`; nothing of `2024 edition`.
fn leading_version(text: &str) -> Option<&str> {
    let word = text.split(|c: char| !c.is_ascii_digit() && c != '.').next()?.trim_end_matches('.');
    word.contains('.').then_some(word)
}

fn old_compiler(running: &str, promise: &str) -> Result<Option<String>> {
    let old = parse(running)? < parse(promise)?;
    Ok(old
        .then(|| format!("rustc {running} runs here, we promise {promise}: update the toolchain")))
}

/// Parts that are not written are 0; what follows `-` or `+` says nothing about age.
fn parse(text: &str) -> Result<Version> {
    let numbers = text.split(['-', '+']).next().unwrap_or_default();
    let mut version = [0; 3];
    for (place, part) in numbers.split('.').enumerate() {
        let slot =
            version.get_mut(place).with_context(|| format!("`{text}` is not a rust version"))?;
        *slot = part.parse().with_context(|| format!("`{text}` is not a rust version"))?;
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
    fn the_real_workspace_keeps_its_promise() {
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
        assert_eq!(promised(&metadata).unwrap(), "1.95");
        assert_eq!(
            too_new(&metadata, "1.95").unwrap(),
            ["new 1.2.3: needs Rust 1.97.1, we promise 1.95"]
        );
    }

    #[test]
    fn our_crates_promise_one_version() {
        let metadata = fabricate(
            json!([package("haft", json!("1.95")), package("haft-core", json!("1.90"))]),
            &[],
        );
        let message = promised(&metadata).unwrap_err().to_string();
        assert_eq!(message, "our crates state several rust versions: 1.90, 1.95");
    }

    #[test]
    fn the_readme_says_the_same() {
        assert_eq!(wrong_in_readme(None, "1.95"), None);
        assert_eq!(wrong_in_readme(Some("Needs Rust 1.95 or later. Rust 2024."), "1.95"), None);
        assert_eq!(wrong_in_readme(Some("Needs Rust 1.95."), "1.95"), None);
        let stale = wrong_in_readme(Some("Rust 1.95, yet below Rust 1.90"), "1.95");
        assert_eq!(stale.unwrap(), "README.md says `Rust 1.90`, Cargo.toml says 1.95");
        let silent = wrong_in_readme(Some("Written in Rust."), "1.95");
        assert_eq!(silent.unwrap(), "README.md does not say `Rust 1.95`");
    }

    #[test]
    fn an_old_compiler_is_named() {
        assert_eq!(old_compiler("1.95.0", "1.95").unwrap(), None);
        assert!(
            old_compiler("1.94.1", "1.95").unwrap().unwrap().starts_with("rustc 1.94.1 runs here")
        );
    }
}
