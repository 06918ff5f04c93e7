//! The parts of this machine that programs may see: the locations of its programs, the home
//! directory, and the secrets in both. Cached for a few seconds: looking it up takes a hundred disk
//! accesses.

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
    layout::{LayoutPart, PathAccess, roots},
};
use crate::processes::backend::LaunchContext;

/// Lifetime of a cached result.
const CACHE_DURATION: Duration = Duration::from_secs(2);
const READ_OK: rustix::fs::Access = rustix::fs::Access::READ_OK;

/// Folders of programs, libraries and settings. `/var` is not included: it holds data of other
/// programs.
const SYSTEM: &[&str] = &[
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu",
    "/snap",
];
/// Targets of links in `/etc`, and files that name resolution needs.
const SYSTEM_ELSEWHERE: &[&str] = &[
    "/run/current-system",
    "/run/systemd/resolve/resolv.conf",
    "/run/systemd/resolve/stub-resolv.conf",
    "/run/resolvconf/resolv.conf",
];
/// Files in `/etc` that only the machine needs, and that root could read.
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
/// Secret paths in a home directory: keys, tokens, browsers, histories, and sockets that act
/// for the user.
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

/// The result of a lookup.
pub(crate) struct Machine {
    pub(crate) system: Vec<LayoutPart>,
    pub(crate) home: Option<PathBuf>,
    pub(crate) secrets: Vec<HiddenPath>,
}

/// A path that no program may see.
pub(crate) struct HiddenPath {
    pub(crate) named: PathBuf,
    /// A link cannot be a mount point, only its target can.
    pub(crate) real: PathBuf,
    pub(crate) is_directory: bool,
}

/// The inputs of a lookup: PATH, the home directory, the folders of haft, and the folders that
/// commands may write.
type MachineKey = (Option<OsString>, Option<OsString>, Arc<Vec<PathBuf>>, Vec<PathBuf>);

impl Machine {
    /// Returns the machine as a program with this environment would see it.
    pub(crate) fn seen_by(context: &LaunchContext) -> Arc<Self> {
        static LAST: Mutex<Option<(MachineKey, Instant, Arc<Machine>)>> = Mutex::new(None);
        let owned = |name| variable(context, name).map(OsStr::to_owned);
        let writable = roots(context).into_iter().chain(context.shown.write.iter().cloned());
        let key = (owned("PATH"), owned("HOME"), context.private.clone(), writable.collect());
        let mut last = LAST.lock();
        match &*last {
            Some((asked, at, machine)) if *asked == key && at.elapsed() < CACHE_DURATION => {
                machine.clone()
            }
            _ => {
                let machine = Arc::new(Self::look_up(&key));
                *last = Some((key, Instant::now(), machine.clone()));
                machine
            }
        }
    }

    fn look_up((path, home, private, writable): &MachineKey) -> Self {
        let home = home.as_deref().and_then(home_at);
        let mut machine = Self { system: system(), home, secrets: Vec::new() };
        let folders = path.as_deref().map(std::env::split_paths).into_iter().flatten();
        folders.for_each(|folder| machine.show_programs(&folder, writable));
        let of_home = machine.home.iter();
        let of_home = of_home.flat_map(|home| HOME_SECRETS.iter().map(|name| home.join(name)));
        let of_home = of_home.filter_map(HiddenPath::at);
        let of_system = SYSTEM_SECRETS.iter().map(PathBuf::from).filter_map(HiddenPath::at);
        // Programs cannot read what we cannot read; but in our own home they could change the mode.
        let of_system = of_system.filter(|secret| access(&secret.real, READ_OK).is_ok());
        let of_haft = private.iter().cloned().filter_map(HiddenPath::at);
        machine.secrets = of_system.chain(of_home).chain(of_haft).collect();
        machine
    }

    fn show_programs(&mut self, folder: &Path, writable: &[PathBuf]) {
        let Some(folder) = real_outside(folder, writable) else { return };
        let is_shown = self
            .system
            .iter()
            .any(|part| matches!(part, LayoutPart::Shown { path, .. } if folder.starts_with(path)));
        // The home directory or the disk is not shown as a whole only because it is on PATH.
        if folder.is_dir()
            && folder.components().count() > 2
            && !is_shown
            && self.home.as_ref().is_none_or(|home| !folder.starts_with(home))
        {
            self.system.push(LayoutPart::Shown { path: folder, access: PathAccess::Read });
        }
    }
}

fn system() -> Vec<LayoutPart> {
    let mut parts = Vec::new();
    for path in SYSTEM.iter().map(PathBuf::from) {
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => {
                let to = fs::read_link(&path);
                parts.extend(to.ok().map(|to| LayoutPart::Link { at: path, to }));
            }
            Ok(found) if found.is_dir() && !is_empty(&path) => {
                parts.push(LayoutPart::Shown { path, access: PathAccess::Read });
            }
            _ => {}
        }
    }
    parts.push(LayoutPart::Link { at: "/var/run".into(), to: "../run".into() });
    let elsewhere = SYSTEM_ELSEWHERE.iter().map(PathBuf::from).filter(|path| path.exists());
    parts.extend(elsewhere.map(|path| LayoutPart::Shown { path, access: PathAccess::Read }));
    parts
}

/// Each part makes every start slower.
fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut listing| listing.next().is_none())
}

impl HiddenPath {
    /// Returns None when nothing is there.
    fn at(named: PathBuf) -> Option<Self> {
        fs::symlink_metadata(&named).ok()?;
        let real = named.canonicalize().ok()?;
        let is_directory = real.is_dir();
        (is_directory || real.is_file()).then_some(Self { named, real, is_directory })
    }
}

/// Returns the home directory, unless it is the whole disk or a shared top-level directory.
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
