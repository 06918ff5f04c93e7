//! Decodes what a terminal in raw mode sends for keys. Pasted text is kept separate, so that it
//! presses no keys.

/// A key that some view here handles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    Enter,
    Escape,
    Backspace,
    /// Ctrl-C, Ctrl-D.
    Interrupt,
    Letter(char),
    Paste(String),
}

const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";
/// Larger than any note; the rest of a longer paste is dropped.
const MAX_PASTE_BYTES: usize = 64 << 10;

/// Reads keys from bytes that come in pieces.
#[derive(Default)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
}

impl Keys {
    /// Returns the keys that are complete with this piece. A piece ends where the terminal had no
    /// more to send, so a lone escape at its end is the Escape key.
    pub(crate) fn read(&mut self, piece: &[u8]) -> Vec<Key> {
        self.bytes.extend_from_slice(piece);
        let mut keys = Vec::new();
        while let Some((key, length)) = next(&self.bytes) {
            keys.extend(key);
            self.bytes.drain(..length);
        }
        if self.bytes.len() > MAX_PASTE_BYTES {
            self.bytes.clear();
        }
        keys
    }
}

/// Returns the first key and its length in bytes; no key for a sequence that nothing here handles.
fn next(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    if let Some(pasted) = bytes.strip_prefix(PASTE_BEGINS) {
        let end = pasted.windows(PASTE_ENDS.len()).position(|part| part == PASTE_ENDS)?;
        let text = String::from_utf8_lossy(pasted.get(..end)?).into_owned();
        return Some((Some(Key::Paste(text)), PASTE_BEGINS.len() + end + PASTE_ENDS.len()));
    }
    match bytes {
        [] => None,
        [0x1b] => Some((Some(Key::Escape), 1)),
        [0x1b, b'[' | b'O', rest @ ..] => sequence(rest),
        [0x1b, ..] => Some((Some(Key::Escape), 1)),
        [b'\r' | b'\n', ..] => Some((Some(Key::Enter), 1)),
        [0x7f | 0x08, ..] => Some((Some(Key::Backspace), 1)),
        [0x03 | 0x04, ..] => Some((Some(Key::Interrupt), 1)),
        [0x00..0x20, ..] => Some((None, 1)),
        _ => letter(bytes),
    }
}

/// Reads the rest after an escape and a bracket: numbers, then one letter or `~`.
fn sequence(rest: &[u8]) -> Option<(Option<Key>, usize)> {
    let end = rest.iter().position(|byte| (0x40..=0x7e).contains(byte))?;
    let key = match rest.get(..=end)? {
        b"A" => Some(Key::Up),
        b"B" => Some(Key::Down),
        b"5~" => Some(Key::PageUp),
        b"6~" => Some(Key::PageDown),
        _ => None,
    };
    Some((key, end + 3))
}

fn letter(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    let most = bytes.get(..bytes.len().min(4))?;
    match std::str::from_utf8(most) {
        Ok(text) => {
            text.chars().next().map(|letter| (Some(Key::Letter(letter)), letter.len_utf8()))
        }
        Err(error) if error.valid_up_to() > 0 => {
            let text = std::str::from_utf8(most.get(..error.valid_up_to())?).ok()?;
            text.chars().next().map(|letter| (Some(Key::Letter(letter)), letter.len_utf8()))
        }
        // The rest of the letter comes with the next piece.
        Err(error) if error.error_len().is_none() => None,
        Err(_) => Some((None, 1)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(pieces: &[&[u8]], expected: &[Key]) {
        let mut keys = Keys::default();
        let read: Vec<Key> = pieces.iter().flat_map(|piece| keys.read(piece)).collect();
        assert_eq!(read, expected);
    }

    #[test]
    fn keys_are_read_from_what_terminals_send() {
        check(&[b"a\x1b[A\x1bOB\r"], &[Key::Letter('a'), Key::Up, Key::Down, Key::Enter]);
        check(
            &[b"\x1b[5~\x1b[6~\x7f\x03"],
            &[Key::PageUp, Key::PageDown, Key::Backspace, Key::Interrupt],
        );
        check(&["ä€😀".as_bytes()], &[Key::Letter('ä'), Key::Letter('€'), Key::Letter('😀')]);
        check(&[b"\x1b"], &[Key::Escape]);
        check(&[b"\x1b[1;5Cq"], &[Key::Letter('q')]);
        check(&[&[0xff], b"q"], &[Key::Letter('q')]);
    }

    #[test]
    fn keys_that_come_in_pieces_are_put_together() {
        check(&[&[0xe2, 0x82], &[0xac]], &[Key::Letter('€')]);
        check(&[b"\x1b[", b"A"], &[Key::Up]);
    }

    #[test]
    fn what_is_pasted_presses_nothing() {
        check(
            &[b"\x1b[200~a", b"aa\r\x1b[201~q"],
            &[Key::Paste("aaa\r".to_owned()), Key::Letter('q')],
        );
        check(&[b"\x1b[200~aaa"], &[]);
    }

    proptest! {
        #[test]
        fn nothing_that_is_sent_can_upset_us(pieces: Vec<Vec<u8>>) {
            let mut keys = Keys::default();
            for piece in &pieces {
                keys.read(piece);
            }
            prop_assert!(keys.bytes.len() <= MAX_PASTE_BYTES);
        }
    }
}
