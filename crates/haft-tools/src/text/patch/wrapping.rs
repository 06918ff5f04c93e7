//! Splits the patch text into numbered lines, without the blank lines, code fences and heredocs
//! that people and models put around it.

/// One line of the patch text.
#[derive(Clone, Copy, Debug)]
pub(super) struct PatchLine<'a> {
    /// Line number in the patch as sent, from 1.
    pub number: usize,
    /// Text without `\n`; a `\r` before it is kept when it is significant.
    pub text: &'a str,
    /// True if the line has a line break.
    pub ended: bool,
}

impl<'a> PatchLine<'a> {
    pub(super) fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// Returns the line for comparison with a header or marker, without trailing white space.
    pub(super) fn trimmed(&self) -> &'a str {
        self.text.trim_end()
    }

    /// Returns the line without its line ending. File names may end in spaces.
    pub(super) fn trimmed_return(&self) -> &'a str {
        self.text.strip_suffix('\r').unwrap_or(self.text)
    }
}

/// Splits the text into lines. When every line ends in `\r\n`, that is due to the transport, and is
/// removed.
pub(super) fn lines(patch: &str) -> Vec<PatchLine<'_>> {
    let patch = patch.strip_prefix('\u{feff}').unwrap_or(patch);
    let mut lines: Vec<_> = patch
        .split_inclusive('\n')
        .enumerate()
        .map(|(index, line)| {
            let text = line.strip_suffix('\n');
            PatchLine { number: index + 1, text: text.unwrap_or(line), ended: text.is_some() }
        })
        .collect();
    let all_carriage_returns = lines.iter().all(|line| !line.ended || line.text.ends_with('\r'));
    if all_carriage_returns {
        for line in &mut lines {
            line.text = line.text.strip_suffix('\r').unwrap_or(line.text);
        }
    }
    lines
}

/// Removes leading blank lines, fences and heredocs, in any nesting. Trailing blank lines are kept
/// unless a closing line follows: the last context line of a diff may be blank.
pub(super) fn unwrap<'a, 'b>(lines: &'b [PatchLine<'a>]) -> &'b [PatchLine<'a>] {
    let mut lines = without_leading_blanks(lines);
    // A fence in a heredoc in a fence is the deepest nesting seen.
    for _ in 0..3 {
        let Some((first, rest)) = lines.split_first() else { break };
        let Some(end) = closing(first.trimmed()) else { break };
        let last = rest.iter().rposition(|line| !line.is_blank());
        let closed = last.filter(|last| rest.get(*last).is_some_and(|line| line.trimmed() == end));
        lines = without_leading_blanks(closed.and_then(|last| rest.get(..last)).unwrap_or(rest));
    }
    lines
}

/// Returns the line that closes what this line opens, if it opens a fence or heredoc.
fn closing(first: &str) -> Option<String> {
    for fence in ["`", "~"] {
        let bare = first.trim_start_matches(fence);
        let length = first.len() - bare.len();
        if length >= 3 && !bare.contains(fence) {
            return Some(fence.repeat(length));
        }
    }
    // A patch does not begin with a shell command, but its first line may contain `<<`.
    if first.starts_with("*** ") || first.starts_with("--- ") || first.starts_with("diff ") {
        return None;
    }
    let (_, word) = first.rsplit_once("<<")?;
    let word = word.trim_start_matches(['-', '~']).trim_start();
    let word = word.split([' ', '|', '>', ';', ')']).next()?.trim_matches(['\'', '"', '\\']);
    let is_word = !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_word.then(|| word.to_owned())
}

fn without_leading_blanks<'a, 'b>(lines: &'b [PatchLine<'a>]) -> &'b [PatchLine<'a>] {
    let first = lines.iter().position(|line| !line.is_blank()).unwrap_or(lines.len());
    lines.get(first..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(patch: &str, expected: &[(usize, &str)]) {
        let lines = lines(patch);
        let inner: Vec<_> = unwrap(&lines).iter().map(|line| (line.number, line.text)).collect();
        assert_eq!(inner, expected);
    }

    #[test]
    fn leading_blank_lines_are_removed_and_numbers_are_kept() {
        check("\n \na\n\nb\n \n", &[(3, "a"), (4, ""), (5, "b"), (6, " ")]);
        check("", &[]);
        check("\n", &[]);
    }

    #[test]
    fn a_fence_is_removed() {
        check("```diff\na\n```\n \n", &[(2, "a")]);
        check("````\n```\na\n```\n````", &[(3, "a")]);
        check("~~~\na\n~~~", &[(2, "a")]);
        check("```\na", &[(2, "a")]);
        check("`a`\nb", &[(1, "`a`"), (2, "b")]);
    }

    #[test]
    fn a_heredoc_is_removed() {
        for first in [
            "<<'EOF'",
            "apply_patch <<\"EOF\"",
            "cat <<EOF | git apply",
            "git apply <<-EOF",
            "x << 'EOF' > y",
        ] {
            check(&format!("{first}\na\nEOF\n"), &[(2, "a")]);
        }
        check("```sh\napply_patch <<'EOF'\na\nEOF\n```", &[(3, "a")]);
        check(
            "*** Add File: a <<EOF\na\nEOF",
            &[(1, "*** Add File: a <<EOF"), (2, "a"), (3, "EOF")],
        );
    }

    #[test]
    fn carriage_returns_are_removed_only_when_every_line_has_one() {
        check("a\r\nb\r\nc", &[(1, "a"), (2, "b"), (3, "c")]);
        check("a\nb\r\nc", &[(1, "a"), (2, "b\r"), (3, "c")]);
    }
}
