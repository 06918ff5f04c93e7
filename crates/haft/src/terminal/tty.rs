//! The controlling terminal, whatever standard input and output are connected to. A prompt that is
//! dropped soon stops reading, so that it takes no input that is meant for the shell.

use std::{
    fs::File,
    io::{self, ErrorKind, Read, Write},
    sync::Arc,
};

use haft::host::environment::variable;
use haft_core::CancellationToken;
use parking_lot::Mutex;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{
        LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr,
        tcsetattr,
    },
};

const CONTROLLING_TERMINAL: &str = "/dev/tty";
/// More than a terminal delivers as one line.
const MAX_LINE_BYTES: usize = 64 << 10;
/// How soon a reader notices that it was dropped: faster than a person types the next command.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

pub(crate) struct Tty {
    input: Arc<File>,
    /// Separate from the input, which does not block: a long preview must be written whole.
    output: File,
}

impl Tty {
    /// The controlling terminal.
    ///
    /// # Errors
    /// When there is none: a daemon, a CI job, a child of either.
    pub(crate) fn open() -> io::Result<Self> {
        let output = File::options().write(true).open(CONTROLLING_TERMINAL)?;
        // Opened separately, so that only this descriptor does not block and not the shell's.
        let input = File::open(CONTROLLING_TERMINAL)?;
        rustix::io::ioctl_fionbio(&input, true)?;
        Ok(Self { input: Arc::new(input), output })
    }

    /// Switches to a mode where each key is read at once and not shown, until the result is
    /// dropped. Ctrl-C still sends a signal.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub(crate) fn read_keys(&self) -> io::Result<KeyMode> {
        KeyMode::enter(self.output.try_clone()?)
    }

    /// Discards what was typed before a question could be seen.
    pub(crate) fn forget_typed_ahead(&self) {
        // When this fails, nothing was typed ahead either.
        let _ = tcflush(&self.input, QueueSelector::IFlush);
    }

    /// Writes text that is already safe to show.
    pub(crate) fn write(&self, text: &str) {
        // A terminal that is gone shows as the end of the input.
        let _ = (&self.output).write_all(text.as_bytes());
    }

    /// Reads a line; none when the terminal is closed or the person ended the input.
    pub(crate) async fn line(&self) -> Option<String> {
        self.read(read_line).await
    }

    /// Reads what was typed since; none when the terminal is closed.
    pub(crate) async fn bytes(&self) -> Option<Vec<u8>> {
        self.read(read_some).await
    }

    /// Reads on another thread, which stops when this future is dropped.
    async fn read<T: Send + 'static>(
        &self,
        read: fn(&File, &CancellationToken) -> Option<T>,
    ) -> Option<T> {
        let dropped = CancellationToken::new();
        let _guard = dropped.clone().drop_guard();
        let input = self.input.clone();
        let reading = tokio::task::spawn_blocking(move || read(&input, &dropped));
        reading.await.ok().flatten()
    }
}

fn read_line(input: &File, dropped: &CancellationToken) -> Option<String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") && line.len() < MAX_LINE_BYTES {
        line.extend(read_some(input, dropped)?);
    }
    Some(String::from_utf8_lossy(&line).trim().to_owned())
}

fn read_some(mut input: &File, dropped: &CancellationToken) -> Option<Vec<u8>> {
    loop {
        let mut ready = [PollFd::new(input, PollFlags::IN)];
        // An interrupted wait is a short one.
        let _ = poll(&mut ready, Some(&POLL_INTERVAL));
        if dropped.is_cancelled() {
            return None;
        }
        let mut piece = [0; 4096];
        match input.read(&mut piece) {
            Ok(0) => return None,
            Ok(n_read) => return Some(piece.get(..n_read)?.to_vec()),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return None,
        }
    }
}

/// Pastes are marked, so that they press no keys.
const MARK_PASTES: &[u8] = b"\x1b[?2004h";
const DO_NOT_MARK_PASTES: &[u8] = b"\x1b[?2004l";

/// The terminal to restore when the process ends without dropping its [`KeyMode`].
static CHANGED: Mutex<Option<Changed>> = Mutex::new(None);

struct Changed {
    terminal: File,
    before: Termios,
    marks_pastes: bool,
}

/// See [`Tty::read_keys`].
pub(crate) struct KeyMode(());

impl KeyMode {
    fn enter(mut terminal: File) -> io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&terminal, OptionalActions::Now, &modes)?;
        // A dumb terminal would show the escape code.
        let marks_pastes = variable("TERM").is_some_and(|terminal| terminal != "dumb");
        if marks_pastes {
            let _ = terminal.write_all(MARK_PASTES);
        }
        *CHANGED.lock() = Some(Changed { terminal, before, marks_pastes });
        Ok(Self(()))
    }
}

impl Drop for KeyMode {
    fn drop(&mut self) {
        restore_terminal();
    }
}

/// Ends [`KeyMode`], if it is on: the process may exit while a prompt is open.
pub(crate) fn restore_terminal() {
    let Some(mut changed) = CHANGED.lock().take() else { return };
    if changed.marks_pastes {
        let _ = changed.terminal.write_all(DO_NOT_MARK_PASTES);
    }
    // Nothing can be done for a terminal that is gone.
    let _ = tcsetattr(&changed.terminal, OptionalActions::Now, &changed.before);
}
