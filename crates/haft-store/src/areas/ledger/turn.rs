//! Whose turn it is to write what is in the queue. Who is answered stands in nobody's way: the turn goes to the first of those
//! who came since.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{Inner, queue::Answer};

/// Where somebody is in the queue.
pub(super) enum Seat {
    /// Nobody writes: it is their turn.
    First,
    /// They are told.
    Behind(oneshot::Receiver<Told>),
}

/// What who waits is told.
pub(super) enum Told {
    /// Somebody else has written their entry, or could not.
    Written(Answer),
    /// They write it, and all that is there with it.
    YourTurn(Turn),
}

/// The turn. Dropped, it goes to the next one.
pub(super) struct Turn {
    ledger: Option<Arc<Inner>>,
}

impl Turn {
    /// For who has the first seat.
    pub(super) fn new(ledger: &Arc<Inner>) -> Self {
        Self { ledger: Some(ledger.clone()) }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(ledger) = self.ledger.take() else { return };
        loop {
            let Some(next) = ledger.queue().next_writer() else { return };
            match next.send(Told::YourTurn(Self::new(&ledger))) {
                // Gone; their entry stays, and is written by who comes after them.
                Err(Told::YourTurn(mut turn)) => turn.ledger = None,
                _ => return,
            }
        }
    }
}
