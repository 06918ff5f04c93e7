//! What a sandboxed program wanted and did not get, told by the kernel and not guessed from what the program says. The
//! seccomp program that denies also has the kernel report each call that would change a file (and, without the network,
//! each that would reach for it) to a thread of ours, which looks whether it goes beyond the fence, notes it, and lets it
//! go on to where it fails. Nothing is decided here: a program that changes the path in between fools only the note. The one
//! exception is `connect`, which is decided and made here (`connect.rs`).
//!
//! Calls that only read are not reported, there are too many of them.

mod connect;
mod filter;
mod kernel;

use std::{
    net::SocketAddr,
    os::{
        fd::{AsRawFd, OwnedFd, RawFd},
        unix::ffi::OsStringExt,
    },
    path::{Component, Path, PathBuf},
    sync::Arc,
    thread,
};

use parking_lot::{Mutex, MutexGuard};

use haft_core::commands::Denial;
use seccompiler::sock_filter;

pub(super) use self::kernel::{pair, receive, send};
use self::{
    connect::{Connections, Failure},
    kernel::{Address, Notice},
};
use super::{
    layout::{Access, Layout},
    syscalls::Internet,
};

/// A command that is refused a thousand times is refused for the same few reasons.
const MOST: usize = 16;

/// What the child puts up, and sends us what it gets for it.
pub(crate) struct Reporter {
    /// Denies what is denied, and reports what is to be reported. One program: two take the kernel twice as long, at the
    /// start and at each call.
    program: Vec<sock_filter>,
    socket: OwnedFd,
}

impl Reporter {
    /// In the child. Nothing is allocated. False where the kernel does not have it, or where somebody listens already:
    /// then nothing has changed, and nothing is denied.
    pub(crate) fn begin(&self) -> bool {
        match kernel::listen(&self.program) {
            // Who cannot tell where it listens must not go on: its calls would be answered by nobody. The kernel answers
            // them then with "no such call", which is a refusal.
            Ok(listener) => kernel::send(self.socket.as_raw_fd(), listener).is_ok(),
            Err(_) => false,
        }
    }
}

/// Our side of it.
pub(crate) struct Listening {
    socket: OwnedFd,
    judge: Judge,
    connections: Connections,
}

/// What is behind the fence, for telling what is not.
struct Judge {
    layout: Arc<Layout>,
    internet: Internet,
    /// Who builds the fence from inside, and is not meant.
    builder: Option<PathBuf>,
}

/// What was refused so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noted {
    refused: Arc<Mutex<Vec<Denial>>>,
    layout: Option<Arc<Layout>>,
}

impl Noted {
    pub(crate) fn all(&self) -> Vec<Denial> {
        self.lock().clone()
    }

