//! Names that look like something else, and repositories that want something run.

use super::*;

const NAMES: &[&str] = &[
    "with space",
    "new\nline",
    "quo\"te's",
    "-dash",
    "--output=owned",
    "ünïcode",
    ":(glob)**",
    ":!a.txt",
    "*.txt",
    "a[b]",
    "back\\slash",
    "tab\there",
    "$(touch owned)",
    "\u{1b}[31mred",
];

#[test]
fn a_name_is_only_a_name() {
    let desk = Desk::new();
    desk.put("a.txt", "changed\n");
    for name in NAMES {
        desk.put(name, "one\n");
        let committed = desk.data("git_commit", json!({"message": name, "paths": [name]}));
        assert_eq!(each(&committed["files"], "path"), [*name]);
        desk.put(name, "one\ntwo\n");
        let status = desk.data("git_status", json!({"paths": [name]}));
        assert_eq!(each(&status["unstaged"], "path"), [*name]);
        let diff = desk.data("git_diff", json!({"paths": [name]}));
        assert_eq!(each(&diff["files"], "path"), [*name]);
        let patch = diff["patch"].as_str().expect("a patch");
        assert!(!name.starts_with('ü') || patch.contains("+++ b/ünïcode\n"), "{patch}");
        let log = desk.data("git_log", json!({"paths": [name]}));
        assert_eq!(log["commits"].as_array().map(Vec::len), Some(1), "{name:?}");
        let show = desk.data("git_show", json!({"file": name}));
        assert_eq!(show["file"]["lines"], json!(["one"]), "{name:?}");
        let blame = desk.data("git_blame", json!({"path": name}));
        assert_eq!(blame["lines"].as_array().map(Vec::len), Some(2), "{name:?}");
        assert!(!desk.has("owned") && !desk.has("=owned"));
    }
}

#[test]
fn no_text_holds_what_a_terminal_would_obey() {
    let desk = Desk::new();
    desk.put("new\nline\u{1b}[2J", "a\u{1b}]0;title\u{7}\r+forged\n");
    desk.git(&["add", "--all"]);
    desk.git(&["commit", "--quiet", "--message", "sub\u{1b}[31mject\n\nbo\u{9b}dy"]);
    for (tool, input) in [
        ("git_log", json!({"full": true})),
        ("git_show", json!({})),
        ("git_diff", json!({"from": "HEAD~1"})),
        ("git_show", json!({"file": "new\nline\u{1b}[2J"})),
        ("git_blame", json!({"path": "new\nline\u{1b}[2J"})),
        ("git_branch", json!({})),
    ] {
        let text = desk.text(tool, input);
        let is_plain =
            |character: char| !character.is_control() || matches!(character, '\n' | '\t');
        assert!(text.chars().all(is_plain), "{tool}: {text:?}");
        assert!(!text.contains("\n+forged"), "{tool}: {text}");
    }
}

#[test]
fn what_looks_like_an_option_never_reaches_git() {
    let desk = Desk::new();
    desk.put("a.txt", "changed\n");
    for text in
        ["--output=owned", "-o", "--ext-diff", "--upload-pack=touch owned", "-", "a\0b", "a\nb"]
    {
        for (tool, input) in [
            ("git_diff", json!({"from": text})),
            ("git_diff", json!({"from": "HEAD", "to": text})),
            ("git_log", json!({"revision": text})),
            ("git_show", json!({"revision": text})),
            ("git_blame", json!({"path": "a.txt", "revision": text})),
            ("git_branch", json!({"action": "create", "name": text})),
            ("git_branch", json!({"action": "create", "name": "x", "start": text})),
            ("git_branch", json!({"action": "rename", "name": "x", "new_name": text})),
            ("git_worktree", json!({"action": "add", "path": "t", "branch": text})),
            ("git_worktree", json!({"action": "add", "path": "t", "start": text})),
            ("git_push", json!({"branch": text})),
            ("git_push", json!({"remote": text})),
        ] {
            desk.refused(tool, input, ErrorKind::Input);
        }
    }
    // As a value they are only a value.
    assert_eq!(desk.text("git_log", json!({"author": "--output=owned"})), "No commits.");
    assert!(!desk.has("owned"));
}

/// Gives the last commit a signature that git would want to have checked.
fn sign(desk: &Desk) {
    let commit = desk.git(&["cat-file", "commit", "HEAD"]);
    let signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n";
    let signed = commit.replacen("\n\n", &format!("\n{signature}"), 1);
    let file = desk.folder.path().join("signed");
    fs::write(&file, signed + "\n").expect("written");
    let hash = desk.git(&["hash-object", "-t", "commit", "-w", &file.display().to_string()]);
    desk.git(&["update-ref", "HEAD", &hash]);
}

