//! Inherited file descriptors are not passed to commands, with or without a sandbox.

use std::{fs, process::Command};

use crate::fixture::Fixture;

const OUTSIDE: &str = "text-of-an-inherited-file";

/// Starts haft from a shell that left a file (9) and its folder (8) open.
fn haft_with_open_files(fixture: &Fixture, arguments: &[&str]) -> Command {
    let inner = fixture.haft(arguments);
    let mut command = Command::new("bash");
    command.args(["-c", "exec 9<\"$0\" 8<\"${0%/*}\"; exec \"$@\""]);
    command.arg(fixture.path("outside/file")).arg(inner.get_program()).args(inner.get_args());
    command.current_dir(inner.get_current_dir().expect("a project"));
    for (name, value) in inner.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        command.env(name, value);
    }
    command
}

#[track_caller]
fn check_nothing_is_inherited(backend: &str) {
    let fixture = Fixture::new().user_config(&format!("sandbox = \"{backend}\"\n"));
    fs::create_dir(fixture.path("outside")).expect("made");
    fs::write(fixture.path("outside/file"), OUTSIDE).expect("written");
    let script = "cat <&9; cat /proc/self/fd/9 /proc/self/fd/8/file /proc/self/fd/8/../outside/file; \
        for n in /proc/$$/fd/*; do echo \"open:${n##*/}\"; done";
    let input = serde_json::json!({ "command": script }).to_string();
    let arguments = ["call", "bash", &input, "--approve", "all", "--json"];
    let output = haft_with_open_files(&fixture, &arguments).output().expect("haft runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("open:0"), "{backend}: {output:?}");
    assert!(!said.contains(OUTSIDE), "{backend}: {said}");
    for number in [8, 9] {
        assert!(!said.contains(&format!("open:{number}\\n")), "{backend}: {said}");
    }
}

#[test]
fn no_inherited_descriptor_reaches_a_command() {
    for backend in ["bubblewrap", "landlock", "off"] {
        check_nothing_is_inherited(backend);
    }
}
