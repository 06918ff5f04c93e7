//! `bash` and `process` over stdio: commands do not block the server, and none is left when it
//! exits.

use std::{fs, process::Command};

use serde_json::{Value, json};

use crate::{
    fixture::Fixture,
    mcp_stdio::{Client, TIMEOUT},
};

/// Starts a client whose calls need no approval.
pub(crate) fn trusted(fixture: &Fixture) -> Client {
    let mut client = Client::start(fixture, &["--approve", "all", "--structured", "always"]);
    client.listen();
    client.introduce(json!({}));
    client
}

/// Returns the answer to a call and skips other answers.
pub(crate) fn answer(client: &mut Client, id: u64) -> Value {
    loop {
        let said = client.next();
        if said["id"] == id {
            return said["result"].clone();
        }
    }
}

pub(crate) fn ask(client: &mut Client, id: u64, tool: &str, arguments: Value) -> Value {
    client.call(id, tool, arguments);
    answer(client, id)
}

#[track_caller]
pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().expect("a text")
}

/// Returns a word that only this test's commands have in their command line.
pub(crate) fn word(number: u32) -> String {
    format!("{number}.{}", std::process::id())
}

fn count(word: &str) -> usize {
    let processes = fs::read_dir("/proc").expect("a table").flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(word)).count()
}

/// Waits until this many processes have the word. The system does not notify about that.
#[track_caller]
pub(crate) fn wait_for_count(word: &str, wanted: usize) {
    let begun = std::time::Instant::now();
    while count(word) != wanted {
        assert!(begun.elapsed() < TIMEOUT, "{} of {word}, not {wanted}", count(word));
        std::thread::yield_now();
    }
}

/// Waits until a condition holds. The system does not notify about it.
#[track_caller]
pub(crate) fn wait_until(is_so: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TIMEOUT, "it does not come about");
        std::thread::yield_now();
    }
}

/// Returns true if a process with this argument runs.
pub(crate) fn runs_program(program: &str, word: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("a table").flatten();
    let mut lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.any(|line| {
        line.starts_with(program.as_bytes()) && String::from_utf8_lossy(&line).contains(word)
    })
}

#[test]
fn a_command_runs_and_its_end_is_told() {
    let fixture = Fixture::new();
    let mut client = trusted(&fixture);
    let result = ask(&mut client, 1, "bash", json!({"command": "echo hi; exit 3"}));
    let words = "hi\n[exit code 3; sandboxed: no network, writes only in the workspace]";
    assert_eq!(text(&result), words);
    assert_eq!(result["structuredContent"]["place"], "sandbox");
    assert_eq!(result["structuredContent"]["state"], "exited");
    assert_eq!(result["structuredContent"]["exit_code"], 3);
    assert_eq!(result["isError"], false, "a command that fails is no failure of the tool");
}

#[test]
fn what_a_command_has_changed_is_told_and_what_is_ignored_is_not() {
    let fixture = Fixture::new();
    for file in ["kept", "changed", "gone", ".gitignore"] {
        fs::write(fixture.path(&format!("project/{file}")), "built\n").expect("written");
    }
    fs::create_dir(fixture.path("project/.git")).expect("a folder");
    let mut client = trusted(&fixture);
    let command = "echo x >> changed; rm gone; mkdir -p new built; touch new/file built/x; f=.git/x; touch $f";
    let result = ask(&mut client, 1, "bash", json!({"command": command}));
    assert_eq!(text(&result), "[exit code 0; changed: ~changed -gone +new/file]");
    let changed = json!([
        {"path": "changed", "change": "modified"},
        {"path": "gone", "change": "deleted"},
        {"path": "new/file", "change": "created"},
    ]);
    assert_eq!(result["structuredContent"]["changed"], changed);
    assert_eq!(result["structuredContent"]["changes_known"], true);
    let nothing = ask(&mut client, 2, "bash", json!({"command": "cat changed"}));
    assert_eq!(text(&nothing), "built\nx");
}

#[test]
fn others_are_answered_while_a_command_runs_and_calling_it_off_ends_all_of_it() {
    let word = word(5001);
    let fixture = Fixture::new();
    let mut client = trusted(&fixture);
    client.call(1, "bash", json!({"command": format!("setsid sleep {word} & sleep {word}")}));
    wait_for_count(&format!("sleep\0{word}"), 2);
    client.check_alive();
    client.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
    );
    wait_for_count(&word, 0);
    client.close();
    let rest = client.rest();
    assert!(rest.iter().all(|said| said["id"] != 1), "{rest:?}");
    assert!(client.exit().success());
}

