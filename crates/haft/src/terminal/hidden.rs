//! A line that a person types without its being shown. However this ends, the terminal is as it was: keys that would end the
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
/// What comes so soon after the end of a line was pasted with it.
const PASTED: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Nobody types more.
const LONGEST: usize = 256 << 10;

/// Asks for a line; none when the person does not want to give one. A text of several lines is read whole.
///
/// # Errors
/// When there is no terminal.
pub(crate) fn hidden_line(question: &str) -> io::Result<Option<String>> {
    let mut terminal = File::options().read(true).write(true).open(CONTROLLING_TERMINAL)?;
    let mut quiet = Quiet::new(terminal.try_clone()?)?;
    quiet.terminal.write_all(question.as_bytes())?;
    let typed = read(&mut terminal);
    // What follows was meant for nobody, least of all for the shell.
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
        if line.len() > LONGEST || is_over && !has_more(terminal) {
            return Ok(Some(line));
        }
    }
}

fn drop_letter(line: &mut Vec<u8>) {
    while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
}

fn has_more(terminal: &File) -> bool {
    let mut ready = [PollFd::new(terminal, PollFlags::IN)];
    poll(&mut ready, Some(&PASTED)).is_ok_and(|count| count > 0)
}

/// A terminal that shows nothing that is typed, until this is dropped.
struct Quiet {
    terminal: File,
    before: Termios,
}

impl Quiet {
    fn new(terminal: File) -> io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        // What was typed before the question could be seen was no answer to it.
        tcsetattr(&terminal, OptionalActions::Flush, &quiet)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}
