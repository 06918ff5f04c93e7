//! `edit`: replaces one piece of text in a file. `text/replace.rs` finds the place.

use std::path::PathBuf;

use haft_core::{Access, ErrorKind, Output, ReadFiles, ToolError, WriteFiles};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::document::{EditableFile, FileChangeReport, change_one};
use crate::text::{
    count,
    replace::{Mismatch, Replaced, replace},
};

/// The file and the replacement.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "path": "src/main.rs", "old_string": "let retries = 3;", "new_string": "let retries = 5;" }))]
pub struct Edit {
    /// The file, relative to the workspace.
    #[schemars(extend("x-aliases" = ["file_path", "filePath", "filename"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub path: PathBuf,
    /// The text to replace, exactly as in the file, with enough context to be unique.
    #[schemars(length(min = 1), extend("x-aliases" = ["oldString", "old_text", "oldText", "old_str", "search"]))]
    pub old_string: String,
    /// The new text. Inserted literally.
    #[schemars(extend("x-aliases" = ["newString", "new_text", "newText", "new_str", "replace"]))]
    pub new_string: String,
    /// Replace every occurrence.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["replaceAll"]))]
    #[schemars(extend("x-short" = "a"))]
    pub replace_all: bool,
    /// Edit only if the file still has this version, from `read`.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["expectedVersion", "version"]))]
    pub expected_version: Option<String>,
}

/// The edit.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Edited {
    /// The change of the file.
    #[serde(flatten)]
    pub change: FileChangeReport,
    /// Number of places that were replaced.
    pub replacements: usize,
    /// The difference between the given text and the place, when they were not exactly equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leniency: Option<String>,
}

impl Output for Edited {
    fn text(&self) -> String {
        let FileChangeReport { path, version, diff, .. } = &self.change;
        let places = count(self.replacements, "place");
        let leniency = self.leniency.as_ref().map_or(String::new(), |how| {
            format!("\nNo exact match; used the closest one: {how}. Check the diff.")
        });
        format!("Edited {path} ({places}), version {version}.{leniency}\n{diff}")
    }

    fn title(&self) -> Option<String> {
        let FileChangeReport { path, added, removed, .. } = &self.change;
        Some(format!("Edit {path} (+{added} -{removed})"))
    }
}

/// Replaces text in a file.
#[tool(
    deadline = "60s",
    access = |input| vec![Access::Read(input.path.clone()), Access::Write(input.path.clone())],
    preview = preview_change,
    profiles(mcp)
)]
pub async fn edit(input: Edit, read: ReadFiles, write: WriteFiles) -> Result<Edited, ToolError> {
    change_one(&write, &input.path, |target| {
        let document = EditableFile::of_target(target, &read, input.expected_version.as_deref())?;
        let replaced = find(&document, &input)?;
        let (bytes, change) = document.rewritten(&replaced.text)?;
        Ok((Some(bytes), answer(&replaced, change)))
    })
}

fn find(document: &EditableFile, input: &Edit) -> Result<Replaced, ToolError> {
    let Edit { old_string, new_string, replace_all, .. } = input;
    replace(&document.text, old_string, new_string, *replace_all).map_err(|mismatch| {
        let (message, hint) = mismatch.message_and_hint(&document.path);
        ToolError::new(kind(&mismatch), message).hint(hint)
    })
}

fn kind(mismatch: &Mismatch) -> ErrorKind {
    match mismatch {
        Mismatch::Empty | Mismatch::Same => ErrorKind::Input,
        Mismatch::Missing { .. } => ErrorKind::NotFound,
        Mismatch::Ambiguous { .. } => ErrorKind::Conflict,
    }
}

fn answer(replaced: &Replaced, change: FileChangeReport) -> Edited {
    let leniency = replaced.leniency.as_ref().map(|leniency| {
        let first = replaced.places.first().map_or(1, |place| place.first_line);
        format!("line {first}, {}", leniency.description())
    });
    Edited { change, replacements: replaced.places.len(), leniency }
}

fn preview_change(input: Edit, read: ReadFiles, _write: WriteFiles) -> Option<String> {
    let file = read.open_file(&input.path).ok()?;
    let document = EditableFile::read(&*file, None).ok()?;
    let replaced = find(&document, &input).ok()?;
    Some(document.preview(&replaced.text))
}
