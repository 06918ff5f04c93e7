//! `read` on text and directories.

use haft::ErrorKind;
use serde_json::json;

use super::{Setup, data, footer, shown};

fn numbered(lines: usize) -> String {
    (1..=lines).map(|number| format!("line {number}\n")).collect()
}

/// Reads a file page by page, as the results say, and joins the pages.
#[track_caller]
fn paged(setup: &Setup, path: &str) -> Vec<String> {
    let (mut lines, mut offset) = (Vec::new(), 1);
    loop {
        let page = setup.ok("read", json!({"path": path, "offset": offset}));
        assert_eq!(page.output_id, None, "the gate had to cut: {}", footer(&page));
        assert!(page.content.len() <= 50 << 10, "{} bytes", page.content.len());
        lines.extend(shown(&page));
        match data(&page)["next_offset"].as_u64() {
            Some(next) => {
                assert!(next > offset, "no way forward from {offset}");
                assert_eq!(next, lines.len() as u64 + 1);
                assert!(footer(&page).contains(&format!("continue with offset={next}")));
                offset = next;
            }
            None => return lines,
        }
    }
}

#[test]
fn lines_have_numbers_and_the_last_line_says_what_is_shown() {
    let setup = Setup::new();
    setup.put("a.txt", numbered(12));
    let all = setup.ok("read", json!({"path": "a.txt"}));
    let version = data(&all)["version"].as_str().expect("a version");
    assert!(all.content.starts_with(" 1\tline 1\n 2\tline 2\n"), "{}", all.content);
    assert!(
        all.content
            .ends_with(&format!("12\tline 12\n[a.txt: lines 1-12 of 12; version {version}]"))
    );
    let part = setup.ok("read", json!({"path": "a.txt", "offset": 5, "limit": 3}));
    let expected = format!(
        "5\tline 5\n6\tline 6\n7\tline 7\n[a.txt: lines 5-7 of 12; continue with offset=8; version {version}]"
    );
    assert_eq!(part.content, expected);
    let facts = data(&part);
    assert_eq!(
        (&facts["first_line"], &facts["lines"], &facts["next_offset"]),
        (&json!(5), &json!(3), &json!(8))
    );
}

#[test]
fn a_page_is_never_longer_than_the_gate_lets_through() {
    let setup = Setup::new();
    for (lines, next) in [(1_999, None), (2_000, None), (2_001, Some(2_001))] {
        setup.put("a", numbered(lines));
        for input in [json!({"path": "a"}), json!({"path": "a", "limit": 2_000})] {
            let page = setup.ok("read", input);
            assert_eq!((page.output_id.as_deref(), shown(&page).len()), (None, lines.min(2_000)));
            assert_eq!(data(&page)["next_offset"].as_u64(), next, "{lines} lines");
        }
        assert_eq!(paged(&setup, "a").len(), lines);
    }
}

#[test]
fn pages_put_together_are_the_file() {
    let setup = Setup::new();
    let widths = [0, 1, 70, 700, 1_999, 2_000, 13];
    let line =
        |number: usize| format!("{}\u{e9}", "x".repeat(widths[number % widths.len()].max(1) - 1));
    let wide: Vec<String> = (0..3_000).map(line).collect();
    let thin: Vec<String> = (0..9_000).map(|number| number.to_string()).collect();
    let four = vec!["\u{1f600}".repeat(2_000); 30];
    for lines in [wide, thin, four, vec![String::new(); 5_000]] {
        setup.put("big", lines.join("\n") + "\n");
        assert!(paged(&setup, "big") == lines, "lines were lost or changed");
    }
}

#[test]
fn a_file_of_six_megabytes_is_read_in_pages_too() {
    let setup = Setup::new();
    let lines: Vec<String> = (0..60_000).map(|number| format!("{number:0>100}")).collect();
    setup.put("big", lines.join("\n") + "\n");
    for offset in [1, 30_000, 59_990] {
        let page = setup.ok("read", json!({"path": "big", "offset": offset, "limit": 5}));
        assert_eq!(shown(&page), lines[offset - 1..offset + 4]);
        assert_eq!(data(&page)["next_offset"], offset + 5);
    }
    let last = setup.ok("read", json!({"path": "big", "offset": 59_999}));
    assert_eq!(
        (shown(&last), &data(&last)["total_lines"]),
        (lines[59_998..].to_vec(), &json!(60_000))
    );
    let error = setup.refused("read", json!({"path": "big", "offset": 60_001}), ErrorKind::Input);
    assert!(error.message.contains("60000 lines"), "{}", error.message);
}

#[test]
fn the_mark_at_the_beginning_is_never_shown_whatever_the_size() {
    let setup = Setup::new();
    for lines in [3, 900_000] {
        setup.put("marked", format!("\u{feff}{}", numbered(lines)));
        let page = setup.ok("read", json!({"path": "marked", "limit": 1}));
        assert_eq!(shown(&page), ["line 1"], "{lines} lines");
        assert_eq!(data(&page)["encoding"], "UTF-8 with BOM");
    }
}

