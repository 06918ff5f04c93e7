//! `cargo xtask setup`: the programs that the tests need. A new need is a new row in `COMPONENTS`.

use anyhow::Result;

use crate::{shell, step};

pub(crate) const NEXTEST: &[&str] = &["cargo", "nextest", "--version"];

const COMPONENTS: &[Component] = &[
    required(
        "rustfmt",
        &["cargo", "fmt", "--version"],
        "the format check",
        Install::Rustup("rustfmt"),
    ),
    required("clippy", &["cargo", "clippy", "--version"], "the lints", Install::Rustup("clippy")),
    required("git", &["git", "--version"], "tests in real repositories", Install::Apt("git")),
    required("tmux", &["tmux", "-V"], "tests of prompts in a real terminal", Install::Apt("tmux")),
    Component {
        name: "cargo-nextest",
        probe: NEXTEST,
        needed_for: "faster tests; `cargo test` runs them otherwise",
        need: Need::Optional,
        install: Install::Cargo("cargo-nextest"),
    },
    Component {
        name: "ripgrep",
        probe: &["rg", "--version"],
        needed_for: "rows of `haft bench`",
        need: Need::Bench,
        install: Install::Cargo("ripgrep"),
    },
    Component {
        name: "fd",
        probe: &["fd", "--version"],
        needed_for: "rows of `haft bench`",
        need: Need::Bench,
        install: Install::Cargo("fd-find"),
    },
];

struct Component {
    name: &'static str,
    /// Really run: present is what exits with 0.
    probe: &'static [&'static str],
    needed_for: &'static str,
    need: Need,
    install: Install,
}

#[derive(Clone, Copy, PartialEq)]
enum Need {
    Required,
    /// Used where it is; never installed, never missed.
    Optional,
    /// Only to compare with, by `cargo xtask bench`.
    Bench,
}

