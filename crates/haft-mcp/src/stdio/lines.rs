//! Reads messages from a pipe: one per line, of bounded length. A line that is too long is skipped
//! and reported.

use std::{io, os::fd::BorrowedFd};

use rustix::io::Errno;

/// Maximum size of a message. Fits a `write` of the largest file that tools accept.
pub(super) const MAX_LINE_BYTES: usize = 32 << 20;
const CHUNK_BYTES: usize = 64 << 10;
/// Size of the first reads. A larger buffer would delay the start, because its pages must be
/// cleared; a handshake fits into one page.
const FIRST_CHUNK_BYTES: usize = 4 << 10;
const MAX_KEPT_BYTES: usize = 4 * CHUNK_BYTES;

/// Result of reading.
pub(super) enum NextLine {
    Line(Vec<u8>),
    TooLong,
    CallReply,
}

pub(super) struct LineReader {
    fd: BorrowedFd<'static>,
    /// Initialized to its end: clearing it before every read would cost more than the read.
    buffer: Vec<u8>,
    /// Start of the next line, end of the part without a newline, and end of the data.
    start: usize,
    scanned: usize,
    end: usize,
    /// Minimum number of bytes to read at once.
    chunk: usize,
    /// True while the rest of a line that is too long is skipped.
    is_skipping: bool,
}

impl LineReader {
    pub(super) fn new(fd: BorrowedFd<'static>) -> Self {
        let buffer = Vec::new();
        Self {
            fd,
            buffer,
            start: 0,
            scanned: 0,
            end: 0,
            chunk: FIRST_CHUNK_BYTES,
            is_skipping: false,
        }
    }

    /// Returns true if the next message is in the buffer, so that reading it does not block. Blank
    /// lines do not count: otherwise an answer would be held back until the client sends more.
    pub(super) fn is_ready(&mut self) -> bool {
        while let Some(end) = self.newline() {
            let line = self.buffer.get(self.start..end).unwrap_or_default();
            if self.is_skipping || !line.trim_ascii().is_empty() {
                return true;
            }
            self.start = end + 1;
            self.scanned = self.start;
        }
        false
    }

    /// Waits for the next message that is not blank.
    pub(super) fn next(&mut self) -> io::Result<NextLine> {
        loop {
            while let Some(end) = self.newline() {
                let line = self.buffer.get(self.start..end).unwrap_or_default();
                let line = line.trim_ascii().to_vec();
                self.start = end + 1;
                self.scanned = self.start;
                if std::mem::take(&mut self.is_skipping) {
                    return Ok(NextLine::TooLong);
                }
                if !line.is_empty() {
                    return Ok(NextLine::Line(line));
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
        let rest = self.buffer.get(self.scanned..self.end).unwrap_or_default();
        let found = memchr::memchr(b'\n', rest).map(|at| self.scanned + at);
        self.scanned = found.unwrap_or(self.end);
        found
    }

    /// Returns the last message, which may lack its newline.
    fn last(&mut self) -> NextLine {
        let line = self.buffer.get(self.start..self.end).unwrap_or_default();
        let line = line.trim_ascii().to_vec();
        (self.start, self.scanned, self.end) = (0, 0, 0);
        if line.is_empty() || self.is_skipping { NextLine::CallReply } else { NextLine::Line(line) }
    }

    /// Reads more data. Returns false at the end of the input.
    fn fill(&mut self) -> io::Result<bool> {
        self.reserve();
        let read = loop {
            match rustix::io::read(self.fd, self.buffer.get_mut(self.end..).unwrap_or_default()) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => wait_for(self.fd)?,
                other => break other?,
            }
        };
        self.end += read;
        if self.end == self.buffer.len() {
            // The client has more to send.
            self.chunk = CHUNK_BYTES;
        }
        Ok(read > 0)
    }

    fn reserve(&mut self) {
        if self.start == self.end {
            (self.start, self.scanned, self.end) = (0, 0, 0);
            if self.buffer.len() > MAX_KEPT_BYTES {
                // Free the memory of one long message.
                self.buffer = Vec::new();
            }
        } else if self.start > 0 && self.buffer.len() - self.end < self.chunk {
            self.buffer.copy_within(self.start..self.end, 0);
            self.scanned -= self.start;
            self.end -= self.start;
            self.start = 0;
        }
        if self.buffer.len() - self.end < self.chunk {
            // Doubles each time, so that a long message is moved only a few times.
            let size = (self.buffer.len() * 2).max(self.end + self.chunk);
            self.buffer.resize(size, 0);
        }
    }
}

/// Waits for data on a non-blocking pipe.
fn wait_for(fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut polled = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut polled, None)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write, os::fd::AsFd};

    use super::*;

    /// Returns the lines read when these pieces arrive one after the other.
    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let reader: &'static File = Box::leak(Box::new(File::from(reader)));
        let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.to_vec()).collect();
        let writing = std::thread::spawn(move || {
            let mut writer = File::from(writer);
            pieces.iter().for_each(|piece| writer.write_all(piece).expect("the pipe is read"));
        });
        let mut pipe = LineReader::new(reader.as_fd());
        let mut lines = Vec::new();
        loop {
            match pipe.next().expect("it is readable") {
                NextLine::Line(line) => lines.push(String::from_utf8_lossy(&line).into_owned()),
                NextLine::TooLong => lines.push("<too long>".to_owned()),
                NextLine::CallReply => break,
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
    fn a_blank_line_does_not_count_as_a_ready_message() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let reader: &'static File = Box::leak(Box::new(File::from(reader)));
        let mut pipe = LineReader::new(reader.as_fd());
        let mut writer = File::from(writer);
        for (text, is_ready) in [("a\n", false), ("a\n\n \r\n", false), ("a\n\nb\n", true)] {
            writer.write_all(text.as_bytes()).expect("the pipe is read");
            assert!(matches!(pipe.next(), Ok(NextLine::Line(line)) if line == b"a"));
            assert_eq!(pipe.is_ready(), is_ready, "{text:?}");
        }
        assert!(matches!(pipe.next(), Ok(NextLine::Line(line)) if line == b"b"));
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped() {
        let long = vec![b'x'; MAX_LINE_BYTES + CHUNK_BYTES];
        assert_eq!(read(&[b"a\n", &long, &long, b"\nb\n"]), ["a", "<too long>", "b"]);
        assert_eq!(read(&[b"a\n", &long]), ["a"]);
    }
}
