//! What programs and repositories say, made fit to be shown: no escapes for terminals, no endless texts.

/// A message shows so many lines of a program's complaint, its last ones, where the reason stands.
const MOST_LINES: usize = 40;
/// And so many characters of each.
const MOST_CHARACTERS: usize = 500;

/// A complaint for a message.
pub(crate) fn complaint(bytes: &[u8]) -> String {
    let text = visible(&String::from_utf8_lossy(bytes));
    let lines: Vec<&str> =
        text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let left_out = lines.len().saturating_sub(MOST_LINES);
    let shown = lines.iter().skip(left_out).map(|line| cut(line, MOST_CHARACTERS));
    let before = (left_out > 0).then(|| format!("[{left_out} lines before]"));
    before.into_iter().chain(shown).collect::<Vec<_>>().join("\n")
}

/// The first characters of a line, and a sign when there were more.
pub(crate) fn cut(line: &str, most: usize) -> String {
    match line.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or(line)),
        None => line.to_owned(),
    }
}

/// Text as it is, without what a terminal would obey: escape sequences go whole, other controls one by one.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' | '\t' => shown.push(character),
            // A line that is written over stands for its last state only; here all states are lines.
            '\r' if characters.peek() == Some(&'\n') => {}
            '\r' => shown.push('\n'),
            '\u{1b}' => skip_escape(&mut characters),
            _ if character.is_control() || is_turning(character) => {}
            _ => shown.push(character),
        }
    }
    shown
}

/// A line of a file's content: it stays one line, whatever is in it.
pub(crate) fn content(line: &str, most: usize) -> String {
    let line = line.strip_suffix('\r').unwrap_or(line);
    cut(&visible(&line.replace(['\r', '\n'], "␍")), most)
}

/// `ESC [ … letter`; of other sequences the next character goes.
fn skip_escape(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    if characters.next_if_eq(&'[').is_none() {
        characters.next_if(|character| !character.is_control());
        return;
    }
    while characters.next_if(|character| matches!(character, ' '..='?')).is_some() {}
    characters.next_if(|character| matches!(character, '@'..='~'));
}

/// Characters that turn the order of what follows, and so show another text than there is.
fn is_turning(character: char) -> bool {
    matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A name on one line, whatever is in it.
pub(crate) fn name(text: &str) -> String {
    let plain = |character: char| !character.is_control() && !is_turning(character);
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
    fn escapes_for_terminals_are_not_shown() {
        let text = visible("\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7} a\u{8}b\r\nc\rd\u{202e}e");
        assert_eq!(text, "red 0;title ab\nc\nde");
        assert_eq!(name("a\nb\u{1b}[2J"), "a\\nb\\u{1b}[2J");
        assert_eq!(content("a\r+b\u{1b}[2Jc\r", 4), "a␍+b…");
    }

    #[test]
    fn of_a_long_complaint_the_end_is_shown() {
        let long: String = (1..=50).map(|number| format!("line {number}\n\n")).collect();
        let shown = complaint(long.as_bytes());
        assert!(shown.starts_with("[10 lines before]\nline 11\n"), "{shown}");
        assert!(shown.ends_with("line 50"), "{shown}");
        assert_eq!(cut("äöü", 2), "äö…");
        assert_eq!(cut("äö", 2), "äö");
    }

    proptest! {
        #[test]
        fn no_control_survives(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let shown = complaint(&bytes);
            prop_assert!(shown.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'), "{shown:?}");
            let one = name(&String::from_utf8_lossy(&bytes));
            prop_assert!(one.chars().all(|c| !c.is_control()), "{one:?}");
        }
    }
}
