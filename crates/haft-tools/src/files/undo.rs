//! `undo`: takes back what file tools changed.

use std::path::PathBuf;

use haft_core::{CallInfo, Foreseen, ReadFiles, ReadJournal, ToolError, WriteFiles};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::history::{
    select::{Direction, Wish},
    undoing::{self, Hands, TakenBack},
};

/// What to take back. Without any of these: the last change of this session.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "path": "src/main.rs" }))]
pub struct Undo {
    /// Exactly these changes, by the numbers that `changes` shows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-aliases" = ["change", "number", "numbers"]))]
    pub changes: Vec<u64>,
    /// All changes of this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// All changes of this session; `all` means every session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// All changes since then, of every session unless one is named: `30m`, `2h`, `3d`, or a time with its zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only this file, or what lies below this directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-aliases" = ["file_path", "filePath", "filename"]))]
    pub path: Option<PathBuf>,
    /// Only show what would be done, as a difference.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["dry_run", "dryRun"]))]
    pub preview: bool,
}

impl Undo {
    pub(crate) fn wish(&self) -> Wish {
        let Self { changes, call_id, session, since, path, .. } = self.clone();
        Wish { changes, call_id, session, since, path }
    }

    /// The same with the changes spelled out, so that it means the same whenever it runs.
    pub(crate) fn pinned(self, changes: Vec<u64>) -> serde_json::Value {
        let Self { path, preview, .. } = self;
        json!(Self { changes, path, preview, ..Self::default() })
    }
}

/// Takes changes back.
#[tool(
    keeps_links,
    deadline = "120s",
    access = |_| undoing::access(),
    foresees = foresee,
    preview = preview,
    profiles(mcp)
)]
pub async fn undo(
    input: Undo,
    journal: ReadJournal,
    read: ReadFiles,
    write: WriteFiles,
    call: CallInfo,
) -> Result<TakenBack, ToolError> {
    let hands = Hands { journal, read, write, call };
    hands.take_back(Direction::Undo, &input.wish(), input.preview).await
}

async fn foresee(
    input: Undo,
    journal: ReadJournal,
    _read: ReadFiles,
    _write: WriteFiles,
    call: CallInfo,
) -> Result<Foreseen, ToolError> {
    let wish = input.wish();
    undoing::foresee(Direction::Undo, &wish, |found| input.pinned(found), &journal, &call).await
}

fn preview(
    input: Undo,
    journal: ReadJournal,
    read: ReadFiles,
    write: WriteFiles,
    call: CallInfo,
) -> Option<String> {
    Hands { journal, read, write, call }.preview(Direction::Undo, &input.wish())
}
