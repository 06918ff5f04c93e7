//! Colours unified diffs in a text. Only lines that a hunk header counts are coloured, so that a list
//! with dashes stays as it is.

use super::{Tone, in_tone};

/// Lines of a hunk that are still to come.
#[derive(Clone, Copy, Default)]
struct HunkRest {
    old: usize,
    new: usize,
}

/// Returns the text with the lines of its diffs in colour.
pub(super) fn coloured(text: &str) -> String {
    let mut rest = HunkRest::default();
    let mut coloured = String::with_capacity(text.len());
    let mut is_behind_header = false;
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let (bare, end) = line.strip_suffix('\n').map_or((line, ""), |bare| (bare, "\n"));
        let is_file_header = bare.starts_with("--- ")
            && lines.peek().is_some_and(|next| next.starts_with("+++ "))
            || std::mem::take(&mut is_behind_header);
        is_behind_header = is_file_header && bare.starts_with("--- ");
        let tone = match rest {
            HunkRest { old: 0, new: 0 } => match hunk(bare) {
                Some(hunk) => {
                    rest = hunk;
                    Some(Tone::Faint)
                }
                None => is_file_header.then_some(Tone::Strong),
            },
            _ => rest.take(bare),
        };
        match tone {
            Some(tone) => coloured.push_str(&in_tone(tone, bare)),
            None => coloured.push_str(bare),
        }
        coloured.push_str(end);
    }
    coloured
}

impl HunkRest {
    fn take(&mut self, line: &str) -> Option<Tone> {
        match line.chars().next() {
            Some('+') => {
                self.new = self.new.saturating_sub(1);
                Some(Tone::Good)
            }
            Some('-') => {
                self.old = self.old.saturating_sub(1);
                Some(Tone::Bad)
            }
            Some('\\') => Some(Tone::Faint),
            _ => {
                *self = Self { old: self.old.saturating_sub(1), new: self.new.saturating_sub(1) };
                None
            }
        }
    }
}

/// Reads `@@ -5,7 +5,7 @@`; a count of 1 may be left out.
fn hunk(line: &str) -> Option<HunkRest> {
    let (ranges, _) = line.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let count = |range: &str| match range.split_once(',') {
        Some((_, count)) => count.parse().ok(),
        None => range.parse::<usize>().ok().map(|_| 1),
    };
    Some(HunkRest { old: count(old)?, new: count(new)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_diff_are_coloured_and_others_are_not() {
        let text =
            "- a list\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n- after\n+++ no";
        let lines: Vec<String> = coloured(text).lines().map(str::to_owned).collect();
        let strong = |text| in_tone(Tone::Strong, text);
        let expected = [
            "- a list".to_owned(),
            strong("--- a/f"),
            strong("+++ b/f"),
            in_tone(Tone::Faint, "@@ -1,2 +1,2 @@"),
            " same".to_owned(),
            in_tone(Tone::Bad, "-old"),
            in_tone(Tone::Good, "+new"),
            "- after".to_owned(),
            "+++ no".to_owned(),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_text_without_a_diff_stays_as_it_is() {
        for text in ["", "a\n", "@@ -x +y @@\n-a\n", "--- \n- b\n+ c"] {
            assert_eq!(coloured(text), text);
        }
    }
}
