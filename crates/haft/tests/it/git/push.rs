//! Pushing to a local repository next to the workspace.

use super::*;

fn at_remote(setup: &Setup, branch: &str) -> Option<String> {
    let remote = setup.folder.path().join("remote.git").display().to_string();
    let output =
        setup.try_git("", &["--git-dir", &remote, "rev-parse", "--verify", "--quiet", branch]);
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

fn on_topic() -> Setup {
    let setup = Setup::new().with_remote();
    setup.git(&["switch", "--quiet", "--create", "topic"]);
    setup
}

#[test]
fn a_branch_is_created_updated_and_up_to_date() {
    let setup = on_topic();
    assert_eq!(setup.text("git_push", json!({})), "Pushed topic to origin, as a new branch.");
    assert_eq!(at_remote(&setup, "topic"), Some(setup.git(&["rev-parse", "HEAD"])));
    assert_eq!(setup.text("git_push", json!({})), "origin already has all of topic.");
    setup.put("a.txt", "x");
    setup.commit("more");
    let pushed = setup.data("git_push", json!({"branch": "topic", "remote": "origin"}));
    assert_eq!((&pushed["result"], &pushed["branch"]), (&json!("updated"), &json!("topic")));
    assert_eq!(at_remote(&setup, "topic"), Some(setup.git(&["rev-parse", "HEAD"])));
}

#[test]
fn nothing_is_forced_whatever_the_configuration_says() {
    let setup = on_topic();
    setup.data("git_push", json!({}));
    setup.put("a.txt", "x");
    setup.commit("theirs");
    setup.data("git_push", json!({}));
    let theirs = setup.git(&["rev-parse", "HEAD"]);
    setup.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    setup.put("a.txt", "y");
    setup.commit("ours");
    setup.git(&["config", "remote.origin.push", "+refs/heads/*:refs/heads/*"]);
    for input in [json!({}), json!({"branch": "topic"})] {
        let error = setup.refused("git_push", input, ErrorKind::Conflict);
        assert!(error.message.contains("[rejected]"), "{}", error.message);
        assert_eq!(at_remote(&setup, "topic").as_ref(), Some(&theirs));
    }
    setup.git(&["config", "remote.origin.mirror", "true"]);
    assert!(!setup.call("git_push", json!({})).is_ok());
    assert_eq!(at_remote(&setup, "topic").as_ref(), Some(&theirs));
}

#[test]
fn protected_branches_are_not_reached_by_any_name() {
    let setup = on_topic();
    setup.git(&["branch", "release/1"]);
    for branch in ["main", "master", "release/1", "Main"] {
        setup.refused("git_push", json!({"branch": branch}), ErrorKind::Denied);
    }
    for branch in ["topic:main", "+topic", ":main", "refs/heads/main", "HEAD", "--all", "-f", ""] {
        let outcome = setup.call("git_push", json!({"branch": branch}));
        let kind = outcome.error.map(|error| error.kind);
        let expected = if branch == "+topic" { ErrorKind::NotFound } else { ErrorKind::Input };
        assert_eq!(kind, Some(expected), "{branch}");
    }
    // Creates a branch that tracks main, with settings that push to the tracked branch.
    setup.git(&["config", "push.default", "upstream"]);
    setup.git(&["config", "branch.topic.remote", "origin"]);
    setup.git(&["config", "branch.topic.merge", "refs/heads/main"]);
    setup.git(&["config", "remote.origin.push", "refs/heads/topic:refs/heads/main"]);
    setup.data("git_push", json!({}));
    setup.data("git_push", json!({"branch": "topic"}));
    assert!(at_remote(&setup, "topic").is_some() && at_remote(&setup, "main").is_none());
    setup.git(&["switch", "--quiet", "main"]);
    let error = setup.refused("git_push", json!({}), ErrorKind::Denied);
    assert!(error.message.contains("`main`"), "{}", error.message);
    assert_eq!(at_remote(&setup, "main"), None);
}

#[test]
fn tags_and_other_branches_stay_here() {
    let setup = on_topic();
    setup.git(&["tag", "--annotate", "--message", "t", "v1"]);
    setup.git(&["config", "push.followTags", "true"]);
    setup.data("git_push", json!({}));
    assert_eq!((at_remote(&setup, "v1"), at_remote(&setup, "main")), (None, None));
}

#[test]
fn a_remote_is_one_that_is_configured() {
    let setup = on_topic();
    let beside = setup.path("beside");
    setup.git(&["init", "--quiet", "--bare", &beside.display().to_string()]);
    setup.refused("git_push", json!({"remote": "beside"}), ErrorKind::NotFound);
    setup.refused("git_push", json!({"remote": "missing"}), ErrorKind::NotFound);
    for remote in
        ["./beside", "../remote.git", "ext::sh -c true", "https://example.org/r", "--all", ""]
    {
        setup.refused("git_push", json!({"remote": remote}), ErrorKind::Input);
    }
    setup.git(&["remote", "set-url", "origin", "/nonexistent/repository"]);
    setup.refused("git_push", json!({}), ErrorKind::NotFound);
}

#[test]
fn what_the_remote_and_hooks_say_is_told() {
    let setup = on_topic();
    setup.hook("pre-push", "echo 'run the tests first' >&2\nexit 1");
    let error = setup.refused("git_push", json!({}), ErrorKind::ToolFailed);
    assert!(
        error.message.starts_with("a hook refused the push: run the tests first"),
        "{}",
        error.message
    );
    fs::remove_file(setup.path(".git/hooks/pre-push")).expect("gone");
    let hook = setup.folder.path().join("remote.git/hooks/pre-receive");
    fs::create_dir_all(hook.parent().expect("a folder")).expect("a folder");
    write_program(&hook, "#!/bin/sh\necho 'not on a Friday' >&2\nexit 1\n");
    let error = setup.refused("git_push", json!({}), ErrorKind::Denied);
    assert!(error.message.contains("not on a Friday"), "{}", error.message);
    assert_eq!(at_remote(&setup, "topic"), None);
}

#[test]
fn without_a_branch_there_is_nothing_to_push() {
    let setup = on_topic();
    setup.refused("git_push", json!({"branch": "missing"}), ErrorKind::NotFound);
    setup.git(&["switch", "--quiet", "--detach"]);
    setup.refused("git_push", json!({}), ErrorKind::Conflict);
    assert_eq!(at_remote(&setup, "topic"), None);
}
