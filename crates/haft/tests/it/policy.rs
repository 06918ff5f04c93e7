//! Effects of config files on calls.

use crate::fixture::Fixture;

#[test]
fn an_error_in_a_file_names_its_position_and_nothing_runs() {
    let fixture = Fixture::new().user_config("approve = \"safe\"\nalow = [\"read\"]\n");
    insta::assert_snapshot!(fixture.run(&["hello", "Ada"]).whole(), @"

    --- stderr
    error: <root>/home/.config/haft/config.toml:2:1: unknown key `alow`
      next: did you mean `allow`?
    --- exit 2
    ");
    let told = fixture.run(&["hello", "Ada", "--json"]).json();
    assert_eq!(told["error"]["kind"], "input");
}

#[test]
fn a_denied_call_names_the_rule_its_line_and_the_way_out() {
    let fixture = Fixture::new().user_config("approve = \"all\"\ndeny = [\n  \"hell*\",\n]\n");
    insta::assert_snapshot!(fixture.run(&["hello", "Ada"]).whole(), @"

    --- stderr
    error: `hello` is denied: rule deny `hell*` (<root>/home/.config/haft/config.toml:3)
      next: to change that, remove or narrow `hell*` in `deny` (<root>/home/.config/haft/config.toml:3)
    --- exit 5
    ");
}

#[test]
fn an_admin_file_takes_precedence() {
    let fixture = Fixture::new().user_config("allow = [\"*\"]").admin_config("deny = [\"hello\"]");
    let ran = fixture.run(&["hello", "Ada", "--approve", "all"]);
    assert_eq!(ran.code, 5);
    assert!(ran.err.contains("admin.toml:1"), "{ran:?}");
}

#[test]
fn a_project_grants_nothing_until_it_is_trusted() {
    let fixture = Fixture::new().project_config("allow = [\"hello\"]");
    let line = ["hello", "Ada", "--approve", "none"];
    let ran = fixture.run_without_terminal(&line);
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(ran.err.contains("a project may only restrict until you trust it"), "{ran:?}");
    let trusting = format!("trust = [\"{}\"]", fixture.path("project").display());
    assert_eq!(fixture.user_config(&trusting).run_without_terminal(&line).code, 0);
}

#[test]
fn a_rule_that_matches_nothing_is_warned_about() {
    let ran = Fixture::new().user_config("deny = [\"helo\"]").run(&["hello", "Ada"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Hello, Ada!"));
    insta::assert_snapshot!(ran.err, @"warning: <root>/home/.config/haft/config.toml:1: the deny rule `helo` matches no tool; did you mean `hello`?");
}

#[test]
fn profiles_and_agents_narrow() {
    let config = "[profiles.mute]\ntools = [\"*\", \"!hello\"]\n[agents.bot]\nprofile = \"mute\"\n";
    let fixture = Fixture::new().user_config(config);
    for arguments in [["--profile", "mute"], ["--agent", "bot"]] {
        let ran = fixture.run(&[arguments[0], arguments[1], "hello", "Ada"]);
        assert_eq!(ran.code, 5, "{ran:?}");
        assert!(ran.err.contains("not in profile `mute`"), "{ran:?}");
        let tools = fixture.run(&["tools", arguments[0], arguments[1]]);
        assert!(
            !tools.out.contains("\"name\":\"hello\""),
            "what it may not call is not shown: {tools:?}"
        );
    }
    let ran = fixture.run(&["--profile", "mutt", "hello", "Ada"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("unknown profile `mutt`") && ran.err.contains("did you mean `mute`"),
        "{ran:?}"
    );
}

#[test]
fn another_file_can_replace_the_users_own() {
    let fixture = Fixture::new().user_config("deny = [\"hello\"]").admin_config("");
    let other = fixture.path("admin.toml").display().to_string();
    assert_eq!(fixture.run(&["hello", "Ada", "--config", &other]).code, 0);
    assert_eq!(fixture.run(&["hello", "Ada", "--config", "gone.toml"]).code, 2);
}
