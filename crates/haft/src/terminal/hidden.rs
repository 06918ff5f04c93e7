//! Reads a line without showing it. The terminal is restored in every case: keys that would end the
//! process are read as keys.

use std::{
    fs::File,
    io::{self, Read, Write},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr},
};

const CONTROLLING_TERMINAL: &str = "/dev/tty";
/// Bytes that arrive this soon after the end of a line were pasted with it.
const PASTE_GAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Longer than any secret.
const MAX_BYTES: usize = 256 << 10;

/// Asks for a line; none when the person cancels. A pasted text of several lines is read whole.
///
/// # Errors
/// When there is no terminal.
pub(crate) fn hidden_line(question: &str) -> io::Result<Option<String>> {
    let mut terminal = File::options().read(true).write(true).open(CONTROLLING_TERMINAL)?;
    let mut quiet = Quiet::new(terminal.try_clone()?)?;
    quiet.terminal.write_all(question.as_bytes())?;
    let typed = read(&mut terminal);
    // The rest must not reach the shell.
    let _ = tcflush(&terminal, QueueSelector::IFlush);
    quiet.terminal.write_all(b"\n")?;
    Ok(typed?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

fn read(terminal: &mut File) -> io::Result<Option<Vec<u8>>> {
    let (mut line, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let length = terminal.read(&mut piece)?;
        if length == 0 {
            return Ok(None);
        }
        let mut is_over = false;
        for byte in piece.iter().take(length) {
            match byte {
                // Ctrl-C and Ctrl-D.
                0x03 | 0x04 => return Ok(None),
                // Ctrl-U.
                0x15 => line.clear(),
                0x08 | 0x7f => drop_letter(&mut line),
                b'\r' | b'\n' => {
                    is_over = true;
                    line.push(b'\n');
                }
                byte => line.push(*byte),
            }
        }
        if line.len() > MAX_BYTES || is_over && !has_more(terminal) {
            return Ok(Some(line));
        }
    }
}

fn drop_letter(line: &mut Vec<u8>) {
    while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
}

fn has_more(terminal: &File) -> bool {
    let mut ready = [PollFd::new(terminal, PollFlags::IN)];
    poll(&mut ready, Some(&PASTE_GAP)).is_ok_and(|count| count > 0)
}

/// Hides typed text until it is dropped.
struct Quiet {
    terminal: File,
    before: Termios,
}

impl Quiet {
    fn new(terminal: File) -> io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        // Text that was typed before the question was shown is discarded.
        tcsetattr(&terminal, OptionalActions::Flush, &quiet)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}
