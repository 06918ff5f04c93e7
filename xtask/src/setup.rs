//! `cargo xtask setup`: installs the programs that the tests need. Each has a row in `COMPONENTS`.

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
    required(
        "cargo-deny",
        &["cargo", "deny", "--version"],
        "the rules of deny.toml",
        Install::Cargo("cargo-deny"),
    ),
    required("git", &["git", "--version"], "tests in real repositories", Install::Apt("git")),
    required("tmux", &["tmux", "-V"], "tests of prompts in a real terminal", Install::Apt("tmux")),
    required(
        "bubblewrap",
        &["bwrap", "--version"],
        "tests of the sandbox",
        Install::Apt("bubblewrap"),
    ),
    required("zsh", &["zsh", "--version"], "tests of shell completion", Install::Apt("zsh")),
    required("fish", &["fish", "--version"], "tests of shell completion", Install::Apt("fish")),
    required("strace", &["strace", "--version"], "the shell fuzzer", Install::Apt("strace")),
    required("podman", &["podman", "--version"], "tests of containers", Install::Apt("podman")),
    required("crun", &["crun", "--version"], "tests of containers", Install::Apt("crun")),
    required(
        "busybox",
        &["busybox", "true"],
        "the image that containers are tested with",
        Install::Apt("busybox-static"),
    ),
    required(
        "an image for containers",
        &[
            "target/tools/containers/podman",
            "run",
            "--rm",
            "--pull",
            "never",
            "--network",
            "none",
            "--entrypoint",
            "bash",
            "haft-test",
            "-c",
            "true",
        ],
        "tests of containers",
        Install::Script("xtask/src/setup/containers.sh"),
    ),
    required(
        "Docker's command line",
        &["target/tools/containers/docker", "version"],
        "tests of containers with Docker",
        Install::Script("xtask/src/setup/docker.sh"),
    ),
    required(
        "D-Bus",
        &["dbus-run-session", "--version"],
        "tests with a real keyring",
        Install::Apt("dbus"),
    ),
    required(
        "a keyring",
        &["gnome-keyring-daemon", "--version"],
        "tests with a real keyring",
        Install::Apt("gnome-keyring"),
    ),
    required(
        "PostgreSQL",
        &["sh", "-c", "/usr/lib/postgresql/*/bin/initdb --version"],
        "tests of the store",
        Install::Apt("postgresql"),
    ),
    required(
        "the MCP conformance suite and Inspector",
        &[
            "sh",
            "-c",
            "cd target/tools/npm/node_modules/.bin && test -x conformance -a -x mcp-inspector && ./node --version",
        ],
        "tests with foreign MCP clients",
        Install::Npm(&[
            // The suite and the Inspector need a newer Node than Debian has.
            "node@22.23.3",
            "@modelcontextprotocol/conformance@0.2.0-alpha.12",
            "@modelcontextprotocol/inspector@2.12.0",
        ]),
    ),
    required(
        "Python with the SDKs of MCP and of the model providers",
        &["target/tools/python/bin/python", "-c", "import mcp, anthropic, openai, google.genai"],
        "tests with foreign MCP clients, and checks of model formats",
        Install::Pip(&["mcp==2.3.0", "anthropic==2.8.0", "openai==3.49.0", "google-genai==3.1.0"]),
    ),
    Component {
        name: "cargo-nextest",
        probe: NEXTEST,
        needed_for: "faster tests; `cargo test` runs them otherwise",
        need: Requirement::Optional,
        install: Install::Cargo("cargo-nextest"),
    },
    Component {
        name: "ripgrep",
        probe: &["rg", "--version"],
        needed_for: "rows of `cargo xtask bench`",
        need: Requirement::Bench,
        install: Install::Cargo("ripgrep"),
    },
    Component {
        name: "fd",
        probe: &["fd", "--version"],
        needed_for: "rows of `cargo xtask bench`",
        need: Requirement::Bench,
        install: Install::Cargo("fd-find"),
    },
];

struct Component {
    name: &'static str,
    /// Command that exits with 0 if the component works.
    probe: &'static [&'static str],
    needed_for: &'static str,
    need: Requirement,
    install: Install,
}

#[derive(Clone, Copy, PartialEq)]
enum Requirement {
    Required,
    /// Used if present; never installed, never reported as an error.
    Optional,
    /// Needed only for the comparisons of `cargo xtask bench`.
    Bench,
}

