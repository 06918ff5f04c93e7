//! `read`: shows lines of a file, entries of a directory, an image or a document.

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
    encoding::{SAMPLE, Text, TextEncoding},
    window::{self, LINE_CHARS, LineWindow, WindowRequest},
};

const MAX_LINES: usize = 2_000;
/// The limit of the gate, less the text around the lines. The path is subtracted later.
const MAX_BYTES: usize = (50 << 10) - 500;

/// The file, and the part to show.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "path": "src/main.rs", "offset": 10, "limit": 20 }))]
pub struct ReadInput {
    /// A file or directory, relative to the workspace.
    #[schemars(extend("x-aliases" = ["file_path", "filePath", "filename", "file"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub path: PathBuf,
    /// The first line to show, counted from 1.
    #[serde(default = "first")]
    #[schemars(range(min = 1), extend("x-aliases" = ["start_line", "startLine", "line"]))]
    pub offset: u64,
    /// Maximum number of lines to show.
    #[serde(default = "max_lines")]
    #[schemars(range(min = 1, max = MAX_LINES), extend("x-aliases" = ["max_lines", "maxLines", "num_lines"]))]
    #[schemars(extend("x-short" = "n"))]
    pub limit: usize,
    /// Return only the text, without line numbers and the last line about the file.
    #[serde(default)]
    pub plain: bool,
}

fn first() -> u64 {
    1
}

fn max_lines() -> usize {
    MAX_LINES
}

/// Facts about the file. The text itself is the content of the result.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct ReadResult {
    /// The file, relative to the workspace, links resolved.
    pub path: String,
    /// ReadKind of the content.
    pub kind: ReadKind,
    /// Version tag of the file, for `expected_version`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Size in bytes.
    pub size: u64,
    /// The first line shown; 0 when no line is shown.
    pub first_line: u64,
    /// Number of lines or entries shown.
    pub lines: usize,
    /// Number of all lines or entries, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_lines: Option<u64>,
    /// The offset to continue with; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// Encoding of the text, when it is not plain UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// Number of shown lines that were truncated.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut_lines: usize,
    /// Number of directory entries hidden by rules or secret paths.
    #[serde(skip_serializing_if = "is_zero")]
    pub closed: usize,
    #[serde(skip)]
    body: String,
    /// True if the caller asked for the text only.
    #[serde(skip)]
    is_plain: bool,
    #[serde(skip)]
    attachments: Vec<Attachment>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires the reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// ReadKind of the content at a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReadKind {
    #[default]
    Text,
    Directory,
    Image,
    Pdf,
}

impl Output for ReadResult {
    fn text(&self) -> String {
        self.with_footer(self.body.clone())
    }

    fn title(&self) -> Option<String> {
        Some(format!("Read {}", self.path))
    }

    fn attachments(&self) -> Vec<Attachment> {
        self.attachments.clone()
    }

    fn take_text(&mut self) -> String {
        let body = std::mem::take(&mut self.body);
        self.with_footer(body)
    }

    fn take_attachments(&mut self) -> Vec<Attachment> {
        std::mem::take(&mut self.attachments)
    }
}

impl ReadResult {
    /// Appends the last line, which describes the file.
    fn with_footer(&self, mut body: String) -> String {
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
            (ReadKind::Image, _) => return format!("{path}: an image, {size} bytes, attached"),
            (ReadKind::Pdf, None) => {
                let what = "a PDF document without readable text";
                return format!("{path}: {what}, {size} bytes, attached");
            }
            (_, Some(0)) if self.closed > 0 => format!("{path} has no entries to show"),
            (_, Some(0)) => format!("{path} is empty"),
            (kind, total) => {
                let last = (first_line + *lines as u64).saturating_sub(1);
                let what = if kind == ReadKind::Directory { "entries" } else { "lines" };
                let of = total.map(|total| format!(" of {total}")).unwrap_or_default();
                format!("{path}: {what} {first_line}-{last}{of}")
            }
        };
        if let Some(next) = self.next_offset {
            words += &format!("; continue with offset={next}");
        }
        if self.cut_lines > 0 {
            let cut = count(self.cut_lines, "line");
            words += &format!("; {cut} longer than {LINE_CHARS} characters truncated");
        }
        if self.closed > 0 {
            words += &format!("; {} more hidden by rules or secret paths", self.closed);
        }
        if let Some(encoding) = &self.encoding {
            words += &format!("; encoding {encoding}");
        }
        if let Some(version) = &self.version {
            words += &format!("; version {version}");
        }
        words
    }

    fn fill(&mut self, first: u64, window: &LineWindow<'_>) {
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
        self.body = numbered(first, window, self.path.len() + FOOTER_BYTES);
    }
}

