//! A text file to be changed: its content, its encoding, and the change as a diff.

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
    encoding::{Text, TextEncoding},
};

/// Maximum number of diff lines in a result; the file itself has the rest.
const MAX_DIFF_LINES: usize = 200;
/// Maximum number of diff lines in a preview for an approver.
const MAX_PREVIEW_LINES: usize = 2_000;

/// The text and state of a file.
pub(crate) struct EditableFile {
    /// The real path, for display.
    pub(crate) path: String,
    pub(crate) text: String,
    form: TextEncoding,
    version: Version,
}

impl EditableFile {
    /// Reads an open file. `expected` is the version that the caller has seen.
    ///
    /// # Errors
    /// `conflict` when the file has another version, `unsupported` when it is not text.
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

    /// Reads the file of a target, which must exist and be readable.
    ///
    /// # Errors
    /// `not_found` when the file does not exist.
    pub(crate) fn of_target(
        target: &ChangeTarget,
        read: &ReadFiles,
        expected: Option<&str>,
    ) -> Result<Self, ToolError> {
        read.check(&target.path)?;
        match &target.current {
            CurrentState::File(file) => Self::read(&**file, expected),
            CurrentState::Directory => Err(is_directory(&target.path)),
            // Opening the missing file returns the error that names similar paths.
            CurrentState::Missing => match read.open_file(&target.path) {
                Ok(file) => Self::read(&*file, expected),
                Err(error) => Err(error),
            },
        }
    }

    /// Encodes another text for the same file, and describes the change.
    ///
    /// # Errors
    /// `unsupported` when the encoding of the file has no code for a character.
    pub(crate) fn rewritten(&self, text: &str) -> Result<(Content, FileChangeReport), ToolError> {
        let bytes = Content::from(encode(&self.path, self.form, text)?);
        let change = diff::unified(&self.path, &self.text, text);
        let changed = FileChangeReport {
            path: self.path.clone(),
            version: bytes.version().to_string(),
            previous_version: Some(self.version.to_string()),
            added: change.added,
            removed: change.removed,
            diff: diff::shortened(&change.diff, MAX_DIFF_LINES),
        };
        Ok((bytes, changed))
    }

    /// Returns the diff that an approver sees.
    pub(crate) fn preview(&self, text: &str) -> String {
        preview(&self.path, &self.text, text)
    }

    pub(crate) fn form(&self) -> TextEncoding {
        self.form
    }

    pub(crate) fn version(&self) -> &Version {
        &self.version
    }
}

/// Returns the diff of one file that an approver sees.
pub(crate) fn preview(path: &str, old: &str, new: &str) -> String {
    diff::shortened(&diff::unified(path, old, new).diff, MAX_PREVIEW_LINES)
}

/// The change of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileChangeReport {
    /// The file, relative to the workspace.
    pub path: String,
    /// Version tag of the new content, for `expected_version`.
    pub version: String,
    /// Version tag of the previous content; absent for a new file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_version: Option<String>,
    /// Lines added.
    pub added: usize,
    /// Lines removed.
    pub removed: usize,
    /// The change as a unified diff, truncated when it is long.
    pub diff: String,
}

/// Changes one file. `plan` gets the current file and returns its new content, or `None` to leave
/// it unchanged, and the result.
///
/// # Errors
/// The error of `plan`, or of the change; then the file is unchanged.
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

/// Encodes a text in the encoding of a file.
///
/// # Errors
/// `unsupported` when the encoding has no code for a character, or when the bytes would not be
/// recognised as this encoding.
pub(crate) fn encode(path: &str, form: TextEncoding, text: &str) -> Result<Vec<u8>, ToolError> {
    let unsupported = |message: String, hint: &str| {
        ToolError::new(ErrorKind::Unsupported, message).hint(format!("{hint}; nothing was changed"))
    };
    let name = form.name();
    let bytes = form.encode(text).map_err(|error| {
        let (character, line, number) = (error.character, error.line, u32::from(error.character));
        let message = format!(
            "`{path}` has the encoding {name}, which has no `{character}` (U+{number:04X}, line {line} of the new text)"
        );
        unsupported(message, "leave out this character")
    })?;
    // Without a byte order mark only the bytes show the encoding, and a reader could guess wrong.
    let is_recognised =
        form.is_self_describing() || Text::decode(&bytes).is_some_and(|t| t.text == text);
    if is_recognised {
        return Ok(bytes);
    }
    let message =
        format!("`{path}` has the encoding {name}, which could not be recognised in the new text");
    Err(unsupported(message, "convert the file to UTF-8 first, or delete it and write it again"))
}

/// Returns the version of a file's content if it is the expected one. The content is hashed only
/// once, because files can be long.
///
/// # Errors
/// `conflict` when the version differs.
pub(crate) fn checked_version(
    facts: &FileMetadata,
    bytes: &[u8],
    expected: Option<&str>,
) -> Result<Version, ToolError> {
    let version = Version::of_content(bytes);
    let Some(expected) = expected else { return Ok(version) };
    let expected: Version = expected.parse().map_err(|_| {
        let message = format!(
            "expected_version: `{expected}` is not a version of `{}`",
            facts.path.display()
        );
        ToolError::input(message)
            .hint("use the version that read, stat or the last change returned")
    })?;
    if expected == version || expected.fits(facts, bytes) {
        return Ok(version);
    }
    let message =
        format!("`{}` has version {version}, not the expected {expected}", facts.path.display());
    Err(ToolError::conflict(message).hint("read it again and adapt the change"))
}

pub(crate) fn not_text(path: &Path) -> ToolError {
    let message = format!("`{}` is a binary file", path.display());
    ToolError::new(ErrorKind::Unsupported, message)
        .hint("only text can be edited; use a program that knows the format")
}
