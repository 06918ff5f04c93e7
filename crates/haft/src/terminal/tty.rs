//! The terminal a person sits at, whatever standard input and output are connected to. A question nobody waits for any
//! longer soon stops reading, so that it takes nothing that is meant for the person's shell.

use std::{
    fs::File,
    io::{self, ErrorKind, Read, Write},
    sync::Arc,
};

use haft_core::CancellationToken;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{QueueSelector, tcflush},
};

const CONTROLLING_TERMINAL: &str = "/dev/tty";
/// More than a terminal hands over as one line; nobody answers a question with more.
const LONGEST_LINE: usize = 64 << 10;
/// How soon a reader notices that nobody waits for it: faster than a person types the next command.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

pub(crate) struct Tty {
    answers: Arc<File>,
    /// Apart from the reading end, which does not wait: a long preview must be written whole.
    questions: File,
}

impl Tty {
    /// The controlling terminal.
    ///
    /// # Errors
    /// When there is none: a daemon, a CI job, a child of either.
    pub(crate) fn open() -> io::Result<Self> {
        let questions = File::options().write(true).open(CONTROLLING_TERMINAL)?;
        // Opened by itself, so that not waiting holds for this end only and not for the shell's.
        let answers = File::open(CONTROLLING_TERMINAL)?;
        rustix::io::ioctl_fionbio(&answers, true)?;
        Ok(Self { answers: Arc::new(answers), questions })
    }

    /// Forgets what was typed before the question could be seen: it was no answer to it.
    pub(crate) fn forget_typed_ahead(&self) {
        // Where this fails there is nothing typed ahead either.
        let _ = tcflush(&self.answers, QueueSelector::IFlush);
    }

    /// Writes what is already safe to show.
    pub(crate) fn write(&self, text: &str) {
        // A terminal that is gone shows itself as the end of the answers.
        let _ = (&self.questions).write_all(text.as_bytes());
    }

    /// The next line; none when the terminal is closed or the person ended it.
    pub(crate) async fn line(&self) -> Option<String> {
        let abandoned = CancellationToken::new();
        let _unless_awaited = abandoned.clone().drop_guard();
        let answers = self.answers.clone();
        let reading = tokio::task::spawn_blocking(move || read_line(&answers, &abandoned));
        reading.await.ok().flatten()
    }
}

fn read_line(mut answers: &File, abandoned: &CancellationToken) -> Option<String> {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") && line.len() < LONGEST_LINE {
        let mut ready = [PollFd::new(answers, PollFlags::IN)];
        // An interrupted wait is a short one.
        let _ = poll(&mut ready, Some(&GLANCE));
        if abandoned.is_cancelled() {
            return None;
        }
        let mut piece = [0; 4096];
        match answers.read(&mut piece) {
            Ok(0) => return None,
            Ok(n_read) => line.extend_from_slice(piece.get(..n_read)?),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return None,
        }
    }
    Some(String::from_utf8_lossy(&line).trim().to_owned())
}
