//! What a program sees of this machine, as one list that both fences are made from: the system, the home without its
//! secrets, the workspace, and private places for what is temporary. What is not in it is not there.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use haft_core::ToolError;

use super::scratch::Scratch;
use crate::programs::fence::Site;

/// Later parts lie on top of earlier ones.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A place of the machine, at its own path.
    Shown { path: PathBuf, access: Access },
    /// A link, as the machine has it there.
    Link { at: PathBuf, to: PathBuf },
    /// A directory that only programs of this session see.
    Private { at: PathBuf, source: PathBuf },
    /// Something that is covered by nothing: an empty directory or file.
    Hidden { path: PathBuf, is_directory: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Programs share memory by files there.
pub(crate) const SHARED_MEMORY: &str = "/dev/shm";

/// Where programs, their libraries and their settings are. `/var` is not: it holds other programs' data.
const SYSTEM: &[&str] = &[
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu",
    "/snap",
];
/// What links of `/etc` lead to, and what is needed to find names of the network.
const SYSTEM_ELSEWHERE: &[&str] = &[
    "/run/current-system",
    "/run/systemd/resolve/resolv.conf",
    "/run/systemd/resolve/stub-resolv.conf",
    "/run/resolvconf/resolv.conf",
];
/// Of `/etc` these are for the machine alone, and root could read them.
const SYSTEM_SECRETS: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/krb5.keytab",
    "/etc/NetworkManager/system-connections",
    "/etc/wireguard",
];
/// Of a home these are nobody's business: keys, tokens, browsers, histories, and sockets that act for the person.
const HOME_SECRETS: &[&str] = &[
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".docker",
    ".kube",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".git-credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".terraform.d/credentials.tfrc.json",
    ".password-store",
    ".1password",
    ".vault-token",
    ".config/gh",
    ".config/glab-cli",
    ".config/hub",
    ".config/gcloud",
    ".config/git/credentials",
    ".config/op",
    ".config/containers/auth.json",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/vivaldi",
    ".config/opera",
    ".config/haft",
    ".config/rclone",
    ".config/sops",
    ".config/age",
    ".mozilla",
    ".thunderbird",
    "snap/firefox",
    "snap/chromium",
    ".var/app",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".pki",
    ".Xauthority",
    ".ICEauthority",
    ".bash_history",
    ".zsh_history",
    ".zhistory",
    ".history",
    ".sh_history",
    ".local/share/fish/fish_history",
    ".python_history",
    ".node_repl_history",
    ".psql_history",
    ".mysql_history",
    ".sqlite_history",
    ".rediscli_history",
    ".lesshst",
    ".viminfo",
    ".claude/.credentials.json",
    ".claude.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
    ".colima",
    ".lima",
    ".rd",
    ".orbstack",
    ".minikube",
];

impl Layout {
    /// # Errors
    /// Of kind `unavailable` when something of the workspace cannot be protected, or when the workspace is everything.
    pub(crate) fn of(site: &Site, writes: bool, scratch: &Scratch) -> Result<Self, ToolError> {
        let mut layout = Self { parts: Vec::new() };
        layout.show_system(site);
        layout.parts.push(Part::Private { at: "/tmp".into(), source: scratch.tmp() });
        layout.parts.push(Part::Private { at: SHARED_MEMORY.into(), source: scratch.shm() });
        let home = home(site);
        if let Some(home) = &home {
            layout.show(home.clone(), Access::Read);
        }
        let roots = roots(site);
        if roots.iter().any(|root| root.parent().is_none()) {
            return Err(ToolError::unavailable(
                "the workspace is `/`, and no sandbox goes around a whole machine",
            )
            .hint("start haft in the folder of a project"));
        }
        // A workspace may lie where temporary things usually do.
        layout.parts.push(if roots.iter().any(|root| Path::new("/tmp").starts_with(root)) {
            Part::Private { at: "/var/tmp".into(), source: scratch.tmp() }
        } else {
            Part::Link { at: "/var/tmp".into(), to: "../tmp".into() }
        });
        let access = if writes { Access::Write } else { Access::Read };
        roots.iter().for_each(|root| layout.show(root.clone(), access));
        layout.hide_secrets(home.as_deref(), &roots);
        if writes {
            roots.iter().try_for_each(|root| layout.protect(root))?;
        }
        Ok(layout)
    }

    /// What of a root stays as it is when the rest of it may be changed, in the order in which it is laid over it.
    ///
    /// # Errors
    /// Of kind `unavailable` when something of it cannot be protected.
    pub(crate) fn protected(root: &Path) -> Result<Vec<Part>, ToolError> {
        let mut layout = Self { parts: Vec::new() };
        layout.protect(root)?;
        Ok(layout.parts)
    }

