//! Runs texts in bash, many per start, in a sandbox: separate user, mount, pid and network
//! namespaces, the system read-only, the workspace and the home on a tmpfs. strace records from
//! outside.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use haft_shell::read;
use haft_tools::shell::bash::quiet_git;
use tempfile::TempDir;

use crate::trace::{self, TraceEvent};

/// The directory whose files are compared; files elsewhere belong to the system.
pub(crate) const WATCHED_DIR: &str = "/o/";
pub(crate) const WORKSPACE: &str = "/o/w";
pub(crate) const HOME: &str = "/o/home";

/// The links of the fixture and their targets.
pub(crate) const LINKS: &[(&str, &str)] =
    &[("/o/w/l", "/o/outside/deep"), ("/o/w/lf", "/o/outside/secret")];

const FILES: &[(&str, &str)] = &[
    ("w/a.txt", "alpha\nbeta 2\ngamma\n"),
    ("w/b.txt", "beta\nb.txt\nalpha\n"),
    ("w/a b.txt", "with a space\n"),
    ("w/-n", "like an option\n"),
    ("w/.env", "TOKEN=hunter2\n"),
    ("w/.hidden", "hidden\n"),
    ("w/list", "a.txt\nb.txt\n.env\n"),
    ("w/cmds", "touch marker\ncat .env\n"),
    ("w/args", "-o\nmarker\n"),
    ("w/data.csv", "a,1\nb,2\n"),
    ("w/data.json", "{\"a\": [1, 2], \"b\": \"x\"}\n"),
    ("w/prog.awk", "{ print > \"marker\" }\n"),
    ("w/prog.sed", "w marker\n"),
    ("w/Makefile", "all:\n\ttouch marker\n"),
    ("w/src/main.rs", "fn main() {}\n"),
    ("w/src/lib.rs", "pub fn alpha() {}\n"),
    ("w/docs/x.md", "# alpha\n"),
    ("w/docs/.env", "TOKEN=docs\n"),
    ("w/sub/k", "key\n"),
    ("w/sub/deep/k2", "key 2\n"),
    ("w/priv/k", "private key\n"),
    ("w/evil", "#!/bin/sh\necho x > marker\n"),
    ("w/evil.sh", "echo x > marker\n"),
    ("w/sub/ls", "#!/bin/sh\necho x > marker\n"),
    ("home/.ssh/id", "private\n"),
    ("home/.notes", "notes\n"),
    ("outside/secret", "secret\n"),
    ("outside/deep/file", "deep\n"),
    ("outside/a.txt", "outer alpha\n"),
    ("k", "outer key\n"),
    ("w/bare/HEAD", "ref: refs/heads/main\n"),
    ("w/bare/objects/x", ""),
    ("w/bare/refs/x", ""),
    (
        "w/bare/config",
        "[core]\n\tbare = true\n\tworktree = ..\n\tfsmonitor = \"touch marker; false\"\n",
    ),
    ("hooks/post-index-change", "#!/bin/sh\ntouch marker\n"),
];

/// Settings of a hostile repository: it names a program wherever git would run one.
const HOSTILE_GIT: &str = r#"
[core]
    fsmonitor = "touch marker; false"
    hooksPath = /o/hooks
    pager = "touch marker; cat"
    sshCommand = "touch marker"
    alternateRefsCommand = "touch marker"
[alias]
    status = "!touch marker"
    ls = "!touch marker"
[diff]
    external = "touch marker; :"
[diff "x"]
    command = "touch marker; :"
    textconv = "touch marker; cat"
[filter "x"]
    clean = "touch marker; cat"
    smudge = "touch marker; cat"
[gpg]
    program = evil
[log]
    showSignature = true
[remote "origin"]
    url = "ext::sh -c touch% marker"
    promisor = true
"#;

const EXECUTABLE: &[&str] = &["w/evil", "w/evil.sh", "w/sub/ls", "hooks/post-index-change"];

/// Variables of every text, which the reader does not know. They are as hostile as an environment
/// can be.
const VARIABLES: &[(&str, &str)] = &[
    ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ("HOME", HOME),
    ("LANG", "C.UTF-8"),
    ("X", "a.txt"),
    ("Y", "../outside/secret"),
    ("Z", "touch marker"),
    ("S", "a[$(touch marker)]"),
    ("O", "-o marker"),
    ("L", "($(touch marker))"),
    // Functions that call themselves in the background would exhaust the machine.
    ("FUNCNEST", "20"),
];

/// The sandbox. Each text starts with a copy of its fixture.
pub(crate) struct Sandbox {
    folder: TempDir,
}

