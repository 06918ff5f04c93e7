//! `patch`: changes many files at once, all or nothing. `text/patch.rs` parses and places patches.

use std::path::PathBuf;

use haft_core::{
    Access, Content, ErrorKind, Output, ReadFiles, ToolError, WriteFiles, block_in_place,
    files::{ChangeTarget, CurrentState, PlannedChange},
};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::document::{EditableFile, encode, preview};
use crate::text::{
    count, diff,
    encoding::TextEncoding,
    patch::{self as patches, FilePatch, PatchAction, PatchError},
};

/// The patch to apply.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "patch": "*** Begin Patch\n*** Update File: src/main.rs\n@@ fn main() {\n-    run();\n+    run()?;\n*** End Patch" }))]
pub struct PatchInput {
    /// The patch: an envelope from `*** Begin Patch` to `*** End Patch`, or a unified diff.
    #[schemars(length(min = 1), extend("x-aliases" = ["patchText", "patch_text", "input", "diff"]))]
    pub patch: String,
}

/// The changed files.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Patched {
    /// Every file that changed.
    pub files: Vec<PatchedFile>,
    /// Parts of the patch that were applied inexactly: hunks that did not match exactly and how
    /// they were placed, modes that were ignored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leniency: Vec<String>,
}

/// The change of one file.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PatchedFile {
    /// The file, relative to the workspace.
    pub path: String,
    /// The kind of change.
    pub action: PatchFileAction,
    /// The old path, when the file was moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_from: Option<String>,
    /// Version tag of the content, for `expected_version`; absent for a deleted file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Lines added.
    pub added: usize,
    /// Lines removed.
    pub removed: usize,
}

/// The kind of change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PatchFileAction {
    Added,
    Changed,
    Deleted,
    Moved,
}

impl Output for Patched {
    fn text(&self) -> String {
        let mut lines: Vec<String> = self.files.iter().map(PatchedFile::line).collect();
        lines.insert(0, format!("Patched {}:", count(self.files.len(), "file")));
        if !self.leniency.is_empty() {
            lines.push("Parts of the patch were applied inexactly; check this:".to_owned());
            lines.extend(self.leniency.iter().map(|note| format!("- {note}")));
        }
        lines.join("\n")
    }

    fn title(&self) -> Option<String> {
        match &*self.files {
            [only] => Some(format!("Patch {}", only.path)),
            files => Some(format!("Patch {} files", files.len())),
        }
    }
}

impl PatchedFile {
    fn line(&self) -> String {
        let Self { path, added, removed, .. } = self;
        let letter = match self.action {
            PatchFileAction::Added => "A",
            PatchFileAction::Changed => "M",
            PatchFileAction::Deleted => "D",
            PatchFileAction::Moved => "R",
        };
        let from = self.moved_from.as_ref().map_or(String::new(), |from| format!(" (from {from})"));
        let version = self.version.as_ref().map_or(String::new(), |tag| format!(", version {tag}"));
        format!("{letter} {path}{from} (+{added} -{removed}){version}")
    }
}

/// Applies a patch.
#[tool(deadline = "120s", access = touched, preview = preview_change, profiles(mcp))]
pub async fn patch(
    input: PatchInput,
    read: ReadFiles,
    write: WriteFiles,
) -> Result<Patched, ToolError> {
    let sections = patches::parse(&input.patch).map_err(tool_error)?;
    let paths = paths_of(&sections);
    let mut patched = None;
    block_in_place(|| {
        write.change(&paths, &mut |targets| {
            let plan = PatchPlan::make(&sections, &paths, targets, &read)?;
            patched = Some(plan.answer);
            Ok(plan.changes)
        })
    })?;
    patched.ok_or_else(|| ToolError::internal("the change was not planned"))
}

/// Returns read and write access for every file of the patch, including the source of a move.
fn touched(input: &PatchInput) -> Vec<Access> {
    let paths = patches::paths(&input.patch).into_iter().map(|(path, _)| PathBuf::from(path));
    paths.flat_map(|path| [Access::Read(path.clone()), Access::Write(path)]).collect()
}

fn paths_of(sections: &[FilePatch]) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for section in sections {
        paths.push(PathBuf::from(&section.path));
        if let PatchAction::Update { move_to: Some(to), .. } = &section.action {
            paths.push(PathBuf::from(to));
        }
    }
    paths
}

fn tool_error(error: PatchError) -> ToolError {
    ToolError::input(error.message).hint(error.hint)
}

/// The changes of all files, planned before the first file is changed.
struct PatchPlan {
    changes: Vec<PlannedChange>,
    answer: Patched,
    previews: Vec<String>,
}

