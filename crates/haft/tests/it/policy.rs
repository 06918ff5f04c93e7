//! What config files say, as a caller sees it.

use crate::house::House;

#[test]
fn a_fault_in_a_file_is_told_with_its_place_and_nothing_runs() {
    let house = House::new().user_config("approve = \"safe\"\nalow = [\"read\"]\n");
    insta::assert_snapshot!(house.run(&["hello", "Ada"]).whole(), @"

    --- stderr
    error: <house>/home/.config/haft/config.toml:2:1: unknown key `alow`
      next: did you mean `allow`?
    --- exit 2
    ");
    let told = house.run(&["hello", "Ada", "--json"]).json();
    assert_eq!(told["error"]["kind"], "input");
}

#[test]
fn a_denied_call_names_the_rule_its_line_and_the_way_out() {
    let house = House::new().user_config("approve = \"all\"\ndeny = [\n  \"hell*\",\n]\n");
    insta::assert_snapshot!(house.run(&["hello", "Ada"]).whole(), @"

    --- stderr
    error: `hello` is denied: rule deny `hell*` (<house>/home/.config/haft/config.toml:3)
      next: to change that, remove or narrow `hell*` in `deny` (<house>/home/.config/haft/config.toml:3)
    --- exit 5
    ");
}

#[test]
fn an_admin_beats_everybody() {
    let house = House::new().user_config("allow = [\"*\"]").admin_config("deny = [\"hello\"]");
    let ran = house.run(&["hello", "Ada", "--approve", "all"]);
    assert_eq!(ran.code, 5);
    assert!(ran.err.contains("admin.toml:1"), "{ran:?}");
}

#[test]
fn a_project_grants_nothing_until_it_is_trusted() {
    let house = House::new().project_config("allow = [\"hello\"]");
    let line = ["hello", "Ada", "--approve", "none"];
    let ran = house.run_without_terminal(&line);
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(ran.err.contains("a project may only narrow until you trust it"), "{ran:?}");
    let trusting = format!("trust = [\"{}\"]", house.path("project").display());
    assert_eq!(house.user_config(&trusting).run_without_terminal(&line).code, 0);
}

#[test]
fn a_rule_that_matches_nothing_is_warned_about() {
    let ran = House::new().user_config("deny = [\"helo\"]").run(&["hello", "Ada"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "Hello, Ada!"));
    insta::assert_snapshot!(ran.err, @"warning: <house>/home/.config/haft/config.toml:1: the deny rule `helo` matches no tool; did you mean `hello`?");
}

#[test]
fn profiles_and_agents_narrow() {
    let config = "[profiles.mute]\ntools = [\"*\", \"!hello\"]\n[agents.bot]\nprofile = \"mute\"\n";
    let house = House::new().user_config(config);
    for arguments in [["--profile", "mute"], ["--agent", "bot"]] {
        let ran = house.run(&[arguments[0], arguments[1], "hello", "Ada"]);
        assert_eq!(ran.code, 5, "{ran:?}");
        assert!(ran.err.contains("not in profile `mute`"), "{ran:?}");
        let tools = house.run(&["tools", arguments[0], arguments[1]]);
        assert!(
            !tools.out.contains("\"name\":\"hello\""),
            "what it may not call is not shown: {tools:?}"
        );
    }
    let ran = house.run(&["--profile", "mutt", "hello", "Ada"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("unknown profile `mutt`") && ran.err.contains("did you mean `mute`"),
        "{ran:?}"
    );
}

#[test]
fn another_file_can_stand_in_for_the_persons_own() {
    let house = House::new().user_config("deny = [\"hello\"]").admin_config("");
    let other = house.path("admin.toml").display().to_string();
    assert_eq!(house.run(&["hello", "Ada", "--config", &other]).code, 0);
    assert_eq!(house.run(&["hello", "Ada", "--config", "gone.toml"]).code, 2);
}
