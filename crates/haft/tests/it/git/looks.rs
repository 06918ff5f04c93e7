//! Results of the read-only git tools.

use super::*;

#[test]
fn status_tells_every_sort_of_change() {
    let setup = Setup::new();
    setup.put("c d.txt", "c\n");
    setup.put("gone.txt", "x\n");
    setup.commit("second");
    setup.git(&["mv", "b.txt", "moved.txt"]);
    setup.put("new.txt", "new\n");
    setup.git(&["add", "new.txt"]);
    setup.put("a.txt", "changed\n");
    fs::remove_file(setup.path("gone.txt")).expect("gone");
    setup.put("unknown/x", "x");
    let text = setup.text("git_status", json!({}));
    let (head, rest) = text.split_once('\n').expect("several lines");
    assert!(head.starts_with("On branch main at "), "{head}");
    let expected = "Staged:\n  renamed b.txt -> moved.txt\n  added new.txt\n\
                    Not staged:\n  modified a.txt\n  deleted gone.txt\nUntracked:\n  unknown/";
    assert_eq!(rest, expected);
    let part = setup.data("git_status", json!({"paths": ["a.txt"]}));
    assert_eq!(each(&part["unstaged"], "path"), ["a.txt"]);
    assert_eq!(part["staged"], json!([]));
}

#[test]
fn status_knows_clean_unborn_and_detached() {
    let setup = Setup::empty();
    let text = setup.text("git_status", json!({}));
    assert_eq!(text, "On branch main, no commit yet.\nNo changes.");
    setup.put("a", "a");
    setup.commit("first");
    assert_eq!(setup.data("git_status", json!({}))["is_clean"], true);
    setup.git(&["switch", "--quiet", "--detach"]);
    let status = setup.data("git_status", json!({}));
    assert_eq!(status["branch"], Value::Null);
    assert_eq!(status["commit"], setup.git(&["rev-parse", "HEAD"]));
}

#[test]
fn status_shows_conflicts_and_how_far_the_upstream_is() {
    let setup = Setup::new().with_remote().with_conflict();
    let status = setup.data("git_status", json!({}));
    assert_eq!(status["conflicts"], json!([{"path": "a.txt", "sides": "both modified"}]));
    setup.git(&["merge", "--abort"]);
    setup.git(&["push", "--quiet", "--set-upstream", "origin", "main"]);
    setup.put("b.txt", "more\n");
    setup.commit("more");
    let text = setup.text("git_status", json!({}));
    assert!(text.contains(", 1 ahead of origin/main."), "{text}");
}

#[test]
fn names_are_from_the_workspace_wherever_git_stands() {
    let setup = Setup::below("project/crate", with_git, &[]);
    let repository = setup.path("project");
    setup.init("project");
    fs::write(repository.join("crate/in.txt"), "in\n").expect("written");
    fs::write(repository.join("out.txt"), "out\n").expect("written");
    setup.git_in("project", &["add", "--all"]);
    let status = setup.data("git_status", json!({}));
    assert_eq!(each(&status["staged"], "path"), ["in.txt"]);
    let diff = setup.data("git_diff", json!({"staged": true}));
    assert_eq!(each(&diff["files"], "path"), ["in.txt"]);
    assert!(diff["patch"].as_str().expect("a patch").contains("+++ b/in.txt"));

    let setup = Setup::bare();
    setup.put("sub/repository/src/a.txt", "a\n");
    setup.init("sub/repository");
    setup.git_in("sub/repository", &["add", "--all"]);
    for directory in ["sub/repository", "sub/repository/src"] {
        let status = setup.data("git_status", json!({"directory": directory}));
        assert_eq!(each(&status["staged"], "path"), ["sub/repository/src/a.txt"], "{directory}");
        let input =
            json!({"directory": directory, "staged": true, "paths": ["sub/repository/src"]});
        let diff = setup.data("git_diff", input);
        assert_eq!(each(&diff["files"], "path"), ["sub/repository/src/a.txt"], "{directory}");
        let patch = diff["patch"].as_str().expect("a patch");
        assert!(patch.contains("+++ b/sub/repository/src/a.txt\n"), "{patch}");
    }
    setup.git_in("sub/repository", &["commit", "--quiet", "--message", "first"]);
    let there = json!({"directory": "sub/repository/src", "file": "sub/repository/src/a.txt"});
    assert_eq!(setup.data("git_show", there)["file"]["lines"], json!(["a"]));
}

