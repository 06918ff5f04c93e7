//! Entries on their way to the store, in the order in which their calls ended.

use std::{collections::HashMap, time::Instant};

use haft_core::ToolError;
use tokio::sync::oneshot;

use super::{
    chain::Line,
    turn::{Seat, Told},
};

/// So many looks may be on their way at most; then they wait for their commit like the others.
const MOST: usize = 4_096;
const MOST_BYTES: usize = 2 << 20;
/// So much is written at once instead of in its time, so that nobody comes to a full queue.
const MUCH: usize = 512 << 10;

/// What became of an entry.
pub(super) type Answer = Result<(), Unwritten>;

/// Why nothing was written, for everybody who waited for it.
#[derive(Clone, Debug)]
pub(super) struct Unwritten {
    message: String,
    hint: String,
}

impl Unwritten {
    /// Whoever wrote was stopped.
    pub(super) fn unknown() -> Self {
        let message = "nobody said what became of the entry".to_owned();
        Self { message, hint: "see whether it is there with `haft ledger show`".to_owned() }
    }

    // No `From`: a second one for this type would leave every `?` of the crates above in doubt.
    pub(super) fn told(self) -> ToolError {
        ToolError::unavailable(self.message).hint(self.hint)
    }
}

#[derive(Default)]
pub(super) struct Queue {
    waiting: Vec<Waiting>,
    bytes: usize,
    /// When the oldest look came that nobody waits for.
    pub(super) since: Option<Instant>,
    /// The last attempt did not work: what comes now is told so instead of being put behind.
    is_failing: bool,
    /// Looks that were answered and then could not be kept.
    lost: u64,
    /// How many waited for what was written last, and for what before that.
    together: [usize; 2],
    /// Somebody writes, or was asked to.
    is_written: bool,
}

struct Waiting {
    /// None of who only wants all before it to be written.
    line: Option<Line>,
    who: Who,
}

enum Who {
    /// Nobody: a look that was answered.
    Nobody,
    /// Whoever writes.
    Writer,
    Other(oneshot::Sender<Told>),
}

/// Looks that were not written.
pub(super) struct Unawaited(Vec<Waiting>);

/// What is written together.
pub(super) struct Batch(Vec<Waiting>);

impl Batch {
    /// Makes what was left for who writes it.
    pub(super) fn complete(&mut self) {
        self.0.iter_mut().filter_map(|waiting| waiting.line.as_mut()).for_each(Line::complete);
    }

    /// Makes one entry of equal read-only calls, as long as no other call came between them. A client that reads in a loop
    /// then costs an entry for each batch instead of one for each call.
    pub(super) fn coalesce(&mut self) {
        // Apart from those that a caller waits for: what is kept for later after a failure must not be lost with them.
        let mut firsts: [HashMap<String, usize>; 2] = Default::default();
        for at in 0..self.0.len() {
            let Some(waiting) = self.0.get(at) else { continue };
            let Some(line) = &waiting.line else { continue };
            let Some(key) = line.repeatable() else {
                firsts = Default::default();
                continue;
            };
            let [answered, awaited] = &mut firsts;
            let firsts = if matches!(waiting.who, Who::Nobody) { answered } else { awaited };
            let Some(first) = firsts.get(key).copied() else {
                firsts.insert(key.to_owned(), at);
                continue;
            };
            let later = self.0.get_mut(at).and_then(|it| it.line.take());
            let first = self.0.get_mut(first).and_then(|it| it.line.as_mut());
            if let (Some(first), Some(later)) = (first, later) {
                first.repeat(&later);
            }
        }
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = &Line> + Send {
        self.0.iter().filter_map(|waiting| waiting.line.as_ref())
    }

    /// Tells everybody; without holding the queue, which who is told comes back to. Returns what nobody waited for.
    pub(super) fn tell(self, answer: &Answer) -> Unawaited {
        let mut unawaited = Vec::new();
        for waiting in self.0 {
            match waiting.who {
                // Whoever does not listen any more has gone.
                Who::Other(sender) => drop(sender.send(Told::Written(answer.clone()))),
                Who::Nobody if answer.is_err() => unawaited.push(waiting),
                Who::Nobody | Who::Writer => {}
            }
        }
        Unawaited(unawaited)
    }
}

impl Queue {
    pub(super) fn has_lines(&self) -> bool {
        self.waiting.iter().any(|waiting| waiting.line.is_some())
    }

