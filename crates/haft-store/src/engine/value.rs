//! Parameters and rows of statements, the same for both engines.

use haft_core::ToolError;

/// A parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Integer(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
    Nothing,
}

impl<'a> Value<'a> {
    /// An unsigned number. Numbers that do not fit become the maximum.
    pub(crate) fn number(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }

    pub(crate) fn maybe(text: Option<&'a str>) -> Self {
        text.map_or(Self::Nothing, Self::Text)
    }
}

/// Replaces NUL characters, which PostgreSQL cannot store.
pub(crate) fn searchable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// A value in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
    Nothing,
}

impl Cell {
    pub(crate) fn as_value(&self) -> Value<'_> {
        match self {
            Self::Integer(number) => Value::Integer(*number),
            Self::Text(text) => Value::Text(text),
            Self::Bytes(bytes) => Value::Bytes(bytes),
            Self::Nothing => Value::Nothing,
        }
    }

    /// Approximate size in memory.
    pub(crate) fn weight(&self) -> usize {
        16 + match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Integer(_) | Self::Nothing => 0,
        }
    }
}

/// A row of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row(pub(crate) Vec<Cell>);

impl Row {
    pub(crate) fn integer(&self, column: usize) -> Result<i64, ToolError> {
        match self.0.get(column) {
            Some(Cell::Integer(number)) => Ok(*number),
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
            Some(Cell::Text(text)) => Ok(Some(text)),
            Some(Cell::Nothing) => Ok(None),
            other => Err(unexpected(column, other)),
        }
    }

    pub(crate) fn bytes(&self, column: usize) -> Result<&[u8], ToolError> {
        match self.0.get(column) {
            Some(Cell::Bytes(bytes)) => Ok(bytes),
            other => Err(unexpected(column, other)),
        }
    }

    pub(crate) fn maybe_bytes(&self, column: usize) -> Result<Option<&[u8]>, ToolError> {
        match self.0.get(column) {
            Some(Cell::Nothing) => Ok(None),
            _ => self.bytes(column).map(Some),
        }
    }

    pub(crate) fn maybe_number(&self, column: usize) -> Result<Option<u64>, ToolError> {
        match self.0.get(column) {
            Some(Cell::Nothing) => Ok(None),
            _ => self.number(column).map(Some),
        }
    }
}

/// Reports a value of the wrong type. SQLite stores any value in any column, so another program may
/// have written anything.
fn unexpected(column: usize, found: Option<&Cell>) -> ToolError {
    let found = match found {
        Some(Cell::Integer(_)) => "another number",
        Some(Cell::Text(_)) => "a text",
        Some(Cell::Bytes(_)) => "bytes",
        Some(Cell::Nothing) | None => "nothing",
    };
    ToolError::unavailable(format!("the store holds {found} in column {column} of a result"))
        .hint("check the store with `haft store check`")
}
