//! `cargo xtask docs`: writes the pages that haft generates about itself. They are committed, and
//! `check` fails when one is stale.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, Result, bail};

use crate::{picture, programs, shell, step};

struct GeneratedPage {
    path: &'static str,
    /// Arguments of `haft` that print the page.
    arguments: &'static [&'static str],
}

const PAGES: &[GeneratedPage] = &[
    GeneratedPage { path: "docs/haft.1", arguments: &["man"] },
    GeneratedPage { path: "docs/tools.md", arguments: &["tools", "--format", "markdown"] },
    GeneratedPage { path: "docs/cli.md", arguments: &["reference", "cli"] },
    GeneratedPage { path: "docs/config.md", arguments: &["reference", "config"] },
    GeneratedPage {
        path: "docs/schemas/config.schema.json",
        arguments: &["reference", "config-schema"],
    },
    GeneratedPage {
        path: "docs/schemas/outcome.schema.json",
        arguments: &["reference", "outcome-schema"],
    },
    GeneratedPage {
        path: "crates/haft-tools/src/schemas.txt",
        arguments: &["reference", "tool-schemas"],
    },
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PageMode {
    Write,
    Compare,
}

pub(crate) fn run(mode: PageMode) -> Result<()> {
    let programs = programs::build()?;
    let haft = programs::named(&programs, programs::ProgramKind::Bin, "haft")?;
    let mut stale = Vec::new();
    let pages = PAGES.iter().map(|page| Ok((page.path, render(haft, page)?)));
    for page in pages.chain([picture::render(haft).map(|picture| (picture::PATH, picture))]) {
        let (name, fresh) = page?;
        let path = shell::root().join(name);
        match mode {
            PageMode::Write => write(&path, &fresh)?,
            PageMode::Compare => stale.extend(staleness(name, &path, &fresh)),
        }
    }
    step::none_of(&stale)
}

/// Runs haft isolated from this machine: no variables, and an empty home.
fn render(haft: &Path, page: &GeneratedPage) -> Result<String> {
    let home = empty_home(haft)?;
    let line = format!("haft {}", page.arguments.join(" "));
    let mut command =
        shell::command(&[haft.to_str().context("the path of the target folder is not UTF-8")?]);
    command.args(page.arguments).stdin(Stdio::null()).env_clear();
    command.env("HOME", &home).env("XDG_CONFIG_HOME", &home);
    let text = shell::output_of(&mut command, &line)?;
    check_output(&line, &text, &[shell::root(), &home])?;
    Ok(text)
}

fn empty_home(haft: &Path) -> Result<PathBuf> {
    let home = haft.with_file_name("xtask-empty-home");
    if home.exists() {
        fs::remove_dir_all(&home).with_context(|| format!("cannot empty {}", home.display()))?;
    }
    fs::create_dir(&home).with_context(|| format!("cannot create {}", home.display()))?;
    Ok(home)
}

/// Refuses an empty page, and a page with a path of this machine, which would be stale everywhere
/// else.
fn check_output(line: &str, text: &str, private: &[&Path]) -> Result<()> {
    if text.trim().is_empty() {
        bail!("`{line}` printed nothing");
    }
    for path in private {
        if text.contains(&*path.to_string_lossy()) {
            bail!("`{line}` printed {}, which is a path of this machine", path.display());
        }
    }
    Ok(())
}

fn write(path: &Path, fresh: &str) -> Result<()> {
    let folder = path.parent().context("a page is in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    fs::write(path, fresh).with_context(|| format!("cannot write {}", path.display()))
}

fn staleness(name: &str, path: &Path, fresh: &str) -> Option<String> {
    let same = fs::read_to_string(path).is_ok_and(|committed| committed == fresh);
    (!same).then(|| format!("{name} is stale: run `cargo xtask docs`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_stale_when_it_differs_or_is_missing() {
        let licence = shell::root().join("LICENSE-MIT");
        let text = fs::read_to_string(&licence).unwrap();
        assert_eq!(staleness("page", &licence, &text), None);
        let stale = Some("page is stale: run `cargo xtask docs`".to_owned());
        assert_eq!(staleness("page", &licence, "other"), stale);
        assert_eq!(staleness("page", &shell::root().join("no-such-page"), ""), stale);
    }

    #[test]
    fn an_empty_page_or_a_private_path_is_refused() {
        let home = Path::new("/home/ada");
        assert!(check_output("haft man", "a page", &[home]).is_ok());
        assert_eq!(
            check_output("haft man", "\n", &[home]).unwrap_err().to_string(),
            "`haft man` printed nothing"
        );
        let message = check_output("haft man", "see /home/ada/x", &[home]).unwrap_err().to_string();
        assert_eq!(message, "`haft man` printed /home/ada, which is a path of this machine");
    }
}
