//! Parses one hunk of a unified diff: its `@@` line and its body, with correct, wrong or missing
//! counts.

use super::{DiffReader, is_empty};
use crate::text::patch::{Hunk, HunkLine, PatchError, Side, wrapping::PatchLine};

/// The numbers of an `@@ -a,b +c,d @@` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::text::patch) struct HunkRanges {
    pub old_line: usize,
    pub counts: LineCounts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::text::patch) struct LineCounts {
    pub old: usize,
    pub new: usize,
}

/// Parses the numbers of an `@@` line; `None` when it has no valid ones.
pub(in crate::text::patch) fn ranges(line: &str) -> Option<HunkRanges> {
    let mut words = line.strip_prefix("@@ ")?.split_ascii_whitespace();
    let (old_line, old) = range(words.next()?.strip_prefix('-')?)?;
    let (_, new) = range(words.next()?.strip_prefix('+')?)?;
    Some(HunkRanges { old_line, counts: LineCounts { old, new } })
}

fn range(word: &str) -> Option<(usize, usize)> {
    // Some tools write the closing `@@` without a space.
    let word = word.trim_end_matches('@');
    match word.split_once(',') {
        Some((line, count)) => Some((line.parse().ok()?, count.parse().ok()?)),
        None => Some((word.parse().ok()?, 1)),
    }
}

/// Returns the line of the file that an `@@` line without numbers refers to.
pub(in crate::text::patch) fn seek(line: &str) -> Option<String> {
    let text = line.strip_prefix("@@")?.trim_end();
    let text = text.strip_prefix(' ').unwrap_or(text);
    let text = text.strip_suffix("@@").map_or(text, str::trim_end);
    // Models write `@@ ... @@` for "somewhere".
    (!text.trim().is_empty() && text.trim() != "...").then(|| text.to_owned())
}

/// Parses a context, removed or added line. A completely empty line is context that lost its space.
pub(in crate::text::patch) fn body_line(line: &PatchLine<'_>) -> Option<HunkLine> {
    let (side, text) = if is_empty(line.text) {
        (Side::Kept, line.text)
    } else {
        let (marker, text) = line.text.split_at_checked(1)?;
        let side = match marker {
            " " => Side::Kept,
            "-" => Side::Removed,
            "+" => Side::Added,
            _ => return None,
        };
        (side, text)
    };
    let bare = text.strip_suffix('\r');
    Some(HunkLine {
        side,
        text: bare.unwrap_or(text).to_owned(),
        carriage_return: bare.is_some(),
        no_newline: false,
        patch_line: line.number,
    })
}

