//! What the tools that only look tell.

use super::*;

#[test]
fn status_tells_every_sort_of_change() {
    let desk = Desk::new();
    desk.put("c d.txt", "c\n");
    desk.put("gone.txt", "x\n");
    desk.commit("second");
    desk.git(&["mv", "b.txt", "moved.txt"]);
    desk.put("new.txt", "new\n");
    desk.git(&["add", "new.txt"]);
    desk.put("a.txt", "changed\n");
    fs::remove_file(desk.path("gone.txt")).expect("gone");
    desk.put("unknown/x", "x");
    let text = desk.text("git_status", json!({}));
    let (head, rest) = text.split_once('\n').expect("several lines");
    assert!(head.starts_with("On branch main at "), "{head}");
    let expected = "Staged:\n  renamed b.txt -> moved.txt\n  added new.txt\n\
                    Not staged:\n  modified a.txt\n  deleted gone.txt\nUntracked:\n  unknown/";
    assert_eq!(rest, expected);
    let part = desk.data("git_status", json!({"paths": ["a.txt"]}));
    assert_eq!(each(&part["unstaged"], "path"), ["a.txt"]);
    assert_eq!(part["staged"], json!([]));
}

#[test]
fn status_knows_clean_unborn_and_detached() {
    let desk = Desk::empty();
    let text = desk.text("git_status", json!({}));
    assert_eq!(text, "On branch main, no commit yet.\nNo changes.");
    desk.put("a", "a");
    desk.commit("first");
    assert_eq!(desk.data("git_status", json!({}))["is_clean"], true);
    desk.git(&["switch", "--quiet", "--detach"]);
    let status = desk.data("git_status", json!({}));
    assert_eq!(status["branch"], Value::Null);
    assert_eq!(status["commit"], desk.git(&["rev-parse", "HEAD"]));
}

#[test]
fn status_shows_conflicts_and_how_far_the_upstream_is() {
    let desk = Desk::new().with_remote().with_conflict();
    let status = desk.data("git_status", json!({}));
    assert_eq!(status["conflicts"], json!([{"path": "a.txt", "sides": "both modified"}]));
    desk.git(&["merge", "--abort"]);
    desk.git(&["push", "--quiet", "--set-upstream", "origin", "main"]);
    desk.put("b.txt", "more\n");
    desk.commit("more");
    let text = desk.text("git_status", json!({}));
    assert!(text.contains(", 1 ahead of origin/main."), "{text}");
}

#[test]
fn names_are_from_the_workspace_wherever_git_stands() {
    let desk = Desk::below("project/crate", with_git, &[]);
    let repository = desk.path("project");
    desk.init("project");
    fs::write(repository.join("crate/in.txt"), "in\n").expect("written");
    fs::write(repository.join("out.txt"), "out\n").expect("written");
    desk.git_in("project", &["add", "--all"]);
    let status = desk.data("git_status", json!({}));
    assert_eq!(each(&status["staged"], "path"), ["in.txt"]);
    let diff = desk.data("git_diff", json!({"staged": true}));
    assert_eq!(each(&diff["files"], "path"), ["in.txt"]);
    assert!(diff["patch"].as_str().expect("a patch").contains("+++ b/in.txt"));

    let desk = Desk::bare();
    desk.put("sub/repository/src/a.txt", "a\n");
    desk.init("sub/repository");
    desk.git_in("sub/repository", &["add", "--all"]);
    for directory in ["sub/repository", "sub/repository/src"] {
        let status = desk.data("git_status", json!({"directory": directory}));
        assert_eq!(each(&status["staged"], "path"), ["sub/repository/src/a.txt"], "{directory}");
        let input =
            json!({"directory": directory, "staged": true, "paths": ["sub/repository/src"]});
        let diff = desk.data("git_diff", input);
        assert_eq!(each(&diff["files"], "path"), ["sub/repository/src/a.txt"], "{directory}");
        let patch = diff["patch"].as_str().expect("a patch");
        assert!(patch.contains("+++ b/sub/repository/src/a.txt\n"), "{patch}");
    }
    desk.git_in("sub/repository", &["commit", "--quiet", "--message", "first"]);
    let there = json!({"directory": "sub/repository/src", "file": "sub/repository/src/a.txt"});
    assert_eq!(desk.data("git_show", there)["file"]["lines"], json!(["a"]));
}

