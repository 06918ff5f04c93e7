//! Commands in containers, over stdio and from the command line. Once with podman (`containers`)
//! and once with Docker's command line (`docker`).

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use crate::{
    fixture::Fixture,
    shell::{answer, ask, runs_program, text, trusted, wait_for_count, wait_until, word},
};

/// Returns the engine that `cargo xtask setup` installs, if it did. In CI it must.
pub(crate) fn engine() -> Option<String> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/containers");
    let engine = tools.join(kind()).canonicalize().ok().map(|path| path.display().to_string());
    if engine.is_none() {
        #[expect(clippy::disallowed_methods, reason = "whether a gap is a failure")]
        let in_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
        assert!(!in_ci, "no container engine; `cargo xtask setup` makes one");
    }
    engine
}

fn kind() -> &'static str {
    if module_path!().ends_with("docker") { "docker" } else { "podman" }
}

/// Returns a fixture whose commands run in containers.
fn fixture(engine: &str, image: &str) -> Fixture {
    Fixture::new().user_config(&format!(
        "sandbox = \"container\"\n[container]\nengine = \"{engine}\"\nimage = \"{image}\"\n"
    ))
}

/// Lists the containers of the project.
fn containers(engine: &str, fixture: &Fixture) -> Vec<String> {
    let filter = format!("label=haft.workspace={}", fixture.path("project").display());
    let words = ["ps", "--all", "--filter", &filter, "--format", "{{.Names}}"];
    let listed = Command::new(engine).args(words).output().expect("it runs").stdout;
    String::from_utf8_lossy(&listed).lines().map(str::to_owned).collect()
}

#[test]
fn a_client_has_its_commands_in_a_container_that_goes_with_it() {
    let Some(engine) = engine() else { return };
    let fixture = fixture(&engine, "haft-test");
    let mut client = trusted(&fixture);
    let command = json!({"command": "pwd; echo hi > made; exit 3"});
    let result = ask(&mut client, 1, "bash", command);
    let words = "/workspace\n[exit code 3; changed: +made; in a container: no network, the workspace is /workspace, \
                 writes only there and in /tmp]";
    assert_eq!(text(&result), words);
    assert_eq!(result["structuredContent"]["place"], "container");
    let word = word(4731);
    let daemon = format!("setsid sleep {word} </dev/null >/dev/null 2>&1 & echo up");
    let left = ask(&mut client, 2, "bash", json!({"command": daemon}));
    assert!(text(&left).starts_with("up") && !text(&left).contains("on,"), "{}", text(&left));
    wait_for_count(&word, 0);
    client.close();
    assert!(client.exit().success());
    assert_eq!(containers(&engine, &fixture), [""; 0]);
}

#[test]
fn a_process_in_a_container_is_waited_for_written_to_and_ended() {
    let Some(engine) = engine() else { return };
    let fixture = fixture(&engine, "haft-test");
    let mut client = trusted(&fixture);
    let command = "nc -l -p 4732 & echo ready; read line; echo got $line; cat";
    let started = ask(&mut client, 1, "bash", json!({"command": command, "background": true}));
    let id = started["structuredContent"]["id"].clone();
    let wait = |more: Value| {
        let mut input = json!({"action": "wait", "id": id});
        input.as_object_mut().expect("one").extend(more.as_object().expect("one").clone());
        input
    };
    let mut process = |number: u64, input: Value| ask(&mut client, number, "process", input);
    process(2, wait(json!({"pattern": "^ready$"})));
    let port = process(3, wait(json!({"port": 4732, "timeout_ms": 30_000})));
    assert_eq!(port["isError"], false, "{port}");
    process(4, json!({"action": "write", "id": id, "text": "one\n"}));
    process(5, wait(json!({"pattern": "^got one$"})));
    let killed = process(6, json!({"action": "kill", "id": id}));
    assert_eq!(killed["structuredContent"]["processes"][0]["state"], "killed");
    let listed = process(7, json!({"action": "list"}));
    assert_eq!(listed["structuredContent"]["processes"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_container_that_goes_during_a_call_is_told_with_what_was_said_before() {
    let Some(engine) = engine() else { return };
    let fixture = fixture(&engine, "haft-test");
    let mut client = trusted(&fixture);
    let word = word(4733);
    client.call(1, "bash", json!({"command": format!("echo before; exec sleep {word}")}));
    wait_until(|| runs_program("sleep", &word));
    let name = containers(&engine, &fixture).remove(0);
    Command::new(&engine).args(["kill", &name]).output().expect("it runs");
    let result = answer(&mut client, 1);
    assert_eq!(result["isError"], true, "{result}");
    assert!(text(&result).contains("disappeared while the command ran in it"), "{}", text(&result));
    let again = ask(&mut client, 2, "bash", json!({"command": "echo again"}));
    assert_eq!(text(&again), "again");
}

#[test]
fn doctor_tries_containers_and_says_what_is_missing() {
    let Some(engine) = engine() else { return };
    let ran = fixture(&engine, "haft-test").run(&["doctor", "--json"]);
    let told: Value = serde_json::from_str(&ran.out).expect("json");
    assert_eq!(
        (ran.code, &told["fenced"], &told["wanted"]),
        (0, &json!(true), &json!("container"))
    );
    let verdicts = told["verdicts"].as_array().expect("a list");
    assert!(verdicts.iter().any(|one| one["mechanism"] == kind() && one["works"] == true));
    let without = fixture(&engine, "haft-none");
    let ran = without.run(&["doctor"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("there is no image `haft-none`"), "{}", ran.out);
    assert!(ran.out.contains("pull haft-none"), "{}", ran.out);
    let refused = without.run(&["--approve", "all", "bash", "true"]);
    assert!(refused.err.contains("there is no image `haft-none`"), "nothing runs: {}", refused.err);
}

#[test]
fn secrets_of_the_workspace_are_closed_in_containers_too() {
    let Some(engine) = engine() else { return };
    let fixture = fixture(&engine, "haft-test");
    fs::write(fixture.path("project/.env"), "A=1secret").expect("written");
    fs::write(fixture.path("project/plain"), "2open").expect("written");
    let mut client = trusted(&fixture);
    let found = ask(&mut client, 1, "bash", json!({"command": "grep -rh . ."}));
    assert!(text(&found).contains("2open") && !text(&found).contains("secret"), "{found:#}");
    // A secret file that is created later is hidden from the next command.
    fs::write(fixture.path("project/id_rsa"), "3secret").expect("written");
    let later = ask(&mut client, 2, "bash", json!({"command": "grep -h . *"}));
    assert!(text(&later).contains("2open") && !text(&later).contains("secret"), "{later:#}");
}
