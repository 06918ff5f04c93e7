//! Shows one view on the whole screen of the terminal and reads its keys. The terminal is restored
//! in every case.

use std::{
    fs::File,
    io::{self, ErrorKind, Read, Write},
    sync::Arc,
    thread,
};

use haft_core::CancellationToken;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{
        OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcgetwinsize, tcsetattr,
    },
};
use tokio::sync::mpsc;

use super::keys::{Key, Keys};

const CONTROLLING_TERMINAL: &str = "/dev/tty";
/// How soon the reader of keys notices that it must stop.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Alternate screen, no cursor, no wrapping, marked pastes; and the reverse.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?2004h";
const LEAVE: &str = "\x1b[?2004l\x1b[?7h\x1b[?25h\x1b[?1049l";
/// Used when a terminal does not report its size.
const DEFAULT_SIZE: (usize, usize) = (80, 24);

pub(crate) struct Screen {
    out: File,
    before: Termios,
    reader: CancellationToken,
    keys: mpsc::Receiver<Key>,
}

impl Screen {
    /// Switches to the alternate screen.
    ///
    /// # Errors
    /// When there is no terminal.
    pub(crate) fn take() -> io::Result<Self> {
        let out = File::options().write(true).open(CONTROLLING_TERMINAL)?;
        let answers = File::open(CONTROLLING_TERMINAL)?;
        rustix::io::ioctl_fionbio(&answers, true)?;
        let before = tcgetattr(&out)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&out, OptionalActions::Now, &raw)?;
        // Keys that were typed before the view was shown are discarded.
        let _ = tcflush(&answers, QueueSelector::IFlush);
        let reader = CancellationToken::new();
        let (sender, keys) = mpsc::channel(64);
        let screen = Self { out, before, reader: reader.clone(), keys };
        let answers = Arc::new(answers);
        thread::Builder::new()
            .name("haft-keys".to_owned())
            .spawn(move || read_keys(&answers, &sender, &reader))?;
        screen.write(ENTER);
        Ok(screen)
    }

    /// Reads the next key; none when the terminal is gone.
    pub(crate) async fn key(&mut self) -> Option<Key> {
        self.keys.recv().await
    }

    /// Columns and rows.
    pub(crate) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(&self.out) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (size.ws_col.into(), size.ws_row.into())
            }
            _ => DEFAULT_SIZE,
        }
    }

    /// Replaces the screen by these lines, which must be safe.
    pub(crate) fn draw(&self, lines: &[String]) {
        let lines: Vec<String> = lines.iter().map(|line| format!("{line}\x1b[0m\x1b[K")).collect();
        self.write(&format!("\x1b[H{}\x1b[J", lines.join("\r\n")));
    }

    fn write(&self, text: &str) {
        // A terminal that is gone shows as the end of the keys.
        let _ = (&self.out).write_all(text.as_bytes());
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.reader.cancel();
        self.write(LEAVE);
        let _ = tcsetattr(&self.out, OptionalActions::Flush, &self.before);
    }
}

fn read_keys(mut answers: &File, sender: &mpsc::Sender<Key>, stop: &CancellationToken) {
    let mut keys = Keys::default();
    loop {
        let mut ready = [PollFd::new(answers, PollFlags::IN)];
        // An interrupted wait is a short one.
        let _ = poll(&mut ready, Some(&POLL_INTERVAL));
        if stop.is_cancelled() {
            return;
        }
        let mut piece = [0; 4096];
        let n_read = match answers.read(&mut piece) {
            Ok(0) => return,
            Ok(n_read) => n_read,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                continue;
            }
            Err(_) => return,
        };
        for key in keys.read(piece.get(..n_read).unwrap_or_default()) {
            if sender.blocking_send(key).is_err() {
                return;
            }
        }
    }
}
