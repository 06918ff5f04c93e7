//! `cargo xtask check`: what must hold before any test runs.

use anyhow::Result;

use crate::{deny, docs, edges, metadata::Metadata, msrv, shell, step::timed};

pub(crate) fn run() -> Result<()> {
    timed("format", || shell::run(&["cargo", "fmt", "--all", "--check"]))?;
    timed("clippy", || {
        shell::run(&["cargo", "clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
    })?;
    let metadata = Metadata::load()?;
    timed("dependencies", || deny::check(&metadata))?;
    timed("edges", || edges::check(&metadata))?;
    timed("rust version", || msrv::check(&metadata))?;
    timed("generated pages", || docs::run(docs::Mode::Compare))
}
