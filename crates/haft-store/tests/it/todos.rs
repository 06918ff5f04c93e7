//! Todo lists on both engines: whole, by version, one for each session of a workspace.

use std::path::Path;

use haft_core::{ErrorKind, Todo, TodoList, TodoPriority, TodoStatus, Todos};
use haft_store::{Store, StoreLocation, StoreTodos};

use crate::stores::{Fresh, each};

fn todos(store: &Fresh, workspace: &str) -> StoreTodos {
    StoreTodos::new(StoreLocation::new(store.address.clone()), Path::new(workspace))
}

fn todo(id: &str, content: &str) -> Todo {
    Todo {
        id: id.into(),
        content: content.into(),
        status: TodoStatus::InProgress,
        priority: TodoPriority::High,
    }
}

#[tokio::test]
async fn a_list_is_read_by_another_process_and_belongs_to_its_session_and_workspace() {
    for store in each().await {
        let list = vec![todo("1", "a\0ä"), todo("2", "b")];
        let own = todos(&store, "/w");
        assert_eq!(own.read("s").await.expect("nothing"), TodoList::default());
        assert!(Store::existing(&store.address).await.expect("looked").is_none(), "only looked");
        assert_eq!(own.write("s\0", &list, None).await.expect("written"), 1);
        let read = todos(&store, "/w").read("s\0").await.expect("read");
        assert_eq!(read, TodoList { version: 1, todos: list });
        for other in ["t", "r", ""] {
            assert_eq!(own.read(other).await.expect("read").version, 0, "{other}");
        }
        assert_eq!(todos(&store, "/other").read("s\0").await.expect("read").version, 0);
        own.write("s\0", &[], None).await.expect("written");
        assert_eq!(own.read("s\0").await.expect("read"), TodoList { version: 2, todos: vec![] });
    }
}

#[tokio::test]
async fn writing_over_an_outdated_version_fails_and_changes_nothing() {
    for store in each().await {
        let own = todos(&store, "/w");
        for (expected, then) in [
            (Some(0), Ok(1)),
            (Some(0), Err(1)),
            (Some(1), Ok(2)),
            (Some(1), Err(2)),
            (Some(9), Err(2)),
        ] {
            let list = [todo("1", &format!("{expected:?} {then:?}"))];
            let before = own.read("s").await.expect("read");
            match (own.write("s", &list, expected).await, then) {
                (Ok(version), then) => assert_eq!(Ok(version), then),
                (Err(error), Err(actual)) => {
                    assert_eq!(error.kind(), ErrorKind::Conflict);
                    assert!(
                        error.message().contains(&format!("at version {actual}, not")),
                        "{error}"
                    );
                    assert_eq!(own.read("s").await.expect("read"), before);
                }
                (Err(error), Ok(_)) => panic!("{error}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_writers_with_versions_lose_no_change() {
    for store in each().await {
        let mut tasks = tokio::task::JoinSet::new();
        for writer in 0..6 {
            let own = todos(&store, "/w");
            tasks.spawn(async move {
                for number in 0..5 {
                    loop {
                        let TodoList { version, mut todos } = own.read("s").await.expect("read");
                        todos.push(todo(&format!("{writer}-{number}"), "x"));
                        match own.write("s", &todos, Some(version)).await {
                            Ok(_) => break,
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
                        }
                    }
                }
            });
        }
        while let Some(task) = tasks.join_next().await {
            task.expect("no panic");
        }
        let list = todos(&store, "/w").read("s").await.expect("read");
        assert_eq!((list.version, list.todos.len()), (30, 30));
    }
}

#[tokio::test]
async fn a_damaged_list_is_reported_and_can_be_written_again() {
    for store in each().await {
        let own = todos(&store, "/w");
        own.write("s", &[todo("1", "a")], None).await.expect("written");
        store.tamper("UPDATE todos SET items = '{'").await;
        let error = own.read("s").await.expect_err("no list");
        assert!(error.next_step().contains("todo_write"), "{error}");
        assert_eq!(own.write("s", &[], None).await.expect("anew"), 2);
    }
}