#[test]
fn diff_compares_files_index_and_revisions() {
    let setup = Setup::new();
    setup.put("a.txt", "one\n2\nthree\n");
    setup.git(&["add", "a.txt"]);
    setup.put("b.txt", "b\nb\n");
    let unstaged = setup.text("git_diff", json!({}));
    let expected = "1 file, +1 -0\n  b.txt +1 -0\n\ndiff --git a/b.txt b/b.txt\n";
    assert!(unstaged.starts_with(expected), "{unstaged}");
    assert!(unstaged.ends_with("@@ -1 +1,2 @@\n b\n+b\n"), "{unstaged}");
    let staged = setup.data("git_diff", json!({"staged": true}));
    assert_eq!(staged["files"], json!([{"path": "a.txt", "added": 1, "removed": 1}]));
    let since = setup.data("git_diff", json!({"from": "HEAD"}));
    assert_eq!((&since["added"], &since["removed"]), (&json!(2), &json!(1)));
    setup.commit("second");
    let between =
        setup.data("git_diff", json!({"from": "HEAD~1", "to": "HEAD", "paths": ["a.txt"]}));
    assert_eq!(each(&between["files"], "path"), ["a.txt"]);
    assert_eq!(setup.text("git_diff", json!({})), "No differences.");
    setup.git(&["switch", "--quiet", "--create", "feature", "HEAD~1"]);
    setup.put("f.txt", "f\n");
    setup.commit("feature");
    let since_it_left = setup.data("git_diff", json!({"from": "main...feature"}));
    assert_eq!(each(&since_it_left["files"], "path"), ["f.txt"]);
}

#[test]
fn a_long_diff_is_cut_and_counted() {
    let setup = Setup::new();
    let long: String = (0..3_000).map(|number| format!("{number}\n")).collect();
    setup.put("long.txt", long);
    setup.put("logo.png", b"\x89PNG\0\0");
    setup.git(&["add", "--all"]);
    let diff = setup.data("git_diff", json!({"staged": true, "limit": 50}));
    assert_eq!(diff["added"], 3_000);
    assert_eq!(diff["patch"].as_str().expect("a patch").lines().count(), 50);
    // The diff headers of the text have 6 lines, those of the binary file 4.
    assert_eq!(diff["left_out"], 3_000 + 6 + 4 - 50);
    let text = setup.text("git_diff", json!({"staged": true, "limit": 50}));
    assert!(text.contains("\n  logo.png (binary)\n"), "{text}");
    assert!(text.ends_with("[2960 lines more: give paths, or a larger limit]"), "{text}");
}

#[test]
fn log_pages_and_filters() {
    let setup = Setup::new();
    for number in 1..=4 {
        setup.put("b.txt", format!("{number}"));
        setup.commit(&format!("Number {number}\n\nbecause of {number}"));
    }
    let subjects = |input| each(&setup.data("git_log", input)["commits"], "subject");
    assert_eq!(subjects(json!({"limit": 2})), ["Number 4", "Number 3"]);
    assert_eq!(subjects(json!({"limit": 2, "skip": 4})), ["first"]);
    assert_eq!(subjects(json!({"paths": ["a.txt"]})), ["first"]);
    assert_eq!(subjects(json!({"grep": "OF 2"})), ["Number 2"]);
    assert_eq!(subjects(json!({"grep": "n.mber"})), [""; 0]);
    assert_eq!(subjects(json!({"author": "ada@"})).len(), 5);
    assert_eq!(subjects(json!({"author": "eve"})), [""; 0]);
    assert_eq!(subjects(json!({"until": "2001-01-01"})), [""; 0]);
    assert_eq!(subjects(json!({"revision": "HEAD~3..HEAD~1"})), ["Number 3", "Number 2"]);
    assert_eq!(setup.data("git_log", json!({"limit": 5}))["has_more"], false);
    let text = setup.text("git_log", json!({"limit": 1}));
    assert!(
        text.ends_with(
            " Ada (HEAD -> main): Number 4\n[there are more: give a larger limit, or skip]"
        ),
        "{text}"
    );
    let full = setup.text("git_log", json!({"limit": 1, "full": true}));
    assert!(full.contains("Number 4\n    because of 4\n["), "{full}");
}

#[test]
fn a_repository_without_commits_has_an_empty_history() {
    let setup = Setup::empty();
    assert_eq!(setup.text("git_log", json!({})), "No commits.");
    assert_eq!(setup.text("git_branch", json!({})), "No branches yet.");
    assert_eq!(setup.text("git_diff", json!({"staged": true})), "No differences.");
    setup.refused("git_log", json!({"revision": "HEAD"}), ErrorKind::NotFound);
    setup.refused("git_show", json!({}), ErrorKind::NotFound);
    setup.refused("git_diff", json!({"from": "HEAD"}), ErrorKind::NotFound);
}

