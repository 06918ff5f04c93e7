//! `undo` and `redo` themselves: they differ in what they look for only.

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
    plan::{Conflict, Deed, Plan, plan},
    select::{Direction, MOST, TakeBack, select, touched},
    words::{Action, ChangedPath, ago, moment, numbers, told},
};
use crate::text::{count, diff};

/// A diff in an answer has at most so many lines.
const MOST_DIFF_LINES: usize = 200;
/// Of so many conflicts each is told.
const MOST_CONFLICTS: usize = 20;

/// What was taken back.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TakenBack {
    /// The changes that were taken back, newest first.
    pub changes: Vec<TakenBackChange>,
    /// What became of each file.
    pub files: Vec<ChangedPath>,
    /// True when nothing was done, because only the plan was asked for.
    pub preview: bool,
    /// What should be known besides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The difference, shortened.
    pub diff: String,
    #[serde(skip)]
    verb: &'static str,
}

/// A change that was taken back.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TakenBackChange {
    /// Its number.
    pub number: u64,
    /// The tool that made it.
    pub tool: String,
    /// The call that made it.
    pub call_id: String,
    /// When it was made.
    pub at: String,
    #[serde(skip)]
    ago: String,
}

impl Output for TakenBack {
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

impl TakenBack {
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

/// What was found, spelled out: so many days later, it is still that.
///
/// # Errors
/// When there is nothing to take back.
pub(crate) async fn foresee(
    direction: Direction,
    input: TakeBack,
    journal: &ReadJournal,
    call: &CallInfo,
) -> Result<AccessLookupResult, ToolError> {
    let found = select(direction, &input, &call.session, journal).await?;
    let changes = found.iter().map(|change| change.number).collect();
    let TakeBack { path, preview, .. } = input;
    let pinned = TakeBack { changes, path, preview, ..TakeBack::default() };
    Ok(AccessLookupResult { accesses: touched(&found), input: Some(json!(pinned)) })
}

/// What such a call touches before it is known what that is.
pub(crate) fn access() -> Vec<Access> {
    vec![Access::Any(Power::ReadStore)]
}

/// What undo and redo hold.
pub(crate) struct Hands {
    pub(crate) journal: ReadJournal,
    pub(crate) read: ReadFiles,
    pub(crate) write: WriteFiles,
    pub(crate) call: CallInfo,
}

impl Hands {
    /// Takes changes back.
    ///
    /// # Errors
    /// Of kind `conflict` when somebody changed a file since; then nothing was done.
    pub(crate) async fn take_back(
        &self,
        direction: Direction,
        input: &TakeBack,
        is_preview: bool,
    ) -> Result<TakenBack, ToolError> {
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
        direction: Direction,
        changes: &[JournalChange],
        plan: &Plan,
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
        let message = format!("{error}, and what was taken back before that stays taken back");
        Err(ToolError::new(ErrorKind::Partial, message)
            .hint("see what is left with `changes`, then go on one by one"))
    }

    /// Undoes what this very call did so far.
    async fn put_back(
        &self,
        direction: Direction,
        changes: &[JournalChange],
    ) -> Result<(), ToolError> {
        let last = changes.first().map_or(0, |change| change.number);
        let own = ChangeQuery {
            call_id: Some(self.call.call_id.to_string()),
            session: Some(self.call.session.clone()),
            tool: Some(direction.name().to_owned()),
            limit: MOST,
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
        direction: Direction,
        changes: &[JournalChange],
        plan: &Plan,
        contents: &Contents,
    ) -> TakenBack {
        let now = now_ms();
        let change = |change: &JournalChange| TakenBackChange {
            number: change.number,
            tool: change.tool.clone(),
            call_id: change.call_id.clone(),
            at: moment(change.at_ms),
            ago: ago(change.at_ms, now),
        };
        let mut diff = String::new();
        let files = self.files(plan, contents, &mut diff);
        let mut notes = Vec::new();
        if !plan.idle.is_empty() {
            let files = count(plan.idle.len(), "file");
            notes.push(format!(
                "{files} had been as before already, by hand or because the change was never made"
            ));
        }
        let closed = changes.iter().map(|change| change.collected).sum::<u64>();
        if closed > 0 {
            notes.push(format!(
                "{closed} older files of these changes are not kept any more and stay as they are"
            ));
        }
        TakenBack {
            changes: changes.iter().map(change).collect(),
            files,
            preview: false,
            notes,
            diff: diff::shortened(&diff, MOST_DIFF_LINES),
            verb: direction.name(),
        }
    }

    fn files(&self, plan: &Plan, contents: &Contents, diff: &mut String) -> Vec<ChangedPath> {
        let mut files = Vec::new();
        for deed in &plan.deeds {
            match deed {
                Deed::Files(steps) => {
                    for step in steps {
                        let (file, difference) =
                            told(contents, &step.path, &step.now, &step.then, &self.read);
                        files.push(file);
                        diff.push_str(&difference);
                    }
                }
                Deed::Move { from, to, .. } => files.push(ChangedPath::moved(to, from)),
                Deed::MakeDirectory { path, .. } => files.push(directory(path, Action::Added)),
                Deed::RemoveDirectory { path, .. } => files.push(directory(path, Action::Deleted)),
                Deed::SetMode { .. } => {}
            }
        }
        files
    }

    fn refusal(&self, direction: Direction, plan: &Plan, contents: &Contents) -> ToolError {
        let told = |conflict: &Conflict| format!("`{}` {}", conflict.path.display(), conflict.why);
        let conflicts = &plan.conflicts;
        let mut words: Vec<String> = conflicts.iter().take(MOST_CONFLICTS).map(told).collect();
        let more = conflicts.len().saturating_sub(MOST_CONFLICTS);
        if more > 0 {
            words.push(format!("and {more} more"));
        }
        let message = format!("nothing was changed: {}", words.join("; "));
        let hint = format!(
            "{} the other files by path, or see the difference and edit the file yourself",
            direction.name()
        );
        let mut diff = String::new();
        for conflict in conflicts.iter().take(MOST_CONFLICTS) {
            let now = self.read.path_state(&conflict.path).unwrap_or(haft_core::PathState::Other);
            let (_, difference) =
                self::told(contents, &conflict.path, &now, &conflict.then, &self.read);
            diff.push_str(&difference);
        }
        let error = ToolError::conflict(message).hint(hint);
        if diff.is_empty() {
            return error;
        }
        let shown = diff::shortened(&diff, MOST_DIFF_LINES);
        let verb = direction.name();
        error.with_partial(Reply::text(format!("What {verb} would do to them:\n{shown}")))
    }

    /// What would become of the files, for people who are asked. Nobody waits for a server here: then there is none.
    pub(crate) fn preview(&self, direction: Direction, input: &TakeBack) -> Option<String> {
        let answer = pin!(self.take_back(direction, input, true));
        match answer.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(answer)) => Some(answer.text()),
            _ => None,
        }
    }
}

fn directory(path: &std::path::Path, action: Action) -> ChangedPath {
    let path = format!("{}/", path.display());
    ChangedPath { path, action, moved_from: None, added: None, removed: None }
}
