//! The output of `cargo metadata`, reduced to the fields that the rules read.

use std::collections::{HashMap, HashSet};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::shell;

#[derive(Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_members: Vec<String>,
    #[serde(default)]
    pub(crate) resolve: ResolvedGraph,
}

#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) rust_version: Option<String>,
    #[serde(default)]
    pub(crate) dependencies: Vec<DeclaredDependency>,
}

/// A dependency in a manifest, under its real name even if renamed.
#[derive(Deserialize)]
pub(crate) struct DeclaredDependency {
    pub(crate) name: String,
    pub(crate) kind: Option<DependencyKind>,
    #[serde(default)]
    pub(crate) features: Vec<String>,
}

/// The kind of a dependency; absent for a normal one.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DependencyKind {
    Dev,
    Build,
}

#[derive(Default, Deserialize)]
pub(crate) struct ResolvedGraph {
    nodes: Vec<PackageNode>,
}

#[derive(Deserialize)]
struct PackageNode {
    id: String,
    deps: Vec<ResolvedDependency>,
}

#[derive(Deserialize)]
struct ResolvedDependency {
    pkg: String,
    dep_kinds: Vec<DepKind>,
}

#[derive(Deserialize)]
struct DepKind {
    kind: Option<DependencyKind>,
}

impl DeclaredDependency {
    pub(crate) fn is_dev(&self) -> bool {
        self.kind == Some(DependencyKind::Dev)
    }
}

impl ResolvedDependency {
    fn is_built(&self) -> bool {
        self.dep_kinds.iter().any(|dep| dep.kind != Some(DependencyKind::Dev))
    }
}

impl Metadata {
    /// Loads the metadata for this host only: dependencies of other platforms are not downloaded.
    pub(crate) fn load() -> Result<Self> {
        let host = shell::rustc_field("host")?;
        let line =
            format!("cargo metadata --quiet --locked --format-version 1 --filter-platform {host}");
        serde_json::from_str(&shell::capture(&line.split(' ').collect::<Vec<_>>())?)
            .context("cannot parse the output of cargo metadata")
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }

    /// Returns the packages that are built: those that normal and build dependencies of the
    /// workspace reach, without those that only tests need.
    pub(crate) fn built(&self) -> Vec<&Package> {
        let nodes: HashMap<&str, &PackageNode> =
            self.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
        let mut reached = HashSet::new();
        let mut waiting: Vec<&str> = self.workspace_members.iter().map(String::as_str).collect();
        while let Some(id) = waiting.pop() {
            if reached.insert(id) {
                let edges = nodes.get(id).map_or(&[][..], |node| &node.deps);
                waiting
                    .extend(edges.iter().filter(|dep| dep.is_built()).map(|dep| dep.pkg.as_str()));
            }
        }
        self.packages.iter().filter(|package| reached.contains(package.id.as_str())).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Creates a workspace: `packages` as cargo prints them, `edges` as (from, to, kind). Packages
    /// whose name begins with `haft` or `xtask` are members.
    pub(crate) fn fabricate(packages: Value, edges: &[(&str, &str, Option<&str>)]) -> Metadata {
        let ids: Vec<String> = packages
            .as_array()
            .unwrap()
            .iter()
            .map(|p| p["id"].as_str().unwrap().to_owned())
            .collect();
        let node = |id: &String| {
            let deps: Vec<Value> = edges
                .iter()
                .filter(|edge| edge.0 == id)
                .map(|edge| json!({"pkg": edge.1, "dep_kinds": [{"kind": edge.2}]}))
                .collect();
            json!({"id": id, "deps": deps})
        };
        let nodes: Vec<Value> = ids.iter().map(node).collect();
        let members: Vec<&String> =
            ids.iter().filter(|id| id.starts_with("haft") || id.starts_with("xtask")).collect();
        let resolve = json!({"nodes": nodes});
        let whole = json!({"packages": packages, "workspace_members": members, "resolve": resolve});
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn build_dependencies_are_built_and_dev_dependencies_are_not() {
        let package = |id: &str| json!({"id": id, "name": id, "version": "1.0.0"});
        let metadata = fabricate(
            json!([package("haft"), package("cc"), package("insta"), package("similar")]),
            &[
                ("haft", "cc", Some("build")),
                ("haft", "insta", Some("dev")),
                ("insta", "similar", None),
            ],
        );
        let names: Vec<&str> =
            metadata.built().iter().map(|package| package.name.as_str()).collect();
        assert_eq!(names, ["haft", "cc"]);
    }

    #[test]
    fn the_real_workspace_loads() {
        let metadata = Metadata::load().unwrap();
        let xtask = metadata.members().find(|package| package.name == "xtask").unwrap();
        assert!(xtask.dependencies.iter().any(|dep| dep.name == "anyhow"));
        assert!(metadata.built().iter().any(|package| package.name == "anyhow"));
    }
}
