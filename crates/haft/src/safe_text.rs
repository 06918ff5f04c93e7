//! Makes untrusted text safe for a terminal: control characters, and characters that reorder or
//! hide text, are replaced by visible ones. Only output for people is changed; piped output keep
//! as it is.

use std::{borrow::Cow, fmt::Write};

/// Escapes text of several lines. Line ends and tabs stay.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    escaped(text, |c| matches!(c, '\n' | '\t'))
}

/// Escapes text that must stay on one line, so that it cannot imitate haft's own output.
pub(crate) fn shown_in_line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

fn escaped(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(|c| is_unsafe(c) && !keep(c)) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        // Treat the line ends of other systems as line ends.
        let is_line_end = c == '\r' && chars.peek() == Some(&'\n') && keep('\n');
        if is_line_end {
            continue;
        }
        if keep(c) || !is_unsafe(c) { safe.push(c) } else { push_visible(&mut safe, c) }
    }
    Cow::Owned(safe)
}

fn is_unsafe(c: char) -> bool {
    // C0, DEL and C1; then direction marks and overrides, line and paragraph separators, invisible
    // characters, tags.
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{e0000}'..='\u{e007f}')
}

fn push_visible(safe: &mut String, c: char) {
    match c {
        '\u{0}'..='\u{1f}' => safe.extend(char::from_u32(0x2400 + u32::from(c))),
        '\u{7f}' => safe.push('\u{2421}'),
        _ => write!(safe, "\\u{{{:x}}}", u32::from(c)).expect("writing to a string does not fail"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_instead_of_obeyed() {
        for (text, expected) in [
            ("plain ä € 😀\n\tindented", "plain ä € 😀\n\tindented"),
            ("\u{1b}[2Jgone", "␛[2Jgone"),
            ("a\rb", "a␍b"),
            ("a\r\nb", "a\nb"),
            ("bell\u{7}back\u{8}del\u{7f}nul\u{0}", "bell␇back␈del␡nul␀"),
            ("c1 \u{9b}31m", "c1 \\u{9b}31m"),
            ("\u{202e}txt.exe\u{2066}", "\\u{202e}txt.exe\\u{2066}"),
            ("a\u{2028}b\u{feff}", "a\\u{2028}b\\u{feff}"),
            ("family 👨\u{200d}👩", "family 👨\u{200d}👩"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    #[test]
    fn text_stays_on_its_line() {
        assert_eq!(shown_in_line("src/a\n  [y] yes\tnow\r\n"), "src/a␊  [y] yes␉now␍␊");
    }

    #[test]
    fn safe_text_is_not_copied() {
        assert!(matches!(shown("safe\n"), Cow::Borrowed(_)));
    }
}