/// Usual length of the last line without the path.
const FOOTER_BYTES: usize = 100;

/// Returns every line after its number and a tab, with `room` bytes reserved at the end. The
/// numbers are formatted by hand: `format!` would take half the time of a small read.
fn numbered(first: u64, window: &LineWindow<'_>, room: usize) -> String {
    const UNITS: &str = "0\t1\t2\t3\t4\t5\t6\t7\t8\t9\t";
    let last = (first + window.count() as u64).saturating_sub(1);
    let width = n_digits(last);
    let length = window.joined().len() + window.count() * (width + 2);
    let mut body = String::with_capacity(length + room);
    // A newline and the number without its last digit, right-aligned: reused for ten lines.
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
    variables(max_lines = MAX_LINES, line_chars = LINE_CHARS),
    profiles(mcp, researcher, reviewer)
)]
pub async fn read(
    input: ReadInput,
    files: ReadFiles,
    cancel: Cancel,
) -> Result<ReadResult, ToolError> {
    let file = match files.open(&input.path)? {
        Opened::File(file) => file,
        Opened::Directory(path) => {
            return list(&files.entries(&input.path)?, window_request(&input, &path));
        }
    };
    let request = window_request(&input, &file.metadata().path);
    let mut head = vec![0; SAMPLE.min(usize::try_from(file.metadata().size).unwrap_or(SAMPLE))];
    let filled = read_start(&*file, &mut head)?;
    head.truncate(filled);
    if let Some(media) = Media::sniff(&head) {
        return spawn_blocking(move || read_media(&*file, media, request, &cancel)).await;
    }
    if file.metadata().size == head.len() as u64 {
        return read_text(&*file, &head, request);
    }
    if file.metadata().size <= MAX_HASHED_BYTES {
        return block_in_place(|| read_small(&*file, request));
    }
    spawn_blocking(move || read_large(&file, &head, request, &files, &cancel)).await
}

fn window_request(input: &ReadInput, path: &Path) -> WindowRequest {
    let last = input.offset.saturating_add(input.limit as u64);
    WindowRequest {
        first: input.offset,
        lines: input.limit,
        bytes: MAX_BYTES.saturating_sub(path.as_os_str().len()),
        // The line number, the tab and the newline.
        margin: n_digits(last) + 2,
        is_plain: input.plain,
    }
}

