//! What files say, what is wrong with them, and who may loosen whom.

use haft_core::{
    Access, Effect, Mode,
    policy::{Action, Decision, PolicyQuery},
};

use super::*;

/// A home, a workspace and an admin file in a fresh folder.
struct House {
    root: tempfile::TempDir,
    choices: Choices,
}

impl House {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a temporary folder");
        for folder in ["home/.config/haft", "project/.haft", "project/sub"] {
            std::fs::create_dir_all(root.path().join(folder)).expect("a folder");
        }
        Self { root, choices: Choices::default() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().canonicalize().expect("it exists").join(path)
    }

    fn write(self, path: &str, text: &str) -> Self {
        std::fs::write(self.path(path), text).expect("written");
        self
    }

    fn user(self, text: &str) -> Self {
        self.write("home/.config/haft/config.toml", text)
    }

    fn project(self, text: &str) -> Self {
        self.write("project/.haft/config.toml", text)
    }

    fn admin(self, text: &str) -> Self {
        self.write("admin.toml", text)
    }

    fn load(&self) -> Result<Settings, ToolError> {
        let admin = self.path("admin.toml");
        let environment = Environment {
            directory: Some(self.path("project/sub")),
            home: Some(self.path("home")),
            config_home: Some(self.path("home/.config")),
            admin_config: admin.exists().then_some(admin),
            ..Environment::default()
        };
        Settings::load(&self.choices, &environment)
    }

    fn settings(&self) -> Settings {
        self.load().unwrap_or_else(|error| panic!("{error}"))
    }

    fn decide(&self, tool: &str, access: Access) -> Decision {
        self.settings().policy.decide(&PolicyQuery {
            tool,
            effect: Effect::Read,
            accesses: &[access],
            agents: &[],
            profile: None,
            saved: &[],
        })
    }
}

#[track_caller]
fn check_fault(config: &str, expected: &str) {
    let house = House::new().user(config);
    let error = house.load().err().unwrap_or_else(|| panic!("accepted: {config}"));
    let place = house.path("home/.config/haft/config.toml");
    let told = error.message().replace(&place.display().to_string(), "config.toml");
    assert_eq!(format!("{told} / {}", error.next_step()), expected);
    assert_eq!(error.kind().exit_code(), 2);
}

#[test]
fn faults_are_told_with_their_place() {
    for (config, expected) in [
        ("alow = []", "config.toml:1:1: unknown key `alow` / did you mean `allow`?"),
        (
            "\n[agents.bot]\nmode = \"safe\"",
            "config.toml:3:1: unknown key `agents.bot.mode` / the keys here are profile, approve, allow, ask, deny",
        ),
        (
            "approve = \"contaned\"",
            "config.toml:1:11: `approve`: `contaned` is not a mode; one of none, safe, contained, all \
             / did you mean `contained` or `none`?",
        ),
        (
            "approve = 3",
            "config.toml:1:11: `approve`: expected a string, found the integer `3` / write a string",
        ),
        (
            "allow = \"read\"",
            "config.toml:1:9: `allow`: expected a list of strings, found the string `\"read\"` \
             / write a list of strings",
        ),
        (
            "allow = [\n  \"read\",\n  7,\n]",
            "config.toml:3:3: `allow`: expected a list of strings, found the integer `7` / write a list of strings",
        ),
        (
            "deny = [\"read\", \"write(src\"]",
            "config.toml:1:17: `write(src` is not a rule: the argument must be closed by a `)` at the end, as in \
             `write(src/**)` / a rule looks like `read`, `web_*` or `write(src/**)`",
        ),
        (
            "[limits]\ncontent_lines = -1",
            "config.toml:2:17: `limits.content_lines`: expected a whole number, 0 or more, found the integer `-1` \
             / write a whole number, 0 or more",
        ),
        (
            "profiles.mine = 1",
            "config.toml:1:17: `profiles.mine`: expected a table, found the integer `1` / write a table",
        ),
        (
            "äö = ",
            "config.toml:1:1: invalid unquoted key, expected letters, numbers, `-`, `_` / mend the TOML",
        ),
        ("allow = [\"read\"", "config.toml:1:16: unclosed array, expected `]` / mend the TOML"),
    ] {
        check_fault(config, expected);
    }
}

