//! Errors: each has the right kind, and nothing is changed.

use super::*;

/// Returns a call of every tool that needs a repository.
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
    let setup = Setup::bare();
    setup.put("a.txt", "a");
    setup.put("b.txt", "b");
    for (tool, input) in every_call() {
        let error = setup.refused(tool, input, ErrorKind::NotFound);
        assert!(error.message.contains("ot a git repository"), "{tool}: {}", error.message);
    }
    // Outside a repository git would compare the two files.
    setup.refused("git_diff", json!({"paths": ["a.txt", "b.txt"]}), ErrorKind::NotFound);
}

#[test]
fn where_git_is_missing_every_tool_says_so() {
    let setup = Setup::below("", without_git, &[]);
    for (tool, input) in every_call() {
        let error = setup.refused(tool, input, ErrorKind::Unavailable);
        assert!(error.message.starts_with("git is not installed"), "{tool}: {}", error.message);
    }
}

#[test]
fn directories_that_are_not_there_are_named() {
    let setup = Setup::new();
    for (directory, kind) in [
        ("missing", ErrorKind::NotFound),
        ("a.txt", ErrorKind::Input),
        ("..", ErrorKind::Denied),
        ("/", ErrorKind::Denied),
    ] {
        let error = setup.refused("git_status", json!({"directory": directory}), kind);
        assert!(error.message.contains(directory), "{}", error.message);
    }
    std::os::unix::fs::symlink("/", setup.path("out")).expect("a link");
    setup.refused("git_status", json!({"directory": "out"}), ErrorKind::Denied);
}

#[test]
fn unknown_revisions_and_paths_are_not_found() {
    let setup = Setup::new();
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
        let error = setup.refused(tool, input, ErrorKind::NotFound);
        assert!(error.message.starts_with("`git "), "{tool}: {}", error.message);
    }
}

#[test]
fn a_lock_that_is_held_is_named() {
    let setup = Setup::new();
    setup.put("a.txt", "x");
    setup.put(".git/index.lock", "");
    for input in [json!({"message": "m", "all": true}), json!({"message": "m"})] {
        let error = setup.refused("git_commit", input, ErrorKind::Unavailable);
        assert!(error.message.contains(".git/index.lock"), "{}", error.message);
    }
    assert!(setup.has(".git/index.lock"));
    // Read-only tools need no lock.
    setup.text("git_status", json!({}));
    setup.text("git_diff", json!({}));
}

#[test]
fn a_branch_that_is_renamed_without_its_settings_is_told() {
    let setup = Setup::new();
    setup.git(&["branch", "old"]);
    // The sandbox also denies commands access to git's configuration.
    setup.put(".git/config.lock", "");
    let input = json!({"action": "rename", "name": "old", "new_name": "new"});
    setup.refused("git_branch", input, ErrorKind::Partial);
    assert_eq!(setup.git(&["branch", "--list", "new", "old", "--format=%(refname:short)"]), "new");
}

#[test]
fn a_commit_of_nobody_is_refused() {
    let setup = Setup::new();
    setup.git(&["config", "--remove-section", "user"]);
    setup.git(&["config", "user.useConfigOnly", "true"]);
    setup.put("a.txt", "x");
    setup.refused("git_commit", json!({"message": "m", "all": true}), ErrorKind::Unavailable);
}

#[test]
fn ignored_files_are_not_committed_by_name() {
    let setup = Setup::new();
    setup.put(".gitignore", "secret\n");
    setup.put("secret", "x");
    let error = setup.refused(
        "git_commit",
        json!({"message": "m", "paths": ["secret"]}),
        ErrorKind::Conflict,
    );
    assert!(error.message.contains("secret"), "{}", error.message);
}

#[test]
fn a_repository_without_files_says_what_it_lacks() {
    let setup = Setup::bare();
    setup.git(&["init", "--quiet", "--bare"]);
    setup.refused("git_status", json!({}), ErrorKind::Unsupported);
    // Its settings are ignored, because a folder of any project may look like a repository.
    for tool in ["git_log", "git_worktree"] {
        setup.refused(tool, json!({}), ErrorKind::Unsupported);
    }
}

#[test]
fn what_is_no_file_at_a_revision_is_not_shown_as_one() {
    let setup = Setup::new();
    setup.put("folder/x", "x");
    setup.commit("second");
    setup.refused("git_show", json!({"file": "folder"}), ErrorKind::Unsupported);
}

#[test]
fn what_is_not_here_is_not_fetched_on_the_way() {
    let setup = Setup::new().with_remote();
    setup.git(&["push", "--quiet", "origin", "main"]);
    let remote = setup.folder.path().join("remote.git").display().to_string();
    setup.git(&["--git-dir", &remote, "config", "uploadpack.allowFilter", "true"]);
    let address = format!("file://{remote}");
    setup.git(&["clone", "--quiet", "--filter=blob:none", "--no-checkout", &address, "part"]);
    setup.refused("git_show", json!({"directory": "part"}), ErrorKind::Unavailable);
    setup.text("git_log", json!({"directory": "part"}));
}

#[test]
fn empty_and_contradictory_inputs_are_refused() {
    let setup = Setup::new();
    for (tool, input) in [
        ("git_commit", json!({"message": " \n\t"})),
        ("git_commit", json!({"message": ""})),
        ("git_commit", json!({"message": "m", "all": true, "paths": ["a.txt"]})),
        ("git_diff", json!({"to": "HEAD"})),
        ("git_diff", json!({"from": "HEAD", "to": "HEAD", "staged": true})),
        ("git_log", json!({"limit": 201})),
        ("git_show", json!({"revision": "a..b"})),
    ] {
        setup.refused(tool, input, ErrorKind::Input);
    }
}

#[test]
fn a_hook_that_never_ends_is_ended_by_the_deadline() {
    let setup = Setup::new();
    setup.hook("pre-commit", "exec sleep 600");
    setup.put("a.txt", "x");
    let input = json!({"message": "m", "all": true});
    let outcome = setup.call_for("git_commit", input, Some(Duration::from_millis(500)));
    assert_eq!(outcome.error.map(|error| error.kind), Some(ErrorKind::Timeout));
    assert_eq!(setup.git(&["rev-list", "--count", "HEAD"]), "1");
}

#[test]
fn rules_about_commands_and_files_bind_these_tools() {
    let rules = [(Action::Deny, "bash(git push *)"), (Action::Deny, "read(private/**)")];
    let setup = Setup::below("", with_git, &rules);
    setup.init("");
    setup.put("private/key", "x");
    setup.commit("first");
    setup.git(&["switch", "--quiet", "--create", "topic"]);
    setup.refused("git_push", json!({}), ErrorKind::Denied);
    setup.refused("git_show", json!({"file": "private/key"}), ErrorKind::Denied);
    setup.refused("git_blame", json!({"path": "private/key"}), ErrorKind::Denied);
    setup.refused("git_diff", json!({"from": "HEAD", "paths": ["private/key"]}), ErrorKind::Denied);
    setup.text("git_status", json!({}));
}
