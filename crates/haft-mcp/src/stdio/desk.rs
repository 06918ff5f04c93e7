//! Where messages are taken from the pipe, by one thread or by two. The second helps while many looks wait; whatever may change
//! something is made alone and in its turn, so that who sends several messages at once sees no change overtaken.

use std::{
    io,
    os::fd::BorrowedFd,
    sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError},
    time::Duration,
};

use super::pipe::{Next, Pipe};

/// So many messages of the same length have to wait before anybody is woken for them: waking takes as long as a small call.
const WORTH_WAKING: usize = 4;
/// How long a change waits for a look that was begun before it. Who takes longer is stuck, and left alone.
const PATIENCE: Duration = Duration::from_millis(100);

pub(super) struct Desk {
    state: Mutex<State>,
    /// There is something for the follower.
    more: Condvar,
    /// The follower is done with its call.
    calm: Condvar,
}

struct State {
    pipe: Pipe,
    follower: Follower,
    /// The leader is with a look, so that what comes next may be made beside it.
    is_open: bool,
    /// The follower is with a call.
    is_busy: bool,
    is_awaited: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Follower {
    None,
    Waits,
    Follows,
    /// The conversation is over.
    Dismissed,
}

/// What the leader does besides its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Help {
    NotNeeded,
    /// A first follower is wanted.
    Wanted,
}

impl Desk {
    pub(super) fn new(input: BorrowedFd<'static>) -> Self {
        let state = State {
            pipe: Pipe::new(input),
            follower: Follower::None,
            is_open: false,
            is_busy: false,
            is_awaited: false,
        };
        Self { state: Mutex::new(state), more: Condvar::new(), calm: Condvar::new() }
    }

    /// The next message for the leader, who `reads` it and says whether it is a look. `before_waiting` is called when there
    /// is none yet. What is no look is handed out when the follower is done with what came before.
    pub(super) fn lead<T>(
        &self,
        before_waiting: impl FnOnce(),
        reads: impl FnOnce(Next) -> Option<(T, bool)>,
    ) -> io::Result<Option<(T, Help)>> {
        let mut state = self.state();
        if !state.pipe.is_ready() {
            before_waiting();
        }
        let next = state.pipe.next()?;
        let length = if let Next::Line(line) = &next { line.len() } else { 0 };
        let Some((message, is_look)) = reads(next) else { return Ok(None) };
        state.is_open = is_look;
        if !is_look {
            self.wait_for_follower(state);
            return Ok(Some((message, Help::NotNeeded)));
        }
        let is_much = state.pipe.waiting() >= WORTH_WAKING * length;
        let help = match state.follower {
            Follower::None if is_much => {
                state.follower = Follower::Follows;
                Help::Wanted
            }
            Follower::Waits if is_much => {
                state.follower = Follower::Follows;
                self.more.notify_one();
                Help::NotNeeded
            }
            _ => Help::NotNeeded,
        };
        Ok(Some((message, help)))
    }

    /// The next message for the follower, who is done with the last one: the next that `reads` takes for a look. Waits until
    /// there is one; `before_waiting` is called whenever that may take a while. None when nobody is to follow any more.
    pub(super) fn follow<T>(
        &self,
        before_waiting: impl Fn(),
        reads: impl Fn(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // The leader may wait for its client with this in its hands, and the client for our answer.
            Err(TryLockError::WouldBlock) => {
                before_waiting();
                self.state()
            }
        };
        state.is_busy = false;
        if state.is_awaited {
            self.calm.notify_all();
        }
        loop {
            if state.follower == Follower::Dismissed {
                return None;
            }
            if state.is_open
                && let Some(look) = state.pipe.peek().and_then(&reads)
            {
                state.pipe.skip();
                state.is_busy = true;
                return Some(look);
            }
            before_waiting();
            state.follower = Follower::Waits;
            let waits = |state: &mut State| state.follower == Follower::Waits;
            state = self.more.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Nobody follows after this.
    pub(super) fn dismiss(&self) {
        self.state().follower = Follower::Dismissed;
        self.more.notify_all();
    }

    fn wait_for_follower(&self, mut state: MutexGuard<'_, State>) {
        if state.is_busy {
            state.is_awaited = true;
            let is_busy = |state: &mut State| state.is_busy;
            let waited = self.calm.wait_timeout_while(state, PATIENCE, is_busy);
            waited.unwrap_or_else(PoisonError::into_inner).0.is_awaited = false;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
