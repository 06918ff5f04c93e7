//! Attends to a call from another thread than the one it runs on: the first signal calls it off, the second ends the
//! process; the status line is drawn; and a tool that blocks its thread past all deadlines is left behind.

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
    progress::{DRAW_INTERVAL, Progress},
    terminal::Terminal,
};

/// How long the gate may take to end a call after its time. More than its own grace: only what blocks its thread takes
/// longer.
const PATIENCE: Duration = Duration::from_secs(3);
/// The same as never, for a clock.
const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Whether somebody looks at a status line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watching {
    Yes,
    No,
}

/// How a call ends that does not end by itself.
pub(crate) enum Abandoned {
    /// Told twice to stop: without another word.
    AtOnce,
    /// The tool does not let go of its thread.
    Stuck(ToolError),
}

/// Who attends.
pub(crate) struct Attendant {
    duty: Duty,
    runtime: Runtime,
}

struct Duty {
    terminal: Arc<Terminal>,
    watching: Watching,
    patience: Duration,
    interruptions: UnboundedReceiver<()>,
}

/// What is attended to.
pub(super) struct Orders {
    tool: String,
    deadline: Option<Duration>,
    cancel: CancellationToken,
    registry: Registry,
    events: Subscription,
    is_started: bool,
    claim: Arc<Claim>,
}

/// The right to say how the call ended. Whoever takes it first has it.
#[derive(Default)]
pub(super) struct Claim(AtomicBool);

impl Claim {
    pub(super) fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

impl Orders {
    pub(super) fn of(gate: &Gate, request: &CallRequest, claim: Arc<Claim>) -> Self {
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

impl Attendant {
    /// From here on signals call off instead of killing; those that come before anybody listens are kept.
    ///
    /// # Errors
    /// When the process has no more files or memory to give.
    pub(crate) fn new(terminal: Arc<Terminal>, watching: Watching) -> io::Result<Self> {
        let (attendant, interrupt) = Self::deaf(terminal, watching, PATIENCE)?;
        let _inside = attendant.runtime.enter();
        hear_signals(&interrupt);
        Ok(attendant)
    }

    /// One that hears no signals, only its sender.
    pub(super) fn deaf(
        terminal: Arc<Terminal>,
        watching: Watching,
        patience: Duration,
    ) -> io::Result<(Self, UnboundedSender<()>)> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (interrupt, interruptions) = unbounded_channel();
        let duty = Duty { terminal, watching, patience, interruptions };
        Ok((Self { duty, runtime }, interrupt))
    }

    /// Attends until the call must be abandoned; none when the call's own thread was faster to end it.
    pub(super) fn watch(mut self, orders: Orders) -> Option<Abandoned> {
        let claim = orders.claim.clone();
        let end = self.runtime.block_on(self.duty.attend(orders));
        claim.take().then_some(end)
    }

    /// Where it draws.
    pub(super) fn terminal(&self) -> Arc<Terminal> {
        self.duty.terminal.clone()
    }
}

impl Duty {
    async fn attend(&mut self, mut orders: Orders) -> Abandoned {
        let mut progress = Progress::default();
        let mut beat = tokio::time::interval(DRAW_INTERVAL);
        let mut end = End { at: Instant::now() + NEVER, kind: ErrorKind::Timeout };
        loop {
            tokio::select! {
                Some(()) = self.interruptions.recv() => {
                    if orders.cancel.is_cancelled() {
                        return Abandoned::AtOnce;
                    }
                    orders.cancel.cancel();
                    end = End { at: Instant::now() + self.patience, kind: ErrorKind::Cancelled };
                }
                Some(event) = orders.events.next() => {
                    if let Some(deadline) = orders.started(&event).await {
                        end.at = end.at.min(Instant::now() + deadline + self.patience);
                    }
                    progress.update(event, std::time::Instant::now());
                }
                _ = beat.tick(), if self.watching == Watching::Yes => {
                    if let Some(line) = progress.line(std::time::Instant::now()) {
                        self.terminal.draw_status(&line);
                    }
                }
                () = sleep_until(end.at) => return Abandoned::Stuck(stuck(&orders.tool, end.kind)),
            }
        }
    }
}

/// When the call is left behind, and as what.
struct End {
    at: Instant,
    kind: ErrorKind,
}

impl Orders {
    /// The deadline, when the call has just begun to run. Waiting for an approval does not count, and neither do the
    /// calls that its tool makes: they begin later and have deadlines of their own.
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

/// A signal that cannot be caught keeps its usual meaning.
fn hear_signals(interrupt: &UnboundedSender<()>) {
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
    let what = if kind == ErrorKind::Cancelled { "called off" } else { "overdue" };
    let message =
        format!("`{tool}` is {what} and does not let go of its thread, so it was left behind");
    ToolError::new(kind, message).hint("look at what it has done before you call it again")
}
