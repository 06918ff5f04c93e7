//! Only the approved accesses run: if a path of an approved call leads elsewhere when the call
//! starts, approval is requested again, whichever process runs it.

use std::{fs, os::unix::fs::symlink, path::PathBuf, time::Instant};

use serde_json::{Value, json};

use crate::{
    fixture::{Fixture, Ran},
    mcp_stdio::{Client, TIMEOUT},
    web_server::WebServer,
};

/// Returns a fixture in which every call needs approval and waits for another process.
fn fixture() -> Fixture {
    let fixture = Fixture::new()
        .user_config("approve = \"none\"\nsandbox = \"off\"\n[approvals]\nelsewhere = true\n");
    let project = fixture.path("project");
    for folder in [".git/hooks", "docs", "safe"] {
        fs::create_dir_all(project.join(folder)).expect("made");
    }
    fs::write(project.join("docs/a.md"), "old\n").expect("written");
    fs::write(project.join("b.md"), "old\n").expect("written");
    fixture
}

fn hook(fixture: &Fixture) -> PathBuf {
    fixture.path("project/.git/hooks/pre-commit")
}

/// Returns the ids of pending requests.
fn pending(fixture: &Fixture) -> Vec<String> {
    let ran = fixture.run(&["approvals", "list", "--all", "--json"]);
    let rows: Vec<Value> = serde_json::from_str(&ran.out).expect("a list");
    let pending = rows.into_iter().filter(|row| row["state"] == "pending");
    pending.map(|row| row["request"]["id"].as_str().expect("an id").to_owned()).collect()
}

/// Requests a call from a server, kills the server, and returns the id of the request.
fn asked_by_the_dead(fixture: &Fixture, tool: &str, input: Value) -> String {
    let mut client = Client::introduced(fixture, json!({}));
    client.call(1, tool, input);
    let began = Instant::now();
    let id = loop {
        if let Some(id) = pending(fixture).pop() {
            break id;
        }
        assert!(began.elapsed() < TIMEOUT, "nothing waits");
    };
    client.kill();
    id
}

fn approve(fixture: &Fixture, id: &str) -> Ran {
    fixture.run_without_terminal(&["approvals", "approve", id])
}

/// Replaces a path in the project by a link.
fn replace(fixture: &Fixture, path: &str, target: &str) {
    let path = fixture.path("project").join(path);
    match path.is_dir() {
        true => fs::remove_dir_all(&path).expect("removed"),
        false => drop(fs::remove_file(&path)),
    }
    symlink(target, path).expect("linked");
}

/// Checks that a call with other accesses than approved does not run, is asked about again, and
/// runs after a second approval.
#[track_caller]
fn check_asked_again(fixture: &Fixture, id: &str, shown: &str) -> String {
    let ran = approve(fixture, id);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.err.contains("accesses differ from the approved ones"), "{ran:?}");
    assert!(!hook(fixture).exists(), "nothing was written there");
    let again = pending(fixture);
    assert_eq!(again.len(), 1, "{again:?}");
    assert_ne!(again[0], id);
    let told = fixture.run(&["approvals", "show", &again[0]]);
    assert!(told.out.contains(shown), "{shown}: {told:?}");
    again[0].clone()
}

#[test]
fn a_file_that_became_a_link_is_not_written_through() {
    let fixture = fixture();
    let write = json!({"path": "docs/a.md", "content": "#!/bin/sh\n"});
    let id = asked_by_the_dead(&fixture, "write", write);
    let told = fixture.run(&["approvals", "show", &id]);
    assert!(told.out.contains("write docs/a.md"), "{told:?}");
    replace(&fixture, "docs/a.md", "../.git/hooks/pre-commit");
    let again = check_asked_again(&fixture, &id, "write .git/hooks/pre-commit");
    // The first approval is used up, and the second one is for the shown accesses.
    assert_eq!(approve(&fixture, &id).code, 4);
    assert!(!hook(&fixture).exists());
    let ran = approve(&fixture, &again);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(fs::read_to_string(hook(&fixture)).expect("there"), "#!/bin/sh\n");
}

#[test]
fn a_folder_on_the_way_that_became_a_link_is_not_followed() {
    let fixture = fixture();
    let write = json!({"path": "docs/pre-commit", "content": "#!/bin/sh\n"});
    let id = asked_by_the_dead(&fixture, "write", write);
    replace(&fixture, "docs", ".git/hooks");
    check_asked_again(&fixture, &id, "write .git/hooks/pre-commit");
}

#[test]
fn neither_a_move_nor_an_edit_nor_a_patch_of_several_files_follows_a_new_link() {
    let patch = "*** Begin Patch\n*** Add File: safe/new.md\n+new\n*** Add File: docs/pre-commit\n+#!/bin/sh\n*** End Patch";
    for (tool, input) in [
        ("move", json!({"from": "b.md", "to": "docs/pre-commit"})),
        ("patch", json!({ "patch": patch })),
        ("make_directory", json!({"path": "docs/pre-commit"})),
    ] {
        let fixture = fixture();
        let id = asked_by_the_dead(&fixture, tool, input);
        replace(&fixture, "docs", ".git/hooks");
        check_asked_again(&fixture, &id, ".git/hooks/pre-commit");
        assert!(fixture.path("project/b.md").exists(), "{tool}");
        assert!(!fixture.path("project/safe/new.md").exists(), "{tool}: all or nothing");
    }
}