#[test]
fn a_command_does_not_outlive_its_time_and_what_it_said_is_kept() {
    let word = word(5002);
    let fixture = Fixture::new();
    let mut client = trusted(&fixture);
    let command = format!("echo before; (trap '' TERM; sleep {word}) & sleep {word}");
    let result = ask(&mut client, 1, "bash", json!({"command": command, "timeout_ms": 300}));
    assert_eq!(result["isError"], true);
    assert!(text(&result).starts_with("before\n"), "{}", text(&result));
    assert!(text(&result).contains("stopped after 300 ms"), "{}", text(&result));
    assert_eq!(count(&word), 0);
}

#[test]
fn nothing_is_left_when_the_client_goes_or_the_server_is_killed() {
    for is_killed in [false, true] {
        let word = word(5003 + u32::from(is_killed));
        let fixture = Fixture::new().user_config("sandbox = \"off\"\n");
        let mut client = trusted(&fixture);
        // A daemon survives a killed server, but not one that exits.
        let daemon = if is_killed { String::new() } else { format!("setsid sleep {word} & ") };
        let command = format!("{daemon}exec sleep {word}");
        let started = ask(&mut client, 1, "bash", json!({"command": command, "background": true}));
        assert_eq!(started["structuredContent"]["state"], "running", "{started}");
        wait_for_count(&format!("sleep\0{word}"), if is_killed { 1 } else { 2 });
        if is_killed {
            client.kill();
        } else {
            client.close();
            assert!(client.exit().success());
        }
        wait_for_count(&word, 0);
    }
}

/// Starts a daemon without a trace of its origin: two forks, a new session, no variables, no open
/// files.
fn daemon(word: &str) -> String {
    format!(
        "(setsid env -i /bin/sh -c '(exec /bin/sleep {word} <&- >&- 2>&-) & exit' <&- >&- 2>&- &); sleep 0.1"
    )
}

/// Its process id changes all the time.
#[test]
fn a_process_that_forks_and_ends_again_and_again_ends_with_its_command() {
    for backend in ["off", "landlock", "bubblewrap"] {
        let word = word(5007);
        let fixture = Fixture::new().user_config(&format!("sandbox = \"{backend}\"\n"));
        let mut client = trusted(&fixture);
        let hops = "for (1..2000) { fork and POSIX::_exit(0); select undef, undef, undef, 0.0005 }";
        let text = format!(
            "exit if fork; setsid; exit if fork; POSIX::close($_) for 0..99; %ENV = (); {hops} exec qw(/bin/sleep {word})"
        );
        let command = format!("perl -MPOSIX -e '{text}'");
        let result = ask(&mut client, 1, "bash", json!({"command": command}));
        assert_eq!(result["structuredContent"]["exit_code"], 0, "{backend}: {result}");
        // Its command line always has the word.
        let alive = || -> usize { (0..50).map(|_| count(&word)).sum() };
        assert_eq!(alive(), 0, "{backend}");
        let input = json!({"command": command}).to_string();
        let ran = fixture.run(&["call", "bash", &input, "--approve", "all"]);
        assert_eq!((ran.code, alive()), (0, 0), "{backend}: {ran:?}");
    }
}

#[test]
fn a_daemon_ends_with_its_command_its_deadline_and_its_session() {
    for backend in ["off", "landlock", "bubblewrap"] {
        let word = word(5006);
        let fixture = Fixture::new().user_config(&format!("sandbox = \"{backend}\"\n"));
        let mut client = trusted(&fixture);
        let result = ask(&mut client, 1, "bash", json!({"command": daemon(&word)}));
        assert_eq!(result["structuredContent"]["exit_code"], 0, "{backend}: {result}");
        assert_eq!(count(&word), 0, "{backend}: after its command");
        let command = format!("{}; sleep {word}", daemon(&word));
        let input = json!({"command": command, "timeout_ms": 1500});
        let result = ask(&mut client, 2, "bash", input);
        assert_eq!(result["structuredContent"]["state"], "killed_by_timeout", "{backend}");
        assert_eq!(count(&word), 0, "{backend}: after its deadline");
        let input = json!({"command": format!("{command}; true"), "background": true});
        let started = ask(&mut client, 3, "bash", input);
        wait_until(|| count(&format!("/bin/sleep\0{word}")) > 0);
        let id = started["structuredContent"]["id"].clone();
        ask(&mut client, 4, "process", json!({"action": "kill", "id": id}));
        assert_eq!(count(&word), 0, "{backend}: after its kill");
        let input = json!({"command": format!("{command}; true"), "background": true});
        ask(&mut client, 5, "bash", input);
        wait_until(|| count(&format!("/bin/sleep\0{word}")) > 0);
        client.close();
        assert!(client.exit().success());
        assert_eq!(count(&word), 0, "{backend}: after its session");
    }
}

