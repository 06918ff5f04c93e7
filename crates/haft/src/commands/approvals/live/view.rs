//! The text and the keys of the live list, without a terminal. A decision is always about the
//! marked request, by its id: a request that comes or goes does not change which one a key is
//! about.

use haft_core::{ApprovalDecision, ApprovalState, InboxEntry, InboxListing};
use jiff::Timestamp;

use super::{
    super::{is_open, scopes_of, table},
    is_left,
};
use crate::{
    environment::Colours,
    prompt::{Conversation, summary},
    safe_text::shown_in_line,
    terminal::{Key, Tone, in_tone},
};

/// After the marked request has gone, none is marked for this long: a person who is about to press
/// a key means that one.
const PAUSE_MS: i64 = 1_000;
const KEYS: &str =
    "↑↓ choose   enter details   a approve   1-4 approve and remember   d deny   q quit";
const DETAIL_KEYS: &str =
    "↑↓ scroll   esc back   a approve   1-4 approve and remember   d deny   q quit";

pub(super) struct View {
    person: String,
    colours: Colours,
    entries: Vec<InboxEntry>,
    foreign: usize,
    /// The id of the marked request.
    marked: Option<String>,
    /// When the marked request went away.
    unmarked_ms: Option<i64>,
    page: LiveView,
    said: String,
    /// The ids of requests that were approved here and may have to run here.
    expected: Vec<String>,
}