impl Sandbox {
    pub(crate) fn new() -> Result<Self> {
        for program in ["strace", "bwrap"] {
            let probe = Command::new(program).arg("--version").stdout(Stdio::null()).status();
            let hint = format!("`{program}` is needed: run `cargo xtask setup`");
            if !probe.context(hint.clone())?.success() {
                bail!(hint);
            }
        }
        let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
        create_fixture(&folder.path().join("fixture"))?;
        fs::write(folder.path().join("driver.sh"), include_str!("driver.sh"))?;
        let quiet = quiet_git().into_iter().map(|(name, value)| format!("export {name}={value}\n"));
        fs::write(folder.path().join("quiet"), quiet.collect::<String>())?;
        Ok(Self { folder })
    }

    /// Runs texts and returns the events of each.
    pub(crate) fn run(&self, texts: &[String]) -> Result<Vec<Vec<TraceEvent>>> {
        let joined: String = texts.iter().map(|text| format!("{}{text}\0", reset(text))).collect();
        let folder = self.folder.path();
        fs::write(folder.join("texts"), joined)?;
        let output = self.command().output().context("cannot start `strace`")?;
        let log = fs::read(folder.join("log")).context("strace wrote no log")?;
        let found = trace::texts(&String::from_utf8_lossy(&log));
        if found.len() != texts.len() {
            let error = String::from_utf8_lossy(&output.stderr);
            bail!("{} of {} texts ran in the sandbox: {error}", found.len(), texts.len());
        }
        Ok(found)
    }

    fn command(&self) -> Command {
        const READ_ONLY: &[&str] = &["/usr", "/etc"];
        let place = |name: &str| self.folder.path().join(name);
        let mut command = Command::new("strace");
        command
            .args("-f --seccomp-bpf -y -qq -s 4096 -e signal=none --pidns-translation".split(' '));
        command.args(["-e", &format!("trace={}", trace::CALLS), "-o"]).arg(place("log"));
        command.args("bwrap --unshare-all --as-pid-1 --die-with-parent --new-session".split(' '));
        command.args("--uid 1000 --gid 1000 --clearenv".split(' '));
        for path in READ_ONLY {
            command.args(["--ro-bind", path, path]);
        }
        for (target, path) in [("usr/bin", "/bin"), ("usr/sbin", "/sbin"), ("usr/lib", "/lib")] {
            command.args(["--symlink", target, path]);
        }
        command.args("--symlink usr/lib64 /lib64 --proc /proc --dev /dev".split(' '));
        command.args("--size 100000000 --tmpfs /tmp --size 100000000 --tmpfs /o".split(' '));
        const GIVEN: &[(&str, &str)] = &[
            ("fixture", "/fixture"),
            ("driver.sh", "/driver"),
            ("quiet", "/quiet"),
            ("texts", "/texts"),
        ];
        for (name, target) in GIVEN {
            command.arg("--ro-bind").arg(place(name)).arg(target);
        }
        for (name, value) in VARIABLES {
            command.args(["--setenv", name, value]);
        }
        command.args(["bash", "/driver"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }
}

/// Returns the prefix for the driver. A fresh copy of the fixture takes longer than most texts, so
/// the driver makes one only after a text that may have changed something.
fn reset(text: &str) -> char {
    if read(text).is_read_only() { 'k' } else { 'r' }
}

fn create_fixture(root: &Path) -> Result<()> {
    for (name, content) in FILES {
        let path = root.join(name);
        fs::create_dir_all(path.parent().context("every file has a folder")?)?;
        fs::write(&path, content)?;
    }
    for name in EXECUTABLE {
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(0o755))?;
    }
    for (link, target) in LINKS {
        symlink(target, root.join(link.trim_start_matches(WATCHED_DIR)))?;
    }
    let git = |words: &str| -> Result<()> {
        let mut command = Command::new("git");
        command.current_dir(root.join("w")).args(words.split(' '));
        command.env("HOME", root).env("GIT_CONFIG_NOSYSTEM", "1").stdout(Stdio::null());
        if !command.status().context("cannot start `git`")?.success() {
            bail!("`git {words}` failed");
        }
        Ok(())
    };
    git("init -q -b main --template=")?;
    git("add a.txt b.txt src")?;
    git("-c user.name=x -c user.email=x@example.com commit -q -m first")?;
    let settings = root.join("w/.git/config");
    let own = fs::read_to_string(&settings)?;
    fs::write(&settings, own + HOSTILE_GIT)?;
    fs::create_dir_all(root.join("w/.git/info"))?;
    fs::write(root.join("w/.git/info/attributes"), "b.txt diff=x filter=x\n")?;
    Ok(())
}

/// Returns true if a path of the fixture is a directory.
pub(crate) fn is_directory(path: &str) -> bool {
    let below = format!("{}/", path.trim_end_matches('/'));
    FILES.iter().any(|(name, _)| format!("{WATCHED_DIR}{name}").starts_with(&below))
}
