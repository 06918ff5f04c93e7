//! Builds the layout as a Landlock ruleset. Landlock only allows, and a rule applies to everything
//! below its path: around a secret its siblings are allowed one by one.

use std::{
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use ::landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope, make_bitflags,
};
use haft_core::ToolError;
use rustix::{
    fs::{CWD, Mode, OFlags},
    io::Errno,
};

use super::layout::{Layout, LayoutPart, PathAccess};

/// The first version that restricts signals and abstract sockets (Linux 6.12). With an older one a
/// program could kill processes outside.
pub(crate) const NEEDED: i32 = 6;

/// Access to paths that do not exist yet when the rules are made; the child adds them.
pub(crate) const LISTING: u64 = AccessFs::ReadDir as u64;
pub(crate) const USING_DEVICES: u64 = AccessFs::ReadFile as u64
    | AccessFs::WriteFile as u64
    | AccessFs::ReadDir as u64
    | AccessFs::IoctlDev as u64;

const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty", "ptmx"];

/// Returns the kernel's version of Landlock; 0 for none.
pub(crate) fn version() -> i32 {
    const VERSION: u32 = 1;
    #[expect(unsafe_code, reason = "the crate does not report the version")]
    // SAFETY: with this flag the call uses no memory and returns a number.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, VERSION)
    };
    i32::try_from(version).unwrap_or(0).max(0)
}

/// States whether mounts cover the hidden paths, so that everything around them may be allowed at
/// once. This saves two hundred rules, which take as long as starting a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecretCover {
    Covered,
    Bare,
}

/// # Errors
/// Of kind `unavailable` when the kernel cannot enforce all of it.
pub(crate) fn of(layout: &Layout, secrets: SecretCover) -> Result<OwnedFd, ToolError> {
    let mut rules = ruleset(true)?;
    let hidden: Vec<&Path> = layout.parts.iter().filter_map(hidden_path).collect();
    let mut add = |path: &Path, access| add(&mut rules, path, access);
    for part in &layout.parts {
        let (path, access) = match part {
            LayoutPart::Shown { path, access } => (path, rights(*access)),
            LayoutPart::Private { source, .. } => (source, rights(PathAccess::Write)),
            LayoutPart::Link { .. } | LayoutPart::Hidden { .. } => continue,
        };
        if secrets == SecretCover::Covered {
            add(path, access)?;
            continue;
        }
        for open in around(path, &hidden) {
            add(&open, access)?;
        }
    }
    for name in DEVICES {
        add(
            &Path::new("/dev").join(name),
            make_bitflags!(AccessFs::{ReadFile | WriteFile | IoctlDev}),
        )?;
    }
    if secrets == SecretCover::Bare {
        add(
            Path::new("/dev/pts"),
            make_bitflags!(AccessFs::{ReadFile | WriteFile | ReadDir | IoctlDev}),
        )?;
    }
    for path in ["/proc", "/sys"] {
        add(Path::new(path), make_bitflags!(AccessFs::{ReadFile | ReadDir}))?;
    }
    taken(rules)
}

/// Returns a ruleset that only forbids signals and abstract sockets to processes outside.
///
/// # Errors
/// As [`of`].
pub(crate) fn scopes_only() -> Result<OwnedFd, ToolError> {
    taken(ruleset(false)?)
}

fn ruleset(with_files: bool) -> Result<RulesetCreated, ToolError> {
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let rules =
        if with_files { rules.handle_access(AccessFs::from_all(ABI::V6)) } else { Ok(rules) };
    rules
        .and_then(|rules| rules.scope(Scope::from_all(ABI::V6)))
        .and_then(Ruleset::create)
        .map_err(unavailable)
}

fn taken(rules: RulesetCreated) -> Result<OwnedFd, ToolError> {
    let rules: Option<OwnedFd> = rules.into();
    rules.ok_or_else(|| unavailable(io::Error::from(io::ErrorKind::Unsupported)))
}

fn unavailable(error: impl std::error::Error + Send + Sync + 'static) -> ToolError {
    let message =
        format!("the kernel's Landlock has version {}, and the sandbox needs {NEEDED}", version());
    ToolError::unavailable(message)
        .hint("use Linux 6.12 or later with landlock among its security modules, or install bubblewrap")
        .caused_by(error)
}

fn rights(access: PathAccess) -> BitFlags<AccessFs> {
    match access {
        PathAccess::Read => AccessFs::from_read(ABI::V6),
        // Creating devices is not allowed, and neither is using existing ones.
        PathAccess::Write => {
            AccessFs::from_all(ABI::V6)
                & !make_bitflags!(AccessFs::{MakeChar | MakeBlock | IoctlDev})
        }
    }
}

/// A path that is gone, or that we cannot open, is not allowed. Links are not a way to a secret,
/// because they are not followed.
fn add(
    rules: &mut RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<(), ToolError> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
        Ok(handle) => handle,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) => return Ok(()),
        Err(error) => return Err(unavailable(error)),
    };
    let Ok(found) = rustix::fs::fstat(&handle) else { return Ok(()) };
    let access = match rustix::fs::FileType::from_raw_mode(found.st_mode) {
        rustix::fs::FileType::Directory => access,
        rustix::fs::FileType::Symlink => return Ok(()),
        _ => access & AccessFs::from_file(ABI::V6),
    };
    if access.is_empty() {
        return Ok(());
    }
    rules.add_rule(PathBeneath::new(&handle, access)).map(drop).map_err(unavailable)
}

fn hidden_path(part: &LayoutPart) -> Option<&Path> {
    match part {
        LayoutPart::Hidden { path, .. } => Some(path),
        _ => None,
    }
}

/// Returns the path itself or, when it contains a hidden path, all entries in it that do not.
pub(crate) fn around(place: &Path, hidden: &[&Path]) -> Vec<PathBuf> {
    if hidden.contains(&place) {
        return Vec::new();
    }
    if !hidden.iter().any(|secret| secret.starts_with(place)) {
        return vec![place.to_owned()];
    }
    let listing = fs::read_dir(place).into_iter().flatten().flatten();
    listing.flat_map(|entry| around(&entry.path(), hidden)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn around_a_secret_its_neighbours_are_named_one_by_one() {
        let home = tempfile::tempdir().expect("a directory");
        let path = |name: &str| home.path().join(name);
        for name in [".ssh", ".config/gh", ".config/git", "src/deep"] {
            fs::create_dir_all(path(name)).expect("made");
        }
        let (ssh, gh) = (path(".ssh"), path(".config/gh"));
        let mut found = around(home.path(), &[&ssh, &gh]);
        found.sort();
        assert_eq!(found, [path(".config/git"), path("src")]);
        assert_eq!(around(&path("src"), &[&ssh]), [path("src")]);
        assert!(around(&ssh, &[&ssh]).is_empty());
    }
}