#[test]
fn show_tells_one_commit_whole() {
    let setup = Setup::new();
    let root = setup.data("git_show", json!({}));
    assert_eq!(each(&root["difference"]["files"], "path"), ["a.txt", "b.txt"]);
    setup.git(&["mv", "b.txt", "c.txt"]);
    setup.commit("Move it\n\nIt belongs there.");
    setup.git(&["tag", "--annotate", "--message", "a tag", "v1"]);
    for revision in ["HEAD", "v1", "main"] {
        let text = setup.text("git_show", json!({"revision": revision}));
        assert!(text.contains(": Move it\n    It belongs there.\n"), "{text}");
        assert!(text.contains("\n  b.txt -> c.txt +0 -0\n"), "{text}");
        assert!(text.contains("rename to c.txt") && !text.contains("a tag"), "{text}");
    }
    let part = setup.data("git_show", json!({"revision": "HEAD~1", "paths": ["a.txt"]}));
    assert_eq!(each(&part["difference"]["files"], "path"), ["a.txt"]);
}

#[test]
fn a_merge_is_shown_against_its_first_parent() {
    let setup = Setup::new();
    setup.git(&["switch", "--quiet", "--create", "feature"]);
    setup.put("f.txt", "f\n");
    setup.commit("feature");
    setup.git(&["switch", "--quiet", "main"]);
    setup.put("b.txt", "main\n");
    setup.commit("main goes on");
    setup.git(&["merge", "--quiet", "--no-edit", "feature"]);
    let merge = setup.data("git_show", json!({}));
    assert_eq!(merge["commit"]["parents"].as_array().map(Vec::len), Some(2));
    assert_eq!(each(&merge["difference"]["files"], "path"), ["f.txt"]);
}

#[test]
fn show_gives_a_file_as_it_was() {
    let setup = Setup::new();
    setup.put("a.txt", "new\n");
    setup.put("logo.png", b"\x89PNG\0\0");
    setup.commit("second");
    let then = setup
        .text("git_show", json!({"revision": "HEAD~1", "file": "a.txt", "offset": 2, "limit": 1}));
    assert_eq!(then, "2\ttwo\n[a.txt at HEAD~1; continue with offset=3]");
    let end = setup.text("git_show", json!({"revision": "HEAD~1", "file": "a.txt", "offset": 3}));
    assert_eq!(end, "3\tthree\n[a.txt at HEAD~1, to its end]");
    setup.refused("git_show", json!({"file": "logo.png"}), ErrorKind::Unsupported);
    setup.refused("git_show", json!({"file": "missing"}), ErrorKind::NotFound);
    setup.refused(
        "git_show",
        json!({"revision": "HEAD~1", "file": "logo.png"}),
        ErrorKind::NotFound,
    );
}

#[test]
fn blame_says_who_wrote_each_line() {
    let setup = Setup::new();
    setup.put("a.txt", "one\n2\nthree\n");
    setup.commit("second");
    setup.put("a.txt", "one\n2\nnot yet\n");
    let blame = setup.data("git_blame", json!({"path": "a.txt"}));
    let hash = |revision: &str| setup.git(&["rev-parse", revision]);
    let expected = [hash("HEAD~1"), hash("HEAD"), "0".repeat(40)];
    assert_eq!(each(&blame["lines"], "commit"), expected);
    assert_eq!(each(&blame["lines"], "text"), ["one", "2", "not yet"]);
    let part = json!({"path": "a.txt", "first_line": 2, "last_line": 2, "revision": "HEAD~1"});
    let part = setup.data("git_blame", part);
    assert_eq!(part["lines"][0]["number"], 2);
    assert_eq!(each(&part["lines"], "text"), ["two"]);
    setup.refused("git_blame", json!({"path": "a.txt", "first_line": 9}), ErrorKind::Input);
    setup.refused("git_blame", json!({"path": "missing"}), ErrorKind::NotFound);
    let backwards = json!({"path": "a.txt", "first_line": 2, "last_line": 1});
    setup.refused("git_blame", backwards, ErrorKind::Input);
}

#[test]
fn branches_and_worktrees_are_listed() {
    let setup = Setup::new().with_remote();
    setup.git(&["branch", "other"]);
    setup.git(&["push", "--quiet", "--set-upstream", "origin", "main"]);
    setup.git(&["worktree", "add", "--quiet", "trees/other", "other"]);
    let local = setup.data("git_branch", json!({}));
    let mut names = each(&local["branches"], "name");
    names.sort();
    assert_eq!(names, ["main", "other"]);
    let all = setup.text("git_branch", json!({"remote": true}));
    assert!(all.contains("* main ") && all.contains(" [origin/main] first"), "{all}");
    assert!(all.contains("  origin/main "), "{all}");
    let trees = setup.data("git_worktree", json!({}));
    assert_eq!(each(&trees["worktrees"], "path"), [".", "trees/other"]);
    let from_there = setup.data("git_worktree", json!({"directory": "trees/other"}));
    assert_eq!(each(&from_there["worktrees"], "path"), [".", "trees/other"]);
    assert_eq!(each(&from_there["worktrees"], "branch"), ["main", "other"]);
    let inside = setup.data("git_status", json!({"directory": "trees/other"}));
    assert_eq!(inside["branch"], "other");
}
