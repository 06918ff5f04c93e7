//! Pushing: to a repository beside the workspace, which is as far as tests go.

use super::*;

fn at_remote(desk: &Desk, branch: &str) -> Option<String> {
    let remote = desk.folder.path().join("remote.git").display().to_string();
    let output =
        desk.try_git("", &["--git-dir", &remote, "rev-parse", "--verify", "--quiet", branch]);
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

fn on_topic() -> Desk {
    let desk = Desk::new().with_remote();
    desk.git(&["switch", "--quiet", "--create", "topic"]);
    desk
}

#[test]
fn a_branch_is_created_updated_and_up_to_date() {
    let desk = on_topic();
    assert_eq!(desk.text("git_push", json!({})), "Pushed topic to origin, as a new branch.");
    assert_eq!(at_remote(&desk, "topic"), Some(desk.git(&["rev-parse", "HEAD"])));
    assert_eq!(desk.text("git_push", json!({})), "origin already has all of topic.");
    desk.put("a.txt", "x");
    desk.commit("more");
    let pushed = desk.data("git_push", json!({"branch": "topic", "remote": "origin"}));
    assert_eq!((&pushed["result"], &pushed["branch"]), (&json!("updated"), &json!("topic")));
    assert_eq!(at_remote(&desk, "topic"), Some(desk.git(&["rev-parse", "HEAD"])));
}

#[test]
fn nothing_is_forced_whatever_the_configuration_says() {
    let desk = on_topic();
    desk.data("git_push", json!({}));
    desk.put("a.txt", "x");
    desk.commit("theirs");
    desk.data("git_push", json!({}));
    let theirs = desk.git(&["rev-parse", "HEAD"]);
    desk.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    desk.put("a.txt", "y");
    desk.commit("ours");
    desk.git(&["config", "remote.origin.push", "+refs/heads/*:refs/heads/*"]);
    for input in [json!({}), json!({"branch": "topic"})] {
        let error = desk.refused("git_push", input, ErrorKind::Conflict);
        assert!(error.message.contains("[rejected]"), "{}", error.message);
        assert_eq!(at_remote(&desk, "topic").as_ref(), Some(&theirs));
    }
    desk.git(&["config", "remote.origin.mirror", "true"]);
    assert!(!desk.call("git_push", json!({})).is_ok());
    assert_eq!(at_remote(&desk, "topic").as_ref(), Some(&theirs));
}

#[test]
fn protected_branches_are_not_reached_by_any_name() {
    let desk = on_topic();
    desk.git(&["branch", "release/1"]);
    for branch in ["main", "master", "release/1", "Main"] {
        desk.refused("git_push", json!({"branch": branch}), ErrorKind::Denied);
    }
    for branch in ["topic:main", "+topic", ":main", "refs/heads/main", "HEAD", "--all", "-f", ""] {
        let outcome = desk.call("git_push", json!({"branch": branch}));
        let kind = outcome.error.map(|error| error.kind);
        let expected = if branch == "+topic" { ErrorKind::NotFound } else { ErrorKind::Input };
        assert_eq!(kind, Some(expected), "{branch}");
    }
    // A branch that follows main, under settings by which a plain name is pushed to what it follows.
    desk.git(&["config", "push.default", "upstream"]);
    desk.git(&["config", "branch.topic.remote", "origin"]);
    desk.git(&["config", "branch.topic.merge", "refs/heads/main"]);
    desk.git(&["config", "remote.origin.push", "refs/heads/topic:refs/heads/main"]);
    desk.data("git_push", json!({}));
    desk.data("git_push", json!({"branch": "topic"}));
    assert!(at_remote(&desk, "topic").is_some() && at_remote(&desk, "main").is_none());
    desk.git(&["switch", "--quiet", "main"]);
    let error = desk.refused("git_push", json!({}), ErrorKind::Denied);
    assert!(error.message.contains("`main`"), "{}", error.message);
    assert_eq!(at_remote(&desk, "main"), None);
}

#[test]
fn tags_and_other_branches_stay_here() {
    let desk = on_topic();
    desk.git(&["tag", "--annotate", "--message", "t", "v1"]);
    desk.git(&["config", "push.followTags", "true"]);
    desk.data("git_push", json!({}));
    assert_eq!((at_remote(&desk, "v1"), at_remote(&desk, "main")), (None, None));
}

#[test]
fn a_remote_is_one_that_is_configured() {
    let desk = on_topic();
    let beside = desk.path("beside");
    desk.git(&["init", "--quiet", "--bare", &beside.display().to_string()]);
    desk.refused("git_push", json!({"remote": "beside"}), ErrorKind::NotFound);
    desk.refused("git_push", json!({"remote": "missing"}), ErrorKind::NotFound);
    for remote in
        ["./beside", "../remote.git", "ext::sh -c true", "https://example.org/r", "--all", ""]
    {
        desk.refused("git_push", json!({"remote": remote}), ErrorKind::Input);
    }
    desk.git(&["remote", "set-url", "origin", "/nonexistent/repository"]);
    desk.refused("git_push", json!({}), ErrorKind::NotFound);
}

#[test]
fn what_the_remote_and_hooks_say_is_told() {
    let desk = on_topic();
    desk.hook("pre-push", "echo 'run the tests first' >&2\nexit 1");
    let error = desk.refused("git_push", json!({}), ErrorKind::ToolFailed);
    assert!(
        error.message.starts_with("a hook refused the push: run the tests first"),
        "{}",
        error.message
    );
    fs::remove_file(desk.path(".git/hooks/pre-push")).expect("gone");
    let hook = desk.folder.path().join("remote.git/hooks/pre-receive");
    fs::create_dir_all(hook.parent().expect("a folder")).expect("a folder");
    write_program(&hook, "#!/bin/sh\necho 'not on a Friday' >&2\nexit 1\n");
    let error = desk.refused("git_push", json!({}), ErrorKind::Denied);
    assert!(error.message.contains("not on a Friday"), "{}", error.message);
    assert_eq!(at_remote(&desk, "topic"), None);
}

#[test]
fn without_a_branch_there_is_nothing_to_push() {
    let desk = on_topic();
    desk.refused("git_push", json!({"branch": "missing"}), ErrorKind::NotFound);
    desk.git(&["switch", "--quiet", "--detach"]);
    desk.refused("git_push", json!({}), ErrorKind::Conflict);
    assert_eq!(at_remote(&desk, "topic"), None);
}
