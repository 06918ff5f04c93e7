//! Generated texts: help, lists, completions and the manual. All are made from the tools.

use std::process::Command;

use haft::{Tool, catalogue};

use crate::fixture::{Fixture, Screen};

#[test]
fn the_version_is_told_without_reading_anything() {
    let fixture = Fixture::new().user_config("this is not TOML");
    for option in ["--version", "-V"] {
        let expected = format!("haft {}", env!("CARGO_PKG_VERSION"));
        assert_eq!(fixture.run(&[option]).out, expected);
    }
}

#[test]
fn help_knows_every_tool_and_every_field() {
    let fixture = Fixture::new();
    let all = fixture.run(&["--help"]);
    assert_eq!(all.code, 0);
    for tool in catalogue::all() {
        assert!(all.out.contains(&format!("  {} ", tool.name())), "{}", tool.name());
        let own = fixture.run(&[tool.name(), "--help"]).out;
        for (name, schema) in tool.spec().input.properties() {
            let words = schema["description"].as_str().expect("every field is described");
            let first = words.split_whitespace().next().unwrap_or_default();
            let is_there =
                own.contains(&name.replace('_', "-")) || own.contains(&name.to_uppercase());
            assert!(is_there && own.contains(first), "{name} in {own}");
        }
    }
}

#[test]
fn no_arguments_are_answered_with_help() {
    let ran = Fixture::new().run(&[]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("Usage: haft"), "{ran:?}");
}

#[test]
fn help_fits_two_screens_and_has_groups() {
    let fixture = Fixture::new();
    let help = fixture.run(&["--help"]).out;
    assert!(help.lines().count() <= 110, "{} lines", help.lines().count());
    assert!(help.lines().all(|line| line.chars().count() <= 102), "{help}");
    let mut at = 0;
    let headings = ["Work with tools", "Approvals and policy", "Serve", "Records", "Setup"];
    for heading in headings.iter().chain(&["Tools: files", "Options of every command"]) {
        let found = help.find(&format!("\n{heading}\n")).expect("a heading");
        assert!(found > at, "{heading} is in order");
        at = found;
    }
    assert_eq!(fixture.run(&[]).err, help, "no arguments print the same");
    assert_eq!(fixture.run(&["help"]).out, help);
    assert_eq!(fixture.run(&["-h"]).out, help);
    let mut narrow = fixture.haft(&["--help"]);
    let narrow = narrow.env("COLUMNS", "60").output().expect("haft runs");
    let narrow = String::from_utf8_lossy(&narrow.stdout).into_owned();
    let rows = narrow.lines().filter(|line| line.starts_with("  "));
    assert!(rows.clone().count() > 50, "{narrow}");
    for row in rows {
        assert!(row.chars().count() <= 60, "{row}");
    }
}

#[test]
fn help_explains_commands_and_lists_tools() {
    let fixture = Fixture::new();
    let tools = fixture.run(&["help", "tools"]).out;
    for tool in catalogue::all() {
        assert!(tools.contains(&format!("  {} ", tool.name())), "{}", tool.name());
    }
    for words in [&["grep"][..], &["policy", "check"], &["web-fetch"], &["help"], &["man"]] {
        let help = fixture.run(&[&["help"], words].concat());
        let same = fixture.run(&[words, &["--help"]].concat());
        assert_eq!((help.code, &help.out), (0, &same.out), "{words:?}");
    }
    assert!(fixture.run(&["grep", "--help"]).out.contains("Example:\n  haft grep "));
    let unknown = fixture.run(&["help", "grpe"]);
    assert_eq!(unknown.code, 3);
    assert!(unknown.err.contains("did you mean `grep`?"), "{unknown:?}");
}

