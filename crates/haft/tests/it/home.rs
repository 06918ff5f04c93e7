//! Access of sandboxed commands to the home directory: the folders that tools need, and those that
//! the user adds.

use std::fs;

use crate::fixture::{Fixture, Ran};

const BACKENDS: &[&str] = &["bubblewrap", "landlock"];
const TEXT: &str = "text-of-another-project";

fn fixture(backend: &str, more: &str) -> Fixture {
    let fixture =
        Fixture::new().user_config(&format!("[sandbox]\nbackend = \"{backend}\"\n{more}\n"));
    for folder in ["home/other", "home/.cache/tool"] {
        fs::create_dir_all(fixture.path(folder)).expect("made");
    }
    for (file, text) in [("home/other/f", TEXT), ("home/.cache/tool/f", "text-of-a-cache")] {
        fs::write(fixture.path(file), text).expect("written");
    }
    fixture
}

fn bash(fixture: &Fixture, command: &str) -> Ran {
    let input = serde_json::json!({ "command": command }).to_string();
    fixture.run(&["call", "bash", &input, "--approve", "all", "--json"])
}

#[test]
fn other_projects_in_the_home_are_not_shown_and_caches_are() {
    for backend in BACKENDS {
        let fixture = fixture(backend, "");
        let ran = bash(&fixture, "d=~/other; cat $d/f; grep -r . ~/; cat ~/.cache/tool/f");
        assert!(!ran.out.contains(TEXT), "{backend}: {ran:?}");
        assert!(ran.out.contains("text-of-a-cache"), "{backend}: {ran:?}");
    }
}

#[test]
fn a_person_shows_a_folder_to_read_to_write_or_the_whole_home() {
    for backend in BACKENDS {
        for more in ["read = [\"~/other\"]", "write = [\"~/other\"]", "home = \"all\""] {
            let fixture = fixture(backend, more);
            let ran = bash(&fixture, "d=~/other; cat $d/f; echo x > $d/new");
            assert!(ran.out.contains(TEXT), "{backend} {more}: {ran:?}");
            let is_written = fixture.path("home/other/new").exists();
            assert_eq!(is_written, more.starts_with("write"), "{backend} {more}");
        }
    }
}

#[test]
fn a_wrong_word_is_told_with_its_line_and_a_project_shows_nothing() {
    let ran = bash(&fixture("landlock", "home = \"most\""), "true");
    assert!(ran.whole().contains("config.toml:3"), "{ran:?}");
    assert!(ran.whole().contains("expected one of tools, all, found `most`"), "{ran:?}");
    let ran = bash(&fixture("landlock", "read = [\"other\"]"), "true");
    assert!(ran.whole().contains("`sandbox.read`: expected an absolute path"), "{ran:?}");
    let fixture = fixture("landlock", "").project_config("[sandbox]\nhome = \"all\"\n");
    let ran = bash(&fixture, "cat ~/other/f");
    assert!(!ran.out.contains(TEXT), "{ran:?}");
}

/// Returns a fixture with a folder of documents, parts of which are denied.
fn closed_fixture(backend: &str, more: &str, rules: &str) -> Fixture {
    let fixture = Fixture::new()
        .user_config(&format!("{rules}\n[sandbox]\nbackend = \"{backend}\"\n{more}\n"));
    for (file, text) in [
        ("docs/open", "text-in-the-open"),
        ("docs/private/deep/f", TEXT),
        ("docs/.env", TEXT),
        ("docs/a/b/id_rsa", TEXT),
        ("docs/a/notes.txt", TEXT),
        (".cache/tool/secret.txt", TEXT),
        (".cache/tool/plain.txt", "text-of-a-cache"),
        (".local/share/tool/f", TEXT),
    ] {
        let path = fixture.path("home").join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }
    fixture
}

const RULES: &str = "deny = [\"read(~/docs/private/**)\", \"read(~/docs/a/*.txt)\", \"read(~/.cache/tool/secret*)\", \
                     \"read(~/.local/share/tool)\", \"read(~/.local/share/tool/**)\", \"read(/etc/hostname)\"]";

