//! The tools that change a repository, except for pushing.

use super::*;

#[test]
fn a_commit_holds_exactly_the_named_paths() {
    let setup = Setup::new();
    setup.put("a.txt", "changed\n");
    setup.put("b.txt", "changed\n");
    setup.put("new/file.txt", "new\n");
    setup.git(&["add", "b.txt"]);
    let input = json!({"message": "Some\n\n# not a comment", "paths": ["a.txt", "new"]});
    let committed = setup.data("git_commit", input);
    assert_eq!(each(&committed["files"], "path"), ["a.txt", "new/file.txt"]);
    assert_eq!(committed["hash"], setup.git(&["rev-parse", "HEAD"]));
    assert_eq!((&committed["branch"], &committed["subject"]), (&json!("main"), &json!("Some")));
    assert_eq!(setup.git(&["log", "-1", "--format=%B"]), "Some\n\n# not a comment");
    let status = setup.data("git_status", json!({}));
    assert_eq!(each(&status["staged"], "path"), ["b.txt"], "what was staged stays staged");
}

#[test]
fn deleted_files_are_committed_by_their_names() {
    let setup = Setup::new();
    fs::remove_file(setup.path("a.txt")).expect("gone");
    setup.data("git_commit", json!({"message": "Remove", "paths": ["a.txt"]}));
    assert_eq!(setup.git(&["ls-files"]), "b.txt");
}

#[test]
fn all_takes_everything_and_nothing_takes_what_is_staged() {
    let setup = Setup::empty();
    setup.put("a.txt", "a\n");
    setup.put("b.txt", "b\n");
    setup.git(&["add", "a.txt"]);
    let staged = setup.text("git_commit", json!({"message": "staged"}));
    assert!(
        staged.starts_with("Committed ")
            && staged.contains(" on main: staged\n1 file, +1 -0\n  a.txt"),
        "{staged}"
    );
    let all = setup.data("git_commit", json!({"message": "all", "all": true}));
    assert_eq!(each(&all["files"], "path"), ["b.txt"]);
    for input in [
        json!({"message": "x"}),
        json!({"message": "x", "all": true}),
        json!({"message": "x", "paths": ["a.txt"]}),
    ] {
        let error = setup.refused("git_commit", input, ErrorKind::Conflict);
        assert_eq!(error.message, "nothing to commit");
    }
    setup.put("new", "x");
    setup.refused("git_commit", json!({"message": "x"}), ErrorKind::Conflict);
    setup.put("a.txt", "changed");
    setup.refused("git_commit", json!({"message": "x"}), ErrorKind::Conflict);
}

#[test]
fn a_detached_head_is_committed_on_without_a_branch() {
    let setup = Setup::new();
    setup.git(&["switch", "--quiet", "--detach"]);
    setup.put("a.txt", "x");
    let text = setup.text("git_commit", json!({"message": "loose", "all": true}));
    assert!(text.contains(" on no branch (HEAD is detached): loose"), "{text}");
}

#[test]
fn a_commit_is_amended_until_it_is_pushed() {
    let setup = Setup::new().with_remote();
    setup.put("a.txt", "x");
    setup.data("git_commit", json!({"message": "second", "all": true}));
    setup.put("b.txt", "x");
    let amended =
        setup.data("git_commit", json!({"message": "better", "paths": ["b.txt"], "amend": true}));
    assert_eq!(each(&amended["files"], "path"), ["a.txt", "b.txt"]);
    assert_eq!(setup.git(&["rev-list", "--count", "HEAD"]), "2");
    setup.git(&["push", "--quiet", "origin", "main"]);
    let before = setup.git(&["rev-parse", "HEAD"]);
    let error = setup.refused(
        "git_commit",
        json!({"message": "again", "amend": true}),
        ErrorKind::Conflict,
    );
    assert!(error.message.contains("`origin/main`"), "{}", error.message);
    assert_eq!(setup.git(&["rev-parse", "HEAD"]), before);
}

#[test]
fn hooks_run_and_what_they_say_is_told() {
    let setup = Setup::new();
    setup.hook(
        "pre-commit",
        "echo 'foo: command not found' >&2\nprintf '\\033[31mred\\033[0m\\n'\nexit 1",
    );
    setup.put("a.txt", "x");
    let before = setup.git(&["rev-parse", "HEAD"]);
    let error =
        setup.refused("git_commit", json!({"message": "m", "all": true}), ErrorKind::ToolFailed);
    let expected = "a hook refused the commit; the changes are staged: foo: command not found\nred";
    assert_eq!(error.message, expected);
    assert_eq!(setup.git(&["rev-parse", "HEAD"]), before);
    // Patterns in a hook stay patterns, although the tools use literal paths.
    setup.hook("pre-commit", "test \"$(git ls-files '*.txt' | wc -l)\" -eq 2");
    setup.data("git_commit", json!({"message": "m", "all": true}));
}

