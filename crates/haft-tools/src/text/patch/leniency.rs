//! Comparisons of lines, from exact to lenient.

use std::borrow::Cow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineComparison {
    Exact,
    TrailingSpace,
    Indentation,
    Typography,
    TypographyAndIndentation,
}

impl LineComparison {
    /// All comparisons, in the order in which they are tried.
    pub(super) const ALL: [Self; 5] = [
        Self::Exact,
        Self::TrailingSpace,
        Self::Indentation,
        Self::Typography,
        Self::TypographyAndIndentation,
    ];

    /// Returns the key of a line. Two lines match when their keys are equal.
    pub(super) fn key(self, line: &str) -> Cow<'_, str> {
        match self {
            Self::Exact => Cow::Borrowed(line),
            Self::TrailingSpace => Cow::Borrowed(line.trim_end()),
            Self::Indentation => Cow::Borrowed(line.trim()),
            Self::Typography => trimmed_end(folded(line)),
            Self::TypographyAndIndentation => trimmed(folded(line)),
        }
    }

    pub(super) fn ignores_indentation(self) -> bool {
        matches!(self, Self::Indentation | Self::TypographyAndIndentation)
    }

    /// Completes the sentence "matched only …".
    pub(super) fn description(self) -> &'static str {
        match self {
            Self::Exact => "exactly",
            Self::TrailingSpace => "without the white space at line ends",
            Self::Indentation => "without its indentation; added lines were indented like the file",
            Self::Typography => "with typographic quotes, dashes and spaces read as plain ones",
            Self::TypographyAndIndentation => {
                "without its indentation and with typographic characters read as plain ones; added lines were indented like the file"
            }
        }
    }
}

/// Replaces typographic characters by those of a keyboard. A plain line is not copied.
fn folded(line: &str) -> Cow<'_, str> {
    if line.is_ascii() {
        return Cow::Borrowed(line);
    }
    let mut plain = String::with_capacity(line.len());
    for character in line.chars() {
        match character {
            '\u{2018}'..='\u{201b}' | '\u{2032}' => plain.push('\''),
            '\u{201c}'..='\u{201f}' | '\u{2033}' => plain.push('"'),
            '\u{2010}'..='\u{2015}' | '\u{2212}' => plain.push('-'),
            '\u{2026}' => plain.push_str("..."),
            '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => {
                plain.push(' ')
            }
            '\u{200b}' | '\u{feff}' => {}
            other => plain.push(other),
        }
    }
    Cow::Owned(plain)
}

fn trimmed_end(line: Cow<'_, str>) -> Cow<'_, str> {
    match line {
        Cow::Borrowed(line) => Cow::Borrowed(line.trim_end()),
        Cow::Owned(line) => Cow::Owned(line.trim_end().to_owned()),
    }
}

fn trimmed(line: Cow<'_, str>) -> Cow<'_, str> {
    match line {
        Cow::Borrowed(line) => Cow::Borrowed(line.trim()),
        Cow::Owned(line) => Cow::Owned(line.trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(one: &str, other: &str, first: LineComparison) {
        let agree = |comparison: &LineComparison| comparison.key(one) == comparison.key(other);
        assert_eq!(LineComparison::ALL.into_iter().find(agree), Some(first));
    }

    #[test]
    fn each_difference_needs_its_comparison() {
        check("a", "a", LineComparison::Exact);
        check("a \t", "a", LineComparison::TrailingSpace);
        check("\ta", "    a ", LineComparison::Indentation);
        check(
            "say \u{201c}hi\u{201d}\u{a0}\u{2013} it\u{2019}s\u{2026}",
            "say \"hi\" - it's...",
            LineComparison::Typography,
        );
        check("  \u{2018}a\u{2019}", "'a'", LineComparison::TypographyAndIndentation);
    }
}
