//! The rules of `deny.toml` over `cargo metadata`, so that they hold without cargo-deny and without
//! the network. Of its keys only those below are known; any other is an error, because a rule that
//! nobody evaluates is decor.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::{
    licence,
    metadata::{Metadata, Package},
    shell, step,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    #[expect(dead_code, reason = "for cargo-deny; here the host is the target")]
    graph: toml::Table,
    licenses: Licenses,
    bans: Bans,
    #[expect(dead_code, reason = "reading it proves that it denies; `findings` always does")]
    sources: Sources,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Licenses {
    allow: Vec<String>,
    include_dev: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Bans {
    #[expect(dead_code, reason = "reading it proves that it denies; `findings` always does")]
    multiple_versions: Level,
    deny: Vec<Named>,
    skip: Vec<Named>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[expect(dead_code, reason = "reading it proves that it denies; `findings` always does")]
struct Sources {
    unknown_registry: Level,
    unknown_git: Level,
}

/// The only level we evaluate.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Level {
    Deny,
}

/// `name` or `name:version`, where `2` means any 2.x.y; the reason is not optional.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    #[serde(rename = "crate")]
    spec: String,
    reason: String,
    /// These may build on it all the same; whoever else does is named.
    #[serde(default)]
    wrappers: Vec<String>,
}

impl Named {
    fn matches(&self, package: &Package) -> bool {
        match self.spec.split_once(':') {
            None => self.spec == package.name,
            Some((name, version)) => {
                let rest = package.version.strip_prefix(version);
                name == package.name
                    && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            }
        }
    }
}

pub(crate) fn check(metadata: &Metadata) -> Result<()> {
    let text = std::fs::read_to_string(shell::root().join("deny.toml"))
        .context("deny.toml cannot be read")?;
    let rules =
        toml::from_str(&text).context("deny.toml has a rule that xtask does not evaluate")?;
    step::none_of(&findings(&rules, metadata))
}

fn findings(rules: &Rules, metadata: &Metadata) -> Vec<String> {
    let Licenses { allow, include_dev } = &rules.licenses;
    let licensed = if *include_dev { metadata.packages.iter().collect() } else { metadata.built() };
    let mut findings: Vec<String> =
        licensed.into_iter().filter_map(|package| bad_licence(allow, package)).collect();
    for package in &metadata.packages {
        findings.extend(bad_source(package));
        findings.extend(banned(&rules.bans.deny, package, metadata));
    }
    findings.extend(duplicates(&rules.bans.skip, metadata));
    findings.extend(needless_skips(&rules.bans.skip, metadata));
    findings
}

fn bad_licence(allow: &[String], package: &Package) -> Option<String> {
    let Package { name, version, .. } = package;
    let Some(expression) = &package.license else {
        return Some(format!("{name} {version}: has no licence expression"));
    };
    match licence::satisfied(expression, allow) {
        Ok(true) => None,
        Ok(false) => {
            Some(format!("{name} {version}: licence `{expression}` is not allowed by deny.toml"))
        }
        Err(error) => Some(format!("{name} {version}: {error}")),
    }
}

fn bad_source(package: &Package) -> Option<String> {
    let source = package.source.as_deref()?;
    let registry = source.starts_with("registry+") || source.starts_with("sparse+");
    (!registry)
        .then(|| format!("{}: comes from `{source}`, not from a registry or a path", package.name))
}

fn banned(deny: &[Named], package: &Package, metadata: &Metadata) -> Option<String> {
    let ban = deny.iter().find(|ban| ban.matches(package))?;
    let users = metadata.users_of(&package.id);
    let is_wrapper = |user: &&str| ban.wrappers.iter().any(|wrapper| wrapper == user);
    let users: Vec<&str> = users.split(", ").filter(|user| !is_wrapper(user)).collect();
    let Package { name, version, .. } = package;
    let told = format!("{name} {version}: banned ({}), used by {}", ban.reason, users.join(", "));
    (!users.is_empty()).then_some(told)
}

fn duplicates(skip: &[Named], metadata: &Metadata) -> Vec<String> {
    let mut by_name: BTreeMap<&str, Vec<&Package>> = BTreeMap::new();
    for package in metadata.built() {
        if !skip.iter().any(|skip| skip.matches(package)) {
            by_name.entry(&package.name).or_default().push(package);
        }
    }
    let tell =
        |package: &&Package| format!("{} (by {})", package.version, metadata.users_of(&package.id));
    by_name
        .iter()
        .filter(|(_, versions)| versions.len() > 1)
        .map(|(name, versions)| {
            format!(
                "{name}: more than one version: {}",
                versions.iter().map(tell).collect::<Vec<_>>().join(", ")
            )
        })
        .collect()
}