#[test]
fn diff_compares_files_index_and_revisions() {
    let desk = Desk::new();
    desk.put("a.txt", "one\n2\nthree\n");
    desk.git(&["add", "a.txt"]);
    desk.put("b.txt", "b\nb\n");
    let unstaged = desk.text("git_diff", json!({}));
    let expected = "1 file, +1 -0\n  b.txt +1 -0\n\ndiff --git a/b.txt b/b.txt\n";
    assert!(unstaged.starts_with(expected), "{unstaged}");
    assert!(unstaged.ends_with("@@ -1 +1,2 @@\n b\n+b\n"), "{unstaged}");
    let staged = desk.data("git_diff", json!({"staged": true}));
    assert_eq!(staged["files"], json!([{"path": "a.txt", "added": 1, "removed": 1}]));
    let since = desk.data("git_diff", json!({"from": "HEAD"}));
    assert_eq!((&since["added"], &since["removed"]), (&json!(2), &json!(1)));
    desk.commit("second");
    let between =
        desk.data("git_diff", json!({"from": "HEAD~1", "to": "HEAD", "paths": ["a.txt"]}));
    assert_eq!(each(&between["files"], "path"), ["a.txt"]);
    assert_eq!(desk.text("git_diff", json!({})), "No differences.");
    desk.git(&["switch", "--quiet", "--create", "feature", "HEAD~1"]);
    desk.put("f.txt", "f\n");
    desk.commit("feature");
    let since_it_left = desk.data("git_diff", json!({"from": "main...feature"}));
    assert_eq!(each(&since_it_left["files"], "path"), ["f.txt"]);
}

#[test]
fn a_long_diff_is_cut_and_counted() {
    let desk = Desk::new();
    let long: String = (0..3_000).map(|number| format!("{number}\n")).collect();
    desk.put("long.txt", long);
    desk.put("logo.png", b"\x89PNG\0\0");
    desk.git(&["add", "--all"]);
    let diff = desk.data("git_diff", json!({"staged": true, "limit": 50}));
    assert_eq!(diff["added"], 3_000);
    assert_eq!(diff["patch"].as_str().expect("a patch").lines().count(), 50);
    // Headers of the text are 6 lines, those of the binary file 4.
    assert_eq!(diff["left_out"], 3_000 + 6 + 4 - 50);
    let text = desk.text("git_diff", json!({"staged": true, "limit": 50}));
    assert!(text.contains("\n  logo.png (binary)\n"), "{text}");
    assert!(text.ends_with("[2960 lines more: give paths, or a larger limit]"), "{text}");
}

#[test]
fn log_pages_and_filters() {
    let desk = Desk::new();
    for number in 1..=4 {
        desk.put("b.txt", format!("{number}"));
        desk.commit(&format!("Number {number}\n\nbecause of {number}"));
    }
    let subjects = |input| each(&desk.data("git_log", input)["commits"], "subject");
    assert_eq!(subjects(json!({"limit": 2})), ["Number 4", "Number 3"]);
    assert_eq!(subjects(json!({"limit": 2, "skip": 4})), ["first"]);
    assert_eq!(subjects(json!({"paths": ["a.txt"]})), ["first"]);
    assert_eq!(subjects(json!({"grep": "OF 2"})), ["Number 2"]);
    assert_eq!(subjects(json!({"grep": "n.mber"})), [""; 0]);
    assert_eq!(subjects(json!({"author": "ada@"})).len(), 5);
    assert_eq!(subjects(json!({"author": "eve"})), [""; 0]);
    assert_eq!(subjects(json!({"until": "2001-01-01"})), [""; 0]);
    assert_eq!(subjects(json!({"revision": "HEAD~3..HEAD~1"})), ["Number 3", "Number 2"]);
    assert_eq!(desk.data("git_log", json!({"limit": 5}))["has_more"], false);
    let text = desk.text("git_log", json!({"limit": 1}));
    assert!(
        text.ends_with(
            " Ada (HEAD -> main): Number 4\n[there are more: give a larger limit, or skip]"
        ),
        "{text}"
    );
    let full = desk.text("git_log", json!({"limit": 1, "full": true}));
    assert!(full.contains("Number 4\n    because of 4\n["), "{full}");
}

#[test]
fn a_repository_without_commits_has_an_empty_history() {
    let desk = Desk::empty();
    assert_eq!(desk.text("git_log", json!({})), "No commits.");
    assert_eq!(desk.text("git_branch", json!({})), "No branches yet.");
    assert_eq!(desk.text("git_diff", json!({"staged": true})), "No differences.");
    desk.refused("git_log", json!({"revision": "HEAD"}), ErrorKind::NotFound);
    desk.refused("git_show", json!({}), ErrorKind::NotFound);
    desk.refused("git_diff", json!({"from": "HEAD"}), ErrorKind::NotFound);
}

