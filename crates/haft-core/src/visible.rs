//! Escapes characters that could disguise a text: terminal controls, and marks that change the
//! visible order. Names of files, tools and fields may contain them, so errors show them as
//! `\u{202e}`.

/// Escapes controls, bidirectional marks and line separators. Line feeds and tabs stay: messages of
/// several lines need them, and quoted lines of files have tabs.
pub(crate) fn visible(text: impl Into<String>) -> String {
    let text = text.into();
    if !text.contains(is_hidden) {
        return text;
    }
    let escape = |c: char| is_hidden(c).then(|| c.escape_unicode());
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match escape(c) {
            Some(escaped) => shown.extend(escaped),
            None => shown.push(c),
        }
    }
    shown
}

/// Does the same in a JSON text with JSON's own escapes, so that its value does not change.
pub fn visible_in_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if is_hidden(c) {
            // All escaped characters are below U+10000.
            shown.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    shown
}

fn is_hidden(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_escaped() {
        for (text, shown) in [
            ("plain ä € 😀\n\tindented", "plain ä € 😀\n\tindented"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("a\r\nb\0", "a\\u{d}\nb\\u{0}"),
            ("\u{7f}\u{9b}\u{61c}", "\\u{7f}\\u{9b}\\u{61c}"),
            ("\u{200e}\u{200f}\u{2028}\u{2029}", "\\u{200e}\\u{200f}\\u{2028}\\u{2029}"),
            ("\u{202a}\u{202e}\u{2066}\u{2069}", "\\u{202a}\\u{202e}\\u{2066}\\u{2069}"),
            ("family 👨\u{200d}👩", "family 👨\u{200d}👩"),
        ] {
            assert_eq!(visible(text), shown);
            assert_eq!(visible(shown), shown, "twice changes nothing");
        }
    }

    #[test]
    fn json_says_the_same_with_its_own_escapes() {
        let text = "a\u{202e}\u{7f}\u{1b}\n";
        let shown = visible_in_json(&serde_json::Value::from(text).to_string());
        assert_eq!(shown, r#""a\u202e\u007f\u001b\n""#);
        assert_eq!(serde_json::from_str::<String>(&shown).expect("JSON"), text);
    }
}