/// The package to install. The machine's own configuration decides where it comes from.
#[derive(Clone, Copy)]
enum Install {
    Apt(&'static str),
    Cargo(&'static str),
    /// All in one call, below `target/tools/npm`: npm removes packages that the call does not name.
    Npm(&'static [&'static str]),
    /// All in one call, in a separate environment in `target/tools/python`.
    Pip(&'static [&'static str]),
    Rustup(&'static str),
    /// A script of this repository, which creates something below `target/tools`.
    Script(&'static str),
}

/// How apt can be run.
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
    Component { name, probe, needed_for, need: Requirement::Required, install }
}

pub(crate) fn run() -> Result<()> {
    let is_for_tests = |component: &&Component| component.need != Requirement::Bench;
    let mut missing: Vec<&Component> = COMPONENTS
        .iter()
        .filter(is_for_tests)
        .filter(|component| !shell::works(component.probe))
        .collect();
    if !missing.is_empty() {
        install(&missing, rights());
        missing.retain(|component| !shell::works(component.probe));
    }
    report(&missing, in_ci())
}

/// Installs the programs that the benchmark compares with. A missing one is a row without a ratio.
pub(crate) fn for_bench() {
    let rows = COMPONENTS.iter().filter(|component| component.need == Requirement::Bench);
    let missing: Vec<&Component> = rows.filter(|row| !shell::works(row.probe)).collect();
    install(&missing, rights());
}

fn install(missing: &[&Component], rights: Rights) {
    let needed: Vec<&Component> = missing
        .iter()
        .filter(|component| component.need != Requirement::Optional)
        .copied()
        .collect();
    let apt = |component: &&Component| matches!(component.install, Install::Apt(_));
    let mut lines = Vec::new();
    // Package lists may be outdated; update them once for all packages.
    if needed.iter().any(apt) {
        lines.extend(with_rights(rights, "apt-get update"));
    }
    lines.extend(needed.iter().flat_map(|component| install_lines(component.install, rights)));
    for line in lines {
        println!("    {line}");
        if let Err(error) = shell::run(&line.split(' ').collect::<Vec<_>>()) {
            println!("    {error:#}");
        }
    }
}

/// Returns the commands to install; none without the rights to install.
fn install_lines(install: Install, rights: Rights) -> Vec<String> {
    match install {
        Install::Apt(_) => {
            advice(install).iter().filter_map(|line| with_rights(rights, line)).collect()
        }
        _ => advice(install),
    }
}

/// Returns the plain commands, as a user with the needed rights would type them.
fn advice(install: Install) -> Vec<String> {
    match install {
        Install::Apt(package) => {
            vec![format!("apt-get install --yes --no-install-recommends {package}")]
        }
        Install::Cargo(package) => vec![format!("cargo install --locked {package}")],
        Install::Npm(packages) => {
            let options = "--prefix target/tools/npm --no-save --no-audit --no-fund";
            vec![format!("npm install {options} {}", packages.join(" "))]
        }
        Install::Pip(packages) => vec![
            "python3 -m venv target/tools/python".to_owned(),
            format!("target/tools/python/bin/pip install --quiet {}", packages.join(" ")),
        ],
        Install::Rustup(component) => vec![format!("rustup component add {component}")],
        Install::Script(script) => vec![format!("bash {script}")],
    }
}

/// Adds the rights to a command. It uses `env`, because sudo would drop the variable.
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

/// Reports missing components. On a developer's machine work goes on; in CI it is an error, because
/// it would hide what is not tested.
fn report(missing: &[&Component], in_ci: bool) -> Result<()> {
    let (required, optional): (Vec<&Component>, _) =
        missing.iter().copied().partition(|component| component.need == Requirement::Required);
    optional.iter().for_each(|component| println!("    {}", describe(component)));
    let gaps: Vec<String> = required.iter().map(|component| describe(component)).collect();
    if in_ci {
        return step::none_of(&gaps);
    }
    gaps.iter().for_each(|gap| println!("    {gap}"));
    Ok(())
}

fn describe(component: &Component) -> String {
    let Component { name, needed_for, .. } = component;
    format!("{name} is missing (for {needed_for}): `{}`", advice(component.install).join(" && "))
}

#[expect(clippy::disallowed_methods, reason = "the only place where xtask reads the environment")]
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GHOST: Component =
        required("ghost", &["haft-no-such-program"], "nothing", Install::Apt("ghost-package"));

    #[test]
    fn in_ci_a_missing_component_fails_with_the_command_to_install_it() {
        let message = report(&[&GHOST], true).unwrap_err().to_string();
        let command = "apt-get install --yes --no-install-recommends ghost-package";
        assert_eq!(message, format!("ghost is missing (for nothing): `{command}`"));
        assert!(report(&[&GHOST], false).is_ok());
    }

    #[test]
    fn an_optional_component_never_fails() {
        let optional = Component { need: Requirement::Optional, ..GHOST };
        assert!(report(&[&optional], true).is_ok());
    }

    #[test]
    fn a_component_is_present_only_if_it_runs() {
        assert!(!shell::works(GHOST.probe));
        assert!(
            !shell::works(&["git", "no-such-subcommand"]),
            "the program exists, the subcommand does not"
        );
    }

    #[test]
    fn apt_needs_rights_and_the_others_do_not() {
        let apt = |rights| install_lines(Install::Apt("tmux"), rights);
        let bare =
            "env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends tmux";
        assert_eq!(apt(Rights::Root), [bare]);
        assert_eq!(apt(Rights::Sudo), [format!("sudo -n {bare}")]);
        assert!(apt(Rights::None).is_empty());
        let npm = install_lines(Install::Npm(&["eslint@9", "vite@8"]), Rights::None);
        assert!(npm[0].ends_with(" eslint@9 vite@8"), "both at once: {npm:?}");
        let pip = install_lines(Install::Pip(&["mcp==2"]), Rights::None);
        assert_eq!(pip[1], "target/tools/python/bin/pip install --quiet mcp==2");
    }
}
