//! Failures: a process is killed while it writes, the disk is full, the store is denied, several
//! processes at once.

use std::{fs, process::Command};

use haft::{
    Outputs, SessionEvent, SessionQuery, Sessions, TodoList, Todos,
    store::{
        OutputRetention, Store, StoreAddress, StoreLocation, StoreOutputs, StoreSessions,
        StoreTodos,
    },
};
use serde_json::{Value, json};

use super::{called, store, text, with_long_file};
use crate::{fixture::Fixture, mcp_stdio::Client, small_disk::SmallDisk};

/// Statistics of the fixture's store.
struct StoreContent {
    sessions: StoreSessions,
    todos: StoreTodos,
    outputs: StoreOutputs,
    runtime: tokio::runtime::Runtime,
}

impl StoreContent {
    fn of(fixture: &Fixture) -> Self {
        let address = StoreAddress::Sqlite(store(fixture));
        let (place, project) = (StoreLocation::new(address.clone()), fixture.path("project"));
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let opened = runtime.block_on(Store::open(&address)).expect("it opens");
        assert!(runtime.block_on(opened.check()).expect("looked at").is_empty(), "it is whole");
        Self {
            sessions: StoreSessions::new(place.clone(), &project),
            todos: StoreTodos::new(place.clone(), &project),
            outputs: StoreOutputs::new(place, &project, OutputRetention::default()),
            runtime,
        }
    }

    /// Returns the only session.
    fn session(&self) -> Option<String> {
        let query = SessionQuery { limit: 9, ..SessionQuery::default() };
        let found = self.runtime.block_on(self.sessions.list(&query)).expect("listed");
        assert!(found.len() <= 1, "{found:?}");
        found.into_iter().next().map(|session| session.id)
    }
}

fn todos(count: usize) -> Value {
    let todo = |number| json!({"content": format!("{number} of {count}"), "status": "pending"});
    json!({"todos": (0..count).map(todo).collect::<Vec<_>>()})
}

