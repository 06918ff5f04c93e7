//! `redo`: reverts an undo.

use haft_core::{AccessLookupResult, CallInfo, ReadFiles, ReadJournal, ToolError, WriteFiles};
use haft_macros::tool;

use super::history::{
    select::{UndoDirection, UndoInput},
    undoing::{self, UndoContext, UndoReport},
};

/// Reverts an undo.
#[tool(
    keeps_links,
    deadline = "120s",
    access = |_| undoing::access(),
    access_lookup = foresee,
    preview = preview
)]
pub async fn redo(
    input: UndoInput,
    journal: ReadJournal,
    read: ReadFiles,
    write: WriteFiles,
    call: CallInfo,
) -> Result<UndoReport, ToolError> {
    let context = UndoContext { journal, read, write, call };
    context.revert(UndoDirection::Redo, &input, input.preview).await
}

async fn foresee(
    input: UndoInput,
    journal: ReadJournal,
    _read: ReadFiles,
    _write: WriteFiles,
    call: CallInfo,
) -> Result<AccessLookupResult, ToolError> {
    undoing::foresee(UndoDirection::Redo, input, &journal, &call).await
}

fn preview(
    input: UndoInput,
    journal: ReadJournal,
    read: ReadFiles,
    write: WriteFiles,
    call: CallInfo,
) -> Option<String> {
    UndoContext { journal, read, write, call }.preview(UndoDirection::Redo, &input)
}
