//! The file tools as commands: what a person sees, what a script gets, and several processes at once.

use std::{fs, process::Stdio};

use crate::house::{House, Screen};

impl House {
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
fn a_day_with_files() {
    let house = House::new();
    let written =
        house.run_with_stdin(&["write", "src/main.rs", "-"], b"fn main() {\n    run();\n}\n");
    insta::assert_snapshot!(written.whole(), @r"
    Created src/main.rs: 3 lines, 25 bytes, version c0fdd16b480099486.
    --- stderr

    --- exit 0
    ");
    insta::assert_snapshot!(house.run(&["edit", "src/main.rs", "run()", "walk()"]).whole(), @r"
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
    insta::assert_snapshot!(house.run(&["grep", "walk", "--context", "1"]).whole(), @r"
    src/main.rs-1- fn main() {
    src/main.rs:2:     walk();
    src/main.rs-3- }

    [1 match in 1 file]
    --- stderr

    --- exit 0
    ");
    insta::assert_snapshot!(house.run(&["glob", "*.rs"]).whole(), @r"
    src/main.rs
    [1 file, newest first]
    --- stderr

    --- exit 0
    ");
    insta::assert_snapshot!(house.run(&["list"]).whole(), @r"
    .haft/
      tmp/…
    src/
      main.rs
    --- stderr

    --- exit 0
    ");
    insta::assert_snapshot!(house.run(&["read", "src/main.rs", "--offset", "2"]).whole(), @r"
    2	    walk();
    3	}
    [src/main.rs: lines 2-3 of 3; version c0a55bbc013822c7b]
    --- stderr

    --- exit 0
    ");
    insta::assert_snapshot!(house.run(&["move", "src/main.rs", "src/bin/walk.rs"]).whole(), @r"
    Moved src/main.rs to src/bin/walk.rs.
    --- stderr

    --- exit 0
    ");
    let patch = b"*** Begin Patch\n*** Update File: src/bin/walk.rs\n@@\n-    walk();\n+    run();\n*** End Patch\n";
    insta::assert_snapshot!(house.run_with_stdin(&["patch", "-"], patch).whole(), @r"
    Patched 1 file:
    M src/bin/walk.rs (+1 -1), version c0fdd16b480099486
    --- stderr

    --- exit 0
    ");
    assert_eq!(house.text("src/bin/walk.rs"), "fn main() {\n    run();\n}\n");
}

#[test]
fn wrong_words_are_answered_with_the_next_step() {
    let house = House::new();
    house.put("src/main.rs", "fn main() {}\n");
    house.put(".env", "KEY=x\n");
    insta::assert_snapshot!(house.run(&["read", "src/mian.rs"]).whole(), @r"

    --- stderr
    error: there is no `src/mian.rs`
      next: did you mean `src/main.rs`?
    --- exit 3
    ");
    insta::assert_snapshot!(house.run(&["read", "../x"]).whole(), @r"

    --- stderr
    error: `../x` leads to `<house>/x`, outside the workspace <house>/project
      next: name a path inside it; a person can open another folder by a line under [roots] in their config
    --- exit 5
    ");
    insta::assert_snapshot!(house.run(&["edit", "src/main.rs", "fn mian() {}", "x"]).whole(), @r"

    --- stderr
    error: old_string is not in src/main.rs; the closest place is line 1 (72% similar):
    1: fn main() {}
      next: read line 1 of src/main.rs and give old_string exactly as it is there
    --- exit 3
    ");
    insta::assert_snapshot!(house.run(&["grep", "a(b"]).whole(), @r"

    --- stderr
    error: `a(b` is not a valid regular expression: unclosed group
      next: set literal to true to search for the text as it is, or write `\` before the character
    --- exit 2
    ");
    insta::assert_snapshot!(house.run(&["read", ".env"]).whole(), @r"

    --- stderr
    error: `read` is denied: read .env: `.env` is a secret path (built-in)
      next: to change that, add `.env` to `secrets.except` in <house>/home/.config/haft/config.toml
    --- exit 5
    ");
    insta::assert_snapshot!(house.run_without_terminal(&["delete", "src/main.rs"]).whole(), @r#"

    --- stderr
    error: `delete` needs a yes (mode `contained` asks before: write src/main.rs), and nobody could be asked
      next: to run it unasked, add `allow = ["write(src/main.rs)"]` to <house>/home/.config/haft/config.toml, or use `--approve all`
    --- exit 5
    "#);
    assert_eq!(house.text("src/main.rs"), "fn main() {}\n");
}

#[test]
fn a_path_meant_from_where_one_stands_is_recognised() {
    let house = House::new();
    house.put("src/main.rs", "fn main() {}\n");
    house.put("src/.env", "KEY=x\n");
    let run = |path: &str| {
        let mut command = house.haft(&["read", path]);
        let output = command.current_dir(house.path("project/src")).output().expect("haft runs");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let told = run("main.rs");
    assert!(told.contains("there is no `main.rs` in the workspace"), "{told}");
    assert!(told.contains("did you mean `src/main.rs`?"), "{told}");
    assert!(run("src/main.rs").is_empty());
    assert!(!run(".env").contains("src/.env"));
}

#[test]
fn what_a_file_holds_cannot_command_the_terminal() {
    let house = House::new();
    house.put("evil.txt", "red \x1b[31mtext\x1b]0;title\x07 and \x1b[2Jgone\n");
    for arguments in [["read", "evil.txt"], ["grep", "red"]] {
        let screen = Screen::haft(&house, &arguments);
        assert_eq!(screen.exit_code(), 0);
        let shown = screen.wait_for("gone");
        assert!(shown.contains("red ") && !shown.contains('\x1b'), "{shown}");
    }
}

#[test]
fn a_change_is_shown_before_it_is_agreed_to() {
    let house = House::new();
    house.put("notes.md", "one\ntwo\nthree\n");
    let screen = Screen::haft(&house, &["--approve", "safe", "edit", "notes.md", "two", "2"]);
    let question = screen.wait_for("[y] yes, once");
    assert!(question.contains("| -two") && question.contains("| +2"), "{question}");
    assert_eq!(house.text("notes.md"), "one\ntwo\nthree\n");
    screen.press(&["y"]);
    assert_eq!(screen.exit_code(), 0);
    assert_eq!(house.text("notes.md"), "one\n2\nthree\n");
}

#[test]
fn processes_that_edit_one_file_lose_nothing() {
    let house = House::new();
    let lines = |mark: &str| (0..24).map(|n| format!("{mark}{n:02}\n")).collect::<String>();
    house.put("shared.txt", lines("before"));
    let edits: Vec<_> = (0..24)
        .map(|n| {
            let (old, new) = (format!("before{n:02}"), format!("after{n:02}"));
            let mut command = house.haft(&["edit", "shared.txt", &old, &new]);
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("haft runs")
        })
        .collect();
    for edit in edits {
        let output = edit.wait_with_output().expect("haft ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(house.text("shared.txt"), lines("after"));
    let left = fs::read_dir(house.path("project/.haft/tmp")).expect("the area");
    assert_eq!(left.count(), 0, "nothing unfinished is left");
}

#[test]
fn a_folder_outside_is_opened_by_a_line_in_ones_own_config_only() {
    let house = House::new();
    let docs = house.path("docs");
    fs::create_dir(&docs).expect("a folder");
    fs::write(docs.join("a.md"), "about it\n").expect("written");
    let line = format!("[roots]\ndocs = {docs:?}\nlost = \"/no/such/folder\"\n");
    let house = house.user_config(&line);
    let read = house.run(&["read", "@docs/a.md"]);
    assert!(read.out.starts_with("1\tabout it\n[@docs/a.md: lines 1-1 of 1"), "{}", read.whole());
    assert!(read.err.contains("the root `@lost` (/no/such/folder)"), "{}", read.whole());
    let absolute = docs.join("a.md").display().to_string();
    assert_eq!(house.run(&["read", &absolute]).out, read.out);
    assert!(
        house.run(&["grep", "about", "--path", "@docs"]).out.starts_with("@docs/a.md:1: about it")
    );
    let denied = format!("[roots]\ndocs = {docs:?}\n");
    let house = House::new().project_config(&denied);
    assert_eq!(house.run(&["read", "@docs/a.md"]).code, 2, "a project opens nothing");
}
