//! The requirements for the first argument of a tool.

use std::borrow::Cow;

use schemars::{JsonSchema, SchemaGenerator, json_schema};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Schema, ToolError, call, schema::PATH};

/// The input of a tool: a struct that can be deserialized from JSON and has a schema.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the input of a tool",
    label = "the first argument is the input",
    note = "the input is a struct of yours that derives `serde::Deserialize` and `schemars::JsonSchema`; a tool that \
            takes nothing has an empty one, and capabilities come after it"
)]
pub trait ToolInput: Sized {
    /// The schema of the arguments.
    fn schema() -> Schema;

    /// Decodes an input that the gate has checked against its schema.
    ///
    /// # Errors
    /// Names the field and the expected value.
    fn decode(value: &Value) -> Result<Self, ToolError>;
}

// The bounds are here and not on the trait: the compiler would name a missing supertrait instead of
// the message above.
#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema + Send + 'static> ToolInput for T {
    fn schema() -> Schema {
        Schema::of::<Self>()
    }

    fn decode(value: &Value) -> Result<Self, ToolError> {
        call::decode(value)
    }
}

/// The schema of a field that names a file or directory: `#[schemars(with =
/// "haft_core::PathInput")]`. An empty path is refused: it is usually a mistake, and tools would
/// take it for the workspace.
pub enum PathInput {}

impl JsonSchema for PathInput {
    fn schema_name() -> Cow<'static, str> {
        "Path".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> schemars::Schema {
        json_schema!({"type": "string", "minLength": 1, PATH: true})
    }
}
