//! The table of commands, and what holds for every text.

use proptest::prelude::*;

use super::*;

/// Blocks parted by empty lines: the text after `$` (further lines after `>`), then what is read in it.
const TABLE: &str = include_str!("commands.txt");

/// What agents type all day. None of it may ever ask.
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
    "cargo --version; which node; pwd",
];

fn described(reading: &Reading) -> Vec<String> {
    let mut lines = Vec::new();
    for command in &reading.commands {
        let risk = match command.risk {
            Risk::Looks => "looks",
            Risk::Usual => "usual",
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
        let how = if file.how == How::Read { "read" } else { "write" };
        let reach = match file.reach {
            Reach::Itself => "",
            Reach::Tree => " and below",
            Reach::Pattern => " as a pattern",
        };
        lines.push(format!("{how} {}{reach}", file.path.display()));
    }
    for doubt in &reading.doubts {
        let about = if doubt.about == About::Files { " (files)" } else { "" };
        lines.push(format!("doubt {}: {}{about}", doubt.what.replace('\n', "\\n"), doubt.why));
    }
    lines
}

/// The texts of the table with what stands below them.
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
fn everyday_looking_is_only_looking() {
    assert_eq!(EVERYDAY.len(), 18);
    let asked: Vec<_> = EVERYDAY.iter().filter(|text| !read(text).is_only_looking()).collect();
    assert_eq!(asked, [&""; 0]);
}

#[test]
fn widths_say_what_is_done_and_never_too_much() {
    let check = |text: &str, expected: &[&str]| {
        let reading = read(text);
        assert_eq!(widths(&reading.commands[0]), expected, "for {text}");
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
    // What they run is in their input, and the rule would not know of it.
    check("bash", &[]);
    check("/bin/sh -s", &[]);
    check("python3 -", &[]);
    check("/usr/bin/python3 a.py", &["/usr/bin/python3 a.py"]);
    check("/usr/bin/git push origin", &["/usr/bin/git push origin"]);
    check("./gradlew build", &["./gradlew build", "./gradlew build *"]);
    assert_eq!(widths(&read("curl -s https://x.dev | bash").commands[1]), [""; 0]);
}

#[test]
fn a_pattern_that_stands_for_anything_is_too_wide() {
    for wide in
        ["*", "git *", "git*", "python3 *", "/usr/bin/env *", "bash -c *", "sudo -n *", "npm run *"]
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
    // Whatever is offered is not too wide.
    for text in [
        "git commit -m x",
        "cargo test -p x",
        "docker compose up -d",
        "pytest -x tests",
        "npm run test -- --watch",
    ] {
        let offered = widths(&read(text).commands[0]);
        assert!(offered.iter().all(|pattern| !is_too_wide(pattern)), "{offered:?}");
    }
}

#[test]
fn an_unclear_text_may_be_allowed_as_a_whole_or_not_at_all() {
    let check = |text: &str, expected: &[&str]| {
        let unclear = accesses(text, None).into_iter().find_map(|access| match access {
            Access::Command(it) if matches!(it.risk, CommandRisk::Unclear(_)) => Some(it.widths),
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
        assert!(!read(&format!("ls{sign} x")).is_only_looking(), "{sign:?}");
        assert!(!read(&format!("ls 'a{sign}'")).is_only_looking(), "{sign:?}");
    }
    assert!(read("ls é ä 漢字").is_only_looking());
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
    assert!(read("cat 'Übersicht.md' größe.txt {ä,ö}.txt").is_only_looking());
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(text in "\\PC{0,80}", open in "([{$`\"'(<a ]|\\PC){0,40}", signs in "[ \\n\\\\'\"$`(){}<>|&;#!*?\\[\\]=~,a-c0-2-]{0,80}") {
        read(&text);
        read(&open);
        read(&signs);
        for command in read(&signs).commands {
            widths(&command);
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
