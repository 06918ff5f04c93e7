//! Calls of tools as commands and as JSON, and their errors.

use crate::fixture::Fixture;

/// Returns an outcome without its duration.
fn timeless(text: &str) -> String {
    let (before, after) = text.rsplit_once("\"ms\":").expect("an outcome");
    let end = after.trim_start_matches(|c: char| c.is_ascii_digit());
    format!("{before}\"ms\":0{end}")
}

#[test]
fn a_tool_is_a_command() {
    let fixture = Fixture::new();
    assert_eq!(fixture.run(&["hello", "Ada"]).whole(), "Hello, Ada!\n--- stderr\n\n--- exit 0");
    let loud = fixture.run(&["hello", "--shout", "Ada", "--language", "german", "--times=2"]);
    assert_eq!((loud.code, loud.out.as_str()), (0, "HALLO, ADA!\nHALLO, ADA!"));
}

#[test]
fn json_is_the_whole_outcome_wherever_it_is_asked_for() {
    let fixture = Fixture::new();
    let after = fixture.run(&["hello", "Ada", "--json"]);
    let before = fixture.run(&["--json", "hello", "Ada"]);
    insta::assert_snapshot!(timeless(&after.out), @r#"{"tool":"hello","title":"Hello","content":"Hello, Ada!","data":{"text":"Hello, Ada!","times":1},"metadata":{},"ms":0}"#);
    assert_eq!(timeless(&before.out), timeless(&after.out));
}

#[test]
fn call_takes_json_from_the_line_or_from_standard_input() {
    let fixture = Fixture::new();
    let json = r#"{"name": "Ada"}"#;
    let given = fixture.run(&["call", "hello", json]);
    assert_eq!((given.code, given.out.as_str()), (0, "Hello, Ada!"));
    for arguments in [vec!["call", "hello", "-"], vec!["call", "hello"]] {
        let read = fixture.run_with_stdin(&arguments, json.as_bytes());
        assert_eq!((read.code, read.out.as_str()), (0, "Hello, Ada!"), "{arguments:?}");
    }
}

#[test]
fn small_slips_in_json_are_mended_and_reported() {
    let fixture = Fixture::new();
    let outcome =
        fixture.run(&["--json", "call", "hello", r#"{"Name": "Ada", "times": "2",}"#]).json();
    assert_eq!(outcome["content"], "Hello, Ada!\nHello, Ada!", "{outcome}");
    let repairs = outcome["repairs"].as_array().map(Vec::len);
    assert_eq!(repairs, Some(3), "a comma, a name and a number: {outcome}");
}

#[test]
fn one_text_field_reads_standard_input() {
    let fixture = Fixture::new();
    let read = fixture.run_with_stdin(&["hello", "-"], "Grace".as_bytes());
    assert_eq!((read.code, read.out.as_str()), (0, "Hello, Grace!"));
    let broken = fixture.run_with_stdin(&["hello", "-"], b"\xff\xfe");
    assert_eq!(broken.code, 2);
    assert!(broken.err.contains("standard input is not UTF-8: byte 0"), "{broken:?}");
}

#[test]
fn an_unknown_tool_gets_the_nearest_names() {
    let fixture = Fixture::new();
    insta::assert_snapshot!(fixture.run(&["helo", "Ada"]).whole(), @"

    --- stderr
    error: no tool or command is called `helo`
      next: did you mean `hello` or `help`?
    --- exit 3
    ");
    let called = fixture.run(&["call", "helo", "{}"]);
    assert_eq!(called.code, 3);
    assert!(called.err.contains("did you mean `hello`?"), "{called:?}");
    let told = fixture.run(&["--json", "helo"]).json();
    assert_eq!(told["error"]["kind"], "not_found");
}

#[test]
fn wrong_input_names_the_field_and_the_next_step() {
    let fixture = Fixture::new();
    for (arguments, told) in [
        (vec!["call", "hello", "{}"], "missing field `name`"),
        (vec!["call", "hello", r#"{"name":"Ada","tims":1}"#], "for `tims`, did you mean `times`?"),
        (
            vec!["call", "hello", r#"{"name":"Ada","times":"ten"}"#],
            "times: expected an integer, got \"ten\"",
        ),
        (vec!["call", "hello", r#"{"name":"Ad"#], "the text ends early"),
        (vec!["hello"], "<NAME>"),
        (vec!["hello", "Ada", "--tmes", "3"], "'--times'"),
        (vec!["hello", "Ada", "--times", "ten"], "expected a whole number"),
        (vec!["hello", "Ada", "--times", "1000"], "times: expected at most 100, got 1000"),
        (vec!["hello", "Ada", "--language", "latin"], "possible values: english"),
        (vec!["hello", "Ada", "--timeout", "soon"], "expected a time such as"),
        (vec!["hello", "Ada", "--approve", "everything"], "possible values: none"),
        (vec!["hello", "Ada", "--workspace", "gone"], "project/gone cannot be opened"),
    ] {
        let ran = fixture.run(&arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {ran:?}");
        assert!(ran.err.contains(told), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn wrong_options_are_an_outcome_too_when_json_is_wanted() {
    let told = Fixture::new().run(&["hello", "--json"]).json();
    assert_eq!(told["error"]["kind"], "input");
    assert_eq!(
        told["error"]["message"],
        "the following required arguments were not provided: <NAME>"
    );
}

#[test]
fn deep_nesting_is_refused_and_does_not_overflow() {
    let deep = "[".repeat(100_000);
    let ran = Fixture::new().run_with_stdin(&["call", "hello", "-"], deep.as_bytes());
    assert_eq!(ran.code, 2, "{}", ran.err);
}

#[test]
fn a_dry_run_says_what_would_happen_and_does_nothing() {
    let fixture = Fixture::new();
    insta::assert_snapshot!(fixture.run(&["hello", "Ada", "--dry-run", "--approve", "none"]).whole(), @r#"
    hello {"name":"Ada"}
      no accesses
      decision: ask (mode `none` requires approval for every call)
      to change that: add `allow = ["hello"]` to <root>/home/.config/haft/config.toml, or use `--approve safe`
    --- stderr

    --- exit 0
    "#);
    let explained = fixture.run(&["hello", "Ada", "--dry-run", "--json"]).json();
    assert_eq!(explained["decision"]["action"], "allow");
}

#[test]
fn secrets_of_the_environment_are_not_shown() {
    let fixture = Fixture::new();
    let mut command = fixture.haft(&["hello", "s3cret-s3cret", "--json"]);
    let output = command.env("DEPLOY_TOKEN", "s3cret-s3cret").output().expect("haft runs");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("Hello, [secret:DEPLOY_TOKEN]!"), "{shown}");
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[test]
fn a_tool_that_changes_something_gets_no_value_of_another_type() {
    let fixture = Fixture::new().user_config("approve = \"all\"\n");
    for (tool, input, told) in [
        ("write", r#"{"path": 5, "content": "x"}"#, "path: expected a string, got 5"),
        ("write", r#"{"path": "a.txt", "content": 7}"#, "content: expected a string, got 7"),
        ("bash", r#"{"command": 7}"#, "command: expected a string, got 7"),
        (
            "bash",
            r#"{"command": "true", "timeout_ms": "5000"}"#,
            "timeout_ms: expected an integer, got \"5000\"",
        ),
        (
            "delete",
            r#"{"path": "a.txt", "recursive": "true"}"#,
            "recursive: expected a boolean, got \"true\"",
        ),
    ] {
        let ran = fixture.run(&["call", tool, input]);
        assert_eq!(ran.code, 2, "{tool} {input}: {ran:?}");
        assert!(ran.err.contains(told), "{tool} {input}: {ran:?}");
    }
    let project = std::fs::read_dir(fixture.path("project")).expect("there");
    let names: Vec<_> = project.map(|entry| entry.expect("readable").file_name()).collect();
    assert_eq!(names, [".haft"], "nothing was written");
    // Repairs of syntax and of spelling cannot change the meaning.
    let ran = fixture.run(&["call", "write", r#"{"filePath": "a.txt", "content": "x",}"#]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn an_empty_path_is_refused_with_what_to_give() {
    let fixture = Fixture::new();
    for (tool, input) in [
        ("read", r#"{"path": ""}"#),
        ("list", r#"{"path": ""}"#),
        ("bash", r#"{"command": "true", "workdir": ""}"#),
        ("git_status", r#"{"directory": ""}"#),
    ] {
        let ran = fixture.run(&["call", tool, input]);
        assert_eq!(ran.code, 2, "{tool}: {ran:?}");
        assert!(ran.err.contains("give \".\" for the workspace itself"), "{tool}: {ran:?}");
    }
    assert_eq!(fixture.run(&["list", ""]).code, 2);
}

#[test]
fn no_name_in_an_error_reorders_or_controls_what_is_shown() {
    let fixture = Fixture::new();
    std::fs::write(fixture.path("project/c\u{202e}d"), "as \u{202e} it is").expect("written");
    let hidden = |text: &str| text.contains(['\u{202e}', '\u{2028}', '\u{1b}', '\u{9b}']);
    for (tool, input) in [
        ("read", r#"{"path": "a\u202eb\u001b[2J\u009b\u2028"}"#),
        ("read", r#"{"path": "c\u202ee"}"#),
        ("read", r#"{"path": ".", "a\u202eb": 1}"#),
        ("a\u{202e}b", "{}"),
    ] {
        let ran = fixture.run(&["call", tool, input]);
        let outcome = fixture.run(&["--json", "call", tool, input]).json();
        assert!(!hidden(&ran.err) && ran.err.contains("\\u{202e}"), "{ran:?}");
        for text in [&outcome["error"]["message"], &outcome["error"]["hint"], &outcome["content"]] {
            assert!(!hidden(text.as_str().expect("a text")), "{outcome}");
        }
    }
    let read = fixture.run(&["call", "read", r#"{"path": "c\u202ed"}"#]);
    assert!(read.out.contains("as \u{202e} it is"), "contents stay as they are: {read:?}");
}
