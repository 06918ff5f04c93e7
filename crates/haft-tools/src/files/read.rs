//! `read`: lines of a file, entries of a directory, an image or a document.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_core::{
    Access, Attachment, Cancel, ErrorKind, Output, ReadFiles, ToolError, block_in_place,
    files::{DirectoryEntry, Listing, MAX_HASHED_BYTES, OpenFile, Opened, Version},
    spawn_blocking,
};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::media::{self, Media};
use crate::text::{
    count,
    encoding::{Form, SAMPLE, Text},
    window::{self, LINE_CHARS, Wanted, Window},
};

const MOST_LINES: usize = 2_000;
/// What the gate lets through, less the words around the lines, the path not counted.
const MOST_BYTES: usize = (50 << 10) - 500;

/// What to read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "path": "src/main.rs", "offset": 10, "limit": 20 }))]
pub struct Read {
    /// A file or directory, relative to the workspace.
    #[schemars(extend("x-aliases" = ["file_path", "filePath", "filename", "file"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub path: PathBuf,
    /// The first line to show, counted from 1.
    #[serde(default = "first")]
    #[schemars(range(min = 1), extend("x-aliases" = ["start_line", "startLine", "line"]))]
    pub offset: u64,
    /// The most lines to show.
    #[serde(default = "most_lines")]
    #[schemars(range(min = 1, max = MOST_LINES), extend("x-aliases" = ["max_lines", "maxLines", "num_lines"]))]
    #[schemars(extend("x-short" = "n"))]
    pub limit: usize,
    /// Only the text: no line numbers and no closing line about the file.
    #[serde(default)]
    pub plain: bool,
}

fn first() -> u64 {
    1
}

fn most_lines() -> usize {
    MOST_LINES
}

/// What was read. The text itself is the content of the answer.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct FileText {
    /// The file, relative to the workspace, links resolved.
    pub path: String,
    /// What it is.
    pub kind: Kind,
    /// The tag of this state of the file, for `expected_version`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// In bytes.
    pub size: u64,
    /// The first line shown; 0 when none is.
    pub first_line: u64,
    /// How many lines or entries are shown.
    pub lines: usize,
    /// How many there are, when that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_lines: Option<u64>,
    /// The offset to go on with; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// How the text is written, when it is not plain UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// How many of the lines shown were cut.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut_lines: usize,
    /// How many entries of a directory are not shown because rules or secrecy close them.
    #[serde(skip_serializing_if = "is_zero")]
    pub closed: usize,
    #[serde(skip)]
    body: String,
    /// The text was asked for as it is.
    #[serde(skip)]
    is_plain: bool,
    #[serde(skip)]
    attachments: Vec<Attachment>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// What a path turned out to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    #[default]
    Text,
    Directory,
    Image,
    Pdf,
}

impl Output for FileText {
    fn text(&self) -> String {
        self.told_after(self.body.clone())
    }

    fn title(&self) -> Option<String> {
        Some(format!("Read {}", self.path))
    }

    fn attachments(&self) -> Vec<Attachment> {
        self.attachments.clone()
    }

    fn take_text(&mut self) -> String {
        let body = std::mem::take(&mut self.body);
        self.told_after(body)
    }

    fn take_attachments(&mut self) -> Vec<Attachment> {
        std::mem::take(&mut self.attachments)
    }
}

impl FileText {
    /// What was read, and a line about the file.
    fn told_after(&self, mut body: String) -> String {
        if self.is_plain {
            return body;
        }
        body.push_str(if body.is_empty() { "[" } else { "\n[" });
        body.push_str(&self.footer());
        body.push(']');
        body
    }

