//! `cargo xtask test`: everything that must be green before a change is taken.

use anyhow::Result;

use crate::{
    check, programs, setup, shell,
    step::{last, timed},
};

/// Benches have no step of their own: clippy has checked them.
pub(crate) fn run() -> Result<()> {
    timed("setup", setup::run)?;
    check::run()?;
    timed("examples", programs::run_examples)?;
    if !shell::works(setup::NEXTEST) {
        return last("tests", || shell::run(&["cargo", "test", "--workspace", "--no-fail-fast"]));
    }
    // nextest leaves doc tests out. They come first so that its summary, with the count of tests,
    // closes the output.
    timed("doc tests", || shell::run(&["cargo", "test", "--workspace", "--doc"]))?;
    last("tests", || shell::run(&["cargo", "nextest", "run", "--workspace", "--no-fail-fast"]))
}
