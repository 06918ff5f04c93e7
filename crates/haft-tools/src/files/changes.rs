//! `changes`: what file tools changed, from the journal.

use std::path::{Path, PathBuf};

use haft_core::{
    Access, ChangeQuery as RestoredState, JournalChange, JournalEntry, Output, Power, ReadFiles,
    ReadJournal, ToolError, now_ms,
};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::history::{
    contents::Contents,
    select::{ALL, since},
    words::{ChangedPath, ago, moment, told},
};
use crate::text::{count, diff};

/// A list shows at most so many files of a change.
const MOST_FILES: usize = 20;
/// Lines are counted for at most so many files of a list: each is read.
const MOST_COUNTED: usize = 100;
const MOST_DIFF_LINES: usize = 1_000;

/// What to list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "since": "2h" }))]
pub struct ChangeQuery {
    /// Only this change, with the difference it made.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["number"]))]
    pub change: Option<u64>,
    /// Only changes of this call.
    #[serde(default)]
    pub call_id: Option<String>,
    /// Only changes of this session; `all` or nothing means every session.
    #[serde(default)]
    pub session: Option<String>,
    /// Only changes since then: `30m`, `2h`, `3d`, or a time with its zone.
    #[serde(default)]
    pub since: Option<String>,
    /// Only changes of this file, or below this directory.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["file_path", "filePath", "filename"]))]
    #[schemars(with = "Option<haft_core::PathInput>")]
    pub path: Option<PathBuf>,
    /// So many changes at most.
    #[serde(default = "usual_limit")]
    #[schemars(range(min = 1, max = 1000))]
    #[schemars(extend("x-short" = "n"))]
    pub limit: usize,
    /// Only changes with a smaller number: the next page.
    #[serde(default)]
    pub below: Option<u64>,
}

fn usual_limit() -> usize {
    20
}

/// What was changed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ListedChanges {
    /// Newest first.
    pub changes: Vec<ListedChange>,
    /// The difference, when one change was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Give this as `below` for more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// One change.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ListedChange {
    /// Its number, for `undo`.
    pub number: u64,
    /// When it was made.
    pub at: String,
    /// The tool that made it.
    pub tool: String,
    /// The session.
    pub session: String,
    /// The call.
    pub call_id: String,
    /// The files, at most 20 of them.
    pub files: Vec<ChangedPath>,
    /// How many files more.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_files: usize,
    /// Whether it was taken back: all of it, some of it, or nothing.
    pub undone: Undone,
    /// How many files of it are not kept any more.
    #[serde(skip_serializing_if = "is_zero_u64")]
    pub collected: u64,
    #[serde(skip)]
    ago: String,
}

/// How much of a change was taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Undone {
    No,
    Partly,
    Yes,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero_u64(count: &u64) -> bool {
    *count == 0
}

impl Output for ListedChanges {
    fn text(&self) -> String {
        if self.changes.is_empty() {
            return "No change is known.".to_owned();
        }
        let mut lines: Vec<String> = self.changes.iter().map(ListedChange::lines).collect();
        if let Some(next) = self.next {
            lines.push(format!("There may be more: call again with below = {next}."));
        }
        if let Some(diff) = &self.diff {
            lines.push(String::new());
            lines.push(diff.clone());
        }
        lines.join("\n")
    }

    fn title(&self) -> Option<String> {
        Some(count(self.changes.len(), "change"))
    }
}

impl ListedChange {
    fn lines(&self) -> String {
        let Self { number, at, tool, session, ago, .. } = self;
        let undone = match self.undone {
            Undone::No => "",
            Undone::Partly => ", partly undone",
            Undone::Yes => ", undone",
        };
        let mut lines = vec![format!("{number}  {at} ({ago})  {tool}  session {session}{undone}")];
        lines.extend(self.files.iter().map(|file| format!("    {}", file.line())));
        if self.more_files > 0 {
            lines.push(format!("    and {} more", count(self.more_files, "file")));
        }
        if self.collected > 0 {
            let files = usize::try_from(self.collected).unwrap_or(usize::MAX);
            lines.push(format!("    {} not kept any more", count(files, "file")));
        }
        lines.join("\n")
    }
}

