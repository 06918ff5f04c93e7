//! `write`: what stays of an existing file, and when nothing is written.

use std::time::SystemTime;

use haft::ErrorKind;
use serde_json::json;

use super::{Setup, data};

#[test]
fn a_new_file_is_made_with_the_directories_above_it() {
    let setup = Setup::new();
    let outcome = setup.ok("write", json!({"path": "a/b/c.txt", "content": "x\ny\n"}));
    assert_eq!(setup.text("a/b/c.txt"), "x\ny\n");
    let version = setup.version("a/b/c.txt");
    assert_eq!(outcome.content, format!("Created a/b/c.txt: 2 lines, 4 bytes, version {version}."));
    let facts = data(&outcome);
    assert_eq!(
        (&facts["created"], &facts["changed"], &facts["version"]),
        (&json!(true), &json!(true), &json!(version))
    );
    assert_eq!(facts.get("previous_version"), None);
}

#[test]
fn an_existing_file_is_overwritten_and_both_versions_are_told() {
    let setup = Setup::new();
    setup.put("a", "old\n");
    let before = setup.version("a");
    let outcome = setup.ok("write", json!({"path": "a", "content": "new\n"}));
    assert_eq!(setup.text("a"), "new\n");
    assert!(
        outcome.content.starts_with("Wrote a: 1 line, 4 bytes, version "),
        "{}",
        outcome.content
    );
    assert_eq!(data(&outcome)["previous_version"], before);
    assert_eq!(data(&outcome)["version"], setup.version("a"));
}

#[test]
fn on_conflict_error_overwrites_nothing() {
    let setup = Setup::new();
    setup.put("a", "old\n");
    let input = json!({"path": "a", "content": "new", "on_conflict": "error"});
    setup.refused("write", input, ErrorKind::Conflict);
    assert_eq!(setup.text("a"), "old\n");
    setup.ok("write", json!({"path": "b", "content": "new", "on_conflict": "error"}));
}

#[test]
fn an_expected_version_must_fit() {
    let setup = Setup::new();
    setup.put("a", "old\n");
    let version = setup.version("a");
    let write = |content: &str, version: &str| json!({"path": "a", "content": content, "expected_version": version});
    setup.ok("write", write("second\n", &version));
    let stale = setup.refused("write", write("third\n", &version), ErrorKind::Conflict);
    assert!(
        stale.message.contains(&version) && stale.message.contains(&setup.version("a")),
        "{}",
        stale.message
    );
    for malformed in ["", "x", "latest", "c12"] {
        let error = setup.refused("write", write("third\n", malformed), ErrorKind::Input);
        assert!(error.message.contains("expected_version"), "{}", error.message);
    }
    assert_eq!(setup.text("a"), "second\n");
    let gone = json!({"path": "gone", "content": "x", "expected_version": version});
    setup.refused("write", gone, ErrorKind::Conflict);
    assert!(!setup.has("gone"));
}

#[test]
fn the_version_of_a_large_file_and_of_a_binary_one_fits_too() {
    let setup = Setup::new();
    setup.put("large", "line\n".repeat(1_000_000));
    let version = setup.version("large");
    setup.ok("write", json!({"path": "large", "content": "x\n", "expected_version": version}));
    setup.put("binary", b"\0\x01\x02");
    let stat = setup.ok("stat", json!({"path": "binary"}));
    let version = data(&stat)["version"].clone();
    let wrong = json!({"path": "binary", "content": "x", "expected_version": "c0123456789abcdef"});
    setup.refused("write", wrong, ErrorKind::Conflict);
    let written =
        setup.ok("write", json!({"path": "binary", "content": "x\n", "expected_version": version}));
    assert_eq!(
        (setup.text("binary").as_str(), &data(&written)["previous_version"]),
        ("x\n", &version)
    );
}

#[test]
fn the_same_content_leaves_the_file_alone() {
    let setup = Setup::new();
    setup.put("a", "same\n");
    let long_ago = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let file = std::fs::File::open(setup.path("a")).expect("it is there");
    file.set_modified(long_ago).expect("set");
    let outcome = setup.ok("write", json!({"path": "a", "content": "same\n"}));
    assert_eq!(data(&outcome)["changed"], false);
    assert!(outcome.content.starts_with("a already has this content"), "{}", outcome.content);
    let modified = setup.path("a").metadata().and_then(|facts| facts.modified()).expect("known");
    assert_eq!(modified, long_ago);
}

#[test]
fn permissions_stay() {
    let setup = Setup::new();
    for mode in [0o600, 0o755, 0o444] {
        setup.put("a", "old");
        setup.set_mode("a", mode);
        setup.ok("write", json!({"path": "a", "content": format!("new {mode}")}));
        assert_eq!(setup.mode("a"), mode, "{mode:o}");
        setup.set_mode("a", 0o644);
    }
}

