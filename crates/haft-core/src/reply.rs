//! What a tool gives back: text for the model, text for people, typed data, attachments. The gate turns it into
//! the outcome that travels.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Schema, ToolError};

/// The result of a call that worked.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// A few words for lists and headers; the gate takes the tool's title when there is none.
    pub title: Option<String>,
    /// What the model reads.
    pub content: String,
    /// What a person reads, when that differs.
    pub display: Option<String>,
    /// The typed output, in the form of the output schema.
    pub data: Option<Value>,
    /// FileMetadata about the call for programs: counts, flags, versions.
    pub metadata: Map<String, Value>,
    /// Files that go along: images, documents.
    pub attachments: Vec<Attachment>,
}

impl Reply {
    /// A reply that is only text.
    pub fn text(content: impl Into<String>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }

    /// Sets the title.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Adds one fact for programs.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.to_owned(), value.into());
        self
    }
}

/// A file that travels with a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attachment {
    /// The media type, `image/png`.
    pub mime: String,
    /// A name for people.
    pub name: String,
    /// The bytes in base64.
    pub data: String,
}

/// A typed result: its fields are the data, its text is what the model reads.
pub trait Output: Serialize + JsonSchema + Send {
    /// What the model reads. Prose or lines, not a dump of the fields.
    fn text(&self) -> String;

    /// A few words for lists and headers.
    fn title(&self) -> Option<String> {
        None
    }

    /// What a person reads, when that differs from the text.
    fn display(&self) -> Option<String> {
        None
    }

    /// Files that go along.
    fn attachments(&self) -> Vec<Attachment> {
        Vec::new()
    }

    /// The text, once nothing else is asked of the output: whoever holds one need not copy it.
    fn take_text(&mut self) -> String {
        self.text()
    }

    /// The same for the files.
    fn take_attachments(&mut self) -> Vec<Attachment> {
        self.attachments()
    }
}

/// What a tool function may return: a `Result` of an [`Output`], or of a [`Reply`] it put together itself.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "not a `Result<impl Output, ToolError>`",
    note = "return `Result<T, ToolError>` where `T` implements `haft::Output` (and derives Serialize and JsonSchema), \
            or `Result<Reply, ToolError>`"
)]
pub trait Return: Send {
    /// The schema of the data, if it is typed.
    fn schema() -> Option<Schema>;

    /// The reply in its general form.
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
            ToolError::internal(format!("the output cannot be written as JSON: {error}"))
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
