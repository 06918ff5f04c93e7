//! `edit_lines`: changes lines of a file by number. The rules are in `text/line_patches.rs`.

use std::path::PathBuf;

use haft_core::{Access, Output, ReadFiles, ToolError, WriteFiles};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::document::{EditableFile, FileChangeReport, change_one};
use crate::text::{
    count,
    line_patches::{self, LinePatch},
};

/// The file and the line patches.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({
    "path": "src/main.rs",
    "patches": [{ "start_line": 12, "end_line": 13, "content": "    run()?;" }],
    "expected_version": "cce31fe5b90eb6e0f"
}))]
pub struct EditLines {
    /// The file, relative to the workspace.
    #[schemars(extend("x-aliases" = ["file_path", "filePath", "filename"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub path: PathBuf,
    /// The patches. All line numbers refer to the current file; ranges may not overlap.
    #[schemars(length(min = 1, max = 1000), extend("x-aliases" = ["edits"]))]
    pub patches: Vec<LinePatch>,
    /// The version that the line numbers refer to, from `read`.
    #[schemars(extend("x-aliases" = ["expectedVersion", "version"]))]
    pub expected_version: String,
}

/// The edit.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EditedLines {
    /// The change of the file.
    #[serde(flatten)]
    pub change: FileChangeReport,
    /// Number of applied patches: all of them.
    pub applied: usize,
}

impl Output for EditedLines {
    fn text(&self) -> String {
        let FileChangeReport { path, version, diff, .. } = &self.change;
        let applied = count(self.applied, "patch");
        format!("Edited {path} ({applied}), version {version}.\n{diff}")
    }

    fn title(&self) -> Option<String> {
        let FileChangeReport { path, added, removed, .. } = &self.change;
        Some(format!("Edit {path} (+{added} -{removed})"))
    }
}

/// Changes lines of a file by number.
#[tool(
    deadline = "60s",
    access = |input| vec![Access::Read(input.path.clone()), Access::Write(input.path.clone())],
    preview = preview_change,
    profiles(mcp)
)]
pub async fn edit_lines(
    input: EditLines,
    read: ReadFiles,
    write: WriteFiles,
) -> Result<EditedLines, ToolError> {
    change_one(&write, &input.path, |target| {
        let document = EditableFile::of_target(target, &read, Some(&input.expected_version))?;
        let text = patched(&document, &input)?;
        let (bytes, change) = document.rewritten(&text)?;
        Ok((Some(bytes), EditedLines { change, applied: input.patches.len() }))
    })
}

fn patched(document: &EditableFile, input: &EditLines) -> Result<String, ToolError> {
    let text = line_patches::apply(&document.text, &input.patches).map_err(|problems| {
        let message = format!("`{}` was not changed: {}", document.path, problems.join("; "));
        ToolError::input(message).hint("fix the named patches and send all patches again")
    })?;
    if text == document.text {
        let path = &document.path;
        let message = format!("nothing would change in `{path}`: it already has these lines");
        return Err(ToolError::input(message)
            .hint("if the lines are correct, continue; otherwise give other content"));
    }
    Ok(text)
}

fn preview_change(input: EditLines, read: ReadFiles, _write: WriteFiles) -> Option<String> {
    let file = read.open_file(&input.path).ok()?;
    let document = EditableFile::read(&*file, Some(&input.expected_version)).ok()?;
    Some(document.preview(&patched(&document, &input).ok()?))
}
