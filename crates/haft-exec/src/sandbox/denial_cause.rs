//! Explains why a layout denies a path, and what would allow it. Only for messages: mounts and
//! rules, which are built from the same list, enforce it.

use std::path::Path;

use super::{
    layout::{Layout, LayoutPart, PathAccess},
    notifications::fold,
};

/// Why a path is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DenialCause {
    /// It is in no part of the layout.
    Outside,
    /// It is covered.
    Secret,
    /// It is read-only.
    System,
    /// It makes other programs run something.
    Protected,
    /// The call may change nothing.
    ReadOnlyCall,
}

impl DenialCause {
    /// Returns the reason, and what would allow it.
    pub(crate) fn explanation(self) -> (&'static str, &'static str) {
        match self {
            Self::Outside => (
                "it is outside the sandbox",
                "a person can show its folder in their config: `[sandbox] read = [\"~/folder\"]`, or `write`",
            ),
            Self::Secret => {
                ("it is a secret, which the sandbox hides", "a person can add it to secrets.except")
            }
            Self::System => {
                ("the sandbox shows it read-only", "write below the workspace or $TMPDIR")
            }
            Self::Protected => (
                "it makes other programs run something, so commands may not change it",
                "use a file tool, which asks for approval",
            ),
            Self::ReadOnlyCall => {
                ("this call may not change files", "use a call with write access")
            }
        }
    }
}

impl Layout {
    /// Returns why a program cannot access an absolute path without dots.
    pub(crate) fn denial_cause(&self, path: &Path, wanted: PathAccess) -> Option<DenialCause> {
        // The last part that contains the path is the one that a program sees.
        let met = self.parts.iter().rev().find(|part| path.starts_with(part.at()));
        match met {
            None if is_of_the_kernel(path) => {
                let is_free = wanted == PathAccess::Read || is_usable_device_or_descriptor(path);
                (!is_free).then_some(DenialCause::System)
            }
            None => Some(DenialCause::Outside),
            Some(LayoutPart::Hidden { .. }) => Some(DenialCause::Secret),
            Some(LayoutPart::Link { at, to }) => {
                let rest = path.strip_prefix(at).unwrap_or(Path::new(""));
                let target = at.parent().unwrap_or(Path::new("/")).join(to).join(rest);
                // A link to itself has no target.
                (target != path).then(|| self.denial_cause(&fold(&target), wanted)).flatten()
            }
            Some(LayoutPart::Shown { access: PathAccess::Read, path: shown })
                if wanted == PathAccess::Write =>
            {
                let is_in_workspace = self.roots.iter().any(|root| path.starts_with(root));
                Some(match (is_in_workspace, self.roots.contains(shown)) {
                    (false, _) => DenialCause::System,
                    (true, true) => DenialCause::ReadOnlyCall,
                    (true, false) => DenialCause::Protected,
                })
            }
            Some(LayoutPart::Private { at, source }) => {
                is_only_outside(path, wanted, at, source).then_some(DenialCause::Outside)
            }
            Some(_) => None,
        }
    }
}

impl LayoutPart {
    fn at(&self) -> &Path {
        match self {
            Self::Shown { path, .. } | Self::Hidden { path, .. } => path,
            Self::Link { at, .. } | Self::Private { at, .. } => at,
        }
    }
}

/// Returns true when the required path exists outside, but not in the private directory that
/// replaces it: for reading the file, for creating one its folder.
fn is_only_outside(path: &Path, wanted: PathAccess, at: &Path, private: &Path) -> bool {
    let needed = match wanted {
        PathAccess::Read => Some(path),
        PathAccess::Write => path.parent(),
    };
    let Some(needed) = needed.filter(|needed| *needed != at) else { return false };
    let inside = needed.strip_prefix(at).map(|rest| private.join(rest));
    inside.is_ok_and(|inside| !inside.exists()) && needed.exists()
}

fn is_of_the_kernel(path: &Path) -> bool {
    ["/proc", "/sys", "/dev"].iter().any(|at| path.starts_with(at))
}

/// Devices that every process can use, and names of open files of a process.
fn is_usable_device_or_descriptor(path: &Path) -> bool {
    const DEVICES: &[&str] = &[
        "/dev/null",
        "/dev/zero",
        "/dev/full",
        "/dev/random",
        "/dev/urandom",
        "/dev/tty",
        "/dev/ptmx",
        "/dev/pts",
        "/dev/shm",
        "/dev/fd",
        "/dev/stdin",
        "/dev/stdout",
        "/dev/stderr",
    ];
    let is_handle =
        path.starts_with("/proc") && path.components().any(|part| part.as_os_str() == "fd");
    is_handle || DEVICES.iter().any(|device| path.starts_with(device))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(access: PathAccess) -> Layout {
        let shown = |path: &str, access| LayoutPart::Shown { path: path.into(), access };
        let mut parts = vec![
            shown("/usr", PathAccess::Read),
            LayoutPart::Link { at: "/bin".into(), to: "usr/bin".into() },
            LayoutPart::Private { at: "/tmp".into(), source: "/x/tmp".into() },
            LayoutPart::Link { at: "/var/tmp".into(), to: "../tmp".into() },
            shown("/home/u", PathAccess::Read),
            shown("/home/u/w", access),
            LayoutPart::Hidden { path: "/home/u/.ssh".into(), is_directory: true },
        ];
        if access == PathAccess::Write {
            parts.push(shown("/home/u/w/.git", PathAccess::Write));
            parts.push(shown("/home/u/w/.git/hooks", PathAccess::Read));
        }
        Layout { parts, roots: vec!["/home/u/w".into()] }
    }

    #[track_caller]
    fn check(call: PathAccess, path: &str, wanted: PathAccess, expected: Option<DenialCause>) {
        assert_eq!(layout(call).denial_cause(Path::new(path), wanted), expected, "{path}");
    }

    #[test]
    fn a_path_is_judged_by_what_lies_on_top() {
        use PathAccess::{Read, Write};
        check(Write, "/home/u/w/src/a", Write, None);
        check(Write, "/home/u/w/.git/index", Write, None);
        check(Write, "/home/u/w/.git/hooks/pre-commit", Write, Some(DenialCause::Protected));
        check(Write, "/home/u/w/.git/hooks/pre-commit", Read, None);
        check(Read, "/home/u/w/src/a", Write, Some(DenialCause::ReadOnlyCall));
        check(Read, "/home/u/.ssh/id", Read, Some(DenialCause::Secret));
        check(Read, "/home/u/.sshx", Read, None);
        check(Write, "/usr/bin/x", Write, Some(DenialCause::System));
        check(Write, "/bin/x", Write, Some(DenialCause::System));
        check(Write, "/tmp/x", Write, None);
        check(Write, "/var/tmp/x", Write, None);
        check(Write, "/srv/x", Read, Some(DenialCause::Outside));
        check(Write, "/proc/sys/x", Read, None);
        check(Write, "/proc/sys/x", Write, Some(DenialCause::System));
        check(Write, "/proc/self/fd/1", Write, None);
        check(Write, "/dev/null", Write, None);
        check(Write, "/dev/sda", Write, Some(DenialCause::System));
    }

    #[test]
    fn each_denial_cause_says_what_would_allow_it() {
        for denial_cause in [
            DenialCause::Outside,
            DenialCause::Secret,
            DenialCause::System,
            DenialCause::Protected,
            DenialCause::ReadOnlyCall,
        ] {
            let (why, remedy) = denial_cause.explanation();
            assert!(!why.is_empty() && !remedy.is_empty(), "{denial_cause:?}");
        }
    }
}
