//! `redo`: takes back what `undo` did.

use std::path::PathBuf;

use haft_core::{CallInfo, Foreseen, ReadFiles, ReadJournal, ToolError, WriteFiles};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    history::{
        select::Direction,
        undoing::{self, Hands, TakenBack},
    },
    undo::Undo,
};

/// What to do again. Without any of these: the last undo of this session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({}))]
pub struct Redo {
    /// Exactly these undos, by the numbers that `changes` shows.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["change", "number", "numbers"]))]
    pub changes: Vec<u64>,
    /// Everything that this call of `undo` took back.
    #[serde(default)]
    pub call_id: Option<String>,
    /// Everything that was undone in this session; `all` means every session.
    #[serde(default)]
    pub session: Option<String>,
    /// Everything that was undone since then, in every session unless one is named: `30m`, `2h`, `3d`, or a time with its
    /// zone.
    #[serde(default)]
    pub since: Option<String>,
    /// Only this file, or what lies below this directory.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["file_path", "filePath", "filename"]))]
    pub path: Option<PathBuf>,
    /// Only show what would be done, as a difference.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["dry_run", "dryRun"]))]
    pub preview: bool,
}

impl Redo {
    fn into_undo(self) -> Undo {
        let Self { changes, call_id, session, since, path, preview } = self;
        Undo { changes, call_id, session, since, path, preview }
    }
}

/// Takes an undo back.
#[tool(
    keeps_links,
    deadline = "120s",
    access = |_| undoing::access(),
    foresees = foresee,
    preview = preview
)]
pub async fn redo(
    input: Redo,
    journal: ReadJournal,
    read: ReadFiles,
    write: WriteFiles,
    call: CallInfo,
) -> Result<TakenBack, ToolError> {
    let input = input.into_undo();
    let hands = Hands { journal, read, write, call };
    hands.take_back(Direction::Redo, &input.wish(), input.preview).await
}

async fn foresee(
    input: Redo,
    journal: ReadJournal,
    _read: ReadFiles,
    _write: WriteFiles,
    call: CallInfo,
) -> Result<Foreseen, ToolError> {
    let input = input.into_undo();
    let wish = input.wish();
    undoing::foresee(Direction::Redo, &wish, |found| input.pinned(found), &journal, &call).await
}

fn preview(
    input: Redo,
    journal: ReadJournal,
    read: ReadFiles,
    write: WriteFiles,
    call: CallInfo,
) -> Option<String> {
    let input = input.into_undo();
    Hands { journal, read, write, call }.preview(Direction::Redo, &input.wish())
}