#[test]
fn conflicts_are_not_committed_with_their_markers() {
    let setup = Setup::new().with_conflict();
    for input in [
        json!({"message": "m", "all": true}),
        json!({"message": "m", "paths": ["a.txt"]}),
        json!({"message": "m"}),
    ] {
        setup.refused("git_commit", input, ErrorKind::Conflict);
        let status = setup.data("git_status", json!({}));
        assert_eq!(each(&status["conflicts"], "path"), ["a.txt"], "it still is one");
    }
    setup.put("a.txt", "both \n");
    setup.refused("git_commit", json!({"message": "m", "paths": ["a.txt"]}), ErrorKind::Conflict);
    let status = setup.data("git_status", json!({}));
    assert_eq!(each(&status["conflicts"], "path"), ["a.txt"], "git is not asked to resolve it");
    setup.data("git_commit", json!({"message": "merged", "all": true}));
    assert_eq!(setup.git(&["rev-list", "--count", "--merges", "HEAD"]), "1");
}

#[test]
fn branches_are_made_taken_up_renamed_and_deleted() {
    let setup = Setup::new();
    setup.put("b.txt", "x\n");
    setup.commit("second");
    let made = json!({"action": "create", "name": "topic/x", "start": "HEAD~1"});
    let made = setup.text("git_branch", made);
    assert!(made.starts_with("Created branch topic/x.\n  topic/x "), "{made}");
    assert_eq!(setup.git(&["rev-parse", "topic/x"]), setup.git(&["rev-parse", "HEAD~1"]));
    let switched = setup.data("git_branch", json!({"action": "switch", "name": "topic/x"}));
    assert_eq!(switched["branches"][0]["is_current"], true);
    setup.data("git_branch", json!({"action": "rename", "name": "topic/x", "new_name": "y"}));
    assert_eq!(setup.git(&["symbolic-ref", "--short", "HEAD"]), "y");
    setup.data(
        "git_branch",
        json!({"action": "create", "name": "z", "start": "main", "switch": true}),
    );
    assert_eq!(setup.git(&["symbolic-ref", "--short", "HEAD"]), "z");
    let deleted = setup.text("git_branch", json!({"action": "delete", "name": "y"}));
    assert_eq!(deleted, "Deleted branch y.");
    assert_eq!(setup.git(&["branch", "--format=%(refname:short)"]), "main\nz");
}

#[test]
fn branches_are_refused_where_something_would_be_lost() {
    let setup = Setup::new();
    setup.git(&["switch", "--quiet", "--create", "other"]);
    setup.put("a.txt", "other\n");
    setup.commit("other");
    setup.git(&["switch", "--quiet", "main"]);
    setup.put("a.txt", "mine\n");
    let refused = |input, kind| setup.refused("git_branch", input, kind);
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
    setup.git(&["checkout", "--quiet", "a.txt"]);
    setup.git(&["switch", "--quiet", "other"]);
    refused(json!({"action": "delete", "name": "other"}), ErrorKind::Conflict);
}

#[test]
fn switching_is_refused_in_the_middle_of_a_merge() {
    let setup = Setup::new().with_conflict();
    let input = json!({"action": "switch", "name": "other"});
    setup.refused("git_branch", input, ErrorKind::Conflict);
}

#[test]
fn worktrees_are_added_worked_in_and_removed() {
    let setup = Setup::new();
    let add = json!({"action": "add", "path": "trees/fix it", "branch": "fix", "start": "HEAD"});
    let added = setup.text("git_worktree", add.clone());
    assert!(added.starts_with("Added the worktree trees/fix it.\n. main "), "{added}");
    assert!(added.contains("\ntrees/fix it fix "), "{added}");
    setup.put("trees/fix it/a.txt", "fixed\n");
    let input =
        json!({"message": "Fix", "paths": ["trees/fix it/a.txt"], "directory": "trees/fix it"});
    let committed = setup.data("git_commit", input);
    assert_eq!(
        (&committed["branch"], &committed["files"][0]["path"]),
        (&json!("fix"), &json!("trees/fix it/a.txt"))
    );
    setup.put("trees/fix it/new", "x");
    let remove = json!({"action": "remove", "path": "trees/fix it"});
    setup.refused("git_worktree", remove.clone(), ErrorKind::Conflict);
    assert!(setup.has("trees/fix it/new"));
    setup.refused("git_worktree", add, ErrorKind::Conflict);
    let same = json!({"action": "add", "path": "trees/two", "branch": "fix"});
    setup.refused("git_worktree", same, ErrorKind::Conflict);
    fs::remove_file(setup.path("trees/fix it/new")).expect("gone");
    setup.text("git_worktree", remove.clone());
    assert!(!setup.has("trees/fix it"));
    setup.refused("git_worktree", remove, ErrorKind::NotFound);
    let missing = json!({"action": "add", "path": "t", "branch": "missing"});
    setup.refused("git_worktree", missing, ErrorKind::NotFound);
    let outside = json!({"action": "add", "path": "../t", "branch": "fix"});
    setup.refused("git_worktree", outside, ErrorKind::Denied);
    let loose = setup.data("git_worktree", json!({"action": "add", "path": "trees/loose"}));
    assert_eq!(loose["worktrees"][1]["branch"], Value::Null);
}
