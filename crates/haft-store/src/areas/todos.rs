//! Todo lists in the store, one for each session of a workspace. A list is one row, so that it is
//! written completely or not at all.

use std::{path::Path, sync::Arc};

use haft_core::{BoxFuture, Todo, TodoList, Todos, ToolError, todos_changed};

use crate::{
    StoreLocation,
    engine::{
        clock::now_ms,
        value::{Value, searchable},
    },
};

const READ: &str = "SELECT version, items FROM todos WHERE workspace = $1 AND session = $2";
const WRITE: &str = "INSERT INTO todos (workspace, session, version, items, updated_ms) VALUES ($1, $2, 1, $3, $4) \
    ON CONFLICT (workspace, session) DO UPDATE SET version = todos.version + 1, items = excluded.items, \
    updated_ms = excluded.updated_ms RETURNING version";
const WRITE_FIRST: &str = "INSERT INTO todos (workspace, session, version, items, updated_ms) VALUES ($1, $2, 1, $3, $4) \
    ON CONFLICT (workspace, session) DO NOTHING RETURNING version";
const WRITE_NEXT: &str = "UPDATE todos SET version = version + 1, items = $1, updated_ms = $2 \
    WHERE workspace = $3 AND session = $4 AND version = $5 RETURNING version";

/// The todo lists of a workspace.
pub struct StoreTodos {
    location: Arc<StoreLocation>,
    workspace: String,
}

impl StoreTodos {
    /// Creates the todo lists of a workspace. Opens nothing.
    pub fn new(location: Arc<StoreLocation>, workspace: &Path) -> Self {
        Self { location, workspace: searchable(&workspace.to_string_lossy()) }
    }

    async fn find(&self, session: &str) -> Result<TodoList, ToolError> {
        let Some(store) = self.location.existing().await? else { return Ok(TodoList::default()) };
        let session = searchable(session);
        let rows =
            store.query(READ, &[Value::Text(&self.workspace), Value::Text(&session)]).await?;
        let Some(row) = rows.first() else { return Ok(TodoList::default()) };
        let todos = serde_json::from_str(row.text(1)?).map_err(|error| {
            ToolError::unavailable(format!("the todo list of `{session}` cannot be read: {error}"))
                .hint("write a new one with todo_write")
        })?;
        Ok(TodoList { version: row.number(0)?, todos })
    }

    async fn put(
        &self,
        session: &str,
        todos: &[Todo],
        expected: Option<u64>,
    ) -> Result<u64, ToolError> {
        let items = serde_json::to_string(todos).map_err(|error| {
            ToolError::internal(format!("todos cannot be written as JSON: {error}"))
        })?;
        // JSON escapes NUL characters, so the text fits a text column.
        let (session_key, now) = (searchable(session), Value::number(now_ms()));
        let (workspace, key, items) =
            (Value::Text(&self.workspace), Value::Text(&session_key), Value::Text(&items));
        let mut transaction = self.location.store().await?.begin().await?;
        let rows = match expected {
            None => transaction.query(WRITE, &[workspace, key, items, now]).await?,
            Some(0) => transaction.query(WRITE_FIRST, &[workspace, key, items, now]).await?,
            Some(version) => {
                let next = [items, now, workspace, key, Value::number(version)];
                transaction.query(WRITE_NEXT, &next).await?
            }
        };
        let Some(row) = rows.first() else {
            drop(transaction);
            let actual = self.find(session).await.map_or(0, |list| list.version);
            return Err(todos_changed(expected.unwrap_or_default(), actual));
        };
        let version = row.number(0)?;
        transaction.commit().await?;
        Ok(version)
    }
}

impl Todos for StoreTodos {
    fn read<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<TodoList, ToolError>> {
        Box::pin(self.find(session))
    }

    fn write<'a>(
        &'a self,
        session: &'a str,
        todos: &'a [Todo],
        expected_version: Option<u64>,
    ) -> BoxFuture<'a, Result<u64, ToolError>> {
        Box::pin(self.put(session, todos, expected_version))
    }
}
