//! `haft policy list`, `check` and `revoke`: the active rules and their problems.

use crate::fixture::Fixture;

const RULES: &str = r#"approve = "safe"
allow = ["bash(cargo test *)"]
deny = [
  "read(private/**)",
]
[agents.bot]
approve = "none"
profile = "reviewer"
ask = ["hello"]
[secrets]
paths = ["*.dump"]
except = ["public.pem"]
"#;

#[test]
fn every_rule_is_listed_with_its_layer_and_line() {
    let fixture = Fixture::new()
        .user_config(RULES)
        .project_config("allow = [\"bash(make)\"]\ndeny = [\"web_*\"]\n")
        .admin_config("approve = \"contained\"\nask = [\"git_push\"]\n");
    let listed = fixture.run(&["policy", "list"]).out;
    let (rules, _) = listed.split_once("\nsecret paths").expect("secrets come after rules");
    insta::assert_snapshot!(rules, @"
    mode safe (<root>/home/.config/haft/config.toml)

    admin rules (<root>/admin.toml)
      mode  contained
      ask   git_push  <root>/admin.toml:2

    built-in rules
      ask   write(.haft/**)  built-in
      ask   write(**/.git/**)  built-in

    user rules (<root>/home/.config/haft/config.toml)
      mode  safe
      allow bash(cargo test *)  <root>/home/.config/haft/config.toml:2
      deny  read(private/**)  <root>/home/.config/haft/config.toml:4
      agent bot, mode none, profile reviewer
        ask   hello  <root>/home/.config/haft/config.toml:9

    project rules (<root>/project/.haft/config.toml)
      allow bash(make)  <root>/project/.haft/config.toml:1, inactive: a project may only narrow until you trust it
      deny  web_*  <root>/project/.haft/config.toml:2

    saved rules
      none
    ");
    assert!(listed.contains("  *.dump (<root>/home/.config/haft/config.toml:11)\n"), "{listed}");
    assert!(listed.contains("public.pem (excepted"), "{listed}");
    assert!(listed.contains("\n  reviewer: read list "), "{listed}");
    let for_bot = fixture.run(&["policy", "list", "--agent", "bot"]).out;
    assert!(for_bot.starts_with("mode none "), "{for_bot}");
}

#[test]
fn json_lists_the_same() {
    let fixture = Fixture::new().user_config(RULES).project_config("allow = [\"bash(make)\"]\n");
    let told = fixture.run(&["policy", "list", "--json"]).json();
    assert_eq!(told["mode"]["mode"], "safe");
    let layers = told["layers"].as_array().cloned().unwrap_or_default();
    let layer = |name: &str| layers.iter().find(|layer| layer["layer"] == name).expect("a layer");
    assert_eq!(layer("user")["rules"][1]["source"]["line"], 4);
    assert_eq!(layer("user")["agents"][0]["rules"][0]["text"], "hello");
    assert_eq!(layer("project")["rules"][0]["in_force"], false);
    assert_eq!(told["saved"], serde_json::json!([]));
    assert!(told["profiles"]["reviewer"]["tools"].is_array(), "{told}");
}

#[test]
fn what_is_not_saved_cannot_be_revoked() {
    let fixture = Fixture::new();
    let told = fixture.run(&["policy", "revoke", "rule_1"]);
    assert_eq!(told.code, 3, "{told:?}");
    assert!(told.err.contains("unknown saved rule `rule_1`"), "{told:?}");
    assert!(told.err.contains("`haft policy list` shows"), "{told:?}");
    assert_eq!(fixture.run(&["policy", "revoke"]).code, 2);
}

#[test]
fn good_rules_are_clean() {
    let told = Fixture::new().user_config(RULES).run(&["policy", "check"]);
    assert_eq!(
        (told.out.as_str(), told.code),
        ("1 config file checked, no findings", 0),
        "{told:?}"
    );
    let told = Fixture::new().run(&["policy", "check"]);
    assert_eq!((told.out.as_str(), told.code), ("no config file found, no findings", 0));
}

#[test]
fn every_problem_is_reported_with_position_and_next_step() {
    let user = r#"allow = [
  "bash(git *)",
  "bash(rm -rf build)",
  "helo",
]
deny = ["bash(rm *)"]
"#;
    let fixture = Fixture::new().user_config(user).project_config("allow = [\"hello\"]\n");
    insta::assert_snapshot!(fixture.run(&["policy", "check"]).whole(), @"
    <root>/home/.config/haft/config.toml:2: allow `bash(git *)` is very wide: the program does whatever its arguments say
      next: name the sub-command or script, as in `bash(git log *)` or `bash(python3 build.py *)`
    <root>/home/.config/haft/config.toml:3: allow `bash(rm -rf build)` never applies: deny `bash(rm *)` (<root>/home/.config/haft/config.toml:6) takes precedence
      next: remove one of the two
    <root>/home/.config/haft/config.toml:4: allow `helo` matches no tool
      next: did you mean `hello`?
    <root>/project/.haft/config.toml:1: allow `hello` has no effect: a project may only restrict until you trust it
      next: add its folder to `trust` in your own config, or remove the rule
    2 config files checked, 4 findings
    --- stderr

    --- exit 2
    ");
    let told = fixture.run(&["policy", "check", "--json"]);
    assert_eq!(told.code, 2);
    let told = told.json();
    assert_eq!(told["findings"][0]["kind"], "wide");
    assert_eq!(told["findings"][0]["source"]["line"], 2);
    assert_eq!(told["files"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_file_that_does_not_parse_does_not_hide_the_others() {
    let fixture = Fixture::new()
        .user_config("approve = \"safe\"\nalow = [\"read\"]\n")
        .project_config("deny = [\"helo\"]\n")
        .admin_config("deny = [\"bash(\"]\n");
    let told = fixture.run(&["policy", "check"]);
    assert_eq!(told.code, 2, "{told:?}");
    for place in ["config.toml:2:1: unknown key `alow`", "admin.toml:1:9: `bash(` is not a rule"] {
        assert!(told.out.contains(place), "{place}: {told:?}");
    }
    assert!(
        told.out.contains("project/.haft/config.toml:1: deny `helo` matches no tool"),
        "{told:?}"
    );
    assert!(told.out.contains("3 config files checked, 3 findings"), "{told:?}");
}

#[test]
fn a_named_file_is_read_by_itself() {
    let fixture =
        Fixture::new().user_config("allow = [\"helo\"]").project_config("trust = [\"/\"]");
    std::fs::write(fixture.path("project/mine.toml"), "deny = [\"hello\"]").expect("written");
    let told = fixture.run(&["policy", "check", "mine.toml"]);
    assert_eq!(
        (told.out.as_str(), told.code),
        ("1 config file checked, no findings", 0),
        "{told:?}"
    );
    let told = fixture.run(&["policy", "check", "mine.toml", ".haft/config.toml"]);
    assert!(told.out.contains("`trust` is allowed only in your own config"), "{told:?}");
    assert_eq!(told.code, 2);
    let told = fixture.run(&["policy", "check", "gone.toml"]);
    assert!(told.code == 2 && told.out.starts_with("gone.toml: cannot read the file"), "{told:?}");
}
