//! Parses the envelope from `*** Begin Patch` to `*** End Patch`. Every line must have a meaning.

use super::{
    FilePatch, Hunk, HunkLine, PatchAction, PatchError, shown, unified, wrapping::PatchLine,
};

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const END_OF_FILE: &str = "*** End of File";

pub(super) fn is_begin(line: &str) -> bool {
    line.trim_end() == BEGIN
}

pub(super) fn parse(lines: &[PatchLine<'_>]) -> Result<Vec<FilePatch>, PatchError> {
    let mut reader = EnvelopeReader { lines: inner(lines)?, next: 0 };
    let mut files = Vec::new();
    while let Some(line) = reader.after_blank_lines() {
        files.push(section(&mut reader, line)?);
    }
    if files.is_empty() {
        return Err(PatchError::new(
            "the patch has no section between its Begin and End lines",
            "write `*** Add File: path`, `*** Update File: path` or `*** Delete File: path` and the lines that follow it",
        ));
    }
    Ok(files)
}

struct EnvelopeReader<'a, 'b> {
    lines: &'b [PatchLine<'a>],
    next: usize,
}

impl<'a> EnvelopeReader<'a, '_> {
    fn peek(&self) -> Option<PatchLine<'a>> {
        self.lines.get(self.next).copied()
    }

    fn take(&mut self) -> Option<PatchLine<'a>> {
        let line = self.peek()?;
        self.next += 1;
        Some(line)
    }

    fn after_blank_lines(&mut self) -> Option<PatchLine<'a>> {
        while self.peek().is_some_and(|line| line.is_blank()) {
            self.next += 1;
        }
        self.take()
    }
}

/// Returns the lines between Begin and End. Text outside would be lost, and without an End line the
/// patch is probably incomplete.
fn inner<'a, 'b>(lines: &'b [PatchLine<'a>]) -> Result<&'b [PatchLine<'a>], PatchError> {
    let outside = |line: &PatchLine<'_>, place: &str| {
        PatchError::new(
            format!("line {} of the patch, {}, is {place}", line.number, shown(line.text)),
            format!("send one patch that begins with `{BEGIN}` and ends with `{END}`"),
        )
    };
    let (first, rest) = lines.split_first().expect("the caller saw a Begin line");
    if !is_begin(first.text) {
        return Err(outside(first, "before the Begin line"));
    }
    let Some(end) = rest.iter().position(|line| line.trimmed() == END) else {
        return Err(PatchError::new(
            format!("the patch has no `{END}` line, it may be incomplete"),
            format!("send the whole patch again, with `{END}` as its last line"),
        ));
    };
    let (inner, after) = rest.split_at(end);
    match after.iter().skip(1).find(|line| !line.is_blank()) {
        Some(line) => Err(outside(line, "after the End line")),
        None => Ok(inner),
    }
}

fn section(
    reader: &mut EnvelopeReader<'_, '_>,
    line: PatchLine<'_>,
) -> Result<FilePatch, PatchError> {
    let Some((kind, path)) = header(&line) else {
        return Err(PatchError::new(
            format!("line {} of the patch, {}, is not in a section", line.number, shown(line.text)),
            "begin each file with `*** Add File: path`, `*** Update File: path` or `*** Delete File: path`",
        ));
    };
    if path.is_empty() || kind == SectionKind::Move {
        return Err(missing_path(&line));
    }
    let action = match kind {
        SectionKind::Add => PatchAction::Add { content: content(reader, path)? },
        SectionKind::Delete => PatchAction::Delete { hunks: Vec::new() },
        SectionKind::Update | SectionKind::Move => update(reader, path)?,
    };
    Ok(FilePatch { path: path.to_owned(), action, notes: Vec::new() })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SectionKind {
    Add,
    Delete,
    Update,
    Move,
}

fn header<'a>(line: &PatchLine<'a>) -> Option<(SectionKind, &'a str)> {
    let marker = line.text.strip_prefix("*** ")?;
    let forms = [
        ("Add File:", SectionKind::Add),
        ("Delete File:", SectionKind::Delete),
        ("Update File:", SectionKind::Update),
        ("Move to:", SectionKind::Move),
    ];
    forms.into_iter().find_map(|(words, kind)| Some((kind, marker.strip_prefix(words)?.trim())))
}

