//! Completion in real shells: what Tab offers, and what it inserts.

use std::process::{Command, Stdio};

use crate::fixture::{Fixture, Screen};

/// The folder of the binary, so that a shell finds `haft` by its name.
fn path() -> String {
    let haft = std::path::Path::new(env!("CARGO_BIN_EXE_haft"));
    let rest = "/usr/local/bin:/usr/bin:/bin";
    format!("{}:{rest}", haft.parent().expect("a folder").display())
}

/// Returns the values that fish offers at the end of a line, with their descriptions.
fn offered(fixture: &Fixture, line: &str) -> Vec<(String, String)> {
    let script = fixture.path("haft.fish");
    if !script.exists() {
        std::fs::write(&script, fixture.run(&["completions", "fish"]).out).expect("written");
    }
    let mut fish = Command::new("fish");
    fixture.prepare(&mut fish);
    let code = format!("source '{}'; complete -C \"$argv[1]\"", script.display());
    let fish = fish.args(["--no-config", "-c", &code, line]).env("PATH", path());
    let output = fish.stdin(Stdio::null()).output().expect("fish is installed");
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let pair = |line: &str| {
        let (value, help) = line.split_once('\t').unwrap_or((line, ""));
        (value.to_owned(), help.to_owned())
    };
    out.lines().map(pair).collect()
}

#[track_caller]
fn check(fixture: &Fixture, line: &str, expected: &[&str]) {
    let values: Vec<String> = offered(fixture, line).into_iter().map(|(value, _)| value).collect();
    assert_eq!(values, expected, "{line}");
}

#[test]
fn commands_tools_options_and_values_are_offered() {
    let fixture = Fixture::new();
    check(&fixture, "haft gre", &["grep"]);
    check(&fixture, "haft --workspace /tmp web-f", &["web-fetch"]);
    check(&fixture, "haft pol", &["policy"]);
    check(&fixture, "haft policy re", &["revoke"]);
    check(&fixture, "haft grep --max", &["--max-results"]);
    check(&fixture, "haft grep TODO --sand", &["--sandbox"]);
    check(&fixture, "haft --sandbox b", &["bubblewrap"]);
    check(&fixture, "haft hello Ada --language g", &["german"]);
    check(&fixture, "haft hello Ada --language=g", &["--language=german"]);
    check(&fixture, "haft tools output", &["output_read", "output_search"]);
    check(&fixture, "haft call output_r", &["output_read"]);
    check(&fixture, "haft tools --format openai-r", &["openai-responses"]);
    check(&fixture, "haft help doc", &["doctor"]);
    check(&fixture, "haft --profile dev", &["developer"]);
    check(&fixture, "haft nonsense --x", &[]);
    let (_, help) = offered(&fixture, "haft gre").remove(0);
    assert!(help.starts_with("Searches"), "{help}");
}

#[test]
fn paths_are_offered_where_a_tool_takes_one() {
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.path("project/sources")).expect("a folder");
    std::fs::write(fixture.path("project/sources/main.rs"), "").expect("written");
    check(&fixture, "haft read sou", &["sources/"]);
    check(&fixture, "haft read sources/m", &["sources/main.rs"]);
    check(&fixture, "haft grep TODO sources/m", &["sources/main.rs"]);
    check(&fixture, "haft --workspace sou", &["sources/"]);
    check(&fixture, "haft hello sou", &[]);
}

#[test]
fn ids_are_read_from_the_store() {
    let fixture = Fixture::new();
    let made = fixture.run(&["write", "a.txt", "one"]);
    assert_eq!(made.code, 0, "{made:?}");
    let changes = offered(&fixture, "haft undo --changes ");
    let numbers: Vec<&str> = changes.iter().map(|(value, _)| value.as_str()).collect();
    assert_eq!(numbers, ["1"], "{changes:?}");
    assert!(changes[0].1.contains("a.txt"), "{changes:?}");
    let long: String = (0..5_000).map(|n| format!("line {n}\n")).collect();
    std::fs::write(fixture.path("project/long.txt"), long).expect("written");
    let read = fixture.run(&["bash", "cat long.txt", "--approve", "all", "--sandbox", "off"]);
    assert_eq!(read.code, 0, "{read:?}");
    let outputs = offered(&fixture, "haft output_read ");
    let ids: Vec<&String> = outputs.iter().map(|(value, _)| value).collect();
    assert!(ids.iter().any(|id| id.starts_with("out_")), "{outputs:?}");
    // A call that waits for approval, as another terminal sees it.
    let screen = Screen::haft(&fixture, &["--approve", "none", "hello", "Ada"]);
    screen.wait_for("[y] yes, once");
    let pending = offered(&fixture, "haft approvals show ");
    assert!(pending.iter().any(|(id, _)| id.starts_with("ask_")), "{pending:?}");
    screen.press(&["n"]);
    assert_eq!(screen.exit_code(), 5);
}

#[test]
fn completion_makes_no_store() {
    let fixture = Fixture::new();
    for line in
        ["haft undo --changes ", "haft approvals show ", "haft output_read ", "haft replay "]
    {
        // Options are offered wherever a positional argument may stand.
        let found = offered(&fixture, line);
        assert!(found.iter().all(|(value, _)| value.starts_with("--")), "{line}: {found:?}");
    }
    assert!(!fixture.path("project/.haft/haft.db").exists());
    // The shell keeps its history below `.local/share`.
    assert!(!fixture.path("home/.local/state").exists());
}

/// Types a line and Tab into an interactive shell, then runs what stands there.
fn completed(fixture: &Fixture, shell: &str, line: &str) -> String {
    let screen = Screen::start(fixture, &format!("PATH={} PS1='ready ' {shell}", path()));
    screen.wait_for("ready");
    screen.press(&["-l", line]);
    screen.press(&["Tab"]);
    screen.wait_for("--language");
    screen.press(&["Space", "german", "Enter"]);
    screen.wait_for("Hallo, Ada!")
}

#[test]
fn bash_inserts_what_is_unique() {
    let fixture = Fixture::new();
    let script = fixture.run(&["completions", "bash"]).out;
    std::fs::write(fixture.path("home/bashrc"), format!("{script}\nPS1='ready '\n"))
        .expect("written");
    completed(&fixture, "bash --noprofile --rcfile ~/bashrc -i", "haft hello Ada --la");
}

#[test]
fn zsh_inserts_what_is_unique() {
    let fixture = Fixture::new();
    let script = fixture.run(&["completions", "zsh"]).out;
    let start = format!("autoload -U compinit && compinit -u -D\n{script}\nPS1='ready '\n");
    std::fs::write(fixture.path("home/.zshrc"), start).expect("written");
    completed(&fixture, "zsh -i", "haft hello Ada --la");
}

#[test]
fn fish_inserts_what_is_unique() {
    let fixture = Fixture::new();
    let script = fixture.run(&["completions", "fish"]).out;
    std::fs::create_dir_all(fixture.path("home/.config/fish")).expect("a folder");
    let start = format!("{script}\nfunction fish_prompt; echo 'ready '; end\nset fish_greeting\n");
    std::fs::write(fixture.path("home/.config/fish/config.fish"), start).expect("written");
    completed(&fixture, "fish -i", "haft hello Ada --la");
}

#[test]
fn scripts_are_there_for_every_shell() {
    let fixture = Fixture::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = fixture.run(&["completions", shell]);
        assert_eq!(ran.code, 0, "{shell}");
        assert!(ran.out.contains("haft") && ran.out.contains("HAFT_COMPLETE"), "{shell}");
    }
}
