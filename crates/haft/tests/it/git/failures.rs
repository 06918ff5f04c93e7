//! Failures: each of the right kind, and nothing changed.

use super::*;

/// A call of every tool that needs a repository.
fn every_call() -> [(&'static str, Value); 10] {
    [
        ("git_status", json!({})),
        ("git_diff", json!({})),
        ("git_log", json!({})),
        ("git_show", json!({})),
        ("git_blame", json!({"path": "a.txt"})),
        ("git_commit", json!({"message": "m", "all": true})),
        ("git_branch", json!({})),
        ("git_branch", json!({"action": "create", "name": "x"})),
        ("git_worktree", json!({})),
        ("git_push", json!({})),
    ]
}

#[test]
fn where_there_is_no_repository_every_tool_says_so() {
    let desk = Desk::bare();
    desk.put("a.txt", "a");
    desk.put("b.txt", "b");
    for (tool, input) in every_call() {
        let error = desk.refused(tool, input, ErrorKind::NotFound);
        assert!(error.message.contains("ot a git repository"), "{tool}: {}", error.message);
    }
    // Outside a repository git would compare the two files.
    desk.refused("git_diff", json!({"paths": ["a.txt", "b.txt"]}), ErrorKind::NotFound);
}

#[test]
fn where_git_is_missing_every_tool_says_so() {
    let desk = Desk::below("", without_git, &[]);
    for (tool, input) in every_call() {
        let error = desk.refused(tool, input, ErrorKind::Unavailable);
        assert!(error.message.starts_with("git is not installed"), "{tool}: {}", error.message);
    }
}

#[test]
fn directories_that_are_not_there_are_named() {
    let desk = Desk::new();
    for (directory, kind) in [
        ("missing", ErrorKind::NotFound),
        ("a.txt", ErrorKind::Input),
        ("..", ErrorKind::Denied),
        ("/", ErrorKind::Denied),
    ] {
        let error = desk.refused("git_status", json!({"directory": directory}), kind);
        assert!(error.message.contains(directory), "{}", error.message);
    }
    std::os::unix::fs::symlink("/", desk.path("out")).expect("a link");
    desk.refused("git_status", json!({"directory": "out"}), ErrorKind::Denied);
}

#[test]
fn unknown_revisions_and_paths_are_not_found() {
    let desk = Desk::new();
    for (tool, input) in [
        ("git_diff", json!({"from": "missing"})),
        ("git_diff", json!({"from": "HEAD", "to": "missing"})),
        ("git_diff", json!({"from": "a.txt"})),
        ("git_log", json!({"revision": "missing..HEAD"})),
        ("git_log", json!({"revision": "a.txt"})),
        ("git_show", json!({"revision": "missing"})),
        ("git_show", json!({"revision": "0123456789012345678901234567890123456789"})),
        ("git_show", json!({"revision": "missing", "file": "a.txt"})),
        ("git_blame", json!({"path": "a.txt", "revision": "missing"})),
        ("git_commit", json!({"message": "m", "paths": ["missing"]})),
    ] {
        let error = desk.refused(tool, input, ErrorKind::NotFound);
        assert!(error.message.starts_with("`git "), "{tool}: {}", error.message);
    }
}

#[test]
fn a_lock_that_is_held_is_named() {
    let desk = Desk::new();
    desk.put("a.txt", "x");
    desk.put(".git/index.lock", "");
    for input in [json!({"message": "m", "all": true}), json!({"message": "m"})] {
        let error = desk.refused("git_commit", input, ErrorKind::Unavailable);
        assert!(error.message.contains(".git/index.lock"), "{}", error.message);
    }
    assert!(desk.has(".git/index.lock"));
    // Looking needs no lock.
    desk.text("git_status", json!({}));
    desk.text("git_diff", json!({}));
}

#[test]
fn a_branch_that_is_renamed_without_its_settings_is_told() {
    let desk = Desk::new();
    desk.git(&["branch", "old"]);
    // What the sandbox does as well: git's configuration is closed to commands.
    desk.put(".git/config.lock", "");
    let input = json!({"action": "rename", "name": "old", "new_name": "new"});
    desk.refused("git_branch", input, ErrorKind::Partial);
    assert_eq!(desk.git(&["branch", "--list", "new", "old", "--format=%(refname:short)"]), "new");
}

#[test]
fn a_commit_of_nobody_is_refused() {
    let desk = Desk::new();
    desk.git(&["config", "--remove-section", "user"]);
    desk.git(&["config", "user.useConfigOnly", "true"]);
    desk.put("a.txt", "x");
    desk.refused("git_commit", json!({"message": "m", "all": true}), ErrorKind::Unavailable);
}

#[test]
fn ignored_files_are_not_committed_by_name() {
    let desk = Desk::new();
    desk.put(".gitignore", "secret\n");
    desk.put("secret", "x");
    let error = desk.refused(
        "git_commit",
        json!({"message": "m", "paths": ["secret"]}),
        ErrorKind::Conflict,
    );
    assert!(error.message.contains("secret"), "{}", error.message);
}

#[test]
fn a_repository_without_files_says_what_it_lacks() {
    let desk = Desk::bare();
    desk.git(&["init", "--quiet", "--bare"]);
    desk.refused("git_status", json!({}), ErrorKind::Unsupported);
    // Its settings are not taken, since a folder of any project may look like one.
    for tool in ["git_log", "git_worktree"] {
        desk.refused(tool, json!({}), ErrorKind::Unsupported);
    }
}

#[test]
fn what_is_no_file_at_a_revision_is_not_shown_as_one() {
    let desk = Desk::new();
    desk.put("folder/x", "x");
    desk.commit("second");
    desk.refused("git_show", json!({"file": "folder"}), ErrorKind::Unsupported);
}

#[test]
fn what_is_not_here_is_not_fetched_on_the_way() {
    let desk = Desk::new().with_remote();
    desk.git(&["push", "--quiet", "origin", "main"]);
    let remote = desk.folder.path().join("remote.git").display().to_string();
    desk.git(&["--git-dir", &remote, "config", "uploadpack.allowFilter", "true"]);
    let address = format!("file://{remote}");
    desk.git(&["clone", "--quiet", "--filter=blob:none", "--no-checkout", &address, "part"]);
    desk.refused("git_show", json!({"directory": "part"}), ErrorKind::Unavailable);
    desk.text("git_log", json!({"directory": "part"}));
}

#[test]
fn empty_and_contradictory_inputs_are_refused() {
    let desk = Desk::new();
    for (tool, input) in [
        ("git_commit", json!({"message": " \n\t"})),
        ("git_commit", json!({"message": ""})),
        ("git_commit", json!({"message": "m", "all": true, "paths": ["a.txt"]})),
        ("git_diff", json!({"to": "HEAD"})),
        ("git_diff", json!({"from": "HEAD", "to": "HEAD", "staged": true})),
        ("git_log", json!({"limit": 201})),
        ("git_show", json!({"revision": "a..b"})),
    ] {
        desk.refused(tool, input, ErrorKind::Input);
    }
}

#[test]
fn a_hook_that_never_ends_is_ended_by_the_deadline() {
    let desk = Desk::new();
    desk.hook("pre-commit", "exec sleep 600");
    desk.put("a.txt", "x");
    let input = json!({"message": "m", "all": true});
    let outcome = desk.call_for("git_commit", input, Some(Duration::from_millis(500)));
    assert_eq!(outcome.error.map(|error| error.kind), Some(ErrorKind::Timeout));
    assert_eq!(desk.git(&["rev-list", "--count", "HEAD"]), "1");
}

#[test]
fn rules_about_commands_and_files_bind_these_tools() {
    let rules = [(Action::Deny, "bash(git push *)"), (Action::Deny, "read(private/**)")];
    let desk = Desk::below("", with_git, &rules);
    desk.init("");
    desk.put("private/key", "x");
    desk.commit("first");
    desk.git(&["switch", "--quiet", "--create", "topic"]);
    desk.refused("git_push", json!({}), ErrorKind::Denied);
    desk.refused("git_show", json!({"file": "private/key"}), ErrorKind::Denied);
    desk.refused("git_blame", json!({"path": "private/key"}), ErrorKind::Denied);
    desk.refused("git_diff", json!({"from": "HEAD", "paths": ["private/key"]}), ErrorKind::Denied);
    desk.text("git_status", json!({}));
}
