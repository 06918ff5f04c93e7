//! `todo_read`: the todo list of a session.

use haft_core::{Output, ReadTodos, Todo, TodoList, ToolError};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::shown;

/// The session of the list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({}))]
pub struct TodoRead {
    /// The session whose list to read, of this workspace. Default: your own.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200), extend("x-aliases" = ["session", "sessionId"]))]
    #[schemars(extend("x-refers-to" = "session"))]
    pub session_id: Option<String>,
}

/// A todo list.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StoredTodos {
    /// Increases with every change; 0 when there is no list.
    pub version: u64,
    /// In order.
    #[schemars(extend("x-in-content" = true))]
    pub todos: Vec<Todo>,
}

impl Output for StoredTodos {
    fn text(&self) -> String {
        shown(&TodoList { version: self.version, todos: self.todos.clone() })
    }
}

/// Reads a todo list.
#[tool(idempotent, deadline = "30s", profiles(researcher, reviewer))]
pub async fn todo_read(input: TodoRead, todos: ReadTodos) -> Result<StoredTodos, ToolError> {
    let TodoList { version, todos } = todos.read(input.session_id.as_deref()).await?;
    Ok(StoredTodos { version, todos })
}
