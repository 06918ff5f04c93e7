//! Questions of one process, answered by another: `haft mcp` asks, `haft approvals` decides, and whoever is killed in
//! between, the call runs once or not at all.

use std::{
    path::PathBuf,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    house::{House, Screen},
    mcp_stdio::Client,
};

/// Far longer than anything here takes; only a test that fails waits for it.
const PATIENCE: Duration = Duration::from_secs(60);
const ELSEWHERE: &str = "approve = \"none\"\n[approvals]\nelsewhere = true\n";

/// Everything is asked about, and waits for an answer from elsewhere.
fn house() -> House {
    House::new().user_config(ELSEWHERE)
}

/// A server that was asked to write a file, and waits.
fn asking(house: &House, name: &str) -> (Client, String) {
    let mut client = Client::introduced(house, json!({}));
    client.call(1, "write", json!({"path": name, "content": "written\n"}));
    let id = pending(house);
    (client, id)
}

fn listed(house: &House) -> Vec<Value> {
    let ran = house.run(&["approvals", "list", "--all", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    serde_json::from_str(&ran.out).expect("a list")
}

/// The id of the one request that waits, once there is one.
#[track_caller]
fn pending(house: &House) -> String {
    let began = Instant::now();
    loop {
        let pending = listed(house).into_iter().find(|row| row["state"] == "pending");
        if let Some(row) = pending {
            return row["request"]["id"].as_str().expect("an id").to_owned();
        }
        assert!(began.elapsed() < PATIENCE, "nothing waits");
    }
}

fn text(answer: &Value) -> String {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

fn written(house: &House, name: &str) -> PathBuf {
    house.path("project").join(name)
}

#[test]
fn a_client_that_cannot_ask_is_refused_at_once_and_told_of_the_other_way() {
    let house = House::new().user_config("approve = \"none\"\n");
    let mut client = Client::introduced(&house, json!({}));
    client.call(1, "write", json!({"path": "a.txt", "content": "x"}));
    let told = text(&client.next());
    assert!(told.contains("no approval handler"), "{told}");
    assert!(told.contains("`elsewhere = true` under `[approvals]`"), "{told}");
    assert!(listed(&house).is_empty(), "nobody was asked");
}

#[test]
fn a_yes_in_another_terminal_lets_the_call_run_where_it_was_asked_for() {
    let house = house();
    let (mut client, id) = asking(&house, "a.txt");
    let shown = house.run(&["approvals", "show", &id]).out;
    assert!(shown.contains("+written") && shown.contains("write a.txt"), "{shown}");
    assert!(shown.contains("why: mode `none`: read a.txt"), "{shown}");
    assert!(!written(&house, "a.txt").exists());
    // The beginning of an id is enough.
    let ran = house.run(&["approvals", "approve", &id.chars().take(20).collect::<String>()]);
    assert_eq!(
        (ran.code, &*ran.out),
        (0, "approved: the process that asked runs the call"),
        "{ran:?}"
    );
    let answer = client.next();
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert!(written(&house, "a.txt").exists());
    let again = house.run(&["approvals", "approve", &id]);
    assert_eq!(again.code, 4, "{again:?}");
    let row = listed(&house).remove(0);
    assert_eq!((&row["state"], &row["fate"]), (&json!("approved"), &json!({"ran": null})), "{row}");
    assert_eq!(house.run(&["approvals"]).out, "nothing waits for a decision");
}

#[test]
fn a_no_with_words_reaches_the_model() {
    let house = house();
    let (mut client, id) = asking(&house, "a.txt");
    let ran = house.run(&["approvals", "deny", &id, "--note", "use b.txt"]);
    assert_eq!((ran.code, &*ran.out), (0, "denied: the call does not run"), "{ran:?}");
    let told = text(&client.next());
    assert!(told.contains("ada denied this call of `write`: use b.txt"), "{told}");
    assert!(!written(&house, "a.txt").exists());
}

#[test]
fn what_a_yes_remembers_is_not_asked_again() {
    let house = house();
    let (mut client, id) = asking(&house, "a.txt");
    let wrong = house.run(&["approvals", "approve", &id, "--remember", "9"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    let ran = house.run(&[
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
    let rules = house.run(&["policy", "list"]).out;
    assert!(rules.contains("(project, kept by ada") && rules.contains("lapses"), "{rules}");
    client.call(2, "write", json!({"path": "a.txt", "content": "again\n"}));
    let answer = client.next();
    assert_eq!(answer["result"]["isError"], false, "{answer}");
}

/// Every command is of the session `cli`, which never ends: a rule of it would be one for good by another name.
#[test]
fn no_yes_of_the_command_line_lasts_for_a_session() {
    let house = House::new();
    let screen = Screen::haft(&house, &["--approve", "none", "hello", "Ada"]);
    let shown = screen.wait_for("[y] yes, once");
    assert!(!shown.contains("session"), "{shown}");
    let id = pending(&house);
    let refused =
        house.run(&["approvals", "approve", &id, "--remember", "1", "--scope", "session"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("session"), "{refused:?}");
    assert_eq!(pending(&house), id, "it was not decided");
    screen.press(&["y"]);
    assert_eq!(screen.exit_code(), 0);
    assert!(!house.run(&["policy", "list"]).out.contains("kept by"), "nothing is remembered");
    // For a client of `haft mcp` a session ends with its process, and its rules with it.
    let house = House::new().user_config(ELSEWHERE);
    let (mut client, id) = asking(&house, "a.txt");
    let ran = house.run(&["approvals", "approve", &id, "--remember", "1", "--scope", "session"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    client.next();
    client.call(2, "write", json!({"path": "a.txt", "content": "again\n"}));
    assert_eq!(client.next()["result"]["isError"], false);
    client.kill();
    let (_client, next) = asking(&house, "a.txt");
    assert_ne!(next, id, "another session is asked again");
}

#[test]
fn the_call_of_a_killed_server_waits_and_runs_here_exactly_once() {
    let house = house();
    let (mut client, id) = asking(&house, "a.txt");
    client.kill();
    assert_eq!(pending(&house), id, "it waits all the same");
    let ran = house.run(&["approvals", "approve", &id]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("the process that asked is gone; its call runs here"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(written(&house, "a.txt")).expect("written"), "written\n");
    std::fs::remove_file(written(&house, "a.txt")).expect("gone");
    for _ in 0..2 {
        let again = house.run(&["approvals", "approve", &id]);
        assert_eq!(again.code, 4, "{again:?}");
        assert!(again.err.contains("its call was claimed"), "{again:?}");
    }
    assert!(!written(&house, "a.txt").exists(), "not a second time");
    let entries = house.run(&["ledger", "export"]).out;
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
    let house = house();
    let mut client = Client::introduced(&house, json!({}));
    client.call(1, "bash", json!({"command": "echo x >> ran.txt; sleep 600"}));
    let id = pending(&house);
    let ran = house.run(&["approvals", "approve", &id]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let began = Instant::now();
    // Not that the file is there: the shell makes it before it writes.
    while !std::fs::read_to_string(written(&house, "ran.txt")).is_ok_and(|it| it == "x\n") {
        assert!(began.elapsed() < PATIENCE, "it does not run");
    }
    client.kill();
    let told = house.run(&["approvals", "list"]).out;
    assert!(told.contains("whether it ran is not known"), "{told}");
    let again = house.run(&["approvals", "approve", &id]);
    assert_eq!(again.code, 4, "{again:?}");
    assert_eq!(std::fs::read_to_string(written(&house, "ran.txt")).expect("there"), "x\n");
}

#[test]
fn a_client_that_can_ask_and_another_terminal_are_asked_at_once_and_the_first_wins() {
    let house = House::new().user_config("approve = \"none\"\n");
    let mut client = Client::introduced(&house, json!({"elicitation": {}}));
    client.call(1, "write", json!({"path": "a.txt", "content": "x\n"}));
    let question = client.next();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let id = pending(&house);
    let ran = house.run(&["approvals", "approve", &id]);
    assert_eq!(ran.code, 0, "{ran:?}");
    // The question is withdrawn, and the call is answered; in whatever order.
    let both = [client.next(), client.next()];
    let withdrawn = both.iter().find(|it| it["method"] == "notifications/cancelled");
    assert_eq!(withdrawn.map(|it| &it["params"]["requestId"]), Some(&question["id"]), "{both:?}");
    let answer = both.iter().find(|it| it["id"] == 1).expect("an answer");
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    // And the other way round.
    client.call(2, "write", json!({"path": "b.txt", "content": "x\n"}));
    let question = client.next();
    let id = pending(&house);
    let yes = json!({"action": "accept", "content": {"decision": "once"}});
    client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": yes}));
    let answer = client.next();
    assert_eq!(
        (&answer["id"], &answer["result"]["isError"]),
        (&json!(2), &json!(false)),
        "{answer}"
    );
    let late = house.run(&["approvals", "approve", &id]);
    assert_eq!(late.code, 4, "{late:?}");
    assert!(late.err.contains("already approved by"), "{late:?}");
}

#[test]
fn what_a_client_calls_off_waits_no_longer() {
    let house = house();
    let (mut client, id) = asking(&house, "a.txt");
    client.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
    );
    let began = Instant::now();
    while listed(&house)[0]["state"] != "cancelled" {
        assert!(began.elapsed() < PATIENCE, "{:?}", listed(&house));
    }
    let late = house.run(&["approvals", "approve", &id]);
    assert_eq!(late.code, 4, "{late:?}");
    assert!(!written(&house, "a.txt").exists());
}

#[test]
fn a_request_that_came_with_the_folder_runs_nothing() {
    let theirs = house();
    let (mut client, id) = asking(&theirs, "a.txt");
    client.kill();
    let mine = house();
    for end in ["", "-wal", "-shm"] {
        let name = format!("project/.haft/haft.db{end}");
        std::fs::copy(theirs.path(&name), mine.path(&name)).expect("copied");
    }
    // I have a key of my own.
    let (_client, own) = asking(&mine, "b.txt");
    let ran = mine.run(&["approvals", "list"]);
    assert!(ran.err.contains("1 request was not made by your haft"), "{ran:?}");
    assert!(ran.out.contains(&own) && !ran.out.contains(&id), "{ran:?}");
    let refused = mine.run(&["approvals", "approve", &id]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(!written(&mine, "a.txt").exists() && !written(&theirs, "a.txt").exists());
}

/// A call of the command line where there is no terminal, and its words as they come.
fn waiting(house: &House, arguments: &[&str]) -> Child {
    let mut command = house.haft_without_terminal(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("haft runs")
}

#[test]
fn a_command_waits_where_it_is_told_to() {
    let house = House::new();
    let child = waiting(&house, &["hello", "Ada", "--approve", "none", "--wait"]);
    let id = pending(&house);
    let ran = house.run(&["approvals", "approve", &id]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Hello, Ada!\n");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(err.contains(&format!("waiting for approval: haft approvals show {id}")), "{err}");
}

#[test]
fn a_question_lapses_for_everybody() {
    let house = House::new().user_config("[limits]\napproval_wait_secs = 1\n");
    let child = waiting(&house, &["hello", "Ada", "--approve", "none", "--wait"]);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let row = listed(&house).remove(0);
    assert_eq!(row["state"], "expired", "{row}");
    let id = row["request"]["id"].as_str().expect("an id");
    assert_eq!(house.run(&["approvals", "approve", id]).code, 4);
}

#[test]
fn a_question_at_a_terminal_can_be_answered_in_another() {
    let house = House::new();
    let screen = Screen::haft(&house, &["--approve", "none", "hello", "Ada"]);
    screen.wait_for("[y] yes, once");
    let ran = house.run(&["approvals", "approve", &pending(&house)]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(screen.exit_code(), 0);
    screen.wait_for("haft no longer waits for an answer");
    screen.wait_for("Hello, Ada!");
}

#[test]
fn who_only_looks_makes_no_store_and_no_key() {
    let house = House::new();
    assert_eq!(house.run(&["approvals"]).out, "nothing waits for a decision");
    assert_eq!(house.run(&["approvals", "show", "ask_1"]).code, 3);
    assert!(!house.path("project/.haft/haft.db").exists());
    assert!(!house.path("home/.local").exists());
}

#[test]
fn the_live_list_shows_what_comes_and_decides_what_is_marked() {
    let house = house();
    let screen = Screen::haft(&house, &["approvals"]);
    screen.wait_for("nothing waits for a decision");
    let (mut client, id) = asking(&house, "a.txt");
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
    // A second one is denied with words, typed as they come.
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
    assert!(house.run(&["policy", "list"]).out.contains("(project, kept by ada"));
    screen.wait_for("nothing waits for a decision");
    screen.press(&["q"]);
    assert_eq!(screen.exit_code(), 0);
    // The shell's own screen is back.
    let after = screen.wait_for("[exit 0]");
    assert!(!after.contains("haft approvals:"), "{after}");
}

#[test]
fn the_live_list_runs_the_call_of_a_process_that_is_gone() {
    let house = house();
    let (mut client, _) = asking(&house, "a.txt");
    client.kill();
    let screen = Screen::haft(&house, &["approvals"]);
    screen.wait_for("nobody waits for it");
    screen.press(&["a"]);
    screen.wait_for("runs here");
    screen.wait_for("[Enter] back to the list");
    assert!(written(&house, "a.txt").exists());
    screen.press(&["Enter"]);
    screen.wait_for("nothing waits for a decision");
    screen.press(&["q"]);
    assert_eq!(screen.exit_code(), 0);
}

#[test]
fn a_live_list_that_is_told_to_end_gives_the_terminal_back() {
    let house = house();
    let screen = Screen::haft(&house, &["approvals"]);
    screen.wait_for("nothing waits for a decision");
    screen.signal("-TERM");
    assert_eq!(screen.exit_code(), 0);
    let settings = Screen::start(&house, "stty -a; echo done");
    settings.wait_for("done");
}

#[test]
fn what_comes_from_a_call_cannot_redraw_the_list() {
    let house = house();
    let mut client = Client::introduced(&house, json!({}));
    client.call(
        1,
        "bash",
        json!({"command": "echo \u{1b}[2J\u{9b}1A\u{202e}x\n> pending (9 min left)"}),
    );
    pending(&house);
    let screen = Screen::haft(&house, &["approvals"]);
    let shown = screen.wait_for("> pending");
    assert!(shown.contains("haft approvals: 1 call waits"), "nothing was wiped: {shown}");
    let marks = shown.lines().filter(|line| line.starts_with("> ")).count();
    assert_eq!(marks, 1, "{shown}");
    let plain = house.run(&["approvals", "list"]).out;
    assert!(!plain.contains('\u{1b}') && !plain.contains('\u{202e}'), "{plain}");
    screen.press(&["q"]);
    assert_eq!(screen.exit_code(), 0);
}

#[test]
fn a_store_that_cannot_be_written_keeps_nobody_from_answering_at_the_terminal() {
    let house = House::new();
    std::fs::create_dir_all(house.path("project/.haft/haft.db")).expect("in the way");
    let screen = Screen::haft(&house, &["--approve", "none", "hello", "Ada"]);
    screen.wait_for("[y] yes, once");
    screen.press(&["y"]);
    assert_eq!(screen.exit_code(), 0);
    let shown = screen.wait_for("Hello, Ada!");
    assert!(shown.contains("the approval request is visible in this process only: "), "{shown}");
}
