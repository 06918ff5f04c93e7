//! The official Python client. Its calls and assertions are in `client.py`; this file starts the
//! servers.

use std::process::Command;

use serde_json::{Value, json};

use super::{Served, example, haft, run, text, tool};
use crate::fixture::Fixture;

const BOTH: &[&str] = &["legacy", "auto"];

/// `eras` are the client's names for protocol versions; `auto` is 2026-07-28 if the server supports
/// it.
#[track_caller]
fn check(play: &str, eras: &[&str], server: &Value, fixture: &Fixture) {
    let folder = fixture.path("project");
    let wanted = json!({"play": play, "eras": eras, "server": server, "folder": folder});
    let mut client = Command::new(tool("python/bin/python"));
    client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp_peers/client.py"));
    client.arg(wanted.to_string());
    let output = run(client);
    let said = text(&output.stdout);
    let went_well = eras.iter().all(|era| said.contains(&format!("{play} {era}: ok")));
    assert!(output.status.success() && went_well, "{said}\n{}", text(&output.stderr));
}

/// Returns the `haft mcp` command for the client to start.
fn command(fixture: &Fixture, arguments: &[&str]) -> Value {
    started_by(&haft(fixture, arguments))
}

fn started_by(command: &Command) -> Value {
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    let environment: serde_json::Map<String, Value> = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value?.to_str()?.into())))
        .collect();
    json!({
        "command": command.get_program().to_string_lossy(),
        "args": words,
        "cwd": command.get_current_dir(),
        "env": environment,
    })
}

fn url(served: &Served) -> Value {
    json!({"url": served.url})
}

/// In the fixture's project, with all tools and without approvals.
fn everything(fixture: &Fixture) -> Vec<String> {
    let project = fixture.path("project").display().to_string();
    ["--workspace", &project, "--profile", "developer", "--approve", "all"]
        .map(str::to_owned)
        .into()
}

#[test]
fn the_python_client_uses_everything_over_stdio() {
    let fixture = Fixture::new();
    let arguments = everything(&fixture);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    check("tools", BOTH, &command(&fixture, &arguments), &fixture);
}

#[test]
fn the_python_client_uses_everything_over_http() {
    let fixture = Fixture::new();
    let arguments = everything(&fixture);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    check("tools", BOTH, &url(&Served::haft(&fixture, &arguments)), &fixture);
}

#[test]
fn a_person_at_the_python_client_is_asked_over_stdio() {
    let fixture = Fixture::new();
    check("approvals", BOTH, &command(&fixture, &[]), &fixture);
}

#[test]
fn a_person_at_the_python_client_is_asked_over_http() {
    let fixture = Fixture::new();
    check("approvals", BOTH, &url(&Served::haft(&fixture, &[])), &fixture);
}

/// Started outside the project. From 2026-07-28 on a server cannot request roots by itself.
#[test]
fn the_roots_of_the_python_client_are_worked_in() {
    let fixture = Fixture::new();
    let elsewhere = fixture.path("home").display().to_string();
    let mut over_stdio = command(&fixture, &[]);
    over_stdio["cwd"] = elsewhere.clone().into();
    check("roots", &["legacy"], &over_stdio, &fixture);

    let mut server = haft(&fixture, &["--http", "127.0.0.1:0"]);
    server.current_dir(elsewhere);
    check("roots", &["legacy"], &url(&Served::start(server)), &fixture);
}

#[test]
fn the_python_client_hears_is_asked_and_calls_off_over_stdio() {
    let server = json!({"command": example(), "args": []});
    check("example", BOTH, &server, &Fixture::new());
}

#[test]
fn the_python_client_hears_is_asked_and_calls_off_over_http() {
    check("example", BOTH, &url(&Served::example()), &Fixture::new());
}

#[test]
fn the_python_client_is_given_every_tool_again_from_a_recording() {
    for era in BOTH {
        let fixture = Fixture::new();
        let file = fixture.path("project/a.txt");
        std::fs::write(&file, "one\ntwo\nthree\n").expect("written");
        let project = fixture.path("project").display().to_string();
        let place = ["--workspace", &project, "--profile", "developer"];
        let record = [&place[..], &["--approve", "all", "--keep-results"]].concat();
        check("recorded", &[era], &command(&fixture, &record), &fixture);
        let shown = fixture.run(&["ledger", "show", "--json", "--limit", "1"]).json();
        let session = shown[0]["entry"]["session"].as_str().expect("a session");
        std::fs::remove_dir_all(fixture.path("project/repo")).expect("it was made");
        std::fs::write(&file, "something else\n").expect("written");
        let replay = fixture.haft(&[&["replay", session], &place[..]].concat());
        check("recorded", &[era], &started_by(&replay), &fixture);
        let text = std::fs::read_to_string(&file).expect("there");
        assert_eq!((&*text, fixture.path("project/repo").exists()), ("something else\n", false));
    }
}
