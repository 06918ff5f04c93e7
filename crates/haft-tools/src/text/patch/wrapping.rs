//! The patch text as numbered lines, without what people and models put around it: blank lines, a code fence, a heredoc.

/// One line of the patch text.
#[derive(Clone, Copy, Debug)]
pub(super) struct PatchLine<'a> {
    /// From 1, in the text as it was sent.
    pub number: usize,
    /// Without its `\n`; a `\r` before it is still there when it means something.
    pub text: &'a str,
    /// Its line break was sent too.
    pub ended: bool,
}

impl<'a> PatchLine<'a> {
    pub(super) fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// The line as a header or marker: endings and spaces after it mean nothing there.
    pub(super) fn trimmed(&self) -> &'a str {
        self.text.trim_end()
    }

    /// The line without its line ending: names may end in spaces.
    pub(super) fn trimmed_return(&self) -> &'a str {
        self.text.strip_suffix('\r').unwrap_or(self.text)
    }
}

/// Splits the text. When every line ends in `\r\n` that is how the text was sent, and no property of the files.
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

/// Takes off blank lines in front, fences and heredocs, in whatever order they are nested. Blank lines behind stay when
/// nothing closes: the last context line of a diff may be one.
pub(super) fn unwrap<'a, 'b>(lines: &'b [PatchLine<'a>]) -> &'b [PatchLine<'a>] {
    let mut lines = without_leading_blanks(lines);
    // A fence in a heredoc in a fence is the most that was ever seen.
    for _ in 0..3 {
        let Some((first, rest)) = lines.split_first() else { break };
        let Some(end) = closing(first.trimmed()) else { break };
        let last = rest.iter().rposition(|line| !line.is_blank());
        let closed = last.filter(|last| rest.get(*last).is_some_and(|line| line.trimmed() == end));
        lines = without_leading_blanks(closed.and_then(|last| rest.get(..last)).unwrap_or(rest));
    }
    lines
}

/// The line that closes what this line opens, if it opens anything.
fn closing(first: &str) -> Option<String> {
    for fence in ["`", "~"] {
        let bare = first.trim_start_matches(fence);
        let length = first.len() - bare.len();
        if length >= 3 && !bare.contains(fence) {
            return Some(fence.repeat(length));
        }
    }
    // A patch never begins with a shell command, but a first line of a patch may hold `<<`.
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
    fn blank_lines_before_it_are_taken_off_and_numbers_stay() {
        check("\n \na\n\nb\n \n", &[(3, "a"), (4, ""), (5, "b"), (6, " ")]);
        check("", &[]);
        check("\n", &[]);
    }

    #[test]
    fn a_fence_is_taken_off() {
        check("```diff\na\n```\n \n", &[(2, "a")]);
        check("````\n```\na\n```\n````", &[(3, "a")]);
        check("~~~\na\n~~~", &[(2, "a")]);
        check("```\na", &[(2, "a")]);
        check("`a`\nb", &[(1, "`a`"), (2, "b")]);
    }

    #[test]
    fn a_heredoc_is_taken_off() {
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
    fn carriage_returns_go_only_when_every_line_has_one() {
        check("a\r\nb\r\nc", &[(1, "a"), (2, "b"), (3, "c")]);
        check("a\nb\r\nc", &[(1, "a"), (2, "b\r"), (3, "c")]);
    }
}
