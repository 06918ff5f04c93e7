//! Compares blocks of lines by the structure of their indentation, and indents new lines like the
//! matched place.

use super::lines::{TextLine, is_blank, split_indent};

/// The indentation style of a file.
pub(super) struct IndentStyle {
    tabs: bool,
    /// Number of spaces per level, if the file does not use tabs.
    width: usize,
}

impl IndentStyle {
    pub(super) fn of(lines: &[TextLine<'_>]) -> Self {
        let indents =
            || lines.iter().filter(|line| !line.is_blank()).map(|line| split_indent(line.text).0);
        let tabs = indents().filter(|indent| indent.starts_with('\t')).count();
        let spaces = indents().filter(|indent| indent.starts_with(' ')).count();
        // A level is the most common increase from one line to the next; 4 when there is none.
        let mut deeper = [0_usize; 9];
        let mut above = 0;
        for indent in indents() {
            if let Some(count) = indent.len().checked_sub(above).and_then(|by| deeper.get_mut(by)) {
                *count += 1;
            }
            above = indent.len();
        }
        let (width, count) = (2..9)
            .map(|by| (by, deeper[by]))
            .max_by_key(|(by, count)| (*count, 9 - by))
            .unwrap_or((4, 0));
        Self { tabs: tabs > spaces, width: if count == 0 { 4 } else { width } }
    }
}

/// Converts the indentation of a block to that of the matched place.
pub(super) struct BlockShift<'a> {
    from: &'a str,
    to: &'a str,
    step: Option<IndentStep>,
}

/// A ratio: `from.1` characters `from.0` become `to.1` characters `to.0`.
#[derive(Clone, Copy)]
struct IndentStep {
    from: (u8, usize),
    to: (u8, usize),
}

impl<'a> BlockShift<'a> {
    /// Returns the shift from `old` to the lines of the file, whose trimmed text is equal; `None`
    /// when the structures differ. `new` and `style` give the size of a level when the old lines do
    /// not.
    pub(super) fn between(
        old: &[&'a str],
        there: &[TextLine<'a>],
        new: &[&str],
        style: &IndentStyle,
    ) -> Option<Self> {
        let indents: Vec<(&str, &str)> = old
            .iter()
            .zip(there)
            .filter(|(old, _)| !is_blank(old))
            .map(|(old, there)| (split_indent(old).0, split_indent(there.text).0))
            .collect();
        let from = common(indents.iter().map(|(old, _)| *old));
        let to = common(indents.iter().map(|(_, there)| *there));
        let deeper: Vec<(&str, &str)> =
            indents.iter().map(|(old, there)| (without(old, from), without(there, to))).collect();
        let step = if deeper.iter().all(|(old, there)| old == there) {
            IndentStep::guessed(to, old, new, style)
        } else {
            Some(IndentStep::seen(&deeper)?)
        };
        Some(Self { from, to, step })
    }

    /// Returns the lines with the indentation of the place. Blank lines are unchanged.
    pub(super) fn applied(&self, lines: &[&str]) -> String {
        let moved: Vec<String> = lines.iter().map(|line| self.line(line)).collect();
        moved.join("\n")
    }

    fn line(&self, line: &str) -> String {
        if is_blank(line) {
            return line.to_owned();
        }
        let (indent, rest) = split_indent(line);
        let shared = common([indent, self.from].into_iter());
        let deeper = without(indent, shared);
        let missing = without(self.from, shared);
        // A line that is less indented than the old ones is also less indented at the place.
        let out = self.step.map_or(missing.len(), |step| step.converted(missing).len());
        let base = self.to.get(..self.to.len().saturating_sub(out)).unwrap_or_default();
        let deeper = self.step.map_or_else(|| deeper.to_owned(), |step| step.converted(deeper));
        format!("{base}{deeper}{rest}")
    }
}

impl IndentStep {
    /// Returns the step that explains every pair of indentations.
    fn seen(pairs: &[(&str, &str)]) -> Option<Self> {
        let (old, there) =
            pairs.iter().find(|(old, there)| !old.is_empty() && !there.is_empty())?;
        let step = Self {
            from: (*old.as_bytes().first()?, old.len()),
            to: (*there.as_bytes().first()?, there.len()),
        };
        let explained = pairs.iter().all(|(old, there)| {
            let pure = old.bytes().all(|sign| sign == step.from.0)
                && there.bytes().all(|sign| sign == step.to.0);
            pure && old.len() * step.to.1 == there.len() * step.from.1
        });
        explained.then_some(step)
    }

    /// Returns the step for the file's style, if the new lines are indented with the other
    /// character.
    fn guessed(to: &str, old: &[&str], new: &[&str], style: &IndentStyle) -> Option<Self> {
        let tabs = if to.is_empty() { style.tabs } else { to.starts_with('\t') };
        let sign = if tabs { b' ' } else { b'\t' };
        let indents = || {
            old.iter().chain(new).filter(|line| !is_blank(line)).map(|line| split_indent(line).0)
        };
        let all = |wanted: u8| indents().all(|indent| indent.bytes().all(|sign| sign == wanted));
        if !all(sign) {
            return None;
        }
        let level = indents().map(str::len).fold(0, greatest_common_divisor);
        match tabs {
            true if level > 1 => Some(Self { from: (b' ', level), to: (b'\t', 1) }),
            false if level > 0 => Some(Self { from: (b'\t', 1), to: (b' ', style.width) }),
            _ => None,
        }
    }

    /// Converts an indentation to the characters of the file. A partial level is unchanged.
    fn converted(self, indent: &str) -> String {
        if !indent.bytes().all(|sign| sign == self.from.0) {
            return indent.to_owned();
        }
        let (per, gives) = (self.from.1, self.to.1);
        let count = indent.len() * gives / per;
        let used = (count * per).div_ceil(gives);
        let sign = char::from(self.to.0);
        let rest = char::from(self.from.0);
        let mut converted = String::with_capacity(count);
        converted.extend(std::iter::repeat_n(sign, count));
        converted.extend(std::iter::repeat_n(rest, indent.len() - used.min(indent.len())));
        converted
    }
}

/// Returns the longest common prefix. Indentation is ASCII, so bytes are characters.
fn common<'a>(mut indents: impl Iterator<Item = &'a str>) -> &'a str {
    let first = indents.next().unwrap_or_default();
    indents.fold(first, |shared, indent| {
        let len = shared.bytes().zip(indent.bytes()).take_while(|(a, b)| a == b).count();
        shared.get(..len).unwrap_or_default()
    })
}

