//! What is recorded by whom, where, and what happens when it cannot be.

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

use crate::{house::House, mcp_stdio::Client};

/// The calls in a store, oldest first, after the chain was found whole.
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

fn usual(house: &House) -> std::path::PathBuf {
    house.path("project/.haft/haft.db")
}

#[test]
fn every_call_of_the_command_line_is_recorded() {
    let house = House::new();
    house.run(&["hello", "Ada"]);
    house.run(&["call", "write", r#"{"path": "a.txt", "content": "x"}"#]);
    house.run(&["read", "gone.txt"]);
    house.run_without_terminal(&["hello", "Ada", "--approve", "none"]);
    let entries = recorded(&usual(&house));
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
    let house = House::new();
    house.run(&["tools"]);
    house.run(&["hello", "Ada", "--dry-run"]);
    house.run(&["hello"]);
    let mut client = Client::introduced(&house, json!({}));
    client.close();
    assert!(client.exit().success());
    assert!(!usual(&house).exists());
    assert!(!house.path("home/.local").exists(), "nor one of the person's");
}

#[test]
fn a_client_that_goes_leaves_all_its_calls_behind() {
    let house = House::new();
    let mut client = Client::introduced(&house, json!({}));
    for id in 0..200 {
        client.call(id, "hello", json!({"name": "Ada"}));
    }
    client.close();
    client.rest();
    assert!(client.exit().success());
    let entries = recorded(&usual(&house));
    let calls: u64 = entries.iter().map(LedgerEntry::calls).sum();
    assert_eq!(calls, 200);
    assert!(entries.iter().all(|entry| entry.session == entries[0].session));
    assert!(entries[0].session.starts_with("mcp-"), "{}", entries[0].session);
}

#[test]
fn a_server_that_is_told_to_end_loses_no_call() {
    for name in ["TERM", "INT", "HUP"] {
        let house = House::new();
        let mut client = Client::introduced(&house, json!({}));
        for id in 0..20 {
            client.call(id, "hello", json!({"name": "Ada"}));
            client.next();
        }
        let signalled =
            Command::new("kill").args([&format!("-{name}"), &client.pid().to_string()]).status();
        assert!(signalled.is_ok_and(|status| status.success()));
        client.exit();
        let calls: u64 = recorded(&usual(&house)).iter().map(LedgerEntry::calls).sum();
        assert_eq!(calls, 20, "{name}");
    }
}

#[test]
fn the_store_is_where_it_is_said_to_be() {
    let house = House::new();
    let other = house.path("elsewhere/calls.db");
    house.run(&["hello", "Ada", "--store", &other.display().to_string()]);
    house.run(&["hello", "Ada", "--store", "sqlite:../elsewhere/calls.db"]);
    assert_eq!(tools(&other), ["hello", "hello"]);
    assert!(!usual(&house).exists());
    assert!(!other.with_file_name(".gitignore").exists(), "that folder is not ours");
    let house = House::new().user_config("[store]\nurl = \"~/calls.db\"\n");
    house.run(&["hello", "Ada"]);
    assert_eq!(tools(&house.path("home/calls.db")), ["hello"]);
}

#[test]
fn an_address_that_is_none_is_refused_before_anything_runs() {
    let house = House::new();
    for wrong in ["mysql://host/db", "sqlite:", "folder/"] {
        let ran = house.run(&["hello", "Ada", "--store", wrong]);
        assert_eq!((ran.code, &*ran.out), (2, ""), "{wrong}: {ran:?}");
        assert!(ran.err.contains("is not a store address"), "{ran:?}");
    }
    let house = House::new().user_config("[store]\nurl = \"calls.db\"\n");
    let ran = house.run(&["hello", "Ada"]);
    assert!(ran.code == 2 && ran.err.contains("config.toml:2:7: `store.url`"), "{ran:?}");
}

#[test]
fn who_wants_no_record_gets_none_unless_an_admin_does() {
    let house = House::new().user_config("[store]\nrecord = false\n");
    house.run(&["hello", "Ada"]);
    assert!(!usual(&house).exists());
    let house = house.admin_config("[store]\nrecord = true\n");
    house.run(&["hello", "Ada"]);
    assert_eq!(tools(&usual(&house)), ["hello"]);
}

#[test]
fn an_admins_store_holds() {
    let house = House::new();
    let store = house.path("admin.db");
    let config = format!("[store]\nurl = \"{}\"\n", store.display());
    let house = house.admin_config(&config);
    house.run(&["hello", "Ada"]);
    assert_eq!(tools(&store), ["hello"]);
    let ran = house.run(&["hello", "Ada", "--store", "other.db"]);
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(ran.err.contains("cannot be chosen"), "{ran:?}");
}

#[test]
fn a_project_may_not_say_where_calls_are_recorded() {
    let house = House::new().project_config("[store]\nrecord = false\n");
    let ran = house.run(&["hello", "Ada"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("counts only in your own or an admin's config"), "{ran:?}");
}

#[test]
fn a_call_that_cannot_be_recorded_works_and_says_so() {
    let house = House::new();
    fs::write(usual(&house), "not a database, and long enough to be looked at".repeat(99))
        .expect("written");
    let outcome = house.run(&["hello", "Ada", "--json"]).json();
    assert_eq!(outcome["content"], "Hello, Ada!");
    let told = outcome["metadata"]["not_recorded"].as_str().expect("it is told");
    assert!(told.contains("is damaged"), "{told}");
    assert_eq!(outcome["repairs"], serde_json::Value::Null, "nobody needed the saved rules");
    let asked = ["hello", "Ada", "--json", "--approve", "none"];
    let outcome = house.run_without_terminal(&asked).json();
    let repairs = outcome["repairs"].as_array().expect("it is told");
    assert_eq!(repairs.len(), 1, "{outcome}");
    assert!(
        repairs[0].as_str().is_some_and(|told| told.contains("the saved rules could not be used"))
    );
}

#[test]
fn the_store_is_not_among_peoples_files() {
    let house = House::new();
    fs::remove_dir(house.path("project/.haft")).expect("empty");
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "init.defaultBranch=main"]).args(arguments);
        let output = command.current_dir(house.path("project")).output().expect("git runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    git(&["init"]);
    fs::write(house.path("project/a.txt"), "haft").expect("written");
    house.run(&["hello", "Ada"]);
    assert!(usual(&house).exists());
    assert_eq!(git(&["status", "--short"]), "?? a.txt\n");
    assert!(!house.run(&["list"]).out.contains("haft.db"));
    assert!(!house.run(&["glob", "**/*"]).out.contains("haft.db"));
    assert!(!house.run(&["grep", "hello"]).out.contains("haft.db"));
    let ran = house.run(&["bash", "echo x > b.txt", "--approve", "all", "--json"]).json();
    assert!(!ran.to_string().contains("haft.db"), "{ran}");
}
