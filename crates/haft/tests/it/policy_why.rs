//! `haft policy why`: the answer names who, what and why, for people and for programs, and nothing runs.

use crate::house::House;

const RULES: &str = r#"
allow = ["bash(make *)"]
ask = ["bash(git push *)"]
deny = ["read(private/**)"]
"#;

fn house() -> House {
    House::new().user_config(RULES)
}

#[test]
fn a_call_is_taken_apart_and_nothing_runs() {
    let house = house();
    let line = "make all; git push origin main; cat private/key; touch made";
    insta::assert_snapshot!(house.run(&["policy", "why", "bash", line]).whole(), @r#"
    deny  bash {"command":"make all; git push origin main; cat private/key; touch made"}
      for      you, mode `contained` (built-in)
      because  rule deny `read(private/**)` (<house>/home/.config/haft/config.toml:4)
      change   remove or narrow `read(private/**)` in `deny` (<house>/home/.config/haft/config.toml:4)

    what it would touch
      allow run make all  rule allow `bash(make *)` (<house>/home/.config/haft/config.toml:2)
      ask   run git push origin main  rule ask `bash(git push *)` (<house>/home/.config/haft/config.toml:3)
      allow run cat private/key  mode `contained`
      allow run touch made  mode `contained`
      deny  read private/key  rule deny `read(private/**)` (<house>/home/.config/haft/config.toml:4)
      allow write made  mode `contained`
      allow use write_files  mode `contained`
    --- stderr

    --- exit 0
    "#);
    assert!(!house.path("project/made").exists(), "nothing ran");
}

#[test]
fn a_question_comes_with_what_a_yes_may_remember() {
    let house = House::new();
    let told = house.run(&["policy", "why", "web-fetch", "https://docs.rs/serde"]);
    insta::assert_snapshot!(told.whole(), @r#"
    ask   web_fetch {"url":"https://docs.rs/serde"}
      for      you, mode `contained` (built-in)
      because  mode `contained`: fetch https://docs.rs/serde
      change   add `allow = ["web_fetch(docs.rs)"]` to <house>/home/.config/haft/config.toml, or use `--approve all`

    what it would touch
      ask   fetch https://docs.rs/serde  mode `contained`

    what a yes may remember, each line enough on its own
      web_fetch(docs.rs)
    --- stderr

    --- exit 0
    "#);
    let told = house.run(&["policy", "why", "bash", "x=make; $x"]);
    assert!(told.out.contains("\n  bash(x=make; $x)"), "the whole text or nothing: {told:?}");
    let told = house.run(&["policy", "why", "bash", "rm -rf $X"]);
    assert!(told.out.contains("nothing to remember: a part of this call"), "{told:?}");
}

#[test]
fn where_a_written_rule_asks_nothing_is_offered() {
    let told = house().run(&["policy", "why", "bash", "git push origin main"]);
    assert!(told.out.starts_with("ask   bash"), "{told:?}");
    assert!(
        told.out.contains(
            "because  rule ask `bash(git push *)` (<house>/home/.config/haft/config.toml:3)"
        ),
        "{told:?}"
    );
    assert!(told.out.contains("nothing to remember: a written rule asks"), "{told:?}");
}

#[test]
fn the_answer_is_given_in_the_name_of_who_would_call() {
    let config = "approve = \"all\"\n[agents.bot]\napprove = \"safe\"\nprofile = \"reviewer\"\n";
    let house = House::new().user_config(config);
    let line = ["policy", "why", "write", "a", "x"];
    let told = house.run(&line);
    assert!(
        told.out.contains("for      you, mode `all` (<house>/home/.config/haft/config.toml)"),
        "{told:?}"
    );
    let told = house.run(&[&line[..], &["--agent", "bot"]].concat());
    assert!(told.out.starts_with("deny  write"), "{told:?}");
    assert!(
        told.out.contains(
            "agent bot, mode `safe` (<house>/home/.config/haft/config.toml, which lowers `all`)"
        ),
        "{told:?}"
    );
    assert!(told.out.contains("not in profile `reviewer`"), "{told:?}");
    let told = house.run(&[&line[..], &["--approve", "none"]].concat());
    assert!(told.out.contains("you, mode `none` (the command line)"), "{told:?}");
}

#[test]
fn every_way_to_write_a_call_is_understood_alike() {
    let house = house();
    let call = r#"{"command": "git push", "workdir": "."}"#;
    let told = |arguments: &[&str]| {
        let told = house.run(arguments).json();
        (told["input"].clone(), told["decision"]["action"].clone())
    };
    let expected = told(&["policy", "why", "bash", "git push", "--workdir", ".", "--json"]);
    assert_eq!(expected.0["command"], "git push");
    assert_eq!(expected.1, "ask");
    assert_eq!(told(&["policy", "why", "bash", call, "--json"]), expected);
    assert_eq!(
        told(&["--json", "policy", "why", "bash", call, "--approve", "contained"]),
        expected
    );
    assert_eq!(told(&["policy", "why", "call", "bash", call, "--json"]), expected);
    let piped = |arguments: &[&str]| {
        let told = house.run_with_stdin(arguments, call.as_bytes()).json();
        (told["input"].clone(), told["decision"]["action"].clone())
    };
    assert_eq!(piped(&["policy", "why", "bash", "-", "--json"]), expected);
    assert_eq!(piped(&["policy", "why", "call", "bash", "--json"]), expected);
    // What only looks like JSON is the text that it would be.
    let (input, _) = told(&["policy", "why", "hello", r#"{"nam": 1}"#, "--json"]);
    assert_eq!(input["name"], r#"{"nam": 1}"#);
    let (input, _) = told(&["policy", "why", "web-fetch", r#"{"url": "https://a.b"}"#, "--json"]);
    assert_eq!(input["url"], "https://a.b");
}

#[test]
fn programs_get_each_access_with_its_verdict() {
    let told = house().run(&["policy", "why", "bash", "cat private/a", "--json"]).json();
    assert_eq!(told["decision"]["action"], "deny");
    assert_eq!(told["mode"]["mode"], "contained");
    let verdicts = told["verdicts"].as_array().cloned().unwrap_or_default();
    let read = verdicts.iter().find(|it| it["access"]["read"] == "private/a").expect("it is read");
    assert_eq!(read["action"], "deny");
    assert_eq!(read["reason"]["rule"]["text"], "read(private/**)");
    assert_eq!(read["reason"]["rule"]["source"]["line"], 4);
}

#[test]
fn what_is_no_call_is_told_as_such() {
    let house = house();
    let told = house.run(&["policy", "why", "bsh", "ls"]);
    assert_eq!(told.code, 3, "{told:?}");
    assert!(told.err.contains("did you mean `bash`"), "{told:?}");
    assert_eq!(house.run(&["policy", "why", "bash"]).code, 2);
    assert_eq!(house.run(&["policy", "why"]).code, 2);
    assert_eq!(house.run(&["policy", "what"]).code, 2);
    let told = house.run(&["policy", "why", "read", "../outside"]);
    assert_eq!(told.code, 5, "it ends before policy: {told:?}");
    let help = house.run(&["policy", "why", "bash", "--help"]);
    assert!(help.code == 0 && help.out.contains("--workdir"), "{help:?}");
}