#[test]
fn a_look_runs_nothing_that_a_repository_asks_for() {
    let desk = Desk::new();
    let trap = desk.trap("trap");
    for (name, value) in [
        ("core.pager", &trap),
        ("pager.log", &trap),
        ("pager.status", &trap),
        ("core.fsmonitor", &trap),
        ("core.editor", &trap),
        ("core.sshCommand", &trap),
        ("core.askPass", &trap),
        ("diff.external", &trap),
        ("diff.evil.command", &trap),
        ("diff.evil.textconv", &trap),
        ("gpg.program", &trap),
        ("credential.helper", &trap),
        ("alias.status", &format!("!{trap}")),
        ("alias.log", &format!("!{trap}")),
        ("alias.diff", &format!("!{trap}")),
    ] {
        desk.git(&["config", name, value]);
    }
    desk.git(&["config", "log.showSignature", "true"]);
    sign(&desk);
    for hook in
        ["post-index-change", "fsmonitor-watchman", "reference-transaction", "post-checkout"]
    {
        desk.hook(hook, &trap);
    }
    fs::write(desk.path(".git/info/attributes"), "*.txt diff=evil\n").expect("written");
    desk.put("a.txt", "one\nchanged\n");
    // Looks changed, and is not: what git would note in the index, and call a hook for.
    desk.put("b.txt", "b\n");
    for (tool, input) in [
        ("git_status", json!({})),
        ("git_diff", json!({})),
        ("git_diff", json!({"from": "HEAD"})),
        ("git_diff", json!({"staged": true})),
        ("git_log", json!({"paths": ["a.txt"]})),
        ("git_show", json!({})),
        ("git_show", json!({"file": "a.txt"})),
        ("git_blame", json!({"path": "a.txt"})),
        ("git_branch", json!({})),
        ("git_worktree", json!({})),
    ] {
        desk.text(tool, input);
        assert!(!desk.is_trapped(), "{tool} ran it");
    }
    // The traps themselves work.
    for plain in [&["status"][..], &["diff"], &["log", "-1"], &["blame", "a.txt"]] {
        let _ = fs::remove_file(desk.folder.path().join("marker"));
        desk.try_git("", plain);
        assert!(desk.is_trapped(), "git {plain:?} alone");
    }
}

#[test]
fn a_look_writes_nothing() {
    let desk = Desk::new();
    let index = || fs::read(desk.path(".git/index")).expect("an index");
    let before = index();
    // Another time and the same content: git would like to note that.
    let old = fs::File::options().write(true).open(desk.path("b.txt")).expect("it opens");
    old.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000)).expect("another time");
    for tool in ["git_status", "git_diff", "git_log", "git_show"] {
        desk.text(tool, json!({}));
        assert!(index() == before, "{tool} wrote the index");
    }
    desk.try_git("", &["status"]);
    assert!(index() != before, "git by itself does");
}

#[test]
fn submodules_are_shown_and_not_entered() {
    let desk = Desk::bare();
    desk.put("inner/x.txt", "x\n");
    desk.init("inner");
    desk.git_in("inner", &["add", "--all"]);
    desk.git_in("inner", &["commit", "--quiet", "--message", "inner"]);
    desk.put("outer/a.txt", "a\n");
    desk.init("outer");
    let inner = desk.path("inner").display().to_string();
    let allowed = "protocol.file.allow=always";
    desk.git_in("outer", &["-c", allowed, "submodule", "--quiet", "add", &inner, "sub"]);
    desk.git_in("outer/sub", &["config", "user.name", "Ada"]);
    desk.git_in("outer/sub", &["config", "user.email", "ada@example.org"]);
    desk.git_in("outer", &["add", "--all"]);
    desk.git_in("outer", &["commit", "--quiet", "--message", "outer"]);
    let trap = desk.trap("trap");
    desk.git_in("outer/sub", &["config", "core.fsmonitor", &trap]);
    desk.put("outer/sub/x.txt", "dirty\n");
    let at = |more: Value| {
        let mut input = json!({"directory": "outer"});
        input
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("an object").clone());
        input
    };
    assert_eq!(desk.data("git_status", at(json!({})))["is_clean"], true);
    assert_eq!(desk.text("git_diff", at(json!({}))), "No differences.");
    desk.git_in(
        "outer/sub",
        &["-c", "core.fsmonitor=false", "commit", "--quiet", "--all", "--message", "more"],
    );
    assert!(!desk.is_trapped());
    let status = desk.data("git_status", at(json!({})));
    assert_eq!(each(&status["unstaged"], "path"), ["outer/sub"]);
    desk.git_in("outer", &["config", "diff.submodule", "log"]);
    let diff = desk.text("git_diff", at(json!({})));
    assert!(diff.contains("+Subproject commit "), "{diff}");
    assert!(!desk.is_trapped());
    let inside = json!({"path": "outer/sub/x.txt", "directory": "outer"});
    desk.refused("git_blame", inside, ErrorKind::NotFound);
}
