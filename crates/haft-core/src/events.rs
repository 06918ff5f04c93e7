//! Events of calls, for watchers. Queues are bounded: for a slow watcher, progress and live output
//! are dropped, starts and results never are. A watcher that stops reading is disconnected.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard, RwLock};

use serde::Serialize;
use tokio::sync::Notify;

use crate::{ApprovalRequest, ApprovalState, Outcome};

/// Maximum number of progress and output events for a slow watcher; older ones are dropped.
const MAX_LOSSY: usize = 256;
/// Maximum number of other events for a slow watcher before it is disconnected: far more than calls
/// can be in flight.
const MAX_RESULTS: usize = 16_384;

/// One event.
#[derive(Clone, Debug, Serialize)]
pub struct CallEvent {
    /// The id of the call.
    pub call: String,
    /// The session of that call.
    pub session: String,
    /// The kind of the event.
    #[serde(flatten)]
    pub kind: CallEventKind,
}

/// The kinds of events of a call.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallEventKind {
    /// The tool starts to run.
    Started {
        /// The name of the tool.
        tool: String,
    },
    /// The call made progress.
    Progress(ProgressUpdate),
    /// A piece of live output.
    Output {
        /// The text, already redacted.
        text: String,
    },
    /// The call needs approval.
    ApprovalAsked(Arc<ApprovalRequest>),
    /// The request was settled.
    ApprovalDecided {
        /// The id of the request.
        id: String,
        /// The final state of the request.
        state: ApprovalState,
    },
    /// The call is finished.
    Finished(Arc<Outcome>),
}

impl CallEventKind {
    fn is_lossy(&self) -> bool {
        matches!(self, Self::Progress(_) | Self::Output { .. })
    }
}

/// The progress of a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProgressUpdate {
    /// The amount done.
    pub done: f64,
    /// The total amount, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// The current step.
    pub message: String,
}

/// The event hub. Cheap to clone; all clones share one hub.
#[derive(Clone, Default)]
pub struct Events(Arc<EventHub>);

#[derive(Default)]
struct EventHub {
    /// Read before the lock, so that a call without watchers pays one load.
    watchers: AtomicUsize,
    queues: RwLock<Vec<Arc<EventQueue>>>,
}

impl Events {
    /// Subscribes to all events from now on.
    pub fn subscribe(&self) -> Subscription {
        let queue = Arc::new(EventQueue::default());
        self.0.change(|queues| queues.push(queue.clone()));
        Subscription { hub: self.0.clone(), queue }
    }

    /// Returns true if an event would be received, so that senders can skip creating one.
    pub(crate) fn are_watched(&self) -> bool {
        self.0.watchers.load(Ordering::Acquire) > 0
    }

    pub(crate) fn send(&self, event: CallEvent) {
        if !self.are_watched() {
            return;
        }
        let queues = self.0.queues.read();
        for queue in queues.iter() {
            queue.push(event.clone());
        }
    }
}

impl EventHub {
    fn change(&self, change: impl FnOnce(&mut Vec<Arc<EventQueue>>)) {
        let mut queues = self.queues.write();
        change(&mut queues);
        self.watchers.store(queues.len(), Ordering::Release);
    }
}

/// One watcher's queue of events.
pub struct Subscription {
    hub: Arc<EventHub>,
    queue: Arc<EventQueue>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.hub.change(|queues| queues.retain(|queue| !Arc::ptr_eq(queue, &self.queue)));
    }
}

impl Subscription {
    /// Returns the next event; `None` if this watcher was too slow and was disconnected. It must
    /// then read the current state again and subscribe again.
    pub async fn next(&mut self) -> Option<CallEvent> {
        loop {
            let arrived = self.queue.arrival.notified();
            {
                let mut waiting = self.queue.lock();
                if let Some(event) = waiting.pop() {
                    return Some(event);
                }
                if waiting.let_go {
                    return None;
                }
            }
            arrived.await;
        }
    }

    /// Number of progress and output events that were dropped because this watcher was slow.
    pub fn lost(&self) -> u64 {
        self.queue.lock().lost
    }
}

#[derive(Default)]
struct EventQueue {
    waiting: Mutex<PendingEvents>,
    arrival: Notify,
}

#[derive(Default)]
struct PendingEvents {
    events: VecDeque<CallEvent>,
    n_lossy: usize,
    lost: u64,
    let_go: bool,
}

impl EventQueue {
    fn lock(&self) -> MutexGuard<'_, PendingEvents> {
        self.waiting.lock()
    }

    fn push(&self, event: CallEvent) {
        self.lock().push(event);
        self.arrival.notify_one();
    }
}

impl PendingEvents {
    fn push(&mut self, event: CallEvent) {
        if self.let_go {
            return;
        }
        if !event.kind.is_lossy() {
            if self.events.len() - self.n_lossy >= MAX_RESULTS {
                self.let_go = true;
                self.events.clear();
                return;
            }
            self.events.push_back(event);
            return;
        }
        if self.n_lossy == MAX_LOSSY {
            self.drop_oldest_lossy();
        }
        self.n_lossy += 1;
        self.events.push_back(event);
    }

    fn drop_oldest_lossy(&mut self) {
        if let Some(oldest) = self.events.iter().position(|event| event.kind.is_lossy()) {
            self.events.remove(oldest);
            self.n_lossy -= 1;
            self.lost += 1;
        }
    }

    fn pop(&mut self) -> Option<CallEvent> {
        let event = self.events.pop_front()?;
        if event.kind.is_lossy() {
            self.n_lossy -= 1;
        }
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(done: f64) -> CallEvent {
        let step = ProgressUpdate { done, total: None, message: String::new() };
        CallEvent { call: "c".into(), session: "s".into(), kind: CallEventKind::Progress(step) }
    }

    fn started(tool: &str) -> CallEvent {
        let kind = CallEventKind::Started { tool: tool.into() };
        CallEvent { call: "c".into(), session: "s".into(), kind }
    }

    #[tokio::test]
    async fn progress_is_dropped_and_starts_are_not() {
        let events = Events::default();
        let mut watcher = events.subscribe();
        events.send(started("first"));
        for step in 0..1000 {
            events.send(progress(f64::from(step)));
        }
        events.send(started("last"));

        let mut tools = Vec::new();
        let mut steps = Vec::new();
        for _ in 0..MAX_LOSSY + 2 {
            match watcher.next().await.expect("still connected").kind {
                CallEventKind::Started { tool } => tools.push(tool),
                CallEventKind::Progress(step) => steps.push(step.done),
                other => panic!("unexpected {other:?}"),
            }
        }
        assert_eq!(tools, ["first", "last"]);
        assert_eq!(steps.len(), MAX_LOSSY);
        assert_eq!(steps.last(), Some(&999.0), "the newest are the ones that stay");
        assert_eq!(watcher.lost(), 1000 - MAX_LOSSY as u64);
    }

    #[tokio::test]
    async fn a_watcher_that_never_reads_is_disconnected() {
        let events = Events::default();
        let mut watcher = events.subscribe();
        for _ in 0..=MAX_RESULTS {
            events.send(started("x"));
        }
        assert!(watcher.next().await.is_none());
    }

    #[test]
    fn a_watcher_that_left_costs_nothing() {
        let events = Events::default();
        let left = events.subscribe();
        let still_here = events.subscribe();
        drop(left);
        assert!(events.are_watched());
        drop(still_here);
        assert!(!events.are_watched());
    }
}
