//! Parameters and rows of statements, the same for both engines.

use haft_core::ToolError;

/// A parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Integer(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
    Null,
}

impl<'a> Value<'a> {
    /// An unsigned number. Numbers that do not fit become the maximum.
    pub(crate) fn number(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }

    pub(crate) fn maybe(text: Option<&'a str>) -> Self {
        text.map_or(Self::Null, Self::Text)
    }
}

/// Replaces NUL characters, which PostgreSQL cannot store.
pub(crate) fn searchable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// A value in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SqlCell {
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
    Null,
}

impl SqlCell {
    pub(crate) fn as_value(&self) -> Value<'_> {
        match self {
            Self::Integer(number) => Value::Integer(*number),
            Self::Text(text) => Value::Text(text),
            Self::Bytes(bytes) => Value::Bytes(bytes),
            Self::Null => Value::Null,
        }
    }

    /// Approximate size in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        16 + match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Integer(_) | Self::Null => 0,
        }
    }
}

/// A row of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SqlRow(pub(crate) Vec<SqlCell>);

impl SqlRow {
    pub(crate) fn integer(&self, column: usize) -> Result<i64, ToolError> {
        match self.0.get(column) {
            Some(SqlCell::Integer(number)) => Ok(*number),
            other => Err(unexpected(column, other)),
        }
    }

    pub(crate) fn number(&self, column: usize) -> Result<u64, ToolError> {
        let number = self.integer(column)?;
        u64::try_from(number).map_err(|_| unexpected(column, self.0.get(column)))
    }

    pub(crate) fn text(&self, column: usize) -> Result<&str, ToolError> {
        self.maybe_text(column)?.ok_or_else(|| unexpected(column, None))
    }

    pub(crate) fn maybe_text(&self, column: usize) -> Result<Option<&str>, ToolError> {
        match self.0.get(column) {
            Some(SqlCell::Text(text)) => Ok(Some(text)),
            Some(SqlCell::Null) => Ok(None),
            other => Err(unexpected(column, other)),
        }
    }

    pub(crate) fn bytes(&self, column: usize) -> Result<&[u8], ToolError> {
        match self.0.get(column) {
            Some(SqlCell::Bytes(bytes)) => Ok(bytes),
            other => Err(unexpected(column, other)),
        }
    }

    pub(crate) fn maybe_bytes(&self, column: usize) -> Result<Option<&[u8]>, ToolError> {
        match self.0.get(column) {
            Some(SqlCell::Null) => Ok(None),
            _ => self.bytes(column).map(Some),
        }
    }

    pub(crate) fn maybe_number(&self, column: usize) -> Result<Option<u64>, ToolError> {
        match self.0.get(column) {
            Some(SqlCell::Null) => Ok(None),
            _ => self.number(column).map(Some),
        }
    }
}

/// Reports a value of the wrong type. SQLite stores any value in any column, so another program may
/// have written anything.
fn unexpected(column: usize, found: Option<&SqlCell>) -> ToolError {
    let found = match found {
        Some(SqlCell::Integer(_)) => "another number",
        Some(SqlCell::Text(_)) => "a text",
        Some(SqlCell::Bytes(_)) => "bytes",
        Some(SqlCell::Null) | None => "nothing",
    };
    ToolError::unavailable(format!("the store holds {found} in column {column} of a result"))
        .hint("check the store with `haft store check`")
}