#[test]
fn long_lines_are_cut_and_it_is_said() {
    let setup = Setup::new();
    setup.put("long", format!("{}\nshort\n{}", "\u{e9}".repeat(2_001), "b".repeat(2_000)));
    let page = setup.ok("read", json!({"path": "long"}));
    let lines = shown(&page);
    assert_eq!(lines[0].chars().count(), 2_000);
    assert_eq!((lines[1].as_str(), lines[2].len()), ("short", 2_000));
    assert_eq!(data(&page)["cut_lines"], 1);
    assert!(
        footer(&page).contains("1 line longer than 2000 characters truncated"),
        "{}",
        footer(&page)
    );
}

#[test]
fn an_offset_behind_the_end_is_told_with_the_number_of_lines() {
    let setup = Setup::new();
    setup.put("a", "1\n2\n3\n");
    for offset in [4_u64, 5, 1_000_000, u64::MAX] {
        let error = setup.refused("read", json!({"path": "a", "offset": offset}), ErrorKind::Input);
        assert!(error.message.contains("3 lines"), "{}", error.message);
        assert_eq!(error.hint, "use an offset from 1 to 3");
    }
    setup.refused("read", json!({"path": "a", "offset": 0}), ErrorKind::Input);
    setup.refused("read", json!({"path": "a", "limit": 2001}), ErrorKind::Input);
}

#[test]
fn ends_of_files_are_told_apart_from_lines() {
    let setup = Setup::new();
    for (content, lines) in [
        ("", &[][..]),
        ("a", &["a"]),
        ("a\n", &["a"]),
        ("a\n\n", &["a", ""]),
        ("\n", &[""]),
        ("a\r\nb\r\n", &["a", "b"]),
        ("a\rb\n", &["a\rb"]),
    ] {
        setup.put("end", content);
        let page = setup.ok("read", json!({"path": "end"}));
        if lines.is_empty() {
            assert!(page.content.starts_with("[end is empty"), "{}", page.content);
        } else {
            assert_eq!(shown(&page), lines, "{content:?}");
        }
        assert_eq!(data(&page)["total_lines"], lines.len(), "{content:?}");
    }
}

#[test]
fn an_empty_file_has_no_second_line() {
    let setup = Setup::new();
    setup.put("empty", "");
    setup.ok("read", json!({"path": "empty", "offset": 1}));
    setup.refused("read", json!({"path": "empty", "offset": 2}), ErrorKind::Input);
}

#[test]
fn other_encodings_are_read_and_named() {
    let utf16 = |text: &str, mark: &[u8], bytes: fn(u16) -> [u8; 2]| {
        [mark.to_vec(), text.encode_utf16().flat_map(bytes).collect()].concat()
    };
    let text = "gr\u{fc}n\nzwei\n";
    let japanese = b"\x82\xb1\x82\xea\x82\xcd\x93\xfa\x96\x7b\x8c\xea\x82\xcc\x95\xb6\x8f\xcd\x82\xc5\x82\xb7\x81\x42\n";
    let setup = Setup::new();
    for (bytes, encoding, first) in [
        (utf16(text, b"\xff\xfe", u16::to_le_bytes), "UTF-16LE with BOM", "gr\u{fc}n"),
        (utf16(text, b"\xfe\xff", u16::to_be_bytes), "UTF-16BE with BOM", "gr\u{fc}n"),
        (utf16(text, b"", u16::to_le_bytes), "UTF-16LE", "gr\u{fc}n"),
        (utf16(text, b"", u16::to_be_bytes), "UTF-16BE", "gr\u{fc}n"),
        (
            b"caf\xe9 cr\xe8me br\xfbl\xe9e\nzwei\n".to_vec(),
            "windows-1252",
            "caf\u{e9} cr\u{e8}me br\u{fb}l\u{e9}e",
        ),
        (japanese.to_vec(), "Shift_JIS", "これは日本語の文章です。"),
    ] {
        setup.put("coded", &bytes);
        let page = setup.ok("read", json!({"path": "coded"}));
        assert_eq!(shown(&page)[0], first, "{encoding}");
        assert_eq!(data(&page)["encoding"], encoding);
        assert!(footer(&page).contains(&format!("encoding {encoding};")), "{}", footer(&page));
    }
}

