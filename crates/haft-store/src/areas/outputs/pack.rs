//! Splits a text into compressed pieces. A piece ends at a line break if it contains one, and never
//! inside a character.

use crate::engine::packing::{self, Packed, Packer};

/// Approximate size of a piece: small enough to be decompressed in a millisecond, large enough to
/// compress well.
pub(super) const PIECE_BYTES: usize = 256 << 10;

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) first_byte: usize,
    pub(super) end: usize,
    /// Number of the line that it begins in, from 1.
    pub(super) first_line: u64,
}

/// A compressed part of a text.
pub(super) struct Piece {
    pub(super) slice: Slice,
    pub(super) packed: Packed,
}

pub(super) fn slices(text: &str) -> Vec<Slice> {
    let bytes = text.as_bytes();
    let mut slices = Vec::with_capacity(bytes.len() / PIECE_BYTES + 1);
    let (mut first_byte, mut first_line) = (0, 1);
    while first_byte < bytes.len() {
        let most = text.floor_char_boundary((first_byte + PIECE_BYTES).min(bytes.len()));
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

pub(super) fn packed(text: &str, slices: &[Slice]) -> Vec<Piece> {
    let mut packer = Packer::new();
    let pack = |slice: &Slice| {
        let part = text.as_bytes().get(slice.first_byte..slice.end).unwrap_or_default();
        Piece { slice: *slice, packed: packer.pack(part) }
    };
    slices.iter().map(pack).collect()
}

/// The error completes a sentence that starts with a name.
pub(super) fn unpacked(packing: u64, bytes: &[u8]) -> Result<String, &'static str> {
    let plain = packing::unpack(packing, bytes, PIECE_BYTES)?;
    String::from_utf8(plain).map_err(|_| "is not text")
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
            let Packed { packing, bytes } = &piece.packed;
            whole.push_str(&unpacked(*packing, bytes).expect("packed by us"));
            assert_eq!(end, whole.len());
        }
        assert_eq!(whole, text);
        slices.len()
    }

    #[test]
    fn long_texts_round_trip_in_pieces() {
        assert_eq!(check(""), 0);
        assert_eq!(check("a\nb"), 1);
        assert_eq!(check(&"ä€😀".repeat(PIECE_BYTES / 8)), 2);
        assert_eq!(check(&"a line of twenty one\n".repeat(3 * PIECE_BYTES / 21 + 9)), 4);
        assert_eq!(
            check(&format!("{}\n{}", "x".repeat(PIECE_BYTES + 5), "y".repeat(PIECE_BYTES))),
            3
        );
    }

    #[test]
    fn an_invalid_piece_is_refused() {
        for plain in [&vec![b'x'; PIECE_BYTES + 1][..], b"\xff\xfe"] {
            let Packed { packing, bytes } = Packer::new().pack(plain);
            assert!(unpacked(packing, &bytes).is_err());
        }
    }

    proptest! {
        #[test]
        fn any_text_round_trips(text in "(\\PC|\n){0,400}") {
            check(&text);
        }
    }
}
