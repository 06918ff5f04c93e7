//! `haft sample DIR`: a small project to try haft in. Its README is a walk through the tools, and a
//! test runs that walk.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Arg, ArgMatches, Command, ValueHint, value_parser};
use haft_core::ToolError;

use crate::{stop::Stop, terminal::write_out};

struct SampleFile {
    path: &'static str,
    text: &'static str,
    mode: u32,
}

/// The files of the project. Executable are those that a person or an agent runs.
const FILES: &[SampleFile] = &[
    SampleFile { path: "README.md", text: include_str!("../sample/README.md"), mode: 0o644 },
    SampleFile { path: "greet.sh", text: include_str!("../sample/greet.sh"), mode: 0o755 },
    SampleFile { path: "test.sh", text: include_str!("../sample/test.sh"), mode: 0o755 },
    SampleFile { path: ".env", text: include_str!("../sample/env"), mode: 0o600 },
    SampleFile { path: ".gitignore", text: ".env\n.haft/*\n!.haft/config.toml\n", mode: 0o644 },
    SampleFile {
        path: ".haft/config.toml",
        text: include_str!("../sample/config.toml"),
        mode: 0o644,
    },
    SampleFile { path: "private/notes.md", text: include_str!("../sample/notes.md"), mode: 0o644 },
];

pub(super) fn command() -> Command {
    let directory = Arg::new("directory")
        .value_name("DIR")
        .help("The folder to make; it must not exist yet, or be empty")
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::DirPath)
        .required(true);
    Command::new("sample")
        .about("Make a small project to try haft in, with a ten-minute walk in its README")
        .arg(directory)
}

pub(super) fn run(matches: &ArgMatches) -> Result<ExitCode, Stop> {
    let directory = matches.get_one::<PathBuf>("directory").expect("clap requires it");
    write(directory)?;
    let shown = directory.display();
    write_out(&format!(
        "Made a sample project in {shown}.\n\nNext:\n  cd {shown}\n  haft bash ./test.sh     # one test fails\n  haft read README.md     # the walk: ten minutes\n"
    ))
    .map_err(Stop::Output)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the project. An existing folder is used only when it is empty, and no file is ever
/// replaced.
///
/// # Errors
/// Of kind `conflict` when the folder holds something, or the kind of the failed write.
fn write(directory: &Path) -> Result<(), ToolError> {
    let shown = directory.display();
    match fs::read_dir(directory) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                return Err(ToolError::conflict(format!("`{shown}` is not empty"))
                    .hint("name a folder that does not exist yet, such as `haft sample demo`"));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(cannot_write(directory, error)),
    }
    for file in FILES {
        let path = directory.join(file.path);
        write_file(&path, file).map_err(|error| cannot_write(&path, error))?;
    }
    Ok(())
}

fn write_file(path: &Path, file: &SampleFile) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    }
    let mut opened =
        fs::OpenOptions::new().write(true).create_new(true).mode(file.mode).open(path)?;
    opened.write_all(file.text.as_bytes())
}

fn cannot_write(path: &Path, error: io::Error) -> ToolError {
    let path = path.display();
    let (message, hint) = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            (format!("permission denied: `{path}`"), "choose a folder that you may write to")
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            (format!("`{path}` exists and is not a folder"), "choose another name")
        }
        _ => (format!("cannot write `{path}`: {error}"), "choose another folder"),
    };
    ToolError::unavailable(message).hint(hint).caused_by(error)
}