/// Only an unsandboxed program can change the resource limit that identifies haft's processes.
#[test]
fn a_daemon_that_changes_its_limits_ends_with_its_command() {
    let word = word(5008);
    let fixture = Fixture::new().user_config("sandbox = \"off\"\n");
    let input = json!({"command": format!("ulimit -x 5; {}", daemon(&word))});
    let mut client = trusted(&fixture);
    let result = ask(&mut client, 1, "bash", input.clone());
    assert_eq!(result["structuredContent"]["exit_code"], 0, "{result}");
    assert_eq!(count(&word), 0, "over MCP");
    let ran = fixture.run(&["call", "bash", &input.to_string(), "--approve", "all"]);
    assert_eq!((ran.code, count(&word)), (0, 0), "{ran:?}");
}

#[test]
fn a_process_in_the_background_is_waited_for_read_written_to_and_ended() {
    let fixture = Fixture::new();
    let mut client = trusted(&fixture);
    let command =
        "echo ready; while read line; do echo \"got $line\"; touch made.$line; done; echo bye";
    let started = ask(&mut client, 1, "bash", json!({"command": command, "background": true}));
    let id = started["structuredContent"]["id"].as_str().expect("an id").to_owned();

    let wait = |what: Value| {
        let mut arguments = json!({"action": "wait", "id": id});
        arguments
            .as_object_mut()
            .expect("an object")
            .extend(what.as_object().expect("an object").clone());
        arguments
    };
    let ready = ask(&mut client, 2, "process", wait(json!({"pattern": "^ready$"})));
    assert_eq!(ready["structuredContent"]["reached"], true, "{ready}");
    let next = ready["structuredContent"]["next"].clone();

    ask(&mut client, 3, "process", json!({"action": "write", "id": id, "text": "one\n"}));
    let made = ask(&mut client, 4, "process", wait(json!({"file": "made.one"})));
    assert_eq!(made["structuredContent"]["reached"], true, "{made}");
    let polled = ask(&mut client, 5, "process", json!({"action": "poll", "id": id, "from": next}));
    assert!(text(&polled).starts_with("got one\n"), "{}", text(&polled));

    let never = ask(&mut client, 6, "process", wait(json!({"pattern": "never", "timeout_ms": 50})));
    assert_eq!(never["structuredContent"]["reached"], false);
    ask(&mut client, 7, "process", json!({"action": "write", "id": id, "close": true}));
    let ended = ask(&mut client, 8, "process", wait(json!({})));
    assert_eq!(ended["structuredContent"]["reached"], true);
    assert_eq!(ended["structuredContent"]["processes"][0]["exit_code"], 0);

    let word = word(5005);
    let again = json!({"command": format!("setsid sleep {word} & sleep {word}"), "yield_ms": 10});
    let running = ask(&mut client, 9, "bash", again);
    let id = running["structuredContent"]["id"].as_str().expect("an id").to_owned();
    wait_for_count(&format!("sleep\0{word}"), 2);
    let listed = ask(&mut client, 10, "process", json!({"action": "list"}));
    assert_eq!(listed["structuredContent"]["processes"].as_array().map(Vec::len), Some(2));
    let killed = ask(&mut client, 11, "process", json!({"action": "kill", "id": id}));
    assert_eq!(killed["structuredContent"]["processes"][0]["state"], "killed");
    assert_eq!(count(&word), 0);
}

#[test]
fn what_is_written_to_a_shell_is_asked_for_like_a_command() {
    let fixture = Fixture::new().user_config("sandbox = \"off\"\nallow = [\"bash(cat)\"]\n");
    let mut client = Client::start(&fixture, &["--structured", "always"]);
    client.listen();
    client.introduce(json!({}));
    let started = ask(&mut client, 1, "bash", json!({"command": "cat", "background": true}));
    let id = started["structuredContent"]["id"].clone();
    let write = json!({"action": "write", "id": id, "text": "rm -rf x\n"});
    let refused = ask(&mut client, 2, "process", write);
    assert_eq!(refused["isError"], true);
    assert!(text(&refused).contains("approval_unavailable"), "{}", text(&refused));
    let polled = ask(&mut client, 3, "process", json!({"action": "poll", "id": id}));
    assert_eq!(polled["isError"], false, "a read-only call needs no approval: {polled}");
}

#[test]
fn a_long_output_is_cut_and_reading_on_is_possible() {
    let fixture = Fixture::new();
    let mut client = trusted(&fixture);
    let command = "seq 1 400000";
    let result = ask(&mut client, 1, "bash", json!({"command": command}));
    assert!(text(&result).len() < 60_000, "{} bytes", text(&result).len());
    assert!(text(&result).starts_with("1\n2\n") && text(&result).contains("400000"));
    let id = result["structuredContent"]["id"].clone();
    let middle =
        ask(&mut client, 2, "process", json!({"action": "poll", "id": id, "from": 1_500_000}));
    let seq = Command::new("seq").args(["1", "400000"]).output().expect("seq runs").stdout;
    let expected = String::from_utf8_lossy(&seq[1_500_000..1_500_100]).into_owned();
    assert!(text(&middle).starts_with(&expected), "{:.200}", text(&middle));
}

