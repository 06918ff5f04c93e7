//! A file with a line that does not fit into memory, searched byte by byte: an automaton says where a line begins to match,
//! and only the text around that place is kept. Slower than the usual search, and in constant memory.

use std::{
    collections::VecDeque,
    io::{self, Read},
};

use haft_core::files::SearchFiles;
use memchr::memchr;
use regex_automata::{
    Anchored,
    hybrid::{
        LazyStateID,
        dfa::{Cache, DFA},
    },
    nfa::thompson,
    util::{start, syntax},
};

use super::lines::LineCollector;

/// Read at a time.
const BLOCK_BYTES: usize = 64 << 10;
/// For the states of the automaton, for each thread.
const CACHE_BYTES: usize = 16 << 20;
/// Compiled patterns above this size are refused, as for the usual search.
const MAX_PATTERN_BYTES: usize = 32 << 20;

/// The pattern as an automaton, with the options of the usual search.
pub(super) fn automaton(query: &SearchFiles) -> io::Result<DFA> {
    let literal = |c: char| format!("\\x{{{:x}}}", u32::from(c));
    let pattern = match query.is_literal {
        true => query.pattern.chars().map(literal).collect(),
        false => query.pattern.clone(),
    };
    let syntax = syntax::Config::new()
        .crlf(true)
        .multi_line(true)
        .utf8(false)
        .case_insensitive(query.ignores_case);
    DFA::builder()
        .syntax(syntax)
        .thompson(thompson::Config::new().utf8(false).nfa_size_limit(Some(MAX_PATTERN_BYTES)))
        // A Unicode word border is exact until a byte beyond ASCII comes; then the search ends with an error.
        .configure(DFA::config().cache_capacity(CACHE_BYTES).unicode_word_boundary(true))
        .build(&pattern)
        .map_err(io::Error::other)
}

/// Finds the matching lines of a file that is read from its beginning.
///
/// # Errors
/// When it cannot be read, when it is written in 16 bits, or when the automaton cannot tell.
pub(super) fn find_lines(
    dfa: &DFA,
    mut reader: impl Read,
    context: usize,
    lines: &mut LineCollector<'_>,
) -> io::Result<()> {
    let mut block = vec![0; BLOCK_BYTES];
    let mut stream = LineStream::new(dfa, context, lines)?;
    let mut is_first = true;
    loop {
        let read = match reader.read(&mut block) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        let mut bytes = block.get(..read).unwrap_or_default();
        if std::mem::take(&mut is_first) {
            if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
                return Err(io::Error::other("a text of 16 bits cannot be searched in blocks"));
            }
            bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        }
        if read == 0 {
            return stream.finish();
        }
        if memchr(0, bytes).is_some() {
            stream.lines.is_binary = true;
            return Ok(());
        }
        if stream.take(bytes)? == StreamStep::Enough {
            return Ok(());
        }
    }
}

#[derive(PartialEq, Eq)]
enum StreamStep {
    ReadOn,
    Enough,
}

struct LineStream<'s, 'l> {
    dfa: &'s DFA,
    cache: Cache,
    lines: &'s mut LineCollector<'l>,
    context: usize,
    /// Lines before, which a match would show.
    before: VecDeque<ContextLine>,
    /// Lines that the last match still shows.
    after: usize,
    line: StreamedLine,
}

/// The line that is read.
struct StreamedLine {
    number: u64,
    state: LazyStateID,
    /// From here on nothing can match any more.
    is_dead: bool,
    is_match: bool,
    /// The beginning of the line.
    head: Vec<u8>,
    /// The text around the match; the end of what was read while there is none.
    text: Vec<u8>,
    /// Bytes of the text that lie before the end of the match.
    place: usize,
    /// Nothing of the line is missing in the text.
    is_whole: bool,
    is_empty: bool,
}

/// A line of context.
struct ContextLine {
    number: u64,
    text: Vec<u8>,
    is_whole: bool,
}

impl StreamedLine {
    fn new(number: u64, state: LazyStateID) -> Self {
        Self {
            number,
            state,
            is_dead: false,
            is_match: false,
            head: Vec::new(),
            text: Vec::new(),
            place: 0,
            is_whole: true,
            is_empty: true,
        }
    }
}

impl<'s, 'l> LineStream<'s, 'l> {
    fn new(dfa: &'s DFA, context: usize, lines: &'s mut LineCollector<'l>) -> io::Result<Self> {
        let mut cache = dfa.create_cache();
        let start = begin(dfa, &mut cache)?;
        let line = StreamedLine::new(1, start);
        let before = VecDeque::new();
        Ok(Self { dfa, cache, lines, context, before, after: 0, line })
    }

