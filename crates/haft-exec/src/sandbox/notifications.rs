//! Reports the denials of a sandboxed program from the kernel, instead of guessing them from the
//! program's output. The seccomp program that denies calls also makes the kernel report each call
//! that would change a file (and, without the network, each that would use it) to a thread of ours.
//! The thread checks whether the call exceeds the sandbox, records it, and lets it continue and
//! fail in the sandbox. A program that changes the path in between only falsifies the report. Two
//! calls are decided here: opening an internet socket without network is refused, and `connect` is
//! judged and performed by us (`connect.rs`).
//!
//! Calls that only read are not reported, because there are too many of them.

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
    connect::{ConnectFailure, Connections},
    kernel::{PeerAddress, SeccompNotification},
};
use super::{
    layout::{Layout, PathAccess},
    syscalls::Internet,
};

/// Maximum number of denials per command. A command that is denied a thousand times is denied for
/// the same few reasons.
const MAX_DENIALS: usize = 16;

/// The filter that the child installs; it sends us the listener.
pub(crate) struct ReportingFilter {
    /// Denies and reports calls. A single program, because two take the kernel twice as long, at
    /// the start and at each call.
    program: Vec<sock_filter>,
    socket: OwnedFd,
}

impl ReportingFilter {
    /// Installs the filter in the child. Allocates nothing. Returns false where the kernel does not
    /// support it or a listener exists already, and then the filter is not installed; also where
    /// the listener cannot be sent, and then the kernel fails the reported calls.
    pub(crate) fn begin(&self) -> bool {
        match kernel::listen(&self.program) {
            // Without a listener the kernel fails the calls with "no such call", which is a denial.
            Ok(listener) => kernel::send(self.socket.as_raw_fd(), listener).is_ok(),
            Err(_) => false,
        }
    }
}

/// Our end of the notifications.
pub(crate) struct NotificationListener {
    socket: OwnedFd,
    classifier: DenialClassifier,
    connections: Connections,
}

/// Decides which notified calls exceed the sandbox.
struct DenialClassifier {
    layout: Arc<Layout>,
    internet: Internet,
    /// The program that builds the sandbox from inside, which is not reported.
    builder: Option<PathBuf>,
}

/// The denials so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReportedDenials {
    refused: Arc<Mutex<Vec<Denial>>>,
    layout: Option<Arc<Layout>>,
}

impl ReportedDenials {
    pub(crate) fn all(&self) -> Vec<Denial> {
        self.lock().clone()
    }

