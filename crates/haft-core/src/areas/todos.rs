//! The list of what a session still has to do: what it is made of, where it is kept, and the power to read and write it.
//! Versions keep two writers from losing each other's changes.

use std::{collections::HashMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{BoxFuture, Call, Capability, Need, Power, Redactor, ToolError};

/// Keeps one list for each session.
pub trait Todos: Send + Sync {
    /// The list of a session; an empty one of version 0 when there is none.
    fn read<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<TodoList, ToolError>>;

    /// Puts a list in the place of the one that is there, and returns its version.
    ///
    /// # Errors
    /// Of kind `conflict` when `expected_version` is given and is not the version that is there; then nothing has changed.
    fn write<'a>(
        &'a self,
        session: &'a str,
        todos: &'a [Todo],
        expected_version: Option<u64>,
    ) -> BoxFuture<'a, Result<u64, ToolError>>;
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TodoList {
    /// Grows with every change; 0 when there was none.
    pub version: u64,
    /// In the order that they were given.
    pub todos: Vec<Todo>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Todo {
    /// Its name in the list.
    pub id: String,
    /// What is to be done.
    pub content: String,
    /// How far it is.
    pub status: TodoStatus,
    /// How much it matters.
    pub priority: TodoPriority,
}

/// How far a todo is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "a doc comment would make a schema of its own of each variant")]
pub enum TodoStatus {
    #[default]
    Pending,
    InProgress,
    Completed,
    Cancelled,
}

/// How much a todo matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "a doc comment would make a schema of its own of each variant")]
pub enum TodoPriority {
    High,
    #[default]
    Medium,
    Low,
}

/// The list has another version than a writer thought. For those who implement [`Todos`].
pub fn todos_changed(expected: u64, actual: u64) -> ToolError {
    ToolError::conflict(format!(
        "the todo list is at version {actual}, not {expected}: somebody else has changed it"
    ))
    .hint("read it with todo_read, put your changes into it and write it with that version")
}

/// Lists in memory, gone with the process.
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

/// The power to read todo lists.
#[derive(Clone)]
pub struct ReadTodos {
    todos: Arc<dyn Todos>,
    session: String,
}

impl ReadTodos {
    /// In the name of a session; for calling a tool's function directly.
    pub fn unchecked(todos: Arc<dyn Todos>, session: &str) -> Self {
        Self { todos, session: session.to_owned() }
    }

    /// The list of a session; of the caller's own when none is named.
    ///
    /// # Errors
    /// When it cannot be read.
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

/// The power to change the todo list of one's own session.
#[derive(Clone)]
pub struct WriteTodos {
    todos: Arc<dyn Todos>,
    session: String,
    redactor: Redactor,
}

impl WriteTodos {
    /// In the name of a session; for calling a tool's function directly.
    pub fn unchecked(todos: Arc<dyn Todos>, session: &str) -> Self {
        Self { todos, session: session.to_owned(), redactor: Redactor::default() }
    }

    /// As [`Todos::write`], without secrets.
    ///
    /// # Errors
    /// Of kind `conflict` when `expected_version` is not the version that is there.
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
