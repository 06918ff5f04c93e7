//! Remembers between processes which sandbox mechanisms work here. Trying one starts several
//! programs in a sandbox, which takes longer than most commands, and a process of the command line
//! runs one command.
//!
//! Only a success is kept, and it counts only under the conditions it was found under: same boot,
//! kernel, haft, user, namespaces, capabilities, kernel settings, and programs. A failure is tried
//! again each time, so that a repaired machine is noticed at once. The kernel still enforces a
//! mechanism at each start: one that no longer works refuses the command.

use std::{
    fmt::Write as _,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write as _},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{LazyLock, OnceLock},
    time::{Duration, SystemTime},
};

use super::probe::ProbeResult;

/// Maximum age of a result: conditions that are not compared can change as well.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// The file is small; a larger one is not ours.
const MAX_BYTES: u64 = 64 << 10;
const FILE: &str = "sandbox-probes";

/// Kernel files whose contents decide what a sandbox can do. One that does not exist counts as
/// empty.
const KERNEL_FILES: &[&str] = &[
    "/proc/sys/kernel/random/boot_id",
    "/proc/version",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_unconfined",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/user/max_mnt_namespaces",
    "/proc/sys/user/max_net_namespaces",
    "/proc/sys/user/max_ipc_namespaces",
    "/proc/sys/user/max_pid_namespaces",
    "/proc/sys/user/max_uts_namespaces",
    "/proc/sys/user/max_cgroup_namespaces",
    "/proc/self/attr/current",
    "/proc/self/uid_map",
    "/sys/kernel/security/lsm",
];
/// Lines of `/proc/self/status` with the ids and capabilities of this process.
const STATUS_LINES: &[&str] = &[
    "Uid:",
    "Gid:",
    "Groups:",
    "CapInh:",
    "CapPrm:",
    "CapEff:",
    "CapBnd:",
    "NoNewPrivs:",
    "Seccomp:",
];
/// Programs that build a sandbox or are used to try one, and folders that one is built from.
const FILES: &[&str] = &[
    "/proc/self/exe",
    "/usr/bin/bwrap",
    "/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
    "/bin/sh",
    "/bin/bash",
    "/usr/bin/bash",
    "/usr/local/bin/bash",
];
/// Folders and namespaces that must be the same ones; their contents may change.
const PLACES: &[&str] = &[
    "/",
    "/proc",
    "/proc/self/ns/user",
    "/proc/self/ns/mnt",
    "/proc/self/ns/pid",
    "/proc/self/ns/cgroup",
];

static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// Keeps the results about sandbox mechanisms in this folder, which only the user may write.
/// Without this call each process tries the mechanisms.
pub fn remember_probes_in(folder: &Path) {
    // The first call counts: the results belong to the process.
    let _ = FOLDER.set(folder.to_owned());
}

/// Returns a success of an earlier process, or tries the mechanism and remembers the result.
pub(super) fn or_try(
    mechanism: &'static str,
    attempt: impl FnOnce() -> ProbeResult,
) -> ProbeResult {
    let Some(folder) = FOLDER.get() else { return attempt() };
    // They are valid for the life of this process.
    static CONDITIONS: LazyLock<String> = LazyLock::new(conditions);
    let conditions = CONDITIONS.as_str();
    if Remembered::read(folder, conditions).has(mechanism) {
        let detail = "worked when it was last tried".to_owned();
        return ProbeResult { mechanism, works: true, detail, advice: None };
    }
    let result = attempt();
    update(folder, conditions, std::slice::from_ref(&result));
    result
}

/// Keeps the results of a fresh trial; those that fail are forgotten.
pub(super) fn replace(results: &[ProbeResult]) {
    if let Some(folder) = FOLDER.get() {
        update(folder, &conditions(), results);
    }
}

fn update(folder: &Path, conditions: &str, results: &[ProbeResult]) {
    // Read again: another process may have added to it during the trial.
    let mut remembered = Remembered::read(folder, conditions);
    for result in results {
        remembered.set(result);
    }
    // Without the file the next process tries again.
    let _ = remembered.write(folder, conditions);
}

/// The mechanisms that work, and since when this is known.
#[derive(Debug, Default, PartialEq, Eq)]
struct Remembered {
    mechanisms: Vec<String>,
}

impl Remembered {
    fn read(folder: &Path, conditions: &str) -> Self {
        let text = read(&folder.join(FILE)).unwrap_or_default();
        // The first line lists the mechanisms, the other lines are the conditions.
        match text.split_once('\n') {
            Some((mechanisms, rest)) if rest == conditions => {
                Self { mechanisms: mechanisms.split(',').map(str::to_owned).collect() }
            }
            _ => Self::default(),
        }
    }

