//! `undo`: takes back what file tools changed.

use haft_core::{AccessLookupResult, CallInfo, ReadFiles, ReadJournal, ToolError, WriteFiles};
use haft_macros::tool;

use super::history::{
    select::{Direction, TakeBack},
    undoing::{self, Hands, TakenBack},
};

/// Takes changes back.
#[tool(
    keeps_links,
    deadline = "120s",
    access = |_| undoing::access(),
    access_lookup = foresee,
    preview = preview,
    profiles(mcp)
)]
pub async fn undo(
    input: TakeBack,
    journal: ReadJournal,
    read: ReadFiles,
    write: WriteFiles,
    call: CallInfo,
) -> Result<TakenBack, ToolError> {
    let hands = Hands { journal, read, write, call };
    hands.take_back(Direction::Undo, &input, input.preview).await
}

async fn foresee(
    input: TakeBack,
    journal: ReadJournal,
    _read: ReadFiles,
    _write: WriteFiles,
    call: CallInfo,
) -> Result<AccessLookupResult, ToolError> {
    undoing::foresee(Direction::Undo, input, &journal, &call).await
}

fn preview(
    input: TakeBack,
    journal: ReadJournal,
    read: ReadFiles,
    write: WriteFiles,
    call: CallInfo,
) -> Option<String> {
    Hands { journal, read, write, call }.preview(Direction::Undo, &input)
}
