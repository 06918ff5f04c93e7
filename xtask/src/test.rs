//! `cargo xtask test`: everything that must be green before a change is taken.

use anyhow::Result;

use crate::{
    check, setup, shell,
    step::{last, timed},
};

/// Examples and benches have no step of their own: both runners link every example, and clippy has
/// checked the benches.
pub(crate) fn run() -> Result<()> {
    timed("setup", setup::run)?;
    check::run()?;
    if !shell::works(setup::NEXTEST) {
        return last("tests", || shell::run(&["cargo", "test", "--workspace", "--no-fail-fast"]));
    }
    // nextest leaves doc tests out. They come first so that its summary, with the count of tests,
    // closes the output.
    timed("doc tests", || shell::run(&["cargo", "test", "--workspace", "--doc"]))?;
    last("tests", || shell::run(&["cargo", "nextest", "run", "--workspace", "--no-fail-fast"]))
}
