//! Makes the output of programs and repositories safe to show: no terminal escapes, no endless
//! texts.

/// Maximum number of lines of an error output in a message. The last ones are shown, because they
/// have the reason.
const MAX_LINES: usize = 40;
/// Maximum length of each of these lines.
const MAX_LINE_CHARS: usize = 500;

/// Formats an error output for a message.
pub(crate) fn error_text(bytes: &[u8]) -> String {
    let text = printable(&String::from_utf8_lossy(bytes));
    let lines: Vec<&str> =
        text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let left_out = lines.len().saturating_sub(MAX_LINES);
    let shown = lines.iter().skip(left_out).map(|line| truncated(line, MAX_LINE_CHARS));
    let before = (left_out > 0).then(|| format!("[{left_out} earlier lines]"));
    before.into_iter().chain(shown).collect::<Vec<_>>().join("\n")
}

/// Returns the first characters of a line, with an ellipsis when there were more.
pub(crate) fn truncated(line: &str, max_chars: usize) -> String {
    match line.char_indices().nth(max_chars) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or(line)),
        None => line.to_owned(),
    }
}

/// Removes escape sequences and other control characters, which a terminal would obey.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' | '\t' => shown.push(character),
            // A terminal would show only the last state of an overwritten line; here each state is
            // a line.
            '\r' if characters.peek() == Some(&'\n') => {}
            '\r' => shown.push('\n'),
            '\u{1b}' => skip_escape(&mut characters),
            _ if character.is_control() || is_bidi_control(character) => {}
            _ => shown.push(character),
        }
    }
    shown
}

/// Formats a line of file content, which stays one line whatever it contains.
pub(crate) fn content_line(line: &str, max_chars: usize) -> String {
    let line = line.strip_suffix('\r').unwrap_or(line);
    truncated(&printable(&line.replace(['\r', '\n'], "␍")), max_chars)
}

/// Skips `ESC [ … letter`, and of other sequences the next character.
fn skip_escape(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    if characters.next_if_eq(&'[').is_none() {
        characters.next_if(|character| !character.is_control());
        return;
    }
    while characters.next_if(|character| matches!(character, ' '..='?')).is_some() {}
    characters.next_if(|character| matches!(character, '@'..='~'));
}

/// Returns true for characters that change the text direction and so make a text look different.
fn is_bidi_control(character: char) -> bool {
    matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Formats a name on one line; control characters are escaped.
pub(crate) fn one_line(text: &str) -> String {
    let plain = |character: char| !character.is_control() && !is_bidi_control(character);
    if text.chars().all(plain) {
        return text.to_owned();
    }
    let escaped = |character: char| match plain(character) {
        true => character.to_string(),
        false => character.escape_default().to_string(),
    };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn terminal_escapes_are_not_shown() {
        let text = printable("\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7} a\u{8}b\r\nc\rd\u{202e}e");
        assert_eq!(text, "red 0;title ab\nc\nde");
        assert_eq!(one_line("a\nb\u{1b}[2J"), "a\\nb\\u{1b}[2J");
        assert_eq!(content_line("a\r+b\u{1b}[2Jc\r", 4), "a␍+b…");
    }

    #[test]
    fn the_end_of_a_long_error_output_is_shown() {
        let long: String = (1..=50).map(|number| format!("line {number}\n\n")).collect();
        let shown = error_text(long.as_bytes());
        assert!(shown.starts_with("[10 earlier lines]\nline 11\n"), "{shown}");
        assert!(shown.ends_with("line 50"), "{shown}");
        assert_eq!(truncated("äöü", 2), "äö…");
        assert_eq!(truncated("äö", 2), "äö");
    }

    proptest! {
        #[test]
        fn no_control_character_is_left(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let shown = error_text(&bytes);
            prop_assert!(shown.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'), "{shown:?}");
            let one = one_line(&String::from_utf8_lossy(&bytes));
            prop_assert!(one.chars().all(|c| !c.is_control()), "{one:?}");
        }
    }
}
