//! `write`: writes a whole file.

use std::path::PathBuf;

use haft_core::{
    Access, Content, Output, ReadFiles, ToolError, WriteFiles,
    files::{ChangeTarget, CurrentState, OpenFile, is_directory},
};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::document::{EditableFile, change_one, checked_version, encode, preview};
use crate::text::{count, encoding::TextEncoding};

/// The file and its new content.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "path": "notes/today.md", "content": "Call Ada.\n" }))]
pub struct Write {
    /// The file, relative to the workspace. Missing directories are created.
    #[schemars(extend("x-aliases" = ["file_path", "filePath", "filename"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub path: PathBuf,
    /// The whole new content.
    #[schemars(extend("x-aliases" = ["contents", "text", "file_text"]))]
    pub content: String,
    /// Behaviour if the file exists.
    #[serde(default)]
    pub on_conflict: WriteConflict,
    /// Write only if the file still has this version, from `read`.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["expectedVersion", "version"]))]
    pub expected_version: Option<String>,
}

/// Behaviour if the file exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WriteConflict {
    #[default]
    Overwrite,
    Error,
}

/// The written file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WriteReport {
    /// The file, relative to the workspace.
    pub path: String,
    /// Version tag of the content, for `expected_version`.
    pub version: String,
    /// Version tag of the previous content; absent when the file is new or was too large to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_version: Option<String>,
    /// Size on disk in bytes.
    pub bytes: usize,
    /// Number of lines of the content.
    pub lines: usize,
    /// True if the file is new.
    pub created: bool,
    /// False if the file already had exactly this content; then it was not touched.
    pub changed: bool,
    /// Encoding and line endings kept from the existing file, when it is not plain UTF-8 with `\n`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

impl Output for WriteReport {
    fn text(&self) -> String {
        let Self { path, version, bytes, lines, .. } = self;
        let kept = self.kept.as_ref().map_or(String::new(), |kept| format!(" Kept: {kept}."));
        let (lines, bytes) = (count(*lines, "line"), count(*bytes, "byte"));
        match (self.created, self.changed) {
            (true, _) => format!("Created {path}: {lines}, {bytes}, version {version}."),
            (_, true) => format!("Wrote {path}: {lines}, {bytes}, version {version}.{kept}"),
            (_, false) => format!("{path} already has this content, version {version}."),
        }
    }

    fn title(&self) -> Option<String> {
        let verb = if self.created { "Create" } else { "Write" };
        Some(format!("{verb} {}", self.path))
    }
}

/// Writes a file.
#[tool(
    idempotent,
    deadline = "60s",
    access = |input| vec![Access::Read(input.path.clone()), Access::Write(input.path.clone())],
    preview = preview_change,
    profiles(mcp)
)]
pub async fn write(
    input: Write,
    read: ReadFiles,
    write: WriteFiles,
) -> Result<WriteReport, ToolError> {
    change_one(&write, &input.path, |target| {
        let (bytes, written) = plan(&input, target, &read)?;
        Ok((written.changed.then_some(bytes), written))
    })
}

fn plan(
    input: &Write,
    target: &ChangeTarget,
    read: &ReadFiles,
) -> Result<(Content, WriteReport), ToolError> {
    let path = target.path.display().to_string();
    let mut written = WriteReport {
        path: path.clone(),
        version: String::new(),
        previous_version: None,
        bytes: 0,
        lines: input.content.lines().count(),
        created: true,
        changed: true,
        kept: None,
    };
    let bytes = match &target.current {
        CurrentState::Missing if input.expected_version.is_some() => {
            return Err(ToolError::conflict(format!(
                "`{path}` no longer exists, so it has no version"
            ))
            .hint("leave out expected_version to create it again"));
        }
        CurrentState::Missing => encode(&path, TextEncoding::UTF_8, &input.content)?,
        CurrentState::Directory => return Err(is_directory(&target.path)),
        CurrentState::File(_) if input.on_conflict == WriteConflict::Error => {
            return Err(ToolError::conflict(format!("`{path}` already exists"))
                .hint("choose another path, or set on_conflict to overwrite"));
        }
        CurrentState::File(file) => {
            read.check(&target.path)?;
            replacement(&**file, input, &mut written)?
        }
    };
    let bytes = Content::from(bytes);
    written.bytes = bytes.len();
    written.version = bytes.version().to_string();
    written.changed = written.previous_version.as_deref() != Some(&written.version);
    Ok((bytes, written))
}

/// Returns the bytes that replace a file. Encoding and line endings of a text file are kept.
fn replacement(
    file: &dyn OpenFile,
    input: &Write,
    written: &mut WriteReport,
) -> Result<Vec<u8>, ToolError> {
    written.created = false;
    // A file that is not text or too large has no encoding to keep.
    let document = match EditableFile::read(file, input.expected_version.as_deref()) {
        Ok(document) => document,
        Err(error) if error.kind() == haft_core::ErrorKind::Conflict => return Err(error),
        Err(error) => {
            match file.read_whole() {
                Ok(bytes) => {
                    let expected = input.expected_version.as_deref();
                    let version = checked_version(file.metadata(), &bytes, expected)?;
                    written.previous_version = Some(version.to_string());
                }
                Err(_) if input.expected_version.is_some() => return Err(error),
                Err(_) => {}
            }
            return encode(&written.path, TextEncoding::UTF_8, &input.content);
        }
    };
    written.previous_version = Some(document.version().to_string());
    let text = with_endings_of(&document.text, &input.content);
    let mut kept = Vec::new();
    if !document.form().is_plain_utf8() {
        kept.push(format!("the encoding {}", document.form().name()));
    }
    if text.len() != input.content.len() {
        kept.push("line endings \\r\\n".to_owned());
    }
    written.kept = (!kept.is_empty()).then(|| kept.join(", "));
    encode(&written.path, document.form(), &text)
}

/// Returns the new text with the line endings of the old one. They are `\r\n` if every line of the
/// old text has it and the new text has no `\r` itself.
fn with_endings_of(old: &str, new: &str) -> String {
    let ends = old.matches('\n').count();
    let is_crlf = ends > 0 && old.matches("\r\n").count() == ends;
    if is_crlf && !new.contains('\r') { new.replace('\n', "\r\n") } else { new.to_owned() }
}

fn preview_change(input: Write, read: ReadFiles, _write: WriteFiles) -> Option<String> {
    let file = read.open_file(&input.path);
    let Ok(file) = file else {
        let path = input.path.display().to_string();
        return Some(preview(&path, "", &input.content));
    };
    let document = EditableFile::read(&*file, None).ok()?;
    Some(document.preview(&with_endings_of(&document.text, &input.content)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_line_endings_are_kept() {
        for (old, new, expected) in [
            ("a\r\nb\r\n", "x\ny\n", "x\r\ny\r\n"),
            ("a\r\nb\n", "x\ny\n", "x\ny\n"),
            ("a\nb\n", "x\n", "x\n"),
            ("a\r\n", "x\r\ny\n", "x\r\ny\n"),
            ("", "x\n", "x\n"),
        ] {
            assert_eq!(with_endings_of(old, new), expected, "{old:?} {new:?}");
        }
    }
}