#[test]
fn what_a_killed_server_was_writing_is_there_whole_or_not_at_all() {
    for round in 0..8_usize {
        let fixture = with_long_file();
        let mut client = Client::introduced(&fixture, json!({}));
        called(&mut client, 0, "hello", json!({"name": "Ada"}));
        let patched =
            called(&mut client, 0, "session", json!({"operation": "patch", "title": "t"}));
        let own = patched["structuredContent"]["session"]["id"].as_str().expect("an id").to_owned();
        for id in (1..=30_u64).step_by(3) {
            let message =
                json!({"operation": "send", "session_id": own, "message": format!("{id}")});
            client.call(id, "session", message);
            client.call(id + 1, "todo_write", todos(usize::try_from(id).expect("small")));
            client.call(
                id + 2,
                "grep",
                json!({"pattern": format!("long [0-9]*{}", id % 10), "max_results": 2000}),
            );
        }
        // Kill it in the middle, each round a little later.
        let answers: Vec<Value> = (0..round * 3 + 1).map(|_| client.next()).collect();
        client.kill();
        let kept = StoreContent::of(&fixture);
        assert_eq!(kept.session().as_deref(), Some(&*own));
        let list: TodoList = kept.runtime.block_on(kept.todos.read(&own)).expect("a whole list");
        let is_whole = |content: &str| content.ends_with(&format!("of {}", list.todos.len()));
        assert!(list.todos.iter().all(|todo| is_whole(&todo.content)), "{list:?}");
        let history = kept.runtime.block_on(kept.sessions.history(&own, 0, 200)).expect("read");
        let messages: Vec<u64> = history
            .events
            .iter()
            .filter_map(|it| match it {
                SessionEvent::Message(message) => Some(message.seq),
                SessionEvent::Call(_) => None,
            })
            .collect();
        assert_eq!(messages, (1..=history.session.messages).collect::<Vec<_>>());
        for answer in &answers {
            check_answered(answer, &kept, messages.len(), &list);
        }
        // The next process continues.
        assert_eq!(fixture.run(&["todo_write", "--todos", r#"{"content": "a"}"#]).code, 0);
    }
}

/// Every answered output is kept.
fn check_answered(answer: &Value, kept: &StoreContent, messages: usize, list: &TodoList) {
    let result = &answer["result"];
    assert_eq!(result["isError"], json!(false), "{answer}");
    if let Some(seq) = result["structuredContent"]["seq"].as_u64() {
        assert!(usize::try_from(seq).is_ok_and(|seq| seq <= messages), "{answer}");
    }
    if let Some(version) = result["structuredContent"]["version"].as_u64() {
        assert!(version <= list.version, "{answer}");
    }
    if let Some((_, rest)) = text(result).split_once("stored as output ") {
        let id = rest.split(':').next().expect("an id");
        let whole = kept.runtime.block_on(kept.outputs.read(id)).expect("it was answered");
        assert!(whole.len() > 50 << 10, "{} bytes", whole.len());
    }
}

/// Long, different each time, and hardly compressible.
fn noise(seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut line = || {
        let letters = (0..60).map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(b'a' + u8::try_from(state % 26).expect("below 26"))
        });
        letters.collect::<String>() + "\n"
    };
    (0..1_990).map(|_| line()).collect()
}

#[test]
fn on_a_full_disk_outputs_stay_in_memory_and_a_list_that_is_not_written_is_told() {
    let fixture = Fixture::new();
    let Some(disk) = SmallDisk::new(&fixture, "640k") else {
        // Without root there is no such disk; use a file at the path of the store's folder instead.
        fs::write(fixture.path("small/file"), "").expect("written");
        let ran = fixture.run(&[
            "todo_write",
            "--todos",
            r#"{"content": "a"}"#,
            "--store",
            &fixture.path("small/file/x.db").display().to_string(),
        ]);
        return assert_eq!(ran.code, 10, "{ran:?}");
    };
    let at = disk.0.join("haft.db").display().to_string();
    let mut client = Client::start(&fixture, &["--structured", "always", "--store", &at]);
    client.listen();
    client.introduce(json!({}));
    let mut full = None;
    for seed in 1..60 {
        fs::write(fixture.path("project/noise.txt"), noise(seed)).expect("written");
        let found = called(&mut client, seed, "grep", json!({"pattern": ".", "max_results": 2000}));
        assert_eq!(found["isError"], json!(false), "the call works: {found}");
        if found.to_string().contains("kept in memory only") {
            full = Some(found);
            break;
        }
    }
    let full = full.expect("the disk fills");
    let id = text(&full).split_once("stored as output ").expect("kept all the same").1;
    let id = id.split(':').next().expect("an id");
    let shown = called(&mut client, 90, "output_read", json!({"id": id, "page": 2}));
    assert!(text(&shown).contains("; page 2 of "), "from memory: {shown}");
    let grown = Command::new("mount").args(["-o", "remount,size=16m"]).arg(&disk.0).status();
    assert!(grown.is_ok_and(|status| status.success()));
    let written = called(&mut client, 91, "todo_write", todos(3));
    assert_eq!(written["isError"], json!(false), "with room again: {written}");
}

#[test]
fn a_store_that_is_no_store_fails_no_call_but_those_that_are_about_it() {
    let fixture = with_long_file();
    fs::write(store(&fixture), "somebody's words, which are long enough ".repeat(60))
        .expect("written");
    let mut client = Client::introduced(&fixture, json!({}));
    let found = called(&mut client, 1, "grep", json!({"pattern": "long", "max_results": 2000}));
    assert_eq!(found["isError"], json!(false), "{found}");
    assert!(found.to_string().contains("kept in memory only, until haft exits: "), "{found}");
    let refused = called(&mut client, 2, "todo_write", todos(1));
    assert_eq!(refused["isError"], json!(true), "{refused}");
    let words = text(&refused);
    assert!(words.contains("error (unavailable)") && words.contains("the store"), "{refused}");
    // A command exits after its call, so data in memory is lost.
    let cut = fixture.run(&["grep", "long", "--max-results", "2000", "--json"]).json();
    assert!(cut["output_id"].is_null(), "{cut}");
    let content = cut["content"].as_str().expect("a text");
    assert!(content.contains("the full text could not be stored: the store"), "{content}");
    assert!(
        fs::read(store(&fixture)).expect("there").starts_with(b"somebody's"),
        "it was not touched"
    );
}

#[test]
fn servers_that_write_at_once_lose_nothing() {
    let fixture = with_long_file();
    let mut clients = [0, 1, 2].map(|_| Client::introduced(&fixture, json!({})));
    let target = called(&mut clients[0], 0, "session", json!({"operation": "patch", "title": "t"}));
    let target = target["structuredContent"]["session"]["id"].as_str().expect("an id").to_owned();
    for client in &mut clients {
        for id in 1..=20_u64 {
            client.call(
                id,
                "session",
                json!({"operation": "send", "session_id": target, "message": "m"}),
            );
            client.call(100 + id, "grep", json!({"pattern": "long", "max_results": 2000}));
        }
        client.close();
    }
    for client in &mut clients {
        for answer in client.rest() {
            assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
            assert!(!answer.to_string().contains("in memory only"), "{answer}");
        }
        assert!(client.exit().success());
    }
    let kept = StoreContent::of(&fixture);
    let history = kept.runtime.block_on(kept.sessions.history(&target, 0, 500)).expect("read");
    assert_eq!(history.session.messages, 60);
}
