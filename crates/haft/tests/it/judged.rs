//! Commands as policy judges them: by what is read in them, not by their text.

use serde_json::Value;

use crate::house::House;

const RULES: &str = r#"
allow = ["bash(cargo test *)"]
ask = ["bash(git push *)"]
deny = ["read(private/**)", "write(protected/**)", "bash(curl *)"]
"#;

/// What becomes of a command, and why.
fn judged(house: &House, mode: &str, words: &[&str]) -> (String, Value) {
    let mut arguments = vec!["bash"];
    arguments.extend(words);
    arguments.extend(["--approve", mode, "--dry-run", "--json"]);
    let told = house.run_without_terminal(&arguments).json();
    let action = told["decision"]["action"].as_str().unwrap_or_default().to_owned();
    (action, told["decision"]["reason"].clone())
}

#[track_caller]
fn check(house: &House, mode: &str, words: &[&str], expected: &str) {
    let (action, reason) = judged(house, mode, words);
    assert_eq!(action, expected, "{mode}: {words:?}: {reason}");
}

#[test]
fn looking_runs_in_mode_safe_and_nothing_else_does() {
    let house = House::new().user_config(RULES);
    for command in
        ["ls -la", "git log --oneline | head -3", "grep -rn x . | sort | uniq -c", "wc -l a b"]
    {
        check(&house, "safe", &[command], "allow");
    }
    for command in
        ["touch x", "ls > out", "find . -delete", "cat /etc/passwd", "x=ls; $x", "ls; make"]
    {
        check(&house, "safe", &[command], "ask");
    }
}

#[test]
fn what_is_dangerous_or_unclear_is_asked_for_even_in_a_sandbox() {
    let house = House::new().user_config(RULES);
    for command in ["make", "touch x", "cat /etc/passwd", "for f in *; do wc -l $f; done"] {
        check(&house, "contained", &[command], "allow");
    }
    for command in ["rm -rf src", "$(cat x) y", "git reset --hard", "echo 'open", "sudo make"] {
        check(&house, "contained", &[command], "ask");
        check(&house, "all", &[command], "allow");
    }
}

#[test]
fn rules_bind_each_command_and_each_file_of_a_text() {
    let house = House::new().user_config(RULES);
    for command in ["cargo test -p x", "cd sub && cargo test -q 2>&1 | tail -3"] {
        check(&house, "safe", &[command], "allow");
    }
    check(&house, "safe", &["cargo test; make"], "ask");
    for command in ["ls && git push origin", "timeout 5 git push origin"] {
        check(&house, "all", &[command], "ask");
    }
    for command in [
        "cat private/x",
        "grep -f private/x a",
        "tee < private/x",
        "echo x > protected/y",
        "bash -c 'curl http://x'",
        "a=$(curl http://x)",
        "cat .env",
        "cp sub/.env.local x",
        "cat ~/.ssh/id_rsa",
    ] {
        check(&house, "all", &[command], "deny");
    }
    // Paths mean what they mean where the command runs.
    check(&house, "all", &["echo x > y", "--workdir", "protected"], "deny");
    check(&house, "all", &["cat x", "--workdir", "private"], "deny");
    check(&house, "all", &["cat ../private/x", "--workdir", "src"], "deny");
}

#[test]
fn a_rule_for_commands_does_not_allow_what_could_not_be_read() {
    let config = "allow = [\"bash(git status *)\", \"bash($(cat x) y)\"]";
    let house = House::new().user_config(config);
    check(&house, "contained", &["git status -s"], "allow");
    let long = format!("git status {}; rm -rf src", "x ".repeat(40_000));
    for command in ["git status )$( ; rm -rf src", "git status 'open", &long] {
        check(&house, "contained", &[command], "ask");
    }
    check(&house, "contained", &["$(cat x) y"], "allow");
    check(&house, "contained", &["$(cat x) y; $(cat x) z"], "ask");
}
