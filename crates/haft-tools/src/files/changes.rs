//! `changes`: lists what file tools changed, from the journal.

use std::path::{Path, PathBuf};

use haft_core::{
    Access, ChangeQuery, JournalChange, JournalEntry, Output, Power, ReadFiles, ReadJournal,
    ToolError, now_ms,
};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::history::{
    contents::Contents,
    display::{ChangedPath, ago, changed_path, time_of},
    select::{ALL_SESSIONS, since},
};
use crate::text::{count, diff};

/// Maximum number of files shown for one change in a list.
const MAX_FILES: usize = 20;
/// Maximum number of files in a list whose lines are counted: each of them is read.
const MAX_COUNTED_FILES: usize = 100;
const MAX_DIFF_LINES: usize = 1_000;

/// The changes to list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "since": "2h" }))]
pub struct ListChanges {
    /// Only this change, with its diff.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["number"]))]
    #[schemars(extend("x-refers-to" = "change"))]
    pub change: Option<u64>,
    /// Only changes by this call.
    #[serde(default)]
    pub call_id: Option<String>,
    /// Only changes by this session. Default: `all`, every session.
    #[serde(default)]
    #[schemars(extend("x-refers-to" = "session"))]
    pub session: Option<String>,
    /// Only changes since this time: `30m`, `2h`, `3d`, or a time with its zone.
    #[serde(default)]
    pub since: Option<String>,
    /// Only changes of this file, or of files below this directory.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["file_path", "filePath", "filename"]))]
    #[schemars(with = "Option<haft_core::PathInput>")]
    pub path: Option<PathBuf>,
    /// Maximum number of changes.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 1000))]
    #[schemars(extend("x-short" = "n"))]
    pub limit: usize,
    /// Only changes with a smaller number, to continue a list.
    #[serde(default)]
    pub below: Option<u64>,
}

fn default_limit() -> usize {
    20
}

/// Changes of files.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ListedChanges {
    /// Newest first.
    pub changes: Vec<ListedChange>,
    /// The diff, when one change was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The value of `below` for the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// One change.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ListedChange {
    /// Number of the change, for `undo`.
    pub number: u64,
    /// Time of the change.
    pub at: String,
    /// The tool that made the change.
    pub tool: String,
    /// The session that made the change.
    pub session: String,
    /// The call that made the change.
    pub call_id: String,
    /// The changed files, at most 20.
    pub files: Vec<ChangedPath>,
    /// Number of further files.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_files: usize,
    /// Whether the change was undone: fully, partly, or not.
    pub undone: Undone,
    /// Number of files whose earlier content is no longer kept.
    #[serde(skip_serializing_if = "is_zero_u64")]
    pub collected: u64,
    #[serde(skip)]
    ago: String,
}

/// How much of a change was undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Undone {
    No,
    Partly,
    Yes,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires the reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires the reference")]
fn is_zero_u64(count: &u64) -> bool {
    *count == 0
}

impl Output for ListedChanges {
    fn text(&self) -> String {
        if self.changes.is_empty() {
            return "No changes found.".to_owned();
        }
        let mut lines: Vec<String> = self.changes.iter().map(ListedChange::lines).collect();
        if let Some(next) = self.next {
            lines.push(format!("There may be more: call again with below={next}."));
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
            lines.push(format!("    {} no longer kept", count(files, "file")));
        }
        lines.join("\n")
    }
}

/// Lists changes of file tools.
#[tool(
    idempotent,
    deadline = "60s",
    access = |_| vec![Access::Any(Power::ReadStore), Access::Read(".".into())],
    profiles(reviewer)
)]
pub async fn changes(
    input: ListChanges,
    journal: ReadJournal,
    read: ReadFiles,
) -> Result<ListedChanges, ToolError> {
    let query = ChangeQuery {
        call_id: input.call_id.clone(),
        session: input.session.clone().filter(|session| session != ALL_SESSIONS),
        since_ms: input.since.as_deref().map(since).transpose()?.unwrap_or_default(),
        below: input.below,
        numbers: input.change.into_iter().collect(),
        limit: if input.path.is_some() { usize::MAX } else { input.limit },
        ..ChangeQuery::default()
    };
    let found = visible(journal.find(&query).await?, input.path.as_deref(), &read);
    if let Some(number) = input.change.filter(|_| found.is_empty()) {
        return Err(ToolError::not_found(format!("change {number} does not exist"))
            .hint("leave out change to list the existing changes"));
    }
    let next = found.get(input.limit.saturating_sub(1)).map(|change| change.number);
    let mut list = Lister { journal: &journal, read: &read, counted: 0, diff: String::new() };
    let mut changes = Vec::new();
    for change in found.iter().take(input.limit) {
        changes.push(list.change(change).await?);
    }
    let diff = input.change.map(|_| diff::shortened(&list.diff, MAX_DIFF_LINES));
    Ok(ListedChanges { changes, diff, next: next.filter(|_| input.change.is_none()) })
}

/// Removes entries that the permissions do not allow reading or that are not below the given path.
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
        for entry in change.entries.iter().take(MAX_FILES) {
            files.push(self.file(entry).await?);
        }
        let undone = change.entries.iter().filter(|entry| entry.undone_by.is_some()).count();
        Ok(ListedChange {
            number: change.number,
            at: time_of(change.at_ms),
            ago: ago(change.at_ms, now_ms()),
            tool: change.tool.clone(),
            session: change.session.clone(),
            call_id: change.call_id.clone(),
            files,
            more_files: change.entries.len().saturating_sub(MAX_FILES),
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
        if self.counted > MAX_COUNTED_FILES {
            return Ok(ChangedPath::new(&entry.path, &entry.before, &entry.after));
        }
        let mut contents = Contents::default();
        contents.fetch(&entry.before, self.journal).await?;
        // The journal has the new content only if the file changed again; else it is on the disk.
        contents.fetch(&entry.after, self.journal).await?;
        let (file, diff) =
            changed_path(&contents, &entry.path, &entry.before, &entry.after, self.read);
        self.diff.push_str(&diff);
        Ok(file)
    }
}
