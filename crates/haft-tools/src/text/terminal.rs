//! Converts terminal output to plain text: without colours and cursor movement, and with a line
//! that was redrawn in its last state. The result has no control sequences for the reader's
//! terminal.

use std::borrow::Cow;

/// Returns the text without terminal control. Invalid bytes become `\u{fffd}`.
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
            // Carriage returns in a row, and one at the very end, overwrite nothing.
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

/// Removes the C1 control characters, which some terminals obey like those of C0.
fn without_high_controls(text: Cow<'_, str>) -> Cow<'_, str> {
    let is_high = |letter: char| ('\u{80}'..'\u{a0}').contains(&letter);
    if !text.chars().any(is_high) {
        return text;
    }
    Cow::Owned(text.chars().filter(|letter| !is_high(*letter)).collect())
}

/// Skips the rest of an escape sequence.
fn skip_sequence(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            // Up to and including the final letter; a line end is never part of the sequence.
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
    fn terminal_control_is_removed() {
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
        fn no_terminal_control_is_left(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let text = plain(&bytes);
            prop_assert!(text.chars().all(|letter| !letter.is_control() || matches!(letter, '\n' | '\t')));
            prop_assert_eq!(plain(text.as_bytes()), text);
        }
    }
}