#[test]
fn what_is_closed_is_hidden_in_every_folder_that_is_shown() {
    let name = fs::read_to_string("/etc/hostname").expect("there");
    for backend in BACKENDS {
        for more in ["read = [\"~/docs\"]", "write = [\"~/docs\"]", "home = \"all\""] {
            let fixture = closed_fixture(backend, more, RULES);
            let script = "d=~; grep -rs text- $d/; cat $d/docs/.en[v] $d/docs/a/b/* $d/docs/pri*/deep/f; \
                          cat $d/docs/a/*.t?t; e=/etc; cat $e/hostname; true";
            let ran = bash(&fixture, script);
            assert!(ran.out.contains("text-in-the-open"), "{backend} {more}: {ran:?}");
            assert!(ran.out.contains("text-of-a-cache"), "{backend} {more}: {ran:?}");
            assert!(!ran.out.contains(TEXT), "{backend} {more}: {ran:?}");
            assert!(!ran.out.contains(name.trim()), "{backend} {more}: {ran:?}");
        }
    }
}

#[test]
fn what_cannot_be_hidden_refuses_the_command() {
    let fixture = closed_fixture("landlock", "read = [\"~/docs\"]", "");
    for number in 0..300 {
        fs::create_dir(fixture.path(&format!("home/docs/{number}"))).expect("made");
        fs::write(fixture.path(&format!("home/docs/{number}/.env")), TEXT).expect("written");
    }
    let ran = bash(&fixture, "echo ran");
    assert!(ran.whole().contains("more than the 256 that a sandbox covers"), "{ran:?}");
    assert!(ran.whole().contains("show fewer folders"), "{ran:?}");
    assert!(!ran.out.contains("\"ran\""), "{ran:?}");
}

