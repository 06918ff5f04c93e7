//! Property tests of patches over random texts: a diff of two texts converts one to the other.

use std::fmt::Write;

use proptest::prelude::*;
use similar::{Algorithm, ChangeTag, DiffOp, TextDiff};

use super::{
    FilePatch, Hunk, PatchAction, PatchError, PathUse, apply, apply::Applied, parse, paths,
};

const NO_NEWLINE: &str = "\\ No newline at end of file\n";

fn hunks_of(patch: &str) -> Vec<Hunk> {
    let files = parse(patch).expect("it parses");
    let [FilePatch { action: PatchAction::Update { hunks, .. }, .. }] = files.as_slice() else {
        panic!("one update of one file: {files:?}")
    };
    hunks.clone()
}

fn applied(patch: &str, old: &str) -> Result<Applied, PatchError> {
    apply("f", old, &hunks_of(patch))
}

/// Returns the groups of changes with three lines of context, as `(marker, line with ending)`.
fn groups(old: &str, new: &str) -> Vec<(DiffOp, Vec<(char, String)>)> {
    let (old, new): (Vec<_>, Vec<_>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let diff = TextDiff::configure().algorithm(Algorithm::Myers).diff_slices(&old, &new);
    let marker = |tag| match tag {
        ChangeTag::Equal => ' ',
        ChangeTag::Delete => '-',
        ChangeTag::Insert => '+',
    };
    let mut groups = Vec::new();
    for ops in diff.grouped_ops(3) {
        let changes = ops.iter().flat_map(|op| diff.iter_changes(op));
        let lines =
            changes.map(|change| (marker(change.tag()), change.value().to_owned())).collect();
        groups.push((*ops.first().expect("a group has an operation"), lines));
    }
    groups
}

/// Returns a unified diff as git writes it; `shift` is added to the line numbers.
fn unified(old: &str, new: &str, shift: usize) -> String {
    let mut diff = String::from("--- a/f\n+++ b/f\n");
    for (first, lines) in groups(old, new) {
        let count = |skipped: char| lines.iter().filter(|(marker, _)| *marker != skipped).count();
        let line = first.old_range().start + usize::from(count('+') > 0) + shift;
        writeln!(diff, "@@ -{line},{} +1,{} @@ fn", count('+'), count('-'))
            .expect("a string takes all");
        for (marker, line) in &lines {
            diff.push(*marker);
            diff.push_str(line);
            if !line.ends_with('\n') {
                diff.push('\n');
                diff.push_str(NO_NEWLINE);
            }
        }
    }
    diff
}

fn envelope(old: &str, new: &str) -> String {
    let mut patch = String::from("*** Begin Patch\n*** Update File: f\n");
    for (_, lines) in groups(old, new) {
        patch.push_str("@@\n");
        for (marker, line) in lines {
            patch.push(marker);
            patch.push_str(line.trim_end_matches(['\r', '\n']));
            patch.push('\n');
        }
    }
    patch + "*** End Patch\n"
}

/// Generates texts of few different lines, so that hunks match in many places, with any endings.
fn any_text() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "a",
        "b",
        "c",
        "",
        " a",
        "a ",
        "\tb",
        "-- x",
        "++ y",
        "@@",
        "r\r",
        "ä\u{201c}",
    ]);
    let ending = prop::sample::select(vec!["\n", "\n", "\r\n"]);
    (prop::collection::vec((line, ending), 0..30), any::<bool>()).prop_map(|(lines, cut)| {
        let mut text: String =
            lines.into_iter().flat_map(|(line, ending)| [line, ending]).collect();
        if cut && text.ends_with('\n') {
            text.pop();
        }
        text
    })
}

/// Generates an old and a new text in which every line is unique.
fn texts_of_unique_lines() -> impl Strategy<Value = (String, String)> {
    prop::collection::vec(0..8_u8, 1..60).prop_map(|edits| {
        let (mut old, mut new) = (String::new(), String::new());
        for (number, edit) in edits.into_iter().enumerate() {
            let line = format!("{}line {number}\n", " ".repeat(number % 3 * 2));
            if edit != 1 {
                old.push_str(&line);
            }
            match edit {
                0 => {}
                2 => new.push_str(&format!("changed {number}\n")),
                _ => new.push_str(&line),
            }
        }
        (old, new)
    })
}

