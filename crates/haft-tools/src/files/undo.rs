//! `undo`: reverts changes of file tools.

use haft_core::{AccessLookupResult, CallInfo, ReadFiles, ReadJournal, ToolError, WriteFiles};
use haft_macros::tool;

use super::history::{
    select::{UndoDirection, UndoInput},
    undoing::{self, UndoContext, UndoReport},
};

/// Reverts changes of file tools.
#[tool(
    keeps_links,
    deadline = "120s",
    access = |_| undoing::access(),
    access_lookup = foresee,
    preview = preview,
    profiles(mcp)
)]
pub async fn undo(
    input: UndoInput,
    journal: ReadJournal,
    read: ReadFiles,
    write: WriteFiles,
    call: CallInfo,
) -> Result<UndoReport, ToolError> {
    let context = UndoContext { journal, read, write, call };
    context.revert(UndoDirection::Undo, &input, input.preview).await
}

async fn foresee(
    input: UndoInput,
    journal: ReadJournal,
    _read: ReadFiles,
    _write: WriteFiles,
    call: CallInfo,
) -> Result<AccessLookupResult, ToolError> {
    undoing::foresee(UndoDirection::Undo, input, &journal, &call).await
}

fn preview(
    input: UndoInput,
    journal: ReadJournal,
    read: ReadFiles,
    write: WriteFiles,
    call: CallInfo,
) -> Option<String> {
    UndoContext { journal, read, write, call }.preview(UndoDirection::Undo, &input)
}
