//! Orders calls that change the same path: first come, first served. A call takes all its paths at
//! once, so two calls cannot wait for each other.

use std::{path::PathBuf, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::access::is_below;

/// The queue of all calls that change paths or wait to.
#[derive(Clone, Default)]
pub(crate) struct PathQueue(Arc<Inner>);

#[derive(Default)]
struct Inner {
    line: Mutex<QueueEntry>,
    left: Notify,
}

#[derive(Default)]
struct QueueEntry {
    /// In order of arrival; holders and waiters are in the same list.
    tickets: Vec<Arc<Ticket>>,
    next_number: u64,
}

struct Ticket {
    number: u64,
    call: Arc<str>,
    paths: Vec<PathBuf>,
}

/// A position in the queue; dropping it lets the next call in.
pub(crate) struct QueuePosition {
    queue: PathQueue,
    ticket: Arc<Ticket>,
}

impl PathQueue {
    /// Waits until no earlier call changes any of these paths, or a path below or above them. The
    /// calls that contain this one do not count: they wait for it.
    pub(crate) async fn enter(
        &self,
        call: &Arc<str>,
        ancestors: &[Arc<str>],
        paths: Vec<PathBuf>,
    ) -> QueuePosition {
        let place = self.take_ticket(call, paths);
        loop {
            let left = self.0.left.notified();
            tokio::pin!(left);
            // Registered before checking, so that a drop between the check and the wait is not
            // missed.
            left.as_mut().enable();
            if place.is_first(ancestors) {
                return place;
            }
            left.await;
        }
    }

    fn take_ticket(&self, call: &Arc<str>, paths: Vec<PathBuf>) -> QueuePosition {
        let mut line = self.lock();
        let number = line.next_number;
        line.next_number += 1;
        let ticket = Arc::new(Ticket { number, call: call.clone(), paths });
        line.tickets.push(ticket.clone());
        QueuePosition { queue: self.clone(), ticket }
    }

    fn lock(&self) -> MutexGuard<'_, QueueEntry> {
        self.0.line.lock()
    }
}

impl QueuePosition {
    fn is_first(&self, ancestors: &[Arc<str>]) -> bool {
        let own = &self.ticket;
        let line = self.queue.lock();
        let earlier = line.tickets.iter().take_while(|ticket| ticket.number < own.number);
        !earlier.into_iter().any(|other| !ancestors.contains(&other.call) && other.overlaps(own))
    }
}

impl Drop for QueuePosition {
    fn drop(&mut self) {
        self.queue.lock().tickets.retain(|ticket| ticket.number != self.ticket.number);
        self.queue.0.left.notify_waiters();
    }
}

impl Ticket {
    fn overlaps(&self, other: &Self) -> bool {
        let meets = |a: &PathBuf, b: &PathBuf| is_below(a, b) || is_below(b, a);
        self.paths.iter().any(|a| other.paths.iter().any(|b| meets(a, b)))
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Future, pin::pin, task::Poll};

    use super::*;

    fn id(name: &str) -> Arc<str> {
        name.into()
    }

    fn paths(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    async fn is_ready<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        let mut future = future;
        std::future::poll_fn(move |context| match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    #[tokio::test]
    async fn the_same_path_is_changed_by_one_at_a_time_in_order_of_arrival() {
        let queue = PathQueue::default();
        let first = queue.enter(&id("1"), &[], paths(&["a"])).await;
        let (two, three) = (id("2"), id("3"));
        let mut second = pin!(queue.enter(&two, &[], paths(&["a"])));
        let mut third = pin!(queue.enter(&three, &[], paths(&["a"])));
        assert!(is_ready(second.as_mut()).await.is_none());
        assert!(is_ready(third.as_mut()).await.is_none());
        drop(first);
        assert!(is_ready(third.as_mut()).await.is_none(), "it came after the second");
        let second = is_ready(second.as_mut()).await.expect("its turn");
        drop(second);
        assert!(is_ready(third.as_mut()).await.is_some());
    }

    #[tokio::test]
    async fn directories_and_what_lies_below_them_meet_and_others_do_not() {
        let queue = PathQueue::default();
        let _directory = queue.enter(&id("1"), &[], paths(&["src"])).await;
        let (two, three) = (id("2"), id("3"));
        let mut below = pin!(queue.enter(&two, &[], paths(&["src/a/b"])));
        assert!(is_ready(below.as_mut()).await.is_none());
        let mut beside = pin!(queue.enter(&three, &[], paths(&["srcs"])));
        assert!(is_ready(beside.as_mut()).await.is_some());
    }

    #[tokio::test]
    async fn a_call_does_not_wait_for_the_calls_it_is_made_in() {
        let queue = PathQueue::default();
        let _outer = queue.enter(&id("outer"), &[], paths(&["a"])).await;
        let inner = id("inner");
        let ancestors = [id("outer")];
        let mut waiting = pin!(queue.enter(&inner, &ancestors, paths(&["a"])));
        assert!(is_ready(waiting.as_mut()).await.is_some());
    }

    #[tokio::test]
    async fn a_cancelled_waiter_leaves_the_queue() {
        let queue = PathQueue::default();
        let first = queue.enter(&id("1"), &[], paths(&["a"])).await;
        let (two, three) = (id("2"), id("3"));
        {
            let mut given_up = pin!(queue.enter(&two, &[], paths(&["a"])));
            assert!(is_ready(given_up.as_mut()).await.is_none());
        }
        drop(first);
        let mut third = pin!(queue.enter(&three, &[], paths(&["a"])));
        assert!(is_ready(third.as_mut()).await.is_some());
    }
}
