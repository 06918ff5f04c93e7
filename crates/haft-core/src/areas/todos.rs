//! Todo lists: their content, their store, and the capabilities to read and write them. Versions
//! prevent two writers from losing each other's changes.

use std::{collections::HashMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{BoxFuture, Call, Capability, Need, Power, Redactor, ToolError};

/// A store with one list for each session.
pub trait Todos: Send + Sync {
    /// Returns the list of a session; an empty one of version 0 if there is none.
    fn read<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<TodoList, ToolError>>;

    /// Replaces the list and returns its new version.
    ///
    /// # Errors
    /// Of kind `conflict` if `expected_version` is given and is not the current version; then
    /// nothing has changed.
    fn write<'a>(
        &'a self,
        session: &'a str,
        todos: &'a [Todo],
        expected_version: Option<u64>,
    ) -> BoxFuture<'a, Result<u64, ToolError>>;
}

/// The todo list of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TodoList {
    /// Grows with every change; 0 if there was none.
    pub version: u64,
    /// The todos, in the order they were given.
    pub todos: Vec<Todo>,
}

/// One todo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Todo {
    /// The id of the todo in the list.
    pub id: String,
    /// The task.
    pub content: String,
    /// The progress of the todo.
    pub status: TodoStatus,
    /// The priority of the todo.
    pub priority: TodoPriority,
}

/// The progress of a todo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "doc comments would give each variant its own schema")]
pub enum TodoStatus {
    #[default]
    Pending,
    InProgress,
    Completed,
    Cancelled,
}

/// The priority of a todo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "doc comments would give each variant its own schema")]
pub enum TodoPriority {
    High,
    #[default]
    Medium,
    Low,
}

/// The error for a version mismatch. For implementations of [`Todos`].
pub fn todos_changed(expected: u64, actual: u64) -> ToolError {
    ToolError::conflict(format!(
        "the todo list is at version {actual}, not {expected}: it was changed by another writer"
    ))
    .hint("read it with todo_read, apply your changes to it and write it with that version")
}

/// Lists in memory, lost with the process.
#[derive(Default)]
pub struct MemoryTodos(Mutex<HashMap<String, TodoList>>);

impl MemoryTodos {
    fn lists(&self) -> MutexGuard<'_, HashMap<String, TodoList>> {
        self.0.lock()
    }
}

impl Todos for MemoryTodos {
    fn read<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<TodoList, ToolError>> {
        let list = self.lists().get(session).cloned().unwrap_or_default();
        Box::pin(std::future::ready(Ok(list)))
    }

    fn write<'a>(
        &'a self,
        session: &'a str,
        todos: &'a [Todo],
        expected_version: Option<u64>,
    ) -> BoxFuture<'a, Result<u64, ToolError>> {
        let mut lists = self.lists();
        let list = lists.entry(session.to_owned()).or_default();
        let written = match expected_version {
            Some(expected) if expected != list.version => {
                Err(todos_changed(expected, list.version))
            }
            _ => {
                list.version += 1;
                list.todos = todos.to_vec();
                Ok(list.version)
            }
        };
        Box::pin(std::future::ready(written))
    }
}

/// The capability to read todo lists.
#[derive(Clone)]
pub struct ReadTodos {
    todos: Arc<dyn Todos>,
    session: String,
}

impl ReadTodos {
    /// Reads in the name of a session, for calling a tool's function directly.
    pub fn unchecked(todos: Arc<dyn Todos>, session: &str) -> Self {
        Self { todos, session: session.to_owned() }
    }

    /// Returns the list of a session, or of the caller's session if none is named.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn read(&self, session: Option<&str>) -> Result<TodoList, ToolError> {
        self.todos.read(session.unwrap_or(&self.session)).await
    }
}

#[diagnostic::do_not_recommend]
impl Capability for ReadTodos {
    const NEED: Need = Need::required(Power::ReadStore);

    fn from_call(call: &Call) -> Result<Self, ToolError> {
        Ok(Self { todos: call.service()?, session: call.info().session.clone() })
    }
}

/// The capability to change the todo list of the caller's session.
#[derive(Clone)]
pub struct WriteTodos {
    todos: Arc<dyn Todos>,
    session: String,
    redactor: Redactor,
}

impl WriteTodos {
    /// Writes in the name of a session, for calling a tool's function directly.
    pub fn unchecked(todos: Arc<dyn Todos>, session: &str) -> Self {
        Self { todos, session: session.to_owned(), redactor: Redactor::default() }
    }

    /// As [`Todos::write`], without secrets.
    ///
    /// # Errors
    /// Of kind `conflict` if `expected_version` is not the current version.
    pub async fn write(
        &self,
        mut todos: Vec<Todo>,
        expected_version: Option<u64>,
    ) -> Result<TodoList, ToolError> {
        for todo in &mut todos {
            todo.content = self.redactor.text(&todo.content).into_owned();
        }
        let version = self.todos.write(&self.session, &todos, expected_version).await?;
        Ok(TodoList { version, todos })
    }
}

#[diagnostic::do_not_recommend]
impl Capability for WriteTodos {
    const NEED: Need = Need::required(Power::WriteStore);

    fn from_call(call: &Call) -> Result<Self, ToolError> {
        let redactor = call.sender.redactor.clone();
        Ok(Self { todos: call.service()?, session: call.info().session.clone(), redactor })
    }
}
