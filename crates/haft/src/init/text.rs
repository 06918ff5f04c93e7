//! Positions in a text: of an error, of line ends and of indentation.

/// An error in a text, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextError {
    /// Byte offset.
    pub(super) at: usize,
    pub(super) problem: String,
}

impl TextError {
    pub(super) fn new(at: usize, problem: impl Into<String>) -> Self {
        Self { at, problem: problem.into() }
    }

    /// Returns line and column, both starting at 1.
    pub(super) fn position(&self, text: &str) -> (usize, usize) {
        let before = text.get(..self.at).unwrap_or(text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        (before.matches('\n').count() + 1, line.chars().count() + 1)
    }
}

/// The layout of a text.
#[derive(Clone, Debug)]
pub(super) struct TextStyle {
    pub(super) line_end: &'static str,
    /// Indentation of one level.
    pub(super) unit: String,
}

impl Default for TextStyle {
    fn default() -> Self {
        Self { line_end: "\n", unit: "  ".to_owned() }
    }
}

impl TextStyle {
    pub(super) fn of(text: &str, first_indentation: Option<&str>) -> Self {
        let unit = first_indentation.filter(|unit| !unit.is_empty()).unwrap_or("  ").to_owned();
        Self { line_end: line_end(text), unit }
    }
}

/// Returns the line end of the first line. The others are assumed to be the same.
pub(super) fn line_end(text: &str) -> &'static str {
    match text.split_once('\n') {
        Some((first, _)) if first.ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// Returns true when only blanks precede this position on its line.
pub(super) fn begins_line(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    before
        .rfind('\n')
        .is_some_and(|end| before.get(end..).is_some_and(|blank| blank.trim().is_empty()))
}

/// Returns the indentation of the line at this position.
pub(super) fn indentation_at(text: &str, at: usize) -> &str {
    let begin = text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
    let line = text.get(begin..).unwrap_or_default();
    let end = line.find(|c| c != ' ' && c != '\t').unwrap_or(line.len());
    line.get(..end).unwrap_or_default()
}
