//! `haft policy why`: the output names caller, accesses and reasons, as text and as JSON, and
//! nothing runs.

use crate::fixture::Fixture;

const RULES: &str = r#"
allow = ["bash(make *)"]
ask = ["bash(git push *)"]
deny = ["read(private/**)"]
"#;

fn fixture() -> Fixture {
    Fixture::new().user_config(RULES)
}

#[test]
fn a_call_is_taken_apart_and_nothing_runs() {
    let fixture = fixture();
    let line = "make all; git push origin main; cat private/key; touch made";
    insta::assert_snapshot!(fixture.run(&["policy", "why", "bash", line]).whole(), @r#"
    deny  bash {"command":"make all; git push origin main; cat private/key; touch made"}
      for      you, mode `contained` (built-in)
      because  rule deny `read(private/**)` (<root>/home/.config/haft/config.toml:4)
      change   remove or narrow `read(private/**)` in `deny` (<root>/home/.config/haft/config.toml:4)

    accesses
      allow run make all  rule allow `bash(make *)` (<root>/home/.config/haft/config.toml:2)
      ask   run git push origin main  rule ask `bash(git push *)` (<root>/home/.config/haft/config.toml:3)
      allow run cat private/key  mode `contained`
      allow run touch made  mode `contained`
      deny  read private/key  rule deny `read(private/**)` (<root>/home/.config/haft/config.toml:4)
      allow write made  mode `contained`
      allow use write_files  mode `contained`
    --- stderr

    --- exit 0
    "#);
    assert!(!fixture.path("project/made").exists(), "nothing ran");
}

#[test]
fn a_question_lists_the_rules_that_can_be_saved() {
    let fixture = Fixture::new();
    let told = fixture.run(&["policy", "why", "web-fetch", "https://docs.rs/serde"]);
    insta::assert_snapshot!(told.whole(), @r#"
    ask   web_fetch {"url":"https://docs.rs/serde"}
      for      you, mode `contained` (built-in)
      because  mode `contained`: fetch https://docs.rs/serde
      change   add `allow = ["web_fetch(docs.rs)"]` to <root>/home/.config/haft/config.toml, or use `--approve all`

    accesses
      ask   fetch https://docs.rs/serde  mode `contained`

    rules that an approver could save, each line is sufficient
      web_fetch(docs.rs)
    --- stderr

    --- exit 0
    "#);
    let told = fixture.run(&["policy", "why", "bash", "x=make; $x"]);
    assert!(told.out.contains("\n  bash(x=make; $x)"), "the whole text or nothing: {told:?}");
    let told = fixture.run(&["policy", "why", "bash", "rm -rf $X"]);
    assert!(told.out.contains("no rule can be saved: a part of this call"), "{told:?}");
}

#[test]
fn where_a_written_rule_asks_nothing_is_offered() {
    let told = fixture().run(&["policy", "why", "bash", "git push origin main"]);
    assert!(told.out.starts_with("ask   bash"), "{told:?}");
    assert!(
        told.out.contains(
            "because  rule ask `bash(git push *)` (<root>/home/.config/haft/config.toml:3)"
        ),
        "{told:?}"
    );
    assert!(told.out.contains("no rule can be saved: a rule in a config file asks"), "{told:?}");
}

#[test]
fn the_decision_is_that_for_the_calling_agent() {
    let config = "approve = \"all\"\n[agents.bot]\napprove = \"safe\"\nprofile = \"reviewer\"\n";
    let fixture = Fixture::new().user_config(config);
    let line = ["policy", "why", "write", "a", "x"];
    let told = fixture.run(&line);
    assert!(
        told.out.contains("for      you, mode `all` (<root>/home/.config/haft/config.toml)"),
        "{told:?}"
    );
    let told = fixture.run(&[&line[..], &["--agent", "bot"]].concat());
    assert!(told.out.starts_with("deny  write"), "{told:?}");
    assert!(
        told.out.contains(
            "agent bot, mode `safe` (<root>/home/.config/haft/config.toml, which lowers `all`)"
        ),
        "{told:?}"
    );
    assert!(told.out.contains("not in profile `reviewer`"), "{told:?}");
    let told = fixture.run(&[&line[..], &["--approve", "none"]].concat());
    assert!(told.out.contains("you, mode `none` (the command line)"), "{told:?}");
}

#[test]
fn every_way_to_write_a_call_is_understood_alike() {
    let fixture = fixture();
    let call = r#"{"command": "git push", "workdir": "."}"#;
    let told = |arguments: &[&str]| {
        let told = fixture.run(arguments).json();
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
        let told = fixture.run_with_stdin(arguments, call.as_bytes()).json();
        (told["input"].clone(), told["decision"]["action"].clone())
    };
    assert_eq!(piped(&["policy", "why", "bash", "-", "--json"]), expected);
    assert_eq!(piped(&["policy", "why", "call", "bash", "--json"]), expected);
    // Text that only looks like the input's JSON stays text.
    let (input, _) = told(&["policy", "why", "hello", r#"{"nam": 1}"#, "--json"]);
    assert_eq!(input["name"], r#"{"nam": 1}"#);
    let (input, _) = told(&["policy", "why", "web-fetch", r#"{"url": "https://a.b"}"#, "--json"]);
    assert_eq!(input["url"], "https://a.b");
}

#[test]
fn programs_get_each_access_with_its_verdict() {
    let told = fixture().run(&["policy", "why", "bash", "cat private/a", "--json"]).json();
    assert_eq!(told["decision"]["action"], "deny");
    assert_eq!(told["mode"]["mode"], "contained");
    let verdicts = told["verdicts"].as_array().cloned().unwrap_or_default();
    let read = verdicts.iter().find(|it| it["access"]["read"] == "private/a").expect("it is read");
    assert_eq!(read["action"], "deny");
    assert_eq!(read["reason"]["rule"]["text"], "read(private/**)");
    assert_eq!(read["reason"]["rule"]["source"]["line"], 4);
}

#[test]
fn invalid_calls_are_reported() {
    let fixture = fixture();
    let told = fixture.run(&["policy", "why", "bsh", "ls"]);
    assert_eq!(told.code, 3, "{told:?}");
    assert!(told.err.contains("did you mean `bash`"), "{told:?}");
    assert_eq!(fixture.run(&["policy", "why", "bash"]).code, 2);
    assert_eq!(fixture.run(&["policy", "why"]).code, 2);
    assert_eq!(fixture.run(&["policy", "what"]).code, 2);
    let told = fixture.run(&["policy", "why", "read", "../outside"]);
    assert_eq!(told.code, 5, "it ends before policy: {told:?}");
    let help = fixture.run(&["policy", "why", "bash", "--help"]);
    assert!(help.code == 0 && help.out.contains("--workdir"), "{help:?}");
}
