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

use super::lines::Lines;

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
    lines: &mut Lines<'_>,
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
    lines: &'s mut Lines<'l>,
    context: usize,
    /// Lines before, which a match would show.
    before: VecDeque<ContextLine>,
    /// Lines that the last match still shows.
    after: usize,
    start: LazyStateID,
    line: StreamedLine,
}

/// The line that is read.
struct StreamedLine {
    number: u64,
    state: LazyStateID,
    /// From here on nothing can match any more.
    is_dead: bool,
    is_match: bool,
    /// The text around the match, or the beginning while there is none.
    text: Vec<u8>,
    /// Bytes before the text.
    passed: u64,
    /// Bytes of the text that lie before what has matched.
    place: usize,
    /// A carriage return that may belong to the end of the line.
    has_return: bool,
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
            text: Vec::new(),
            passed: 0,
            place: 0,
            has_return: false,
            is_whole: true,
            is_empty: true,
        }
    }
}

impl<'s, 'l> LineStream<'s, 'l> {
    fn new(dfa: &'s DFA, context: usize, lines: &'s mut Lines<'l>) -> io::Result<Self> {
        let mut cache = dfa.create_cache();
        let start = begin(dfa, &mut cache)?;
        let line = StreamedLine::new(1, start);
        let before = VecDeque::new();
        Ok(Self { dfa, cache, lines, context, before, after: 0, start, line })
    }

    /// Bytes kept before a match and behind it: a shown character may take four.
    fn side(&self) -> usize {
        self.lines.line_chars.saturating_mul(4)
    }

    fn take(&mut self, mut bytes: &[u8]) -> io::Result<StreamStep> {
        while let Some(end) = memchr(b'\n', bytes) {
            let (rest, next) = bytes.split_at(end);
            self.add(rest)?;
            self.line.is_empty = false;
            if self.end_line()? == StreamStep::Enough {
                return Ok(StreamStep::Enough);
            }
            bytes = next.get(1..).unwrap_or_default();
        }
        self.add(bytes)?;
        Ok(StreamStep::ReadOn)
    }

    /// The last line may lack its ending.
    fn finish(mut self) -> io::Result<()> {
        if self.line.has_return {
            self.line.has_return = false;
            self.feed(b"\r")?;
        }
        if !self.line.is_empty {
            self.end_line()?;
        }
        Ok(())
    }

    /// A part of the line without its ending.
    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.line.is_empty = false;
        if std::mem::take(&mut self.line.has_return) {
            self.feed(b"\r")?;
        }
        let bytes = match bytes.strip_suffix(b"\r") {
            Some(bytes) => {
                self.line.has_return = true;
                bytes
            }
            None => bytes,
        };
        self.feed(bytes)
    }

    fn feed(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        if !self.line.is_match && !self.line.is_dead {
            let matched = self.run(bytes)?;
            let (looked, others) = bytes.split_at(matched.unwrap_or(bytes.len()));
            self.keep_before(looked);
            if matched.is_none() {
                return Ok(());
            }
            self.line.place = self.line.text.len();
            rest = others;
        }
        let room = match self.line.is_match {
            true => (self.line.place + self.side()).saturating_sub(self.line.text.len()),
            false => self.side().saturating_sub(self.line.text.len()),
        };
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

    /// Keeps the end of what was looked at: a match may begin in it. While nothing matched the beginning is kept for context.
    fn keep_before(&mut self, bytes: &[u8]) {
        let side = self.side();
        let line = &mut self.line;
        line.text.extend_from_slice(bytes);
        // Twice as much, so that little is moved.
        if line.text.len() > side.saturating_mul(2) {
            let gone = line.text.len() - side;
            line.text.drain(..gone);
            line.passed += gone as u64;
            line.is_whole = false;
        }
    }

    fn end_line(&mut self) -> io::Result<StreamStep> {
        if !self.line.is_match && !self.line.is_dead {
            let end = self.dfa.next_eoi_state(&mut self.cache, self.line.state);
            self.line.is_match = end.map_err(io::Error::other)?.is_match();
            self.line.place = self.line.text.len();
        }
        // The cache may have been cleared since, and old states are then of no use.
        self.start = begin(self.dfa, &mut self.cache)?;
        let next = StreamedLine::new(self.line.number + 1, self.start);
        let line = std::mem::replace(&mut self.line, next);
        let StreamedLine { number, text, is_match, place, is_whole, .. } = line;
        if is_match {
            for excerpt in self.before.drain(..) {
                self.lines.push_excerpt(excerpt.number, &excerpt.text, None, excerpt.is_whole);
            }
            self.lines.push_excerpt(number, &text, Some(place), is_whole);
            self.after = self.context;
            let is_enough = self.lines.matches > self.lines.enough;
            return Ok(if is_enough { StreamStep::Enough } else { StreamStep::ReadOn });
        }
        if self.after > 0 {
            self.after -= 1;
            self.lines.push_excerpt(number, &text, None, is_whole);
        } else if self.context > 0 {
            if self.before.len() == self.context {
                self.before.pop_front();
            }
            self.before.push_back(ContextLine { number, text, is_whole });
        }
        Ok(StreamStep::ReadOn)
    }
}

/// The state at the beginning of a line.
fn begin(dfa: &DFA, cache: &mut Cache) -> io::Result<LazyStateID> {
    let config = start::Config::new().anchored(Anchored::No);
    dfa.start_state(cache, &config).map_err(io::Error::other)
}