#[test]
fn tools_are_a_table_on_a_terminal() {
    let fixture = Fixture::new();
    let screen = Screen::haft(&fixture, &["tools"]);
    assert_eq!(screen.exit_code(), 0);
    let shown = screen.wait_for("hello");
    let row = |name: &str| {
        let row = shown.lines().find(|line| line.starts_with(&format!("{name} ")));
        row.unwrap_or_else(|| panic!("no {name} in {shown}")).split_whitespace().collect::<Vec<_>>()
    };
    assert_eq!(row("tool"), ["tool", "group", "effect", "approval", "summary"]);
    assert_eq!(row("read")[1..4], ["files", "read", "no"]);
    assert_eq!(row("delete")[1..4], ["files", "destructive", "yes"]);
    assert!(shown.lines().all(|line| line.chars().count() <= 120), "{shown}");
    let denied = Fixture::new().user_config("deny = [\"delete\"]\nask = [\"read\"]");
    let table = denied.run(&["tools", "--format", "table"]).out;
    let row = |name: &str| table.lines().find(|line| line.starts_with(name)).expect("a row");
    assert!(row("read ").contains(" yes "), "{table}");
    assert!(!table.contains("unknown"), "each tool has a decision: {table}");
}

#[test]
fn one_tool_is_shown_with_its_flags_and_an_example() {
    let fixture = Fixture::new();
    let shown = fixture.run(&["tools", "grep", "--format", "table"]).out;
    for expected in ["grep: Grep", "needs approval here: no", "--max-results", "haft grep "] {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
    for arguments in [&["tools", "web-fetch"][..], &["tools", "web_fetch", "--format", "json"]] {
        let spec = fixture.run(arguments).json();
        assert_eq!(spec["name"], "web_fetch");
        assert_eq!(spec["input"]["type"], "object");
    }
    let definitions = fixture.run(&["tools", "grep", "--format", "anthropic"]).json();
    assert_eq!(definitions.as_array().map(Vec::len), Some(1));
    let wrong = fixture.run(&["tools", "grpe"]);
    assert_eq!(wrong.code, 3);
    assert!(wrong.err.contains("did you mean `grep`?"), "{wrong:?}");
}

#[test]
fn colours_are_for_terminals_unless_they_are_forced() {
    let fixture = Fixture::new();
    let coloured = |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command = fixture.haft(arguments);
        let output = command.envs(variables.iter().copied()).output().expect("haft runs");
        [output.stdout, output.stderr].concat().contains(&0x1b)
    };
    let pages: [&[&str]; 5] = [
        &["--help"],
        &["tools", "--format", "table"],
        &["tools", "grep", "--format", "table"],
        &["hello", "--nonsense"],
        &["policy", "list"],
    ];
    for page in pages {
        assert!(!coloured(&[], page), "{page:?}: a pipe has no escape codes");
        assert!(coloured(&[("CLICOLOR_FORCE", "1")], page), "{page:?}: forced");
        assert!(!coloured(&[("CLICOLOR_FORCE", "0")], page), "{page:?}");
        let both = [("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")];
        assert!(!coloured(&both, page), "{page:?}: NO_COLOR wins");
    }
}

#[test]
fn the_list_of_tools_is_their_specs() {
    let ran = Fixture::new().run(&["tools"]);
    let listed: Vec<serde_json::Value> = serde_json::from_str(&ran.out).expect("JSON");
    let names: Vec<&str> = listed.iter().filter_map(|spec| spec["name"].as_str()).collect();
    let known: Vec<&str> = catalogue::all().map(Tool::name).collect();
    assert_eq!(names, known);
    assert_eq!(listed[0]["input"]["type"], "object");
}

