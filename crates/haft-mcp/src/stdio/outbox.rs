//! Output to the client. A thread that finds the pipe free writes itself; otherwise a dedicated
//! thread writes, so that a client that does not read delays only itself.

use std::{collections::VecDeque, io, os::fd::BorrowedFd, sync::Arc, thread, time::Duration};

use parking_lot::{Condvar, Mutex, MutexGuard};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use tokio_util::sync::CancellationToken;

/// Maximum number of bytes that wait to be written before senders wait too.
const MAX_WAITING_BYTES: usize = 1 << 20;

pub(super) struct Outbox {
    fd: BorrowedFd<'static>,
    state: Mutex<State>,
    changed: Condvar,
    /// Cancelled when the client no longer reads.
    pub(super) gone: CancellationToken,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Vec<u8>>,
    is_writing: bool,
    has_writer: bool,
    /// A thread waits until everything is written.
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

    /// Sends complete messages with their newlines, on this thread if no other thread is
    /// writing. May wait for the client to read.
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
        // Notifying costs more than most calls take.
        let is_awaited = !state.waiting.is_empty() || state.is_ending;
        drop(state);
        if is_awaited {
            self.changed.notify_all();
        }
    }

    /// Sends messages without waiting: writes what the pipe takes at once, and leaves the rest to
    /// another thread.
    pub(super) fn send(self: &Arc<Self>, mut messages: Vec<u8>) {
        let mut state = self.state();
        if state.is_writing || !state.waiting.is_empty() {
            state.waiting.push_back(messages);
            return self.ensure_writer(state);
        }
        state.is_writing = true;
        drop(state);
        let written = self.write_while_free(&messages);
        let mut state = self.state();
        state.is_writing = false;
        if written < messages.len() && !self.gone.is_cancelled() {
            messages.drain(..written);
            // Before all other messages, because its beginning is in the pipe already.
            state.waiting.push_front(messages);
        }
        if state.waiting.is_empty() && !state.is_ending {
            return;
        }
        self.ensure_writer(state);
    }

    /// Ensures that a thread writes what waits.
    fn ensure_writer(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if !state.has_writer {
            state.has_writer = true;
            let outbox = self.clone();
            let thread = thread::Builder::new().name("haft-mcp-write".to_owned());
            if thread.spawn(move || outbox.write_all()).is_err() {
                // This thread writes instead, and may wait for the client.
                state.has_writer = false;
                drop(state);
                self.write_waiting();
                return;
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits while too much is unwritten, so that answers to a client that does not read cannot
    /// fill the memory.
    fn wait_for_room(&self) {
        let is_full = |state: &mut State| {
            let waiting: usize = state.waiting.iter().map(Vec::len).sum();
            waiting > MAX_WAITING_BYTES && !self.gone.is_cancelled()
        };
        self.changed.wait_while(&mut self.state(), is_full);
    }

    /// Waits until everything is written or the client no longer reads, at most this long.
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
            let must_wait = |state: &mut State| state.is_writing || state.waiting.is_empty();
            self.changed.wait_while(&mut self.state(), must_wait);
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

    /// Writes without waiting. Returns the number of bytes written.
    fn write_while_free(&self, messages: &[u8]) -> usize {
        // A pipe that is ready takes at least this many bytes.
        const WRITE_BYTES: usize = 4096;
        let mut written = 0;
        for piece in messages.chunks(WRITE_BYTES) {
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

    /// Returns true if the other end was closed.
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
    fn a_limited_amount_is_collected_behind_an_unread_answer() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let writer: &'static File = Box::leak(Box::new(File::from(writer)));
        let outbox = Outbox::new(writer.as_fd());
        // Returns at once; the writer thread has the rest.
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
            waiting > MAX_WAITING_BYTES
        };
        // It has to wait before anything is read, or it has finished.
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
        assert!(most <= MAX_WAITING_BYTES + MESSAGE, "{most} bytes were held");
    }
}
