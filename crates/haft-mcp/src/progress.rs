//! Forwards a tool's progress to the client that asked for it. Bounded: a slow client misses steps,
//! never the result.

use std::{collections::VecDeque, time::Duration};

use parking_lot::{Mutex, MutexGuard};

use haft_core::{CallEventKind, Listener, ProgressUpdate};
use rmcp::{
    RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::Peer,
};
use tokio::{
    sync::Notify,
    time::{Instant, MissedTickBehavior, interval_at},
};

/// Maximum number of steps that wait to be sent; the oldest are dropped.
const MAX_WAITING: usize = 64;
/// Interval of heartbeats for a call that reports no steps.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum length of the last output line of a command in a heartbeat.
const MAX_LINE_CHARS: usize = 200;

/// Progress of one call.
#[derive(Default)]
pub(crate) struct ProgressSteps {
    state: Mutex<State>,
    added: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<ProgressUpdate>,
    /// True if the tool reports steps itself.
    has_steps: bool,
    /// The last output line of a command.
    line: String,
}

impl State {
    fn add(&mut self, step: ProgressUpdate) {
        if self.waiting.len() == MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(step);
    }
}

impl Listener for ProgressSteps {
    fn on_event(&self, what: &CallEventKind) {
        match what {
            CallEventKind::Progress(step) => {
                let mut state = self.state();
                state.has_steps = true;
                state.add(step.clone());
                drop(state);
                self.added.notify_one();
            }
            CallEventKind::Output { text } => {
                if let Some(line) = text.lines().rev().find(|line| !line.trim().is_empty()) {
                    self.state().line = line.trim().chars().take(MAX_LINE_CHARS).collect();
                }
            }
            _ => {}
        }
    }
}

impl ProgressSteps {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn take(&self) -> Option<ProgressUpdate> {
        self.state().waiting.pop_front()
    }

    /// Adds a heartbeat for a call that reports no steps: its seconds so far, and the last line of
    /// its output.
    fn add_heartbeat(&self, elapsed: Duration) {
        let mut state = self.state();
        if !state.has_steps {
            let message = state.line.clone();
            state.add(ProgressUpdate { done: elapsed.as_secs_f64(), total: None, message });
        }
    }

    /// Waits for the end of the work and sends every step before it.
    pub(crate) async fn forward_while<T>(
        &self,
        peer: &Peer<RoleServer>,
        token: ProgressToken,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = std::pin::pin!(work);
        let begun = Instant::now();
        let mut heartbeats = interval_at(begun + HEARTBEAT_INTERVAL, HEARTBEAT_INTERVAL);
        heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The protocol requires increasing numbers; tools may repeat or restart.
        let mut furthest = f64::NEG_INFINITY;
        loop {
            let done = tokio::select! {
                biased;
                done = &mut work => Some(done),
                () = self.added.notified() => None,
                now = heartbeats.tick() => {
                    self.add_heartbeat(now - begun);
                    None
                }
            };
            while let Some(step) = self.take() {
                if step.done > furthest {
                    furthest = step.done;
                    let _ = peer.notify_progress(notification(token.clone(), step)).await;
                }
            }
            if let Some(done) = done {
                return done;
            }
        }
    }
}

fn notification(token: ProgressToken, step: ProgressUpdate) -> ProgressNotificationParam {
    let mut notification = ProgressNotificationParam::new(token, step.done);
    notification.total = step.total;
    if !step.message.is_empty() {
        notification.message = Some(step.message);
    }
    notification
}
