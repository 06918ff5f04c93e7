//! Recording of calls: where they are recorded, and what happens when they cannot be.

mod commands;
mod faults;
mod journal;
mod killed;
mod migrate;
mod retention;
mod surfaces;

use std::{fs, path::Path, process::Command, sync::Arc};

use haft::{
    LedgerEntry,
    store::{LedgerFilter, ReplyTiming, StoreAddress, StoreLedger, StoreLocation},
};
use serde_json::json;

use crate::{fixture::Fixture, mcp_stdio::Client};

/// Verifies the chain and returns the tools of the recorded calls, oldest first.
fn recorded(store: &Path) -> Vec<LedgerEntry> {
    let place: Arc<StoreLocation> = StoreLocation::new(StoreAddress::Sqlite(store.to_owned()));
    let ledger = StoreLedger::new(place, ReplyTiming::AfterCommit);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        assert_eq!(ledger.verify(None).await.expect("it is read").faults, []);
        let all = ledger.find(&LedgerFilter::default()).await.expect("it is read");
        all.into_iter().rev().map(|recorded| recorded.entry).collect()
    })
}

fn tools(store: &Path) -> Vec<String> {
    recorded(store).into_iter().map(|entry| entry.tool).collect()
}

fn usual(fixture: &Fixture) -> std::path::PathBuf {
    fixture.path("project/.haft/haft.db")
}