#[test]
fn binary_files_are_refused_by_their_type() {
    let setup = Setup::new();
    for (bytes, sort) in [
        (&[&b"\x7fELF\x02\x01\x01"[..], &[0; 60]].concat()[..], "executable"),
        (b"PK\x03\x04\x14\0\0\0\x08\0\0\0", "application/zip"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\x03", "application/gzip"),
        (b"\0\x01\x02\x03 unknown", "application/octet-stream"),
        (&[0xff, 0xfe, 0, 0, 0x41, 0, 0, 0], "application/octet-stream"),
    ] {
        setup.put("thing", bytes);
        let error = setup.refused("read", json!({"path": "thing"}), ErrorKind::Unsupported);
        assert!(error.message.contains(sort), "{}", error.message);
        assert!(error.message.contains(&format!("{} bytes", bytes.len())), "{}", error.message);
    }
}

#[test]
fn text_is_text_whatever_it_is_called_and_however_it_begins() {
    let setup = Setup::new();
    for (name, text) in [
        ("note.png", "not an image"),
        ("a.txt", "GIF is a format for images"),
        ("b.txt", "BMW and other cars"),
        ("c.txt", "MZ are initials"),
        ("d.txt", "%PD is no document"),
        ("e.txt", "RIFF is a word"),
    ] {
        setup.put(name, text);
        let page = setup.ok("read", json!({"path": name}));
        assert_eq!((shown(&page), page.attachments.len()), (vec![text.to_owned()], 0), "{name}");
        assert_eq!(data(&setup.ok("stat", json!({"path": name})))["mime"], "text/plain", "{name}");
    }
}

#[test]
fn a_directory_gives_its_entries_in_pages() {
    let setup = Setup::new();
    setup.put("d/b.txt", "");
    setup.put("d/a/x", "");
    setup.put("d/c", "");
    setup.link("d/l", "a");
    let all = setup.ok("read", json!({"path": "d"}));
    assert_eq!(all.content, "a/\nb.txt\nc\nl/\n[d: entries 1-4 of 4]");
    let page = setup.ok("read", json!({"path": "d", "offset": 2, "limit": 2}));
    assert_eq!(page.content, "b.txt\nc\n[d: entries 2-3 of 4; continue with offset=4]");
    setup.refused("read", json!({"path": "d", "offset": 5}), ErrorKind::Input);
    std::fs::create_dir(setup.path("empty")).expect("a folder");
    assert_eq!(setup.ok("read", json!({"path": "empty"})).content, "[empty is empty]");
    assert_eq!(setup.ok("read", json!({"path": "."})).content, "d/\nempty/\n[.: entries 1-2 of 2]");
}

#[test]
fn a_directory_of_many_long_names_is_paged_before_the_gate_cuts() {
    let setup = Setup::new();
    let names: Vec<String> = (0..2_300).map(|number| format!("{number:0>200}")).collect();
    for name in &names {
        setup.put(&format!("d/{name}"), "");
    }
    let (mut listed, mut offset) = (Vec::new(), 1);
    loop {
        let page = setup.ok("read", json!({"path": "d", "offset": offset}));
        assert_eq!(page.output_id, None);
        let mut lines: Vec<String> = page.content.lines().map(str::to_owned).collect();
        lines.pop();
        listed.extend(lines);
        let Some(next) = data(&page)["next_offset"].as_u64() else { break };
        offset = next;
    }
    assert_eq!(listed, names);
}

#[test]
fn a_name_with_a_newline_is_one_entry() {
    let setup = Setup::new();
    setup.put("d/a\nb", "");
    setup.put("d/c", "");
    let all = setup.ok("read", json!({"path": "d"}));
    assert_eq!(all.content, "a\\nb\nc\n[d: entries 1-2 of 2]");
}

#[test]
fn a_missing_file_is_told_with_near_names() {
    let setup = Setup::new();
    setup.put("src/main.rs", "");
    setup.put("src/lib.rs", "");
    let error = setup.refused("read", json!({"path": "src/mian.rs"}), ErrorKind::NotFound);
    assert!(error.hint.contains("src/main.rs"), "{}", error.hint);
    let error = setup.refused("read", json!({"path": "srcs/main.rs"}), ErrorKind::NotFound);
    assert!(error.hint.contains("src"), "{}", error.hint);
    setup.refused("read", json!({"path": "src/main.rs/x"}), ErrorKind::NotFound);
    setup.refused("read", json!({"path": "quite/another/thing"}), ErrorKind::NotFound);
}

#[test]
fn the_version_stays_with_the_content_and_changes_with_it() {
    let setup = Setup::new();
    for content in ["small\n".to_owned(), "large\n".repeat(1_000_000)] {
        setup.put("a", &content);
        let first = setup.version("a");
        assert_eq!(setup.version("a"), first);
        assert_eq!(data(&setup.ok("stat", json!({"path": "a"})))["version"], first);
        setup.put("a", content + "more\n");
        assert_ne!(setup.version("a"), first);
    }
}

#[test]
fn seventy_megabytes_without_byte_lines_are_too_large_and_it_is_said() {
    let setup = Setup::new();
    setup.put("wide", b"\xff\xfea\0");
    let file =
        std::fs::OpenOptions::new().write(true).open(setup.path("wide")).expect("it is there");
    file.set_len(70 << 20).expect("a sparse file");
    setup.refused("read", json!({"path": "wide"}), ErrorKind::TooLarge);
}

#[test]
fn both_sorts_of_runtime_read_the_same() {
    let single = Setup::new();
    let several = Setup::new().on_several_threads();
    for setup in [&single, &several] {
        setup.put("a", numbered(20));
        setup.put("big", numbered(900_000));
    }
    for input in [json!({"path": "a"}), json!({"path": "big", "offset": 899_990})] {
        assert_eq!(shown(&single.ok("read", input.clone())), shown(&several.ok("read", input)));
    }
}