#[test]
fn the_reference_page_is_the_same_everywhere() {
    let page = Fixture::new().run(&["tools", "--format", "markdown"]).out;
    let elsewhere =
        Fixture::new().user_config("deny = [\"*\"]").run(&["tools", "--format", "markdown"]).out;
    assert_eq!(page, elsewhere);
    let (_, hello) = page.split_once("### `hello`").expect("hello has a section");
    let (hello, _) = hello.split_once("\n## ").expect("and others follow");
    insta::assert_snapshot!(hello, @"
    : Hello

    Greets a name in one of several languages.

    The smallest tool there is: call it to check that calls reach haft and results come back. It touches nothing.
    A greeting can be repeated up to 100 times.

    - effect: read, idempotent
    - needs: nothing
    - errors: those of [any call](#errors); `timeout` after 10 s
    - command: `haft hello <NAME> [--language <LANGUAGE>] [--times <TIMES>] [--shout]`

    | parameter | type | default | description |
    |---|---|---|---|
    | `name` | string | required | The name to greet. |
    | `language` | `english`, `french`, `german`, `spanish` | `english` | The language of the greeting. |
    | `times` | integer | `1` | How many times to repeat the greeting. [1 to 100] |
    | `shout` | boolean |  | Use capital letters. |

    ```sh
    haft hello Ada --language german --times 2
    haft call hello '{\"name\":\"Ada\",\"language\":\"german\",\"times\":2}'
    ```
    ");
    assert!(page.contains("| 124 | timeout |"), "{page}");
}

#[test]
fn the_manual_knows_every_tool_and_no_date() {
    let fixture = Fixture::new();
    let page = fixture.run(&["man"]).out;
    for tool in catalogue::all() {
        assert!(page.contains(&tool.name().replace('_', "\\_")) || page.contains(tool.name()));
    }
    let title = page.lines().find(|line| line.starts_with(".TH")).expect("a title line");
    assert_eq!(title, format!(".TH haft 1  \"haft {}\" ", env!("CARGO_PKG_VERSION")));
}

/// Returns the part of a page below this heading.
#[track_caller]
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page.split_once(heading).unwrap_or_else(|| panic!("no {heading} in {page}"));
    rest.split_once("\n##").map_or(rest, |(section, _)| section)
}

#[test]
fn an_example_does_what_its_page_says() {
    let fixture = Fixture::new();
    let page = fixture.run(&["tools", "--format", "markdown"]).out;
    let examples = section(&page, "### `hello`");
    let lines = examples.split("```sh\n").nth(1).and_then(|rest| rest.split("\n```").next());
    let lines: Vec<&str> = lines.expect("a block").lines().collect();
    assert_eq!(lines.len(), 2);
    for line in lines {
        let mut shell = Command::new("sh");
        let line = line.replacen("haft", env!("CARGO_BIN_EXE_haft"), 1);
        let output = shell.args(["-c", &line]).env("HOME", fixture.path("home")).output();
        let output = output.expect("a shell");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "Hallo, Ada!\nHallo, Ada!\n", "{line}");
    }
}