    fn has(&self, mechanism: &str) -> bool {
        self.mechanisms.iter().any(|known| known == mechanism)
    }

    fn set(&mut self, result: &ProbeResult) {
        self.mechanisms.retain(|known| known != result.mechanism);
        if result.works {
            self.mechanisms.push(result.mechanism.to_owned());
        }
    }

    /// Replaces the file in one step, so that no process reads half of it.
    fn write(&self, folder: &Path, conditions: &str) -> io::Result<()> {
        // Only the user may write the folder, which may be created here.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let temporary = folder.join(format!("{FILE}.{}", std::process::id()));
        let flags = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary);
        let written = flags
            .and_then(|mut file| {
                file.write_all(format!("{}\n{conditions}", self.mechanisms.join(",")).as_bytes())
            })
            .and_then(|()| fs::rename(&temporary, folder.join(FILE)));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }
}

/// Returns the text if the file is recent and no other user can have written it.
fn read(path: &Path) -> Option<String> {
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .ok()?;
    let facts = file.metadata().ok()?;
    let age = SystemTime::now().duration_since(facts.modified().ok()?).ok()?;
    let is_own = facts.uid() == rustix::process::geteuid().as_raw() && facts.mode() & 0o022 == 0;
    if !facts.is_file() || !is_own || facts.len() > MAX_BYTES || age > MAX_AGE {
        return None;
    }
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns the conditions that the results depend on, as one text for comparison.
fn conditions() -> String {
    let mut text = format!("haft {}\n", env!("CARGO_PKG_VERSION"));
    for path in KERNEL_FILES {
        add(&mut text, path, contents(path).trim());
    }
    let status = contents("/proc/self/status");
    for line in status.lines().filter(|line| STATUS_LINES.iter().any(|name| line.starts_with(name)))
    {
        add(&mut text, "status", line);
    }
    for path in FILES {
        add(&mut text, path, &identity(path, true));
    }
    for path in PLACES {
        add(&mut text, path, &identity(path, false));
    }
    text
}

fn add(text: &mut String, name: &str, value: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{name} {}", value.escape_debug());
}

fn contents(path: &str) -> String {
    let mut text = Vec::new();
    if let Ok(file) = File::open(path) {
        let _ = file.take(MAX_BYTES).read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns device and inode; for a program also the values that change when it is replaced or
/// rewritten.
fn identity(path: &str, is_program: bool) -> String {
    let Ok(facts) = fs::metadata(path) else { return "-".to_owned() };
    let place = format!("{}:{} {:o} {}", facts.dev(), facts.ino(), facts.mode(), facts.uid());
    if !is_program {
        return place;
    }
    let changed = (facts.mtime(), facts.mtime_nsec(), facts.ctime(), facts.ctime_nsec());
    format!("{place} {} {changed:?}", facts.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(mechanism: &'static str, works: bool) -> ProbeResult {
        ProbeResult { mechanism, works, detail: String::new(), advice: None }
    }

    #[test]
    fn a_success_is_remembered_under_the_same_conditions_only() {
        let folder = tempfile::tempdir().expect("a directory");
        update(folder.path(), "same boot\n", &[result("a", true), result("b", false)]);
        let known = Remembered::read(folder.path(), "same boot\n");
        assert!(known.has("a") && !known.has("b"));
        assert_eq!(Remembered::read(folder.path(), "another boot\n"), Remembered::default());
        update(folder.path(), "same boot\n", &[result("a", false), result("b", true)]);
        let known = Remembered::read(folder.path(), "same boot\n");
        assert!(!known.has("a") && known.has("b"), "a failure is forgotten");
    }

    #[test]
    fn a_file_that_others_can_write_or_that_is_old_or_a_link_does_not_count() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join(FILE);
        let has = || Remembered::read(folder.path(), "c\n").has("a");
        update(folder.path(), "c\n", &[result("a", true)]);
        assert!(has());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o622)).expect("changed");
        assert!(!has(), "writable by others");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
        assert!(has());
        let old = SystemTime::now() - MAX_AGE - Duration::from_secs(60);
        File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_modified(old))
            .expect("set");
        assert!(!has(), "a day old");
        update(folder.path(), "c\n", &[result("a", true)]);
        assert!(has(), "written anew");
        fs::rename(&path, folder.path().join("real")).expect("renamed");
        std::os::unix::fs::symlink("real", &path).expect("linked");
        assert!(!has(), "a link");
    }

    #[test]
    fn conditions_name_boot_user_rights_and_programs() {
        let text = conditions();
        assert_eq!(text, conditions(), "nothing in it changes by itself");
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("readable");
        for part in [boot.trim(), "CapEff:", "NoNewPrivs:", "/proc/self/ns/user ", "/bin/sh "] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