/// Each by the package's name: where it comes from is the machine's own configuration.
#[derive(Clone, Copy)]
enum Install {
    Apt(&'static str),
    Cargo(&'static str),
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the first row that comes from npm takes this line away")
    )]
    Npm(&'static str),
    Rustup(&'static str),
}

/// Who we are to apt.
#[derive(Clone, Copy)]
enum Rights {
    Root,
    Sudo,
    None,
}

const fn required(
    name: &'static str,
    probe: &'static [&'static str],
    needed_for: &'static str,
    install: Install,
) -> Component {
    Component { name, probe, needed_for, need: Need::Required, install }
}

pub(crate) fn run() -> Result<()> {
    let is_for_tests = |component: &&Component| component.need != Need::Bench;
    let mut missing: Vec<&Component> = COMPONENTS
        .iter()
        .filter(is_for_tests)
        .filter(|component| !shell::works(component.probe))
        .collect();
    if !missing.is_empty() {
        install(&missing, rights());
        missing.retain(|component| !shell::works(component.probe));
    }
    verdict(&missing, in_ci())
}

/// Installs what `haft bench` compares with. What cannot be had is a row without a ratio.
pub(crate) fn for_bench() {
    let rows = COMPONENTS.iter().filter(|component| component.need == Need::Bench);
    let missing: Vec<&Component> = rows.filter(|row| !shell::works(row.probe)).collect();
    install(&missing, rights());
}

fn install(missing: &[&Component], rights: Rights) {
    let needed: Vec<&Component> =
        missing.iter().filter(|component| component.need != Need::Optional).copied().collect();
    let apt = |component: &&Component| matches!(component.install, Install::Apt(_));
    let mut lines = Vec::new();
    // The lists may be older than the packages they name; fetching them once is enough for all.
    if needed.iter().any(apt) {
        lines.extend(with_rights(rights, "apt-get update"));
    }
    lines.extend(needed.iter().filter_map(|component| install_line(component.install, rights)));
    for line in lines {
        println!("    {line}");
        if let Err(error) = shell::run(&line.split(' ').collect::<Vec<_>>()) {
            println!("    {error:#}");
        }
    }
}

/// `None` where we may not install.
fn install_line(install: Install, rights: Rights) -> Option<String> {
    match install {
        Install::Apt(_) => with_rights(rights, &advice(install)),
        Install::Cargo(_) | Install::Npm(_) | Install::Rustup(_) => Some(advice(install)),
    }
}

/// The bare command, as a person would type it with the rights it needs.
fn advice(install: Install) -> String {
    match install {
        Install::Apt(package) => format!("apt-get install --yes --no-install-recommends {package}"),
        Install::Cargo(package) => format!("cargo install --locked {package}"),
        Install::Npm(package) => format!("npm install --global {package}"),
        Install::Rustup(component) => format!("rustup component add {component}"),
    }
}

/// `env` because sudo would drop a variable set on itself.
fn with_rights(rights: Rights, line: &str) -> Option<String> {
    let quiet = format!("env DEBIAN_FRONTEND=noninteractive {line}");
    match rights {
        Rights::Root => Some(quiet),
        Rights::Sudo => Some(format!("sudo -n {quiet}")),
        Rights::None => None,
    }
}

fn rights() -> Rights {
    if shell::capture(&["id", "-u"]).is_ok_and(|id| id.trim() == "0") {
        Rights::Root
    } else if shell::works(&["sudo", "-n", "true"]) {
        Rights::Sudo
    } else {
        Rights::None
    }
}

/// On a developer's machine a gap is told and work goes on; in CI it would hide what is not tested.
fn verdict(missing: &[&Component], in_ci: bool) -> Result<()> {
    let (required, optional): (Vec<&Component>, _) =
        missing.iter().copied().partition(|component| component.need == Need::Required);
    optional.iter().for_each(|component| println!("    {}", tell(component)));
    let gaps: Vec<String> = required.iter().map(|component| tell(component)).collect();
    if in_ci {
        return step::none_of(&gaps);
    }
    gaps.iter().for_each(|gap| println!("    {gap}"));
    Ok(())
}

fn tell(component: &Component) -> String {
    let Component { name, needed_for, .. } = component;
    format!("{name} is missing (for {needed_for}): `{}`", advice(component.install))
}

#[expect(clippy::disallowed_methods, reason = "the one door of xtask to the environment")]
fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GHOST: Component =
        required("ghost", &["haft-no-such-program"], "nothing", Install::Apt("ghost-package"));

    #[test]
    fn in_ci_a_missing_component_fails_with_the_command_that_mends_it() {
        let message = verdict(&[&GHOST], true).unwrap_err().to_string();
        let command = "apt-get install --yes --no-install-recommends ghost-package";
        assert_eq!(message, format!("ghost is missing (for nothing): `{command}`"));
        assert!(verdict(&[&GHOST], false).is_ok());
    }

    #[test]
    fn an_optional_component_never_fails() {
        let optional = Component { need: Need::Optional, ..GHOST };
        assert!(verdict(&[&optional], true).is_ok());
    }

    #[test]
    fn a_component_is_present_only_if_it_runs() {
        assert!(!shell::works(GHOST.probe));
        assert!(
            !shell::works(&["git", "no-such-subcommand"]),
            "the program is there, what we need is not"
        );
    }

    #[test]
    fn apt_needs_rights_and_the_others_do_not() {
        let apt = |rights| install_line(Install::Apt("tmux"), rights);
        let bare =
            "env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends tmux";
        assert_eq!(apt(Rights::Root).unwrap(), bare);
        assert_eq!(apt(Rights::Sudo).unwrap(), format!("sudo -n {bare}"));
        assert_eq!(apt(Rights::None), None);
        let npm = install_line(Install::Npm("eslint"), Rights::None);
        assert_eq!(npm.unwrap(), "npm install --global eslint");
    }
}