/// Lists changes.
#[tool(
    idempotent,
    deadline = "60s",
    access = |_| vec![Access::Any(Power::ReadStore), Access::Read(".".into())],
    profiles(reviewer)
)]
pub async fn changes(
    input: ChangeQuery,
    journal: ReadJournal,
    read: ReadFiles,
) -> Result<ListedChanges, ToolError> {
    let wanted = RestoredState {
        call_id: input.call_id.clone(),
        session: input.session.clone().filter(|session| session != ALL),
        since_ms: input.since.as_deref().map(since).transpose()?.unwrap_or_default(),
        below: input.below,
        numbers: input.change.into_iter().collect(),
        limit: if input.path.is_some() { usize::MAX } else { input.limit },
        ..RestoredState::default()
    };
    let found = visible(journal.find(&wanted).await?, input.path.as_deref(), &read);
    if let Some(number) = input.change.filter(|_| found.is_empty()) {
        return Err(ToolError::not_found(format!("there is no change {number} here"))
            .hint("list the changes there are by leaving out change"));
    }
    let next = found.get(input.limit.saturating_sub(1)).map(|change| change.number);
    let mut list = Lister { journal: &journal, read: &read, counted: 0, diff: String::new() };
    let mut changes = Vec::new();
    for change in found.iter().take(input.limit) {
        changes.push(list.change(change).await?);
    }
    let diff = input.change.map(|_| diff::shortened(&list.diff, MOST_DIFF_LINES));
    Ok(ListedChanges { changes, diff, next: next.filter(|_| input.change.is_none()) })
}

/// Without what rules and secrecy close, and what lies elsewhere.
fn visible(
    mut changes: Vec<JournalChange>,
    below: Option<&Path>,
    read: &ReadFiles,
) -> Vec<JournalChange> {
    for change in &mut changes {
        change.entries.retain(|entry| {
            let is_below = |path: &Path| {
                below.is_none_or(|below| below == Path::new(".") || path.starts_with(below))
            };
            let mut paths = [Some(&entry.path), entry.moved_from.as_ref()].into_iter().flatten();
            paths.clone().any(|path| is_below(path)) && paths.all(|path| read.check(path).is_ok())
        });
    }
    changes
        .retain(|change| !change.entries.is_empty() || (change.collected > 0 && below.is_none()));
    changes
}

struct Lister<'a> {
    journal: &'a ReadJournal,
    read: &'a ReadFiles,
    counted: usize,
    diff: String,
}

impl Lister<'_> {
    async fn change(&mut self, change: &JournalChange) -> Result<ListedChange, ToolError> {
        let mut files = Vec::new();
        for entry in change.entries.iter().take(MOST_FILES) {
            files.push(self.file(entry).await?);
        }
        let undone = change.entries.iter().filter(|entry| entry.undone_by.is_some()).count();
        Ok(ListedChange {
            number: change.number,
            at: moment(change.at_ms),
            ago: ago(change.at_ms, now_ms()),
            tool: change.tool.clone(),
            session: change.session.clone(),
            call_id: change.call_id.clone(),
            files,
            more_files: change.entries.len().saturating_sub(MOST_FILES),
            undone: match undone {
                0 => Undone::No,
                all if all == change.entries.len() => Undone::Yes,
                _ => Undone::Partly,
            },
            collected: change.collected,
        })
    }

    async fn file(&mut self, entry: &JournalEntry) -> Result<ChangedPath, ToolError> {
        if let Some(from) = &entry.moved_from {
            return Ok(ChangedPath::moved(&entry.path, from));
        }
        self.counted += 1;
        if self.counted > MOST_COUNTED {
            return Ok(ChangedPath::new(&entry.path, &entry.before, &entry.after));
        }
        let mut contents = Contents::default();
        contents.fetch(&entry.before, self.journal).await?;
        // What was put there is kept only if it was changed again; else it is still on the disk.
        contents.fetch(&entry.after, self.journal).await?;
        let (file, diff) = told(&contents, &entry.path, &entry.before, &entry.after, self.read);
        self.diff.push_str(&diff);
        Ok(file)
    }
}
