//! Messages out of a pipe: one a line, of bounded length. A line that is too long is passed over to its end, and told.

use std::{io, os::fd::BorrowedFd};

use rustix::io::Errno;

/// The largest message. A `write` of the largest file that tools take fits.
pub(super) const MAX_LINE_BYTES: usize = 32 << 20;
const CHUNK: usize = 64 << 10;
/// The first reads ask for no more: a start waits for every page that is cleared for it, and a handshake fits into one.
const FIRST: usize = 4 << 10;
const MOST_KEPT: usize = 4 * CHUNK;

/// What came next.
pub(super) enum Next {
    Line(Vec<u8>),
    TooLong,
    End,
}

pub(super) struct Lines {
    fd: BorrowedFd<'static>,
    /// Always initialised to its end: clearing it before every read would cost more than the read.
    buffer: Vec<u8>,
    /// Where the next line begins, up to where no newline was found, and where what was read ends.
    start: usize,
    looked: usize,
    end: usize,
    /// How much is asked for at once, at least.
    chunk: usize,
    /// The rest of a line that is too long has still to be passed over.
    is_skipping: bool,
}

impl Lines {
    pub(super) fn new(fd: BorrowedFd<'static>) -> Self {
        let buffer = Vec::new();
        Self { fd, buffer, start: 0, looked: 0, end: 0, chunk: FIRST, is_skipping: false }
    }

    /// Whether the next message is here already, so that getting it does not wait. A blank line is none: who took it for
    /// one would keep an answer back until the client says more.
    pub(super) fn is_ready(&mut self) -> bool {
        while let Some(end) = self.newline() {
            let line = self.buffer.get(self.start..end).unwrap_or_default();
            if self.is_skipping || !line.trim_ascii().is_empty() {
                return true;
            }
            self.start = end + 1;
            self.looked = self.start;
        }
        false
    }

    /// Waits for the next message that is not blank.
    pub(super) fn next(&mut self) -> io::Result<Next> {
        loop {
            while let Some(end) = self.newline() {
                let line = self.buffer.get(self.start..end).unwrap_or_default();
                let line = line.trim_ascii().to_vec();
                self.start = end + 1;
                self.looked = self.start;
                if std::mem::take(&mut self.is_skipping) {
                    return Ok(Next::TooLong);
                }
                if !line.is_empty() {
                    return Ok(Next::Line(line));
                }
            }
            if self.end - self.start > MAX_LINE_BYTES {
                self.is_skipping = true;
                self.start = self.end;
            }
            if !self.fill()? {
                return Ok(self.last());
            }
        }
    }

    fn newline(&mut self) -> Option<usize> {
        let rest = self.buffer.get(self.looked..self.end).unwrap_or_default();
        let found = memchr::memchr(b'\n', rest).map(|at| self.looked + at);
        self.looked = found.unwrap_or(self.end);
        found
    }

    /// A last message may lack its newline.
    fn last(&mut self) -> Next {
        let line = self.buffer.get(self.start..self.end).unwrap_or_default();
        let line = line.trim_ascii().to_vec();
        (self.start, self.looked, self.end) = (0, 0, 0);
        if line.is_empty() || self.is_skipping { Next::End } else { Next::Line(line) }
    }

    /// False at the end of the input.
    fn fill(&mut self) -> io::Result<bool> {
        self.make_room();
        let read = loop {
            match rustix::io::read(self.fd, self.buffer.get_mut(self.end..).unwrap_or_default()) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => wait_for(self.fd)?,
                other => break other?,
            }
        };
        self.end += read;
        if self.end == self.buffer.len() {
            // The client has more to say.
            self.chunk = CHUNK;
        }
        Ok(read > 0)
    }

    fn make_room(&mut self) {
        if self.start == self.end {
            (self.start, self.looked, self.end) = (0, 0, 0);
            if self.buffer.len() > MOST_KEPT {
                // What one long message took is given back.
                self.buffer = Vec::new();
            }
        } else if self.start > 0 && self.buffer.len() - self.end < self.chunk {
            self.buffer.copy_within(self.start..self.end, 0);
            self.looked -= self.start;
            self.end -= self.start;
            self.start = 0;
        }
        if self.buffer.len() - self.end < self.chunk {
            // Twice as much each time, so that a long message is moved a few times only.
            let room = (self.buffer.len() * 2).max(self.end + self.chunk);
            self.buffer.resize(room, 0);
        }
    }
}

/// Somebody gave us a pipe that does not wait; then we do.
fn wait_for(fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut polled = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut polled, None)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write, os::fd::AsFd};

    use super::*;

    /// What is read when these pieces arrive one after the other.
    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let reader: &'static File = Box::leak(Box::new(File::from(reader)));
        let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.to_vec()).collect();
        let writing = std::thread::spawn(move || {
            let mut writer = File::from(writer);
            pieces.iter().for_each(|piece| writer.write_all(piece).expect("somebody reads"));
        });
        let mut pipe = Lines::new(reader.as_fd());
        let mut lines = Vec::new();
        loop {
            match pipe.next().expect("it is readable") {
                Next::Line(line) => lines.push(String::from_utf8_lossy(&line).into_owned()),
                Next::TooLong => lines.push("<too long>".to_owned()),
                Next::End => break,
            }
        }
        writing.join().expect("all was written");
        lines
    }

    #[test]
    fn lines_are_messages_however_they_are_split() {
        assert_eq!(read(&[b"a\nb\n"]), ["a", "b"]);
        assert_eq!(read(&[b"a", b"b\r\n\n  \nc", b"d"]), ["ab", "cd"]);
        assert_eq!(read(&[]), [""; 0]);
        assert_eq!(read(&[b"\n\n"]), [""; 0]);
    }

    #[test]
    fn a_blank_line_is_not_taken_for_a_message_that_is_here() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let reader: &'static File = Box::leak(Box::new(File::from(reader)));
        let mut pipe = Lines::new(reader.as_fd());
        let mut writer = File::from(writer);
        for (text, is_ready) in [("a\n", false), ("a\n\n \r\n", false), ("a\n\nb\n", true)] {
            writer.write_all(text.as_bytes()).expect("somebody reads");
            assert!(matches!(pipe.next(), Ok(Next::Line(line)) if line == b"a"));
            assert_eq!(pipe.is_ready(), is_ready, "{text:?}");
        }
        assert!(matches!(pipe.next(), Ok(Next::Line(line)) if line == b"b"));
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_whole() {
        let long = vec![b'x'; MAX_LINE_BYTES + CHUNK];
        assert_eq!(read(&[b"a\n", &long, &long, b"\nb\n"]), ["a", "<too long>", "b"]);
        assert_eq!(read(&[b"a\n", &long]), ["a"]);
    }
}
