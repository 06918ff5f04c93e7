//! What `cargo metadata` says, cut down to the fields our rules read. The rules are elsewhere.

use std::collections::{HashMap, HashSet};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::shell;

#[derive(Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_members: Vec<String>,
    #[serde(default)]
    pub(crate) resolve: Resolve,
}

#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) rust_version: Option<String>,
    #[serde(default)]
    pub(crate) dependencies: Vec<Declared>,
}

/// A dependency as the manifest has it, under its real name also when renamed.
#[derive(Deserialize)]
pub(crate) struct Declared {
    pub(crate) name: String,
    pub(crate) kind: Option<Kind>,
    #[serde(default)]
    pub(crate) features: Vec<String>,
}

/// Absent for a normal dependency.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Dev,
    Build,
}

#[derive(Default, Deserialize)]
pub(crate) struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Resolved>,
}

#[derive(Deserialize)]
struct Resolved {
    pkg: String,
    dep_kinds: Vec<DepKind>,
}

#[derive(Deserialize)]
struct DepKind {
    kind: Option<Kind>,
}

impl Declared {
    pub(crate) fn is_dev(&self) -> bool {
        self.kind == Some(Kind::Dev)
    }
}

impl Resolved {
    fn is_built(&self) -> bool {
        self.dep_kinds.iter().any(|dep| dep.kind != Some(Kind::Dev))
    }
}

impl Metadata {
    /// For this host only: what other platforms would add is neither built nor downloaded here.
    pub(crate) fn load() -> Result<Self> {
        let host = shell::rustc_says("host")?;
        let line =
            format!("cargo metadata --quiet --locked --format-version 1 --filter-platform {host}");
        serde_json::from_str(&shell::capture(&line.split(' ').collect::<Vec<_>>())?)
            .context("cargo metadata printed an unknown shape")
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }

    /// Packages that normal and build edges reach from the workspace: all but what only tests see.
    pub(crate) fn built(&self) -> Vec<&Package> {
        let nodes: HashMap<&str, &Node> =
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

    /// A made-up workspace: `packages` as cargo prints them, `edges` as (from, to, kind); what is
    /// called `haft…` or `xtask` is a member.
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
    fn dev_edges_do_not_reach_but_build_edges_do() {
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
