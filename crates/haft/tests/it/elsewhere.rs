//! Approval requests of one process, decided by another: `haft mcp` asks and `haft approvals`
//! decides. Whichever process is killed, the call runs at most once.

use std::{
    path::PathBuf,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    fixture::{Fixture, Screen},
    mcp_stdio::Client,
};

/// Much longer than any step takes. Only a failing test waits this long.
const TIMEOUT: Duration = Duration::from_secs(60);
const ELSEWHERE: &str = "approve = \"none\"\n[approvals]\nelsewhere = true\n";

/// Returns a fixture in which every call needs approval and waits for another process.
fn fixture() -> Fixture {
    Fixture::new().user_config(ELSEWHERE)
}

/// Starts a server with a pending request to write a file.
fn asking(fixture: &Fixture, name: &str) -> (Client, String) {
    let mut client = Client::introduced(fixture, json!({}));
    client.call(1, "write", json!({"path": name, "content": "written\n"}));
    let id = pending(fixture);
    (client, id)
}

fn listed(fixture: &Fixture) -> Vec<Value> {
    let ran = fixture.run(&["approvals", "list", "--all", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    serde_json::from_str(&ran.out).expect("a list")
}

/// Waits for the pending request and returns its id.
#[track_caller]
fn pending(fixture: &Fixture) -> String {
    let began = Instant::now();
    loop {
        let pending = listed(fixture).into_iter().find(|row| row["state"] == "pending");
        if let Some(row) = pending {
            return row["request"]["id"].as_str().expect("an id").to_owned();
        }
        assert!(began.elapsed() < TIMEOUT, "nothing waits");
    }
}

fn text(answer: &Value) -> String {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

fn written(fixture: &Fixture, name: &str) -> PathBuf {
    fixture.path("project").join(name)
}

#[test]
fn without_elicitation_a_call_is_denied_at_once_with_a_hint() {
    let fixture = Fixture::new().user_config("approve = \"none\"\n");
    let mut client = Client::introduced(&fixture, json!({}));
    client.call(1, "write", json!({"path": "a.txt", "content": "x"}));
    let told = text(&client.next());
    assert!(told.contains("no approval handler"), "{told}");
    assert!(told.contains("`elsewhere = true` under `[approvals]`"), "{told}");
    assert!(listed(&fixture).is_empty(), "nobody was asked");
}

#[test]
fn an_approval_in_another_terminal_runs_the_call_in_its_process() {
    let fixture = fixture();
    let (mut client, id) = asking(&fixture, "a.txt");
    let shown = fixture.run(&["approvals", "show", &id]).out;
    assert!(shown.contains("+written") && shown.contains("write a.txt"), "{shown}");
    assert!(shown.contains("why: mode `none`: read a.txt"), "{shown}");
    assert!(!written(&fixture, "a.txt").exists());
    // The beginning of an id is enough.
    let ran = fixture.run(&["approvals", "approve", &id.chars().take(20).collect::<String>()]);
    assert_eq!(
        (ran.code, &*ran.out),
        (0, "approved: the process that asked runs the call"),
        "{ran:?}"
    );
    let answer = client.next();
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert!(written(&fixture, "a.txt").exists());
    let again = fixture.run(&["approvals", "approve", &id]);
    assert_eq!(again.code, 4, "{again:?}");
    let row = listed(&fixture).remove(0);
    assert_eq!((&row["state"], &row["fate"]), (&json!("approved"), &json!({"ran": null})), "{row}");
    assert_eq!(fixture.run(&["approvals"]).out, "no pending requests");
}

#[test]
fn a_denial_with_a_note_reaches_the_model() {
    let fixture = fixture();
    let (mut client, id) = asking(&fixture, "a.txt");
    let ran = fixture.run(&["approvals", "deny", &id, "--note", "use b.txt"]);
    assert_eq!((ran.code, &*ran.out), (0, "denied: the call will not run"), "{ran:?}");
    let told = text(&client.next());
    assert!(told.contains("ada denied this call of `write`: use b.txt"), "{told}");
    assert!(!written(&fixture, "a.txt").exists());
}

#[test]
fn a_saved_rule_needs_no_second_approval() {
    let fixture = fixture();
    let (mut client, id) = asking(&fixture, "a.txt");
    let wrong = fixture.run(&["approvals", "approve", &id, "--remember", "9"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    let ran = fixture.run(&[
        "approvals",
        "approve",
        &id,
        "--remember",
        "1",
        "--scope",
        "project",
        "--for",
        "1d",
    ]);
    assert_eq!(ran.code, 0, "{ran:?}");
    client.next();
    let rules = fixture.run(&["policy", "list"]).out;
    assert!(rules.contains("(project, saved by ada") && rules.contains("expires"), "{rules}");
    client.call(2, "write", json!({"path": "a.txt", "content": "again\n"}));
    let answer = client.next();
    assert_eq!(answer["result"]["isError"], false, "{answer}");
}

/// All commands belong to the session `cli`, which never ends, so a rule for it would last forever.
#[test]
fn no_rule_of_the_command_line_has_session_scope() {
    let fixture = Fixture::new();
    let screen = Screen::haft(&fixture, &["--approve", "none", "hello", "Ada"]);
    let shown = screen.wait_for("[y] yes, once");
    assert!(!shown.contains("session"), "{shown}");
    let id = pending(&fixture);
    let refused =
        fixture.run(&["approvals", "approve", &id, "--remember", "1", "--scope", "session"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("session"), "{refused:?}");
    assert_eq!(pending(&fixture), id, "it was not decided");
    screen.press(&["y"]);
    assert_eq!(screen.exit_code(), 0);
    assert!(!fixture.run(&["policy", "list"]).out.contains("saved by"), "nothing is remembered");
    // For a client of `haft mcp` the session and its rules end with the process.
    let fixture = Fixture::new().user_config(ELSEWHERE);
    let (mut client, id) = asking(&fixture, "a.txt");
    let ran = fixture.run(&["approvals", "approve", &id, "--remember", "1", "--scope", "session"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    client.next();
    client.call(2, "write", json!({"path": "a.txt", "content": "again\n"}));
    assert_eq!(client.next()["result"]["isError"], false);
    client.kill();
    let (_client, next) = asking(&fixture, "a.txt");
    assert_ne!(next, id, "another session is asked again");
}

#[test]
fn the_call_of_a_killed_server_waits_and_runs_here_exactly_once() {
    let fixture = fixture();
    let (mut client, id) = asking(&fixture, "a.txt");
    client.kill();
    assert_eq!(pending(&fixture), id, "it waits all the same");
    let ran = fixture.run(&["approvals", "approve", &id]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("the process that asked is gone; running the call here"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(written(&fixture, "a.txt")).expect("written"), "written\n");
    std::fs::remove_file(written(&fixture, "a.txt")).expect("gone");
    for _ in 0..2 {
        let again = fixture.run(&["approvals", "approve", &id]);
        assert_eq!(again.code, 4, "{again:?}");
        assert!(again.err.contains("its call was claimed"), "{again:?}");
    }
    assert!(!written(&fixture, "a.txt").exists(), "not a second time");
    let entries = fixture.run(&["ledger", "export"]).out;
    let entries: Vec<Value> =
        entries.lines().map(|line| serde_json::from_str(line).expect("an entry")).collect();
    assert_eq!(entries.len(), 2, "its beginning and its end: {entries:?}");
    let entry = &entries[1]["entry"];
    assert_eq!(entry["begun_seq"], json!(1), "{entry}");
    assert!(entry["session"].as_str().is_some_and(|it| it.starts_with("mcp-")), "{entry}");
    assert_eq!((&entry["agents"], &entry["verdict"]["by"]), (&json!(["mcp"]), &json!("ada")));
}

#[test]
fn a_call_whose_server_was_killed_while_it_ran_is_not_run_again() {
    let fixture = fixture();
    let mut client = Client::introduced(&fixture, json!({}));
    client.call(1, "bash", json!({"command": "echo x >> ran.txt; sleep 600"}));
    let id = pending(&fixture);
    let ran = fixture.run(&["approvals", "approve", &id]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let began = Instant::now();
    // Wait for the content: the shell creates the file before it writes.
    while !std::fs::read_to_string(written(&fixture, "ran.txt")).is_ok_and(|it| it == "x\n") {
        assert!(began.elapsed() < TIMEOUT, "it does not run");
    }
    client.kill();
    let told = fixture.run(&["approvals", "list"]).out;
    assert!(told.contains("result unknown"), "{told}");
    let again = fixture.run(&["approvals", "approve", &id]);
    assert_eq!(again.code, 4, "{again:?}");
    assert_eq!(std::fs::read_to_string(written(&fixture, "ran.txt")).expect("there"), "x\n");
}

#[test]
fn a_client_that_can_ask_and_another_terminal_are_asked_at_once_and_the_first_wins() {
    let fixture = Fixture::new().user_config("approve = \"none\"\n");
    let mut client = Client::introduced(&fixture, json!({"elicitation": {}}));
    client.call(1, "write", json!({"path": "a.txt", "content": "x\n"}));
    let question = client.next();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let id = pending(&fixture);
    let ran = fixture.run(&["approvals", "approve", &id]);
    assert_eq!(ran.code, 0, "{ran:?}");
    // The elicitation is cancelled and the call is answered, in any order.
    let both = [client.next(), client.next()];
    let withdrawn = both.iter().find(|it| it["method"] == "notifications/cancelled");
    assert_eq!(withdrawn.map(|it| &it["params"]["requestId"]), Some(&question["id"]), "{both:?}");
    let answer = both.iter().find(|it| it["id"] == 1).expect("an answer");
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    // The reverse: the client answers first.
    client.call(2, "write", json!({"path": "b.txt", "content": "x\n"}));
    let question = client.next();
    let id = pending(&fixture);
    let yes = json!({"action": "accept", "content": {"decision": "once"}});
    client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": yes}));
    let answer = client.next();
    assert_eq!(
        (&answer["id"], &answer["result"]["isError"]),
        (&json!(2), &json!(false)),
        "{answer}"
    );
    let late = fixture.run(&["approvals", "approve", &id]);
    assert_eq!(late.code, 4, "{late:?}");
    assert!(late.err.contains("already approved by"), "{late:?}");
}

#[test]
fn a_cancelled_call_is_no_longer_pending() {
    let fixture = fixture();
    let (mut client, id) = asking(&fixture, "a.txt");
    client.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
    );
    let began = Instant::now();
    while listed(&fixture)[0]["state"] != "cancelled" {
        assert!(began.elapsed() < TIMEOUT, "{:?}", listed(&fixture));
    }
    let late = fixture.run(&["approvals", "approve", &id]);
    assert_eq!(late.code, 4, "{late:?}");
    assert!(!written(&fixture, "a.txt").exists());
}

#[test]
fn a_request_that_came_with_the_folder_runs_nothing() {
    let theirs = fixture();
    let (mut client, id) = asking(&theirs, "a.txt");
    client.kill();
    let mine = fixture();
    for end in ["", "-wal", "-shm"] {
        let name = format!("project/.haft/haft.db{end}");
        std::fs::copy(theirs.path(&name), mine.path(&name)).expect("copied");
    }
    // The other user has a different key.
    let (_client, own) = asking(&mine, "b.txt");
    let ran = mine.run(&["approvals", "list"]);
    assert!(ran.err.contains("1 request was not created by your haft"), "{ran:?}");
    assert!(ran.out.contains(&own) && !ran.out.contains(&id), "{ran:?}");
    let refused = mine.run(&["approvals", "approve", &id]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(!written(&mine, "a.txt").exists() && !written(&theirs, "a.txt").exists());
}

/// Spawns a command without a terminal and captures its output.
fn waiting(fixture: &Fixture, arguments: &[&str]) -> Child {
    let mut command = fixture.haft_without_terminal(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("haft runs")
}

#[test]
fn a_command_waits_where_it_is_told_to() {
    let fixture = Fixture::new();
    let child = waiting(&fixture, &["hello", "Ada", "--approve", "none", "--wait"]);
    let id = pending(&fixture);
    let ran = fixture.run(&["approvals", "approve", &id]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Hello, Ada!\n");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(err.contains(&format!("waiting for approval: haft approvals show {id}")), "{err}");
}

#[test]
fn a_request_expires_in_all_processes() {
    let fixture = Fixture::new().user_config("[limits]\napproval_wait_secs = 1\n");
    let child = waiting(&fixture, &["hello", "Ada", "--approve", "none", "--wait"]);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let row = listed(&fixture).remove(0);
    assert_eq!(row["state"], "expired", "{row}");
    let id = row["request"]["id"].as_str().expect("an id");
    assert_eq!(fixture.run(&["approvals", "approve", id]).code, 4);
}

#[test]
fn a_question_at_a_terminal_can_be_answered_in_another() {
    let fixture = Fixture::new();
    let screen = Screen::haft(&fixture, &["--approve", "none", "hello", "Ada"]);
    screen.wait_for("[y] yes, once");
    let ran = fixture.run(&["approvals", "approve", &pending(&fixture)]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(screen.exit_code(), 0);
    screen.wait_for("haft no longer waits for an answer");
    screen.wait_for("Hello, Ada!");
}

#[test]
fn read_only_commands_create_no_store_and_no_key() {
    let fixture = Fixture::new();
    assert_eq!(fixture.run(&["approvals"]).out, "no pending requests");
    assert_eq!(fixture.run(&["approvals", "show", "ask_1"]).code, 3);
    assert!(!fixture.path("project/.haft/haft.db").exists());
    assert!(!fixture.path("home/.local").exists());
}

#[test]
fn the_live_list_shows_what_comes_and_decides_what_is_marked() {
    let fixture = fixture();
    let screen = Screen::haft(&fixture, &["approvals"]);
    screen.wait_for("nothing waits for a decision");
    let (mut client, id) = asking(&fixture, "a.txt");
    let shown = screen.wait_for("> pending");
    assert!(shown.contains("1 call waits for a decision"), "{shown}");
    let shown = screen.wait_for("+written");
    assert!(shown.contains("write a.txt") && shown.contains("why: mode `none`"), "{shown}");
    screen.press(&["Enter"]);
    screen.wait_for(&id);
    screen.wait_for("esc back");
    screen.press(&["a"]);
    let answer = client.next();
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    screen.wait_for("nothing waits for a decision");
    // The second request is denied with a note.
    client.call(2, "write", json!({"path": "b.txt", "content": "no\n"}));
    screen.wait_for("+no");
    screen.press(&["d"]);
    screen.wait_for("what should be done instead?");
    screen.press(&["-l", "quite another way"]);
    screen.wait_for("> quite another way");
    screen.press(&["Enter"]);
    let told = text(&client.next());
    assert!(told.contains("ada denied this call of `write`: quite another way"), "{told}");
    // A third one is remembered.
    client.call(3, "write", json!({"path": "c.txt", "content": "third\n"}));
    screen.wait_for("+third");
    screen.press(&["1"]);
    screen.wait_for("[p] in this project");
    screen.press(&["-l", "p 1d"]);
    screen.press(&["Enter"]);
    assert_eq!(client.next()["result"]["isError"], false);
    assert!(fixture.run(&["policy", "list"]).out.contains("(project, saved by ada"));
    screen.wait_for("nothing waits for a decision");
    screen.press(&["q"]);
    assert_eq!(screen.exit_code(), 0);
    // The original screen is restored.
    let after = screen.wait_for("[exit 0]");
    assert!(!after.contains("haft approvals:"), "{after}");
}

#[test]
fn the_live_list_runs_the_call_of_a_process_that_is_gone() {
    let fixture = fixture();
    let (mut client, _) = asking(&fixture, "a.txt");
    client.kill();
    let screen = Screen::haft(&fixture, &["approvals"]);
    screen.wait_for("no process waits for it");
    screen.press(&["a"]);
    screen.wait_for("runs here");
    screen.wait_for("[Enter] back to the list");
    assert!(written(&fixture, "a.txt").exists());
    screen.press(&["Enter"]);
    screen.wait_for("nothing waits for a decision");
    screen.press(&["q"]);
    assert_eq!(screen.exit_code(), 0);
}

#[test]
fn a_terminated_live_list_restores_the_terminal() {
    let fixture = fixture();
    let screen = Screen::haft(&fixture, &["approvals"]);
    screen.wait_for("nothing waits for a decision");
    screen.signal("-TERM");
    assert_eq!(screen.exit_code(), 0);
    let settings = Screen::start(&fixture, "stty -a; echo done; read -r line");
    settings.wait_for("done");
}

#[test]
fn what_comes_from_a_call_cannot_redraw_the_list() {
    let fixture = fixture();
    let mut client = Client::introduced(&fixture, json!({}));
    client.call(
        1,
        "bash",
        json!({"command": "echo \u{1b}[2J\u{9b}1A\u{202e}x\n> pending (9 min left)"}),
    );
    pending(&fixture);
    let screen = Screen::haft(&fixture, &["approvals"]);
    let shown = screen.wait_for("> pending");
    assert!(shown.contains("haft approvals: 1 call waits"), "nothing was wiped: {shown}");
    let marks = shown.lines().filter(|line| line.starts_with("> ")).count();
    assert_eq!(marks, 1, "{shown}");
    let plain = fixture.run(&["approvals", "list"]).out;
    assert!(!plain.contains('\u{1b}') && !plain.contains('\u{202e}'), "{plain}");
    screen.press(&["q"]);
    assert_eq!(screen.exit_code(), 0);
}

#[test]
fn an_unwritable_store_does_not_prevent_approval_at_the_terminal() {
    let fixture = Fixture::new();
    std::fs::create_dir_all(fixture.path("project/.haft/haft.db")).expect("in the way");
    let screen = Screen::haft(&fixture, &["--approve", "none", "hello", "Ada"]);
    screen.wait_for("[y] yes, once");
    screen.press(&["y"]);
    assert_eq!(screen.exit_code(), 0);
    let shown = screen.wait_for("Hello, Ada!");
    assert!(shown.contains("the approval request is visible in this process only: "), "{shown}");
}
