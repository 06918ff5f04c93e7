//! `cargo xtask test`: everything that must be green before a change is taken.

use anyhow::Result;

use crate::{
    check,
    postgres::{self, Server},
    programs, setup, shell,
    step::{last, timed},
};

/// Benches have no step of their own: clippy has checked them.
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
    // nextest leaves doc tests out. They come first so that its summary, with the count of tests,
    // closes the output.
    timed("doc tests", || shell::run(&["cargo", "test", "--workspace", "--doc"]))?;
    last("tests", || tests(&["cargo", "nextest", "run", "--workspace", "--no-fail-fast"]))
}

/// On a developer's machine a gap is told and work goes on; in CI it would hide what is not tested.
fn timed_server() -> Result<Option<Server>> {
    let mut server = None;
    timed("PostgreSQL", || {
        match Server::start() {
            Ok(started) => server = Some(started),
            Err(error) if setup::in_ci() => return Err(error),
            Err(error) => println!("    no PostgreSQL, so only SQLite is tested: {error:#}"),
        }
        Ok(())
    })?;
    Ok(server)
}
