//! Names that look like options, and repositories that try to run programs.

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
    let setup = Setup::new();
    setup.put("a.txt", "changed\n");
    for name in NAMES {
        setup.put(name, "one\n");
        let committed = setup.data("git_commit", json!({"message": name, "paths": [name]}));
        assert_eq!(each(&committed["files"], "path"), [*name]);
        setup.put(name, "one\ntwo\n");
        let status = setup.data("git_status", json!({"paths": [name]}));
        assert_eq!(each(&status["unstaged"], "path"), [*name]);
        let diff = setup.data("git_diff", json!({"paths": [name]}));
        assert_eq!(each(&diff["files"], "path"), [*name]);
        let patch = diff["patch"].as_str().expect("a patch");
        assert!(!name.starts_with('ü') || patch.contains("+++ b/ünïcode\n"), "{patch}");
        let log = setup.data("git_log", json!({"paths": [name]}));
        assert_eq!(log["commits"].as_array().map(Vec::len), Some(1), "{name:?}");
        let show = setup.data("git_show", json!({"file": name}));
        assert_eq!(show["file"]["lines"], json!(["one"]), "{name:?}");
        let blame = setup.data("git_blame", json!({"path": name}));
        assert_eq!(blame["lines"].as_array().map(Vec::len), Some(2), "{name:?}");
        assert!(!setup.has("owned") && !setup.has("=owned"));
    }
}

#[test]
fn no_text_holds_what_a_terminal_would_obey() {
    let setup = Setup::new();
    setup.put("new\nline\u{1b}[2J", "a\u{1b}]0;title\u{7}\r+forged\n");
    setup.git(&["add", "--all"]);
    setup.git(&["commit", "--quiet", "--message", "sub\u{1b}[31mject\n\nbo\u{9b}dy"]);
    for (tool, input) in [
        ("git_log", json!({"full": true})),
        ("git_show", json!({})),
        ("git_diff", json!({"from": "HEAD~1"})),
        ("git_show", json!({"file": "new\nline\u{1b}[2J"})),
        ("git_blame", json!({"path": "new\nline\u{1b}[2J"})),
        ("git_branch", json!({})),
    ] {
        let text = setup.text(tool, input);
        let is_plain =
            |character: char| !character.is_control() || matches!(character, '\n' | '\t');
        assert!(text.chars().all(is_plain), "{tool}: {text:?}");
        assert!(!text.contains("\n+forged"), "{tool}: {text}");
    }
}

#[test]
fn what_looks_like_an_option_never_reaches_git() {
    let setup = Setup::new();
    setup.put("a.txt", "changed\n");
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
            setup.refused(tool, input, ErrorKind::Input);
        }
    }
    // As a value of an option they are harmless.
    assert_eq!(setup.text("git_log", json!({"author": "--output=owned"})), "No commits.");
    assert!(!setup.has("owned"));
}

/// Gives the last commit a signature that git would verify.
fn sign(setup: &Setup) {
    let commit = setup.git(&["cat-file", "commit", "HEAD"]);
    let signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n";
    let signed = commit.replacen("\n\n", &format!("\n{signature}"), 1);
    let file = setup.folder.path().join("signed");
    fs::write(&file, signed + "\n").expect("written");
    let hash = setup.git(&["hash-object", "-t", "commit", "-w", &file.display().to_string()]);
    setup.git(&["update-ref", "HEAD", &hash]);
}

#[test]
fn a_look_runs_nothing_that_a_repository_asks_for() {
    let setup = Setup::new();
    let trap = setup.trap("trap");
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
        setup.git(&["config", name, value]);
    }
    setup.git(&["config", "log.showSignature", "true"]);
    sign(&setup);
    for hook in
        ["post-index-change", "fsmonitor-watchman", "reference-transaction", "post-checkout"]
    {
        setup.hook(hook, &trap);
    }
    fs::write(setup.path(".git/info/attributes"), "*.txt diff=evil\n").expect("written");
    setup.put("a.txt", "one\nchanged\n");
    // A file that looks changed but is not: git would update the index and call a hook.
    setup.put("b.txt", "b\n");
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
        setup.text(tool, input);
        assert!(!setup.is_trapped(), "{tool} ran it");
    }
    // Check that the traps work.
    for plain in [&["status"][..], &["diff"], &["log", "-1"], &["blame", "a.txt"]] {
        let _ = fs::remove_file(setup.folder.path().join("marker"));
        setup.try_git("", plain);
        assert!(setup.is_trapped(), "git {plain:?} alone");
    }
}

#[test]
fn a_look_writes_nothing() {
    let setup = Setup::new();
    let index = || fs::read(setup.path(".git/index")).expect("an index");
    let before = index();
    // The same content with another time: git would update the index.
    let old = fs::File::options().write(true).open(setup.path("b.txt")).expect("it opens");
    old.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000)).expect("another time");
    for tool in ["git_status", "git_diff", "git_log", "git_show"] {
        setup.text(tool, json!({}));
        assert!(index() == before, "{tool} wrote the index");
    }
    setup.try_git("", &["status"]);
    assert!(index() != before, "git by itself does");
}

#[test]
fn submodules_are_shown_and_not_entered() {
    let setup = Setup::bare();
    setup.put("inner/x.txt", "x\n");
    setup.init("inner");
    setup.git_in("inner", &["add", "--all"]);
    setup.git_in("inner", &["commit", "--quiet", "--message", "inner"]);
    setup.put("outer/a.txt", "a\n");
    setup.init("outer");
    let inner = setup.path("inner").display().to_string();
    let allowed = "protocol.file.allow=always";
    setup.git_in("outer", &["-c", allowed, "submodule", "--quiet", "add", &inner, "sub"]);
    setup.git_in("outer/sub", &["config", "user.name", "Ada"]);
    setup.git_in("outer/sub", &["config", "user.email", "ada@example.org"]);
    setup.git_in("outer", &["add", "--all"]);
    setup.git_in("outer", &["commit", "--quiet", "--message", "outer"]);
    let trap = setup.trap("trap");
    setup.git_in("outer/sub", &["config", "core.fsmonitor", &trap]);
    setup.put("outer/sub/x.txt", "dirty\n");
    let at = |more: Value| {
        let mut input = json!({"directory": "outer"});
        input
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("an object").clone());
        input
    };
    assert_eq!(setup.data("git_status", at(json!({})))["is_clean"], true);
    assert_eq!(setup.text("git_diff", at(json!({}))), "No differences.");
    setup.git_in(
        "outer/sub",
        &["-c", "core.fsmonitor=false", "commit", "--quiet", "--all", "--message", "more"],
    );
    assert!(!setup.is_trapped());
    let status = setup.data("git_status", at(json!({})));
    assert_eq!(each(&status["unstaged"], "path"), ["outer/sub"]);
    setup.git_in("outer", &["config", "diff.submodule", "log"]);
    let diff = setup.text("git_diff", at(json!({})));
    assert!(diff.contains("+Subproject commit "), "{diff}");
    assert!(!setup.is_trapped());
    let inside = json!({"path": "outer/sub/x.txt", "directory": "outer"});
    setup.refused("git_blame", inside, ErrorKind::NotFound);
}
