//! Commands are judged by their parsed content, not by their text.

use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::fixture::Fixture;

const RULES: &str = r#"
allow = ["bash(cargo test *)"]
ask = ["bash(git push *)"]
deny = ["read(private/**)", "write(protected/**)", "bash(curl *)"]
"#;

/// Returns the decision on a command and the reason.
fn judged(fixture: &Fixture, mode: &str, words: &[&str]) -> (String, Value) {
    let mut arguments = vec!["bash"];
    arguments.extend(words);
    arguments.extend(["--approve", mode, "--dry-run", "--json"]);
    let told = fixture.run_without_terminal(&arguments).json();
    let action = told["decision"]["action"].as_str().unwrap_or_default().to_owned();
    (action, told["decision"]["reason"].clone())
}

#[track_caller]
fn check(fixture: &Fixture, mode: &str, words: &[&str], expected: &str) {
    let (action, reason) = judged(fixture, mode, words);
    assert_eq!(action, expected, "{mode}: {words:?}: {reason}");
}

#[test]
fn looking_runs_in_mode_safe_and_nothing_else_does() {
    let fixture = Fixture::new().user_config(RULES);
    for command in
        ["ls -la", "git log --oneline | head -3", "grep -rn x . | sort | uniq -c", "wc -l a b"]
    {
        check(&fixture, "safe", &[command], "allow");
    }
    for command in
        ["touch x", "ls > out", "find . -delete", "cat /etc/passwd", "x=ls; $x", "ls; make"]
    {
        check(&fixture, "safe", &[command], "ask");
    }
}

#[test]
fn read_only_git_tools_run_in_mode_safe_as_the_commands_do() {
    let fixture = Fixture::new();
    for (tool, expected) in [
        ("git_status", "allow"),
        ("git_diff", "allow"),
        ("git_log", "allow"),
        ("git_commit", "ask"),
    ] {
        let mut arguments = vec![tool, "--approve", "safe", "--dry-run", "--json"];
        if tool == "git_commit" {
            arguments.insert(1, "message");
        }
        let told = fixture.run_without_terminal(&arguments).json();
        assert_eq!(told["decision"]["action"], expected, "{tool}: {told}");
    }
}

#[test]
fn what_is_dangerous_or_unclear_is_asked_for_even_in_a_sandbox() {
    let fixture = Fixture::new().user_config(RULES);
    for command in ["make", "touch x", "cat /etc/passwd", "for f in *; do wc -l $f; done"] {
        check(&fixture, "contained", &[command], "allow");
    }
    for command in ["rm -rf src", "git reset --hard", "sudo make"] {
        check(&fixture, "contained", &[command], "ask");
        check(&fixture, "all", &[command], "allow");
    }
    // An unclear part may be what a rule for commands matches.
    let without_rules = Fixture::new();
    for command in ["$(cat x) y", "echo 'open"] {
        check(&fixture, "all", &[command], "ask");
        check(&without_rules, "contained", &[command], "ask");
        check(&without_rules, "all", &[command], "allow");
    }
}

#[test]
fn rules_bind_each_command_and_each_file_of_a_text() {
    let fixture = Fixture::new().user_config(RULES);
    for command in ["cargo test -p x", "cd sub && cargo test -q 2>&1 | tail -3"] {
        check(&fixture, "safe", &[command], "allow");
    }
    check(&fixture, "safe", &["cargo test; make"], "ask");
    for command in ["ls && git push origin", "timeout 5 git push origin"] {
        check(&fixture, "all", &[command], "ask");
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
        check(&fixture, "all", &[command], "deny");
    }
    // Paths are relative to the directory where the command runs.
    check(&fixture, "all", &["echo x > y", "--workdir", "protected"], "deny");
    check(&fixture, "all", &["cat x", "--workdir", "private"], "deny");
    check(&fixture, "all", &["cat ../private/x", "--workdir", "src"], "deny");
}

#[test]
fn a_rule_for_commands_does_not_allow_what_could_not_be_read() {
    let config = "allow = [\"bash(git status *)\", \"bash($(cat x) y)\"]";
    let fixture = Fixture::new().user_config(config);
    check(&fixture, "contained", &["git status -s"], "allow");
    let long = format!("git status {}; rm -rf src", "x ".repeat(40_000));
    for command in ["git status )$( ; rm -rf src", "git status 'open", &long] {
        check(&fixture, "contained", &[command], "ask");
    }
    check(&fixture, "contained", &["$(cat x) y"], "allow");
    check(&fixture, "contained", &["$(cat x) y; $(cat x) z"], "ask");
}

/// Returns a project without a sandbox, with denied files and links to them.
fn unsandboxed(rules: &str) -> Fixture {
    let fixture = Fixture::new().user_config(&format!("sandbox = \"off\"\n{rules}\n"));
    let project = fixture.path("project");
    for folder in ["closed", "open", "private", "away"] {
        std::fs::create_dir_all(project.join(folder)).expect("a folder");
    }
    for file in ["closed/.env", "closed/a", "open/a", "private/k", "plain"] {
        std::fs::write(project.join(file), "x\n").expect("written");
    }
    symlink("/etc/hostname", project.join("away/out")).expect("a link");
    fixture
}

