//! Tools on sessions: what a session still has to do, and the sessions of this workspace with what was said to them.

pub mod session;
pub mod todo_read;
pub mod todo_write;

use haft_core::{StaticTool, Todo, TodoList, TodoPriority, TodoStatus};

/// The group's tools, in order.
pub static TOOLS: &[&StaticTool] = &[&session::TOOL, &todo_write::TOOL, &todo_read::TOOL];

/// A list as models read it: a mark, the id, the words, and a priority that is not the usual one.
fn shown(list: &TodoList) -> String {
    let open = |todo: &&Todo| matches!(todo.status, TodoStatus::Pending | TodoStatus::InProgress);
    let count = list.todos.iter().filter(open).count();
    let mut lines: Vec<String> = list.todos.iter().map(line).collect();
    lines.push(match list.version {
        0 => "[there is no todo list yet]".to_owned(),
        version => format!("[{count} of {} to do; version {version}]", list.todos.len()),
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