fn content(reader: &mut EnvelopeReader<'_, '_>, path: &str) -> Result<String, PatchError> {
    let mut content = String::new();
    while let Some(line) = reader.peek() {
        if header(&line).is_some() {
            break;
        }
        let Some(text) = line.text.strip_prefix('+') else {
            return Err(PatchError::new(
                format!(
                    "{path}: line {} of the patch, {}, has no `+`",
                    line.number,
                    shown(line.text)
                ),
                "begin every line of an added file with `+`, empty ones too",
            ));
        };
        content.push_str(text);
        content.push('\n');
        reader.next += 1;
    }
    Ok(content)
}

fn update(reader: &mut EnvelopeReader<'_, '_>, path: &str) -> Result<PatchAction, PatchError> {
    let move_to = move_target(reader)?;
    let mut hunks: Vec<Hunk> = Vec::new();
    while let Some(line) = reader.peek() {
        if header(&line).is_some() {
            break;
        }
        let hunk = hunk(reader, path, hunks.len() + 1)?;
        // Blank lines before the first `@@` or the next section are not a hunk.
        let is_blank = hunk.lines.len() == hunk.blank_tail && !hunk.at_end;
        if is_blank && line.is_blank() {
            continue;
        }
        hunk.check_change(path)?;
        hunks.push(hunk);
    }
    if hunks.is_empty() && move_to.is_none() {
        return Err(PatchError::new(
            format!("{path}: its Update section has no changes"),
            "add lines with `-` and `+` and some context lines with a space, or drop the section",
        ));
    }
    Ok(PatchAction::Update { move_to, hunks })
}

fn move_target(reader: &mut EnvelopeReader<'_, '_>) -> Result<Option<String>, PatchError> {
    let Some(line) = reader.peek() else { return Ok(None) };
    match header(&line) {
        Some((SectionKind::Move, "")) => Err(missing_path(&line)),
        Some((SectionKind::Move, target)) => {
            reader.next += 1;
            Ok(Some(target.to_owned()))
        }
        _ => Ok(None),
    }
}

fn missing_path(line: &PatchLine<'_>) -> PatchError {
    PatchError::new(
        format!("line {} of the patch, {}, has no file to change", line.number, shown(line.text)),
        "write the path after the colon, and `*** Move to: path` directly after its `*** Update File: path`",
    )
}

fn hunk(
    reader: &mut EnvelopeReader<'_, '_>,
    path: &str,
    number: usize,
) -> Result<Hunk, PatchError> {
    let patch_line = reader.peek().map_or(0, |line| line.number);
    let mut hunk = Hunk { number, patch_line, ..Hunk::default() };
    while let Some(line) = reader.peek().filter(|line| line.text.starts_with("@@")) {
        match unified::ranges(line.trimmed()) {
            Some(ranges) => hunk.stated_line = Some(ranges.old_line),
            None => hunk.headers.extend(unified::seek(line.text)),
        }
        reader.next += 1;
    }
    let first = reader.next;
    while let Some(line) = reader.peek() {
        if line.trimmed() == END_OF_FILE {
            hunk.at_end = true;
            reader.next += 1;
            check_closed(reader, path)?;
            break;
        }
        if line.text.starts_with("@@") || header(&line).is_some() {
            break;
        }
        hunk.lines.push(body_line(&line, path)?);
        reader.next += 1;
    }
    // Blank lines before the End-of-File marker are context; before a section they may be only
    // space.
    if !hunk.at_end {
        hunk.blank_tail =
            unified::blank_tail(reader.lines.get(first..reader.next).unwrap_or_default());
    }
    Ok(hunk)
}