    /// What programs are told to put temporary things into.
    pub(crate) fn tmp(&self) -> &'static Path {
        let is_private = |path: &str| {
            let path = Path::new(path);
            self.parts.iter().any(|part| matches!(part, Part::Private { at, .. } if at == path))
        };
        Path::new(if is_private("/var/tmp") { "/var/tmp" } else { "/tmp" })
    }

    fn show(&mut self, path: PathBuf, access: Access) {
        self.parts.push(Part::Shown { path, access });
    }

    fn show_system(&mut self, site: &Site) {
        for path in SYSTEM.iter().map(Path::new) {
            match fs::symlink_metadata(path) {
                Ok(found) if found.is_symlink() => {
                    let Ok(to) = fs::read_link(path) else { continue };
                    self.parts.push(Part::Link { at: path.into(), to });
                }
                Ok(found) if found.is_dir() => self.show(path.into(), Access::Read),
                _ => {}
            }
        }
        self.parts.push(Part::Link { at: "/var/run".into(), to: "../run".into() });
        let elsewhere = SYSTEM_ELSEWHERE.iter().map(PathBuf::from).filter(|path| path.exists());
        elsewhere.for_each(|path| self.show(path, Access::Read));
        let folders: Vec<PathBuf> =
            variable(site, "PATH").map(std::env::split_paths).into_iter().flatten().collect();
        for folder in folders {
            let Ok(folder) = folder.canonicalize() else { continue };
            // A person's whole home or disk is not opened because it is in the path.
            if folder.is_dir()
                && folder.components().count() > 2
                && !self.shows(&folder)
                && home(site).is_none_or(|home| !folder.starts_with(home))
            {
                self.show(folder, Access::Read);
            }
        }
    }

    fn shows(&self, path: &Path) -> bool {
        self.parts
            .iter()
            .any(|part| matches!(part, Part::Shown { path: shown, .. } if path.starts_with(shown)))
    }

    fn hide_secrets(&mut self, home: Option<&Path>, roots: &[PathBuf]) {
        let of_home =
            home.into_iter().flat_map(|home| HOME_SECRETS.iter().map(|name| home.join(name)));
        for path in SYSTEM_SECRETS.iter().map(PathBuf::from).chain(of_home) {
            // A person who works in such a place has given it.
            let is_given = roots.iter().any(|root| root.starts_with(&path));
            let Ok(found) = fs::symlink_metadata(&path) else { continue };
            if is_given {
                continue;
            }
            // Nothing can be laid over a link, only over what it leads to.
            let Ok(real) = path.canonicalize() else { continue };
            if (found.is_dir() || real.is_dir() || real.is_file()) && self.shows(&real) {
                self.parts.push(Part::Hidden { is_directory: real.is_dir(), path: real });
            }
        }
    }

    /// What makes other programs run something stays as it is: git's hooks and settings, and haft's own. `.git` lies on
    /// itself, because what something is mounted on can be neither renamed nor removed: with another `.git` in its
    /// place there would be other hooks.
    fn protect(&mut self, root: &Path) -> Result<(), ToolError> {
        let own = root.join(".haft");
        make_if_missing(&own, Missing::Directory)?;
        self.show(own, Access::Read);
        let git = root.join(".git");
        match fs::symlink_metadata(&git) {
            Err(_) => Ok(()),
            Ok(found) if found.is_dir() => {
                self.show(git.clone(), Access::Write);
                for (name, missing) in [("hooks", Missing::Directory), ("config", Missing::File)] {
                    let path = git.join(name);
                    make_if_missing(&path, missing)?;
                    self.show(path, Access::Read);
                }
                Ok(())
            }
            // The file that a work tree or a submodule has leads to a `.git`.
            Ok(found) if found.is_file() => {
                self.show(git, Access::Read);
                Ok(())
            }
            Ok(_) => Err(unprotectable(&git)),
        }
    }
}

enum Missing {
    Directory,
    File,
}

/// Nothing can be laid over what is not there, and a program could make it. Empty ones are harmless.
fn make_if_missing(path: &Path, missing: Missing) -> Result<(), ToolError> {
    let made = match missing {
        Missing::Directory => fs::DirBuilder::new().mode(0o755).create(path),
        Missing::File => fs::File::create_new(path).map(drop),
    };
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            let message = format!("`{}` cannot be protected: {error}", path.display());
            Err(ToolError::unavailable(message)
                .hint("make it by hand, or run the command without writing"))
        }
        _ if path.is_symlink() => Err(unprotectable(path)),
        _ => Ok(()),
    }
}

fn unprotectable(path: &Path) -> ToolError {
    let message = format!(
        "`{}` is a link, and a sandbox cannot keep a link from being replaced",
        path.display()
    );
    ToolError::unavailable(message)
        .hint("put what it leads to in its place, or run the command without writing")
}

/// The directories of a person, parents first: what lies in another is laid on top of it.
pub(crate) fn roots(site: &Site) -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> =
        site.workspace.roots.iter().map(|root| root.path.clone()).collect();
    roots.sort();
    roots.dedup();
    roots
}

/// The home, if it is one: neither the whole disk nor a directory right at its top that everybody shares.
fn home(site: &Site) -> Option<PathBuf> {
    let home = PathBuf::from(variable(site, "HOME")?).canonicalize().ok()?;
    let is_shared =
        ["/", "/home", "/tmp", "/var", "/usr", "/etc", "/dev", "/proc", "/sys", "/run", "/mnt"]
            .iter()
            .any(|path| home == Path::new(path));
    (!is_shared).then_some(home)
}

pub(crate) fn variable<'a>(site: &'a Site, name: &str) -> Option<&'a OsStr> {
    site.environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
}

/// What would lead a program to something that acts for the person.
const LEADING_OUT: &[&str] = &[
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "DOCKER_HOST",
    "CONTAINER_HOST",
    "XDG_RUNTIME_DIR",
    "TMPDIR",
    "TMP",
    "TEMP",
];

/// The variables of a program behind a fence.
pub(crate) fn environment(site: &Site, tmp: &Path) -> Vec<(OsString, OsString)> {
    let stays = |name: &OsStr| !LEADING_OUT.iter().any(|out| name == *out);
    let mut all: Vec<_> =
        site.environment.iter().filter(|(name, _)| stays(name)).cloned().collect();
    all.push(("TMPDIR".into(), tmp.into()));
    all
}
