//! `cargo xtask test`: everything that must pass before a change is accepted.

use anyhow::Result;

use crate::{
    check,
    postgres::{self, TestServer},
    programs, setup, shell,
    step::{last, timed},
};

/// Benches have no separate step: clippy has checked them.
pub(crate) fn run() -> Result<()> {
    timed("setup", setup::run)?;
    check::run()?;
    timed("examples", programs::run_examples)?;
    let postgres = timed_server()?;
    let url = postgres.as_ref().map_or("", |server| &server.url);
    let tests = |words: &[&str]| shell::run_with(words, &[(postgres::VARIABLE, url)]);
    if !shell::works(setup::NEXTEST) {
        return last("tests", || tests(&["cargo", "test", "--workspace", "--no-fail-fast"]));
    }
    // nextest skips doc tests. They run first, so that the summary of nextest, with the count of
    // tests, is the last output.
    timed("doc tests", || shell::run(&["cargo", "test", "--workspace", "--doc"]))?;
    last("tests", || tests(&["cargo", "nextest", "run", "--workspace", "--no-fail-fast"]))
}

/// On a developer's machine a missing server is only reported; in CI it is an error, because it
/// would hide what is not tested.
fn timed_server() -> Result<Option<TestServer>> {
    let mut server = None;
    timed("PostgreSQL", || {
        match TestServer::start() {
            Ok(started) => server = Some(started),
            Err(error) if setup::in_ci() => return Err(error),
            Err(error) => println!("    no PostgreSQL, only SQLite is tested: {error:#}"),
        }
        Ok(())
    })?;
    Ok(server)
}
