//! Tools on sessions: the todo list of a session, and the sessions of this workspace with their
//! messages.

pub mod session;
pub mod todo_read;
pub mod todo_write;

use haft_core::{StaticTool, Todo, TodoList, TodoPriority, TodoStatus};

/// The group's tools, in order.
pub static TOOLS: &[&StaticTool] = &[&session::TOOL, &todo_write::TOOL, &todo_read::TOOL];

/// Formats a list for models: status mark, id, content, and any priority other than medium.
fn shown(list: &TodoList) -> String {
    let open = |todo: &&Todo| matches!(todo.status, TodoStatus::Pending | TodoStatus::InProgress);
    let count = list.todos.iter().filter(open).count();
    let mut lines: Vec<String> = list.todos.iter().map(line).collect();
    lines.push(match list.version {
        0 => "[no todo list yet]".to_owned(),
        version => format!("[{count} of {} open; version {version}]", list.todos.len()),
    });
    lines.join("\n")
}

fn line(todo: &Todo) -> String {
    let mark = match todo.status {
        TodoStatus::Pending => "[ ]",
        TodoStatus::InProgress => "[~]",
        TodoStatus::Completed => "[x]",
        TodoStatus::Cancelled => "[-]",
    };
    let priority = match todo.priority {
        TodoPriority::High => " (high)",
        TodoPriority::Medium => "",
        TodoPriority::Low => " (low)",
    };
    format!("{mark} {}: {}{priority}", todo.id, todo.content)
}