enum LiveView {
    List,
    /// Details, from this line on.
    Details(usize),
    /// A line is being typed.
    Line(LinePurpose, String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LinePurpose {
    Deny,
    /// Save the rule with this number.
    Remember(usize),
}

/// The effect of a key.
pub(super) enum KeyAction {
    Nothing,
    Quit,
    Decide(Box<InboxEntry>, ApprovalDecision),
}

impl View {
    pub(super) fn new(person: &str, colours: Colours) -> Self {
        Self {
            person: person.to_owned(),
            colours,
            entries: Vec::new(),
            foreign: 0,
            marked: None,
            unmarked_ms: None,
            page: LiveView::List,
            said: String::new(),
            expected: Vec::new(),
        }
    }

    /// Replaces the list. The mark stays on its request; when that is gone, no request is marked
    /// for a moment.
    pub(super) fn refresh(&mut self, found: InboxListing) {
        let was_empty = self.entries.is_empty();
        self.foreign = found.foreign;
        self.entries = found.entries.into_iter().filter(is_open).collect();
        let first = self.entries.first().map(|it| it.record.request.id.clone());
        match &self.marked {
            // The person cannot have meant another one.
            None if was_empty => self.marked = first,
            Some(marked) if self.position(marked).is_none() => {
                self.marked = None;
                self.page = LiveView::List;
                if self.said.is_empty() {
                    "the marked request has been decided".clone_into(&mut self.said);
                }
            }
            _ => {}
        }
    }

    /// Marks the first request when the person has chosen none for a moment.
    fn mark_again(&mut self, now: i64) {
        if self.marked.is_some() || self.entries.is_empty() {
            self.unmarked_ms = None;
        } else if now.saturating_sub(*self.unmarked_ms.get_or_insert(now)) >= PAUSE_MS {
            self.step(1);
        }
    }

    pub(super) fn say(&mut self, words: &str) {
        self.said = shown_in_line(words).into_owned();
    }

    pub(super) fn expect_run_of(&mut self, id: &str) {
        self.expected.push(id.to_owned());
    }

    /// Returns a call that was approved here and that no other process will run.
    pub(super) fn abandoned(&mut self) -> Option<InboxEntry> {
        let expected = std::mem::take(&mut self.expected);
        let is_expected = |entry: &&InboxEntry| expected.contains(&entry.record.request.id);
        let left = self.entries.iter().find(|it| is_expected(it) && is_left(it)).cloned();
        let done = left.as_ref().map(|it| it.record.request.id.clone());
        // Another process runs the ones that are taken up.
        let is_waiting = |id: &String| {
            let entry = self.entries.iter().find(|it| it.record.request.id == *id);
            entry.is_some_and(|it| !it.record.is_claimed) && Some(id) != done.as_ref()
        };
        self.expected = expected.iter().filter(|id| is_waiting(id)).cloned().collect();
        left
    }

    fn position(&self, id: &str) -> Option<usize> {
        self.entries.iter().position(|it| it.record.request.id == id)
    }

    fn marked(&self) -> Option<&InboxEntry> {
        self.entries.get(self.position(self.marked.as_ref()?)?)
    }

    pub(super) fn press(&mut self, key: Key) -> KeyAction {
        self.said.clear();
        if let LiveView::Line(purpose, text) = &self.page {
            let (purpose, text) = (*purpose, text.clone());
            return self.type_on(purpose, text, key);
        }
        match key {
            Key::Interrupt | Key::Letter('q') => return KeyAction::Quit,
            Key::Escape => self.page = LiveView::List,
            Key::Enter => self.page = LiveView::Details(0),
            Key::Up | Key::Letter('k') => self.step(-1),
            Key::Down | Key::Letter('j') => self.step(1),
            Key::PageUp => self.step(-10),
            Key::PageDown => self.step(10),
            Key::Letter('a') => {
                return self.decide(ApprovalDecision::approve(&self.person, "approvals"));
            }
            Key::Letter('d') => self.begin_line(LinePurpose::Deny),
            Key::Letter(digit @ '1'..='4') => {
                let number = digit.to_digit(10).map_or(0, |number| number as usize);
                self.begin_remembering(number);
            }
            // Pasted text presses no keys.
            Key::Backspace | Key::Letter(_) | Key::Paste(_) => {}
        }
        KeyAction::Nothing
    }

    fn step(&mut self, steps: isize) {
        if let LiveView::Details(top) = &mut self.page {
            *top = top.saturating_add_signed(steps);
            return;
        }
        let last = self.entries.len().saturating_sub(1);
        let place = match self.marked.as_ref().and_then(|id| self.position(id)) {
            Some(place) => place.saturating_add_signed(steps).min(last),
            None => 0,
        };
        self.marked = self.entries.get(place).map(|it| it.record.request.id.clone());
    }

    fn decide(&mut self, verdict: ApprovalDecision) -> KeyAction {
        let Some(entry) = self.marked().cloned() else {
            self.say("nothing is marked: choose with ↑ and ↓");
            return KeyAction::Nothing;
        };
        let may =
            entry.record.state == ApprovalState::Pending || (verdict.approved && is_left(&entry));
        if !may {
            self.say("it has been decided");
            return KeyAction::Nothing;
        }
        KeyAction::Decide(Box::new(entry), verdict)
    }

    fn begin_line(&mut self, purpose: LinePurpose) {
        match self.marked() {
            Some(entry) if entry.record.state == ApprovalState::Pending => {
                self.page = LiveView::Line(purpose, String::new());
            }
            Some(_) => self.say("it has been decided"),
            None => self.say("nothing is marked: choose with ↑ and ↓"),
        }
    }

    fn begin_remembering(&mut self, number: usize) {
        let offered = self.marked().map_or(0, |it| it.record.request.suggestions.len());
        if number > offered && self.marked().is_some() {
            return self.say("there is nothing to remember under this number");
        }
        self.begin_line(LinePurpose::Remember(number));
    }

    fn type_on(&mut self, purpose: LinePurpose, mut text: String, key: Key) -> KeyAction {
        match key {
            Key::Letter(letter) => text.push(letter),
            Key::Paste(pasted) => text.extend(pasted.chars().filter(|letter| !letter.is_control())),
            Key::Backspace => drop(text.pop()),
            Key::Escape | Key::Interrupt => {
                self.page = LiveView::List;
                return KeyAction::Nothing;
            }
            Key::Enter => return self.end_line(purpose, &text),
            Key::Up | Key::Down | Key::PageUp | Key::PageDown => {}
        }
        self.page = LiveView::Line(purpose, text);
        KeyAction::Nothing
    }

    fn end_line(&mut self, purpose: LinePurpose, text: &str) -> KeyAction {
        let verdict = match purpose {
            LinePurpose::Deny => {
                let words = Some(text.trim().to_owned()).filter(|words| !words.is_empty());
                Some(ApprovalDecision::deny(&self.person, "approvals", words))
            }
            LinePurpose::Remember(number) => self.remembered(number, text),
        };
        match verdict {
            Some(verdict) => {
                self.page = LiveView::List;
                self.decide(verdict)
            }
            None => {
                self.say("say s, p or u, with a time if it is to lapse: p 1d");
                self.page = LiveView::Line(purpose, String::new());
                KeyAction::Nothing
            }
        }
    }

    /// Reads scope and time as the prompt does: `p`, `u 1d`.
    fn remembered(&self, number: usize, text: &str) -> Option<ApprovalDecision> {
        let request = &self.marked()?.record.request;
        let talk = Conversation::new(request, scopes_of(request), &self.person, self.colours);
        let decision = talk.remember_for(number.checked_sub(1)?, text)?;
        Some(ApprovalDecision { via: "approvals".to_owned(), ..decision })
    }

    /// The whole screen.
    pub(super) fn lines(&mut self, (width, height): (usize, usize), now: Timestamp) -> Vec<String> {
        self.mark_again(now.as_millisecond());
        let mut lines = vec![self.toned(Tone::Strong, &self.heading())];
        let foot = self.foot();
        if !matches!(self.page, LiveView::Details(_)) {
            lines.extend(self.rows(height / 3, now));
        }
        lines.push(self.toned(Tone::Faint, &"─".repeat(width.min(400))));
        let room = height.saturating_sub(lines.len() + foot.len());
        let mut body = self.body(now);
        if let LiveView::Details(top) = &mut self.page {
            *top = (*top).min(body.len().saturating_sub(room.min(body.len())));
            body.drain(..*top);
        }
        if body.len() > room {
            body.truncate(room.saturating_sub(1));
            body.push(self.toned(Tone::Faint, "  … more: enter, then ↓"));
        }
        body.resize(room, String::new());
        lines.extend(body);
        lines.extend(foot);
        lines.truncate(height);
        lines
    }

    fn heading(&self) -> String {
        let waiting =
            self.entries.iter().filter(|it| it.record.state == ApprovalState::Pending).count();
        let foreign = match self.foreign {
            0 => String::new(),
            count => format!(", {count} not made by your haft are left out"),
        };
        match waiting {
            0 => format!("haft approvals: nothing waits for a decision{foreign}"),
            1 => format!("haft approvals: 1 call waits for a decision{foreign}"),
            count => format!("haft approvals: {count} calls wait for a decision{foreign}"),
        }
    }

    fn rows(&self, most: usize, now: Timestamp) -> Vec<String> {
        let most = most.max(3);
        let marked = self.marked.as_ref().and_then(|id| self.position(id));
        let first = marked.unwrap_or_default().saturating_sub(most - 1);
        let row = |(place, entry): (usize, &InboxEntry)| {
            let mark = if Some(place) == marked { ">" } else { " " };
            let request = &entry.record.request;
            let line = format!("{mark} {}  {}", table::row(entry, now), summary(request));
            if Some(place) == marked { self.toned(Tone::Strong, &line) } else { line }
        };
        self.entries.iter().enumerate().skip(first).take(most).map(row).collect()
    }

    fn body(&self, now: Timestamp) -> Vec<String> {
        let Some(entry) = self.marked() else { return Vec::new() };
        let request = &entry.record.request;
        let talk = Conversation::new(request, scopes_of(request), &self.person, self.colours);
        let text = match self.page {
            LiveView::Details(_) => format!("{}{}", table::about(entry, now), talk.details()),
            _ => talk.brief(),
        };
        text.lines().map(str::to_owned).collect()
    }

    fn foot(&self) -> Vec<String> {
        let said = self.toned(Tone::Warning, &self.said);
        match &self.page {
            LiveView::List => vec![said, KEYS.to_owned()],
            LiveView::Details(_) => vec![said, DETAIL_KEYS.to_owned()],
            LiveView::Line(LinePurpose::Deny, text) => vec![
                said,
                "no; what should be done instead? (enter denies, esc goes back)".to_owned(),
                format!("> {}", shown_in_line(text)),
            ],
            LiveView::Line(LinePurpose::Remember(number), text) => vec![
                said,
                format!(
                    "yes, and [{number}] from now on: [s] until this session ends   [p] in this project   [u] everywhere"
                ),
                format!(
                    "with a time it lapses: p 1h, p 1d, p 30d; esc goes back > {}",
                    shown_in_line(text)
                ),
            ],
        }
    }

    fn toned(&self, tone: Tone, text: &str) -> String {
        if self.colours.are_shown(true) { in_tone(tone, text) } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests;