#[test]
fn what_a_tool_really_ends_in_is_on_its_page() {
    let fixture = Fixture::new();
    let page = fixture.run(&["tools", "--format", "markdown"]).out;
    let project = fixture.path("project");
    std::fs::write(project.join("a.txt"), "one\none\n").expect("written");
    std::fs::write(project.join("b.bin"), b"\x7fELF\0\0\x01").expect("written");
    std::fs::create_dir_all(project.join("full/of")).expect("a folder");
    for (tool, input, kind, field) in [
        ("read", r#"{"path": "none.txt"}"#, "not_found", ""),
        ("read", r#"{"path": "b.bin"}"#, "unsupported", ""),
        ("read", r#"{"path": "../x"}"#, "denied", ""),
        ("list", r#"{"path": "a.txt"}"#, "input", ""),
        ("glob", r#"{"pattern": "["}"#, "input", "pattern"),
        ("grep", r#"{"pattern": "("}"#, "input", "pattern"),
        (
            "edit",
            r#"{"path": "a.txt", "old_string": "two", "new_string": "2"}"#,
            "not_found",
            "old_string",
        ),
        (
            "edit",
            r#"{"path": "a.txt", "old_string": "one", "new_string": "1"}"#,
            "conflict",
            "old_string",
        ),
        (
            "write",
            r#"{"path": "a.txt", "content": "", "on_conflict": "error"}"#,
            "conflict",
            "on_conflict",
        ),
        ("move", r#"{"from": "a.txt", "to": "b.bin"}"#, "conflict", "on_conflict"),
        ("delete", r#"{"path": "full"}"#, "conflict", "recursive"),
        ("patch", r#"{"patch": "nothing of the sort"}"#, "input", "patch"),
        (
            "edit_lines",
            r#"{"path": "a.txt", "expected_version": "c0000000000000000", "patches": [{"start_line": 1, "end_line": 1, "content": ""}]}"#,
            "conflict",
            "expected_version",
        ),
    ] {
        let ran = fixture.run(&["call", tool, input, "--json", "--approve", "all"]);
        assert_eq!(ran.json()["error"]["kind"], kind, "{tool}: {ran:?}");
        let section = section(&page, &format!("### `{tool}`"));
        let own = section.lines().filter(|line| line.starts_with(&format!("| `{kind}` |")));
        let n_told = own.filter(|line| line.contains(&format!("`{field}`"))).count();
        assert_eq!(n_told, usize::from(!field.is_empty()), "{tool}, {kind}, {field}: {section}");
        let ends = section.lines().find(|line| line.starts_with("- errors:")).expect("a line");
        assert!(ends.contains(&format!("`{kind}`")), "{tool} ends in {kind}: {ends}");
    }
}

#[test]
fn the_page_of_the_command_line_knows_every_command_and_option() {
    let fixture = Fixture::new();
    let page = fixture.run(&["reference", "cli"]).out;
    let help = fixture.run(&["--help"]).out;
    let (commands, _) = help.split_once("Tools: files").expect("tools come after the commands");
    let names = commands.lines().filter(|line| line.starts_with("  "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    let own: Vec<&str> = names.filter(|name| *name != "help").collect();
    assert!(own.len() >= 8, "{own:?}");
    for name in own {
        let section = section(&page, &format!("## `haft {name}`"));
        let help = fixture.run(&[name, "--help"]).out;
        let (help, _) = help.split_once("Options of every command").expect("they come last");
        let options = help.split(|c: char| c.is_whitespace() || c == '[' || c == ']');
        for option in options.filter(|word| word.starts_with("--") && *word != "--help") {
            let option = option.trim_end_matches([',', '.', ';', ':']);
            let is_known = section.contains(option) || page.contains(&format!("| `{option}"));
            assert!(is_known, "{option} of {name}");
        }
    }
    for line in ["| `--approve MODE` |", "| 124 | timeout |", "| `.haft/config.toml` |"] {
        assert!(page.contains(line), "{line} in {page}");
    }
}

#[test]
fn the_example_of_the_config_page_is_a_config() {
    let fixture = Fixture::new();
    let page = fixture.run(&["reference", "config"]).out;
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let example = example.expect("a block");
    let schema: serde_json::Value =
        serde_json::from_str(&fixture.run(&["reference", "config-schema"]).out).expect("JSON");
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    let check = |text: &str| {
        let value: serde_json::Value = toml::from_str(text).expect("TOML");
        validator.iter_errors(&value).map(|error| error.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(check(example), Vec::<String>::new());
    for wrong in [
        "alow = []",
        "approve = \"most\"",
        "[limits]\ncontent_lines = -1",
        "[roots]\n\"a b\" = \"/\"",
        "sandbox = \"most\"",
        "sandbox = 1",
        "[sandbox]\nhome = \"most\"",
        "[sandbox]\nread = \"~/x\"",
        "[sandbox]\nreed = []",
    ] {
        assert!(!check(wrong).is_empty(), "the schema takes {wrong}");
    }
    assert_eq!(check("sandbox = \"off\""), Vec::<String>::new());
    let ran = fixture.user_config(example).run(&["hello", "Ada"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Hello, Ada!"), "{ran:?}");
}

#[test]
fn what_json_prints_fits_its_schema() {
    let fixture = Fixture::new();
    let schema: serde_json::Value =
        serde_json::from_str(&fixture.run(&["reference", "outcome-schema"]).out).expect("JSON");
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    std::fs::write(fixture.path("project/a.txt"), "one\n").expect("written");
    for arguments in [
        &["hello", "Ada", "--json"][..],
        &["read", "a.txt", "--json"],
        &["read", "none.txt", "--json"],
        &["call", "Hello", r#"{"name": "Ada",}"#, "--json"],
        &["no-such-tool", "--json"],
        &["hello", "--no-such-option", "--json"],
        &["--approve", "none", "hello", "Ada", "--json"],
    ] {
        let outcome = fixture.run_without_terminal(arguments).json();
        let faults: Vec<String> =
            validator.iter_errors(&outcome).map(|error| error.to_string()).collect();
        assert_eq!(faults, Vec::<String>::new(), "{arguments:?}: {outcome}");
    }
    assert!(!validator.is_valid(&serde_json::json!({"tool": "hello"})));
}

#[test]
fn reference_pages_are_the_same_everywhere() {
    for page in ["cli", "config", "config-schema", "outcome-schema"] {
        let here = Fixture::new().run(&["reference", page]);
        assert_eq!(here.code, 0, "{here:?}");
        let there = Fixture::new().user_config("this is not TOML").run(&["reference", page]);
        assert_eq!(here.out, there.out, "{page}");
        assert!(!here.out.contains("<root>") && !here.out.is_empty());
    }
}