    pub(super) fn push(&mut self, line: Line) -> Seat {
        self.bytes += line.weight();
        self.sit_down(Some(line))
    }

    /// For who wants all that is here to be written. None when it is.
    pub(super) fn await_all(&mut self) -> Option<Seat> {
        (self.is_written || self.has_lines()).then(|| self.sit_down(None))
    }

    fn sit_down(&mut self, line: Option<Line>) -> Seat {
        if !std::mem::replace(&mut self.is_written, true) {
            self.waiting.push(Waiting { line, who: Who::Writer });
            return Seat::First;
        }
        let (sender, told) = oneshot::channel();
        self.waiting.push(Waiting { line, who: Who::Other(sender) });
        Seat::Behind(told)
    }

    /// Who is to write what has come meanwhile; None when nobody waits for it.
    pub(super) fn next_writer(&mut self) -> Option<oneshot::Sender<Told>> {
        let is_other = |waiting: &&mut Waiting| matches!(waiting.who, Who::Other(_));
        let next = self.waiting.iter_mut().find(is_other);
        let next = next.map(|waiting| std::mem::replace(&mut waiting.who, Who::Writer));
        match next {
            Some(Who::Other(sender)) => Some(sender),
            _ => {
                self.is_written = false;
                None
            }
        }
    }

    /// Gives the line back when there is no room, or no use in waiting.
    pub(super) fn defer(&mut self, line: Line) -> Option<Line> {
        let is_full = self.waiting.len() >= MOST || self.bytes + line.weight() > MOST_BYTES;
        if is_full || self.is_failing {
            return Some(line);
        }
        self.bytes += line.weight();
        self.waiting.push(Waiting { line: Some(line), who: Who::Nobody });
        self.since.get_or_insert_with(Instant::now);
        None
    }

    /// Whether it is better not to wait for more.
    pub(super) fn is_long(&self) -> bool {
        self.bytes >= MUCH || self.waiting.len() >= MOST / 2
    }

    pub(super) fn awaited(&self) -> usize {
        self.waiting.iter().filter(|waiting| !matches!(waiting.who, Who::Nobody)).count()
    }

    /// Whether more wait for their commit by all experience: who was answered at the same time comes again at about the same.
    pub(super) fn expects_more(&self) -> bool {
        // Of two, since now and then one comes too late and is written alone: then the others come after it.
        let together = self.together[0].max(self.together[1]);
        together > 1 && self.awaited() < together
    }

    pub(super) fn take(&mut self) -> Batch {
        self.together = [self.awaited(), self.together[0]];
        self.bytes = 0;
        self.since = None;
        Batch(std::mem::take(&mut self.waiting))
    }

    /// What to tell those who waited.
    pub(super) fn answer(&mut self, written: Result<(), ToolError>) -> Answer {
        self.is_failing = written.is_err();
        if written.is_ok() {
            self.lost = 0;
        }
        written.map_err(|error| self.unwritten(&error))
    }

    /// What nobody waited for and was not written goes back to the front, as far as there is room.
    pub(super) fn put_back(&mut self, Unawaited(mut kept): Unawaited) {
        if kept.is_empty() {
            return;
        }
        let surplus = (kept.len() + self.waiting.len()).saturating_sub(MOST).min(kept.len());
        self.lost += surplus as u64;
        kept.drain(..surplus);
        kept.append(&mut self.waiting);
        self.bytes = kept.iter().filter_map(|it| it.line.as_ref()).map(Line::weight).sum();
        // No `since`: the next call tries again, not a thread every few milliseconds.
        self.waiting = kept;
    }

    fn unwritten(&self, error: &ToolError) -> Unwritten {
        let earlier = match self.lost {
            0 => String::new(),
            lost => format!("; {lost} earlier calls that only looked are lost too"),
        };
        Unwritten { message: format!("{error}{earlier}"), hint: error.next_step().to_owned() }
    }
}
