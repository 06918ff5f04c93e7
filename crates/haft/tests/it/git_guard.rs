//! The user's git after a sandboxed command: it runs and obeys nothing that the command left
//! behind, and everyday git works inside the sandbox.

use std::{path::Path, process::Command};

use crate::fixture::Fixture;

/// Returns a fixture whose project is a repository with one commit.
fn with_repository() -> Fixture {
    let fixture = Fixture::new();
    std::fs::write(fixture.path("project/a.txt"), "a\n").expect("written");
    for words in [&["init", "-q", "-b", "main"][..], &["add", "a.txt"], &["commit", "-qm", "one"]] {
        git(&fixture, words);
    }
    fixture
}

/// Runs the user's git in the project.
#[track_caller]
fn git(fixture: &Fixture, words: &[&str]) -> String {
    let identity = ["-c", "user.name=A", "-c", "user.email=a@x.example"];
    let ran = Command::new("git")
        .current_dir(fixture.path("project"))
        .env("HOME", fixture.path("home"))
        .args(identity)
        .args(words)
        .output()
        .expect("git runs");
    String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr)
}

/// Runs a sandboxed command that plants something, and then git as the user.
#[track_caller]
fn check_plant(fixture: &Fixture, command: &str, told: &str) {
    check_plant_in(fixture, ".", command, told);
}

/// Does the same from a subfolder.
#[track_caller]
fn check_plant_in(fixture: &Fixture, folder: &str, command: &str, told: &str) {
    let marker = fixture.path("marker");
    let command = command.replace("MARKER", &marker.display().to_string());
    let ran = fixture.run_without_terminal(&["bash", &command, "--json", "--approve", "all"]);
    for words in [&["status"][..], &["diff"], &["log", "-1"], &["submodule", "status"], &["fetch"]]
    {
        git(fixture, &[&["-C", folder], words].concat());
    }
    assert!(!marker.exists(), "{command}: {ran:?}");
    assert!(ran.out.contains(told), "{command}: {ran:?}");
    assert!(told.is_empty() || ran.out.contains(".haft/quarantine/"), "{command}: {ran:?}");
}

#[test]
fn another_common_directory_is_put_aside() {
    let fixture = with_repository();
    let plant = "d=.git; mkdir evil && cp -r $d/* evil/ && printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tfsmonitor = \"touch MARKER; false\"\\n' > evil/config && echo ../evil > $d/commondir";
    check_plant(&fixture, plant, ".git/commondir");
    assert!(!fixture.path("project/.git/commondir").exists());
}

#[test]
fn the_settings_of_a_planted_submodule_are_put_aside() {
    let fixture = with_repository();
    let plant = "git init -q sub && git -C sub -c user.name=a -c user.email=a@x commit -q --allow-empty -m x && \
                 git -C sub config core.fsmonitor 'touch MARKER; false' && \
                 git update-index --add --cacheinfo 160000,$(git -C sub rev-parse HEAD),sub";
    check_plant(&fixture, plant, "sub/.git/config");
}

#[test]
fn repositories_that_a_command_makes_lose_what_they_would_run() {
    let fixture = with_repository();
    let settings =
        "[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = \\\"touch MARKER; false\\\"\\n";
    for (folder, plant, told) in [
        (
            "a/b",
            "git init -q a/b && git -C a/b config core.fsmonitor 'touch MARKER; false'".to_owned(),
            "a/b/.git/config",
        ),
        (
            "bare",
            format!(
                "git init -q --bare bare && printf '{settings}\\tbare = false\\n\\tworktree = ..\\n' > bare/config"
            ),
            "bare/config",
        ),
        (
            "lead",
            format!(
                "mkdir lead && git init -q --bare lead.git && printf '{settings}' > lead.git/config ; d=.git; echo 'gitdir: ../lead.git' > lead/$d"
            ),
            "lead.git/config",
        ),
        (
            "out",
            "d=.git; mkdir out && echo 'gitdir: /nowhere/at/all' > out/$d".to_owned(),
            "out/.git",
        ),
        ("linked", "d=.git; mkdir linked && ln -s ../bare linked/$d".to_owned(), "linked/.git"),
        (
            "common",
            format!(
                "mkdir common other && git init -q --bare other && rm other/HEAD && printf '{settings}' > other/config && \
                 echo 'ref: refs/heads/main' > common/HEAD && echo ../other > common/commondir"
            ),
            "common/commondir",
        ),
    ] {
        check_plant_in(&fixture, folder, &plant, told);
    }
}

#[test]
fn what_a_command_changes_in_a_nested_repository_is_brought_back() {
    let fixture = with_repository();
    git(&fixture, &["init", "-q", "sub"]);
    let config = fixture.path("project/sub/.git/config");
    let before = std::fs::read_to_string(&config).expect("read");
    check_plant_in(
        &fixture,
        "sub",
        "git -C sub config core.fsmonitor 'touch MARKER; false'",
        "the previous version was restored",
    );
    assert_eq!(std::fs::read_to_string(&config).expect("read"), before);
    // A harmless change stays.
    let ran = fixture.run_without_terminal(&[
        "bash",
        "git -C sub config user.name Ada",
        "--json",
        "--approve",
        "all",
    ]);
    assert!(ran.code == 0 && !ran.out.contains("quarantine"), "{ran:?}");
    assert!(std::fs::read_to_string(&config).expect("read").contains("Ada"));
}

