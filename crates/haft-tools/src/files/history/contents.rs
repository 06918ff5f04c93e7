//! The contents that a plan needs, from the journal or the disk, and diffs between them.

use std::{collections::HashMap, path::Path};

use haft_core::{ContentHash, PathState, ReadFiles, ReadJournal, ToolError};

use super::plan::{PlanStep, UndoPlan};
use crate::text::{
    diff::{self, UnifiedDiff},
    encoding::Text,
};

/// Maximum size of a text that is compared line by line.
const MAX_COMPARED_BYTES: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct Contents(HashMap<ContentHash, Vec<u8>>);

impl Contents {
    /// Reads every content that a plan restores.
    ///
    /// # Errors
    /// The error of the journal, when it cannot be read.
    pub(crate) async fn of_plan(plan: &UndoPlan, journal: &ReadJournal) -> Result<Self, ToolError> {
        let mut contents = Self::default();
        for step in &plan.steps {
            let PlanStep::RestoreFiles(restores) = step else { continue };
            for restore in restores {
                contents.fetch(&restore.then, journal).await?;
            }
        }
        for conflict in &plan.conflicts {
            contents.fetch(&conflict.then, journal).await?;
        }
        Ok(contents)
    }

    pub(crate) async fn fetch(
        &mut self,
        state: &PathState,
        journal: &ReadJournal,
    ) -> Result<(), ToolError> {
        let PathState::File { hash: Some(hash), .. } = state else { return Ok(()) };
        if !self.0.contains_key(hash)
            && let Some(content) = journal.content(*hash).await?
        {
            self.0.insert(*hash, content);
        }
        Ok(())
    }

    /// Returns a content that the plan needs.
    ///
    /// # Errors
    /// `not_found` when the journal no longer has it.
    pub(crate) fn kept(&self, path: &Path, hash: ContentHash) -> Result<&[u8], ToolError> {
        self.0.get(&hash).map(Vec::as_slice).ok_or_else(|| {
            let message = format!("the content of `{}` is no longer kept", path.display());
            ToolError::not_found(message).hint("nothing was changed; revert a newer change")
        })
    }

    fn get(&self, state: &PathState) -> Option<&[u8]> {
        match state {
            PathState::File { hash: Some(hash), .. } => self.0.get(hash).map(Vec::as_slice),
            PathState::Missing => Some(&[]),
            _ => None,
        }
    }

    /// Returns the diff between two states of a path. `None` when one of them is not text, too long
    /// or not known.
    pub(crate) fn difference(
        &self,
        path: &Path,
        from: &PathState,
        to: &PathState,
        read: &ReadFiles,
    ) -> Option<UnifiedDiff> {
        let (old, new) = (self.text(path, from, read)?, self.text(path, to, read)?);
        Some(diff::unified(&path.display().to_string(), &old, &new))
    }

    /// Returns a text from the journal, or from the disk if the file still has that content.
    fn text(&self, path: &Path, state: &PathState, read: &ReadFiles) -> Option<String> {
        if let Some(bytes) = self.get(state) {
            return decoded(bytes);
        }
        let PathState::File { hash: Some(hash), size, .. } = state else { return None };
        if *size > MAX_COMPARED_BYTES as u64 {
            return None;
        }
        let bytes = read.open_file(path).ok()?.read_whole().ok()?;
        if ContentHash::of(&bytes) == *hash { decoded(&bytes) } else { None }
    }
}

fn decoded(bytes: &[u8]) -> Option<String> {
    if bytes.len() > MAX_COMPARED_BYTES {
        return None;
    }
    Text::decode(bytes).map(|text| text.text)
}