#[test]
fn encodings_marks_and_line_endings_stay() {
    let utf16 = |text: &str| -> Vec<u8> {
        [b"\xff\xfe".to_vec(), text.encode_utf16().flat_map(u16::to_le_bytes).collect()].concat()
    };
    let setup = Setup::new();
    for (old, new, expected, kept) in [
        (
            utf16("alt\n"),
            "gr\u{fc}n \u{1f600}\n",
            utf16("gr\u{fc}n \u{1f600}\n"),
            Some("the encoding UTF-16LE with BOM"),
        ),
        (
            b"\xef\xbb\xbfa\n".to_vec(),
            "b\n",
            b"\xef\xbb\xbfb\n".to_vec(),
            Some("the encoding UTF-8 with BOM"),
        ),
        (
            b"caf\xe9 cr\xe8me\n".to_vec(),
            "th\u{e9}\n",
            b"th\xe9\n".to_vec(),
            Some("the encoding windows-1252"),
        ),
        (b"a\r\nb\r\n".to_vec(), "x\ny\nz", b"x\r\ny\r\nz".to_vec(), Some("line endings \\r\\n")),
        (b"a\r\nb\n".to_vec(), "x\ny\n", b"x\ny\n".to_vec(), None),
        (b"a\n".to_vec(), "x\r\n", b"x\r\n".to_vec(), None),
        (
            utf16("a\r\n"),
            "x\ny\n",
            utf16("x\r\ny\r\n"),
            Some("the encoding UTF-16LE with BOM, line endings \\r\\n"),
        ),
    ] {
        setup.put("a", &old);
        let outcome = setup.ok("write", json!({"path": "a", "content": new}));
        assert_eq!(setup.bytes("a"), expected, "{new:?} over {old:?}");
        assert_eq!(data(&outcome)["kept"].as_str(), kept, "{new:?} over {old:?}");
        assert_eq!(outcome.content.contains("Kept: "), kept.is_some(), "{}", outcome.content);
    }
}

#[test]
fn a_character_that_the_encoding_does_not_have_is_named_and_nothing_is_written() {
    let setup = Setup::new();
    let old = b"caf\xe9 cr\xe8me\n";
    setup.put("a", old);
    let input = json!({"path": "a", "content": "th\u{e9}\n\u{2192} tea\n"});
    let error = setup.refused("write", input, ErrorKind::Unsupported);
    assert!(error.message.contains("`\u{2192}` (U+2192, line 2"), "{}", error.message);
    assert_eq!(setup.bytes("a"), old);
}

#[test]
fn a_text_that_its_encoding_could_not_be_recognised_in_is_not_written() {
    let setup = Setup::new();
    let old = b"h\0e\0l\0l\0o\0";
    setup.put("a", old);
    let error = setup.refused(
        "write",
        json!({"path": "a", "content": "日本語の文章"}),
        ErrorKind::Unsupported,
    );
    assert!(error.message.contains("UTF-16LE"), "{}", error.message);
    assert_eq!(setup.bytes("a"), old);
    setup.ok("write", json!({"path": "a", "content": "hello 日本"}));
    assert!(setup.ok("read", json!({"path": "a"})).content.starts_with("1\thello 日本\n"));
}

#[test]
fn a_link_is_written_through() {
    let setup = Setup::new();
    setup.put("real/a", "old");
    setup.link("link", "real/a");
    let outcome = setup.ok("write", json!({"path": "link", "content": "new"}));
    assert_eq!((setup.text("real/a").as_str(), &data(&outcome)["path"]), ("new", &json!("real/a")));
    assert!(setup.path("link").symlink_metadata().expect("there").is_symlink());
    setup.link("dangling", "real/b");
    setup.ok("write", json!({"path": "dangling", "content": "b"}));
    assert_eq!(setup.text("real/b"), "b");
}

#[test]
fn what_is_in_the_way_is_told() {
    let setup = Setup::new();
    setup.put("d/x", "");
    setup.refused("write", json!({"path": "d", "content": "x"}), ErrorKind::Input);
    setup.refused("write", json!({"path": ".", "content": "x"}), ErrorKind::Input);
    let error = setup
        .call("write", json!({"path": "d/x/y", "content": "x"}))
        .error
        .expect("a file in the way");
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert!(error.message.contains("d/x"), "{}", error.message);
    let long = format!("d/{}", "n".repeat(300));
    setup.refused("write", json!({"path": long, "content": "x"}), ErrorKind::Input);
}

#[test]
fn any_amount_of_content_is_written() {
    let setup = Setup::new();
    setup.put("a", "old");
    setup.ok("write", json!({"path": "a", "content": ""}));
    assert_eq!(setup.text("a"), "");
    let large = "0123456789abcdef\n".repeat(5 << 16);
    let outcome = setup.ok("write", json!({"path": "a", "content": large}));
    assert!(setup.text("a") == large && outcome.content.len() < 200, "{}", outcome.content);
    setup.put("binary", b"\0\x01\x02\xff");
    setup.ok("write", json!({"path": "binary", "content": "text\n"}));
    assert_eq!(setup.text("binary"), "text\n");
}

#[test]
fn nothing_is_left_beside_the_files() {
    let setup = Setup::new().on_several_threads();
    setup.ok("write", json!({"path": "a", "content": "1"}));
    setup.ok("write", json!({"path": "a", "content": "2"}));
    setup.refused(
        "write",
        json!({"path": "a", "content": "3", "on_conflict": "error"}),
        ErrorKind::Conflict,
    );
    let names: Vec<String> = setup.tree().into_keys().collect();
    assert_eq!(names, ["a"]);
}
