//! What a program wrote for a terminal, as plain text: no colours, no moving about, a line that was drawn over and over as
//! it looked at last. Nothing in it commands the terminal of whoever reads it.

use std::borrow::Cow;

/// The text without what only a terminal obeys. Bytes that are no text show as `\u{fffd}`.
pub(crate) fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if !text.bytes().any(|byte| byte.is_ascii_control() && !matches!(byte, b'\n' | b'\t')) {
        return without_high_controls(text).into_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut line_start = 0;
    let mut chars = text.chars().peekable();
    while let Some(next) = chars.next() {
        match next {
            '\u{1b}' => skip_sequence(&mut chars),
            '\r' if chars.peek() == Some(&'\n') => {}
            // Several in a row, and one at the very end, draw over nothing.
            '\r' if matches!(chars.peek(), None | Some('\r')) => {}
            '\r' => out.truncate(line_start),
            '\u{8}' => {
                if out.len() > line_start {
                    out.pop();
                }
            }
            '\n' => {
                out.push('\n');
                line_start = out.len();
            }
            '\t' => out.push('\t'),
            control if control.is_control() => {}
            other => out.push(other),
        }
    }
    out
}

/// The second set of controls, which some terminals obey as they do the first.
fn without_high_controls(text: Cow<'_, str>) -> Cow<'_, str> {
    let is_high = |letter: char| ('\u{80}'..'\u{a0}').contains(&letter);
    if !text.chars().any(is_high) {
        return text;
    }
    Cow::Owned(text.chars().filter(|letter| !is_high(*letter)).collect())
}

/// What follows an escape character and belongs to it.
fn skip_sequence(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            // Up to and with the letter that says what to do; a line end was never part of it.
            while let Some(next) = chars.next_if(|next| *next != '\n') {
                if ('\u{40}'..='\u{7e}').contains(&next) {
                    return;
                }
            }
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            chars.next();
            while let Some(next) = chars.next_if(|next| *next != '\n') {
                if next == '\u{7}' {
                    return;
                }
                if next == '\u{1b}' {
                    chars.next_if_eq(&'\\');
                    return;
                }
            }
        }
        Some('(' | ')' | '#' | '%') => {
            chars.next();
            chars.next_if(|next| *next != '\n');
        }
        Some(other) if *other != '\n' => {
            chars.next();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: &str) {
        assert_eq!(plain(bytes), expected);
    }

    #[test]
    fn what_only_a_terminal_obeys_is_gone() {
        check(b"plain\ttext\n", "plain\ttext\n");
        check(b"\x1b[31mred\x1b[0m and \x1b[1;32mgreen\x1b[m", "red and green");
        check(b"\x1b]0;title\x07text \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "text link");
        check(b"10%\r50%\r100%\ndone\r\n", "100%\ndone\n");
        check(b"abc\x08\x08d\x08\x08\x08\x08e", "e");
        check(b"\x1b(Bx\x00\x01\x7fy\x1b", "xy");
        check("a\u{9b}31mb".as_bytes(), "a31mb");
        check(b"bad \xff byte", "bad \u{fffd} byte");
        check(b"cut \x1b[31", "cut ");
        check(b"\x1b[\nkept", "\nkept");
        check(b"last line\r", "last line");
    }

    proptest! {
        #[test]
        fn nothing_is_left_that_a_terminal_obeys(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let text = plain(&bytes);
            prop_assert!(text.chars().all(|letter| !letter.is_control() || matches!(letter, '\n' | '\t')));
            prop_assert_eq!(plain(text.as_bytes()), text);
        }
    }
}
