//! What a tool says while it works, on its way to the client that asked to hear it. Bounded: a client that reads slowly
//! misses steps, never the result.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use haft_core::{Happening, Listener, Step};
use rmcp::{
    RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::Peer,
};
use tokio::sync::Notify;

/// Steps that wait to be sent; older ones give way.
const MOST: usize = 64;

/// The steps of one call.
#[derive(Default)]
pub(crate) struct Steps {
    waiting: Mutex<VecDeque<Step>>,
    came: Notify,
}

impl Listener for Steps {
    fn hear(&self, what: &Happening) {
        if let Happening::Progress(step) = what {
            let mut waiting = self.waiting();
            if waiting.len() == MOST {
                waiting.pop_front();
            }
            waiting.push_back(step.clone());
            drop(waiting);
            self.came.notify_one();
        }
    }
}

impl Steps {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Step>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Step> {
        self.waiting().pop_front()
    }

    /// Waits for the end of the work and sends every step before it.
    pub(crate) async fn tell<T>(
        &self,
        peer: &Peer<RoleServer>,
        token: ProgressToken,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = std::pin::pin!(work);
        // The protocol wants every number to be larger than the one before; tools may stand still or begin again.
        let mut furthest = f64::NEG_INFINITY;
        loop {
            let done = tokio::select! {
                biased;
                done = &mut work => Some(done),
                () = self.came.notified() => None,
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

fn notification(token: ProgressToken, step: Step) -> ProgressNotificationParam {
    let mut notification = ProgressNotificationParam::new(token, step.done);
    notification.total = step.total;
    if !step.message.is_empty() {
        notification.message = Some(step.message);
    }
    notification
}
