//! The result of a tool: text for the model, text for people, typed data, attachments. The gate
//! turns it into an outcome.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Schema, ToolError};

/// The result of a call that succeeded.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// A short title for lists and headers; the default is the tool's title.
    pub title: Option<String>,
    /// The text for the model.
    pub content: String,
    /// The text for people, if it differs.
    pub display: Option<String>,
    /// The typed output, matching the output schema.
    pub data: Option<Value>,
    /// Data about the call for programs: counts, flags, versions.
    pub metadata: Map<String, Value>,
    /// Attached files: images, documents.
    pub attachments: Vec<Attachment>,
}

impl Reply {
    /// A reply with only a text.
    pub fn text(content: impl Into<String>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }

    /// Sets the title.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Adds one metadata value for programs.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.to_owned(), value.into());
        self
    }
}

/// An attached file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attachment {
    /// The media type, `image/png`.
    pub mime: String,
    /// A name for people.
    pub name: String,
    /// The bytes in base64.
    pub data: String,
}

/// A typed result: its fields are the data, its text is for the model.
pub trait Output: Serialize + JsonSchema + Send {
    /// The text for the model: prose or lines, not a dump of the fields.
    fn text(&self) -> String;

    /// A short title for lists and headers.
    fn title(&self) -> Option<String> {
        None
    }

    /// The text for people, if it differs.
    fn display(&self) -> Option<String> {
        None
    }

    /// Attached files.
    fn attachments(&self) -> Vec<Attachment> {
        Vec::new()
    }

    /// Takes the text when nothing else is needed from the output, so that a stored text need not
    /// be copied.
    fn take_text(&mut self) -> String {
        self.text()
    }

    /// Takes the attached files in the same way.
    fn take_attachments(&mut self) -> Vec<Attachment> {
        self.attachments()
    }
}

/// The return types of a tool function: a `Result` of an [`Output`], or of a [`Reply`] that the
/// tool built itself.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "not a `Result<impl Output, ToolError>`",
    note = "return `Result<T, ToolError>` where `T` implements `haft::Output` (and derives Serialize and JsonSchema), \
            or `Result<Reply, ToolError>`"
)]
pub trait Return: Send {
    /// The schema of the data, if it is typed.
    fn schema() -> Option<Schema>;

    /// Converts the result into a reply.
    ///
    /// # Errors
    /// The tool's own error, or an internal one when the output cannot be serialised.
    fn into_reply(self) -> Result<Reply, ToolError>;
}

#[diagnostic::do_not_recommend]
impl<T: Output, E: Into<ToolError> + Send> Return for Result<T, E> {
    fn schema() -> Option<Schema> {
        Some(Schema::of_output::<T>())
    }

    fn into_reply(self) -> Result<Reply, ToolError> {
        let mut output = self.map_err(Into::into)?;
        let data = serde_json::to_value(&output).map_err(|error| {
            ToolError::internal(format!("the output cannot be serialized as JSON: {error}"))
                .caused_by(error)
        })?;
        Ok(Reply {
            title: output.title(),
            display: output.display(),
            content: output.take_text(),
            data: Some(data),
            metadata: Map::new(),
            attachments: output.take_attachments(),
        })
    }
}

#[diagnostic::do_not_recommend]
impl<E: Into<ToolError> + Send> Return for Result<Reply, E> {
    fn schema() -> Option<Schema> {
        None
    }

    fn into_reply(self) -> Result<Reply, ToolError> {
        self.map_err(Into::into)
    }
}
