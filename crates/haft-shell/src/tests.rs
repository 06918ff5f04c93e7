//! The table of commands, and properties of every text.

use proptest::prelude::*;

use super::*;

/// Blocks separated by empty lines: the text after `$` (further lines after `>`), then what is read
/// in it.
const TABLE: &str = include_str!("commands.txt");

/// Commands that agents use all the time. None of them may ever ask for approval.
const EVERYDAY: &[&str] = &[
    "ls -la",
    "cat README.md",
    "head -n 50 src/main.rs",
    "tail -n 20 log.txt",
    "wc -l src/*.rs",
    "grep -rn 'fn main' src",
    "rg -n TODO --type rust",
    "find . -name '*.rs' -not -path './target/*'",
    "git status --short",
    "git diff HEAD~1 -- src",
    "git log --oneline -n 20",
    "git show HEAD --stat",
    "git branch -a && git remote -v",
    "sed -n '10,40p' src/lib.rs",
    "awk '{print $1}' data.txt | sort | uniq -c | sort -rn | head -5",
    "cd crates && ls 2>/dev/null | wc -l",
    "jq -r '.scripts | keys[]' package.json",
    "node --version; which node; pwd",
];

/// Texts that must never count as read-only.
const ASKED: &str = include_str!("asked.txt");

fn described(reading: &Reading) -> Vec<String> {
    let mut lines = Vec::new();
    for command in &reading.commands {
        let risk = match command.risk {
            Risk::ReadOnly => "read-only",
            Risk::Repository => "repository",
            Risk::Other => "other",
            Risk::Dangerous(_) => "danger",
        };
        let through = match command.through.as_slice() {
            [] => String::new(),
            through => format!("  << {}", through.join(" ")),
        };
        let why = match command.risk {
            Risk::Dangerous(why) => format!("  ## {why}"),
            _ => String::new(),
        };
        lines.push(format!("{risk} {}{through}{why}", command.text.replace('\n', "\\n")));
        lines.extend(command.fetches.iter().map(|target| format!("fetch {target}")));
    }
    for file in &reading.files {
        let how = if file.how == FileAction::Read { "read" } else { "write" };
        let reach = match file.reach {
            Reach::Itself => "",
            Reach::Tree | Reach::Names => " and below",
            Reach::Pattern => " as a pattern",
        };
        lines.push(format!("{how} {}{reach}", file.path.display()));
    }
    for doubt in &reading.doubts {
        let about = if doubt.about == DoubtSubject::Files { " (files)" } else { "" };
        lines.push(format!("doubt {}: {}{about}", doubt.what.replace('\n', "\\n"), doubt.why));
    }
    lines
}

/// The texts of the table with their expected lines.
fn table() -> Vec<(String, Vec<&'static str>)> {
    let mut blocks = Vec::new();
    for block in TABLE.split("\n\n") {
        let lines = block.lines().filter(|line| !line.starts_with('#'));
        let (texts, expected): (Vec<&str>, Vec<&str>) =
            lines.partition(|line| line.starts_with("$ ") || line.starts_with("> "));
        let texts: Vec<&str> = texts.iter().filter_map(|line| line.get(2..)).collect();
        if !texts.is_empty() {
            blocks.push((texts.join("\n"), expected));
        }
    }
    blocks
}