    /// Returns why an existing path cannot be read. Reading is not reported, so this checks a given
    /// path.
    pub(crate) fn read_denial(&self, path: &Path) -> Option<Denial> {
        let layout = self.layout.as_ref()?;
        let path = fold(path);
        let denial_cause = layout.denial_cause(&path, PathAccess::Read)?;
        let (why, remedy) = denial_cause.explanation();
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

    fn add(&self, denial: Denial) {
        let mut all = self.lock();
        if all.len() < MAX_DENIALS && !all.contains(&denial) {
            all.push(denial);
        }
    }
}

/// Creates the two ends for one launch. Calls that `denying` denies fail in the kernel without a report. None
/// when there are no descriptors left: the command then runs without reports.
pub(crate) fn prepare_reporting(
    layout: Arc<Layout>,
    internet: Internet,
    builder: Option<PathBuf>,
    denying: &[sock_filter],
) -> Option<(ReportingFilter, NotificationListener)> {
    let (theirs, ours) = kernel::pair().ok()?;
    let program = filter::after(denying, &filter::program(internet));
    let reporter = ReportingFilter { program, socket: theirs };
    let connections = Connections::of(&layout, internet != Internet::Allowed);
    let classifier = DenialClassifier { layout, internet, builder };
    Some((reporter, NotificationListener { socket: ours, classifier, connections }))
}

impl NotificationListener {
    /// Starts listening once the child has called exec. Denials are recorded as long as any of its
    /// processes lives.
    pub(crate) fn begin(self) -> ReportedDenials {
        let reported = ReportedDenials {
            layout: Some(self.classifier.layout.clone()),
            ..ReportedDenials::default()
        };
        let Ok(listener) = kernel::receive(&self.socket) else { return reported };
        let notes = reported.clone();
        let (classifier, connections) = (self.classifier, self.connections);
        // If the thread cannot be started, the listener is closed, and the kernel refuses the calls
        // that would be reported.
        let _ = thread::Builder::new()
            .name("haft-seccomp".to_owned())
            .stack_size(128 << 10)
            .spawn(move || run_listener(&Arc::new(listener), &classifier, &connections, &notes));
        reported
    }
}

fn run_listener(
    listener: &Arc<OwnedFd>,
    classifier: &DenialClassifier,
    connections: &Connections,
    notes: &ReportedDenials,
) {
    kernel::answer_on_the_same_core(listener);
    while kernel::wait(listener) {
        let Some(notification) = kernel::next(listener) else { continue };
        let (denial, is_refused_here) = classifier.classify(&notification);
        if let Some(denial) = denial {
            notes.add(denial);
        }
        if filter::address_of(&notification).is_none() {
            kernel::answer(listener, &notification, is_refused_here);
        } else if let Some(ConnectFailure::Foreign(path)) =
            connections.connect(listener, &notification)
        {
            notes.add(foreign_socket_denial(path.as_deref()));
            Connections::refuse(listener, &notification);
        }
    }
}

/// The denial of a connection to a socket that another program created.
fn foreign_socket_denial(path: Option<&Path>) -> Denial {
    let what = path.map_or_else(
        || "connect to an abstract socket".to_owned(),
        |path| format!("connect to {}", path.display()),
    );
    Denial {
        what,
        why: "the socket existed before the command began".to_owned(),
        remedy: "a command can reach the sockets that it creates itself, and those of this session in $TMPDIR".to_owned(),
        is_reverted: false,
    }
}

impl DenialClassifier {
    /// Returns the denial, if there is one, and true when this code must refuse the call because no
    /// other mechanism does.
    fn classify(&self, notification: &SeccompNotification) -> (Option<Denial>, bool) {
        if filter::opens_internet(notification) {
            return (Some(self.no_network("use the network".to_owned())), true);
        }
        if let Some((address, length)) = filter::address_of(notification) {
            let denial = match kernel::address(notification.pid, address, length) {
                Some(PeerAddress::Internet(address)) => self.unreachable(address),
                // A missing socket is not denied.
                Some(PeerAddress::Path(path)) if path.exists() => {
                    self.path("connect to", notification, None, &path)
                }
                _ => None,
            };
            return (denial, false);
        }
        let paths = filter::paths_of(notification);
        let denial = paths.into_iter().flatten().find_map(|(directory, text)| {
            let text = kernel::text(notification.pid, text)?;
            self.path(
                "write",
                notification,
                directory,
                &PathBuf::from(std::ffi::OsString::from_vec(text)),
            )
        });
        (denial, false)
    }

    fn unreachable(&self, address: SocketAddr) -> Option<Denial> {
        let is_own = address.ip().is_loopback();
        (self.internet != Internet::Allowed && !is_own)
            .then(|| self.no_network(format!("connect to {address}")))
    }

    #[expect(clippy::unused_self, reason = "belongs to the classifier")]
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
        notification: &SeccompNotification,
        directory: Option<RawFd>,
        path: &Path,
    ) -> Option<Denial> {
        let whole = if path.is_absolute() {
            path.to_owned()
        } else {
            kernel::directory(notification.pid, directory)?.join(path)
        };
        let whole = fold(&whole);
        let denial_cause = self.layout.denial_cause(&whole, PathAccess::Write)?;
        let is_builder = self.builder.as_ref().is_some_and(|builder| {
            kernel::program(notification.pid).is_some_and(|program| program == *builder)
        });
        let (why, remedy) = denial_cause.explanation();
        (!is_builder).then(|| Denial {
            what: format!("{verb} {}", whole.display()),
            why: why.to_owned(),
            remedy: remedy.to_owned(),
            is_reverted: false,
        })
    }
}

/// Removes `.` and `..` lexically.
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
