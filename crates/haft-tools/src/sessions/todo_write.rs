//! `todo_write`: replaces the todo list of a session.

use std::collections::BTreeSet;

use haft_core::{Output, Todo, TodoList, TodoPriority, TodoStatus, ToolError, WriteTodos};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::shown;

const MAX_TODOS: usize = 200;

/// The whole list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "todos": [
    { "content": "Find where the limit is read", "status": "completed" },
    { "content": "Make it configurable", "status": "in_progress", "priority": "high" },
] }))]
pub struct TodoWrite {
    /// All todos of this session, in order. Todos that are left out are removed.
    #[schemars(length(max = MAX_TODOS), extend("x-aliases" = ["items", "tasks", "plan"]))]
    pub todos: Vec<NewTodo>,
    /// Write only if the list still has this version, from todo_read or todo_write; 0 when there
    /// is no list yet.
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["expectedVersion", "version"]))]
    pub expected_version: Option<u64>,
}

/// A todo.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTodo {
    /// The work to do.
    #[schemars(length(min = 1, max = 2_000), extend("x-aliases" = ["text", "description", "title"]))]
    pub content: String,
    /// The progress of the todo.
    #[serde(default)]
    pub status: TodoStatus,
    /// The importance of the todo.
    #[serde(default)]
    pub priority: TodoPriority,
    /// A short id for the todo. Default: its number in the list.
    #[serde(default)]
    #[schemars(length(min = 1, max = 64))]
    pub id: Option<String>,
}

/// The list as it is now.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WrittenTodos {
    /// Increases with every change.
    pub version: u64,
    /// In order.
    #[schemars(extend("x-in-content" = true))]
    pub todos: Vec<Todo>,
    /// A remark on the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Output for WrittenTodos {
    fn text(&self) -> String {
        let list = TodoList { version: self.version, todos: self.todos.clone() };
        match &self.advice {
            None => shown(&list),
            Some(advice) => format!("{}\n[{advice}]", shown(&list)),
        }
    }
}

/// Replaces the todo list.
#[tool(idempotent, deadline = "30s", profiles(researcher, reviewer))]
pub async fn todo_write(input: TodoWrite, todos: WriteTodos) -> Result<WrittenTodos, ToolError> {
    let list = todos.write(with_ids(input.todos)?, input.expected_version).await?;
    let at_once = list.todos.iter().filter(|todo| todo.status == TodoStatus::InProgress).count();
    let advice = (at_once > 1).then(|| {
        format!("{at_once} todos are in progress: work on one and keep the others pending")
    });
    Ok(WrittenTodos { version: list.version, todos: list.todos, advice })
}

/// Assigns ids to todos without one.
fn with_ids(todos: Vec<NewTodo>) -> Result<Vec<Todo>, ToolError> {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for (number, todo) in todos.iter().enumerate() {
        if todo.content.trim().is_empty() {
            let message = format!("todos[{number}].content: only white space");
            return Err(ToolError::input(message).hint("give the work to do"));
        }
        if let Some(id) = &todo.id
            && !taken.insert(id.clone())
        {
            let message = format!("todos[{number}].id: `{id}` is not unique");
            return Err(ToolError::input(message).hint("give each todo a unique id, or no id"));
        }
    }
    let with_ids = todos.into_iter().enumerate().map(|(number, todo)| {
        let mut free = (number + 1..).map(|number| number.to_string());
        let id = todo.id.unwrap_or_else(|| {
            let id = free.find(|id| !taken.contains(id)).unwrap_or_default();
            taken.insert(id.clone());
            id
        });
        Todo { id, content: todo.content, status: todo.status, priority: todo.priority }
    });
    Ok(with_ids.collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use haft_core::{ErrorKind, MemoryTodos, ReadTodos};

    use super::{
        super::todo_read::{TodoRead, todo_read},
        *,
    };

    fn new(content: &str, status: TodoStatus, id: Option<&str>) -> NewTodo {
        let priority = TodoPriority::default();
        NewTodo { content: content.into(), status, priority, id: id.map(str::to_owned) }
    }

    fn list(todos: Vec<NewTodo>, expected_version: Option<u64>) -> TodoWrite {
        TodoWrite { todos, expected_version }
    }

    #[tokio::test]
    async fn a_list_is_written_whole_and_read_by_its_session() {
        let todos = Arc::new(MemoryTodos::default());
        let write = WriteTodos::unchecked(todos.clone(), "s");
        let input = vec![
            new("a", TodoStatus::Completed, None),
            new("b", TodoStatus::InProgress, Some("3")),
            new("c", TodoStatus::Pending, None),
            new("d", TodoStatus::Cancelled, Some("x")),
        ];
        let written = todo_write(list(input, Some(0)), write).await.expect("written");
        let text = "[x] 1: a\n[~] 3: b\n[ ] 4: c\n[-] x: d\n[2 of 4 open; version 1]";
        assert_eq!(written.text(), text);
        let read = |session: Option<&str>| {
            let read = ReadTodos::unchecked(todos.clone(), "s");
            todo_read(TodoRead { session_id: session.map(str::to_owned) }, read)
        };
        assert_eq!(read(None).await.expect("read").text(), text);
        assert_eq!(read(Some("t")).await.expect("read").text(), "[no todo list yet]");
    }

    #[tokio::test]
    async fn two_todos_in_progress_are_written_with_advice() {
        let write = WriteTodos::unchecked(Arc::new(MemoryTodos::default()), "s");
        let both =
            vec![new("a", TodoStatus::InProgress, None), new("b", TodoStatus::InProgress, None)];
        let written = todo_write(list(both, None), write).await.expect("written");
        assert!(
            written
                .text()
                .ends_with("[2 todos are in progress: work on one and keep the others pending]")
        );
    }

    #[tokio::test]
    async fn an_invalid_list_is_refused_and_not_written() {
        let todos = Arc::new(MemoryTodos::default());
        let write = WriteTodos::unchecked(todos.clone(), "s");
        let refused = async |todos: Vec<NewTodo>, version: Option<u64>| {
            todo_write(list(todos, version), write.clone()).await.expect_err("wrong")
        };
        let blank = refused(vec![new(" ", TodoStatus::Pending, None)], None).await;
        assert_eq!(blank.message(), "todos[0].content: only white space");
        let twice = vec![
            new("a", TodoStatus::Pending, Some("1")),
            new("b", TodoStatus::Pending, Some("1")),
        ];
        assert_eq!(refused(twice, None).await.message(), "todos[1].id: `1` is not unique");
        let stale = refused(vec![], Some(4)).await;
        assert_eq!(stale.kind(), ErrorKind::Conflict);
        assert!(stale.next_step().contains("todo_read"));
        let read = ReadTodos::unchecked(todos, "s");
        assert_eq!(read.read(None).await.expect("read").version, 0);
    }
}