/// Generates texts that resemble patches more often than random ones do.
fn like_a_patch() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "*** Begin Patch\n",
        "*** End Patch\n",
        "*** Add File: a\n",
        "*** Update File: b\n",
        "*** Delete File: c\n",
        "*** Move to: d\n",
        "*** End of File\n",
        "@@\n",
        "@@ a\n",
        "@@ -1,2 +1,2 @@\n",
        "@@ -1 +1 @@\n",
        "@@ -0,0 +1 @@\n",
        "@@ -18446744073709551615,1 +1 @@\n",
        "@@@ -1 -1 +1 @@@\n",
        "-a\n",
        "+b\n",
        " c\n",
        "\n",
        "\r\n",
        "-\n",
        "+\r\n",
        "x\n",
        "\\ No newline at end of file\n",
        "--- a/b\n",
        "+++ b/b\n",
        "--- /dev/null\n",
        "+++ /dev/null\n",
        "diff --git a/b b/b\n",
        "diff --git a/b \"b/\\303\n",
        "rename from b\n",
        "rename to e\n",
        "new file mode 100755\n",
        "deleted file mode 100644\n",
        "index 1..2 100644\n",
        "old mode 1\n",
        "new mode 2\n",
        "copy from x\n",
        "GIT binary patch\n",
        "-- \n",
        "```\n",
        "<<'EOF'\n",
        "EOF\n",
        "ä",
        "\u{feff}",
        "Index: b\n",
        "From 1\n",
        "--- \"a/\\t\"\n",
        "+++ \"b/\\t\"\n",
        "similarity index 1%\n",
    ]);
    prop::collection::vec(piece, 0..25).prop_map(|pieces| pieces.concat())
}

fn check_total(patch: &str, text: &str) {
    let Ok(files) = parse(patch) else {
        assert_eq!(paths(patch), []);
        return;
    };
    let touched = paths(patch);
    for file in &files {
        let is_written = |path: &String| touched.contains(&(path.clone(), PathUse::Write));
        assert!(is_written(&file.path));
        match &file.action {
            PatchAction::Add { .. } => {}
            PatchAction::Delete { hunks } => drop(super::check_deletion("f", text, hunks)),
            PatchAction::Update { move_to, hunks } => {
                assert!(move_to.iter().all(is_written));
                drop(apply("f", text, hunks));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_unified_diff_makes_the_new_text_byte_for_byte(old in any_text(), new in any_text()) {
        prop_assume!(old != new);
        let applied = applied(&unified(&old, &new, 0), &old).expect("it fits");
        prop_assert_eq!(applied.text, new);
        prop_assert_eq!(applied.leniency, Vec::<String>::new());
    }

    #[test]
    fn wrong_line_numbers_are_found_by_searching((old, new) in texts_of_unique_lines(), shift in 0..100_usize) {
        prop_assume!(old != new && !old.is_empty());
        let applied = applied(&unified(&old, &new, shift), &old).expect("it fits");
        prop_assert_eq!(applied.text, new);
    }

    #[test]
    fn lines_added_above_do_not_matter((old, new) in texts_of_unique_lines(), n_above in 1..20_usize) {
        prop_assume!(old != new && !old.is_empty());
        let above = "other\n".repeat(n_above);
        let applied = applied(&unified(&old, &new, 0), &format!("{above}{old}")).expect("it fits");
        prop_assert_eq!(applied.text, format!("{above}{new}"));
    }

    #[test]
    fn a_patch_with_plain_newlines_fits_a_file_with_carriage_returns((old, new) in texts_of_unique_lines()) {
        prop_assume!(old != new && !old.is_empty());
        let dos = |text: &str| text.replace('\n', "\r\n");
        for patch in [unified(&old, &new, 0), envelope(&old, &new), dos(&unified(&old, &new, 0)), dos(&envelope(&old, &new))] {
            prop_assert_eq!(&applied(&patch, &dos(&old)).expect("it fits").text, &dos(&new));
            prop_assert_eq!(&applied(&patch, &old).expect("it fits").text, &new);
        }
    }

    #[test]
    fn an_envelope_makes_the_new_text((old, new) in texts_of_unique_lines(), cut in any::<bool>()) {
        prop_assume!(old != new);
        let end = |text: &str| if cut { text.strip_suffix('\n').unwrap_or(text).to_owned() } else { text.to_owned() };
        prop_assume!(!cut || !old.is_empty());
        let applied = applied(&envelope(&old, &new), &end(&old)).expect("it fits");
        prop_assert_eq!(applied.text, end(&new));
        prop_assert_eq!(applied.leniency, Vec::<String>::new());
    }

    #[test]
    fn an_envelope_fits_one_place_or_none(old in any_text(), new in any_text()) {
        let plain = |text: &str| format!("{}\n", text.replace('\r', ""));
        let (old, new) = (plain(&old), plain(&new));
        prop_assume!(old != new);
        let Ok(files) = parse(&envelope(&old, &new)) else { return Ok(()) };
        let [FilePatch { action: PatchAction::Update { hunks, .. }, .. }] = files.as_slice() else { panic!("one update") };
        // An ambiguous hunk is refused, never placed elsewhere, so any result must be correct.
        if let Ok(applied) = apply("f", &old, hunks) {
            prop_assert_eq!(applied.text, new);
        }
    }

    #[test]
    fn nothing_panics_on_any_text(patch in any::<String>(), text in any_text()) {
        check_total(&patch, &text);
    }

    #[test]
    fn nothing_panics_on_what_looks_like_a_patch(patch in like_a_patch(), text in any_text()) {
        check_total(&patch, &text);
    }
}