#[test]
fn no_command_chooses_by_a_link_what_the_next_one_sees() {
    for backend in BACKENDS {
        let more =
            "write = [\"~/data\"]\nread = [\"~/data/sub\", \"~/project/shown\", \"~/cached\"]";
        let fixture = fixture(backend, more);
        for folder in ["home/data/sub", "project/shown", "project/bin", "project/cache"] {
            fs::create_dir_all(fixture.path(folder)).expect("made");
        }
        for (link, to) in [("home/project", "project"), ("home/cached", "project/cache")] {
            std::os::unix::fs::symlink(fixture.path(to), fixture.path(link)).expect("linked");
        }
        fs::create_dir_all(fixture.path("home/.npm")).expect("made");
        fs::remove_dir(fixture.path("home/.npm")).expect("removed");
        std::os::unix::fs::symlink(fixture.path("project/cache"), fixture.path("home/.npm"))
            .expect("linked");
        let run = |command: &str| {
            let input = serde_json::json!({ "command": command }).to_string();
            let mut haft = fixture.haft(&["call", "bash", &input, "--approve", "all", "--json"]);
            let path = std::env::join_paths([
                fixture.path("project/bin"),
                "/usr/bin".into(),
                "/bin".into(),
            ]);
            let output = haft.env("PATH", path.expect("a list")).output().expect("haft runs");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let said = run(
            "for d in ~/data/sub shown bin cache; do rm -rf $d; ln -s ~/other $d; done; ls -l . ~/data",
        );
        assert!(said.contains("cache ->"), "{backend}: {said}");
        let said =
            run("o=~/other; cat $o/f shown/f cache/f ~/data/sub/f ~/.npm/f ~/cached/f; echo end");
        assert!(said.contains("end") && !said.contains(TEXT), "{backend}: {said}");
    }
}

/// Each mechanism works by itself; only a command with this environment shows that none can run.
#[test]
fn doctor_tries_a_command_with_the_environment_that_commands_have() {
    let fixture = fixture("auto", "");
    let whole = fixture.run(&["doctor"]);
    assert!(whole.out.contains("a command runs in this workspace with your PATH"), "{whole:?}");
    let run = |arguments: &[&str]| {
        let output = fixture.haft(arguments).env("PATH", "/nowhere").output().expect("haft runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text)
    };
    let (code, text) = run(&["doctor"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("no command runs here: there is neither `bash` nor `sh`"), "{text}");
    assert!(text.contains("next: install one"), "{text}");
    let (code, text) = run(&["doctor", "--json"]);
    let verdicts: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let is_told = |verdict: &serde_json::Value| {
        verdict["mechanism"] == "commands" && verdict["works"] == false
    };
    let verdicts = verdicts["verdicts"].as_array().expect("a list");
    assert!(code == Some(1) && verdicts.iter().any(is_told), "{text}");
}

/// The private `/tmp` of a sandbox hides such a folder; commands start all the same.
#[test]
fn a_folder_of_path_below_the_temporary_folder_breaks_no_command() {
    let folder = tempfile::Builder::new().tempdir_in("/tmp").expect("a folder");
    for backend in ["auto", "landlock", "bubblewrap"] {
        let fixture = fixture(backend, "");
        let path = format!("{}:/tmp:/tmp/gone:/usr/bin:/bin", folder.path().display());
        let run = |arguments: &[&str]| {
            let mut command = fixture.haft(arguments);
            command.env("PATH", &path).output().expect("haft runs")
        };
        let (doctor, bash) = (run(&["doctor"]), run(&["bash", "echo well"]));
        // What this machine does not have runs nothing, and doctor says so too.
        assert_eq!(
            doctor.status.success(),
            bash.status.success(),
            "{backend}: {doctor:?} {bash:?}"
        );
        let out = String::from_utf8_lossy(&bash.stdout);
        assert!(!bash.status.success() || out.contains("well"), "{backend}: {bash:?}");
    }
}

#[test]
fn doctor_names_what_is_shown_and_how_to_show_more() {
    let ran = fixture("auto", "read = [\"~/other\"]").run(&["doctor"]);
    assert!(ran.out.contains("~/.cache") && ran.out.contains("~/other"), "{ran:?}");
    assert!(
        ran.out.contains("`read = [\"~/folder\"]`") && ran.out.contains("[sandbox]"),
        "{ran:?}"
    );
    let ran = fixture("auto", "write = [\"~/other\"]").run(&["doctor", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    let shown = told["shown"].as_array().expect("a list");
    let is_writable = |one: &&serde_json::Value| one["writable"] == true;
    let writable: Vec<_> = shown.iter().filter(is_writable).map(|one| &one["path"]).collect();
    assert!(
        writable.len() == 1 && writable[0].as_str().is_some_and(|it| it.ends_with("/other")),
        "{told}"
    );
}

#[test]
fn a_command_that_fails_at_a_hidden_folder_is_told_how_to_show_it() {
    for backend in BACKENDS {
        let fixture = fixture(backend, "");
        let whole = format!("cat {}", fixture.path("home/other/f").display());
        for command in [whole.as_str(), "cat ~/other/f", "echo x > ~/other/new"] {
            let input = serde_json::json!({ "command": command }).to_string();
            let ran = fixture.run(&["call", "bash", &input, "--approve", "all"]);
            assert!(ran.whole().contains("[sandbox] read"), "{backend} {command}: {ran:?}");
        }
    }
}

/// Tests the installed tools in the real home of the user who runs the tests.
#[test]
fn toolchains_of_the_home_work() {
    let home = std::env::home_dir().expect("a home");
    for backend in BACKENDS {
        let fixture = fixture(backend, "");
        let crate_file = "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
        fs::create_dir_all(fixture.path("project/src")).expect("made");
        fs::write(fixture.path("project/Cargo.toml"), crate_file).expect("written");
        fs::write(fixture.path("project/src/main.rs"), "fn main() { println!(\"built\"); }")
            .expect("written");
        fs::write(
            fixture.path("project/package.json"),
            "{\"scripts\": {\"hi\": \"echo ran-npm\"}}",
        )
        .expect("written");
        let run = |command: &str| {
            let input =
                serde_json::json!({ "command": command, "timeout_ms": 300_000 }).to_string();
            let arguments = ["call", "bash", &input, "--approve", "all", "--json"];
            let mut haft = fixture.haft(&arguments);
            haft.env("HOME", &home);
            let output = haft.output().expect("haft runs");
            String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr)
        };
        let said = run("cargo build --offline --quiet && target/debug/tiny");
        assert!(said.contains("built"), "{backend}: {said}");
        for (tool, command, expected) in [
            (
                "python3",
                "python3 -c 'import json, ssl; print(\"ran-\" + \"python\")'",
                "ran-python",
            ),
            ("pip3", "pip3 --version", "pip "),
            ("npm", "npm run --silent hi", "ran-npm"),
            ("go", "go version && go env GOROOT", "go version"),
        ] {
            if run(&format!("command -v {tool} > /dev/null && echo is-$((1))-there"))
                .contains("is-1-there")
            {
                let said = run(command);
                assert!(said.contains(expected), "{backend} {tool}: {said}");
            }
        }
    }
}
