//! Tests of merging config files, of their errors, and of which file may loosen which.

use haft_core::{
    Access, Effect, Mode,
    policy::{Action, Decision, PolicyQuery},
};

use super::*;

/// A home directory, a workspace and an admin file in a temporary directory.
struct TestConfig {
    root: tempfile::TempDir,
    choices: Choices,
}

impl TestConfig {
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
fn check_error(config: &str, expected: &str) {
    let config_files = TestConfig::new().user(config);
    let error = config_files.load().err().unwrap_or_else(|| panic!("accepted: {config}"));
    let file = config_files.path("home/.config/haft/config.toml");
    let message = error.message().replace(&file.display().to_string(), "config.toml");
    assert_eq!(format!("{message} / {}", error.next_step()), expected);
    assert_eq!(error.kind().exit_code(), 2);
}

#[test]
fn errors_name_their_position() {
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
            "config.toml:1:17: `write(src` is not a rule: the argument must end with `)`, as in \
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
            "config.toml:1:1: invalid unquoted key, expected letters, numbers, `-`, `_` / fix the TOML syntax",
        ),
        (
            "allow = [\"read\"",
            "config.toml:1:16: unclosed array, expected `]` / fix the TOML syntax",
        ),
    ] {
        check_error(config, expected);
    }
}

#[test]
fn a_project_file_may_not_set_what_only_the_user_may() {
    for (config, expected) in [
        ("trust = [\"/\"]", ":1:1: `trust` is allowed only in your own config"),
        (
            "[secrets]\nexcept = [\".env\"]",
            ":2:1: `secrets.except` is allowed only in your own or an admin's config",
        ),
        (
            "[profiles.reviewer]\ntools = [\"*\"]",
            ":1: a project may not redefine the profile `reviewer` (built-in)",
        ),
    ] {
        let error = TestConfig::new().project(config).load().err().expect("refused");
        assert!(error.message().contains(expected), "{error}");
    }
}

#[test]
fn rules_keep_their_file_line_and_text() {
    let config_files =
        TestConfig::new().user("approve = \"all\"\ndeny = [\n  \"read(~/notes/**)\",\n]\n");
    let decision = config_files.decide("read", Access::Read(config_files.path("home/notes/a")));
    assert_eq!(decision.action, Action::Deny);
    let file = config_files.path("home/.config/haft/config.toml");
    let expected = format!("rule deny `read(~/notes/**)` ({}:3)", file.display());
    assert_eq!(decision.reason.to_string(), expected);
}

#[test]
fn the_workspace_is_the_nearest_project() {
    let config_files = TestConfig::new();
    assert_eq!(config_files.settings().workspace, config_files.path("project"));
    assert_eq!(config_files.settings().directory, config_files.path("project/sub"));
}

#[test]
fn a_project_may_narrow_but_not_widen_until_it_is_trusted() {
    let outside = || Access::Read("/etc/hosts".into());
    let config_files = TestConfig::new()
        .project("approve = \"safe\"\nallow = [\"read(/etc/hosts)\"]\ndeny = [\"read(x)\"]");
    assert_eq!(config_files.settings().policy.mode_for(None), Mode::Safe);
    assert_eq!(config_files.decide("read", outside()).action, Action::Ask);
    assert_eq!(config_files.decide("read", Access::Read("x".into())).action, Action::Deny);
    let folder = config_files.path("project");
    let config_files = config_files.user(&format!("trust = [\"{}\"]", folder.display()));
    assert_eq!(config_files.decide("read", outside()).action, Action::Allow);
}

#[test]
fn an_admin_file_takes_precedence_over_all_others() {
    let config_files = TestConfig::new()
        .admin("approve = \"safe\"\nprofile = \"reviewer\"\ndeny = [\"hello\"]\n[secrets]\npaths = [\"vault\"]\n[limits]\ncontent_lines = 10")
        .user("approve = \"all\"\nallow = [\"*\"]\n[secrets]\nexcept = [\"vault\"]\n[limits]\ncontent_lines = 99");
    let settings = config_files.settings();
    assert_eq!(settings.policy.mode_for(None), Mode::Safe);
    assert_eq!(settings.limits.content_lines, 10);
    assert_eq!(settings.profile.as_deref(), Some("reviewer"));
    assert_eq!(config_files.decide("hello", Access::Read("a".into())).action, Action::Deny);
    assert_eq!(config_files.decide("read", Access::Read("vault".into())).action, Action::Deny);
    let asking = TestConfig {
        choices: Choices { profile: Some("developer".into()), ..Choices::default() },
        ..config_files
    };
    assert!(asking.load().is_err_and(|error| error.kind().exit_code() == 5));
}

#[test]
fn an_unreadable_file_stops_everything() {
    let config_files = TestConfig::new();
    std::fs::create_dir(config_files.path("project/.haft/config.toml"))
        .expect("a folder at the file's path");
    let error = config_files.load().err().expect("refused");
    assert!(error.message().ends_with("config.toml: not a regular file"), "{error}");
    let choices = Choices { config: Some("/nowhere.toml".into()), ..Choices::default() };
    let error = TestConfig { choices, ..TestConfig::new() }.load().err().expect("refused");
    assert!(error.message().starts_with("/nowhere.toml: cannot read the file"), "{error}");
}

#[test]
fn a_missing_workspace_is_an_error() {
    let choices = Choices { workspace: Some("gone".into()), ..Choices::default() };
    let error = TestConfig { choices, ..TestConfig::new() }.load().err().expect("refused");
    assert!(error.message().contains("project/sub/gone cannot be opened"), "{error}");
}
