//! The figures of the file tools. `haft bench` measures them, for everybody; this only runs it.

use std::{
    path::Path,
    process::{Command, ExitCode},
};

fn main() -> ExitCode {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let status =
        Command::new(env!("CARGO_BIN_EXE_haft")).arg("bench").arg("--dir").arg(folder).status();
    if status.is_ok_and(|status| status.success()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
