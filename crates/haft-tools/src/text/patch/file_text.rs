//! The text of a file as lines with their endings.

#[derive(Clone, Copy, Debug)]
pub(super) struct FileLine<'a> {
    pub text: &'a str,
    /// `\n`, `\r\n`, or nothing for a last line without a newline.
    pub ending: &'a str,
}

#[derive(Debug)]
pub(super) struct FileText<'a> {
    pub lines: Vec<FileLine<'a>>,
    /// The most common ending.
    pub usual_ending: &'static str,
}

impl<'a> FileText<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let lines: Vec<_> = text.split_inclusive('\n').map(FileLine::new).collect();
        let with_return = lines.iter().filter(|line| line.ending == "\r\n").count();
        let plain = lines.iter().filter(|line| line.ending == "\n").count();
        Self { lines, usual_ending: if with_return > plain { "\r\n" } else { "\n" } }
    }

    /// Returns true if the text ends in a newline. An empty file counts as one that does, so that a
    /// line added to it gets a newline.
    pub(super) fn ends_in_newline(&self) -> bool {
        self.lines.last().is_none_or(|line| !line.ending.is_empty())
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn text(&self, index: usize) -> &'a str {
        self.lines.get(index).map_or("", |line| line.text)
    }
}

impl<'a> FileLine<'a> {
    fn new(line: &'a str) -> Self {
        let Some(text) = line.strip_suffix('\n') else { return Self { text: line, ending: "" } };
        match text.strip_suffix('\r') {
            Some(text) => Self { text, ending: "\r\n" },
            None => Self { text, ending: "\n" },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, usual_ending: &str, ends_in_newline: bool) {
        let file = FileText::new(text);
        let joined: String = file.lines.iter().flat_map(|line| [line.text, line.ending]).collect();
        assert_eq!(joined, text);
        assert_eq!((file.usual_ending, file.ends_in_newline()), (usual_ending, ends_in_newline));
    }

    #[test]
    fn endings_are_distinguished_and_kept() {
        check("", "\n", true);
        check("a", "\n", false);
        check("a\r\nb\r\nc\n", "\r\n", true);
        check("a\r\nb\n", "\n", true);
        check("a\rb\r", "\n", false);
    }
}
