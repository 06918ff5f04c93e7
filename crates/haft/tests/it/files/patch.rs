//! `patch`: many files in one call, in both formats, all or nothing.

use haft::{ErrorKind, Mode, policy::Action};
use serde_json::json;

use super::{Setup, data};

/// Returns a setup with some files of each kind.
fn setup() -> Setup {
    with_files(Setup::new())
}

fn with_files(setup: Setup) -> Setup {
    setup.put("src/keep.txt", "one\ntwo\nthree\n");
    setup.put("src/old.sh", "#!/bin/sh\necho old\n");
    setup.set_mode("src/old.sh", 0o755);
    setup.put("gone.txt", "bye\n");
    setup.put("crlf.txt", "a\r\nb\r\nc\r\n");
    setup
}

const ENVELOPE: &str = "*** Begin Patch
*** Add File: new/deep/file.txt
+first
+second
*** Update File: src/keep.txt
@@
 one
-two
+2
 three
*** Update File: src/old.sh
*** Move to: bin/new.sh
@@
 #!/bin/sh
-echo old
+echo new
*** Delete File: gone.txt
*** End Patch
";

const UNIFIED: &str = "diff --git a/new/deep/file.txt b/new/deep/file.txt
new file mode 100644
--- /dev/null
+++ b/new/deep/file.txt
@@ -0,0 +1,2 @@
+first
+second
diff --git a/src/keep.txt b/src/keep.txt
--- a/src/keep.txt
+++ b/src/keep.txt
@@ -1,3 +1,3 @@
 one
-two
+2
 three
diff --git a/src/old.sh b/bin/new.sh
similarity index 60%
rename from src/old.sh
rename to bin/new.sh
--- a/src/old.sh
+++ b/bin/new.sh
@@ -1,2 +1,2 @@
 #!/bin/sh
-echo old
+echo new
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-bye
";

/// Checks that the patch is refused and contents, modes and names are unchanged.
#[track_caller]
fn check_refused(setup: &Setup, patch: &str, kind: ErrorKind, words: &str) {
    let before = setup.tree();
    let error = setup.refused("patch", json!({"patch": patch}), kind);
    assert!(error.message.contains(words), "{} does not say {words}", error.message);
    assert!(before == setup.tree(), "something changed: {:?}", setup.tree().keys());
}

#[test]
fn both_forms_add_change_move_and_delete_at_once() {
    for patch in [ENVELOPE, UNIFIED] {
        let setup = setup();
        let outcome = setup.ok("patch", json!({"patch": patch}));
        let names: Vec<String> =
            setup.tree().into_keys().filter(|name| name.contains('.')).collect();
        assert_eq!(names, ["bin/new.sh", "crlf.txt", "new/deep/file.txt", "src/keep.txt"]);
        assert_eq!(setup.text("new/deep/file.txt"), "first\nsecond\n");
        assert_eq!(setup.text("src/keep.txt"), "one\n2\nthree\n");
        assert_eq!(
            (setup.text("bin/new.sh").as_str(), setup.mode("bin/new.sh")),
            ("#!/bin/sh\necho new\n", 0o755)
        );
        let version = |path: &str| setup.version(path);
        let expected = format!(
            "Patched 4 files:\nA new/deep/file.txt (+2 -0), version {}\nM src/keep.txt (+1 -1), version {}\n\
             R bin/new.sh (from src/old.sh) (+1 -1), version {}\nD gone.txt (+0 -1)",
            version("new/deep/file.txt"),
            version("src/keep.txt"),
            version("bin/new.sh")
        );
        assert_eq!(outcome.content, expected);
        assert_eq!(data(&outcome)["files"].as_array().map(Vec::len), Some(4));
    }
}

#[test]
fn a_section_that_fails_takes_all_others_back() {
    for (patch, last) in [(ENVELOPE, "*** End Patch"), (UNIFIED, "\u{0}")] {
        let patch = patch.strip_suffix(&format!("{last}\n")).unwrap_or(patch);
        let wrong = match last {
            "\u{0}" => format!(
                "{patch}--- a/crlf.txt\n+++ b/crlf.txt\n@@ -1,2 +1,2 @@\n a\n-not there\n+x\n"
            ),
            end => format!("{patch}*** Update File: crlf.txt\n@@\n a\n-not there\n+x\n{end}\n"),
        };
        check_refused(&setup(), &wrong, ErrorKind::Input, "crlf.txt");
    }
    let missing = ENVELOPE.replace("Delete File: gone.txt", "Delete File: missing.txt");
    check_refused(&setup(), &missing, ErrorKind::NotFound, "missing.txt");
}

#[test]
fn adding_and_moving_never_overwrite() {
    let add = "*** Begin Patch\n*** Delete File: gone.txt\n*** Add File: src/keep.txt\n+x\n*** End Patch\n";
    check_refused(&setup(), add, ErrorKind::Conflict, "src/keep.txt");
    let onto = "*** Begin Patch\n*** Delete File: gone.txt\n*** Update File: src/old.sh\n*** Move to: src/keep.txt\n@@\n-echo old\n+x\n*** End Patch\n";
    check_refused(&setup(), onto, ErrorKind::Conflict, "src/keep.txt");
    let directory = "*** Begin Patch\n*** Add File: src\n+x\n*** End Patch\n";
    check_refused(&setup(), directory, ErrorKind::Conflict, "src");
}