#[test]
fn a_project_file_may_not_say_what_only_a_person_may() {
    for (config, told) in [
        ("trust = [\"/\"]", ":1:1: `trust` counts only in your own config"),
        (
            "[secrets]\nexcept = [\".env\"]",
            ":2:1: `secrets.except` counts only in your own or an admin's config",
        ),
        (
            "[profiles.reviewer]\ntools = [\"*\"]",
            ":1: a project may not redefine the profile `reviewer` (built-in)",
        ),
    ] {
        let error = House::new().project(config).load().err().expect("refused");
        assert!(error.message().contains(told), "{error}");
    }
}

#[test]
fn rules_keep_their_file_line_and_words() {
    let house = House::new().user("approve = \"all\"\ndeny = [\n  \"read(~/notes/**)\",\n]\n");
    let decision = house.decide("read", Access::Read(house.path("home/notes/a")));
    assert_eq!(decision.action, Action::Deny);
    let place = house.path("home/.config/haft/config.toml");
    let expected = format!("rule deny `read(~/notes/**)` ({}:3)", place.display());
    assert_eq!(decision.reason.to_string(), expected);
}

#[test]
fn the_workspace_is_the_nearest_project() {
    let house = House::new();
    assert_eq!(house.settings().workspace, house.path("project"));
    assert_eq!(house.settings().directory, house.path("project/sub"));
}

#[test]
fn a_project_may_narrow_but_not_widen_until_it_is_trusted() {
    let outside = || Access::Read("/etc/hosts".into());
    let house = House::new()
        .project("approve = \"safe\"\nallow = [\"read(/etc/hosts)\"]\ndeny = [\"read(x)\"]");
    assert_eq!(house.settings().policy.mode_for(None), Mode::Safe);
    assert_eq!(house.decide("read", outside()).action, Action::Ask);
    assert_eq!(house.decide("read", Access::Read("x".into())).action, Action::Deny);
    let folder = house.path("project");
    let house = house.user(&format!("trust = [\"{}\"]", folder.display()));
    assert_eq!(house.decide("read", outside()).action, Action::Allow);
}

#[test]
fn an_admin_holds_against_everybody() {
    let house = House::new()
        .admin("approve = \"safe\"\nprofile = \"reviewer\"\ndeny = [\"hello\"]\n[secrets]\npaths = [\"vault\"]\n[limits]\ncontent_lines = 10")
        .user("approve = \"all\"\nallow = [\"*\"]\n[secrets]\nexcept = [\"vault\"]\n[limits]\ncontent_lines = 99");
    let settings = house.settings();
    assert_eq!(settings.policy.mode_for(None), Mode::Safe);
    assert_eq!(settings.limits.content_lines, 10);
    assert_eq!(settings.profile.as_deref(), Some("reviewer"));
    assert_eq!(house.decide("hello", Access::Read("a".into())).action, Action::Deny);
    assert_eq!(house.decide("read", Access::Read("vault".into())).action, Action::Deny);
    let asking = House {
        choices: Choices { profile: Some("developer".into()), ..Choices::default() },
        ..house
    };
    assert!(asking.load().is_err_and(|error| error.kind().exit_code() == 5));
}

#[test]
fn what_cannot_be_read_stops_everything() {
    let house = House::new();
    std::fs::create_dir(house.path("project/.haft/config.toml"))
        .expect("a folder in the file's place");
    let error = house.load().err().expect("refused");
    assert!(error.message().ends_with("config.toml: is not a regular file"), "{error}");
    let choices = Choices { config: Some("/nowhere.toml".into()), ..Choices::default() };
    let error = House { choices, ..House::new() }.load().err().expect("refused");
    assert!(error.message().starts_with("/nowhere.toml: cannot be read"), "{error}");
}

#[test]
fn a_missing_workspace_is_an_error() {
    let choices = Choices { workspace: Some("gone".into()), ..Choices::default() };
    let error = House { choices, ..House::new() }.load().err().expect("refused");
    assert!(error.message().contains("project/sub/gone cannot be used"), "{error}");
}
