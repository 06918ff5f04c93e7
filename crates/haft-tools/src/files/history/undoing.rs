//! The shared implementation of `undo` and `redo`, which differ only in the changes they select.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use haft_core::{
    Access, AccessLookupResult, CallInfo, ChangeQuery, ErrorKind, JournalChange, Output, Power,
    ReadFiles, ReadJournal, Reply, ToolError, WriteFiles, now_ms,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::{
    carry_out::carry_out,
    contents::Contents,
    display::{ChangedPath, PathAction, ago, changed_path, numbers, time_of},
    plan::{PlanStep, UndoConflict, UndoPlan, plan},
    select::{MAX_CHANGES, UndoDirection, UndoInput, select, touched},
};
use crate::text::{count, diff};

/// Maximum number of diff lines in a result.
const MAX_DIFF_LINES: usize = 200;
/// Maximum number of conflicts named in an error.
const MAX_CONFLICTS: usize = 20;

/// The reverted changes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UndoReport {
    /// The reverted changes, newest first.
    pub changes: Vec<RevertedChange>,
    /// The change of each file.
    pub files: Vec<ChangedPath>,
    /// True when nothing was changed, because a preview was requested.
    pub preview: bool,
    /// Further remarks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The diff, truncated when it is long.
    pub diff: String,
    #[serde(skip)]
    verb: &'static str,
}

/// A reverted change.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RevertedChange {
    /// Number of the change.
    pub number: u64,
    /// The tool that made the change.
    pub tool: String,
    /// The call that made the change.
    pub call_id: String,
    /// Time of the change.
    pub at: String,
    #[serde(skip)]
    ago: String,
}

impl Output for UndoReport {
    fn text(&self) -> String {
        let mut lines = vec![self.headline()];
        lines.extend(self.files.iter().map(ChangedPath::line));
        lines.extend(self.notes.iter().map(|note| format!("Note: {note}.")));
        let mut text = lines.join("\n");
        if !self.diff.is_empty() {
            text.push_str("\n\n");
            text.push_str(&self.diff);
        }
        text
    }

    fn title(&self) -> Option<String> {
        let verb = if self.verb == "undo" { "Undo" } else { "Redo" };
        match &*self.files {
            [only] => Some(format!("{verb} {}", only.path)),
            files => Some(format!("{verb} {}", count(files.len(), "file"))),
        }
    }
}

impl UndoReport {
    fn headline(&self) -> String {
        let what = match &*self.changes {
            [only] => format!("change {} ({}, {})", only.number, only.tool, only.ago),
            several => {
                let all: Vec<u64> = several.iter().map(|change| change.number).collect();
                format!("{} ({})", count(several.len(), "change"), numbers(&all))
            }
        };
        let files = count(self.files.len(), "file");
        match (self.preview, self.verb) {
            (true, verb) => format!("Would {verb} {what}, {files}:"),
            (false, "undo") => format!("Undid {what}, {files}:"),
            (false, _) => format!("Redid {what}, {files}:"),
        }
    }
}

/// Returns the accesses of the call, and its input with the selected changes spelled out, so that
/// an approval some days later still means the same changes.
///
/// # Errors
/// `not_found` when there is nothing to revert.
pub(crate) async fn foresee(
    direction: UndoDirection,
    input: UndoInput,
    journal: &ReadJournal,
    call: &CallInfo,
) -> Result<AccessLookupResult, ToolError> {
    let found = select(direction, &input, &call.session, journal).await?;
    let changes = found.iter().map(|change| change.number).collect();
    let UndoInput { path, preview, .. } = input;
    let pinned = UndoInput { changes, path, preview, ..UndoInput::default() };
    Ok(AccessLookupResult { accesses: touched(&found), input: Some(json!(pinned)) })
}

/// Returns the accesses of a call before its changes are known.
pub(crate) fn access() -> Vec<Access> {
    vec![Access::Any(Power::ReadStore)]
}

/// The capabilities of a call of undo or redo.
pub(crate) struct UndoContext {
    pub(crate) journal: ReadJournal,
    pub(crate) read: ReadFiles,
    pub(crate) write: WriteFiles,
    pub(crate) call: CallInfo,
}

impl UndoContext {
    /// Reverts changes.
    ///
    /// # Errors
    /// `conflict` when a file was changed elsewhere since; then nothing was changed.
    pub(crate) async fn revert(
        &self,
        direction: UndoDirection,
        input: &UndoInput,
        is_preview: bool,
    ) -> Result<UndoReport, ToolError> {
        let changes = select(direction, input, &self.call.session, &self.journal).await?;
        let plan = plan(&changes, &mut |path| self.read.path_state(path))?;
        let contents = Contents::of_plan(&plan, &self.journal).await?;
        if !plan.conflicts.is_empty() {
            return Err(self.refusal(direction, &plan, &contents));
        }
        let mut answer = self.answer(direction, &changes, &plan, &contents);
        answer.preview = is_preview;
        if is_preview {
            return Ok(answer);
        }
        answer.notes.extend(self.carry_out(direction, &changes, &plan, &contents).await?);
        if !plan.idle.is_empty() {
            self.journal.mark_undone(&plan.idle).await?;
        }
        Ok(answer)
    }

