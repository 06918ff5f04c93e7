//! Answers that wait while the next message is here already, so that one write takes many of them along. One thread sends at
//! a time; the other one only waits for it when so much is unsent that going on would mean to hold what nobody reads.

use std::{
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use super::outbox::Outbox;

/// What is collected before it is sent.
const LONG: usize = 64 << 10;

pub(super) struct Batch {
    outbox: Arc<Outbox>,
    state: Mutex<State>,
    /// A long batch is being sent.
    taken: Condvar,
}

#[derive(Default)]
struct State {
    answers: Vec<u8>,
    /// Somebody sends, and sends again as long as this is wanted.
    is_sending: bool,
    is_wanted: bool,
    is_awaited: bool,
}

impl Batch {
    pub(super) fn new(outbox: Arc<Outbox>) -> Self {
        Self { outbox, state: Mutex::default(), taken: Condvar::new() }
    }

    pub(super) fn add(&self, answer: Vec<u8>) {
        let answers = &mut self.state().answers;
        // A long one is not copied into room that would first have to be found for it.
        if answers.is_empty() && answer.len() > answers.capacity() {
            *answers = answer;
        } else {
            answers.extend_from_slice(&answer);
        }
    }

    /// Sends what has been answered. When another thread is at it, that one sends this too.
    pub(super) fn flush(&self) {
        let mut state = self.state();
        state.is_wanted = true;
        if !state.is_sending {
            self.send(state);
        }
    }

    /// Sends a long batch, and waits while one before it is not sent: who makes calls whose answers nobody reads would
    /// hold more and more of them.
    pub(super) fn keep_short(&self) {
        let mut state = self.state();
        while state.answers.len() > LONG {
            state.is_wanted = true;
            if !state.is_sending {
                return self.send(state);
            }
            state.is_awaited = true;
            state = self.taken.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn send<'a>(&'a self, mut state: MutexGuard<'a, State>) {
        state.is_sending = true;
        while mem::take(&mut state.is_wanted) {
            let mut answers = mem::take(&mut state.answers);
            let is_awaited = mem::take(&mut state.is_awaited);
            drop(state);
            if is_awaited {
                self.taken.notify_all();
            }
            self.outbox.send_here(&answers);
            state = self.state();
            if answers.capacity() <= 2 * LONG && state.answers.is_empty() {
                // Growing it anew for every batch would copy each answer several times.
                answers.clear();
                state.answers = answers;
            }
        }
        state.is_sending = false;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::Read,
        os::fd::AsFd,
        sync::atomic::{AtomicUsize, Ordering},
        thread,
        time::{Duration, Instant},
    };

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);
    const ANSWER: usize = 10_000;
    const ANSWERS: usize = 200;

    /// A batch, and the end of its pipe that nobody reads yet.
    fn batch() -> (Arc<Batch>, File) {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let writer: &'static File = Box::leak(Box::new(File::from(writer)));
        (Arc::new(Batch::new(Outbox::new(writer.as_fd()))), File::from(reader))
    }

    #[track_caller]
    fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < PATIENCE, "{what}");
            thread::yield_now();
        }
    }

    #[test]
    fn who_does_not_send_waits_for_the_sender_before_too_much_is_held() {
        let (batch, mut reader) = batch();
        let stuck = batch.clone();
        let stuck = thread::spawn(move || {
            stuck.add(vec![b'a'; 2 * LONG]);
            stuck.flush();
        });
        wait_for("nobody sends", || batch.state().is_sending);
        let most = Arc::new(AtomicUsize::new(0));
        let (other, held) = (batch.clone(), most.clone());
        let other = thread::spawn(move || {
            for _ in 0..ANSWERS {
                other.add(vec![b'b'; ANSWER]);
                held.fetch_max(other.state().answers.len(), Ordering::SeqCst);
                other.keep_short();
            }
            other.flush();
        });
        // Before anything is read it has to wait, or it is through with everything.
        wait_for("it does not wait", || batch.state().is_awaited || other.is_finished());
        let mut all = vec![0; 2 * LONG + ANSWERS * ANSWER];
        reader.read_exact(&mut all).expect("everything is sent");
        let (first, rest) = all.split_at(2 * LONG);
        assert!(first.iter().all(|byte| *byte == b'a') && rest.iter().all(|byte| *byte == b'b'));
        stuck.join().expect("it is sent");
        other.join().expect("it is sent");
        let most = most.load(Ordering::SeqCst);
        assert!(most <= LONG + ANSWER, "{most} bytes were held");
    }

    #[test]
    fn what_is_flushed_while_another_thread_sends_is_sent_by_that_one() {
        let (batch, mut reader) = batch();
        let sender = batch.clone();
        let sender = thread::spawn(move || {
            sender.add(vec![b'a'; 2 * LONG]);
            sender.flush();
        });
        wait_for("nobody sends", || batch.state().is_sending);
        batch.add(vec![b'b'; ANSWER]);
        batch.flush();
        let mut all = vec![0; 2 * LONG + ANSWER];
        reader.read_exact(&mut all).expect("everything is sent");
        assert_eq!(all.iter().filter(|byte| **byte == b'b').count(), ANSWER);
        sender.join().expect("it is sent");
    }
}
