//! A text in pieces, packed. Pieces end after a line where one ends, and never inside a character.

use std::io::{self, Read, Write};

use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use haft_core::ToolError;

/// About how long a piece is: short enough to be unpacked in a millisecond, long enough to be packed well.
pub(super) const PIECE: usize = 256 << 10;

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) first_byte: usize,
    pub(super) end: usize,
    /// The line that its beginning belongs to, from 1.
    pub(super) first_line: u64,
}

/// A part of a text as it is kept.
pub(super) struct Packed {
    pub(super) slice: Slice,
    pub(super) bytes: Vec<u8>,
}

pub(super) fn slices(text: &str) -> Vec<Slice> {
    let bytes = text.as_bytes();
    let mut slices = Vec::with_capacity(bytes.len() / PIECE + 1);
    let (mut first_byte, mut first_line) = (0, 1);
    while first_byte < bytes.len() {
        let most = text.floor_char_boundary((first_byte + PIECE).min(bytes.len()));
        let window = bytes.get(first_byte..most).unwrap_or_default();
        let line = memchr::memrchr(b'\n', window).map(|at| first_byte + at + 1);
        let end = if most == bytes.len() { most } else { line.unwrap_or(most) };
        slices.push(Slice { first_byte, end, first_line });
        let taken = bytes.get(first_byte..end).unwrap_or_default();
        first_line += memchr::memchr_iter(b'\n', taken).count() as u64;
        first_byte = end;
    }
    slices
}

pub(super) fn packed(text: &str, slices: &[Slice]) -> Vec<Packed> {
    let pack = |slice: &Slice| {
        let part = text.as_bytes().get(slice.first_byte..slice.end).unwrap_or_default();
        Packed { slice: *slice, bytes: deflated(part) }
    };
    slices.iter().map(pack).collect()
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    // The quickest: outputs are full of repetition, and a call waits for this.
    let mut encoder = DeflateEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    let packed = encoder.write_all(bytes).and_then(|()| encoder.finish());
    packed.expect("memory takes every byte")
}

pub(super) fn unpacked(bytes: &[u8]) -> Result<String, ToolError> {
    let mut text = String::new();
    // A foreign hand may have put something here that never ends.
    let most = PIECE as u64;
    let read = DeflateDecoder::new(bytes).take(most + 1).read_to_string(&mut text);
    match read {
        Ok(length) if length as u64 <= most => Ok(text),
        Ok(_) => Err(io::Error::other("a piece of it is longer than any that is written")),
        Err(error) => Err(error),
    }
    .map_err(|error| ToolError::unavailable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str) -> usize {
        let slices = slices(text);
        let packed = packed(text, &slices);
        let mut whole = String::new();
        for piece in &packed {
            let Slice { first_byte, first_line, end } = piece.slice;
            assert_eq!(
                (first_byte, first_line),
                (whole.len(), whole.matches('\n').count() as u64 + 1)
            );
            whole.push_str(&unpacked(&piece.bytes).expect("packed by us"));
            assert_eq!(end, whole.len());
        }
        assert_eq!(whole, text);
        slices.len()
    }

    #[test]
    fn long_texts_are_pieces_that_make_the_text_again() {
        assert_eq!(check(""), 0);
        assert_eq!(check("a\nb"), 1);
        assert_eq!(check(&"ä€😀".repeat(PIECE / 8)), 2);
        assert_eq!(check(&"a line of twenty one\n".repeat(3 * PIECE / 21 + 9)), 4);
        assert_eq!(check(&format!("{}\n{}", "x".repeat(PIECE + 5), "y".repeat(PIECE))), 3);
    }

    #[test]
    fn what_is_no_piece_of_ours_is_refused() {
        assert!(unpacked(b"nonsense").is_err());
        assert!(unpacked(&deflated(&vec![b'x'; PIECE + 1])).is_err());
        assert!(unpacked(&deflated(b"\xff\xfe")).is_err());
    }

    proptest! {
        #[test]
        fn any_text_comes_back(text in "(\\PC|\n){0,400}") {
            check(&text);
        }
    }
}