#[test]
fn a_repository_where_there_was_none_loses_what_it_would_run() {
    let fixture = Fixture::new();
    let plant = "d=.git; git init -q && git config core.fsmonitor 'touch MARKER; false' && \
                 printf '#!/bin/sh\\ntouch MARKER\\n' > $d/hooks/post-index-change && chmod +x $d/hooks/post-index-change";
    check_plant(&fixture, plant, ".git/config");
    assert!(!fixture.path("project/.git/hooks/post-index-change").exists());
}

#[test]
fn other_ways_to_lead_git_elsewhere_are_put_aside() {
    let fixture = with_repository();
    for (plant, told) in [
        ("d=.git; mkdir -p $d/objects/info && echo /x > $d/objects/info/alternates", "alternates"),
        (
            "d=.git; printf '[core]\\n\\tfsmonitor = touch MARKER\\n' > $d/config.worktree",
            "config.worktree",
        ),
        (
            "d=.git; mkdir -p $d/modules/m && touch $d/modules/m/HEAD && printf '[core]\\n\\tfsmonitor = x\\n' > $d/modules/m/config",
            "modules/m/config",
        ),
        (
            "d=.git; mkdir -p $d/rebase-merge && echo 'exec touch MARKER' > $d/rebase-merge/git-rebase-todo",
            "git-rebase-todo",
        ),
        (
            "d=.git; mkdir -p $d/worktrees/w && echo ../../../evil > $d/worktrees/w/commondir",
            "worktrees/w/commondir",
        ),
        (
            "d=.git; mkdir -p $d/remotes && echo 'URL: ext::touch MARKER' > $d/remotes/origin",
            "remotes/origin",
        ),
    ] {
        check_plant(&fixture, plant, told);
    }
    // The user's settings are unchanged.
    assert!(fixture.path("project/.git/config").exists());
}

#[test]
fn a_persons_own_hooks_and_settings_stay() {
    let fixture = with_repository();
    git(&fixture, &["config", "core.pager", "cat"]);
    std::fs::write(fixture.path("project/.git/hooks/pre-push"), "#!/bin/sh\n").expect("written");
    let ran =
        fixture.run_without_terminal(&["bash", "echo x > b.txt && git status --short", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.out.contains("quarantine"), "{ran:?}");
    assert!(fixture.path("project/.git/hooks/pre-push").exists());
    assert!(git(&fixture, &["config", "core.pager"]).contains("cat"));
}

#[test]
fn everyday_git_works_in_the_sandbox() {
    let fixture = with_repository();
    let identity = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x; set -e; ";
    for command in [
        "echo b > b.txt; git add b.txt; git commit -qm two",
        "git checkout -qb side; echo c > c.txt; git add .; git commit -qm three; git checkout -q main; git merge -q side",
        "git branch -d side",
        "echo d > a.txt; git stash -q; git stash pop -q; git checkout -q a.txt",
        "git checkout -qb r HEAD~1; echo e > e.txt; git add .; git commit -qm four; git rebase -q main; git checkout -q main",
        "git worktree add -q tree r; git -C tree status",
        "git init -q fresh; cd fresh; echo x > x; git add .; git commit -qm x",
        "git clone -q fresh copy; git -C copy log -1",
        "git tag v1; git gc -q || true; git log --oneline",
    ] {
        let text = format!("{identity}{command}");
        let ran = fixture.run_without_terminal(&["bash", &text, "--json", "--approve", "all"]);
        assert_eq!(ran.code, 0, "{command}: {ran:?}");
        assert!(!ran.out.contains("quarantine"), "{command}: {ran:?}");
    }
    for path in ["project/fresh/.git/config", "project/copy/.git/config", "project/tree/.git"] {
        assert!(Path::new(&fixture.path(path)).exists(), "{path}");
    }
}

/// Uses only tools of the smallest image.
const PLANT: &str = "d=.git; mkdir -p sub/$d/objects sub/$d/refs/heads && echo ref: refs/heads/main > sub/$d/HEAD && \
    printf '[core]\\n\\tfsmonitor = \"touch MARKER; false\"\\n' > sub/$d/config";

#[test]
fn landlock_alone_keeps_git_from_obeying_a_command() {
    let fixture = with_repository().user_config("sandbox = \"landlock\"\n");
    check_plant_in(&fixture, "sub", PLANT, "sub/.git/config");
    check_plant(&fixture, "d=.git; echo ../evil > $d/commondir", ".git/commondir");
}

#[test]
fn containers_keep_git_from_obeying_a_command() {
    let Some(engine) = crate::containers::engine() else { return };
    let fixture = with_repository().user_config(&format!(
        "sandbox = \"container\"\n[container]\nengine = \"{engine}\"\nimage = \"haft-test\"\n"
    ));
    check_plant_in(&fixture, "sub", PLANT, "sub/.git/config");
}
