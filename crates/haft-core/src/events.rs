//! What happens during calls, for whoever watches. Queues are bounded: progress and live output give way when a
//! watcher is slow, beginnings and results never do; a watcher that stops reading altogether is let go of and told.

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

/// Progress and live output kept for a slow watcher; older ones give way.
const MOST_LOSSY: usize = 256;
/// Results kept for a slow watcher before it is let go of: far more than calls can be in flight.
const MOST_KEPT: usize = 16_384;

/// One thing that happened.
#[derive(Clone, Debug, Serialize)]
pub struct CallEvent {
    /// The call it happened in.
    pub call: String,
    /// The session of that call.
    pub session: String,
    /// What happened.
    #[serde(flatten)]
    pub kind: CallEventKind,
}

/// What can happen during a call.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallEventKind {
    /// The tool begins to run.
    Started {
        /// Which tool.
        tool: String,
    },
    /// It got somewhere.
    Progress(ProgressUpdate),
    /// A piece of live output.
    Output {
        /// The text, already free of secrets.
        text: String,
    },
    /// Somebody has to decide.
    ApprovalAsked(Arc<ApprovalRequest>),
    /// Somebody has decided, or nobody will.
    ApprovalDecided {
        /// Which request.
        id: String,
        /// How it ended.
        state: ApprovalState,
    },
    /// The call is over.
    Finished(Arc<Outcome>),
}

impl CallEventKind {
    fn may_be_lost(&self) -> bool {
        matches!(self, Self::Progress(_) | Self::Output { .. })
    }
}

/// How far a call has come.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProgressUpdate {
    /// How much is done.
    pub done: f64,
    /// Of how much, when that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What is being done.
    pub message: String,
}

/// Where events are sent and watched. Cheap to clone; all clones are one hub.
#[derive(Clone, Default)]
pub struct Events(Arc<Hub>);

#[derive(Default)]
struct Hub {
    /// Read before the lock, so that a call nobody watches pays one load.
    watchers: AtomicUsize,
    queues: RwLock<Vec<Arc<Queue>>>,
}

impl Events {
    /// Everything from now on.
    pub fn subscribe(&self) -> Subscription {
        let queue = Arc::new(Queue::default());
        self.0.change(|queues| queues.push(queue.clone()));
        Subscription { hub: self.0.clone(), queue }
    }

    /// Whether anybody would see an event; lets senders skip making one.
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

impl Hub {
    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Queue>>)) {
        let mut queues = self.queues.write();
        change(&mut queues);
        self.watchers.store(queues.len(), Ordering::Release);
    }
}

/// One watcher's view of the events.
pub struct Subscription {
    hub: Arc<Hub>,
    queue: Arc<Queue>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.hub.change(|queues| queues.retain(|queue| !Arc::ptr_eq(queue, &self.queue)));
    }
}

impl Subscription {
    /// The next event. `None` when this watcher read so slowly that it was let go of: it must read the present state
    /// anew and subscribe again.
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

    /// How many progress and output events gave way because this watcher was slow.
    pub fn lost(&self) -> u64 {
        self.queue.lock().lost
    }
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    arrival: Notify,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<CallEvent>,
    n_lossy: usize,
    lost: u64,
    let_go: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }

    fn push(&self, event: CallEvent) {
        self.lock().push(event);
        self.arrival.notify_one();
    }
}

impl Waiting {
    fn push(&mut self, event: CallEvent) {
        if self.let_go {
            return;
        }
        if !event.kind.may_be_lost() {
            if self.events.len() - self.n_lossy >= MOST_KEPT {
                self.let_go = true;
                self.events.clear();
                return;
            }
            self.events.push_back(event);
            return;
        }
        if self.n_lossy == MOST_LOSSY {
            self.drop_oldest_lossy();
        }
        self.n_lossy += 1;
        self.events.push_back(event);
    }

    fn drop_oldest_lossy(&mut self) {
        if let Some(oldest) = self.events.iter().position(|event| event.kind.may_be_lost()) {
            self.events.remove(oldest);
            self.n_lossy -= 1;
            self.lost += 1;
        }
    }

    fn pop(&mut self) -> Option<CallEvent> {
        let event = self.events.pop_front()?;
        if event.kind.may_be_lost() {
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
    async fn progress_gives_way_and_beginnings_do_not() {
        let events = Events::default();
        let mut watcher = events.subscribe();
        events.send(started("first"));
        for step in 0..1000 {
            events.send(progress(f64::from(step)));
        }
        events.send(started("last"));

        let mut tools = Vec::new();
        let mut steps = Vec::new();
        for _ in 0..MOST_LOSSY + 2 {
            match watcher.next().await.expect("not let go of").kind {
                CallEventKind::Started { tool } => tools.push(tool),
                CallEventKind::Progress(step) => steps.push(step.done),
                other => panic!("unexpected {other:?}"),
            }
        }
        assert_eq!(tools, ["first", "last"]);
        assert_eq!(steps.len(), MOST_LOSSY);
        assert_eq!(steps.last(), Some(&999.0), "the newest are the ones that stay");
        assert_eq!(watcher.lost(), 1000 - MOST_LOSSY as u64);
    }

    #[tokio::test]
    async fn a_watcher_that_never_reads_is_let_go_of() {
        let events = Events::default();
        let mut watcher = events.subscribe();
        for _ in 0..=MOST_KEPT {
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
