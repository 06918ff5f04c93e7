//! What the tools that change a repository do to it, short of pushing.

use super::*;

#[test]
fn a_commit_holds_exactly_the_named_paths() {
    let desk = Desk::new();
    desk.put("a.txt", "changed\n");
    desk.put("b.txt", "changed\n");
    desk.put("new/file.txt", "new\n");
    desk.git(&["add", "b.txt"]);
    let input = json!({"message": "Some\n\n# not a comment", "paths": ["a.txt", "new"]});
    let committed = desk.data("git_commit", input);
    assert_eq!(each(&committed["files"], "path"), ["a.txt", "new/file.txt"]);
    assert_eq!(committed["hash"], desk.git(&["rev-parse", "HEAD"]));
    assert_eq!((&committed["branch"], &committed["subject"]), (&json!("main"), &json!("Some")));
    assert_eq!(desk.git(&["log", "-1", "--format=%B"]), "Some\n\n# not a comment");
    let status = desk.data("git_status", json!({}));
    assert_eq!(each(&status["staged"], "path"), ["b.txt"], "what was staged stays staged");
}

#[test]
fn deleted_files_are_committed_by_their_names() {
    let desk = Desk::new();
    fs::remove_file(desk.path("a.txt")).expect("gone");
    desk.data("git_commit", json!({"message": "Remove", "paths": ["a.txt"]}));
    assert_eq!(desk.git(&["ls-files"]), "b.txt");
}

#[test]
fn all_takes_everything_and_nothing_takes_what_is_staged() {
    let desk = Desk::empty();
    desk.put("a.txt", "a\n");
    desk.put("b.txt", "b\n");
    desk.git(&["add", "a.txt"]);
    let staged = desk.text("git_commit", json!({"message": "staged"}));
    assert!(
        staged.starts_with("Committed ")
            && staged.contains(" on main: staged\n1 file, +1 -0\n  a.txt"),
        "{staged}"
    );
    let all = desk.data("git_commit", json!({"message": "all", "all": true}));
    assert_eq!(each(&all["files"], "path"), ["b.txt"]);
    for input in [
        json!({"message": "x"}),
        json!({"message": "x", "all": true}),
        json!({"message": "x", "paths": ["a.txt"]}),
    ] {
        let error = desk.refused("git_commit", input, ErrorKind::Conflict);
        assert_eq!(error.message, "nothing to commit");
    }
    desk.put("new", "x");
    desk.refused("git_commit", json!({"message": "x"}), ErrorKind::Conflict);
    desk.put("a.txt", "changed");
    desk.refused("git_commit", json!({"message": "x"}), ErrorKind::Conflict);
}

#[test]
fn a_detached_head_is_committed_on_without_a_branch() {
    let desk = Desk::new();
    desk.git(&["switch", "--quiet", "--detach"]);
    desk.put("a.txt", "x");
    let text = desk.text("git_commit", json!({"message": "loose", "all": true}));
    assert!(text.contains(" on no branch (HEAD is detached): loose"), "{text}");
}

#[test]
fn a_commit_is_amended_until_it_is_pushed() {
    let desk = Desk::new().with_remote();
    desk.put("a.txt", "x");
    desk.data("git_commit", json!({"message": "second", "all": true}));
    desk.put("b.txt", "x");
    let amended =
        desk.data("git_commit", json!({"message": "better", "paths": ["b.txt"], "amend": true}));
    assert_eq!(each(&amended["files"], "path"), ["a.txt", "b.txt"]);
    assert_eq!(desk.git(&["rev-list", "--count", "HEAD"]), "2");
    desk.git(&["push", "--quiet", "origin", "main"]);
    let before = desk.git(&["rev-parse", "HEAD"]);
    let error =
        desk.refused("git_commit", json!({"message": "again", "amend": true}), ErrorKind::Conflict);
    assert!(error.message.contains("`origin/main`"), "{}", error.message);
    assert_eq!(desk.git(&["rev-parse", "HEAD"]), before);
}

#[test]
fn hooks_run_and_what_they_say_is_told() {
    let desk = Desk::new();
    desk.hook(
        "pre-commit",
        "echo 'foo: command not found' >&2\nprintf '\\033[31mred\\033[0m\\n'\nexit 1",
    );
    desk.put("a.txt", "x");
    let before = desk.git(&["rev-parse", "HEAD"]);
    let error =
        desk.refused("git_commit", json!({"message": "m", "all": true}), ErrorKind::ToolFailed);
    let expected = "a hook refused the commit; the changes are staged: foo: command not found\nred";
    assert_eq!(error.message, expected);
    assert_eq!(desk.git(&["rev-parse", "HEAD"]), before);
    // Patterns of a hook stay patterns, whatever the tools do for their own paths.
    desk.hook("pre-commit", "test \"$(git ls-files '*.txt' | wc -l)\" -eq 2");
    desk.data("git_commit", json!({"message": "m", "all": true}));
}

#[test]
fn conflicts_are_not_committed_with_their_markers() {
    let desk = Desk::new().with_conflict();
    for input in [
        json!({"message": "m", "all": true}),
        json!({"message": "m", "paths": ["a.txt"]}),
        json!({"message": "m"}),
    ] {
        desk.refused("git_commit", input, ErrorKind::Conflict);
        let status = desk.data("git_status", json!({}));
        assert_eq!(each(&status["conflicts"], "path"), ["a.txt"], "it still is one");
    }
    desk.put("a.txt", "both \n");
    desk.refused("git_commit", json!({"message": "m", "paths": ["a.txt"]}), ErrorKind::Conflict);
    let status = desk.data("git_status", json!({}));
    assert_eq!(each(&status["conflicts"], "path"), ["a.txt"], "git is not asked to resolve it");
    desk.data("git_commit", json!({"message": "merged", "all": true}));
    assert_eq!(desk.git(&["rev-list", "--count", "--merges", "HEAD"]), "1");
}