    /// Bytes kept before a match and behind it: a shown character may take four.
    fn side(&self) -> usize {
        self.lines.line_chars.saturating_mul(4)
    }

    fn take(&mut self, mut bytes: &[u8]) -> io::Result<StreamStep> {
        while let Some(end) = memchr(b'\n', bytes) {
            let (rest, next) = bytes.split_at(end);
            self.feed(rest)?;
            if self.end_line()? == StreamStep::Enough {
                return Ok(StreamStep::Enough);
            }
            bytes = next.get(1..).unwrap_or_default();
        }
        self.line.is_empty &= bytes.is_empty();
        self.feed(bytes)?;
        Ok(StreamStep::ReadOn)
    }

    /// Ends the last line, which may lack its ending.
    fn finish(mut self) -> io::Result<()> {
        if !self.line.is_empty {
            self.end_line()?;
        }
        Ok(())
    }

    /// Reads a part of the line.
    fn feed(&mut self, bytes: &[u8]) -> io::Result<()> {
        let side = self.side();
        if self.context > 0 {
            let room = side.saturating_sub(self.line.head.len());
            self.line.head.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        }
        let mut rest = bytes;
        if !self.line.is_match && !self.line.is_dead {
            let matched = self.run(bytes)?;
            let (looked, others) = bytes.split_at(matched.unwrap_or(bytes.len()));
            self.keep_before(looked);
            self.line.place = self.line.text.len();
            rest = others;
        }
        let room = (self.line.place + side).saturating_sub(self.line.text.len());
        let kept = rest.get(..room).unwrap_or(rest);
        self.line.is_whole &= kept.len() == rest.len();
        self.line.text.extend_from_slice(kept);
        Ok(())
    }

    /// Runs the automaton; returns how many bytes it took to match.
    fn run(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let line = &mut self.line;
        for (at, byte) in bytes.iter().enumerate() {
            line.state = self
                .dfa
                .next_state(&mut self.cache, line.state, *byte)
                .map_err(io::Error::other)?;
            if line.state.is_tagged() {
                if line.state.is_match() {
                    line.is_match = true;
                    return Ok(Some(at));
                }
                if line.state.is_dead() {
                    line.is_dead = true;
                    return Ok(None);
                }
                if line.state.is_quit() {
                    return Err(io::Error::other("the pattern needs the whole line in memory"));
                }
            }
        }
        Ok(None)
    }

    /// Keeps the end of what was read: a match may begin in it.
    fn keep_before(&mut self, bytes: &[u8]) {
        let side = self.side();
        let line = &mut self.line;
        line.text.extend_from_slice(bytes);
        // Twice as much, so that little is moved.
        if line.text.len() > side.saturating_mul(2) {
            line.text.drain(..line.text.len() - side);
            line.is_whole = false;
        }
    }

    fn end_line(&mut self) -> io::Result<StreamStep> {
        if !self.line.is_match && !self.line.is_dead {
            let end = self.dfa.next_eoi_state(&mut self.cache, self.line.state);
            self.line.is_match = end.map_err(io::Error::other)?.is_match();
            self.line.place = self.line.text.len();
        }
        // Asked for each line: states from before the cache was cleared are of no use.
        let start = begin(self.dfa, &mut self.cache)?;
        let next = StreamedLine::new(self.line.number + 1, start);
        let line = std::mem::replace(&mut self.line, next);
        let StreamedLine { number, head, text, is_match, place, is_whole, .. } = line;
        if is_match {
            for shown in self.before.drain(..) {
                self.lines.push_excerpt(shown.number, &shown.text, None, shown.is_whole);
            }
            self.lines.push_excerpt(number, &text, Some(place), is_whole);
            self.after = self.context;
            let is_enough = self.lines.matches > self.lines.enough;
            return Ok(if is_enough { StreamStep::Enough } else { StreamStep::ReadOn });
        }
        if self.after > 0 {
            self.after -= 1;
            self.lines.push_excerpt(number, &head, None, is_whole);
        } else if self.context > 0 {
            if self.before.len() == self.context {
                self.before.pop_front();
            }
            self.before.push_back(ContextLine { number, text: head, is_whole });
        }
        Ok(StreamStep::ReadOn)
    }
}

/// The state at the beginning of a line.
fn begin(dfa: &DFA, cache: &mut Cache) -> io::Result<LazyStateID> {
    let config = start::Config::new().anchored(Anchored::No);
    dfa.start_state(cache, &config).map_err(io::Error::other)
}