#[test]
fn show_tells_one_commit_whole() {
    let desk = Desk::new();
    let root = desk.data("git_show", json!({}));
    assert_eq!(each(&root["difference"]["files"], "path"), ["a.txt", "b.txt"]);
    desk.git(&["mv", "b.txt", "c.txt"]);
    desk.commit("Move it\n\nIt belongs there.");
    desk.git(&["tag", "--annotate", "--message", "a tag", "v1"]);
    for revision in ["HEAD", "v1", "main"] {
        let text = desk.text("git_show", json!({"revision": revision}));
        assert!(text.contains(": Move it\n    It belongs there.\n"), "{text}");
        assert!(text.contains("\n  b.txt -> c.txt +0 -0\n"), "{text}");
        assert!(text.contains("rename to c.txt") && !text.contains("a tag"), "{text}");
    }
    let part = desk.data("git_show", json!({"revision": "HEAD~1", "paths": ["a.txt"]}));
    assert_eq!(each(&part["difference"]["files"], "path"), ["a.txt"]);
}

#[test]
fn a_merge_is_shown_against_its_first_parent() {
    let desk = Desk::new();
    desk.git(&["switch", "--quiet", "--create", "feature"]);
    desk.put("f.txt", "f\n");
    desk.commit("feature");
    desk.git(&["switch", "--quiet", "main"]);
    desk.put("b.txt", "main\n");
    desk.commit("main goes on");
    desk.git(&["merge", "--quiet", "--no-edit", "feature"]);
    let merge = desk.data("git_show", json!({}));
    assert_eq!(merge["commit"]["parents"].as_array().map(Vec::len), Some(2));
    assert_eq!(each(&merge["difference"]["files"], "path"), ["f.txt"]);
}

#[test]
fn show_gives_a_file_as_it_was() {
    let desk = Desk::new();
    desk.put("a.txt", "new\n");
    desk.put("logo.png", b"\x89PNG\0\0");
    desk.commit("second");
    let then = desk
        .text("git_show", json!({"revision": "HEAD~1", "file": "a.txt", "offset": 2, "limit": 1}));
    assert_eq!(then, "2\ttwo\n[a.txt at HEAD~1; continue with offset=3]");
    let end = desk.text("git_show", json!({"revision": "HEAD~1", "file": "a.txt", "offset": 3}));
    assert_eq!(end, "3\tthree\n[a.txt at HEAD~1, to its end]");
    desk.refused("git_show", json!({"file": "logo.png"}), ErrorKind::Unsupported);
    desk.refused("git_show", json!({"file": "missing"}), ErrorKind::NotFound);
    desk.refused(
        "git_show",
        json!({"revision": "HEAD~1", "file": "logo.png"}),
        ErrorKind::NotFound,
    );
}

#[test]
fn blame_says_who_wrote_each_line() {
    let desk = Desk::new();
    desk.put("a.txt", "one\n2\nthree\n");
    desk.commit("second");
    desk.put("a.txt", "one\n2\nnot yet\n");
    let blame = desk.data("git_blame", json!({"path": "a.txt"}));
    let hash = |revision: &str| desk.git(&["rev-parse", revision]);
    let expected = [hash("HEAD~1"), hash("HEAD"), "0".repeat(40)];
    assert_eq!(each(&blame["lines"], "commit"), expected);
    assert_eq!(each(&blame["lines"], "text"), ["one", "2", "not yet"]);
    let part = json!({"path": "a.txt", "first_line": 2, "last_line": 2, "revision": "HEAD~1"});
    let part = desk.data("git_blame", part);
    assert_eq!(part["lines"][0]["number"], 2);
    assert_eq!(each(&part["lines"], "text"), ["two"]);
    desk.refused("git_blame", json!({"path": "a.txt", "first_line": 9}), ErrorKind::Input);
    desk.refused("git_blame", json!({"path": "missing"}), ErrorKind::NotFound);
    let backwards = json!({"path": "a.txt", "first_line": 2, "last_line": 1});
    desk.refused("git_blame", backwards, ErrorKind::Input);
}

#[test]
fn branches_and_worktrees_are_listed() {
    let desk = Desk::new().with_remote();
    desk.git(&["branch", "other"]);
    desk.git(&["push", "--quiet", "--set-upstream", "origin", "main"]);
    desk.git(&["worktree", "add", "--quiet", "trees/other", "other"]);
    let local = desk.data("git_branch", json!({}));
    let mut names = each(&local["branches"], "name");
    names.sort();
    assert_eq!(names, ["main", "other"]);
    let all = desk.text("git_branch", json!({"remote": true}));
    assert!(all.contains("* main ") && all.contains(" [origin/main] first"), "{all}");
    assert!(all.contains("  origin/main "), "{all}");
    let trees = desk.data("git_worktree", json!({}));
    assert_eq!(each(&trees["worktrees"], "path"), [".", "trees/other"]);
    let from_there = desk.data("git_worktree", json!({"directory": "trees/other"}));
    assert_eq!(each(&from_there["worktrees"], "path"), [".", "trees/other"]);
    assert_eq!(each(&from_there["worktrees"], "branch"), ["main", "other"]);
    let inside = desk.data("git_status", json!({"directory": "trees/other"}));
    assert_eq!(inside["branch"], "other");
}
