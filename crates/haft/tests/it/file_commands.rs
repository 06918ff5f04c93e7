//! The file tools as commands: output for people and for scripts, and concurrent processes.

use std::{fs, process::Stdio};

use crate::fixture::{Fixture, Screen};

impl Fixture {
    fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path("project").join(path);
        fs::create_dir_all(path.parent().expect("in the project")).expect("a folder");
        fs::write(path, content).expect("written");
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path("project").join(path)).expect("it is there")
    }
}

#[test]
fn a_session_with_files() {
    let fixture = Fixture::new();
    let written =
        fixture.run_with_stdin(&["write", "src/main.rs", "-"], b"fn main() {\n    run();\n}\n");
    insta::assert_snapshot!(written.whole(), @r"
    Created src/main.rs: 3 lines, 25 bytes, version c0fdd16b480099486.
    --- stderr

    --- exit 0
    ");
    insta::assert_snapshot!(fixture.run(&["edit", "src/main.rs", "run()", "walk()"]).whole(), @r"
    Edited src/main.rs (1 place), version c0a55bbc013822c7b.
    --- a/src/main.rs
    +++ b/src/main.rs
    @@ -1,3 +1,3 @@
     fn main() {
    -    run();
    +    walk();
     }
    --- stderr

    --- exit 0
    ");
    insta::assert_snapshot!(fixture.run(&["grep", "walk", "--context", "1"]).whole(), @r"
    src/main.rs-1- fn main() {
    src/main.rs:2:     walk();
    src/main.rs-3- }

    [1 match in 1 file]
    --- stderr

    --- exit 0
    ");
    insta::assert_snapshot!(fixture.run(&["glob", "*.rs"]).whole(), @r"
    src/main.rs
    [1 file, newest first]
    --- stderr

    --- exit 0
    ");
    insta::assert_snapshot!(fixture.run(&["list"]).whole(), @r"
    .haft/
      tmp/…
    src/
      main.rs
    --- stderr

    --- exit 0
    ");
    insta::assert_snapshot!(fixture.run(&["read", "src/main.rs", "--offset", "2"]).whole(), @r"
    2	    walk();
    3	}
    [src/main.rs: lines 2-3 of 3; version c0a55bbc013822c7b]
    --- stderr

    --- exit 0
    ");
    insta::assert_snapshot!(fixture.run(&["move", "src/main.rs", "src/bin/walk.rs"]).whole(), @r"
    Moved src/main.rs to src/bin/walk.rs.
    --- stderr

    --- exit 0
    ");
    let patch = b"*** Begin Patch\n*** Update File: src/bin/walk.rs\n@@\n-    walk();\n+    run();\n*** End Patch\n";
    insta::assert_snapshot!(fixture.run_with_stdin(&["patch", "-"], patch).whole(), @r"
    Patched 1 file:
    M src/bin/walk.rs (+1 -1), version c0fdd16b480099486
    --- stderr

    --- exit 0
    ");
    assert_eq!(fixture.text("src/bin/walk.rs"), "fn main() {\n    run();\n}\n");
}

#[test]
fn errors_name_the_next_step() {
    let fixture = Fixture::new();
    fixture.put("src/main.rs", "fn main() {}\n");
    fixture.put(".env", "KEY=x\n");
    insta::assert_snapshot!(fixture.run(&["read", "src/mian.rs"]).whole(), @r"

    --- stderr
    error: there is no `src/mian.rs`
      next: did you mean `src/main.rs`?
    --- exit 3
    ");
    insta::assert_snapshot!(fixture.run(&["read", "../x"]).whole(), @r"

    --- stderr
    error: `../x` leads to `<root>/x`, outside the workspace <root>/project
      next: name a path inside it; a person can open another folder with a line under [roots] in their config
    --- exit 5
    ");
    insta::assert_snapshot!(fixture.run(&["edit", "src/main.rs", "fn mian() {}", "x"]).whole(), @r"

    --- stderr
    error: old_string is not in src/main.rs; the closest place is line 1 (72% similar):
    1: fn main() {}
      next: read line 1 of src/main.rs and give old_string exactly as it is there
    --- exit 3
    ");
    insta::assert_snapshot!(fixture.run(&["grep", "a(b"]).whole(), @r"

    --- stderr
    error: `a(b` is not a valid regular expression: unclosed group
      next: set literal to true to search for the text as it is, or write `\` before the character
    --- exit 2
    ");
    insta::assert_snapshot!(fixture.run(&["read", ".env"]).whole(), @r"

    --- stderr
    error: `read` is denied: read .env: `.env` is a secret path (built-in)
      next: to change that, add `.env` to `secrets.except` in <root>/home/.config/haft/config.toml
    --- exit 5
    ");
    insta::assert_snapshot!(fixture.run_without_terminal(&["delete", "src/main.rs"]).whole(), @r#"

    --- stderr
    error: `delete` needs approval (mode `contained`: write src/main.rs), but no approver is available
      next: to run it without approval, add `allow = ["write(src/main.rs)"]` to <root>/home/.config/haft/config.toml, or use `--approve all`
    --- exit 5
    "#);
    assert_eq!(fixture.text("src/main.rs"), "fn main() {}\n");
}

#[test]
fn a_path_meant_from_where_one_stands_is_recognised() {
    let fixture = Fixture::new();
    fixture.put("src/main.rs", "fn main() {}\n");
    fixture.put("src/.env", "KEY=x\n");
    let run = |path: &str| {
        let mut command = fixture.haft(&["read", path]);
        let output = command.current_dir(fixture.path("project/src")).output().expect("haft runs");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let told = run("main.rs");
    assert!(told.contains("there is no `main.rs` in the workspace"), "{told}");
    assert!(told.contains("did you mean `src/main.rs`?"), "{told}");
    assert!(run("src/main.rs").is_empty());
    assert!(!run(".env").contains("src/.env"));
}

#[test]
fn a_files_content_cannot_control_the_terminal() {
    let fixture = Fixture::new();
    fixture.put("evil.txt", "red \x1b[31mtext\x1b]0;title\x07 and \x1b[2Jgone\n");
    for arguments in [["read", "evil.txt"], ["grep", "red"]] {
        let screen = Screen::haft(&fixture, &arguments);
        assert_eq!(screen.exit_code(), 0);
        let shown = screen.wait_for("gone");
        assert!(shown.contains("red ") && !shown.contains('\x1b'), "{shown}");
    }
}

#[test]
fn a_change_is_shown_before_it_is_agreed_to() {
    let fixture = Fixture::new();
    fixture.put("notes.md", "one\ntwo\nthree\n");
    let screen = Screen::haft(&fixture, &["--approve", "safe", "edit", "notes.md", "two", "2"]);
    let question = screen.wait_for("[y] yes, once");
    assert!(question.contains("| -two") && question.contains("| +2"), "{question}");
    assert_eq!(fixture.text("notes.md"), "one\ntwo\nthree\n");
    screen.press(&["y"]);
    assert_eq!(screen.exit_code(), 0);
    assert_eq!(fixture.text("notes.md"), "one\n2\nthree\n");
}

#[test]
fn processes_that_edit_one_file_lose_nothing() {
    let fixture = Fixture::new();
    let lines = |mark: &str| (0..24).map(|n| format!("{mark}{n:02}\n")).collect::<String>();
    fixture.put("shared.txt", lines("before"));
    let edits: Vec<_> = (0..24)
        .map(|n| {
            let (old, new) = (format!("before{n:02}"), format!("after{n:02}"));
            let mut command = fixture.haft(&["edit", "shared.txt", &old, &new]);
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("haft runs")
        })
        .collect();
    for edit in edits {
        let output = edit.wait_with_output().expect("haft ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(fixture.text("shared.txt"), lines("after"));
    let left = fs::read_dir(fixture.path("project/.haft/tmp")).expect("the area");
    assert_eq!(left.count(), 0, "nothing unfinished is left");
}

#[test]
fn a_folder_outside_is_opened_by_a_line_in_ones_own_config_only() {
    let fixture = Fixture::new();
    let docs = fixture.path("docs");
    fs::create_dir(&docs).expect("a folder");
    fs::write(docs.join("a.md"), "about it\n").expect("written");
    let line = format!("[roots]\ndocs = {docs:?}\nlost = \"/no/such/folder\"\n");
    let fixture = fixture.user_config(&line);
    let read = fixture.run(&["read", "@docs/a.md"]);
    assert!(read.out.starts_with("1\tabout it\n[@docs/a.md: lines 1-1 of 1"), "{}", read.whole());
    assert!(read.err.contains("the root `@lost` (/no/such/folder)"), "{}", read.whole());
    let absolute = docs.join("a.md").display().to_string();
    assert_eq!(fixture.run(&["read", &absolute]).out, read.out);
    assert!(
        fixture
            .run(&["grep", "about", "--path", "@docs"])
            .out
            .starts_with("@docs/a.md:1: about it")
    );
    let denied = format!("[roots]\ndocs = {docs:?}\n");
    let fixture = Fixture::new().project_config(&denied);
    assert_eq!(fixture.run(&["read", "@docs/a.md"]).code, 2, "a project opens nothing");
}

/// Everything that pages of a tool show, from the first offset on.
fn all_pages(fixture: &Fixture, arguments: &[&str], own: fn(&str) -> bool) -> Vec<String> {
    let (mut all, mut offset) = (Vec::new(), 1);
    loop {
        let from = format!("--offset={offset}");
        let page = fixture.run(&[arguments, &[&from]].concat());
        assert_eq!(page.code, 0, "{page:?}");
        assert!(!page.out.contains("stored as output"), "a page is not truncated again: {page:?}");
        all.extend(page.out.lines().filter(|line| own(line)).map(str::to_owned));
        match page.out.split_once("next: offset=") {
            None => return all,
            Some((_, rest)) => {
                let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
                let next = digits.parse().expect("a number");
                assert!(next > offset, "it goes on: {page:?}");
                offset = next;
            }
        }
    }
}

#[test]
fn many_entries_files_and_matches_are_had_page_by_page() {
    const FILES: usize = 2_500;
    let fixture = Fixture::new();
    for folder in 0..5 {
        std::fs::create_dir(fixture.path(&format!("project/d{folder}"))).expect("made");
    }
    let long = "x".repeat(60);
    let name = |number: usize| format!("d{}/{long}-{number:05}.txt", number % 5);
    for number in 0..FILES {
        let path = fixture.path("project").join(name(number));
        std::fs::write(path, "a hit\n").expect("written");
    }
    let mut names: Vec<String> = (0..FILES).map(name).collect();
    names.sort();
    let is_file = |line: &str| line.ends_with(".txt");
    let listed = all_pages(&fixture, &["list", "--limit", "2000"], is_file);
    assert_eq!(listed, names, "in order, each once");
    let mut found = all_pages(&fixture, &["glob", "*.txt", "--limit", "1000"], is_file);
    found.sort();
    assert_eq!(found, names);
    let hits = all_pages(&fixture, &["grep", "a hit"], |line| line.ends_with(": a hit"));
    let expected: Vec<String> = names.iter().map(|name| format!("{name}:1: a hit")).collect();
    assert_eq!(hits, expected);
    // An overview shares its room, and says how to have everything.
    let overview = fixture.run(&["list"]);
    assert!(overview.out.contains("next: offset=1 lists all of them in order"), "{overview:?}");
    let flat = fixture.run(&["list", "d0", "--limit", "10"]);
    assert!(flat.out.ends_with("next: offset=11, or give a deeper path]"), "{flat:?}");
}

#[test]
fn matches_in_a_line_that_does_not_fit_into_memory_are_shown() {
    let fixture = Fixture::new();
    let mut long = vec![b'x'; 18 << 20];
    long[9 << 20..(9 << 20) + 6].copy_from_slice(b"needle");
    long.extend_from_slice(b"\nneedle two\n");
    std::fs::write(fixture.path("project/long.json"), &long).expect("written");
    let ran = fixture.run(&["grep", "needle"]);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].starts_with("long.json:1: xxx") && lines[0].ends_with("xxx […]"), "{ran:?}");
    assert!(lines[0].contains("needle") && lines[0].len() < 600, "{ran:?}");
    assert_eq!(lines[1..], ["long.json:2: needle two", "", "[2 matches in 1 file]"]);
    std::fs::write(fixture.path("project/large.txt"), "x\n".repeat(20 << 20)).expect("written");
    let ran = fixture.run(&["grep", "x\\nx", "--multiline", "--include", "large.txt"]);
    assert!(
        ran.out.starts_with("[partial: 0 matches, but not searched to the end: large.txt"),
        "{ran:?}"
    );
}