/// Returns the number of empty lines at the end: context that lost its space, or only space.
pub(in crate::text::patch) fn blank_tail(lines: &[PatchLine<'_>]) -> usize {
    lines.iter().rev().take_while(|line| is_empty(line.text)).count()
}

pub(super) fn hunk(
    reader: &mut DiffReader<'_, '_>,
    path: &str,
    number: usize,
) -> Result<Hunk, PatchError> {
    let mut hunk =
        Hunk { number, patch_line: reader.number(), states_endings: true, ..Hunk::default() };
    let first = reader.peek().map_or("", |line| line.text);
    check_not_combined(first, path)?;
    match ranges(first) {
        Some(ranges) => {
            hunk.stated_line = Some(ranges.old_line);
            reader.next += 1;
            counted_body(reader, &mut hunk, path, ranges.counts)?;
        }
        None => {
            while let Some(line) = reader
                .at(reader.next)
                .filter(|line| line.starts_with("@@") && ranges(line).is_none())
            {
                check_not_combined(line, path)?;
                hunk.headers.extend(seek(line));
                reader.next += 1;
            }
            let end = end_by_form(reader, path, &hunk)?;
            hunk.blank_tail = blank_tail(reader.lines.get(reader.next..end).unwrap_or_default());
            take_body(reader, &mut hunk, end);
        }
    }
    hunk.check_change(path)?;
    Ok(hunk)
}

fn check_not_combined(line: &str, path: &str) -> Result<(), PatchError> {
    if !line.starts_with("@@@") {
        return Ok(());
    }
    Err(PatchError::new(
        format!("{path}: the patch is a combined diff of a merge"),
        "create it against one parent, for example with `git diff HEAD^1`",
    ))
}

fn counted_body(
    reader: &mut DiffReader<'_, '_>,
    hunk: &mut Hunk,
    path: &str,
    stated: LineCounts,
) -> Result<(), PatchError> {
    if let Some(end) = end_by_counts(reader, stated) {
        take_body(reader, hunk, end);
        return Ok(());
    }
    let end = end_by_form(reader, path, hunk)?;
    let tail = blank_tail(reader.lines.get(reader.next..end).unwrap_or_default());
    take_body(reader, hunk, end);
    // Empty lines before the next file are not counted; as context they would be the last lines.
    hunk.lines.truncate(hunk.lines.len() - tail);
    let found = counts(&hunk.lines);
    let words = format!(
        "states {} old and {} new lines but has {} and {}",
        stated.old, stated.new, found.old, found.new
    );
    // A patch that ends inside a line, with fewer lines than stated, is probably incomplete.
    let is_short = found.old < stated.old || found.new < stated.new;
    let stops = end == reader.lines.len() && reader.lines.last().is_some_and(|line| !line.ended);
    if is_short && stops {
        return Err(PatchError::new(
            format!(
                "{path}: hunk {} {words}, and the patch ends there without a line break",
                hunk.number
            ),
            "send the whole patch again, or correct the counts of the `@@` line, or write `@@` without numbers",
        ));
    }
    hunk.remark = Some(format!("hunk {} {words}; the counts were ignored", hunk.number));
    Ok(())
}

/// Returns where the body ends according to its counts; `None` when they are wrong.
fn end_by_counts(reader: &DiffReader<'_, '_>, mut left: LineCounts) -> Option<usize> {
    let mut index = reader.next;
    while left.old > 0 || left.new > 0 {
        let line = reader.at(index)?;
        let marker = if is_empty(line) { b' ' } else { *line.as_bytes().first()? };
        match marker {
            b' ' => {
                left.old = left.old.checked_sub(1)?;
                left.new = left.new.checked_sub(1)?;
            }
            b'-' => left.old = left.old.checked_sub(1)?,
            b'+' => left.new = left.new.checked_sub(1)?,
            b'\\' if index > reader.next => {}
            _ => return None,
        }
        index += 1;
    }
    while reader.at(index).is_some_and(|line| line.starts_with('\\')) {
        index += 1;
    }
    is_boundary(reader, index).then_some(index)
}

/// Returns true if the line at `index` is not part of the body.
fn is_boundary(reader: &DiffReader<'_, '_>, index: usize) -> bool {
    let index = reader.after_empty_lines(index);
    let Some(line) = reader.at(index) else { return true };
    reader.is_only_blank_from(index)
        || reader.is_file_header(index)
        || super::is_signature(line)
        || !line.starts_with([' ', '-', '+', '\\'])
}

/// Returns where the body ends according to the form of its lines; an error when that is ambiguous.
fn end_by_form(reader: &DiffReader<'_, '_>, path: &str, hunk: &Hunk) -> Result<usize, PatchError> {
    let mut index = reader.next;
    while let Some(line) = reader.lines.get(index) {
        if reader.is_name_pair(index) {
            if reader.at(index + 2).is_some_and(|line| line.starts_with("@@")) {
                break;
            }
            return Err(unclear(
                path,
                hunk,
                line,
                "may be a removed line or the name of the next file",
            ));
        }
        let is_mark = line.text.starts_with('\\') && index > reader.next;
        if !is_mark && body_line(line).is_none() {
            break;
        }
        index += 1;
    }
    match reader.lines.get(index) {
        Some(line) if !line.text.starts_with("@@") && !is_section_start(reader, index) => {
            Err(unclear(path, hunk, line, "does not begin with a space, `-` or `+`"))
        }
        _ => Ok(index),
    }
}

fn is_section_start(reader: &DiffReader<'_, '_>, index: usize) -> bool {
    let starts = ["diff ", "Index: ", "From "];
    reader.is_file_header(index)
        || reader.at(index).is_some_and(|line| starts.iter().any(|start| line.starts_with(start)))
}

fn unclear(path: &str, hunk: &Hunk, line: &PatchLine<'_>, why: &str) -> PatchError {
    PatchError::new(
        format!(
            "{path}: hunk {} (line {} of the patch) does not end by its counts, and line {}, {}, {why}",
            hunk.number,
            hunk.patch_line,
            line.number,
            crate::text::patch::shown(line.text)
        ),
        "correct the counts of the `@@` line and the first character of each line of the hunk",
    )
}

fn take_body(reader: &mut DiffReader<'_, '_>, hunk: &mut Hunk, end: usize) {
    for line in reader.lines.get(reader.next..end).unwrap_or_default() {
        if let Some(line) = body_line(line) {
            hunk.lines.push(line);
        } else if let Some(last) = hunk.lines.last_mut() {
            // Without a newline the line has no ending, so the `\r` is part of its text.
            last.no_newline = true;
            if std::mem::take(&mut last.carriage_return) {
                last.text.push('\r');
            }
        }
    }
    reader.next = end;
}

fn counts(lines: &[HunkLine]) -> LineCounts {
    LineCounts {
        old: lines.iter().filter(|line| line.is_old()).count(),
        new: lines.iter().filter(|line| line.is_new()).count(),
    }
}