    fn footer(&self) -> String {
        let Self { path, size, first_line, lines, .. } = self;
        let mut words = match (self.kind, self.total_lines) {
            (Kind::Image, _) => return format!("{path}: an image, {size} bytes, attached"),
            (Kind::Pdf, None) => {
                let what = "a PDF document without readable text";
                return format!("{path}: {what}, {size} bytes, attached");
            }
            (_, Some(0)) if self.closed > 0 => format!("{path} has nothing to show"),
            (_, Some(0)) => format!("{path} is empty"),
            (kind, total) => {
                let last = (first_line + *lines as u64).saturating_sub(1);
                let what = if kind == Kind::Directory { "entries" } else { "lines" };
                let of = total.map(|total| format!(" of {total}")).unwrap_or_default();
                format!("{path}: {what} {first_line}-{last}{of}")
            }
        };
        if let Some(next) = self.next_offset {
            words += &format!("; go on with offset={next}");
        }
        if self.cut_lines > 0 {
            let cut = count(self.cut_lines, "line");
            words += &format!("; {cut} longer than {LINE_CHARS} characters cut");
        }
        if self.closed > 0 {
            words += &format!("; {} more closed to you", self.closed);
        }
        if let Some(encoding) = &self.encoding {
            words += &format!("; written in {encoding}");
        }
        if let Some(version) = &self.version {
            words += &format!("; version {version}");
        }
        words
    }

    fn fill(&mut self, first: u64, window: &Window<'_>) {
        self.lines = window.count();
        self.first_line = if window.count() == 0 { 0 } else { first };
        self.total_lines = window.total;
        self.cut_lines = window.cut;
        let next = first + window.count() as u64;
        self.next_offset = window.has_more.then_some(next);
        if self.is_plain {
            window.joined().clone_into(&mut self.body);
            return;
        }
        self.body = numbered(first, window, self.path.len() + MOST_OF_FOOTER);
    }
}

/// What the line about the file takes besides the path, unless there is much to say.
const MOST_OF_FOOTER: usize = 100;

/// Every line after its number and a tab, with so much room behind. By hand, because formatting each number would be half
/// the time of a small read.
fn numbered(first: u64, window: &Window<'_>, room: usize) -> String {
    const UNITS: &str = "0\t1\t2\t3\t4\t5\t6\t7\t8\t9\t";
    let last = (first + window.count() as u64).saturating_sub(1);
    let width = n_digits(last);
    let length = window.joined().len() + window.count() * (width + 2);
    let mut body = String::with_capacity(length + room);
    // A newline and the number without its last digit, right-aligned: the same for ten lines.
    let mut tens = String::new();
    for (number, line) in (first..).zip(window.lines()) {
        let unit = (number % 10) as usize;
        if unit == 0 || tens.is_empty() {
            tens.clear();
            tens.push('\n');
            let n_digits = if number < 10 { 0 } else { n_digits(number / 10) };
            tens.extend(std::iter::repeat_n(' ', width - 1 - n_digits));
            if number >= 10 {
                put_number(&mut tens, number / 10);
            }
        }
        let is_first = body.is_empty();
        body.push_str(tens.get(usize::from(is_first)..).unwrap_or_default());
        body.push_str(UNITS.get(2 * unit..2 * unit + 2).unwrap_or_default());
        body.push_str(line);
    }
    body
}

fn put_number(words: &mut String, number: u64) {
    if number >= 10 {
        put_number(words, number / 10);
    }
    words.push(char::from(b'0' + (number % 10) as u8));
}

fn n_digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |tens| tens as usize + 1)
}

