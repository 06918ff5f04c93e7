//! What of this machine programs may see at all: where its programs are, which home it has, and what in both is secret.
//! Looked up at most every few seconds: it is a hundred questions to the disk, and a program asks none.

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use rustix::fs::access;

use super::{
    home::real_outside,
    layout::{Access, Part, roots},
};
use crate::processes::backend::LaunchContext;

/// How long a look holds.
const FRESH: Duration = Duration::from_secs(2);
const READ_OK: rustix::fs::Access = rustix::fs::Access::READ_OK;

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
    ".local/state/haft",
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

/// What was found.
pub(crate) struct Machine {
    pub(crate) system: Vec<Part>,
    pub(crate) home: Option<PathBuf>,
    pub(crate) secrets: Vec<Secret>,
}

/// Something that is nobody's business.
pub(crate) struct Secret {
    pub(crate) named: PathBuf,
    /// Nothing can be laid over a link, only over what it leads to.
    pub(crate) real: PathBuf,
    pub(crate) is_directory: bool,
}

/// What a look depends on: the path of programs, the home, the folders of haft, and those that commands may write.
type Question = (Option<OsString>, Option<OsString>, Arc<Vec<PathBuf>>, Vec<PathBuf>);

impl Machine {
    /// As a program with this environment would see it.
    pub(crate) fn seen_by(context: &LaunchContext) -> Arc<Self> {
        static LAST: Mutex<Option<(Question, Instant, Arc<Machine>)>> = Mutex::new(None);
        let owned = |name| variable(context, name).map(OsStr::to_owned);
        let writable = roots(context).into_iter().chain(context.shown.write.iter().cloned());
        let question = (owned("PATH"), owned("HOME"), context.private.clone(), writable.collect());
        let mut last = LAST.lock();
        match &*last {
            Some((asked, at, machine)) if *asked == question && at.elapsed() < FRESH => {
                machine.clone()
            }
            _ => {
                let machine = Arc::new(Self::look(&question));
                *last = Some((question, Instant::now(), machine.clone()));
                machine
            }
        }
    }

    fn look((path, home, private, writable): &Question) -> Self {
        let home = home.as_deref().and_then(home_at);
        let mut machine = Self { system: system(), home, secrets: Vec::new() };
        let folders = path.as_deref().map(std::env::split_paths).into_iter().flatten();
        folders.for_each(|folder| machine.show_programs(&folder, writable));
        let of_home = machine.home.iter();
        let of_home = of_home.flat_map(|home| HOME_SECRETS.iter().map(|name| home.join(name)));
        let of_home = of_home.filter_map(Secret::at);
        let of_system = SYSTEM_SECRETS.iter().map(PathBuf::from).filter_map(Secret::at);
        // What we may not read ourselves no program of ours can; what is in our own home we could open to us.
        let of_system = of_system.filter(|secret| access(&secret.real, READ_OK).is_ok());
        let of_haft = private.iter().cloned().filter_map(Secret::at);
        machine.secrets = of_system.chain(of_home).chain(of_haft).collect();
        machine
    }

    fn show_programs(&mut self, folder: &Path, writable: &[PathBuf]) {
        let Some(folder) = real_outside(folder, writable) else { return };
        let is_shown = self
            .system
            .iter()
            .any(|part| matches!(part, Part::Shown { path, .. } if folder.starts_with(path)));
        // A person's whole home or disk is not opened because it is in the path.
        if folder.is_dir()
            && folder.components().count() > 2
            && !is_shown
            && self.home.as_ref().is_none_or(|home| !folder.starts_with(home))
        {
            self.system.push(Part::Shown { path: folder, access: Access::Read });
        }
    }
}

fn system() -> Vec<Part> {
    let mut parts = Vec::new();
    for path in SYSTEM.iter().map(PathBuf::from) {
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => {
                let to = fs::read_link(&path);
                parts.extend(to.ok().map(|to| Part::Link { at: path, to }));
            }
            Ok(found) if found.is_dir() && !is_empty(&path) => {
                parts.push(Part::Shown { path, access: Access::Read });
            }
            _ => {}
        }
    }
    parts.push(Part::Link { at: "/var/run".into(), to: "../run".into() });
    let elsewhere = SYSTEM_ELSEWHERE.iter().map(PathBuf::from).filter(|path| path.exists());
    parts.extend(elsewhere.map(|path| Part::Shown { path, access: Access::Read }));
    parts
}

/// Each part costs time at every start.
fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut listing| listing.next().is_none())
}

impl Secret {
    /// None where there is nothing.
    fn at(named: PathBuf) -> Option<Self> {
        fs::symlink_metadata(&named).ok()?;
        let real = named.canonicalize().ok()?;
        let is_directory = real.is_dir();
        (is_directory || real.is_file()).then_some(Self { named, real, is_directory })
    }
}

/// The home, if it is one: neither the whole disk nor a directory right at its top that everybody shares.
fn home_at(named: &OsStr) -> Option<PathBuf> {
    let home = PathBuf::from(named).canonicalize().ok()?;
    let is_shared =
        ["/", "/home", "/tmp", "/var", "/usr", "/etc", "/dev", "/proc", "/sys", "/run", "/mnt"]
            .iter()
            .any(|path| home == Path::new(path));
    (!is_shared).then_some(home)
}

pub(crate) fn variable<'a>(context: &'a LaunchContext, name: &str) -> Option<&'a OsStr> {
    context.environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
}
