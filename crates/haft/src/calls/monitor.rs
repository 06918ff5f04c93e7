//! Monitors a call from a second thread: the first signal cancels it, the second one ends the
//! process. Draws the status line, and abandons a tool that blocks its thread beyond the deadline.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use haft_core::{
    CallEvent, CallEventKind, CallRequest, CancellationToken, DEFAULT_DEADLINE, ErrorKind, Gate,
    Registry, Subscription, ToolError,
};
use tokio::{
    runtime::{Builder, Runtime},
    signal::unix::{SignalKind, signal},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::{Instant, sleep_until},
};

use crate::{
    progress::{CallProgress, DRAW_INTERVAL},
    terminal::Terminal,
};

/// Grace period for the gate to end a call after its deadline. It is longer than the gate's own
/// grace period, so only a tool that blocks its thread exceeds it.
const GRACE: Duration = Duration::from_secs(3);
/// A duration that never passes in practice.
const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Whether a status line is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusLine {
    Shown,
    Hidden,
}

/// Reason for abandoning a call.
pub(crate) enum Abandoned {
    /// The user interrupted twice: end without a message.
    AtOnce,
    /// The tool blocks its thread.
    Stuck(ToolError),
}

/// Monitors a call from a second thread.
pub(crate) struct CallMonitor {
    watch: CallWatch,
    runtime: Runtime,
}

struct CallWatch {
    terminal: Arc<Terminal>,
    status_line: StatusLine,
    grace: Duration,
    interruptions: UnboundedReceiver<()>,
}

/// The monitored call.
pub(super) struct MonitoredCall {
    tool: String,
    deadline: Option<Duration>,
    cancel: CancellationToken,
    registry: Registry,
    events: Subscription,
    is_started: bool,
    claim: Arc<ReportClaim>,
}

/// The right to report how the call ended. The first thread to take it has it.
#[derive(Default)]
pub(super) struct ReportClaim(AtomicBool);

impl ReportClaim {
    pub(super) fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

impl MonitoredCall {
    pub(super) fn of(gate: &Gate, request: &CallRequest, claim: Arc<ReportClaim>) -> Self {
        Self {
            tool: request.tool.clone(),
            deadline: request.context.deadline,
            cancel: request.context.cancel.clone(),
            registry: gate.registry().clone(),
            events: gate.events().subscribe(),
            is_started: false,
            claim,
        }
    }
}

impl CallMonitor {
    /// Makes signals cancel the call instead of ending the process. Signals that arrive before
    /// `watch` are kept.
    ///
    /// # Errors
    /// When the process has no file descriptors or memory left.
    pub(crate) fn new(terminal: Arc<Terminal>, status_line: StatusLine) -> io::Result<Self> {
        let (monitor, interrupt) = Self::without_signals(terminal, status_line, GRACE)?;
        let _inside = monitor.runtime.enter();
        forward_signals(&interrupt);
        Ok(monitor)
    }

    /// Returns a monitor without signal handlers. Only the returned sender interrupts it.
    pub(super) fn without_signals(
        terminal: Arc<Terminal>,
        status_line: StatusLine,
        grace: Duration,
    ) -> io::Result<(Self, UnboundedSender<()>)> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (interrupt, interruptions) = unbounded_channel();
        let watch = CallWatch { terminal, status_line, grace, interruptions };
        Ok((Self { watch, runtime }, interrupt))
    }

    /// Monitors the call until it must be abandoned. Returns `None` when the call's own thread
    /// ended it first.
    pub(super) fn watch(mut self, call: MonitoredCall) -> Option<Abandoned> {
        let claim = call.claim.clone();
        let end = self.runtime.block_on(self.watch.run(call));
        claim.take().then_some(end)
    }

    /// Returns the terminal of the status line.
    pub(super) fn terminal(&self) -> Arc<Terminal> {
        self.watch.terminal.clone()
    }
}

impl CallWatch {
    async fn run(&mut self, mut call: MonitoredCall) -> Abandoned {
        let mut progress = CallProgress::default();
        let mut beat = tokio::time::interval(DRAW_INTERVAL);
        let mut end = AbandonTime { at: Instant::now() + NEVER, kind: ErrorKind::Timeout };
        loop {
            tokio::select! {
                Some(()) = self.interruptions.recv() => {
                    if call.cancel.is_cancelled() {
                        return Abandoned::AtOnce;
                    }
                    call.cancel.cancel();
                    end = AbandonTime { at: Instant::now() + self.grace, kind: ErrorKind::Cancelled };
                }
                Some(event) = call.events.next() => {
                    if let Some(deadline) = call.started(&event).await {
                        end.at = end.at.min(Instant::now() + deadline + self.grace);
                    }
                    progress.update(event, std::time::Instant::now());
                }
                _ = beat.tick(), if self.status_line == StatusLine::Shown => {
                    if let Some(line) = progress.line(std::time::Instant::now()) {
                        self.terminal.draw_status(&line);
                    }
                }
                () = sleep_until(end.at) => return Abandoned::Stuck(stuck(&call.tool, end.kind)),
            }
        }
    }
}

/// The time to abandon the call, and the error kind.
struct AbandonTime {
    at: Instant,
    kind: ErrorKind,
}

impl MonitoredCall {
    /// Returns the deadline when the call starts to run. The wait for an approval does not count,
    /// and neither do the calls that its tool makes: they start later and have their own deadlines.
    pub(super) async fn started(&mut self, event: &CallEvent) -> Option<Duration> {
        let CallEventKind::Started { tool } = &event.kind else { return None };
        if std::mem::replace(&mut self.is_started, true) {
            return None;
        }
        self.tool.clone_from(tool);
        let tool = self.registry.get(tool).await;
        let own = tool.map_or(DEFAULT_DEADLINE, |tool| tool.spec().deadline);
        Some(self.deadline.map_or(own, |asked| asked.min(own)))
    }
}

/// A signal that cannot be caught keeps its default action.
fn forward_signals(interrupt: &UnboundedSender<()>) {
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        if let Ok(mut signal) = signal(kind) {
            let interrupt = interrupt.clone();
            tokio::spawn(async move {
                while signal.recv().await.is_some() && interrupt.send(()).is_ok() {}
            });
        }
    }
}

fn stuck(tool: &str, kind: ErrorKind) -> ToolError {
    let state = if kind == ErrorKind::Cancelled { "cancelled" } else { "past its deadline" };
    let message = format!("`{tool}` is {state} but blocks its thread, so it was abandoned");
    ToolError::new(kind, message).hint("check what it has changed before you call it again")
}