/// Reads a file or directory.
#[tool(
    idempotent,
    deadline = "60s",
    access = |input| vec![Access::Read(input.path.clone())],
    variables(most_lines = MOST_LINES, line_chars = LINE_CHARS),
    profiles(mcp, researcher, reviewer)
)]
pub async fn read(input: Read, files: ReadFiles, cancel: Cancel) -> Result<FileText, ToolError> {
    let file = match files.open(&input.path)? {
        Opened::File(file) => file,
        Opened::Directory(path) => {
            return list(&files.entries(&input.path)?, wanted(&input, &path));
        }
    };
    let wanted = wanted(&input, &file.metadata().path);
    let mut head = vec![0; SAMPLE.min(usize::try_from(file.metadata().size).unwrap_or(SAMPLE))];
    let filled = brief_read(&*file, &mut head)?;
    head.truncate(filled);
    if let Some(media) = Media::sniff(&head) {
        return spawn_blocking(move || look(&*file, media, wanted, &cancel)).await;
    }
    if file.metadata().size == head.len() as u64 {
        return read_text(&*file, &head, wanted);
    }
    if file.metadata().size <= MAX_HASHED_BYTES {
        return block_in_place(|| read_small(&*file, wanted));
    }
    spawn_blocking(move || read_large(&file, &head, wanted, &files, &cancel)).await
}

fn wanted(input: &Read, path: &Path) -> Wanted {
    let last = input.offset.saturating_add(input.limit as u64);
    Wanted {
        first: input.offset,
        lines: input.limit,
        bytes: MOST_BYTES.saturating_sub(path.as_os_str().len()),
        // Its number, the tab and the newline.
        margin: n_digits(last) + 2,
        is_plain: input.plain,
    }
}

fn brief_read(file: &dyn OpenFile, buffer: &mut [u8]) -> Result<usize, ToolError> {
    let mut filled = 0;
    while filled < buffer.len() {
        let read = file.read_at(&mut buffer[filled..], filled as u64)?;
        if read == 0 {
            break;
        }
        filled += read;
    }
    Ok(filled)
}

fn read_small(file: &dyn OpenFile, wanted: Wanted) -> Result<FileText, ToolError> {
    read_text(file, &file.read_whole()?, wanted)
}

/// The whole file is here.
fn read_text(file: &dyn OpenFile, bytes: &[u8], wanted: Wanted) -> Result<FileText, ToolError> {
    let decoded;
    let (text, form) = match Text::plain(bytes) {
        Some(text) => (text, Form::UTF_8),
        None => {
            let Some(text) = Text::decode(bytes) else { return Err(binary(file, bytes)) };
            decoded = text;
            (&*decoded.text, decoded.form)
        }
    };
    let mut answer = about(file, form, wanted);
    answer.version = Some(Version::of_content(bytes).as_str().to_owned());
    let found = window::of_text(text, wanted);
    check_offset(file, wanted.first, &found)?;
    answer.fill(wanted.first, &found);
    Ok(answer)
}

fn read_large(
    file: &Arc<dyn OpenFile>,
    head: &[u8],
    wanted: Wanted,
    files: &ReadFiles,
    cancel: &Cancel,
) -> Result<FileText, ToolError> {
    let Some(form) = Form::sniff(head, false) else { return Err(binary(&**file, head)) };
    if !form.has_byte_lines() {
        return read_small(&**file, wanted);
    }
    let stop = || cancel.is_cancelled();
    let found = window::of_file(&**file, form, wanted, files.line_indexes(), &stop)?;
    check_offset(&**file, wanted.first, &found)?;
    let mut answer = about(&**file, form, wanted);
    answer.version = Some(Version::of_state(file.metadata()).to_string());
    answer.fill(wanted.first, &found);
    Ok(answer)
}

fn about(file: &dyn OpenFile, form: Form, wanted: Wanted) -> FileText {
    FileText {
        is_plain: wanted.is_plain,
        path: file.metadata().path.to_string_lossy().into_owned(),
        size: file.metadata().size,
        encoding: (!form.is_plain_utf8()).then(|| form.name()),
        ..FileText::default()
    }
}

fn check_offset(file: &dyn OpenFile, first: u64, found: &Window<'_>) -> Result<(), ToolError> {
    let total = found.total.unwrap_or(u64::MAX);
    if first <= total || first == 1 {
        return Ok(());
    }
    let path = file.metadata().path.display();
    Err(ToolError::input(format!(
        "offset: {first} is behind the end of `{path}`, which has {total} lines"
    ))
    .hint(format!("use an offset from 1 to {}", total.max(1))))
}

