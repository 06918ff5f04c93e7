//! Stage 8: the one place that cuts. The model sees head and tail; the whole is kept under an id, and the cut says
//! so. Cuts fall between lines or words, so that the next stage never meets half a secret.

use serde_json::Value;

use super::{Inner, Limits};
use crate::{Outcome, Schema};

/// How far a cut moves back to find the end of a line or word. No token that redaction knows is longer.
const LONGEST_WORD: usize = 4 << 10;

pub(super) async fn bound(gate: &Inner, outcome: &mut Outcome, data_schema: Option<&Schema>) {
    bound_attachments(&gate.limits, outcome);
    bound_data(gate, outcome, data_schema).await;
    let whole = std::mem::take(&mut outcome.content);
    if let Some(cut) = cut(&whole, &gate.limits) {
        let kept = gate.outputs.keep(whole.clone()).await;
        let note = match &kept {
            Ok(id) => format!("{}; the whole text is kept as output {id}", cut.note),
            Err(error) => format!("{}; the whole text could not be kept: {error}", cut.note),
        };
        outcome.content = format!("{}\n[{note}]\n{}", cut.head, cut.tail);
        outcome.output_id = kept.ok();
    } else {
        outcome.content = whole;
    }
    if let Some(display) = &outcome.display
        && let Some(cut) = cut(display, &gate.limits)
    {
        outcome.display = Some(format!("{}\n[{}]\n{}", cut.head, cut.note, cut.tail));
    }
}

/// Typed data that is too large is kept whole elsewhere, never sent in pieces that no longer fit its schema. What the
/// content says anyway goes first; often the rest is small.
async fn bound_data(gate: &Inner, outcome: &mut Outcome, schema: Option<&Schema>) {
    let is_large =
        |data: &Value| serde_json::to_writer(Budget(gate.limits.data_bytes), data).is_err();
    let Some(mut data) = outcome.data.take_if(|data| is_large(data)) else { return };
    let kept = gate.outputs.keep(data.to_string()).await;
    let where_it_is = match kept {
        Ok(id) => Value::String(id),
        Err(error) => Value::String(format!("not kept: {error}")),
    };
    if let Some(schema) = schema {
        schema.without_content(&mut data);
        outcome.data = Some(data).filter(|data| !is_large(data));
    }
    outcome.metadata.insert("data_output_id".to_owned(), where_it_is);
}

fn bound_attachments(limits: &Limits, outcome: &mut Outcome) {
    let mut bytes = 0;
    let mut dropped = Vec::new();
    outcome.attachments.retain(|attachment| {
        bytes += attachment.data.len();
        let fits = bytes <= limits.attachment_bytes;
        if !fits {
            bytes -= attachment.data.len();
            dropped.push(attachment.name.clone());
        }
        fits
    });
    if !dropped.is_empty() {
        let note = format!("\n[too large to attach: {}]", dropped.join(", "));
        outcome.content.push_str(&note);
    }
}

/// Counts bytes without keeping them and fails when there are too many.
struct Budget(usize);

impl std::io::Write for Budget {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.0.checked_sub(bytes.len()) {
            Some(left) => {
                self.0 = left;
                Ok(bytes.len())
            }
            None => Err(std::io::ErrorKind::FileTooLarge.into()),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct Cut<'a> {
    head: &'a str,
    tail: &'a str,
    note: String,
}

/// Two thirds of what may be shown is head, one third tail. `None` when the text is short enough.
fn cut<'a>(text: &'a str, limits: &Limits) -> Option<Cut<'a>> {
    if text.len() <= limits.content_bytes && count_lines(text) <= limits.content_lines {
        return None;
    }
    let head = head_of(text, limits.content_bytes / 3 * 2, limits.content_lines / 3 * 2);
    let (_, rest) = text.split_at(head.len());
    let tail = tail_of(rest, limits.content_bytes / 3, limits.content_lines / 3);
    let left_out = text.len() - head.len() - tail.len();
    let lines = count_lines(text);
    let note = format!("cut: {left_out} of {} bytes left out, {lines} lines in all", text.len());
    Some(Cut { head, tail, note })
}

fn count_lines(text: &str) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes()).count() + 1
}

fn head_of(text: &str, most_bytes: usize, most_lines: usize) -> &str {
    let by_lines = text.match_indices('\n').nth(most_lines.saturating_sub(1));
    let end = by_lines.map_or(text.len(), |(at, _)| at).min(most_bytes);
    let (head, rest) = text.split_at(text.floor_char_boundary(end));
    if rest.is_empty() || rest.starts_with(char::is_whitespace) {
        return head;
    }
    let near_end = head.len().saturating_sub(LONGEST_WORD);
    match head.rfind(char::is_whitespace).filter(|at| *at >= near_end) {
        Some(at) => head.split_at(at).0,
        None if head.len() <= LONGEST_WORD => "",
        None => head,
    }
}

fn tail_of(text: &str, most_bytes: usize, most_lines: usize) -> &str {
    let by_lines = text.rmatch_indices('\n').nth(most_lines.saturating_sub(1));
    let start = by_lines.map_or(0, |(at, _)| at + 1).max(text.len().saturating_sub(most_bytes));
    let (before, tail) = text.split_at(text.ceil_char_boundary(start));
    if before.is_empty() || before.ends_with(char::is_whitespace) {
        return tail;
    }
    match tail.find(char::is_whitespace).filter(|at| *at <= LONGEST_WORD) {
        Some(at) => tail.split_at(at).1.trim_start(),
        None if tail.len() <= LONGEST_WORD => "",
        None => tail,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limits(content_bytes: usize, content_lines: usize) -> Limits {
        Limits { content_bytes, content_lines, ..Limits::default() }
    }

    #[test]
    fn short_texts_stay_whole() {
        assert!(cut("a\nb\nc", &limits(5, 3)).is_none());
        assert!(cut("a\nb\nc", &limits(4, 3)).is_some());
        assert!(cut("a\nb\nc", &limits(5, 2)).is_some());
    }

    #[test]
    fn head_and_tail_are_whole_lines_when_lines_are_the_limit() {
        let text: String = (1..=100).map(|n| format!("line {n}\n")).collect();
        let cut = cut(&text, &limits(10_000, 9)).expect("too many lines");
        assert_eq!(cut.head, "line 1\nline 2\nline 3\nline 4\nline 5\nline 6");
        assert_eq!(cut.tail, "line 99\nline 100\n");
        assert!(cut.note.contains("101 lines in all"), "{}", cut.note);
    }

    proptest! {
        /// Cutting never splits a character or a word, never exceeds the limit and loses nothing from either end.
        #[test]
        fn cuts_are_clean(text in "([a-zä€😀]{1,9}[ \n]){0,80}", bytes in 30usize..300, lines in 3usize..40) {
            if let Some(cut) = cut(&text, &limits(bytes, lines)) {
                prop_assert!(cut.head.len() + cut.tail.len() <= bytes);
                prop_assert!(count_lines(cut.head) <= lines);
                prop_assert!(text.starts_with(cut.head));
                prop_assert!(text.ends_with(cut.tail));
                let words: Vec<&str> = text.split_whitespace().collect();
                for word in cut.head.split_whitespace().chain(cut.tail.split_whitespace()) {
                    prop_assert!(words.contains(&word), "{word} is half a word");
                }
            }
        }
    }
}