#[test]
fn what_the_sandbox_refuses_is_told_with_its_path_and_a_way() {
    let fixture = Fixture::new();
    let mut client = trusted(&fixture);
    let refused = ask(&mut client, 1, "bash", json!({"command": "echo x > /etc/haft-test"}));
    let told = "[denied: write /etc/haft-test: the sandbox shows it read-only; write below the workspace or $TMPDIR]";
    assert!(text(&refused).ends_with(told), "{refused:#}");
    assert_eq!(refused["structuredContent"]["refused"][0]["what"], "write /etc/haft-test");
    // Reading the output never fails because of an error that the command survived.
    let fine =
        ask(&mut client, 2, "bash", json!({"command": "echo x > /etc/haft-test; echo fine"}));
    assert!(!text(&fine).contains("denied:"), "{fine:#}");
    assert_eq!(fine["structuredContent"]["refused"][0]["what"], "write /etc/haft-test");
    let offline = ask(&mut client, 3, "bash", json!({"command": "exec 3<>/dev/tcp/192.0.2.1/80"}));
    assert!(
        text(&offline).contains("connect to 192.0.2.1:80: the command has no network"),
        "{offline:#}"
    );
    assert!(text(&offline).contains("network=true"), "{offline:#}");
    let outside = fixture.path("outside");
    fs::write(&outside, "x").expect("written");
    let command = format!("cat {}", outside.display());
    let unread = ask(&mut client, 4, "bash", json!({"command": command}));
    let told = format!("[denied: read {}: it is outside the sandbox", outside.display());
    assert!(text(&unread).contains(&told), "{unread:#}");
}

#[test]
fn secrets_of_the_workspace_are_closed_to_commands_too() {
    let fixture = Fixture::new().user_config("deny = [\"read(deep/private/**)\"]\n");
    fs::create_dir_all(fixture.path("project/deep/private")).expect("made");
    for (file, content) in [
        (".env", "A=1secret"),
        ("deep/.env", "B=2secret"),
        ("deep/private/x", "3secret"),
        ("plain", "4open"),
    ] {
        fs::write(fixture.path(&format!("project/{file}")), content).expect("written");
    }
    fs::write(fixture.path("project/.gitignore"), ".env\n").expect("written");
    let mut client = trusted(&fixture);
    // The policy denies the named path; paths that the command finds by itself are hidden.
    let named = ask(&mut client, 7, "bash", json!({"command": "cat plain deep/.env"}));
    assert!(text(&named).contains("`.env` is a secret path"), "{named:#}");
    let ruled = ask(&mut client, 8, "bash", json!({"command": "cat plain deep/private/x"}));
    assert!(text(&ruled).contains("deny `read(deep/private/**)`"), "{ruled:#}");
    let found = ask(&mut client, 1, "bash", json!({"command": "grep -rh . ."}));
    assert!(text(&found).contains("4open"), "{found:#}");
    assert!(!text(&found).contains("secret"), "{found:#}");
    fs::write(fixture.path("project/id_rsa"), "5secret").expect("written");
    let later = ask(&mut client, 2, "bash", json!({"command": "grep -h . *"}));
    assert!(text(&later).contains("4open") && !text(&later).contains("secret"), "{later:#}");
}

#[test]
fn a_secret_stays_hidden_in_a_folder_that_was_renamed_or_made_unreadable() {
    let fixture = Fixture::new();
    let project = fixture.path("project");
    // Enough folders that the search for secrets takes a while.
    for number in 0..300 {
        fs::create_dir_all(project.join(format!("many/{number}/below"))).expect("a folder");
    }
    fs::create_dir(project.join("config")).expect("a folder");
    fs::write(project.join("config/.env"), "KEY=hidden-value").expect("written");
    let mut client = trusted(&fixture);
    let commands = [
        "mv config config2",
        "d=config2; cat $d/.env",
        "mkdir in && mv config2 in/config3 && chmod 000 in",
        "chmod 755 in; d=in/config3; cat $d/.env",
        "chmod 600 in",
        "chmod 755 in; d=in/config3; cat $d/.env",
        "mkdir in2; d=.git; mv in/config3 in2/$d",
        "d=.git; cat in2/$d/.env",
    ];
    for (id, command) in commands.into_iter().enumerate() {
        let said = ask(&mut client, id as u64, "bash", json!({"command": command}));
        assert!(!said.to_string().contains("hidden-value"), "{command}: {said}");
    }
    let moved = project.join("in2/.git/.env");
    assert_eq!(fs::read_to_string(moved).expect("still there"), "KEY=hidden-value");
}
