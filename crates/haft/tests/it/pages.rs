//! What haft says about itself: help, lists, completions, the manual. All of it is made from the tools.

use std::process::{Command, Stdio};

use haft::{Tool, catalogue};

use crate::house::House;

#[test]
fn the_version_is_told_without_reading_anything() {
    let house = House::new().user_config("this is not TOML");
    for option in ["--version", "-V"] {
        let expected = format!("haft {}", env!("CARGO_PKG_VERSION"));
        assert_eq!(house.run(&[option]).out, expected);
    }
}

#[test]
fn help_knows_every_tool_and_every_field() {
    let house = House::new();
    let all = house.run(&["--help"]);
    assert_eq!(all.code, 0);
    for tool in catalogue::all() {
        assert!(all.out.contains(&format!("  {} ", tool.name())), "{}", tool.name());
        let own = house.run(&[tool.name(), "--help"]).out;
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
    let ran = House::new().run(&[]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("Usage: haft"), "{ran:?}");
}

#[test]
fn the_list_of_tools_is_their_specs() {
    let ran = House::new().run(&["tools"]);
    let listed: Vec<serde_json::Value> = serde_json::from_str(&ran.out).expect("JSON");
    let names: Vec<&str> = listed.iter().filter_map(|spec| spec["name"].as_str()).collect();
    let known: Vec<&str> = catalogue::all().map(Tool::name).collect();
    assert_eq!(names, known);
    assert_eq!(listed[0]["input"]["type"], "object");
}

#[test]
fn the_reference_page_is_the_same_everywhere() {
    let page = House::new().run(&["tools", "--format", "markdown"]).out;
    let elsewhere =
        House::new().user_config("deny = [\"*\"]").run(&["tools", "--format", "markdown"]).out;
    assert_eq!(page, elsewhere);
    let (_, hello) = page.split_once("### `hello`").expect("hello has a section");
    let (hello, _) = hello.split_once("\n## ").expect("and others follow");
    insta::assert_snapshot!(hello, @"
    : Hello

    Says hello to somebody, in one of several languages.

    The smallest tool there is: use it to see that calls reach haft and that results come back. It touches nothing.
    Greetings can be repeated up to 100 times.

    - effect: read, idempotent
    - needs: nothing
    - command: `haft hello <NAME> [--language <LANGUAGE>] [--times <TIMES>] [--shout]`

    | parameter | type | default | description |
    |---|---|---|---|
    | `name` | string | required | Who is greeted. |
    | `language` | `english`, `french`, `german`, `spanish` | `english` | The language of the greeting. |
    | `times` | integer | `1` | How often the greeting is said. [1 to 100] |
    | `shout` | boolean |  | In capital letters. |
    ");
    assert!(page.contains("| 124 | timeout |"), "{page}");
}

#[test]
fn completions_are_there_for_every_shell() {
    let house = House::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = house.run(&["completions", shell]);
        assert_eq!(ran.code, 0, "{shell}");
        assert!(ran.out.contains("hello") && ran.out.contains("language"), "{shell}");
    }
    let script = house.path("haft.bash");
    std::fs::write(&script, house.run(&["completions", "bash"]).out).expect("written");
    let checked = Command::new("bash").arg("-n").arg(&script).stdin(Stdio::null()).status();
    assert!(checked.is_ok_and(|status| status.success()), "bash reads it");
}

#[test]
fn the_manual_knows_every_tool_and_no_date() {
    let house = House::new();
    let page = house.run(&["man"]).out;
    for tool in catalogue::all() {
        assert!(page.contains(&tool.name().replace('_', "\\_")) || page.contains(tool.name()));
    }
    let title = page.lines().find(|line| line.starts_with(".TH")).expect("a title line");
    assert_eq!(title, format!(".TH haft 1  \"haft {}\" ", env!("CARGO_PKG_VERSION")));
}
