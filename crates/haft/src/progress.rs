//! The status line of a long call: its text and how often it changes. The terminal draws it.

use std::time::{Duration, Instant};

use haft_core::{CallEvent, CallEventKind, ProgressUpdate};

use crate::safe_text::shown_in_line;

/// Shorter calls show no line.
const DELAY: Duration = Duration::from_millis(300);
/// The least time between two drawings.
pub(crate) const DRAW_INTERVAL: Duration = Duration::from_millis(100);

/// The progress of a call, as its events report it.
#[derive(Default)]
pub(crate) struct CallProgress {
    running: Option<Running>,
}

struct Running {
    tool: String,
    since: Instant,
    step: Option<ProgressUpdate>,
    n_drawn: usize,
}

impl CallProgress {
    /// Handles an event. The first call that starts gives the name; calls inside it only add their
    /// steps.
    pub(crate) fn update(&mut self, event: CallEvent, now: Instant) {
        match (event.kind, &mut self.running) {
            (CallEventKind::Started { tool }, None) => {
                self.running = Some(Running { tool, since: now, step: None, n_drawn: 0 });
            }
            (CallEventKind::Progress(step), Some(running)) => running.step = Some(step),
            _ => {}
        }
    }

    /// The line to draw now, if one is due.
    pub(crate) fn line(&mut self, now: Instant) -> Option<String> {
        let running = self.running.as_mut()?;
        let elapsed = now.duration_since(running.since);
        if elapsed < DELAY {
            return None;
        }
        running.n_drawn += 1;
        let (head, message) = match &running.step {
            Some(ProgressUpdate { done, total: Some(total), message }) => {
                (bar(*done, *total), message.as_str())
            }
            Some(ProgressUpdate { message, .. }) => (spinner(running.n_drawn), message.as_str()),
            None => (spinner(running.n_drawn), ""),
        };
        let words = [head.as_str(), &running.tool, message].map(shown_in_line);
        let words = words.iter().filter(|word| !word.is_empty()).map(|word| &**word);
        Some(format!("{}  {} s", words.collect::<Vec<_>>().join("  "), elapsed.as_secs()))
    }
}

fn spinner(n_drawn: usize) -> String {
    const FRAMES: [char; 8] = ['⠋', '⠙', '⠸', '⠴', '⠦', '⠇', '⠏', '⠹'];
    FRAMES[n_drawn % FRAMES.len()].to_string()
}

fn bar(done: f64, total: f64) -> String {
    const WIDTH: usize = 20;
    let part = if total > 0.0 { (done / total).clamp(0.0, 1.0) } else { 0.0 };
    let n_full = (0..WIDTH).filter(|cell| (*cell as f64) < part * WIDTH as f64).count();
    format!("{}{} {:3.0} %", "━".repeat(n_full), "─".repeat(WIDTH - n_full), part * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: CallEventKind) -> CallEvent {
        CallEvent { call: "c".into(), session: "s".into(), kind }
    }

    #[test]
    fn a_line_comes_after_a_while_and_follows_the_steps() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut progress = CallProgress::default();
        assert_eq!(progress.line(at(0)), None);
        progress.update(event(CallEventKind::Started { tool: "index".into() }), start);
        assert_eq!(progress.line(at(299)), None);
        assert_eq!(progress.line(at(300)).as_deref(), Some("⠙  index  0 s"));
        let step = ProgressUpdate { done: 1.0, total: Some(4.0), message: "a\u{1b}[2Jb".into() };
        progress.update(event(CallEventKind::Progress(step)), at(400));
        let line = progress.line(at(2100));
        assert_eq!(line.as_deref(), Some("━━━━━───────────────  25 %  index  a␛[2Jb  2 s"));
    }

    #[test]
    fn odd_numbers_make_a_bar_all_the_same() {
        assert!(bar(5.0, 0.0).ends_with("  0 %"));
        assert!(bar(9.0, 3.0).ends_with("100 %"));
        assert!(bar(f64::NAN, 3.0).contains('%'));
    }
}
