//! What a tool reports while it works, on its way to the client that asked for it. Bounded: a client that reads slowly
//! misses steps, never the result.

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

/// Steps that wait to be sent; older ones give way.
const MAX_WAITING: usize = 64;
/// How often a call without steps of its own shows that it runs.
const SIGN_INTERVAL: Duration = Duration::from_secs(1);
/// Of the last line that a command has written.
const MAX_LINE_CHARS: usize = 200;

/// The steps of one call.
#[derive(Default)]
pub(crate) struct Steps {
    state: Mutex<State>,
    came: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<ProgressUpdate>,
    /// The tool counts its steps itself.
    has_own: bool,
    /// What a command has written last.
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

impl Listener for Steps {
    fn on_event(&self, what: &CallEventKind) {
        match what {
            CallEventKind::Progress(step) => {
                let mut state = self.state();
                state.has_own = true;
                state.add(step.clone());
                drop(state);
                self.came.notify_one();
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

impl Steps {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn take(&self) -> Option<ProgressUpdate> {
        self.state().waiting.pop_front()
    }

    /// Shows that a call runs which has no steps of its own: its seconds so far, and the last line of its output.
    fn add_sign(&self, elapsed: Duration) {
        let mut state = self.state();
        if !state.has_own {
            let message = state.line.clone();
            state.add(ProgressUpdate { done: elapsed.as_secs_f64(), total: None, message });
        }
    }

    /// Waits for the end of the work and sends every step before it.
    pub(crate) async fn tell<T>(
        &self,
        peer: &Peer<RoleServer>,
        token: ProgressToken,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = std::pin::pin!(work);
        let begun = Instant::now();
        let mut signs = interval_at(begun + SIGN_INTERVAL, SIGN_INTERVAL);
        signs.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The protocol wants every number to be larger than the one before; tools may stand still or begin again.
        let mut furthest = f64::NEG_INFINITY;
        loop {
            let done = tokio::select! {
                biased;
                done = &mut work => Some(done),
                () = self.came.notified() => None,
                now = signs.tick() => {
                    self.add_sign(now - begun);
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