impl PatchPlan {
    fn make(
        sections: &[FilePatch],
        paths: &[PathBuf],
        targets: &[ChangeTarget],
        read: &ReadFiles,
    ) -> Result<Self, ToolError> {
        let answer = Patched { files: Vec::new(), leniency: Vec::new() };
        let mut plan = Self { changes: Vec::new(), answer, previews: Vec::new() };
        for section in sections {
            let at = |path: &str| {
                let index = paths.iter().position(|known| known.as_os_str() == path);
                index.ok_or_else(|| ToolError::internal(format!("`{path}` is not a target")))
            };
            let target = at(&section.path)?;
            plan.answer.leniency.extend(section.notes.iter().cloned());
            match &section.action {
                PatchAction::Add { content } => plan.add(target, &targets[target], content)?,
                PatchAction::Delete { hunks } => {
                    plan.delete(target, &targets[target], hunks, read)?;
                }
                PatchAction::Update { move_to, hunks } => {
                    let to = move_to.as_deref().map(at).transpose()?;
                    plan.update(target, to, targets, hunks, read)?;
                }
            }
        }
        Ok(plan)
    }

    fn add(
        &mut self,
        number: usize,
        target: &ChangeTarget,
        content: &str,
    ) -> Result<(), ToolError> {
        must_not_exist(target)?;
        let path = target.path.display().to_string();
        let bytes = Content::from(encode(&path, TextEncoding::UTF_8, content)?);
        self.previews.push(preview(&path, "", content));
        let change = diff::unified(&path, "", content);
        self.answer.files.push(PatchedFile {
            path,
            action: PatchFileAction::Added,
            moved_from: None,
            version: Some(bytes.version().to_string()),
            added: change.added,
            removed: 0,
        });
        self.changes.push(PlannedChange::Put { target: number, bytes, like: None });
        Ok(())
    }

    fn delete(
        &mut self,
        number: usize,
        target: &ChangeTarget,
        hunks: &[patches::Hunk],
        read: &ReadFiles,
    ) -> Result<(), ToolError> {
        let path = target.path.display().to_string();
        // A patch without the expected content deletes the file whatever it contains.
        let removed = match EditableFile::of_target(target, read, None) {
            Ok(document) => {
                let notes =
                    patches::check_deletion(&path, &document.text, hunks).map_err(tool_error)?;
                self.answer.leniency.extend(notes);
                self.previews.push(document.preview(""));
                diff::unified(&path, &document.text, "").removed
            }
            Err(error) if error.kind() == ErrorKind::Unsupported && hunks.is_empty() => {
                self.previews.push(format!("delete {path}, a binary file\n"));
                0
            }
            Err(error) => return Err(error),
        };
        self.answer.files.push(PatchedFile {
            path,
            action: PatchFileAction::Deleted,
            moved_from: None,
            version: None,
            added: 0,
            removed,
        });
        self.changes.push(PlannedChange::Remove { target: number });
        Ok(())
    }

    fn update(
        &mut self,
        from: usize,
        to: Option<usize>,
        targets: &[ChangeTarget],
        hunks: &[patches::Hunk],
        read: &ReadFiles,
    ) -> Result<(), ToolError> {
        let document = EditableFile::of_target(&targets[from], read, None)?;
        let applied = patches::apply(&document.path, &document.text, hunks).map_err(tool_error)?;
        self.answer.leniency.extend(applied.leniency);
        let (bytes, change) = document.rewritten(&applied.text)?;
        let mut file = PatchedFile {
            path: document.path.clone(),
            action: PatchFileAction::Changed,
            moved_from: None,
            version: Some(change.version),
            added: change.added,
            removed: change.removed,
        };
        let target = to.unwrap_or(from);
        if let Some(to) = to {
            must_not_exist(&targets[to])?;
            file.moved_from = Some(std::mem::take(&mut file.path));
            file.path = targets[to].path.display().to_string();
            file.action = PatchFileAction::Moved;
            self.previews.push(format!("rename from {}\nrename to {}\n", document.path, file.path));
            self.changes.push(PlannedChange::Remove { target: from });
        }
        self.previews.push(document.preview(&applied.text));
        self.changes.push(PlannedChange::Put { target, bytes, like: Some(from) });
        self.answer.files.push(file);
        Ok(())
    }
}

/// Refuses to add or move a file to an existing path.
fn must_not_exist(target: &ChangeTarget) -> Result<(), ToolError> {
    match target.current {
        CurrentState::Missing => Ok(()),
        _ => Err(ToolError::conflict(format!("`{}` already exists", target.path.display()))
            .hint("update the file instead, or delete it with a patch first; nothing was changed")),
    }
}

fn preview_change(input: PatchInput, read: ReadFiles, _write: WriteFiles) -> Option<String> {
    let sections = patches::parse(&input.patch).ok()?;
    let paths = paths_of(&sections);
    let target = |path: &PathBuf| {
        let current = read.open_file(path).map_or(CurrentState::Missing, CurrentState::File);
        ChangeTarget { path: path.clone(), current }
    };
    let targets: Vec<ChangeTarget> = paths.iter().map(target).collect();
    let plan = PatchPlan::make(&sections, &paths, &targets, &read).ok()?;
    Some(plan.previews.concat())
}