fn without<'a>(indent: &'a str, start: &str) -> &'a str {
    indent.strip_prefix(start).unwrap_or_default()
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::replace::lines::lines;

    #[track_caller]
    fn check(file: &str, old: &str, new: &str, expected: Option<&str>) {
        let (there, old): (_, Vec<&str>) = (lines(file), old.split('\n').collect());
        let new: Vec<&str> = new.split('\n').collect();
        let shift = BlockShift::between(&old, &there, &new, &IndentStyle::of(&there));
        assert_eq!(shift.map(|shift| shift.applied(&new)).as_deref(), expected);
    }

    #[test]
    fn lines_are_shifted_by_the_common_difference() {
        check("    a\n      b", "a\n  b", "a\n  c\n    d", Some("    a\n      c\n        d"));
        check("a\n  b", "    a\n      b", "    x\n      y", Some("x\n  y"));
    }

    #[test]
    fn other_widths_and_characters_are_converted() {
        check("a\n    b\n        c", "a\n  b\n    c", "  x\n      y", Some("    x\n            y"));
        check(
            "\ta\n\t\tb",
            "  a\n    b",
            "  a\n    b\n      c\n     d",
            Some("\ta\n\t\tb\n\t\t\tc\n\t\t d"),
        );
        check("  a\n    b", "\ta\n\t\tb", "\ta\n\t\t\tc", Some("  a\n      c"));
    }

    #[test]
    fn a_less_indented_line_is_less_indented_at_the_place_too() {
        check("        a", "    a", "a", Some("    a"));
        check("\t\ta\n\t\t\tb", "    a\n        b", "x\n    a", Some("\tx\n\t\ta"));
        check("  a", "      a", "a", Some("a"));
    }

    #[test]
    fn another_structure_has_no_shift() {
        check("a\n  b", "a\nb", "x", None);
        check("a\nb", "a\n  b", "x", None);
        check("a\n  b\n   c", "a\n  b\n    c", "x", None);
    }
}
