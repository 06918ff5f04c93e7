//! Places in a text: where something is wrong with it, how its lines end and how far they are indented.

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// In bytes.
    pub(super) at: usize,
    pub(super) problem: String,
}

impl Fault {
    pub(super) fn new(at: usize, problem: impl Into<String>) -> Self {
        Self { at, problem: problem.into() }
    }

    /// The line and the column, both counted from one.
    pub(super) fn place(&self, text: &str) -> (usize, usize) {
        let before = text.get(..self.at).unwrap_or(text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        (before.matches('\n').count() + 1, line.chars().count() + 1)
    }
}

/// How the author of a text lays it out.
#[derive(Clone, Debug)]
pub(super) struct Style {
    pub(super) line_end: &'static str,
    /// What one level is indented by.
    pub(super) unit: String,
}

impl Default for Style {
    fn default() -> Self {
        Self { line_end: "\n", unit: "  ".to_owned() }
    }
}

impl Style {
    pub(super) fn of(text: &str, first_indentation: Option<&str>) -> Self {
        let unit = first_indentation.filter(|unit| !unit.is_empty()).unwrap_or("  ").to_owned();
        Self { line_end: line_end(text), unit }
    }
}

/// The line end of the first line; the others are taken to be like it.
pub(super) fn line_end(text: &str) -> &'static str {
    match text.split_once('\n') {
        Some((first, _)) if first.ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// Whether only blanks stand before this place on its line.
pub(super) fn begins_line(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    before
        .rfind('\n')
        .is_some_and(|end| before.get(end..).is_some_and(|blank| blank.trim().is_empty()))
}

/// The blanks that the line of this place begins with.
pub(super) fn indentation_at(text: &str, at: usize) -> &str {
    let begin = text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
    let line = text.get(begin..).unwrap_or_default();
    let end = line.find(|c| c != ' ' && c != '\t').unwrap_or(line.len());
    line.get(..end).unwrap_or_default()
}