    /// What keeps it from reading something that is there. Reading is not reported: somebody has to ask for a path.
    pub(crate) fn read_denial(&self, path: &Path) -> Option<Denial> {
        let layout = self.layout.as_ref()?;
        let path = fold(path);
        let obstacle = layout.obstacle(&path, Access::Read)?;
        let (why, remedy) = obstacle.words();
        path.exists().then(|| Denial {
            what: format!("read {}", path.display()),
            why: why.to_owned(),
            remedy: remedy.to_owned(),
            is_reverted: false,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Denial>> {
        self.refused.lock()
    }

    fn add(&self, refusal: Denial) {
        let mut all = self.lock();
        if all.len() < MOST && !all.contains(&refusal) {
            all.push(refusal);
        }
    }
}

/// The two sides, for one launch. What `denying` denies is not reported. None when there are no descriptors left: a command runs without being told about.
pub(crate) fn arrange(
    layout: Arc<Layout>,
    internet: Internet,
    builder: Option<PathBuf>,
    denying: &[sock_filter],
) -> Option<(Reporter, Listening)> {
    let (theirs, ours) = kernel::pair().ok()?;
    let program = filter::after(denying, &filter::program(internet));
    let reporter = Reporter { program, socket: theirs };
    let connections = Connections::of(&layout, internet != Internet::Allowed);
    let judge = Judge { layout, internet, builder };
    Some((reporter, Listening { socket: ours, judge, connections }))
}

impl Listening {
    /// Once the child is the program. Its notes come as long as anything of it lives.
    pub(crate) fn begin(self) -> Noted {
        let noted = Noted { layout: Some(self.judge.layout.clone()), ..Noted::default() };
        let Ok(listener) = kernel::receive(&self.socket) else { return noted };
        let notes = noted.clone();
        let (judge, connections) = (self.judge, self.connections);
        // Should there be no thread, the listener is closed, and the kernel refuses what would be reported.
        let _ = thread::Builder::new()
            .name("haft-notices".to_owned())
            .stack_size(128 << 10)
            .spawn(move || attend(&Arc::new(listener), &judge, &connections, &notes));
        noted
    }
}

fn attend(listener: &Arc<OwnedFd>, judge: &Judge, connections: &Connections, notes: &Noted) {
    kernel::answer_on_the_same_core(listener);
    while kernel::wait(listener) {
        let Some(notice) = kernel::next(listener) else { continue };
        let (refusal, is_answered_here) = judge.judge(&notice);
        if let Some(refusal) = refusal {
            notes.add(refusal);
        }
        if filter::address_of(&notice).is_none() {
            kernel::answer(listener, &notice, is_answered_here);
        } else if let Some(Failure::Foreign(path)) = connections.connect(listener, &notice) {
            notes.add(foreign(path.as_deref()));
            Connections::refuse(listener, &notice);
        }
    }
}

/// Of a socket that another program has made.
fn foreign(path: Option<&Path>) -> Denial {
    let what = path.map_or_else(
        || "connect to an abstract socket".to_owned(),
        |path| format!("connect to {}", path.display()),
    );
    Denial {
        what,
        why: "it is a socket that was there before the command began".to_owned(),
        remedy: "a command reaches the sockets that it makes itself, and those of this session in $TMPDIR".to_owned(),
        is_reverted: false,
    }
}

impl Judge {
    /// What is refused, if anything; and whether it is refused by us, since no other wall stands there.
    fn judge(&self, notice: &Notice) -> (Option<Denial>, bool) {
        if filter::opens_internet(notice) {
            return (Some(self.no_network("use the network".to_owned())), true);
        }
        if let Some((address, length)) = filter::address_of(notice) {
            let refusal = match kernel::address(notice.pid, address, length) {
                Some(Address::Internet(address)) => self.unreachable(address),
                // One that is nowhere is not kept from anybody.
                Some(Address::Path(path)) if path.exists() => {
                    self.path("connect to", notice, None, &path)
                }
                _ => None,
            };
            return (refusal, false);
        }
        let paths = filter::paths_of(notice);
        let refusal = paths.into_iter().flatten().find_map(|(directory, text)| {
            let text = kernel::text(notice.pid, text)?;
            self.path(
                "write",
                notice,
                directory,
                &PathBuf::from(std::ffi::OsString::from_vec(text)),
            )
        });
        (refusal, false)
    }

    fn unreachable(&self, address: SocketAddr) -> Option<Denial> {
        let is_own = address.ip().is_loopback();
        (self.internet != Internet::Allowed && !is_own)
            .then(|| self.no_network(format!("connect to {address}")))
    }

    #[expect(clippy::unused_self, reason = "reads as what the judge says")]
    fn no_network(&self, what: String) -> Denial {
        Denial {
            what,
            why: "the command has no network".to_owned(),
            remedy: "call again with network=true".to_owned(),
            is_reverted: false,
        }
    }

    fn path(
        &self,
        verb: &str,
        notice: &Notice,
        directory: Option<RawFd>,
        path: &Path,
    ) -> Option<Denial> {
        let whole = if path.is_absolute() {
            path.to_owned()
        } else {
            kernel::directory(notice.pid, directory)?.join(path)
        };
        let whole = fold(&whole);
        let obstacle = self.layout.obstacle(&whole, Access::Write)?;
        let is_builder = self.builder.as_ref().is_some_and(|builder| {
            kernel::program(notice.pid).is_some_and(|program| program == *builder)
        });
        let (why, remedy) = obstacle.words();
        (!is_builder).then(|| Denial {
            what: format!("{verb} {}", whole.display()),
            why: why.to_owned(),
            remedy: remedy.to_owned(),
            is_reverted: false,
        })
    }
}

/// Without `.` and `..`, by the letters.
pub(super) fn fold(path: &Path) -> PathBuf {
    let mut folded = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                folded.pop();
            }
            other => folded.push(other),
        }
    }
    folded
}
