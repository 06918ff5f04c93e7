//! Renders a change to a file as a unified diff. An edit of one entry is one place, so there is
//! always one hunk. If two places changed, the hunk includes everything between them.

use std::fmt::Write;

/// Lines shown before and after the change, as `diff -u` does.
const CONTEXT_LINES: usize = 3;
/// Longer lines are truncated: a minified file is one line.
const MAX_LINE_CHARS: usize = 200;

/// Returns the unified diff. A missing text has no lines.
pub(super) fn unified(path: &str, before: Option<&str>, after: Option<&str>) -> String {
    let name = |text: Option<&str>| if text.is_some() { path } else { "/dev/null" };
    let mut diff = format!("--- {}\n+++ {}\n", name(before), name(after));
    let old: Vec<&str> = before.unwrap_or_default().split_inclusive('\n').collect();
    let new: Vec<&str> = after.unwrap_or_default().split_inclusive('\n').collect();
    let n_same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = old.len().min(new.len()) - n_same;
    let n_same_after = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take(rest)
        .take_while(|(old, new)| old == new)
        .count();
    let first = n_same.saturating_sub(CONTEXT_LINES);
    let tail = n_same_after.min(CONTEXT_LINES);
    let shown = |lines: &[&str]| lines.len() - n_same_after + tail - first;
    let place =
        |lines: &[&str]| format!("{},{}", first + usize::from(!lines.is_empty()), shown(lines));
    put(&mut diff, format_args!("@@ -{} +{} @@\n", place(&old), place(&new)));
    let part = |lines: &[&str], from: usize, to: usize| -> Vec<String> {
        lines.get(from..to).unwrap_or_default().iter().map(|line| truncate(line)).collect()
    };
    let (old_end, new_end) = (old.len() - n_same_after, new.len() - n_same_after);
    let groups = [
        (' ', part(&old, first, n_same)),
        ('-', part(&old, n_same, old_end)),
        ('+', part(&new, n_same, new_end)),
        (' ', part(&old, old_end, old_end + tail)),
    ];
    for (mark, lines) in groups {
        lines.iter().for_each(|line| put(&mut diff, format_args!("{mark}{line}\n")));
    }
    diff
}

fn truncate(line: &str) -> String {
    let line = line.trim_end_matches(['\n', '\r']);
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line.to_owned(),
    }
}

fn put(diff: &mut String, text: std::fmt::Arguments<'_>) {
    diff.write_fmt(text).expect("writing to a string does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: Option<&str>, after: Option<&str>, expected: &str) {
        assert_eq!(unified("f", before, after), expected);
    }

    #[test]
    fn a_change_is_shown_with_three_lines_around_it() {
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let after = "1\n2\n3\n4\nfive\nand more\n6\n7\n8\n9\n";
        let expected =
            "--- f\n+++ f\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+and more\n 6\n 7\n 8\n";
        check(Some(before), Some(after), expected);
    }

    #[test]
    fn a_file_that_comes_or_goes_has_one_side() {
        check(None, Some("a\r\n"), "--- /dev/null\n+++ f\n@@ -0,0 +1,1 @@\n+a\n");
        check(Some("a"), None, "--- f\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n");
    }

    #[test]
    fn an_insertion_between_equal_lines_is_no_more_than_that() {
        check(Some("a\na\n"), Some("a\na\na\n"), "--- f\n+++ f\n@@ -1,2 +1,3 @@\n a\n a\n+a\n");
    }

    #[test]
    fn a_minified_line_is_truncated() {
        let long = "ä".repeat(500);
        let diff = unified("f", Some(&long), Some("x"));
        assert!(diff.contains(&format!("-{}…\n+x\n", "ä".repeat(MAX_LINE_CHARS))), "{diff}");
    }
}
