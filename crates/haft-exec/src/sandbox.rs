//! Sandboxes programs with mechanisms of this machine's kernel. Two backends are built from one
//! list of the paths that a program sees (`layout.rs`):
//!
//! - `Landlock` needs no other program: Landlock rules, a seccomp program, and a namespace set:
//!   mounts (and, without the network, an empty network) that the commands of a session share. The
//!   mounts keep `.git/hooks`, `.git/config` and `.haft` unchanged in a writable workspace, because
//!   Landlock cannot exclude a path from what it allows, and they hide the sockets of other
//!   programs, because Landlock does not see connections to them. Where namespaces are not
//!   available, only launches that change nothing are accepted, and these get no sockets at all;
//!   others are `unavailable`.
//! - `Bubblewrap` adds a separate PID namespace. Where root may build namespace sets it is started
//!   in one, and has little left to build.
//!
//! The mounts protect the paths: a mount point can be neither renamed nor removed from inside. From
//! outside it can: when another process replaces `.git/config` (as `git config` does) while a
//! program runs, the kernel removes the mount, and that one program may change the new file. The
//! next launch is protected again. A `.git` that a program itself creates is protected from the
//! next launch on.

mod bubblewrap;
mod capabilities;
pub(crate) mod container;
mod denial_cause;
mod home;
mod landlock;
mod landlock_rules;
mod layout;
mod machine;
mod mounts;
mod namespace_set;
mod notifications;
mod probe;
mod raw;
mod remembered;
mod scratch;
mod syscalls;
#[cfg(test)]
mod tests;
mod trial;

use std::path::Path;

use haft_core::ToolError;

pub(crate) use self::{
    bubblewrap::Bubblewrap,
    landlock::Landlock,
    layout::{Layout, LayoutPart, PathAccess, areas, searched},
    namespace_set::{NamespaceEntry, NamespaceSet},
    notifications::{NotificationListener, ReportedDenials, ReportingFilter},
    scratch::{Scratch, Scratches},
};
pub use self::{
    home::{ShownFolders, shown_places},
    probe::{ProbeResult, verdicts},
    remembered::remember_probes_in,
};
use crate::processes::backend::LaunchBackend;

/// The sandbox backend that a caller asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackendChoice {
    /// The strongest one that works on this machine.
    Auto,
    Landlock,
    Bubblewrap,
}

/// Creates the requested backend, never another one. Private directories of sessions are created
/// below `temporary`.
///
/// # Errors
/// Of kind `unavailable` when it does not work here, with advice.
pub(crate) fn backend(
    wanted: BackendChoice,
    temporary: &Path,
) -> Result<Box<dyn LaunchBackend>, ToolError> {
    match choose(wanted, probe::bubblewrap, probe::landlock)? {
        ChosenBackend::Bubblewrap => Ok(Box::new(Bubblewrap::find(temporary)?)),
        ChosenBackend::Landlock => Ok(Box::new(Landlock::in_directory(temporary))),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChosenBackend {
    Landlock,
    Bubblewrap,
}

/// Tries only the candidates.
fn choose<'a>(
    wanted: BackendChoice,
    bubblewrap: impl Fn() -> &'a ProbeResult,
    landlock: impl Fn() -> &'a ProbeResult,
) -> Result<ChosenBackend, ToolError> {
    let candidates: &[ChosenBackend] = match wanted {
        BackendChoice::Auto => &[ChosenBackend::Bubblewrap, ChosenBackend::Landlock],
        BackendChoice::Landlock => &[ChosenBackend::Landlock],
        BackendChoice::Bubblewrap => &[ChosenBackend::Bubblewrap],
    };
    let mut reasons = Vec::new();
    let mut advice = Vec::new();
    for candidate in candidates {
        let verdict = match candidate {
            ChosenBackend::Bubblewrap => bubblewrap(),
            ChosenBackend::Landlock => landlock(),
        };
        if verdict.works {
            return Ok(*candidate);
        }
        reasons.push(format!("{}: {}", verdict.mechanism, verdict.detail));
        advice.extend(verdict.advice.clone());
    }
    let message = format!("no sandbox works on this machine ({})", reasons.join("; "));
    let advice =
        if advice.is_empty() { "run `haft doctor`".to_owned() } else { advice.join("; or ") };
    Err(ToolError::unavailable(message).hint(advice))
}