/// A skip outlives its duplicate unless someone says so; then it would hide the next one.
fn needless_skips(skip: &[Named], metadata: &Metadata) -> Vec<String> {
    let built = metadata.built();
    let needed = |skip: &&Named| {
        built.iter().any(|one| {
            skip.matches(one)
                && built.iter().any(|two| two.name == one.name && two.version != one.version)
        })
    };
    let needless = skip.iter().filter(|skip| !needed(skip));
    needless.map(|skip| format!("deny.toml: skip `{}` is no longer needed", skip.spec)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::metadata::tests::fabricate;

    const HEAD: &str = "
        [graph]
        [licenses]
        allow = ['MIT', 'Apache-2.0']
        include-dev = true
        [sources]
        unknown-registry = 'deny'
        unknown-git = 'deny'
        [bans]
        multiple-versions = 'deny'
        deny = [{ crate = 'openssl', reason = 'we are on rustls' }]
    ";

    fn rules(skip: &str) -> Rules {
        toml::from_str(&format!("{HEAD}\nskip = [{skip}]")).unwrap()
    }

    fn package(name: &str, version: &str) -> Value {
        let id =
            if name.starts_with("haft") { name.to_owned() } else { format!("{name}@{version}") };
        json!({"id": id, "name": name, "version": version, "license": "MIT OR Apache-2.0"})
    }

    #[track_caller]
    fn check_one(change: &str, value: Value, expected: &[&str]) {
        let mut stranger = package("stranger", "1.0.0");
        stranger[change] = value;
        assert_eq!(findings(&rules(""), &fabricate(json!([stranger]), &[])), expected);
    }

    #[test]
    fn licences_also_of_test_dependencies_must_be_allowed() {
        check_one("license", json!("MIT"), &[]);
        check_one(
            "license",
            json!("GPL-3.0-or-later"),
            &["stranger 1.0.0: licence `GPL-3.0-or-later` is not allowed by deny.toml"],
        );
        check_one("license", Value::Null, &["stranger 1.0.0: has no licence expression"]);
        check_one(
            "license",
            json!("MIT OR"),
            &["stranger 1.0.0: a licence name is missing in an expression"],
        );
    }

    #[test]
    fn only_registries_and_paths_are_sources() {
        check_one("source", json!("registry+https://example.org/index"), &[]);
        check_one(
            "source",
            json!("git+https://example.org/x"),
            &["stranger: comes from `git+https://example.org/x`, not from a registry or a path"],
        );
    }

    #[test]
    fn a_banned_crate_is_named_with_its_user() {
        let packages = json!([package("haft", "0.1.0"), package("openssl", "0.10.1")]);
        let metadata = fabricate(packages, &[("haft", "openssl@0.10.1", Some("dev"))]);
        assert_eq!(
            findings(&rules(""), &metadata),
            ["openssl 0.10.1: banned (we are on rustls), used by haft"]
        );
    }

    #[test]
    fn a_banned_crate_may_be_used_by_its_wrappers_only() {
        let packages = json!([
            package("haft", "0.1.0"),
            package("sdk", "1.0.0"),
            package("openssl", "0.10.1")
        ]);
        let mut rules = rules("");
        rules.bans.deny[0].wrappers = vec!["sdk".to_owned()];
        let edges = [("haft", "sdk@1.0.0", None), ("sdk@1.0.0", "openssl@0.10.1", None)];
        assert!(findings(&rules, &fabricate(packages.clone(), &edges)).is_empty());
        let both = [edges[0], edges[1], ("haft", "openssl@0.10.1", None)];
        let found = findings(&rules, &fabricate(packages, &both));
        assert_eq!(found, ["openssl 0.10.1: banned (we are on rustls), used by haft"]);
    }

    /// haft builds on syn 3, its helper on syn 2, its tests on syn 1.
    fn three_syns() -> Metadata {
        let packages = json!([
            package("haft", "0.1.0"),
            package("helper", "1.0.0"),
            package("syn", "3.0.9"),
            package("syn", "2.0.1"),
            package("syn", "1.0.0")
        ]);
        let edges = [
            ("haft", "helper@1.0.0", None),
            ("haft", "syn@3.0.9", None),
            ("helper@1.0.0", "syn@2.0.1", Some("build")),
            ("haft", "syn@1.0.0", Some("dev")),
        ];
        fabricate(packages, &edges)
    }

    #[test]
    fn two_built_versions_are_a_finding_unless_skipped() {
        assert_eq!(
            findings(&rules(""), &three_syns()),
            ["syn: more than one version: 3.0.9 (by haft), 2.0.1 (by helper)"]
        );
        assert_eq!(
            findings(&rules("{ crate = 'syn:2', reason = 'helper' }"), &three_syns()),
            [""; 0]
        );
    }

    #[test]
    fn a_needless_skip_is_a_finding() {
        let skips =
            rules("{ crate = 'syn:2', reason = 'helper' }, { crate = 'serde:1', reason = 'old' }");
        assert_eq!(
            findings(&skips, &three_syns()),
            ["deny.toml: skip `serde:1` is no longer needed"]
        );
    }

    #[test]
    fn a_version_matches_by_whole_parts() {
        let named = |spec: &str| Named {
            spec: spec.to_owned(),
            reason: String::new(),
            wrappers: Vec::new(),
        };
        let version = |text: &str| serde_json::from_value::<Package>(package("syn", text)).unwrap();
        assert!(
            named("syn:2").matches(&version("2.0.119")) && named("syn").matches(&version("3.0.0"))
        );
        assert!(
            !named("syn:2").matches(&version("20.0.0"))
                && !named("sy:2").matches(&version("2.0.0"))
        );
    }

    #[test]
    fn a_rule_that_is_not_evaluated_is_refused() {
        for text in ["skip = []\nskip-tree = []", "skip = [{ crate = 'syn:2' }]"] {
            assert!(toml::from_str::<Rules>(&format!("{HEAD}\n{text}")).is_err(), "{text}");
        }
        let warning = HEAD.replace("multiple-versions = 'deny'", "multiple-versions = 'warn'");
        assert!(toml::from_str::<Rules>(&format!("{warning}\nskip = []")).is_err());
    }

    #[test]
    fn the_real_workspace_keeps_the_real_rules() {
        check(&Metadata::load().unwrap()).unwrap();
    }
}
