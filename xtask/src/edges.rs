//! Rules for dependencies: which crate may use which, and which crates may use heavy or powerful
//! external ones. A new row is a decision, so it is reviewed.

use anyhow::Result;

use crate::{
    metadata::{DeclaredDependency, Metadata, Package},
    step,
};

struct CrateRule {
    name: &'static str,
    may_use: &'static [&'static str],
    /// Further workspace crates that only its tests may use.
    tests_may_use: &'static [&'static str],
}

const fn rule(name: &'static str, may_use: &'static [&'static str]) -> CrateRule {
    CrateRule { name, may_use, tests_may_use: &[] }
}

/// The rule of each crate, including planned ones.
const CRATE_RULES: &[CrateRule] = &[
    rule("haft-core", &[]),
    CrateRule { name: "haft-macros", may_use: &[], tests_may_use: &["haft-core"] },
    rule("haft-shell", &["haft-core"]),
    rule("haft-tools", &["haft-core", "haft-macros", "haft-shell"]),
    rule("haft-exec", &["haft-core"]),
    rule("haft-store", &["haft-core"]),
    rule("haft-mcp", &["haft-core"]),
    // For the wire types of MCP, which are defined only there.
    rule("haft-agent", &["haft-core", "haft-mcp"]),
    rule("haft-server", &["haft-core", "haft-agent", "haft-mcp"]),
    rule(
        "haft",
        &[
            "haft-core",
            "haft-macros",
            "haft-shell",
            "haft-tools",
            "haft-exec",
            "haft-store",
            "haft-mcp",
            "haft-agent",
            "haft-server",
        ],
    ),
    rule("haft-fuzz", &["haft-shell", "haft-tools"]),
    rule("xtask", &[]),
];

/// External crates and the only workspace crates that may depend on them. Tests may use any.
const OWNERS: &[(&str, &[&str])] = &[
    ("clap", &["haft"]),
    ("jsonschema", &["haft-core"]),
    ("reqwest", &["haft-exec", "haft-agent"]),
    ("rmcp", &["haft-mcp"]),
    ("rusqlite", &["haft-store"]),
    ("tokio-postgres", &["haft-store"]),
    ("tokio-rustls", &["haft-exec"]),
    ("tree-sitter", &["haft-shell"]),
    ("tree-sitter-bash", &["haft-shell"]),
];

/// Crates without IO. Clippy cannot see through a dependency, so no dependency may open or spawn.
const PURE: &[&str] = &["haft-core", "haft-shell", "haft-tools"];
const DOES_IO: &[&str] =
    &["cap-std", "hyper", "libc", "mio", "notify", "reqwest", "rustix", "tempfile", "tokio-rustls"];
const PURE_TOKIO: &[&str] = &["rt", "rt-multi-thread", "sync", "time", "macros"];

pub(crate) fn check(metadata: &Metadata) -> Result<()> {
    step::none_of(&findings(metadata))
}

fn findings(metadata: &Metadata) -> Vec<String> {
    metadata.members().flat_map(member_findings).collect()
}

fn member_findings(member: &Package) -> Vec<String> {
    let Some(rule) = CRATE_RULES.iter().find(|rule| rule.name == member.name) else {
        return vec![format!(
            "{}: unknown workspace crate, give it a row in xtask/src/edges.rs",
            member.name
        )];
    };
    member.dependencies.iter().flat_map(|dep| dependency_findings(rule, dep)).collect()
}

fn dependency_findings(rule: &CrateRule, dep: &DeclaredDependency) -> Vec<String> {
    let checks = [forbidden_edge, foreign_owner, io_in_pure_crate, io_in_tokio_features];
    checks.iter().filter_map(|check| check(rule, dep)).collect()
}

fn forbidden_edge(rule: &CrateRule, dep: &DeclaredDependency) -> Option<String> {
    let target = dep.name.as_str();
    let ours = CRATE_RULES.iter().any(|other| other.name == target);
    let allowed =
        rule.may_use.contains(&target) || (dep.is_dev() && rule.tests_may_use.contains(&target));
    let kind = if dep.is_dev() { " in its tests" } else { "" };
    (ours && !allowed)
        .then(|| format!("{} -> {target}: {0} may not depend on {target}{kind}", rule.name))
}

fn foreign_owner(rule: &CrateRule, dep: &DeclaredDependency) -> Option<String> {
    let (_, owners) = OWNERS.iter().find(|(name, _)| *name == dep.name)?;
    let wrong = !dep.is_dev() && !owners.contains(&rule.name);
    wrong.then(|| {
        format!("{} -> {}: only {} may depend on it", rule.name, dep.name, owners.join(", "))
    })
}

fn io_in_pure_crate(rule: &CrateRule, dep: &DeclaredDependency) -> Option<String> {
    let wrong = !dep.is_dev() && PURE.contains(&rule.name) && DOES_IO.contains(&dep.name.as_str());
    wrong.then(|| format!("{} -> {}: {0} does no IO", rule.name, dep.name))
}

fn io_in_tokio_features(rule: &CrateRule, dep: &DeclaredDependency) -> Option<String> {
    if dep.name != "tokio" || dep.is_dev() || !PURE.contains(&rule.name) {
        return None;
    }
    let extra: Vec<&str> = dep
        .features
        .iter()
        .map(String::as_str)
        .filter(|feature| !PURE_TOKIO.contains(feature))
        .collect();
    (!extra.is_empty())
        .then(|| format!("{} -> tokio: feature {} does IO", rule.name, extra.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::metadata::tests::fabricate;

    #[track_caller]
    fn check(member: &str, dependency: serde_json::Value, expected: &[&str]) {
        let package =
            json!({"id": member, "name": member, "version": "0.1.0", "dependencies": [dependency]});
        assert_eq!(findings(&fabricate(json!([package]), &[])), expected);
    }

    #[test]
    fn the_real_workspace_keeps_its_edges() {
        assert_eq!(findings(&Metadata::load().unwrap()), [""; 0]);
    }

    #[test]
    fn an_allowed_edge_is_accepted() {
        check("haft-tools", json!({"name": "haft-core"}), &[]);
        check("haft-macros", json!({"name": "haft-core", "kind": "dev"}), &[]);
        check("haft", json!({"name": "haft-server"}), &[]);
        check("haft-store", json!({"name": "rusqlite"}), &[]);
    }

    #[test]
    fn a_forbidden_edge_is_reported_with_both_names() {
        check(
            "haft-core",
            json!({"name": "haft-tools"}),
            &["haft-core -> haft-tools: haft-core may not depend on haft-tools"],
        );
        check(
            "haft-macros",
            json!({"name": "haft-core", "kind": "build"}),
            &["haft-macros -> haft-core: haft-macros may not depend on haft-core"],
        );
        check(
            "haft-agent",
            json!({"name": "haft-exec", "kind": "dev"}),
            &["haft-agent -> haft-exec: haft-agent may not depend on haft-exec in its tests"],
        );
        check("xtask", json!({"name": "haft"}), &["xtask -> haft: xtask may not depend on haft"]);
    }

    #[test]
    fn an_unknown_crate_is_an_error() {
        check(
            "haft-utils",
            json!({"name": "serde"}),
            &["haft-utils: unknown workspace crate, give it a row in xtask/src/edges.rs"],
        );
    }

    #[test]
    fn a_restricted_crate_has_its_owners() {
        check(
            "haft-server",
            json!({"name": "clap"}),
            &["haft-server -> clap: only haft may depend on it"],
        );
        check(
            "haft-mcp",
            json!({"name": "reqwest"}),
            &["haft-mcp -> reqwest: only haft-exec, haft-agent may depend on it"],
        );
        check("haft-tools", json!({"name": "jsonschema", "kind": "dev"}), &[]);
    }

    #[test]
    fn a_pure_crate_has_no_dependency_with_io() {
        check(
            "haft-core",
            json!({"name": "rustix"}),
            &["haft-core -> rustix: haft-core does no IO"],
        );
        check("haft-core", json!({"name": "tempfile", "kind": "dev"}), &[]);
        check(
            "haft-core",
            json!({"name": "tokio", "features": ["sync", "fs", "net"]}),
            &["haft-core -> tokio: feature fs, net does IO"],
        );
        check("haft-core", json!({"name": "tokio", "features": ["sync", "rt"]}), &[]);
        check("haft", json!({"name": "tokio", "features": ["signal"]}), &[]);
    }
}
