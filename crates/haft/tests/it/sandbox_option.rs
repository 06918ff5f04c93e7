//! `--sandbox`: the command line chooses what commands run in, as the user's config does, and an admin file limits it.

use crate::fixture::Fixture;

#[test]
fn the_command_line_chooses_the_backend_over_the_config() {
    let fixture = Fixture::new()
        .user_config("sandbox = \"container\"\n[container]\nengine = \"/no/engine\"\n");
    let refused = fixture.run(&["bash", "echo hello", "--approve", "all"]);
    assert_eq!(refused.code, 10, "{refused:?}");
    let ran = fixture.run(&["bash", "echo hello", "--approve", "all", "--sandbox", "off"]);
    assert_eq!((ran.code, ran.out.lines().next()), (0, Some("hello")), "{ran:?}");
    let ran = fixture.run(&["--sandbox=off", "--approve=all", "bash", "echo hello"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn a_missing_backend_is_unavailable_and_says_what_to_install() {
    let fixture = Fixture::new().user_config("[container]\nengine = \"/no/engine\"\n");
    let refused =
        fixture.run(&["bash", "true", "--approve", "all", "--sandbox", "container", "--json"]);
    let error = refused.json()["error"].clone();
    assert_eq!(error["kind"], "unavailable", "{refused:?}");
    let hint = error["hint"].as_str().unwrap_or_default();
    assert!(hint.contains("install"), "{error}");
}

#[test]
fn an_admin_file_limits_the_choice() {
    let fixture = Fixture::new().admin_config("sandbox = \"required\"");
    let refused = fixture.run(&["bash", "true", "--sandbox", "off", "--json"]);
    let error = refused.json()["error"].clone();
    assert_eq!(error["kind"], "denied", "{refused:?}");
    let message = error["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("sandbox `off` cannot be used: <root>/admin.toml"), "{message}");
    assert_eq!(fixture.run(&["hello", "Ada", "--sandbox", "required"]).code, 0);
}

#[test]
fn an_unknown_backend_is_refused_with_the_known_ones() {
    let fixture = Fixture::new();
    let refused = fixture.run(&["hello", "Ada", "--sandbox", "docker"]);
    assert_eq!(refused.code, 2);
    for backend in ["auto", "off", "landlock", "bubblewrap", "container"] {
        assert!(refused.err.contains(backend), "{backend} in {refused:?}");
    }
    assert!(fixture.run(&["--help"]).out.contains("--sandbox BACKEND"));
    let page = fixture.run(&["reference", "cli"]).out;
    assert!(page.contains("`--sandbox BACKEND`") && page.contains("`bubblewrap`"), "{page}");
}

#[test]
fn a_sandbox_that_worked_is_remembered_under_its_conditions() {
    let fixture = Fixture::new();
    let file = fixture.path("home/.local/state/haft/sandbox-probes");
    let conditions = |text: &str| text.split_once('\n').map(|(_, rest)| rest.to_owned());
    assert_eq!(fixture.run(&["bash", "true"]).code, 0);
    let first = std::fs::read_to_string(&file).expect("written by the first process");
    let mechanisms = first.lines().next().expect("a line");
    assert!(mechanisms.contains("bubblewrap") || mechanisms.contains("landlock"), "{first}");
    // A result that was found under other conditions does not count: it is found again.
    std::fs::write(&file, "landlock,bubblewrap,user namespaces\nanother boot\n").expect("written");
    assert_eq!(fixture.run(&["bash", "true"]).code, 0);
    let again = std::fs::read_to_string(&file).expect("written again");
    assert_eq!(conditions(&again), conditions(&first));
    // `doctor` tries everything, whatever is remembered, and keeps what it found.
    std::fs::write(&file, format!("\n{}", conditions(&first).expect("text"))).expect("written");
    fixture.run(&["doctor"]);
    let tried = std::fs::read_to_string(&file).expect("written by doctor");
    assert!(tried.lines().next().is_some_and(|line| line.contains("seccomp")), "{tried}");
}
