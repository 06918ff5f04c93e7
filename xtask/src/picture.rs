//! The terminal picture of the README: commands that really run in a fresh sample project, with the colours they print on a
//! terminal, as SVG.

use std::{fs, path::Path, process::Stdio};

use anyhow::{Context, Result};

use crate::shell;

/// What the picture shows, in this order.
const COMMANDS: &[&str] = &[
    "haft bash ./test.sh",
    "haft edit greet.sh Bonjuor Bonjour",
    "haft undo | head -2",
    "haft bash 'cat .env'",
];
const COLUMNS: u16 = 92;
pub(crate) const PATH: &str = "docs/haft.svg";

/// Runs the commands with this binary.
pub(crate) fn render(haft: &Path) -> Result<String> {
    let folder = haft.with_file_name("xtask-picture");
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    let home = folder.join("home");
    fs::create_dir_all(&home).with_context(|| format!("cannot create {}", home.display()))?;
    run(haft, &home, &folder, "haft sample demo >/dev/null")?;
    let mut screen = String::new();
    for line in COMMANDS {
        let printed = run(haft, &home, &folder.join("demo"), line)?;
        screen.push_str(&format!(
            "\u{1b}[1;32m$\u{1b}[0m \u{1b}[1m{line}\u{1b}[0m\n{}\n\n",
            printed.trim_end()
        ));
    }
    Ok(anstyle_svg::Term::new().render_svg(screen.trim_end()) + "\n")
}

/// Returns what the commands print on a terminal.
fn run(haft: &Path, home: &Path, folder: &Path, commands: &str) -> Result<String> {
    let programs = haft.parent().context("a program lies in a folder")?;
    let on_terminal = format!("stty cols {COLUMNS} rows 60; {commands}");
    let mut command = shell::command(&["script", "-q", "-c", &on_terminal, "/dev/null"]);
    command.current_dir(folder).stdin(Stdio::null()).env_clear();
    command.env("HOME", home).env("TERM", "xterm-256color").env("SHELL", "/bin/bash");
    command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display()));
    // A denied call is part of the picture, so the exit code does not count.
    let ran = command.output().context("`script` (package bsdutils) does not start")?;
    let text = String::from_utf8(ran.stdout).context("the screen is not text")?;
    let home = home.to_str().context("the target folder's path is not utf-8")?;
    Ok(text.replace("\r\n", "\n").replace(home, "~"))
}
