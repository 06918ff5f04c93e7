//! `edit_lines`: lines of a file by their numbers. The rules are in `text/line_patches.rs`.

use std::path::PathBuf;

use haft_core::{Access, Output, ReadFiles, ToolError, WriteFiles};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::document::{Changed, Document, change_one};
use crate::text::{
    count,
    line_patches::{self, LinePatch},
};

/// Which lines to change.
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
    /// The changes. All line numbers are those of the file as it is now; ranges may not overlap.
    #[schemars(length(min = 1, max = 1000), extend("x-aliases" = ["edits"]))]
    pub patches: Vec<LinePatch>,
    /// The version that the line numbers are of, as `read` told it.
    #[schemars(extend("x-aliases" = ["expectedVersion", "version"]))]
    pub expected_version: String,
}

/// What was changed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EditedLines {
    /// The change.
    #[serde(flatten)]
    pub change: Changed,
    /// How many patches were applied: all of them.
    pub applied: usize,
}

impl Output for EditedLines {
    fn text(&self) -> String {
        let Changed { path, version, diff, .. } = &self.change;
        let applied = count(self.applied, "patch");
        format!("Edited {path} ({applied}), version {version}.\n{diff}")
    }

    fn title(&self) -> Option<String> {
        let Changed { path, added, removed, .. } = &self.change;
        Some(format!("Edit {path} (+{added} -{removed})"))
    }
}

/// Changes lines of a file by number.
#[tool(
    deadline = "60s",
    access = |input| vec![Access::Read(input.path.clone()), Access::Write(input.path.clone())],
    preview = foreseen,
    profiles(mcp)
)]
pub async fn edit_lines(
    input: EditLines,
    read: ReadFiles,
    write: WriteFiles,
) -> Result<EditedLines, ToolError> {
    change_one(&write, &input.path, |target| {
        let document = Document::of_target(target, &read, Some(&input.expected_version))?;
        let text = patched(&document, &input)?;
        let (bytes, change) = document.rewritten(&text)?;
        Ok((Some(bytes), EditedLines { change, applied: input.patches.len() }))
    })
}

fn patched(document: &Document, input: &EditLines) -> Result<String, ToolError> {
    let text = line_patches::apply(&document.text, &input.patches).map_err(|problems| {
        let message = format!("`{}` was not changed: {}", document.path, problems.join("; "));
        ToolError::input(message).hint("mend the patches that are named and send all of them again")
    })?;
    if text == document.text {
        let path = &document.path;
        let message = format!("nothing would change in `{path}`: these lines are there already");
        return Err(ToolError::input(message)
            .hint("if the lines are as they should be, go on; otherwise give other content"));
    }
    Ok(text)
}

fn foreseen(input: EditLines, read: ReadFiles, _write: WriteFiles) -> Option<String> {
    let file = read.open_file(&input.path).ok()?;
    let document = Document::read(&*file, Some(&input.expected_version)).ok()?;
    Some(document.preview(&patched(&document, &input).ok()?))
}
