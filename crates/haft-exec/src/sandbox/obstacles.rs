//! What in a layout keeps a program from a path, and what would not. For telling, not for holding: that is done by mounts
//! and rules which are made from the same list.

use std::path::Path;

use super::{
    layout::{Access, Layout, Part},
    notices::fold,
};

/// Why a path cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// It is in no part of the layout.
    Outside,
    /// It is covered.
    Secret,
    /// It is there to be read.
    System,
    /// It makes other programs run something.
    Protected,
    /// The call may change nothing.
    ReadOnlyCall,
}

impl Obstacle {
    /// Why, and what would allow it.
    pub(crate) fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Outside => (
                "it is outside of what the sandbox shows",
                "a person can show its folder in their config: `[sandbox] read = [\"~/folder\"]`, or `write`",
            ),
            Self::Secret => {
                ("it is a secret, which the sandbox hides", "a person can add it to secrets.except")
            }
            Self::System => {
                ("the sandbox shows it to be read only", "write below the workspace or $TMPDIR")
            }
            Self::Protected => (
                "it makes other programs run something, so commands may not change it",
                "use a file tool, where a person is asked",
            ),
            Self::ReadOnlyCall => {
                ("this call may change no files", "a call that is granted writing")
            }
        }
    }
}

impl Layout {
    /// What keeps a program from an absolute path without dots.
    pub(crate) fn obstacle(&self, path: &Path, wanted: Access) -> Option<Obstacle> {
        // The last part that a path lies in is the one that a program meets.
        let met = self.parts.iter().rev().find(|part| path.starts_with(part.at()));
        match met {
            None if is_of_the_kernel(path) => {
                let is_free = wanted == Access::Read || leads_to_what_is_open(path);
                (!is_free).then_some(Obstacle::System)
            }
            None => Some(Obstacle::Outside),
            Some(Part::Hidden { .. }) => Some(Obstacle::Secret),
            Some(Part::Link { at, to }) => {
                let rest = path.strip_prefix(at).unwrap_or(Path::new(""));
                let target = at.parent().unwrap_or(Path::new("/")).join(to).join(rest);
                // A link that leads to itself leads nowhere.
                (target != path).then(|| self.obstacle(&fold(&target), wanted)).flatten()
            }
            Some(Part::Shown { access: Access::Read, path: shown }) if wanted == Access::Write => {
                let is_in_workspace = self.roots.iter().any(|root| path.starts_with(root));
                Some(match (is_in_workspace, self.roots.contains(shown)) {
                    (false, _) => Obstacle::System,
                    (true, true) => Obstacle::ReadOnlyCall,
                    (true, false) => Obstacle::Protected,
                })
            }
            Some(Part::Private { at, source }) => {
                is_only_outside(path, wanted, at, source).then_some(Obstacle::Outside)
            }
            Some(_) => None,
        }
    }
}

impl Part {
    fn at(&self) -> &Path {
        match self {
            Self::Shown { path, .. } | Self::Hidden { path, .. } => path,
            Self::Link { at, .. } | Self::Private { at, .. } => at,
        }
    }
}

/// Whether what is needed is there for everybody else, but not in the private place that is in its stead: for reading the
/// file, for making one its folder.
fn is_only_outside(path: &Path, wanted: Access, at: &Path, private: &Path) -> bool {
    let needed = match wanted {
        Access::Read => Some(path),
        Access::Write => path.parent(),
    };
    let Some(needed) = needed.filter(|needed| *needed != at) else { return false };
    let inside = needed.strip_prefix(at).map(|rest| private.join(rest));
    inside.is_ok_and(|inside| !inside.exists()) && needed.exists()
}

fn is_of_the_kernel(path: &Path) -> bool {
    ["/proc", "/sys", "/dev"].iter().any(|at| path.starts_with(at))
}

/// Devices that everybody has, and names of what a process has open.
fn leads_to_what_is_open(path: &Path) -> bool {
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

    fn layout(access: Access) -> Layout {
        let shown = |path: &str, access| Part::Shown { path: path.into(), access };
        let mut parts = vec![
            shown("/usr", Access::Read),
            Part::Link { at: "/bin".into(), to: "usr/bin".into() },
            Part::Private { at: "/tmp".into(), source: "/x/tmp".into() },
            Part::Link { at: "/var/tmp".into(), to: "../tmp".into() },
            shown("/home/u", Access::Read),
            shown("/home/u/w", access),
            Part::Hidden { path: "/home/u/.ssh".into(), is_directory: true },
        ];
        if access == Access::Write {
            parts.push(shown("/home/u/w/.git", Access::Write));
            parts.push(shown("/home/u/w/.git/hooks", Access::Read));
        }
        Layout { parts, roots: vec!["/home/u/w".into()] }
    }

    #[track_caller]
    fn check(call: Access, path: &str, wanted: Access, expected: Option<Obstacle>) {
        assert_eq!(layout(call).obstacle(Path::new(path), wanted), expected, "{path}");
    }

    #[test]
    fn a_path_is_judged_by_what_lies_on_top() {
        use Access::{Read, Write};
        check(Write, "/home/u/w/src/a", Write, None);
        check(Write, "/home/u/w/.git/index", Write, None);
        check(Write, "/home/u/w/.git/hooks/pre-commit", Write, Some(Obstacle::Protected));
        check(Write, "/home/u/w/.git/hooks/pre-commit", Read, None);
        check(Read, "/home/u/w/src/a", Write, Some(Obstacle::ReadOnlyCall));
        check(Read, "/home/u/.ssh/id", Read, Some(Obstacle::Secret));
        check(Read, "/home/u/.sshx", Read, None);
        check(Write, "/usr/bin/x", Write, Some(Obstacle::System));
        check(Write, "/bin/x", Write, Some(Obstacle::System));
        check(Write, "/tmp/x", Write, None);
        check(Write, "/var/tmp/x", Write, None);
        check(Write, "/srv/x", Read, Some(Obstacle::Outside));
        check(Write, "/proc/sys/x", Read, None);
        check(Write, "/proc/sys/x", Write, Some(Obstacle::System));
        check(Write, "/proc/self/fd/1", Write, None);
        check(Write, "/dev/null", Write, None);
        check(Write, "/dev/sda", Write, Some(Obstacle::System));
    }

    #[test]
    fn each_obstacle_says_what_would_allow_it() {
        for obstacle in [
            Obstacle::Outside,
            Obstacle::Secret,
            Obstacle::System,
            Obstacle::Protected,
            Obstacle::ReadOnlyCall,
        ] {
            let (why, remedy) = obstacle.words();
            assert!(!why.is_empty() && !remedy.is_empty(), "{obstacle:?}");
        }
    }
}
