//! The contents that a plan needs, from the journal, and what is on the disk, as texts to compare.

use std::{collections::HashMap, path::Path};

use haft_core::{ContentHash, PathState, ReadFiles, ReadJournal, ToolError};

use super::plan::{Deed, Plan};
use crate::text::{
    diff::{self, Change},
    encoding::Text,
};

/// Longer texts are not compared line by line.
const LONGEST_COMPARED: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct Contents(HashMap<ContentHash, Vec<u8>>);

impl Contents {
    /// Everything that a plan would put somewhere.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub(crate) async fn of_plan(plan: &Plan, journal: &ReadJournal) -> Result<Self, ToolError> {
        let mut contents = Self::default();
        for deed in &plan.deeds {
            let Deed::Files(steps) = deed else { continue };
            for step in steps {
                contents.fetch(&step.then, journal).await?;
            }
        }
        for conflict in &plan.conflicts {
            contents.fetch(&conflict.then, journal).await?;
        }
        Ok(contents)
    }

    pub(crate) async fn fetch(
        &mut self,
        image: &PathState,
        journal: &ReadJournal,
    ) -> Result<(), ToolError> {
        let PathState::File { hash: Some(hash), .. } = image else { return Ok(()) };
        if !self.0.contains_key(hash)
            && let Some(content) = journal.content(*hash).await?
        {
            self.0.insert(*hash, content);
        }
        Ok(())
    }

    /// What must be there, or nothing is done.
    pub(crate) fn kept(&self, path: &Path, hash: ContentHash) -> Result<&[u8], ToolError> {
        self.0.get(&hash).map(Vec::as_slice).ok_or_else(|| {
            let message = format!("what was in `{}` is not kept any more", path.display());
            ToolError::not_found(message).hint("nothing was changed; take back something newer")
        })
    }

    fn get(&self, image: &PathState) -> Option<&[u8]> {
        match image {
            PathState::File { hash: Some(hash), .. } => self.0.get(hash).map(Vec::as_slice),
            PathState::Missing => Some(&[]),
            _ => None,
        }
    }

    /// From one image to another as lines. `None` when one of them is no text, too long or not known.
    pub(crate) fn difference(
        &self,
        path: &Path,
        from: &PathState,
        to: &PathState,
        read: &ReadFiles,
    ) -> Option<Change> {
        let (old, new) = (self.text(path, from, read)?, self.text(path, to, read)?);
        Some(diff::unified(&path.display().to_string(), &old, &new))
    }

    /// From the journal, or from the disk if the file is still the one that is meant.
    fn text(&self, path: &Path, image: &PathState, read: &ReadFiles) -> Option<String> {
        if let Some(bytes) = self.get(image) {
            return decoded(bytes);
        }
        let PathState::File { hash: Some(hash), size, .. } = image else { return None };
        if *size > LONGEST_COMPARED as u64 {
            return None;
        }
        let bytes = read.open_file(path).ok()?.read_whole().ok()?;
        if ContentHash::of(&bytes) == *hash { decoded(&bytes) } else { None }
    }
}

fn decoded(bytes: &[u8]) -> Option<String> {
    if bytes.len() > LONGEST_COMPARED {
        return None;
    }
    Text::decode(bytes).map(|text| text.text)
}