#[test]
fn every_command_of_the_table_is_read_as_it_says() {
    let blocks = table();
    assert!(blocks.len() >= 300, "only {} commands", blocks.len());
    let mut differences = Vec::new();
    for (text, expected) in blocks {
        let found = described(&read(&text));
        if found != expected {
            differences.push(format!("$ {text}\n  expected {expected:#?}\n  found {found:#?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn texts_that_bash_may_read_differently_are_never_read_only() {
    let lines = ASKED.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    let texts: Vec<String> = lines.map(|line| line.replace("NEWLINE", "\n")).collect();
    assert!(texts.len() > 80, "only {} texts", texts.len());
    let unasked: Vec<_> = texts.iter().filter(|text| read(text).is_read_only()).collect();
    assert!(unasked.is_empty(), "{unasked:#?}");
}

/// The gate decides from the accesses whether a text needs write access.
#[test]
fn the_gate_treats_the_same_texts_as_read_only() {
    let asked = ASKED.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    let shown = TABLE.lines().filter_map(|line| line.strip_prefix("$ "));
    for text in asked.chain(shown).chain(EVERYDAY.iter().copied()) {
        let text = text.replace("NEWLINE", "\n");
        let given = haft_core::ParsedScript { parts: accesses(&text, None), text: text.clone() };
        assert_eq!(given.is_read_only(), read(&text).is_read_only(), "{text}");
    }
}

/// Returns the decision of a policy with these rules in mode `all`.
fn decided(deny: &[&str], allow: &[&str], text: &str) -> haft_core::policy::Action {
    use haft_core::{
        Effect, Mode, Policy,
        policy::{self, Action, PolicyQuery, Rule, Source},
    };
    let mut layer = policy::Layer::new(policy::LayerKind::User, "f");
    layer.mode = Some(if allow.is_empty() { Mode::All } else { Mode::Safe });
    let rule = |action, text: &&str| Rule::parse(action, text, Source::named("f")).expect("a rule");
    layer.rules.extend(deny.iter().map(|text| rule(Action::Deny, text)));
    layer.rules.extend(allow.iter().map(|text| rule(Action::Allow, text)));
    let accesses = accesses(text, None);
    let accesses: Vec<Access> =
        accesses.into_iter().filter(|it| matches!(it, Access::Command(_))).collect();
    let question = PolicyQuery {
        tool: "bash",
        effect: Effect::Execute,
        accesses: &accesses,
        agents: &[],
        profile: None,
        saved: &[],
    };
    let mut policy = Policy::new([layer]);
    policy.sandbox = policy::SandboxCheck::switched_off();
    policy.decide(&question).action
}

#[test]
fn a_rule_that_denies_binds_every_spelling() {
    use haft_core::policy::Action;
    let check = |rule: &str, texts: &[&str], expected: Action| {
        for text in texts {
            assert_eq!(decided(&[rule], &[], text), expected, "{rule} on {text}");
        }
    };
    check(
        "bash(touch *)",
        &[
            "touch m",
            "A=1 touch m",
            "PATH=. touch m",
            "/usr/bin/touch m",
            "./../../usr/bin/touch m",
            "../bin/touch",
            "A=1 B=2 /usr/bin/touch m",
            "'touch' m",
            "timeout 5 /bin/touch m",
            "env A=1 touch m",
            "nice -n 3 ./touch m",
            "echo m | xargs /usr/bin/touch",
            "bash -c 'A=1 /bin/touch m'",
            "sudo A=1 touch m",
        ],
        Action::Deny,
    );
    check(
        "bash(git push *)",
        &[
            "git push",
            "git -C . push origin",
            "git -C \"$d\" push",
            "TOUCH=1 git push",
            "git --no-pager -c a.b=c push",
            "git --git-dir .git --work-tree . push",
            "git --git-dir=.git push",
            "/usr/bin/git -p push origin main",
            "git -c a=b -c c=d -C sub push",
            "command git --unknown value push",
        ],
        Action::Deny,
    );
    check(
        "bash(docker run *)",
        &["docker -H x --tls run y", "docker --context c run y"],
        Action::Deny,
    );
    check(
        "bash(kubectl delete *)",
        &["kubectl -n x delete pod", "kubectl --as me delete p"],
        Action::Deny,
    );
    check("bash(npm publish *)", &["npm --prefix x publish", "npm -w y publish"], Action::Deny);
    check("bash(nohup *)", &["nohup ls", "/usr/bin/nohup ls"], Action::Deny);
    check("bash(bash -c *)", &["bash -c 'ls'", "/bin/bash -c 'ls; pwd'"], Action::Deny);
    check("bash(touch *)", &["ls", "git touch", "echo touch m", "cat \"$x\""], Action::Allow);
    check("bash(git push *)", &["git pull", "git -C push log", "git add $x"], Action::Allow);
}

#[test]
fn what_cannot_be_seen_is_asked_for_where_a_rule_may_mean_it() {
    use haft_core::policy::Action;
    let check = |rule: &str, texts: &[&str], expected: Action| {
        for text in texts {
            assert_eq!(decided(&[rule], &[], text), expected, "{rule} on {text}");
        }
    };
    check(
        "bash(touch *)",
        &[
            "$x m",
            "x=touch; $x m",
            "t*ch m",
            "/lib64/ld-linux-x86-64.so.2 /usr/bin/touch m",
            "/lib/ld-musl-x86_64.so.1 touch m",
            "eval \"$x\"",
            "bash -c \"$x\"",
            "echo touch m | xargs env",
            "echo touch m | sh",
        ],
        Action::Ask,
    );
    check(
        "bash(git push *)",
        &[
            "git $x",
            "git -C $x push",
            "git -C . $x",
            "echo push | xargs git",
            "git pus*",
            "x=push; git \"$x\" origin",
        ],
        Action::Ask,
    );
    // Without a rule for commands no rule can apply.
    check("read(private/**)", &["$x m", "git $x"], Action::Allow);
}

#[test]
fn what_is_allowed_exactly_gets_no_words_that_cannot_be_seen() {
    use haft_core::policy::Action;
    for (rule, text, expected) in [
        ("bash(make)", "make", Action::Allow),
        ("bash(make)", "echo -f evil.mk | xargs make", Action::Ask),
        ("bash(make)", "echo -f evil.mk | xargs -n1 timeout 5 make", Action::Ask),
        ("bash(make test)", "xargs make test < a", Action::Ask),
        ("bash(make *)", "echo -f evil.mk | xargs make", Action::Allow),
        ("bash(make *)", "make $x", Action::Allow),
        ("bash(make test *)", "make $x test y", Action::Ask),
        ("bash(make * test)", "make $x test", Action::Ask),
        ("bash(make)", "make $x", Action::Ask),
        ("bash(make)", "A=1 make", Action::Ask),
        ("bash(make)", "/usr/bin/make", Action::Ask),
        ("bash(git push)", "git -C . push", Action::Ask),
        ("bash(make \"$x\")", "make \"$x\"", Action::Allow),
    ] {
        assert_eq!(decided(&[], &[rule], text), expected, "{rule} on {text}");
    }
}

/// Returns the files that are read in a text, sorted.
fn files_of(text: &str) -> Vec<String> {
    let mut files: Vec<String> = read(text)
        .files
        .iter()
        .map(|file| match file.reach {
            Reach::Tree => format!("{}/**", file.path.display()),
            _ => file.path.display().to_string(),
        })
        .collect();
    files.sort();
    files
}

#[test]
fn operands_that_look_like_something_else_are_files() {
    for (text, expected) in [
        ("cp list :", &[":", "list"][..]),
        ("cp a host:b", &["a", "host:b"]),
        ("rsync a host:b", &["a"]),
        ("cp data -P l", &["data", "l"]),
        ("cp -i .env m", &[".env", "m"]),
        ("cp -e .env m", &[".env", "m"]),
        ("mkdir -Z m", &["m"]),
        ("tee -", &["-"]),
        ("chmod 600 -", &["-"]),
        ("chmod -x a", &["a"]),
        ("chmod -X list 644 a", &["644", "a", "list"]),
        ("chmod +x a", &["a"]),
        ("chmod --reference=b a", &["a/**"]),
        ("chown --ref b a", &["a/**", "b/**"]),
        ("install -d m n", &["m", "n"]),
        ("install --dir m n", &["m", "n"]),
        ("install -d -", &["-"]),
        ("script -c ls", &["typescript"]),
        ("script -c ls m", &["m"]),
        ("cat -", &[]),
        ("chmod -7 a", &["a"]),
        ("diff a ..", &["../**", "a/**"]),
        ("chmod -+x a", &["a"]),
        ("chmod -R 600 a", &["a/**"]),
    ] {
        assert_eq!(files_of(text), expected, "{text}");
    }
}

/// bash joins continued lines before it looks for operators and expansions.
#[test]
fn an_operator_that_is_split_over_lines_is_doubted() {
    for text in [
        "x=$S; (\\\n(x))",
        "echo $(\\\n(x))",
        "echo $\\\n(date)",
        "cat $\\\nX",
        "cat a >\\\n\\\n> b",
        "cat <\\\n(date)",
        "true &\\\n& date",
        "x=()$ date",
        "x=(a)b date",
    ] {
        let reading = read(text);
        assert!(!reading.is_read_only(), "{text}");
        assert!(!reading.doubts.is_empty(), "{text}");
    }
    for text in ["cat a |\\\nwc -l", "ls &&\\\npwd", "cat \\\n  a", "(cd src; \\\n(ls))"] {
        assert!(read(text).is_read_only(), "{text}");
    }
}

/// The first operand is a pattern, a mode or a script only while it is one word.
#[test]
fn a_first_operand_that_may_become_several_is_files_too() {
    for (text, expected) in [
        ("chmod *", &["*"][..]),
        ("chmod a* b", &["a*", "b"]),
        ("chmod 600 b", &["b"]),
        ("grep *", &["*"]),
        ("grep x* a", &["a", "x*"]),
        ("grep 'x*' a", &["a"]),
        ("grep -e x b* a", &["a", "b*"]),
        ("rg [ab]*", &["./**", "[ab]*"]),
        ("sed *", &["*"]),
        ("awk x*", &["x*"]),
        ("awk '/x*/' a", &["a"]),
        ("cp *", &["*", "*"]),
        ("cp a b", &["a", "b"]),
    ] {
        assert_eq!(files_of(text), expected, "{text}");
    }
}

#[test]
fn an_element_that_is_set_with_blanks_in_its_subscript_is_doubted() {
    for text in ["x[ 0]=v", "x[ 0]=v; declare x=\"$L\"", "x[0 ]=v", "x[ 0]+=v ls", "a=1 x[ 0]=v"] {
        assert!(!read(text).is_read_only(), "{text}");
    }
    for text in ["[ -f a ]", "ls [a]*", "echo x[ 0]=v"] {
        assert!(read(text).is_read_only(), "{text}");
    }
}

#[test]
fn git_names_what_it_shows_of_files() {
    for (text, expected) in [
        ("git grep x", &["./**"][..]),
        ("git grep x -- '*.env'", &["./**"]),
        ("git grep -e x -e y", &["./**"]),
        ("git grep x sub", &["./**", "sub/**"]),
        ("git grep x -- sub", &["sub/**"]),
        ("git diff", &["./**"]),
        ("git diff HEAD~1", &["./**"]),
        ("git diff main..topic", &["./**"]),
        ("git diff main", &["./**", "main/**"]),
        ("git diff -- src", &["src/**"]),
        ("git diff ./a", &["a/**"]),
        ("git diff --stat", &[]),
        ("git diff --stat -p", &["./**"]),
        ("git diff --name-only HEAD", &[]),
        ("git diff HEAD:a HEAD:b", &["a/**", "b/**"]),
        ("git show", &["./**"]),
        ("git show HEAD", &["./**"]),
        ("git show --stat HEAD", &[]),
        ("git show HEAD:.env", &[".env"]),
        ("git show :.env", &[".env"]),
        ("git show HEAD:./.env", &[".env"]),
        ("git show HEAD -- ':/.env'", &["./**"]),
        ("git show HEAD -- ':(glob)**/.env'", &["./**"]),
        ("git log", &[]),
        ("git log -p", &["./**"]),
        ("git log --patch -- .env", &[".env/**"]),
        ("git log -u main", &["./**", "main/**"]),
        ("git log -L 1,2:.env", &["./**"]),
        ("git log --oneline -3", &[]),
        ("git stash show -p", &["./**"]),
        ("git stash show", &[]),
        ("git blame id_rsa", &["id_rsa/**"]),
        ("git blame -L 1,2 a", &["a/**"]),
        ("git cat-file -p HEAD:.env", &[".env"]),
        ("git cat-file --batch", &["./**"]),
        ("git -C sub grep x", &["sub/**"]),
        ("git -C sub show HEAD:.env", &[".env", "sub/**", "sub/.env"]),
        ("git -C sub diff -- k", &["k/**", "sub/**", "sub/k/**"]),
        ("cd a/b && git show HEAD:.env", &[".env", "a/.env", "a/b", "a/b/.env"]),
        ("git status", &[]),
        ("git ls-files", &[]),
    ] {
        assert_eq!(files_of(text), expected, "{text}");
    }
}

#[test]
fn git_commands_that_may_run_programs_of_a_repository_are_recognised() {
    let risk = |text: &str| read(text).commands[0].risk;
    for text in [
        "git status",
        "git diff",
        "git diff --stat",
        "git log",
        "git log -p",
        "git show HEAD:a",
        "git blame a",
        "git annotate a",
        "git stash list",
        "git stash show -p",
        "git reflog",
        "git range-diff a b c",
        "git diff-files",
        "git diff-index HEAD",
        "git diff-tree HEAD",
        "git ls-files -m",
        "git ls-files --mod",
        "git ls-files -cm",
        "git describe --dirty",
        "git describe --di=x",
        "git describe --broken",
        "git -C sub status",
        "/usr/bin/git status",
    ] {
        assert_eq!(risk(text), Risk::Repository, "{text}");
    }
    for text in [
        "git rev-parse HEAD",
        "git branch",
        "git remote -v",
        "git ls-files",
        "git ls-tree HEAD",
        "git cat-file -p HEAD:a",
        "git describe --tags",
        "git grep x",
        "git config -l",
        "git merge-base a b",
    ] {
        assert_eq!(risk(text), Risk::ReadOnly, "{text}");
    }
    for text in ["git rev-list --alternate-refs", "git log --alternate-refs", "git diff --ext-diff"]
    {
        assert_eq!(risk(text), Risk::Other, "{text}");
    }
}

#[test]
fn trees_that_are_written_are_searched() {
    let many = |text: &str| {
        accesses(text, None).into_iter().any(|access| match access {
            Access::Many { path, is_pattern: true, is_write: true } => path.ends_with("sub/**"),
            _ => false,
        })
    };
    for text in [
        "rm -r sub",
        "rm -rf -- sub",
        "cp -r a sub",
        "cp -a a sub",
        "mv sub x",
        "mv x sub",
        "chmod -R 600 sub",
        "chown -R me sub",
        "cp -rt sub a",
        "tar xf a.tar -C sub",
        "unzip a.zip -d sub",
        "find sub -delete",
    ] {
        assert!(many(text), "{text}: {:?}", accesses(text, None));
    }
    for text in ["rm sub", "cp a sub", "touch sub", "grep -r x sub"] {
        assert!(!many(text), "{text}");
    }
}

#[test]
fn a_text_is_whole_when_a_shell_runs_it() {
    for text in ["ls\n", "cat <<E\nx\nE\n", "if true; then ls; fi\n", "ls \\\\\n", "\n"] {
        assert!(is_complete(text), "{text:?}");
    }
    for text in [
        "",
        "ls",
        "ls \\\n",
        "cat <<E\n",
        "cat <<E\nE",
        "if true\n",
        "echo 'a\n",
        "echo \"a\n",
        "ls |\n",
        "ls &&\n",
        "(ls\n",
        "f() {\n",
        "echo $(\n",
        "echo `\n",
        "case x in\n",
        "for i in a\n",
        "[[ a\n",
        "((1\n",
        "echo ${x\n",
        "while true; do\n",
    ] {
        assert!(!is_complete(text), "{text:?}");
    }
}

#[test]
fn shells_that_read_what_is_written_are_known() {
    for text in [
        "bash",
        "sh",
        "bash -i",
        "bash -l",
        "/bin/bash",
        "cd sub && bash",
        "env A=1 bash",
        "exec bash",
        "zsh",
        "bash --norc -i",
        "dash -s",
        "bash --rcfile x -i",
        "script -q x",
        "nohup sh",
    ] {
        assert!(starts_shell(text), "{text}");
    }
    for text in ["cat", "python3", "bash x.sh", "bash -c ls", "less a", "psql", "ls; cat"] {
        assert!(!starts_shell(text), "{text}");
    }
}

#[test]
fn words_that_cannot_be_seen_count_as_the_dangerous_ones() {
    let is_dangerous =
        |text: &str| read(text).commands.iter().any(|it| matches!(it.risk, Risk::Dangerous(_)));
    for text in [
        "x=\"-rf sub\"; rm $x",
        "echo -rf sub | xargs rm",
        "echo --hard | xargs git reset",
        "rm -* sub",
        "rm $(cat names)",
        "rm src/$x",
        "git reset $x",
        "git reset \"$x\"",
        "git push $x",
        "git push origin \"$x\"",
        "git $x",
        "echo reset --hard | xargs git",
        "git branch $x main",
        "git checkout $x",
        "git commit $x",
        "echo -delete | xargs find .",
        "find $x",
        "chmod $x",
        "docker run $x image",
        "echo -R 777 / | xargs chmod",
        "kubectl $x pod a",
        "npm $x",
        "psql $x",
        "kill $x",
    ] {
        assert!(is_dangerous(text), "{text}");
    }
    for text in [
        "rm \"$f\"",
        "rm \"src/$x\"",
        "rm *.o",
        "git commit -m \"$(cat message)\"",
        "git add $x",
        "git log $x",
        "git commit -m \"a message\"",
        "cargo test $x",
        "kubectl get $x",
        "npm run $x",
        "sleep 5 & kill $!",
        "echo a | xargs touch",
    ] {
        assert!(!is_dangerous(text), "{text}");
    }
}

#[test]
fn everyday_commands_are_read_only() {
    assert_eq!(EVERYDAY.len(), 18);
    let asked: Vec<_> = EVERYDAY.iter().filter(|text| !read(text).is_read_only()).collect();
    assert_eq!(asked, [&""; 0]);
}

#[test]
fn rule_texts_name_the_operation_and_never_allow_too_much() {
    let check = |text: &str, expected: &[&str]| {
        let reading = read(text);
        assert_eq!(rule_texts(&reading.commands[0]), expected, "for {text}");
    };
    check("git commit -m x", &["git commit -m x", "git commit -m *", "git commit *"]);
    check("npm run test", &["npm run test", "npm run test *"]);
    check(
        "npm run test -- --watch",
        &["npm run test -- --watch", "npm run test -- *", "npm run test *"],
    );
    check("cargo test -p x", &["cargo test -p x", "cargo test -p *", "cargo test *"]);
    check("cargo +nightly fmt", &["cargo +nightly fmt", "cargo +nightly fmt *"]);
    check("docker compose up -d", &["docker compose up -d", "docker compose up *"]);
    check("git -C sub log -1", &["git -C sub log -1", "git -C sub log *"]);
    check("pytest -x tests", &["pytest -x tests", "pytest -x *", "pytest *"]);
    check("bash build.sh", &["bash build.sh"]);
    check("python3 -c 'print(1)'", &["python3 -c 'print(1)'"]);
    check("git", &["git"]);
    check("rm a", &["rm a"]);
    check("rm -rf a", &["rm -rf a"]);
    check("sudo ls", &["sudo ls"]);
    check("git push --force", &["git push --force"]);
    check("npm run", &["npm run"]);
    check("git -c a.b=c log", &["git -c a.b=c log"]);
    check("find . -name '*.rs'", &[]);
    check("PATH=. ls -l", &["PATH=. ls -l"]);
    check("$X y", &[]);
    // Their input decides what they run, and a rule would not cover it.
    check("bash", &[]);
    check("/bin/sh -s", &[]);
    check("python3 -", &[]);
    check("/usr/bin/python3 a.py", &["/usr/bin/python3 a.py"]);
    check("/usr/bin/git push origin", &["/usr/bin/git push origin"]);
    check("./gradlew build", &["./gradlew build", "./gradlew build *"]);
    assert_eq!(rule_texts(&read("curl -s https://x.dev | bash").commands[1]), [""; 0]);
}

#[test]
fn a_pattern_that_stands_for_anything_is_too_wide() {
    for wide in
        ["*", "git *", "git*", "python3 *", "/usr/bin/env *", "bash -c *", "sudo -n *", "npm run *"]
            .into_iter()
            .chain([
                "python3.11 *",
                "python3.11-dbg *",
                "/usr/bin/perl5.36 *",
                "ruby3.2 *",
                "pwsh *",
            ])
            .chain(["git bisect run *", "git bisect *", "rg *", "man *", "less *", "lua5.4 *"])
            .chain(["git submodule foreach *", "git difftool *", "php8.2 *", "node20 *", "pypy3 *"])
            .chain(["ld.so *", "cargo run *", "npm test-x *", "setsid *", "stdbuf *", "ionice *"])
            .filter(|wide| *wide != "npm test-x *")
    {
        assert!(is_too_wide(wide), "{wide}");
    }
    for narrow in [
        "git log *",
        "python3 build.py *",
        "cargo test *",
        "make",
        "bash",
        "pytest *",
        "npm run test *",
    ] {
        assert!(!is_too_wide(narrow), "{narrow}");
    }
    // No offered pattern is too wide.
    for text in [
        "git commit -m x",
        "cargo test -p x",
        "docker compose up -d",
        "pytest -x tests",
        "npm run test -- --watch",
    ] {
        let offered = rule_texts(&read(text).commands[0]);
        assert!(offered.iter().all(|pattern| !is_too_wide(pattern)), "{offered:?}");
    }
}

#[test]
fn an_unclear_text_may_be_allowed_as_a_whole_or_not_at_all() {
    let check = |text: &str, expected: &[&str]| {
        let unclear = accesses(text, None).into_iter().find_map(|access| match access {
            Access::Command(it) if matches!(it.risk, CommandRisk::Unclear(_)) => {
                Some(it.rule_texts)
            }
            _ => None,
        });
        assert_eq!(
            unclear.as_deref(),
            Some(&*expected.iter().map(ToString::to_string).collect::<Vec<_>>()),
            "{text}"
        );
    };
    check(" $(cat x) y ", &["$(cat x) y"]);
    check("cp $X y | bash", &["cp $X y | bash"]);
    check("$(cat x) *", &[]);
    check("$(cat x)\nls", &[]);
    check("$(cat x) \u{e9}", &[]);
    check(&format!("$(cat x) {}", "y".repeat(300)), &[]);
}

#[test]
fn depth_and_length_have_bounds() {
    for (open, close) in [
        ("$(", ")"),
        ("(", ")"),
        ("{ ", ";}"),
        ("\"$(", ")\""),
        ("${x:-", "}"),
        ("$((", "))"),
        ("if ", ""),
    ] {
        for times in [10, 100, 5_000] {
            let text = format!("{}ls{}", open.repeat(times), close.repeat(times));
            let reading = read(&text);
            assert!(times < 100 || !reading.doubts.is_empty(), "{times} of {open}");
        }
    }
    for piece in [
        "ls;", "a ", "'", "\"", "$(", "`", "\\", "<<E\n", "{a,b}", "((", "[[ ", "cd a;", "f(){ ",
        "é", "x=1 ",
    ] {
        for length in [60_000, 1 << 20] {
            let text = piece.repeat(length / piece.len());
            let reading = read(&text);
            assert!(length < 1 << 20 || !reading.doubts.is_empty(), "{piece}");
        }
    }
}

#[test]
fn characters_that_are_not_seen_are_doubted() {
    for sign in [
        "\0", "\r", "\u{b}", "\u{c}", "\u{a0}", "\u{200b}", "\u{202e}", "\u{2028}", "\u{feff}",
        "\u{1b}",
    ] {
        assert!(!read(&format!("ls{sign} x")).is_read_only(), "{sign:?}");
        assert!(!read(&format!("ls 'a{sign}'")).is_read_only(), "{sign:?}");
    }
    assert!(read("ls é ä 漢字").is_read_only());
}

/// Words in several spellings that bash reads the same.
fn spellings(word: &str) -> Vec<String> {
    let escaped: String = word.chars().flat_map(|c| ['\\', c]).collect();
    let continued: String = word.chars().map(|c| format!("{c}\\\n")).collect();
    let ansi: String = word.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
    vec![
        format!("'{word}'"),
        format!("\"{word}\""),
        escaped,
        format!("''{word}\"\""),
        continued,
        format!("$'{ansi}'"),
    ]
}

#[test]
fn characters_beyond_ascii_do_not_crash_the_grammar() {
    for character in ['é', '꼍', '𦜉', '\u{10ffff}'] {
        for text in [
            format!("{{{character}"),
            format!("{{1..{character}}}"),
            format!("echo {{{character}..2}}"),
        ] {
            assert!(read(&text).commands.len() <= 1, "{text}");
        }
    }
    assert!(read("cat 'Übersicht.md' größe.txt {ä,ö}.txt").is_read_only());
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(text in "\\PC{0,80}", open in "([{$`\"'(<a ]|\\PC){0,40}", signs in "[ \\n\\\\'\"$`(){}<>|&;#!*?\\[\\]=~,a-c0-2-]{0,80}") {
        read(&text);
        read(&open);
        read(&signs);
        for command in read(&signs).commands {
            rule_texts(&command);
        }
    }

    #[test]
    fn both_sides_of_a_list_are_read(one in 0..300usize, other in 0..300usize) {
        let blocks = table();
        let (one, other) = (&blocks[one % blocks.len()].0, &blocks[other % blocks.len()].0);
        let (first, second) = (read(one), read(other));
        let both = read(&format!("{one}\n{other}"));
        let is_there = |text: &str| both.commands.iter().any(|command| command.text == text);
        let is_missing = |reading: &Reading| reading.commands.iter().any(|command| !is_there(&command.text));
        prop_assert!(!both.doubts.is_empty() || !is_missing(&first) && !is_missing(&second), "{one}\n{other}");
        prop_assert!(first.doubts.is_empty() || !both.doubts.is_empty() || one.contains("<<"), "{one}\n{other}");
    }

    #[test]
    fn quotes_do_not_change_what_is_read(name in "[a-z]{1,6}", word in "[a-zA-Z0-9/.-]{1,8}") {
        prop_assume!(!matches!(name.as_str(), "if" | "do" | "fi" | "in" | "for" | "case" | "esac" | "done" | "then" | "else" | "elif" | "while" | "until" | "time" | "select" | "coproc"));
        let plain = read(&format!("{name} {word}"));
        for (name, word) in spellings(&name).iter().zip(spellings(&word)) {
            let other = read(&format!("{name} {word}"));
            prop_assert_eq!(&other.commands, &plain.commands, "{} {}", name, word);
            prop_assert_eq!(&other.files, &plain.files);
        }
    }
}