#[test]
fn a_delete_or_an_edit_reaches_no_other_file_through_a_new_link() {
    for (tool, input) in [
        ("delete", json!({"path": "docs/a.md"})),
        ("edit", json!({"path": "docs/a.md", "old_string": "old", "new_string": "new"})),
    ] {
        let fixture = fixture();
        let other = fixture.path("project/safe/a.md");
        fs::write(&other, "old\n").expect("written");
        let id = asked_by_the_dead(&fixture, tool, input);
        replace(&fixture, "docs", "safe");
        check_asked_again(&fixture, &id, "safe/a.md");
        assert_eq!(fs::read_to_string(other).expect("there"), "old\n", "{tool}");
    }
}

#[test]
fn a_command_whose_folder_leads_elsewhere_is_asked_about_again() {
    let fixture = fixture();
    let command = json!({"command": "echo '#!/bin/sh' > docs/pre-commit"});
    let id = asked_by_the_dead(&fixture, "bash", command);
    replace(&fixture, "docs", ".git/hooks");
    check_asked_again(&fixture, &id, "write .git/hooks/pre-commit");
}

#[test]
fn what_still_leads_where_it_did_runs_once() {
    let fixture = fixture();
    let write = json!({"path": "docs/a.md", "content": "new\n"});
    let id = asked_by_the_dead(&fixture, "write", write);
    // Another file at the same path is not another path.
    fs::remove_file(fixture.path("project/docs/a.md")).expect("removed");
    fs::write(fixture.path("project/docs/a.md"), "by somebody\n").expect("written");
    let ran = approve(&fixture, &id);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(fs::read_to_string(fixture.path("project/docs/a.md")).expect("there"), "new\n");
    assert_eq!(approve(&fixture, &id).code, 4);
}

#[test]
fn a_living_asker_does_not_write_through_a_new_link_either() {
    let fixture = fixture();
    let mut client = Client::introduced(&fixture, json!({}));
    client.call(1, "write", json!({"path": "docs/pre-commit", "content": "#!/bin/sh\n"}));
    let began = Instant::now();
    let id = loop {
        if let Some(id) = pending(&fixture).pop() {
            break id;
        }
        assert!(began.elapsed() < TIMEOUT, "nothing waits");
    };
    replace(&fixture, "docs", ".git/hooks");
    assert_eq!(approve(&fixture, &id).code, 0, "the asker runs it");
    let answer = client.next();
    assert_eq!(answer["result"]["isError"], json!(true), "{answer}");
    assert!(!hook(&fixture).exists(), "{answer}");
}

#[test]
fn a_request_that_is_led_to_another_host_than_was_shown_is_not_followed() {
    let other = WebServer::start(|_| ("200 OK\r\nContent-Type: text/plain", b"other".to_vec()));
    let head: &'static str =
        format!("302 Found\r\nLocation: http://localhost:{}/", other.address.port()).leak();
    let first = WebServer::start(move |_| (head, Vec::new()));
    let fixture = Fixture::new().user_config(&format!(
        "approve = \"none\"\n[approvals]\nelsewhere = true\n[network]\nallow = [\"{}\", \"localhost:{}\"]\n",
        first.address,
        other.address.port()
    ));
    let id = asked_by_the_dead(&fixture, "http_request", json!({"url": first.url("/")}));
    let ran = approve(&fixture, &id);
    assert_eq!(ran.code, 5, "{ran:?}");
    assert_eq!((first.requests().len(), other.requests().len()), (1, 0), "{ran:?}");
}

/// A call of a client of the later protocol version, which identifies itself in every request.
fn stateless(id: u64, tool: &str, arguments: Value, more: Value) -> Value {
    let mut params = json!({
        "name": tool, "arguments": arguments,
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        },
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        params[name] = value.clone();
    }
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

#[test]
fn in_the_era_without_sessions_a_yes_is_for_what_was_shown_too() {
    let fixture = fixture();
    let mut client = Client::new(&fixture);
    let input = json!({"path": "docs/pre-commit", "content": "#!/bin/sh\n"});
    client.send(&stateless(1, "write", input.clone(), json!({})));
    let asked = client.next();
    let (state, questions) = (&asked["result"]["requestState"], &asked["result"]["inputRequests"]);
    let (key, question) = questions
        .as_object()
        .and_then(|all| all.iter().next())
        .unwrap_or_else(|| panic!("{asked}"));
    assert!(question.to_string().contains("docs/pre-commit"), "{question}");
    replace(&fixture, "docs", ".git/hooks");
    let yes = json!({"action": "accept", "content": {"decision": "once"}});
    let more = json!({"requestState": state, "inputResponses": {key: yes}});
    client.send(&stateless(2, "write", input, more));
    let again = client.next();
    assert!(!hook(&fixture).exists(), "{again}");
    // It is asked about again, with the new target.
    let questions = &again["result"]["inputRequests"];
    assert!(questions.to_string().contains(".git/hooks/pre-commit"), "{again}");
}

#[test]
fn a_stateless_call_that_was_approved_elsewhere_touches_only_what_was_shown() {
    let fixture = fixture();
    let mut client = Client::new(&fixture);
    let input = json!({"path": "docs/pre-commit", "content": "#!/bin/sh\n"});
    client.send(&stateless(1, "write", input, json!({})));
    let asked = client.next();
    assert!(asked["result"]["requestState"].is_string(), "{asked}");
    client.kill();
    let id = pending(&fixture).pop().expect("it waits");
    replace(&fixture, "docs", ".git/hooks");
    check_asked_again(&fixture, &id, "write .git/hooks/pre-commit");
}