    async fn carry_out(
        &self,
        direction: UndoDirection,
        changes: &[JournalChange],
        plan: &UndoPlan,
        contents: &Contents,
    ) -> Result<Vec<String>, ToolError> {
        let mut done = 0;
        let error = match carry_out(plan, contents, &self.write, &mut done) {
            Ok(notes) => return Ok(notes),
            Err(error) => error,
        };
        if done == 0 || self.put_back(direction, changes).await.is_ok() {
            return Err(error);
        }
        let message = format!("{error}; the changes reverted before that stay reverted");
        Err(ToolError::new(ErrorKind::Partial, message)
            .hint("see what is left with `changes`, then continue one change at a time"))
    }

    /// Reverts the changes that this call has already made.
    async fn put_back(
        &self,
        direction: UndoDirection,
        changes: &[JournalChange],
    ) -> Result<(), ToolError> {
        let last = changes.first().map_or(0, |change| change.number);
        let own = ChangeQuery {
            call_id: Some(self.call.call_id.to_string()),
            session: Some(self.call.session.clone()),
            tool: Some(direction.name().to_owned()),
            limit: MAX_CHANGES,
            ..ChangeQuery::default()
        };
        let mut own = self.journal.find(&own).await?;
        own.retain(|change| change.number > last);
        let plan = plan(&own, &mut |path| self.read.path_state(path))?;
        let contents = Contents::of_plan(&plan, &self.journal).await?;
        carry_out(&plan, &contents, &self.write, &mut 0).map(|_| ())
    }

    fn answer(
        &self,
        direction: UndoDirection,
        changes: &[JournalChange],
        plan: &UndoPlan,
        contents: &Contents,
    ) -> UndoReport {
        let now = now_ms();
        let change = |change: &JournalChange| RevertedChange {
            number: change.number,
            tool: change.tool.clone(),
            call_id: change.call_id.clone(),
            at: time_of(change.at_ms),
            ago: ago(change.at_ms, now),
        };
        let mut diff = String::new();
        let files = self.files(plan, contents, &mut diff);
        let mut notes = Vec::new();
        if !plan.idle.is_empty() {
            let files = count(plan.idle.len(), "file");
            notes.push(format!(
                "{files} already had the earlier content, because the change was reverted by hand or never made"
            ));
        }
        let closed = changes.iter().map(|change| change.collected).sum::<u64>();
        if closed > 0 {
            notes.push(format!(
                "{closed} older files of these changes are no longer kept and were not changed"
            ));
        }
        UndoReport {
            changes: changes.iter().map(change).collect(),
            files,
            preview: false,
            notes,
            diff: diff::shortened(&diff, MAX_DIFF_LINES),
            verb: direction.name(),
        }
    }

    fn files(&self, plan: &UndoPlan, contents: &Contents, diff: &mut String) -> Vec<ChangedPath> {
        let mut files = Vec::new();
        for step in &plan.steps {
            match step {
                PlanStep::RestoreFiles(restores) => {
                    for restore in restores {
                        let (path, now, then) = (&restore.path, &restore.now, &restore.then);
                        let (file, difference) =
                            changed_path(contents, path, now, then, &self.read);
                        files.push(file);
                        diff.push_str(&difference);
                    }
                }
                PlanStep::Move { from, to, .. } => files.push(ChangedPath::moved(to, from)),
                PlanStep::MakeDirectory { path, .. } => {
                    files.push(directory(path, PathAction::Added));
                }
                PlanStep::RemoveDirectory { path, .. } => {
                    files.push(directory(path, PathAction::Deleted));
                }
                PlanStep::SetMode { .. } => {}
            }
        }
        files
    }

    fn refusal(&self, direction: UndoDirection, plan: &UndoPlan, contents: &Contents) -> ToolError {
        let line =
            |conflict: &UndoConflict| format!("`{}` {}", conflict.path.display(), conflict.why);
        let conflicts = &plan.conflicts;
        let mut words: Vec<String> = conflicts.iter().take(MAX_CONFLICTS).map(line).collect();
        let more = conflicts.len().saturating_sub(MAX_CONFLICTS);
        if more > 0 {
            words.push(format!("and {more} more"));
        }
        let message = format!("nothing was changed: {}", words.join("; "));
        let hint = format!(
            "{} the other files by path, or read the diff and edit the file yourself",
            direction.name()
        );
        let mut diff = String::new();
        for conflict in conflicts.iter().take(MAX_CONFLICTS) {
            let now = self.read.path_state(&conflict.path).unwrap_or(haft_core::PathState::Other);
            let (_, difference) =
                changed_path(contents, &conflict.path, &now, &conflict.then, &self.read);
            diff.push_str(&difference);
        }
        let error = ToolError::conflict(message).hint(hint);
        if diff.is_empty() {
            return error;
        }
        let shown = diff::shortened(&diff, MAX_DIFF_LINES);
        let verb = direction.name();
        error.with_partial(Reply::text(format!("{verb} would change:\n{shown}")))
    }

    /// Returns the text of a preview, for an approver. `None` when the journal would have to wait
    /// for a server, because a preview must not wait.
    pub(crate) fn preview(&self, direction: UndoDirection, input: &UndoInput) -> Option<String> {
        let answer = pin!(self.revert(direction, input, true));
        match answer.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(answer)) => Some(answer.text()),
            _ => None,
        }
    }
}

fn directory(path: &std::path::Path, action: PathAction) -> ChangedPath {
    let path = format!("{}/", path.display());
    ChangedPath { path, action, moved_from: None, added: None, removed: None }
}