#[test]
fn every_call_of_the_command_line_is_recorded() {
    let fixture = Fixture::new();
    fixture.run(&["hello", "Ada"]);
    fixture.run(&["call", "write", r#"{"path": "a.txt", "content": "x"}"#]);
    fixture.run(&["read", "gone.txt"]);
    fixture.run_without_terminal(&["hello", "Ada", "--approve", "none"]);
    let entries = recorded(&usual(&fixture));
    let told = |entry: &LedgerEntry| {
        let action = entry.decision.as_ref().map(|decision| decision.action.name());
        (entry.tool.clone(), action, entry.error.map(|error| error.name()))
    };
    let told: Vec<_> = entries.iter().map(told).collect();
    let expected = [
        ("hello", Some("allow"), None),
        ("write", Some("allow"), None),
        ("read", Some("allow"), Some("not_found")),
        ("hello", Some("ask"), Some("approval_unavailable")),
    ];
    let expected = expected.map(|(tool, action, error)| (tool.to_owned(), action, error));
    assert_eq!(told, expected);
}

#[test]
fn what_is_no_call_makes_no_store() {
    let fixture = Fixture::new();
    fixture.run(&["tools"]);
    fixture.run(&["hello", "Ada", "--dry-run"]);
    fixture.run(&["hello"]);
    let mut client = Client::introduced(&fixture, json!({}));
    client.close();
    assert!(client.exit().success());
    assert!(!usual(&fixture).exists());
    assert!(!fixture.path("home/.local").exists(), "nor one of the person's");
}

#[test]
fn a_client_that_goes_leaves_all_its_calls_behind() {
    let fixture = Fixture::new();
    let mut client = Client::introduced(&fixture, json!({}));
    for id in 0..200 {
        client.call(id, "hello", json!({"name": "Ada"}));
    }
    client.close();
    client.rest();
    assert!(client.exit().success());
    let entries = recorded(&usual(&fixture));
    let calls: u64 = entries.iter().map(LedgerEntry::calls).sum();
    assert_eq!(calls, 200);
    assert!(entries.iter().all(|entry| entry.session == entries[0].session));
    assert!(entries[0].session.starts_with("mcp-"), "{}", entries[0].session);
}

#[test]
fn a_server_that_is_told_to_end_loses_no_call() {
    for name in ["TERM", "INT", "HUP"] {
        let fixture = Fixture::new();
        let mut client = Client::introduced(&fixture, json!({}));
        for id in 0..20 {
            client.call(id, "hello", json!({"name": "Ada"}));
            client.next();
        }
        let signalled =
            Command::new("kill").args([&format!("-{name}"), &client.pid().to_string()]).status();
        assert!(signalled.is_ok_and(|status| status.success()));
        client.exit();
        let calls: u64 = recorded(&usual(&fixture)).iter().map(LedgerEntry::calls).sum();
        assert_eq!(calls, 20, "{name}");
    }
}

#[test]
fn the_store_is_where_it_is_said_to_be() {
    let fixture = Fixture::new();
    let other = fixture.path("elsewhere/calls.db");
    fixture.run(&["hello", "Ada", "--store", &other.display().to_string()]);
    fixture.run(&["hello", "Ada", "--store", "sqlite:../elsewhere/calls.db"]);
    assert_eq!(tools(&other), ["hello", "hello"]);
    assert!(!usual(&fixture).exists());
    assert!(!other.with_file_name(".gitignore").exists(), "that folder is not ours");
    let fixture = Fixture::new().user_config("[store]\nurl = \"~/calls.db\"\n");
    fixture.run(&["hello", "Ada"]);
    assert_eq!(tools(&fixture.path("home/calls.db")), ["hello"]);
}

#[test]
fn an_address_that_is_none_is_refused_before_anything_runs() {
    let fixture = Fixture::new();
    for wrong in ["mysql://host/db", "sqlite:", "folder/"] {
        let ran = fixture.run(&["hello", "Ada", "--store", wrong]);
        assert_eq!((ran.code, &*ran.out), (2, ""), "{wrong}: {ran:?}");
        assert!(ran.err.contains("is not a store address"), "{ran:?}");
    }
    let fixture = Fixture::new().user_config("[store]\nurl = \"calls.db\"\n");
    let ran = fixture.run(&["hello", "Ada"]);
    assert!(ran.code == 2 && ran.err.contains("config.toml:2:7: `store.url`"), "{ran:?}");
}

#[test]
fn who_wants_no_record_gets_none_unless_an_admin_does() {
    let fixture = Fixture::new().user_config("[store]\nrecord = false\n");
    fixture.run(&["hello", "Ada"]);
    assert!(!usual(&fixture).exists());
    let fixture = fixture.admin_config("[store]\nrecord = true\n");
    fixture.run(&["hello", "Ada"]);
    assert_eq!(tools(&usual(&fixture)), ["hello"]);
}

#[test]
fn an_admins_store_holds() {
    let fixture = Fixture::new();
    let store = fixture.path("admin.db");
    let config = format!("[store]\nurl = \"{}\"\n", store.display());
    let fixture = fixture.admin_config(&config);
    fixture.run(&["hello", "Ada"]);
    assert_eq!(tools(&store), ["hello"]);
    let ran = fixture.run(&["hello", "Ada", "--store", "other.db"]);
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(ran.err.contains("cannot be used"), "{ran:?}");
}

#[test]
fn a_project_may_not_say_where_calls_are_recorded() {
    let fixture = Fixture::new().project_config("[store]\nrecord = false\n");
    let ran = fixture.run(&["hello", "Ada"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("is allowed only in your own or an admin's config"), "{ran:?}");
}

#[test]
fn a_call_that_cannot_be_recorded_works_and_says_so() {
    let fixture = Fixture::new();
    fs::write(usual(&fixture), "not a database, and long enough to be looked at".repeat(99))
        .expect("written");
    let outcome = fixture.run(&["hello", "Ada", "--json"]).json();
    assert_eq!(outcome["content"], "Hello, Ada!");
    let told = outcome["metadata"]["not_recorded"].as_str().expect("it is told");
    assert!(told.contains("is damaged"), "{told}");
    assert_eq!(outcome["repairs"], serde_json::Value::Null, "nobody needed the saved rules");
    let asked = ["hello", "Ada", "--json", "--approve", "none"];
    let outcome = fixture.run_without_terminal(&asked).json();
    let repairs = outcome["repairs"].as_array().expect("it is told");
    assert_eq!(repairs.len(), 1, "{outcome}");
    assert!(
        repairs[0].as_str().is_some_and(|told| told.contains("the saved rules could not be used"))
    );
}

#[test]
fn the_store_is_not_among_peoples_files() {
    let fixture = Fixture::new();
    fs::remove_dir(fixture.path("project/.haft")).expect("empty");
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "init.defaultBranch=main"]).args(arguments);
        let output = command.current_dir(fixture.path("project")).output().expect("git runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    git(&["init"]);
    fs::write(fixture.path("project/a.txt"), "haft").expect("written");
    fixture.run(&["hello", "Ada"]);
    assert!(usual(&fixture).exists());
    assert_eq!(git(&["status", "--short"]), "?? a.txt\n");
    assert!(!fixture.run(&["list"]).out.contains("haft.db"));
    assert!(!fixture.run(&["glob", "**/*"]).out.contains("haft.db"));
    assert!(!fixture.run(&["grep", "hello"]).out.contains("haft.db"));
    let ran = fixture.run(&["bash", "echo x > b.txt", "--approve", "all", "--json"]).json();
    assert!(!ran.to_string().contains("haft.db"), "{ran}");
}
