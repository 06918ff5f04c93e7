//! Walls of this machine's kernel around a program. Two fences, made from one list of what a program sees (`layout.rs`):
//!
//! - `Landlock` needs no program: Landlock rules, a seccomp program, and a room: mounts (and, without the network, an empty
//!   network) that the commands of a session share. The mounts are what keeps `.git/hooks`, `.git/config` and `.haft` as they are in a workspace that may be changed, because
//!   Landlock cannot take something out of what it allows, and what hides other programs' sockets, because Landlock does
//!   not see who connects to one. Where no such namespace can be had, only launches that change nothing are taken, and
//!   these get no sockets at all; others are `unavailable`.
//! - `Bubblewrap` has in addition processes of its own. Where root may build rooms it is started in one, and has little left
//!   to build.
//!
//! What holds the protected places is the mount: what something is mounted on can be neither renamed nor removed from
//! inside. From outside it can: when somebody else replaces `.git/config` (as `git config` does) while a program runs, the
//! kernel takes the mount away, and that one program may change the new file. The next launch is whole again. A `.git` that
//! a program itself makes, where there was none, is protected from the next launch on.

mod bubblewrap;
pub(crate) mod container;
mod home;
mod landlock;
mod layout;
mod machine;
mod mounts;
mod notices;
mod obstacles;
mod probe;
mod raw;
mod remembered;
mod rights;
mod rooms;
mod rules;
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
    layout::{Access, Layout, Part, areas, searched},
    notices::{Listening, Noted, Reporter},
    rooms::{Inside, Room},
    scratch::{Scratch, Scratches},
};
pub use self::{
    home::{ShownFolders, shown_places},
    probe::{ProbeResult, verdicts},
    remembered::remember_probes_in,
};
use crate::processes::fence::Fence;

/// Which fence somebody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The strongest that this machine has.
    Auto,
    Landlock,
    Bubblewrap,
}

/// The fence that is asked for; never another. Private directories of sessions are made below `temporary`.
///
/// # Errors
/// Of kind `unavailable` when it does not work here, with what to do about it.
pub(crate) fn fence(wanted: Wanted, temporary: &Path) -> Result<Box<dyn Fence>, ToolError> {
    match choose(wanted, probe::bubblewrap, probe::landlock)? {
        Chosen::Bubblewrap => Ok(Box::new(Bubblewrap::find(temporary)?)),
        Chosen::Landlock => Ok(Box::new(Landlock::in_directory(temporary))),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chosen {
    Landlock,
    Bubblewrap,
}

/// Only what may be chosen is tried.
fn choose<'a>(
    wanted: Wanted,
    bubblewrap: impl Fn() -> &'a ProbeResult,
    landlock: impl Fn() -> &'a ProbeResult,
) -> Result<Chosen, ToolError> {
    let candidates: &[Chosen] = match wanted {
        Wanted::Auto => &[Chosen::Bubblewrap, Chosen::Landlock],
        Wanted::Landlock => &[Chosen::Landlock],
        Wanted::Bubblewrap => &[Chosen::Bubblewrap],
    };
    let mut reasons = Vec::new();
    let mut advice = Vec::new();
    for candidate in candidates {
        let verdict = match candidate {
            Chosen::Bubblewrap => bubblewrap(),
            Chosen::Landlock => landlock(),
        };
        if verdict.works {
            return Ok(*candidate);
        }
        reasons.push(format!("{}: {}", verdict.mechanism, verdict.detail));
        advice.extend(verdict.advice.clone());
    }
    let message = format!("the sandbox cannot be had on this machine ({})", reasons.join("; "));
    let advice =
        if advice.is_empty() { "run `haft doctor`".to_owned() } else { advice.join("; or ") };
    Err(ToolError::unavailable(message).hint(advice))
}
