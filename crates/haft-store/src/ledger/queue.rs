//! Entries on their way to the store, in the order in which their calls ended.

use std::time::Instant;

use haft_core::ToolError;
use tokio::sync::oneshot;

use super::chain::Line;

/// So many looks may be on their way at most; then they wait for their commit like the others.
const MOST: usize = 4_096;
const MOST_BYTES: usize = 4 << 20;

/// What became of an entry.
pub(super) type Answer = Result<(), Unwritten>;

/// Why nothing was written, for everybody who waited for it.
#[derive(Clone, Debug)]
pub(super) struct Unwritten {
    message: String,
    hint: String,
}

impl Unwritten {
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
    /// How many waited for what was written last.
    together: usize,
}

struct Waiting {
    line: Line,
    answer: Option<oneshot::Sender<Answer>>,
}

/// What is written together.
pub(super) struct Batch(Vec<Waiting>);

impl Batch {
    pub(super) fn lines(&self) -> impl Iterator<Item = &Line> + Send {
        self.0.iter().map(|waiting| &waiting.line)
    }
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn push(&mut self, line: Line, answer: oneshot::Sender<Answer>) {
        self.bytes += line.weight();
        self.waiting.push(Waiting { line, answer: Some(answer) });
    }

    /// Gives the line back when there is no room, or no use in waiting.
    pub(super) fn defer(&mut self, line: Line) -> Option<Line> {
        let is_full = self.waiting.len() >= MOST || self.bytes + line.weight() > MOST_BYTES;
        if is_full || self.is_failing {
            return Some(line);
        }
        self.bytes += line.weight();
        self.waiting.push(Waiting { line, answer: None });
        self.since.get_or_insert_with(Instant::now);
        None
    }

    fn awaited(&self) -> usize {
        self.waiting.iter().filter(|waiting| waiting.answer.is_some()).count()
    }

    /// Whether more wait for their commit by all experience: who was answered at the same time comes again at about the same.
    pub(super) fn expects_more(&self) -> bool {
        self.together > 1 && self.awaited() < self.together
    }

    pub(super) fn take(&mut self) -> Batch {
        self.together = self.awaited();
        self.bytes = 0;
        self.since = None;
        Batch(std::mem::take(&mut self.waiting))
    }

    /// Tells everybody. What nobody waited for and was not written goes back to the front, as far as there is room.
    pub(super) fn settle(&mut self, batch: Batch, written: Result<(), ToolError>) -> Answer {
        self.is_failing = written.is_err();
        let answer = written.map_err(|error| self.unwritten(&error));
        if answer.is_ok() {
            self.lost = 0;
        }
        let mut kept = Vec::new();
        for waiting in batch.0 {
            match waiting.answer {
                // Whoever does not listen any more has gone.
                Some(sender) => drop(sender.send(answer.clone())),
                None if answer.is_err() => kept.push(waiting),
                None => {}
            }
        }
        self.put_back(kept);
        answer
    }

    fn put_back(&mut self, mut kept: Vec<Waiting>) {
        let surplus = (kept.len() + self.waiting.len()).saturating_sub(MOST).min(kept.len());
        self.lost += surplus as u64;
        kept.drain(..surplus);
        kept.append(&mut self.waiting);
        self.bytes = kept.iter().map(|waiting| waiting.line.weight()).sum();
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
