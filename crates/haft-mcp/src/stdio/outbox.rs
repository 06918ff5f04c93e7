//! What goes to the client. Whoever finds the pipe free writes itself; otherwise a thread of its own does, so that a
//! client that does not read holds up nobody but itself.

use std::{collections::VecDeque, io, os::fd::BorrowedFd, sync::Arc, thread, time::Duration};

use parking_lot::{Condvar, Mutex, MutexGuard};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use tokio_util::sync::CancellationToken;

/// How much may wait to be written before whoever makes more of it waits too.
const MOST_WAITING: usize = 1 << 20;

pub(super) struct Outbox {
    fd: BorrowedFd<'static>,
    state: Mutex<State>,
    changed: Condvar,
    /// Called off when the client does not listen any more.
    pub(super) gone: CancellationToken,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Vec<u8>>,
    is_writing: bool,
    has_writer: bool,
    /// Somebody waits until everything is written.
    is_ending: bool,
}

impl Outbox {
    pub(super) fn new(fd: BorrowedFd<'static>) -> Arc<Self> {
        Arc::new(Self {
            fd,
            state: Mutex::default(),
            changed: Condvar::new(),
            gone: CancellationToken::new(),
        })
    }

    /// Sends whole messages, each with its newline, on this thread if the pipe is free. May wait for the client to read.
    pub(super) fn send_here(self: &Arc<Self>, messages: Vec<u8>) {
        if messages.is_empty() {
            return;
        }
        let mut state = self.state();
        if state.is_writing || !state.waiting.is_empty() {
            drop(state);
            self.send(messages);
            return self.wait_for_room();
        }
        state.is_writing = true;
        drop(state);
        self.write(&messages);
        let mut state = self.state();
        state.is_writing = false;
        // Waking a thread takes longer than most calls.
        let is_awaited = !state.waiting.is_empty() || state.is_ending;
        drop(state);
        if is_awaited {
            self.changed.notify_all();
        }
    }

    /// The same without waiting: as much as the pipe takes at once, and the rest by another thread.
    pub(super) fn send(self: &Arc<Self>, mut messages: Vec<u8>) {
        let mut state = self.state();
        if state.is_writing || !state.waiting.is_empty() {
            state.waiting.push_back(messages);
            return self.have_written(state);
        }
        state.is_writing = true;
        drop(state);
        let written = self.write_while_free(&messages);
        let mut state = self.state();
        state.is_writing = false;
        if written < messages.len() && !self.gone.is_cancelled() {
            messages.drain(..written);
            // Before whatever came meanwhile: its beginning is in the pipe already.
            state.waiting.push_front(messages);
        }
        if state.waiting.is_empty() && !state.is_ending {
            return;
        }
        self.have_written(state);
    }

    /// Sees to it that somebody writes what waits.
    fn have_written(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if !state.has_writer {
            state.has_writer = true;
            let outbox = self.clone();
            let thread = thread::Builder::new().name("haft-mcp-write".to_owned());
            if thread.spawn(move || outbox.write_all()).is_err() {
                // Without another thread it is this one that waits.
                state.has_writer = false;
                drop(state);
                self.write_waiting();
                return;
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// What was answered elsewhere may be stuck in the pipe: then this thread would go on as if its answers were read.
    fn wait_for_room(&self) {
        let is_full = |state: &mut State| {
            let waiting: usize = state.waiting.iter().map(Vec::len).sum();
            waiting > MOST_WAITING && !self.gone.is_cancelled()
        };
        self.changed.wait_while(&mut self.state(), is_full);
    }

    /// Waits until everything is written or nobody reads any more, but not longer than this.
    pub(super) fn finish(&self, most: Duration) {
        let mut state = self.state();
        state.is_ending = true;
        let is_busy = |state: &mut State| {
            !self.gone.is_cancelled() && (state.is_writing || !state.waiting.is_empty())
        };
        self.changed.wait_while_for(&mut state, is_busy, most);
    }

    fn write_all(&self) {
        loop {
            let is_idle = |state: &mut State| state.is_writing || state.waiting.is_empty();
            self.changed.wait_while(&mut self.state(), is_idle);
            self.write_waiting();
        }
    }

    fn write_waiting(&self) {
        loop {
            let mut state = self.state();
            if state.is_writing {
                return;
            }
            let Some(messages) = state.waiting.pop_front() else { return };
            state.is_writing = true;
            drop(state);
            self.write(&messages);
            self.state().is_writing = false;
            self.changed.notify_all();
        }
    }

    /// How much was written without waiting.
    fn write_while_free(&self, messages: &[u8]) -> usize {
        // A pipe that is ready takes at least so much.
        const AT_ONCE: usize = 4096;
        let mut written = 0;
        for piece in messages.chunks(AT_ONCE) {
            if !self.is_free() {
                break;
            }
            self.write(piece);
            written += piece.len();
        }
        written
    }

    fn is_free(&self) -> bool {
        let mut polled = [PollFd::new(&self.fd, PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
    }

    fn write(&self, mut rest: &[u8]) {
        while !rest.is_empty() && !self.gone.is_cancelled() {
            match rustix::io::write(self.fd, rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let mut polled = [PollFd::new(&self.fd, PollFlags::OUT)];
                    let _ = poll(&mut polled, None);
                }
                Err(_) => self.gone.cancel(),
            }
        }
    }

    /// Whether the other end was closed.
    pub(super) fn is_closed(&self) -> io::Result<bool> {
        let mut polled = [PollFd::new(&self.fd, PollFlags::empty())];
        poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        Ok(polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::Read,
        os::fd::AsFd,
        sync::atomic::{AtomicUsize, Ordering},
        time::Instant,
    };

    use super::*;

    const MESSAGE: usize = 100_000;
    const MESSAGES: usize = 100;

    #[test]
    fn behind_an_answer_that_nobody_reads_only_so_much_is_collected() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let writer: &'static File = Box::leak(Box::new(File::from(writer)));
        let outbox = Outbox::new(writer.as_fd());
        // Returns at once; the rest of it is with the thread that writes.
        outbox.send(vec![b'a'; MESSAGE]);
        let most = Arc::new(AtomicUsize::new(0));
        let (sent, held) = (outbox.clone(), most.clone());
        let sending = thread::spawn(move || {
            for _ in 0..MESSAGES {
                sent.send_here(vec![b'b'; MESSAGE]);
                let waiting: usize = sent.state().waiting.iter().map(Vec::len).sum();
                held.fetch_max(waiting, Ordering::SeqCst);
            }
        });
        let begin = Instant::now();
        let is_full = || {
            let waiting: usize = outbox.state().waiting.iter().map(Vec::len).sum();
            waiting > MOST_WAITING
        };
        // Before anything is read it has to wait, or it is through with everything.
        while !is_full() && !sending.is_finished() {
            assert!(begin.elapsed() < Duration::from_secs(30), "nothing is sent");
            thread::yield_now();
        }
        let mut all = vec![0; MESSAGE + MESSAGES * MESSAGE];
        File::from(reader).read_exact(&mut all).expect("everything is sent");
        sending.join().expect("everything is sent");
        let (first, rest) = all.split_at(MESSAGE);
        assert!(first.iter().all(|byte| *byte == b'a') && rest.iter().all(|byte| *byte == b'b'));
        let most = most.load(Ordering::SeqCst);
        assert!(most <= MOST_WAITING + MESSAGE, "{most} bytes were held");
    }
}