#[test]
fn a_path_outside_is_refused_before_anything_happens() {
    for path in ["../outside/x", "/etc/haft-test", "link/x"] {
        let setup = setup();
        setup.link("link", "../outside");
        let outside = setup.outside();
        for patch in [
            format!(
                "*** Begin Patch\n*** Delete File: gone.txt\n*** Add File: {path}\n+x\n*** End Patch\n"
            ),
            format!(
                "*** Begin Patch\n*** Delete File: gone.txt\n*** Update File: src/old.sh\n*** Move to: {path}\n@@\n-echo old\n+x\n*** End Patch\n"
            ),
            format!(
                "*** Begin Patch\n*** Delete File: gone.txt\n*** Delete File: {path}\n*** End Patch\n"
            ),
        ] {
            let before = setup.tree();
            let outcome = setup.call("patch", json!({"patch": patch}));
            let error = outcome.error.unwrap_or_else(|| panic!("it worked: {}", outcome.content));
            assert!(matches!(error.kind, ErrorKind::Denied | ErrorKind::Input), "{error:?}");
            assert!(before == setup.tree() && outside == setup.outside(), "{path}");
        }
    }
}

#[test]
fn secrets_and_denied_paths_are_refused_before_anything_happens() {
    let secret =
        "*** Begin Patch\n*** Delete File: gone.txt\n*** Add File: .env\n+TOKEN=x\n*** End Patch\n";
    check_refused(&setup(), secret, ErrorKind::Denied, ".env");
    for rule in ["write(src/**)", "read(src/**)"] {
        let setup = with_files(Setup::with(Mode::All, &[(Action::Deny, rule)]));
        check_refused(&setup, ENVELOPE, ErrorKind::Denied, "src");
    }
}

#[test]
fn line_endings_of_the_file_are_kept() {
    let setup = setup();
    let patch =
        "*** Begin Patch\n*** Update File: crlf.txt\n@@\n a\n-b\n+x\n+y\n c\n*** End Patch\n";
    setup.ok("patch", json!({"patch": patch}));
    assert_eq!(setup.text("crlf.txt"), "a\r\nx\r\ny\r\nc\r\n");
}

#[test]
fn nothing_of_a_patch_is_dropped() {
    let setup = setup();
    let blank = "*** Begin Patch\n*** Update File: a.txt\n@@\n one\n\n-two\n+2\n*** End Patch\n";
    setup.put("a.txt", "one\n\ntwo\n");
    setup.ok("patch", json!({"patch": blank}));
    assert_eq!(setup.text("a.txt"), "one\n\n2\n");
    for (patch, words) in [
        ("*** Begin Patch\n*** Update File: src/keep.txt\n*** End Patch\n", "src/keep.txt"),
        (
            "*** Begin Patch\n*** Update File: src/keep.txt\n@@\n one\nstray words\n-two\n*** End Patch\n",
            "line 5",
        ),
        ("*** Begin Patch\n*** End Patch\n", ""),
        ("only words\n", ""),
        ("*** Begin Patch\n*** Frobnicate File: x\n*** End Patch\n", "line 2"),
    ] {
        check_refused(&setup, patch, ErrorKind::Input, words);
    }
}

#[test]
fn added_lines_go_where_their_context_is() {
    let setup = setup();
    let patch = "*** Begin Patch\n*** Update File: src/keep.txt\n@@ one\n+between\n*** End Patch\n";
    setup.ok("patch", json!({"patch": patch}));
    assert_eq!(setup.text("src/keep.txt"), "one\nbetween\ntwo\nthree\n");
    let end = "*** Begin Patch\n*** Update File: src/keep.txt\n@@\n three\n+four\n*** End of File\n*** End Patch\n";
    setup.ok("patch", json!({"patch": end}));
    assert_eq!(setup.text("src/keep.txt"), "one\nbetween\ntwo\nthree\nfour\n");
}

#[test]
fn a_file_may_not_be_named_twice() {
    for (path, words) in [
        ("src/keep.txt", "src/keep.txt is in sections 1 and 2"),
        ("./src/keep.txt", "src/keep.txt is in sections 1 and 2"),
        ("link.txt", "`src/keep.txt` is named twice"),
    ] {
        let setup = setup();
        setup.link("link.txt", "src/keep.txt");
        let patch = format!(
            "*** Begin Patch\n*** Update File: src/keep.txt\n@@\n-one\n+1\n*** Update File: {path}\n@@\n-two\n+2\n*** End Patch\n"
        );
        check_refused(&setup, &patch, ErrorKind::Input, words);
    }
}

#[test]
fn a_hunk_that_fits_at_two_places_is_not_guessed() {
    let setup = setup();
    setup.put("same.txt", "head\nsame\ntail\nhead\nsame\ntail\n");
    let patch = "*** Begin Patch\n*** Update File: same.txt\n@@\n head\n-same\n+other\n tail\n*** End Patch\n";
    check_refused(&setup, patch, ErrorKind::Input, "same.txt");
}

#[test]
fn a_binary_file_can_be_deleted_but_not_changed() {
    let setup = setup();
    setup.put("thing", b"\0\x01\x02");
    let update = "*** Begin Patch\n*** Update File: thing\n@@\n-a\n+b\n*** End Patch\n";
    check_refused(&setup, update, ErrorKind::Unsupported, "thing");
    setup.ok("patch", json!({"patch": "*** Begin Patch\n*** Delete File: thing\n*** End Patch\n"}));
    assert!(!setup.has("thing"));
}

#[test]
fn the_same_on_several_threads() {
    let setup = with_files(Setup::new().on_several_threads());
    setup.ok("patch", json!({"patch": ENVELOPE}));
    assert_eq!(setup.text("src/keep.txt"), "one\n2\nthree\n");
}