#[test]
fn branches_are_made_taken_up_renamed_and_deleted() {
    let desk = Desk::new();
    desk.put("b.txt", "x\n");
    desk.commit("second");
    let made = json!({"action": "create", "name": "topic/x", "start": "HEAD~1"});
    let made = desk.text("git_branch", made);
    assert!(made.starts_with("Created branch topic/x.\n  topic/x "), "{made}");
    assert_eq!(desk.git(&["rev-parse", "topic/x"]), desk.git(&["rev-parse", "HEAD~1"]));
    let switched = desk.data("git_branch", json!({"action": "switch", "name": "topic/x"}));
    assert_eq!(switched["branches"][0]["is_current"], true);
    desk.data("git_branch", json!({"action": "rename", "name": "topic/x", "new_name": "y"}));
    assert_eq!(desk.git(&["symbolic-ref", "--short", "HEAD"]), "y");
    desk.data(
        "git_branch",
        json!({"action": "create", "name": "z", "start": "main", "switch": true}),
    );
    assert_eq!(desk.git(&["symbolic-ref", "--short", "HEAD"]), "z");
    let deleted = desk.text("git_branch", json!({"action": "delete", "name": "y"}));
    assert_eq!(deleted, "Deleted branch y.");
    assert_eq!(desk.git(&["branch", "--format=%(refname:short)"]), "main\nz");
}

#[test]
fn branches_are_refused_where_something_would_be_lost() {
    let desk = Desk::new();
    desk.git(&["switch", "--quiet", "--create", "other"]);
    desk.put("a.txt", "other\n");
    desk.commit("other");
    desk.git(&["switch", "--quiet", "main"]);
    desk.put("a.txt", "mine\n");
    let refused = |input, kind| desk.refused("git_branch", input, kind);
    let error = refused(json!({"action": "switch", "name": "other"}), ErrorKind::Conflict);
    assert!(error.message.contains("a.txt"), "{}", error.message);
    refused(json!({"action": "delete", "name": "other"}), ErrorKind::Conflict);
    refused(json!({"action": "create", "name": "other"}), ErrorKind::Conflict);
    refused(json!({"action": "create", "name": "other/x"}), ErrorKind::Conflict);
    refused(json!({"action": "switch", "name": "missing"}), ErrorKind::NotFound);
    refused(json!({"action": "delete", "name": "missing"}), ErrorKind::NotFound);
    refused(json!({"action": "rename", "name": "missing", "new_name": "x"}), ErrorKind::NotFound);
    refused(json!({"action": "rename", "name": "other", "new_name": "main"}), ErrorKind::Conflict);
    refused(json!({"action": "create", "name": "x", "start": "missing"}), ErrorKind::NotFound);
    refused(json!({"action": "delete", "name": "main"}), ErrorKind::Denied);
    refused(json!({"action": "rename", "name": "main", "new_name": "x"}), ErrorKind::Denied);
    refused(json!({"action": "create"}), ErrorKind::Input);
    desk.git(&["checkout", "--quiet", "a.txt"]);
    desk.git(&["switch", "--quiet", "other"]);
    refused(json!({"action": "delete", "name": "other"}), ErrorKind::Conflict);
}

#[test]
fn switching_is_refused_in_the_middle_of_a_merge() {
    let desk = Desk::new().with_conflict();
    let input = json!({"action": "switch", "name": "other"});
    desk.refused("git_branch", input, ErrorKind::Conflict);
}

#[test]
fn worktrees_are_added_worked_in_and_removed() {
    let desk = Desk::new();
    let add = json!({"action": "add", "path": "trees/fix it", "branch": "fix", "start": "HEAD"});
    let added = desk.text("git_worktree", add.clone());
    assert!(added.starts_with("Added the worktree trees/fix it.\n. main "), "{added}");
    assert!(added.contains("\ntrees/fix it fix "), "{added}");
    desk.put("trees/fix it/a.txt", "fixed\n");
    let input =
        json!({"message": "Fix", "paths": ["trees/fix it/a.txt"], "directory": "trees/fix it"});
    let committed = desk.data("git_commit", input);
    assert_eq!(
        (&committed["branch"], &committed["files"][0]["path"]),
        (&json!("fix"), &json!("trees/fix it/a.txt"))
    );
    desk.put("trees/fix it/new", "x");
    let remove = json!({"action": "remove", "path": "trees/fix it"});
    desk.refused("git_worktree", remove.clone(), ErrorKind::Conflict);
    assert!(desk.has("trees/fix it/new"));
    desk.refused("git_worktree", add, ErrorKind::Conflict);
    let same = json!({"action": "add", "path": "trees/two", "branch": "fix"});
    desk.refused("git_worktree", same, ErrorKind::Conflict);
    fs::remove_file(desk.path("trees/fix it/new")).expect("gone");
    desk.text("git_worktree", remove.clone());
    assert!(!desk.has("trees/fix it"));
    desk.refused("git_worktree", remove, ErrorKind::NotFound);
    let missing = json!({"action": "add", "path": "t", "branch": "missing"});
    desk.refused("git_worktree", missing, ErrorKind::NotFound);
    let outside = json!({"action": "add", "path": "../t", "branch": "fix"});
    desk.refused("git_worktree", outside, ErrorKind::Denied);
    let loose = desk.data("git_worktree", json!({"action": "add", "path": "trees/loose"}));
    assert_eq!(loose["worktrees"][1]["branch"], Value::Null);
}
