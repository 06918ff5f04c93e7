//! `cargo xtask check`: the checks before any test runs.

use anyhow::Result;

use crate::{docs, edges, metadata::Metadata, msrv, names, shell, step::timed};

pub(crate) fn run() -> Result<()> {
    timed("format", || shell::run(&["cargo", "fmt", "--all", "--check"]))?;
    timed("clippy", || {
        shell::run(&["cargo", "clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
    })?;
    // An unneeded skip would hide the next duplicate.
    let unneeded = "-D unmatched-skip -D unnecessary-skip -D license-not-encountered";
    let deny = format!("cargo deny --locked check {unneeded} bans licenses sources");
    timed("dependencies", || shell::run(&deny.split(' ').collect::<Vec<_>>()))?;
    timed("type names", names::check)?;
    let metadata = Metadata::load()?;
    timed("edges", || edges::check(&metadata))?;
    timed("rust version", || msrv::check(&metadata))?;
    timed("generated pages", || docs::run(docs::PageMode::Compare))
}