fn binary(file: &dyn OpenFile, head: &[u8]) -> ToolError {
    let (path, size) = (file.metadata().path.display(), file.metadata().size);
    let mime = media::mime(head, false);
    let message = format!("`{path}` is a binary file ({mime}, {size} bytes)");
    ToolError::new(ErrorKind::Unsupported, message)
        .hint("read shows text, images and PDF; use a program that knows the format")
}

fn look(
    file: &dyn OpenFile,
    media: Media,
    wanted: Wanted,
    cancel: &Cancel,
) -> Result<FileText, ToolError> {
    let bytes = media.bytes(file)?;
    let mut answer = about(file, Form::UTF_8, wanted);
    answer.version = Some(Version::of_content(&bytes).to_string());
    match media {
        Media::Image(mime) => {
            answer.kind = Kind::Image;
            let size = media::dimensions(&bytes).map_or(String::new(), |size| format!(", {size}"));
            answer.body = format!("{mime}{size}");
        }
        Media::Pdf => {
            answer.kind = Kind::Pdf;
            if let Some(text) = media::pdf_text(&bytes, &|| cancel.is_cancelled()) {
                let found = window::of_text(&text, wanted);
                check_offset(file, wanted.first, &found)?;
                answer.fill(wanted.first, &found);
            }
        }
    }
    answer.attachments.push(media.attach(file, &bytes));
    Ok(answer)
}

fn list(listing: &Listing, wanted: Wanted) -> Result<FileText, ToolError> {
    let skipped = usize::try_from(wanted.first - 1).unwrap_or(usize::MAX);
    let total = listing.entries.len();
    let path = listing.path.display().to_string();
    if skipped >= total && skipped > 0 {
        return Err(ToolError::input(format!("offset: `{path}` has only {total} entries"))
            .hint(format!("use an offset from 1 to {}", total.max(1))));
    }
    let mut room = wanted.bytes;
    let mut fits = |line: &String| {
        let left = room.checked_sub(line.len() + 1);
        room = left.unwrap_or(0);
        left.is_some()
    };
    let entries = listing.entries.iter().skip(skipped).take(wanted.lines);
    let shown: Vec<String> = entries.map(entry_line).take_while(|line| fits(line)).collect();
    let next = wanted.first + shown.len() as u64;
    Ok(FileText {
        path,
        kind: Kind::Directory,
        first_line: if shown.is_empty() { 0 } else { wanted.first },
        lines: shown.len(),
        total_lines: Some(total as u64),
        next_offset: (skipped + shown.len() < total).then_some(next),
        closed: listing.closed,
        body: shown.join("\n"),
        is_plain: wanted.is_plain,
        ..FileText::default()
    })
}

/// A name on one line, whatever it is made of.
fn entry_line(entry: &DirectoryEntry) -> String {
    let mut line = String::new();
    for character in entry.name.chars() {
        match character.is_control() {
            true => line.extend(character.escape_default()),
            false => line.push(character),
        }
    }
    line + if entry.is_directory { "/" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_as_formatting_would() {
        let text: String = (0..130).map(|line| format!("{}é\n", "x".repeat(line % 7))).collect();
        let wanted = Wanted { first: 1, lines: 1_000, bytes: 50_000, margin: 0, is_plain: false };
        let window = window::of_text(&text, wanted);
        for first in [1, 2, 9, 10, 11, 95, 870, 871, 9_990, 123_456_789, u64::MAX - 200] {
            let width = (first + 129).to_string().len();
            let numbers = (first..).zip(text.lines());
            let lines: Vec<String> =
                numbers.map(|(number, line)| format!("{number:width$}\t{line}")).collect();
            assert_eq!(numbered(first, &window, 0), lines.join("\n"));
        }
    }
}