fn body_line(line: &PatchLine<'_>, path: &str) -> Result<HunkLine, PatchError> {
    unified::body_line(line).ok_or_else(|| {
        PatchError::new(
            format!(
                "{path}: line {} of the patch, {}, does not begin with a space, `-`, `+`, `@@` or `***`",
                line.number,
                shown(line.text)
            ),
            "begin context lines with a space, removed lines with `-` and added lines with `+`",
        )
    })
}

/// Refuses lines after the End-of-File marker.
fn check_closed(reader: &mut EnvelopeReader<'_, '_>, path: &str) -> Result<(), PatchError> {
    while reader.peek().is_some_and(|line| line.is_blank()) {
        reader.next += 1;
    }
    match reader.peek() {
        Some(line) if header(&line).is_none() => Err(PatchError::new(
            format!(
                "{path}: line {} of the patch, {}, is after `{END_OF_FILE}`",
                line.number,
                shown(line.text)
            ),
            format!("put `{END_OF_FILE}` only after the last hunk of the file"),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::text::patch::{Hunk, PatchAction, Side, parse};

    fn envelope(body: &str) -> String {
        format!("*** Begin Patch\n{body}*** End Patch")
    }

    #[track_caller]
    fn check_error(body: &str, message: &str) {
        let error = parse(&envelope(body)).expect_err("it is wrong");
        assert!(error.message.contains(message), "{error:?}");
        assert!(!error.hint.is_empty(), "{error:?}");
    }

    /// Compares the headers and lines of each hunk of an update, with `$` for an End-of-File
    /// marker.
    #[track_caller]
    fn check(body: &str, expected: &[&str]) {
        let files = parse(&envelope(&format!("*** Update File: f\n{body}"))).expect("it parses");
        let [PatchAction::Update { hunks, .. }] =
            files.iter().map(|file| &file.action).collect::<Vec<_>>()[..]
        else {
            panic!("one update: {files:?}")
        };
        assert_eq!(hunks.iter().map(text).collect::<Vec<_>>(), expected);
    }

    fn text(hunk: &Hunk) -> String {
        let mut parts: Vec<_> = hunk.headers.iter().map(|header| format!("@{header}")).collect();
        parts.extend(hunk.stated_line.map(|line| format!("@{line}")));
        parts.extend(hunk.lines.iter().map(|line| {
            let marker = match line.side {
                Side::Kept => ' ',
                Side::Removed => '-',
                Side::Added => '+',
            };
            format!("{marker}{}", line.text)
        }));
        parts.extend(hunk.at_end.then(|| "$".to_owned()));
        parts.join("|")
    }

    #[track_caller]
    fn check_content(body: &str, expected: &str) {
        let files = parse(&envelope(&format!("*** Add File: f\n{body}"))).expect("it parses");
        assert_eq!(
            files.first().map(|file| &file.action),
            Some(&PatchAction::Add { content: expected.to_owned() })
        );
    }

    #[test]
    fn added_files_end_in_a_newline_unless_empty() {
        check_content("+a\n+\n++b\n", "a\n\n+b\n");
        check_content("", "");
    }

    #[test]
    fn an_added_line_without_plus_is_an_error_with_its_number() {
        check_error("*** Add File: f\n+a\nb\n", "f: line 4 of the patch, `b`, has no `+`");
        check_error("*** Add File: f\n+a\n\n+b\n", "line 4");
    }

    #[test]
    fn hunks_are_read_with_their_headers_and_marks() {
        check("@@ fn a\n c\n-r\n+n\n", &["@fn a| c|-r|+n"]);
        check("@@ class A\n@@   def b\n-r\n", &["@class A|@  def b|-r"]);
        check("-r\n+n\n@@\n-x\n", &["-r|+n", "-x"]);
        check("@@\n+n\n*** End of File\n", &["+n|$"]);
        check("@@ fn a @@\n+n\n", &["@fn a|+n"]);
        check("@@ -4,2 +4,3 @@ fn a\n-r\n", &["@4|-r"]);
        check("@@\n---x\n+++y\n", &["---x|+++y"]);
    }

    #[test]
    fn an_empty_line_is_an_empty_context_line() {
        check("@@\n a\n\n-b\n\n", &[" a| |-b| "]);
    }

    #[test]
    fn blank_lines_between_sections_are_ignored() {
        check("\n@@\n-b\n", &["-b"]);
        let body =
            "\n*** Delete File: a\n\n*** Update File: b\n*** Move to: c\n\n*** Delete File: d\n\n";
        assert_eq!(parse(&envelope(body)).expect("it parses").len(), 3);
    }

    #[test]
    fn an_unprefixed_line_is_an_error_with_its_number() {
        check_error(
            "*** Update File: f\n@@\n-a\nb\n+c\n",
            "f: line 5 of the patch, `b`, does not begin with",
        );
        check_error("*** Update File: f\n@@\n-a\n...\n", "line 5");
        check_error("*** Update File: f\n@@\n-a\n*** Rename: x\n", "line 5");
        check_error("*** Update File: f\n@@\n-a\n*** Move to: x\n", "line 5");
        check_error("*** Update File: f\n-a\n\u{a0}b\n", "line 4");
    }

    #[test]
    fn sections_and_hunks_that_change_nothing_are_errors() {
        check_error("*** Update File: f\n", "f: its Update section has no changes");
        check_error("*** Update File: f\n\n\n", "f: its Update section has no changes");
        check_error(
            "*** Update File: f\n@@\n a\n",
            "f: hunk 1 (line 3 of the patch) changes nothing",
        );
        check_error(
            "*** Update File: f\n-x\n@@\n-a\n+a\n",
            "f: hunk 2 (line 4 of the patch) changes nothing",
        );
        check_error("*** Update File: f\n@@ a\n", "f: hunk 1 (line 3 of the patch) has no lines");
        check_error("", "no section");
    }

    #[test]
    fn lines_outside_of_sections_and_headers_without_a_path_are_errors() {
        check_error("-a\n", "line 2 of the patch, `-a`, is not in a section");
        check_error("*** Delete File: a\n-a\n", "line 3");
        check_error("*** Delete File:\n", "has no file");
        check_error("*** Move to: a\n", "has no file");
        check_error("*** Update File: a\n*** Move to:\n", "has no file");
    }

    #[test]
    fn nothing_follows_the_end_of_a_file() {
        check_error(
            "*** Update File: f\n-a\n*** End of File\n@@\n-b\n",
            "line 5 of the patch, `@@`, is after",
        );
        check("-a\n*** End of File\n\n", &["-a|$"]);
    }

    #[test]
    fn text_around_and_a_missing_end_are_errors() {
        for (patch, message) in [
            ("hello\n*** Begin Patch\n*** End Patch", "line 1 of the patch, `hello`, is before"),
            (
                "*** Begin Patch\n*** Delete File: a\n*** End Patch\nbye",
                "line 4 of the patch, `bye`, is after",
            ),
            ("*** Begin Patch\n*** Delete File: a\n", "no `*** End Patch` line"),
        ] {
            let error = parse(patch).expect_err("it is wrong");
            assert!(error.message.contains(message), "{error:?}");
        }
    }

    #[test]
    fn wrappers_and_carriage_returns_are_tolerated() {
        let bare = parse(&envelope("*** Add File: a\n+x\n")).expect("it parses");
        for patch in [
            "\n\n```\n*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\n```\n\n",
            "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\nEOF\n",
            "*** Begin Patch\r\n*** Add File: a\r\n+x\r\n*** End Patch\r\n",
            "*** Begin Patch  \n*** Add File:   a \n+x\n*** End Patch ",
        ] {
            assert_eq!(parse(patch).expect("it parses"), bare, "{patch}");
        }
    }
}
