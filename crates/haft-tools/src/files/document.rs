//! A text file that is about to change: its content, how it is written, and the change as people and models see it.

use std::path::{Path, PathBuf};

use haft_core::{
    Content, ErrorKind, ReadFiles, ToolError, WriteFiles, block_in_place,
    files::{
        ChangeTarget, CurrentState, FileMetadata, OpenFile, PlannedChange, Version, is_directory,
    },
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::text::{
    diff,
    encoding::{Form, Text},
};

/// A diff in an answer has at most so many lines: it tells what happened, the file tells the rest.
const MOST_DIFF_LINES: usize = 200;
/// A person who is asked may see more.
const MOST_PREVIEW_LINES: usize = 2_000;

/// A file's text and state.
pub(crate) struct Document {
    /// The real path, in words.
    pub(crate) path: String,
    pub(crate) text: String,
    form: Form,
    version: Version,
}

impl Document {
    /// Reads an open file. `expected` is the version that the caller decided on.
    ///
    /// # Errors
    /// Of kind `conflict` when the file is in another state, `unsupported` when it is no text.
    pub(crate) fn read(file: &dyn OpenFile, expected: Option<&str>) -> Result<Self, ToolError> {
        let facts = file.metadata();
        let bytes = file.read_whole()?;
        let version = checked_version(facts, &bytes, expected)?;
        let text = Text::decode(&bytes).ok_or_else(|| not_text(&facts.path))?;
        Ok(Self {
            path: facts.path.display().to_string(),
            text: text.text,
            form: text.form,
            version,
        })
    }

    /// Reads the file of a target that must be there and may be read.
    ///
    /// # Errors
    /// Of kind `not_found` when there is none.
    pub(crate) fn of_target(
        target: &ChangeTarget,
        read: &ReadFiles,
        expected: Option<&str>,
    ) -> Result<Self, ToolError> {
        read.check(&target.path)?;
        match &target.current {
            CurrentState::File(file) => Self::read(&**file, expected),
            CurrentState::Directory => Err(is_directory(&target.path)),
            // The disk knows the near names.
            CurrentState::Missing => match read.open_file(&target.path) {
                Ok(file) => Self::read(&*file, expected),
                Err(error) => Err(error),
            },
        }
    }

    /// The same file with another text, as bytes, and what is to be said about it.
    ///
    /// # Errors
    /// Of kind `unsupported` when the file's encoding does not have a character.
    pub(crate) fn rewritten(&self, text: &str) -> Result<(Content, Changed), ToolError> {
        let bytes = Content::from(encode(&self.path, self.form, text)?);
        let change = diff::unified(&self.path, &self.text, text);
        let changed = Changed {
            path: self.path.clone(),
            version: bytes.version().to_string(),
            previous_version: Some(self.version.to_string()),
            added: change.added,
            removed: change.removed,
            diff: diff::shortened(&change.diff, MOST_DIFF_LINES),
        };
        Ok((bytes, changed))
    }

    /// The change as a person sees it before agreeing.
    pub(crate) fn preview(&self, text: &str) -> String {
        preview(&self.path, &self.text, text)
    }

    pub(crate) fn form(&self) -> Form {
        self.form
    }

    pub(crate) fn version(&self) -> &Version {
        &self.version
    }
}

/// The change of a file as a person sees it before agreeing.
pub(crate) fn preview(path: &str, old: &str, new: &str) -> String {
    diff::shortened(&diff::unified(path, old, new).diff, MOST_PREVIEW_LINES)
}

/// What became of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Changed {
    /// The file, relative to the workspace.
    pub path: String,
    /// The tag of its new content, for `expected_version`.
    pub version: String,
    /// The tag of the content it had before; absent when it is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_version: Option<String>,
    /// Lines added.
    pub added: usize,
    /// Lines removed.
    pub removed: usize,
    /// The change as a unified diff, shortened when it is long.
    pub diff: String,
}

/// Changes one file. `plan` sees what is there and says what it is to hold, or nothing to leave it as it is, and what
/// to answer.
///
/// # Errors
/// The plan's own, or what hindered the change; then the file is as before.
pub(crate) fn change_one<T>(
    write: &WriteFiles,
    path: &PathBuf,
    mut plan: impl FnMut(&ChangeTarget) -> Result<(Option<Content>, T), ToolError>,
) -> Result<T, ToolError> {
    let mut answer = None;
    block_in_place(|| {
        write.change(std::slice::from_ref(path), &mut |targets| {
            let (bytes, planned) = plan(&targets[0])?;
            answer = Some(planned);
            let put = |bytes| PlannedChange::Put { target: 0, bytes, like: None };
            Ok(bytes.into_iter().map(put).collect())
        })
    })?;
    answer.ok_or_else(|| ToolError::internal("the change was not planned"))
}

/// The bytes of a text in a file's own encoding.
///
/// # Errors
/// Of kind `unsupported` when the encoding does not have a character, or would not be recognised in these bytes.
pub(crate) fn encode(path: &str, form: Form, text: &str) -> Result<Vec<u8>, ToolError> {
    let unsupported = |message: String, hint: &str| {
        ToolError::new(ErrorKind::Unsupported, message).hint(format!("{hint}; nothing was changed"))
    };
    let name = form.name();
    let bytes = form.encode(text).map_err(|problem| {
        let (character, line, number) =
            (problem.character, problem.line, u32::from(problem.character));
        let message = format!(
            "`{path}` is written in {name}, which has no `{character}` (U+{number:04X}, line {line} of the new text)"
        );
        unsupported(message, "write it without this character")
    })?;
    // Without a mark only the bytes tell the encoding, and the next reader would take them for something else.
    let is_told = form.is_told_by_itself() || Text::decode(&bytes).is_some_and(|t| t.text == text);
    if is_told {
        return Ok(bytes);
    }
    let message =
        format!("`{path}` is written in {name}, which could not be recognised in the new text");
    Err(unsupported(message, "convert the file to UTF-8 first, or delete it and write it anew"))
}

/// The version of a file's content, if that is the state that the caller decided on. Hashed once: the files are long, at times.
///
/// # Errors
/// Of kind `conflict` when it is not.
pub(crate) fn checked_version(
    facts: &FileMetadata,
    bytes: &[u8],
    expected: Option<&str>,
) -> Result<Version, ToolError> {
    let version = Version::of_content(bytes);
    let Some(expected) = expected else { return Ok(version) };
    let expected: Version = expected.parse().map_err(|_| {
        let message =
            format!("expected_version: `{expected}` is no version of `{}`", facts.path.display());
        ToolError::input(message)
            .hint("take the version from the answer of read, stat or the last change")
    })?;
    if expected == version || expected.fits(facts, bytes) {
        return Ok(version);
    }
    let message = format!(
        "`{}` is in version {version}, not in the expected {expected}",
        facts.path.display()
    );
    Err(ToolError::conflict(message).hint("read it again, then decide on the change anew"))
}

pub(crate) fn not_text(path: &Path) -> ToolError {
    let message = format!("`{}` is a binary file", path.display());
    ToolError::new(ErrorKind::Unsupported, message)
        .hint("only text is edited; use a program that knows the format")
}