#[test]
fn trees_that_are_written_are_looked_through_for_closed_files() {
    let fixture = unsandboxed("deny = [\"write(private/**)\"]");
    for command in [
        "rm -r closed",
        "cp -r open closed",
        "cp -a open/. closed/",
        "mv closed x",
        "mv open closed",
        "chmod -R 600 closed",
        "rm -r clos*",
        "find closed -delete",
        "cp -rt closed open",
        "rm -r ./open/../closed",
        "cd closed && rm -r .",
        "mv p* x",
    ] {
        check(&fixture, "all", &[command], "ask");
    }
    for command in ["rm -r private", "mv private/k x", "cp plain private/k"] {
        let (action, reason) = judged(&fixture, "all", &[command]);
        assert_ne!(action, "allow", "{command}: {reason}");
    }
    for command in ["rm -r open", "cp -r open x", "mv open x", "chmod -R 600 open", "rm plain"] {
        check(&fixture, "all", &[command], "allow");
    }
}

#[test]
fn a_pattern_is_followed_through_links_to_closed_files() {
    let fixture = unsandboxed("deny = [\"read(private/**)\"]");
    let project = fixture.path("project");
    symlink("private", project.join("link")).expect("a link");
    symlink(".", project.join("open/round")).expect("a link");
    for command in ["cat l*/k", "cat li?k/*", "cat */k", "wc -l [l]ink/k", "cat *"] {
        let (action, reason) = judged(&fixture, "safe", &[command]);
        assert_ne!(action, "allow", "{command}: {reason}");
    }
    for command in ["cat open/*", "cat o*/a", "cat open/r*/a"] {
        check(&fixture, "safe", &[command], "allow");
    }
}

#[test]
fn a_pattern_that_meets_a_link_out_of_the_workspace_is_asked_about() {
    let fixture = unsandboxed("");
    for command in ["cat away/*", "cat away/o?t", "grep -r x away", "wc -l away/[a-z]*"] {
        check(&fixture, "safe", &[command], "ask");
        check(&fixture, "all", &[command], "allow");
    }
    check(&fixture, "safe", &["cat open/*"], "allow");
    check(&unsandboxed("allow = [\"read(/etc/**)\"]"), "safe", &["cat away/*"], "allow");
}

#[test]
fn what_git_shows_is_judged_by_its_files() {
    let fixture = unsandboxed("deny = [\"read(private/k)\"]");
    for command in [
        "git show HEAD:private/k",
        "cd open && git show HEAD:private/k",
        "git -C open show HEAD:private/k",
        "git show :private/k",
        "git cat-file -p HEAD:private/k",
        "git diff HEAD:plain HEAD:private/k",
        "git log -p -- private/k",
        "git diff private/k",
        "cd open && git blame ../private/k",
        "git grep x -- private/k",
        "git grep x HEAD:private/k",
        "git log -p -- .env",
        "git show HEAD:.env",
    ] {
        check(&fixture, "all", &[command], "deny");
    }
    for command in [
        "git grep x",
        "git grep x -- '*k'",
        "git diff",
        "git show",
        "git log -p",
        "git stash show -p",
        "git show HEAD -- ':/private'",
        "git cat-file --batch < plain",
    ] {
        check(&fixture, "all", &[command], "ask");
    }
    for command in ["git log", "git diff --stat", "git status", "git grep x -- open"] {
        check(&fixture, "all", &[command], "allow");
    }
}

#[test]
fn git_that_may_run_what_a_repository_names_is_asked_about_without_a_sandbox() {
    let fixture = unsandboxed("");
    for command in [
        "git status",
        "git diff -- open",
        "git log",
        "git show HEAD:plain",
        "git blame plain",
        "git stash list",
        "git describe --dirty",
        "git ls-files -m",
        "env git status",
        "/usr/bin/git status",
    ] {
        check(&fixture, "safe", &[command], "ask");
        check(&fixture, "all", &[command], "allow");
    }
    for command in ["git rev-parse HEAD", "git branch", "git ls-files", "git config -l"] {
        check(&fixture, "safe", &[command], "allow");
    }
    let sandboxed = Fixture::new();
    for command in ["git status", "git diff -- open", "git log -p -- open", "git blame plain"] {
        check(&sandboxed, "safe", &[command], "allow");
    }
}

#[test]
fn what_a_pattern_or_a_list_may_mean_is_never_read_unasked() {
    let fixture = unsandboxed("deny = [\"read(private/**)\"]");
    for command in [
        "cat closed/.e*",
        "cat closed/.e[n]v",
        "cat < closed/.e*",
        "cat closed/{.e,x}*",
        "cat priv*/k",
        "shopt -s globstar; cat **/k",
        "sort closed/.e?v",
        "diff -r closed open",
        "grep -rh . --include=.env .",
        "rg -uu . closed",
        "find closed -name '.e*' -exec cat {} +",
        "tar c closed",
        "zip -r x closed",
        "xargs -a plain cat",
        "xargs cat < plain",
        "cat $(ls -a closed)",
        "cat <(cat closed/.e*)",
        "while read f; do cat \"$f\"; done < plain",
        "mapfile -t l < plain; cat \"${l[@]}\"",
        "exec 3<closed/.e*; cat <&3",
        "source closed/.e*",
        "git diff --no-index closed open",
        "head -n1 closed/.en[u-w]",
        "set -- closed/.e*; cat \"$1\"",
        "for f in closed/.e*; do cat $f; done",
        "x=closed/.env; cat $x",
        "cat closed/.e'n'*",
        "cat closed/.[!a]*",
        "paste plain closed/.e*",
        "jq . closed/.e*",
        "awk 1 closed/.e*",
        "sed p closed/.e*",
        "wc -c closed/.*",
    ] {
        let (action, reason) = judged(&fixture, "safe", &[command]);
        assert_ne!(action, "allow", "{command}: {reason}");
    }
    for command in ["cat open/*", "find . -name '.e*'", "ls -R", "grep -r x open"] {
        check(&fixture, "safe", &[command], "allow");
    }
}