fn read_start(file: &dyn OpenFile, buffer: &mut [u8]) -> Result<usize, ToolError> {
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

fn read_small(file: &dyn OpenFile, request: WindowRequest) -> Result<ReadResult, ToolError> {
    read_text(file, &file.read_whole()?, request)
}

/// Shows lines of a file whose bytes are all in memory.
fn read_text(
    file: &dyn OpenFile,
    bytes: &[u8],
    request: WindowRequest,
) -> Result<ReadResult, ToolError> {
    let decoded;
    let (text, form) = match Text::plain(bytes) {
        Some(text) => (text, TextEncoding::UTF_8),
        None => {
            let Some(text) = Text::decode(bytes) else { return Err(binary(file, bytes)) };
            decoded = text;
            (&*decoded.text, decoded.form)
        }
    };
    let mut answer = about(file, form, request);
    answer.version = Some(Version::of_content(bytes).as_str().to_owned());
    let window = window::of_text(text, request);
    check_offset(file, request.first, &window)?;
    answer.fill(request.first, &window);
    Ok(answer)
}

fn read_large(
    file: &Arc<dyn OpenFile>,
    head: &[u8],
    request: WindowRequest,
    files: &ReadFiles,
    cancel: &Cancel,
) -> Result<ReadResult, ToolError> {
    let Some(form) = TextEncoding::sniff(head, false) else { return Err(binary(&**file, head)) };
    if !form.has_byte_lines() {
        return read_small(&**file, request);
    }
    let stop = || cancel.is_cancelled();
    let window = window::of_file(&**file, form, request, files.line_indexes(), &stop)?;
    check_offset(&**file, request.first, &window)?;
    let mut answer = about(&**file, form, request);
    answer.version = Some(Version::of_state(file.metadata()).to_string());
    answer.fill(request.first, &window);
    Ok(answer)
}

fn about(file: &dyn OpenFile, form: TextEncoding, request: WindowRequest) -> ReadResult {
    ReadResult {
        is_plain: request.is_plain,
        path: file.metadata().path.to_string_lossy().into_owned(),
        size: file.metadata().size,
        encoding: (!form.is_plain_utf8()).then(|| form.name()),
        ..ReadResult::default()
    }
}

fn check_offset(file: &dyn OpenFile, first: u64, window: &LineWindow<'_>) -> Result<(), ToolError> {
    let total = window.total.unwrap_or(u64::MAX);
    if first <= total || first == 1 {
        return Ok(());
    }
    let path = file.metadata().path.display();
    Err(ToolError::input(format!(
        "offset: {first} is beyond the end of `{path}`, which has {total} lines"
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

fn read_media(
    file: &dyn OpenFile,
    media: Media,
    request: WindowRequest,
    cancel: &Cancel,
) -> Result<ReadResult, ToolError> {
    let bytes = media.bytes(file)?;
    let mut answer = about(file, TextEncoding::UTF_8, request);
    answer.version = Some(Version::of_content(&bytes).to_string());
    match media {
        Media::Image(mime) => {
            answer.kind = ReadKind::Image;
            let size = media::dimensions(&bytes).map_or(String::new(), |size| format!(", {size}"));
            answer.body = format!("{mime}{size}");
        }
        Media::Pdf => {
            answer.kind = ReadKind::Pdf;
            if let Some(text) = media::pdf_text(&bytes, &|| cancel.is_cancelled()) {
                let window = window::of_text(&text, request);
                check_offset(file, request.first, &window)?;
                answer.fill(request.first, &window);
            }
        }
    }
    answer.attachments.push(media.attach(file, &bytes));
    Ok(answer)
}

fn list(listing: &Listing, request: WindowRequest) -> Result<ReadResult, ToolError> {
    let skipped = usize::try_from(request.first - 1).unwrap_or(usize::MAX);
    let total = listing.entries.len();
    let path = listing.path.display().to_string();
    if skipped >= total && skipped > 0 {
        return Err(ToolError::input(format!("offset: `{path}` has only {total} entries"))
            .hint(format!("use an offset from 1 to {}", total.max(1))));
    }
    let mut room = request.bytes;
    let mut fits = |line: &String| {
        let left = room.checked_sub(line.len() + 1);
        room = left.unwrap_or(0);
        left.is_some()
    };
    let entries = listing.entries.iter().skip(skipped).take(request.lines);
    let shown: Vec<String> = entries.map(entry_line).take_while(|line| fits(line)).collect();
    let next = request.first + shown.len() as u64;
    Ok(ReadResult {
        path,
        kind: ReadKind::Directory,
        first_line: if shown.is_empty() { 0 } else { request.first },
        lines: shown.len(),
        total_lines: Some(total as u64),
        next_offset: (skipped + shown.len() < total).then_some(next),
        closed: listing.closed,
        body: shown.join("\n"),
        is_plain: request.is_plain,
        ..ReadResult::default()
    })
}

/// Formats a name on one line; control characters are escaped.
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
        let request =
            WindowRequest { first: 1, lines: 1_000, bytes: 50_000, margin: 0, is_plain: false };
        let window = window::of_text(&text, request);
        for first in [1, 2, 9, 10, 11, 95, 870, 871, 9_990, 123_456_789, u64::MAX - 200] {
            let width = (first + 129).to_string().len();
            let numbers = (first..).zip(text.lines());
            let lines: Vec<String> =
                numbers.map(|(number, line)| format!("{number:width$}\t{line}")).collect();
            assert_eq!(numbered(first, &window, 0), lines.join("\n"));
        }
    }
}
